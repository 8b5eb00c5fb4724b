#define _GNU_SOURCE
#include "burial.h"

#include <signal.h>
#include <time.h>

#include "abandon.h"
#include "actor.h"
#include "away.h"
#include "client.h"
#include "event.h"
#include "liveness.h"
#include "placement.h"
#include "proxy.h"
#include "recover.h"

enum stage { SEES_OBJECTS, SEES_TASKS, SEES_ARENA, FINDS, ABANDONS, ACTOR, TASKS, REFERENCES, CHUNKS, OVER };

struct burial {
    struct segment *s;
    uint32_t client;
    enum stage stage;
    uint64_t at;   /* slots, or bytes of the arena, below it are done in this stage */
    bool is_sound; /* what has been seen so far */
    bool again;    /* others have become makers */
    uint64_t makers[CLIENT_WORDS]; /* of what is abandoned, see abandon.h */
    struct client_losses losses;
};

/* ------------------------------------------------------------------ looking first
 * Any process may have written anywhere, and what the end of a task or an object follows must lead somewhere. */

static void see_object(struct burial *b, uint32_t object)
{
    struct segment *s = b->s;
    object_fetch_ahead(s, object);
    const struct object_slot *o = object_at(s, object);
    b->is_sound = b->is_sound && slot_is_safe(s, SLOT_OBJECT, object) &&
                  (object_state(o) == OBJECT_FREE || o->first_waiting_1 <= s->h->touched_tasks);
}

static void see_task(struct burial *b, uint32_t task)
{
    fetch_slot(&b->s->tasks[task + FETCH_AHEAD]);
    b->is_sound = b->is_sound && slot_is_safe(b->s, SLOT_TASK, task);
}

/* ------------------------------------------------------------------ what a driver has begun */

static void abandon(struct burial *b, uint32_t task) { b->again |= abandon_task(b->s, task, b->makers); }

/* ------------------------------------------------------------------ its tasks and its actor */

/* Memory that ran out is not the task's fault alone, so it has attempts of its own for that. */
static bool may_retry(struct task_slot *t, int32_t code)
{
    if (code != DIED_OF_MEMORY)
        return task_may_retry(t);
    if (t->max_retries == 0 || t->flags >> TASK_OOM_SHIFT == TASK_OOM_MAX)
        return false;
    t->flags = (uint16_t)(t->flags + (1u << TASK_OOM_SHIFT));
    return true;
}

/* A task was running on a client that is gone. */
static void lose_task(struct segment *s, uint32_t task, int32_t code, struct client_losses *losses)
{
    struct task_slot *t = task_at(s, task);
    bool call = t->actor_1 != 0; /* whether its actor goes on, the actor tells: its fate may have been settled by one who died since */
    bool actor_restarts = call && atomic_load(&actor_at(s, t->actor_1 - 1)->state) != ACTOR_DEAD;
    if (task_is_sealed(s, t)) { /* it died between sealing and finishing: the work is done */
        task_finish(s, task, object_state(object_at(s, t->result_1 - 1)) == OBJECT_READY ? EVENT_OK : EVENT_ERROR);
    } else if (t->flags & TASK_FLAG_CANCEL) {
        task_seal_failed(s, task, FAILURE_CANCELLED, 0);
        task_finish(s, task, EVENT_CANCELLED);
    } else if (!placement_lives(placement_head(s, t->resource_class))) {
        losses->failed++;
        task_seal_failed(s, task, FAILURE_UNPLACED, (int32_t)placement_head(s, t->resource_class)->number);
        task_finish(s, task, EVENT_ERROR);
    } else if ((!call || actor_restarts) && may_retry(t, code)) {
        losses->retried++;
        task_retry(s, task);
    } else {
        losses->failed++;
        const struct actor_slot *a = call ? actor_at(s, t->actor_1 - 1) : NULL;
        bool elsewhere = t->flags & TASK_FLAG_ELSEWHERE;
        uint32_t reason = !call ? elsewhere ? FAILURE_NODE_DIED : FAILURE_WORKER_CRASHED : actor_restarts ? FAILURE_ACTOR_UNAVAILABLE : actor_failure(a);
        bool memory = code == DIED_OF_MEMORY;
        if (reason == FAILURE_ACTOR_UNPLACED)
            code = a->death_detail;
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

/* The actor that it serves or constructs is told by the constructor's task: the client's own note of it is written last. A
 * constructor belongs to the actor's fate, not to the fate of tasks. */
static void bury_constructor(struct burial *b, uint32_t task)
{
    struct segment *s = b->s;
    struct client_slot *c = client_at(s, b->client);
    if (!runs(s, task, b->client) || !(task_at(s, task)->flags & TASK_FLAG_ACTOR_CREATION))
        return;
    uint32_t actor = task_at(s, task)->actor_1 - 1;
    if (actor_at(s, actor)->flags & ACTOR_FLAG_KILLED)
        c->end_code = 0; /* on purpose: how the process ended tells nothing */
    STEP();
    b->losses.actor_restarts = actor_worker_died(s, actor, c->end_code == DIED_OF_MEMORY ? -SIGKILL : c->end_code);
}

void actor_lost(struct segment *s, uint32_t actor, int32_t code, bool for_good, const uint32_t *calls, uint32_t n_begun, uint32_t n)
{
    struct client_losses losses = {0, 0, 0, false};
    if (for_good)
        actor_at(s, actor)->flags |= ACTOR_FLAG_KILLED;
    STEP();
    if (actor_at(s, actor)->flags & ACTOR_FLAG_KILLED)
        code = 0; /* on purpose, see bury_constructor */
    bool restarts = actor_worker_died(s, actor, code);
    for (uint32_t i = 0; i < n; i++)
        if (i >= n_begun && restarts && !(task_at(s, calls[i])->flags & TASK_FLAG_CANCEL))
            proxy_give_back(s, calls[i]);
        else
            lose_task(s, calls[i], code, &losses);
}

static void bury_task(struct burial *b, uint32_t task)
{
    struct segment *s = b->s;
    if (atomic_load(&task_at(s, task)->state) != TASK_FREE && task_at(s, task)->caller == b->client)
        task_at(s, task)->caller = MAX_CLIENTS;
    if (runs(s, task, b->client) && atomic_load(&task_at(s, task)->state) == TASK_RUNNING)
        lose_task(s, task, client_at(s, b->client)->end_code, &b->losses);
}

/* ------------------------------------------------------------------ its objects and its memory */

static void bury_references(struct burial *b, uint32_t object)
{
    struct segment *s = b->s;
    struct object_slot *o = object_at(s, object);
    uint64_t bit = UINT64_C(1) << (b->client % 64);
    uint32_t w = b->client / 64;
    if (object_state(o) == OBJECT_FREE)
        return;
    if (atomic_load_explicit(&o->waiters[w], memory_order_relaxed) & bit)
        atomic_fetch_and(&o->waiters[w], ~bit);
    away_forget_client(s, object, b->client);
    if (object_state(o) == OBJECT_PENDING && o->creator == proxy_as_creator(s, b->client)) {
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
    const struct burial *b = ctx;
    return !arena_belongs_to_client(kind) || owner != b->client;
}

/* ------------------------------------------------------------------ page by page */

/* At most `*left` slots of a table. True: it is done. */
static bool bury_slots(struct burial *b, uint32_t n, uint32_t *left, void (*bury)(struct burial *, uint32_t))
{
    for (; b->at < n && *left; b->at++, --*left)
        bury(b, (uint32_t)b->at);
    return b->at >= n;
}

static bool see_arena(struct burial *b, uint32_t most)
{
    int result = arena_check_part(&b->s->h->arena, b->s->base, &b->at, most);
    b->is_sound = b->is_sound && result != OBJSTORE_CORRUPT;
    return result != OBJSTORE_PENDING;
}

/* True: the stage is done. */
static bool bury_stage(struct burial *b, uint32_t *left)
{
    struct segment *s = b->s;
    uint32_t most = *left;
    switch (b->stage) {
    case SEES_OBJECTS:
        return bury_slots(b, s->h->touched_objects, left, see_object);
    case SEES_TASKS:
        if (!bury_slots(b, s->h->touched_tasks, left, see_task))
            return false;
        b->is_sound = b->is_sound && small_tables_are_safe(s) && tasks_are_sound(s);
        return true;
    case SEES_ARENA:
        *left = 0;
        return see_arena(b, most);
    case FINDS:
        b->again = false;
        abandon_find(s, b->client, b->makers);
        return true;
    case ABANDONS:
        return bury_slots(b, s->h->touched_tasks, left, abandon);
    case ACTOR:
        return bury_slots(b, s->h->touched_tasks, left, bury_constructor);
    case TASKS:
        if (!bury_slots(b, s->h->touched_tasks, left, bury_task))
            return false;
        placement_owner_died(s, b->client);
        placement_machine_died(s, b->client);
        return true;
    case REFERENCES:
        return bury_slots(b, s->h->touched_objects, left, bury_references);
    default:
        *left = 0;
        return arena_sweep(segment_arena(s), s->base, &b->at, most, is_not_its, b) != OBJSTORE_PENDING;
    }
}

static enum stage next_stage(const struct burial *b)
{
    if (b->stage == SEES_ARENA && client_at(b->s, b->client)->role != ROLE_DRIVER && client_at(b->s, b->client)->role != ROLE_PROXY)
        return ACTOR; /* what a worker has made, others may want */
    return b->stage == ABANDONS && b->again ? FINDS : b->stage + 1;
}

static void bury_page(struct burial *b)
{
    for (uint32_t left = BURIAL_PAGE; left && b->stage < OVER;) {
        bool done = bury_stage(b, &left);
        STEP();
        if (!b->is_sound) {
            recover(b->s); /* which looks at everything */
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

/* It may have died between a change and telling those who sleep for it. */
static void tell_others(struct segment *s)
{
    task_wake_workers(s);
    wake_everybody(s);
}

static void forget(struct segment *s, uint32_t client)
{
    struct header *h = s->h;
    h->idle[client / 64] &= ~(UINT64_C(1) << (client % 64));
    if (h->waking_1 == client + 1)
        h->waking_1 = 0; /* its wake-up is lost: give the credit to another */
    if (h->scheduler_1 == client + 1)
        h->scheduler_1 = 0;
    if (h->agent_1 == client + 1)
        h->agent_1 = 0;
    if (h->director_1 == client + 1)
        h->director_1 = NO_DIRECTOR_YET;
}

static void begin_burial(struct segment *s, uint32_t client, int32_t code)
{
    struct client_slot *c = client_at(s, client);
    forget(s, client);
    if (c->role == ROLE_WORKER)
        event_write(s, EVENT_WORKER_DIED, 0, client, (uint32_t)(code == DIED_OF_MEMORY ? -SIGKILL : code), 0, 0, s->me);
    c->end_code = code;
    c->actor_1 = 0;
    STEP();
    atomic_store(&c->state, CLIENT_DYING);
    STEP();
    tell_others(s);
}

static void end_burial(struct segment *s, uint32_t client)
{
    struct client_slot *c = client_at(s, client);
    atomic_store(&c->state, CLIENT_FREE);
    STEP();
    if (client != s->me)
        atomic_store(&c->pid, 0);
    tell_others(s);
}

/* By a signal that speaks of an error of its own, rather than of somebody who wanted it to end. */
static bool crashed(int32_t code)
{
    return code == -SIGSEGV || code == -SIGBUS || code == -SIGILL || code == -SIGFPE || code == -SIGABRT || code == -SIGTRAP || code == -SIGSYS;
}

/* Where stray writes are likely, everything derived is computed a second time, too, which must be done in one go. */
static bool survives_a_look(struct segment *s, int32_t code)
{
    if (crashed(code) ? segment_check(s, NULL, NULL) != 0 : !small_tables_are_safe(s))
        recover(s);
    return !atomic_load(&s->h->corrupt);
}

/* Others, of whom one may be waiting, have the lock for a moment: who only lets go has it again before they have woken up. */
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

/* Under the lock, which it lets go between pages: when it has it again, another may have ended the burial, and the slot may be
 * somebody else's. */
static struct client_losses bury(struct segment *s, uint32_t client, int32_t code)
{
    struct burial b = {.s = s, .client = client, .is_sound = true};
    const struct client_slot *c = client_at(s, client);
    const uint32_t generation = c->generation;
    if (atomic_load(&c->state) == CLIENT_FREE || !survives_a_look(s, code))
        return b.losses;
    if (atomic_load(&c->state) == CLIENT_ATTACHED)
        begin_burial(s, client, code);
    while (atomic_load(&c->state) == CLIENT_DYING && c->generation == generation && !atomic_load(&s->h->corrupt)) {
        bury_page(&b);
        if (b.stage == OVER)
            end_burial(s, client);
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

/* Who began them may have died over it. */
static void finish_others(struct segment *s)
{
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        if (atomic_load(&s->clients[i].state) == CLIENT_DYING && has_ended(s, i))
            bury(s, i, s->clients[i].end_code);
}

struct client_losses client_died(struct segment *s, uint32_t client, int32_t code)
{
    struct client_losses losses = {0, 0, 0, false};
    if (client >= MAX_CLIENTS)
        return losses;
    atomic_thread_fence(memory_order_seq_cst); /* as in process_look: the caller knows of the death, and what was written is read from here on */
    segment_lock(s);
    bool leaves = client == s->me && atomic_load(&client_at(s, client)->state) == CLIENT_ATTACHED;
    losses = bury(s, client, code);
    if (!leaves)
        finish_others(s);
    segment_unlock(s);
    STEP();
    if (leaves) /* not before, and seq_cst keeps it so: whoever waited for the lock would have taken its owner for dead */
        atomic_store(&client_at(s, client)->pid, 0);
    return losses;
}

uint32_t client_reap(struct segment *s, int32_t *pids)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        if (!has_ended(s, i))
            continue;
        segment_lock(s); /* under which no slot changes hands: another may have reaped it meanwhile, and somebody else moved in */
        if (has_ended(s, i)) {
            pids[n++] = atomic_load(&s->clients[i].pid);
            bury(s, i, 0);
        }
        segment_unlock(s);
    }
    return n;
}
