/* What a store needs that has no local scheduler: to find an object by its id, and to clean up after those that
 * leave. */
#include "binding.h"

#include <inttypes.h>
#include <stdio.h>

/* find(hex) -> Ref or None */
static PyObject *client_find(ClientObject *c, PyObject *hex)
{
    uint64_t session;
    uint32_t slot, generation;
    int length = 0;
    const char *text = PyUnicode_Check(hex) ? PyUnicode_AsUTF8(hex) : NULL;
    if (!text || sscanf(text, "%16" SCNx64 "%8" SCNx32 "%8" SCNx32 "%n", &session, &slot, &generation, &length) != 3 ||
        length != 32 || text[length]) {
        PyErr_Clear();
        return PyErr_Format(PyExc_ValueError,
                            "%R is no object's id: that is what its ref's hex() gives, 32 hexadecimal digits", hex);
    }
    if (client_usable(c) < 0)
        return NULL;
    if (session != c->s.h->session)
        Py_RETURN_NONE;
    segment_lock(&c->s);
    bool there = object_find(&c->s, slot, generation);
    segment_unlock(&c->s);
    if (!there)
        Py_RETURN_NONE;
    return ref_new(c, slot, true);
}

/* reap() -> [pid, ...] */
static PyObject *client_reap_dead(ClientObject *c, PyObject *unused)
{
    (void)unused;
    int32_t dead[MAX_CLIENTS];
    if (client_usable(c) < 0)
        return NULL;
    uint32_t n = client_reap(&c->s, dead);
    PyObject *pids = PyList_New(n);
    for (uint32_t i = 0; pids && i < n; i++) {
        PyObject *pid = PyLong_FromLong(dead[i]);
        if (!pid)
            Py_CLEAR(pids);
        else
            PyList_SET_ITEM(pids, i, pid);
    }
    return pids;
}

/* detach(): like close, and gives up the place in the segment, too. Not while anything here refers to values in it:
 * others would overwrite them. Then that happens after the process's end, by who reaps next. */
static PyObject *client_detach(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (c->closed || !c->pid)
        Py_RETURN_NONE;
    flush_drops(c);
    bool in_use = false;
    for (uint32_t i = 0; i < c->s.h->touched_objects && !in_use; i++)
        in_use = c->local[i] != 0;
    c->closed = true;
    if (!in_use)
        client_died(&c->s, c->s.me, 0);
    Py_RETURN_NONE;
}

PyMethodDef standalone_methods[] = {
    {"find", (PyCFunction)client_find, METH_O,
     "find(hex, /)\n--\n\nThe ref of the object with that id, or None if it has gone."},
    {"reap", (PyCFunction)client_reap_dead, METH_NOARGS,
     "reap()\n--\n\nCleans up after every attached process that has ended; their pids."},
    {"detach", (PyCFunction)client_detach, METH_NOARGS,
     "detach()\n--\n\nGives up its place in the segment, unless values are in use here."},
    {NULL}};
