/* binding/: the extension module `_core`, the core for Python; never policy. */

/* Actors as drivers see them: created, found by name, looked at through a handle, killed. */
#include "formats/constants.h"

#include <signal.h>

#include "submit/submit.h"

uint64_t actor_name_hash(const char *name, const char *scope) /* FNV-1a over scope, 0, name; never 0 */
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (const char *p = scope; *p; p++)
        h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    h *= UINT64_C(0x100000001b3);
    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    return h ? h : 1;
}

static PyObject *const *flatten(PyObject *args, PyObject *kwargs, PyObject **kwnames, PyObject ***vector)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args), n_keywords = PyDict_GET_SIZE(kwargs), at = 0;
    *vector = PyMem_Malloc((size_t)(n + n_keywords + 1) * sizeof(PyObject *));
    *kwnames = n_keywords ? PyTuple_New(n_keywords) : NULL;
    if (!*vector || (n_keywords && !*kwnames)) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        (*vector)[i] = PyTuple_GET_ITEM(args, i);
    PyObject *key, *value;
    for (Py_ssize_t i = 0; PyDict_Next(kwargs, &at, &key, &value); i++) {
        PyTuple_SET_ITEM(*kwnames, i, Py_NewRef(key));
        (*vector)[n + i] = value;
    }
    return *vector;
}

static PyObject *client_create_actor(ClientObject *c, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function",
                            "shape",
                            "args",
                            "kwargs",
                            "meta",
                            "name",
                            "namespace",
                            "max_restarts",
                            "max_task_retries",
                            "max_concurrency",
                            "ordered",
                            "detached",
                            "env",
                            "max_pending",
                            "groups",
                            "placement",
                            "own_priority",
                            "refuses",
                            "about",
                            NULL};
    PyObject *function, *call_args, *call_kwargs, *meta, *groups = NULL, *placement = Py_None, *about = NULL;
    const char *name = "", *scope = "";
    const struct resource_shape *given;
    unsigned int max_concurrency = 1, max_pending = 0;
    int max_restarts = 0, max_task_retries = 0, ordered = 1, detached = 0, env = 0, own_priority = 0, refuses = 0;
    if (client_usable(c) < 0 ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "O!O&O!O!|$OssiiIpppIO!OppO:create_actor", names, c->codec.ref_type,
                                     &function, parse_shape, &given, &PyTuple_Type, &call_args, &PyDict_Type,
                                     &call_kwargs, &meta, &name, &scope, &max_restarts, &max_task_retries,
                                     &max_concurrency, &ordered, &detached, &env, &max_pending, &PyTuple_Type, &groups,
                                     &placement, &own_priority, &refuses, &about))
        return NULL;
    unsigned long number = placement == Py_None ? 0 : PyLong_AsUnsignedLong(placement);
    if (PyErr_Occurred())
        return NULL;
    struct resource_shape shape = *given;
    struct actor_spec actor = {*name ? actor_name_hash(name, scope) : 0,
                               max_restarts,
                               max_task_retries,
                               max_concurrency,
                               (ordered ? ACTOR_FLAG_ORDERED : 0u) | (detached ? ACTOR_FLAG_DETACHED : 0u) |
                                   (refuses ? ACTOR_FLAG_REFUSES : 0u),
                               max_pending,
                               {0}};
    if (groups && PyTuple_GET_SIZE(groups) > (Py_ssize_t)MAX_GROUPS)
        return PyErr_Format(PyExc_ValueError, "create_actor: at most %u groups", MAX_GROUPS);
    for (Py_ssize_t i = 0; groups && i < PyTuple_GET_SIZE(groups); i++)
        actor.group_limit[i] = (uint32_t)PyLong_AsUnsignedLongMask(PyTuple_GET_ITEM(groups, i));
    struct task_spec spec = {.function = ((RefObject *)function)->slot,
                             .n_returns = 1,
                             .max_retries = 0,
                             .flags = (uint16_t)(TASK_FLAG_ACTOR_CREATION | (env ? TASK_FLAG_ENV : 0)),
                             .placement = (uint32_t)number};
    keep_in_memory(c, spec.function);
    const struct resource_class *around = class_around(c);
    bool is_free = placement == Py_None;
    if (around && takes_after(around, is_free, !own_priority) &&
        take_after(c, around, is_free, !own_priority, &spec, &shape) < 0)
        return NULL;
    Dependencies d;
    Encoded e;
    dependencies_init(&d, c);
    codec_out_init(&e.out);
    PyObject **vector = NULL, *kwnames = NULL, *ref = NULL;
    uint32_t slot, result;
    unsigned long long constructor = 0;
    if (!flatten(call_args, call_kwargs, &kwnames, &vector) ||
        encode_arguments(c, spec.function, about, &e, &d, vector, PyTuple_GET_SIZE(call_args), kwnames) < 0 ||
        !(ref = put_value(c, meta, &slot, EVENT_BY_PUT, true)))
        goto done;
    fill_origin(c, &spec);
    if (submit_task(c, &spec, &shape, &shape.number, &d, &e.out, &actor, slot, NULL, &result) == 0) {
        constructor = c->s.objects[result].creator;
        client_drop(&c->s, &result, 1); /* the constructor's result has no reader; its task keeps it */
    } else {
        Py_CLEAR(ref);
    }
done:
    encoded_clear(&e);
    dependencies_clear(&d);
    PyMem_Free(vector);
    Py_XDECREF(kwnames);
    return ref ? make_record(c, RECORD_CREATED_ACTOR, "NK", ref, constructor) : NULL;
}

static PyObject *client_get_actor(ClientObject *c, PyObject *args)
{
    const char *name, *scope;
    uint32_t actor, object_1 = 0;
    if (!PyArg_ParseTuple(args, "ss:get_actor", &name, &scope) || lock_to_inspect(c) < 0)
        return NULL;
    if (actor_find(&c->s, actor_name_hash(name, scope), &actor) == OBJSTORE_OK &&
        (object_1 = actor_at(&c->s, actor)->object_1))
        object_hold(&c->s, object_1 - 1);
    segment_unlock(&c->s);
    if (!object_1)
        Py_RETURN_NONE;
    return ref_new(c, object_1 - 1, true);
}

static uint32_t actor_in(const struct object_slot *o) { return o->offset ? o->u.arena.actor_1 : 0; }

uint32_t actor_of_ref(ClientObject *c, PyObject *ref)
{
    if (!is_ref(c, ref))
        return 0;
    if (((RefObject *)ref)->client != c) { /* its slot is another object here, perhaps another actor */
        raise_store_error(c, "closed", "this actor's handle belongs to a session that has been shut down");
        return 0;
    }
    const struct object_slot *o = &c->s.objects[((RefObject *)ref)->slot];
    uint32_t actor_1 = actor_in(o);
    if (!actor_1 && lock_to_inspect(c) == 0) {
        /* It may have been sealed this moment, by a process that makes an actor of it in one step under the lock. */
        actor_1 = actor_in(o);
        segment_unlock(&c->s);
    }
    return actor_1 <= c->s.n_actors ? actor_1 : 0;
}

int parse_actor_ref(ClientObject *c, PyObject *ref, uint32_t *actor)
{
    uint32_t actor_1 = actor_of_ref(c, ref);
    if (actor_1) {
        *actor = actor_1 - 1;
        return 0;
    }
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "expected the ObjectRef of an actor");
    return -1;
}

static PyObject *client_actor_state(ClientObject *c, PyObject *ref)
{
    uint32_t actor;
    if (client_usable(c) < 0 || parse_actor_ref(c, ref, &actor) < 0)
        return NULL;
    return PyUnicode_FromString(actor_state_name(atomic_load(&actor_at(&c->s, actor)->state)));
}

/* Asked before each call of a group, so it takes no lock and makes no objects. */
static PyObject *client_first_dead(ClientObject *c, PyObject *refs)
{
    if (client_usable(c) < 0)
        return NULL;
    if (!PyList_Check(refs))
        return PyErr_Format(PyExc_TypeError, "expected a list of ObjectRefs, not %s", Py_TYPE(refs)->tp_name);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(refs); i++) {
        uint32_t actor;
        if (parse_actor_ref(c, PyList_GET_ITEM(refs, i), &actor) < 0)
            return NULL;
        if (atomic_load(&actor_at(&c->s, actor)->state) == ACTOR_DEAD)
            return PyLong_FromSsize_t(i);
    }
    return PyLong_FromLong(-1);
}

/* How a dead one has ended: fields that do not change any more. */
PyObject *death_of(ClientObject *c, const struct actor_slot *a)
{
    const char *how = a->flags & ACTOR_FLAG_UNPLACED                        ? "unplaced"
                      : a->death_object_1                                   ? "constructor"
                      : a->flags & ACTOR_FLAG_EXITED                        ? "exited"
                      : a->flags & ACTOR_FLAG_KILLED                        ? "killed"
                      : a->flags & ACTOR_FLAG_TERMINATE && !a->death_detail ? "ended"
                                                                            : "died";
    return make_record(c, RECORD_ACTOR_DEATH, "si", how, (int)a->death_detail);
}

static PyObject *client_actor_death(ClientObject *c, PyObject *args)
{
    uint32_t actor;
    if (client_usable(c) < 0 || parse_actor_ref(c, args, &actor) < 0)
        return NULL;
    const struct actor_slot *a = actor_at(&c->s, actor);
    if (atomic_load(&a->state) != ACTOR_DEAD) /* pairs with set_state(): what it died of was written before */
        Py_RETURN_NONE;
    return death_of(c, a);
}

static PyObject *client_actor_place(ClientObject *c, PyObject *args)
{
    uint32_t actor;
    if (client_usable(c) < 0 || parse_actor_ref(c, args, &actor) < 0)
        return NULL;
    return make_record(c, RECORD_ACTOR_PLACE, "II", actor, actor_at(&c->s, actor)->generation);
}

/* A ref to what an actor's constructor gives, of which nothing but its error is of interest; None: the actor has ended
 * otherwise. */
static PyObject *client_constructor(ClientObject *c, PyObject *ref)
{
    uint32_t actor;
    if (client_usable(c) < 0 || parse_actor_ref(c, ref, &actor) < 0)
        return NULL;
    segment_lock(&c->s);
    const struct actor_slot *a = actor_at(&c->s, actor);
    uint32_t result_1 = a->task_1 ? task_at(&c->s, a->task_1 - 1)->result_1 : a->death_object_1;
    if (result_1)
        object_hold(&c->s, result_1 - 1);
    segment_unlock(&c->s);
    return result_1 ? ref_new(c, result_1 - 1, true) : Py_NewRef(Py_None);
}

static PyObject *client_kill_actor(ClientObject *c, PyObject *args)
{
    PyObject *ref;
    int no_restart;
    uint32_t actor;
    if (client_usable(c) < 0 || !PyArg_ParseTuple(args, "Op:kill_actor", &ref, &no_restart) ||
        parse_actor_ref(c, ref, &actor) < 0)
        return NULL;
    segment_lock(&c->s);
    uint32_t client = actor_kill(&c->s, actor, no_restart);
    int32_t pid = client == UINT32_MAX ? 0 : atomic_load(&client_at(&c->s, client)->pid);
    if (pid > 0 && pid != c->pid)
        client_signal_worker(&c->s, client, SIGKILL);
    else if (pid > 0 && no_restart) /* it leaves by itself: here it would die inside the lock */
        actor_at(&c->s, actor)->flags |= ACTOR_FLAG_EXITED;
    segment_unlock(&c->s);
    return PyLong_FromLong(pid);
}

PyMethodDef actor_methods[] = {
    {"create_actor", FAST(client_create_actor), METH_VARARGS | METH_KEYWORDS,
     "create_actor(function, shape, args, kwargs, *, meta, name=\"\", namespace=\"\", max_restarts=0, "
     "max_task_retries=0, max_concurrency=1, ordered=True, detached=False, env=False, max_pending=0, groups=(), "
     "placement=None, own_priority=False, refuses=False, about=None)\n--\n\nCreates an actor; a CreatedActor."},
    {"get_actor", (PyCFunction)client_get_actor, METH_VARARGS,
     "get_actor(name, namespace, /)\n--\n\nThe living actor of that name, or None."},
    {"actor_state", (PyCFunction)client_actor_state, METH_O,
     "actor_state(ref, /)\n--\n\npending, alive, restarting or dead."},
    {"first_dead", (PyCFunction)client_first_dead, METH_O,
     "first_dead(refs, /)\n--\n\nWhich of a list of actors' refs is the first whose actor is dead; -1: none."},
    {"actor_death", (PyCFunction)client_actor_death, METH_O,
     "actor_death(ref, /)\n--\n\nThe ActorDeath of a dead actor, else None."},
    {"actor_place", (PyCFunction)client_actor_place, METH_O,
     "actor_place(ref, /)\n--\n\nThe ActorPlace: what `actor` takes, without holding the actor."},
    {"constructor", (PyCFunction)client_constructor, METH_O,
     "constructor(ref, /)\n--\n\nA ref to what the actor's constructor gives, or None."},
    {"kill_actor", (PyCFunction)client_kill_actor, METH_VARARGS,
     "kill_actor(ref, no_restart, /)\n--\n\nKills its process; its pid or 0."},
    {NULL}};
