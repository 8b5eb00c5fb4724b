/* Values that go through pickle, and the refs inside them.
 *
 * pickle calls Ref.__reduce__, far from us, in the middle of the hook. The thread-local pointers below say which
 * value this thread is encoding or decoding just then; both nest, because unpickling may run code that gets other
 * objects. */
#include "codec/internal.h"

static _Thread_local codec_out *encoding;
static _Thread_local const codec_source *decoding;
static PyObject *ref_at_function; /* _core._ref_at, made once by codec_init */

/* --- encoding --- */

bool codec_is_encoding(void) { return encoding != NULL; }
void *codec_encodes_for(void) { return encoding == NULL ? NULL : encoding->hooks->ctx; }

PyObject *codec_reduce_ref(PyObject *ref)
{
    if (encoding == NULL) {
        PyErr_SetString(PyExc_TypeError,
                        "an ObjectRef can only be pickled by cellmesh itself (in an argument, a result or put()), "
                        "which keeps its value alive; pickle the value instead: cellmesh.get(ref)");
        return NULL;
    }
    uint32_t number;
    if (codec_add_ref(encoding, ref, &number) != ENCODED)
        return NULL;
    return Py_BuildValue("O(I)", ref_at_function, (unsigned int)number);
}

static PyObject *no_hook(const char *name)
{
    return PyErr_Format(PyExc_RuntimeError,
                        "this value needs the hook \"%s\", and there is none (is the client closed?)", name);
}

static PyObject *call_pickle(const encoder *e, PyObject *value)
{
    if (e->hooks->pickle == NULL)
        return no_hook("pickle");
    codec_out *outer = encoding;
    encoding = e->out;
    PyObject *result = PyObject_CallOneArg(e->hooks->pickle, value);
    encoding = outer;
    if (result == NULL)
        return NULL;
    if (PyTuple_Check(result) && PyTuple_GET_SIZE(result) == 2 && PyBytes_Check(PyTuple_GET_ITEM(result, 0)) &&
        PyList_Check(PyTuple_GET_ITEM(result, 1)))
        return result;
    Py_DECREF(result);
    PyErr_SetString(PyExc_TypeError, "the pickle hook must return (bytes, list of buffers)");
    return NULL;
}

static int put_pickle(codec_out *out, PyObject *pickle, PyObject *buffers)
{
    Py_ssize_t n = PyList_GET_SIZE(buffers);
    if (codec_put_byte(out, TAG_PICKLE) != ENCODED || codec_put_count(out, (size_t)n) != ENCODED)
        return -1;
    if (codec_put_body(out, pickle, PyBytes_AS_STRING(pickle), (size_t)PyBytes_GET_SIZE(pickle), LARGE_BODY) != ENCODED)
        return -1;
    for (Py_ssize_t i = 0; i < n && i < PyList_GET_SIZE(buffers); i++) {
        Py_buffer view;
        PyObject *buffer = PyList_GET_ITEM(buffers, i);
        if (PyObject_GetBuffer(buffer, &view, PyBUF_ANY_CONTIGUOUS) < 0)
            return -1;
        view.readonly = PyMemoryView_Check(buffer);
        if (codec_add_buffer(out, &view) != ENCODED)
            return -1;
    }
    return 0;
}

int codec_encode_pickle(encoder *e, PyObject *value)
{
    PyObject *pair = call_pickle(e, value);
    if (pair == NULL)
        return -1;
    int result = put_pickle(e->out, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
    Py_DECREF(pair);
    return result;
}

/* --- decoding --- */

PyObject *codec_make_ref(const codec_source *source, size_t number)
{
    if (number < source->n_refs)
        return source->make_ref(source->ctx, source->refs[number]);
    codec_damaged();
    return NULL;
}

static PyObject *ref_at(PyObject *module, PyObject *argument)
{
    (void)module;
    size_t number = PyLong_AsSize_t(argument);
    if (number == (size_t)-1 && PyErr_Occurred())
        return NULL;
    if (decoding != NULL)
        return codec_make_ref(decoding, number);
    PyErr_SetString(PyExc_TypeError,
                    "a pickled ObjectRef can only be read by cellmesh, as part of the value it was written in");
    return NULL;
}

PyObject *codec_call_unpickle(const reader *r, PyObject *pickle, PyObject *buffers)
{
    if (r->hooks->unpickle == NULL)
        return no_hook("unpickle");
    const codec_source *outer = decoding;
    decoding = r->source;
    PyObject *value = PyObject_CallFunctionObjArgs(r->hooks->unpickle, pickle, buffers, NULL);
    decoding = outer;
    return value;
}

/* --- binding --- */

static PyMethodDef functions[] = {
    {"_ref_at", ref_at, METH_O,
     "_ref_at(number, /)\n--\n\nThe ref with this number in the value that is being decoded."},
    {NULL, NULL, 0, NULL},
};

int codec_init(PyObject *module)
{
    if (buffer_init(module) < 0 || PyModule_AddFunctions(module, functions) < 0)
        return -1;
    ref_at_function = PyObject_GetAttrString(module, "_ref_at");
    codec_damage = PyErr_NewException("cellmesh.objstore.DamagedValueError", PyExc_ValueError, NULL);
    return ref_at_function == NULL || codec_damage == NULL ? -1 : 0;
}
