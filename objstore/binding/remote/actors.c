/* remote/: what the agent asks of the segment; never a socket. */

/* Remote node: actors whose home and whose process are on different machines. See core/clients/remote_node.h. */
#include <signal.h>

#include "clients/reap.h"
#include "clients/remote_node.h"
#include "remote/remote_node.h"

static int parse_actor(RemoteNodeObject *p, unsigned int actor)
{
    if (actor < p->s.h->touched_actors && atomic_load(&actor_at(&p->s, actor)->state) != ACTOR_FREE)
        return 0;
    PyErr_Format(PyExc_ValueError, "there is no actor %u", actor);
    return -1;
}

uint32_t remote_actor_of(const RemoteNodeObject *p, uint32_t slot)
{
    const struct object_slot *o = object_at(&p->s, slot);
    return object_state(o) == OBJECT_READY && object_chunk(o) && !object_is_stream(o) ? o->u.arena.actor_1 : 0;
}

int parse_actor_object(RemoteNodeObject *p, PyObject *object, uint32_t *actor_1)
{
    uint32_t slot;
    if (parse_slot(p, object, &slot) < 0)
        return -1;
    *actor_1 = remote_actor_of(p, slot);
    if (!*actor_1)
        PyErr_Format(PyExc_ValueError, "object %u is no actor", slot);
    return *actor_1 ? 0 : -1;
}

/* An ActorRecord; None: the object is no actor. */
PyObject *remote_actor(RemoteNodeObject *p, PyObject *number)
{
    uint32_t slot;
    if (remote_usable(p) < 0 || parse_slot(p, number, &slot) < 0)
        return NULL;
    uint32_t actor_1 = remote_actor_of(p, slot);
    if (!actor_1 || actor_1 > p->s.h->touched_actors)
        Py_RETURN_NONE;
    const struct actor_slot *a = actor_at(&p->s, actor_1 - 1);
    PyObject *spec = make_record(p->client, RECORD_ACTOR_SPEC, "IIN", a->flags & ACTOR_FLAG_ORDERED,
                                 (unsigned)a->max_concurrency, group_limits(a));
    return make_record(p->client, RECORD_ACTOR, "IIiNNi", actor_1 - 1, atomic_load(&a->state), (int)actor_end_code(a),
                       PyBool_FromLong(a->flags & (ACTOR_FLAG_KILLED | ACTOR_FLAG_TERMINATE)), spec,
                       (int)a->checkpoint_1 - 1);
}

static int parse_spec(PyObject *args, struct actor_spec *spec)
{
    PyObject *limits;
    unsigned int flags, concurrency;
    if (!PyArg_ParseTuple(args, "IIO!", &flags, &concurrency, &PyTuple_Type, &limits))
        return -1;
    *spec = (struct actor_spec){.flags = flags & ACTOR_FLAG_ORDERED, .max_concurrency = concurrency};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(limits) && i < (Py_ssize_t)MAX_GROUPS; i++) {
        unsigned long limit = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(limits, i));
        if (PyErr_Occurred() || limit > UINT32_MAX) {
            PyErr_SetString(PyExc_ValueError, "a group's limit is out of range");
            return -1;
        }
        spec->group_limit[i] = (uint32_t)limit;
    }
    return 0;
}

/* An actor's value, sealed and in the arena, of which no actor has been made yet. */
static int check_value(RemoteNodeObject *p, uint32_t slot)
{
    const struct object_slot *o = object_at(&p->s, slot);
    if (object_state(o) == OBJECT_READY && object_chunk(o) && !object_is_stream(o) && !o->u.arena.actor_1)
        return 0;
    PyErr_Format(PyExc_ValueError, "object %u cannot become an actor", slot);
    return -1;
}

/* Name, namespace, how often it and its calls begin again, how many of these may wait, whether it is detached, and
 * refuses calls while it begins again; None: its home is elsewhere. */
static int parse_home(PyObject *home, struct actor_spec *spec)
{
    const char *name, *scope;
    int detached, refuses;
    if (home == Py_None) {
        spec->flags |= ACTOR_FLAG_HOSTED;
        return 0;
    }
    if (!PyArg_ParseTuple(home, "ssiiIpp", &name, &scope, &spec->max_restarts, &spec->max_task_retries,
                          &spec->max_pending, &detached, &refuses))
        return -1;
    spec->name_hash = *name ? actor_name_hash(name, scope) : 0;
    spec->flags |= (detached ? ACTOR_FLAG_DETACHED : 0u) | (refuses ? ACTOR_FLAG_REFUSES : 0u);
    return 0;
}

PyObject *remote_host_actor(RemoteNodeObject *p, PyObject *args)
{
    PyObject *object, *spec_args, *list, *checkpoint, *home = Py_None, *result = NULL;
    const struct resource_shape *shape;
    unsigned int function, n_dependencies, flags, attempt, origin, placement = 0;
    Py_buffer arguments;
    struct actor_spec actor;
    if (!PyArg_ParseTuple(args, "OO!IO&y*O!IIIIO|IO:host", &object, &PyTuple_Type, &spec_args, &function, parse_shape,
                          &shape, &arguments, &PyList_Type, &list, &n_dependencies, &flags, &attempt, &origin,
                          &checkpoint, &placement, &home))
        return NULL;
    Py_ssize_t n;
    uint32_t slot, task, made, saved = UINT32_MAX, *refs = NULL;
    if (remote_usable(p) < 0 || parse_slot(p, object, &slot) < 0 || check_value(p, slot) < 0 ||
        parse_spec(spec_args, &actor) < 0 || parse_home(home, &actor) < 0 ||
        (checkpoint != Py_None && parse_slot(p, checkpoint, &saved) < 0) || !(refs = parse_slots(p, list, 0, &n)))
        goto done;
    if (function >= p->s.h->touched_objects || n_dependencies > (size_t)n || attempt > UINT16_MAX ||
        arguments.len > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "host: a number is out of range");
        goto done;
    }
    uint32_t class_number = shape->number;
    struct task_spec spec = {.function = function,
                             .n_returns = 1,
                             .n_dependencies = n_dependencies,
                             .n_refs = (uint32_t)n,
                             .refs = refs,
                             .arguments = arguments.buf,
                             .arguments_size = (uint32_t)arguments.len,
                             .origin = origin,
                             .flags = (uint16_t)(flags & TASK_FLAG_ENV),
                             .placement = placement};
    segment_lock(&p->s);
    int error = resource_intern(&p->s, shape, &class_number, &spec.resource_class);
    if (!error)
        error = remote_host(&p->s, &actor, slot, &spec, &made, &task);
    if (!error)
        task_at(&p->s, task)->attempt = (uint16_t)attempt; /* for show: the home counts */
    if (!error && saved != UINT32_MAX)
        actor_checkpoint(&p->s, task_at(&p->s, task)->actor_1 - 1, saved);
    segment_unlock(&p->s);
    if (error == OBJSTORE_EXISTS)
        result = Py_NewRef(Py_None);
    else if (error)
        raise_core_error(p->client, error, "an actor of another machine");
    else
        result = make_record(p->client, RECORD_SUBMITTED_TASK, "IKNi", task,
                             (unsigned long long)task_at(&p->s, task)->seq, list_of(&made, 1), -1);
done:
    PyMem_Free(refs);
    PyBuffer_Release(&arguments);
    return result;
}

/* In one step: who has waited for the object may call the actor at once. */
PyObject *remote_make_stand_in(RemoteNodeObject *p, PyObject *args)
{
    PyObject *object, *list, *spec_args, *result = NULL;
    const struct resource_shape *shape;
    unsigned int function;
    uint32_t slot, class, *refs = NULL;
    Py_ssize_t n = 0;
    Py_buffer bytes;
    struct actor_spec actor;
    if (!PyArg_ParseTuple(args, "Oy*O!O!IO&:stand_in", &object, &bytes, &PyList_Type, &list, &PyTuple_Type, &spec_args,
                          &function, parse_shape, &shape))
        return NULL;
    if (remote_usable(p) < 0 || parse_slot(p, object, &slot) < 0 || parse_spec(spec_args, &actor) < 0 ||
        !(refs = parse_slots(p, list, 0, &n)))
        goto done;
    uint32_t class_number = shape->number;
    if (function >= p->s.h->touched_objects) {
        PyErr_Format(PyExc_ValueError, "stand_in: a number is out of range");
        goto done;
    }
    uint64_t chunk = remote_place_value(p, &bytes, refs, n);
    if (!chunk)
        goto done;
    segment_lock(&p->s);
    bool sealed = object_seal_arena(&p->s, slot, OBJECT_READY, chunk, (uint64_t)bytes.len, (uint32_t)n);
    if (!sealed)
        arena_free(segment_arena(&p->s), p->s.base, chunk);
    int error = sealed ? resource_intern(&p->s, shape, &class_number, &class) : OBJSTORE_OK;
    if (sealed && !error)
        error = remote_stand_in(&p->s, &actor, slot, function, class);
    uint32_t actor_1 = sealed && !error ? object_at(&p->s, slot)->u.arena.actor_1 : 0;
    task_release_waiting(&p->s, slot);
    segment_unlock(&p->s);
    if (error)
        raise_core_error(p->client, error, "an actor of another machine");
    else
        result = actor_1 ? PyLong_FromUnsignedLong(actor_1 - 1) : Py_NewRef(Py_None);
done:
    PyMem_Free(refs);
    PyBuffer_Release(&bytes);
    return result;
}

/* The task of a constructor that has run there. */
static int parse_constructor(RemoteNodeObject *p, PyObject *number, uint32_t *task)
{
    if (remote_usable(p) < 0 || parse_running(p, number, task) < 0)
        return -1;
    if (task_at(&p->s, *task)->flags & TASK_FLAG_ACTOR_CREATION)
        return 0;
    PyErr_Format(PyExc_ValueError, "task %u constructs no actor", *task);
    return -1;
}

PyObject *remote_bind(RemoteNodeObject *p, PyObject *number)
{
    uint32_t task;
    if (parse_constructor(p, number, &task) < 0)
        return NULL;
    segment_lock(&p->s);
    task_release_results(&p->s, task);
    actor_bind(&p->s, task_at(&p->s, task)->actor_1 - 1, task);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

PyObject *remote_construction_failed(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number, *object;
    uint32_t task, error;
    if (!PyArg_ParseTuple(args, "OO:construction_failed", &number, &object) ||
        parse_constructor(p, number, &task) < 0 || parse_slot(p, object, &error) < 0)
        return NULL;
    segment_lock(&p->s);
    task_release_results(&p->s, task);
    actor_construction_failed(&p->s, task_at(&p->s, task)->actor_1 - 1, task, error);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

PyObject *remote_lose_actor(RemoteNodeObject *p, PyObject *args)
{
    PyObject *begun, *others;
    unsigned int actor;
    int code, for_good;
    if (!PyArg_ParseTuple(args, "IipO!O!:lose_actor", &actor, &code, &for_good, &PyList_Type, &begun, &PyList_Type,
                          &others) ||
        remote_usable(p) < 0 || parse_actor(p, actor) < 0)
        return NULL;
    uint32_t n_begun = (uint32_t)PyList_GET_SIZE(begun), n = n_begun + (uint32_t)PyList_GET_SIZE(others);
    uint32_t *calls = PyMem_New(uint32_t, n + 1);
    if (!calls)
        return PyErr_NoMemory();
    for (uint32_t i = 0; i < n; i++) {
        PyObject *number =
            i < n_begun ? PyList_GET_ITEM(begun, (Py_ssize_t)i) : PyList_GET_ITEM(others, (Py_ssize_t)(i - n_begun));
        if (parse_running(p, number, &calls[i]) < 0) {
            PyMem_Free(calls);
            return NULL;
        }
    }
    segment_lock(&p->s);
    actor_lost(&p->s, actor, code, for_good, calls, n_begun, n);
    segment_unlock(&p->s);
    PyMem_Free(calls);
    Py_RETURN_NONE;
}

PyObject *remote_kill_actor(RemoteNodeObject *p, PyObject *args)
{
    PyObject *object;
    int no_restart;
    uint32_t actor_1;
    if (!PyArg_ParseTuple(args, "Op:kill", &object, &no_restart) || remote_usable(p) < 0 ||
        parse_actor_object(p, object, &actor_1) < 0)
        return NULL;
    segment_lock(&p->s);
    uint32_t client = actor_kill(&p->s, actor_1 - 1, no_restart);
    if (client < MAX_CLIENTS)
        signal_worker(&p->s, client, SIGKILL);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

PyObject *remote_calls(RemoteNodeObject *p, PyObject *args)
{
    unsigned int actor, most;
    uint32_t tasks[MOST_TASKS], n = 0;
    if (!PyArg_ParseTuple(args, "II:calls", &actor, &most) || remote_usable(p) < 0 || parse_actor(p, actor) < 0)
        return NULL;
    if (actor_at(&p->s, actor)->worker_1 != p->s.me + 1)
        return PyErr_Format(PyExc_ValueError, "actor %u does not live on that machine", actor);
    segment_lock(&p->s);
    n = remote_take_calls(&p->s, actor, most < MOST_TASKS ? most : MOST_TASKS, tasks);
    segment_unlock(&p->s);
    return describe_tasks(p, tasks, n);
}

PyObject *remote_checkpoint(RemoteNodeObject *p, PyObject *args)
{
    PyObject *object;
    unsigned int actor;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "IO:checkpoint", &actor, &object) || remote_usable(p) < 0 ||
        parse_slot(p, object, &slot) < 0 || parse_actor(p, actor) < 0)
        return NULL;
    segment_lock(&p->s);
    actor_checkpoint(&p->s, actor, slot);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

/* The slot of the living actor of that name, or None. */
PyObject *remote_find_actor(RemoteNodeObject *p, PyObject *args)
{
    const char *name, *scope;
    uint32_t actor, object_1 = 0;
    if (!PyArg_ParseTuple(args, "ss:find_actor", &name, &scope) || remote_usable(p) < 0)
        return NULL;
    segment_lock(&p->s);
    if (actor_find(&p->s, actor_name_hash(name, scope), &actor) == OBJSTORE_OK)
        object_1 = actor_at(&p->s, actor)->object_1;
    segment_unlock(&p->s);
    if (!object_1)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLong(object_1 - 1);
}

/* Makes this client serve an actor, as if it had run a constructor: `next` hands it the calls. */
static PyObject *client_serve(ClientObject *c, PyObject *args)
{
    PyObject *meta, *ref = NULL, *function_ref = NULL;
    const char *name, *scope;
    uint32_t object, function, class;
    const int64_t nothing[MAX_KINDS] = {0};
    if (!PyArg_ParseTuple(args, "Oss:serve", &meta, &name, &scope) || client_usable(c) < 0 ||
        !(ref = put_value(c, meta, &object, EVENT_BY_PUT, true)) ||
        !(function_ref = put_value(c, Py_None, &function, EVENT_BY_PUT, false))) {
        Py_XDECREF(ref);
        return NULL;
    }
    struct actor_spec spec = {.name_hash = actor_name_hash(name, scope), .max_concurrency = UINT16_MAX};
    segment_lock(&c->s);
    int error = resource_class(&c->s, nothing, nothing, 0, ON_NODE, &class);
    if (!error)
        error = remote_stand_in(&c->s, &spec, object, function, class);
    if (!error)
        c->s.clients[c->s.me].actor_1 = object_at(&c->s, object)->u.arena.actor_1;
    segment_unlock(&c->s);
    Py_DECREF(function_ref); /* the constructor keeps it */
    if (!error)
        return ref;
    Py_DECREF(ref);
    return raise_core_error(c, error, "an actor");
}

PyObject *remote_actor_news(RemoteNodeObject *p, PyObject *actors)
{
    Py_ssize_t n;
    if (!PyList_Check(actors))
        return PyErr_Format(PyExc_TypeError, "expected a list of actors");
    n = PyList_GET_SIZE(actors);
    PyObject *found = remote_usable(p) < 0 ? NULL : PyList_New(0);
    for (Py_ssize_t i = 0; found && i < n; i++) {
        unsigned long actor = PyLong_AsUnsignedLong(PyList_GET_ITEM(actors, i));
        if (PyErr_Occurred() || parse_actor(p, (unsigned)actor) < 0) {
            Py_CLEAR(found);
            break;
        }
        struct actor_slot *a = &p->s.actors[actor];
        segment_lock(&p->s);
        bool calls = a->head_1, ended = actor_ended(&p->s, (uint32_t)actor), kill = a->flags & ACTOR_FLAG_KILL,
             for_good = a->flags & ACTOR_FLAG_KILLED;
        a->flags &= ~(uint32_t)ACTOR_FLAG_KILL;
        if (!calls)
            a->flags |= ACTOR_FLAG_IDLE; /* the next one wakes this client */
        segment_unlock(&p->s);
        PyObject *row = calls || ended || kill
                            ? make_record(p->client, RECORD_ACTOR_NEWS, "kNNNN", actor, PyBool_FromLong(calls),
                                          PyBool_FromLong(ended), PyBool_FromLong(kill), PyBool_FromLong(for_good))
                            : NULL;
        if ((calls || ended || kill) && (!row || PyList_Append(found, row) < 0))
            Py_CLEAR(found);
        Py_XDECREF(row);
    }
    return found;
}

PyObject *remote_checkpoints(RemoteNodeObject *p, PyObject *objects)
{
    Py_ssize_t n;
    uint32_t *slots = parse_slots(p, objects, 0, &n);
    PyObject *list = slots ? PyList_New(n) : NULL;
    for (Py_ssize_t i = 0; list && i < n; i++) {
        uint32_t actor_1 = remote_actor_of(p, slots[i]);
        PyObject *checkpoint = PyLong_FromLong(actor_1 ? (long)actor_at(&p->s, actor_1 - 1)->checkpoint_1 - 1 : -1);
        if (!checkpoint)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, checkpoint);
    }
    PyMem_Free(slots);
    return list;
}

PyMethodDef serve_methods[] = {
    {"serve", (PyCFunction)client_serve, METH_VARARGS,
     "serve(meta, name, namespace, /)\n--\n\nMakes this client an actor, whose calls `next` returns; its ref."},
    {NULL}};
