#define _GNU_SOURCE
#include "client.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "event.h"
#include "liveness.h"

int client_attach(struct segment *s, uint32_t role)
{
    int32_t pid = (int32_t)getpid();
    uint64_t start_time = process_start_time(pid);
    if (!start_time)
        return OBJSTORE_SYSTEM; /* without it others would take this process for one that has ended */
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        struct client_slot *c = &s->clients[i];
        int32_t seen = atomic_load(&c->pid);
        /* A slot that was claimed but never became attached belongs to nobody once its process has gone. One that stands in
         * the lock is not for us, even if it has been given back: as our own its owner would look alive. */
        bool abandoned = seen != 0 && atomic_load(&c->state) == CLIENT_FREE && process_look(seen, 0) == PROCESS_ENDED;
        if (lock_owner_1(atomic_load(&s->h->lock)) == i + 1)
            continue;
        if ((seen != 0 && !abandoned) || !atomic_compare_exchange_strong(&c->pid, &seen, pid))
            continue;
        STEP();
        /* seq_cst until here: the state and the lock are looked at after the number of who had the slot, and before it is ours */
        c->generation++; /* from here on whoever takes the predecessor for dead cannot get at our lock */
        STEP();
        atomic_store(&c->start_time, start_time);
        c->role = role;
        c->actor_1 = c->task_1 = 0;
        c->n_finished = c->last_seq = 0;
        c->last_origin = c->env = c->node = 0;
        atomic_store_explicit(&c->inbox_of_1, 0, memory_order_relaxed);
        atomic_store(&c->flags, 0);
        atomic_store(&c->sleepers, 0);
        atomic_store(&c->need, 0);
        s->me = i;
        STEP();
        atomic_thread_fence(memory_order_release); /* pairs with owner_has_ended: who sees our word in the lock sees whose it is */
        segment_lock(s);
        STEP();
        atomic_store(&c->state, CLIENT_ATTACHED);
        STEP();
        if (role == ROLE_SCHEDULER)
            s->h->scheduler_1 = i + 1;
        if (role == ROLE_WORKER)
            event_write(s, EVENT_WORKER_STARTED, 0, i, (uint32_t)pid, 0, 0, i);
        segment_unlock(s);
        return OBJSTORE_OK;
    }
    return OBJSTORE_LIMIT;
}

int32_t client_signal_worker(const struct segment *s, uint32_t client, int number)
{
    const struct client_slot *c = client_at(s, client);
    int32_t pid = atomic_load(&c->pid);
    if (c->role == ROLE_WORKER)
        process_signal(pid, atomic_load(&c->start_time), number);
    return pid;
}

/* ------------------------------------------------------------------ looking */

void clients_attached(const struct segment *s, uint64_t clients[CLIENT_WORDS])
{
    memset(clients, 0, sizeof(uint64_t) * CLIENT_WORDS);
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        clients[i / 64] |= (uint64_t)(atomic_load(&s->clients[i].state) != CLIENT_FREE) << (i % 64);
}

bool client_look(struct segment *s, uint32_t client, struct client_view *v)
{
    const struct client_slot *c = client_at(s, client);
    if (atomic_load(&c->state) != CLIENT_ATTACHED)
        return false;
    *v = (struct client_view){.role = c->role, .origin = c->last_origin, .pid = atomic_load(&c->pid),
                              .idle = s->h->idle[client / 64] >> (client % 64) & 1, .n_finished = c->n_finished, .last_seq = c->last_seq};
    if (c->actor_1 <= s->n_actors)
        v->actor_1 = c->actor_1;
    const struct task_slot *t = c->task_1 && c->task_1 <= s->n_tasks ? task_at(s, c->task_1 - 1) : NULL;
    uint32_t made_by_1 = v->actor_1 ? actor_at(s, v->actor_1 - 1)->task_1 : 0;
    const struct task_slot *made_by = made_by_1 && made_by_1 <= s->n_tasks ? task_at(s, made_by_1 - 1) : NULL;
    if (t && atomic_load(&t->state) == TASK_RUNNING && t->worker == client) {
        v->seq = t->seq;
        v->parent = t->parent;
        v->retriable = t->max_retries != 0;
        v->blocked = t->flags & TASK_FLAG_BLOCKED;
        made_by = t;
    }
    if (made_by && made_by->function < s->n_objects) {
        v->function_1 = made_by->function + 1;
        v->generation = object_at(s, made_by->function)->generation;
    }
    return true;
}

/* ------------------------------------------------------------------ sleeping */

void wake_everybody(struct segment *s)
{
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        if (atomic_load(&s->clients[i].state) == CLIENT_ATTACHED)
            wake_client(s, i);
}

/* A wake-up costs more than a microsecond, tens of them on an idle virtual CPU; looking for so long costs as much at most.
 * It pays when the other side runs on another CPU and is quick, and nothing but experience says whether it does:
 *
 *  - seen while looking: the wake-up was saved;
 *  - not seen: the time was wasted;
 *  - a gap in the clock: another process ran on this CPU meanwhile, most likely the one that is waited for. Each look lets
 *    others run (sched_yield), but the scheduler does not hand over what it thinks is our fair share, so it may have been held up;
 *  - not looked, and woken soon: looking might have paid. */
#define LOOK_NS 30000
#define LOOK_GAP_NS 4000
enum { TRUST_PAID = 1, TRUST_WASTED = -2, TRUST_SHARED = -16 };

static void learn(_Atomic int *trust, int change)
{
    int now = atomic_load_explicit(trust, memory_order_relaxed) + change;
    now = now > TRUST_MAX ? TRUST_MAX : now < -TRUST_MAX ? -TRUST_MAX : now;
    atomic_store_explicit(trust, now, memory_order_relaxed); /* threads of one process may lose a lesson */
}

static bool look_first(const struct client_slot *c, uint32_t seen, _Atomic int *trust)
{
    int64_t last = monotonic_ns(), end = last + LOOK_NS, now = last;
    for (; now < end && now - last < LOOK_GAP_NS; now = monotonic_ns()) {
        last = now;
        for (int i = 0; i < 32; i++) {
            if (atomic_load_explicit(&c->inbox, memory_order_acquire) != seen) { /* pairs with notify_client: the news is there */
                learn(trust, TRUST_PAID);
                return true;
            }
            cpu_relax();
        }
        sched_yield();
    }
    learn(trust, now - last < LOOK_GAP_NS ? TRUST_WASTED : TRUST_SHARED);
    return atomic_load_explicit(&c->inbox, memory_order_acquire) != seen;
}

int client_sleep(struct segment *s, uint32_t seen, int64_t timeout_ns, _Atomic int *trust)
{
    struct client_slot *c = &s->clients[s->me];
    bool looks = trust && (timeout_ns < 0 || timeout_ns > LOOK_NS) && atomic_load_explicit(trust, memory_order_relaxed) > 0;
    if (looks && look_first(c, seen, trust))
        return 0;
    int64_t began = trust && !looks ? monotonic_ns() : 0;
    /* Pairs with notify_client; the kernel has a full barrier before it compares the inbox. */
    atomic_fetch_add(&c->sleepers, 1);
    STEP();
    int result = futex_wait(&c->inbox, seen, timeout_ns);
    STEP();
    atomic_fetch_sub(&c->sleepers, 1);
    if (began && result == 0 && monotonic_ns() - began < LOOK_NS)
        learn(trust, TRUST_PAID);
    return result;
}

/* ------------------------------------------------------------------ references */

void client_drop(struct segment *s, const uint32_t *objects, uint32_t n)
{
    segment_lock(s);
    for (uint32_t i = 0; i < n; i++)
        object_drop(s, objects[i], s->me);
    segment_unlock(s);
}

/* ------------------------------------------------------------------ what workers start with */

void client_set_context(struct segment *s, uint32_t object)
{
    segment_lock(s);
    s->h->context_generation = object_at(s, object)->generation;
    s->h->context_1 = object + 1;
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        struct client_slot *c = &s->clients[i];
        if (atomic_load(&c->state) != CLIENT_ATTACHED || c->role != ROLE_WORKER || c->actor_1)
            continue;
        atomic_fetch_or(&c->flags, CLIENT_FLAG_RETIRE);
        s->h->idle[i / 64] &= ~(UINT64_C(1) << (i % 64));
        if (s->h->waking_1 == i + 1)
            s->h->waking_1 = 0;
        wake_client(s, i);
    }
    request_attention(s);
    segment_unlock(s);
}

bool client_context(struct segment *s, uint32_t *object)
{
    segment_lock(s);
    *object = s->h->context_1 - 1;
    bool there = s->h->context_1 && object_state(object_at(s, *object)) == OBJECT_READY &&
                 object_at(s, *object)->generation == s->h->context_generation;
    if (there)
        object_hold(s, *object);
    segment_unlock(s);
    return there;
}
