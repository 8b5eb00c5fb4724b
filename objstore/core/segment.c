#define _GNU_SOURCE
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "liveness.h"
#include "recover.h"

/* A lock that long not let go: is its owner dead? To ask costs some 30 us, and the answer is the others' stall. */
static int64_t lock_patience_ns = 5 * 1000 * 1000;
enum { LOCK_SPIN = 200, LOCK_GRACE_MS = 5000 };

/* ------------------------------------------------------------------ system */

int futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct timespec t = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    if (syscall(SYS_futex, word, FUTEX_WAIT, expected, timeout_ns < 0 ? NULL : &t, NULL, 0) == 0 || errno == EAGAIN)
        return 0;
    return errno;
}

void futex_wake(_Atomic uint32_t *word, int n) { syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0); }

int64_t monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t unix_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ------------------------------------------------------------------ format */

static uint64_t align_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

struct plan { uint64_t classes, clients, actors, objects, tasks, events, readers, arena; };

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
    p.arena = align_up(p.readers + sizeof(struct object_readers) * (uint64_t)c->n_objects, 4096);
    return p;
}

/* Two readings a few milliseconds apart would delay every start; the invariant TSC's rate is refined by whoever
 * reads events (see client.clock), from the span since creation. */
static void start_clock(struct header *h)
{
    h->clock_unix_ns = unix_ns();
    h->clock_ticks = ticks_now();
    h->clock_monotonic_ns = (uint64_t)monotonic_ns();
}

int segment_format(unsigned char *base, const struct segment_config *c)
{
    struct plan p = plan_of(c);
    if (c->n_events == 0 || (c->n_events & (c->n_events - 1)) || !c->n_objects || !c->n_tasks || !c->n_actors ||
        c->n_objects > MAX_SLOTS || c->n_tasks > MAX_SLOTS ||
        c->size < p.arena + 65536 || c->size - p.arena > ARENA_MAX_SIZE)
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
    h->lock_grace_ms = LOCK_GRACE_MS;
    h->next_seq = 1;
    h->pools[0].state = POOL_RESERVED;
    h->pools[0].n = h->touched_pools = 1;
    h->n_kinds = 3;
    memcpy(h->kind_names[KIND_CPU], "CPU", 4);
    memcpy(h->kind_names[KIND_GPU], "GPU", 4);
    memcpy(h->kind_names[KIND_MEMORY], "memory", 7);
    start_clock(h);
    arena_init(&h->arena, base, p.arena, c->size / 64 * 64);
    atomic_thread_fence(memory_order_release); /* no more than a courtesy: whoever maps it has got the descriptor through the kernel */
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
    /* Nobody can shrink it under a reader's feet. */
    if (result == OBJSTORE_OK && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    close(fd);
    return result == OBJSTORE_OK ? OBJSTORE_SYSTEM : result;
}

static bool header_fits(const struct header *h, size_t size, struct plan *p)
{
    struct segment_config c = {h->size, h->n_objects, h->n_tasks, h->n_actors, h->n_events};
    *p = plan_of(&c);
    return h->magic == LAYOUT_MAGIC && h->version == LAYOUT_VERSION && h->signature == LAYOUT_SIGNATURE && h->size == size &&
           h->n_events && !(h->n_events & (h->n_events - 1)) && p->arena <= size && p->objects == h->objects_offset &&
           p->tasks == h->tasks_offset && p->events == h->events_offset && p->readers == h->readers_offset && p->actors == h->actors_offset &&
           p->clients == h->clients_offset && p->classes == h->classes_offset && h->arena.begin == p->arena &&
           h->arena.end == size / 64 * 64;
}

bool segment_matches(const struct segment *s)
{
    struct plan p;
    return header_fits(s->h, s->size, &p) && (void *)(s->base + p.objects) == (void *)s->objects &&
           (void *)(s->base + p.tasks) == (void *)s->tasks && (void *)(s->base + p.events) == (void *)s->events &&
           (void *)(s->base + p.actors) == (void *)s->actors && (void *)(s->base + p.readers) == (void *)s->readers;
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

bool segment_make_private(struct segment *s, uint64_t begin, uint64_t end)
{
    struct stat st;
    if (s->fd < 0 || fstat(s->fd, &st) != 0 || st.st_dev != s->device || st.st_ino != s->inode)
        return false;
    return begin == end || mmap(s->base + begin, end - begin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, s->fd,
                                (off_t)begin) != MAP_FAILED;
}

void segment_unmap(struct segment *s)
{
    if (s->base)
        munmap(s->base, s->size);
    if (s->base && s->fd >= 0)
        close(s->fd);
    *s = (struct segment){.fd = -1, .me = UINT32_MAX};
}

/* ------------------------------------------------------------------ stray writes */

void segment_condemn(struct segment *s)
{
    atomic_store(&s->h->corrupt, 1);
    atomic_store(&s->h->closing, 1);
    wake_everybody(s);
}

void *segment_stray(const struct segment *s)
{
    static _Thread_local _Alignas(64) unsigned char nowhere[sizeof(struct resource_class)]; /* the largest */
    static_assert(sizeof nowhere >= sizeof(struct pool) && sizeof nowhere >= sizeof(struct object_slot), "every slot fits");
    if (!atomic_load(&s->h->corrupt))
        segment_condemn((struct segment *)(uintptr_t)s); /* whose wake-ups are its own matter: who only looks has it const */
    return memset(nowhere, 0, sizeof nowhere);
}

/* No branch for each: everybody passes here all the time. A number beyond its limit makes a difference below zero. */
static inline bool counts_are_sound(const struct segment *s)
{
    const struct header *h = s->h;
    return (((int64_t)s->n_objects - h->touched_objects) | ((int64_t)s->n_tasks - h->touched_tasks) |
            ((int64_t)s->n_actors - h->touched_actors) | ((int64_t)MAX_CLASSES - h->n_classes) | ((int64_t)MAX_KINDS - h->n_kinds)) >= 0;
}

__attribute__((cold, noinline)) static void give_up_counts(struct segment *s)
{
    struct header *h = s->h;
    segment_condemn(s);
    h->touched_objects = h->touched_objects <= s->n_objects ? h->touched_objects : 0;
    h->touched_tasks = h->touched_tasks <= s->n_tasks ? h->touched_tasks : 0;
    h->touched_actors = h->touched_actors <= s->n_actors ? h->touched_actors : 0;
    h->n_classes = h->n_classes <= MAX_CLASSES ? h->n_classes : 0;
    h->n_kinds = h->n_kinds <= MAX_KINDS ? h->n_kinds : 0;
}

void segment_give_up_arena(const struct segment *s)
{
    segment_stray(s);
    s->h->arena.begin = s->arena_begin;
    s->h->arena.end = s->arena_end;
}

/* ------------------------------------------------------------------ the lock */

/* What a waiter has seen of the lock's owner so far. */
struct vigil {
    int32_t stopped_pid;
    int64_t since_ns; /* when it was first seen stopped */
    bool asked;       /* the scheduler, which may be able to tell what this process cannot */
};

static void ask_scheduler(struct segment *s)
{
    /* pairs with the scheduler's exchange (client_next_demand): either it sees what was written before, or we find 0 and notify it */
    if (s->h->scheduler_1 && !atomic_exchange(&s->h->attention, 1))
        notify_client(s, s->h->scheduler_1 - 1);
}

/* Nothing but its death gives the lock back: it may be anywhere in a change, and would go on with it when continued. A driver is not
 * ended, as it is somebody's work: others wait until it goes on. */
static void expel(struct segment *s, const struct client_slot *owner, int32_t pid)
{
    struct header *h = s->h;
    if (owner->role == ROLE_DRIVER)
        return;
    if (process_signal(pid, atomic_load(&owner->start_time), SIGKILL) != PROCESS_ENDED &&
        atomic_exchange(&h->stopped_pid, 0) == pid) { /* the first of several waiters */
        atomic_store(&h->expelled_pid, pid);
        atomic_fetch_add(&h->n_expelled, 1);
        if (!h->scheduler_1) /* which would tell */
            dprintf(STDERR_FILENO, "cellmesh: process %d was stopped while it held the object store's lock. After %u ms it is "
                    "killed, so that others can go on.\n", (int)pid, h->lock_grace_ms);
    }
}

/* Ctrl-Z and its like stop a process anywhere. The owner goes on to the end of its change, and stops again when it lets go. If somebody
 * else has just continued it, it shall not; and one that had let go before it was stopped is left alone. */
static void let_it_finish(struct segment *s, const struct client_slot *owner, int32_t pid, uint32_t word)
{
    word &= ~LOCK_WAITERS;
    atomic_store(&s->h->stops_again, word); /* read in segment_unlock by an owner that passes through the kernel first: SIGCONT wakes it */
    if (process_look(pid, atomic_load(&owner->start_time)) == PROCESS_STOPPED && (atomic_load(&s->h->lock) & ~LOCK_WAITERS) == word)
        process_signal(pid, atomic_load(&owner->start_time), SIGCONT);
    else
        atomic_compare_exchange_strong(&s->h->stops_again, &word, 0);
}

/* It may be continued any time, so at first it is only reported. The scheduler ends it after the grace period, any other waiter a
 * second later. */
static void watch_stopped(struct segment *s, struct vigil *v, const struct client_slot *owner, int32_t pid)
{
    struct header *h = s->h;
    int64_t now = monotonic_ns(), patience_ns = (int64_t)h->lock_grace_ms * 1000000;
    if (v->stopped_pid != pid) {
        v->stopped_pid = pid;
        v->since_ns = now;
    } else if (atomic_exchange(&h->stopped_pid, pid) != pid) {
        ask_scheduler(s);
    }
    if (h->scheduler_1 && h->scheduler_1 != s->me + 1)
        patience_ns += 1000000000;
    if (now - v->since_ns >= patience_ns)
        expel(s, owner, pid);
}

/* Somebody has overwritten it. A slot does not change hands while it stands in the lock. */
static bool names_nobody(const struct segment *s, uint32_t word)
{
    uint32_t owner = lock_owner_1(word) - 1;
    return owner >= MAX_CLIENTS || !atomic_load(&s->clients[owner].pid) ||
           ((s->clients[owner].generation << LOCK_CLIENT_BITS ^ word) & ~LOCK_WAITERS) >> LOCK_CLIENT_BITS;
}

static bool owner_has_ended(struct segment *s, uint32_t word, struct vigil *v)
{
    uint32_t owner = lock_owner_1(word) - 1;
    if (owner == s->me)
        return false;
    atomic_thread_fence(memory_order_acquire); /* pairs with the release fence of client_attach: of who has this word, not of its predecessor */
    const struct client_slot *c = &s->clients[owner];
    int32_t pid = atomic_load(&c->pid);
    switch (process_look(pid, atomic_load(&c->start_time))) {
    case PROCESS_ENDED:
        return true;
    case PROCESS_UNKNOWN:
        if (!v->asked)
            ask_scheduler(s);
        v->asked = true;
        break;
    case PROCESS_STOPPED:
        let_it_finish(s, c, pid, word);
        watch_stopped(s, v, c, pid);
        break;
    case PROCESS_TRACED:
        watch_stopped(s, v, c, pid);
        break;
    case PROCESS_RUNS:
        if (v->stopped_pid) { /* continued */
            v->stopped_pid = 0;
            atomic_store(&s->h->stopped_pid, 0);
        }
    }
    return false;
}

/* The dead owner has released nothing. What it wrote is here since process_look has said that it ended. */
static void take_over(struct segment *s, bool from_nobody)
{
    s->h->n_takeovers++;
    atomic_store(&s->h->stopped_pid, 0);
    atomic_store(&s->h->stops_again, 0);
    STEP();
    if (from_nobody)
        segment_condemn(s); /* its owner may still be at work */
    else
        recover(s);
}

__attribute__((noinline)) static void wait_for_lock(struct segment *s)
{
    _Atomic uint32_t *lock = &s->h->lock;
    uint32_t mine = lock_word(s), seen;
    struct vigil vigil = {0};
    for (int i = 0; i < LOCK_SPIN; i++) {
        cpu_relax();
        seen = 0;
        if (atomic_load_explicit(lock, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_weak_explicit(lock, &seen, mine, memory_order_acquire, memory_order_relaxed))
            return;
    }
    for (;;) {
        seen = atomic_load_explicit(lock, memory_order_relaxed);
        if (seen == 0) {
            /* From here on others may sleep behind us unseen, so the bit stays on. */
            if (atomic_compare_exchange_strong_explicit(lock, &seen, mine | LOCK_WAITERS, memory_order_acquire,
                                                        memory_order_relaxed)) {
                if (vigil.stopped_pid) /* it was continued */
                    atomic_store(&s->h->stopped_pid, 0);
                return;
            }
            continue;
        }
        if (!(seen & LOCK_WAITERS) &&
            !atomic_compare_exchange_strong_explicit(lock, &seen, seen | LOCK_WAITERS, memory_order_relaxed,
                                                     memory_order_relaxed)) /* one word: the owner's exchange finds the bit, or we its 0 */
            continue;
        seen |= LOCK_WAITERS;
        if (futex_wait(lock, seen, lock_patience_ns) != ETIMEDOUT)
            continue;
        bool from_nobody = names_nobody(s, seen);
        if ((from_nobody || owner_has_ended(s, seen, &vigil)) &&
            atomic_compare_exchange_strong_explicit(lock, &seen, mine | LOCK_WAITERS, memory_order_acquire,
                                                    memory_order_relaxed)) {
            take_over(s, from_nobody);
            return;
        }
    }
}

void segment_lock(struct segment *s)
{
    uint32_t seen = 0;
    /* Every acquire here and above pairs with the exchange in segment_unlock: what was written under the lock is read under it. */
    if (!atomic_compare_exchange_strong_explicit(&s->h->lock, &seen, lock_word(s), memory_order_acquire, memory_order_relaxed))
        wait_for_lock(s);
    if (__builtin_expect(!counts_are_sound(s), 0))
        give_up_counts(s);
}

void notify_client(struct segment *s, uint32_t client)
{
    if (client >= MAX_CLIENTS)
        return;
    /* Whoever has heard of a proxy has seen this, too (proxy_attach); of a slot that is taken anew just now it may be anything. */
    uint32_t shared_1 = atomic_load_explicit(&s->clients[client].inbox_of_1, memory_order_relaxed);
    struct client_slot *c = &s->clients[shared_1 && shared_1 <= MAX_CLIENTS ? shared_1 - 1 : client];
    STEP();
    /* Pairs with client_sleep: the news before, the inbox, then the sleepers; there the sleepers, then the inbox (by the kernel). Both are
     * seq_cst, as one must see the other. */
    atomic_fetch_add(&c->inbox, 1);
    STEP();
    if (atomic_load(&c->sleepers))
        futex_wake(&c->inbox, INT_MAX);
}

static void stop_again(struct segment *s)
{
    uint32_t word = lock_word(s);
    if (atomic_compare_exchange_strong(&s->h->stops_again, &word, 0))
        kill(getpid(), SIGSTOP);
}

void segment_unlock(struct segment *s)
{
    struct header *h = s->h;
    uint64_t wakes[CLIENT_WORDS];
    memcpy(wakes, s->pending_wakes, sizeof wakes);
    memset(s->pending_wakes, 0, sizeof wakes);
    bool attention = s->pending_attention, events = s->events_written;
    s->pending_attention = s->events_written = false;
    STEP();
    uint32_t was = atomic_exchange(&h->lock, 0); /* pairs with the acquire of whoever has it next */
    STEP();
    if (was & LOCK_WAITERS)
        futex_wake(&h->lock, 1);
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        for (; wakes[w]; wakes[w] &= wakes[w] - 1)
            notify_client(s, w * 64 + (uint32_t)__builtin_ctzll(wakes[w]));
    if (attention && h->scheduler_1 && !atomic_exchange(&h->attention, 1)) /* as in ask_scheduler */
        notify_client(s, h->scheduler_1 - 1);
    if (events)
        fence_after_exchange(); /* pairs with event_wait: event_head, then event_waiting; there the other way round */
    if (events && atomic_load_explicit(&h->event_waiting, memory_order_relaxed) && atomic_exchange(&h->event_waiting, 0))
        futex_wake(&h->event_waiting, INT_MAX);
    if (atomic_load_explicit(&h->stops_again, memory_order_relaxed)) /* see let_it_finish */
        stop_again(s);
}
