/* Threads as clients: each has a view of its own on one mapping, like a process. So the thread sanitizer, which does
 * not see races between processes, sees them here (make check SAN=thread). Without it this is a stress test: at the end
 * everything has happened once, and nothing is left.
 *
 *   threads_test [seconds]     1 by default */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "clients/client.h"
#include "clients/reap.h"
#include "memory/event.h"
#include "objects/offload.h"
#include "recovery/check.h"
#include "tasks/actor.h"
#include "tasks/resource.h"
#include "tasks/task_stream.h"
#include "tests/expect.h"

enum { SIZE = 8 << 20, N_WORKERS = 3, N_DRIVERS = 2, N_MOVERS = 2, WIDTH = 8, N_ITEMS = 5, N_FILES = 512 };
static unsigned char *base;
static uint32_t class_small, class_actor;
static _Atomic bool stop_driving, stop_working, stop_moving;

struct client {
    struct segment s;
    uint64_t random;
    uint32_t function;
    long n_rounds;
};

static uint32_t below(struct client *c, uint32_t n)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (uint32_t)(c->random % n);
}

static void attach(struct client *c, uint32_t role)
{
    CHECK(segment_use(&c->s, base, SIZE) == OBJSTORE_OK && client_attach(&c->s, role) == OBJSTORE_OK);
    c->random = c->s.me + 88172645463325252u;
}

/* ------------------------------------------------------------------ offloaded objects
 * A few threads do nothing but offload objects while others read them. */

static struct {
    struct offload_move move;
    unsigned char *bytes;
} files[N_FILES]; /* by number, as far as there is room */
static pthread_mutex_t files_mutex = PTHREAD_MUTEX_INITIALIZER;

static void remove_file(uint64_t number)
{
    pthread_mutex_lock(&files_mutex);
    if (files[number % N_FILES].move.file == number) {
        free(files[number % N_FILES].bytes);
        files[number % N_FILES].bytes = NULL;
    }
    pthread_mutex_unlock(&files_mutex);
}

static bool write_file(const struct segment *s, const struct offload_move *m)
{
    unsigned char *bytes = malloc(m->size);
    CHECK(bytes);
    memcpy(bytes, s->base + m->chunk, m->size);
    pthread_mutex_lock(&files_mutex);
    bool there_is_room = !files[m->file % N_FILES].bytes;
    if (there_is_room) {
        files[m->file % N_FILES].move = *m;
        files[m->file % N_FILES].bytes = bytes;
    }
    pthread_mutex_unlock(&files_mutex);
    if (!there_is_room)
        free(bytes);
    return there_is_room;
}

static void sweep_files(struct segment *s)
{
    for (uint32_t i = 0; i < N_FILES; i++) {
        pthread_mutex_lock(&files_mutex);
        struct offload_move m = files[i].move;
        bool there = files[i].bytes != NULL;
        pthread_mutex_unlock(&files_mutex);
        segment_lock(s);
        bool wanted = offload_file_is_wanted(s, m.slot, m.generation, m.file);
        segment_unlock(s);
        if (there && !wanted)
            remove_file(m.file);
    }
}

static void *move(void *arg)
{
    struct client *c = arg;
    struct segment *s = &c->s;
    struct offload_move m;
    attach(c, ROLE_DRIVER);
    while (!atomic_load(&stop_moving)) {
        if (offload_choose(s, &m) != OBJSTORE_OK) {
            client_sleep(s, client_inbox(s), 100000, NULL);
            sweep_files(s);
            continue;
        }
        bool written = write_file(s, &m);
        segment_lock(s);
        bool left = written && offload_leave(s, &m) == OBJSTORE_OK;
        if (!written)
            offload_give_up(s, m.slot);
        object_drop(s, m.slot, s->me);
        segment_unlock(s);
        c->n_rounds += left;
        if (!left)
            remove_file(m.file);
        if (!written)
            sweep_files(s);
    }
    sweep_files(s);
    client_died(s, s->me, 0);
    return NULL;
}

static void bring_back(struct segment *s, uint32_t object)
{
    struct offload_move m;
    for (;;) {
        uint32_t seen = client_inbox(s);
        segment_lock(s);
        int found = offload_claim(s, object, &m);
        uint64_t chunk = found == OBJSTORE_OK ? object_allocate(s, m.size, 0) : 0;
        segment_unlock(s);
        if (found == OBJSTORE_EXISTS)
            return;
        if (found == OBJSTORE_PENDING) {
            client_sleep(s, seen, 1000000, NULL);
            continue;
        }
        CHECK(chunk);
        pthread_mutex_lock(&files_mutex);
        CHECK(files[m.file % N_FILES].move.file == m.file && files[m.file % N_FILES].bytes);
        memcpy(s->base + chunk, files[m.file % N_FILES].bytes, m.size);
        pthread_mutex_unlock(&files_mutex);
        segment_lock(s);
        offload_return(s, &m, chunk);
        segment_unlock(s);
        remove_file(m.file);
        return;
    }
}

static void read_large(struct segment *s, uint32_t object)
{
    const struct object_slot *o = &s->objects[object];
    offload_begin_reading(s, object);
    uint64_t at;
    while ((at = atomic_load(&o->offset)) & OBJECT_ABSENT) /* perhaps for a moment only */
        bring_back(s, object);
    for (uint64_t k = 0; k < o->size; k += 61)
        CHECK(s->base[at + k] == (object & 0xff));
    offload_end_reading(s, object);
}

/* ------------------------------------------------------------------ drivers */

static uint32_t put(struct client *c, uint32_t size, const uint32_t *refs, uint32_t n_refs)
{
    struct segment *s = &c->s;
    uint32_t object;
    segment_lock(s);
    CHECK(object_create(s, s->me, s->h->next_seq++ | PUT_BIT, &object) == OBJSTORE_OK);
    uint64_t offset = size > OBJECT_INLINE_SIZE ? object_allocate(s, size, n_refs) : 0;
    segment_unlock(s);
    if (!offset) {
        CHECK(size <= OBJECT_INLINE_SIZE);
        object_seal_inline(s, object, OBJECT_READY, "twenty-four bytes long ..", size);
        return object;
    }
    memset(s->base + offset, (int)object & 0xff, size);
    if (n_refs)
        memcpy(object_refs_at(s, offset, size), refs, n_refs * sizeof *refs);
    segment_lock(s);
    object_seal_arena(s, object, OBJECT_READY, offset, size, n_refs);
    segment_unlock(s);
    return object;
}

static uint32_t submit(struct client *c, const uint32_t *refs, uint32_t n, uint32_t actor_1)
{
    struct segment *s = &c->s;
    uint32_t result, task;
    char bytes[100] = {0};
    struct task_spec spec = {.function = c->function,
                             .resource_class = class_small,
                             .actor_1 = actor_1,
                             .n_returns = 1,
                             .n_dependencies = n,
                             .n_refs = n,
                             .refs = refs,
                             .arguments = bytes,
                             .arguments_size = below(c, sizeof bytes),
                             .max_retries = -1};
    segment_lock(s);
    CHECK(task_submit(s, &spec, &result, &task) == OBJSTORE_OK);
    segment_unlock(s);
    return result;
}

static uint32_t submit_actor(struct client *c, uint32_t *object)
{
    struct segment *s = &c->s;
    struct actor_spec a = {.max_task_retries = -1, .max_concurrency = 1, .flags = ACTOR_FLAG_ORDERED};
    struct task_spec spec = {
        .function = c->function, .resource_class = class_actor, .n_returns = 1, .flags = TASK_FLAG_ACTOR_CREATION};
    uint32_t actor, result, task;
    *object = put(c, 100, NULL, 0);
    segment_lock(s);
    CHECK(actor_create(s, &a, *object, &actor) == OBJSTORE_OK);
    spec.actor_1 = actor + 1;
    CHECK(task_submit(s, &spec, &result, &task) == OBJSTORE_OK);
    actor_constructed_by(s, actor, task);
    object_drop(s, result, s->me);
    segment_unlock(s);
    return actor + 1;
}

/* Sleeps until all are sealed, woken once as a rule: the protocol of get(list). */
static void get(struct client *c, const uint32_t *objects, uint32_t n)
{
    struct segment *s = &c->s;
    for (;;) {
        uint32_t seen = client_inbox(s), n_pending = 0;
        atomic_store(&s->clients[s->me].need, 0);
        for (uint32_t i = 0; i < n; i++)
            n_pending += object_mark_waiting(s, objects[i]);
        if (!n_pending)
            break;
        atomic_fetch_add(&s->clients[s->me].need, (int32_t)n_pending);
        /* a lost wake-up: this program has no other sleepers */
        CHECK(client_sleep(s, seen, INT64_C(20000000000), NULL) == 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct object_slot *o = &s->objects[objects[i]];
        if (object_state(o) == OBJECT_READY && o->size >= OBJECT_MOVABLE)
            read_large(s, objects[i]);
        else if (object_state(o) == OBJECT_READY && o->offset)
            for (uint64_t k = 1; k < o->size; k++)
                CHECK(s->base[o->offset + k] == s->base[o->offset]);
    }
}

static void read_stream(struct client *c)
{
    struct segment *s = &c->s;
    uint32_t result, stream, item, refs[2] = {c->function};
    struct task_spec spec = {
        .function = c->function, .resource_class = class_small, .n_returns = 1, .n_refs = 1, .max_retries = -1};
    segment_lock(s);
    CHECK(task_submit_stream(s, &spec, refs, 0, &result, &stream) == OBJSTORE_OK);
    segment_unlock(s);
    for (int n = 0;;) {
        segment_lock(s);
        int error = stream_peek(s, stream, &item);
        segment_unlock(s);
        if (error) {
            CHECK(error == OBJSTORE_NOT_FOUND && n == N_ITEMS);
            break;
        }
        get(c, &item, 1);
        segment_lock(s);
        if (stream_take(s, stream, item))
            CHECK(s->objects[item].u.inline_data[0] == n++);
        object_drop(s, item, s->me);
        segment_unlock(s);
    }
    client_drop(s, (uint32_t[]){result, stream}, 2);
}

static void look_around(struct client *c)
{
    struct segment *s = &c->s;
    uint32_t task, worker, gone = submit(c, NULL, 0, 0);
    segment_lock(s);
    task_cancel(s, gone, &task, &worker);
    task_workers_wanted(s);
    CHECK(segment_check(s, NULL, NULL) == 0);
    segment_unlock(s);
    client_drop(s, &gone, 1);
}

/* A graph: puts, tasks on them, tasks on those, an actor's calls, a stream; then everything is dropped. */
static void *drive(void *arg)
{
    struct client *c = arg;
    attach(c, ROLE_DRIVER);
    c->function = put(c, 4, NULL, 0);
    while (!atomic_load(&stop_driving)) {
        uint32_t refs[3 * WIDTH], n = 0, handle, actor_1 = below(c, 8) ? 0 : submit_actor(c, &handle);
        for (; n < WIDTH; n++)
            refs[n] = below(c, 4) ? put(c, 1 + below(c, 2000), refs, below(c, 2) ? 0 : n)
                                  : put(c, (uint32_t)OBJECT_MOVABLE + below(c, 2000), NULL, 0);
        for (; n < 3 * WIDTH; n++) {
            uint32_t two[2] = {refs[below(c, n)], refs[below(c, n)]};
            refs[n] = submit(c, two, below(c, 3), below(c, 2) ? 0 : actor_1);
        }
        if (!below(c, 4))
            read_stream(c);
        if (!below(c, 16))
            look_around(c);
        get(c, refs, n);
        client_drop(&c->s, refs, n);
        if (actor_1)
            client_drop(&c->s, &handle, 1);
        c->n_rounds++;
    }
    client_drop(&c->s, &c->function, 1);
    client_died(&c->s, c->s.me, 0);
    return NULL;
}

/* ------------------------------------------------------------------ workers */

static void yield_items(struct client *c, uint32_t task)
{
    for (unsigned char i = 0; i < N_ITEMS; i++) {
        uint32_t item;
        segment_lock(&c->s);
        int error = task_item(&c->s, task, i, &item);
        segment_unlock(&c->s);
        if (!error)
            object_seal_inline(&c->s, item, OBJECT_READY, &i, 1);
    }
}

static void execute(struct client *c, uint32_t task, uint16_t flags)
{
    struct segment *s = &c->s;
    struct task_slot *t = &s->tasks[task];
    if (flags & TASK_FLAG_STREAM)
        yield_items(c, task);
    if (!t->actor_1 && !below(c, 8)) {
        task_block(s, task);
        task_unblock(s, task);
    }
    if (!(flags & (TASK_FLAG_STREAM | TASK_FLAG_ACTOR_CREATION)) && !below(c, 16)) {
        segment_lock(s);
        task_retry(s, task);
        segment_unlock(s);
        return;
    }
    object_seal_inline(s, task_result(s, t, 0), OBJECT_READY, &task, sizeof task);
    segment_lock(s);
    if (flags & TASK_FLAG_ACTOR_CREATION) {
        actor_bind(s, t->actor_1 - 1, task);
        task_release_results(s, task);
    } else {
        task_finish(s, task, EVENT_OK);
    }
    segment_unlock(s);
}

/* A worker whose actor has ended starts again as another client, as the scheduler would start another process. */
static void *work(void *arg)
{
    struct client *c = arg;
    attach(c, ROLE_WORKER);
    while (!atomic_load(&stop_working)) {
        uint32_t seen = client_inbox(&c->s);
        segment_lock(&c->s);
        uint32_t task = task_pop(&c->s), actor_1 = c->s.clients[c->s.me].actor_1;
        uint16_t flags = task == UINT32_MAX ? 0 : c->s.tasks[task].flags;
        bool ended = actor_1 && task == UINT32_MAX && actor_ended(&c->s, actor_1 - 1);
        segment_unlock(&c->s);
        if (ended) {
            client_died(&c->s, c->s.me, 0);
            attach(c, ROLE_WORKER);
        } else if (task != UINT32_MAX) {
            execute(c, task, flags);
            c->n_rounds++;
        } else {
            client_sleep(&c->s, seen, INT64_C(5000000), NULL); /* workers beyond the actors are not guaranteed here */
        }
    }
    client_died(&c->s, c->s.me, 0);
    return NULL;
}

/* ------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    struct segment_config config = {SIZE, 4096, 4096, 64, 1024};
    struct client workers[N_WORKERS] = {0}, drivers[N_DRIVERS] = {0}, movers[N_MOVERS] = {0}, watcher = {0};
    pthread_t threads[N_WORKERS + N_DRIVERS + N_MOVERS];
    int64_t one[MAX_KINDS] = {RESOURCE_UNIT}, none[MAX_KINDS] = {0}, total[MAX_KINDS] = {N_WORKERS * RESOURCE_UNIT};
    base = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED && segment_format(base, &config) == OBJSTORE_OK);
    attach(&watcher, ROLE_DRIVER);
    struct segment *s = &watcher.s;
    segment_lock(s);
    CHECK(resource_class(s, one, one, 0, ON_NODE, &class_small) == OBJSTORE_OK &&
          resource_class(s, one, none, 0, ON_NODE, &class_actor) == OBJSTORE_OK);
    resource_set_total(s, total);
    memcpy(s->h->offload_folder, "disk", 5);
    s->h->offload_limit = SIZE;
    segment_unlock(s);
    for (int i = 0; i < N_WORKERS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    for (int i = 0; i < N_DRIVERS; i++)
        CHECK(pthread_create(&threads[N_WORKERS + i], NULL, drive, &drivers[i]) == 0);
    for (int i = 0; i < N_MOVERS; i++)
        CHECK(pthread_create(&threads[N_WORKERS + N_DRIVERS + i], NULL, move, &movers[i]) == 0);
    int64_t end = monotonic_ns() + (int64_t)(argc > 1 ? strtod(argv[1], NULL) * 1e9 : 1e9);
    while (monotonic_ns() < end)
        event_wait(s, atomic_load(&s->h->event_head), 10000000);
    atomic_store(&stop_driving, true);
    for (int i = 0; i < N_DRIVERS; i++)
        pthread_join(threads[N_WORKERS + i], NULL);
    for (bool busy = true; busy;) { /* actors' last words */
        segment_lock(s);
        busy = s->h->n_live_tasks || s->h->n_live_objects;
        segment_unlock(s);
        client_sleep(s, client_inbox(s), 1000000, NULL);
    }
    atomic_store(&stop_working, true);
    atomic_store(&stop_moving, true);
    for (int i = 0; i < N_WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < N_MOVERS; i++)
        pthread_join(threads[N_WORKERS + N_DRIVERS + i], NULL);
    segment_lock(s);
    CHECK(segment_check(s, NULL, NULL) == 0 && s->h->arena.used_bytes == 0 && s->h->n_offloaded == 0);
    segment_unlock(s);
    for (int i = 0; i < N_FILES; i++)
        CHECK(!files[i].bytes);
    long n_rounds = 0, n_tasks = 0, n_moved = 0;
    for (int i = 0; i < N_MOVERS; i++)
        n_moved += movers[i].n_rounds;
    for (int i = 0; i < N_DRIVERS; i++)
        n_rounds += drivers[i].n_rounds;
    for (int i = 0; i < N_WORKERS; i++)
        n_tasks += workers[i].n_rounds;
    printf("%ld graphs, %ld tasks, %ld objects offloaded, on threads: everything once, nothing left\n", n_rounds,
           n_tasks, n_moved);
    return n_rounds > 0 && n_moved > 0 ? 0 : 1;
}
