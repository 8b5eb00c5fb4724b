/* The codec alone as an extension module, for tests/support/codec_harness.py: a dummy Ref, encode and decode for values
 * and argument lists, and loops to time them. */
#include "codec/internal.h"

#include <structmember.h>
#include <time.h>

/* --- a ref that is only a number --- */

typedef struct dummy_ref {
    PyObject_HEAD
    unsigned int slot;
} dummy_ref;

static PyTypeObject *ref_type;
static PyTypeObject ref_type_object;

static PyObject *ref_make(void *ctx, uint32_t slot)
{
    (void)ctx;
    dummy_ref *self = PyObject_New(dummy_ref, ref_type);
    if (self != NULL)
        self->slot = slot;
    return (PyObject *)self;
}

static PyObject *ref_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    unsigned int slot;
    (void)type, (void)kwargs;
    return PyArg_ParseTuple(args, "I", &slot) ? ref_make(NULL, slot) : NULL;
}

static uint32_t slot_of(PyObject *ref) { return ((dummy_ref *)ref)->slot; }

static int ref_slot(void *ctx, PyObject *ref, uint32_t *slot)
{
    (void)ctx;
    *slot = slot_of(ref);
    if (*slot != UINT32_MAX)
        return 0;
    PyErr_SetString(PyExc_LookupError, "a ref of somewhere else");
    return -1;
}

static PyObject *ref_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return codec_reduce_ref(self);
}

static PyObject *ref_compare(PyObject *a, PyObject *b, int op)
{
    if (Py_TYPE(a) != ref_type || Py_TYPE(b) != ref_type || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((slot_of(a) == slot_of(b)) == (op == Py_EQ));
}

static Py_hash_t ref_hash(PyObject *self) { return (Py_hash_t)slot_of(self); }

static PyMethodDef ref_methods[] = {{"__reduce__", ref_reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyMemberDef ref_members[] = {
    {"slot", T_UINT, offsetof(dummy_ref, slot), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject ref_type_object = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codec_test.Ref",
    .tp_basicsize = sizeof(dummy_ref),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = ref_new,
    .tp_richcompare = ref_compare,
    .tp_hash = ref_hash,
    .tp_methods = ref_methods,
    .tp_members = ref_members,
};

/* --- hooks and results --- */

static codec_hooks hooks;

static PyObject *set_hooks(PyObject *module, PyObject *args)
{
    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &hooks.pickle, &hooks.unpickle))
        return NULL;
    Py_INCREF(hooks.pickle); /* for good: a test module */
    Py_INCREF(hooks.unpickle);
    Py_RETURN_NONE;
}

/* (bytes, slots of refs, number of buffers) */
static PyObject *laid_out(const codec_out *out)
{
    size_t size = codec_total_size(out);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size), *refs = PyList_New(out->n_refs);
    if (bytes == NULL || refs == NULL)
        return NULL;
    memset(PyBytes_AS_STRING(bytes), 0, size);
    codec_write(out, (unsigned char *)PyBytes_AS_STRING(bytes), NULL, NULL);
    for (uint32_t i = 0; i < out->n_refs; i++)
        PyList_SET_ITEM(refs, i, PyLong_FromUnsignedLong(out->refs[i]));
    return Py_BuildValue("NNI", bytes, refs, out->n_buffers);
}

static PyObject *encode(PyObject *module, PyObject *value)
{
    codec_out out;
    (void)module;
    codec_out_init(&out);
    PyObject *result = codec_encode(&hooks, &out, value) < 0 ? NULL : laid_out(&out);
    codec_out_clear(&out);
    return result;
}

/* --- sources --- */

typedef struct input {
    Py_buffer view;
    uint32_t slots[4096];
    codec_source source;
} input;

/* From (data, slots of refs, zero_copy). */
static int input_open(input *in, PyObject *data, PyObject *slots, int zero_copy)
{
    in->source = (codec_source){.owner = zero_copy ? data : NULL, .refs = in->slots, .make_ref = ref_make};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(slots) && i < 4096; i++)
        in->slots[in->source.n_refs++] = (uint32_t)PyLong_AsUnsignedLong(PyList_GET_ITEM(slots, i));
    return PyObject_GetBuffer(data, &in->view, PyBUF_SIMPLE);
}

static PyObject *decode(PyObject *module, PyObject *args)
{
    PyObject *data, *slots;
    int zero_copy = 1;
    input in;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!|p", &data, &PyList_Type, &slots, &zero_copy) ||
        input_open(&in, data, slots, zero_copy) < 0)
        return NULL;
    PyObject *value = codec_decode(&hooks, in.view.buf, (size_t)in.view.len, &in.source);
    PyBuffer_Release(&in.view);
    return value;
}

static PyObject *encoding_name(PyObject *module, PyObject *data)
{
    Py_buffer view;
    (void)module;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    const char *name = codec_encoding_name(view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return PyUnicode_FromString(name);
}

/* --- argument lists --- */

/* Top-level refs are dependencies, gathered in the list `ctx`. */
static int on_arg(void *ctx, PyObject *value, uint32_t *dependency)
{
    if (Py_TYPE(value) != ref_type)
        return 0;
    *dependency = (uint32_t)PyList_GET_SIZE((PyObject *)ctx);
    return PyList_Append(ctx, value) < 0 ? -1 : 1;
}

/* encode_args(dependencies: list to fill, *args, **kwargs) */
static PyObject *encode_args(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    codec_out out;
    (void)module;
    codec_out_init(&out);
    int result = codec_encode_args(&hooks, &out, args + 1, n - 1, kwnames, on_arg, args[0]);
    PyObject *triple = result < 0 ? NULL : laid_out(&out);
    codec_out_clear(&out);
    return triple;
}

static PyObject *call_with(PyObject *function, codec_args *args)
{
    size_t n = (size_t)args->n_positional | PY_VECTORCALL_ARGUMENTS_OFFSET;
    PyObject *result = PyObject_Vectorcall(function, args->values, n, args->kwnames);
    codec_args_clear(args);
    return result;
}

/* call(function, data, slots of refs, values of dependencies) */
static PyObject *call(PyObject *module, PyObject *arguments)
{
    PyObject *function, *data, *slots, *dependencies;
    input in;
    codec_args args;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOO!O!", &function, &data, &PyList_Type, &slots, &PyList_Type, &dependencies) ||
        input_open(&in, data, slots, 1) < 0)
        return NULL;
    int result =
        codec_decode_args(&hooks, in.view.buf, (size_t)in.view.len, &in.source, ((PyListObject *)dependencies)->ob_item,
                          (uint32_t)PyList_GET_SIZE(dependencies), &args);
    PyObject *value = result < 0 ? NULL : call_with(function, &args);
    PyBuffer_Release(&in.view);
    return value;
}

/* --- timing --- */

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double time_encode(PyObject *value, int n)
{
    codec_out out;
    double start = now_ns();
    codec_out_init(&out);
    for (int i = 0; i < n; i++) {
        if (codec_encode(&hooks, &out, value) < 0)
            return -1;
        codec_out_clear(&out);
    }
    return (now_ns() - start) / n;
}

static double time_decode(input *in, int n)
{
    double start = now_ns();
    for (int i = 0; i < n; i++) {
        PyObject *value = codec_decode(&hooks, in->view.buf, (size_t)in->view.len, &in->source);
        if (value == NULL)
            return -1;
        Py_DECREF(value);
    }
    return (now_ns() - start) / n;
}

/* timings(value, n) -> (ns to encode, ns to decode) */
static PyObject *timings(PyObject *module, PyObject *args)
{
    PyObject *value;
    int n;
    input in;
    if (!PyArg_ParseTuple(args, "Oi", &value, &n))
        return NULL;
    PyObject *triple = encode(module, value);
    if (triple == NULL || input_open(&in, PyTuple_GET_ITEM(triple, 0), PyTuple_GET_ITEM(triple, 1), 1) < 0)
        return NULL;
    double encode_ns = time_encode(value, n), decode_ns = time_decode(&in, n);
    PyBuffer_Release(&in.view);
    Py_DECREF(triple);
    return PyErr_Occurred() ? NULL : Py_BuildValue("dd", encode_ns, decode_ns);
}

/* --- the module --- */

static PyMethodDef methods[] = {
    {"set_hooks", set_hooks, METH_VARARGS, NULL},
    {"encode", encode, METH_O, NULL},
    {"decode", decode, METH_VARARGS, NULL},
    {"encoding_name", encoding_name, METH_O, NULL},
    {"encode_args", (PyCFunction)(void (*)(void))encode_args, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"call", call, METH_VARARGS, NULL},
    {"timings", timings, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "codec_test", .m_size = -1,
                                        .m_methods = methods};

PyMODINIT_FUNC PyInit_codec_test(void);

PyMODINIT_FUNC PyInit_codec_test(void)
{
    ref_type = &ref_type_object;
    hooks.ref_type = ref_type;
    hooks.ref_slot = ref_slot;
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || PyModule_AddType(module, ref_type) < 0 || codec_init(module) < 0)
        return NULL;
    return module;
}
