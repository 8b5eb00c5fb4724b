/* The world in which clients die: a small segment with a driver's work in it, the operations in which a victim may die,
 * and the survivor that clears up and reports what is wrong.
 *
 * After any death of any client: the lock can be taken, every invariant holds, all of the driver's work can be finished
 * with complete results, and nothing is left in the segment when all clients have let go.
 *
 * For crash_test.c, which dies at fail points, stepping_test.c, which dies at every instruction, and fuzz_test.c, which
 * overwrites bytes; deaths.c has them all. */
#ifndef CELLMESH_WORLD_H
#define CELLMESH_WORLD_H
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void one_step(const char *file, int line);
#define CELLMESH_STEPS
#define ARENA_STEP() one_step(__FILE__, __LINE__)
#define OBJECT_MOVABLE 256
#define REAP_PAGE 16u
#define IDLE_SIZE 1024

#include "error.c"
#include "memory/arena.c"
#include "memory/event.c"
#include "memory/lock.c"
#include "memory/segment.c"
#include "memory/sleep.c"
#include "objects/object.c"
#include "objects/offload.c"
#include "objects/shared_sync.c"
#include "tasks/resource.c"
#include "tasks/timer.c"
#include "tasks/verify_task.c"
#define set_state set_pool_state
#include "tasks/placement.c"
#undef set_state
#include "tasks/blocked.c"
#include "tasks/task.c"
#include "tasks/task_stream.c"
#define create create_stream
#include "objects/stream.c"
#include "objects/verify_object.c"
#undef create
#define set_state set_actor_state
#include "tasks/actor.c"
#undef set_state
#include "clients/client.c"
#include "clients/orphans.c"
#include "clients/reap.c"
#include "clients/remote_node.c"
#include "clients/route.c"
#include "recovery/check.c"
#include "recovery/recover.c"
#define fail fail_verifying
#include "recovery/verify.c"
#undef fail

static char where[200]; /* names the death being looked at, for messages */

/* the segment has been overwritten, and only where that leads is of interest, see fuzz_test.c */
static bool nothing_is_certain;
static sigjmp_buf uncertain;

#define CHECK(condition)                                                                         \
    do {                                                                                         \
        if (!(condition)) {                                                                      \
            if (nothing_is_certain)                                                              \
                siglongjmp(uncertain, 1);                                                        \
            fprintf(stderr, "%s, %s:%d: not true: %s\n", where, __FILE__, __LINE__, #condition); \
            _exit(1);                                                                            \
        }                                                                                        \
    } while (0)

enum { WORLD_SIZE = 800 << 10, MAX_HELD = 24, N_FILES = 64, N_ITEMS = 10, DRIVER = 0, VICTIM = 1 };
static struct segment s; /* one mapping, inherited by all: `s.me` tells who acts */
static struct {
    unsigned char bytes[512];
    uint64_t size;
} *disk; /* shared: files, by number */
static uint32_t held[MAX_HELD], n_held, function, class_small, class_actor, drivers_actor_1, drivers_stream;

/* Looks at a segment as one of the clients that are attached to it. */
__attribute__((unused)) static void see(unsigned char *base)
{
    CHECK(segment_use(&s, base, WORLD_SIZE) == OBJSTORE_OK);
    s.hooks = &client_hooks;
}

/* ------------------------------------------------------------------ what clients do */

static uint32_t put_arena(uint32_t size, const uint32_t *refs, uint32_t n_refs)
{
    uint32_t object;
    segment_lock(&s);
    CHECK(object_create(&s, s.me, s.h->next_seq++ | PUT_BIT, &object) == OBJSTORE_OK);
    uint64_t offset = object_allocate(&s, size, n_refs);
    CHECK(offset);
    segment_unlock(&s);
    memset(s.base + offset, 7, size);
    if (n_refs)
        memcpy(object_refs_at(&s, offset, size), refs, n_refs * 4);
    segment_lock(&s);
    CHECK(object_seal_arena(&s, object, OBJECT_READY, offset, size, n_refs));
    segment_unlock(&s);
    return object;
}

static struct shared_sync *sync_of(uint32_t object)
{
    struct shared_sync *sync = sync_at(&s, object, 0);
    CHECK(sync);
    return sync;
}

/* Of memory that others may write to; a primitive if it has a `kind`. */
static uint32_t put_shared(uint32_t size, uint32_t kind, uint32_t n)
{
    uint32_t object;
    segment_lock(&s);
    uint64_t offset = object_allocate(&s, size, 0);
    CHECK(offset);
    segment_unlock(&s);
    memset(s.base + offset, 0, size);
    if (kind)
        sync_format((struct shared_sync *)(void *)(s.base + offset), kind, n);
    segment_lock(&s);
    CHECK(object_create(&s, s.me, s.h->next_seq++ | PUT_BIT, &object) == OBJSTORE_OK);
    CHECK(object_seal_arena(&s, object, OBJECT_READY, offset, size, kind ? REFS_OF_SYNC : REFS_OF_SHARED));
    segment_unlock(&s);
    return object;
}

static uint32_t put_inline(void)
{
    uint32_t object;
    segment_lock(&s);
    CHECK(object_create(&s, s.me, s.h->next_seq++ | PUT_BIT, &object) == OBJSTORE_OK);
    object_seal_inline(&s, object, OBJECT_READY, "x", 1);
    segment_unlock(&s);
    return object;
}

static void drop(uint32_t object) { client_drop(&s, &object, 1); }

/* Writes the file of a chosen object, and offloads it. */
static void offload(const struct offload_move *m)
{
    CHECK(m->file < N_FILES && m->size <= sizeof disk->bytes);
    memcpy(disk[m->file].bytes, s.base + m->chunk, m->size);
    disk[m->file].size = m->size;
    segment_lock(&s);
    offload_leave(&s, m);
    segment_unlock(&s);
}

static bool choose_and_offload(uint32_t mine)
{
    struct offload_move m;
    if (offload_choose(&s, &m) != OBJSTORE_OK)
        return false;
    offload(&m);
    if (m.slot != mine) /* what the caller holds anyway */
        drop(m.slot);
    return true;
}

static void bring_back(uint32_t object)
{
    struct offload_move m;
    segment_lock(&s);
    uint64_t chunk = offload_claim(&s, object, &m) == OBJSTORE_OK ? object_allocate(&s, s.objects[object].size, 0) : 0;
    segment_unlock(&s);
    if (!chunk)
        return;
    CHECK(m.file < N_FILES && disk[m.file].size == m.size);
    memcpy(s.base + chunk, disk[m.file].bytes, m.size);
    segment_lock(&s);
    offload_return(&s, &m, chunk);
    segment_unlock(&s);
}

static void read_object(uint32_t object)
{
    offload_begin_reading(&s, object);
    if (object_is_absent(&s.objects[object]))
        bring_back(object);
    CHECK(s.base[object_chunk(&s.objects[object])] == 7);
    offload_end_reading(&s, object);
}

struct shape {
    uint32_t n_dependencies, n_refs, arguments, n_returns, actor_1;
};

static uint32_t submit(const uint32_t *refs, struct shape shape, uint32_t *results)
{
    char bytes[256] = {0};
    uint32_t task;
    struct task_spec spec = {.function = function,
                             .resource_class = class_small,
                             .actor_1 = shape.actor_1,
                             .n_returns = shape.n_returns,
                             .n_dependencies = shape.n_dependencies,
                             .n_refs = shape.n_refs,
                             .refs = refs,
                             .arguments = bytes,
                             .arguments_size = shape.arguments,
                             .max_retries = -1};
    segment_lock(&s);
    CHECK(task_submit(&s, &spec, results, &task) == OBJSTORE_OK);
    segment_unlock(&s);
    return results[0];
}

/* A call without references. */
static uint32_t submit_one(uint32_t arguments, uint32_t actor_1)
{
    uint32_t result;
    return submit(NULL, (struct shape){.arguments = arguments, .n_returns = 1, .actor_1 = actor_1}, &result);
}

static uint32_t submit_actor_of(uint32_t class, int32_t max_restarts, uint32_t flags, uint32_t *object)
{
    uint32_t actor, task, result;
    *object = put_arena(100, NULL, 0);
    struct actor_spec a = {0, max_restarts, -1, 1, ACTOR_FLAG_ORDERED | flags, 100, {2}};
    struct task_spec spec = {
        .function = function, .resource_class = class, .n_returns = 1, .flags = TASK_FLAG_ACTOR_CREATION};
    segment_lock(&s);
    CHECK(actor_create(&s, &a, *object, &actor) == OBJSTORE_OK);
    spec.actor_1 = actor + 1;
    CHECK(task_submit(&s, &spec, &result, &task) == OBJSTORE_OK);
    actor_constructed_by(&s, actor, task);
    object_drop(&s, result, s.me);
    segment_unlock(&s);
    return actor + 1;
}
static uint32_t submit_actor(int32_t max_restarts, uint32_t flags, uint32_t *object)
{
    return submit_actor_of(class_actor, max_restarts, flags, object);
}

static uint32_t submit_stream(uint32_t *result)
{
    uint32_t stream, refs[2] = {function};
    struct task_spec spec = {
        .function = function, .resource_class = class_small, .n_returns = 1, .n_refs = 1, .max_retries = -1};
    segment_lock(&s);
    CHECK(task_submit_stream(&s, &spec, refs, 2, result, &stream) == OBJSTORE_OK);
    segment_unlock(&s);
    return stream;
}

/* The number that the next item of a stream holds, -1 where none is there. */
static int read_item(uint32_t stream)
{
    uint32_t item;
    int number = -1;
    segment_lock(&s);
    if (stream_peek(&s, stream, &item) == OBJSTORE_OK) {
        if (stream_take(&s, stream, item))
            number = s.objects[item].u.inline_data[0];
        object_drop(&s, item, s.me);
    }
    segment_unlock(&s);
    return number;
}

static void yield_items(uint32_t running)
{
    for (unsigned char i = 0; i < N_ITEMS; i++) {
        uint32_t item;
        segment_lock(&s);
        int error = task_item(&s, running, i, &item);
        stream_has_room(&s, task_stream(&s, running), i);
        segment_unlock(&s);
        CHECK(error == OBJSTORE_OK || error == OBJSTORE_EXISTS || error == OBJSTORE_CLOSED);
        if (error == OBJSTORE_OK)
            object_seal_inline(&s, item, OBJECT_READY, &i, 1);
    }
}

static uint32_t pop(void)
{
    segment_lock(&s);
    uint32_t task = task_pop(&s);
    segment_unlock(&s);
    return task;
}

static void cancel(uint32_t object)
{
    uint32_t found, worker;
    segment_lock(&s);
    task_cancel(&s, object, &found, &worker);
    segment_unlock(&s);
}

static unsigned n_sealed; /* every second result is too large for its slot */

static void seal_results(uint32_t task)
{
    struct task_slot *t = &s.tasks[task];
    if (t->flags & TASK_FLAG_STREAM)
        yield_items(task);
    for (uint32_t i = 0; i < t->n_returns; i++) {
        uint32_t object = task_result(&s, t, i);
        if (n_sealed++ % 2) {
            object_seal_inline(&s, object, OBJECT_READY, "ok", 2);
            continue;
        }
        segment_lock(&s);
        uint64_t offset = object_allocate(&s, 300, 0);
        segment_unlock(&s);
        CHECK(offset);
        memset(s.base + offset, 'k', 300);
        segment_lock(&s);
        if (!object_seal_arena(&s, object, OBJECT_READY, offset, 300, 0))
            arena_free(&s.h->arena, s.base, offset);
        segment_unlock(&s);
    }
}

static void finish(uint32_t task)
{
    struct task_slot *t = &s.tasks[task];
    segment_lock(&s);
    if (t->flags & TASK_FLAG_ACTOR_CREATION) {
        actor_bind(&s, t->actor_1 - 1, task);
        task_release_results(&s, task);
    } else {
        task_finish(&s, task, EVENT_OK);
    }
    segment_unlock(&s);
}

static uint64_t last_call; /* of the driver's actor, by number */

/* What has its results already must not run, and an actor's calls come in order. */
static void check_may_run(uint32_t task)
{
    struct task_slot *t = &s.tasks[task];
    uint32_t n_sealed_before = 0;
    for (uint32_t i = 0; i < t->n_returns; i++)
        n_sealed_before += object_sealed(&s.objects[task_result(&s, t, i)]);
    if (t->flags & TASK_FLAG_ACTOR_CREATION) /* restarts have the result of the first life */
        return;
    CHECK(n_sealed_before < t->n_returns);
    if (t->actor_1 == drivers_actor_1) {
        CHECK(t->seq > last_call);
        last_call = t->seq;
    }
}

/* Runs one task of this client. False: there is nothing to do. */
static bool work(void)
{
    uint32_t task = pop();
    if (task == UINT32_MAX)
        return false;
    check_may_run(task);
    seal_results(task);
    finish(task);
    return true;
}

static void work_until_idle(void)
{
    while (work())
        ;
}

/* What a whole result looks like. */
static bool is_whole(uint32_t object)
{
    const struct object_slot *o = &s.objects[object];
    if (object_state(o) != OBJECT_READY)
        return false;
    if (object_is_absent(o))
        bring_back(object);
    if (!o->offset)
        return (o->size == 2 && !memcmp(o->u.inline_data, "ok", 2)) || (o->size == 1 && o->u.inline_data[0] == 'x');
    for (uint64_t i = 0; i < o->size; i++)
        if (s.base[o->offset + i] != s.base[o->offset] || (s.base[o->offset] != 7 && s.base[o->offset] != 'k'))
            return false;
    return o->size == 300 || o->size == 500 || o->size == 100;
}

/* ------------------------------------------------------------------ the driver's work */

static uint32_t hold(uint32_t object) { return held[n_held++] = object; }

/* From now on tasks get slots downwards: their order is not that of the slots. */
static void turn_slots_round(void)
{
    enum { N = 12 };
    uint32_t turned[N];
    for (int i = 0; i < N; i++)
        turned[i] = submit_one(0, 0);
    for (int i = 0; i < N; i++)
        cancel(turned[i]), drop(turned[i]);
}

/* A chain, a diamond, several returns, references inside a value, a stream, an actor with two calls. */
static void make_world(unsigned char *base)
{
    struct segment_config config = {WORLD_SIZE, 64, 64, 16, 256};
    int64_t one[MAX_KINDS] = {RESOURCE_UNIT}, none[MAX_KINDS] = {0}, total[MAX_KINDS] = {4 * RESOURCE_UNIT};
    uint32_t r[4], both[3], actor_object;
    last_call = 0;
    n_held = n_sealed = 0;
    memset(base, 0, WORLD_SIZE);
    CHECK(segment_format(base, &config) == OBJSTORE_OK && segment_use(&s, base, WORLD_SIZE) == OBJSTORE_OK);
    CHECK(client_attach(&s, ROLE_DRIVER) == OBJSTORE_OK && s.me == DRIVER);
    segment_lock(&s);
    CHECK(resource_class(&s, one, one, 0, ON_NODE, &class_small) == OBJSTORE_OK &&
          resource_class(&s, one, none, 0, ON_NODE, &class_actor) == OBJSTORE_OK);
    resource_set_total(&s, total);
    memcpy(s.h->offload_folder, "disk", 5);
    s.h->offload_limit = WORLD_SIZE;
    segment_unlock(&s);
    function = hold(put_inline());
    turn_slots_round();
    hold(put_arena(300, NULL, 0));
    CHECK(choose_and_offload(held[1]) && object_is_absent(&s.objects[held[1]]));
    n_held--; /* behind the others, see below */
    uint32_t offloaded = held[n_held];
    both[0] = hold(submit_one(8, 0));
    both[1] = hold(submit(both, (struct shape){1, 1, 100, 1, 0}, r));
    both[2] = hold(put_arena(500, both, 2));
    hold(submit(both, (struct shape){2, 3, 20, 1, 0}, r));
    submit(both, (struct shape){1, 1, 0, 3, 0}, r);
    hold(r[0]), hold(r[1]), hold(r[2]);
    drivers_stream = submit_stream(r);
    hold(r[0]);
    CHECK(read_item(drivers_stream) == -1); /* waits for the first item */
    drivers_actor_1 = submit_actor(-1, 0, &actor_object);
    hold(actor_object);
    hold(submit_one(0, drivers_actor_1));
    hold(submit(both, (struct shape){2, 3, 60, 1, drivers_actor_1}, r));
    hold(offloaded);
}

static void check_sound(void);
#include "tests/crash/operations.h"

/* ------------------------------------------------------------------ dying */

static struct {
    char file[32];
    int line;
} *death;                    /* shared with the victim: the code where it died */
static long steps_left = -1; /* -1: lives for ever */

static void one_step(const char *file, int line)
{
    if (steps_left < 0)
        return;
    /* As long as it lives, the owner of the lock must look alive to those who wait. */
    CHECK(s.me >= MAX_CLIENTS || lock_owner_1(atomic_load(&s.h->lock)) != s.me + 1 ||
          atomic_load(&s.clients[s.me].pid) == getpid());
    if (steps_left-- > 0)
        return;
    size_t n = 0;
    for (; n + 1 < sizeof death->file && file[n]; n++) /* gcc's sanitizers take snprintf's argument for null */
        death->file[n] = file[n];
    death->file[n] = '\0';
    death->line = line;
    raise(SIGKILL);
}

void core_step(const char *file, int line);
void core_step(const char *file, int line) { one_step(file, line); }

/* A child that goes when the test does. */
static pid_t begin(void)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

/* Runs `run` in a process that is killed at its n-th step. True: it survived. */
static bool kill_at(long n, void (*ready)(void), void (*run)(void))
{
    pid_t pid = begin();
    if (pid == 0) {
        ready();
        steps_left = n;
        run();
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    bool survived = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    CHECK(survived || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    return survived;
}

static bool died_here_before(void)
{
    static char seen[512][48];
    static unsigned n;
    char here[48];
    snprintf(here, sizeof here, "%s:%d", death->file, death->line);
    for (unsigned i = 0; i < n; i++)
        if (!strcmp(seen[i], here))
            return true;
    CHECK(n < sizeof seen / sizeof *seen);
    memcpy(seen[n++], here, sizeof here);
    return false;
}

static void *shared(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

/* ------------------------------------------------------------------ the survivor */

static void complain(void *context, const char *what, uint64_t index, uint64_t found, uint64_t expected)
{
    (void)context;
    fprintf(stderr, "%s: violated: %s (number %llu, found %llu, expected %llu)\n", where, what,
            (unsigned long long)index, (unsigned long long)found, (unsigned long long)expected);
}

static void check_sound(void)
{
    segment_lock(&s);
    uint32_t n = segment_check(&s, complain, NULL);
    bool counted_on = client_table_is_sound(&s);
    segment_unlock(&s);
    CHECK(n == 0 && counted_on);
}

/* Reports every death but the caller's. A reaping that its reaper died over is ended by the next one. */
static void reap_the_dead(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        if (i != s.me && atomic_load(&s.clients[i].state) == CLIENT_ATTACHED && ++n)
            client_died(&s, i, -SIGKILL);
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        if (i == s.me || atomic_load(&s.clients[i].state) == CLIENT_FREE)
            continue;
        CHECK(n == 0); /* it died while it left */
        client_died(&s, i, -SIGKILL);
    }
}

/* All waits are over. True: some task has waited. */
static bool pass_times(void)
{
    uint32_t found, n = 0;
    segment_lock(&s);
    for (enum timer_verdict verdict; (verdict = timer_pass(&s, UINT64_MAX, &found)) != TIMER_NONE; n++)
        CHECK(verdict == TIMER_READY); /* nothing runs */
    segment_unlock(&s);
    return n;
}

/* What can never run ends. True: there was some. */
static bool give_up_hopeless(void)
{
    segment_lock(&s);
    bool any = end_hopeless(&s);
    segment_unlock(&s);
    return any;
}

/* Plays a few workers in turn until none of them finds a task; the one that constructs an actor goes on serving it. */
static void finish_everything(void)
{
    enum { N_WORKERS = 4 };
    for (uint32_t i = 0; i < N_WORKERS; i++) {
        CHECK(client_attach(&s, ROLE_WORKER) == OBJSTORE_OK);
        CHECK(s.me == i + 1); /* no slot of a dead client is lost */
    }
    for (bool busy = true; busy;) {
        busy = false;
        for (s.me = 1; s.me <= N_WORKERS; s.me++)
            busy |= work();
        s.me = DRIVER;
        check_sound();
        busy |= pass_times();
        busy |= give_up_hopeless();
    }
    for (uint32_t k = 0; k < n_held; k++)
        CHECK(is_whole(held[k]));
    for (int i = 0; i < N_ITEMS; i++)
        CHECK(read_item(drivers_stream) == i);
    CHECK(read_item(drivers_stream) == -1);
    drop(drivers_stream);
    while (n_held)
        drop(held[--n_held]);
    check_sound();
    for (uint32_t i = 1; i <= N_WORKERS; i++)
        client_died(&s, i, 0);
}

/* An object that the driver is reading is where it was, whichever process died while it moved it. */
static void look_at_views(void)
{
    for (uint32_t i = 0; i < s.h->touched_objects; i++) {
        if (!(atomic_load(&s.readers[i].clients[0]) & 1))
            continue;
        const struct object_slot *o = &s.objects[i];
        CHECK(object_state(o) == OBJECT_READY && object_chunk(o) && o->size == 400);
        for (uint64_t k = 0; k < o->size; k++)
            CHECK(s.base[object_chunk(o) + k] == 7);
        offload_end_reading(&s, i);
        drop(i);
    }
}

/* Nobody waits for those who have died: what they had joined, or owned, is broken, unless they had left it. The driver
 * is the only one left, and has come to each barrier once. */
static void look_at_primitives(void)
{
    for (uint32_t i = 0; i < s.h->touched_objects; i++) {
        struct shared_sync *sync = sync_at(&s, i, 0);
        if (!sync)
            continue;
        CHECK(sync->kind != SYNC_BARRIER || barrier_look(sync, 0) != SYNC_PENDING || barrier_n_arrived(sync) <= 1);
        CHECK(sync->kind != SYNC_CONDITION || !atomic_load(&sync->word) || sync_is_broken(sync));
        if (atomic_load(&s.objects[i].holders[0]) & 1)
            drop(i);
    }
}

/* The next owner of the lock has repaired what was half done; reaping dead clients may remove their groups. */
static void check_groups(void)
{
    segment_lock(&s);
    for (uint32_t g = placement_next(&s, 1); g < MAX_POOLS; g = placement_next(&s, g + s.h->pools[g].n)) {
        const struct pool *head = &s.h->pools[g];
        CHECK(head->state != POOL_PENDING || placement_is_open(head));
        for (uint32_t i = 0; head->state == POOL_PENDING && i < head->n; i++)
            CHECK(head[i].client_1 != POOL_HERE);
    }
    segment_unlock(&s);
}

/* The driver clears up after everybody. */
static void survive(void)
{
    s.me = DRIVER;
    last_call = 0;
    check_groups();
    reap_the_dead();
    check_sound();
    look_at_views();
    look_at_primitives();
    segment_lock(&s);
    for (uint32_t k = 0; k < s.h->n_classes; k++)
        if (s.classes[k].place.route == ROUTE_WAITS)
            route_fail(&s, k, false); /* no other client would ever take them */
    segment_unlock(&s);
    finish_everything();
    check_sound();
    CHECK(s.h->n_live_tasks == 0);
    CHECK(s.h->n_live_objects == 0);
    CHECK(s.h->arena.used_bytes == 0 && s.h->n_offloaded == 0);
    CHECK(s.h->n_shared == 0 && s.h->shared_bytes == 0);
    CHECK(placement_next(&s, 1) == MAX_POOLS && s.h->n_unplaced == 0);
    CHECK(s.h->pools[0].available[KIND_CPU] == s.h->pools[0].total[KIND_CPU]);
}

#endif
