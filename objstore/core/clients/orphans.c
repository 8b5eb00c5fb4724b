#define _GNU_SOURCE
#include "clients/orphans.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "clients/client.h"
#include "tasks/actor.h"
#include "tasks/task.h"

static bool holds(const uint64_t *clients, uint32_t client)
{
    return client < MAX_CLIENTS && clients[client / 64] >> (client % 64) & 1;
}

static uint32_t state_of(const struct task_slot *t) { return atomic_load_explicit(&t->state, memory_order_relaxed); }

static bool creates(const struct task_slot *t) { return t->flags & TASK_FLAG_ACTOR_CREATION; }

/* Whether the task ends with its makers. */
static bool goes_with(const struct segment *s, const struct task_slot *t, const uint64_t *makers)
{
    uint32_t state = state_of(t);
    bool detached = t->actor_1 && actor_at(s, t->actor_1 - 1)->flags & ACTOR_FLAG_DETACHED;
    return state != TASK_FREE && state != TASK_CANCELLED && holds(makers, t->caller) && !detached;
}

/* Whether a worker works only for makers. A worker that serves an actor goes on when a call is no longer wanted. */
static bool occupies_its_worker(const struct task_slot *t)
{
    uint32_t state = state_of(t);
    return (state == TASK_RUNNING || state == TASK_HELD) && (!t->actor_1 || creates(t)) && t->worker < MAX_CLIENTS;
}

static bool is_remote_node(const struct segment *s, uint32_t client)
{
    return client_at(s, client)->role == ROLE_REMOTE_NODE;
}

/* Under the lock its task cannot end, so it is the right process. Never this process, which reaps, as threads may be
 * clients too. */
static void kill_worker(const struct segment *s, uint32_t worker)
{
    if (atomic_load(&client_at(s, worker)->pid) != (int32_t)getpid())
        client_signal_worker(s, worker, SIGKILL);
}

/* A worker that waits for a task may run that task itself, and then has several. */
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
            task_doom(s, i); /* otherwise it would be retried */
        STEP();
        if (is_remote_node(s, t->worker))
            wake_client(s, t->worker); /* the other machine ends it, and what it has started there */
        if (is_remote_node(s, t->worker) || holds(makers, t->worker))
            continue;
        kill_worker(s, t->worker);
        makers[t->worker / 64] |= UINT64_C(1) << (t->worker % 64);
        found = true;
    }
    return found;
}

void orphans_find(struct segment *s, uint32_t driver, uint64_t makers[CLIENT_WORDS])
{
    memset(makers, 0, CLIENT_WORDS * sizeof *makers);
    makers[driver / 64] = UINT64_C(1) << (driver % 64);
    while (find_more(s, makers))
        ;
}

bool orphans_end(struct segment *s, uint32_t task, const uint64_t makers[CLIENT_WORDS])
{
    struct task_slot *t = task_at(s, task);
    if (!goes_with(s, t, makers))
        return false;
    if (occupies_its_worker(t))
        return !(creates(t) || t->flags & TASK_FLAG_CANCEL) ||
               !(holds(makers, t->worker) || is_remote_node(s, t->worker));
    if (creates(t)) {
        actor_kill(s, t->actor_1 - 1, true);
    } else if (state_of(t) == TASK_WAITING || state_of(t) == TASK_READY || state_of(t) == TASK_DELAYED) {
        task_seal_failed(s, task, FAILURE_CANCELLED, 0);
        task_discard(s, task);
    }
    return false;
}
