/* inspect/: listings of the segment; never a change to what they list. */

/* The table of actors, and one actor. A listing must not hold a handle, which would keep the actor alive: it is found
 * by its place in the table and by how often that was used. */
#include "inspect/inspect.h"

#include <string.h>

static PyObject *client_actors(ClientObject *c, PyObject *args)
{
    int only = -1;
    if (!PyArg_ParseTuple(args, "|i:actors", &only) || client_usable(c) < 0)
        return NULL;
    uint32_t first = only < 0 ? 0 : (uint32_t)only, n = used_slots(c->s.h->touched_actors, c->s.n_actors);
    n = only < 0 ? n : n > first ? 1 : 0;
    struct actor_slot *copy = new_copy(n, sizeof *copy);
    if (!copy || lock_to_inspect(c) < 0) {
        PyMem_Free(copy);
        return NULL;
    }
    bool sound = true;
    memcpy(copy, c->s.actors + first, n * sizeof *copy);
    for (uint32_t i = 0; i < n && sound; i++) {
        sound = actor_is_safe(&c->s, first + i);
        if (sound && copy[i].object_1 && (sound = object_is_safe(&c->s, copy[i].object_1 - 1)))
            object_hold(&c->s, copy[i].object_1 - 1);
    }
    if (end_inspect(c, sound) < 0) {
        PyMem_Free(copy);
        return NULL;
    }
    PyObject *list = PyList_New(0);
    bool ok = list;
    for (uint32_t i = 0; i < n; i++) { /* to the end: all are held */
        const struct actor_slot *a = &copy[i];
        PyObject *ref = a->object_1 ? ref_new(c, a->object_1 - 1, true) : Py_NewRef(Py_None);
        PyObject *meta = !ok || !ref      ? NULL
                         : ref != Py_None ? decode_slot(c, a->object_1 - 1, ref, CODEC_OWN)
                                          : Py_NewRef(Py_None);
        PyObject *id = !meta ? NULL : ref != Py_None ? PyObject_CallMethod(ref, "hex", NULL) : PyUnicode_FromString("");
        uint32_t state = atomic_load(&a->state);
        Py_XDECREF(ref);
        if (meta && id && state != ACTOR_FREE)
            ok = list_add(list, Py_BuildValue("{sIsOsisssisIsIsIsisOsO}", "index", first + i, "id", id, "slot",
                                              (int)a->object_1 - 1, "state", actor_state_name(state), "pid",
                                              a->worker_1 ? (int)pid_of_worker(&c->s, a->worker_1 - 1) : 0, "node",
                                              a->worker_1 ? c->s.clients[a->worker_1 - 1].node : 0u, "pending_calls",
                                              a->n_pending, "running_calls", a->n_running, "restarts_left",
                                              (int)a->restarts_left, "detached",
                                              a->flags & ACTOR_FLAG_DETACHED ? Py_True : Py_False, "meta", meta));
        else
            ok = ok && meta && id;
        Py_XDECREF(meta);
        Py_XDECREF(id);
    }
    PyMem_Free(copy);
    return list_done(list, ok);
}

static PyObject *client_actor(ClientObject *c, PyObject *args)
{
    uint32_t index, generation;
    if (!PyArg_ParseTuple(args, "II:actor", &index, &generation) || client_usable(c) < 0)
        return NULL;
    if (index >= c->s.n_actors)
        return PyErr_Format(PyExc_ValueError, "there is no place %u for actors", index);
    struct segment *s = &c->s;
    struct task_slot constructor;
    int64_t holds[MAX_KINDS] = {0}, wants[MAX_KINDS] = {0};
    uint32_t client = UINT32_MAX;
    if (lock_to_inspect(c) < 0)
        return NULL;
    struct actor_slot a;
    memcpy(&a, &s->actors[index], sizeof a);
    uint32_t state = atomic_load(&a.state);
    bool is_there = state != ACTOR_FREE && a.generation == generation;
    bool sound = actor_is_safe(s, index) && (!a.task_1 || task_is_safe(s, a.task_1 - 1)) &&
                 (!a.death_object_1 || object_is_safe(s, a.death_object_1 - 1));
    if (sound && is_there && a.task_1) {
        memcpy(&constructor, &s->tasks[a.task_1 - 1], sizeof constructor);
        const struct resource_class *class = class_at(s, constructor.resource_class);
        memcpy(holds, class->hold, sizeof holds);
        memcpy(wants, class->demand, sizeof wants);
        client = atomic_load(&constructor.state) == TASK_RUNNING ? constructor.worker : UINT32_MAX;
    }
    if (a.worker_1)
        client = a.worker_1 - 1;
    bool runs = sound && client < MAX_CLIENTS;
    int pid = runs ? (int)pid_of_worker(s, client) : 0;
    uint32_t node = runs ? s->clients[client].node : 0;
    if (sound && is_there && a.death_object_1)
        object_hold(s, a.death_object_1 - 1);
    if (end_inspect(c, sound) < 0)
        return NULL;
    if (!is_there)
        Py_RETURN_NONE;
    PyObject *error = a.death_object_1 ? ref_new(c, a.death_object_1 - 1, true) : Py_NewRef(Py_None);
    PyObject *death = state == ACTOR_DEAD ? death_of(c, &a) : Py_NewRef(Py_None);
    return Py_BuildValue("{sssNsNsKsIsisisIsIsIsIsOsNsN}", "state", actor_state_name(state), "death", death, "error",
                         error, "constructor", (unsigned long long)(a.task_1 ? constructor.seq : 0), "restarts",
                         a.task_1 ? (unsigned)constructor.attempt : 0u, "restarts_left", (int)a.restarts_left, "pid",
                         pid, "node", node, "pending_calls", a.n_pending, "running_calls", a.n_running,
                         "max_concurrency", a.max_concurrency, "detached",
                         a.flags & ACTOR_FLAG_DETACHED ? Py_True : Py_False, "holds", amounts_dict(s->h, holds, holds),
                         "wants", amounts_dict(s->h, wants, wants));
}

PyMethodDef actor_listing_methods[] = {
    {"actors", (PyCFunction)client_actors, METH_VARARGS,
     "actors(index=-1, /)\n--\n\nActors, dead ones that are still referenced included; or the one of that index."},
    {"actor", (PyCFunction)client_actor, METH_VARARGS,
     "actor(index, generation, /)\n--\n\nWhat is known of one actor; None if it is gone."},
    {NULL}};
