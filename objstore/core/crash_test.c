/* Death at every step. A victim process works through a script that uses every operation of the core, and is killed
 * before its n-th step, for every n until it survives. After each death a survivor takes over the lock if need be,
 * reports the death, verifies every invariant, finishes the work that is left, and drops what it holds: then every task
 * must have ended exactly once and nothing may be left in the segment.
 *
 *   crash_test [first [last]]     a part of the sweep

 *
 * The sources are included, so that each STEP() and ARENA_STEP() can be the last. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static long steps_left = -1;

static void one_step(void)
{
    if (steps_left >= 0 && steps_left-- == 0)
        raise(SIGKILL);
}

#define CELLMESH_STEPS
#define LOCK_PATIENCE_NS (500 * 1000) /* nobody else is running: the owner is dead when we find it locked */
#define ARENA_STEP() one_step()
void core_step(const char *file, int line);
void core_step(const char *file, int line)
{
    (void)file;
    (void)line;
    one_step();
}

#include "arena.c"
#include "error.c"
#include "event.c"
#include "segment.c"
#include "object.c"
#include "resource.c"
#include "task.c"
#define create create_stream
#include "stream.c"
#undef create
#define set_state set_actor_state
#include "actor.c"
#undef set_state
#define keep_chunk keep_chunk_of_living
#include "client.c"
#undef keep_chunk
#include "recover.c"
#include "check.c"

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "step %ld, %s:%d: not true: %s\n", at_step, __FILE__, __LINE__, #condition);     \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

enum { SIZE = 1 << 20, MAX_HELD = 64, N_ITEMS = 40 };
static long at_step;
static struct segment s; /* one mapping, inherited by the victim: `s.me` tells who acts */
static uint32_t held[MAX_HELD], n_held, function, class_small, class_actor, drivers_stream;

static uint32_t hold(uint32_t object) { return held[n_held++] = object; }

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

static uint32_t put_inline(void)
{
    uint32_t object;
    segment_lock(&s);
    CHECK(object_create(&s, s.me, s.h->next_seq++ | PUT_BIT, &object) == OBJSTORE_OK);
    object_seal_inline(&s, object, OBJECT_READY, "x", 1);
    segment_unlock(&s);
    return object;
}

static uint32_t submit(const uint32_t *refs, uint32_t n_dependencies, uint32_t n_refs, uint32_t arguments, uint32_t n_returns,
                       uint32_t actor_1, uint32_t *results)
{
    char bytes[256] = {0};
    uint32_t task;
    struct task_spec spec = {.function = function, .resource_class = class_small, .actor_1 = actor_1, .n_returns = n_returns,
                             .n_dependencies = n_dependencies, .n_refs = n_refs, .refs = refs, .arguments = bytes,
                             .arguments_size = arguments, .max_retries = 3};
    segment_lock(&s);
    CHECK(task_submit(&s, &spec, results, &task) == OBJSTORE_OK);
    segment_unlock(&s);
    return results[0];
}

static uint32_t submit_actor(int32_t max_restarts, uint32_t *object)
{
    uint32_t actor, task, result;
    *object = put_arena(100, NULL, 0);
    struct actor_spec a = {0, max_restarts, 3, 1, ACTOR_FLAG_ORDERED};
    struct task_spec spec = {.function = function, .resource_class = class_actor, .n_returns = 1, .flags = TASK_FLAG_ACTOR_CREATION};
    segment_lock(&s);
    CHECK(actor_create(&s, &a, *object, &actor) == OBJSTORE_OK);
    spec.actor_1 = actor + 1;
    CHECK(task_submit(&s, &spec, &result, &task) == OBJSTORE_OK);
    actor_constructed_by(&s, actor, task);
    object_drop(&s, result, s.me);
    segment_unlock(&s);
    return actor + 1;
}

static void drop(uint32_t object)
{
    client_drop(&s, &object, 1);
}

static uint32_t submit_stream(uint32_t *result)
{
    uint32_t stream, refs[2] = {function};
    struct task_spec spec = {.function = function, .resource_class = class_small, .n_returns = 1, .n_refs = 1, .max_retries = 3};
    segment_lock(&s);
    CHECK(stream_submit(&s, &spec, refs, 2, result, &stream) == OBJSTORE_OK);
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

static void yield_items(uint32_t task)
{
    for (unsigned char i = 0; i < N_ITEMS; i++) {
        uint32_t item;
        segment_lock(&s);
        int error = stream_item(&s, task, i, &item);
        stream_has_room(&s, task, i);
        segment_unlock(&s);
        CHECK(error == OBJSTORE_OK || error == OBJSTORE_EXISTS || error == OBJSTORE_CLOSED);
        if (error == OBJSTORE_OK)
            object_seal_inline(&s, item, OBJECT_READY, &i, 1);
    }
}

/* Runs one task of this client; an inline result, or one in the arena for every second. False: nothing to do. */
static unsigned n_worked;

static bool work(void)
{
    segment_lock(&s);
    uint32_t task = task_pop(&s);
    segment_unlock(&s);
    if (task == UINT32_MAX)
        return false;
    struct task_slot *t = &s.tasks[task];
    if (t->flags & TASK_FLAG_STREAM)
        yield_items(task);
    for (uint32_t i = 0; i < t->n_returns; i++) {
        uint32_t object = task_result(&s, t, i);
        if (n_worked++ % 2) {
            object_seal_inline(&s, object, OBJECT_READY, "ok", 2);
            continue;
        }
        segment_lock(&s);
        uint64_t offset = object_allocate(&s, 300, 0);
        segment_unlock(&s);
        CHECK(offset);
        segment_lock(&s);
        if (!object_seal_arena(&s, object, OBJECT_READY, offset, 300, 0))
            arena_free(&s.h->arena, s.base, offset);
        segment_unlock(&s);
    }
    segment_lock(&s);
    if (t->flags & TASK_FLAG_ACTOR_CREATION) {
        actor_bind(&s, t->actor_1 - 1, task);
        task_release_results(&s, task);
    } else {
        task_finish(&s, task, EVENT_OK);
    }
    segment_unlock(&s);
    return true;
}

/* ------------------------------------------------------------------ the script */

static void prepare(uint32_t *actor_object)
{
    int64_t one[MAX_KINDS] = {RESOURCE_UNIT}, none[MAX_KINDS] = {0}, total[MAX_KINDS] = {4 * RESOURCE_UNIT};
    uint32_t r[4], both[3];
    CHECK(client_attach(&s, ROLE_DRIVER) == OBJSTORE_OK);
    segment_lock(&s);
    CHECK(resource_class(&s, one, one, &class_small) == OBJSTORE_OK && resource_class(&s, one, none, &class_actor) == OBJSTORE_OK);
    resource_set_total(&s, total);
    segment_unlock(&s);
    function = hold(put_inline());
    both[0] = hold(submit(NULL, 0, 0, 8, 1, 0, r));
    both[1] = hold(submit(both, 1, 1, 100, 1, 0, r));
    both[2] = hold(put_arena(500, both, 2));
    hold(submit(both, 2, 3, 20, 1, 0, r));
    submit(both, 1, 1, 0, 3, 0, r);
    hold(r[0]), hold(r[1]), hold(r[2]);
    drivers_stream = hold(submit_stream(r));
    hold(r[0]);
    CHECK(read_item(drivers_stream) == -1); /* waits for the first item */
    uint32_t actor_1 = submit_actor(1, actor_object);
    hold(*actor_object);
    hold(submit(NULL, 0, 0, 0, 1, actor_1, r));
    hold(submit(both, 2, 3, 60, 1, actor_1, r));
}

static void victim_script(void)
{
    uint32_t r[4], a = put_inline(), b = put_arena(200, &a, 1), task, worker;
    drop(a);
    uint32_t mine = submit(&b, 0, 1, 90, 1, 0, r); /* ours stays behind the driver's */
    uint32_t dependent = submit(&mine, 1, 1, 0, 1, 0, r);
    drop(b);
    segment_lock(&s);
    task_cancel(&s, dependent, &task, &worker);
    segment_unlock(&s);
    drop(dependent);
    CHECK(work() && work());
    uint32_t claimed = submit(NULL, 0, 0, 8, 1, 0, r), other;
    segment_lock(&s);
    task = task_pop(&s);
    other = task_claim(&s, claimed, task);
    segment_unlock(&s);
    CHECK(task != UINT32_MAX && other != UINT32_MAX);
    object_seal_inline(&s, claimed, OBJECT_READY, "ok", 2);
    segment_lock(&s);
    task_finish(&s, other, EVENT_OK);
    segment_unlock(&s);
    drop(claimed);
    task_block(&s, task);
    task_unblock(&s, task);
    segment_lock(&s);
    task_retry(&s, task);
    segment_unlock(&s);
    uint32_t stream = submit_stream(r);
    drop(r[0]);
    while (work()) /* ends as the actor's worker, with its calls served */
        ;
    read_item(stream);
    read_item(stream);
    drop(stream);
    segment_lock(&s);
    task_cancel(&s, mine, &task, &worker);
    segment_unlock(&s);
    drop(mine);
    uint32_t actor_object, late;
    uint32_t actor_1 = submit_actor(0, &actor_object);
    late = submit(NULL, 0, 0, 70, 1, actor_1, r);
    drop(actor_object);
    segment_lock(&s);
    actor_die(&s, actor_1 - 1, 0);
    segment_unlock(&s);
    drop(late);
    _exit(0);
}

/* ------------------------------------------------------------------ the survivor */

static void complain(void *context, const char *what, uint64_t index, uint64_t found, uint64_t expected)
{
    (void)context;
    fprintf(stderr, "step %ld: violated: %s (number %llu, found %llu, expected %llu)\n", at_step, what, (unsigned long long)index,
            (unsigned long long)found, (unsigned long long)expected);
}

static void check_sound(void)
{
    segment_lock(&s);
    uint32_t n = segment_check(&s, complain, NULL);
    segment_unlock(&s);
    CHECK(n == 0);
}

/* Plays a few workers in turn until none of them finds anything; whoever constructs an actor goes on serving it. */
static void finish_everything(void)
{
    enum { N_WORKERS = 4 };
    uint32_t driver = s.me, workers[N_WORKERS];
    for (int i = 0; i < N_WORKERS; i++) {
        CHECK(client_attach(&s, ROLE_WORKER) == OBJSTORE_OK);
        workers[i] = s.me;
    }
    for (bool busy = true; busy;) {
        busy = false;
        for (int i = 0; i < N_WORKERS; i++) {
            s.me = workers[i];
            busy |= work();
        }
        s.me = driver;
        check_sound();
    }
    for (uint32_t k = 0; k < n_held; k++)
        CHECK(object_state(&s.objects[held[k]]) == OBJECT_READY);
    for (int i = 0; i < N_ITEMS; i++)
        CHECK(read_item(drivers_stream) == i);
    CHECK(read_item(drivers_stream) == -1);
    check_sound();
    while (n_held)
        drop(held[--n_held]);
    check_sound();
    for (int i = 0; i < N_WORKERS; i++)
        client_died(&s, workers[i], 0);
}

static void nothing_is_left(void)
{
    check_sound();
    CHECK(s.h->n_live_tasks == 0);
    CHECK(s.h->n_live_objects == 0);
    CHECK(s.h->arena.used_bytes == 0);
}

/* True: the victim survived its script. */
static bool sweep_one(long n)
{
    struct segment_config config = {SIZE, 256, 256, 16, 256};
    unsigned char *base = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint32_t actor_object;
    at_step = n;
    n_held = n_worked = 0;
    CHECK(base != MAP_FAILED && segment_format(base, &config) == OBJSTORE_OK && segment_use(&s, base, SIZE) == OBJSTORE_OK);
    prepare(&actor_object);
    check_sound();
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(client_attach(&s, ROLE_WORKER) == OBJSTORE_OK);
        steps_left = n;
        victim_script();
    }
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    bool survived = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    CHECK(survived || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    uint32_t victim = 1;
    CHECK(atomic_load(&s.clients[victim].pid) == pid);
    client_died(&s, victim, survived ? 0 : -SIGKILL);
    check_sound();
    finish_everything();
    nothing_is_left();
    munmap(base, SIZE);
    return survived;
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0, last = argc > 2 ? strtol(argv[2], NULL, 10) : 1000000;
    while (n <= last && !sweep_one(n))
        n++;
    printf("killed at each of %ld steps: nothing torn, lost or left\n", n);
    return n > 200 || argc > 1 ? 0 : 1; /* a script that shrank to nothing would prove nothing */
}
