/* The type Submitter: how one is made, and what Python sees of it. See submit.c for its call. */
#include "submit/submit.h"

#include <string.h>
#include <structmember.h>

static int parse_params(SubmitterObject *f, PyObject *params)
{
    if (params == Py_None)
        return 0;
    PyObject *positions, *required;
    int any;
    if (!PyArg_ParseTuple(params, "nnO!Op;params", &f->n_required, &f->n_max, &PyDict_Type, &positions, &required,
                          &any))
        return -1;
    if (!PyFrozenSet_Check(required)) {
        PyErr_SetString(PyExc_TypeError, "params[3] must be a frozenset");
        return -1;
    }
    f->positions = Py_NewRef(positions);
    f->required_names = Py_NewRef(required);
    f->accepts_any_keyword = any;
    f->checked = true;
    return 0;
}

static int resolve_actor(ClientObject *c, PyObject *actor, uint32_t *actor_1)
{
    *actor_1 = actor_of_ref(c, actor);
    if (*actor_1)
        return 0;
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "actor must be the ObjectRef of an actor");
    return -1;
}

static PyObject *client_submitter(ClientObject *c, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function",     "shape",  "num_returns", "max_retries", "retry_exceptions",
                            "actor",        "params", "check",       "hidden",      "env",
                            "stream",       "group",  "placement",   "watch",       "renew",
                            "own_priority", "times",  "about",       NULL};
    PyObject *function, *given, *actor = Py_None, *params = Py_None, *check = Py_None, *stream = Py_None;
    PyObject *watch = Py_None, *renew = Py_None, *about = NULL;
    struct time_limits times = {0};
    PyObject *placement = Py_None; /* None: wherever the caller's group wants it */
    const struct resource_shape *shape;
    unsigned int n_returns = 1, group = 0;
    int max_retries = 3, retry_exceptions = 0, hidden = 0, env = 0, own_priority = 0;
    if (client_usable(c) < 0 ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|$IipOOOppOIOOOpO&O:submitter", names, c->codec.ref_type,
                                     &function, &given, &n_returns, &max_retries, &retry_exceptions, &actor, &params,
                                     &check, &hidden, &env, &stream, &group, &placement, &watch, &renew, &own_priority,
                                     parse_times, &times, &about) ||
        !parse_shape(given, &shape))
        return NULL;
    unsigned long number = placement == Py_None ? 0 : PyLong_AsUnsignedLong(placement);
    unsigned long limit = stream == Py_None ? 0 : PyLong_AsUnsignedLong(stream);
    if (PyErr_Occurred() || limit > UINT32_MAX)
        return PyErr_Occurred() ? NULL
                                : PyErr_Format(PyExc_ValueError, "submitter: stream must be None or 0..4294967295");
    if (n_returns > UINT16_MAX || max_retries < -1 || max_retries > INT16_MAX ||
        group >= (actor == Py_None ? UINT16_MAX : MAX_GROUPS))
        return PyErr_Format(PyExc_ValueError,
                            "submitter: num_returns must be 0..65535, max_retries -1..32767, group below %u, of a "
                            "task 65535",
                            MAX_GROUPS);
    CoreState *state = core_state(PyType_GetModule(Py_TYPE(c)));
    if (watch != Py_None && !Py_IS_TYPE(watch, state->watch_type))
        return PyErr_Format(PyExc_TypeError, "submitter: watch must be a Watch, not %s", Py_TYPE(watch)->tp_name);
    SubmitterObject *f = PyObject_GC_New(SubmitterObject, state->submitter_type);
    if (!f)
        return NULL;
    memset((char *)f + offsetof(SubmitterObject, vectorcall), 0, sizeof *f - offsetof(SubmitterObject, vectorcall));
    f->vectorcall = submitter_call;
    f->client = (ClientObject *)Py_NewRef(c);
    f->function = Py_NewRef(function);
    f->check = Py_NewRef(check);
    f->actor = Py_NewRef(actor);
    f->about = Py_XNewRef(about);
    f->shape = Py_NewRef(given);
    if (watch != Py_None) {
        f->watch = Py_NewRef(watch);
        f->renew = Py_NewRef(renew);
    }
    f->class_number = shape->number;
    f->placement = (uint32_t)number;
    f->free = placement == Py_None && actor == Py_None;
    f->inherits = !own_priority && actor == Py_None;
    f->n_returns = n_returns;
    f->streams = stream != Py_None;
    f->limit = (uint32_t)limit;
    f->group = (uint16_t)group;
    f->max_retries = (int16_t)max_retries;
    f->limits = times;
    f->times = has_times(&times) ? &f->limits : NULL;
    f->flags = (uint16_t)((hidden ? TASK_FLAG_HIDDEN : 0) | (env ? TASK_FLAG_ENV : 0) |
                          (retry_exceptions ? TASK_FLAG_RETRY_EXCEPTIONS : 0));
    PyObject_GC_Track(f);
    keep_in_memory(c, ((RefObject *)function)->slot);
    if (parse_params(f, params) < 0 || (actor != Py_None && resolve_actor(c, actor, &f->actor_1) < 0))
        Py_CLEAR(f);
    return (PyObject *)f;
}

static int submitter_traverse(SubmitterObject *f, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(f));
    Py_VISIT(f->client);
    Py_VISIT(f->function);
    Py_VISIT(f->actor);
    Py_VISIT(f->check);
    Py_VISIT(f->watch);
    Py_VISIT(f->renew);
    Py_VISIT(f->about);
    Py_VISIT(f->positions);
    Py_VISIT(f->required_names);
    return 0;
}

static int submitter_clear(SubmitterObject *f)
{
    Py_CLEAR(f->check);
    Py_CLEAR(f->watch);
    Py_CLEAR(f->renew);
    Py_CLEAR(f->about);
    Py_CLEAR(f->positions);
    Py_CLEAR(f->required_names);
    f->checked = false;
    return 0;
}

static void submitter_dealloc(SubmitterObject *f)
{
    PyTypeObject *type = Py_TYPE(f);
    PyObject_GC_UnTrack(f);
    submitter_clear(f);
    Py_XDECREF(f->function);
    Py_XDECREF(f->actor);
    Py_XDECREF(f->shape);
    Py_XDECREF(f->client);
    PyObject_GC_Del(f);
    Py_DECREF(type);
}

static PyObject *submitter_about(SubmitterObject *f, void *attribute)
{
    if (!f->about) {
        PyErr_SetString(PyExc_AttributeError, attribute);
        return NULL;
    }
    return PyObject_CallFunction(f->about, "s", attribute);
}

/* As functions have it, for which `help` takes what has this method. */
static PyObject *submitter_descr_get(PyObject *f, PyObject *instance, PyObject *owner)
{
    (void)instance;
    (void)owner;
    return Py_NewRef(f);
}

static PyGetSetDef submitter_getset[] = {{"__name__", (getter)submitter_about, NULL, NULL, "__name__"},
                                         {"__qualname__", (getter)submitter_about, NULL, NULL, "__qualname__"},
                                         {"__doc__", (getter)submitter_about, NULL, NULL, "__doc__"},
                                         {"__signature__", (getter)submitter_about, NULL, NULL, "__signature__"},
                                         {NULL}};

static PyMemberDef submitter_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(SubmitterObject, vectorcall), READONLY, NULL}, {NULL}};

static PyType_Slot submitter_slots[] = {{Py_tp_dealloc, submitter_dealloc},     {Py_tp_traverse, submitter_traverse},
                                        {Py_tp_clear, submitter_clear},         {Py_tp_call, PyVectorcall_Call},
                                        {Py_tp_members, submitter_members},     {Py_tp_getset, submitter_getset},
                                        {Py_tp_descr_get, submitter_descr_get}, {0, NULL}};

PyType_Spec submitter_spec = {"cellmesh.objstore._core.Submitter", sizeof(SubmitterObject), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                  Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                              submitter_slots};

PyMethodDef submitter_methods[] = {
    {"submitter", FAST(client_submitter), METH_VARARGS | METH_KEYWORDS,
     "submitter(function, shape, *, num_returns=1, max_retries=3, retry_exceptions=False, actor=None, params=None, "
     "check=None, hidden=False, env=False, stream=None, group=0, placement=None, watch=None, renew=None, "
     "own_priority=False, times=None, about=None)\n--\n\nThe callable that submits the tasks of a function. "
     "`placement` None: wherever the group of the caller wants them."},
    {NULL}};
