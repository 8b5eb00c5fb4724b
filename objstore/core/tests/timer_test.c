/* Timeouts of tasks, and delays before they run again. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>

#include "tasks/timer.h"
#include "tests/small_world.h"

#define MS UINT64_C(1000000)

static struct segment s, worker;

static void complain(void *context, const char *what, uint64_t index, uint64_t found, uint64_t expected)
{
    (void)context;
    fprintf(stderr, "violated: %s (number %llu, found %llu, expected %llu)\n", what, (unsigned long long)index,
            (unsigned long long)found, (unsigned long long)expected);
}

static void check(void)
{
    segment_lock(&s);
    CHECK(segment_check(&s, complain, NULL) == 0);
    segment_unlock(&s);
}

static uint32_t timed(struct time_limits times, int16_t max_retries)
{
    return submitted(&s, (struct task_spec){.times = &times, .max_retries = max_retries});
}

static void begin(uint32_t task)
{
    CHECK(popped(&worker) == task);
    segment_lock(&worker);
    timer_begin(&worker, task);
    segment_unlock(&worker);
    check();
}

static void retry(uint32_t task)
{
    segment_lock(&worker);
    task_retry(&worker, task);
    segment_unlock(&worker);
    check();
}

static enum timer_verdict passed(uint64_t now, uint32_t *task)
{
    segment_lock(&s);
    enum timer_verdict verdict = timer_pass(&s, now, task);
    segment_unlock(&s);
    check();
    return verdict;
}

static uint64_t due(uint32_t task) { return s.times[task].due; }
static uint32_t state(uint32_t task) { return atomic_load(&s.tasks[task].state); }
static const struct object_slot *result(uint32_t task) { return &s.objects[s.tasks[task].result_1 - 1]; }

static void new_machine(void)
{
    s = new_world();
    worker = attached(ROLE_WORKER);
}

static void a_plain_task_has_no_times(void)
{
    new_machine();
    uint32_t task = submitted(&s, (struct task_spec){.max_retries = 1});
    CHECK(popped(&worker) == task);
    retry(task);
    CHECK(state(task) == TASK_READY && !s.h->n_timers && !s.h->timers_at);
}

static void a_task_that_runs_too_long_is_interrupted_and_killed(void)
{
    new_machine();
    uint32_t task = timed((struct time_limits){.timeout_ms = 50}, 5), found = 99;
    CHECK(passed(UINT64_MAX, &found) == TIMER_NONE); /* it waits: nothing runs out */
    begin(task);
    uint64_t up = due(task);
    CHECK(up == s.times[task].since + 50 * MS && s.h->timers_at == up);
    CHECK(passed(up - 1, &found) == TIMER_NONE && found == 99);
    CHECK(passed(up, &found) == TIMER_INTERRUPT && found == task);
    CHECK(task_timed_out(&s, task) && due(task) == up + TIMEOUT_GRACE_MS * MS);
    CHECK(passed(up, &found) == TIMER_NONE && s.h->timers_at == due(task));
    CHECK(passed(due(task), &found) == TIMER_KILL && found == task);
    client_died(&s, worker.me, -SIGKILL);
    /* held by the driver: the slot has not changed hands */
    const struct object_slot *o = &s.objects[s.tasks[task].result_1 - 1];
    CHECK(object_state(o) == OBJECT_FAILED && o->u.failure.code == FAILURE_TIMED_OUT && o->u.failure.detail == 50);
    check();
}

static void a_task_that_ends_in_time_leaves_nothing(void)
{
    uint32_t task, found;
    new_machine();
    for (int i = 0; i < 100; i++) {
        task = timed((struct time_limits){.timeout_ms = 1000}, 0);
        begin(task);
        finish(&worker, task);
        CHECK(!s.h->n_timers);
        uint32_t slot = s.tasks[task].result_1 - 1;
        client_drop(&s, &slot, 1);
    }
    CHECK(s.h->timers_at); /* of the first of a hundred */
    CHECK(passed(UINT64_MAX, &found) == TIMER_NONE && !s.h->timers_at);
}

static void only_what_is_due_earlier_is_told(void)
{
    new_machine();
    uint32_t tasks[3] = {timed((struct time_limits){.timeout_ms = 5000}, 0),
                         timed((struct time_limits){.timeout_ms = 9000}, 0),
                         timed((struct time_limits){.timeout_ms = 10}, 0)};
    for (int i = 0; i < 3; i++) {
        CHECK(popped(&worker) == tasks[i]);
        segment_lock(&worker);
        worker.pending_attention = false;
        timer_begin(&worker, tasks[i]);
        CHECK(worker.pending_attention == (i != 1) && s.h->timers_at == due(tasks[i == 1 ? 0 : i]));
        segment_unlock(&worker);
    }
}

static void who_was_told_to_stop_is_not_retried(bool by_somebody)
{
    new_machine();
    uint32_t task = timed((struct time_limits){.timeout_ms = 50, .retries_timeout = 1}, 5), found, on;
    begin(task);
    CHECK(passed(due(task), &found) == TIMER_INTERRUPT);
    uint32_t slot = s.tasks[task].result_1 - 1;
    segment_lock(&s);
    if (by_somebody)
        CHECK(task_cancel(&s, slot, &found, &on) == CANCEL_RUNNING && on == worker.me);
    segment_unlock(&s);
    client_died(&s, worker.me, -SIGKILL);
    if (by_somebody)
        CHECK(object_state(&s.objects[slot]) == OBJECT_FAILED && s.objects[slot].u.failure.code == FAILURE_CANCELLED);
    else
        CHECK(state(task) == TASK_READY && s.tasks[task].attempt == 1);
    check();
}

static void waits_double_up_to_a_limit(void)
{
    const uint64_t waits[] = {100, 200, 400, 500, 500};
    uint32_t found;
    new_machine();
    uint32_t task = timed((struct time_limits){.delay_ms = 100, .most_delay_ms = 500}, -1);
    for (int i = 0; i < 5; i++) {
        begin(task);
        CHECK(!s.h->n_timers); /* it may run for ever */
        uint64_t before = (uint64_t)monotonic_ns();
        retry(task);
        uint64_t after = (uint64_t)monotonic_ns();
        CHECK(state(task) == TASK_DELAYED && !s.h->n_ready && popped(&worker) == UINT32_MAX);
        CHECK(due(task) >= before + waits[i] * MS * 3 / 4 && due(task) <= after + waits[i] * MS * 5 / 4);
        CHECK(s.h->pools[0].available[KIND_CPU] == s.h->pools[0].total[KIND_CPU]);
        CHECK(passed(due(task) - 1, &found) == TIMER_NONE);
        CHECK(passed(due(task), &found) == TIMER_READY && found == task && state(task) == TASK_READY && !due(task));
    }
}

static void chance_spreads_waits(void)
{
    uint64_t first = UINT64_MAX, last = 0;
    uint32_t found;
    new_machine();
    for (int i = 0; i < 20; i++) {
        uint32_t task = timed((struct time_limits){.delay_ms = 1000 * 1000, .most_delay_ms = 1000 * 1000}, 1);
        begin(task);
        uint64_t since = s.times[task].since;
        retry(task);
        uint64_t wait = due(task) - since;
        first = wait < first ? wait : first;
        last = wait > last ? wait : last;
    }
    CHECK(last - first > 100 * 1000 * MS);
    for (uint64_t before = 0; s.h->n_timers; before = first) { /* the first first */
        first = s.h->timers_at;
        CHECK(first >= before);
        CHECK(passed(first, &found) == TIMER_READY);
        passed(first, &found);
    }
}

static void a_task_that_waits_can_be_cancelled(void)
{
    uint32_t found, on;
    new_machine();
    uint32_t tasks[3];
    for (int i = 0; i < 3; i++) {
        tasks[i] = timed((struct time_limits){.delay_ms = 100u << i, .most_delay_ms = 1000}, 1);
        begin(tasks[i]);
        retry(tasks[i]);
    }
    segment_lock(&s);
    CHECK(task_cancel(&s, s.tasks[tasks[0]].result_1 - 1, &found, &on) == CANCEL_PENDING && found == tasks[0]);
    segment_unlock(&s);
    CHECK(s.h->n_timers == 2 && result(tasks[0])->u.failure.code == FAILURE_CANCELLED);
    check();
}

static void later_calls_wait_behind_one_that_waits(void)
{
    uint32_t found;
    new_machine();
    uint32_t actor = made_actor(&s, &worker, 0);
    struct time_limits times = {.delay_ms = 100, .most_delay_ms = 100};
    uint32_t call = submitted(&s, (struct task_spec){.actor_1 = actor + 1, .times = &times, .max_retries = 1});
    uint32_t next = submitted(&s, (struct task_spec){.actor_1 = actor + 1});
    begin(call);
    retry(call);
    CHECK(popped(&worker) == UINT32_MAX && s.actors[actor].n_pending == 2);
    CHECK(passed(due(call), &found) == TIMER_READY && found == call);
    begin(call);
    finish(&worker, call);
    CHECK(popped(&worker) == next);
    finish(&worker, next);
}

static void a_call_that_waits_ends_with_its_actor(void)
{
    new_machine();
    uint32_t actor = made_actor(&s, &worker, 0);
    struct time_limits times = {.delay_ms = 100, .most_delay_ms = 100};
    uint32_t call = submitted(&s, (struct task_spec){.actor_1 = actor + 1, .times = &times, .max_retries = 1});
    const struct object_slot *o = result(call);
    begin(call);
    retry(call);
    segment_lock(&s);
    actor_die(&s, actor, -SIGKILL);
    segment_unlock(&s);
    check();
    CHECK(!s.h->n_timers && object_state(o) == OBJECT_FAILED);
}

static void recovery_builds_the_heap_again(void)
{
    new_machine();
    uint32_t waits = timed((struct time_limits){.delay_ms = 100, .most_delay_ms = 100}, 1),
             runs = timed((struct time_limits){.timeout_ms = 100}, 1);
    begin(waits);
    retry(waits);
    CHECK(popped(&worker) == runs);
    uint32_t ready = timed((struct time_limits){.delay_ms = 100, .most_delay_ms = 100}, 1);
    segment_lock(&s);
    timer_begin(&s, runs);
    s.times[ready].due = 5; /* as if a process had died at the end of its delay */
    s.h->n_timers = 7;
    recover(&s);
    segment_unlock(&s);
    check();
    CHECK(!due(ready) && s.h->n_timers == 2 && s.h->timers_at == (due(runs) < due(waits) ? due(runs) : due(waits)));
}

int main(void)
{
    a_plain_task_has_no_times();
    a_task_that_runs_too_long_is_interrupted_and_killed();
    a_task_that_ends_in_time_leaves_nothing();
    only_what_is_due_earlier_is_told();
    who_was_told_to_stop_is_not_retried(true);
    who_was_told_to_stop_is_not_retried(false);
    waits_double_up_to_a_limit();
    chance_spreads_waits();
    a_task_that_waits_can_be_cancelled();
    later_calls_wait_behind_one_that_waits();
    a_call_that_waits_ends_with_its_actor();
    recovery_builds_the_heap_again();
    return 0;
}
