#include "objects/stream.h"

#include <string.h>

/* The struct stream of a stream object. If there is none, the segment is condemned, and the result is a stream without
 * references. */
static struct stream *stream_in(const struct segment *s, uint32_t object)
{
    const struct object_slot *o = object_at(s, object);
    uint64_t chunk = object_is_stream(o) ? object_chunk(o) : 0;
    struct stream *stream = stream_at(s, chunk);
    bool is_sound = segment_holds(s, chunk, sizeof *stream) && stream->n <= stream->capacity &&
                    segment_holds(s, chunk, sizeof *stream + (uint64_t)stream->capacity * 4) &&
                    stream->next >= stream->first;
    return is_sound ? stream : segment_stray(s);
}

static uint32_t *refs_of(const struct segment *s, uint32_t object)
{
    return (uint32_t *)(void *)(stream_in(s, object) + 1);
}

static bool is_forsaken(const struct object_slot *o) { return o->pins <= 1 && !object_held(o); }

/* The number of the next item. A client that died while it took an item may have replaced the item without advancing.
 */
static uint64_t next_of(struct segment *s, uint32_t object)
{
    struct stream *stream = stream_in(s, object);
    const uint32_t *refs = refs_of(s, object);
    for (uint64_t place = stream->next - stream->first + 1; place < stream->n && refs[place] == refs[0]; place++)
        stream->next++;
    return stream->next;
}

static uint32_t capacity_at(const struct segment *s, uint64_t offset)
{
    return (uint32_t)((arena_chunk_size(s->base, offset) - sizeof(struct stream)) / 4);
}

/* ------------------------------------------------------------------ making */

int stream_create(struct segment *s, uint32_t limit, uint32_t *object)
{
    uint64_t offset = object_allocate(s, sizeof(struct stream), 2);
    if (!offset)
        return OBJSTORE_FULL;
    int error = object_create(s, s->me, s->h->next_seq++ | PUT_BIT, object);
    if (error) {
        arena_free(segment_arena(s), s->base, offset);
        return error;
    }
    struct object_slot *o = object_at(s, *object);
    *stream_at(s, offset) = (struct stream){.capacity = capacity_at(s, offset), .limit = limit};
    o->u.arena.n_refs = REFS_OF_STREAM;
    o->u.arena.actor_1 = 0;
    o->size = sizeof(struct stream);
    object_set_offset(o, offset);
    STEP();
    atomic_store(&o->state, OBJECT_READY);
    STEP();
    arena_set_owner(s->base, offset, ARENA_OBJECT, *object);
    STEP();
    return OBJSTORE_OK;
}

void stream_begin(struct segment *s, uint32_t object, uint32_t result)
{
    refs_of(s, object)[0] = result;
    STEP();
    stream_in(s, object)->n = 1;
    STEP();
    object_pin(s, result);
}

/* ------------------------------------------------------------------ items */

/* Makes room for another reference. Items that have been taken are dropped where the chunk must be copied anyway. */
static int reserve(struct segment *s, uint32_t object)
{
    struct object_slot *o = object_at(s, object);
    uint64_t old = o->offset;
    const struct stream *from = stream_in(s, object);
    if (!from->n)
        return OBJSTORE_NOT_FOUND;
    if (from->n < from->capacity)
        return OBJSTORE_OK;
    uint32_t n_taken = (uint32_t)(next_of(s, object) - from->first), n = from->n - n_taken;
    uint64_t offset = object_allocate(s, sizeof(struct stream), n * 2);
    if (!offset)
        return OBJSTORE_FULL;
    struct stream *to = stream_at(s, offset);
    *to = *from;
    to->n = n;
    to->first = from->next;
    to->capacity = capacity_at(s, offset);
    uint32_t *refs = refs_of(s, object), *copies = object_refs_at(s, offset, sizeof *to), result = refs[0];
    copies[0] = result;
    memcpy(copies + 1, refs + 1 + n_taken, (n - 1) * sizeof *copies);
    STEP();
    object_set_offset(o, offset); /* the commit */
    STEP();
    arena_set_owner(s->base, offset, ARENA_OBJECT, object);
    STEP();
    arena_free(segment_arena(s), s->base, old);
    for (uint32_t i = 0; i < n_taken; i++)
        object_unpin(s, result);
    return OBJSTORE_OK;
}

static int add_item(struct segment *s, uint32_t object, uint32_t *item)
{
    int error = reserve(s, object);
    if (error)
        return error;
    const struct object_slot *result = object_at(s, refs_of(s, object)[0]);
    error = object_create(s, UINT32_MAX, result->creator, item);
    if (error)
        return error;
    struct stream *stream = stream_in(s, object);
    /* so that a wait for it can say why */
    object_at(s, *item)->u.pending.task_1 = object_producer_1(result);
    refs_of(s, object)[stream->n] = *item;
    STEP();
    stream->n++;
    STEP();
    object_pin(s, *item);
    return OBJSTORE_OK;
}

/* ------------------------------------------------------------------ the writer's side */

int stream_item(struct segment *s, uint32_t object, uint64_t index, uint32_t *item)
{
    if (is_forsaken(object_at(s, object)))
        return OBJSTORE_CLOSED;
    const struct stream *stream = stream_in(s, object);
    if (index < next_of(s, object))
        return OBJSTORE_EXISTS;
    uint64_t place = index - stream->first + 1;
    if (place < stream->n)
        *item = refs_of(s, object)[place];
    else {
        int error = add_item(s, object, item);
        if (error)
            return error;
    }
    return object_sealed(object_at(s, *item)) ? OBJSTORE_EXISTS : OBJSTORE_OK;
}

bool stream_has_room(struct segment *s, uint32_t object, uint64_t n)
{
    struct stream *stream = stream_in(s, object);
    if (!stream->limit || n < stream->next + stream->limit || is_forsaken(object_at(s, object)))
        return true;
    stream->waiting_1 = s->me + 1;
    return false;
}

void stream_end(struct segment *s, uint32_t object, uint64_t seq)
{
    const struct stream *stream = stream_in(s, object);
    const uint32_t *refs = refs_of(s, object);
    for (uint32_t i = stream->n; i-- > 1 && !object_sealed(object_at(s, refs[i]));)
        object_seal_failed(s, refs[i], FAILURE_STREAM_ENDED, 0, seq);
}

static void wake_task(struct segment *s, struct stream *stream)
{
    if (stream->waiting_1)
        wake_client(s, stream->waiting_1 - 1);
    stream->waiting_1 = 0;
}

void stream_released(struct segment *s, uint32_t object)
{
    struct object_slot *o = object_at(s, object);
    if (is_forsaken(o))
        wake_task(s, stream_in(s, object));
}

/* ------------------------------------------------------------------ the reader's side */

static bool marks_end(const struct object_slot *o)
{
    return object_state(o) == OBJECT_FAILED && o->u.failure.code == FAILURE_STREAM_ENDED;
}

int stream_peek(struct segment *s, uint32_t object, uint32_t *item)
{
    const struct stream *stream = stream_in(s, object);
    const uint32_t *refs = refs_of(s, object);
    if (!stream->n)
        return OBJSTORE_NOT_FOUND; /* its submitter died while it submitted the task */
    const struct object_slot *result = object_at(s, refs[0]);
    uint64_t place = next_of(s, object) - stream->first + 1;
    if (place < stream->n && !marks_end(object_at(s, refs[place]))) {
        *item = refs[place];
    } else if (object_sealed(result)) {
        if (object_state(result) == OBJECT_READY || stream->error_told)
            return OBJSTORE_NOT_FOUND;
        *item = refs[0];
    } else {
        int error = add_item(s, object, item);
        if (error)
            return error;
    }
    object_hold(s, *item);
    return OBJSTORE_OK;
}

bool stream_take(struct segment *s, uint32_t object, uint32_t item)
{
    struct stream *stream = stream_in(s, object);
    uint32_t *refs = refs_of(s, object);
    if (item == refs[0]) {
        bool told = stream->error_told;
        stream->error_told = 1;
        return !told;
    }
    uint64_t place = stream->next - stream->first + 1;
    if (place >= stream->n || refs[place] != item || !object_sealed(object_at(s, item)) ||
        marks_end(object_at(s, item)))
        return false;
    STEP();
    refs[place] = refs[0];
    STEP();
    stream->next++;
    object_pin(s, refs[0]);
    object_unpin(s, item);
    wake_task(s, stream);
    return true;
}

/* ------------------------------------------------------------------ a reader on another machine */

int stream_ahead(struct segment *s, uint32_t object, uint64_t index, uint32_t *item)
{
    const struct stream *stream = stream_in(s, object);
    const uint32_t *refs = refs_of(s, object);
    if (!stream->n || index < stream->first)
        return OBJSTORE_NOT_FOUND;
    uint64_t place = index - stream->first + 1;
    bool ended = object_sealed(object_at(s, refs[0]));
    if (place > stream->n || (place == stream->n && ended))
        return OBJSTORE_NOT_FOUND;
    if (place == stream->n)
        return add_item(s, object, item);
    *item = refs[place];
    bool is_there = *item != refs[0] && object_sealed(object_at(s, *item)) && !marks_end(object_at(s, *item));
    return is_there || !ended ? OBJSTORE_OK : OBJSTORE_NOT_FOUND;
}

void stream_advance(struct segment *s, uint32_t object, uint64_t n)
{
    while (next_of(s, object) < n) {
        const struct stream *stream = stream_in(s, object);
        uint64_t place = stream->next - stream->first + 1;
        if (place >= stream->n || !stream_take(s, object, refs_of(s, object)[place]))
            return;
    }
}

uint64_t stream_n_taken(struct segment *s, uint32_t object)
{
    return is_forsaken(object_at(s, object)) ? STREAM_FORSAKEN : next_of(s, object);
}

uint32_t stream_limit(struct segment *s, uint32_t object) { return stream_in(s, object)->limit; }
