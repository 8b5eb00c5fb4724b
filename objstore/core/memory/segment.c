#define _GNU_SOURCE
#include "memory/segment.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_GRACE_MS = 5000, CLOCK_TRIES = 3 };

/* ------------------------------------------------------------------ format */

static uint64_t align_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

struct plan {
    uint64_t classes, clients, actors, objects, tasks, events, readers, times, arena;
};

static struct plan plan_of(const struct segment_config *c)
{
    struct plan p;
    p.classes = align_up(sizeof(struct header), 4096);
    p.clients = align_up(p.classes + sizeof(struct resource_class) * MAX_CLASSES, 4096);
    p.actors = align_up(p.clients + sizeof(struct client_slot) * MAX_CLIENTS, 4096);
    p.objects = align_up(p.actors + sizeof(struct actor_slot) * (uint64_t)c->n_actors, 4096);
    p.tasks = align_up(p.objects + sizeof(struct object_slot) * (uint64_t)c->n_objects, 4096);
    p.events = align_up(p.tasks + sizeof(struct task_slot) * (uint64_t)c->n_tasks, 4096);
    p.readers = align_up(p.events + sizeof(struct event_record) * (uint64_t)c->n_events, 4096);
    p.times = align_up(p.readers + sizeof(struct object_readers) * (uint64_t)c->n_objects, 4096);
    p.arena = align_up(p.times + sizeof(struct task_times) * (uint64_t)c->n_tasks, 4096);
    return p;
}

static uint64_t unix_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The rate of the invariant TSC is not measured here: two readings a few milliseconds apart would delay every start.
 * Readers of events derive it from the time since creation (see client.clock). */
static void start_clock(struct header *h)
{
    h->clock_unix_ns = unix_ns();
    clock_read(&h->clock_ticks, &h->clock_monotonic_ns);
}

void clock_read(uint64_t *ticks, uint64_t *ns)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < CLOCK_TRIES; i++) {
        uint64_t before = ticks_now(), at = (uint64_t)monotonic_ns(), took = ticks_now() - before;
        if (took < least) {
            least = took;
            *ticks = before + took / 2;
            *ns = at;
        }
    }
}

int segment_format(unsigned char *base, const struct segment_config *c)
{
    struct plan p = plan_of(c);
    if (c->n_events == 0 || (c->n_events & (c->n_events - 1)) || !c->n_objects || !c->n_tasks || !c->n_actors ||
        c->n_objects > MAX_SLOTS || c->n_tasks > MAX_SLOTS || c->size < p.arena + 65536 ||
        c->size - p.arena > ARENA_MAX_SIZE)
        return OBJSTORE_INVALID;
    struct header *h = (struct header *)base;
    h->version = LAYOUT_VERSION;
    h->signature = LAYOUT_SIGNATURE;
    h->size = c->size;
    if (getrandom(&h->session, sizeof h->session, 0) != (ssize_t)sizeof h->session)
        return OBJSTORE_SYSTEM;
    h->n_objects = c->n_objects;
    h->n_tasks = c->n_tasks;
    h->n_actors = c->n_actors;
    h->n_events = c->n_events;
    h->classes_offset = p.classes;
    h->clients_offset = p.clients;
    h->actors_offset = p.actors;
    h->objects_offset = p.objects;
    h->tasks_offset = p.tasks;
    h->events_offset = p.events;
    h->readers_offset = p.readers;
    h->times_offset = p.times;
    h->lock_grace_ms = LOCK_GRACE_MS;
    h->timeout_grace_ms = TIMEOUT_GRACE_MS;
    h->next_seq = 1;
    h->pools[0].state = POOL_RESERVED;
    h->pools[0].n = h->touched_pools = 1;
    h->n_kinds = 3;
    memcpy(h->kind_names[KIND_CPU], "CPU", 4);
    memcpy(h->kind_names[KIND_GPU], "GPU", 4);
    memcpy(h->kind_names[KIND_MEMORY], "memory", 7);
    start_clock(h);
    arena_init(&h->arena, base, p.arena, c->size / 64 * 64);
    /* for clarity only: a process that maps it has received the descriptor through the kernel */
    atomic_thread_fence(memory_order_release);
    h->magic = LAYOUT_MAGIC;
    return OBJSTORE_OK;
}

int segment_create(const struct segment_config *c)
{
    int fd = (int)syscall(SYS_memfd_create, "cellmesh", 0x0003u /* CLOEXEC | ALLOW_SEALING */);
    if (fd < 0)
        return OBJSTORE_SYSTEM;
    int result = OBJSTORE_SYSTEM;
    void *base = MAP_FAILED;
    if (ftruncate(fd, (off_t)c->size) == 0)
        base = mmap(NULL, c->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base != MAP_FAILED) {
        result = segment_format(base, c);
        munmap(base, c->size);
    }
    /* So that no process can shrink it while others read. */
    if (result == OBJSTORE_OK && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    close(fd);
    return result == OBJSTORE_OK ? OBJSTORE_SYSTEM : result;
}

static bool header_fits(const struct header *h, size_t size, struct plan *p)
{
    struct segment_config c = {h->size, h->n_objects, h->n_tasks, h->n_actors, h->n_events};
    *p = plan_of(&c);
    return h->magic == LAYOUT_MAGIC && h->version == LAYOUT_VERSION && h->signature == LAYOUT_SIGNATURE &&
           h->size == size && h->n_events && !(h->n_events & (h->n_events - 1)) && p->arena <= size &&
           p->objects == h->objects_offset && p->tasks == h->tasks_offset && p->events == h->events_offset &&
           p->readers == h->readers_offset && p->times == h->times_offset && p->actors == h->actors_offset &&
           p->clients == h->clients_offset && p->classes == h->classes_offset && h->arena.begin == p->arena &&
           h->arena.end == size / 64 * 64;
}

bool segment_matches(const struct segment *s)
{
    struct plan p;
    return header_fits(s->h, s->size, &p) && (void *)(s->base + p.objects) == (void *)s->objects &&
           (void *)(s->base + p.tasks) == (void *)s->tasks && (void *)(s->base + p.events) == (void *)s->events &&
           (void *)(s->base + p.actors) == (void *)s->actors && (void *)(s->base + p.readers) == (void *)s->readers &&
           (void *)(s->base + p.times) == (void *)s->times;
}

int segment_use(struct segment *s, unsigned char *base, size_t size)
{
    struct header *h = (struct header *)base;
    struct plan p;
    if (size < sizeof *h || !header_fits(h, size, &p))
        return OBJSTORE_CORRUPT;
    *s = (struct segment){.base = base, .size = size, .fd = -1, .h = h, .me = UINT32_MAX};
    s->n_objects = h->n_objects;
    s->n_tasks = h->n_tasks;
    s->n_actors = h->n_actors;
    s->n_events = h->n_events;
    s->arena_begin = h->arena.begin;
    s->arena_end = h->arena.end;
    s->classes = (void *)(base + p.classes);
    s->clients = (void *)(base + p.clients);
    s->actors = (void *)(base + p.actors);
    s->objects = (void *)(base + p.objects);
    s->tasks = (void *)(base + p.tasks);
    s->events = (void *)(base + p.events);
    s->readers = (void *)(base + p.readers);
    s->times = (void *)(base + p.times);
    return OBJSTORE_OK;
}

int segment_map(struct segment *s, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return OBJSTORE_SYSTEM;
    if (st.st_size < (off_t)sizeof(struct header))
        return OBJSTORE_CORRUPT;
    void *base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED)
        return OBJSTORE_SYSTEM;
    madvise(base, (size_t)st.st_size, MADV_DONTDUMP);
    int result = segment_use(s, base, (size_t)st.st_size);
    if (result == OBJSTORE_OK && (s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0)
        result = OBJSTORE_SYSTEM;
    s->device = st.st_dev;
    s->inode = st.st_ino;
    if (result != OBJSTORE_OK)
        munmap(base, (size_t)st.st_size);
    return result;
}

bool segment_has_descriptor(const struct segment *s)
{
    struct stat st;
    return s->fd >= 0 && fstat(s->fd, &st) == 0 && st.st_dev == s->device && st.st_ino == s->inode;
}

bool segment_make_private(struct segment *s, uint64_t begin, uint64_t end)
{
    if (!segment_has_descriptor(s))
        return false;
    return begin == end || mmap(s->base + begin, end - begin, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, s->fd, (off_t)begin) != MAP_FAILED;
}

void segment_unmap(struct segment *s)
{
    if (s->base)
        munmap(s->base, s->size);
    if (s->base && s->fd >= 0)
        close(s->fd);
    *s = (struct segment){.fd = -1, .me = UINT32_MAX};
}

void clients_attached(const struct segment *s, uint64_t clients[CLIENT_WORDS])
{
    memset(clients, 0, sizeof(uint64_t) * CLIENT_WORDS);
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        clients[i / 64] |= (uint64_t)(atomic_load(&s->clients[i].state) != CLIENT_FREE) << (i % 64);
}

/* ------------------------------------------------------------------ stray writes */

void segment_condemn(struct segment *s)
{
    atomic_store(&s->h->corrupt, 1);
    atomic_store(&s->h->closing, 1);
    wake_all(s);
}

void *segment_stray(const struct segment *s)
{
    static _Thread_local _Alignas(64) unsigned char nowhere[sizeof(struct resource_class)]; /* the largest */
    static_assert(sizeof nowhere >= sizeof(struct pool) && sizeof nowhere >= sizeof(struct object_slot),
                  "every slot fits");
    if (!atomic_load(&s->h->corrupt))
        /* `s` is const for callers that only read; of their data this sets only wake-ups */
        segment_condemn((struct segment *)(uintptr_t)s);
    return memset(nowhere, 0, sizeof nowhere);
}

void segment_give_up_arena(const struct segment *s)
{
    segment_stray(s);
    s->h->arena.begin = s->arena_begin;
    s->h->arena.end = s->arena_end;
}
