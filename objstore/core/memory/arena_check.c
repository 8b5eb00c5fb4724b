/* Whether the arena is sound: all of it at once, or in parts between which others go on. */
#include "memory/arena_chunk.h"

/* What the headers say, to be compared with struct arena. */
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
    /* the peak need not agree: what is prepared ahead does not count */
    if (top != arena->top || arena->used_bytes != tally.used_bytes)
        return OBJSTORE_CORRUPT;
    if (arena->touched_end < arena->begin || arena->touched_end < tally.used_end || arena->touched_end > arena->end)
        return OBJSTORE_CORRUPT;
    return lists_are_sound(arena, base, tally.n_listed - (top != 0)) ? OBJSTORE_OK : OBJSTORE_CORRUPT;
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
            struct size_class class = head != 0 && is_free_chunk(arena, base, head)
                                          ? class_of(size_of(chunk_seen(base, head)))
                                          : (struct size_class){ARENA_N_LEVELS, 0};
            if (head != 0 && (class.level != level || class.sublevel != sublevel))
                return false;
        }
    }
    return true;
}

/* Whether the links of a free chunk agree with those of its neighbours in the list. */
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

/* Whether a chunk links to the one in front of it, and is in its list if it is free. */
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
