/* One process's view of the shared segment: mapping, lock, and the wake-ups that follow an unlock. */
#ifndef CELLMESH_SEGMENT_H
#define CELLMESH_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "layout.h"

struct segment {
    unsigned char *base;
    size_t size;
    int fd;                             /* of the mapped file, this process's own; -1: there is none */
    uint64_t device, inode;             /* of that file: a task may have closed the descriptor, and got its number for another */
    struct header *h;
    struct resource_class *classes;
    struct client_slot *clients;
    struct actor_slot *actors;
    struct object_slot *objects;
    struct task_slot *tasks;
    struct event_record *events;
    struct object_readers *readers;
    uint32_t n_objects, n_tasks, n_actors, n_events; /* as when it was mapped: a stray write may change what the header says */
    uint64_t arena_begin, arena_end;                 /* likewise */
    uint32_t me;                        /* client index; UINT32_MAX before client_attach */
    uint64_t pending_wakes[CLIENT_WORDS]; /* under the lock: clients to notify once it is released */
    bool pending_attention;
    bool events_written;
    _Atomic uint32_t n_awaited;         /* objects that this process has sealed while somebody waited for them */
};

struct segment_config {
    uint64_t size;
    uint32_t n_objects, n_tasks, n_actors, n_events; /* n_events: a power of two */
};

/* Makes a sealed memfd that holds an empty segment. Returns the descriptor, which is the caller's to close, or OBJSTORE_SYSTEM (errno
 * says why) / OBJSTORE_INVALID (a table is empty or has more than MAX_SLOTS, n_events is no power of two, `size` is less than the
 * tables and 64 kB, or more than ARENA_MAX_SIZE beyond them). The file is sparse: memory is committed when touched, and returns
 * by itself with the last mapping and descriptor. */
int segment_create(const struct segment_config *config);

/* Formats caller-supplied zeroed memory; used by segment_create and by tests without a memfd. */
int segment_format(unsigned char *base, const struct segment_config *config);

/* Maps the segment behind `fd`. OBJSTORE_SYSTEM, or OBJSTORE_CORRUPT when it is not one of ours (magic, version,
 * signature, sizes). The caller owns `segment` and ends with segment_unmap; `fd` stays the caller's and may be closed. */
int segment_map(struct segment *segment, int fd);
bool segment_matches(const struct segment *segment); /* does the header still say what it said when it was mapped? */
int segment_use(struct segment *segment, unsigned char *base, size_t size); /* likewise, of memory that is mapped already */

/* Of a part of the mapping, in whole pages: it stays readable as it is, and what this process writes there nobody else sees. False: it
 * could not be done, and is as it was. */
bool segment_make_private(struct segment *segment, uint64_t begin, uint64_t end);

/* Ends the mapping; every pointer into it is void. Who was attached leaves first: client_died(segment, segment->me, 0). */
void segment_unmap(struct segment *segment);

static inline uint32_t lock_word(const struct segment *s)
{
    return ((s->clients[s->me].generation << LOCK_CLIENT_BITS) | (s->me + 1)) & ~LOCK_WAITERS;
}
static inline uint32_t lock_owner_1(uint32_t word) { return word & ((1u << LOCK_CLIENT_BITS) - 1); } /* client + 1, 0: nobody */

/* The one lock. Waits in steps of 5 ms; an owner that has ended is found by pid and start time, its half-done work is rebuilt by
 * recover() and the lock taken over. An owner that was stopped (Ctrl-Z) is continued until it lets go, where it stops again. One that stays
 * stopped, in a debugger, is reported in the header, and killed after header.lock_grace_ms unless it is a driver. Never sleeps for
 * anything else, never calls out. Not recursive.
 * A word that names no client was not written by an owner: the segment is condemned. So it is if the numbers of slots, by which everybody
 * counts, have been overwritten; these are put right, so that whoever has the lock stays inside the tables. */
void segment_lock(struct segment *segment);

/* Under the lock: the segment cannot be used any more. Every client is told, and raises OBJSTORE_CORRUPT from now on. */
void segment_condemn(struct segment *segment);

/* Releases the lock, then notifies whoever was marked by wake_client / request_attention meanwhile. */
void segment_unlock(struct segment *segment);

/* ---- Following. Any process attached may have overwritten any word, so an index that is read from the segment is held against its
 * table where it is followed. What leads nowhere condemns the segment, and a free slot that nobody else sees takes its place: it
 * ends every list. */
void *segment_stray(const struct segment *segment) __attribute__((cold)); /* zeros, of this thread */
#define SLOTS(name, kind, table, n)                                                                         \
    static inline struct kind *name(const struct segment *s, uint32_t index)                              \
    {                                                                                                     \
        return __builtin_expect(index < (n), 1) ? &(table)[index] : (struct kind *)segment_stray(s);      \
    }
SLOTS(object_at, object_slot, s->objects, s->n_objects)
SLOTS(readers_at, object_readers, s->readers, s->n_objects)
SLOTS(task_at, task_slot, s->tasks, s->n_tasks)
SLOTS(actor_at, actor_slot, s->actors, s->n_actors)
SLOTS(client_at, client_slot, s->clients, MAX_CLIENTS)
SLOTS(class_at, resource_class, s->classes, MAX_CLASSES)
SLOTS(pool_at, pool, s->h->pools, MAX_POOLS)
#undef SLOTS

/* To be used, under the lock. If its range has been overwritten, or it has met a link that leads nowhere, the segment is condemned, and
 * what is used lies in the mapping all the same. */
void segment_give_up_arena(const struct segment *segment) __attribute__((cold));
static inline struct arena *segment_arena(const struct segment *s)
{
    struct arena *a = &s->h->arena;
    if (__builtin_expect(((a->begin ^ s->arena_begin) | (a->end ^ s->arena_end) | a->broken) != 0, 0))
        segment_give_up_arena(s);
    return a;
}

/* May `bytes` from `offset` on be read and written? They lie in the arena, perhaps not where they belong. */
static inline bool segment_holds(const struct segment *s, uint64_t offset, uint64_t bytes)
{
    uint64_t at = offset - s->arena_begin, room = s->arena_end - s->arena_begin;
    return __builtin_expect(offset % ARENA_UNIT == 0 && at < room && bytes <= room - at, 1);
}

/* Whether a list that is walked, of at most `n` slots, goes round in circles; then the segment is condemned. */
static inline bool walk_is_over(const struct segment *s, uint32_t *walked, uint32_t n)
{
    return __builtin_expect((*walked)++ > n, 0) && segment_stray(s);
}

/* Under the lock: notify after unlocking. */
static inline void wake_client(struct segment *s, uint32_t client)
{
    if (client < MAX_CLIENTS)
        s->pending_wakes[client / 64] |= UINT64_C(1) << (client % 64);
    else
        segment_stray(s);
}
static inline void request_attention(struct segment *s) { s->pending_attention = true; }

/* Any time: bump the client's inbox, and wake its sleepers if there are any. Beyond the table there is none. */
void notify_client(struct segment *segment, uint32_t client);

/* Between any two of these a process may die. Program order is what a survivor sees (liveness.h says why), so STEP is a compiler fence,
 * and orders nothing for those who live; in a build with CELLMESH_STEPS the test harness counts them and dies at the n-th. */
#ifdef CELLMESH_STEPS
void core_step(const char *file, int line);
#define STEP() (atomic_signal_fence(memory_order_seq_cst), core_step(__FILE__, __LINE__))
#else
#define STEP() atomic_signal_fence(memory_order_seq_cst)
#endif

/* Behind an atomic read-modify-write: what was written before it is visible before anything is read from here on. On x86 that one has
 * seen to it; on others not even a seq_cst one does, but for reads that are seq_cst themselves. */
static inline void fence_after_exchange(void)
{
#if defined(__x86_64__)
    atomic_signal_fence(memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* For walks over a whole table, which wait for memory and nothing else: brings a slot (two cache lines) that comes soon. Any address
 * is allowed, one beyond the table too. Without it a walk takes half as long again: processors do not look ahead beyond a page. */
static inline void fetch_slot(const void *slot)
{
    __builtin_prefetch(slot, 1);
    __builtin_prefetch((const char *)slot + 64, 1);
}
enum { FETCH_AHEAD = 32 }; /* slots */

/* ---- low level, shared by the core's files */
int futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns); /* 0 woken or changed, ETIMEDOUT, EINTR */
void futex_wake(_Atomic uint32_t *word, int n);
int64_t monotonic_ns(void);

static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
#else
    return (uint64_t)monotonic_ns();
#endif
}

/* On x86 about: the rate of its counter, some GHz, is nowhere to be read. */
static inline uint64_t ticks_in_20_us(void)
{
#if defined(__x86_64__)
    return 1u << 16;
#elif defined(__aarch64__)
    uint64_t hz;
    __asm__("mrs %0, cntfrq_el0" : "=r"(hz));
    return hz / 50000;
#else
    return 20000;
#endif
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
