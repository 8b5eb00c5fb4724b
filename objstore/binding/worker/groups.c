/* Concurrency groups of an actor: which calls a thread takes, and when another thread is wanted. */
#include "worker/worker.h"

int parse_group(PyObject *number, uint32_t *group)
{
    unsigned long n = PyLong_AsUnsignedLong(number);
    if (!PyErr_Occurred() && n >= MAX_GROUPS)
        PyErr_Format(PyExc_ValueError, "concurrency group %lu: there are %u", n, MAX_GROUPS);
    *group = (uint32_t)n;
    return PyErr_Occurred() ? -1 : 0;
}

/* All threads of the group have a call: another one is to wait for the next. False: there is none, and will be none. */
bool start_thread(struct served_group *served, PyObject *start)
{
    served->n_starting++;
    PyObject *started = PyObject_CallNoArgs(start);
    bool yes = started && PyObject_IsTrue(started) > 0;
    if (!yes)
        served->n_starting--;
    if (!started)
        PyErr_WriteUnraisable(start);
    Py_XDECREF(started);
    return yes;
}

/* Whether calls of the group run in several threads. */
bool serves_beside(const ClientObject *c, uint32_t group)
{
    uint32_t actor_1 = c->s.clients[c->s.me].actor_1;
    const struct actor_slot *a = actor_1 ? &c->s.actors[actor_1 - 1] : NULL;
    return a && (a->group_limit[group] ? a->group_limit[group] : a->max_concurrency) > 1;
}

PyObject *group_limits(const struct actor_slot *a)
{
    PyObject *limits = PyTuple_New(MAX_GROUPS);
    for (uint32_t i = 0; limits && i < MAX_GROUPS; i++) {
        PyObject *limit = PyLong_FromUnsignedLong(a->group_limit[i]);
        if (!limit)
            Py_CLEAR(limits);
        else
            PyTuple_SET_ITEM(limits, i, limit);
    }
    return limits;
}
