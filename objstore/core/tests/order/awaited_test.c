/* Tasks that other tasks wait for begin before those that no task waits for, the deepest first, and so few are begun at
 * a time. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "tests/order/machine.h"

enum { N_CPUS = 4, N_WORKERS = N_WORKERS_MAX, N_NODES = 8192 };

static uint32_t plain(void) { return submitted(&s, (struct task_spec){0}); }
static uint32_t result_of(uint32_t task) { return s.tasks[task].result_1 - 1; }

static uint32_t after(uint32_t a, uint32_t b)
{
    uint32_t refs[2] = {result_of(a), result_of(b)};
    return submitted(&s, (struct task_spec){.n_refs = 2, .n_dependencies = 2, .refs = refs});
}

static void wait_for(uint32_t waiter, uint32_t task)
{
    segment_lock(&s);
    task_waits_for(&s, waiter, result_of(task));
    segment_unlock(&s);
    check();
}

static void end(int worker, uint32_t task)
{
    finish(&workers[worker], task);
    check();
}

/* ------------------------------------------------------------------ the order */

static void the_deepest_first(void)
{
    new_machine(4);
    uint32_t parent = plain(), strangers = plain(), child = plain(), other_child = plain();
    CHECK(next(0) == parent);
    wait_for(parent, other_child);
    wait_for(parent, child);
    CHECK(next(1) == other_child); /* in the order in which they are asked for */
    uint32_t grandchild = plain();
    wait_for(other_child, grandchild);
    CHECK(next(2) == grandchild && next(3) == child);
    end(3, child);
    CHECK(next(3) == strangers);
}

/* A stranger that nobody waited for when it began has depth from then on, and what it waits for is deeper. */
static void who_is_waited_for_later(void)
{
    new_machine(4);
    uint32_t deep = plain(), shallow = plain();
    CHECK(next(0) == deep && next(1) == shallow);
    uint32_t under_deep = plain(), middle = plain(), under_shallow = plain();
    wait_for(deep, middle);
    CHECK(next(2) == middle);
    wait_for(shallow, under_shallow);
    wait_for(middle, shallow); /* which now is two deep, and what it waits for is told again */
    CHECK(task_depth_below(&s.tasks[shallow]) == 3);
    wait_for(shallow, under_shallow);
    wait_for(deep, under_deep);
    CHECK(next(3) == under_shallow);
}

/* What has to run before is waited for, too: one dependency after the other. */
static void what_it_depends_on(void)
{
    new_machine(4);
    uint32_t waiter = plain(), strangers = plain(), first = plain(), second = plain(), sum = after(first, second);
    CHECK(next(0) == waiter);
    wait_for(waiter, sum);
    CHECK(next(1) == first);
    uint32_t deeper = plain();
    wait_for(first, deeper);
    CHECK(next(2) == deeper);
    end(2, deeper);
    end(1, first);
    CHECK(next(1) == second && next(2) == strangers);
    end(1, second);
    CHECK(next(1) == sum);
}

/* A call that no task waits for passes nothing on, as its actor may live for ever. */
static void calls_of_actors(void)
{
    new_machine(4);
    uint32_t actor = made_actor(&s, &workers[3], 0), waiter = plain();
    CHECK(next(0) == waiter);
    uint32_t call = submitted(&s, (struct task_spec){.actor_1 = actor + 1}), stranger = plain(), below = plain();
    CHECK(next(3) == call);
    wait_for(call, below);
    CHECK(!s.tasks[below].depth);
    wait_for(waiter, call);
    wait_for(call, below);
    CHECK(s.tasks[below].depth == 2 && next(1) == below && next(2) == stranger);
}

/* ... and an actor that a call waits for is made before strangers run. */
static void constructors(void)
{
    new_machine(4);
    struct actor_spec spec = {.max_concurrency = 1, .flags = ACTOR_FLAG_ORDERED};
    uint32_t waiter = plain(), stranger = plain(), object = created(&s), actor;
    CHECK(next(0) == waiter);
    segment_lock(&s);
    uint64_t offset = object_allocate(&s, 8, 0);
    CHECK(offset && object_seal_arena(&s, object, OBJECT_READY, offset, 8, 0));
    CHECK(actor_create(&s, &spec, object, &actor) == OBJSTORE_OK);
    segment_unlock(&s);
    uint32_t constructor = submitted(&s, (struct task_spec){.actor_1 = actor + 1, .flags = TASK_FLAG_ACTOR_CREATION});
    segment_lock(&s);
    actor_constructed_by(&s, actor, constructor);
    segment_unlock(&s);
    uint32_t call = submitted(&s, (struct task_spec){.actor_1 = actor + 1});
    wait_for(waiter, call);
    CHECK(next(1) == constructor && next(2) == stranger);
}

static void ask_for(uint32_t task)
{
    segment_lock(&s);
    task_ask_for(&s, result_of(task));
    segment_unlock(&s);
    check();
}

/* What a program waits for goes before what nobody waits for, also after a recovery; what tasks wait for before it. */
static void what_a_program_waits_for(void)
{
    new_machine(4);
    uint32_t waiter = plain(), flood = plain(), more = plain(), child = plain(), asked = plain(), later = plain();
    CHECK(next(0) == waiter);
    ask_for(asked);
    ask_for(later); /* the latest first: who asked before may have given up */
    ask_for(asked); /* once is enough */
    wait_for(waiter, child);
    recover(&s);
    check();
    CHECK(next(1) == child && next(2) == later && next(3) == asked);
    end(3, asked);
    CHECK(next(3) == flood);
    end(2, later);
    CHECK(next(2) == more);
}

static void what_a_program_waits_for_depends_on(void)
{
    new_machine(3);
    uint32_t flood[3] = {plain(), plain(), plain()};
    uint32_t first = plain(), second = plain(), sum = after(first, second);
    CHECK(next(0) == flood[0]);
    ask_for(sum);
    CHECK(next(1) == first);
    end(1, first);
    CHECK(next(1) == second && next(2) == flood[1]);
    end(1, second);
    CHECK(next(1) == sum);
    end(1, sum);
    CHECK(next(1) == flood[2]);
}

/* A task of several CPUs that is waited for gets them, while strangers come and go. */
static void a_large_one(void)
{
    new_machine(4);
    int64_t all[MAX_KINDS] = {N_CPUS * RESOURCE_UNIT};
    uint32_t small = class_small, class_large, waiter = plain();
    CHECK(next(0) == waiter);
    segment_lock(&s);
    CHECK(resource_class(&s, all, all, 0, ON_NODE, &class_large) == OBJSTORE_OK);
    segment_unlock(&s);
    class_small = class_large;
    uint32_t large = plain();
    class_small = small;
    uint32_t running = plain();
    CHECK(next(1) == running);
    wait_for(waiter, large);
    task_block(&s, waiter);
    int n = 0;
    for (uint32_t task = UINT32_MAX; task != large; n++) {
        CHECK(n < 20);
        if (task != UINT32_MAX)
            end(2, task);
        plain();
        task = next(2);
        if (task == UINT32_MAX && running != UINT32_MAX) { /* its room is held back by now */
            end(1, running);
            running = UINT32_MAX;
        }
    }
}

/* ------------------------------------------------------------------ no process is left */

static void the_deepest_fails(void)
{
    new_machine(4);
    uint32_t waiter = plain(), child = plain(), other_child = plain();
    segment_lock(&s);
    CHECK(!task_fail_deepest(&s, 7)); /* nobody waits */
    segment_unlock(&s);
    CHECK(next(0) == waiter);
    wait_for(waiter, child);
    wait_for(waiter, other_child);
    CHECK(next(1) == child);
    uint32_t grandchild = plain(), result = result_of(grandchild);
    wait_for(child, grandchild);
    segment_lock(&s);
    CHECK(task_fail_deepest(&s, 7));
    segment_unlock(&s);
    check();
    const struct object_slot *o = &s.objects[result];
    CHECK(object_state(o) == OBJECT_FAILED && o->u.failure.code == FAILURE_TOO_DEEP && o->u.failure.detail == 7);
    CHECK(next(2) == other_child); /* may still begin */
}

/* ------------------------------------------------------------------ how many */

/* Trees of tasks: each submits its children, waits for all of them, and ends. */
static struct node {
    uint32_t task, parent, n_children, n_left, level;
    int worker;
    enum { QUEUED, RUNNING, BLOCKED, ENDED } state;
} nodes[N_NODES];
static uint32_t n_nodes;

static void add_node(uint32_t parent, uint32_t level, uint32_t n_children)
{
    CHECK(n_nodes < N_NODES);
    nodes[n_nodes++] = (struct node){.task = plain(), .parent = parent, .n_children = n_children, .level = level};
}

static uint64_t dice;
static uint32_t below(uint32_t n)
{
    dice = dice * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(dice >> 33) % n;
}

static void end_node(uint32_t i)
{
    struct node *n = &nodes[i], *parent = &nodes[n->parent];
    uint32_t result = result_of(n->task);
    finish(&workers[n->worker], n->task);
    n->state = ENDED;
    if (n->parent != i && --parent->n_left == 0) { /* it goes on at once */
        task_unblock(&s, parent->task);
        parent->state = RUNNING;
        parent->n_children = 0;
    }
    client_drop(&s, &result, 1);
}

static void grow(uint32_t i, uint32_t depth, uint32_t width)
{
    struct node *n = &nodes[i];
    uint32_t first = n_nodes;
    for (uint32_t k = 0; k < n->n_children; k++)
        add_node(i, n->level + 1, n->level + 1 < depth ? 1 + (n->level < 6 ? below(width) : 0) : 0);
    n->n_left = n->n_children;
    segment_lock(&s);
    for (uint32_t k = first; k < n_nodes; k++)
        task_waits_for(&s, n->task, result_of(nodes[k].task));
    segment_unlock(&s);
    task_block(&s, n->task);
    n->state = BLOCKED;
}

static void few_are_begun(uint32_t n_roots, uint32_t depth, uint32_t width)
{
    new_machine(N_WORKERS);
    uint32_t n_ended = 0, most = 0;
    n_nodes = 0;
    for (uint32_t r = 0; r < n_roots; r++)
        add_node(r, 0, 1 + below(width));
    while (n_ended < n_nodes) {
        uint32_t busy[N_WORKERS], n_busy = 0, n_begun = 0;
        bool used[N_WORKERS] = {false};
        n_ended = 0;
        for (uint32_t i = 0; i < n_nodes; i++) {
            n_ended += nodes[i].state == ENDED;
            if (nodes[i].state == RUNNING)
                busy[n_busy++] = i;
            if (nodes[i].state == RUNNING || nodes[i].state == BLOCKED) {
                used[nodes[i].worker] = true;
                n_begun++;
            }
        }
        most = n_begun > most ? n_begun : most;
        int worker = 0;
        while (worker < N_WORKERS && used[worker])
            worker++;
        CHECK(worker < N_WORKERS);
        uint32_t task = below(3) || !n_busy ? popped(&workers[worker]) : UINT32_MAX;
        if (task != UINT32_MAX) {
            uint32_t i = 0;
            while (nodes[i].task != task || nodes[i].state != QUEUED)
                i++;
            nodes[i].state = RUNNING;
            nodes[i].worker = worker;
        } else if (n_busy) {
            uint32_t i = busy[below(n_busy)];
            if (nodes[i].n_children)
                grow(i, depth, width);
            else
                end_node(i);
        }
    }
    check();
    CHECK(s.h->n_live_tasks == 0);
    if (most > N_CPUS * (depth + 1))
        printf("%u roots, depth %u, width %u: %u begun\n", n_roots, depth, width, most);
    CHECK(most <= N_CPUS * (depth + 1));
    munmap(base, SIZE);
}

int main(void)
{
    the_deepest_first();
    who_is_waited_for_later();
    what_it_depends_on();
    calls_of_actors();
    constructors();
    what_a_program_waits_for();
    what_a_program_waits_for_depends_on();
    a_large_one();
    the_deepest_fails();
    for (dice = 1; dice < 16; dice++) {
        uint64_t seed = dice;
        few_are_begun(1, 6, 2);
        few_are_begun(20, 2, 5);
        few_are_begun(12, 3, 3);
        few_are_begun(2, N_DEPTHS + 4, 2); /* deeper than there are queues */
        dice = seed;
    }
    return 0;
}
