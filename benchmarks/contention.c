/* What the segment's lock costs when two cores use it: contention.py runs this and reckons what more cores would see.
 * Prints one "name value" a line; nanoseconds a time, medians of WINDOWS windows. Two threads on two CPUs, each a
 * client with a view of its own, as two processes are. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "clients/client.h"
#include "memory/arena.h"
#include "memory/event.h"
#include "objects/object.h"
#include "tasks/placement.h"
#include "tasks/resource.h"
#include "tasks/task.h"

enum { WINDOWS = 21, N = 20000, MAX_LINES = 16, AHEAD = 512 };
#define SIZE (UINT64_C(64) << 20)
static unsigned char *base;
static uint32_t class_small, function;

static void must(int ok)
{
    if (!ok)
        abort();
}
static int by_value(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}
static void show(const char *name, double *v)
{
    qsort(v, WINDOWS, sizeof *v, by_value);
    printf("%s %.2f\n", name, v[WINDOWS / 2]);
}
static void on_cpu(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    must(pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0);
}

/* ---- cache lines: the turn goes to and fro, and with it so many lines that are written */
static struct {
    _Alignas(64) _Atomic uint32_t turn;
    struct {
        _Alignas(64) volatile uint32_t n;
    } line[MAX_LINES];
} shared;
static uint32_t n_lines;

static void *other_side(void *arg)
{
    (void)arg;
    on_cpu(1);
    for (uint32_t i = 0; i < N; i++) {
        while (atomic_load_explicit(&shared.turn, memory_order_acquire) != 2 * i + 1)
            cpu_relax();
        for (uint32_t k = 0; k < n_lines; k++)
            shared.line[k].n++;
        atomic_store_explicit(&shared.turn, 2 * i + 2, memory_order_release);
    }
    return NULL;
}

static double handovers(uint32_t lines)
{
    pthread_t other;
    n_lines = lines;
    atomic_store(&shared.turn, 0);
    must(pthread_create(&other, NULL, other_side, NULL) == 0);
    int64_t began = monotonic_ns();
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = 0; k < n_lines; k++)
            shared.line[k].n++;
        atomic_store_explicit(&shared.turn, 2 * i + 1, memory_order_release);
        while (atomic_load_explicit(&shared.turn, memory_order_acquire) != 2 * i + 2)
            cpu_relax();
    }
    double ns = (double)(monotonic_ns() - began) / (2.0 * N);
    pthread_join(other, NULL);
    return ns;
}

/* ---- tasks: what submitting, and finishing one and taking the next, keep the lock for */
static void submit(struct segment *s, uint32_t *result)
{
    uint32_t task;
    struct task_spec spec = {.function = function,
                             .resource_class = class_small,
                             .n_returns = 1,
                             .arguments = "arguments",
                             .arguments_size = 9};
    segment_lock(s);
    must(task_submit(s, &spec, result, &task) == OBJSTORE_OK);
    segment_unlock(s);
}

static uint32_t finish_and_take(struct segment *s, uint32_t task)
{
    if (task != UINT32_MAX)
        object_seal_inline(s, task_result(s, &s->tasks[task], 0), OBJECT_READY, "result", 6);
    segment_lock(s);
    if (task != UINT32_MAX)
        task_finish(s, task, EVENT_OK);
    uint32_t next = task_pop(s);
    segment_unlock(s);
    return next;
}

static void attach(struct segment *s, uint32_t role)
{
    must(segment_use(s, base, SIZE) == OBJSTORE_OK && client_attach(s, role) == OBJSTORE_OK);
}

static void alone(struct segment *driver, struct segment *worker, double *of_submit, double *of_finish, double *of_drop)
{
    static uint32_t results[AHEAD];
    for (int w = 0; w < WINDOWS; w++) {
        int64_t submitting = 0, finishing = 0, dropping = 0;
        for (int round = 0; round < 20; round++) {
            int64_t t0 = monotonic_ns();
            for (int i = 0; i < AHEAD; i++)
                submit(driver, &results[i]);
            int64_t t1 = monotonic_ns();
            for (uint32_t task = finish_and_take(worker, UINT32_MAX); task != UINT32_MAX;)
                task = finish_and_take(worker, task);
            int64_t t2 = monotonic_ns();
            client_drop(driver, results, AHEAD);
            submitting += t1 - t0;
            finishing += t2 - t1;
            dropping += monotonic_ns() - t2;
        }
        of_submit[w] = (double)submitting / (20 * AHEAD);
        of_finish[w] = (double)finishing / (20 * AHEAD);
        of_drop[w] = (double)dropping / (20 * AHEAD);
    }
}

static _Atomic bool over;
static _Atomic uint64_t n_done;

static void *work(void *arg)
{
    struct segment *s = arg;
    on_cpu(1);
    uint32_t task = UINT32_MAX;
    for (;;) {
        uint32_t next = finish_and_take(s, task);
        if (task != UINT32_MAX)
            atomic_store_explicit(&n_done, n_done + 1, memory_order_release);
        task = next;
        if (task == UINT32_MAX && atomic_load(&over))
            return NULL;
    }
}

static void together(struct segment *driver, struct segment *worker, double *of_task)
{
    pthread_t other;
    static uint32_t results[AHEAD];
    must(pthread_create(&other, NULL, work, worker) == 0);
    uint64_t n = 0;
    for (int w = 0; w < WINDOWS; w++) {
        int64_t began = monotonic_ns();
        for (int round = 0; round < 20; round++) {
            for (int i = 0; i < AHEAD; i++, n++)
                submit(driver, &results[i]);
            while (atomic_load_explicit(&n_done, memory_order_acquire) < n)
                cpu_relax();
            client_drop(driver, results, AHEAD);
        }
        of_task[w] = (double)(monotonic_ns() - began) / (20 * AHEAD);
    }
    atomic_store(&over, true);
    pthread_join(other, NULL);
}

/* ---- parts of it that clients could keep for themselves: slots of objects, memory for arguments */
static void parts(struct segment *s, double *of_slot, double *of_chunk)
{
    for (int w = 0; w < WINDOWS; w++) {
        uint32_t object;
        int64_t t0 = monotonic_ns();
        for (int i = 0; i < N; i++) {
            must(object_create(s, s->me, 1 | PUT_BIT, &object) == OBJSTORE_OK);
            object_seal_inline(s, object, OBJECT_READY, "", 0);
            object_drop(s, object, s->me);
        }
        int64_t t1 = monotonic_ns();
        for (int i = 0; i < N; i++)
            must(arena_free(&s->h->arena, s->base, arena_alloc(&s->h->arena, s->base, 200, ARENA_BUILDING, s->me)) ==
                 OBJSTORE_OK);
        of_slot[w] = (double)(t1 - t0) / N;
        of_chunk[w] = (double)(monotonic_ns() - t1) / N;
    }
}

int main(void)
{
    static double v[5][WINDOWS];
    on_cpu(0);
    for (uint32_t lines = 0; lines <= MAX_LINES; lines += 4) {
        char name[32];
        for (int w = 0; w < WINDOWS; w++)
            v[0][w] = handovers(lines);
        snprintf(name, sizeof name, "lines_%u", lines);
        show(name, v[0]);
    }
    base = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(base != MAP_FAILED);
    struct segment_config config = {
        .size = SIZE, .n_objects = 65536, .n_tasks = 65536, .n_actors = 16, .n_events = 4096};
    must(segment_format(base, &config) == OBJSTORE_OK);
    struct segment driver, worker;
    attach(&driver, ROLE_DRIVER);
    attach(&worker, ROLE_WORKER);
    int64_t cpus[MAX_KINDS] = {64 * RESOURCE_UNIT}, one[MAX_KINDS] = {RESOURCE_UNIT};
    segment_lock(&driver);
    must(resource_class(&driver, one, one, 0, ON_NODE, &class_small) == OBJSTORE_OK);
    resource_set_total(&driver, cpus);
    must(object_create(&driver, driver.me, 1 | PUT_BIT, &function) == OBJSTORE_OK);
    object_seal_inline(&driver, function, OBJECT_READY, "", 0);
    segment_unlock(&driver);
    alone(&driver, &worker, v[0], v[1], v[2]);
    show("submit", v[0]);
    show("finish_and_take", v[1]);
    show("drop", v[2]);
    together(&driver, &worker, v[3]);
    show("both_at_once", v[3]);
    segment_lock(&driver);
    parts(&driver, v[0], v[1]);
    segment_unlock(&driver);
    show("object_slot", v[0]);
    show("chunk", v[1]);
    return 0;
}
