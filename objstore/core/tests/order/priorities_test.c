/* Which tasks begin first, and which may not begin yet although there is capacity: priorities, and gates. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "clients/remote_node.h"
#include "tests/order/machine.h"

enum { N_WORKERS = 4 }; /* there is room for four tasks */
#define LONG_INTERVAL (UINT64_C(1) << 50)

static uint32_t class_of(int64_t cpus, struct terms terms)
{
    struct resource_shape shape = {.demand = {cpus * RESOURCE_UNIT},
                                   .hold = {cpus * RESOURCE_UNIT},
                                   .place = ON_NODE,
                                   .terms = terms,
                                   .number = UINT32_MAX};
    uint32_t class;
    segment_lock(&s);
    CHECK(resource_intern(&s, &shape, &shape.number, &class) == OBJSTORE_OK);
    segment_unlock(&s);
    return class;
}
static uint32_t of_priority(int64_t cpus, int32_t priority)
{
    return class_of(cpus, (struct terms){.priority = priority});
}

static uint32_t submitted_of(uint32_t class)
{
    uint32_t plain = class_small;
    class_small = class;
    uint32_t task = submitted(&s, (struct task_spec){0});
    class_small = plain;
    return task;
}

static void forget(uint32_t task)
{
    uint32_t result = s.tasks[task].result_1 - 1;
    client_drop(&s, &result, 1);
}

static void end(int worker, uint32_t task)
{
    forget(task);
    finish(&workers[worker], task);
    check();
}

static void wait_for(int worker, uint32_t waiter, uint32_t task)
{
    segment_lock(&workers[worker]);
    task_waits_for(&workers[worker], waiter, s.tasks[task].result_1 - 1);
    segment_unlock(&workers[worker]);
    check();
}

/* ------------------------------------------------------------------ priorities */

static void the_highest_first(void)
{
    new_machine(N_WORKERS);
    uint32_t low = of_priority(1, -3), high = of_priority(1, 7);
    uint32_t tasks[] = {submitted_of(low),  submitted_of(class_small), submitted_of(low),
                        submitted_of(high), submitted_of(class_small), submitted_of(high)};
    int order[] = {3, 5, 1, 4, 0, 2}; /* those of one priority as they came */
    for (int i = 0; i < 6; i++) {
        CHECK(next(0) == tasks[order[i]]);
        end(0, tasks[order[i]]);
    }
}

static void what_runs_is_left_alone_and_what_fits_goes_on(void)
{
    new_machine(N_WORKERS);
    uint32_t runs = submitted_of(of_priority(1, -100));
    CHECK(next(0) == runs);
    uint32_t large = submitted_of(of_priority(N_WORKERS, 100)), small = submitted_of(class_small);
    CHECK(next(1) == small && s.tasks[runs].worker == workers[0].me);
    end(0, runs);
    CHECK(next(0) == UINT32_MAX);
    end(1, small);
    CHECK(next(1) == large);
}

/* Its calls keep the order of its mailbox, whatever their terms. */
static void an_actor_is_made_in_its_turn(void)
{
    new_machine(N_WORKERS);
    uint32_t before = submitted_of(class_small), plain = class_small;
    class_small = class_of(1, (struct terms){.function = 1, .most = 1, .priority = 1});
    made_actor(&s, &workers[0], 0); /* which takes its constructor first */
    check();
    CHECK(!s.h->gates[0].n_running);
    class_small = plain;
    CHECK(next(1) == before);
}

/* Workers go on with tasks of that class for so many rounds, but for those before `first`. How often one of them found
 * nothing. */
static int flood(uint32_t class, int rounds, int first, uint32_t running[N_WORKERS])
{
    int idle = 0;
    for (int i = 0; i < rounds * N_WORKERS; i++) {
        int w = i % N_WORKERS;
        if (w < first)
            continue;
        while (s.classes[class].n_ready < 2)
            forget(submitted_of(class));
        if (running[w] != UINT32_MAX)
            finish(&workers[w], running[w]);
        running[w] = next(w);
        idle += running[w] == UINT32_MAX;
    }
    return idle;
}

static void reservations_are_for_those_that_are_not_outranked(void)
{
    uint32_t running[N_WORKERS] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    new_machine(N_WORKERS);
    uint32_t low = of_priority(N_WORKERS, -1), busy = of_priority(1, 1), high = of_priority(N_WORKERS, 2),
             higher = of_priority(1, 3);
    forget(submitted_of(low));
    CHECK(flood(busy, 20, 0, running) == 0); /* a flood of higher ones holds it back for ever */
    CHECK(s.classes[low].n_ready == 1 && !s.h->reserved.class_1);
    s.h->reserved.class_1 = low + 1; /* it was there first */
    s.h->reserved.until = UINT64_MAX;
    segment_lock(&s);
    resource_note_held_back(s.h);
    segment_unlock(&s);
    CHECK(flood(busy, 5, 0, running) == 0);
    uint32_t large = submitted_of(high);
    forget(large);
    CHECK(flood(busy, 5, 1, running) > 0 && s.h->reserved.class_1 == high + 1); /* it takes that over */
    for (int i = 0; i < N_WORKERS; i++)
        if (running[i] != UINT32_MAX)
            finish(&workers[i], running[i]), running[i] = UINT32_MAX;
    uint32_t urgent = submitted_of(higher); /* for which nothing is kept back */
    CHECK(s.h->reserved.class_1 == high + 1 && next(0) == urgent);
    end(0, urgent);
    CHECK(next(0) == large);
    end(0, large);
}

/* ------------------------------------------------------------------ how many run */

static void so_many_at_a_time(void)
{
    new_machine(N_WORKERS);
    uint32_t two = class_of(1, (struct terms){.function = 5, .most = 2}),
             three = class_of(0, (struct terms){.function = 5, .most = 3});
    uint32_t tasks[] = {submitted_of(two), submitted_of(two), submitted_of(two), submitted_of(three)},
             other = submitted_of(class_small);
    CHECK(next(0) == tasks[0] && next(1) == tasks[3]); /* functions take turns, and lanes are of classes */
    CHECK(next(2) == other && next(3) == UINT32_MAX);
    CHECK(gate_is_full(&s, class_at(&s, two)) && !gate_is_full(&s, class_at(&s, three)));
    task_block(&workers[0], tasks[0]);
    CHECK(popped(&workers[3]) == UINT32_MAX); /* it keeps its place while it waits */
    task_unblock(&workers[0], tasks[0]);
    segment_lock(&workers[0]);
    task_retry(&workers[0], tasks[0]);
    segment_unlock(&workers[0]);
    CHECK(next(0) == tasks[0]);
    segment_lock(&s);
    recover(&s);
    segment_unlock(&s);
    check();
    CHECK(next(3) == UINT32_MAX);
    uint32_t seen = client_inbox(&workers[3]);
    end(0, tasks[0]);
    CHECK(client_inbox(&workers[3]) != seen && next(3) == tasks[1] && next(0) == UINT32_MAX);
    client_died(&s, workers[3].me, -9); /* it is not retried: max_retries is 0 */
    CHECK(next(0) == tasks[2]);
    end(1, tasks[3]);
    CHECK(s.h->gates[0].n_running == 1 && s.h->n_gates == 1);
}

/* A flood of a function that is full leaves the CPUs to others, and no reservation is made for it. */
static void the_others_go_on(void)
{
    uint32_t running[N_WORKERS] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    new_machine(N_WORKERS);
    uint32_t one = class_of(1, (struct terms){.function = 1, .most = 1, .priority = 9});
    uint32_t first = submitted_of(one);
    CHECK(popped(&workers[0]) == first);
    for (int i = 0; i < 5; i++)
        submitted_of(one);
    running[0] = submitted_of(class_small);
    segment_lock(&s);
    CHECK(task_workers_wanted(&s) <= 1);
    segment_unlock(&s);
    struct segment last = attached(ROLE_WORKER); /* the first goes on */
    running[0] = popped(&last);
    workers[0] = last;
    for (int i = 0; i < 10; i++)
        flood(class_small, 1, 0, running);
    CHECK(!s.h->reserved.class_1 && s.classes[one].n_ready == 5);
}

/* It waits for another task of the same function, which passes the gate, while a task of another function does not. */
static void a_recursion_goes_on_in_its_place(void)
{
    new_machine(N_WORKERS);
    uint32_t one = class_of(1, (struct terms){.function = 1, .most = 1}),
             other = class_of(1, (struct terms){.function = 2, .most = 1});
    uint32_t outer = submitted_of(one), inner = submitted_of(one), plain = submitted_of(other),
             full = submitted_of(other);
    CHECK(next(0) == outer && next(1) == plain && next(2) == UINT32_MAX);
    wait_for(0, outer, full);
    CHECK(next(2) == UINT32_MAX && !task_workers_wanted(&s));
    uint32_t stranger = submitted_of(other); /* behind it in the queue */
    wait_for(1, plain, stranger);
    CHECK(next(2) == stranger);          /* in the place of `plain`; `full` has none */
    uint32_t deeper = submitted_of(one); /* waited for deeper than `inner`, but not by a task of its function */
    wait_for(2, stranger, deeper);
    wait_for(0, outer, inner);
    CHECK(next(3) == inner && next(2) == UINT32_MAX);
    end(3, inner);
    CHECK(next(3) == UINT32_MAX);
    end(0, outer);
    CHECK(next(3) == deeper);
}

/* It takes its place here before it goes, and keeps it until it has come back or is over. */
static void remote_ones_count_as_well(void)
{
    struct segment remote;
    uint32_t tasks[8];
    new_machine(N_WORKERS);
    CHECK(remote_attach(&remote, &workers[0], 1) == OBJSTORE_OK);
    uint32_t two = class_of(1, (struct terms){.function = 5, .most = 2});
    for (int i = 0; i < 3; i++)
        submitted_of(two);
    for (int by_place = 0; by_place < 2; by_place++) {
        segment_lock(&s);
        CHECK(remote_take(&remote, two, 8, by_place, tasks) == 2 && s.h->gates[0].n_running == 2);
        segment_unlock(&s);
        check();
        CHECK(next(1) == UINT32_MAX);
        segment_lock(&s);
        remote_give_back(&remote, tasks[0]), remote_give_back(&remote, tasks[1]);
        segment_unlock(&s);
        check();
        CHECK(!s.h->gates[0].n_running);
    }
}

/* ------------------------------------------------------------------ how soon the next begins */

static uint64_t next_look(void)
{
    segment_lock(&s);
    uint64_t ticks = gate_next_look(&s);
    segment_unlock(&s);
    return ticks;
}

static void one_after_the_other(void)
{
    new_machine(N_WORKERS);
    uint32_t slow = class_of(1, (struct terms){.function = 5, .interval = LONG_INTERVAL}),
             quick = class_of(1, (struct terms){.function = 5, .interval = 1});
    uint32_t tasks[] = {submitted_of(slow), submitted_of(slow), submitted_of(slow)};
    CHECK(!next_look() && !s.h->next_start);
    CHECK(next(0) == tasks[0]);
    struct gate *gate = &s.h->gates[0];
    CHECK(s.h->next_start == gate->last + LONG_INTERVAL); /* the scheduler has been asked to look then */
    CHECK(next(1) == UINT32_MAX && next_look() > 0 && next_look() <= LONG_INTERVAL);
    end(0, tasks[0]);
    CHECK(next(0) == UINT32_MAX); /* whether it has ended or not */
    gate->last -= LONG_INTERVAL;  /* the time has passed */
    uint32_t seen[] = {client_inbox(&workers[0]), client_inbox(&workers[1])};
    CHECK(!next_look());
    segment_lock(&s);
    task_wake_workers(&s);
    segment_unlock(&s);
    CHECK((client_inbox(&workers[0]) != seen[0]) + (client_inbox(&workers[1]) != seen[1]) == 1);
    CHECK(next(0) == tasks[1] && next(1) == UINT32_MAX);
    segment_lock(&workers[0]);
    task_retry(&workers[0], tasks[1]); /* another attempt is another start */
    segment_unlock(&workers[0]);
    CHECK(next(0) == UINT32_MAX);
    uint32_t other = submitted_of(quick); /* which goes by its own interval */
    CHECK(next(0) == other);
    gate->last = ticks_now() + LONG_INTERVAL / 2; /* overwritten, or the clock went back: it is not waited for */
    CHECK(next(1) == tasks[1]);
}

static void it_does_not_begin_early_for_who_waits(void)
{
    new_machine(N_WORKERS);
    uint32_t slow = class_of(1, (struct terms){.function = 5, .interval = LONG_INTERVAL, .most = 1});
    uint32_t outer = submitted_of(slow), inner = submitted_of(slow);
    CHECK(next(0) == outer);
    wait_for(0, outer, inner);
    CHECK(next(1) == UINT32_MAX);
    s.h->gates[0].last -= LONG_INTERVAL;
    CHECK(next(1) == inner);
}

/* A worker that wakes and finds that another was quicker still arranges that the gate is looked at in time. */
static void nobody_forgets_to_look(void)
{
    new_machine(N_WORKERS);
    uint32_t slow = class_of(1, (struct terms){.function = 5, .interval = LONG_INTERVAL});
    CHECK(next(0) == UINT32_MAX);
    submitted_of(slow), submitted_of(slow);
    CHECK(s.h->waking_1 == workers[0].me + 1);
    CHECK(next(1) != UINT32_MAX && !s.h->next_start);
    CHECK(next(0) == UINT32_MAX && s.h->next_start);
}

/* ------------------------------------------------------------------ gates come and go with their classes */

static void a_gate_is_given_to_another_function(void)
{
    new_machine(N_WORKERS);
    uint32_t kept = class_of(1, (struct terms){.function = UINT64_MAX, .most = 1}), held = submitted_of(kept);
    for (uint64_t i = 1; i <= 3 * MAX_CLASSES; i++)
        CHECK(gate_at(&s, s.classes[class_of(1, (struct terms){.function = i, .most = 1})].gate_1 - 1)->function == i);
    check();
    CHECK(s.h->n_gates <= MAX_CLASSES && next(0) == held && gate_is_full(&s, class_at(&s, kept)));
    end(0, held);
}

int main(void)
{
    the_highest_first();
    what_runs_is_left_alone_and_what_fits_goes_on();
    an_actor_is_made_in_its_turn();
    reservations_are_for_those_that_are_not_outranked();
    so_many_at_a_time();
    the_others_go_on();
    a_recursion_goes_on_in_its_place();
    remote_ones_count_as_well();
    one_after_the_other();
    it_does_not_begin_early_for_who_waits();
    nobody_forgets_to_look();
    a_gate_is_given_to_another_function();
    puts("ok");
    return 0;
}
