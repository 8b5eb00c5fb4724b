#define _GNU_SOURCE
#include "clients/reap.h"

#include <signal.h>
#include <time.h>

#include "clients/client.h"
#include "clients/orphans.h"
#include "clients/remote_node.h"
#include "memory/event.h"
#include "memory/liveness.h"
#include "objects/offload.h"
#include "objects/shared_sync.h"
#include "objects/verify_object.h"
#include "recovery/check.h"
#include "recovery/recover.h"
#include "recovery/verify.h"
#include "retries/retry.h"
#include "tasks/actor.h"
#include "tasks/placement.h"
#include "tasks/verify_task.h"

enum stage { SEES_OBJECTS, SEES_TASKS, SEES_ARENA, FINDS, ORPHANS, ACTOR, TASKS, REFERENCES, CHUNKS, OVER };

struct reaping {
    struct segment *s;
    uint32_t client;
    enum stage stage;
    uint64_t at;                   /* slots before it, or bytes of the arena, are done in this stage */
    bool is_sound;                 /* as far as verified */
    bool again;                    /* further clients have become makers */
    uint64_t makers[CLIENT_WORDS]; /* of the orphans, see orphans.h */
    struct client_losses losses;
};

/* ------------------------------------------------------------------ looking first
 * Any process may have written anywhere, and what the end of a task or an object follows must lead somewhere. */

static void see_object(struct reaping *b, uint32_t object)
{
    struct segment *s = b->s;
    object_fetch_ahead(s, object);
    const struct object_slot *o = object_at(s, object);
    b->is_sound = b->is_sound && object_is_safe(s, object) &&
                  (object_state(o) == OBJECT_FREE || o->first_waiting_1 <= s->h->touched_tasks);
}

static void see_task(struct reaping *b, uint32_t task)
{
    fetch_slot(&b->s->tasks[task + FETCH_AHEAD]);
    b->is_sound = b->is_sound && task_is_safe(b->s, task);
}

/* ------------------------------------------------------------------ what a driver has begun */

static void end_orphan(struct reaping *b, uint32_t task) { b->again |= orphans_end(b->s, task, b->makers); }

/* ------------------------------------------------------------------ its tasks and its actor */

/* A task was running on a client that has ended. */
static void lose_task(struct segment *s, uint32_t task, int32_t code, struct client_losses *losses)
{
    struct task_slot *t = task_at(s, task);
    bool timed_out = task_timed_out(s, task);
    /* the actor tells whether it goes on: a process that has died since may have decided that already */
    bool call = t->actor_1 != 0;
    bool actor_restarts = call && atomic_load(&actor_at(s, t->actor_1 - 1)->state) != ACTOR_DEAD;
    if (task_is_sealed(s, t)) { /* it died between sealing and finishing: the task is done */
        task_finish(s, task, object_state(object_at(s, t->result_1 - 1)) == OBJECT_READY ? EVENT_OK : EVENT_ERROR);
    } else if (t->flags & TASK_FLAG_CANCEL && !timed_out) {
        task_seal_failed(s, task, FAILURE_CANCELLED, 0);
        task_finish(s, task, EVENT_CANCELLED);
    } else if (!placement_lives(placement_head(s, t->resource_class))) {
        losses->failed++;
        task_seal_failed(s, task, FAILURE_UNPLACED, (int32_t)placement_head(s, t->resource_class)->number);
        task_finish(s, task, EVENT_ERROR);
    } else if ((!call || actor_restarts) && (timed_out                ? retry_after_timeout(s, task)
                                             : code == DIED_OF_MEMORY ? retry_after_oom(t)
                                                                      : retry_allowed(t))) {
        losses->retried++;
        task_retry(s, task);
        if (!call)
            losses->again = (struct rerun){t->seq, t->attempt, retry_most_attempts(t)};
    } else if (timed_out) {
        losses->failed++;
        task_seal_failed(s, task, FAILURE_TIMED_OUT, (int32_t)times_at(s, task)->limits.timeout_ms);
        task_finish(s, task, EVENT_ERROR);
    } else {
        losses->failed++;
        const struct actor_slot *a = call ? actor_at(s, t->actor_1 - 1) : NULL;
        bool is_remote = t->flags & TASK_FLAG_REMOTE;
        uint32_t reason = !call            ? is_remote ? FAILURE_NODE_DIED : FAILURE_WORKER_CRASHED
                          : actor_restarts ? FAILURE_ACTOR_UNAVAILABLE
                                           : actor_failure(a);
        bool memory = code == DIED_OF_MEMORY;
        if (reason == FAILURE_ACTOR_DIED || reason == FAILURE_ACTOR_UNPLACED)
            code = actor_end_code(a);
        task_seal_failed(s, task, memory ? FAILURE_OUT_OF_MEMORY : reason, memory ? -SIGKILL : code);
        task_finish(s, task, EVENT_CRASHED);
    }
}

static bool runs(const struct segment *s, uint32_t task, uint32_t client)
{
    const struct task_slot *t = task_at(s, task);
    uint32_t state = atomic_load(&t->state);
    return (state == TASK_RUNNING || state == TASK_HELD) && t->worker == client;
}

/* The actor that the client serves or constructs is found by the constructor's task, since the note in the client is
 * written last. A constructor is handled with its actor, not with the tasks. */
static void reap_constructor(struct reaping *b, uint32_t task)
{
    struct segment *s = b->s;
    struct client_slot *c = client_at(s, b->client);
    if (!runs(s, task, b->client) || !(task_at(s, task)->flags & TASK_FLAG_ACTOR_CREATION))
        return;
    uint32_t actor = task_at(s, task)->actor_1 - 1;
    if (actor_at(s, actor)->flags & ACTOR_FLAG_KILLED)
        c->end_code = 0; /* on purpose: how the process ended has no meaning */
    STEP();
    b->losses.actor_restarts = actor_worker_died(s, actor, c->end_code == DIED_OF_MEMORY ? -SIGKILL : c->end_code);
}

void actor_lost(struct segment *s, uint32_t actor, int32_t code, bool for_good, const uint32_t *calls, uint32_t n_begun,
                uint32_t n)
{
    struct client_losses losses = {0};
    if (for_good)
        actor_at(s, actor)->flags |= ACTOR_FLAG_KILLED | (code == ENDED_BY_ITSELF ? ACTOR_FLAG_EXITED : 0);
    STEP();
    if (actor_at(s, actor)->flags & ACTOR_FLAG_KILLED)
        code = 0; /* on purpose, see reap_constructor */
    bool restarts = actor_worker_died(s, actor, code);
    for (uint32_t i = 0; i < n; i++) {
        bool can_begin = i >= n_begun && restarts && !(task_at(s, calls[i])->flags & TASK_FLAG_CANCEL);
        if (can_begin && actor_refuses(actor_at(s, actor), task_at(s, calls[i]))) {
            task_seal_failed(s, calls[i], FAILURE_ACTOR_UNAVAILABLE, NOT_BEGUN);
            task_finish(s, calls[i], EVENT_ERROR);
        } else if (can_begin) {
            remote_give_back(s, calls[i]);
        } else {
            lose_task(s, calls[i], code, &losses);
        }
    }
}

static void reap_task(struct reaping *b, uint32_t task)
{
    struct segment *s = b->s;
    if (atomic_load(&task_at(s, task)->state) != TASK_FREE && task_at(s, task)->caller == b->client)
        task_at(s, task)->caller = MAX_CLIENTS;
    if (runs(s, task, b->client) && atomic_load(&task_at(s, task)->state) == TASK_RUNNING)
        lose_task(s, task, client_at(s, b->client)->end_code, &b->losses);
}

/* ------------------------------------------------------------------ its objects and its memory */

static void reap_references(struct reaping *b, uint32_t object)
{
    struct segment *s = b->s;
    struct object_slot *o = object_at(s, object);
    uint64_t bit = UINT64_C(1) << (b->client % 64);
    uint32_t w = b->client / 64;
    if (object_state(o) == OBJECT_FREE)
        return;
    if (atomic_load_explicit(&o->waiters[w], memory_order_relaxed) & bit)
        atomic_fetch_and(&o->waiters[w], ~bit);
    offload_forget_client(s, object, b->client);
    sync_client_ended(s, object, b->client);
    if (object_state(o) == OBJECT_PENDING && o->creator == remote_as_creator(s, b->client)) {
        object_seal_failed(s, object, FAILURE_NODE_DIED, 0, 0);
        STEP();
        task_release_waiting(s, object);
    }
    if (atomic_load_explicit(&o->holders[w], memory_order_relaxed) & bit) {
        object_drop(s, object, b->client);
        b->losses.objects++;
    }
}

static bool is_not_its(void *ctx, uint32_t kind, uint32_t owner, uint64_t payload)
{
    (void)payload;
    const struct reaping *b = ctx;
    return !arena_belongs_to_client(kind) || owner != b->client;
}

/* ------------------------------------------------------------------ page by page */

/* Handles at most `*left` slots of a table. True: the table is done. */
static bool reap_slots(struct reaping *b, uint32_t n, uint32_t *left, void (*reap)(struct reaping *, uint32_t))
{
    for (; b->at < n && *left; b->at++, --*left)
        reap(b, (uint32_t)b->at);
    return b->at >= n;
}

static bool see_arena(struct reaping *b, uint32_t most)
{
    int result = arena_check_part(&b->s->h->arena, b->s->base, &b->at, most);
    b->is_sound = b->is_sound && result != OBJSTORE_CORRUPT;
    return result != OBJSTORE_PENDING;
}

/* Goes on with the stage. True: it is done. */
static bool reap_stage(struct reaping *b, uint32_t *left)
{
    struct segment *s = b->s;
    uint32_t most = *left;
    switch (b->stage) {
    case SEES_OBJECTS:
        return reap_slots(b, s->h->touched_objects, left, see_object);
    case SEES_TASKS:
        if (!reap_slots(b, s->h->touched_tasks, left, see_task))
            return false;
        b->is_sound = b->is_sound && small_tables_are_safe(s) && tasks_are_sound(s);
        return true;
    case SEES_ARENA:
        *left = 0;
        return see_arena(b, most);
    case FINDS:
        b->again = false;
        orphans_find(s, b->client, b->makers);
        return true;
    case ORPHANS:
        return reap_slots(b, s->h->touched_tasks, left, end_orphan);
    case ACTOR:
        return reap_slots(b, s->h->touched_tasks, left, reap_constructor);
    case TASKS:
        if (!reap_slots(b, s->h->touched_tasks, left, reap_task))
            return false;
        placement_owner_died(s, b->client);
        placement_machine_died(s, b->client);
        return true;
    case REFERENCES:
        return reap_slots(b, s->h->touched_objects, left, reap_references);
    default:
        *left = 0;
        return arena_sweep(segment_arena(s), s->base, &b->at, most, is_not_its, b) != OBJSTORE_PENDING;
    }
}

static enum stage next_stage(const struct reaping *b)
{
    if (b->stage == SEES_ARENA && client_at(b->s, b->client)->role != ROLE_DRIVER &&
        client_at(b->s, b->client)->role != ROLE_REMOTE_NODE)
        return ACTOR; /* what a worker has started, others may want */
    return b->stage == ORPHANS && b->again ? FINDS : b->stage + 1;
}

static void reap_page(struct reaping *b)
{
    for (uint32_t left = REAP_PAGE; left && b->stage < OVER;) {
        bool done = reap_stage(b, &left);
        STEP();
        if (!b->is_sound) {
            recover(b->s); /* which verifies everything */
            b->is_sound = true;
            b->stage = SEES_ARENA;
            b->stage = next_stage(b);
            b->at = 0;
            return;
        }
        if (done) {
            b->stage = next_stage(b);
            b->at = 0;
        }
    }
}

/* It may have died between a change and the notifications. */
static void tell_others(struct segment *s)
{
    task_wake_workers(s);
    wake_all(s);
}

static void forget(struct segment *s, uint32_t client)
{
    struct header *h = s->h;
    h->idle[client / 64] &= ~(UINT64_C(1) << (client % 64));
    if (h->waking_1 == client + 1)
        h->waking_1 = 0; /* its wake-up is lost, so another worker is woken */
    if (h->scheduler_1 == client + 1)
        h->scheduler_1 = 0;
    if (h->agent_1 == client + 1)
        h->agent_1 = 0;
    if (h->director_1 == client + 1)
        h->director_1 = NO_DIRECTOR_YET;
}

static void begin_reaping(struct segment *s, uint32_t client, int32_t code)
{
    struct client_slot *c = client_at(s, client);
    forget(s, client);
    if (c->role == ROLE_WORKER)
        event_write(s, EVENT_WORKER_DIED, 0, client, (uint32_t)(code == DIED_OF_MEMORY ? -SIGKILL : code), 0, 0, s->me);
    c->end_code = code;
    if (client == s->me || (c->role == ROLE_WORKER && code == 0 && !(c->task_1 && runs(s, c->task_1 - 1, client))))
        atomic_fetch_or(&c->flags, CLIENT_FLAG_LEFT);
    c->actor_1 = 0;
    STEP();
    atomic_store(&c->state, CLIENT_DYING);
    STEP();
    tell_others(s);
}

static void end_reaping(struct segment *s, uint32_t client)
{
    struct client_slot *c = client_at(s, client);
    atomic_store(&c->state, CLIENT_FREE);
    STEP();
    if (client != s->me)
        atomic_store(&c->pid, 0);
    tell_others(s);
}

/* Whether the signal indicates an error of the process itself, rather than a kill from outside. */
static bool crashed(int32_t code)
{
    return code == -SIGSEGV || code == -SIGBUS || code == -SIGILL || code == -SIGFPE || code == -SIGABRT ||
           code == -SIGTRAP || code == -SIGSYS;
}

/* After a crash, stray writes are likely, so everything derived is computed again, which must be done in one go. */
static bool survives_a_look(struct segment *s, int32_t code)
{
    if (crashed(code) ? segment_check(s, NULL, NULL) != 0 : !small_tables_are_safe(s))
        recover(s);
    return !atomic_load(&s->h->corrupt);
}

/* Gives the lock to a waiter: a process that only unlocks has the lock again before the waiter has woken up. */
static void let_others_in(struct segment *s)
{
    const struct timespec moment = {.tv_nsec = 50000};
    bool waited_for = atomic_load(&s->h->lock) & LOCK_WAITERS;
    segment_unlock(s);
    STEP();
    if (waited_for)
        nanosleep(&moment, NULL);
    segment_lock(s);
}

/* Under the lock, which it releases between pages. Afterwards another process may have completed the reaping, and the
 * slot may belong to another client. */
static struct client_losses reap(struct segment *s, uint32_t client, int32_t code)
{
    struct reaping b = {.s = s, .client = client, .is_sound = true};
    const struct client_slot *c = client_at(s, client);
    const uint32_t generation = c->generation;
    if (atomic_load(&c->state) == CLIENT_FREE || !survives_a_look(s, code))
        return b.losses;
    if (atomic_load(&c->state) == CLIENT_ATTACHED)
        begin_reaping(s, client, code);
    while (atomic_load(&c->state) == CLIENT_DYING && c->generation == generation && !atomic_load(&s->h->corrupt)) {
        reap_page(&b);
        if (b.stage == OVER)
            end_reaping(s, client);
        else
            let_others_in(s);
    }
    return b.losses;
}

/* ------------------------------------------------------------------ whose end is reported, or found */

static bool has_ended(const struct segment *s, uint32_t client)
{
    const struct client_slot *c = client_at(s, client);
    return client != s->me && atomic_load(&c->state) != CLIENT_FREE &&
           process_look(atomic_load(&c->pid), atomic_load(&c->start_time)) == PROCESS_ENDED;
}

/* The process that began them may have died. */
static void finish_others(struct segment *s)
{
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        if (atomic_load(&s->clients[i].state) == CLIENT_DYING && has_ended(s, i))
            reap(s, i, s->clients[i].end_code);
}

struct client_losses client_died(struct segment *s, uint32_t client, int32_t code)
{
    struct client_losses losses = {0};
    if (client >= MAX_CLIENTS)
        return losses;
    /* as in process_look: the caller knows of the death, and all reads from here on see what was written */
    atomic_thread_fence(memory_order_seq_cst);
    segment_lock(s);
    bool leaves = client == s->me && atomic_load(&client_at(s, client)->state) == CLIENT_ATTACHED;
    losses = reap(s, client, code);
    if (!leaves)
        finish_others(s);
    segment_unlock(s);
    STEP();
    /* not earlier, which seq_cst ensures: a waiter would have taken the owner of the lock for dead */
    if (leaves)
        atomic_store(&client_at(s, client)->pid, 0);
    return losses;
}

uint32_t client_reap(struct segment *s, int32_t *pids)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        if (!has_ended(s, i))
            continue;
        /* no slot is reused under the lock: another process may have reaped it meanwhile, and a new client taken it */
        segment_lock(s);
        if (has_ended(s, i)) {
            pids[n++] = atomic_load(&s->clients[i].pid);
            reap(s, i, 0);
        }
        segment_unlock(s);
    }
    return n;
}
