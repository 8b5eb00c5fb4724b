/* Object slots and their life: created -> sealed -> freed.
 *
 *   PENDING  created by a submit (its task pins it) or by a putter that still writes (its holder bit keeps it)
 *   READY    sealed; bytes immutable; anybody with a ref or a pin may read without a lock
 *   ERROR    sealed; the bytes describe the exception of a task
 *   FAILED   sealed by the system, no bytes
 *   FREE     in the free list; the generation says that old indices mean something else now
 *
 * An object lives while a client holds it (holders) or something in the segment refers to it (pins). */
#ifndef CELLMESH_OBJECT_H
#define CELLMESH_OBJECT_H

#include "segment.h"

static inline uint32_t object_state(const struct object_slot *o)
{
    return atomic_load_explicit(&o->state, memory_order_acquire) & OBJECT_STATE_MASK; /* pairs with publish: the value is there */
}
static inline bool object_sealed(const struct object_slot *o) { return object_state(o) >= OBJECT_READY; }

#define OBJECT_LARGE (UINT64_C(1) << 20) /* bytes, from which on copying is worth avoiding */
#ifndef OBJECT_MOVABLE
#define OBJECT_MOVABLE (UINT64_C(1) << 16) /* bytes, from which on an object may go to disk, and who reads it is noted */
#endif

/* Under the lock: takes a free slot, PENDING, held by `holder` (UINT32_MAX: nobody). `creator`: the number of the task that makes it,
 * or PUT_BIT | a number from header.next_seq, which is increased; shown, never followed. OBJSTORE_LIMIT. */
int object_create(struct segment *segment, uint32_t holder, uint64_t creator, uint32_t *index);

/* Space for `size` payload bytes plus `n_refs` references behind them, owned by the building client until the
 * object is sealed. Under the lock. 0: full. */
uint64_t object_allocate(struct segment *segment, uint64_t size, uint32_t n_refs);
/* Where the slots of the references stand that follow a value; to be written before sealing. */
static inline uint32_t *object_refs_at(struct segment *s, uint64_t offset, uint64_t size)
{
    return (uint32_t *)((uintptr_t)s->base + offset + ((size + 3) & ~UINT64_C(3))); /* as a number: it may not exist */
}

/* Where the bytes lie in the arena; 0: in the slot, or on disk. */
static inline uint64_t object_chunk(const struct object_slot *o)
{
    uint64_t offset = atomic_load_explicit(&o->offset, memory_order_relaxed);
    return offset & OBJECT_AWAY ? 0 : offset;
}
/* For walks over all objects upwards, which also look at chunks' headers. */
static inline void object_fetch_ahead(const struct segment *s, uint32_t index)
{
    fetch_slot(&s->objects[index + FETCH_AHEAD]);
    uint64_t chunk = index + FETCH_AHEAD / 2 < s->h->touched_objects ? object_chunk(&s->objects[index + FETCH_AHEAD / 2]) : 0;
    if (chunk >= ARENA_UNIT && chunk < s->size)
        __builtin_prefetch(s->base + chunk - ARENA_UNIT, 1);
}
static inline bool object_is_away(const struct object_slot *o)
{
    return (atomic_load_explicit(&o->offset, memory_order_relaxed) & OBJECT_AWAY) != 0;
}
/* READY here, with its bytes on another machine. */
static inline bool object_is_elsewhere(const struct object_slot *o)
{
    const uint64_t both = OBJECT_AWAY | OBJECT_ELSEWHERE;
    return (atomic_load_explicit(&o->offset, memory_order_relaxed) & both) == both;
}
/* Under the lock, or of one that is not sealed yet: the state, or the chunk's owner, releases it. */
static inline void object_set_offset(struct object_slot *o, uint64_t offset)
{
    atomic_store_explicit(&o->offset, offset, memory_order_relaxed);
}

static inline struct stream *stream_at(const struct segment *s, uint64_t offset)
{
    return (struct stream *)(void *)(s->base + offset);
}
static inline bool object_is_stream(const struct object_slot *o)
{
    return object_state(o) == OBJECT_READY && object_chunk(o) && o->u.arena.n_refs == REFS_OF_STREAM;
}
/* How many references an object contains. */
static inline uint32_t object_n_refs(const struct segment *s, const struct object_slot *o)
{
    uint32_t state = object_state(o); /* first: before it is sealed, its sealer writes the rest without the lock */
    uint64_t chunk = state == OBJECT_READY || state == OBJECT_ERROR ? object_chunk(o) : 0; /* what has references never goes away */
    if (!chunk)
        return 0;
    return o->u.arena.n_refs == REFS_OF_STREAM ? stream_at(s, chunk)->n : o->u.arena.n_refs;
}

/* Under the lock: the scheduler is to look, now or once it is so, when more than `bytes` lie idle: with pages, in nobody's use. */
void object_notice_idle(struct segment *segment, uint64_t bytes);

/* Seals and notifies the waiters. No lock needed, except with references, which are pinned here, and for OBJECT_LARGE: then under it.
 * Sealing a sealed object does nothing (a retried task): returns false, and the caller frees its allocation (arena_free, under the
 * lock). inline: OBJECT_READY or OBJECT_ERROR with at most OBJECT_INLINE_SIZE bytes, which are copied. arena: with what the caller
 * has written at `offset` of object_allocate, which is the object's from now on. failed: OBJECT_FAILED, see failure_code. */
bool object_seal_inline(struct segment *segment, uint32_t index, uint32_t state, const void *data, uint32_t size);
bool object_seal_arena(struct segment *segment, uint32_t index, uint32_t state, uint64_t offset, uint64_t size,
                       uint32_t n_refs);
bool object_seal_failed(struct segment *segment, uint32_t index, uint32_t code, int32_t detail, uint64_t seq);
/* By a proxy, for its machine: the value has so many bytes, at least OBJECT_MOVABLE and no references, and lies there. */
bool object_seal_elsewhere(struct segment *segment, uint32_t index, uint64_t size);
/* Under the lock: what lies elsewhere is brought by this client from now on, a proxy, or with `lost` by nobody. */
void object_move_elsewhere(struct segment *segment, uint32_t index, bool lost);

/* Under the lock: seals `index` with the same error as the sealed, erroneous `source`. */
void object_seal_like(struct segment *segment, uint32_t index, uint32_t source);

/* Any time, while something else keeps the object alive: this client holds it now. A client's hold is one bit: who holds an object
 * for several reasons counts them itself. */
static inline void object_hold(struct segment *s, uint32_t index)
{
    atomic_fetch_or(&object_at(s, index)->holders[s->me / 64], UINT64_C(1) << (s->me % 64));
}

/* The same for somebody who has heard of the object: holds it if it is still there. False: it has gone, or never was. Under the lock. */
bool object_find(struct segment *segment, uint32_t index, uint32_t generation);

/* Under the lock: gives up a client's hold, or one pin; frees what nobody refers to any more, and what that
 * contained, iteratively. */
void object_drop(struct segment *segment, uint32_t index, uint32_t client);
void object_unpin(struct segment *segment, uint32_t index);
static inline void object_pin(struct segment *s, uint32_t index) { object_at(s, index)->pins++; }

/* Whether any client holds it; under the lock, or it may be over. */
bool object_held(const struct object_slot *object);

/* Registers this client for a wake-up at sealing. False: sealed already. Without the lock, while something keeps the object alive. */
bool object_mark_waiting(struct segment *segment, uint32_t index);

#endif
