/* Part of operations.h: tasks of a function of which one runs at a time, with priority over others. */

static uint32_t submit_limited(void)
{
    struct resource_shape shape = {.demand = {RESOURCE_UNIT},
                                   .hold = {RESOURCE_UNIT},
                                   .place = ON_NODE,
                                   .number = UINT32_MAX,
                                   .terms = {.function = 7, .most = 1, .interval = 1, .priority = 5}};
    uint32_t plain = class_small, result;
    segment_lock(&s);
    CHECK(resource_intern(&s, &shape, &shape.number, &class_small) == OBJSTORE_OK);
    segment_unlock(&s);
    result = submit_one(8, 0);
    class_small = plain;
    return result;
}

static void run_limited(void)
{
    a = submit_limited(), b = submit_limited();
    task = pop();
    CHECK(task == s.objects[a].u.pending.task_1 - 1);
    uint32_t plain = pop();
    CHECK(plain != UINT32_MAX && plain != s.objects[b].u.pending.task_1 - 1);
    segment_lock(&s);
    task_retry(&s, plain), task_retry(&s, task);
    segment_unlock(&s);
    task = pop();
    seal_results(task), finish(task);
    CHECK(object_sealed(&s.objects[a]) && work() && object_sealed(&s.objects[b]) && !s.h->gates[0].n_running);
    drop(a), drop(b);
}
