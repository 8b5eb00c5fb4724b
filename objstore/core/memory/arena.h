/* An allocator over one contiguous range of a shared mapping.
 *
 * All positions are offsets from the base of the mapping, which has another address in each process. Nothing here
 * locks, allocates or waits: the caller holds the segment's lock and supplies the memory. All operations except
 * arena_walk, arena_check and arena_rebuild take constant time.
 *
 * Chunks are adjacent, without gaps. Each begins with a header of ARENA_UNIT bytes; its payload follows and is aligned
 * to ARENA_UNIT. The headers alone decide which memory is free. struct arena and the links inside the headers are
 * derived from them, so a process may be killed between any two instructions, and a survivor calls arena_rebuild.
 *
 * Every chunk in use has an owner: a kind and a number whose meaning is up to the caller (only kind 0 means "free").
 */
#ifndef CELLMESH_ARENA_H
#define CELLMESH_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

#define ARENA_UNIT UINT64_C(64)            /* header size, payload alignment and granularity of sizes, bytes */
#define ARENA_MAX_SIZE (UINT64_C(1) << 46) /* largest payload and largest range, bytes */

#define ARENA_PAGE UINT64_C(4096)

enum arena_owner_kind {
    ARENA_FREE = 0,
    ARENA_BUILDING = 1, /* a client is writing a future object or task */
    ARENA_OBJECT = 2,
    ARENA_TASK = 3,
    ARENA_ARRAY = 4 /* a client's own array, which may become an object */
};
/* Whether a chunk is freed with the client that made it. */
static inline bool arena_belongs_to_client(uint32_t kind) { return kind == ARENA_BUILDING || kind == ARENA_ARRAY; }

#define ARENA_N_LEVELS 38    /* one per power of two of the size in units; level 0 holds 1..15 units */
#define ARENA_N_SUBLEVELS 16 /* equal steps within a level */

/* In the segment, protected by its lock. Everything but begin and end is derived. */
struct arena {
    uint64_t begin, end;  /* range, bytes from the base; multiples of ARENA_UNIT; never change after arena_init */
    uint64_t used_bytes;  /* bytes of the chunks in use, headers included */
    uint64_t peak_bytes;  /* largest used_bytes ever */
    uint64_t high_bytes;  /* largest used_bytes since it was last reset */
    uint64_t touched_end; /* memory from here on was never allocated */
    uint64_t cold_bytes;  /* estimate: bytes of free chunks without pages, never used or given back */
    uint64_t top;         /* header offset of the last chunk if that is free (then it is in no list), else 0 */
    uint64_t levels;      /* bit l: some list of level l is not empty */
    uint16_t sublevels[ARENA_N_LEVELS]; /* bit s: heads[l][s] is not empty */
    /* a link out of range was found: the arena is unusable */
    uint16_t broken;
    uint16_t spare;                                    /* pads to a multiple of 8 bytes */
    uint64_t heads[ARENA_N_LEVELS][ARENA_N_SUBLEVELS]; /* header offset of a list's first free chunk, 0 = empty */
};

/* Makes one free chunk of the range [begin, end), trimmed to whole units; begin is raised to ARENA_UNIT because
 * offset 0 means "none". A range too small for a chunk is allowed: it is always full. `base` must be aligned to
 * ARENA_UNIT. */
void arena_init(struct arena *arena, unsigned char *base, uint64_t begin, uint64_t end);

/* Anything in the segment may have been overwritten. So the functions that allocate and free follow a link only if it
 * leads to a chunk of the arena. Otherwise they set `broken` and return 0 or OBJSTORE_CORRUPT. */

/* Returns the payload's offset, or 0 if no chunk fits, size > ARENA_MAX_SIZE or owner_kind is ARENA_FREE.
 * The payload keeps its former contents (zeros if it was never used). Size 0 gives one unit. */
uint64_t arena_alloc(struct arena *arena, unsigned char *base, uint64_t size, uint32_t owner_kind, uint32_t owner);

/* The same from memory that has pages, as far as known, with one unit and then whole pages as payload: nothing else is
 * in these pages, and the first is aligned to ARENA_PAGE (in an aligned mapping). `size` does not include the unit. */
uint64_t arena_alloc_pages(struct arena *arena, unsigned char *base, uint64_t size, uint32_t owner_kind,
                           uint32_t owner);

/* Frees a chunk. OBJSTORE_INVALID: `payload` is no chunk in use, and nothing is done. OBJSTORE_CORRUPT. */
int arena_free(struct arena *arena, unsigned char *base, uint64_t payload);

/* The payload size of the largest free chunk, 0: none. Its time grows with the number of chunks of nearly that size. */
uint64_t arena_largest_free(const struct arena *arena, const unsigned char *base);

/* The bytes of large free chunks that still have their pages. */
uint64_t arena_idle_bytes(const struct arena *arena, const unsigned char *base);

/* Takes such memory, at most about `most` bytes, so that its pages can be given back to the operating system; 0: none.
 * Higher addresses first, which are reused last. */
uint64_t arena_take_idle(struct arena *arena, unsigned char *base, uint64_t most, uint32_t owner_kind, uint32_t owner);

/* Like arena_free, for a chunk whose pages have been given back. */
int arena_free_emptied(struct arena *arena, unsigned char *base, uint64_t payload);

/* Gives a chunk another owner, by one store. `kind` must not be ARENA_FREE. */
void arena_set_owner(unsigned char *base, uint64_t payload, uint32_t kind, uint32_t owner);

bool arena_owner_is(const unsigned char *base, uint64_t payload, uint32_t kind, uint32_t owner);

/* Payload bytes of a chunk: the requested size, rounded up to units, or one unit more. */
uint64_t arena_chunk_size(const unsigned char *base, uint64_t payload);

/* Whether `payload` is a chunk in use of at least `size` bytes. Safe on overwritten memory, like arena_walk. */
bool arena_holds(const struct arena *arena, const unsigned char *base, uint64_t payload, uint64_t size);

/* Decides whether a chunk in use is kept. Called once a chunk, by ascending address. Must not use the arena. */
typedef bool (*arena_keep_fn)(void *ctx, uint32_t owner_kind, uint32_t owner, uint64_t payload);

/* After a crash inside the allocator: derives everything from the headers and frees what `keep` rejects (NULL:
 * nothing). It may die as well, and is then repeated. OBJSTORE_OK, or OBJSTORE_CORRUPT if the headers do not lead from
 * begin to end; then the arena is unusable. */
int arena_rebuild(struct arena *arena, unsigned char *base, arena_keep_fn keep, void *ctx);

/* Frees what `keep` rejects, in parts of at most `most` chunks. A part begins at `*at` (0: the first chunk), which is
 * set to the begin of the next part. The arena may be used between two parts; if the chunk at `*at` has been merged
 * with the one in front of it, that part walks from the start. OBJSTORE_OK: the end is reached; OBJSTORE_PENDING: not
 * yet; OBJSTORE_CORRUPT: the end cannot be reached. */
int arena_sweep(struct arena *arena, unsigned char *base, uint64_t *at, uint32_t most, arena_keep_fn keep, void *ctx);

/* Verifies in the same way, with the same results, what arena_free follows: the neighbours and the list of each chunk.
 */
int arena_check_part(const struct arena *arena, const unsigned char *base, uint64_t *at, uint32_t most);

/* Visits every chunk by ascending address, free ones too. A result other than 0 stops the walk and is returned. */
typedef int (*arena_visit_fn)(void *ctx, uint32_t owner_kind, uint32_t owner, uint64_t payload, uint64_t size);

/* OBJSTORE_OK, OBJSTORE_CORRUPT, or what `visit` returned. Bounded, and safe on overwritten memory as long as begin and
 * end are intact. */
int arena_walk(const struct arena *arena, const unsigned char *base, arena_visit_fn visit, void *ctx);

/* Verifies every invariant. OBJSTORE_OK or OBJSTORE_CORRUPT. Bounded, and safe like arena_walk. */
int arena_check(const struct arena *arena, const unsigned char *base);

#endif
