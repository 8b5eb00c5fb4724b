/* numpy arrays and scalars of the plain number types.
 *
 * numpy is not imported to find out whether a value is its own; only when the type's name says so, or to decode.
 * Everything else of numpy's (subclasses, structured, object, string and time types, foreign byte order) is pickled. */
#include "codec_internal.h"

#include "numpy_api.h"

static int need_numpy(void)
{
    return PyArray_ImportNumPyAPI();
}

static bool may_be_numpy(PyTypeObject *type)
{
    return PyArray_API != NULL || strncmp(type->tp_name, "numpy.", 6) == 0;
}

static bool is_plain_number(int type_number)
{
    return (type_number >= NPY_BOOL && type_number <= NPY_CLONGDOUBLE) || type_number == NPY_HALF;
}

/* A dtype says no more than its number unless it is byte-swapped or carries metadata. */
static bool is_plain(PyArray_Descr *dtype)
{
    return is_plain_number(dtype->type_num) && PyDataType_ISNOTSWAPPED(dtype) && PyDataType_METADATA(dtype) == NULL;
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

/* As pickle does, an array with gaps or a strange order of axes is written in C order. */
static int encode_copy(encoder *e, int number, PyObject *array)
{
    Py_buffer view;
    if (e->depth > 0)
        return UNSUITED; /* copying lets other threads run, and they might change what contains the array */
    PyObject *copy = PyArray_NewCopy((PyArrayObject *)array, NPY_CORDER);
    int result = copy == NULL || PyObject_GetBuffer(copy, &view, PyBUF_STRIDED_RO) < 0
                     ? FAILED : put_array(e->out, number, 'C', &view);
    Py_XDECREF(copy);
    return result;
}

static int encode_array(encoder *e, PyObject *value)
{
    Py_buffer view;
    PyArrayObject *array = (PyArrayObject *)value;
    int number = PyArray_DESCR(array)->type_num;
    bool met_again = (Py_REFCNT(value) > 1 || e->depth == 0) && codec_is_met_again(e, value);
    if (!is_plain(PyArray_DESCR(array)) || met_again)
        return UNSUITED;
    bool c_order = PyArray_IS_C_CONTIGUOUS(array);
    if (!c_order && !PyArray_IS_F_CONTIGUOUS(array))
        return encode_copy(e, number, value);
    if (PyObject_GetBuffer(value, &view, PyBUF_STRIDED_RO) < 0) {
        PyErr_Clear(); /* no buffer, no fast form */
        return UNSUITED;
    }
    return put_array(e->out, number, c_order ? 'C' : 'F', &view);
}

/* UNSUITED for a scalar of a subclass, or of none of the plain types. */
static int encode_scalar(encoder *e, PyObject *scalar)
{
    PyArray_Descr *dtype = PyArray_DescrFromScalar(scalar);
    if (dtype == NULL)
        return FAILED;
    unsigned char bytes[2 + sizeof(npy_clongdouble)] = {TAG_SCALAR, (unsigned char)dtype->type_num};
    bool plain = is_plain(dtype) && Py_TYPE(scalar) == dtype->typeobj;
    size_t size = (size_t)PyDataType_ELSIZE(dtype);
    Py_DECREF(dtype);
    if (!plain)
        return UNSUITED;
    PyArray_ScalarAsCtype(scalar, bytes + 2);
    return codec_put(e->out, bytes, 2 + size);
}

int codec_encode_numpy(encoder *e, PyObject *value)
{
    if (!may_be_numpy(Py_TYPE(value)))
        return UNSUITED;
    if (need_numpy() < 0)
        return FAILED;
    if (PyArray_CheckExact(value))
        return encode_array(e, value);
    return PyArray_IsScalar(value, Generic) ? encode_scalar(e, value) : UNSUITED;
}

/* --- decoding --- */

/* New reference; NULL with an exception. Descriptors of plain numbers are for ever, so each is asked for once: numpy's own
 * lookup takes a microsecond when it is cold, a tenth of the first `get` of an array. */
static PyArray_Descr *take_dtype(reader *r)
{
    static PyArray_Descr *known[NPY_HALF + 1];
    const unsigned char *number = codec_take(r, 1);
    if (number == NULL || need_numpy() < 0)
        return NULL;
    if (!is_plain_number(*number)) {
        codec_damaged();
        return NULL;
    }
    if (known[*number] == NULL)
        known[*number] = PyArray_DescrFromType(*number);
    Py_XINCREF(known[*number]);
    return known[*number];
}

/* The shape; -1 with an exception if it is impossible, or does not agree with the number of bytes. */
static int take_shape(reader *r, int n_dimensions, npy_intp *shape)
{
    const unsigned char *bytes = codec_take(r, 8 * (size_t)n_dimensions);
    if (bytes == NULL)
        return -1;
    for (int i = 0; i < n_dimensions; i++) {
        int64_t length;
        memcpy(&length, bytes + 8 * i, 8);
        if (length < 0)
            return codec_damaged();
        shape[i] = (npy_intp)length;
    }
    return 0;
}

static bool agrees(const npy_intp *shape, int n_dimensions, size_t item_size, size_t size)
{
    size_t n = item_size;
    for (int i = 0; i < n_dimensions; i++)
        if (__builtin_mul_overflow(n, (size_t)shape[i], &n))
            return false;
    return n == size;
}

/* An array over bytes that `base` keeps; takes over both references. Read-only, because no flag says otherwise. */
static PyObject *make_array(PyArray_Descr *dtype, int n_dimensions, const npy_intp *shape, bool fortran,
                            const unsigned char *bytes, PyObject *base)
{
    PyObject *array = PyArray_NewFromDescr(&PyArray_Type, dtype, n_dimensions, shape, NULL, (void *)(uintptr_t)bytes,
                                           fortran ? NPY_ARRAY_F_CONTIGUOUS : 0, NULL);
    if (array == NULL)
        Py_DECREF(base);
    else /* PyArray_SetBaseObject does this after a microsecond of looking, when cold, for chains of views; here are none */
        ((PyArrayObject_fields *)array)->base = base;
    return array;
}

PyObject *codec_decode_array(reader *r)
{
    body content;
    npy_intp shape[NPY_MAXDIMS];
    PyArray_Descr *dtype = take_dtype(r);
    if (dtype == NULL)
        return NULL;
    const unsigned char *form = codec_take(r, 2); /* order, number of dimensions */
    if (form == NULL || (form[1] > NPY_MAXDIMS && codec_damaged() < 0) || take_shape(r, form[1], shape) < 0 ||
        codec_take_body(r, &content) < 0)
        goto failed;
    if (!agrees(shape, form[1], (size_t)PyDataType_ELSIZE(dtype), content.size)) {
        codec_damaged();
        goto failed;
    }
    PyObject *base = content.out_of_band ? codec_body_as_view(r, &content) : codec_body_as_bytes(r, &content);
    if (base == NULL)
        goto failed;
    const unsigned char *bytes = PyBytes_Check(base) ? (unsigned char *)PyBytes_AS_STRING(base) : content.bytes;
    return make_array(dtype, form[1], shape, form[0] == 'F', bytes, base);
failed:
    Py_DECREF(dtype);
    return NULL;
}

PyObject *codec_decode_scalar(reader *r)
{
    PyArray_Descr *dtype = take_dtype(r);
    if (dtype == NULL)
        return NULL;
    unsigned char aligned[sizeof(npy_clongdouble)];
    size_t size = (size_t)PyDataType_ELSIZE(dtype);
    const unsigned char *bytes = codec_take(r, size);
    PyObject *scalar = NULL;
    if (bytes != NULL) {
        memcpy(aligned, bytes, size);
        scalar = PyArray_Scalar(aligned, dtype, NULL);
    }
    Py_DECREF(dtype);
    return scalar;
}
