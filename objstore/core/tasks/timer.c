#include "tasks/timer.h"

#include "tasks/task.h"

#define NS_PER_MS UINT64_C(1000000)

/* ------------------------------------------------------------------ the heap, whose i-th place is a field of the i-th
 * entry */

static uint32_t in_place(const struct segment *s, uint32_t i) { return times_at(s, i)->heap_1 - 1; }

static uint64_t due_in(const struct segment *s, uint32_t i) { return times_at(s, in_place(s, i))->due; }

static void put_in_place(struct segment *s, uint32_t i, uint32_t task)
{
    times_at(s, i)->heap_1 = task + 1;
    times_at(s, task)->place_1 = i + 1;
}

/* Place `i` is free: puts the task there, or moves it up or down from there. */
static void settle(struct segment *s, uint32_t i, uint32_t task)
{
    uint64_t due = times_at(s, task)->due;
    for (; i && due < due_in(s, (i - 1) / 2); i = (i - 1) / 2)
        put_in_place(s, i, in_place(s, (i - 1) / 2));
    for (uint64_t child; (child = 2 * (uint64_t)i + 1) < s->h->n_timers; i = (uint32_t)child) {
        if (child + 1 < s->h->n_timers && due_in(s, (uint32_t)child + 1) < due_in(s, (uint32_t)child))
            child++;
        if (due <= due_in(s, (uint32_t)child))
            break;
        put_in_place(s, i, in_place(s, (uint32_t)child));
    }
    put_in_place(s, i, task);
}

void timer_push(struct segment *s, uint32_t task)
{
    struct header *h = s->h;
    if (h->n_timers >= s->n_tasks) {
        segment_condemn(s);
        return;
    }
    h->n_timers++;
    settle(s, h->n_timers - 1, task);
    STEP();
    if (h->timers_at && h->timers_at <= times_at(s, task)->due)
        return;
    h->timers_at = times_at(s, task)->due;
    request_attention(s);
}

static void heap_remove(struct segment *s, uint32_t task)
{
    uint32_t i = times_at(s, task)->place_1 - 1;
    if (i >= s->h->n_timers || in_place(s, i) != task) {
        segment_condemn(s);
        return;
    }
    times_at(s, task)->place_1 = 0;
    uint32_t last = in_place(s, --s->h->n_timers);
    if (last != task)
        settle(s, i, last);
}

/* ------------------------------------------------------------------ */

void timer_begin(struct segment *s, uint32_t task)
{
    struct task_times *x = times_at(s, task);
    x->interrupted = x->timed_out = 0;
    x->since = (uint64_t)monotonic_ns();
    if (!x->limits.timeout_ms || x->place_1)
        return;
    x->due = x->since + x->limits.timeout_ms * NS_PER_MS;
    STEP();
    timer_push(s, task);
}

void timer_end(struct segment *s, uint32_t task)
{
    struct task_times *x = times_at(s, task);
    x->due = 0;
    STEP();
    if (x->place_1)
        heap_remove(s, task);
}

/* From 3/4 to 5/4 of it, at random, so that tasks that failed together are not retried together. */
static uint64_t jittered(uint64_t ms, uint64_t seed)
{
    seed = (seed ^ seed >> 30) * UINT64_C(0xbf58476d1ce4e5b9); /* splitmix64 */
    seed = (seed ^ seed >> 27) * UINT64_C(0x94d049bb133111eb);
    uint64_t chance = (seed ^ seed >> 31) % 1024;
    return ms * 3 / 4 + ms * chance / 2048;
}

uint32_t timer_delay(struct segment *s, uint32_t task)
{
    struct task_times *x = times_at(s, task);
    const struct task_slot *t = task_at(s, task);
    if (!x->limits.delay_ms)
        return 0;
    uint64_t delay = t->attempt < 32 ? (uint64_t)x->limits.delay_ms << t->attempt : UINT64_MAX;
    delay = jittered(delay < x->limits.most_delay_ms ? delay : x->limits.most_delay_ms,
                     s->h->session ^ (t->seq << 16 | t->attempt));
    delay += !delay;
    x->due = (uint64_t)monotonic_ns() + delay * NS_PER_MS;
    return (uint32_t)(delay < UINT32_MAX ? delay : UINT32_MAX);
}

/* A running task whose timeout, or grace period, is over. */
static enum timer_verdict stop(struct segment *s, uint32_t task)
{
    struct task_slot *t = task_at(s, task);
    struct task_times *x = times_at(s, task);
    bool kill = x->interrupted;
    if (kill || task_is_sealed(s, t)) { /* in that case it is about to finish */
        timer_end(s, task);
        return kill ? TIMER_KILL : TIMER_READY;
    }
    if (!(t->flags & TASK_FLAG_CANCEL))
        x->timed_out = 1;
    STEP();
    t->flags |= TASK_FLAG_CANCEL;
    STEP();
    x->interrupted = 1;
    STEP();
    heap_remove(s, task);
    x->due += s->h->timeout_grace_ms * NS_PER_MS;
    timer_push(s, task);
    return TIMER_INTERRUPT;
}

enum timer_verdict timer_pass(struct segment *s, uint64_t now, uint32_t *out)
{
    struct header *h = s->h;
    uint32_t task = h->n_timers ? in_place(s, 0) : 0;
    struct task_slot *t = task_at(s, task);
    if (!h->n_timers || times_at(s, task)->due > now) {
        h->timers_at = h->n_timers ? times_at(s, task)->due : 0;
        return TIMER_NONE;
    }
    *out = task;
    if (atomic_load_explicit(&t->state, memory_order_relaxed) == TASK_RUNNING)
        return stop(s, task);
    heap_remove(s, task);
    if (atomic_load_explicit(&t->state, memory_order_relaxed) != TASK_DELAYED) {
        segment_condemn(s);
        return TIMER_NONE;
    }
    STEP();
    atomic_store_explicit(&t->state, TASK_READY, memory_order_relaxed);
    STEP();
    times_at(s, task)->due = 0; /* not before: a delayed task has its due time */
    task_enqueue(s, task, true);
    return TIMER_READY;
}
