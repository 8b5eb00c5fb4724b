/* Objects: values put, and refs to objects that are known by their place or their creator. */
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

static PyObject *client_set_context_object(ClientObject *c, PyObject *value)
{
    uint32_t slot;
    PyObject *ref = client_usable(c) < 0 ? NULL : put_value(c, value, &slot, EVENT_BY_PUT, false);
    if (ref)
        client_set_context(&c->s, slot);
    return ref;
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
    {"set_context", (PyCFunction)client_set_context_object, METH_O,
     "set_context(value, /)\n--\n\nPuts what workers find when they start, and replaces those there are; keep the "
     "ref."},
    {"context", (PyCFunction)client_context_object, METH_NOARGS, "context()\n--\n\nWhat set_context has put, or None."},
    {"ref_at", (PyCFunction)client_ref_at, METH_O, "ref_at(slot, /)\n--\n\nA ref to what a slot holds."},
    {"ref_of", (PyCFunction)client_ref_of, METH_O,
     "ref_of(number, /)\n--\n\nThe first living object that a task or put made, or None."},
    {"find_ref", (PyCFunction)client_find_ref, METH_VARARGS,
     "find_ref(slot, generation, /)\n--\n\nA ref to the object that these stand for, or None if it has gone."},
    {NULL}};
