/* Remote node: objects that one machine has told the other of, and their bytes. See core/clients/remote_node.h. */
#include <string.h>

#include "clients/remote_node.h"
#include "formats/constants.h"
#include "objects/offload.h"
#include "remote/remote_node.h"
#include "shared/shared.h"

enum { MOST_LOOKED_AT = 1024 };

/* Some, where nothing has to go for it; 0. */
static uint64_t allocate_free(RemoteNodeObject *p, uint64_t size, uint32_t n_refs)
{
    segment_lock(&p->client->s);
    uint64_t offset = object_allocate(&p->client->s, size, n_refs);
    segment_unlock(&p->client->s);
    return offset;
}

/* Space in the arena, at once: a process that serves other machines must not keep them waiting. 0: an exception. */
static uint64_t allocate_at_once(RemoteNodeObject *p, uint64_t size, uint32_t n_refs)
{
    ClientObject *c = p->client;
    char why[OFFLOAD_WHY_SIZE] = "";
    for (;;) {
        uint64_t offset = allocate_free(p, size, n_refs);
        if (offset)
            return offset;
        int made = make_room(c, why);
        if (made == ROOM_FAILED)
            return 0;
        if (made != SOME_ROOM) {
            raise_core_error(c, OBJSTORE_FULL, "a value from another machine");
            return 0;
        }
    }
}

PyObject *remote_create(RemoteNodeObject *p, PyObject *unused)
{
    (void)unused;
    uint32_t slot;
    if (remote_usable(p) < 0)
        return NULL;
    segment_lock(&p->s);
    int error = remote_create_object(&p->s, &slot);
    segment_unlock(&p->s);
    return error ? raise_core_error(p->client, error, "objects") : PyLong_FromUnsignedLong(slot);
}

uint64_t remote_place_value(RemoteNodeObject *p, const Py_buffer *bytes, const uint32_t *refs, Py_ssize_t n)
{
    uint64_t chunk = allocate_at_once(p, (uint64_t)bytes->len, (uint32_t)n);
    if (chunk) {
        memcpy(p->s.base + chunk, bytes->buf, (size_t)bytes->len);
        memcpy(object_refs_at(&p->s, chunk, (uint64_t)bytes->len), refs, (size_t)n * sizeof *refs);
    }
    return chunk;
}

/* Seals an object with bytes from the other machine. False: it was sealed already. */
PyObject *remote_seal(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number, *list;
    unsigned int state;
    Py_buffer bytes;
    int in_arena = 0;
    if (!PyArg_ParseTuple(args, "OIy*O!|p:seal", &number, &state, &bytes, &PyList_Type, &list, &in_arena))
        return NULL;
    PyObject *result = NULL;
    uint32_t slot, *refs = NULL;
    Py_ssize_t n = 0;
    if (parse_slot(p, number, &slot) < 0 || !(refs = parse_slots(p, list, 0, &n)))
        goto done;
    if (state != OBJECT_READY && state != OBJECT_ERROR) {
        PyErr_Format(PyExc_ValueError, "seal: unknown state %u", state);
        goto done;
    }
    bool sealed;
    if (bytes.len <= (Py_ssize_t)OBJECT_INLINE_SIZE && !n && !in_arena) {
        segment_lock(&p->s);
        sealed = object_seal_inline(&p->s, slot, state, bytes.buf, (uint32_t)bytes.len);
        task_release_waiting(&p->s, slot);
        segment_unlock(&p->s);
    } else {
        uint64_t chunk = remote_place_value(p, &bytes, refs, n);
        if (!chunk)
            goto done;
        segment_lock(&p->s);
        sealed = object_seal_arena(&p->s, slot, state, chunk, (uint64_t)bytes.len, (uint32_t)n);
        if (!sealed)
            arena_free(segment_arena(&p->s), p->s.base, chunk);
        task_release_waiting(&p->s, slot);
        segment_unlock(&p->s);
    }
    result = PyBool_FromLong(sealed);
done:
    PyMem_Free(refs);
    PyBuffer_Release(&bytes);
    return result;
}

PyObject *remote_seal_failed(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number;
    unsigned int code;
    int detail;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OIi:seal_failed", &number, &code, &detail) || parse_slot(p, number, &slot) < 0)
        return NULL;
    segment_lock(&p->s);
    bool sealed = object_seal_failed(&p->s, slot, code, detail, p->s.objects[slot].creator);
    task_release_waiting(&p->s, slot);
    segment_unlock(&p->s);
    return PyBool_FromLong(sealed);
}

PyObject *remote_seal_remote(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number;
    unsigned long long size;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OK:seal_remote", &number, &size) || parse_slot(p, number, &slot) < 0)
        return NULL;
    if (size < OBJECT_MOVABLE || size > ARENA_MAX_SIZE)
        return PyErr_Format(PyExc_ValueError, "an object of %llu bytes cannot stay where it is", size);
    segment_lock(&p->s);
    bool sealed = object_seal_remote(&p->s, slot, size);
    task_release_waiting(&p->s, slot);
    segment_unlock(&p->s);
    return PyBool_FromLong(sealed);
}

PyObject *remote_move(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number;
    int lost;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "Op:move", &number, &lost) || parse_slot(p, number, &slot) < 0)
        return NULL;
    segment_lock(&p->s);
    object_move_remote(&p->s, slot, lost);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

/* Where the bytes of an object are; offloaded ones are here. */
static int place_of(RemoteNodeObject *p, uint32_t slot)
{
    const struct object_slot *o = &p->s.objects[slot];
    return !object_is_remote(o) ? PLACE_HERE : offload_remote_of(&p->s, o) < MAX_CLIENTS ? PLACE_REMOTE : PLACE_LOST;
}

/* An ObjectRecord. */
PyObject *remote_inspect(RemoteNodeObject *p, PyObject *number)
{
    uint32_t slot;
    if (parse_slot(p, number, &slot) < 0)
        return NULL;
    const struct object_slot *o = &p->s.objects[slot];
    uint32_t state = object_state(o);
    bool failed = state == OBJECT_FAILED;
    if (!remote_suits_object(&p->s, slot))
        return PyErr_Format(PyExc_TypeError, "object %u stays on this machine", slot);
    uint32_t n = object_n_refs(&p->s, o);
    PyObject *refs = n ? list_of(object_refs_at(&p->s, object_chunk(o), o->size), n) : PyList_New(0);
    return make_record(p->client, RECORD_OBJECT, "IKNIiiO", state,
                       (unsigned long long)(state >= OBJECT_READY ? o->size : 0), refs, failed ? o->u.failure.code : 0,
                       failed ? (int)o->u.failure.detail : 0, place_of(p, slot),
                       remote_actor_of(p, slot) ? Py_True : Py_False);
}

/* The error that the other machine gets in the place of a shared object, encoded; None: it is not shared. */
PyObject *remote_shared_error(RemoteNodeObject *p, PyObject *number)
{
    uint32_t slot;
    if (parse_slot(p, number, &slot) < 0)
        return NULL;
    PyObject *forms = shared_forms(p->client, slot), *error, *bytes = NULL;
    if (!forms || forms == Py_None)
        return forms;
    Encoded e;
    error = Py_BuildValue("(sN)", "shared", forms);
    if (error && encode_value(p->client, &e, error) == 0) {
        bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)e.size);
        if (bytes)
            codec_write(&e.out, (unsigned char *)PyBytes_AS_STRING(bytes), NULL, NULL);
        encoded_clear(&e);
    }
    Py_XDECREF(error);
    return bytes;
}

/* Some of an object's bytes. */
PyObject *remote_read(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number;
    unsigned long long at;
    Py_ssize_t n;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OKn:read", &number, &at, &n) || parse_slot(p, number, &slot) < 0)
        return NULL;
    struct object_slot *o = &p->s.objects[slot];
    uint32_t state = object_state(o);
    if ((state != OBJECT_READY && state != OBJECT_ERROR) || n < 0 || at > o->size || (uint64_t)n > o->size - at)
        return PyErr_Format(PyExc_ValueError, "object %u has no such bytes", slot);
    if (place_of(p, slot) != PLACE_HERE) /* by this process: it cannot wait for itself */
        return PyErr_Format(PyExc_ValueError, "object %u has to be brought first", slot);
    if (!atomic_load(&o->offset))
        return PyBytes_FromStringAndSize((const char *)o->u.inline_data + at, n);
    bool movable = o->size >= OBJECT_MOVABLE;
    PyObject *copy = NULL;
    int back = movable ? begin_reading_here(p->client, slot, &copy) : 0;
    const char *from = copy ? PyBytes_AS_STRING(copy) : (const char *)p->s.base + object_chunk(o);
    PyObject *bytes = back < 0 ? NULL : PyBytes_FromStringAndSize(from + at, n);
    Py_XDECREF(copy);
    if (movable)
        end_reading(p->client, slot);
    return bytes;
}

PyObject *remote_hold(RemoteNodeObject *p, PyObject *args)
{
    unsigned int slot, generation;
    if (!PyArg_ParseTuple(args, "II:hold", &slot, &generation) || remote_usable(p) < 0)
        return NULL;
    segment_lock(&p->s);
    bool found = object_find(&p->s, slot, generation);
    segment_unlock(&p->s);
    return PyBool_FromLong(found);
}

PyObject *remote_generation(RemoteNodeObject *p, PyObject *number)
{
    uint32_t slot;
    if (parse_slot(p, number, &slot) < 0)
        return NULL;
    return PyLong_FromUnsignedLong(p->s.objects[slot].generation);
}

PyObject *remote_drop(RemoteNodeObject *p, PyObject *list)
{
    Py_ssize_t n;
    uint32_t *slots = parse_slots(p, list, 0, &n);
    if (!slots)
        return NULL;
    client_drop(&p->s, slots, (uint32_t)n);
    PyMem_Free(slots);
    Py_RETURN_NONE;
}

/* Asks to be woken when it is sealed. False: it is. */
PyObject *remote_await(RemoteNodeObject *p, PyObject *number)
{
    uint32_t slot;
    if (parse_slot(p, number, &slot) < 0)
        return NULL;
    atomic_store(&p->s.clients[p->s.me].need, 0); /* every seal is news */
    return PyBool_FromLong(object_mark_waiting(&p->s, slot));
}

static bool is_sealed(const struct segment *s, uint32_t slot) { return object_sealed(&s->objects[slot]); }

/* Those of a list of objects of which something is true. */
static PyObject *those(RemoteNodeObject *p, PyObject *list, bool (*holds)(const struct segment *, uint32_t),
                       bool locked)
{
    Py_ssize_t n, n_found = 0;
    uint32_t *slots = parse_slots(p, list, 0, &n);
    if (!slots)
        return NULL;
    for (Py_ssize_t i = 0; i < n;) { /* not all of a long list under the lock at once */
        if (locked)
            segment_lock(&p->s);
        for (Py_ssize_t end = i + MOST_LOOKED_AT; i < n && i < end; i++)
            if (holds(&p->s, slots[i]))
                slots[n_found++] = slots[i];
        if (locked)
            segment_unlock(&p->s);
    }
    PyObject *found = list_of(slots, n_found);
    PyMem_Free(slots);
    return found;
}

PyObject *remote_sealed(RemoteNodeObject *p, PyObject *list) { return those(p, list, is_sealed, false); }
PyObject *remote_unused(RemoteNodeObject *p, PyObject *list) { return those(p, list, remote_holds_alone, true); }
PyObject *remote_wanted(RemoteNodeObject *p, PyObject *list) { return those(p, list, remote_is_wanted, false); }

/* ------------------------------------------------------------------ bringing what lies there */

/* Begins: memory for it, as a number; 0: it is here, or being brought, or there is no room and none is to be made. */
PyObject *remote_begin(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number;
    int makes_room = 1;
    uint32_t slot;
    struct offload_move move;
    if (!PyArg_ParseTuple(args, "O|p:begin", &number, &makes_room) || parse_slot(p, number, &slot) < 0)
        return NULL;
    segment_lock(&p->s);
    int error = offload_claim(&p->s, slot, &move);
    segment_unlock(&p->s);
    if (error)
        return PyLong_FromLong(0);
    uint64_t chunk = makes_room ? allocate_at_once(p, move.size, 0) : allocate_free(p, move.size, 0);
    if (!chunk) {
        segment_lock(&p->s);
        offload_give_up(&p->s, slot);
        segment_unlock(&p->s);
        return PyErr_Occurred() ? NULL : PyLong_FromLong(0);
    }
    return PyLong_FromUnsignedLongLong(chunk);
}

PyObject *remote_fill(RemoteNodeObject *p, PyObject *args)
{
    unsigned long long chunk, at;
    Py_buffer bytes;
    PyObject *number;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OKKy*:fill", &number, &chunk, &at, &bytes))
        return NULL;
    bool ok = parse_slot(p, number, &slot) == 0;
    if (ok && (at > p->s.objects[slot].size || (uint64_t)bytes.len > p->s.objects[slot].size - at)) {
        PyErr_SetString(PyExc_ValueError, "fill: beyond the object's end");
        ok = false;
    }
    if (ok) {
        unsigned char *to = p->s.base + chunk + at;
        Py_BEGIN_ALLOW_THREADS
        memcpy(to, bytes.buf, (size_t)bytes.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&bytes);
    if (!ok)
        return NULL;
    Py_RETURN_NONE;
}

/* Some of the bytes that have come, for another machine that gets them from here. */
PyObject *remote_peek(RemoteNodeObject *p, PyObject *args)
{
    unsigned long long chunk, at;
    Py_ssize_t n;
    PyObject *number;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OKKn:peek", &number, &chunk, &at, &n) || parse_slot(p, number, &slot) < 0)
        return NULL;
    uint64_t size = p->s.objects[slot].size;
    if (n < 0 || at > size || (uint64_t)n > size - at)
        return PyErr_Format(PyExc_ValueError, "peek: beyond the object's end");
    return PyBytes_FromStringAndSize((const char *)p->s.base + chunk + at, n);
}

/* Ends it: the bytes are complete, or come to nothing. */
PyObject *remote_end(RemoteNodeObject *p, PyObject *args)
{
    unsigned long long chunk;
    PyObject *number;
    int complete;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OKp:end", &number, &chunk, &complete) || parse_slot(p, number, &slot) < 0)
        return NULL;
    struct offload_move move = {
        .slot = slot, .generation = p->s.objects[slot].generation, .size = p->s.objects[slot].size};
    segment_lock(&p->s);
    if (complete) {
        offload_return(&p->s, &move, chunk);
    } else {
        offload_give_up(&p->s, slot);
        arena_free(segment_arena(&p->s), p->s.base, chunk);
    }
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

/* For the record. */
PyObject *remote_transfer(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number;
    unsigned long long size;
    unsigned int journey;
    int comes;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OKIp:transfer", &number, &size, &journey, &comes) || parse_slot(p, number, &slot) < 0)
        return NULL;
    segment_lock(&p->s);
    remote_record_transfer(&p->s, slot, size, journey, comes);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

PyObject *remote_transferred(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number;
    unsigned int journey;
    int comes, complete;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OIpp:transferred", &number, &journey, &comes, &complete) ||
        parse_slot(p, number, &slot) < 0)
        return NULL;
    segment_lock(&p->s);
    remote_record_transferred(&p->s, slot, journey, comes, complete);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}
