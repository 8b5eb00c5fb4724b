#include "memory/event.h"
#include "tasks/resource.h"
#include "tasks/task.h"

void task_set_returns(struct segment *s, struct task_slot *t, bool returns)
{
    uint64_t bit = UINT64_C(1) << (t->worker % 64), *word = &s->h->returning[t->worker % MAX_CLIENTS / 64];
    int64_t cpus = class_at(s, t->resource_class)->demand[KIND_CPU];
    t->flags = (uint16_t)(returns ? t->flags | TASK_FLAG_RETURNS : t->flags & ~TASK_FLAG_RETURNS);
    STEP();
    *word = returns ? *word | bit : *word & ~bit;
    resource_note_held_back(s->h);
    struct pool *pool = resource_pool(s, t->resource_class);
    /* unsigned: may wrap if overwritten */
    pool->awaited = (int64_t)((uint64_t)pool->awaited + (uint64_t)(returns ? cpus : -cpus));
}

void task_note_returning(struct segment *s, uint32_t task)
{
    if (task_at(s, task)->flags & TASK_FLAG_RETURNS)
        task_set_returns(s, task_at(s, task), true);
}

/* Wakes the clients whose task waits for its CPU and can have it. */
void task_wake_returning(struct segment *s)
{
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        for (uint64_t bits = s->h->returning[w]; bits; bits &= bits - 1) {
            uint32_t client = w * 64 + (uint32_t)__builtin_ctzll(bits), task_1 = s->clients[client].task_1;
            uint32_t class = task_1 ? task_at(s, task_1 - 1)->resource_class : 0;
            if (resource_pool(s, class)->available[KIND_CPU] >= class_at(s, class)->demand[KIND_CPU])
                wake_client(s, client);
        }
}

/* ------------------------------------------------------------------ who goes first */

uint32_t task_depth_below(const struct task_slot *t)
{
    if (t->actor_1 && !t->depth)
        return 0; /* its actor has a process anyway, and would overtake everybody for as long as it lives */
    return t->depth < N_DEPTHS ? t->depth + 1u : N_DEPTHS;
}

/* What has to run before that task can, UINT32_MAX: nothing. */
static uint32_t task_before(struct segment *s, uint32_t task)
{
    struct task_slot *t = task_at(s, task);
    uint32_t state = atomic_load_explicit(&t->state, memory_order_relaxed);
    if (state == TASK_WAITING && t->cursor < t->n_dependencies)
        return task_producing(s, task_refs(s, t)[t->cursor]);
    bool is_call = t->actor_1 && !(t->flags & TASK_FLAG_ACTOR_CREATION);
    return state == TASK_READY && is_call ? actor_at(s, t->actor_1 - 1)->task_1 - 1 : UINT32_MAX;
}

void task_await(struct segment *s, uint32_t object, uint32_t depth, uint32_t gate_1)
{
    uint32_t walked = 0;
    for (uint32_t task = task_producing(s, object); task != UINT32_MAX && !walk_is_over(s, &walked, s->n_tasks);
         task = task_before(s, task)) {
        const struct task_slot *t = task_at(s, task);
        bool in_place = gate_1 && !t->actor_1 && class_at(s, t->resource_class)->gate_1 == gate_1;
        if (t->depth >= depth && t->in_place >= in_place)
            return;
        task_deepen(s, task, t->depth > depth ? t->depth : depth, in_place || t->in_place);
    }
}

void task_waits_for(struct segment *s, uint32_t waiter, uint32_t object)
{
    const struct task_slot *t = task_at(s, waiter);
    uint32_t depth = task_depth_below(t);
    if (depth)
        task_await(s, object, depth, t->actor_1 ? 0 : class_at(s, t->resource_class)->gate_1);
}

static void ask_for(struct segment *s, uint32_t task)
{
    uint32_t walked = 0;
    for (; task != UINT32_MAX && !task_at(s, task)->asked_for && !walk_is_over(s, &walked, s->n_tasks);
         task = task_before(s, task)) {
        task_at(s, task)->asked_for = 1;
        STEP();
        task_to_front(s, task);
    }
}

void task_ask_for(struct segment *s, uint32_t object) { ask_for(s, task_producing(s, object)); }
void task_ask_for_next(struct segment *s, uint32_t task) { ask_for(s, task_before(s, task)); }

/* ------------------------------------------------------------------ the CPU */

void task_block(struct segment *s, uint32_t task)
{
    segment_lock(s);
    struct task_slot *t = task_at(s, task);
    if (!t->actor_1 && !(t->flags & TASK_FLAG_BLOCKED)) {
        t->flags |= TASK_FLAG_BLOCKED;
        STEP();
        resource_lend(s, t->resource_class, 1);
        if (!(t->flags & TASK_FLAG_HIDDEN))
            event_write(s, EVENT_BLOCKED, t->seq, 0, 0, 0, 0, s->me);
        task_wake_workers(s);
    }
    segment_unlock(s);
}

static void unblock(struct segment *s, struct task_slot *t)
{
    if (t->flags & TASK_FLAG_RETURNS)
        task_set_returns(s, t, false);
    t->flags &= (uint16_t)~TASK_FLAG_BLOCKED;
    STEP();
    resource_lend(s, t->resource_class, -1);
    if (!(t->flags & TASK_FLAG_HIDDEN))
        event_write(s, EVENT_UNBLOCKED, t->seq, 0, 0, 0, 0, s->me);
}

void task_unblock(struct segment *s, uint32_t task)
{
    segment_lock(s);
    struct task_slot *t = task_at(s, task);
    if (t->flags & TASK_FLAG_BLOCKED)
        /* may be negative for a while: it goes on at once, and no task begins until others have ended */
        unblock(s, t);
    segment_unlock(s);
}

bool task_return(struct segment *s, uint32_t task)
{
    segment_lock(s);
    struct task_slot *t = task_at(s, task);
    bool is_blocked = t->flags & TASK_FLAG_BLOCKED;
    bool has_cpu =
        resource_pool(s, t->resource_class)->available[KIND_CPU] >= class_at(s, t->resource_class)->demand[KIND_CPU];
    if (is_blocked && has_cpu)
        unblock(s, t);
    else if (is_blocked && !(t->flags & TASK_FLAG_RETURNS))
        task_set_returns(s, t, true);
    segment_unlock(s);
    return !is_blocked || has_cpu;
}
