#include "objects/verify_object.h"

#include "objects/object.h"
#include "objects/shared_sync.h"

bool verify_object(struct verifier *v, uint32_t i)
{
    struct segment *s = v->s;
    const struct object_slot *o = &s->objects[i];
    uint32_t state = object_state(o);
    if (state > OBJECT_FAILED)
        return verify_failed(v, "the state of object", i);
    if (state == OBJECT_FREE || state == OBJECT_PENDING || state == OBJECT_FAILED)
        return true;
    uint64_t chunk = object_chunk(o);
    if (object_is_absent(o))
        return (state == OBJECT_READY && o->size <= ARENA_MAX_SIZE && !o->u.arena.n_refs && !o->u.arena.actor_1) ||
               verify_failed(v, "the fields of an object that is not in memory", i);
    if (!chunk)
        return o->size <= OBJECT_INLINE_SIZE || verify_failed(v, "the size of object", i);
    if (o->size > ARENA_MAX_SIZE || !arena_holds(&s->h->arena, s->base, chunk, o->size))
        return verify_failed(v, "the place of object", i);
    bool is_stream = o->u.arena.n_refs == REFS_OF_STREAM, is_shared = object_is_shared(o);
    if (o->u.arena.n_refs == REFS_OF_SYNC && (o->size != sizeof(struct shared_sync) || !sync_at(s, i, 0)))
        return verify_failed(v, "the primitive in object", i);
    if ((is_shared && o->u.arena.actor_1) || (state == OBJECT_ERROR && o->u.arena.n_refs >= REFS_OF_SYNC))
        return verify_failed(v, "what is shared in object", i);
    if (is_stream && (o->size != sizeof(struct stream) || stream_at(s, chunk)->capacity < stream_at(s, chunk)->n))
        return verify_failed(v, "the stream in object", i);
    uint64_t n_refs = object_n_refs(s, o), most = is_stream ? stream_at(s, chunk)->capacity : n_refs;
    if (!arena_holds(&s->h->arena, s->base, chunk, ((o->size + 3) & ~UINT64_C(3)) + most * 4))
        return verify_failed(v, "the number of references of object", i);
    if (is_stream &&
        (stream_at(s, chunk)->waiting_1 > MAX_CLIENTS || stream_at(s, chunk)->next < stream_at(s, chunk)->first))
        return verify_failed(v, "the stream in object", i);
    if (!is_stream && o->u.arena.actor_1 > s->h->touched_actors)
        return verify_failed(v, "the actor of object", i);
    for (uint64_t k = 0; k < n_refs; k++)
        if (!verify_is_object(s, object_refs_at(s, chunk, o->size)[k]))
            return verify_failed(v, "a reference of object", i);
    return true;
}

bool object_is_safe(struct segment *s, uint32_t i)
{
    struct verifier v = {s, NULL, 0};
    segment_arena(s);
    return i < s->n_objects && verify_object(&v, i);
}
