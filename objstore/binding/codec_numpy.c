/* numpy arrays and scalars of the plain number types, without numpy's headers: the buffer protocol says enough, and a
 * build against numpy would tie the wheel to its version.
 *
 * numpy is not imported to find out whether a value is its own; only when the type's name says so, or to decode.
 * Everything else of numpy's (subclasses, structured, object, string and time types, foreign byte order) is pickled. */
#include "codec_internal.h"

/* numpy's own letters; a dtype's number is its place here. */
static const char dtype_letters[] = "?bBhHiIlLqQefdgFDG";
enum { N_DTYPES = sizeof dtype_letters - 1 };

/* Found once, then constant. */
static struct {
    PyTypeObject *array_type;
    PyObject *dtypes[N_DTYPES];
    PyObject *scalar_types[N_DTYPES];
    PyObject *dtype_name, *isnative_name, *metadata_name, *copy_name;
    PyObject *fortran, *zero; /* arguments of ndarray() */
} numpy;

/* --- finding numpy --- */

static int find_dtypes(PyObject *module)
{
    for (int i = 0; i < N_DTYPES; i++) {
        numpy.dtypes[i] = PyObject_CallMethod(module, "dtype", "s#", &dtype_letters[i], (Py_ssize_t)1);
        if (numpy.dtypes[i] == NULL)
            return -1;
        numpy.scalar_types[i] = PyObject_GetAttrString(numpy.dtypes[i], "type");
        if (numpy.scalar_types[i] == NULL)
            return -1;
    }
    return 0;
}

static int make_constants(void)
{
    numpy.dtype_name = PyUnicode_InternFromString("dtype");
    numpy.isnative_name = PyUnicode_InternFromString("isnative");
    numpy.metadata_name = PyUnicode_InternFromString("metadata");
    numpy.copy_name = PyUnicode_InternFromString("copy");
    numpy.fortran = PyUnicode_InternFromString("F");
    numpy.zero = PyLong_FromLong(0);
    bool all = numpy.dtype_name && numpy.isnative_name && numpy.metadata_name && numpy.copy_name && numpy.fortran &&
               numpy.zero;
    return all ? 0 : -1;
}

/* array_type is set last: it says that the rest is there. */
static int find_numpy(void)
{
    PyObject *module = PyImport_ImportModule("numpy");
    if (module == NULL)
        return -1;
    int result = make_constants() < 0 || find_dtypes(module) < 0 ? -1 : 0;
    PyObject *array_type = result < 0 ? NULL : PyObject_GetAttrString(module, "ndarray");
    Py_DECREF(module);
    if (array_type == NULL)
        return -1;
    numpy.array_type = (PyTypeObject *)array_type;
    return 0;
}

static int need_numpy(void)
{
    return numpy.array_type != NULL ? 0 : find_numpy();
}

static bool may_be_numpy(PyTypeObject *type)
{
    return numpy.array_type != NULL || strncmp(type->tp_name, "numpy.", 6) == 0;
}

/* --- dtypes --- */

static bool attribute_is(PyObject *object, PyObject *name, PyObject *wanted)
{
    PyObject *value = PyObject_GetAttr(object, name);
    if (value == NULL)
        PyErr_Clear(); /* a dtype without it is none of the plain ones */
    Py_XDECREF(value);
    return value == wanted;
}

/* The number of a plain dtype, or -1. Each plain type has a class of its own; a dtype of that class that is not the
 * one everybody uses may be byte-swapped, carry metadata, or just come out of a pickle. */
static int number_of_dtype(PyObject *dtype)
{
    for (int i = 0; i < N_DTYPES; i++) {
        if (dtype == numpy.dtypes[i])
            return i;
        if (Py_TYPE(dtype) == Py_TYPE(numpy.dtypes[i]) && attribute_is(dtype, numpy.isnative_name, Py_True) &&
            attribute_is(dtype, numpy.metadata_name, Py_None))
            return i;
    }
    return -1;
}

static int number_of_array(PyObject *array)
{
    PyObject *dtype = PyObject_GetAttr(array, numpy.dtype_name);
    if (dtype == NULL) {
        PyErr_Clear(); /* pickle will say what is wrong with it */
        return -1;
    }
    int number = number_of_dtype(dtype);
    Py_DECREF(dtype);
    return number;
}

/* --- encoding --- */

static int put_array_header(codec_out *out, int number, char order, const Py_buffer *view)
{
    size_t shape_size = 8 * (size_t)view->ndim;
    unsigned char *to = codec_reserve(out, 4 + shape_size);
    if (to == NULL)
        return FAILED;
    *to++ = TAG_ARRAY;
    *to++ = (unsigned char)number;
    *to++ = (unsigned char)order;
    *to++ = (unsigned char)view->ndim;
    if (view->ndim > 0)
        memcpy(to, view->shape, shape_size);
    out->size += 4 + shape_size;
    return ENCODED;
}

/* Takes over the view. */
static int put_array(codec_out *out, int number, char order, Py_buffer *view)
{
    int result = put_array_header(out, number, order, view);
    size_t size = (size_t)view->len;
    if (result == ENCODED && size >= LARGE_ARRAY)
        return codec_add_buffer(out, view) == ENCODED ? codec_put_byte(out, OUT_OF_BAND) : FAILED;
    if (result == ENCODED && (codec_put_count(out, size) != ENCODED || codec_put(out, view->buf, size) != ENCODED))
        result = FAILED;
    PyBuffer_Release(view);
    return result;
}

static int encode_contiguous(encoder *e, int number, PyObject *array);

/* As pickle does, an array with gaps or a strange order of axes is written in C order. */
static int encode_copy(encoder *e, int number, PyObject *array)
{
    if (e->depth > 0)
        return UNSUITED; /* copying lets other threads run, and they might change what contains the array */
    PyObject *copy = PyObject_CallMethodNoArgs(array, numpy.copy_name);
    if (copy == NULL)
        return FAILED;
    int result = encode_contiguous(e, number, copy);
    Py_DECREF(copy);
    return result;
}

static int encode_contiguous(encoder *e, int number, PyObject *array)
{
    Py_buffer view;
    if (PyObject_GetBuffer(array, &view, PyBUF_STRIDED_RO) < 0) {
        PyErr_Clear(); /* no buffer, no fast form */
        return UNSUITED;
    }
    if (PyBuffer_IsContiguous(&view, 'C'))
        return put_array(e->out, number, 'C', &view);
    if (PyBuffer_IsContiguous(&view, 'F'))
        return put_array(e->out, number, 'F', &view);
    PyBuffer_Release(&view);
    return encode_copy(e, number, array);
}

static int encode_array(encoder *e, PyObject *array)
{
    int number = number_of_array(array);
    bool met_again = (Py_REFCNT(array) > 1 || e->depth == 0) && codec_is_met_again(e, array);
    return number < 0 || met_again ? UNSUITED : encode_contiguous(e, number, array);
}

static int encode_scalar(encoder *e, int number, PyObject *scalar)
{
    Py_buffer view;
    if (PyObject_GetBuffer(scalar, &view, PyBUF_SIMPLE) < 0) {
        PyErr_Clear(); /* no buffer, no fast form */
        return UNSUITED;
    }
    unsigned char head[2] = {TAG_SCALAR, (unsigned char)number};
    size_t size = (size_t)view.len;
    int result = codec_put(e->out, head, sizeof head);
    if (result == ENCODED && (codec_put_count(e->out, size) != ENCODED || codec_put(e->out, view.buf, size) != ENCODED))
        result = FAILED;
    PyBuffer_Release(&view);
    return result;
}

int codec_encode_numpy(encoder *e, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (!may_be_numpy(type))
        return UNSUITED;
    if (need_numpy() < 0)
        return FAILED;
    if (type == numpy.array_type)
        return encode_array(e, value);
    for (int i = 0; i < N_DTYPES; i++)
        if (type == (PyTypeObject *)numpy.scalar_types[i])
            return encode_scalar(e, i, value);
    return UNSUITED;
}

/* --- decoding --- */

/* Borrowed; NULL with an exception. */
static PyObject *take_dtype(reader *r)
{
    const unsigned char *number = codec_take(r, 1);
    if (number == NULL || need_numpy() < 0)
        return NULL;
    if (*number < N_DTYPES)
        return numpy.dtypes[*number];
    codec_damaged();
    return NULL;
}

static PyObject *take_shape(reader *r, size_t n_dimensions)
{
    const unsigned char *bytes = codec_take(r, 8 * n_dimensions);
    PyObject *shape = bytes == NULL ? NULL : PyTuple_New((Py_ssize_t)n_dimensions);
    for (size_t i = 0; shape != NULL && i < n_dimensions; i++) {
        int64_t length;
        memcpy(&length, bytes + 8 * i, 8);
        PyObject *number = PyLong_FromLongLong(length);
        if (number == NULL)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, (Py_ssize_t)i, number);
    }
    return shape;
}

/* ndarray(shape, dtype, buffer, offset, strides, order): read-only because the buffer is. */
static PyObject *make_array(PyObject *shape, PyObject *dtype, PyObject *buffer, unsigned char order)
{
    PyObject *arguments[] = {NULL, shape, dtype, buffer, numpy.zero, Py_None, numpy.fortran};
    size_t n = order == 'F' ? 6 : 3;
    return PyObject_Vectorcall((PyObject *)numpy.array_type, arguments + 1, n | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

PyObject *codec_decode_array(reader *r)
{
    body content;
    PyObject *dtype = take_dtype(r);
    if (dtype == NULL)
        return NULL;
    const unsigned char *form = codec_take(r, 2); /* order, number of dimensions */
    PyObject *shape = form == NULL ? NULL : take_shape(r, form[1]);
    if (shape == NULL || codec_take_body(r, &content) < 0) {
        Py_XDECREF(shape);
        return NULL;
    }
    PyObject *buffer = content.out_of_band ? codec_body_as_view(r, &content) : codec_body_as_bytes(r, &content);
    PyObject *array = buffer == NULL ? NULL : make_array(shape, dtype, buffer, form[0]);
    Py_DECREF(shape);
    Py_XDECREF(buffer);
    return array;
}

/* A scalar is the only element of an array without dimensions. */
PyObject *codec_decode_scalar(reader *r)
{
    body content;
    PyObject *dtype = take_dtype(r);
    if (dtype == NULL || codec_take_body(r, &content) < 0)
        return NULL;
    PyObject *bytes = codec_body_as_bytes(r, &content), *nothing = PyTuple_New(0);
    PyObject *array = bytes == NULL || nothing == NULL ? NULL : make_array(nothing, dtype, bytes, 'C');
    PyObject *scalar = array == NULL ? NULL : PyObject_GetItem(array, nothing);
    Py_XDECREF(bytes);
    Py_XDECREF(nothing);
    Py_XDECREF(array);
    return scalar;
}
