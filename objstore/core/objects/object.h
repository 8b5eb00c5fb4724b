/* Object slots and their life: created -> sealed -> freed.
 *
 *   PENDING  created by a submit (its task pins it) or by a put whose client still writes (its holder bit keeps it)
 *   READY    sealed; the bytes do not change; they may be read without the lock while a ref or a pin keeps the object
 *   ERROR    sealed; the bytes describe the exception of a task
 *   FAILED   sealed by the system, without bytes
 *   FREE     in the free list; the generation tells old references from new ones
 *
 * An object lives while a client holds it (holders) or something in the segment refers to it (pins). */
#ifndef CELLMESH_OBJECT_H
#define CELLMESH_OBJECT_H

#include "memory/segment.h"

static inline uint32_t object_state(const struct object_slot *o)
{
    /* pairs with publish: the value is there */
    return atomic_load_explicit(&o->state, memory_order_acquire) & OBJECT_STATE_MASK;
}
static inline bool object_sealed(const struct object_slot *o) { return object_state(o) >= OBJECT_READY; }

#define OBJECT_LARGE (UINT64_C(1) << 20) /* bytes from which on copies are worth avoiding */
#ifndef OBJECT_MOVABLE
/* bytes from which on an object may be offloaded, and its readers announce themselves */
#define OBJECT_MOVABLE (UINT64_C(1) << 16)
#endif

/* Under the lock: takes a free slot, PENDING, held by `holder` (UINT32_MAX: by none). `creator`: the number of the task
 * that makes it, or PUT_BIT | a number taken from header.next_seq; for display only. OBJSTORE_LIMIT. */
int object_create(struct segment *segment, uint32_t holder, uint64_t creator, uint32_t *index);

/* Allocates `size` bytes and `n_refs` references behind them, which belong to this client until the object is sealed.
 * Under the lock. 0: full. */
uint64_t object_allocate(struct segment *segment, uint64_t size, uint32_t n_refs);
/* The references behind a value; to be written before sealing. */
static inline uint32_t *object_refs_at(struct segment *s, uint64_t offset, uint64_t size)
{
    /* as a number, since it may lie outside */
    return (uint32_t *)((uintptr_t)s->base + offset + ((size + 3) & ~UINT64_C(3)));
}

/* Where the bytes are in the arena; 0: they are in the slot, or absent. */
static inline uint64_t object_chunk(const struct object_slot *o)
{
    uint64_t offset = atomic_load_explicit(&o->offset, memory_order_relaxed);
    return offset & OBJECT_ABSENT ? 0 : offset;
}
/* Prefetches, for walks over all objects that also look at the headers of chunks. */
static inline void object_fetch_ahead(const struct segment *s, uint32_t index)
{
    fetch_slot(&s->objects[index + FETCH_AHEAD]);
    uint64_t chunk =
        index + FETCH_AHEAD / 2 < s->h->touched_objects ? object_chunk(&s->objects[index + FETCH_AHEAD / 2]) : 0;
    if (chunk >= ARENA_UNIT && chunk < s->size)
        __builtin_prefetch(s->base + chunk - ARENA_UNIT, 1);
}
static inline bool object_is_absent(const struct object_slot *o)
{
    return (atomic_load_explicit(&o->offset, memory_order_relaxed) & OBJECT_ABSENT) != 0;
}
/* Whether it is READY here, with its bytes on another machine. */
static inline bool object_is_remote(const struct object_slot *o)
{
    const uint64_t both = OBJECT_ABSENT | OBJECT_REMOTE;
    return (atomic_load_explicit(&o->offset, memory_order_relaxed) & both) == both;
}
/* Under the lock, or before the object is sealed: the state, or the chunk's owner, releases it. */
static inline void object_set_offset(struct object_slot *o, uint64_t offset)
{
    atomic_store_explicit(&o->offset, offset, memory_order_relaxed);
}

/* Index + 1 of the task that makes a PENDING object, 0: none, or it is sealed. A hint, see task_producing. */
uint32_t object_producer_1(const struct object_slot *object);

static inline struct stream *stream_at(const struct segment *s, uint64_t offset)
{
    return (struct stream *)(void *)(s->base + offset);
}
static inline bool object_is_stream(const struct object_slot *o)
{
    return object_state(o) == OBJECT_READY && object_chunk(o) && o->u.arena.n_refs == REFS_OF_STREAM;
}
/* Whether its bytes stay writable; the first, of an object that is known to be sealed with bytes in the arena. */
static inline bool object_in_arena_is_shared(const struct object_slot *o)
{
    return o->u.arena.n_refs == REFS_OF_SHARED || o->u.arena.n_refs == REFS_OF_SYNC;
}
static inline bool object_is_shared(const struct object_slot *o)
{
    return object_state(o) == OBJECT_READY && object_chunk(o) && object_in_arena_is_shared(o);
}
/* How many references an object contains. */
static inline uint32_t object_n_refs(const struct segment *s, const struct object_slot *o)
{
    uint32_t state = object_state(o); /* first: until then its sealer writes the rest without the lock */
    /* objects with references are never absent */
    uint64_t chunk = state == OBJECT_READY || state == OBJECT_ERROR ? object_chunk(o) : 0;
    if (!chunk)
        return 0;
    uint32_t n = o->u.arena.n_refs;
    return n < REFS_OF_SYNC ? n : n == REFS_OF_STREAM ? stream_at(s, chunk)->n : 0;
}

/* For recovery, under the lock: counts the object if it is shared. */
void object_count_shared(struct segment *segment, const struct object_slot *object);

/* Under the lock: the scheduler is notified, now or later, when more than `bytes` are idle: they are free and have
 * pages. */
void object_notice_idle(struct segment *segment, uint64_t bytes);

/* Seal an object and notify its waiters. They need the lock only with references, which are pinned, from
 * OBJECT_LARGE on, and for what is shared. Sealing a sealed object (by a retried task) does nothing and returns false;
 * then the caller frees its allocation (arena_free, under the lock). inline: OBJECT_READY or OBJECT_ERROR with at most
 * OBJECT_INLINE_SIZE bytes, which are copied. arena: with what the caller has written at `offset`, from
 * object_allocate; it belongs to the object from now on; `n_refs` may be REFS_OF_SHARED or REFS_OF_SYNC. failed:
 * OBJECT_FAILED, see failure_code. */
bool object_seal_inline(struct segment *segment, uint32_t index, uint32_t state, const void *data, uint32_t size);
bool object_seal_arena(struct segment *segment, uint32_t index, uint32_t state, uint64_t offset, uint64_t size,
                       uint32_t n_refs);
bool object_seal_failed(struct segment *segment, uint32_t index, uint32_t code, int32_t detail, uint64_t seq);
/* By a remote node: the value is on its machine, has `size` bytes, at least OBJECT_MOVABLE, and no references. */
bool object_seal_remote(struct segment *segment, uint32_t index, uint64_t size);
/* Under the lock: a remote object is now on the machine of this client, a remote node, or on none with `lost`. */
void object_move_remote(struct segment *segment, uint32_t index, bool lost);

/* Under the lock: seals `index` with the error of `source`, which is sealed with one. */
void object_seal_like(struct segment *segment, uint32_t index, uint32_t source);

/* Any time, while something else keeps the object alive: this client holds it from now on. The hold of a client is one
 * bit, so a client that has several reasons counts them itself. */
static inline void object_hold(struct segment *s, uint32_t index)
{
    atomic_fetch_or(&object_at(s, index)->holders[s->me / 64], UINT64_C(1) << (s->me % 64));
}

/* The same for an object known by index and generation: holds it if it still exists. Under the lock. */
bool object_find(struct segment *segment, uint32_t index, uint32_t generation);

/* Under the lock: ends the hold of a client, or one pin. Frees the object with the last reference, and then, without
 * recursion, what it contained. */
void object_drop(struct segment *segment, uint32_t index, uint32_t client);
void object_unpin(struct segment *segment, uint32_t index);
static inline void object_pin(struct segment *s, uint32_t index) { object_at(s, index)->pins++; }

/* Whether any client holds it. Under the lock, or the answer may be outdated. */
bool object_held(const struct object_slot *object);

/* Registers this client for a notification at sealing. False: it is sealed already. Without the lock, while something
 * keeps the object alive. */
bool object_mark_waiting(struct segment *segment, uint32_t index);

#endif
