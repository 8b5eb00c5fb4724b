/* clients/: attached processes, remote nodes, what a dead client leaves; never a rebuild, which is `recovery/`. */
#define _GNU_SOURCE
#include "clients/client.h"

#include <string.h>
#include <unistd.h>

#include "memory/event.h"
#include "memory/liveness.h"
#include "recovery/recover.h"
#include "tasks/actor.h"

static const struct segment_hooks client_hooks = {.took_over = recover, .actor_unreferenced = actor_unreferenced};

int client_attach(struct segment *s, uint32_t role)
{
    int32_t pid = (int32_t)getpid();
    uint64_t start_time = process_start_time(pid);
    if (!start_time)
        return OBJSTORE_SYSTEM; /* without it other processes would take this one for dead */
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        struct client_slot *c = &s->clients[i];
        int32_t seen = atomic_load(&c->pid);
        /* A slot that was claimed but never attached is free once its process has ended. A slot that is named in the
         * lock must not be taken, even if it has been given back: the owner of the lock would look alive. */
        bool abandoned = seen != 0 && atomic_load(&c->state) == CLIENT_FREE && process_look(seen, 0) == PROCESS_ENDED;
        if (lock_owner_1(atomic_load(&s->h->lock)) == i + 1)
            continue;
        if ((seen != 0 && !abandoned) || !atomic_compare_exchange_strong(&c->pid, &seen, pid))
            continue;
        STEP();
        /* seq_cst until here: the state and the lock are read after the pid of the slot's former client, and before
         * this client claims it */
        /* from here on a process that finds the predecessor dead cannot take this client's lock over */
        atomic_store_explicit(&c->generation, c->generation + 1, memory_order_relaxed);
        STEP();
        atomic_store(&c->start_time, start_time);
        c->role = role;
        c->actor_1 = c->task_1 = 0;
        c->n_finished = c->last_seq = 0;
        c->last_origin = c->env = c->node = 0;
        atomic_store_explicit(&c->inbox_of_1, 0, memory_order_relaxed);
        atomic_store(&c->flags, 0);
        atomic_store(&c->sleepers, 0);
        atomic_store(&c->watchers, 0);
        atomic_store(&c->need, 0);
        s->me = i;
        s->hooks = &client_hooks;
        STEP();
        /* pairs with wait_for_lock: a process that sees this client's lock word sees its pid and start time */
        atomic_thread_fence(memory_order_release);
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

bool client_look(struct segment *s, uint32_t client, struct client_view *v)
{
    const struct client_slot *c = client_at(s, client);
    if (atomic_load(&c->state) != CLIENT_ATTACHED)
        return false;
    *v = (struct client_view){.role = c->role,
                              .origin = c->last_origin,
                              .pid = atomic_load(&c->pid),
                              .idle = s->h->idle[client / 64] >> (client % 64) & 1,
                              .n_finished = c->n_finished,
                              .last_seq = c->last_seq};
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

static bool is_attached(const uint64_t attached[CLIENT_WORDS], uint32_t client_1)
{
    return !client_1 || (client_1 <= MAX_CLIENTS && attached[(client_1 - 1) / 64] >> ((client_1 - 1) % 64) & 1);
}

bool client_table_is_sound(const struct segment *s)
{
    const struct header *h = s->h;
    const struct client_slot *me = &s->clients[s->me];
    uint64_t attached[CLIENT_WORDS];
    clients_attached(s, attached);
    /* what a client leaves in its slot when it has gone is not zero */
    bool sound = atomic_load(&me->start_time) && is_attached(attached, h->scheduler_1) &&
                 is_attached(attached, h->agent_1) && is_attached(attached, h->waking_1);
    for (uint32_t w = 0; sound && w < CLIENT_WORDS; w++)
        sound = !(h->idle[w] & ~attached[w]);
    for (uint32_t i = 0; sound && i < h->touched_actors && i < s->n_actors; i++)
        sound = atomic_load(&actor_at(s, i)->state) != ACTOR_ALIVE || is_attached(attached, actor_at(s, i)->worker_1);
    return sound;
}

/* ------------------------------------------------------------------ sleeping */

int client_sleep(struct segment *s, uint32_t seen, int64_t timeout_ns, _Atomic int *trust)
{
    struct client_slot *c = &s->clients[s->me];
    return word_sleep(&c->inbox, &c->sleepers, seen, timeout_ns, trust); /* pairs with notify_client */
}

int client_sleep_until_seal(struct segment *s, uint32_t seen, int64_t timeout_ns)
{
    struct client_slot *c = &s->clients[s->me];
    return word_sleep(&c->seals, &c->watchers, seen, timeout_ns, NULL); /* pairs with notify_client */
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
