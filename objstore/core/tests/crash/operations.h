/* Part of world.h: the operations in which clients die, each with the state that it needs. */

/* ------------------------------------------------------------------ operations
 * `ready` runs in the victim before anything can happen to it, `run` is what it dies in. */

struct operation {
    const char *name;
    void (*ready)(void), (*run)(void);
};

static uint32_t a, b, c, task, other, actor_1; /* what `ready` leaves to `run` */
static uint32_t results[4];

/* A process that did `life` and ended without a word, still attached. */
static void leave_corpse_of(uint32_t role, void (*life)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(client_attach(&s, role) == OBJSTORE_OK);
        life();
        _exit(0);
    }
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    for (other = 0; atomic_load(&s.clients[other].pid) != pid; other++)
        ;
}

static void leave_corpse(void (*life)(void)) { leave_corpse_of(ROLE_WORKER, life); }

static void attach(void) { CHECK(client_attach(&s, ROLE_WORKER) == OBJSTORE_OK); }
static void detach(void) { client_died(&s, s.me, 0); }

static void some_objects(void)
{
    attach();
    a = put_inline();
    b = put_arena(200, &a, 1);
    uint32_t both[2] = {a, b};
    c = put_arena(3000, both, 2);
    drop(a), drop(b);
}
static void a_movable_object(void)
{
    attach();
    c = put_arena(400, NULL, 0);
}
static void an_offloaded_object(void)
{
    a_movable_object();
    CHECK(choose_and_offload(c) && object_is_absent(&s.objects[c]));
}
static struct offload_move moving;
static void a_late_reader(void) /* of an object that has been chosen: the driver, which goes on looking at it */
{
    a_movable_object();
    CHECK(offload_choose(&s, &moving) == OBJSTORE_OK);
    uint32_t me = s.me;
    s.me = DRIVER;
    object_hold(&s, moving.slot);
    offload_begin_reading(&s, moving.slot);
    s.me = me;
}
static void run_offload(void) { CHECK(choose_and_offload(c)); }
static void run_move_what_is_read(void) { offload(&moving); }
static void run_read(void) { read_object(c); }
static void run_move_about(void)
{
    for (int i = 0; i < 2; i++) {
        choose_and_offload(c);
        read_object(c);
        read_object(held[n_held - 1]);
    }
    choose_and_offload(c);
    drop(c);
}

/* What comes to nothing, on both ways. */
static void run_give_up(void)
{
    struct offload_move m;
    bool absent = object_is_absent(&s.objects[c]);
    if (!absent)
        CHECK(offload_choose(&s, &m) == OBJSTORE_OK && m.slot == c);
    segment_lock(&s);
    if (absent)
        CHECK(offload_claim(&s, c, &m) == OBJSTORE_OK);
    offload_give_up(&s, c);
    offload_never(&s, c);
    segment_unlock(&s);
}

/* Pages that were used before. */
static void warm_pages(void)
{
    attach();
    drop(put_arena(6 * ARENA_PAGE, NULL, 0));
}
static void run_give_memory_back(void)
{
    for (int i = 0; i < 2; i++) {
        segment_lock(&s);
        uint64_t idle = arena_take_idle(&s.h->arena, s.base, 4096, ARENA_BUILDING, s.me);
        segment_unlock(&s);
        CHECK(idle);
        segment_lock(&s);
        CHECK(arena_free_emptied(&s.h->arena, s.base, idle) == OBJSTORE_OK);
        segment_unlock(&s);
    }
}
static uint64_t take_array(void)
{
    segment_lock(&s);
    uint64_t array = arena_alloc_pages(&s.h->arena, s.base, ARENA_PAGE, ARENA_ARRAY, s.me);
    segment_unlock(&s);
    CHECK(array);
    return array;
}
static void run_seal_array(void) /* one becomes an object as it lies there, one does not */
{
    uint64_t sealed = take_array(), lost = take_array();
    segment_lock(&s);
    CHECK(object_create(&s, s.me, s.h->next_seq++ | PUT_BIT, &b) == OBJSTORE_OK);
    segment_unlock(&s);
    /* without the lock, as it has no references */
    CHECK(object_seal_arena(&s, b, OBJECT_READY, sealed, ARENA_PAGE, 0));
    segment_lock(&s);
    CHECK(arena_free(&s.h->arena, s.base, lost) == OBJSTORE_OK);
    segment_unlock(&s);
    drop(b);
}

static void a_shared_array(void) /* in a value, as when it is put */
{
    attach();
    a = put_shared(400, 0, 0);
    c = put_arena(40, &a, 1);
    drop(a);
}
static void run_share(void)
{
    a = put_shared(400, 0, 0);
    s.base[object_chunk(&s.objects[a])] = 1; /* a holder writes */
    choose_and_offload(UINT32_MAX);
    CHECK(!choose_and_offload(UINT32_MAX) && object_is_shared(&s.objects[a])); /* everything else, at most */
    b = put_arena(40, &a, 1);
    drop(a), drop(b);
}
static void hold_as_driver(uint32_t object)
{
    uint32_t me = s.me;
    s.me = DRIVER;
    object_hold(&s, object);
    s.me = me;
}
static int arrive_as(uint32_t client, uint64_t *ticket)
{
    uint32_t me = s.me;
    s.me = client;
    int result = barrier_arrive(&s, sync_of(c), ticket);
    s.me = me;
    return result;
}
static void a_barrier(void) /* of three, to which the driver has come */
{
    uint64_t ticket;
    attach();
    c = put_shared(sizeof(struct shared_sync), SYNC_BARRIER, 3);
    hold_as_driver(c);
    CHECK(arrive_as(DRIVER, &ticket) == SYNC_PENDING && ticket == 0);
}
static void run_barrier(void)
{
    struct shared_sync *barrier = sync_of(c);
    uint64_t ticket;
    _Atomic int trust = TRUST_MAX;
    CHECK(arrive_as(s.me, &ticket) == SYNC_PENDING && barrier_n_arrived(barrier) == 2);
    CHECK(barrier_withdraw(barrier, ticket) == SYNC_PENDING && barrier_n_arrived(barrier) == 1);
    CHECK(arrive_as(s.me, &ticket) == SYNC_PENDING);
    word_sleep(&barrier->news, &barrier->sleepers, atomic_load(&barrier->news), 1000, &trust);
    uint64_t last;
    CHECK(arrive_as(DRIVER, &last) == SYNC_DONE && barrier_look(barrier, ticket) == SYNC_DONE);
    CHECK(barrier_withdraw(barrier, ticket) == SYNC_DONE && barrier_n_arrived(barrier) == 0);
    drop(c);
}
static void a_condition(void)
{
    attach();
    c = put_shared(sizeof(struct shared_sync), SYNC_CONDITION, 0);
    hold_as_driver(c);
}
static void run_condition(void)
{
    struct shared_sync *condition = sync_of(c);
    CHECK(condition_lock(&s, condition, 7) == SYNC_DONE && condition_lock(&s, condition, 7) == SYNC_OWNED);
    uint32_t seen = condition_enter(condition);
    CHECK(condition_unlock(&s, condition, 7) == SYNC_DONE && condition_unlock(&s, condition, 7) == SYNC_NOT_OWNED);
    CHECK(condition_lock(&s, condition, 7) == SYNC_DONE && !condition_take(condition, &seen));
    condition_notify(condition, 1);
    CHECK(condition_take(condition, &seen) && condition_unlock(&s, condition, 7) == SYNC_DONE);
    drop(c);
}
static void join_both(void) /* a barrier and a condition of the driver's, and die */
{
    uint64_t ticket;
    for (uint32_t i = 0; i < s.h->touched_objects; i++)
        if (sync_at(&s, i, SYNC_BARRIER))
            CHECK(barrier_arrive(&s, sync_of(i), &ticket) == SYNC_PENDING);
        else if (sync_at(&s, i, SYNC_CONDITION))
            CHECK(condition_lock(&s, sync_of(i), 7) == SYNC_DONE);
}
static void a_dead_member(void)
{
    a_barrier();
    put_shared(sizeof(struct shared_sync), SYNC_CONDITION, 0);
    leave_corpse(join_both);
}
static void run_reap_member(void)
{
    client_died(&s, other, -SIGKILL);
    uint64_t ticket;
    CHECK(barrier_look(sync_of(c), 0) == SYNC_BROKEN && arrive_as(s.me, &ticket) == SYNC_BROKEN);
    sync_reset(sync_of(c));
    CHECK(barrier_look(sync_of(c), 0) == SYNC_RESET && arrive_as(s.me, &ticket) == SYNC_PENDING);
}
static void run_put_inline(void) { put_inline(); }
static void run_put(void) { put_arena(200, &c, 1); }
static void run_drop(void) { drop(c); } /* and all it contained */

static void run_get(void)
{
    object_hold(&s, held[1]); /* a ref found in a value that the driver keeps */
    atomic_store(&s.clients[s.me].need, 0);
    if (object_mark_waiting(&s, held[1])) {
        atomic_fetch_add(&s.clients[s.me].need, 1);
        client_sleep(&s, client_inbox(&s), 1000, NULL);
    }
    drop(held[1]);
}
static void run_wait(void)
{
    uint32_t seen = client_inbox(&s);
    atomic_store(&s.clients[s.me].need, 0);
    for (uint32_t i = 1; i < n_held; i++)
        object_mark_waiting(&s, held[i]);
    atomic_fetch_add(&s.clients[s.me].need, 3);
    _Atomic int trust = TRUST_MAX;
    client_sleep(&s, seen, 50000, &trust);
}

static void run_submit(void) { submit(&c, (struct shape){0, 1, 90, 1, 0}, results); }
static void run_submit_small(void) { submit_one(8, 0); }
static void run_submit_waiting(void)
{
    uint32_t refs[3] = {held[1], held[2], c};
    submit(refs, (struct shape){2, 3, 4, 3, 0}, results);
}

static void a_task(void)
{
    some_objects();
    a = submit_one(8, 0);
    b = submit(&a, (struct shape){1, 1, 0, 1, 0}, results);
    task = pop();
    CHECK(task != UINT32_MAX);
}
static void a_sealed_task(void)
{
    a_task();
    seal_results(task);
}
static void run_pop(void) { pop(); }
static void run_seal(void) { seal_results(task); }
static void run_finish(void) { finish(task); }
static void run_finish_and_pop(void)
{
    segment_lock(&s);
    task_finish_and_pop(&s, task, EVENT_OK, ANY_GROUP);
    segment_unlock(&s);
}
static void run_work(void) { work_until_idle(); }
static void run_retry(void)
{
    segment_lock(&s);
    task_retry(&s, task);
    segment_unlock(&s);
}
/* The task waits for `a`; what begins is that, or what others wait for, or nothing where there is no room. */
static void wait_for_a(void)
{
    segment_lock(&s);
    task_waits_for(&s, task, a);
    segment_unlock(&s);
    task_block(&s, task);
    other = pop();
}
static void run_ask_for(void) /* a call of an actor that is not there yet, and what waits for a task */
{
    segment_lock(&s);
    task_ask_for(&s, results[0]);
    task_ask_for(&s, b);
    segment_unlock(&s);
}
/* Nothing but the task itself refers to what it was given. */
static void a_sole_owner(void)
{
    some_objects();
    b = put_arena(300, NULL, 0);
    a = submit(&b, (struct shape){1, 1, 0, 1, 0}, results);
    drop(b);
    task = pop();
    wait_for_a();
    seal_results(task = other);
}
static void an_awaited_task(void)
{
    a_task();
    wait_for_a();
    CHECK(s.tasks[other].result_1 == a + 1);
}
static void run_fail(void)
{
    segment_lock(&s);
    task_seal_failed(&s, other, FAILURE_WORKER_CRASHED, 1);
    task_finish(&s, other, EVENT_CRASHED);
    segment_unlock(&s);
}
static void run_block(void)
{
    task_block(&s, task);
    task_unblock(&s, task);
}
static void run_wait_for_a(void)
{
    wait_for_a();
    task_unblock(&s, task);
    if (other == UINT32_MAX)
        return;
    task_block(&s, other);
    task_unblock(&s, other);
    seal_results(other);
    finish(other);
}
static void run_cancel_ready(void) { cancel(a), drop(b); }
static void run_cancel_waiting(void) { cancel(b), drop(a); }
static void run_cancel_running(void) { cancel(a), drop(a); }

/* One that needs the whole machine, which others have overtaken. */
static void a_large_task(void)
{
    int64_t all[MAX_KINDS] = {4 * RESOURCE_UNIT};
    uint32_t plain = class_small, class;
    attach();
    task = pop();
    segment_lock(&s);
    CHECK(resource_class(&s, all, all, 0, ON_NODE, &class) == OBJSTORE_OK);
    segment_unlock(&s);
    class_small = class;
    a = submit_one(8, 0);
    class_small = plain;
    b = submit_one(8, 0);
    s.h->turn += 2 * N_PASSED_OVER;
    s.h->reserved.span = UINT64_C(1) << 60; /* it may be stepped through */
}
static void run_overtaken(void)
{
    CHECK(pop() == UINT32_MAX && s.h->reserved.class_1 && resource_reserved_for(&s));
    check_sound();
    seal_results(task), finish(task);
    CHECK(work() && object_sealed(&s.objects[a]) && !s.h->reserved.class_1);
    drop(a), drop(b);
}
static void run_cancel_overtaken(void)
{
    CHECK(pop() == UINT32_MAX);
    cancel(a), drop(a);
    CHECK(!s.h->reserved.class_1);
    check_sound();
}
static void remote_arguments(void) /* of a task, which gave its CPU to another */
{
    attach();
    for (int i = 0; i < 6; i++)
        submit_one(8, 0);
    task = pop();
    task_block(&s, task);
    for (int i = 0; i < 4; i++) {
        uint32_t next = pop();
        if (!(s.tasks[next].flags & TASK_FLAG_ACTOR_CREATION))
            other = next;
    }
}
static void run_arguments_come(void)
{
    CHECK(!task_return(&s, task));
    check_sound();
    seal_results(other), finish(other);
    CHECK(!s.h->n_ready || !resource_admissible(&s, &s.classes[class_small]));
    CHECK(task_return(&s, task));
    check_sound();
    seal_results(task), finish(task);
}
static void run_end_of_who_waits(void)
{
    CHECK(!task_return(&s, task));
    segment_lock(&s);
    task_retry(&s, task);
    segment_unlock(&s);
    CHECK(!s.h->pools[0].awaited);
}

static void run_submit_stream(void) { submit_stream(results); }
static void a_streaming_task(void) /* the driver's */
{
    attach();
    for (task = pop(); !(s.tasks[task].flags & TASK_FLAG_STREAM); task = pop())
        ;
}
static void run_yield(void)
{
    seal_results(task);
    finish(task);
}
static void a_stream(void)
{
    a_streaming_task();
    b = submit_stream(&a);
    read_item(b);
    yield_items(task_producing(&s, a)); /* on whichever client it runs */
}
static void run_read_stream(void)
{
    for (int i = 0; i < 3; i++)
        read_item(b);
    drop(b);
}

static void run_read_ahead(void)
{
    uint32_t item;
    for (uint64_t i = 0; i < 4; i++) {
        segment_lock(&s);
        stream_ahead(&s, b, i, &item); /* the last ones make items that the task has not reached */
        if (i == 1)
            stream_advance(&s, b, 1);
        segment_unlock(&s);
    }
    check_sound();
    drop(b);
}

static void an_actor(void)
{
    some_objects();
    actor_1 = submit_actor(1, 0, &a);
    b = submit_one(70, actor_1);
    submit(&held[1], (struct shape){1, 1, 0, 1, actor_1}, results);
}
static void run_create_actor(void) { submit_actor(1, 0, &a); }
static void run_create_detached(void)
{
    actor_1 = submit_actor(0, ACTOR_FLAG_DETACHED, &a);
    segment_lock(&s);
    actor_die(&s, actor_1 - 1, 0); /* a detached actor outlives its maker, and this world wants to end empty */
    segment_unlock(&s);
}
static void run_call(void) { submit_one(70, actor_1); }
static void run_cancel_call(void) { cancel(b), cancel(results[0]); }
static void run_cancel_last_call(void) /* which kept its actor, whose handle has gone */
{
    drop(a);
    cancel(results[0]), drop(results[0]); /* stands before a dependency, too, which keeps it for as long */
    CHECK(s.actors[actor_1 - 1].n_pending == 1);
    cancel(b), drop(b);
    CHECK(!s.actors[actor_1 - 1].n_pending);
    check_sound();
}
static void an_actor_with_one_call(void)
{
    some_objects();
    actor_1 = submit_actor(1, 0, &a);
    b = submit_one(70, actor_1);
}
static void run_cancel_the_call(void)
{
    drop(a);
    CHECK(atomic_load(&s.actors[actor_1 - 1].state) == ACTOR_PENDING);
    cancel(b), drop(b);
    CHECK(atomic_load(&s.actors[actor_1 - 1].state) == ACTOR_FREE);
    check_sound();
}
static void run_kill_pending(void)
{
    segment_lock(&s);
    actor_kill(&s, actor_1 - 1, true);
    segment_unlock(&s);
}
static void run_kill_once(void) /* before it has begun, and it may begin again once */
{
    int32_t left = s.actors[actor_1 - 1].restarts_left;
    segment_lock(&s);
    actor_kill(&s, actor_1 - 1, false);
    segment_unlock(&s);
    CHECK(left == 1 && s.actors[actor_1 - 1].restarts_left == 0);
    run_kill_pending();
}
static void run_drop_handle(void) { drop(a); }
static void until_constructor(void)
{
    for (task = pop(); task != UINT32_MAX && !(s.tasks[task].flags & TASK_FLAG_ACTOR_CREATION); task = pop())
        seal_results(task), finish(task);
    CHECK(task != UINT32_MAX);
}
static void a_constructor(void)
{
    an_actor();
    until_constructor(); /* the driver's actor's: it came first */
    seal_results(task);
}
static void run_bind(void) { finish(task); }
static void the_only_actor(void)
{
    attach();
    leave_corpse(until_constructor); /* holds the driver's */
}
static void run_construction_failed(void)
{
    actor_1 = submit_actor(1, 0, &a);
    submit_one(70, actor_1), submit_one(0, actor_1);
    until_constructor();
    object_seal_inline(&s, task_result(&s, &s.tasks[task], 0), OBJECT_ERROR, "bad", 3);
    segment_lock(&s);
    actor_construction_failed(&s, s.tasks[task].actor_1 - 1, task, task_result(&s, &s.tasks[task], 0));
    segment_unlock(&s);
    submit_one(0, actor_1); /* of a dead actor */
}
static void run_later_construction_failed(void) /* its result is that of the first life, so the error is by itself */
{
    uint32_t error;
    actor_1 = submit_actor(1, 0, &a);
    submit_one(70, actor_1);
    until_constructor();
    seal_results(task);
    segment_lock(&s);
    CHECK(object_create(&s, s.me, s.h->next_seq++ | PUT_BIT, &error) == OBJSTORE_OK);
    segment_unlock(&s);
    object_seal_inline(&s, error, OBJECT_ERROR, "bad", 3);
    segment_lock(&s);
    actor_construction_failed(&s, s.tasks[task].actor_1 - 1, task, error);
    segment_unlock(&s);
    drop(error);
}
static void a_failed_actor(void)
{
    the_only_actor();
    run_construction_failed();
}
static void serve(void)
{
    while (!s.clients[s.me].actor_1)
        work();
}
static void an_actors_worker(void)
{
    attach();
    serve();
}
static void a_running_call(void)
{
    an_actors_worker();
    task = pop();
    CHECK(task != UINT32_MAX);
}
static void run_serve(void)
{
    seal_results(task);
    finish(task);
    work_until_idle();
}

static void half_a_life(void) /* of a worker: an actor, a running call, references, a half-written value, a wait */
{
    uint32_t object;
    serve();
    pop();
    put_arena(100, &held[1], 1);
    submit(&held[1], (struct shape){1, 1, 90, 2, 0}, results);
    segment_lock(&s);
    object_create(&s, s.me, s.h->next_seq++ | PUT_BIT, &object);
    object_allocate(&s, 2000, 0);
    segment_unlock(&s);
    object_mark_waiting(&s, held[4]);
}
static void a_dead_worker(void)
{
    attach();
    leave_corpse(half_a_life);
}
static void sealed_and_gone(void) /* between sealing and finishing */ { seal_results(pop()); }
static void a_sealer(void)
{
    attach();
    leave_corpse(sealed_and_gone);
}
static void one_life(void)
{
    actor_1 = submit_actor(0, 0, &a);
    submit_one(70, actor_1);
    serve();
    pop();
}
static void a_dead_actor(void)
{
    attach();
    until_constructor(); /* of the driver's: the corpse gets its own */
    leave_corpse(one_life);
}
static void a_refusing_life(void) /* two of its calls stand in the mailbox, one of them before a dependency */
{
    uint32_t result;
    actor_1 = submit_actor(1, ACTOR_FLAG_REFUSES, &a);
    submit_one(70, actor_1), submit_one(70, actor_1);
    submit(&held[1], (struct shape){1, 1, 0, 1, actor_1}, &result);
    for (uint32_t i = 0; i < s.h->touched_tasks; i++)
        if (s.tasks[i].actor_1 == actor_1)
            s.tasks[i].max_retries = 0;
    serve();
    pop();
}
static void a_dead_actor_that_refuses(void)
{
    attach();
    until_constructor();
    leave_corpse(a_refusing_life);
}
static void a_drivers_life(void)
{
    uint32_t ready = submit_one(70, 0), result;
    submit(&ready, (struct shape){1, 1, 0, 1, 0}, &result);
    actor_1 = submit_actor(1, 0, &a);
    submit_one(0, actor_1);
    put_arena(300, NULL, 0);
}
/* of a worker that has begun the dead driver's first task while it waits in one of the driver's */
static void a_waiting_life(void)
{
    uint32_t waiter = pop();
    for (task = 0;
         s.tasks[task].caller != other || s.tasks[task].actor_1 || atomic_load(&s.tasks[task].state) != TASK_READY;
         task++)
        ;
    a = s.tasks[task].result_1 - 1;
    uint32_t awaited = task;
    task = waiter;
    wait_for_a();
    task = awaited;
}
static void a_dead_driver(void)
{
    attach();
    leave_corpse_of(ROLE_DRIVER, a_drivers_life);
    uint32_t driver = other;
    leave_corpse(a_waiting_life);
    other = driver;
}
static void run_client_died(void) { client_died(&s, other, -SIGKILL); }
static void run_client_crashed(void) { client_died(&s, other, -SIGSEGV); }
static void run_client_died_of_memory(void) { client_died(&s, other, DIED_OF_MEMORY); }
static void run_reap(void)
{
    int32_t pids[MAX_CLIENTS];
    CHECK(client_reap(&s, pids) == 1 && client_reap(&s, pids) == 0);
}
static void run_context(void)
{
    uint32_t object;
    uint64_t before = client_context_version(&s);
    client_set_context(&s, c, true);
    CHECK(client_context(&s, &object) && object == c && client_context_version(&s) != before);
    drop(c);
    CHECK(!client_context(&s, &object));
}
static void locked_and_gone(void)
{
    segment_lock(&s);
    task = task_pop(&s);
    object_create(&s, s.me, s.h->next_seq++ | PUT_BIT, &a);
    object_allocate(&s, 100, 0);
}
static void a_dead_owner(void)
{
    attach();
    leave_corpse(locked_and_gone);
}
static void run_recover(void)
{
    segment_lock(&s);
    segment_unlock(&s);
}
static void run_rebuild(void)
{
    segment_lock(&s);
    arena_rebuild(&s.h->arena, s.base, NULL, NULL);
    segment_unlock(&s);
}
#include "tests/crash/placement.h"

static void run_resources(void)
{
    int64_t demand[MAX_KINDS] = {RESOURCE_UNIT, 0, 0, 5}, total[MAX_KINDS] = {4 * RESOURCE_UNIT};
    uint32_t kind, class;
    segment_lock(&s);
    resource_kind(&s, "licence", &kind);
    resource_class(&s, demand, demand, 0, ON_NODE, &class);
    resource_set_total(&s, total);
    segment_unlock(&s);
}

/* The table of shapes is full, but for tasks' all of them can go; one for several pools is made together with those for
 * each. */
static void every_shape(void)
{
    int64_t demand[MAX_KINDS] = {0};
    uint32_t class;
    attach();
    segment_lock(&s);
    CHECK(resource_class(&s, demand, demand, 0, (struct place){.pool = 1, .n_pools = 3}, &class) == OBJSTORE_OK);
    while (s.h->n_classes < MAX_CLASSES) {
        demand[0]++;
        CHECK(resource_class(&s, demand, demand, 0, ON_NODE, &class) == OBJSTORE_OK);
    }
    segment_unlock(&s);
}
static void run_make_room_for_shapes(void)
{
    int64_t demand[MAX_KINDS] = {RESOURCE_UNIT, 0, 0, 5};
    uint32_t class;
    segment_lock(&s);
    CHECK(resource_class(&s, demand, demand, 0, (struct place){.pool = 1, .n_pools = 2}, &class) == OBJSTORE_OK);
    segment_unlock(&s);
}

/* That need more than the machine has; one's result is held, and one does not wait for resources alone. */
static void hopeless_tasks(void)
{
    int64_t five[MAX_KINDS] = {5 * RESOURCE_UNIT};
    uint32_t plain = class_small, class;
    some_objects();
    segment_lock(&s);
    CHECK(resource_class(&s, five, five, 0, ON_NODE, &class) == OBJSTORE_OK);
    segment_unlock(&s);
    class_small = class;
    drop(submit(&c, (struct shape){1, 1, 90, 2, 0}, results)), drop(results[1]);
    drop(submit_one(8, 0));
    other = submit_one(8, 0);
    drop(submit(&held[1], (struct shape){1, 1, 0, 1, 0}, results));
    class_small = plain;
}
static void run_end_hopeless(void)
{
    uint32_t n = s.h->n_live_tasks;
    segment_lock(&s);
    CHECK(end_hopeless(&s) && !end_hopeless(&s));
    segment_unlock(&s);
    CHECK(s.h->n_live_tasks == n - 2 && object_state(&s.objects[other]) == OBJECT_PENDING);
    check_sound();
}

/* The operations one after the other, each in the state that the others left. */
static void run_everything(void)
{
    a = put_inline(), b = put_arena(200, &a, 1);
    drop(a);
    uint32_t mine = submit(&b, (struct shape){0, 1, 90, 1, 0}, results); /* stands behind the driver's */
    uint32_t dependent = submit(&mine, (struct shape){1, 1, 0, 1, 0}, results);
    drop(b);
    cancel(dependent);
    drop(dependent);
    CHECK(work() && work());
    a = submit_one(8, 0);
    task = pop();
    run_wait_for_a();
    drop(a);
    run_block();
    run_retry();
    work_until_idle(); /* ends as the actor's worker, with its calls served */
    cancel(mine);
    drop(mine);
    b = submit_stream(&a);
    drop(a), drop(b);
    actor_1 = submit_actor(0, 0, &a);
    b = submit_one(70, actor_1);
    drop(a);
    run_kill_pending();
    drop(b);
}

#include "tests/crash/remote_node.h"

/* ---- where tasks begin */
static uint32_t class_asks, class_waits;
static uint32_t submit_routed(uint32_t class)
{
    uint32_t plain = class_small, result;
    class_small = class;
    result = submit_one(8, 0);
    class_small = plain;
    return result;
}
static uint32_t routed_class(uint16_t route)
{
    int64_t one[MAX_KINDS] = {RESOURCE_UNIT};
    struct place place = {.n_pools = 1, .route = route, .strategy = "somewhere"};
    uint32_t class;
    segment_lock(&s);
    CHECK(resource_class(&s, one, one, 0, place, &class) == OBJSTORE_OK);
    segment_unlock(&s);
    return class;
}
static void direct(enum route_directs how)
{
    segment_lock(&s);
    route_direct(&s, how);
    segment_unlock(&s);
}
static void tasks_that_ask(void)
{
    attach();
    class_asks = routed_class(ROUTE_ASKS), class_waits = routed_class(ROUTE_WAITS);
    direct(ROUTE_DIRECTED);
    submit_routed(class_asks), submit_routed(class_asks), submit_routed(class_waits);
}
static void run_place_here(void)
{
    uint32_t placed[4];
    segment_lock(&s);
    CHECK(!route_place(&s, class_asks, 4, true, placed));
    CHECK(route_place(&s, class_asks, 4, false, placed) == 2 && !s.classes[class_asks].n_ready);
    CHECK(route_recall(&s, placed[1]) && !route_recall(&s, placed[1]) && s.classes[class_asks].n_ready == 1);
    segment_unlock(&s);
    check_sound();
}
static void run_unrouted(void)
{
    segment_lock(&s);
    CHECK(!route_fail(&s, class_waits, true) && route_fail(&s, class_waits, false) == 1);
    segment_unlock(&s);
    check_sound();
}
static void run_direct(void) /* ROUTE_ASKS begins here only without an agent, ROUTE_WAITS never does */
{
    while (work())
        CHECK(s.classes[class_asks].n_ready == 2 && !resource_admissible(&s, &s.classes[class_asks]));
    direct(ROUTE_NEVER);
    CHECK(resource_admissible(&s, &s.classes[class_asks]) && !resource_admissible(&s, &s.classes[class_waits]));
    work_until_idle();
    direct(ROUTE_UNDIRECTED);
    CHECK(s.classes[class_waits].n_ready == 1);
}

#include "tests/crash/bundles.h"
#include "tests/crash/terms.h"
#include "tests/crash/times.h"

static void nobody(void) {}

/* What a process does that finds the dead: it takes the lock over and reports them. */
static void run_clear_up(void)
{
    attach();
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        if (i != s.me && i != DRIVER && atomic_load(&s.clients[i].state) != CLIENT_FREE)
            client_died(&s, i, -SIGKILL);
}

static const struct operation operations[] = {
    {"attach", nobody, attach},
    {"detach", a_task, detach},
    {"everything", attach, run_everything},
    {"put, inline", attach, run_put_inline},
    {"put", some_objects, run_put},
    {"share", attach, run_share},
    {"drop, shared", a_shared_array, run_drop},
    {"come to a barrier", a_barrier, run_barrier},
    {"own a condition", a_condition, run_condition},
    {"reap a member", a_dead_member, run_reap_member},
    {"drop", some_objects, run_drop},
    {"get", attach, run_get},
    {"wait", attach, run_wait},
    {"submit", some_objects, run_submit},
    {"submit, small", attach, run_submit_small},
    {"submit, waiting", some_objects, run_submit_waiting},
    {"pop", a_task, run_pop},
    {"seal", a_task, run_seal},
    {"finish", a_sealed_task, run_finish},
    {"finish and pop", a_sealed_task, run_finish_and_pop},
    {"finish what owns its arguments", a_sole_owner, run_finish},
    {"work", a_task, run_work},
    {"retry", a_task, run_retry},
    {"fail", an_awaited_task, run_fail},
    {"block", a_task, run_block},
    {"wait for a task", a_task, run_wait_for_a},
    {"ask for a task", a_task, run_ask_for},
    {"ask for a call", an_actor, run_ask_for},
    {"cancel ready", a_task, run_cancel_ready},
    {"cancel waiting", a_task, run_cancel_waiting},
    {"cancel running", an_awaited_task, run_cancel_running},
    {"overtaken", a_large_task, run_overtaken},
    {"cancel overtaken", a_large_task, run_cancel_overtaken},
    {"limited tasks", a_task, run_limited},
    {"arguments come", remote_arguments, run_arguments_come},
    {"who waits for a CPU ends", remote_arguments, run_end_of_who_waits},
    {"submit stream", attach, run_submit_stream},
    {"yield", a_streaming_task, run_yield},
    {"read stream", a_stream, run_read_stream},
    {"read stream from afar", a_stream, run_read_ahead},
    {"create actor", attach, run_create_actor},
    {"create detached actor", attach, run_create_detached},
    {"call", an_actor, run_call},
    {"cancel call", an_actor, run_cancel_call},
    {"cancel last call", an_actor, run_cancel_last_call},
    {"cancel the call that keeps an actor", an_actor_with_one_call, run_cancel_the_call},
    {"kill pending actor", an_actor, run_kill_pending},
    {"kill pending actor once", an_actor, run_kill_once},
    {"drop handle", an_actor, run_drop_handle},
    {"bind actor", a_constructor, run_bind},
    {"constructor fails", the_only_actor, run_construction_failed},
    {"constructor fails in a later life", the_only_actor, run_later_construction_failed},
    {"drop a dead actor", a_failed_actor, run_drop_handle},
    {"actor takes", an_actors_worker, run_pop},
    {"actor finishes", a_running_call, run_serve},
    {"actor retries", a_running_call, run_retry},
    {"client died", a_dead_worker, run_client_died},
    {"client died after sealing", a_sealer, run_client_died},
    {"client died with its actor", a_dead_actor, run_client_died},
    {"client died with an actor that refuses", a_dead_actor_that_refuses, run_client_died},
    {"driver died", a_dead_driver, run_client_died},
    {"client crashed", a_dead_worker, run_client_crashed},
    {"client died of memory", a_dead_worker, run_client_died_of_memory},
    {"reap", a_dead_worker, run_reap},
    {"context", some_objects, run_context},
    {"place", a_former_group, run_place},
    {"unplace", two_groups, run_unplace},
    {"unplace pending", two_groups, run_unplace_pending},
    {"work in a group", a_task_in_a_group, run_in_group},
    {"unplace running", a_task_in_a_group, run_unplace_running},
    {"client died with its groups", a_dead_owner_of_groups, run_client_died},
    {"offload", a_movable_object, run_offload},
    {"offload, but read", a_late_reader, run_move_what_is_read},
    {"read back", an_offloaded_object, run_read},
    {"drop, offloaded", an_offloaded_object, run_drop},
    {"offload and read back", a_movable_object, run_move_about},
    {"give up offloading", a_movable_object, run_give_up},
    {"give up reading back", an_offloaded_object, run_give_up},
    {"give memory back", warm_pages, run_give_memory_back},
    {"seal array", warm_pages, run_seal_array},
    {"attach remote node", nobody, run_attach_remote_node},
    {"take for another machine", a_remote_node, run_take_and_look},
    {"results come", remote_tasks, run_results_come},
    {"tasks return", remote_tasks, run_tasks_return},
    {"seal remote", a_remote_node, run_put_remote},
    {"bring", a_remote_object, run_bring},
    {"lose", a_remote_object, run_lose},
    {"machine lost", a_lost_machine, run_client_died},
    {"bind remote actor", a_remote_constructor, run_bind_remote},
    {"take calls", a_remote_actor, run_take_calls},
    {"calls come back", remote_calls, run_results_come},
    {"remote actor lost", remote_calls, run_lose_actor},
    {"remote actor ended", remote_calls, run_lose_actor_for_good},
    {"kill remote actor", a_remote_actor, run_kill_remote},
    {"save", an_actor, run_checkpoint},
    {"kill saved actor", a_saved_actor, run_kill_pending},
    {"drop saved actor", a_saved_actor, run_drop_handle},
    {"stand-in", a_remote_node, run_stand_in},
    {"host", a_remote_node, run_host},
    {"make for a machine", a_remote_node, run_make},
    {"place here", tasks_that_ask, run_place_here},
    {"fail what has nowhere to run", tasks_that_ask, run_unrouted},
    {"direct", tasks_that_ask, run_direct},
    {"say where bundles are", an_open_group, run_assign},
    {"say that all are remote", an_open_group, run_assign_all},
    {"work in bundles", a_group_of_two_machines, run_in_bundles},
    {"a bundle's machine is lost", work_in_bundles, run_lose_bundle},
    {"an open group's machine is lost", a_group_that_waits_for_room, run_lose_open_group},
    {"room comes for a bundle", a_group_that_waits_for_room, run_room_comes},
    {"remove with bundles", work_in_bundles, run_remove_with_bundles},
    {"submit timed", the_only_actor, run_submit_timed},
    {"retry later", a_timed_task, run_retry},
    {"wait is over", a_delayed_task, run_wait_is_over},
    {"cancel delayed", a_delayed_task, run_cancel_delayed},
    {"time is up", a_timed_task, run_time_is_up},
    {"client died of a timeout", a_worker_dead_of_a_timeout, run_client_died},
    {"delayed call", a_delayed_call, run_wait_of_call_is_over},
    {"kill with a delayed call", a_delayed_call, run_die_with_delayed},
    {"recover", a_dead_owner, run_recover},
    {"rebuild arena", some_objects, run_rebuild},
    {"resources", attach, run_resources},
    {"make room for shapes", every_shape, run_make_room_for_shapes},
    {"end what can never run", hopeless_tasks, run_end_hopeless}};
enum { N_OPERATIONS = sizeof operations / sizeof *operations };
