/* Part of world.h: a remote node, and what runs and what is there. */

static struct segment remote;
static uint32_t sent[4], n_sent;
static void a_remote_node(void)
{
    attach();
    CHECK(remote_attach(&remote, &s, 7) == OBJSTORE_OK);
    submit_one(30, 0);
}
static void run_attach_remote_node(void)
{
    a_remote_node();
    client_died(&s, remote.me, 0);
}
static void run_take(void)
{
    segment_lock(&remote);
    n_sent = remote_take(&remote, class_small, 4, true, sent);
    segment_unlock(&remote);
    CHECK(n_sent >= 2);
}
static void remote_tasks(void)
{
    a_remote_node();
    run_take();
}
/* Reaping would repair what is derived, so this looks before it. */
static void run_take_and_look(void)
{
    run_take();
    check_sound();
}
static void run_results_come(void)
{
    for (uint32_t i = 0; i < n_sent; i++) {
        seal_results(sent[i]);
        segment_lock(&remote);
        task_finish(&remote, sent[i], EVENT_OK);
        segment_unlock(&remote);
    }
    check_sound();
}
static void run_tasks_return(void)
{
    for (uint32_t i = 0; i < n_sent; i++) {
        segment_lock(&remote);
        remote_give_back(&remote, sent[i]);
        segment_unlock(&remote);
    }
    check_sound();
}
static uint32_t put_remote(void)
{
    uint32_t object;
    segment_lock(&remote);
    CHECK(remote_create_object(&remote, &object) == OBJSTORE_OK);
    segment_unlock(&remote);
    submit(&object, (struct shape){1, 1, 0, 1, 0}, results); /* waits for it */
    segment_lock(&remote);
    CHECK(object_seal_remote(&remote, object, 400));
    task_release_waiting(&remote, object);
    segment_unlock(&remote);
    return object;
}
static void a_remote_object(void)
{
    a_remote_node();
    a = put_remote();
}
static void run_put_remote(void)
{
    a = put_remote();
    segment_lock(&remote);
    CHECK(!remote_holds_alone(&remote, a) && !remote_is_wanted(&remote, a));
    segment_unlock(&remote);
    client_drop(&remote, &a, 1);
}
static void run_bring(void)
{
    struct offload_move m;
    offload_begin_reading(&s, a);
    segment_lock(&s);
    CHECK(offload_claim(&s, a, &m) == OBJSTORE_PENDING); /* the remote node is told */
    segment_unlock(&s);
    CHECK(remote_is_wanted(&remote, a));
    segment_lock(&remote);
    CHECK(offload_claim(&remote, a, &m) == OBJSTORE_OK);
    uint64_t chunk = object_allocate(&remote, m.size, 0);
    segment_unlock(&remote);
    memset(s.base + chunk, 7, m.size);
    segment_lock(&remote);
    offload_return(&remote, &m, chunk);
    segment_unlock(&remote);
    CHECK(s.base[object_chunk(&s.objects[a])] == 7);
    offload_end_reading(&s, a);
}
static void run_lose(void)
{
    struct offload_move m;
    segment_lock(&remote);
    object_move_remote(&remote, a, true);
    CHECK(offload_claim(&remote, a, &m) == OBJSTORE_NOT_FOUND);
    object_move_remote(&remote, a, false);
    CHECK(offload_claim(&remote, a, &m) == OBJSTORE_OK);
    offload_give_up(&remote, a);
    segment_unlock(&remote);
}

/* ---- actors on another machine */
static void take_constructor(void)
{
    actor_1 = submit_actor_of(class_small, 1, 0, &a);
    b = submit_one(70, actor_1);
    submit_one(0, actor_1);
    segment_lock(&remote);
    n_sent = remote_take(&remote, class_small, 4, false, sent);
    segment_unlock(&remote);
    CHECK(n_sent && s.actors[actor_1 - 1].task_1);
}
static void a_remote_constructor(void)
{
    a_remote_node();
    take_constructor();
}
static void run_bind_remote(void)
{
    uint32_t constructor = s.actors[actor_1 - 1].task_1 - 1;
    seal_results(constructor);
    segment_lock(&remote);
    task_release_results(&remote, constructor);
    actor_bind(&remote, actor_1 - 1, constructor);
    segment_unlock(&remote);
    check_sound();
}
static void a_remote_actor(void)
{
    a_remote_constructor();
    run_bind_remote();
}
static void run_take_calls(void)
{
    segment_lock(&remote);
    n_sent = remote_take_calls(&remote, actor_1 - 1, 4, sent);
    segment_unlock(&remote);
    CHECK(n_sent == 2);
    check_sound();
}
static void remote_calls(void)
{
    a_remote_actor();
    run_take_calls();
}
static void lose_actor(bool for_good)
{
    segment_lock(&remote);
    actor_lost(&remote, actor_1 - 1, -SIGKILL, for_good, sent, n_sent / 2, n_sent);
    segment_unlock(&remote);
    CHECK(for_good || s.actors[actor_1 - 1].n_pending == n_sent); /* those that had begun may be repeated, too */
    check_sound();
}
static void run_lose_actor(void) { lose_actor(false); }
static void run_lose_actor_for_good(void) { lose_actor(true); }
static void run_kill_remote(void)
{
    run_kill_pending();
    CHECK(s.actors[actor_1 - 1].flags & ACTOR_FLAG_KILL && s.actors[actor_1 - 1].worker_1 == remote.me + 1);
}
static uint32_t stand_in(void)
{
    uint32_t object = put_arena(100, NULL, 0);
    struct actor_spec spec = {.max_concurrency = 1, .flags = ACTOR_FLAG_ORDERED, .group_limit = {1}};
    segment_lock(&remote);
    CHECK(remote_stand_in(&remote, &spec, object, function, class_small) == OBJSTORE_OK);
    segment_unlock(&remote);
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
static void ask_for_actor(struct actor_spec spec)
{
    uint32_t made, constructor;
    struct task_spec task_spec = {.function = function, .resource_class = class_small, .n_returns = 1};
    a = put_arena(100, NULL, 0);
    segment_lock(&remote);
    CHECK(remote_host(&remote, &spec, a, &task_spec, &made, &constructor) == OBJSTORE_OK);
    segment_unlock(&remote);
    client_drop(&remote, &made, 1);
    drop(a);
    check_sound();
}
static void run_host(void)
{
    ask_for_actor((struct actor_spec){.max_concurrency = 1, .flags = ACTOR_FLAG_ORDERED | ACTOR_FLAG_HOSTED});
}
static void run_make(void)
{
    ask_for_actor((struct actor_spec){.max_concurrency = 1, .name_hash = 7, .flags = ACTOR_FLAG_DETACHED});
}
static void a_machines_life(void)
{
    CHECK(remote_attach(&remote, &s, 7) == OBJSTORE_OK);
    submit_one(0, 0);
    run_take();
    put_remote();
    take_constructor();
    run_bind_remote();
    run_take_calls();
    stand_in();
}
static void a_lost_machine(void)
{
    attach();
    leave_corpse(a_machines_life);
    while (s.clients[other].role != ROLE_REMOTE_NODE)
        other++;
}
