/* process/: what the binding needs of CPython and Linux in its own process; never the state of a task. */

/* Large blocks of bytes into the segment, and out of it (decision 36).
 *
 * What a block costs depends on its pages more than on its bytes (2-core VM, GB/s; a thread alone, two threads):
 *
 *   the pages               memcpy        write          chosen
 *   mapped here             5.2, 10       4.0            memcpy, several threads
 *   there, not mapped here  1.6           4.0            mapped in one call, then memcpy: 3.6 to 5.7
 *   not there               1.4, 2.4      2.9, 2.8       write: the kernel does not clear a page that it is about to
 *                           fill
 */
#include "binding.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14; older kernels refuse it, and the pages come one by one */
#endif

enum { COPY_THREADS_MAX = 4 };
#define COPY_WITHOUT_GIL (256u << 10)
#define COPY_PER_THREAD (4u << 20)
#define MAP_BLOCK (UINT64_C(64) << 10) /* bytes for which one entry of `mapped` stands */
/* bytes whose pages are treated alike: those of one in their middle are looked at */
#define RUN_MAX (UINT64_C(1) << 20)

bool copy_init(ClientObject *c)
{
    return (c->mapped = PyMem_Calloc(c->s.size / MAP_BLOCK + 1, sizeof *c->mapped)) != NULL;
}

struct copy {
    ClientObject *client; /* NULL: not into the segment */
    unsigned char *to;
    const unsigned char *from;
    size_t n;
};

static bool is_there(unsigned char *at)
{
    unsigned char there = 1;
    mincore((void *)((uintptr_t)at & ~(uintptr_t)(ARENA_PAGE - 1)), 1, &there);
    return there & 1;
}

/* False where the file cannot be written to (it is not ours to open, or a user's code has closed it, say); then nothing
 * is lost but time. */
static bool write_run(const struct segment *s, const unsigned char *to, const unsigned char *from, size_t n)
{
    if (!segment_has_descriptor(s))
        return false;
    while (n) {
        ssize_t done = pwrite(s->fd, from, n, to - s->base);
        if (done <= 0)
            return false;
        to += done;
        from += done;
        n -= (size_t)done;
    }
    return true;
}

static bool is_mapped(const ClientObject *c, uint64_t at)
{
    return atomic_load_explicit(&c->mapped[at / MAP_BLOCK], memory_order_relaxed);
}

/* Threads whose parts meet in a block both mark it. */
static void map_run(ClientObject *c, uint64_t at, size_t n)
{
    uint64_t begin = at / ARENA_PAGE * ARENA_PAGE;
    madvise(c->s.base + begin, at + n - begin, MADV_POPULATE_WRITE);
    for (uint64_t block = at / MAP_BLOCK; block <= (at + n - 1) / MAP_BLOCK; block++)
        atomic_store_explicit(&c->mapped[block], true, memory_order_relaxed);
}

/* How far from `at` on pages are mapped here, or are not; as far as is known. */
static size_t run_of(const ClientObject *c, uint64_t at, size_t n, bool mapped)
{
    uint64_t end = at;
    while (end < at + n && is_mapped(c, end) == mapped)
        end = (end / MAP_BLOCK + 1) * MAP_BLOCK;
    return end < at + n ? end - at : n;
}

static void copy_in(ClientObject *c, unsigned char *to, const unsigned char *from, size_t n)
{
    while (n) {
        uint64_t at = (uint64_t)(to - c->s.base);
        bool mapped = is_mapped(c, at);
        size_t run = run_of(c, at, n, mapped);
        if (!mapped && run > RUN_MAX)
            run = RUN_MAX;
        if (mapped || is_there(to + run / 2) || !write_run(&c->s, to, from, run)) {
            if (!mapped)
                map_run(c, at, run);
            memcpy(to, from, run);
        }
        to += run;
        from += run;
        n -= run;
    }
}

static void *copy_part(void *arg)
{
    struct copy *c = arg;
    if (c->client)
        copy_in(c->client, c->to, c->from, c->n);
    else
        memcpy(c->to, c->from, c->n);
    return NULL;
}

static void copy_in_parallel(struct copy whole)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = whole.n, parts = n / COPY_PER_THREAD, most = cores < COPY_THREADS_MAX ? (size_t)cores : COPY_THREADS_MAX;
    if (whole.client && !is_there(whole.to + n / 2))
        most = 1; /* those who write to one file wait for each other */
    parts = parts > most ? most : parts;
    pthread_t threads[COPY_THREADS_MAX];
    struct copy jobs[COPY_THREADS_MAX];
    bool started[COPY_THREADS_MAX] = {false};
    size_t step = parts > 1 ? (n / parts + ARENA_PAGE - 1) & ~(size_t)(ARENA_PAGE - 1) : n, done = step;
    for (size_t i = 1; i < parts && done < n; i++, done += step) {
        jobs[i] = (struct copy){whole.client, whole.to + done, whole.from + done, n - done < step ? n - done : step};
        started[i] = pthread_create(&threads[i], NULL, copy_part, &jobs[i]) == 0;
        if (!started[i])
            copy_part(&jobs[i]);
    }
    whole.n = step < n ? step : n;
    copy_part(&whole);
    for (size_t i = 1; i < parts; i++)
        if (started[i])
            pthread_join(threads[i], NULL);
}

void copy_bytes(void *client, void *to, const void *from, size_t n)
{
    if (n < COPY_WITHOUT_GIL) {
        memcpy(to, from, n);
        return;
    }
    ClientObject *c = client;
    bool in_segment = (unsigned char *)to >= c->s.base && (unsigned char *)to < c->s.base + c->s.size;
    Py_BEGIN_ALLOW_THREADS
    copy_in_parallel((struct copy){in_segment ? c : NULL, to, from, n});
    Py_END_ALLOW_THREADS
}
