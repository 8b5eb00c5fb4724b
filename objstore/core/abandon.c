#define _GNU_SOURCE
#include "abandon.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "actor.h"
#include "client.h"
#include "task.h"

static bool holds(const uint64_t *clients, uint32_t client)
{
    return client < MAX_CLIENTS && clients[client / 64] >> (client % 64) & 1;
}

static uint32_t state_of(const struct task_slot *t) { return atomic_load_explicit(&t->state, memory_order_relaxed); }

static bool creates(const struct task_slot *t) { return t->flags & TASK_FLAG_ACTOR_CREATION; }

/* Does it end with those who have made it? */
static bool goes_with(const struct segment *s, const struct task_slot *t, const uint64_t *makers)
{
    uint32_t state = state_of(t);
    bool detached = t->actor_1 && actor_at(s, t->actor_1 - 1)->flags & ACTOR_FLAG_DETACHED;
    return state != TASK_FREE && state != TASK_CANCELLED && holds(makers, t->caller) && !detached;
}

/* Does a worker do nothing else? One that serves an actor goes on when a call of it is no longer wanted. */
static bool occupies_its_worker(const struct task_slot *t)
{
    uint32_t state = state_of(t);
    return (state == TASK_RUNNING || state == TASK_HELD) && (!t->actor_1 || creates(t)) && t->worker < MAX_CLIENTS;
}

static bool is_proxy(const struct segment *s, uint32_t client) { return client_at(s, client)->role == ROLE_PROXY; }

/* Under the lock its task cannot end, so it is the right one. Never this process, which buries: threads may be clients, too. */
static void kill_worker(const struct segment *s, uint32_t worker)
{
    if (atomic_load(&client_at(s, worker)->pid) != (int32_t)getpid())
        client_signal_worker(s, worker, SIGKILL);
}

/* One of them, which waits for a task, may run that itself meanwhile: then it has several. */
static bool find_more(struct segment *s, uint64_t *makers)
{
    bool found = false;
    for (uint32_t i = 0; i < s->h->touched_tasks; i++) {
        struct task_slot *t = task_at(s, i);
        fetch_slot(&s->tasks[i + FETCH_AHEAD]);
        if (!goes_with(s, t, makers) || !occupies_its_worker(t))
            continue;
        if (creates(t))
            actor_kill(s, t->actor_1 - 1, true);
        else
            t->flags |= TASK_FLAG_CANCEL; /* else it would be retried */
        STEP();
        if (is_proxy(s, t->worker))
            wake_client(s, t->worker); /* the other machine ends it, and what it has made there */
        if (is_proxy(s, t->worker) || holds(makers, t->worker))
            continue;
        kill_worker(s, t->worker);
        makers[t->worker / 64] |= UINT64_C(1) << (t->worker % 64);
        found = true;
    }
    return found;
}

void abandon_find(struct segment *s, uint32_t driver, uint64_t makers[CLIENT_WORDS])
{
    memset(makers, 0, CLIENT_WORDS * sizeof *makers);
    makers[driver / 64] = UINT64_C(1) << (driver % 64);
    while (find_more(s, makers))
        ;
}

bool abandon_task(struct segment *s, uint32_t task, const uint64_t makers[CLIENT_WORDS])
{
    struct task_slot *t = task_at(s, task);
    if (!goes_with(s, t, makers))
        return false;
    if (occupies_its_worker(t))
        return !(creates(t) || t->flags & TASK_FLAG_CANCEL) || !(holds(makers, t->worker) || is_proxy(s, t->worker));
    if (creates(t)) {
        actor_kill(s, t->actor_1 - 1, true);
    } else if (state_of(t) == TASK_WAITING || state_of(t) == TASK_READY) {
        task_seal_failed(s, task, FAILURE_CANCELLED, 0);
        task_discard(s, task);
    }
    return false;
}
