/* One process's view of the shared segment: the mapping, the lock, and the wake-ups that follow an unlock. segment.c is
 * the format and the mapping, lock.c the rest. */
#ifndef CELLMESH_SEGMENT_H
#define CELLMESH_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "layout.h"

struct segment;

/* What this folder and objects/ call of the folders above them, on rare paths only. client_attach sets it. */
struct segment_hooks {
    /* The lock was taken over from an owner that died: rebuild what is derived. */
    void (*took_over)(struct segment *segment);
    /* Under the lock: the last reference to an actor's object has gone. */
    void (*actor_unreferenced)(struct segment *segment, uint32_t actor);
};

struct segment {
    unsigned char *base;
    size_t size;
    int fd; /* this process's own descriptor of the mapped file, -1: none */
    /* identify that file: a task may have closed the descriptor, and its number may name another file now */
    uint64_t device, inode;
    struct header *h;
    struct resource_class *classes;
    struct client_slot *clients;
    struct actor_slot *actors;
    struct object_slot *objects;
    struct task_slot *tasks;
    struct event_record *events;
    struct object_readers *readers;
    struct task_times *times;
    /* copied when it was mapped, as a stray write may change the header */
    uint32_t n_objects, n_tasks, n_actors, n_events;
    uint64_t arena_begin, arena_end;      /* copied likewise */
    uint32_t me;                          /* index of this client; UINT32_MAX before client_attach */
    uint64_t pending_wakes[CLIENT_WORDS]; /* under the lock: clients to notify once it is released */
    bool pending_attention;
    bool events_written;
    _Atomic uint32_t n_awaited; /* objects sealed by this process that had a waiter */
    const struct segment_hooks *hooks;
};

struct segment_config {
    uint64_t size;
    uint32_t n_objects, n_tasks, n_actors, n_events; /* n_events: a power of two */
};

/* Makes a sealed memfd with an empty segment. Returns the descriptor, which the caller closes, or OBJSTORE_SYSTEM (see
 * errno), or OBJSTORE_INVALID: a table is empty or has more than MAX_SLOTS, n_events is not a power of two, `size` is
 * less than the tables and 64 kB, or more than ARENA_MAX_SIZE beyond them. The file is sparse: memory is committed when
 * it is touched, and is released with the last mapping and descriptor. */
int segment_create(const struct segment_config *config);

/* Formats zeroed memory of the caller; for segment_create, and for tests without a memfd. */
int segment_format(unsigned char *base, const struct segment_config *config);

/* Maps the segment behind `fd`. OBJSTORE_SYSTEM, or OBJSTORE_CORRUPT if it is not a segment of this build (magic,
 * version, signature, sizes). segment_unmap ends it. The caller may close `fd`. */
int segment_map(struct segment *segment, int fd);
/* Whether the header is still as it was when the segment was mapped. */
bool segment_matches(const struct segment *segment);
/* As segment_map, for memory that is mapped already. */
int segment_use(struct segment *segment, unsigned char *base, size_t size);

/* Whether the segment's descriptor is still its own: a user's code may have closed it, and opened another of its
 * number. */
bool segment_has_descriptor(const struct segment *segment);

/* Makes whole pages of the mapping private: they stay readable as they are, and other processes do not see what this
 * one writes there. False: it failed, and nothing has changed. */
bool segment_make_private(struct segment *segment, uint64_t begin, uint64_t end);

/* One bit for each client that is attached or dying. References by other clients are void. */
void clients_attached(const struct segment *segment, uint64_t clients[CLIENT_WORDS]);

/* Ends the mapping; every pointer into it is void. An attached client leaves first: client_died(segment, segment->me,
 * 0). */
void segment_unmap(struct segment *segment);

static inline uint32_t lock_word(const struct segment *s)
{
    return ((atomic_load_explicit(&s->clients[s->me].generation, memory_order_relaxed) << LOCK_CLIENT_BITS) |
            (s->me + 1)) &
           ~LOCK_WAITERS;
}
/* client + 1, 0: the lock is free */
static inline uint32_t lock_owner_1(uint32_t word) { return word & ((1u << LOCK_CLIENT_BITS) - 1); }

/* The one lock; not recursive. It waits in steps of 5 ms. An owner that has ended is detected by pid and start time:
 * the lock is taken over, and recover() rebuilds what the owner left half done. An owner that was stopped (Ctrl-Z) is
 * continued until it unlocks, and then stops again. An owner that stays stopped, in a debugger, is reported in the
 * header, and evicted (killed) after header.lock_grace_ms unless it is a driver. The lock waits for nothing else and
 * calls nothing else.
 * A lock word that names no client was not written by an owner, so the segment is condemned. It is condemned too if the
 * counts of slots have been overwritten; they are reset, so that the owner of the lock stays inside the tables. */
void segment_lock(struct segment *segment);

/* Under the lock: the segment cannot be used any more. All clients are notified, and raise OBJSTORE_CORRUPT from now
 * on. */
void segment_condemn(struct segment *segment);

/* Releases the lock, then notifies the clients that wake_client and request_attention have marked. */
void segment_unlock(struct segment *segment);

/* ---- Following indices. Any attached process may have overwritten any word, so an index read from the segment is
 * checked against its table where it is followed. An index out of range condemns the segment and yields a free slot,
 * private to the thread, which ends every list. */
void *segment_stray(const struct segment *segment) __attribute__((cold)); /* zeros, of this thread */
#define SLOTS(name, kind, table, n)                                                                  \
    static inline struct kind *name(const struct segment *s, uint32_t index)                         \
    {                                                                                                \
        return __builtin_expect(index < (n), 1) ? &(table)[index] : (struct kind *)segment_stray(s); \
    }
SLOTS(object_at, object_slot, s->objects, s->n_objects)
SLOTS(readers_at, object_readers, s->readers, s->n_objects)
SLOTS(task_at, task_slot, s->tasks, s->n_tasks)
SLOTS(times_at, task_times, s->times, s->n_tasks)
SLOTS(actor_at, actor_slot, s->actors, s->n_actors)
SLOTS(client_at, client_slot, s->clients, MAX_CLIENTS)
SLOTS(class_at, resource_class, s->classes, MAX_CLASSES)
SLOTS(pool_at, pool, s->h->pools, MAX_POOLS)
SLOTS(gate_at, gate, s->h->gates, MAX_CLASSES)
#undef SLOTS

/* The arena, for use under the lock. If its range has been overwritten, or it has met a link out of range, the segment
 * is condemned; what is used is inside the mapping nevertheless. */
void segment_give_up_arena(const struct segment *segment) __attribute__((cold));
static inline struct arena *segment_arena(const struct segment *s)
{
    struct arena *a = &s->h->arena;
    if (__builtin_expect(((a->begin ^ s->arena_begin) | (a->end ^ s->arena_end) | a->broken) != 0, 0))
        segment_give_up_arena(s);
    return a;
}

/* Whether `bytes` from `offset` on lie in the arena, so that they can be read and written. */
static inline bool segment_holds(const struct segment *s, uint64_t offset, uint64_t bytes)
{
    uint64_t at = offset - s->arena_begin, room = s->arena_end - s->arena_begin;
    return __builtin_expect(offset % ARENA_UNIT == 0 && at < room && bytes <= room - at, 1);
}

/* Whether the walk over a list of at most `n` slots goes in circles; then the segment is condemned. */
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
/* The same for every client. */
void wake_all(struct segment *segment);
static inline void request_attention(struct segment *s) { s->pending_attention = true; }

/* Any time: increments the client's inbox and wakes its sleepers, also those that wait for seals alone. Indices beyond
 * the table are ignored. */
void notify_client(struct segment *segment, uint32_t client);

/* A process may die between any two STEPs. Survivors see its writes in program order (liveness.h explains why), so STEP
 * is a compiler fence; it orders nothing for live peers. In a build with CELLMESH_STEPS the test harness counts them
 * and dies at the n-th. */
#ifdef CELLMESH_STEPS
void core_step(const char *file, int line);
#define STEP() (atomic_signal_fence(memory_order_seq_cst), core_step(__FILE__, __LINE__))
#else
#define STEP() atomic_signal_fence(memory_order_seq_cst)
#endif

/* After an atomic read-modify-write: writes before it are visible before any later read. On x86 the read-modify-write
 * itself guarantees that. Elsewhere not even a seq_cst one does, except for reads that are seq_cst themselves. */
static inline void fence_after_exchange(void)
{
#if defined(__x86_64__)
    atomic_signal_fence(memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Prefetches a slot (two cache lines), for walks over a whole table, which are bound by memory. Any address is allowed,
 * also beyond the table. Without it a walk takes 1.5 times as long, since processors do not prefetch across a page. */
static inline void fetch_slot(const void *slot)
{
    __builtin_prefetch(slot, 1);
    __builtin_prefetch((const char *)slot + 64, 1);
}
enum { FETCH_AHEAD = 32 }; /* slots */

/* ---- low level, shared by the core's files */
/* 0: woken, or the word differs; ETIMEDOUT, EINTR. */
int futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
void futex_wake(_Atomic uint32_t *word, int n);
int64_t monotonic_ns(void);
void clock_read(uint64_t *ticks, uint64_t *ns); /* both at one moment, as nearly as a thread that may be held up can */

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

/* Approximate on x86, where the rate of the counter, some GHz, cannot be read. */
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
