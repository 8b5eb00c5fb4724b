/* Scribbled segments: copies of a live segment with bytes overwritten, as by a stray write of any attached process. The
 * local scheduler (attach, check, recover, report deaths, look at tasks and events), and drivers and workers that know
 * of nothing, may find it corrupt, and must neither leave the segment nor loop.
 *
 *   fuzz_test [n]            n scribbled copies, 5,000 by default
 *   fuzz_test n first        ... starting with that number, as a failure reports it */
#pragma GCC diagnostic ignored "-Wunused-function" /* only a part of world.h is used */
#include "tests/crash/world.h"

#include "recovery/recover.h"
#include "recovery/verify.h"
#include "tasks/verify_task.h"

enum { GUARD = 64 << 20, BATCH = 250, BATCH_S = 60 };
static unsigned char *memory, *image; /* the copy, between pages that must not be touched; the live segment */
static long *at_number;               /* shared: the copy a batch is working on */
static uint64_t random_state, arena_begin;

static uint64_t below(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

/* Somewhere in what is in use: mostly slots and headers, and in them mostly whole words. */
static uint64_t somewhere(void)
{
    const struct segment *v = &s;
    uint64_t tables[][2] = {{0, sizeof(struct header)},
                            {(uint64_t)((unsigned char *)v->classes - v->base), 3 * sizeof *v->classes},
                            {(uint64_t)((unsigned char *)v->clients - v->base), 6 * sizeof *v->clients},
                            {(uint64_t)((unsigned char *)v->actors - v->base), 3 * sizeof *v->actors},
                            {(uint64_t)((unsigned char *)v->objects - v->base), 32 * sizeof *v->objects},
                            {(uint64_t)((unsigned char *)v->tasks - v->base), 24 * sizeof *v->tasks},
                            {(uint64_t)((unsigned char *)v->events - v->base), 64 * sizeof *v->events},
                            {arena_begin, 16384}};
    uint64_t *t = tables[below(sizeof tables / sizeof *tables)];
    return t[0] + below(t[1]);
}

static void scribble(void)
{
    for (uint64_t n = 1 + below(6); n > 0; n--) {
        uint64_t at = somewhere(), value = 0;
        switch (below(5)) {
        case 0:
            value = below(40);
            break;
        case 1:
            value = UINT64_MAX;
            break;
        case 2:
            value = (uint64_t)1 << below(64);
            break;
        case 3:
            value = below(UINT64_MAX);
            break;
        default:
            value = arena_begin + 64 * below(300);
            break;
        }
        size_t size = (size_t)1 << below(4);
        at -= at % size;
        if (below(4) == 0)
            memcpy(&value, memory + somewhere() / 8 * 8, 8); /* from elsewhere: plausible, and wrong */
        memcpy(memory + at, &value, size);
    }
    /* a lock in the name of a living process cannot be told from a lock */
    if (!names_nobody(&s, atomic_load(&s.h->lock)))
        atomic_store(&s.h->lock, 0);
}

static bool is_corrupt(void) { return atomic_load(&s.h->corrupt); }

/* What the local scheduler and other observers do without knowing that anything is wrong. */
static void look(void)
{
    struct event_record records[64];
    uint64_t cursor = 0, lost = 0, doomed[CLIENT_WORDS];
    struct client_view view;
    segment_lock(&s);
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        client_look(&s, i, &view);
    if (!header_is_safe(&s)) {
        segment_condemn(&s);
    } else {
        task_workers_wanted(&s);
        placement_doomed(&s, doomed);
        for (uint32_t i = 0; i < s.h->touched_tasks; i++)
            if (task_is_safe(&s, i) && atomic_load(&s.tasks[i].state) != TASK_FREE)
                task_is_sealed(&s, &s.tasks[i]);
    }
    arena_idle_bytes(&s.h->arena, s.base);
    request_attention(&s);
    segment_unlock(&s);
    for (int i = 0; i < 8; i++)
        offload_file_is_wanted(&s, (uint32_t)below(128), (uint32_t)below(4), below(8));
    event_read(&s, &cursor, records, 64, &lost);
}

/* What it does about deaths, and about memory that lies idle. */
static void act(void)
{
    struct segment again;
    if (segment_use(&again, memory, WORLD_SIZE) != OBJSTORE_OK)
        return;
    for (uint32_t i = 1; i < 5 && !is_corrupt(); i++)
        client_died(&s, i, below(2) ? -SIGKILL : 0);
    if (!is_corrupt() && client_attach(&again, ROLE_WORKER) == OBJSTORE_OK)
        client_died(&s, again.me, 0);
    segment_lock(&s);
    segment_check(&s, NULL, NULL);
    if (!is_corrupt() && arena_check(&s.h->arena, s.base) != OBJSTORE_OK)
        recover(&s);
    uint64_t taken = is_corrupt() ? 0 : arena_take_idle(&s.h->arena, s.base, UINT64_MAX, ARENA_BUILDING, s.me);
    if (taken)
        arena_free_emptied(&s.h->arena, s.base, taken);
    segment_unlock(&s);
}

static void look_after(void)
{
    s.me = DRIVER;
    if (below(2))
        look();
    if (!is_corrupt())
        act();
    look();
    segment_lock(&s);
    recover(&s);
    segment_unlock(&s);
}

/* ------------------------------------------------------------------ what drivers and workers do */

static uint32_t worker;

static uint32_t some_held(void) { return held[below(n_held)]; }

static void go_on_dropping(void)
{
    uint32_t i = (uint32_t)below(n_held), object = held[i];
    held[i] = held[n_held - 1];
    n_held -= n_held > 1;
    drop(object);
}
static void go_on_putting(void)
{
    uint32_t refs[2] = {some_held(), some_held()};
    drop(put_inline());
    drop(put_arena(200 + (uint32_t)below(3000), refs, 2));
}
static void go_on_submitting(void)
{
    uint32_t refs[3] = {some_held(), some_held(), some_held()}, n = (uint32_t)below(4);
    submit(refs, (struct shape){n, n, (uint32_t)below(200), 1 + (uint32_t)below(3), below(3) ? 0 : drivers_actor_1},
           results);
    if (below(2))
        drop(results[0]);
}
static void go_on_reading(void)
{
    const struct object_slot *o = &s.objects[some_held()];
    if (object_state(o) == OBJECT_READY && o->size >= OBJECT_MOVABLE)
        choose_and_offload(some_held());
    read_item(drivers_stream);
    object_mark_waiting(&s, some_held());
}
static void go_on_with_actors(void)
{
    uint32_t object, actor = submit_actor((int32_t)below(3) - 1, below(2) ? ACTOR_FLAG_DETACHED : 0, &object);
    submit_one(70, actor);
    segment_lock(&s);
    if (below(2))
        actor_kill(&s, actor - 1, below(2));
    segment_unlock(&s);
    drop(object);
}
static void go_on_cancelling(void) { cancel(some_held()); }
static void go_on_streaming(void)
{
    b = submit_stream(&a);
    run_read_ahead();
    drop(a);
}
static void go_on_with_groups(void)
{
    uint32_t group;
    segment_lock(&s);
    if (s.h->touched_pools > 1 && (group = placement_next(&s, 1)) < MAX_POOLS)
        placement_remove(&s, group);
    placement_grant(&s);
    segment_unlock(&s);
    run_resources();
}
static void go_on_working(void)
{
    s.me = worker;
    for (int i = 0; i < 4 && !s.h->corrupt; i++) {
        task = pop();
        if (task == UINT32_MAX)
            break;
        if (below(4) == 0) {
            run_block();
            run_retry();
            continue;
        }
        seal_results(task);
        finish(task);
    }
}
static void go_on_waiting(void)
{
    s.me = worker;
    task = pop();
    if (task == UINT32_MAX)
        return;
    segment_lock(&s);
    task_waits_for(&s, task, some_held());
    task_ask_for(&s, some_held());
    segment_unlock(&s);
    task_block(&s, task);
    uint32_t begun = pop();
    if (begun != UINT32_MAX) {
        segment_lock(&s);
        task_seal_failed(&s, begun, FAILURE_WORKER_CRASHED, 1);
        task_finish(&s, begun, EVENT_CRASHED);
        segment_unlock(&s);
    }
}
static void go_on_routing(void)
{
    uint32_t class = (uint32_t)below(s.h->n_classes ? s.h->n_classes : 1), placed[4];
    segment_lock(&s);
    task_workers_wanted(&s);
    route_direct(&s, ROUTE_DIRECTED);
    route_place(&s, class, 4, below(2), placed);
    route_fail(&s, class, below(2));
    route_fail_shared(&s, class);
    segment_unlock(&s);
}
static void go_on_as_remote_node(void)
{
    uint32_t taken[4], n;
    struct segment driver = s;
    CHECK(remote_attach(&s, &driver, 7) == OBJSTORE_OK);
    segment_lock(&s);
    n = remote_take(&s, class_small, 4, below(2), taken);
    for (uint32_t i = 0; i < n; i++)
        if (below(2))
            remote_give_back(&s, taken[i]);
    segment_unlock(&s);
    client_died(&s, s.me, 0);
}

static void go_on_sharing(void)
{
    uint64_t ticket = below(UINT64_MAX);
    int64_t value;
    uint32_t seen = 0, object = some_held();
    struct shared_sync *of[4] = {NULL, sync_at(&s, object, SYNC_BARRIER), sync_at(&s, object, SYNC_COUNTER),
                                 sync_at(&s, object, SYNC_CONDITION)};
    if (of[SYNC_BARRIER] && barrier_arrive(&s, of[SYNC_BARRIER], &ticket) == SYNC_PENDING)
        barrier_withdraw(of[SYNC_BARRIER], ticket);
    if (of[SYNC_COUNTER])
        counter_add(of[SYNC_COUNTER], INT64_MAX / 2, &value);
    if (of[SYNC_CONDITION] && condition_lock(&s, of[SYNC_CONDITION], 7) == SYNC_DONE) {
        condition_take(of[SYNC_CONDITION], &seen);
        condition_notify(of[SYNC_CONDITION], 1 + (uint32_t)below(3));
        condition_enter(of[SYNC_CONDITION]);
    }
    struct shared_sync *any = sync_at(&s, object, 0);
    if (any)
        sync_look_after(&s, any);
    if (any && below(4) == 0)
        below(2) ? sync_reset(any) : sync_break(any, 7);
    drop(put_shared(64 + (uint32_t)below(2000), 0, 0));
}

static void go_on(void)
{
    static void (*const ways[])(void) = {go_on_dropping,   go_on_dropping,    go_on_putting,        go_on_submitting,
                                         go_on_submitting, go_on_reading,     go_on_with_actors,    go_on_cancelling,
                                         go_on_streaming,  go_on_with_groups, go_on_working,        go_on_working,
                                         go_on_waiting,    go_on_routing,     go_on_as_remote_node, go_on_sharing};
    uint32_t was_held[MAX_HELD], n_was_held = n_held;
    memcpy(was_held, held, sizeof held);
    nothing_is_certain = true;
    for (volatile int i = 0; i < 30 && !is_corrupt(); i++)
        if (sigsetjmp(uncertain, 0) == 0) {
            s.me = DRIVER;
            ways[below(sizeof ways / sizeof *ways)]();
        } else {
            atomic_store(&s.h->lock, 0); /* it may have been in the middle of anything */
        }
    nothing_is_certain = false;
    n_held = n_was_held;
    memcpy(held, was_held, sizeof held);
}

static void batch(long first, long end)
{
    alarm(BATCH_S);
    for (long n = first; n < end; n++) {
        *at_number = n;
        random_state = (uint64_t)n * UINT64_C(0x9e3779b97f4a7c15) + 1;
        memcpy(memory, image, WORLD_SIZE);
        see(memory);
        /* this process, which is not killed, rather than the one that made the image */
        s.clients[worker].pid = (int32_t)getpid();
        scribble();
        if (below(2))
            go_on();
        look_after();
    }
    _exit(0);
}

/* A session in the middle of its life: workers with running tasks, an actor, a stream, shared memory, a dead client. */
static void make_image(void)
{
    make_world(memory);
    hold(put_shared(300, 0, 0));
    for (uint32_t kind = SYNC_BARRIER; kind <= SYNC_CONDITION; kind++)
        hold(put_shared(sizeof(struct shared_sync), kind, 3));
    hold(put_arena(100, held + n_held - 4, 4));
    leave_corpse(half_a_life);
    leave_corpse(a_sealed_task);
    CHECK(client_attach(&s, ROLE_WORKER) == OBJSTORE_OK);
    work();
    pop();
    worker = s.me;
    memcpy(image, memory, WORLD_SIZE);
    arena_begin = s.h->arena.begin;
}

static int main_of_fuzz_test(int argc, char **argv)
{
    long n = argc > 1 ? strtol(argv[1], NULL, 10) : 5000, first = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
    unsigned char *space =
        mmap(NULL, 2 * GUARD + WORLD_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(space != MAP_FAILED);
    memory = mmap(space + GUARD, WORLD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(memory == space + GUARD);
    image = shared(WORLD_SIZE);
    at_number = shared(sizeof *at_number);
    death = shared(sizeof *death);
    disk = shared(N_FILES * sizeof *disk);
    lock_patience_ns = 100000;
    make_image();
    if (n == 1) /* in this process, for a debugger */
        batch(first, first + 1);
    for (long at = first; at < first + n; at += BATCH) {
        fflush(stdout);
        pid_t pid = begin();
        if (pid == 0)
            batch(at, at + BATCH < first + n ? at + BATCH : first + n);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        if (status != 0) {
            printf("number %ld: %s\n", *at_number,
                   WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "failed, see above");
            return 1;
        }
    }
    printf("%ld scribbled segments: none left, none for ever\n", n);
    return 0;
}
