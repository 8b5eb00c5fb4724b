/* The event ring: what happened, for whoever looks. Written under the segment lock, so a record is complete
 * before `event_head` passes it; overwritten when nobody reads in time, and then counted as lost. */
#ifndef CELLMESH_EVENT_H
#define CELLMESH_EVENT_H

#include "segment.h"

enum event_kind {
    EVENT_SUBMITTED = 1,      /* a function slot, d its generation, b origin, c actor + 1 */
    EVENT_PARENT = 2,         /* a | b << 32: parent seq */
    EVENT_DEPENDS = 3,        /* a | b << 32: creator of the dependency, c its slot */
    EVENT_STARTED = 4,        /* a attempt, b pid, client the worker; elsewhere: b 0, c the node where it was sent, see `client_slot` */
    EVENT_FINISHED = 5,       /* a result slot, b event_status, c size */
    EVENT_RETRIED = 6,        /* a attempt; of one elsewhere: c the node, d 1 if that was lost, else it had not begun there */
    EVENT_PUT = 7,            /* a slot, b origin, c size, d event_put */
    EVENT_FREED = 8,          /* a slot */
    EVENT_ACTOR_CREATED = 9,  /* a actor, b actor object slot */
    EVENT_ACTOR_STATE = 10,   /* a actor, b state, c when dead: how its process ended, 0 if on purpose */
    EVENT_WORKER_STARTED = 11, /* a client, b pid */
    EVENT_WORKER_DIED = 12,   /* a client, b code */
    EVENT_BLOCKED = 13,
    EVENT_UNBLOCKED = 14,
    EVENT_RAN = 15,           /* elsewhere: a pid there, b it began and c it ended there so long ago, in 2**d ticks; c EVENT_RUNS_ON: it has not */
    EVENT_TRANSFER = 16,      /* an object's bytes begin to travel: a the node, b | d << 32 bytes, c number << 1 | 1 if they come */
    EVENT_TRANSFERRED = 17,   /* ... and have arrived: b 1, or never will: b 0; c as above */
    EVENT_CALLED = 18         /* a attempt; its code and arguments are there, after longer than 20 us: the user's code begins */
};
#define EVENT_RUNS_ON UINT32_MAX
enum event_put { EVENT_BY_PUT = 0, EVENT_AS_ARGUMENT = 1, EVENT_AS_ITEM = 2 }; /* an argument of a call, an item of what a task returns */
enum event_status { EVENT_OK = 0, EVENT_ERROR = 1, EVENT_CANCELLED = 2, EVENT_CRASHED = 3 };

/* Under the lock. */
static inline void event_write(struct segment *s, enum event_kind kind, uint64_t seq, uint32_t a, uint32_t b, uint32_t c,
                               uint16_t d, uint32_t client)
{
    uint64_t head = atomic_load_explicit(&s->h->event_head, memory_order_relaxed);
    struct event_record *r = &s->events[head & (s->n_events - 1)];
    atomic_thread_fence(memory_order_release); /* pairs with the one in event_read: who has copied any of this sees `head` at least */
    r->ticks = ticks_now();
    r->seq = seq;
    r->a = a;
    r->b = b;
    r->c = c;
    r->d = d;
    r->kind = (uint8_t)kind;
    r->client = (uint8_t)client;
    atomic_store_explicit(&s->h->event_head, head + 1, memory_order_release); /* pairs with the acquire in event_read: the record is whole */
    s->events_written = true;
}

/* A task's code and arguments are there. Worth a record if that took long, as of a time in ticks; 0: it did not. */
void event_called_after(struct segment *segment, const struct task_slot *task); /* takes the lock */

static inline void event_called(struct segment *s, const struct task_slot *t, uint64_t since)
{
    if (since && ticks_now() - since > ticks_in_20_us() && !(t->flags & TASK_FLAG_HIDDEN))
        event_called_after(s, t);
}

/* Copies at most `limit` records after `*cursor` to `out` and advances the cursor; returns how many. `*lost` grows
 * by those that had been overwritten before they were read. */
uint64_t event_read(struct segment *segment, uint64_t *cursor, struct event_record *out, uint64_t limit, uint64_t *lost);

/* Sleeps until there is a record after `cursor`: 0, ETIMEDOUT or EINTR. */
int event_wait(struct segment *segment, uint64_t cursor, int64_t timeout_ns);

#endif
