/* Objects: values put, and refs to objects that are known by their place or their creator. */
#include "codec/internal.h"
#include "inspect/inspect.h"

static PyObject *client_put(ClientObject *c, PyObject *value)
{
    uint32_t slot;
    return client_usable(c) < 0 ? NULL : put_value(c, value, &slot, EVENT_BY_PUT, false);
}

static PyObject *client_put_argument(ClientObject *c, PyObject *value)
{
    uint32_t slot;
    return client_usable(c) < 0 ? NULL : put_value(c, value, &slot, EVENT_AS_ARGUMENT, false);
}

static PyObject *client_flush(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    flush_drops(c);
    Py_RETURN_NONE;
}

static PyObject *client_set_context_object(ClientObject *c, PyObject *args)
{
    uint32_t slot;
    PyObject *value;
    int retires;
    if (!PyArg_ParseTuple(args, "Op:set_context", &value, &retires))
        return NULL;
    PyObject *ref = client_usable(c) < 0 ? NULL : put_value(c, value, &slot, EVENT_BY_PUT, false);
    if (ref)
        client_set_context(&c->s, slot, retires);
    return ref;
}

static PyObject *client_replace_all_workers(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    client_replace_workers(&c->s);
    Py_RETURN_NONE;
}

static PyObject *client_context_object(ClientObject *c, PyObject *unused)
{
    (void)unused;
    uint32_t slot;
    if (client_usable(c) < 0)
        return NULL;
    if (!client_context(&c->s, &slot))
        Py_RETURN_NONE;
    PyObject *ref = ref_new(c, slot, true), *value = ref ? load_value(c, (RefObject *)ref, CODEC_OWN) : NULL;
    Py_XDECREF(ref);
    return value;
}

/* A ref to what a slot holds. */
static PyObject *client_ref_at(ClientObject *c, PyObject *number)
{
    unsigned long slot = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() || lock_to_inspect(c) < 0)
        return NULL;
    bool found = slot < c->s.h->touched_objects && object_state(&c->s.objects[slot]) != OBJECT_FREE;
    if (found)
        object_hold(&c->s, (uint32_t)slot);
    segment_unlock(&c->s);
    return found ? ref_new(c, (uint32_t)slot, true) : PyErr_Format(PyExc_ValueError, "there is no object %lu", slot);
}

/* The encoded bytes of an object, where they lie; the view keeps them there. */
static PyObject *client_view(ClientObject *c, PyObject *arg)
{
    if (client_usable(c) < 0)
        return NULL;
    if (!is_ref(c, arg) || ((RefObject *)arg)->client != c)
        return PyErr_Format(PyExc_TypeError, "view() takes a ref of this client, not %.100R", arg);
    uint32_t slot = ((RefObject *)arg)->slot;
    struct object_slot *o = &c->s.objects[slot];
    if (object_state(o) != OBJECT_READY && object_state(o) != OBJECT_ERROR)
        return PyErr_Format(PyExc_ValueError, "object %u has no bytes", slot);
    if (!atomic_load(&o->offset))
        return PyBytes_FromStringAndSize((const char *)o->u.inline_data, (Py_ssize_t)o->size);
    bool movable = o->size >= OBJECT_MOVABLE;
    PyObject *copy = NULL, *view = NULL;
    int back = movable ? begin_reading_here(c, slot, &copy) : 0;
    if (back == 0 && !copy)
        view = buffer_new(arg, movable ? note_view : NULL, c->s.base + object_chunk(o), o->size, false, NULL);
    if (movable)
        end_reading(c, slot);
    return copy ? copy : view;
}

static PyObject *client_ref_of(ClientObject *c, PyObject *args)
{
    unsigned long long creator = PyLong_AsUnsignedLongLong(args);
    if (PyErr_Occurred() || client_usable(c) < 0)
        return NULL;
    uint32_t n = used_slots(c->s.h->touched_objects, c->s.n_objects), found = UINT32_MAX;
    for (uint32_t begin = 0, end; begin < n && found == UINT32_MAX; begin = end) {
        end = page_end(begin, n);
        segment_lock(&c->s);
        for (uint32_t i = begin; i < end && found == UINT32_MAX; i++)
            if (c->s.objects[i].creator == creator && object_state(&c->s.objects[i]) != OBJECT_FREE) {
                object_hold(&c->s, i);
                found = i;
            }
        segment_unlock(&c->s);
    }
    if (found == UINT32_MAX)
        Py_RETURN_NONE;
    return ref_new(c, found, true);
}

static PyObject *client_find_ref(ClientObject *c, PyObject *args)
{
    unsigned int slot, generation;
    if (!PyArg_ParseTuple(args, "II:find_ref", &slot, &generation) || client_usable(c) < 0)
        return NULL;
    flush_drops(c); /* else it would be there or not by what has been dropped since */
    if (lock_to_inspect(c) < 0)
        return NULL;
    bool found = slot < c->s.h->touched_objects && object_find(&c->s, slot, generation);
    segment_unlock(&c->s);
    if (!found)
        Py_RETURN_NONE;
    return ref_new(c, slot, true);
}

PyMethodDef object_methods[] = {
    {"put", (PyCFunction)client_put, METH_O, "put(value, /)\n--\n\nStores a value, returns its ObjectRef."},
    {"put_argument", (PyCFunction)client_put_argument, METH_O,
     "put_argument(value, /)\n--\n\nThe same for a value that goes with a call; panels say so."},
    {"flush", (PyCFunction)client_flush, METH_NOARGS,
     "flush()\n--\n\nGives back dropped references that are still buffered."},
    {"set_context", (PyCFunction)client_set_context_object, METH_VARARGS,
     "set_context(value, retires, /)\n--\n\nPuts what workers find when they start; if it `retires` those that have "
     "started, others replace them. Keep the ref."},
    {"replace_workers", (PyCFunction)client_replace_all_workers, METH_NOARGS,
     "replace_workers()\n--\n\nHas workers leave for new ones: idle ones now, busy ones after their task, actors not."},
    {"context", (PyCFunction)client_context_object, METH_NOARGS, "context()\n--\n\nWhat set_context has put, or None."},
    {"ref_at", (PyCFunction)client_ref_at, METH_O, "ref_at(slot, /)\n--\n\nA ref to what a slot holds."},
    {"view", (PyCFunction)client_view, METH_O,
     "view(ref, /)\n--\n\nThe encoded bytes of an object, which stay where they are as long as there is a view."},
    {"ref_of", (PyCFunction)client_ref_of, METH_O,
     "ref_of(number, /)\n--\n\nThe first living object that a task or put made, or None."},
    {"find_ref", (PyCFunction)client_find_ref, METH_VARARGS,
     "find_ref(slot, generation, /)\n--\n\nA ref to the object that these stand for, or None if it has gone."},
    {NULL}};
