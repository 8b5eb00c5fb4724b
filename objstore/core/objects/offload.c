#include "objects/offload.h"

#include "objects/verify_object.h"

enum { SLICE = 1024 }; /* slots visited while the lock is held: some 20 us */

static bool is_read(const struct segment *s, uint32_t slot)
{
    uint64_t any = 0;
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        any |= atomic_load(&readers_at(s, slot)->clients[w]);
    return any != 0;
}

static bool is_moving(const struct segment *s, const struct object_slot *o)
{
    uint32_t mover_1 = o->u.arena.mover_1;
    return mover_1 && mover_1 <= MAX_CLIENTS && atomic_load(&client_at(s, mover_1 - 1)->state) == CLIENT_ATTACHED;
}

static bool fits_the_limit(const struct header *h, uint64_t size)
{
    return h->offloaded_bytes <= h->offload_limit && size <= h->offload_limit - h->offloaded_bytes;
}

/* ------------------------------------------------------------------ offloading */

static bool may_leave(const struct segment *s, uint32_t slot)
{
    const struct object_slot *o = object_at(s, slot);
    return object_state(o) == OBJECT_READY && object_chunk(o) && o->size >= OBJECT_MOVABLE && !o->u.arena.n_refs &&
           !o->u.arena.actor_1 && !o->u.arena.stays && fits_the_limit(s->h, o->size) && !is_moving(s, o) &&
           !is_read(s, slot);
}

/* The clock algorithm: a hand goes round the slots, and skips once an object that was read since the last round. So the
 * oldest objects go first, except those that are read repeatedly, at the cost of one store for readers. */
int offload_choose(struct segment *s, struct offload_move *move)
{
    struct header *h = s->h;
    bool found = false, others_move = false, more = h->offload_folder[0] != 0;
    for (uint64_t looked = 0; more && !found;) {
        segment_lock(s);
        uint32_t n = h->touched_objects;
        for (uint32_t k = 0; k < SLICE && looked < 2 * (uint64_t)n && !found; k++, looked++) {
            uint32_t slot = h->offload_hand < n ? h->offload_hand : 0;
            struct object_slot *o = object_at(s, slot);
            h->offload_hand = slot + 1;
            others_move |= object_state(o) == OBJECT_READY && object_chunk(o) && is_moving(s, o);
            if (!may_leave(s, slot) || atomic_exchange_explicit(&o->u.arena.used, 0, memory_order_relaxed))
                continue;
            if (!object_is_safe(s, slot)) { /* its bytes are about to be read */
                segment_condemn(s);
                break;
            }
            *move = (struct offload_move){slot, o->generation, object_chunk(o), o->size, ++h->last_file};
            o->u.arena.mover_1 = (uint16_t)(s->me + 1);
            STEP();
            object_hold(s, slot);
            found = true;
        }
        more = looked < 2 * (uint64_t)n && !atomic_load(&h->corrupt) && fits_the_limit(h, OBJECT_MOVABLE);
        segment_unlock(s);
    }
    return found ? OBJSTORE_OK : others_move ? OBJSTORE_PENDING : OBJSTORE_NOT_FOUND;
}

int offload_leave(struct segment *s, const struct offload_move *move)
{
    struct header *h = s->h;
    struct object_slot *o = object_at(s, move->slot);
    o->u.arena.mover_1 = 0;
    STEP();
    if (!fits_the_limit(h, move->size))
        return OBJSTORE_LIMIT;
    /* Pairs with decode_slot. Here: the offset, then the readers' bits; there: the bit, then the offset. All four are
     * seq_cst, as one must see the other. No bit: the reads of a former reader came before (offload_end_reading
     * releases). */
    atomic_exchange(&o->offset, OBJECT_ABSENT | move->file);
    STEP();
    if (is_read(s, move->slot)) {
        atomic_store(&o->offset, move->chunk);
        STEP();
        return OBJSTORE_PENDING;
    }
    arena_free(segment_arena(s), s->base, move->chunk); /* from here on it cannot be taken back */
    STEP();
    offload_count(s, o);
    STEP();
    if (h->offload_notice && h->offloaded_bytes >= h->offload_notice) {
        h->offload_notice = 0;
        request_attention(s);
    }
    return OBJSTORE_OK;
}

/* ------------------------------------------------------------------ and back */

uint32_t offload_remote_of(const struct segment *s, const struct object_slot *o)
{
    uint64_t remote = atomic_load(&o->offset) & ~(OBJECT_ABSENT | OBJECT_REMOTE), index = remote & 0xffff;
    const struct client_slot *c = client_at(s, index % MAX_CLIENTS);
    bool serves = index < MAX_CLIENTS && atomic_load(&c->state) == CLIENT_ATTACHED && c->generation == remote >> 16;
    return serves ? (uint32_t)index : MAX_CLIENTS;
}

int offload_claim(struct segment *s, uint32_t slot, struct offload_move *move)
{
    struct object_slot *o = object_at(s, slot);
    if (!object_is_absent(o))
        return OBJSTORE_EXISTS;
    if (is_moving(s, o))
        return OBJSTORE_PENDING;
    if (object_is_remote(o)) {
        uint32_t remote = offload_remote_of(s, o);
        if (remote == MAX_CLIENTS)
            return OBJSTORE_NOT_FOUND;
        if (remote != s->me) {
            wake_client(s, remote);
            return OBJSTORE_PENDING;
        }
    }
    o->u.arena.mover_1 = (uint16_t)(s->me + 1);
    STEP();
    *move = (struct offload_move){slot, o->generation, 0, o->size, atomic_load(&o->offset) & ~OBJECT_ABSENT};
    return OBJSTORE_OK;
}

void offload_return(struct segment *s, const struct offload_move *move, uint64_t chunk)
{
    struct object_slot *o = object_at(s, move->slot);
    bool offloaded = !object_is_remote(o);
    /* Pairs with the load in decode_slot: the bytes are there. */
    atomic_store(&o->offset, chunk);
    STEP();
    arena_set_owner(s->base, chunk, ARENA_OBJECT, move->slot);
    STEP();
    if (offloaded) {
        s->h->offloaded_bytes -= move->size;
        s->h->n_offloaded--;
    }
    offload_give_up(s, move->slot);
}

void offload_give_up(struct segment *s, uint32_t slot)
{
    object_at(s, slot)->u.arena.mover_1 = 0;
    STEP();
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) /* the clients that wait for it are among the readers */
        if ((atomic_load(&readers_at(s, slot)->clients[i / 64]) >> (i % 64)) & 1)
            wake_client(s, i);
}

/* ------------------------------------------------------------------ around it */

bool offload_file_is_wanted(const struct segment *s, uint32_t slot, uint32_t generation, uint64_t file)
{
    if (slot >= s->n_objects)
        return false;
    const struct object_slot *o = object_at(s, slot);
    return object_state(o) == OBJECT_READY && o->generation == generation && atomic_load(&o->offset) != 0 &&
           (atomic_load(&o->offset) == (OBJECT_ABSENT | file) || is_moving(s, o));
}

void offload_never(struct segment *s, uint32_t slot)
{
    struct object_slot *o = object_at(s, slot);
    if (object_state(o) == OBJECT_READY && atomic_load(&o->offset))
        o->u.arena.stays = 1;
}

void offload_freed(struct segment *s, uint64_t size)
{
    s->h->offloaded_bytes -= size;
    s->h->n_offloaded--;
    s->h->n_offloaded_freed++;
    request_attention(s);
}

void offload_count(struct segment *s, const struct object_slot *o)
{
    if (object_state(o) != OBJECT_READY || !object_is_absent(o) || object_is_remote(o))
        return;
    s->h->offloaded_bytes += o->size;
    s->h->n_offloaded++;
}

static int take_back(void *ctx, uint32_t kind, uint32_t owner, uint64_t payload, uint64_t size)
{
    struct segment *s = ctx;
    struct object_slot *o = object_at(s, owner);
    if (kind == ARENA_OBJECT && owner < s->h->touched_objects && object_state(o) == OBJECT_READY &&
        object_is_absent(o) && o->size <= size)
        atomic_store(&o->offset, payload);
    return 0;
}

void offload_take_back(struct segment *s) { arena_walk(segment_arena(s), s->base, take_back, s); }

void offload_forget_client(struct segment *s, uint32_t slot, uint32_t client)
{
    struct object_slot *o = object_at(s, slot);
    uint32_t state = object_state(o);
    if ((state != OBJECT_READY && state != OBJECT_ERROR) || o->size < OBJECT_MOVABLE)
        return;
    if (o->u.arena.mover_1 == client + 1)
        o->u.arena.mover_1 = 0;
    atomic_fetch_and(&readers_at(s, slot)->clients[client / 64], ~(UINT64_C(1) << (client % 64)));
}
