/* objects/: values, streams, shared memory and its primitives, offload to disk; never a decision about tasks. */
#include "objects/object.h"

#include <string.h>

#include "memory/event.h"
#include "objects/offload.h"
#include "objects/stream.h"
#include "objects/verify_object.h"

int object_create(struct segment *s, uint32_t holder, uint64_t creator, uint32_t *index)
{
    struct header *h = s->h;
    uint32_t i;
    if (h->free_object_1) {
        i = h->free_object_1 - 1;
        if (i >= s->n_objects || object_state(&s->objects[i]) != OBJECT_FREE) {
            segment_condemn(s);
            return OBJSTORE_CORRUPT;
        }
        h->free_object_1 = s->objects[i].first_waiting_1;
    } else if (h->touched_objects < s->n_objects) {
        i = h->touched_objects;
        h->touched_objects = i + 1;
    } else {
        return OBJSTORE_LIMIT;
    }
    STEP();
    struct object_slot *o = &s->objects[i];
    o->first_waiting_1 = 0;
    o->pins = 0;
    object_set_offset(o, 0);
    o->size = 0;
    o->u.pending.task_1 = 0;
    o->creator = creator;
    for (uint32_t w = 0; w < CLIENT_WORDS; w++) {
        atomic_store_explicit(&o->holders[w], 0, memory_order_relaxed);
        atomic_store_explicit(&o->waiters[w], 0, memory_order_relaxed);
    }
    if (holder != UINT32_MAX)
        atomic_store_explicit(&o->holders[holder / 64], UINT64_C(1) << (holder % 64), memory_order_relaxed);
    h->n_live_objects++;
    STEP();
    atomic_store_explicit(&o->state, OBJECT_PENDING, memory_order_release);
    STEP();
    *index = i;
    return OBJSTORE_OK;
}

/* A sealer writes over the hint without the lock. The value read is used only if the task confirms it. */
#if defined __SANITIZE_THREAD__
__attribute__((no_sanitize_thread, noipa))
#endif
uint32_t object_producer_1(const struct object_slot *o)
{
    uint32_t task_1 = o->u.pending.task_1;
    return object_state(o) == OBJECT_PENDING ? task_1 : 0;
}

uint64_t object_allocate(struct segment *s, uint64_t size, uint32_t n_refs)
{
    uint64_t bytes = ((size + 3) & ~UINT64_C(3)) + (uint64_t)n_refs * 4, offset = 0;
    if (bytes >= OBJECT_LARGE) /* so that, once free, it serves an array of this size too, see arena_alloc_pages */
        offset = arena_alloc(segment_arena(s), s->base, bytes + 3 * ARENA_PAGE, ARENA_BUILDING, s->me);
    if (!offset)
        offset = arena_alloc(segment_arena(s), s->base, bytes ? bytes : 1, ARENA_BUILDING, s->me);
    if (!offset)
        segment_arena(s); /* which may be why */
    return offset;
}

/* One exchange publishes the state and collects HAS_WAITERS, which a waiter sets by its own read-modify-write: either
 * the sealer sees the bit, or the waiter sees the state. The exchange releases the value to object_state, and acquires
 * what the waiter wrote before the bit: its own bit in `waiters`, and `need`. */
static void publish(struct segment *s, struct object_slot *o, uint32_t state)
{
    STEP();
    uint32_t old = atomic_exchange(&o->state, state);
    STEP();
    if (!(old & OBJECT_HAS_WAITERS))
        return;
    atomic_fetch_add_explicit(&s->n_awaited, 1, memory_order_relaxed);
    for (uint32_t w = 0; w < CLIENT_WORDS; w++) {
        uint64_t bits = atomic_exchange(&o->waiters[w], 0);
        for (; bits; bits &= bits - 1) {
            uint32_t client = w * 64 + (uint32_t)__builtin_ctzll(bits);
            /* An error ends a get of several objects at once, so it notifies whatever the count says. */
            if (atomic_fetch_sub(&client_at(s, client)->need, 1) <= 1 || state != OBJECT_READY)
                notify_client(s, client);
        }
    }
}

bool object_seal_inline(struct segment *s, uint32_t index, uint32_t state, const void *data, uint32_t size)
{
    struct object_slot *o = object_at(s, index);
    if (object_sealed(o))
        return false;
    if (size)
        memcpy(o->u.inline_data, data, size);
    object_set_offset(o, 0);
    o->size = size;
    publish(s, o, state);
    return true;
}

/* Free bytes with pages. May be negative, as cold_bytes is an estimate. */
static int64_t idle_bytes(const struct arena *a)
{
    return (int64_t)(a->end - a->begin - a->used_bytes - a->cold_bytes);
}

/* A client that makes a large object may soon make another, and pages are better prepared in between. */
static void notice_scarce_memory(struct segment *s, uint64_t bytes)
{
    if (idle_bytes(segment_arena(s)) >= (int64_t)bytes)
        return;
    s->h->ahead_bytes = bytes;
    request_attention(s);
}

static void count_shared(struct segment *s, uint64_t size, bool more)
{
    s->h->shared_bytes = more ? s->h->shared_bytes + size : s->h->shared_bytes - size;
    s->h->n_shared = more ? s->h->n_shared + 1 : s->h->n_shared - 1;
}

void object_count_shared(struct segment *s, const struct object_slot *o)
{
    if (object_is_shared(o))
        count_shared(s, o->size, true);
}

static void begin_value(struct segment *s, uint32_t index, uint64_t size, uint32_t n_refs)
{
    struct object_slot *o = object_at(s, index);
    o->u.arena.n_refs = n_refs;
    o->u.arena.actor_1 = 0;
    o->u.arena.mover_1 = o->u.arena.stays = 0;
    atomic_store_explicit(&o->u.arena.used, 0, memory_order_relaxed);
    for (uint32_t w = 0; size >= OBJECT_MOVABLE && w < CLIENT_WORDS; w++)
        atomic_store_explicit(&readers_at(s, index)->clients[w], 0, memory_order_relaxed);
    o->size = size;
}

bool object_seal_arena(struct segment *s, uint32_t index, uint32_t state, uint64_t offset, uint64_t size,
                       uint32_t n_refs)
{
    struct object_slot *o = object_at(s, index);
    if (object_sealed(o))
        return false;
    const uint32_t *refs = object_refs_at(s, offset, size);
    for (uint32_t i = 0; n_refs < REFS_OF_SYNC && i < n_refs; i++)
        object_pin(s, refs[i]);
    begin_value(s, index, size, n_refs);
    STEP();
    object_set_offset(o, offset);
    publish(s, o, state);
    /* last, and a release: until then recovery sees an allocation of this client */
    arena_set_owner(s->base, offset, ARENA_OBJECT, index);
    STEP();
    if (n_refs >= REFS_OF_SYNC)
        count_shared(s, size, true);
    if (size >= OBJECT_LARGE)
        notice_scarce_memory(s, size);
    return true;
}

#define REMOTE_LOST (OBJECT_ABSENT | OBJECT_REMOTE | 0xffff)

static uint64_t remote_at(const struct segment *s, uint32_t remote)
{
    return OBJECT_ABSENT | OBJECT_REMOTE | (uint64_t)client_at(s, remote)->generation << 16 | remote;
}

bool object_seal_remote(struct segment *s, uint32_t index, uint64_t size)
{
    struct object_slot *o = object_at(s, index);
    if (object_sealed(o))
        return false;
    begin_value(s, index, size, 0);
    STEP();
    object_set_offset(o, remote_at(s, s->me));
    publish(s, o, OBJECT_READY);
    return true;
}

void object_move_remote(struct segment *s, uint32_t index, bool lost)
{
    if (!object_is_remote(object_at(s, index)))
        return;
    atomic_store(&object_at(s, index)->offset, lost ? REMOTE_LOST : remote_at(s, s->me));
    STEP();
    offload_give_up(s, index); /* readers look again */
}

bool object_seal_failed(struct segment *s, uint32_t index, uint32_t code, int32_t detail, uint64_t seq)
{
    struct object_slot *o = object_at(s, index);
    if (object_sealed(o))
        return false;
    object_set_offset(o, 0);
    o->size = 0;
    o->u.failure.code = code;
    o->u.failure.detail = detail;
    o->u.failure.seq = seq;
    publish(s, o, OBJECT_FAILED);
    return true;
}

void object_seal_like(struct segment *s, uint32_t index, uint32_t source)
{
    struct object_slot *from = object_at(s, source);
    if (object_state(from) == OBJECT_FAILED) {
        object_seal_failed(s, index, from->u.failure.code, from->u.failure.detail, from->u.failure.seq);
    } else if (!object_is_safe(s, source) || !object_sealed(from) || object_is_absent(from)) {
        segment_condemn(s);
        object_seal_failed(s, index, FAILURE_OBJECT_LOST, 0, from->creator);
    } else if (!object_chunk(from)) {
        object_seal_inline(s, index, OBJECT_ERROR, from->u.inline_data, (uint32_t)from->size);
    } else {
        uint64_t copy = object_allocate(s, from->size, 0);
        if (!copy) {
            object_seal_failed(s, index, FAILURE_STORE_FULL, 0, from->creator);
            return;
        }
        memcpy(s->base + copy, s->base + object_chunk(from), from->size);
        if (!object_seal_arena(s, index, OBJECT_ERROR, copy, from->size, 0))
            arena_free(segment_arena(s), s->base, copy);
    }
}

bool object_held(const struct object_slot *o)
{
    uint64_t any = 0;
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        any |= atomic_load_explicit(&o->holders[w], memory_order_relaxed);
    return any != 0;
}

static void notice_idle_memory(struct segment *s)
{
    if (!s->h->idle_notice || idle_bytes(segment_arena(s)) < (int64_t)s->h->idle_notice)
        return;
    s->h->idle_notice = 0;
    request_attention(s);
}

/* The total of idle bytes is cheap to watch, but only large chunks can be given back. So the notification is due when
 * that much more is idle than now, and at least an eighth more: otherwise every small object that is freed could
 * notify. */
void object_notice_idle(struct segment *s, uint64_t bytes)
{
    const struct arena *a = &s->h->arena;
    uint64_t large = arena_idle_bytes(a, s->base), more = large < bytes ? bytes - large : 0;
    int64_t now = idle_bytes(a);
    s->h->idle_notice = large > bytes ? 1 : (uint64_t)(now > 0 ? now : 0) + (more > bytes / 8 ? more : bytes / 8 + 1);
    notice_idle_memory(s);
}

/* Frees an object and everything that only it kept alive. The slots to be freed are chained through first_waiting_1, so
 * a list nested a million deep needs no stack. They are unreachable for others: no holder, no pin, and the lock is
 * held. */
static void free_unreferenced(struct segment *s, struct object_slot *o, uint32_t i)
{
    struct header *h = s->h;
    o->first_waiting_1 = 0;
    for (;;) {
        uint32_t todo_1 = o->first_waiting_1;
        uint32_t state = object_state(o);
        bool has_bytes = state == OBJECT_READY || state == OBJECT_ERROR;
        uint64_t offset = has_bytes ? object_chunk(o) : 0, creator = o->creator, size = o->size;
        bool shared = offset && object_in_arena_is_shared(o);
        bool absent = has_bytes && object_is_absent(o), offloaded = absent && !object_is_remote(o);
        bool in_place = !offset || segment_holds(s, offset, size);
        uint32_t n_refs = offset && in_place ? object_n_refs(s, o) : 0;
        if (state == OBJECT_FREE || !in_place ||
            (n_refs && !segment_holds(s, offset, size + 3 + (uint64_t)n_refs * 4))) {
            segment_condemn(s);
            return;
        }
        uint32_t actor_1 = offset ? o->u.arena.actor_1 : 0;
        o->generation++;
        STEP();
        atomic_store_explicit(&o->state, OBJECT_FREE, memory_order_release);
        STEP();
        if (offset || absent || (creator & PUT_BIT))
            event_write(s, EVENT_FREED, creator, i, 0, 0, 0, s->me);
        if (offset) {
            const uint32_t *refs = object_refs_at(s, offset, size);
            for (uint32_t k = 0; k < n_refs; k++) {
                struct object_slot *inner = object_at(s, refs[k]);
                if (--inner->pins == 0 && !object_held(inner)) {
                    inner->first_waiting_1 = todo_1;
                    todo_1 = refs[k] + 1;
                }
            }
            h->n_functions_freed += o->u.arena.stays;
            if (arena_free(segment_arena(s), s->base, offset) != OBJSTORE_OK)
                segment_condemn(s);
            if (size >= OBJECT_LARGE)
                notice_idle_memory(s);
        }
        if (offloaded)
            offload_freed(s, size);
        if (shared)
            count_shared(s, size, false);
        STEP();
        o->first_waiting_1 = h->free_object_1;
        h->free_object_1 = i + 1;
        h->n_live_objects--;
        STEP();
        if (actor_1)
            s->hooks->actor_unreferenced(s, actor_1 - 1);
        if (!todo_1)
            return;
        i = todo_1 - 1;
        o = object_at(s, i);
    }
}

bool object_find(struct segment *s, uint32_t index, uint32_t generation)
{
    if (index >= s->n_objects || object_at(s, index)->generation != generation ||
        object_state(object_at(s, index)) == OBJECT_FREE)
        return false;
    object_hold(s, index);
    return true;
}

void object_drop(struct segment *s, uint32_t index, uint32_t client)
{
    struct object_slot *o = object_at(s, index);
    /* object_hold sets a bit without the lock, but what keeps the object alive meanwhile is removed under it, so the
     * bit is seen here. */
    uint64_t bit = UINT64_C(1) << (client % 64);
    if (!(atomic_fetch_and(&o->holders[client / 64], ~bit) & bit))
        /* a client that was reaped although it lives drops references that are gone, and the slot may be reused */
        return;
    STEP();
    if (o->pins == 0 && !object_held(o))
        free_unreferenced(s, o, index);
    else if (object_is_stream(o))
        stream_released(s, index);
}

void object_unpin(struct segment *s, uint32_t index)
{
    struct object_slot *o = object_at(s, index);
    if (--o->pins == 0 && !object_held(o))
        free_unreferenced(s, o, index);
}

bool object_mark_waiting(struct segment *s, uint32_t index)
{
    struct object_slot *o = object_at(s, index);
    if (object_sealed(o))
        return false;
    /* Pairs with publish: the client's bit before the mark, which releases it. */
    atomic_fetch_or(&o->waiters[s->me / 64], UINT64_C(1) << (s->me % 64));
    STEP();
    return (atomic_fetch_or(&o->state, OBJECT_HAS_WAITERS) & OBJECT_STATE_MASK) == OBJECT_PENDING;
}
