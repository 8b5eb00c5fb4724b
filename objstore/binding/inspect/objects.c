/* The table of objects, and one object with its task. */
#include "inspect/inspect.h"

#include <string.h>

PyObject *object_id(ClientObject *c, uint32_t slot, uint32_t generation)
{
    char text[33];
    snprintf(text, sizeof text, "%016llx%08x%08x", (unsigned long long)c->s.h->session, slot, generation);
    return PyUnicode_FromString(text);
}

static const char *place_name(const struct object_slot *o)
{
    uint32_t state = object_state(o);
    return (state != OBJECT_READY && state != OBJECT_ERROR) || !atomic_load(&o->offset) ? "slot"
           : object_is_absent(o)                                                        ? "disk"
           : object_is_shared(o)                                                        ? "shared"
                                                                                        : "memory";
}

/* "memory" has what is shared, too. */
static bool lies_in(const struct object_slot *o, const char *place)
{
    const char *name = place_name(o);
    return !place[0] || !strcmp(place, name) || (!strcmp(place, "memory") && !strcmp(name, "shared"));
}

/* Where its bytes lie in this process, 0: not in the arena. */
static unsigned long long address_of(const ClientObject *c, const struct object_slot *o)
{
    uint32_t state = object_state(o);
    uint64_t chunk = state == OBJECT_READY || state == OBJECT_ERROR ? object_chunk(o) : 0;
    return chunk ? (unsigned long long)(uintptr_t)(c->s.base + chunk) : 0;
}

static PyObject *holder_list(const struct object_slot *o)
{
    PyObject *list = PyList_New(0);
    bool ok = list;
    for (uint32_t i = 0; ok && i < MAX_CLIENTS; i++)
        if (atomic_load(&o->holders[i / 64]) >> (i % 64) & 1)
            ok = list_add(list, PyLong_FromUnsignedLong(i));
    return list_done(list, ok);
}

static PyObject *client_objects(ClientObject *c, PyObject *args)
{
    unsigned int limit = 10000, first = 0;
    unsigned long long at_least = 0;
    const char *place = "";
    if (!PyArg_ParseTuple(args, "|IKIs:objects", &limit, &at_least, &first, &place) || client_usable(c) < 0)
        return NULL;
    flush_drops(c);
    uint32_t n = used_slots(c->s.h->touched_objects, c->s.n_objects);
    struct object_slot *copy = new_copy(PAGE_SLOTS, sizeof *copy);
    PyObject *list = copy ? PyList_New(0) : NULL;
    bool ok = list;
    for (uint32_t begin = first, end; ok && begin < n && PyList_GET_SIZE(list) < limit; begin = end) {
        end = page_end(begin, n);
        segment_lock(&c->s);
        memcpy(copy, c->s.objects + begin, (end - begin) * sizeof *copy);
        segment_unlock(&c->s);
        for (uint32_t i = 0; ok && i < end - begin && PyList_GET_SIZE(list) < limit; i++) {
            const struct object_slot *o = &copy[i];
            uint32_t state = object_state(o);
            if (state != OBJECT_FREE && o->size >= at_least && lies_in(o, place))
                ok = list_add(list,
                              Py_BuildValue("{sIsNsssKsssKsKsNsI}", "slot", begin + i, "id",
                                            object_id(c, begin + i, o->generation), "state", object_state_name(state),
                                            "size", (unsigned long long)o->size, "place", place_name(o), "address",
                                            address_of(c, o), "creator", (unsigned long long)o->creator, "holders",
                                            holder_list(o), "pins", o->pins));
        }
    }
    PyMem_Free(copy);
    return list_done(list, ok);
}

PyObject *client_info(ClientObject *c, PyObject *args)
{
    if (!is_ref(c, args))
        return PyErr_Format(PyExc_TypeError, "info expects an ObjectRef, not %R", args);
    if (lock_to_inspect(c) < 0)
        return NULL;
    RefObject *ref = (RefObject *)args;
    struct object_slot *o = &c->s.objects[ref->slot];
    struct task_slot t;
    bool has_task = false;
    uint32_t state = object_state(o);
    uint32_t task = task_producing(&c->s, ref->slot);
    bool sound = object_is_safe(&c->s, ref->slot) && (task == UINT32_MAX || task_is_safe(&c->s, task));
    if (!sound && end_inspect(c, false) < 0)
        return NULL;
    if (task != UINT32_MAX) {
        t = c->s.tasks[task];
        has_task = true;
    }
    uint32_t failure = state == OBJECT_FAILED ? o->u.failure.code : 0;
    uint64_t chunk = object_chunk(o);
    const char *encoding = state != OBJECT_READY || object_is_absent(o)
                               ? "" /* its bytes are not worth bringing back */
                               : codec_encoding_name(chunk ? c->s.base + chunk : o->u.inline_data, (size_t)o->size);
    segment_unlock(&c->s);
    bool runs = has_task && atomic_load(&t.state) == TASK_RUNNING && t.worker < MAX_CLIENTS;
    bool sent = runs && is_sent(&c->s, &t);
    const char *name = state == OBJECT_READY          ? "finished"
                       : failure == FAILURE_CANCELLED ? "cancelled"
                       : state != OBJECT_PENDING      ? "failed"
                       : !has_task                    ? "waiting"
                       : sent                         ? task_state_name(TASK_READY)
                                                      : word_of(&t, atomic_load(&t.state));
    return Py_BuildValue("{sNsssKsssssKsNsIsisIsOsIsisdsisOsO}", "id", object_id(c, ref->slot, ref->generation),
                         "state", name, "size", (unsigned long long)(state == OBJECT_PENDING ? 0 : o->size), "kind",
                         !atomic_load(&o->offset) ? "inline"
                         : object_is_absent(o)    ? "disk"
                         : object_is_shared(o)    ? "shared"
                                                  : "arena",
                         "encoding", encoding, "creator", (unsigned long long)o->creator, "name",
                         has_task ? function_name(c, t.function) : Py_NewRef(Py_None), "attempt",
                         has_task ? (unsigned)t.attempt : 0u, "pid", runs ? (int)pid_of_worker(&c->s, t.worker) : 0,
                         "origin", has_task ? t.origin : 0u, "put", o->creator & PUT_BIT ? Py_True : Py_False,
                         "n_returns", has_task ? (unsigned)t.n_returns : 1u, "actor",
                         has_task ? (int)t.actor_1 - 1 : -1, "waits_s", has_task ? waits_s(&c->s, task) : 0.0,
                         "most_attempts", has_task ? (int)retry_most_attempts(&t) : 0, "blocked",
                         runs && t.flags & TASK_FLAG_BLOCKED ? Py_True : Py_False, "sent", sent ? Py_True : Py_False);
}

static PyObject *client_peek(ClientObject *c, PyObject *args)
{
    unsigned int slot, generation;
    if (!PyArg_ParseTuple(args, "II:peek", &slot, &generation) || lock_to_inspect(c) < 0)
        return NULL;
    bool there = false;
    if (slot < c->s.n_objects && !object_is_safe(&c->s, slot) && end_inspect(c, false) < 0)
        return NULL;
    if (slot < c->s.h->touched_objects) {
        struct object_slot *o = &c->s.objects[slot];
        there = object_state(o) == OBJECT_READY && (o->generation & 0xffff) == (generation & 0xffff);
        if (there)
            object_hold(&c->s, slot);
    }
    segment_unlock(&c->s);
    if (!there)
        Py_RETURN_NONE;
    PyObject *ref = ref_new(c, slot, true), *value = ref ? decode_slot(c, slot, ref, CODEC_OWN) : NULL;
    Py_XDECREF(ref);
    return value;
}

PyMethodDef object_listing_methods[] = {
    {"objects", (PyCFunction)client_objects, METH_VARARGS,
     "objects(limit=10000, at_least=0, first=0, place=\"\", /)\n--\n\nLiving objects of `at_least` bytes, from slot "
     "`first` on, that lie in `place`: \"memory\", \"shared\", \"disk\", \"slot\" or, \"\", anywhere."},
    {"info", (PyCFunction)client_info, METH_O, "info(ref, /)\n--\n\nWhat is known of an object and its task."},
    {"peek", (PyCFunction)client_peek, METH_VARARGS,
     "peek(slot, generation16, /)\n--\n\nA function object's value, by its slot and the lower 16 bits of its "
     "generation, or None."},
    {NULL}};
