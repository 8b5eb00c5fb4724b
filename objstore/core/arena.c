/* Two-level segregated fit (Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems", 2004), over
 * offsets, with headers that survive the death of the process that was changing them.
 *
 * Sizes are counted in units of 64 bytes. Free chunks hang in lists by size class: 1..31 units have a list each, above
 * that each power of two is cut into 16. Two bitmaps find the first list that is not empty and surely fits.
 *
 * Recycled memory first: a fresh page costs ten times the copy into it. Hence
 *  - the free chunk at the very end ("top", most of it never touched) is in no list and is cut only if no list fits;
 *  - the class of the wanted size itself, which a plain TLSF skips because not each of its chunks fits, is looked into
 *    before the larger ones: the 100 MB just freed serve the next 100 MB;
 *  - lists are LIFO (warm in the cache), but a list of large chunks keeps the lower of old and new head in front.
 *
 * What a kill leaves behind. The truth is `check`, `size` and `owner` of the headers that are reached by walking from
 * begin; each step changes it by one store, in program order (ARENA_STEP stops the compiler; a dead process needs no
 * more, and living ones are kept out by the lock):
 *  - split: the new header is written in full while it is still payload, then the old chunk shrinks by one store;
 *  - merge: the chunk in front grows by one store, then the swallowed header is defaced;
 *  - in use or free: one store of `owner`.
 * So the walk always closes. What may be left is a free chunk in no list, two free neighbours or wrong counters, and
 * arena_rebuild makes those anew.
 */
#include "arena.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* Between two steps. The test redefines it to die here. */
#ifndef ARENA_STEP
#define ARENA_STEP() atomic_signal_fence(memory_order_seq_cst)
#endif

#define CHUNK_CHECK UINT64_C(0x6d736e65726141a5) /* xor'ed with the header's offset: a copied header is refused */
#define MIN_CHUNK (2 * ARENA_UNIT)               /* a header and one unit */
#define LARGE_SIZE (UINT64_C(1) << 20)           /* payload bytes from which the lower address beats the warmer cache */
#ifndef IDLE_SIZE
#define IDLE_SIZE LARGE_SIZE /* payload bytes from which giving pages back is worth a system call */
#endif
#define SHORT_LOOK 4                             /* chunks of the own class tried before going to a larger one */
#define AHEAD 12                                 /* chunks by which a walk fetches ahead */
#define LONG_LOOK 1024                           /* ... before giving up */

struct chunk {
    uint64_t check;         /* CHUNK_CHECK ^ offset of this header */
    _Atomic uint64_t size;  /* payload bytes, multiple of ARENA_UNIT, > 0 */
    _Atomic uint64_t owner; /* owner << 32 | owner kind; 0 = free */
    uint64_t previous;      /* derived: header offset of the chunk in front, 0 = none */
    uint64_t next_free;     /* derived, if free and not top: neighbours in the list, 0 = none */
    uint64_t previous_free;
    uint64_t warm;          /* a hint, if free: the pages of so many payload bytes may be there, those of the rest are not */
    uint64_t spare;
};

_Static_assert(sizeof(struct chunk) == ARENA_UNIT, "the header is one unit");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && ATOMIC_LLONG_LOCK_FREE == 2, "one store must be one store");
_Static_assert(sizeof(struct arena) == 9 * 8 + 2 * (ARENA_N_LEVELS + 2) + 8 * ARENA_N_LEVELS * ARENA_N_SUBLEVELS,
               "struct arena has no hidden padding");

/* --- accessors --- */

static struct chunk *chunk_at(unsigned char *base, uint64_t offset)
{
    return (struct chunk *)(void *)(base + offset);
}

static const struct chunk *chunk_seen(const unsigned char *base, uint64_t offset)
{
    return (const struct chunk *)(const void *)(base + offset);
}

static uint64_t size_of(const struct chunk *chunk)
{
    return atomic_load_explicit(&chunk->size, memory_order_relaxed);
}

static void set_size(struct chunk *chunk, uint64_t size)
{
    atomic_store_explicit(&chunk->size, size, memory_order_relaxed);
}

static uint64_t owner_of(const struct chunk *chunk)
{
    return atomic_load_explicit(&chunk->owner, memory_order_relaxed);
}

static void set_owner(struct chunk *chunk, uint64_t owner)
{
    atomic_store_explicit(&chunk->owner, owner, memory_order_relaxed);
}

static bool is_free(const struct chunk *chunk)
{
    return owner_of(chunk) == 0;
}

static uint64_t pack_owner(uint32_t kind, uint32_t owner)
{
    return (uint64_t)owner << 32 | kind;
}

/* Offset just behind a chunk: the next header, or the arena's end. */
static uint64_t end_of(const struct chunk *chunk, uint64_t offset)
{
    return offset + ARENA_UNIT + size_of(chunk);
}

/* Of a free chunk. A death may leave the hint larger than the chunk. */
static uint64_t warm_bytes_of(const unsigned char *base, uint64_t offset)
{
    const struct chunk *chunk = chunk_seen(base, offset);
    return chunk->warm < size_of(chunk) ? chunk->warm : size_of(chunk);
}

/* --- size classes --- */

struct size_class {
    unsigned level, sublevel;
};

static unsigned highest_bit(uint64_t n)
{
    return 63U - (unsigned)__builtin_clzll(n);
}

/* The class whose list holds free chunks of this size. */
static struct size_class class_of(uint64_t size)
{
    uint64_t units = size / ARENA_UNIT;
    if (units < ARENA_N_SUBLEVELS)
        return (struct size_class){0, (unsigned)units};
    unsigned bit = highest_bit(units);
    return (struct size_class){bit - 3, (unsigned)(units >> (bit - 4)) & (ARENA_N_SUBLEVELS - 1)};
}

/* The smallest class all of whose chunks fit. */
static struct size_class class_that_fits(uint64_t size)
{
    uint64_t units = size / ARENA_UNIT;
    if (units >= 2 * ARENA_N_SUBLEVELS)
        units += (UINT64_C(1) << (highest_bit(units) - 4)) - 1;
    return class_of(units * ARENA_UNIT);
}

/* --- free lists --- */

/* Where in the list: in front, unless both are large and the present head lies lower. */
static bool goes_second(uint64_t head, uint64_t offset, uint64_t size)
{
    return head != 0 && size >= LARGE_SIZE && head < offset;
}

static void link_free(struct arena *arena, unsigned char *base, uint64_t offset)
{
    struct chunk *chunk = chunk_at(base, offset);
    struct size_class class = class_of(size_of(chunk));
    uint64_t *head = &arena->heads[class.level][class.sublevel];
    if (goes_second(*head, offset, size_of(chunk))) {
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

/* Takes a free chunk out of its list, or away from the top. Its size must still be that of its class. */
static void unlink_free(struct arena *arena, unsigned char *base, uint64_t offset)
{
    if (offset == arena->top) {
        arena->top = 0;
        return;
    }
    struct chunk *chunk = chunk_at(base, offset);
    if (chunk->next_free != 0)
        chunk_at(base, chunk->next_free)->previous_free = chunk->previous_free;
    if (chunk->previous_free != 0)
        chunk_at(base, chunk->previous_free)->next_free = chunk->next_free;
    else
        set_head(arena, class_of(size_of(chunk)), chunk->next_free);
}

/* The place of a free chunk: top if it is the last, else a list. */
static void shelve(struct arena *arena, unsigned char *base, uint64_t offset)
{
    if (end_of(chunk_at(base, offset), offset) == arena->end)
        arena->top = offset;
    else
        link_free(arena, base, offset);
}

/* --- finding --- */

/* Among the first `n_looks` chunks of the wanted size's own class, not all of which fit. */
static uint64_t find_in_own_class(const struct arena *arena, unsigned char *base, uint64_t size, int n_looks)
{
    struct size_class class = class_of(size);
    uint64_t offset = arena->heads[class.level][class.sublevel];
    for (; offset != 0 && n_looks > 0; n_looks--) {
        const struct chunk *chunk = chunk_at(base, offset);
        if (size_of(chunk) >= size)
            return offset;
        offset = chunk->next_free;
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
        sublevels = arena->sublevels[class.level];
    }
    return arena->heads[class.level][__builtin_ctz(sublevels)];
}

static uint64_t find_free(const struct arena *arena, unsigned char *base, uint64_t size)
{
    uint64_t offset = find_in_own_class(arena, base, size, SHORT_LOOK);
    if (offset == 0)
        offset = find_in_larger_classes(arena, size);
    if (offset == 0 && arena->top != 0 && size_of(chunk_at(base, arena->top)) >= size)
        offset = arena->top;
    if (offset == 0)
        offset = find_in_own_class(arena, base, size, LONG_LOOK);
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

/* Tells the chunk behind `offset`, if there is one, who is in front of it. */
static void tell_next(const struct arena *arena, unsigned char *base, uint64_t offset)
{
    uint64_t next = end_of(chunk_at(base, offset), offset);
    if (next != arena->end)
        chunk_at(base, next)->previous = offset;
}

/* Cuts a free chunk that is in no list down to `size`, and shelves the rest if that can be a chunk. */
static void split(struct arena *arena, unsigned char *base, uint64_t offset, uint64_t size)
{
    struct chunk *chunk = chunk_at(base, offset);
    uint64_t surplus = size_of(chunk) - size;
    if (surplus < MIN_CHUNK)
        return;
    uint64_t rest = offset + ARENA_UNIT + size;
    uint64_t front = size + ARENA_UNIT;
    write_header(base, rest, surplus - ARENA_UNIT, offset, chunk->warm > front ? chunk->warm - front : 0);
    ARENA_STEP();
    set_size(chunk, size);
    chunk->warm = warm_bytes_of(base, offset);
    ARENA_STEP();
    tell_next(arena, base, rest);
    ARENA_STEP();
    shelve(arena, base, rest);
}

/* Makes a chunk swallow the one behind it. Neither is in a list. */
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

/* Joins a free chunk that is in no list with its free neighbours; returns the header's offset of the whole. */
static uint64_t coalesce(struct arena *arena, unsigned char *base, uint64_t offset)
{
    struct chunk *chunk = chunk_at(base, offset);
    uint64_t next = end_of(chunk, offset);
    if (next != arena->end && is_free(chunk_at(base, next))) {
        unlink_free(arena, base, next);
        ARENA_STEP();
        merge_next(arena, base, offset);
    }
    uint64_t previous = chunk->previous;
    if (previous == 0 || !is_free(chunk_at(base, previous)))
        return offset;
    unlink_free(arena, base, previous);
    ARENA_STEP();
    merge_next(arena, base, previous);
    return previous;
}

/* --- the interface --- */

static uint64_t round_up(uint64_t n)
{
    return (n + ARENA_UNIT - 1) & ~(ARENA_UNIT - 1);
}

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

/* A chunk begins to be in use: counters. */
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

/* A free chunk of the right size begins to be in use. */
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
    unlink_free(arena, base, offset);
    ARENA_STEP();
    split(arena, base, offset, size);
    ARENA_STEP();
    take(arena, base, offset);
    ARENA_STEP();
    set_owner(chunk, pack_owner(owner_kind, owner));
    return offset + ARENA_UNIT;
}

/* Cuts `gap` bytes, at least MIN_CHUNK, off the front of a free chunk that is in no list. Returns the offset of what is left,
 * in no list either. */
static uint64_t cut_front(struct arena *arena, unsigned char *base, uint64_t offset, uint64_t gap)
{
    split(arena, base, offset, gap - ARENA_UNIT);
    ARENA_STEP();
    unlink_free(arena, base, offset + gap);
    shelve(arena, base, offset);
    ARENA_STEP();
    return offset + gap;
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
    uint64_t slack = ARENA_PAGE + MIN_CHUNK; /* the most that aligning can cost */
    size = ARENA_UNIT + (size + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE;
    uint64_t offset = find_free(arena, base, size + slack);
    if (offset == 0 || warm_bytes_of(base, offset) < size + slack)
        return 0;
    unlink_free(arena, base, offset);
    ARENA_STEP();
    offset = cut_to_page(arena, base, offset);
    struct chunk *chunk = chunk_at(base, offset);
    split(arena, base, offset, size);
    ARENA_STEP();
    take(arena, base, offset);
    ARENA_STEP();
    set_owner(chunk, pack_owner(owner_kind, owner));
    return offset + ARENA_UNIT;
}

/* Whether a header may be believed: it says so itself and does not point beyond the end. */
static bool is_chunk(const struct arena *arena, const unsigned char *base, uint64_t offset)
{
    if (offset % ARENA_UNIT != 0 || offset < arena->begin || offset >= arena->end)
        return false;
    if (arena->end - offset < MIN_CHUNK)
        return false;
    const struct chunk *chunk = chunk_seen(base, offset);
    uint64_t size = size_of(chunk);
    return chunk->check == (CHUNK_CHECK ^ offset) && size % ARENA_UNIT == 0 && size != 0 &&
           size <= arena->end - offset - ARENA_UNIT;
}

static int free_chunk(struct arena *arena, unsigned char *base, uint64_t payload, bool is_warm)
{
    uint64_t offset = payload - ARENA_UNIT;
    if (payload < ARENA_UNIT || !is_chunk(arena, base, offset) || is_free(chunk_at(base, offset)))
        return OBJSTORE_INVALID;
    struct chunk *chunk = chunk_at(base, offset);
    arena->used_bytes -= ARENA_UNIT + size_of(chunk);
#ifdef ARENA_POISON
    memset(base + payload, 0xdd, size_of(chunk)); /* readers of freed memory show, where no sanitizer can see them */
#endif
    chunk->warm = is_warm ? size_of(chunk) : 0;
    arena->cold_bytes += is_warm ? 0 : size_of(chunk);
    ARENA_STEP();
    set_owner(chunk, 0);
    ARENA_STEP();
    offset = coalesce(arena, base, offset);
    ARENA_STEP();
    shelve(arena, base, offset);
    return OBJSTORE_OK;
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

/* The first large free chunk with idle pages, 0 if there is none, and what all of them have. Who looks does not trust the lists:
 * they are followed as far as they lead to free chunks, and those are no more than the arena has room for. */
static uint64_t find_idle(const struct arena *arena, const unsigned char *base, uint64_t *total)
{
    uint64_t left = arena->end - arena->begin, found = 0;
    *total = 0;
    if (is_chunk(arena, base, arena->top) && is_free(chunk_seen(base, arena->top)) && (*total = idle_bytes_of(base, arena->top)))
        found = arena->top;
    for (unsigned level = class_of(IDLE_SIZE).level; level < ARENA_N_LEVELS; level++) {
        for (unsigned sublevels = arena->sublevels[level]; sublevels; sublevels &= sublevels - 1) {
            uint64_t offset = arena->heads[level][__builtin_ctz(sublevels)];
            for (; is_chunk(arena, base, offset) && is_free(chunk_seen(base, offset)); offset = chunk_seen(base, offset)->next_free) {
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

/* Those of a class are larger than those of all classes below it. Trusts the lists as little as find_idle. */
uint64_t arena_largest_free(const struct arena *arena, const unsigned char *base)
{
    uint64_t left = arena->end - arena->begin, offset = 0, largest = 0;
    unsigned level = arena->levels ? highest_bit(arena->levels) : ARENA_N_LEVELS;
    if (is_chunk(arena, base, arena->top) && is_free(chunk_seen(base, arena->top)))
        largest = size_of(chunk_seen(base, arena->top));
    if (level < ARENA_N_LEVELS && arena->sublevels[level])
        offset = arena->heads[level][highest_bit(arena->sublevels[level])];
    for (; is_chunk(arena, base, offset) && is_free(chunk_seen(base, offset)); offset = chunk_seen(base, offset)->next_free) {
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
    unlink_free(arena, base, offset);
    ARENA_STEP();
    split(arena, base, offset, size);
    ARENA_STEP();
    if (size > most + IDLE_SIZE)
        offset = cut_front(arena, base, offset, size - most);
    ARENA_STEP();
    take(arena, base, offset);
    arena->high_bytes = high_bytes; /* this is no demand */
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

static bool range_is_sound(const struct arena *arena)
{
    return arena->begin % ARENA_UNIT == 0 && arena->end % ARENA_UNIT == 0 && arena->begin != 0 &&
           arena->begin <= arena->end && arena->end - arena->begin <= ARENA_MAX_SIZE;
}

/* Each header is known only from the one before, and each lies in a line of its own that comes from memory. Neighbours are often
 * of one size: then the guess is right, and a walk takes a third of the time. */
static void fetch_ahead(const struct arena *arena, const unsigned char *base, uint64_t offset, uint64_t next)
{
    uint64_t guess = next + AHEAD * (next - offset);
    if (guess < arena->end)
        __builtin_prefetch(base + guess, 1);
}

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

/* Where a part of a walk begins, and of how many chunks it is. */
static uint64_t begin_part(const struct arena *arena, const unsigned char *base, uint64_t at, uint32_t *most)
{
    if (at != 0 && is_chunk(arena, base, at))
        return at;
    if (at != 0)
        *most = UINT32_MAX;
    return arena->begin;
}

static int end_part(const struct arena *arena, const unsigned char *base, uint64_t offset)
{
    return offset == arena->end ? OBJSTORE_OK : is_chunk(arena, base, offset) ? OBJSTORE_PENDING : OBJSTORE_CORRUPT;
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
                next = end_of(chunk_at(base, next), next); /* it is about to be joined */
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

/* The last chunk of each list while the lists are made anew. */
struct ends { uint64_t last[ARENA_N_LEVELS][ARENA_N_SUBLEVELS]; };

/* Like shelve, at the end of the list: the lowest chunk of each class comes to the front. */
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

/* One pass, upwards, since with many chunks all the time goes into their coming from memory: frees, joins, counts, shelves and names
 * the chunk in front. False: the headers lead nowhere. */
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
    arena->used_bytes = arena->cold_bytes = arena->levels = arena->top = 0;
    memset(arena->sublevels, 0, sizeof arena->sublevels);
    memset(arena->heads, 0, sizeof arena->heads);
    ARENA_STEP();
    return settle_chunks(arena, base, keep, ctx) ? OBJSTORE_OK : OBJSTORE_CORRUPT;
}

/* --- checking --- */

/* What the headers say, to be compared with what struct arena says. */
struct tally {
    const unsigned char *base;
    uint64_t previous, used_bytes, used_end, n_listed, last_free;
    bool was_free;
};

static int tally_chunk(void *ctx, uint32_t kind, uint32_t owner, uint64_t payload, uint64_t size)
{
    struct tally *tally = ctx;
    uint64_t offset = payload - ARENA_UNIT;
    bool chunk_is_free = pack_owner(kind, owner) == 0;
    bool kind_is_missing = kind == ARENA_FREE && owner != 0;
    bool was_not_joined = chunk_is_free && tally->was_free;
    if (chunk_seen(tally->base, offset)->previous != tally->previous || was_not_joined || kind_is_missing)
        return OBJSTORE_CORRUPT;
    tally->previous = offset;
    tally->was_free = chunk_is_free;
    tally->n_listed += chunk_is_free;
    if (chunk_is_free) {
        tally->last_free = offset;
    } else {
        tally->used_bytes += ARENA_UNIT + size;
        tally->used_end = payload + size;
    }
    return OBJSTORE_OK;
}

/* Walks one list; every member must be a free chunk of this class that knows its predecessor. Counts down `n_left`,
 * which bounds the walk. */
static bool list_is_sound(const struct arena *arena, const unsigned char *base, struct size_class class,
                          uint64_t *n_left)
{
    uint64_t previous = 0;
    uint64_t offset = arena->heads[class.level][class.sublevel];
    while (offset != 0) {
        if (*n_left == 0 || offset == arena->top || !is_chunk(arena, base, offset))
            return false;
        const struct chunk *chunk = chunk_seen(base, offset);
        struct size_class own = class_of(size_of(chunk));
        bool is_misplaced = own.level != class.level || own.sublevel != class.sublevel;
        if (!is_free(chunk) || chunk->previous_free != previous || is_misplaced)
            return false;
        --*n_left;
        previous = offset;
        offset = chunk->next_free;
    }
    return true;
}

static bool lists_are_sound(const struct arena *arena, const unsigned char *base, uint64_t n_listed)
{
    if (arena->levels >> ARENA_N_LEVELS != 0)
        return false;
    for (unsigned level = 0; level < ARENA_N_LEVELS; level++) {
        if ((arena->levels >> level & 1) != (arena->sublevels[level] != 0))
            return false;
        for (unsigned sublevel = 0; sublevel < ARENA_N_SUBLEVELS; sublevel++) {
            bool marked = arena->sublevels[level] >> sublevel & 1;
            if (marked != (arena->heads[level][sublevel] != 0))
                return false;
            if (!list_is_sound(arena, base, (struct size_class){level, sublevel}, &n_listed))
                return false;
        }
    }
    return n_listed == 0;
}

int arena_check(const struct arena *arena, const unsigned char *base)
{
    struct tally tally = {.base = base};
    if (arena_walk(arena, base, tally_chunk, &tally) != OBJSTORE_OK)
        return OBJSTORE_CORRUPT;
    uint64_t top = tally.was_free ? tally.last_free : 0; /* the last chunk, if free, is the top and in no list */
    if (top != arena->top || arena->used_bytes != tally.used_bytes || arena->peak_bytes < arena->used_bytes)
        return OBJSTORE_CORRUPT;
    if (arena->touched_end < arena->begin || arena->touched_end < tally.used_end || arena->touched_end > arena->end)
        return OBJSTORE_CORRUPT;
    return lists_are_sound(arena, base, tally.n_listed - (top != 0)) ? OBJSTORE_OK : OBJSTORE_CORRUPT;
}

static bool is_free_chunk(const struct arena *arena, const unsigned char *base, uint64_t offset)
{
    return is_chunk(arena, base, offset) && is_free(chunk_seen(base, offset));
}

/* Whether every list that is marked, and no other, begins with a free chunk of its class. */
static bool heads_are_sound(const struct arena *arena, const unsigned char *base)
{
    if (arena->levels >> ARENA_N_LEVELS != 0 || (arena->top != 0 && !is_free_chunk(arena, base, arena->top)))
        return false;
    for (unsigned level = 0; level < ARENA_N_LEVELS; level++) {
        if ((arena->levels >> level & 1) != (arena->sublevels[level] != 0))
            return false;
        for (unsigned sublevel = 0; sublevel < ARENA_N_SUBLEVELS; sublevel++) {
            uint64_t head = arena->heads[level][sublevel];
            if ((arena->sublevels[level] >> sublevel & 1) != (head != 0))
                return false;
            struct size_class class = head != 0 && is_free_chunk(arena, base, head) ? class_of(size_of(chunk_seen(base, head)))
                                                                                  : (struct size_class){ARENA_N_LEVELS, 0};
            if (head != 0 && (class.level != level || class.sublevel != sublevel))
                return false;
        }
    }
    return true;
}

/* Whether a free chunk's links say what its neighbours in the list say. */
static bool is_linked(const struct arena *arena, const unsigned char *base, uint64_t offset)
{
    const struct chunk *chunk = chunk_seen(base, offset);
    struct size_class class = class_of(size_of(chunk));
    uint64_t before = chunk->previous_free, behind = chunk->next_free;
    if (end_of(chunk, offset) == arena->end)
        return arena->top == offset;
    if ((before == 0) != (arena->heads[class.level][class.sublevel] == offset))
        return false;
    if (before != 0 && (!is_free_chunk(arena, base, before) || chunk_seen(base, before)->next_free != offset))
        return false;
    return behind == 0 || (is_free_chunk(arena, base, behind) && chunk_seen(base, behind)->previous_free == offset);
}

/* Whether a chunk knows the one in front of it, and, if it is free, its list knows it. */
static bool is_in_place(const struct arena *arena, const unsigned char *base, uint64_t offset)
{
    const struct chunk *chunk = chunk_seen(base, offset);
    uint64_t front = chunk->previous;
    if (offset != arena->begin && (!is_chunk(arena, base, front) || end_of(chunk_seen(base, front), front) != offset ||
                                   (is_free(chunk) && is_free(chunk_seen(base, front)))))
        return false;
    return (offset != arena->begin || front == 0) && (!is_free(chunk) || is_linked(arena, base, offset));
}

int arena_check_part(const struct arena *arena, const unsigned char *base, uint64_t *at, uint32_t most)
{
    if (!range_is_sound(arena) || !heads_are_sound(arena, base))
        return OBJSTORE_CORRUPT;
    uint64_t offset = begin_part(arena, base, *at, &most);
    for (; most > 0 && is_chunk(arena, base, offset); most--) {
        uint64_t next = end_of(chunk_seen(base, offset), offset);
        fetch_ahead(arena, base, offset, next);
        if (!is_in_place(arena, base, offset))
            return OBJSTORE_CORRUPT;
        offset = next;
    }
    *at = offset;
    return end_part(arena, base, offset);
}
