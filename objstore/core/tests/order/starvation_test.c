/* A task that needs much begins in the end, however many small tasks arrive meanwhile; and nothing is reserved in vain.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "tests/order/machine.h"

enum { N_WORKERS = 4, N_ROUNDS = 200 }; /* there is room for four tasks */

static uint32_t running[N_WORKERS];

static uint32_t class_of(const int64_t demand[MAX_KINDS])
{
    uint32_t class;
    segment_lock(&s);
    CHECK(resource_class(&s, demand, demand, 0, ON_NODE, &class) == OBJSTORE_OK);
    segment_unlock(&s);
    return class;
}

static uint32_t submitted_of(uint32_t class)
{
    uint32_t plain = class_small;
    class_small = class;
    uint32_t task = submitted(&s, (struct task_spec){0});
    class_small = plain;
    uint32_t result = s.tasks[task].result_1 - 1;
    client_drop(&s, &result, 1); /* not needed */
    return task;
}

static void new_idle_machine(void)
{
    new_machine(N_WORKERS);
    for (int i = 0; i < N_WORKERS; i++)
        running[i] = UINT32_MAX;
}

/* One worker after the other ends its task and takes the next, of a class of which there are always some. Those before
 * `first` stay as they are. True: `task` has begun by the end of so many rounds. `idle`: how often a worker found
 * nothing. */
static bool flood(uint32_t class, uint32_t task, int rounds, int first, int *idle)
{
    *idle = 0;
    for (int i = 0; i < rounds * N_WORKERS; i++) {
        int w = i % N_WORKERS;
        if (w < first)
            continue;
        while (s.classes[class].n_ready < 2)
            submitted_of(class);
        if (running[w] != UINT32_MAX)
            finish(&workers[w], running[w]);
        running[w] = popped(&workers[w]);
        *idle += running[w] == UINT32_MAX;
        check();
        if (running[w] == task)
            return true;
    }
    return false;
}

static void a_large_task_beside_small_ones(int64_t cpus)
{
    int idle;
    new_idle_machine();
    flood(class_small, UINT32_MAX, 3, 0, &idle);
    CHECK(!idle);
    uint32_t large = class_of((int64_t[MAX_KINDS]){cpus * RESOURCE_UNIT});
    for (int i = 0; i < 3; i++) /* each of them in its turn, and the small ones in between */
        CHECK(flood(class_small, submitted_of(large), 12, 0, &idle));
    flood(class_small, UINT32_MAX, N_ROUNDS, 0, &idle);
    CHECK(idle <= N_WORKERS); /* and then nothing is kept back any more */
}

/* However long it was overtaken: it begins once, and then it is the others' turn. */
static void it_has_not_saved_up_turns(void)
{
    int idle;
    new_idle_machine();
    flood(class_small, UINT32_MAX, 3, 0, &idle);
    uint32_t large = class_of((int64_t[MAX_KINDS]){N_WORKERS * RESOURCE_UNIT}), first = submitted_of(large), last;
    submitted_of(large), last = submitted_of(large);
    s.h->reserved.next = UINT64_MAX; /* not yet */
    CHECK(!flood(class_small, first, 30, 0, &idle) && !idle);
    s.h->reserved.next = 0;
    CHECK(flood(class_small, first, 3, 0, &idle) && !flood(class_small, last, 3, 0, &idle));
    CHECK(flood(class_small, last, 12, 0, &idle));
}

static void of_custom_resources(void)
{
    int64_t total[MAX_KINDS] = {N_WORKERS * RESOURCE_UNIT, 2 * RESOURCE_UNIT, 0, 2 * RESOURCE_UNIT};
    uint32_t kind;
    int idle;
    for (int k = KIND_GPU; k <= 3; k += 2) {
        int64_t one[MAX_KINDS] = {0}, two[MAX_KINDS] = {0};
        new_idle_machine();
        segment_lock(&s);
        while (s.h->n_kinds < 4)
            CHECK(resource_kind(&s, (const char *[]){"CPU", "GPU", "memory", "licence"}[s.h->n_kinds], &kind) ==
                  OBJSTORE_OK);
        resource_set_total(&s, total);
        segment_unlock(&s);
        one[k] = RESOURCE_UNIT, two[k] = 2 * RESOURCE_UNIT;
        uint32_t small = class_of(one), large = class_of(two);
        flood(small, UINT32_MAX, 3, 0, &idle);
        uint32_t task = submitted_of(large);
        CHECK(flood(small, task, 20, 0, &idle));
    }
}

/* The others have all that there is as long as it cannot fit: an actor keeps one CPU of four. */
static void what_cannot_fit(void)
{
    int idle;
    new_idle_machine();
    made_actor(&s, &workers[0], 0);
    uint32_t large = class_of((int64_t[MAX_KINDS]){N_WORKERS * RESOURCE_UNIT}),
             endless = class_of((int64_t[MAX_KINDS]){9 * RESOURCE_UNIT});
    submitted_of(large), submitted_of(endless);
    flood(class_small, UINT32_MAX, N_ROUNDS, 1, &idle);
    CHECK(!idle);
    check();
}

/* A task may run for ever, or until others have: the reservation lapses, and others that need little go on
 * meanwhile. */
static void what_never_ends(void)
{
    int idle;
    new_idle_machine();
    flood(class_small, UINT32_MAX, 3, 0, &idle);
    uint32_t large = submitted_of(class_of((int64_t[MAX_KINDS]){N_WORKERS * RESOURCE_UNIT}));
    CHECK(!flood(class_small, large, 20, 1, &idle) && idle > 0 && s.h->reserved.class_1);
    CHECK(running[1] == UINT32_MAX && resource_reserved_for(&s));
    uint32_t nothing = submitted_of(class_of((int64_t[MAX_KINDS]){0}));
    CHECK(popped(&workers[1]) == nothing);
    finish(&workers[1], nothing);
    uint64_t span = s.h->reserved.span;
    s.h->reserved.until = 0; /* it is time */
    flood(class_small, large, 1, 1, &idle);
    CHECK(!idle && !s.h->reserved.class_1 && s.h->reserved.span == 2 * span && s.h->reserved.next > ticks_now());
    flood(class_small, large, N_ROUNDS, 1, &idle);
    CHECK(!idle);
    s.h->reserved.next = 0;
    CHECK(!flood(class_small, large, 20, 1, &idle) && idle > 0);
    finish(&workers[0], running[0]); /* it did end */
    running[0] = UINT32_MAX;
    CHECK(flood(class_small, large, 3, 0, &idle) && !s.h->reserved.span);
}

static void it_does_not_outlive_its_task(void)
{
    uint32_t found, worker;
    int idle;
    new_idle_machine();
    flood(class_small, UINT32_MAX, 3, 0, &idle);
    uint32_t large = submitted_of(class_of((int64_t[MAX_KINDS]){N_WORKERS * RESOURCE_UNIT}));
    flood(class_small, large, 20, 1, &idle);
    CHECK(s.h->reserved.class_1);
    segment_lock(&s);
    recover(&s);
    segment_unlock(&s);
    check();
    CHECK(!s.h->reserved.class_1);
    flood(class_small, large, 20, 1, &idle);
    CHECK(s.h->reserved.class_1);
    segment_lock(&s);
    CHECK(task_cancel(&s, s.tasks[large].result_1 - 1, &found, &worker) == CANCEL_PENDING);
    segment_unlock(&s);
    CHECK(!s.h->reserved.class_1);
    flood(class_small, UINT32_MAX, N_ROUNDS, 1, &idle);
    CHECK(!idle);
}

/* Arguments of many tasks come at once, and each goes on when there is a CPU: never more of them than there are
 * CPUs. */
static void arguments_come_at_once(void)
{
    int idle;
    new_idle_machine();
    flood(class_small, UINT32_MAX, 1, 0, &idle);
    struct segment others[N_WORKERS];
    uint32_t begun[N_WORKERS];
    for (int i = 0; i < N_WORKERS; i++)
        task_block(&workers[i], running[i]); /* its arguments are remote */
    for (int i = 0; i < N_WORKERS; i++) {
        others[i] = attached(ROLE_WORKER);
        submitted_of(class_small);
        begun[i] = popped(&others[i]);
        CHECK(begun[i] != UINT32_MAX);
    }
    for (int i = 0; i < N_WORKERS; i++) {
        CHECK(!task_return(&workers[i], running[i]) && !task_return(&workers[i], running[i]));
        check();
    }
    submitted_of(class_small);
    struct pool *node = &s.h->pools[0];
    for (int i = 0; i < N_WORKERS; i++) {
        uint32_t seen = client_inbox(&workers[i]);
        finish(&others[i], begun[i]);
        CHECK(popped(&others[i]) == UINT32_MAX); /* what is there first goes on first */
        CHECK(client_inbox(&workers[i]) != seen && task_return(&workers[i], running[i]));
        CHECK(node->available[KIND_CPU] == 0);
        check();
        if (i == 1) { /* a death finds the others waiting */
            segment_lock(&s);
            recover(&s);
            segment_unlock(&s);
            check();
            CHECK(!task_return(&workers[2], running[2]));
        }
    }
    task_block(&workers[0], running[0]);
    CHECK(popped(&others[0]) != UINT32_MAX && !task_return(&workers[0], running[0]));
    client_died(&s, workers[0].me, -9); /* and does not come back */
    check();
    CHECK(node->awaited == 0);
}

int main(void)
{
    a_large_task_beside_small_ones(2);
    a_large_task_beside_small_ones(N_WORKERS);
    it_has_not_saved_up_turns();
    of_custom_resources();
    what_cannot_fit();
    what_never_ends();
    it_does_not_outlive_its_task();
    arguments_come_at_once();
    puts("what needs much begins beside a flood of small tasks, and nothing is kept back in vain");
    return 0;
}
