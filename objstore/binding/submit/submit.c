/* submit/: from the arguments of `f.remote(...)` to a task slot; never what runs the task. */

/* Submitters: the callables behind `f.remote`. One call encodes the arguments and writes a task slot; nothing else
 * happens in between, so a submit costs about as much as a method call. */
#include "submit/submit.h"

#include "shared/shared.h"

#include <structmember.h>

#include <string.h>

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

/* ------------------------------------------------------------------ is the function still what was exported? */

static int renew_function(SubmitterObject *f)
{
    PyObject *pair = PyObject_CallNoArgs(f->renew), *function, *watch;
    if (!pair)
        return -1;
    if (!PyArg_ParseTuple(pair, "O!O!:renew", f->client->codec.ref_type, &function, Py_TYPE(f->watch), &watch)) {
        Py_DECREF(pair);
        return -1;
    }
    keep_in_memory(f->client, ((RefObject *)function)->slot);
    PyObject *old_function = f->function, *old_watch = f->watch;
    f->function = Py_NewRef(function);
    f->watch = Py_NewRef(watch);
    Py_DECREF(old_function);
    Py_DECREF(old_watch);
    Py_DECREF(pair);
    return 0;
}

static inline int function_is_current(SubmitterObject *f)
{
    if (!f->watch || (!watch_changed(f->watch) && !watch_is_due(f->watch)))
        return 0;
    return renew_function(f);
}

/* ------------------------------------------------------------------ arguments */

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
           (PyUnicode_CheckExact(v) && PyUnicode_GET_LENGTH(v) < 256) ||
           (PyBytes_CheckExact(v) && PyBytes_GET_SIZE(v) < 256);
}

/* A large argument is an object of its own: written once, straight into the arena, and the function may keep a view. */
static bool is_large(ClientObject *c, PyObject *v)
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
    bool large = view.len >= (Py_ssize_t)IMPLICIT_PUT_BUFFER && !shared_has(c, view.buf);
    PyBuffer_Release(&view);
    return large;
}

/* A value has become an object, unless `ref` is NULL. */
static int note_put(Dependencies *d, PyObject *value, PyObject *ref, uint32_t slot)
{
    if (!ref || (!d->puts && !(d->puts = PyList_New(0))) || PyList_Append(d->puts, ref) < 0) {
        Py_XDECREF(ref);
        return -1;
    }
    Py_DECREF(ref);
    if (d->n_made < N_MADE)
        d->made[d->n_made++] = (MadeArgument){value, slot, UINT32_MAX};
    return 0;
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
    if (!d->put_all && !is_large(c, value))
        return 0;
    uint32_t slot = 0;
    PyObject *ref = put_shared(c, value, &slot);
    if (note_put(d, value, ref, slot) < 0)
        return -1;
    int result = add_dependency(d, slot, index);
    if (d->n_made && d->made[d->n_made - 1].value == value)
        d->made[d->n_made - 1].index = *index;
    return result;
}

void dependencies_init(Dependencies *d, ClientObject *c)
{
    d->client = c;
    d->put_all = false;
    d->slots = d->small;
    d->n = 0;
    d->capacity = 16;
    d->n_made = 0;
    d->puts = NULL;
}

void dependencies_clear(Dependencies *d)
{
    if (d->slots != d->small)
        PyMem_Free(d->slots);
    Py_XDECREF(d->puts);
}

static PyObject *as_tuple(PyObject *const *args, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple && i < n; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    return tuple;
}

struct failed_call {
    ClientObject *c;
    uint32_t function;
    PyObject *about, *const *args;
    Py_ssize_t n;
    PyObject *kwnames;
};

static PyObject *about_call(const void *what)
{
    const struct failed_call *f = what;
    PyObject *values = as_tuple(f->args, f->n + (f->kwnames ? PyTuple_GET_SIZE(f->kwnames) : 0)),
             *name = function_name(f->c, f->function), *call = NULL;
    if (values && name)
        call = Py_BuildValue("(OOOnO)", name, f->about ? f->about : Py_None, values, f->n,
                             f->kwnames ? f->kwnames : Py_None);
    Py_XDECREF(values);
    Py_XDECREF(name);
    return call;
}

/* An argument cannot be pickled: the error says which, and of which task. */
static void name_task(ClientObject *c, uint32_t function, PyObject *about, PyObject *const *args, Py_ssize_t n,
                      PyObject *kwnames)
{
    struct failed_call call = {c, function, about, args, n, kwnames};
    tell_hook(c->hooks.arguments_failed, PyExc_TypeError, about_call, &call);
}

/* What has been pickled by itself is not pickled again, only because it becomes an object of its own. */
static int put_alone(ClientObject *c, Encoded *e, Dependencies *d)
{
    PyObject *value = e->out.alone;
    uint32_t slot = 0;
    codec_keep_alone(&e->out);
    e->size = codec_total_size(&e->out);
    PyObject *ref = put_shared_encoded(c, value, e, &slot);
    return note_put(d, value, ref, slot);
}

static int encode_all(ClientObject *c, Encoded *e, Dependencies *d, PyObject *const *args, Py_ssize_t n,
                      PyObject *kwnames)
{
    codec_out *out = &e->out;
    codec_out_init(out);
    int too_large = codec_encode_args(&c->codec, out, args, n, kwnames, on_argument, d);
    if (too_large < 0)
        return -1;
    if (!too_large && !out->n_buffers && out->size <= IMPLICIT_PUT)
        return 0;
    if (out->alone && d->n_made < N_MADE && put_alone(c, e, d) < 0)
        return -1;
    codec_out_clear(out);
    d->put_all = true;
    d->n = 0;
    for (uint32_t i = 0; i < d->n_made; i++)
        d->made[i].index = UINT32_MAX;
    too_large = codec_encode_args(&c->codec, out, args, n, kwnames, on_argument, d);
    if (too_large < 0)
        return -1;
    if (too_large || out->n_buffers) {
        PyErr_SetString(PyExc_SystemError, "arguments with buffers that are no objects of their own");
        return -1;
    }
    if (out->size > ARGUMENTS_MAX) {
        PyErr_Format(PyExc_ValueError,
                     "a call with %zd arguments of %zu bytes together, at most %u: pass them as one list, or an array",
                     n, out->size, ARGUMENTS_MAX);
        return -1;
    }
    return 0;
}

int encode_arguments(ClientObject *c, uint32_t function, PyObject *about, Encoded *e, Dependencies *d,
                     PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    int status = encode_all(c, e, d, args, n, kwnames);
    if (__builtin_expect(status < 0, 0))
        name_task(c, function, about, args, n, kwnames);
    return status;
}

/* ------------------------------------------------------------------ submitting */

void fill_origin(ClientObject *c, struct task_spec *spec)
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

#define NONE_ENDS_NS (INT64_C(2) * 1000 * 1000 * 1000)

typedef struct {
    uint64_t n_finished;
    int64_t since; /* when that was so first, 0: it has not been looked at */
} Ends;

/* The table of tasks is full: a program sleeps until some have ended, as one that only submits would be refused at the
 * speed of its processor. A task is refused at once, as it may be in the place of those that would have to end. 1: try
 * again; 0: none has ended for NONE_ENDS_NS; -1: exception. */
static int wait_for_place(ClientObject *c, Ends *ends)
{
    const struct header *h = c->s.h;
    bool full = !h->free_task_1 && h->touched_tasks >= c->s.n_tasks;
    if (!full || c->s.clients[c->s.me].role != ROLE_DRIVER || current_task_of(c))
        return 0;
    int64_t now = monotonic_ns();
    if (!ends->since || ends->n_finished != h->n_finished)
        *ends = (Ends){h->n_finished, now};
    else if (now - ends->since > NONE_ENDS_NS)
        return 0;
    return sleep_a_little(c, client_inbox(&c->s)) < 0 ? -1 : 1;
}

/* Builds the reference array and submits. `class_number`: of the shape, as known. `actor`: called with the lock held
 * before and after, for constructors. `limit`: of a stream, NULL for other tasks. */
int submit_task(ClientObject *c, struct task_spec *spec, const struct resource_shape *shape, uint32_t *class_number,
                const Dependencies *d, const codec_out *out, const struct actor_spec *actor, uint32_t actor_object,
                const uint32_t *limit, uint32_t *results)
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
    Ends ends = {0};
    for (int again = 1, attempt = 0; again > 0;) {
        segment_lock(&c->s);
        uint32_t index = 0;
        error = task_class(&c->s, shape, class_number, &spec->resource_class);
        no_class = error != OBJSTORE_OK;
        if (actor && !error)
            error = actor_create(&c->s, actor, actor_object, &index);
        if (actor && !error)
            spec->actor_1 = index + 1;
        if (!error) {
            error = limit ? task_submit_stream(&c->s, spec, refs, *limit, &results[0], &results[1])
                          : task_submit(&c->s, spec, results, &task);
            if (actor && error)
                actor_discard(&c->s, index);
            else if (actor)
                actor_constructed_by(&c->s, index, task);
        }
        segment_unlock(&c->s);
        again = find_room(c, error, attempt++);
        if (again == 0 && error == OBJSTORE_LIMIT && !no_class)
            again = wait_for_place(c, &ends);
    }
    if (refs != small)
        PyMem_Free(refs);
    if (no_class && !PyErr_Occurred())
        raise_core_error(c, error, "resource shapes");
    if (error && !PyErr_Occurred())
        raise_submit_error(c, error, spec, actor);
    return error ? -1 : 0;
}

PyObject *submitter_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
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
    if (function_is_current(f) < 0)
        return NULL;
    PyObject *function = Py_NewRef(f->function); /* until the task pins it: another thread may exchange it */
    Dependencies d;
    Encoded e;
    dependencies_init(&d, c);
    PyObject *result = NULL;
    uint32_t few[8], *results = few;
    const struct resource_shape *shape = (const void *)PyBytes_AS_STRING(f->shape);
    struct resource_shape captured;
    uint32_t *class_number = &f->class_number;
    struct task_spec spec = {.function = ((RefObject *)function)->slot,
                             .actor_1 = f->actor_1,
                             .n_returns = f->n_returns,
                             .max_retries = f->max_retries,
                             .flags = f->flags,
                             .group = f->group,
                             .placement = f->placement,
                             .times = f->times};
    const struct resource_class *around = class_around(c);
    if (__builtin_expect(around && takes_after(around, f->free, f->inherits), 0)) {
        captured = *shape;
        shape = &captured;
        class_number = &captured.number;
        if (take_after(c, around, f->free, f->inherits, &spec, &captured) < 0) {
            Py_DECREF(function);
            return NULL;
        }
    }
    if (encode_arguments(c, spec.function, f->about, &e, &d, args, n, kwnames) < 0)
        goto done;
    if (f->n_returns > 8 && !(results = PyMem_Malloc(f->n_returns * sizeof *results))) {
        PyErr_NoMemory();
        goto done;
    }
    fill_origin(c, &spec);
    if (submit_task(c, &spec, shape, class_number, &d, &e.out, NULL, 0, f->streams ? &f->limit : NULL, results) == 0)
        result = f->streams ? stream_to_python(c, results) : results_to_python(c, results, f->n_returns);
done:
    if (results != few)
        PyMem_Free(results);
    encoded_clear(&e);
    dependencies_clear(&d);
    Py_DECREF(function);
    return result;
}
