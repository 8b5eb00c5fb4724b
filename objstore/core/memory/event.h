/* The event ring: a record of what happened, for observers. Records are written under the segment lock, so a record is
 * complete before `event_head` passes it. Records that are not read in time are overwritten, and counted as lost. */
#ifndef CELLMESH_EVENT_H
#define CELLMESH_EVENT_H

#include "memory/segment.h"

enum event_kind {
    EVENT_SUBMITTED = 1, /* a function slot, d its generation, b origin, c actor + 1 */
    EVENT_PARENT = 2,    /* a | b << 32: parent seq */
    EVENT_DEPENDS = 3,   /* a | b << 32: creator of the dependency, c its slot */
    /* a attempt, b pid, client the worker; sent to another machine: b 0, c its number, see `client_slot` */
    EVENT_STARTED = 4,
    EVENT_FINISHED = 5, /* a result slot, b event_status, c size */
    /* a attempt, b delay in ms; of a remote one: c the machine, d 1 if that was lost, else it had not begun there */
    EVENT_RETRIED = 6,
    EVENT_PUT = 7,             /* a slot, b origin, c size, d event_put */
    EVENT_FREED = 8,           /* a slot */
    EVENT_ACTOR_CREATED = 9,   /* a actor, b actor object slot */
    EVENT_ACTOR_STATE = 10,    /* a actor, b state, c when dead: how its process ended, 0 if on purpose */
    EVENT_WORKER_STARTED = 11, /* a client, b pid */
    EVENT_WORKER_DIED = 12,    /* a client, b code */
    EVENT_BLOCKED = 13,
    EVENT_UNBLOCKED = 14,
    /* remote: a pid there, b and c how long ago it began and ended there, in 2**d ticks; c EVENT_RUNS_ON: it has not
     * ended */
    EVENT_RAN = 15,
    /* a transfer of an object begins: a the machine, b | d << 32 bytes, c number << 1 | 1 if they come here */
    EVENT_TRANSFER = 16,
    EVENT_TRANSFERRED = 17, /* ... and has ended: b 1: complete, b 0: given up; c as above */
    /* a attempt; the user's code begins, after code and arguments took more than 20 us to load */
    EVENT_CALLED = 18
};
#define EVENT_RUNS_ON UINT32_MAX
/* an argument of a call, an item of what a task returns */
enum event_put { EVENT_BY_PUT = 0, EVENT_AS_ARGUMENT = 1, EVENT_AS_ITEM = 2 };
enum event_status { EVENT_OK = 0, EVENT_ERROR = 1, EVENT_CANCELLED = 2, EVENT_CRASHED = 3 };

/* Under the lock. */
static inline void event_write(struct segment *s, enum event_kind kind, uint64_t seq, uint32_t a, uint32_t b,
                               uint32_t c, uint16_t d, uint32_t client)
{
    uint64_t head = atomic_load_explicit(&s->h->event_head, memory_order_relaxed);
    struct event_record *r = &s->events[head & (s->n_events - 1)];
    /* pairs with the fence in event_read: a reader that has copied any of this sees at least `head` */
    atomic_thread_fence(memory_order_release);
    r->ticks = ticks_now();
    r->seq = seq;
    r->a = a;
    r->b = b;
    r->c = c;
    r->d = d;
    r->kind = (uint8_t)kind;
    r->client = (uint8_t)client;
    /* pairs with the acquire in event_read: the record is complete */
    atomic_store_explicit(&s->h->event_head, head + 1, memory_order_release);
    s->events_written = true;
}

/* The code and arguments of a task are loaded. Recorded only if that took long, since a time in ticks; 0: it did not.
 */
void event_called_after(struct segment *segment, const struct task_slot *task); /* takes the lock */

static inline void event_called(struct segment *s, const struct task_slot *t, uint64_t since)
{
    if (since && ticks_now() - since > ticks_in_20_us() && !(t->flags & TASK_FLAG_HIDDEN))
        event_called_after(s, t);
}

/* Copies at most `limit` records after `*cursor` to `out` and advances the cursor; returns how many. Adds the number of
 * records that were overwritten before they were read to `*lost`. */
uint64_t event_read(struct segment *segment, uint64_t *cursor, struct event_record *out, uint64_t limit,
                    uint64_t *lost);

/* Sleeps until there is a record after `cursor`: 0, ETIMEDOUT or EINTR. */
int event_wait(struct segment *segment, uint64_t cursor, int64_t timeout_ns);

#endif
