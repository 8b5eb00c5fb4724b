#include "tasks/task.h"

#include <string.h>

#include "memory/event.h"
#include "tasks/actor.h"
#include "tasks/placement.h"
#include "tasks/resource.h"
#include "tasks/task_stream.h"
#include "tasks/timer.h"

/* ------------------------------------------------------------------ queues */

static bool is_call(const struct task_slot *t) { return t->actor_1 && !(t->flags & TASK_FLAG_ACTOR_CREATION); }

/* Each function has a lane of its own, so that a few tasks do not wait behind a flood of others. If there are more
 * functions than lanes, some share one. */
static struct lane *lane_by_function(struct resource_class *c, uint32_t function)
{
    struct lane *empty = NULL;
    for (uint32_t i = 0; i < N_LANES; i++) {
        struct lane *l = &c->lanes[i];
        if (l->function_1 == function + 1)
            return l;
        if (!l->head_1 && !empty)
            empty = l;
    }
    if (!empty)
        return &c->lanes[function % N_LANES];
    empty->function_1 = function + 1;
    return empty;
}

static struct lane *lane_by_depth(struct resource_class *c, uint32_t depth)
{
    return &c->lanes[N_LANES + (depth - 1) % N_DEPTHS];
}

static void queue_push(struct segment *s, struct resource_class *c, struct task_slot *t, uint32_t task, bool first)
{
    struct lane *l = t->depth ? lane_by_depth(c, t->depth) : lane_by_function(c, t->function);
    if (t->depth) /* those that may pass a full gate are found at the head, and the last lane has tasks of any depth */
        first = t->in_place || t->depth == N_DEPTHS;
    if (!l->head_1 && l->turn < s->h->turn)
        l->turn = s->h->turn; /* an idle lane does not save up turns */
    t->next_1 = first ? l->head_1 : 0;
    t->next_waiting_1 = first ? 0 : l->tail_1;
    if (t->next_1)
        task_at(s, t->next_1 - 1)->next_waiting_1 = task + 1;
    else
        l->tail_1 = task + 1;
    if (t->next_waiting_1)
        task_at(s, t->next_waiting_1 - 1)->next_1 = task + 1;
    else
        l->head_1 = task + 1;
    STEP();
    if (t->depth) {
        c->depths |= UINT32_C(1) << ((t->depth - 1) % N_DEPTHS);
        c->n_in_place += t->in_place;
        s->h->n_deep++;
    }
    c->n_ready++;
    s->h->n_ready++;
}

static void queue_remove(struct segment *s, struct resource_class *c, struct task_slot *t, uint32_t task)
{
    if (s->h->holds_back)
        resource_unreserve(s, t->resource_class);
    uint32_t next_1 = t->next_1, previous_1 = t->next_waiting_1;
    struct lane *l = t->depth ? lane_by_depth(c, t->depth) : c->lanes, *last = t->depth ? l : c->lanes + N_LANES - 1;
    while ((!previous_1 && l->head_1 != task + 1) || (!next_1 && l->tail_1 != task + 1))
        if (l++ == last) { /* the lane matters only at its ends */
            segment_condemn(s);
            return;
        }
    if (next_1)
        task_at(s, next_1 - 1)->next_waiting_1 = previous_1;
    else
        l->tail_1 = previous_1;
    if (previous_1)
        task_at(s, previous_1 - 1)->next_1 = next_1;
    else
        l->head_1 = next_1;
    t->next_1 = t->next_waiting_1 = 0;
    STEP();
    if (t->depth) {
        if (!l->head_1)
            c->depths &= ~(UINT32_C(1) << ((t->depth - 1) % N_DEPTHS));
        c->n_in_place -= t->in_place;
        s->h->n_deep--;
    }
    c->n_ready--;
    s->h->n_ready--;
}

void task_deepen(struct segment *s, uint32_t task, uint32_t depth, bool in_place)
{
    struct task_slot *t = task_at(s, task);
    bool queued = atomic_load_explicit(&t->state, memory_order_relaxed) == TASK_READY && !is_call(t);
    if (queued)
        queue_remove(s, class_at(s, t->resource_class), t, task);
    t->depth = depth & 15;
    t->in_place = in_place;
    STEP();
    if (queued)
        queue_push(s, class_at(s, t->resource_class), t, task, false);
}

void task_to_front(struct segment *s, uint32_t task)
{
    struct task_slot *t = task_at(s, task);
    if (is_call(t) || t->depth || atomic_load_explicit(&t->state, memory_order_relaxed) != TASK_READY)
        return;
    queue_remove(s, class_at(s, t->resource_class), t, task);
    STEP();
    queue_push(s, class_at(s, t->resource_class), t, task, true);
}

/* An idle worker that can run tasks of a class. */
static uint32_t idle_for(const struct segment *s, uint32_t class)
{
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        for (uint64_t bits = s->h->idle[w]; bits; bits &= bits - 1) {
            uint32_t client = w * 64 + (uint32_t)__builtin_ctzll(bits);
            if (!s->h->n_envs || worker_suits(s, client, class))
                return client;
        }
    return UINT32_MAX;
}

void task_tell_agent(struct segment *s)
{
    if (s->h->agent_1)
        wake_client(s, s->h->agent_1 - 1);
    s->h->agent_1 = 0; /* once: it asks again after it has looked */
}

static __attribute__((noinline)) void wake_worker(struct segment *s)
{
    struct header *h = s->h;
    uint32_t worker = UINT32_MAX;
    for (uint32_t i = 0; i < h->n_classes && worker == UINT32_MAX; i++) {
        const struct resource_class *c = class_at(s, i);
        if (c->n_ready && resource_admissible(s, c)) {
            worker = idle_for(s, i);
            if (worker == UINT32_MAX)
                request_attention(s); /* the scheduler decides whether the pool grows */
        } else if (c->n_ready) {
            gate_watch(s, c);
        }
    }
    if (worker == UINT32_MAX) {
        task_tell_agent(s);
        return;
    }
    h->idle[worker / 64] &= ~(UINT64_C(1) << (worker % 64));
    h->waking_1 = worker + 1;
    wake_client(s, worker);
}

/* At most one worker is being woken; it calls this again when it has taken its task. */
void task_wake_workers(struct segment *s)
{
    struct header *h = s->h;
    if (h->n_unplaced)
        placement_grant(s);
    if (h->holds_back) {
        task_wake_returning(s);
        resource_lapse(s);
    }
    if (!h->waking_1 && h->n_ready)
        wake_worker(s);
}

void task_enqueue(struct segment *s, uint32_t task, bool first)
{
    struct task_slot *t = task_at(s, task);
    if (is_call(t)) {
        actor_wake(s, t->actor_1 - 1); /* it is in the mailbox already */
        return;
    }
    struct resource_class *c = class_at(s, t->resource_class);
    queue_push(s, c, t, task, first);
    bool may_be_remote = placement_of(s, c)->routed, is_routed = resource_is_routed(s, c);
    if (may_be_remote || (is_routed && s->h->director_1 != NO_DIRECTOR))
        task_tell_agent(s);
    else if (is_routed)
        request_attention(s);
    task_wake_workers(s);
}

void task_reclass(struct segment *s, uint32_t task, uint32_t class)
{
    struct task_slot *t = task_at(s, task);
    queue_remove(s, class_at(s, t->resource_class), t, task);
    STEP();
    t->resource_class = (uint16_t)class;
    STEP();
    task_enqueue(s, task, t->asked_for);
}

void task_advance(struct segment *s, uint32_t task)
{
    struct task_slot *t = task_at(s, task);
    for (const uint32_t *refs = t->n_dependencies ? task_refs(s, t) : NULL; t->cursor < t->n_dependencies;
         t->cursor++) {
        struct object_slot *o = object_at(s, refs[t->cursor]);
        if (!object_sealed(o)) {
            t->next_waiting_1 = o->first_waiting_1;
            STEP();
            o->first_waiting_1 = task + 1;
            if (t->depth)
                task_await(s, refs[t->cursor], t->depth, 0);
            return;
        }
    }
    STEP();
    atomic_store_explicit(&t->state, TASK_READY, memory_order_relaxed);
    STEP();
    task_enqueue(s, task, t->asked_for);
}

/* A result is sealed: the tasks that wait for it move on, in the order of their arrival. */
void task_release_waiting(struct segment *s, uint32_t object)
{
    struct object_slot *o = object_at(s, object);
    uint32_t list_1 = o->first_waiting_1, in_order_1 = 0, walked = 0;
    o->first_waiting_1 = 0;
    while (list_1 && !walk_is_over(s, &walked, s->n_tasks)) { /* the list is last in, first out */
        struct task_slot *t = task_at(s, list_1 - 1);
        uint32_t next_1 = t->next_waiting_1;
        t->next_waiting_1 = in_order_1;
        in_order_1 = list_1;
        list_1 = next_1;
    }
    STEP();
    for (walked = 0; in_order_1 && !walk_is_over(s, &walked, s->n_tasks);) {
        uint32_t task = in_order_1 - 1;
        struct task_slot *t = task_at(s, task);
        in_order_1 = t->next_waiting_1;
        t->next_waiting_1 = 0;
        uint32_t state = atomic_load_explicit(&t->state, memory_order_relaxed);
        if (state == TASK_WAITING) {
            task_advance(s, task);
            if (t->asked_for)
                task_ask_for_next(s, task);
        } else if (state == TASK_CANCELLED && (!is_call(t) || (t->flags & TASK_FLAG_LOOSE)))
            task_release(s, task);
        else if (state == TASK_CANCELLED)
            t->flags |= TASK_FLAG_LOOSE; /* its mailbox drops it */
    }
}

/* ------------------------------------------------------------------ submit */

static int take_slot(struct segment *s, uint32_t *task)
{
    struct header *h = s->h;
    if (h->free_task_1) {
        *task = h->free_task_1 - 1;
        if (*task >= s->n_tasks || atomic_load_explicit(&s->tasks[*task].state, memory_order_relaxed) != TASK_FREE) {
            segment_condemn(s);
            return OBJSTORE_CORRUPT;
        }
        h->free_task_1 = s->tasks[*task].next_1;
    } else if (h->touched_tasks < s->n_tasks) {
        *task = h->touched_tasks;
        h->touched_tasks = *task + 1;
    } else {
        return OBJSTORE_LIMIT;
    }
    STEP();
    return OBJSTORE_OK;
}

static void give_slot(struct segment *s, struct task_slot *t, uint32_t task)
{
    t->next_1 = s->h->free_task_1;
    s->h->free_task_1 = task + 1;
}

static void record_submitted(struct segment *s, const struct task_slot *t, const uint32_t *refs)
{
    if (t->flags & TASK_FLAG_HIDDEN)
        return;
    event_write(s, EVENT_SUBMITTED, t->seq, t->function, t->origin, t->actor_1,
                (uint16_t)object_at(s, t->function)->generation, s->me);
    if (t->parent)
        event_write(s, EVENT_PARENT, t->seq, (uint32_t)t->parent, (uint32_t)(t->parent >> 32), 0, 0, s->me);
    for (uint32_t i = 0; i < t->n_dependencies; i++) {
        uint64_t creator = object_at(s, refs[i])->creator;
        event_write(s, EVENT_DEPENDS, t->seq, (uint32_t)creator, (uint32_t)(creator >> 32), refs[i], 0, s->me);
    }
}

static int create_results(struct segment *s, uint32_t n, uint64_t seq, uint32_t task, uint32_t *results)
{
    for (uint32_t i = 0; i < n; i++) {
        int error = object_create(s, s->me, seq, &results[i]);
        if (error) {
            while (i--)
                object_drop(s, results[i], s->me);
            return error;
        }
        s->objects[results[i]].u.pending.task_1 = task + 1;
    }
    return OBJSTORE_OK;
}

int task_submit(struct segment *s, const struct task_spec *spec, uint32_t *results, uint32_t *out)
{
    struct header *h = s->h;
    uint32_t task, n_more = spec->n_returns > 1 ? spec->n_returns - 1 : 0;
    /* those of a remote node were admitted where they were made */
    if (spec->actor_1 && s->clients[s->me].role != ROLE_REMOTE_NODE && !actor_admits(s, spec->actor_1 - 1))
        return OBJSTORE_PENDING;
    if (!placement_is(s, spec->resource_class, spec->placement))
        return OBJSTORE_NOT_FOUND;
    int error = take_slot(s, &task);
    if (error)
        return error;
    struct task_slot *t = &s->tasks[task];
    uint64_t bytes = ((uint64_t)spec->n_refs + n_more) * 4 + spec->arguments_size, offset = 0, seq = h->next_seq++;
    if (bytes > TASK_INLINE_SIZE && !(offset = arena_alloc(segment_arena(s), s->base, bytes, ARENA_BUILDING, s->me)))
        error = OBJSTORE_FULL;
    STEP();
    if (!error && (error = create_results(s, spec->n_returns, seq, task, results)) && offset)
        arena_free(segment_arena(s), s->base, offset);
    if (error) {
        give_slot(s, t, task);
        return error;
    }
    t->next_1 = t->next_waiting_1 = 0;
    t->result_1 = spec->n_returns ? results[0] + 1 : 0;
    t->function = spec->function;
    t->n_returns = (uint16_t)spec->n_returns;
    t->attempt = 0;
    t->resource_class = (uint16_t)spec->resource_class;
    t->worker = UINT16_MAX;
    t->actor_1 = spec->actor_1;
    t->n_refs = spec->n_refs;
    t->n_dependencies = spec->n_dependencies;
    t->cursor = 0;
    t->origin = spec->origin;
    t->max_retries = spec->max_retries;
    t->flags = spec->flags;
    t->arguments_size = spec->arguments_size;
    t->caller = s->me & 511;
    t->depth = t->asked_for = t->in_place = 0;
    t->group = spec->group;
    t->gpu_mask = 0;
    t->offset = offset;
    t->seq = seq;
    t->parent = spec->parent;
    if (spec->times) {
        *times_at(s, task) = (struct task_times){.limits = *spec->times, .heap_1 = times_at(s, task)->heap_1};
        t->flags |= TASK_FLAG_TIMED;
    }
    uint32_t *refs = (uint32_t *)(void *)(offset ? s->base + offset : t->inline_data);
    if (spec->n_refs)
        memcpy(refs, spec->refs, spec->n_refs * sizeof *refs);
    for (uint32_t i = 0; i < n_more; i++)
        refs[spec->n_refs + i] = results[i + 1];
    if (spec->arguments_size)
        memcpy(refs + spec->n_refs + n_more, spec->arguments, spec->arguments_size);
    STEP();
    atomic_store_explicit(&t->state, TASK_WAITING, memory_order_release); /* the commit */
    STEP();
    if (offset)
        arena_set_owner(s->base, offset, ARENA_TASK, task);
    object_pin(s, spec->function);
    for (uint32_t i = 0; i < spec->n_refs; i++)
        object_pin(s, spec->refs[i]);
    for (uint32_t i = 0; i < spec->n_returns; i++)
        s->objects[results[i]].pins++;
    h->n_live_tasks++;
    STEP();
    record_submitted(s, t, refs);
    *out = task;
    if (spec->actor_1 && !(spec->flags & TASK_FLAG_ACTOR_CREATION) && !actor_post(s, spec->actor_1 - 1, task))
        return OBJSTORE_OK; /* dead: sealed and finished */
    task_advance(s, task);
    return OBJSTORE_OK;
}

/* ------------------------------------------------------------------ pop */

#define N_PASSED_OVER 4 /* rounds without capacity for a lane, after which the needs of its next task are reserved */

/* Of two lanes the one with the earlier turn, then the one with the older task. */
static bool is_before(const struct segment *s, const struct lane *l, const struct lane *other)
{
    return !other || l->turn < other->turn ||
           (l->turn == other->turn && task_at(s, l->head_1 - 1)->seq < task_at(s, other->head_1 - 1)->seq);
}

/* The lane of a class without capacity that gets a reservation, as others have overtaken it. NULL: none, it can wait.
 */
static const struct lane *passed_over(const struct segment *s, const struct resource_class *class)
{
    const struct lane *best = NULL;
    for (const struct lane *l = class->lanes; l < class->lanes + N_LANES + (class->depths ? N_DEPTHS : 0); l++)
        if (l->head_1 && s->h->turn >= l->turn + N_PASSED_OVER && is_before(s, l, best))
            best = l;
    return best;
}

/* The lane whose turn it is among those whose tasks fit now, and the pool they fit into. */
static struct lane *next_lane(struct segment *s, uint32_t *pool)
{
    struct header *h = s->h;
    struct lane *best = NULL;
    const struct lane *passed = NULL;
    uint32_t passed_class = 0;
    for (uint32_t c = 0; c < h->n_classes; c++) {
        struct resource_class *class = class_at(s, c);
        if (!class->n_ready || (h->n_envs && !worker_suits(s, s->me, c)))
            continue;
        uint32_t room = resource_room_on(s, class, POOL_HERE);
        if (__builtin_expect(room == UINT32_MAX, 0)) {
            const struct lane *l = passed_over(s, class);
            if (l && is_before(s, l, passed)) {
                passed = l;
                passed_class = c;
            }
            continue;
        }
        for (struct lane *l = class->lanes; l < class->lanes + N_LANES; l++)
            if (l->head_1 && is_before(s, l, best)) {
                best = l;
                *pool = room;
            }
    }
    if (__builtin_expect(passed && best, 0) && resource_reserve(s, passed_class))
        return next_lane(s, pool); /* once: there is one reservation */
    return best;
}

/* The lane of the tasks of a class that are waited for at the greatest depth and may pass its gate; `*depth` 0: none.
 */
static struct lane *deepest(struct segment *s, struct resource_class *c, uint32_t *depth)
{
    bool in_place = !gate_is_open(s, c);
    for (uint32_t bits = c->depths; bits; bits &= ~(UINT32_C(1) << (*depth - 1))) {
        *depth = 32u - (uint32_t)__builtin_clz(bits);
        struct lane *l = lane_by_depth(c, *depth);
        if (l->head_1 && (!in_place || task_at(s, l->head_1 - 1)->in_place))
            return l;
    }
    *depth = 0;
    return NULL;
}

/* The same if there are terms, or tasks that other tasks wait for: of the highest priority, with an open gate, and
 * before all others those that are waited for, the deepest first (decision 123). */
static __attribute__((noinline)) struct lane *next_lane_by_rank(struct segment *s, uint32_t *pool)
{
    struct header *h = s->h;
    struct lane *best = NULL;
    const struct lane *passed = NULL;
    uint32_t passed_class = 0, depth = 0;                      /* of the lane found */
    int32_t priority = INT32_MIN, passed_priority = INT32_MIN; /* of the lane found */
    for (uint32_t c = 0; c < h->n_classes; c++) {
        struct resource_class *class = class_at(s, c);
        if (!class->n_ready || class->terms.priority < priority || (h->n_envs && !worker_suits(s, s->me, c)))
            continue;
        uint32_t room = resource_room(s, class);
        if (room == UINT32_MAX) {
            gate_watch(s, class);
            const struct lane *l =
                class->terms.priority >= passed_priority && gate_is_open(s, class) ? passed_over(s, class) : NULL;
            if (l && (class->terms.priority > passed_priority || is_before(s, l, passed))) {
                passed = l;
                passed_class = c;
                passed_priority = class->terms.priority;
            }
            continue;
        }
        if (class->terms.priority > priority) {
            best = NULL;
            depth = 0;
            priority = class->terms.priority;
        }
        uint32_t at;
        struct lane *deep = deepest(s, class, &at);
        if (at > depth) {
            best = deep;
            depth = at;
            *pool = room;
        }
        for (struct lane *l = class->lanes; !depth && l < class->lanes + N_LANES && gate_is_open(s, class); l++)
            if (l->head_1 && is_before(s, l, best)) {
                best = l;
                *pool = room;
            }
    }
    if (passed && best && !depth && passed_priority >= priority && resource_reserve(s, passed_class))
        return next_lane_by_rank(s, pool); /* once for each priority */
    return best;
}

/* It takes its resources from that one of its pools. */
static uint32_t acquire(struct segment *s, const struct resource_class *c, struct task_slot *t, uint32_t pool)
{
    if (c->place.n_pools > 1) {
        uint32_t class;
        /* exists */
        resource_class_at(s, t->resource_class,
                          (struct place){.pool = (uint16_t)pool, .n_pools = 1, .captures = c->place.captures}, &class);
        t->resource_class = (uint16_t)class;
    }
    return resource_acquire(s, pool_at(s, pool), c->demand);
}

/* Whether the first entry of a queue is a task that may begin. */
static bool can_start(struct segment *s, uint32_t task)
{
    if (task < s->n_tasks && atomic_load_explicit(&s->tasks[task].state, memory_order_relaxed) == TASK_READY)
        return true;
    segment_condemn(s);
    return false;
}

static void start(struct segment *s, struct task_slot *t, uint32_t task)
{
    t->worker = (uint16_t)s->me;
    if (__builtin_expect(s->h->has_terms, 0))
        gate_pass(s, t, 1);
    STEP();
    atomic_store_explicit(&t->state, TASK_RUNNING, memory_order_relaxed);
    STEP();
    struct client_slot *me = &s->clients[s->me];
    if (!me->last_seq)
        me->env = class_at(s, t->resource_class)->env;
    me->task_1 = task + 1;
    me->last_seq = t->seq;
    me->last_origin = t->origin;
    if (!(t->flags & TASK_FLAG_HIDDEN))
        event_write(s, EVENT_STARTED, t->seq, t->attempt, me->node ? 0 : (uint32_t)me->pid, me->node, 0, s->me);
}

static uint32_t pop_plain(struct segment *s)
{
    struct header *h = s->h;
    uint64_t my_bit = UINT64_C(1) << (s->me % 64), *idle = &h->idle[s->me / 64];
    if (h->waking_1 == s->me + 1)
        h->waking_1 = 0;
    *idle &= ~my_bit;
    if (h->n_unplaced)
        placement_grant(s);
    if (h->holds_back)
        resource_lapse(s);
    uint32_t pool = 0;
    struct lane *lane = !h->n_ready                                        ? NULL
                        : __builtin_expect(!h->has_terms && !h->n_deep, 1) ? next_lane(s, &pool)
                                                                           : next_lane_by_rank(s, &pool);
    if (!lane || !can_start(s, lane->head_1 - 1)) {
        s->clients[s->me].task_1 = 0;
        *idle |= my_bit;
        if (h->n_envs)
            task_wake_workers(s); /* what this worker cannot run, another idle one may */
        return UINT32_MAX;
    }
    uint32_t task = lane->head_1 - 1;
    struct task_slot *t = task_at(s, task);
    if (t->depth)
        lane->turn = h->turn; /* which is not theirs: how many there are makes nobody late */
    else
        task_serve_lane(h, lane);
    struct resource_class *c = class_at(s, t->resource_class);
    queue_remove(s, c, t, task);
    /* of a client that died before it had begun it */
    t->flags &= (uint16_t)~TASK_FLAG_REMOTE;
    t->gpu_mask = acquire(s, c, t, pool);
    STEP();
    start(s, t, task);
    task_wake_workers(s);
    return task;
}

void task_send(struct segment *s, uint32_t task, uint32_t pool)
{
    struct task_slot *t = task_at(s, task);
    struct resource_class *c = class_at(s, t->resource_class);
    queue_remove(s, c, t, task);
    if (pool)
        t->gpu_mask = acquire(s, c, t, pool);
    t->flags |= TASK_FLAG_REMOTE;
    t->begun = 0;
    STEP();
    start(s, t, task);
}

static uint32_t pop_call(struct segment *s, uint32_t actor, uint32_t group)
{
    uint32_t task = actor_take(s, actor, group);
    if (task != UINT32_MAX)
        start(s, task_at(s, task), task);
    return task;
}

uint32_t task_pop_of(struct segment *s, uint32_t group)
{
    uint32_t actor_1 = s->clients[s->me].actor_1;
    return actor_1 ? pop_call(s, actor_1 - 1, group) : pop_plain(s);
}

uint32_t task_pop_borrowed(struct segment *s, bool calls)
{
    uint32_t actor_1 = s->clients[s->me].actor_1;
    uint32_t task = actor_1 && calls ? pop_call(s, actor_1 - 1, ANY_GROUP) : UINT32_MAX;
    return task == UINT32_MAX ? pop_plain(s) : task;
}

uint32_t task_pop(struct segment *s) { return task_pop_of(s, ANY_GROUP); }

uint32_t task_pop_call(struct segment *s, uint32_t actor) { return pop_call(s, actor, ANY_GROUP); }

/* ------------------------------------------------------------------ ending */

const int64_t *task_amounts(struct segment *s, const struct task_slot *t, int64_t scratch[MAX_KINDS])
{
    if (is_call(t))
        return NULL; /* calls use what their actor holds */
    const int64_t *demand = class_at(s, t->resource_class)->demand;
    if (task_holds_nothing(s, t))
        return memset(scratch, 0, sizeof(int64_t) * MAX_KINDS);
    if (!(t->flags & TASK_FLAG_BLOCKED))
        return demand;
    memcpy(scratch, demand, sizeof(int64_t) * MAX_KINDS);
    scratch[KIND_CPU] = 0;
    return scratch;
}

void task_empty(const struct segment *s, struct task_slot *t)
{
    segment_stray(s);
    t->offset = 0;
    t->n_refs = t->n_dependencies = t->cursor = t->arguments_size = t->n_returns = 0;
}

static void release(struct segment *s, struct task_slot *t, uint32_t task)
{
    struct header *h = s->h;
    const uint32_t *refs = task_refs(s, t);
    uint64_t offset = t->offset;
    uint32_t function = t->function, actor_1 = t->actor_1, n_refs = t->n_refs, n_returns = t->n_returns;
    uint32_t first_result_1 = t->result_1;
    bool creation = t->flags & TASK_FLAG_ACTOR_CREATION;
    uint32_t inline_copy[TASK_INLINE_SIZE / 4];
    if (!offset) {
        memcpy(inline_copy, t->inline_data, sizeof inline_copy);
        refs = inline_copy;
    }
    STEP();
    atomic_store_explicit(&t->state, TASK_FREE, memory_order_release);
    STEP();
    object_unpin(s, function);
    for (uint32_t i = 0; i < n_refs; i++)
        object_unpin(s, refs[i]);
    for (uint32_t i = 0; i + 1 < n_returns; i++)
        object_unpin(s, refs[n_refs + i]);
    if (first_result_1)
        object_unpin(s, first_result_1 - 1);
    STEP();
    if (offset && arena_free(segment_arena(s), s->base, offset) != OBJSTORE_OK)
        segment_condemn(s);
    h->n_live_tasks--;
    STEP();
    give_slot(s, t, task);
    if (actor_1 && !creation && actor_at(s, actor_1 - 1)->object_1)
        object_unpin(s, actor_at(s, actor_1 - 1)->object_1 - 1); /* each call keeps its actor */
}

void task_release(struct segment *s, uint32_t task) { release(s, task_at(s, task), task); }

static void give_back(struct segment *s, struct task_slot *t, uint32_t task)
{
    if (t->flags & TASK_FLAG_RETURNS)
        task_set_returns(s, t, false);
    int64_t scratch[MAX_KINDS];
    const int64_t *amounts = task_amounts(s, t, scratch);
    if (amounts)
        resource_release(s, resource_pool(s, t->resource_class), amounts, t->gpu_mask);
    else
        actor_count(s, t, false);
    if (__builtin_expect(s->h->has_terms, 0))
        gate_pass(s, t, -1);
    t->gpu_mask = 0;
    t->flags &= (uint16_t)~(TASK_FLAG_BLOCKED | TASK_FLAG_REMOTE);
    if (__builtin_expect(t->flags & TASK_FLAG_TIMED, 0))
        timer_end(s, task);
}

void task_seal_failed(struct segment *s, uint32_t task, uint32_t code, int32_t detail)
{
    struct task_slot *t = task_at(s, task);
    for (uint32_t i = 0; i < task_n_results(s, t); i++)
        object_seal_failed(s, task_result(s, t, i), code, detail, t->seq);
}

/* Writes the event: the slot and size of the result, and how the task ended. */
static void record_finished(struct segment *s, const struct task_slot *t, uint32_t status)
{
    if (t->flags & TASK_FLAG_HIDDEN)
        return;
    uint64_t size = t->result_1 ? object_at(s, t->result_1 - 1)->size : 0;
    event_write(s, EVENT_FINISHED, t->seq, t->result_1 - 1, status, size < UINT32_MAX ? (uint32_t)size : UINT32_MAX, 0,
                s->me);
}

void task_record_finished(struct segment *s, uint32_t task, uint32_t status)
{
    record_finished(s, task_at(s, task), status);
}

static void release_results(struct segment *s, struct task_slot *t, uint32_t task)
{
    if (t->flags & TASK_FLAG_STREAM)
        stream_end(s, task_stream(s, task), t->seq);
    for (uint32_t i = 0; i < task_n_results(s, t); i++)
        task_release_waiting(s, task_result(s, t, i));
}

void task_release_results(struct segment *s, uint32_t task) { release_results(s, task_at(s, task), task); }

void task_finish(struct segment *s, uint32_t task, uint32_t status)
{
    struct task_slot *t = task_at(s, task);
    give_back(s, t, task);
    release_results(s, t, task);
    record_finished(s, t, status);
    s->h->n_finished++;
    if (t->worker < MAX_CLIENTS)
        client_at(s, t->worker)->n_finished++;
    uint32_t class = t->resource_class;
    release(s, t, task);
    placement_left(s, class);
    task_wake_workers(s);
}

uint32_t task_finish_and_pop(struct segment *s, uint32_t task, uint32_t status, uint32_t group)
{
    /* No worker is woken for a task that this one may take, nor is the scheduler asked for more workers. */
    if (!s->clients[s->me].actor_1 && !s->h->waking_1)
        s->h->waking_1 = s->me + 1;
    STEP();
    task_finish(s, task, status);
    return task_pop_of(s, group);
}

static void retry(struct segment *s, uint32_t task, bool waits)
{
    struct task_slot *t = task_at(s, task);
    const struct pool *group = placement_head(s, t->resource_class);
    if (!placement_lives(group)) {
        task_seal_failed(s, task, FAILURE_UNPLACED, (int32_t)group->number);
        task_finish(s, task, EVENT_ERROR);
        return;
    }
    const struct client_slot *there = t->worker < MAX_CLIENTS ? client_at(s, t->worker) : NULL;
    give_back(s, t, task);
    task_note_results(s, task);
    uint32_t delay = waits && t->flags & TASK_FLAG_TIMED ? timer_delay(s, task) : 0;
    task_count_attempt(t);
    t->flags &= (uint16_t)~TASK_FLAG_CANCEL;
    STEP();
    atomic_store_explicit(&t->state, delay ? TASK_DELAYED : TASK_READY, memory_order_relaxed);
    STEP();
    t->worker = UINT16_MAX; /* not before: a running task without a worker would belong to none */
    if (!(t->flags & TASK_FLAG_HIDDEN))
        event_write(s, EVENT_RETRIED, t->seq, t->attempt, delay, there ? there->node : 0,
                    there && atomic_load(&there->state) == CLIENT_DYING, s->me);
    if (delay)
        timer_push(s, task);
    if (is_call(t))
        actor_return(s, t->actor_1 - 1, task);
    else if (!delay)
        task_enqueue(s, task, true);
}

void task_retry(struct segment *s, uint32_t task) { retry(s, task, true); }

void task_retry_at_once(struct segment *s, uint32_t task) { retry(s, task, false); }

uint32_t task_producing(const struct segment *s, uint32_t object)
{
    const struct object_slot *o = object_at(s, object);
    uint32_t task = object_producer_1(o) - 1;
    if (task >= s->h->touched_tasks)
        return UINT32_MAX;
    const struct task_slot *t = task_at(s, task);
    return atomic_load_explicit(&t->state, memory_order_relaxed) != TASK_FREE && t->seq == o->creator ? task
                                                                                                      : UINT32_MAX;
}

void task_note_results(struct segment *s, uint32_t task)
{
    struct task_slot *t = task_at(s, task);
    for (uint32_t i = 0; i < task_n_results(s, t); i++) {
        struct object_slot *o = object_at(s, task_result(s, t, i));
        if (!object_sealed(o))
            o->u.pending.task_1 = task + 1;
    }
}

void task_doom(struct segment *s, uint32_t task)
{
    struct task_slot *t = task_at(s, task);
    if (t->flags & TASK_FLAG_TIMED)
        times_at(s, task)->timed_out = 0;
    STEP();
    t->flags |= TASK_FLAG_CANCEL;
}

enum cancel_outcome task_cancel(struct segment *s, uint32_t object, uint32_t *task, uint32_t *worker)
{
    struct object_slot *o = object_at(s, object);
    if (o->creator & PUT_BIT)
        return CANCEL_NO_TASK;
    *task = task_producing(s, object);
    if (*task == UINT32_MAX) {
        *task = 0;
        return CANCEL_FINISHED;
    }
    struct task_slot *t = task_at(s, *task);
    uint32_t state = atomic_load_explicit(&t->state, memory_order_relaxed);
    if (state == TASK_RUNNING) {
        task_doom(s, *task);
        *worker = t->worker;
        return CANCEL_RUNNING;
    }
    if (state != TASK_READY && state != TASK_WAITING && state != TASK_DELAYED)
        return CANCEL_FINISHED;
    task_seal_failed(s, *task, FAILURE_CANCELLED, 0);
    task_discard(s, *task);
    return CANCEL_PENDING;
}

void task_discard(struct segment *s, uint32_t task)
{
    struct task_slot *t = task_at(s, task);
    uint32_t state = atomic_load_explicit(&t->state, memory_order_relaxed);
    bool ready = state != TASK_WAITING, call = is_call(t);
    STEP();
    atomic_store_explicit(&t->state, TASK_CANCELLED, memory_order_relaxed);
    STEP();
    if (state == TASK_DELAYED)
        timer_end(s, task);
    if (ready && call)
        t->flags |= TASK_FLAG_LOOSE;
    else if (state == TASK_READY)
        queue_remove(s, class_at(s, t->resource_class), t, task);
    task_record_finished(s, task, EVENT_CANCELLED);
    task_release_results(s, task);
    if (call) {
        actor_wake(s, t->actor_1 - 1);
        actor_tidy(s, t->actor_1 - 1); /* last: the task is gone, and perhaps its actor */
    } else if (ready)
        task_release(s, task); /* otherwise the waiting list drops it */
}

bool task_fail_deepest(struct segment *s, uint32_t n_processes)
{
    uint32_t depth = 0, task_1 = 0;
    for (uint32_t c = 0; c < s->h->n_classes; c++) {
        uint32_t at;
        const struct lane *l = resource_admissible(s, class_at(s, c)) ? deepest(s, class_at(s, c), &at) : NULL;
        if (l && at > depth) {
            depth = at;
            task_1 = l->head_1;
        }
    }
    for (uint32_t i = 0; i < s->h->touched_tasks; i++)
        if (atomic_load_explicit(&s->tasks[i].state, memory_order_relaxed) == TASK_RUNNING &&
            s->tasks[i].flags & TASK_FLAG_REMOTE)
            return false;
    if (!task_1 || !can_start(s, task_1 - 1) || task_at(s, task_1 - 1)->actor_1)
        return false;
    task_seal_failed(s, task_1 - 1, FAILURE_TOO_DEEP, (int32_t)n_processes);
    task_discard(s, task_1 - 1);
    return true;
}

/* Workers that have attached and are about to take their first task. */
static uint32_t n_arriving(const struct segment *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        const struct client_slot *c = &s->clients[i];
        bool idle = s->h->idle[i / 64] >> (i % 64) & 1;
        n += atomic_load(&c->state) == CLIENT_ATTACHED && c->role == ROLE_WORKER && !c->last_seq && !idle;
    }
    return n;
}

uint32_t task_workers_wanted(struct segment *s)
{
    struct header *h = s->h;
    int64_t room[MAX_KINDS];
    memcpy(room, h->pools[0].available, sizeof room);
    uint32_t wanted = 0, missing = 0, idle = n_arriving(s) + (h->waking_1 ? 1 : 0);
    uint64_t left[CLIENT_WORDS]; /* idle workers that no class counts on yet; only if environments differ */
    memcpy(left, h->idle, sizeof left);
    for (uint32_t c = 0; c < h->n_classes; c++) {
        int64_t fits = resource_startable(s, c, room);
        wanted += fits > 0 ? (uint32_t)fits : 0;
        for (uint32_t i = 0; h->n_envs && i < MAX_CLIENTS && fits > 0; i++)
            if (left[i / 64] >> (i % 64) & 1 && worker_suits(s, i, c)) {
                left[i / 64] &= ~(UINT64_C(1) << (i % 64));
                fits--;
            }
        missing += fits > 0 ? (uint32_t)fits : 0;
    }
    if (h->n_envs)
        return missing > idle ? missing - idle : 0;
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        idle += (uint32_t)__builtin_popcountll(h->idle[w]);
    return wanted > idle ? wanted - idle : 0;
}

/* ------------------------------------------------------------------ tasks that can never run */

static bool is_forgotten(struct segment *s, uint32_t object)
{
    const struct object_slot *o = object_at(s, object);
    return o->pins == 1 && !object_held(o); /* the pin is its task's */
}

/* A cluster may get a node for it, and a placement group is placed again. */
static bool can_never_run(struct segment *s, uint32_t task)
{
    const struct task_slot *t = task_at(s, task);
    return atomic_load_explicit(&t->state, memory_order_relaxed) == TASK_READY && !t->actor_1 && !s->h->director_1 &&
           !class_at(s, t->resource_class)->place.pool && !resource_feasible(s, t->resource_class);
}

/* Cancels the tasks that can never run and whose results nobody can ask for any more. False: there are none. */
static bool end_hopeless(struct segment *s)
{
    bool any = false;
    for (uint32_t i = 0; i < s->h->touched_tasks; i++) {
        if (!can_never_run(s, i))
            continue;
        uint32_t n = 0;
        while (n < task_at(s, i)->n_returns && is_forgotten(s, task_result(s, task_at(s, i), n)))
            n++;
        if (n < task_at(s, i)->n_returns)
            continue;
        task_seal_failed(s, i, FAILURE_CANCELLED, 0);
        task_discard(s, i);
        any = true;
    }
    return any;
}

int task_class(struct segment *s, const struct resource_shape *shape, uint32_t *number, uint32_t *index)
{
    int error = resource_intern(s, shape, number, index);
    return error == OBJSTORE_LIMIT && end_hopeless(s) ? resource_intern(s, shape, number, index) : error;
}
