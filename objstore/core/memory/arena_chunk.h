/* A chunk of the arena: its header, how it is read and written, the list for its size, and the step to the next chunk.
 * For the arena's own files; arena.c gives the reasons. */
#ifndef CELLMESH_ARENA_CHUNK_H
#define CELLMESH_ARENA_CHUNK_H

#include <stdatomic.h>
#include <stddef.h>

#include "memory/arena.h"

/* xor'ed with the offset of the header, so that a copied header is not valid */
#define CHUNK_CHECK UINT64_C(0x6d736e65726141a5)
#define MIN_CHUNK (2 * ARENA_UNIT) /* a header and one unit */
#define AHEAD 12                   /* chunks by which a walk prefetches */

struct chunk {
    uint64_t check;         /* CHUNK_CHECK ^ offset of this header */
    _Atomic uint64_t size;  /* payload bytes, multiple of ARENA_UNIT, > 0 */
    _Atomic uint64_t owner; /* owner << 32 | owner kind; 0 = free */
    uint64_t previous;      /* derived: header offset of the chunk in front, 0 = none */
    uint64_t next_free;     /* derived, if free and not top: neighbours in the list, 0 = none */
    uint64_t previous_free;
    /* a hint, if free: so many payload bytes may have pages, the rest have none */
    uint64_t warm;
    uint64_t spare;
};

_Static_assert(sizeof(struct chunk) == ARENA_UNIT, "the header is one unit");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && ATOMIC_LLONG_LOCK_FREE == 2, "one store must be one store");
_Static_assert(sizeof(struct arena) == 9 * 8 + 2 * (ARENA_N_LEVELS + 2) + 8 * ARENA_N_LEVELS * ARENA_N_SUBLEVELS,
               "struct arena has no hidden padding");

/* --- accessors --- */

static inline struct chunk *chunk_at(unsigned char *base, uint64_t offset)
{
    return (struct chunk *)(void *)(base + offset);
}

static inline const struct chunk *chunk_seen(const unsigned char *base, uint64_t offset)
{
    return (const struct chunk *)(const void *)(base + offset);
}

/* Changes under the lock alone; atomic so that a death leaves the old or the new one. */
static inline uint64_t size_of(const struct chunk *chunk)
{
    return atomic_load_explicit(&chunk->size, memory_order_relaxed);
}

static inline void set_size(struct chunk *chunk, uint64_t size)
{
    atomic_store_explicit(&chunk->size, size, memory_order_relaxed);
}

/* A sealer hands its chunk over without the lock, after its slot has named it; recovery, which may run meanwhile, frees
 * a chunk that names a slot which does not name it. So the one releases, the other acquires. */
static inline uint64_t owner_of(const struct chunk *chunk)
{
    return atomic_load_explicit(&chunk->owner, memory_order_acquire);
}

static inline void set_owner(struct chunk *chunk, uint64_t owner)
{
    atomic_store_explicit(&chunk->owner, owner, memory_order_release);
}

static inline bool is_free(const struct chunk *chunk) { return owner_of(chunk) == 0; }

static inline uint64_t pack_owner(uint32_t kind, uint32_t owner) { return (uint64_t)owner << 32 | kind; }

/* Offset just behind a chunk: the next header, or the arena's end. */
static inline uint64_t end_of(const struct chunk *chunk, uint64_t offset)
{
    return offset + ARENA_UNIT + size_of(chunk);
}

/* The hint of a free chunk; a death may leave it larger than the chunk. */
static inline uint64_t warm_bytes_of(const unsigned char *base, uint64_t offset)
{
    const struct chunk *chunk = chunk_seen(base, offset);
    return chunk->warm < size_of(chunk) ? chunk->warm : size_of(chunk);
}

/* --- size classes --- */

struct size_class {
    unsigned level, sublevel;
};

static inline unsigned highest_bit(uint64_t n) { return 63U - (unsigned)__builtin_clzll(n); }

/* The class whose list holds free chunks of this size. */
static inline struct size_class class_of(uint64_t size)
{
    uint64_t units = size / ARENA_UNIT;
    if (units < ARENA_N_SUBLEVELS)
        return (struct size_class){0, (unsigned)units};
    unsigned bit = highest_bit(units);
    return (struct size_class){bit - 3, (unsigned)(units >> (bit - 4)) & (ARENA_N_SUBLEVELS - 1)};
}

/* The smallest class all of whose chunks fit. */
static inline struct size_class class_that_fits(uint64_t size)
{
    uint64_t units = size / ARENA_UNIT;
    if (units >= 2 * ARENA_N_SUBLEVELS)
        units += (UINT64_C(1) << (highest_bit(units) - 4)) - 1;
    return class_of(units * ARENA_UNIT);
}

/* --- from chunk to chunk --- */

/* Whether there is a header, whatever it says. */
static inline bool is_header(const struct arena *arena, const unsigned char *base, uint64_t offset)
{
    return offset % ARENA_UNIT == 0 && offset - arena->begin < arena->end - arena->begin &&
           chunk_seen(base, offset)->check == (CHUNK_CHECK ^ offset);
}

/* Whether a header may be believed: it says so itself and does not point beyond the end. */
static inline bool is_chunk(const struct arena *arena, const unsigned char *base, uint64_t offset)
{
    if (!is_header(arena, base, offset))
        return false;
    uint64_t size = size_of(chunk_seen(base, offset));
    return size % ARENA_UNIT == 0 && size - 1 < arena->end - offset - ARENA_UNIT; /* nor is it 0 */
}

static inline bool is_free_chunk(const struct arena *arena, const unsigned char *base, uint64_t offset)
{
    return is_chunk(arena, base, offset) && is_free(chunk_seen(base, offset));
}

static inline bool range_is_sound(const struct arena *arena)
{
    return arena->begin % ARENA_UNIT == 0 && arena->end % ARENA_UNIT == 0 && arena->begin != 0 &&
           arena->begin <= arena->end && arena->end - arena->begin <= ARENA_MAX_SIZE;
}

/* Each header is known only from the one before, and each lies in a line of its own that comes from memory. Neighbours
 * are often of one size: then the guess is right, and a walk takes a third of the time. */
static inline void fetch_ahead(const struct arena *arena, const unsigned char *base, uint64_t offset, uint64_t next)
{
    uint64_t guess = next + AHEAD * (next - offset);
    if (guess < arena->end)
        __builtin_prefetch(base + guess, 1);
}

/* Where a part of a walk begins, and of how many chunks it is. */
static inline uint64_t begin_part(const struct arena *arena, const unsigned char *base, uint64_t at, uint32_t *most)
{
    if (at != 0 && is_chunk(arena, base, at))
        return at;
    if (at != 0)
        *most = UINT32_MAX;
    return arena->begin;
}

static inline int end_part(const struct arena *arena, const unsigned char *base, uint64_t offset)
{
    return offset == arena->end ? OBJSTORE_OK : is_chunk(arena, base, offset) ? OBJSTORE_PENDING : OBJSTORE_CORRUPT;
}

#endif
