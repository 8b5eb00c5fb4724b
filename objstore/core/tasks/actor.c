/* tasks/: tasks, actors, resources, placement groups, gates, timers; never what a dead client leaves. */
#include "tasks/actor.h"

#include <string.h>

#include "memory/event.h"
#include "tasks/placement.h"
#include "tasks/timer.h"

static uint32_t actor_state(const struct actor_slot *a)
{
    return atomic_load_explicit(&a->state, memory_order_relaxed);
}

static void set_state(struct segment *s, uint32_t actor, uint32_t state)
{
    STEP();
    atomic_store_explicit(&actor_at(s, actor)->state, state, memory_order_release);
    STEP();
    const struct actor_slot *a = actor_at(s, actor);
    if (a->task_1 && task_at(s, a->task_1 - 1)->flags & TASK_FLAG_HIDDEN)
        return; /* a stand-in */
    bool ended = state == ACTOR_DEAD && !(a->flags & ACTOR_FLAG_UNPLACED);
    uint32_t how = ended ? (uint32_t)actor_at(s, actor)->death_detail : 0;
    event_write(s, EVENT_ACTOR_STATE, 0, actor, state - ACTOR_PENDING, how, 0, s->me);
}

/* ------------------------------------------------------------------ making and finding */

int actor_find(struct segment *s, uint64_t name_hash, uint32_t *actor)
{
    for (uint32_t i = 0; i < s->h->touched_actors; i++) {
        const struct actor_slot *a = actor_at(s, i);
        uint32_t state = actor_state(a);
        if (a->name_hash == name_hash && state != ACTOR_FREE && state != ACTOR_DEAD &&
            !(a->flags & (ACTOR_FLAG_TERMINATE | ACTOR_FLAG_KILLED))) {
            *actor = i;
            return OBJSTORE_OK;
        }
    }
    return OBJSTORE_NOT_FOUND;
}

int actor_create(struct segment *s, const struct actor_spec *spec, uint32_t object, uint32_t *out)
{
    struct header *h = s->h;
    uint32_t i;
    if (spec->name_hash && actor_find(s, spec->name_hash, &i) == OBJSTORE_OK)
        return OBJSTORE_EXISTS;
    if (h->free_actor_1) {
        i = h->free_actor_1 - 1;
        if (i >= s->n_actors || actor_state(&s->actors[i]) != ACTOR_FREE) {
            segment_condemn(s);
            return OBJSTORE_CORRUPT;
        }
        h->free_actor_1 = s->actors[i].next_free_1;
    } else if (h->touched_actors < s->n_actors) {
        i = h->touched_actors++;
    } else {
        return OBJSTORE_LIMIT;
    }
    STEP();
    struct actor_slot *a = actor_at(s, i);
    uint32_t generation = a->generation;
    memset((unsigned char *)a + sizeof a->state, 0, sizeof *a - sizeof a->state);
    a->generation = generation;
    a->object_1 = object + 1;
    a->restarts_left = spec->max_restarts;
    a->max_task_retries = spec->max_task_retries;
    a->max_concurrency = spec->max_concurrency;
    a->flags = spec->flags;
    a->name_hash = spec->name_hash;
    a->max_pending = spec->max_pending;
    memcpy(a->group_limit, spec->group_limit, sizeof a->group_limit);
    STEP();
    atomic_store_explicit(&a->state, ACTOR_PENDING, memory_order_release);
    STEP();
    object_at(s, object)->u.arena.actor_1 = i + 1;
    if (spec->flags & ACTOR_FLAG_DETACHED)
        object_pin(s, object);
    *out = i;
    return OBJSTORE_OK;
}

void actor_constructed_by(struct segment *s, uint32_t actor, uint32_t task)
{
    actor_at(s, actor)->task_1 = task + 1;
    if (!(task_at(s, task)->flags & TASK_FLAG_HIDDEN))
        event_write(s, EVENT_ACTOR_CREATED, task_at(s, task)->seq, actor, actor_at(s, actor)->object_1 - 1, 0, 0,
                    s->me);
}

static void free_slot(struct segment *s, uint32_t actor)
{
    struct actor_slot *a = actor_at(s, actor);
    uint32_t death_object_1 = a->death_object_1;
    a->generation++;
    STEP();
    atomic_store_explicit(&a->state, ACTOR_FREE, memory_order_release);
    STEP();
    a->next_free_1 = s->h->free_actor_1;
    s->h->free_actor_1 = actor + 1;
    STEP();
    if (death_object_1) /* last: recovery pins what an actor names that is not free */
        object_unpin(s, death_object_1 - 1);
}

void actor_discard(struct segment *s, uint32_t actor)
{
    uint32_t object_1 = actor_at(s, actor)->object_1;
    object_at(s, object_1 - 1)->u.arena.actor_1 = 0;
    if (actor_at(s, actor)->flags & ACTOR_FLAG_DETACHED)
        object_unpin(s, object_1 - 1);
    free_slot(s, actor);
}

/* ------------------------------------------------------------------ the mailbox */

static void unlink_call(struct segment *s, struct actor_slot *a, uint32_t previous_1, uint32_t task)
{
    uint32_t next_1 = task_at(s, task)->next_1;
    if (previous_1)
        task_at(s, previous_1 - 1)->next_1 = next_1;
    else
        a->head_1 = next_1;
    if (!next_1)
        a->tail_1 = previous_1;
    a->n_pending--;
    STEP();
}

/* A cancelled call may be in the mailbox and in a waiting list; the second that gets to it releases it. */
static void drop_cancelled(struct segment *s, uint32_t task)
{
    struct task_slot *t = task_at(s, task);
    if (t->flags & TASK_FLAG_LOOSE)
        task_release(s, task);
    else
        t->flags |= TASK_FLAG_LOOSE;
}

enum { N_LOOKED_AT = 64 }; /* calls that may run, passed in the search for those that will not */

void actor_tidy(struct segment *s, uint32_t actor)
{
    struct actor_slot *a = actor_at(s, actor);
    uint32_t previous_1 = 0, next_1 = 0, walked = 0, n = 0;
    if (a->worker_1 || actor_state(a) == ACTOR_DEAD)
        return; /* its worker drops them when it gets there, its end all of them */
    for (uint32_t at_1 = a->head_1; at_1 && n < N_LOOKED_AT && !walk_is_over(s, &walked, s->n_tasks); at_1 = next_1) {
        next_1 = task_at(s, at_1 - 1)->next_1; /* with the last one the actor may be freed too */
        if (atomic_load_explicit(&task_at(s, at_1 - 1)->state, memory_order_relaxed) == TASK_CANCELLED) {
            unlink_call(s, a, previous_1, at_1 - 1);
            drop_cancelled(s, at_1 - 1);
            continue;
        }
        previous_1 = at_1;
        n++;
    }
}

/* Whether its constructor has run on another machine. Its calls run there too, as many at a time as that machine
 * decides. */
static bool is_remote(const struct segment *s, const struct actor_slot *a)
{
    return a->task_1 && task_at(s, a->task_1 - 1)->flags & TASK_FLAG_REMOTE;
}

/* A call that has not begun, of an actor that is dead or restarts. */
static void seal_call(struct segment *s, const struct actor_slot *a, uint32_t task)
{
    struct task_slot *t = task_at(s, task);
    bool is_dead = actor_state(a) == ACTOR_DEAD;
    uint32_t code = a->flags & ACTOR_FLAG_HOSTED || !is_dead ? FAILURE_ACTOR_UNAVAILABLE : actor_failure(a);
    task_refs(s, t);
    for (uint32_t i = 0; i < t->n_returns; i++) {
        uint32_t result = task_result(s, t, i);
        if (a->death_object_1)
            object_seal_like(s, result, a->death_object_1 - 1);
        else
            object_seal_failed(s, result, code, is_dead ? actor_end_code(a) : NOT_BEGUN, t->seq);
    }
}

bool actor_admits(const struct segment *s, uint32_t actor)
{
    const struct actor_slot *a = actor_at(s, actor);
    return !a->max_pending || a->n_pending + a->n_running < a->max_pending || actor_state(a) == ACTOR_DEAD;
}

void actor_count(struct segment *s, const struct task_slot *call, bool runs)
{
    struct actor_slot *a = actor_at(s, call->actor_1 - 1);
    uint32_t *of_group = &a->group_running[call->group < MAX_GROUPS ? call->group : 0];
    if (runs) {
        a->n_running++;
        (*of_group)++;
    } else if (a->n_running) {
        a->n_running--;
        (*of_group)--;
    }
}

static bool has_room(const struct segment *s, const struct actor_slot *a, uint32_t group)
{
    return !a->group_limit[group] || a->group_running[group] < a->group_limit[group] || is_remote(s, a);
}

bool actor_post(struct segment *s, uint32_t actor, uint32_t task)
{
    struct actor_slot *a = actor_at(s, actor);
    object_pin(s, a->object_1 - 1);
    uint32_t state = actor_state(a);
    if (state == ACTOR_DEAD || (state == ACTOR_RESTARTING && actor_refuses(a, task_at(s, task)))) {
        seal_call(s, a, task);
        if (!(task_at(s, task)->flags & TASK_FLAG_HIDDEN))
            event_write(s, EVENT_FINISHED, task_at(s, task)->seq, task_at(s, task)->result_1 - 1, EVENT_ERROR, 0, 0,
                        s->me);
        task_release(s, task);
        return false;
    }
    if (a->tail_1)
        task_at(s, a->tail_1 - 1)->next_1 = task + 1;
    else
        a->head_1 = task + 1;
    a->tail_1 = task + 1;
    a->n_pending++;
    STEP();
    return true;
}

void actor_return(struct segment *s, uint32_t actor, uint32_t task)
{
    struct actor_slot *a = actor_at(s, actor);
    struct task_slot *t = task_at(s, task);
    uint32_t previous_1 = 0, next_1 = a->head_1, walked = 0;
    while (next_1 && task_at(s, next_1 - 1)->seq < t->seq && !walk_is_over(s, &walked, s->n_tasks)) {
        previous_1 = next_1;
        next_1 = task_at(s, next_1 - 1)->next_1;
    }
    t->next_1 = next_1;
    STEP();
    if (previous_1)
        task_at(s, previous_1 - 1)->next_1 = task + 1;
    else
        a->head_1 = task + 1;
    if (!next_1)
        a->tail_1 = task + 1;
    a->n_pending++;
    actor_wake(s, actor);
}

void actor_wake(struct segment *s, uint32_t actor)
{
    struct actor_slot *a = actor_at(s, actor);
    if (a->worker_1 && (a->flags & ACTOR_FLAG_IDLE)) {
        a->flags &= ~(uint32_t)ACTOR_FLAG_IDLE;
        wake_client(s, a->worker_1 - 1);
    }
}

uint32_t actor_take(struct segment *s, uint32_t actor, uint32_t group)
{
    struct actor_slot *a = actor_at(s, actor);
    uint64_t blocked[CLIENT_WORDS + 1] = {0}; /* all dead callers count as one */
    bool ordered = a->flags & ACTOR_FLAG_ORDERED;
    uint32_t previous_1 = 0, next_1, walked = 0;
    for (uint32_t at_1 = a->head_1; at_1 && !walk_is_over(s, &walked, s->n_tasks); at_1 = next_1) {
        uint32_t task = at_1 - 1;
        struct task_slot *t = task_at(s, task);
        next_1 = t->next_1;
        if (t->caller > MAX_CLIENTS || t->group >= MAX_GROUPS) {
            segment_condemn(s);
            return UINT32_MAX;
        }
        uint32_t state = atomic_load_explicit(&t->state, memory_order_relaxed);
        uint64_t *word = &blocked[t->caller / 64], bit = UINT64_C(1) << (t->caller % 64);
        if (state == TASK_CANCELLED) {
            unlink_call(s, a, previous_1, task);
            drop_cancelled(s, task);
            continue;
        }
        if (state == TASK_READY && !(*word & bit) && (group == ANY_GROUP || group == t->group) &&
            has_room(s, a, t->group)) {
            unlink_call(s, a, previous_1, task);
            actor_count(s, t, true);
            if (ordered && a->head_1)
                /* calls of other groups that had to wait for this one, and which its thread does not take */
                actor_wake(s, actor);
            return task;
        }
        if (ordered)
            *word |= bit;
        previous_1 = at_1;
    }
    a->flags |= ACTOR_FLAG_IDLE;
    return UINT32_MAX;
}

/* ------------------------------------------------------------------ life */

void actor_bind(struct segment *s, uint32_t actor, uint32_t task)
{
    struct actor_slot *a = actor_at(s, actor);
    struct task_slot *t = task_at(s, task);
    struct resource_class *class = class_at(s, t->resource_class);
    int64_t scratch[MAX_KINDS];
    uint32_t mask = t->gpu_mask;
    struct pool *pool = resource_pool(s, t->resource_class);
    bool is_remote = t->flags & TASK_FLAG_REMOTE;
    if (!task_holds_nothing(s, t)) {
        resource_release(s, pool, task_amounts(s, t, scratch), mask);
        resource_keep(s, pool, class->hold, class->hold[KIND_GPU] > 0 ? mask : 0, 1);
    }
    t->flags &= (uint16_t)~TASK_FLAG_BLOCKED;
    STEP();
    atomic_store_explicit(&t->state, TASK_HELD, memory_order_relaxed);
    STEP();
    if (!is_remote) /* a remote node serves any number of them */
        s->clients[s->me].actor_1 = actor + 1;
    a->worker_1 = s->me + 1;
    set_state(s, actor, ACTOR_ALIVE);
    if (!(t->flags & TASK_FLAG_HIDDEN))
        event_write(s, EVENT_FINISHED, t->seq, t->result_1 - 1, EVENT_OK, 0, 0, s->me);
    task_wake_workers(s);
}

static void set_checkpoint(struct segment *s, struct actor_slot *a, uint32_t object_1)
{
    uint32_t before_1 = a->checkpoint_1;
    if (object_1)
        object_pin(s, object_1 - 1);
    STEP();
    a->checkpoint_1 = object_1;
    STEP();
    if (before_1)
        object_unpin(s, before_1 - 1);
}

void actor_checkpoint(struct segment *s, uint32_t actor, uint32_t object)
{
    struct actor_slot *a = actor_at(s, actor);
    if (actor_state(a) == ACTOR_DEAD || !a->task_1)
        return;
    set_checkpoint(s, a, object + 1);
    uint32_t host = task_at(s, a->task_1 - 1)->caller;
    if (a->flags & ACTOR_FLAG_HOSTED && host < MAX_CLIENTS)
        wake_client(s, host); /* its home is waiting for it */
}

/* Gives back what the actor, or its running constructor, holds; the task of its constructor ends. */
static void end_constructor(struct segment *s, uint32_t actor, int32_t detail)
{
    struct actor_slot *a = actor_at(s, actor);
    uint32_t task = a->task_1 - 1, class = task_at(s, task)->resource_class;
    uint32_t code = a->object_1 ? actor_failure(a) : FAILURE_CANCELLED; /* there is no handle */
    struct task_slot *t = task_at(s, task);
    a->task_1 = 0;
    switch (atomic_load_explicit(&t->state, memory_order_relaxed)) {
    case TASK_HELD:
        if (!task_holds_nothing(s, t))
            resource_keep(s, resource_pool(s, class), class_at(s, class)->hold, t->gpu_mask, -1);
        task_release(s, task);
        placement_left(s, class);
        break;
    case TASK_RUNNING:
        task_seal_failed(s, task, code, detail);
        task_finish(s, task, EVENT_ERROR);
        break;
    default: /* still queued, for the first time or for a restart; in that case its first life has sealed the result */
        task_seal_failed(s, task, code, detail);
        task_discard(s, task);
    }
}

void actor_die(struct segment *s, uint32_t actor, int32_t detail)
{
    struct actor_slot *a = actor_at(s, actor);
    if (actor_state(a) == ACTOR_DEAD || actor_state(a) == ACTOR_FREE)
        return;
    if (!(a->flags & ACTOR_FLAG_UNPLACED))
        a->death_detail = detail;
    set_state(s, actor, ACTOR_DEAD);
    actor_reap(s, actor);
}

/* A call leaves the mailbox, where it is behind that one, as failed. */
static void fail_call(struct segment *s, struct actor_slot *a, uint32_t previous_1, uint32_t task)
{
    struct task_slot *t = task_at(s, task);
    unlink_call(s, a, previous_1, task);
    uint32_t state = atomic_load_explicit(&t->state, memory_order_relaxed);
    if (state != TASK_CANCELLED) {
        seal_call(s, a, task);
        if (state != TASK_WAITING)
            t->flags |= TASK_FLAG_LOOSE;
        atomic_store_explicit(&t->state, TASK_CANCELLED, memory_order_relaxed);
        if (state == TASK_DELAYED)
            timer_end(s, task);
        task_release_results(s, task);
        task_record_finished(s, task, EVENT_ERROR);
    }
    drop_cancelled(s, task);
}

/* Its worker has died: if the actor refuses calls, none that could have begun waits for its next life. The caller keeps
 * the actor. */
static void refuse_calls(struct segment *s, struct actor_slot *a)
{
    uint32_t previous_1 = 0, next_1 = 0, walked = 0;
    for (uint32_t at_1 = a->head_1; at_1 && !walk_is_over(s, &walked, s->n_tasks); at_1 = next_1) {
        const struct task_slot *t = task_at(s, at_1 - 1);
        next_1 = t->next_1;
        if (actor_refuses(a, t) && atomic_load_explicit(&t->state, memory_order_relaxed) != TASK_WAITING)
            fail_call(s, a, previous_1, at_1 - 1);
        else
            previous_1 = at_1;
    }
}

void actor_reap(struct segment *s, uint32_t actor)
{
    struct actor_slot *a = actor_at(s, actor);
    uint32_t object = a->object_1 ? a->object_1 - 1 : UINT32_MAX;
    if (object != UINT32_MAX)
        object_pin(s, object); /* the calls that fail below may have the last references to it */
    if (a->task_1)
        end_constructor(s, actor, a->death_detail);
    a->worker_1 = 0;
    set_checkpoint(s, a, 0);
    uint32_t walked = 0;
    while (a->head_1 && !walk_is_over(s, &walked, s->n_tasks))
        fail_call(s, a, 0, a->head_1 - 1);
    if (object != UINT32_MAX) {
        bool detached = a->flags & ACTOR_FLAG_DETACHED;
        a->flags &= ~(uint32_t)ACTOR_FLAG_DETACHED;
        object_unpin(s, object);
        if (detached)
            object_unpin(s, object);
    } else {
        free_slot(s, actor);
    }
}

void actor_construction_failed(struct segment *s, uint32_t actor, uint32_t task, uint32_t error)
{
    struct actor_slot *a = actor_at(s, actor);
    if (object_state(object_at(s, error)) != OBJECT_READY) {
        object_pin(s, error);
        a->death_object_1 = error + 1;
    }
    a->task_1 = 0;
    task_finish(s, task, EVENT_ERROR);
    actor_die(s, actor, 0);
}

bool actor_worker_died(struct segment *s, uint32_t actor, int32_t detail)
{
    struct actor_slot *a = actor_at(s, actor);
    if (actor_state(a) == ACTOR_DEAD || actor_state(a) == ACTOR_FREE)
        return false;
    if ((a->flags & (ACTOR_FLAG_TERMINATE | ACTOR_FLAG_KILLED)) || a->restarts_left == 0 || !a->task_1) {
        actor_die(s, actor, detail);
        return false;
    }
    /* the calls that it refuses may have the last references to it */
    uint32_t object_1 = a->flags & ACTOR_FLAG_REFUSES ? a->object_1 : 0;
    if (object_1) {
        object_pin(s, object_1 - 1);
        refuse_calls(s, a);
    }
    if (a->restarts_left > 0)
        a->restarts_left--;
    struct task_slot *t = task_at(s, a->task_1 - 1);
    a->worker_1 = 0;
    a->flags &= ~(uint32_t)(ACTOR_FLAG_IDLE | ACTOR_FLAG_KILL);
    int64_t scratch[MAX_KINDS];
    bool held = atomic_load_explicit(&t->state, memory_order_relaxed) == TASK_HELD;
    if (!task_holds_nothing(s, t) && held)
        resource_keep(s, resource_pool(s, t->resource_class), class_at(s, t->resource_class)->hold, t->gpu_mask, -1);
    else if (!task_holds_nothing(s, t))
        resource_release(s, resource_pool(s, t->resource_class), task_amounts(s, t, scratch), t->gpu_mask);
    t->gpu_mask = 0;
    t->flags &= (uint16_t)~(TASK_FLAG_BLOCKED | TASK_FLAG_CANCEL | TASK_FLAG_REMOTE);
    task_count_attempt(t);
    set_state(s, actor, ACTOR_RESTARTING);
    atomic_store_explicit(&t->state, TASK_READY, memory_order_relaxed);
    STEP();
    t->worker = UINT16_MAX;
    event_write(s, EVENT_RETRIED, t->seq, t->attempt, 0, 0, 0, s->me);
    task_enqueue(s, a->task_1 - 1, true);
    if (object_1)
        object_unpin(s, object_1 - 1);
    return true;
}

uint32_t actor_kill(struct segment *s, uint32_t actor, bool no_restart)
{
    struct actor_slot *a = actor_at(s, actor);
    uint32_t state = actor_state(a);
    if (state == ACTOR_DEAD || state == ACTOR_FREE)
        return UINT32_MAX;
    if (no_restart)
        a->flags |= ACTOR_FLAG_KILLED;
    struct task_slot *t = a->task_1 ? task_at(s, a->task_1 - 1) : NULL;
    bool is_constructed = t && atomic_load_explicit(&t->state, memory_order_relaxed) == TASK_RUNNING;
    uint32_t client = a->worker_1 ? a->worker_1 - 1 : is_constructed ? t->worker : UINT32_MAX;
    if (client < MAX_CLIENTS && client_at(s, client)->role == ROLE_REMOTE_NODE) {
        a->flags |= ACTOR_FLAG_KILL;
        wake_client(s, client);
        return UINT32_MAX;
    }
    if (client != UINT32_MAX)
        return client;
    if (no_restart || !a->restarts_left) {
        a->flags |= ACTOR_FLAG_KILLED;
        actor_die(s, actor, 0);
    } else if (t) { /* before it has begun: that life is over, and the next one is queued instead */
        a->restarts_left -= a->restarts_left > 0;
        task_count_attempt(t);
        set_state(s, actor, ACTOR_RESTARTING);
    }
    return UINT32_MAX;
}

void actor_unplace(struct segment *s, uint32_t actor, uint32_t number)
{
    struct actor_slot *a = actor_at(s, actor);
    if (!(a->flags & ACTOR_FLAG_UNPLACED)) {
        a->death_detail = (int32_t)number;
        STEP();
        a->flags |= ACTOR_FLAG_KILLED | ACTOR_FLAG_UNPLACED;
        STEP();
    }
    actor_kill(s, actor, true);
}

void actor_unreferenced(struct segment *s, uint32_t actor)
{
    struct actor_slot *a = actor_at(s, actor);
    a->object_1 = 0;
    a->flags |= ACTOR_FLAG_TERMINATE;
    uint32_t state = actor_state(a);
    if (state == ACTOR_DEAD)
        free_slot(s, actor);
    else if (a->worker_1)
        wake_client(s, a->worker_1 - 1);
    else if (!a->task_1 ||
             atomic_load_explicit(&task_at(s, a->task_1 - 1)->state, memory_order_relaxed) != TASK_RUNNING)
        actor_die(s, actor, 0);
}

bool actor_ended(const struct segment *s, uint32_t actor)
{
    const struct actor_slot *a = actor_at(s, actor);
    return (a->flags & (ACTOR_FLAG_TERMINATE | ACTOR_FLAG_KILLED)) && !a->head_1 && !a->n_running;
}

uint32_t actors_detached(const struct segment *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->h->touched_actors; i++) {
        const struct actor_slot *a = actor_at(s, i);
        n += actor_state(a) != ACTOR_FREE && actor_state(a) != ACTOR_DEAD && a->flags & ACTOR_FLAG_DETACHED;
    }
    return n;
}
