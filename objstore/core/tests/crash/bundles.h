/* Part of world.h: placement groups with bundles on another machine, that is on a remote node. */

static struct pool *group(void)
{
    uint32_t head;
    return placement_find(&s, first_group, &head) ? NULL : &s.h->pools[head];
}
/* Two bundles of one CPU that must be apart; a task for any of them, a task and an actor for the second. */
static void an_open_group(void)
{
    a_remote_node();
    direct(ROUTE_DIRECTED);
    mode = PLACEMENT_STRICT_SPREAD;
    first_group = place(2, 1);
    submit_from(0, first_group, 0, false);
    submit_from(1, first_group, 0, false);
    submit_from(1, first_group, 0, true);
}
static void run_assign(void)
{
    const uint32_t there[2] = {POOL_COMING, remote.me + 1}, nowhere[2] = {POOL_NOWHERE, POOL_COMING};
    segment_lock(&remote);
    CHECK(placement_is_open(group()) && !placement_assign(&remote, group()->head, nowhere));
    CHECK(placement_assign(&remote, group()->head, there) && !placement_assign(&remote, group()->head, there));
    segment_unlock(&remote);
    CHECK(group()->state == POOL_RESERVED && group()[0].client_1 == POOL_HERE && group()[1].client_1 == remote.me + 1);
    check_sound();
}
static void run_assign_all(void) /* nothing of it is here */
{
    const uint32_t there[2] = {remote.me + 1, remote.me + 1};
    segment_lock(&remote);
    CHECK(placement_assign(&remote, group()->head, there) && group()->state == POOL_RESERVED);
    segment_unlock(&remote);
    check_sound();
}
static void a_group_of_two_machines(void)
{
    an_open_group();
    run_assign();
}
static uint32_t take_in_bundles(void)
{
    uint32_t n = 0;
    segment_lock(&remote);
    for (uint32_t k = 0; k < s.h->n_classes && n < 4; k++)
        if (s.classes[k].place.pool && s.classes[k].n_ready &&
            resource_room_on(&s, &s.classes[k], remote.me + 1) != UINT32_MAX)
            n += remote_take(&remote, k, 4 - n, false, sent + n);
    segment_unlock(&remote);
    return n;
}
/* One at a time, as there is one CPU, unless it waits for others. */
static void run_in_bundles(void)
{
    for (uint32_t left = 4; left && (n_sent = take_in_bundles()); left--) {
        CHECK(n_sent == 1 && !take_in_bundles());
        struct task_slot *t = &s.tasks[sent[0]];
        bool creates = t->flags & TASK_FLAG_ACTOR_CREATION;
        if (!creates)
            task_block(&remote, sent[0]);
        seal_results(sent[0]);
        segment_lock(&remote);
        if (creates) {
            task_release_results(&remote, sent[0]);
            actor_bind(&remote, t->actor_1 - 1, sent[0]);
        } else {
            task_finish(&remote, sent[0], EVENT_OK);
        }
        segment_unlock(&remote);
        check_sound();
    }
    work_until_idle();
}
static void work_in_bundles(void)
{
    a_group_of_two_machines();
    CHECK((n_sent = take_in_bundles()) == 1);
}
static void run_lose_bundle(void)
{
    client_died(&s, remote.me, -SIGKILL);
    CHECK(group()->state == POOL_RESERVED && group()[1].client_1 == POOL_NOWHERE && s.h->n_unplaced == 1);
    direct(ROUTE_NEVER); /* but here is the other one */
    CHECK(placement_is_open(group()) && s.h->n_unplaced == 1);
    check_sound();
}
static void run_lose_open_group(void)
{
    client_died(&s, remote.me, -SIGKILL);
    CHECK(placement_is_open(group()) && group()[1].client_1 == POOL_NOWHERE);
    check_sound();
}
static void a_group_that_waits_for_room(void) /* here, while the other bundle is there already */
{
    a_remote_node();
    direct(ROUTE_DIRECTED);
    mode = PLACEMENT_STRICT_SPREAD;
    const uint32_t there[2] = {POOL_COMING, remote.me + 1};
    int64_t all[MAX_KINDS] = {s.h->pools[0].total[KIND_CPU]};
    first_group = place(2, all[KIND_CPU] / RESOURCE_UNIT);
    segment_lock(&s);
    resource_acquire(&s, s.h->pools, all);
    CHECK(placement_assign(&s, group()->head, there) && group()->state == POOL_PENDING &&
          group()->client_1 == POOL_COMING);
    resource_release(&s, s.h->pools, all, 0);
    segment_unlock(&s);
}
static void run_room_comes(void)
{
    segment_lock(&s);
    task_wake_workers(&s);
    segment_unlock(&s);
    CHECK(group()->state == POOL_RESERVED);
    check_sound();
}
static void run_remove_with_bundles(void)
{
    uint64_t doomed[CLIENT_WORDS];
    CHECK(unplace(first_group) == OBJSTORE_OK && !group());
    segment_lock(&s);
    placement_doomed(&s, doomed);
    segment_unlock(&s);
    CHECK(!(doomed[remote.me / 64] >> remote.me % 64 & 1)); /* it is an agent */
    run_results_come();
    CHECK(placement_next(&s, 1) == MAX_POOLS);
}
