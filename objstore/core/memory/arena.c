/* memory/: bytes only: the mapping, the lock, the allocator, the event ring; never a word of objects. */

/* Two-level segregated fit (Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems", 2004), over
 * offsets, with headers that survive the death of the process that was changing them.
 *
 * Sizes are counted in units of 64 bytes. Free chunks are in lists by size class: 1..31 units have a list each; above
 * that each power of two is divided into 16. Two bitmaps find the first list that is not empty and surely fits.
 *
 * Recycled memory first: a fresh page costs ten times the copy into it. Hence
 *  - the free chunk at the very end ("top", most of it never touched) is in no list and is cut only if no list fits;
 *  - the class of the wanted size itself, which a plain TLSF skips because not all of its chunks fit, is searched
 * before the larger ones: the 100 MB just freed serve the next 100 MB;
 *  - lists are LIFO (warm in the cache), but a list of large chunks keeps the lower of old and new head in front.
 *
 * What a kill leaves behind. Authoritative are `check`, `size` and `owner` of the headers that a walk from begin
 * reaches. Each step changes them by one store, in program order (ARENA_STEP is a compiler fence; nothing more is
 * needed against a death, and the lock keeps live processes out):
 *  - split: the new header is written in full while it is still payload, then the old chunk shrinks by one store;
 *  - merge: the chunk in front grows by one store, then the swallowed header is defaced;
 *  - in use or free: one store of `owner`.
 * So the walk always reaches the end. What may be left is a free chunk in no list, two free neighbours, or wrong
 * counters; arena_rebuild restores them.
 */
#include "memory/arena_chunk.h"

#include <string.h>

/* Between two steps. The test redefines it to die here. */
#ifndef ARENA_STEP
#define ARENA_STEP() atomic_signal_fence(memory_order_seq_cst)
#endif

#define LARGE_SIZE (UINT64_C(1) << 20) /* payload bytes from which the lower address beats the warmer cache */
#ifndef IDLE_SIZE
#define IDLE_SIZE LARGE_SIZE /* payload bytes from which giving pages back is worth a system call */
#endif
#define SHORT_LOOK 4   /* chunks of the own class tried before going to a larger one */
#define LONG_LOOK 1024 /* ... before giving up */

/* A link out of range was overwritten. An operation ends where it meets one, and the caller gives the arena up. */
__attribute__((cold, noinline)) static bool breaks(struct arena *arena)
{
    arena->broken = 1;
    return false;
}

/* --- free lists --- */

/* Whether a link of a free list may be followed: it is 0 or a chunk, of which only the header is touched. */
static bool is_link(const struct arena *arena, const unsigned char *base, uint64_t offset)
{
    return offset == 0 || is_header(arena, base, offset);
}

/* The place in the list: in front, unless both are large and the head has the lower address. */
static bool goes_second(uint64_t head, uint64_t offset, uint64_t size)
{
    return head != 0 && size >= LARGE_SIZE && head < offset;
}

static bool link_free(struct arena *arena, unsigned char *base, uint64_t offset)
{
    struct chunk *chunk = chunk_at(base, offset);
    struct size_class class = class_of(size_of(chunk));
    uint64_t *head = &arena->heads[class.level][class.sublevel];
    if (!is_link(arena, base, *head))
        return breaks(arena);
    if (goes_second(*head, offset, size_of(chunk))) {
        if (!is_link(arena, base, chunk_at(base, *head)->next_free))
            return breaks(arena);
        chunk->previous_free = *head;
        chunk->next_free = chunk_at(base, *head)->next_free;
        chunk_at(base, *head)->next_free = offset;
    } else {
        chunk->previous_free = 0;
        chunk->next_free = *head;
        *head = offset;
    }
    if (chunk->next_free != 0)
        chunk_at(base, chunk->next_free)->previous_free = offset;
    arena->sublevels[class.level] |= (uint16_t)(1U << class.sublevel);
    arena->levels |= UINT64_C(1) << class.level;
    return true;
}

static void set_head(struct arena *arena, struct size_class class, uint64_t offset)
{
    arena->heads[class.level][class.sublevel] = offset;
    if (offset != 0)
        return;
    arena->sublevels[class.level] &= (uint16_t)~(1U << class.sublevel);
    if (arena->sublevels[class.level] == 0)
        arena->levels &= ~(UINT64_C(1) << class.level);
}

/* Removes a free chunk from its list, or from the top. Its size must still be that of its class. */
static bool unlink_free(struct arena *arena, unsigned char *base, uint64_t offset)
{
    if (offset == arena->top) {
        arena->top = 0;
        return true;
    }
    struct chunk *chunk = chunk_at(base, offset);
    if (!is_link(arena, base, chunk->next_free) || !is_link(arena, base, chunk->previous_free))
        return breaks(arena);
    if (chunk->next_free != 0)
        chunk_at(base, chunk->next_free)->previous_free = chunk->previous_free;
    if (chunk->previous_free != 0)
        chunk_at(base, chunk->previous_free)->next_free = chunk->next_free;
    else
        set_head(arena, class_of(size_of(chunk)), chunk->next_free);
    return true;
}

/* The place of a free chunk: top if it is the last, else a list. */
static bool shelve(struct arena *arena, unsigned char *base, uint64_t offset)
{
    if (end_of(chunk_at(base, offset), offset) != arena->end)
        return link_free(arena, base, offset);
    arena->top = offset;
    return true;
}

/* --- finding --- */

#define NOWHERE 1 /* no chunk's offset */

/* Searches the first `n_looks` chunks of the class of the wanted size, not all of which fit. */
static uint64_t find_in_own_class(const struct arena *arena, unsigned char *base, uint64_t size, int n_looks)
{
    struct size_class class = class_of(size);
    uint64_t offset = arena->heads[class.level][class.sublevel];
    for (; offset != 0 && n_looks > 0; n_looks--) {
        if (!is_header(arena, base, offset) || size_of(chunk_at(base, offset)) >= size)
            return offset;
        offset = chunk_at(base, offset)->next_free;
    }
    return 0;
}

static uint64_t find_in_larger_classes(const struct arena *arena, uint64_t size)
{
    struct size_class class = class_that_fits(size);
    if (class.level >= ARENA_N_LEVELS)
        return 0;
    unsigned sublevels = arena->sublevels[class.level] & (~0U << class.sublevel);
    if (sublevels == 0) {
        uint64_t levels = arena->levels & (~UINT64_C(1) << class.level);
        if (levels == 0)
            return 0;
        class.level = (unsigned)__builtin_ctzll(levels);
        sublevels = class.level < ARENA_N_LEVELS ? arena->sublevels[class.level] : 0;
        if (sublevels == 0)
            return NOWHERE;
    }
    return arena->heads[class.level][__builtin_ctz(sublevels)];
}

static uint64_t find_free(struct arena *arena, unsigned char *base, uint64_t size)
{
    uint64_t offset = find_in_own_class(arena, base, size, SHORT_LOOK);
    if (offset == 0)
        offset = find_in_larger_classes(arena, size);
    if (offset == 0 && arena->top != 0 &&
        (!is_free_chunk(arena, base, arena->top) || size_of(chunk_at(base, arena->top)) >= size))
        offset = arena->top;
    if (offset == 0)
        offset = find_in_own_class(arena, base, size, LONG_LOOK);
    if (offset != 0 && (!is_free_chunk(arena, base, offset) || size_of(chunk_at(base, offset)) < size))
        return breaks(arena);
    return offset;
}

/* --- splitting and merging --- */

static void write_header(unsigned char *base, uint64_t offset, uint64_t size, uint64_t previous, uint64_t warm)
{
    struct chunk *chunk = chunk_at(base, offset);
    chunk->previous = previous;
    chunk->warm = warm;
    set_size(chunk, size);
    set_owner(chunk, 0);
    chunk->check = CHUNK_CHECK ^ offset;
}

/* Updates the link of the chunk behind `offset`, if there is one, to the chunk in front of it. */
static void tell_next(const struct arena *arena, unsigned char *base, uint64_t offset)
{
    uint64_t next = end_of(chunk_at(base, offset), offset);
    if (next != arena->end)
        chunk_at(base, next)->previous = offset;
}

/* Cuts a free chunk that is in no list down to `size`, and lists the rest if it is large enough for a chunk. */
static bool split(struct arena *arena, unsigned char *base, uint64_t offset, uint64_t size)
{
    struct chunk *chunk = chunk_at(base, offset);
    uint64_t surplus = size_of(chunk) - size;
    if (surplus < MIN_CHUNK)
        return true;
    uint64_t rest = offset + ARENA_UNIT + size;
    uint64_t front = size + ARENA_UNIT;
    write_header(base, rest, surplus - ARENA_UNIT, offset, chunk->warm > front ? chunk->warm - front : 0);
    ARENA_STEP();
    set_size(chunk, size);
    chunk->warm = warm_bytes_of(base, offset);
    ARENA_STEP();
    tell_next(arena, base, rest);
    ARENA_STEP();
    return shelve(arena, base, rest);
}

/* Merges a chunk with the one behind it. Neither is in a list. */
static void merge_next(const struct arena *arena, unsigned char *base, uint64_t offset)
{
    struct chunk *chunk = chunk_at(base, offset);
    uint64_t next = end_of(chunk, offset);
    if (chunk_at(base, next)->warm != 0)
        chunk->warm = next - offset + chunk_at(base, next)->warm;
    set_size(chunk, end_of(chunk_at(base, next), next) - offset - ARENA_UNIT);
    ARENA_STEP();
    chunk_at(base, next)->check = 0;
    ARENA_STEP();
    tell_next(arena, base, offset);
}

/* Merges a free chunk that is in no list with its free neighbours. Returns the offset of the header of the result, 0: a
 * neighbour is no chunk. */
static uint64_t coalesce(struct arena *arena, unsigned char *base, uint64_t offset)
{
    struct chunk *chunk = chunk_at(base, offset);
    uint64_t next = end_of(chunk, offset), previous = chunk->previous;
    if (next != arena->end && is_free(chunk_at(base, next))) {
        if (!is_chunk(arena, base, next))
            return breaks(arena);
        if (!unlink_free(arena, base, next))
            return 0;
        ARENA_STEP();
        merge_next(arena, base, offset);
    }
    if (!is_link(arena, base, previous))
        return breaks(arena);
    if (previous == 0 || !is_free(chunk_at(base, previous)))
        return offset;
    if (end_of(chunk_at(base, previous), previous) != offset)
        return breaks(arena);
    if (!unlink_free(arena, base, previous))
        return 0;
    ARENA_STEP();
    merge_next(arena, base, previous);
    return previous;
}

/* --- the interface --- */

static uint64_t round_up(uint64_t n) { return (n + ARENA_UNIT - 1) & ~(ARENA_UNIT - 1); }

void arena_init(struct arena *arena, unsigned char *base, uint64_t begin, uint64_t end)
{
    memset(arena, 0, sizeof *arena);
    arena->begin = begin == 0 ? ARENA_UNIT : round_up(begin);
    arena->end = end & ~(ARENA_UNIT - 1);
    if (arena->end < arena->begin || arena->end - arena->begin < MIN_CHUNK)
        arena->end = arena->begin;
    if (arena->end - arena->begin > ARENA_MAX_SIZE)
        arena->end = arena->begin + ARENA_MAX_SIZE;
    arena->touched_end = arena->begin;
    if (arena->begin == arena->end)
        return;
    write_header(base, arena->begin, arena->end - arena->begin - ARENA_UNIT, 0, 0);
    arena->top = arena->begin;
    arena->cold_bytes = arena->end - arena->begin - ARENA_UNIT;
}

/* Counts a chunk as used. */
static void count_taken(struct arena *arena, uint64_t offset, uint64_t end)
{
    arena->used_bytes += end - offset;
    if (arena->used_bytes > arena->peak_bytes)
        arena->peak_bytes = arena->used_bytes;
    if (arena->used_bytes > arena->high_bytes)
        arena->high_bytes = arena->used_bytes;
    if (end > arena->touched_end)
        arena->touched_end = end;
}

/* Marks a free chunk of the right size as used. */
static void take(struct arena *arena, unsigned char *base, uint64_t offset)
{
    const struct chunk *chunk = chunk_at(base, offset);
    uint64_t cold = size_of(chunk) - warm_bytes_of(base, offset);
    arena->cold_bytes -= cold < arena->cold_bytes ? cold : arena->cold_bytes;
    count_taken(arena, offset, end_of(chunk, offset));
}

uint64_t arena_alloc(struct arena *arena, unsigned char *base, uint64_t size, uint32_t owner_kind, uint32_t owner)
{
    if (size > ARENA_MAX_SIZE || owner_kind == ARENA_FREE)
        return 0;
    size = size == 0 ? ARENA_UNIT : round_up(size);
    uint64_t offset = find_free(arena, base, size);
    if (offset == 0)
        return 0;
    struct chunk *chunk = chunk_at(base, offset);
    if (!unlink_free(arena, base, offset))
        return 0;
    ARENA_STEP();
    if (!split(arena, base, offset, size))
        return 0;
    ARENA_STEP();
    take(arena, base, offset);
    ARENA_STEP();
    set_owner(chunk, pack_owner(owner_kind, owner));
    return offset + ARENA_UNIT;
}

/* Cuts `gap` bytes, at least MIN_CHUNK, off the front of a free chunk that is in no list. Returns the offset of the
 * rest, which is in no list either; 0: a link was out of range. */
static uint64_t cut_front(struct arena *arena, unsigned char *base, uint64_t offset, uint64_t gap)
{
    bool cut = split(arena, base, offset, gap - ARENA_UNIT);
    ARENA_STEP();
    cut = cut && unlink_free(arena, base, offset + gap) && shelve(arena, base, offset);
    ARENA_STEP();
    return cut ? offset + gap : 0;
}

/* Cuts a free chunk that is in no list so that its payload begins a unit before a page. */
static uint64_t cut_to_page(struct arena *arena, unsigned char *base, uint64_t offset)
{
    uint64_t gap = (0 - (offset + 2 * ARENA_UNIT)) % ARENA_PAGE;
    if (gap == 0)
        return offset;
    return cut_front(arena, base, offset, gap < MIN_CHUNK ? gap + ARENA_PAGE : gap);
}

uint64_t arena_alloc_pages(struct arena *arena, unsigned char *base, uint64_t size, uint32_t owner_kind, uint32_t owner)
{
    if (size == 0 || size > ARENA_MAX_SIZE || owner_kind == ARENA_FREE)
        return 0;
    uint64_t slack = ARENA_PAGE + MIN_CHUNK; /* the most that alignment can cost */
    size = ARENA_UNIT + (size + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE;
    uint64_t offset = find_free(arena, base, size + slack);
    if (offset == 0 || warm_bytes_of(base, offset) < size + slack)
        return 0;
    if (!unlink_free(arena, base, offset))
        return 0;
    ARENA_STEP();
    offset = cut_to_page(arena, base, offset);
    if (offset == 0 || !split(arena, base, offset, size))
        return 0;
    ARENA_STEP();
    take(arena, base, offset);
    ARENA_STEP();
    set_owner(chunk_at(base, offset), pack_owner(owner_kind, owner));
    return offset + ARENA_UNIT;
}

static int free_chunk(struct arena *arena, unsigned char *base, uint64_t payload, bool is_warm)
{
    uint64_t offset = payload - ARENA_UNIT;
    if (payload < ARENA_UNIT || !is_chunk(arena, base, offset) || is_free(chunk_at(base, offset)))
        return OBJSTORE_INVALID;
    struct chunk *chunk = chunk_at(base, offset);
    arena->used_bytes -= ARENA_UNIT + size_of(chunk);
#ifdef ARENA_POISON
    memset(base + payload, 0xdd, size_of(chunk)); /* exposes readers of freed memory, which no sanitizer sees here */
#endif
    chunk->warm = is_warm ? size_of(chunk) : 0;
    arena->cold_bytes += is_warm ? 0 : size_of(chunk);
    ARENA_STEP();
    set_owner(chunk, 0);
    ARENA_STEP();
    offset = coalesce(arena, base, offset);
    ARENA_STEP();
    return offset != 0 && shelve(arena, base, offset) ? OBJSTORE_OK : OBJSTORE_CORRUPT;
}

int arena_free(struct arena *arena, unsigned char *base, uint64_t payload)
{
    return free_chunk(arena, base, payload, true);
}

int arena_free_emptied(struct arena *arena, unsigned char *base, uint64_t payload)
{
    return free_chunk(arena, base, payload, false);
}

void arena_set_owner(unsigned char *base, uint64_t payload, uint32_t kind, uint32_t owner)
{
    set_owner(chunk_at(base, payload - ARENA_UNIT), pack_owner(kind, owner));
}

bool arena_owner_is(const unsigned char *base, uint64_t payload, uint32_t kind, uint32_t owner)
{
    return owner_of(chunk_seen(base, payload - ARENA_UNIT)) == pack_owner(kind, owner);
}

uint64_t arena_chunk_size(const unsigned char *base, uint64_t payload)
{
    return size_of(chunk_seen(base, payload - ARENA_UNIT));
}

/* --- giving pages back --- */

static uint64_t idle_bytes_of(const unsigned char *base, uint64_t offset)
{
    uint64_t warm = warm_bytes_of(base, offset);
    return warm >= IDLE_SIZE ? warm : 0;
}

/* The first large free chunk with idle pages, 0: none, and the idle bytes of all of them. The lists are not trusted:
 * they are followed as long as they lead to free chunks, and to no more of those than fit into the arena. */
static uint64_t find_idle(const struct arena *arena, const unsigned char *base, uint64_t *total)
{
    uint64_t left = arena->end - arena->begin, found = 0;
    *total = 0;
    if (is_chunk(arena, base, arena->top) && is_free(chunk_seen(base, arena->top)) &&
        (*total = idle_bytes_of(base, arena->top)))
        found = arena->top;
    for (unsigned level = class_of(IDLE_SIZE).level; level < ARENA_N_LEVELS; level++) {
        for (unsigned sublevels = arena->sublevels[level]; sublevels; sublevels &= sublevels - 1) {
            uint64_t offset = arena->heads[level][__builtin_ctz(sublevels)];
            for (; is_chunk(arena, base, offset) && is_free(chunk_seen(base, offset));
                 offset = chunk_seen(base, offset)->next_free) {
                if (size_of(chunk_seen(base, offset)) > left)
                    return found;
                left -= size_of(chunk_seen(base, offset));
                *total += idle_bytes_of(base, offset);
                if (found == 0 && idle_bytes_of(base, offset))
                    found = offset;
            }
        }
    }
    return found;
}

/* The chunks of a class are larger than those of all lower classes. Trusts the lists as little as find_idle does. */
uint64_t arena_largest_free(const struct arena *arena, const unsigned char *base)
{
    uint64_t left = arena->end - arena->begin, offset = 0, largest = 0;
    unsigned level = arena->levels ? highest_bit(arena->levels) : ARENA_N_LEVELS;
    if (is_chunk(arena, base, arena->top) && is_free(chunk_seen(base, arena->top)))
        largest = size_of(chunk_seen(base, arena->top));
    if (level < ARENA_N_LEVELS && arena->sublevels[level])
        offset = arena->heads[level][highest_bit(arena->sublevels[level])];
    for (; is_chunk(arena, base, offset) && is_free(chunk_seen(base, offset));
         offset = chunk_seen(base, offset)->next_free) {
        uint64_t size = size_of(chunk_seen(base, offset));
        if (size > left)
            break;
        left -= size;
        largest = size > largest ? size : largest;
    }
    return largest;
}

uint64_t arena_idle_bytes(const struct arena *arena, const unsigned char *base)
{
    uint64_t total;
    find_idle(arena, base, &total);
    return total;
}

uint64_t arena_take_idle(struct arena *arena, unsigned char *base, uint64_t most, uint32_t owner_kind, uint32_t owner)
{
    uint64_t total, offset = find_idle(arena, base, &total);
    if (offset == 0 || owner_kind == ARENA_FREE)
        return 0;
    uint64_t size = round_up(warm_bytes_of(base, offset)), high_bytes = arena->high_bytes;
    most = most < IDLE_SIZE ? IDLE_SIZE : most > ARENA_MAX_SIZE ? ARENA_MAX_SIZE : round_up(most);
    bool taken = unlink_free(arena, base, offset);
    ARENA_STEP();
    taken = taken && split(arena, base, offset, size);
    ARENA_STEP();
    if (taken && size > most + IDLE_SIZE)
        offset = cut_front(arena, base, offset, size - most);
    if (!taken || offset == 0)
        return 0;
    ARENA_STEP();
    take(arena, base, offset);
    arena->high_bytes = high_bytes; /* this is not an allocation on demand */
    ARENA_STEP();
    set_owner(chunk_at(base, offset), pack_owner(owner_kind, owner));
    return offset + ARENA_UNIT;
}

bool arena_holds(const struct arena *arena, const unsigned char *base, uint64_t payload, uint64_t size)
{
    return payload >= ARENA_UNIT && is_chunk(arena, base, payload - ARENA_UNIT) &&
           !is_free(chunk_seen(base, payload - ARENA_UNIT)) && size <= arena_chunk_size(base, payload);
}

/* --- walking --- */

int arena_walk(const struct arena *arena, const unsigned char *base, arena_visit_fn visit, void *ctx)
{
    if (!range_is_sound(arena))
        return OBJSTORE_CORRUPT;
    for (uint64_t offset = arena->begin; offset != arena->end;) {
        if (!is_chunk(arena, base, offset))
            return OBJSTORE_CORRUPT;
        const struct chunk *chunk = chunk_seen(base, offset);
        uint64_t owner = owner_of(chunk), next = end_of(chunk, offset);
        fetch_ahead(arena, base, offset, next);
        int result = visit(ctx, (uint32_t)owner, (uint32_t)(owner >> 32), offset + ARENA_UNIT, size_of(chunk));
        if (result != 0)
            return result;
        offset = next;
    }
    return OBJSTORE_OK;
}

int arena_sweep(struct arena *arena, unsigned char *base, uint64_t *at, uint32_t most, arena_keep_fn keep, void *ctx)
{
    uint64_t offset = begin_part(arena, base, *at, &most);
    for (; most > 0 && is_chunk(arena, base, offset); most--) {
        const struct chunk *chunk = chunk_at(base, offset);
        uint64_t owner = owner_of(chunk), next = end_of(chunk, offset), payload = offset + ARENA_UNIT;
        fetch_ahead(arena, base, offset, next);
        if (owner != 0 && !keep(ctx, (uint32_t)owner, (uint32_t)(owner >> 32), payload)) {
            if (is_chunk(arena, base, next) && is_free(chunk_at(base, next)))
                next = end_of(chunk_at(base, next), next); /* it is about to be merged */
            arena_free(arena, base, payload);
        }
        offset = next;
    }
    *at = offset;
    return end_part(arena, base, offset);
}

/* --- rebuilding --- */

static void free_if_rejected(unsigned char *base, uint64_t offset, arena_keep_fn keep, void *ctx)
{
    struct chunk *chunk = chunk_at(base, offset);
    uint64_t owner = owner_of(chunk);
    if (owner == 0)
        return;
    bool unkept = keep != NULL && !keep(ctx, (uint32_t)owner, (uint32_t)(owner >> 32), offset + ARENA_UNIT);
    if (unkept) {
        chunk->warm = size_of(chunk);
        set_owner(chunk, 0);
    }
}

/* The last chunk of each list, while the lists are rebuilt. */
struct ends {
    uint64_t last[ARENA_N_LEVELS][ARENA_N_SUBLEVELS];
};

/* Like shelve, but at the end of the list, so that the lowest chunk of each class is at the front. */
static void shelve_last(struct arena *arena, unsigned char *base, struct ends *ends, uint64_t offset)
{
    struct chunk *chunk = chunk_at(base, offset);
    struct size_class class = class_of(size_of(chunk));
    uint64_t *last = &ends->last[class.level][class.sublevel];
    arena->cold_bytes += size_of(chunk) - warm_bytes_of(base, offset);
    if (end_of(chunk, offset) == arena->end || *last == 0) {
        shelve(arena, base, offset);
    } else {
        chunk->previous_free = *last;
        chunk->next_free = 0;
        chunk_at(base, *last)->next_free = offset;
    }
    *last = offset;
}

/* One upward pass, since with many chunks all the time is spent on cache misses: frees, merges, counts and lists
 * chunks, and links each to the one in front. False: a header leads out of range. */
static bool settle_chunks(struct arena *arena, unsigned char *base, arena_keep_fn keep, void *ctx)
{
    struct ends ends = {0};
    uint64_t previous = 0;
    for (uint64_t offset = arena->begin; offset != arena->end;) {
        if (!is_chunk(arena, base, offset))
            return false;
        struct chunk *chunk = chunk_at(base, offset);
        uint64_t next = end_of(chunk, offset);
        fetch_ahead(arena, base, offset, next);
        free_if_rejected(base, offset, keep, ctx);
        ARENA_STEP();
        bool follows_free = previous != 0 && is_free(chunk_at(base, previous));
        if (follows_free && is_free(chunk)) {
            merge_next(arena, base, previous);
        } else {
            if (follows_free)
                shelve_last(arena, base, &ends, previous);
            chunk->previous = previous;
            previous = offset;
            if (!is_free(chunk))
                count_taken(arena, offset, next);
        }
        ARENA_STEP();
        offset = next;
    }
    if (previous != 0 && is_free(chunk_at(base, previous)))
        shelve_last(arena, base, &ends, previous);
    return true;
}

int arena_rebuild(struct arena *arena, unsigned char *base, arena_keep_fn keep, void *ctx)
{
    if (!range_is_sound(arena))
        return OBJSTORE_CORRUPT;
    if (arena->touched_end < arena->begin || arena->touched_end > arena->end)
        arena->touched_end = arena->begin;
    arena->used_bytes = arena->cold_bytes = arena->levels = arena->top = arena->broken = 0;
    memset(arena->sublevels, 0, sizeof arena->sublevels);
    memset(arena->heads, 0, sizeof arena->heads);
    ARENA_STEP();
    return settle_chunks(arena, base, keep, ctx) ? OBJSTORE_OK : OBJSTORE_CORRUPT;
}
