/* Part of world.h: tasks with a timeout, and with a delay before they are retried. */

static const struct time_limits times = {1u << 20, 1u << 20, 1u << 30, 1};

static uint32_t submit_timed(uint32_t of_actor_1)
{
    struct task_spec spec = {.function = function,
                             .resource_class = class_small,
                             .n_returns = 1,
                             .actor_1 = of_actor_1,
                             .max_retries = -1,
                             .times = &times};
    uint32_t result, made;
    segment_lock(&s);
    CHECK(task_submit(&s, &spec, &result, &made) == OBJSTORE_OK);
    segment_unlock(&s);
    return result;
}
static uint32_t begun(void) /* the next of them, whose code runs */
{
    for (task = pop(); !(s.tasks[task].flags & TASK_FLAG_TIMED); task = pop())
        seal_results(task), finish(task);
    segment_lock(&s);
    timer_begin(&s, task);
    segment_unlock(&s);
    return task;
}
static enum timer_verdict pass_one(void)
{
    uint32_t found;
    segment_lock(&s);
    enum timer_verdict verdict = timer_pass(&s, UINT64_MAX, &found);
    segment_unlock(&s);
    return verdict;
}
static void run_submit_timed(void)
{
    submit_timed(0);
    begun();
    check_sound();
    seal_results(task), finish(task);
}
static void a_timed_task(void)
{
    the_only_actor();
    a = submit_timed(0);
    begun();
}
static void a_delayed_task(void) /* and others before and behind it in the heap */
{
    the_only_actor();
    for (int i = 0; i < 5; i++)
        submit_timed(0);
    for (int i = 0; i < 4; i++) {
        begun();
        if (i == 3)
            s.h->session = 0; /* which chance depends on: the heap is the same in each run */
        run_retry();
    }
    begun();
    a = s.tasks[other = task].result_1 - 1;
    run_retry();
    CHECK(atomic_load(&s.tasks[other].state) == TASK_DELAYED && s.h->n_timers == 5);
}
static void run_wait_is_over(void)
{
    for (int i = 0; i < 5; i++)
        CHECK(pass_one() == TIMER_READY);
    CHECK(pass_one() == TIMER_NONE && !s.h->timers_at);
    check_sound();
    begun();
}
static void run_cancel_delayed(void) { cancel(a), drop(a); }
static void run_time_is_up(void)
{
    CHECK(pass_one() == TIMER_INTERRUPT && task_timed_out(&s, task));
    check_sound();
    CHECK(pass_one() == TIMER_KILL);
    run_retry();
}
static void an_overdue_life(void)
{
    submit_timed(0);
    begun();
    CHECK(pass_one() == TIMER_INTERRUPT);
}
static void a_worker_dead_of_a_timeout(void)
{
    the_only_actor();
    leave_corpse(an_overdue_life);
}
static void a_delayed_call(void) /* before another one of the same caller */
{
    the_only_actor();
    actor_1 = submit_actor(1, 0, &a);
    submit_timed(actor_1), submit_one(8, actor_1);
    serve();
    begun();
    run_retry();
    CHECK(pop() == UINT32_MAX);
}
static void run_wait_of_call_is_over(void)
{
    CHECK(pass_one() == TIMER_READY);
    work_until_idle();
}
static void run_die_with_delayed(void)
{
    segment_lock(&s);
    actor_die(&s, actor_1 - 1, -SIGKILL);
    segment_unlock(&s);
}
