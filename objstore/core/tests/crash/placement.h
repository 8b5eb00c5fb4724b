/* Part of world.h: placement groups are made, used and removed. */

/* Owned by this client: it goes with it. The bundles have `n_cpus` each. */
static enum placement_mode mode;
static uint32_t place(uint32_t n_bundles, int64_t n_cpus)
{
    int64_t bundles[2][MAX_KINDS] = {{n_cpus * RESOURCE_UNIT}, {n_cpus * RESOURCE_UNIT}};
    uint32_t object = put_inline();
    segment_lock(&s);
    struct placement_spec spec = {
        placement_number(&s), n_bundles, (const int64_t (*)[MAX_KINDS])bundles, 77, s.me + 1, mode};
    spec.name_hash += spec.number;
    CHECK(placement_create(&s, &spec, object) == OBJSTORE_OK);
    segment_unlock(&s);
    drop(object);
    return spec.number;
}
static int unplace(uint32_t number)
{
    uint32_t head;
    segment_lock(&s);
    int error = placement_find(&s, number, &head);
    if (!error)
        placement_remove(&s, head);
    segment_unlock(&s);
    return error;
}
/* A task or the constructor of an actor in any of a group's bundles from the first on. */
static void submit_from(uint32_t first, uint32_t number, uint32_t dependency_1, bool is_actor)
{
    int64_t one[MAX_KINDS] = {RESOURCE_UNIT};
    uint32_t head, index, object = is_actor ? put_arena(100, NULL, 0) : 0;
    struct actor_spec actor = {0, -1, -1, 1, ACTOR_FLAG_ORDERED, 0, {0}};
    struct task_spec spec = {.function = function,
                             .n_returns = 1,
                             .max_retries = -1,
                             .placement = number,
                             .refs = held + dependency_1 - 1,
                             .n_refs = dependency_1 != 0,
                             .n_dependencies = dependency_1 != 0,
                             .flags = is_actor ? TASK_FLAG_ACTOR_CREATION : 0};
    segment_lock(&s);
    CHECK(placement_find(&s, number, &head) == OBJSTORE_OK);
    struct place where_to = {.pool = (uint16_t)(head + first), .n_pools = (uint16_t)(s.h->pools[head].n - first)};
    CHECK(resource_class(&s, one, one, 0, where_to, &spec.resource_class) == OBJSTORE_OK);
    if (is_actor) {
        CHECK(actor_create(&s, &actor, object, &index) == OBJSTORE_OK);
        spec.actor_1 = index + 1;
    }
    CHECK(task_submit(&s, &spec, results, &task) == OBJSTORE_OK);
    if (is_actor)
        actor_constructed_by(&s, index, task);
    segment_unlock(&s);
}
static void submit_into(uint32_t number, uint32_t dependency_1, bool is_actor)
{
    submit_from(0, number, dependency_1, is_actor);
}
static uint32_t first_group, second_group;
static bool in_group(uint32_t running)
{
    return running != UINT32_MAX && s.classes[s.tasks[running].resource_class].place.pool;
}
static void make_two_groups(void) /* of which one fits */
{
    first_group = place(2, 1);
    second_group = place(2, 2);
    submit_into(first_group, 0, false);
    submit_into(first_group, 2, false); /* waits for the driver's task */
    submit_into(first_group, 0, true);
    submit_into(second_group, 0, false);
    submit_into(second_group, 0, true);
}
static void two_groups(void)
{
    attach();
    make_two_groups();
}
static void a_former_group(void)
{
    attach();
    CHECK(unplace(place(2, 1)) == OBJSTORE_OK);
}
static void run_place(void) { place(2, 1), place(1, 4); }
static void run_unplace(void)
{
    CHECK(unplace(first_group) == OBJSTORE_OK && unplace(first_group) == OBJSTORE_NOT_FOUND);
    CHECK(placement_next(&s, 1) != MAX_POOLS && s.h->pools[placement_next(&s, 1)].state == POOL_RESERVED);
}
static void run_unplace_pending(void) { CHECK(unplace(second_group) == OBJSTORE_OK); }
static void a_task_in_a_group(void)
{
    the_only_actor();
    make_two_groups();
    while (!in_group(task = pop()))
        seal_results(task), finish(task);
}
static void run_in_group(void)
{
    run_block();
    seal_results(task);
    finish(task);
    work_until_idle();
}
static void run_unplace_running(void) /* the group goes when what runs in it has gone */
{
    uint64_t doomed[CLIENT_WORDS];
    CHECK(unplace(first_group) == OBJSTORE_OK);
    segment_lock(&s);
    placement_doomed(&s, doomed);
    segment_unlock(&s);
    CHECK(doomed[s.me / 64] >> s.me % 64 & 1);
    run_retry(); /* fails instead */
    work_until_idle();
}
static void groups_of_the_dead(void)
{
    first_group = place(2, 1);
    second_group = place(2, 2);
    submit_into(first_group, 0, true);
    submit_into(second_group, 0, false);
    while (!in_group(task = pop()))
        seal_results(task), finish(task);
    seal_results(task);
    finish(task); /* serves it */
    submit_one(0, s.clients[s.me].actor_1);
    pop();
}
static void a_dead_owner_of_groups(void)
{
    attach();
    until_constructor(); /* of the driver's: the corpse gets its own */
    seal_results(task), finish(task);
    leave_corpse(groups_of_the_dead);
}
