/* The table of attached processes. */
#include "inspect/inspect.h"

static PyObject *client_clients(ClientObject *c, PyObject *args)
{
    (void)args;
    if (look_at_clients(c) < 0)
        return NULL;
    PyObject *list = PyList_New(0);
    bool ok = list;
    for (uint32_t i = 0; ok && i < MAX_CLIENTS; i++) {
        struct client_view v;
        if (atomic_load(&c->s.clients[i].state) != CLIENT_ATTACHED)
            continue;
        segment_lock(&c->s);
        bool there = client_look(&c->s, i, &v);
        segment_unlock(&c->s);
        if (!there)
            continue;
        const char *state = v.role != ROLE_WORKER ? "attached"
                            : v.blocked           ? "blocked"
                            : v.seq               ? "busy"
                            : v.actor_1           ? "actor"
                            : v.idle              ? "idle"
                                                  : "starting";
        ok = list_add(
            list, Py_BuildValue(
                      "{sIsssisssKsisKsKsIsKsOsN}", "index", i, "role", role_name(v.role), "pid", (int)v.pid, "state",
                      state, "task", (unsigned long long)v.seq, "actor", (int)v.actor_1 - 1, "n_finished",
                      (unsigned long long)v.n_finished, "last_task", (unsigned long long)v.last_seq, "origin", v.origin,
                      "parent", (unsigned long long)v.parent, "retriable", v.retriable ? Py_True : Py_False, "function",
                      make_record(c, RECORD_FUNCTION_PLACE, "LI", (long long)v.function_1 - 1, v.generation)));
    }
    return list_done(list, ok);
}

PyMethodDef client_listing_methods[] = {
    {"clients", (PyCFunction)client_clients, METH_NOARGS, "clients()\n--\n\nThe attached processes."}, {NULL}};
