/* Submitters: the callables behind `f.remote`. One call encodes the arguments and writes a task slot; nothing else
 * happens in between, so a submit costs about as much as a method call. */
#include "binding.h"

#include <structmember.h>

#include <string.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    ClientObject *client;
    PyObject *function, *actor, *check; /* refs; check(args, kwargs) raises the TypeError of a wrong call */
    PyObject *shape;                    /* of Client.resource_class */
    PyObject *positions, *required_names; /* keyword-able name -> position (-1: keyword only); required keyword-only names */
    Py_ssize_t n_required, n_max;       /* positional; n_max -1: any number */
    bool checked, accepts_any_keyword, streams;
    bool free;                          /* goes where the group of its caller, if that captures, wants it */
    uint32_t class_number, placement, n_returns, actor_1;
    uint32_t limit;                     /* of a stream: items that its task may be ahead */
    int16_t max_retries;
    uint16_t flags, group;
} SubmitterObject;

/* ------------------------------------------------------------------ does the call fit the signature? */

static bool positional_fit(const SubmitterObject *f, Py_ssize_t n, Py_ssize_t n_keywords)
{
    return (f->n_max < 0 || n <= f->n_max) &&
           (n_keywords || (n >= f->n_required && PySet_GET_SIZE(f->required_names) == 0));
}

/* Exact for up to 64 positional parameters; beyond that, and when anything is odd, `check` decides. */
static bool keywords_fit(const SubmitterObject *f, Py_ssize_t n, PyObject *kwnames)
{
    uint64_t given = 0;
    Py_ssize_t n_required_names = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i), *position = PyDict_GetItemWithError(f->positions, name);
        if (!position) {
            if (PyErr_Occurred())
                PyErr_Clear(); /* an unhashable subclass of str: not worth more than the slow path */
            if (!f->accepts_any_keyword)
                return false;
            continue;
        }
        long at = PyLong_AsLong(position);
        if (at >= 64 || (at >= 0 && at < n))
            return false;
        if (at >= 0)
            given |= UINT64_C(1) << at;
        else if (PySet_Contains(f->required_names, name) == 1)
            n_required_names++;
    }
    if (n_required_names != PySet_GET_SIZE(f->required_names) || f->n_required > 64)
        return false;
    for (Py_ssize_t i = n; i < f->n_required; i++)
        if (!(given >> i & 1))
            return false;
    return true;
}

static int explain_misfit(SubmitterObject *f, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *tuple = PyTuple_New(n), *dict = PyDict_New(), *result = NULL;
    for (Py_ssize_t i = 0; tuple && i < n; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; dict && kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(kwnames, i), args[n + i]) < 0)
            Py_CLEAR(dict);
    if (tuple && dict)
        result = PyObject_CallFunctionObjArgs(f->check, tuple, dict, NULL);
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* ------------------------------------------------------------------ arguments */

/* An argument that has become an object of its own. Given twice it is one object, and one value where it is received. */
enum { N_MADE = 16 }; /* of a call are remembered */
typedef struct {
    PyObject *value; /* borrowed of the arguments */
    uint32_t slot, index; /* UINT32_MAX: not a dependency in this pass, so far */
} MadeArgument;

typedef struct {
    ClientObject *client;
    bool put_all;     /* second pass: everything but small scalars becomes an object of its own */
    uint32_t small[16], *slots, n, capacity;
    MadeArgument made[N_MADE];
    uint32_t n_made;
    PyObject *puts;   /* refs made here, alive until the task pins them */
} Dependencies;

static int add_dependency(Dependencies *d, uint32_t slot, uint32_t *index)
{
    if (d->n == d->capacity) {
        uint32_t capacity = d->capacity * 4, *slots = PyMem_Malloc(capacity * sizeof *slots);
        if (!slots) {
            PyErr_NoMemory();
            return -1;
        }
        memcpy(slots, d->slots, d->n * sizeof *slots);
        if (d->slots != d->small)
            PyMem_Free(d->slots);
        d->slots = slots;
        d->capacity = capacity;
    }
    *index = d->n;
    d->slots[d->n++] = slot;
    return 1;
}

static bool fits_word(PyObject *number)
{
    int overflow;
    PyLong_AsLongLongAndOverflow(number, &overflow);
    return !overflow;
}

static bool is_scalar(PyObject *v)
{
    return v == Py_None || PyBool_Check(v) || (PyLong_CheckExact(v) && fits_word(v)) || PyFloat_CheckExact(v) ||
           (PyUnicode_CheckExact(v) && PyUnicode_GET_LENGTH(v) < 256) || (PyBytes_CheckExact(v) && PyBytes_GET_SIZE(v) < 256);
}

/* A large argument is an object of its own: written once, straight into the arena, and the function may keep a view. */
static bool is_large(PyObject *v)
{
    if (PyBytes_CheckExact(v))
        return PyBytes_GET_SIZE(v) >= (Py_ssize_t)IMPLICIT_PUT;
    if (PyUnicode_CheckExact(v))
        return PyUnicode_GET_LENGTH(v) >= (Py_ssize_t)IMPLICIT_PUT;
    PyBufferProcs *procs = Py_TYPE(v)->tp_as_buffer;
    if (!procs || !procs->bf_getbuffer || PyByteArray_Check(v))
        return false;
    Py_buffer view;
    if (PyObject_GetBuffer(v, &view, PyBUF_FULL_RO) < 0) {
        PyErr_Clear(); /* no buffer after all (object or datetime arrays): the codec knows what to do */
        return false;
    }
    bool large = view.len >= (Py_ssize_t)IMPLICIT_PUT_BUFFER;
    PyBuffer_Release(&view);
    return large;
}

static int on_argument(void *ctx, PyObject *value, uint32_t *index)
{
    Dependencies *d = ctx;
    ClientObject *c = d->client;
    if (is_ref(c, value)) {
        if (((RefObject *)value)->client != c) {
            raise_store_error(c, "closed", "an argument is an ObjectRef of a session that has been shut down");
            return -1;
        }
        return add_dependency(d, ((RefObject *)value)->slot, index);
    }
    if (is_scalar(value))
        return 0;
    for (uint32_t i = 0; i < d->n_made; i++)
        if (d->made[i].value == value) {
            if (d->made[i].index != UINT32_MAX)
                *index = d->made[i].index;
            else if (add_dependency(d, d->made[i].slot, index) < 0)
                return -1;
            d->made[i].index = *index;
            return 1;
        }
    if (!d->put_all && !is_large(value))
        return 0;
    uint32_t slot;
    PyObject *ref = put_value(c, value, &slot, EVENT_AS_ARGUMENT, false);
    if (!ref || (!d->puts && !(d->puts = PyList_New(0))) || PyList_Append(d->puts, ref) < 0) {
        Py_XDECREF(ref);
        return -1;
    }
    Py_DECREF(ref);
    int result = add_dependency(d, slot, index);
    if (result > 0 && d->n_made < N_MADE)
        d->made[d->n_made++] = (MadeArgument){value, slot, *index};
    return result;
}

static void dependencies_init(Dependencies *d, ClientObject *c)
{
    d->client = c;
    d->put_all = false;
    d->slots = d->small;
    d->n = 0;
    d->capacity = 16;
    d->n_made = 0;
    d->puts = NULL;
}

static void dependencies_clear(Dependencies *d)
{
    if (d->slots != d->small)
        PyMem_Free(d->slots);
    Py_XDECREF(d->puts);
}

static int encode_arguments(ClientObject *c, codec_out *out, Dependencies *d, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    codec_out_init(out);
    if (codec_encode_args(&c->codec, out, args, n, kwnames, on_argument, d) < 0)
        return -1;
    if (!out->n_buffers && out->size <= IMPLICIT_PUT)
        return 0;
    codec_out_clear(out);
    d->put_all = true;
    d->n = 0;
    for (uint32_t i = 0; i < d->n_made; i++)
        d->made[i].index = UINT32_MAX;
    if (codec_encode_args(&c->codec, out, args, n, kwnames, on_argument, d) < 0)
        return -1;
    if (out->n_buffers) {
        PyErr_SetString(PyExc_SystemError, "arguments with buffers that are no objects of their own");
        return -1;
    }
    if (out->size > ARGUMENTS_MAX) {
        PyErr_Format(PyExc_ValueError, "a call with %zd arguments of %zu bytes together, at most %u: pass them as one list, or an array", n,
                     out->size, ARGUMENTS_MAX);
        return -1;
    }
    return 0;
}

/* ------------------------------------------------------------------ submitting */

static void fill_origin(ClientObject *c, struct task_spec *spec)
{
    uint32_t task_1 = current_task_of(c);
    spec->origin = task_1 ? c->s.tasks[task_1 - 1].origin : c->origin;
    spec->parent = task_1 ? c->s.tasks[task_1 - 1].seq : 0;
}

/* `results`: the task's result and the stream object, both held. */
static PyObject *stream_to_python(ClientObject *c, const uint32_t *results)
{
    PyObject *result = ref_new(c, results[0], true), *stream = ref_new(c, results[1], true), *reader = NULL;
    if (result && stream)
        reader = PyObject_CallFunctionObjArgs(c->hooks.make_stream, stream, result, NULL);
    Py_XDECREF(result);
    Py_XDECREF(stream);
    return reader;
}

static PyObject *results_to_python(ClientObject *c, const uint32_t *results, uint32_t n)
{
    if (n == 0)
        Py_RETURN_NONE;
    if (n == 1)
        return ref_new(c, results[0], true);
    PyObject *list = PyList_New(n);
    for (uint32_t i = 0; i < n; i++) {
        PyObject *ref = list ? ref_new(c, results[i], true) : NULL;
        if (!ref) {
            Py_CLEAR(list);
            client_drop(&c->s, results + i, n - i);
            return NULL;
        }
        PyList_SET_ITEM(list, i, ref);
    }
    return list;
}

/* Builds the reference array and submits. `class_number`: of the shape, as known. `actor`: called with the lock held before and after, for constructors.
 * `limit`: of a stream, NULL for other tasks. */
static int submit_task(ClientObject *c, struct task_spec *spec, const struct resource_shape *shape, uint32_t *class_number,
                       const Dependencies *d, const codec_out *out, const struct actor_spec *actor,
                       uint32_t actor_object, const uint32_t *limit, uint32_t *results)
{
    uint32_t small[64], *refs = small, task;
    spec->n_dependencies = d->n;
    spec->n_refs = d->n + out->n_refs;
    if (spec->n_refs >= 64 && !(refs = PyMem_Malloc((spec->n_refs + 1) * sizeof *refs))) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(refs, d->slots, d->n * sizeof *refs);
    memcpy(refs + d->n, out->refs, out->n_refs * sizeof *refs);
    spec->refs = refs;
    spec->arguments = out->data;
    spec->arguments_size = (uint32_t)out->size;
    int error = OBJSTORE_OK;
    bool no_class = false;
    for (int again = 1, attempt = 0; again > 0; again = find_room(c, error, attempt++)) {
        segment_lock(&c->s);
        uint32_t index = 0;
        error = resource_intern(&c->s, shape, class_number, &spec->resource_class);
        no_class = error != OBJSTORE_OK;
        if (actor && !error)
            error = actor_create(&c->s, actor, actor_object, &index);
        if (actor && !error)
            spec->actor_1 = index + 1;
        if (!error) {
            error = limit ? stream_submit(&c->s, spec, refs, *limit, &results[0], &results[1])
                          : task_submit(&c->s, spec, results, &task);
            if (actor && error)
                actor_discard(&c->s, index);
            else if (actor)
                actor_constructed_by(&c->s, index, task);
        }
        segment_unlock(&c->s);
    }
    if (refs != small)
        PyMem_Free(refs);
    if (no_class && !PyErr_Occurred())
        raise_core_error(c, error, "resource shapes");
    if (error && !PyErr_Occurred())
        raise_submit_error(c, error, spec, actor);
    return error ? -1 : 0;
}

static PyObject *submitter_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    SubmitterObject *f = (SubmitterObject *)self;
    ClientObject *c = f->client;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (client_usable(c) < 0)
        return NULL;
    if (f->checked) {
        Py_ssize_t n_keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
        if ((!positional_fit(f, n, n_keywords) || (n_keywords && !keywords_fit(f, n, kwnames))) &&
            explain_misfit(f, args, n, kwnames) < 0)
            return NULL;
    }
    Dependencies d;
    codec_out out;
    dependencies_init(&d, c);
    PyObject *result = NULL;
    uint32_t few[8], *results = few;
    const struct resource_shape *shape = (const void *)PyBytes_AS_STRING(f->shape);
    struct resource_shape captured;
    uint32_t *class_number = &f->class_number;
    struct task_spec spec = {.function = ((RefObject *)f->function)->slot, .actor_1 = f->actor_1, .n_returns = f->n_returns,
                             .max_retries = f->max_retries, .flags = f->flags,
                             .group = f->group, .placement = f->placement};
    if (f->free && placement_captures(c)) {
        captured = *shape;
        shape = &captured;
        class_number = &captured.number;
        if (placement_capture(c, &spec, &captured) < 0)
            return NULL;
    }
    if (encode_arguments(c, &out, &d, args, n, kwnames) < 0)
        goto done;
    if (f->n_returns > 8 && !(results = PyMem_Malloc(f->n_returns * sizeof *results))) {
        PyErr_NoMemory();
        goto done;
    }
    fill_origin(c, &spec);
    if (submit_task(c, &spec, shape, class_number, &d, &out, NULL, 0, f->streams ? &f->limit : NULL, results) == 0)
        result = f->streams ? stream_to_python(c, results) : results_to_python(c, results, f->n_returns);
done:
    if (results != few)
        PyMem_Free(results);
    codec_out_clear(&out);
    dependencies_clear(&d);
    return result;
}

/* ------------------------------------------------------------------ making submitters */

static int parse_params(SubmitterObject *f, PyObject *params)
{
    if (params == Py_None)
        return 0;
    PyObject *positions, *required;
    int any;
    if (!PyArg_ParseTuple(params, "nnO!Op;params", &f->n_required, &f->n_max, &PyDict_Type, &positions, &required, &any))
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

PyObject *client_submitter(ClientObject *c, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "shape", "num_returns", "max_retries", "retry_exceptions", "actor",
                            "params", "check", "hidden", "env", "stream", "group", "placement", NULL};
    PyObject *function, *given, *actor = Py_None, *params = Py_None, *check = Py_None, *stream = Py_None;
    PyObject *placement = Py_None; /* None: wherever the caller's group wants it */
    const struct resource_shape *shape;
    unsigned int n_returns = 1, group = 0;
    int max_retries = 3, retry_exceptions = 0, hidden = 0, env = 0;
    if (client_usable(c) < 0 ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|$IipOOOppOIO:submitter", names, c->codec.ref_type, &function, &given,
                                     &n_returns, &max_retries, &retry_exceptions, &actor, &params, &check, &hidden, &env, &stream,
                                     &group, &placement) ||
        !parse_shape(given, &shape))
        return NULL;
    unsigned long number = placement == Py_None ? 0 : PyLong_AsUnsignedLong(placement);
    unsigned long limit = stream == Py_None ? 0 : PyLong_AsUnsignedLong(stream);
    if (PyErr_Occurred() || limit > UINT32_MAX)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "submitter: stream must be None or 0..4294967295");
    if (n_returns > UINT16_MAX || max_retries < -1 || max_retries > INT16_MAX ||
        group >= (actor == Py_None ? UINT16_MAX : MAX_GROUPS))
        return PyErr_Format(PyExc_ValueError, "submitter: num_returns must be 0..65535, max_retries -1..32767, group below %u, of a "
                            "task 65535", MAX_GROUPS);
    CoreState *state = core_state(PyType_GetModule(Py_TYPE(c)));
    SubmitterObject *f = PyObject_GC_New(SubmitterObject, state->submitter_type);
    if (!f)
        return NULL;
    memset((char *)f + offsetof(SubmitterObject, vectorcall), 0, sizeof *f - offsetof(SubmitterObject, vectorcall));
    f->vectorcall = submitter_call;
    f->client = (ClientObject *)Py_NewRef(c);
    f->function = Py_NewRef(function);
    f->check = Py_NewRef(check);
    f->actor = Py_NewRef(actor);
    f->shape = Py_NewRef(given);
    f->class_number = shape->number;
    f->placement = (uint32_t)number;
    f->free = placement == Py_None && actor == Py_None;
    f->n_returns = n_returns;
    f->streams = stream != Py_None;
    f->limit = (uint32_t)limit;
    f->group = (uint16_t)group;
    f->max_retries = (int16_t)max_retries;
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
    Py_VISIT(f->positions);
    Py_VISIT(f->required_names);
    return 0;
}

static int submitter_clear(SubmitterObject *f)
{
    Py_CLEAR(f->check);
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

static PyMemberDef submitter_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(SubmitterObject, vectorcall), READONLY, NULL}, {NULL}};

static PyType_Slot submitter_slots[] = {{Py_tp_doc, "Submits one task for each call; made by Client.submitter."},
                                        {Py_tp_dealloc, submitter_dealloc},
                                        {Py_tp_traverse, submitter_traverse},
                                        {Py_tp_clear, submitter_clear},
                                        {Py_tp_call, PyVectorcall_Call},
                                        {Py_tp_members, submitter_members},
                                        {0, NULL}};

PyType_Spec submitter_spec = {"cellmesh.objstore._core.Submitter", sizeof(SubmitterObject), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                  Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                              submitter_slots};

/* ------------------------------------------------------------------ actors */

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

PyObject *client_create_actor(ClientObject *c, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "shape", "args", "kwargs", "meta", "name", "namespace", "max_restarts",
                            "max_task_retries", "max_concurrency", "ordered", "detached", "env", "max_pending", "groups", "placement", NULL};
    PyObject *function, *call_args, *call_kwargs, *meta, *groups = NULL, *placement = Py_None;
    const char *name = "", *scope = "";
    const struct resource_shape *given;
    unsigned int max_concurrency = 1, max_pending = 0;
    int max_restarts = 0, max_task_retries = 0, ordered = 1, detached = 0, env = 0;
    if (client_usable(c) < 0 ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "O!O&O!O!|$OssiiIpppIO!O:create_actor", names, c->codec.ref_type, &function, parse_shape, &given,
                                     &PyTuple_Type, &call_args, &PyDict_Type, &call_kwargs, &meta, &name, &scope, &max_restarts,
                                     &max_task_retries, &max_concurrency, &ordered, &detached, &env, &max_pending,
                                     &PyTuple_Type, &groups, &placement))
        return NULL;
    unsigned long number = placement == Py_None ? 0 : PyLong_AsUnsignedLong(placement);
    if (PyErr_Occurred())
        return NULL;
    struct resource_shape shape = *given;
    struct actor_spec actor = {*name ? actor_name_hash(name, scope) : 0, max_restarts, max_task_retries, max_concurrency,
                               (ordered ? ACTOR_FLAG_ORDERED : 0u) | (detached ? ACTOR_FLAG_DETACHED : 0u), max_pending, {0}};
    if (groups && PyTuple_GET_SIZE(groups) > (Py_ssize_t)MAX_GROUPS)
        return PyErr_Format(PyExc_ValueError, "create_actor: at most %u groups", MAX_GROUPS);
    for (Py_ssize_t i = 0; groups && i < PyTuple_GET_SIZE(groups); i++)
        actor.group_limit[i] = (uint16_t)PyLong_AsUnsignedLongMask(PyTuple_GET_ITEM(groups, i));
    struct task_spec spec = {.function = ((RefObject *)function)->slot, .n_returns = 1, .max_retries = 0,
                             .flags = (uint16_t)(TASK_FLAG_ACTOR_CREATION | (env ? TASK_FLAG_ENV : 0)), .placement = (uint32_t)number};
    keep_in_memory(c, spec.function);
    if (placement == Py_None && placement_captures(c) && placement_capture(c, &spec, &shape) < 0)
        return NULL;
    Dependencies d;
    codec_out out;
    dependencies_init(&d, c);
    codec_out_init(&out);
    PyObject **vector = NULL, *kwnames = NULL, *ref = NULL;
    uint32_t slot, result;
    unsigned long long constructor = 0;
    if (!flatten(call_args, call_kwargs, &kwnames, &vector) ||
        encode_arguments(c, &out, &d, vector, PyTuple_GET_SIZE(call_args), kwnames) < 0 ||
        !(ref = put_value(c, meta, &slot, EVENT_BY_PUT, true)))
        goto done;
    fill_origin(c, &spec);
    if (submit_task(c, &spec, &shape, &shape.number, &d, &out, &actor, slot, NULL, &result) == 0) {
        constructor = c->s.objects[result].creator;
        client_drop(&c->s, &result, 1); /* nobody asks for the constructor's result; its task keeps it */
    } else {
        Py_CLEAR(ref);
    }
done:
    codec_out_clear(&out);
    dependencies_clear(&d);
    PyMem_Free(vector);
    Py_XDECREF(kwnames);
    return ref ? Py_BuildValue("(NK)", ref, constructor) : NULL;
}
