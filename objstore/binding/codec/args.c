/* codec/: Python values to bytes and back; never a segment. */

/* Argument lists: counts of positional and keyword values, the keywords, then the values in order. A value may be a
 * dependency, known by its number only. If anything needs pickle, all that could share something become holes, filled
 * from one pickled tuple behind them, so that what two arguments share they still share after the journey. One hole
 * alone is filled by the value behind it, which has been pickled once, however large it is. */
#include "codec/internal.h"

#define PLAIN UINT32_MAX          /* no dependency */
#define SEPARATE (UINT32_MAX - 1) /* nor does it share anything: known once something is pickled */
#define SHORT_TEXT 256

/* The arguments of one call while they are encoded. */
typedef struct call {
    PyObject *const *values;
    Py_ssize_t n_positional, n_values;
    PyObject *kwnames;
    uint32_t *dependencies; /* of each value: its number, or PLAIN, or SEPARATE */
} call;

/* --- encoding --- */

static int ask_for_dependencies(const call *c, codec_arg_fn on_arg, void *ctx)
{
    for (Py_ssize_t i = 0; i < c->n_values; i++) {
        uint32_t number = 0;
        int is_dependency = on_arg == NULL ? 0 : on_arg(ctx, c->values[i], &number);
        if (is_dependency < 0)
            return -1;
        c->dependencies[i] = is_dependency ? number : PLAIN;
    }
    return 0;
}

static int put_head(encoder *e, const call *c)
{
    Py_ssize_t n_keywords = c->n_values - c->n_positional;
    if (codec_put_count(e->out, (size_t)c->n_positional) != ENCODED ||
        codec_put_count(e->out, (size_t)n_keywords) != ENCODED)
        return FAILED;
    for (Py_ssize_t i = 0; i < n_keywords; i++) {
        Py_ssize_t size;
        const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(c->kwnames, i), &size);
        if (name == NULL || codec_put_count(e->out, (size_t)size) != ENCODED ||
            codec_put(e->out, name, (size_t)size) != ENCODED)
            return FAILED;
    }
    return ENCODED;
}

static int put_dependency(codec_out *out, uint32_t number)
{
    return codec_put_byte(out, TAG_DEPENDENCY) == ENCODED ? codec_put_count(out, number) : FAILED;
}

static int encode_each(encoder *e, const call *c)
{
    int result = put_head(e, c);
    for (Py_ssize_t i = 0; i < c->n_values && result == ENCODED; i++) {
        if (c->dependencies[i] != PLAIN)
            result = put_dependency(e->out, c->dependencies[i]);
        else
            result = codec_encode_value(e, c->values[i]);
    }
    return result;
}

static PyObject *plain_values(const call *c, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = c->n_values - 1; tuple != NULL && i >= 0; i--)
        if (c->dependencies[i] == PLAIN)
            PyTuple_SET_ITEM(tuple, --n, Py_NewRef(c->values[i]));
    return tuple;
}

/* Nothing in it could be told to be another argument's, too. */
static bool shares_nothing(PyObject *value)
{
    return value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
           (PyUnicode_CheckExact(value) && PyUnicode_GET_LENGTH(value) < SHORT_TEXT) ||
           (PyBytes_CheckExact(value) && PyBytes_GET_SIZE(value) < SHORT_TEXT);
}

static int encode_pickled(encoder *e, const call *c)
{
    codec_out_truncate(e->out);
    int result = put_head(e, c);
    Py_ssize_t n_plain = 0;
    PyObject *last = NULL;
    for (Py_ssize_t i = 0; i < c->n_values && result == ENCODED; i++) {
        if (c->dependencies[i] == PLAIN && shares_nothing(c->values[i])) {
            c->dependencies[i] = SEPARATE;
            result = codec_encode_value(e, c->values[i]);
        } else if (c->dependencies[i] != PLAIN) {
            result = put_dependency(e->out, c->dependencies[i]);
        } else {
            result = codec_put_byte(e->out, TAG_HOLE);
            last = c->values[i];
            n_plain++;
        }
    }
    if (result == ENCODED && n_plain == 1) {
        e->out->alone = last;
        e->out->alone_at = e->out->size;
        return codec_encode_pickle(e, e->hooks->pickle, last);
    }
    PyObject *tuple = result == ENCODED ? plain_values(c, n_plain) : NULL;
    if (tuple == NULL)
        return -1;
    PyObject *hook = e->hooks->pickle_arguments != NULL ? e->hooks->pickle_arguments : e->hooks->pickle;
    result = codec_encode_pickle(e, hook, tuple);
    Py_DECREF(tuple);
    return result;
}

/* 1: they are too large, the hook says */
static int encode_call(const codec_hooks *hooks, codec_out *out, const call *c)
{
    encoder e;
    e.hooks = out->hooks = hooks;
    e.out = out;
    e.depth = e.n_containers = e.n_seen = 0;
    int result = encode_each(&e, c);
    return result == UNSUITED ? encode_pickled(&e, c) : result;
}

int codec_encode_args(const codec_hooks *hooks, codec_out *out, PyObject *const *args, Py_ssize_t n_positional,
                      PyObject *kwnames, codec_arg_fn on_arg, void *ctx)
{
    uint32_t few[16];
    call c = {.values = args, .n_positional = n_positional, .kwnames = kwnames, .dependencies = few};
    c.n_values = n_positional + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    if (c.n_values == 0)
        return 0;
    if ((size_t)c.n_values > Py_ARRAY_LENGTH(few))
        c.dependencies = PyMem_New(uint32_t, (size_t)c.n_values);
    if (c.dependencies == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int result = ask_for_dependencies(&c, on_arg, ctx) < 0 ? -1 : encode_call(hooks, out, &c);
    if (c.dependencies != few)
        PyMem_Free(c.dependencies);
    return result;
}

/* --- decoding --- */

static PyObject *take_keyword(reader *r)
{
    size_t size;
    if (codec_take_count(r, &size) < 0)
        return NULL;
    const unsigned char *bytes = codec_take(r, size);
    PyObject *name = bytes == NULL ? NULL : PyUnicode_FromStringAndSize((const char *)bytes, (Py_ssize_t)size);
    if (name != NULL)
        PyUnicode_InternInPlace(&name);
    return name;
}

static PyObject *take_kwnames(reader *r, size_t n)
{
    PyObject *kwnames = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; kwnames != NULL && i < n; i++) {
        PyObject *name = take_keyword(r);
        if (name == NULL)
            Py_CLEAR(kwnames);
        else
            PyTuple_SET_ITEM(kwnames, (Py_ssize_t)i, name);
    }
    return kwnames;
}

/* Counts and keywords, and room for the values. */
static int take_head(reader *r, codec_args *args)
{
    size_t n_positional, n_keywords;
    if (codec_take_count(r, &n_positional) < 0 || codec_take_count(r, &n_keywords) < 0)
        return -1;
    size_t n_bytes = (size_t)(r->end - r->at);
    if (n_positional > n_bytes || n_keywords > n_bytes)
        return codec_damaged();
    size_t n = n_positional + n_keywords;
    if (n >= Py_ARRAY_LENGTH(args->inline_values)) {
        PyObject **space = PyMem_New(PyObject *, n + 1);
        if (space == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        args->values = space + 1;
    }
    args->n_positional = (Py_ssize_t)n_positional;
    args->kwnames = n_keywords > 0 ? take_kwnames(r, n_keywords) : NULL;
    return n_keywords > 0 && args->kwnames == NULL ? -1 : 0;
}

/* What the values are taken from, and how many of them are holes. */
typedef struct filling {
    reader r;
    PyObject *const *dependencies;
    uint32_t n_dependencies;
    Py_ssize_t n_holes;
} filling;

static PyObject *take_dependency(filling *f)
{
    size_t number;
    if (codec_take_count(&f->r, &number) < 0)
        return NULL;
    if (number < f->n_dependencies)
        return Py_NewRef(f->dependencies[number]);
    codec_damaged();
    return NULL;
}

/* Appends one value; NULL stands for a hole. */
static int take_argument(filling *f, codec_args *args)
{
    PyObject *value = NULL;
    bool is_hole = f->r.at < f->r.end && *f->r.at == TAG_HOLE;
    if (is_hole) {
        f->r.at++;
        f->n_holes++;
    } else if (f->r.at < f->r.end && *f->r.at == TAG_DEPENDENCY) {
        f->r.at++;
        value = take_dependency(f);
    } else {
        value = codec_decode_value(&f->r);
    }
    if (value == NULL && !is_hole)
        return -1;
    args->values[args->n_values++] = value;
    return 0;
}

static int fill_holes(filling *f, codec_args *args)
{
    if (f->n_holes == 0)
        return 0;
    codec_hooks hooks = *f->r.hooks;
    bool alone = f->n_holes == 1;
    if (!alone && hooks.unpickle_arguments != NULL)
        hooks.unpickle = hooks.unpickle_arguments;
    const codec_hooks *outer = f->r.hooks;
    f->r.hooks = &hooks;
    PyObject *behind = codec_decode_value(&f->r);
    f->r.hooks = outer;
    if (behind == NULL)
        return -1;
    if (!alone && (!PyTuple_CheckExact(behind) || PyTuple_GET_SIZE(behind) != f->n_holes)) {
        Py_DECREF(behind);
        return codec_damaged();
    }
    Py_ssize_t next = 0;
    for (Py_ssize_t i = 0; i < args->n_values; i++)
        if (args->values[i] == NULL)
            args->values[i] = Py_NewRef(alone ? behind : PyTuple_GET_ITEM(behind, next++));
    Py_DECREF(behind);
    return 0;
}

static int take_arguments(filling *f, codec_args *args)
{
    if (take_head(&f->r, args) < 0)
        return -1;
    Py_ssize_t n = args->n_positional + (args->kwnames == NULL ? 0 : PyTuple_GET_SIZE(args->kwnames));
    while (args->n_values < n)
        if (take_argument(f, args) < 0)
            return -1;
    return fill_holes(f, args);
}

static void args_init(codec_args *args)
{
    args->values = args->inline_values + 1;
    args->n_positional = args->n_values = 0;
    args->kwnames = NULL;
}

int codec_decode_args(const codec_hooks *hooks, const unsigned char *data, size_t size, const codec_source *source,
                      PyObject *const *dependencies, uint32_t n_dependencies, codec_args *args)
{
    args_init(args);
    if (size == 0)
        return 0;
    filling f = {.dependencies = dependencies, .n_dependencies = n_dependencies};
    if (codec_reader_init(&f.r, hooks, data, size, source) == 0 && take_arguments(&f, args) == 0)
        return 0;
    codec_args_clear(args);
    return -1;
}

static long long take_kind(reader *r)
{
    size_t number = 0;
    unsigned char tag = r->at < r->end ? *r->at : TAG_HOLE;
    if (tag == TAG_HOLE || tag == TAG_DEPENDENCY)
        r->at += r->at < r->end;
    if (tag == TAG_DEPENDENCY)
        return codec_take_count(r, &number) < 0 ? -3 : (long long)number;
    if (tag == TAG_HOLE)
        return -1;
    PyObject *value = codec_decode_value(r);
    Py_XDECREF(value);
    return value == NULL ? -3 : -2;
}

PyObject *codec_args_layout(const codec_hooks *hooks, const unsigned char *data, size_t size,
                            const codec_source *source)
{
    reader r;
    codec_args args;
    args_init(&args);
    PyObject *kinds = PyList_New(0), *layout = NULL;
    bool good =
        kinds != NULL && size > 0 && codec_reader_init(&r, hooks, data, size, source) == 0 && take_head(&r, &args) == 0;
    Py_ssize_t n = good ? args.n_positional + (args.kwnames == NULL ? 0 : PyTuple_GET_SIZE(args.kwnames)) : 0;
    for (Py_ssize_t i = 0; good && i < n; i++) {
        long long kind = take_kind(&r);
        PyObject *number = kind == -3 ? NULL : PyLong_FromLongLong(kind);
        good = number != NULL && PyList_Append(kinds, number) == 0;
        Py_XDECREF(number);
    }
    if (good)
        layout = Py_BuildValue("(nOO)", args.n_positional, args.kwnames == NULL ? Py_None : args.kwnames, kinds);
    else if (!PyErr_Occurred())
        codec_damaged();
    Py_XDECREF(kinds);
    codec_args_clear(&args);
    return layout;
}

void codec_args_clear(codec_args *args)
{
    for (Py_ssize_t i = 0; i < args->n_values; i++)
        Py_XDECREF(args->values[i]); /* a hole may still be open after a failure */
    Py_XDECREF(args->kwnames);
    if (args->values != args->inline_values + 1)
        PyMem_Free(args->values - 1);
    args_init(args);
}
