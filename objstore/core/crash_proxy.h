/* Of the world in which clients die (crash_world.h): another machine, what runs and what lies there. */

static struct segment proxy;
static uint32_t sent[4], n_sent;
static void a_proxy(void)
{
    attach();
    CHECK(proxy_attach(&proxy, &s, 7) == OBJSTORE_OK);
    submit_one(30, 0);
}
static void run_attach_proxy(void)
{
    a_proxy();
    client_died(&s, proxy.me, 0);
}
static void run_take(void)
{
    segment_lock(&proxy);
    n_sent = proxy_take(&proxy, class_small, 4, true, sent);
    segment_unlock(&proxy);
    CHECK(n_sent >= 2);
}
static void tasks_elsewhere(void)
{
    a_proxy();
    run_take();
}
/* A burial would mend what is derived, so whoever wants to know looks before. */
static void run_take_and_look(void)
{
    run_take();
    check_sound();
}
static void run_results_come(void)
{
    for (uint32_t i = 0; i < n_sent; i++) {
        seal_results(sent[i]);
        segment_lock(&proxy);
        task_finish(&proxy, sent[i], EVENT_OK);
        segment_unlock(&proxy);
    }
    check_sound();
}
static void run_tasks_return(void)
{
    for (uint32_t i = 0; i < n_sent; i++) {
        segment_lock(&proxy);
        proxy_give_back(&proxy, sent[i]);
        segment_unlock(&proxy);
    }
    check_sound();
}
static uint32_t put_elsewhere(void)
{
    uint32_t object;
    segment_lock(&proxy);
    CHECK(proxy_create_object(&proxy, &object) == OBJSTORE_OK);
    segment_unlock(&proxy);
    submit(&object, (struct shape){1, 1, 0, 1, 0}, results); /* waits for it */
    segment_lock(&proxy);
    CHECK(object_seal_elsewhere(&proxy, object, 400));
    task_release_waiting(&proxy, object);
    segment_unlock(&proxy);
    return object;
}
static void an_object_elsewhere(void)
{
    a_proxy();
    a = put_elsewhere();
}
static void run_put_elsewhere(void)
{
    a = put_elsewhere();
    segment_lock(&proxy);
    CHECK(!proxy_holds_alone(&proxy, a) && !proxy_is_wanted(&proxy, a));
    segment_unlock(&proxy);
    client_drop(&proxy, &a, 1);
}
static void run_bring(void)
{
    struct away_move m;
    away_begin_reading(&s, a);
    segment_lock(&s);
    CHECK(away_claim(&s, a, &m) == OBJSTORE_PENDING); /* the proxy is told */
    segment_unlock(&s);
    CHECK(proxy_is_wanted(&proxy, a));
    segment_lock(&proxy);
    CHECK(away_claim(&proxy, a, &m) == OBJSTORE_OK);
    uint64_t chunk = object_allocate(&proxy, m.size, 0);
    segment_unlock(&proxy);
    memset(s.base + chunk, 7, m.size);
    segment_lock(&proxy);
    away_return(&proxy, &m, chunk);
    segment_unlock(&proxy);
    CHECK(s.base[object_chunk(&s.objects[a])] == 7);
    away_end_reading(&s, a);
}
static void run_lose(void)
{
    struct away_move m;
    segment_lock(&proxy);
    object_move_elsewhere(&proxy, a, true);
    CHECK(away_claim(&proxy, a, &m) == OBJSTORE_NOT_FOUND);
    object_move_elsewhere(&proxy, a, false);
    CHECK(away_claim(&proxy, a, &m) == OBJSTORE_OK);
    away_give_up(&proxy, a);
    segment_unlock(&proxy);
}

/* ---- actors on another machine */
static void take_constructor(void)
{
    actor_1 = submit_actor_of(class_small, 1, 0, &a);
    b = submit_one(70, actor_1);
    submit_one(0, actor_1);
    segment_lock(&proxy);
    n_sent = proxy_take(&proxy, class_small, 4, false, sent);
    segment_unlock(&proxy);
    CHECK(n_sent && s.actors[actor_1 - 1].task_1);
}
static void a_constructor_elsewhere(void)
{
    a_proxy();
    take_constructor();
}
static void run_bind_elsewhere(void)
{
    uint32_t constructor = s.actors[actor_1 - 1].task_1 - 1;
    seal_results(constructor);
    segment_lock(&proxy);
    task_release_results(&proxy, constructor);
    actor_bind(&proxy, actor_1 - 1, constructor);
    segment_unlock(&proxy);
    check_sound();
}
static void an_actor_elsewhere(void)
{
    a_constructor_elsewhere();
    run_bind_elsewhere();
}
static void run_take_calls(void)
{
    segment_lock(&proxy);
    n_sent = proxy_take_calls(&proxy, actor_1 - 1, 4, sent);
    segment_unlock(&proxy);
    CHECK(n_sent == 2);
    check_sound();
}
static void calls_elsewhere(void)
{
    an_actor_elsewhere();
    run_take_calls();
}
static void lose_actor(bool for_good)
{
    segment_lock(&proxy);
    actor_lost(&proxy, actor_1 - 1, -SIGKILL, for_good, sent, n_sent / 2, n_sent);
    segment_unlock(&proxy);
    CHECK(for_good || s.actors[actor_1 - 1].n_pending == n_sent); /* those that had begun may be repeated, too */
    check_sound();
}
static void run_lose_actor(void) { lose_actor(false); }
static void run_lose_actor_for_good(void) { lose_actor(true); }
static void run_kill_elsewhere(void)
{
    run_kill_pending();
    CHECK(s.actors[actor_1 - 1].flags & ACTOR_FLAG_KILL && s.actors[actor_1 - 1].worker_1 == proxy.me + 1);
}
static uint32_t stand_in(void)
{
    uint32_t object = put_arena(100, NULL, 0);
    struct actor_spec spec = {.max_concurrency = 1, .flags = ACTOR_FLAG_ORDERED, .group_limit = {1}};
    segment_lock(&proxy);
    CHECK(proxy_stand_in(&proxy, &spec, object, function, class_small) == OBJSTORE_OK);
    segment_unlock(&proxy);
    check_sound();
    return object;
}
static void run_stand_in(void)
{
    a = stand_in();
    actor_1 = s.objects[a].u.arena.actor_1;
    submit_one(0, actor_1), submit_one(0, actor_1);
    run_take_calls(); /* both, whatever the limit */
    run_results_come();
    n_sent = 0;
    drop(a);
    lose_actor(true);
}
static void run_checkpoint(void)
{
    for (uint32_t i = 0; i < 2; i++) { /* the second replaces the first */
        uint32_t object = put_arena(100 + i, &held[1], 1);
        segment_lock(&s);
        actor_checkpoint(&s, actor_1 - 1, object);
        segment_unlock(&s);
        drop(object);
        CHECK(s.actors[actor_1 - 1].checkpoint_1 == object + 1);
        check_sound();
    }
}
static void a_saved_actor(void)
{
    an_actor();
    run_checkpoint();
}
static void run_host(void)
{
    uint32_t made, constructor;
    struct actor_spec spec = {.max_concurrency = 1, .flags = ACTOR_FLAG_ORDERED | ACTOR_FLAG_HOSTED};
    struct task_spec task_spec = {.function = function, .resource_class = class_small, .n_returns = 1};
    a = put_arena(100, NULL, 0);
    segment_lock(&proxy);
    CHECK(proxy_host(&proxy, &spec, a, &task_spec, &made, &constructor) == OBJSTORE_OK);
    segment_unlock(&proxy);
    client_drop(&proxy, &made, 1);
    drop(a);
    check_sound();
}
static void a_machines_life(void)
{
    CHECK(proxy_attach(&proxy, &s, 7) == OBJSTORE_OK);
    submit_one(0, 0);
    run_take();
    put_elsewhere();
    take_constructor();
    run_bind_elsewhere();
    run_take_calls();
    stand_in();
}
static void a_lost_machine(void)
{
    attach();
    leave_corpse(a_machines_life);
    while (s.clients[other].role != ROLE_PROXY)
        other++;
}
