/* Bytes in the segment <-> Python values. */
#include "formats/constants.h"
#include "shared/shared.h"

#include <string.h>

#define FULL_PATIENCE_NS (INT64_C(8) * 1000 * 1000 * 1000) /* how long a full store is waited for */
#define READ_PATIENCE_NS (INT64_C(100) * 1000 * 1000)      /* ... for others that move something */
/* how long idle workers may take to let go of functions that are gone */
#define ANSWER_NS (INT64_C(20) * 1000 * 1000)
#define FULL_PAUSE_MAX_NS (INT64_C(50) * 1000 * 1000)

/* ------------------------------------------------------------------ encoding */

int encode_value(ClientObject *c, Encoded *e, PyObject *value)
{
    codec_out_init(&e->out);
    if (codec_encode(&c->codec, &e->out, value) < 0) {
        codec_out_clear(&e->out);
        return -1;
    }
    e->size = codec_total_size(&e->out);
    return 0;
}

void encoded_clear(Encoded *e) { codec_out_clear(&e->out); }

static bool fits_inline(const Encoded *e) { return e->size <= OBJECT_INLINE_SIZE && !e->out.n_refs; }

static void write_payload(ClientObject *c, uint64_t offset, Encoded *e)
{
    codec_write(&e->out, c->s.base + offset, copy_bytes, c);
    if (e->out.n_refs)
        memcpy(object_refs_at(&c->s, offset, e->size), e->out.refs, e->out.n_refs * sizeof(uint32_t));
}

static uint64_t try_allocate(ClientObject *c, uint64_t size, uint32_t n_refs)
{
    segment_lock(&c->s);
    uint64_t offset = object_allocate(&c->s, size, n_refs);
    segment_unlock(&c->s);
    return offset;
}

/* Whether other tasks are under way: they may give up what they hold, and others may give up their results. */
static bool others_work(ClientObject *c)
{
    uint32_t n_idle = current_task_of(c) != 0; /* ourselves, and constructors that are kept for restarts */
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        n_idle += c->s.clients[i].actor_1 != 0;
    return c->s.h->n_live_tasks > n_idle;
}

/* Tries a last time, so that what it tells is of the moment in which there was no room. */
static uint64_t allocate_or_tell(ClientObject *c, uint64_t size, uint32_t n_refs, const char *why)
{
    const struct header *h = c->s.h;
    const struct arena *a = segment_arena(&c->s);
    char text[OFFLOAD_WHY_SIZE + 2000], disk[OFFLOAD_WHY_SIZE + 1200] = "", pieces[400] = "", shared[100] = "";
    segment_lock(&c->s);
    uint64_t offset = object_allocate(&c->s, size, n_refs);
    uint64_t largest = arena_largest_free(a, c->s.base), used = a->used_bytes, all = a->end - a->begin;
    segment_unlock(&c->s);
    if (offset)
        return offset;
    if (largest < size && size < all - used)
        snprintf(pieces, sizeof pieces,
                 " What is free lies in pieces between values in use, the largest of %llu bytes, and a value lies in "
                 "one piece: make several smaller objects of it, or drop values between the pieces.",
                 (unsigned long long)largest);
    if (why[0])
        snprintf(disk, sizeof disk, " An object could not be moved to disk: %s.", why);
    else if (h->offload_folder[0])
        snprintf(disk, sizeof disk, " %llu bytes lie on disk, in %s, of at most %llu bytes.",
                 (unsigned long long)h->offloaded_bytes, h->offload_folder, (unsigned long long)h->offload_limit);
    if (h->shared_bytes)
        snprintf(shared, sizeof shared, " Of these %llu bytes are shared, which are never moved.",
                 (unsigned long long)h->shared_bytes);
    snprintf(text, sizeof text,
             "an object of %llu bytes does not fit: the object store holds %llu bytes, %llu bytes are in use.%s%s%s",
             (unsigned long long)size, (unsigned long long)all, (unsigned long long)used, shared, pieces, disk);
    raise_store_error(c, why[0] ? "disk" : "full", text);
    return 0;
}

/* Space in the arena, where there was none at once. What this process has let go of but not yet given back comes first,
 * then what can be offloaded; `waits`: then what others may give up while they work. 0: there is none, `why` may say
 * more; or an exception. */
static uint64_t find_space(ClientObject *c, uint64_t size, uint32_t n_refs, int64_t patience, bool waits, char *why)
{
    uint64_t offset;
    flush_drops(c);
    cycle_gc_drop_functions(c);
    if (c->hooks.let_go_arguments) {
        PyObject *gone = PyObject_CallNoArgs(c->hooks.let_go_arguments);
        if (!gone)
            return 0;
        Py_DECREF(gone);
        flush_drops(c);
    }
    bool collected = false, asked = cycle_gc_ask_others(c);
    int64_t end = monotonic_ns() + patience, answered = asked ? monotonic_ns() + ANSWER_NS : 0, pause = 1000 * 1000;
    bool fits = size < c->s.h->arena.end - c->s.h->arena.begin;
    while (!(offset = try_allocate(c, size, n_refs)) && fits) {
        /* also while it waits: others may wait for what lies in its cycles, and it for theirs */
        if (cycle_gc_collect(c, false)) {
            collected = true;
            continue;
        }
        asked = asked && monotonic_ns() < answered;
        int made = asked ? ROOM_SOON : why[0] ? NO_ROOM : make_room(c, why);
        if (made == ROOM_FAILED)
            return 0;
        if (made == SOME_ROOM) {
            end = monotonic_ns() + patience;
            continue;
        }
        if (monotonic_ns() >= end || (made != ROOM_SOON && !(waits && others_work(c))))
            break;
        uint32_t seen = client_inbox(&c->s);
        struct segment *s = &c->s;
        Py_BEGIN_ALLOW_THREADS
        client_sleep(s, seen, pause, NULL);
        Py_END_ALLOW_THREADS
        pause = pause < FULL_PAUSE_MAX_NS ? 2 * pause : FULL_PAUSE_MAX_NS;
        if (PyErr_CheckSignals() < 0 || client_usable(c) < 0)
            return 0;
    }
    if (!offset && fits && !collected && waits)
        cycle_gc_collect(c, true);
    return offset;
}

/* A process that makes too much too fast waits for others a little, unless it serves other machines, which would wait
 * with it. */
uint64_t allocate(ClientObject *c, uint64_t size, uint32_t n_refs)
{
    uint64_t offset = try_allocate(c, size, n_refs);
    if (offset)
        return offset;
    char why[OFFLOAD_WHY_SIZE] = "";
    int64_t patience = c->s.clients[c->s.me].role == ROLE_REMOTE_NODE ? 0 : FULL_PATIENCE_NS;
    offset = find_space(c, size, n_refs, patience, true, why);
    return offset || PyErr_Occurred() || client_usable(c) < 0 ? offset : allocate_or_tell(c, size, n_refs, why);
}

uint64_t allocate_to_read(ClientObject *c, uint64_t size)
{
    uint64_t offset = try_allocate(c, size, 0);
    if (offset)
        return offset;
    char why[OFFLOAD_WHY_SIZE] = "";
    return find_space(c, size, 0, READ_PATIENCE_NS, false, why);
}

static int seal_in_arena(ClientObject *c, uint32_t slot, uint32_t state, Encoded *e)
{
    uint64_t offset = allocate(c, e->size, e->out.n_refs);
    if (!offset)
        return -1;
    write_payload(c, offset, e);
    segment_lock(&c->s);
    if (!object_seal_arena(&c->s, slot, state, offset, e->size, e->out.n_refs))
        arena_free(segment_arena(&c->s), c->s.base, offset);
    segment_unlock(&c->s);
    return 0;
}

int seal_value(ClientObject *c, uint32_t slot, uint32_t state, Encoded *e)
{
    if (!fits_inline(e))
        return seal_in_arena(c, slot, state, e);
    unsigned char bytes[OBJECT_INLINE_SIZE];
    codec_write(&e->out, bytes, NULL, NULL);
    object_seal_inline(&c->s, slot, state, bytes, (uint32_t)e->size);
    return 0;
}

/* ------------------------------------------------------------------ put */

int create_put(ClientObject *c, const Encoded *e, uint32_t origin, enum event_put why, uint32_t *slot)
{
    uint64_t number = c->s.h->next_seq++ | PUT_BIT;
    int error = object_create(&c->s, c->s.me, number, slot);
    if (!error)
        event_write(&c->s, EVENT_PUT, number, *slot, origin, e->size < UINT32_MAX ? (uint32_t)e->size : UINT32_MAX,
                    (uint16_t)why, c->s.me);
    return error;
}

static PyObject *put_encoded(ClientObject *c, Encoded *e, uint32_t state, uint32_t *slot, enum event_put why,
                             bool force_arena)
{
    PyObject *ref = NULL;
    bool in_slot = fits_inline(e) && !force_arena;
    uint32_t origin = current_origin(c);
    segment_lock(&c->s);
    int error = create_put(c, e, origin, why, slot);
    if (error == OBJSTORE_LIMIT) { /* what this process has let go of may not have been given back yet */
        segment_unlock(&c->s);
        flush_drops(c);
        segment_lock(&c->s);
        error = create_put(c, e, origin, why, slot);
    }
    if (!error && in_slot) {
        unsigned char bytes[OBJECT_INLINE_SIZE];
        codec_write(&e->out, bytes, NULL, NULL);
        object_seal_inline(&c->s, *slot, state, bytes, (uint32_t)e->size);
    }
    segment_unlock(&c->s);
    if (error) {
        raise_core_error(c, error, "objects");
    } else if (in_slot || seal_in_arena(c, *slot, state, e) == 0) {
        ref = ref_new(c, *slot, true);
    } else {
        client_drop(&c->s, slot, 1);
    }
    return ref;
}

static PyObject *put_as(ClientObject *c, PyObject *value, uint32_t state, uint32_t *slot, enum event_put why,
                        bool force_arena)
{
    Encoded e;
    if (encode_value(c, &e, value) < 0)
        return NULL;
    PyObject *ref = put_encoded(c, &e, state, slot, why, force_arena);
    encoded_clear(&e);
    return ref;
}

PyObject *put_value(ClientObject *c, PyObject *value, uint32_t *slot, enum event_put why, bool force_arena)
{
    return put_as(c, value, OBJECT_READY, slot, why, force_arena);
}

PyObject *put_error(ClientObject *c, PyObject *description, enum event_put why)
{
    uint32_t slot;
    return put_as(c, description, OBJECT_ERROR, &slot, why, false);
}

/* Whether an object holds what has been encoded. What is offloaded is not read for that. */
static bool holds_encoded(ClientObject *c, RefObject *ref, const Encoded *e)
{
    struct object_slot *o = &c->s.objects[ref->slot];
    if (object_state(o) != OBJECT_READY || o->size != e->size || o->size < OBJECT_MOVABLE)
        return false;
    begin_reading(c, ref->slot);
    uint64_t offset = atomic_load(&o->offset);
    bool same = offset && !(offset & OBJECT_ABSENT) && offset < c->s.size && o->size <= c->s.size - offset &&
                !o->u.arena.n_refs && codec_matches(&e->out, c->s.base + offset);
    end_reading(c, ref->slot);
    return same;
}

/* A ref, or a new one for (slot, generation) if that object is still there; NULL: none, perhaps with an exception. */
static PyObject *living_object(ClientObject *c, PyObject *known)
{
    unsigned int slot, generation;
    if (is_ref(c, known))
        return ((RefObject *)known)->client == c ? Py_NewRef(known) : NULL;
    if (known == Py_None || !PyArg_ParseTuple(known, "II:argument_candidate", &slot, &generation) ||
        slot >= c->s.n_objects)
        return NULL;
    segment_lock(&c->s);
    bool lives = c->s.objects[slot].generation == generation && object_state(&c->s.objects[slot]) == OBJECT_READY;
    if (lives)
        object_hold(&c->s, slot);
    segment_unlock(&c->s);
    return lives ? ref_new(c, slot, true) : NULL;
}

/* An argument that becomes an object of its own: that of an earlier call, if the bytes are the same. */
PyObject *put_shared_encoded(ClientObject *c, PyObject *value, Encoded *e, uint32_t *slot)
{
    PyObject *known = NULL, *before = NULL, *ref = NULL, *size = NULL, *told = NULL;
    bool is_large = e->size >= SHARED_BYTES && !e->out.n_refs && c->hooks.argument_candidate && c->hooks.argument_sent;
    if (is_large && (!(size = PyLong_FromUnsignedLongLong(e->size)) ||
                     !(known = PyObject_CallFunctionObjArgs(c->hooks.argument_candidate, value, size, NULL)) ||
                     (!(before = living_object(c, known)) && PyErr_Occurred())))
        goto done;
    bool compared = before, same = compared && holds_encoded(c, (RefObject *)before, e);
    if (same)
        *slot = ((RefObject *)before)->slot;
    ref = same ? Py_NewRef(before) : put_encoded(c, e, OBJECT_READY, slot, EVENT_AS_ARGUMENT, false);
    if (ref && is_large) {
        told = PyObject_CallFunctionObjArgs(c->hooks.argument_sent, value, size, ref, compared ? Py_True : Py_False,
                                            same ? Py_True : Py_False, NULL);
        if (!told)
            Py_CLEAR(ref);
    }
done:
    Py_XDECREF(size);
    Py_XDECREF(known);
    Py_XDECREF(before);
    Py_XDECREF(told);
    return ref;
}

PyObject *put_shared(ClientObject *c, PyObject *value, uint32_t *slot)
{
    Encoded e;
    if (encode_value(c, &e, value) < 0)
        return NULL;
    PyObject *ref = put_shared_encoded(c, value, &e, slot);
    encoded_clear(&e);
    return ref;
}

/* ------------------------------------------------------------------ reading */

void tell_damage(void *client)
{
    raise_core_error(client, OBJSTORE_CORRUPT, "something has overwritten an object's bytes");
}

static PyObject *decode_inline(ClientObject *c, const struct object_slot *o, enum codec_access access)
{
    codec_source source = {.make_ref = ref_make, .ctx = c, .copy = copy_bytes, .access = access};
    if (o->size > OBJECT_INLINE_SIZE)
        return raise_core_error(c, OBJSTORE_CORRUPT, "an object is larger than its slot");
    return codec_decode(&c->codec, o->u.inline_data, o->size, &source);
}

static PyObject *decode_arena(ClientObject *c, uint32_t slot, uint64_t offset, PyObject *owner, codec_view_fn view,
                              enum codec_access access)
{
    struct object_slot *o = &c->s.objects[slot];
    uint64_t size = o->size, room = offset < c->s.size ? c->s.size - offset : 0, refs_at = (size + 3) & ~UINT64_C(3);
    /* the last one may end where the segment ends */
    uint32_t n_refs = o->u.arena.n_refs < REFS_OF_SYNC ? o->u.arena.n_refs : 0;
    if (size > room || refs_at > room || n_refs > (room - refs_at) / 4)
        return raise_core_error(c, OBJSTORE_CORRUPT, "an object lies outside the segment");
    codec_source source = {.owner = owner,
                           .refs = object_refs_at(&c->s, offset, size),
                           .n_refs = n_refs,
                           .make_ref = ref_make,
                           .ctx = c,
                           .copy = copy_bytes,
                           .view = view,
                           .access = access,
                           .pages = private_pages};
    return codec_decode(&c->codec, c->s.base + offset, size, &source);
}

/* Of a value without references, as all that lies on disk. */
static PyObject *decode_copy(ClientObject *c, PyObject *bytes, enum codec_access access)
{
    codec_source source = {.owner = bytes, .make_ref = ref_make, .ctx = c, .copy = copy_bytes, .access = access};
    return codec_decode(&c->codec, (unsigned char *)PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes), &source);
}

PyObject *decode_slot(ClientObject *c, uint32_t slot, PyObject *owner, enum codec_access access)
{
    struct object_slot *o = &c->s.objects[slot];
    uint64_t offset = atomic_load_explicit(&o->offset, memory_order_relaxed);
    if (!offset)
        return decode_inline(c, o, access);
    if (__builtin_expect(object_in_arena_is_shared(o), 0))
        return shared_reserve() < 0 ? NULL : decode_arena(c, slot, offset, owner, shared_note_view, CODEC_SHARED);
    if (o->size < OBJECT_MOVABLE)
        return decode_arena(c, slot, offset, owner, NULL, access);
    /* from here on it stays where it is seen to be, though for a moment it may be said to be away */
    begin_reading(c, slot);
    if (!atomic_load_explicit(&o->u.arena.used, memory_order_relaxed))
        atomic_store_explicit(&o->u.arena.used, 1, memory_order_relaxed);
    int back = 0;
    PyObject *copy = NULL, *value = NULL;
    while (((offset = atomic_load(&o->offset)) & OBJECT_ABSENT) && back == 0 && !copy)
        back = bring_back(c, slot, &copy);
    if (copy)
        value = decode_copy(c, copy, access);
    else if (back == 0)
        value = decode_arena(c, slot, offset, owner, note_view, access);
    end_reading(c, slot);
    Py_XDECREF(copy);
    return value;
}

bool decodes_at_once(ClientObject *c, uint32_t slot)
{
    struct object_slot *o = &c->s.objects[slot];
    if (object_state(o) != OBJECT_READY)
        return false;
    if (!atomic_load_explicit(&o->offset, memory_order_relaxed))
        return codec_is_quick(o->u.inline_data, o->size < OBJECT_INLINE_SIZE ? o->size : OBJECT_INLINE_SIZE);
    bool movable = o->size >= OBJECT_MOVABLE;
    if (movable)
        begin_reading(c, slot);
    uint64_t offset = atomic_load(&o->offset);
    bool quick = !(offset & OBJECT_ABSENT) && offset < c->s.size && o->size <= c->s.size - offset &&
                 codec_is_quick(c->s.base + offset, o->size);
    if (movable)
        end_reading(c, slot);
    return quick;
}

PyObject *error_description(ClientObject *c, RefObject *ref)
{
    struct object_slot *o = &c->s.objects[ref->slot];
    if (object_state(o) == OBJECT_ERROR)
        return decode_slot(c, ref->slot, (PyObject *)ref, CODEC_OWN);
    return make_record(c, RECORD_FAILURE, "ssiK", "system", failure_name(o->u.failure.code), (int)o->u.failure.detail,
                       (unsigned long long)o->u.failure.seq);
}

PyObject *make_exception(ClientObject *c, RefObject *ref)
{
    PyObject *description = error_description(c, ref);
    if (!description)
        return NULL;
    PyObject *exception = c->hooks.make_error
                              ? PyObject_CallFunctionObjArgs(c->hooks.make_error, description, (PyObject *)ref, NULL)
                              : PyObject_CallOneArg(PyExc_RuntimeError, description);
    Py_DECREF(description);
    if (exception && !PyExceptionInstance_Check(exception)) {
        PyErr_SetString(PyExc_TypeError, "hooks.make_error must return an exception");
        Py_CLEAR(exception);
    }
    return exception;
}

void tell_hook(PyObject *hook, PyObject *kind, PyObject *(*about)(const void *), const void *what)
{
    PyObject *type, *error, *traceback;
    if (!hook || !PyErr_ExceptionMatches(kind))
        return;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback)
        PyException_SetTraceback(error, traceback);
    PyObject *first = PyTuple_Pack(1, error), *others = first ? about(what) : NULL;
    PyObject *args = others ? PySequence_Concat(first, others) : NULL;
    PyObject *result = args ? PyObject_Call(hook, args, NULL) : NULL;
    if (!result)
        PyErr_WriteUnraisable(hook);
    Py_XDECREF(result);
    Py_XDECREF(args);
    Py_XDECREF(others);
    Py_XDECREF(first);
    Py_XDECREF(traceback);
    PyErr_Restore(type, error, PyException_GetTraceback(error)); /* the hook may have shortened it */
}

static PyObject *only_ref(const void *ref) { return PyTuple_Pack(1, (PyObject *)ref); }

PyObject *load_value(ClientObject *c, RefObject *ref, enum codec_access access)
{
    if (object_state(&c->s.objects[ref->slot]) == OBJECT_READY) {
        PyObject *value = decode_slot(c, ref->slot, (PyObject *)ref, access);
        if (__builtin_expect(!value, 0))
            tell_hook(c->hooks.value_failed, PyExc_Exception, only_ref, ref);
        return value;
    }
    PyObject *exception = make_exception(c, ref);
    if (exception)
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    return NULL;
}
