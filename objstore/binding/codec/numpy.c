/* numpy arrays, scalars and dtypes, where the dtype can be written down (see dtype.c): numbers, times, strings of
 * fixed width, structures of them.
 *
 * numpy is not imported to find out whether a value is its own; only when the type's name says so, or to decode.
 * Everything else of numpy's (subclasses, objects, strings of any length) is pickled. */
#include "codec/dtype.h"

#include <numpy/arrayscalars.h>

int codec_need_numpy(void) { return PyArray_ImportNumPyAPI(); }

static bool may_be_numpy(PyTypeObject *type) { return PyArray_API != NULL || strncmp(type->tp_name, "numpy.", 6) == 0; }

/* --- encoding --- */

static int put_array_header(encoder *e, PyArrayObject *array, char order)
{
    int n_dimensions = PyArray_NDIM(array);
    size_t size = 3 + 8 * (size_t)n_dimensions;
    unsigned char *to = codec_reserve(e->out, size);
    if (to == NULL)
        return FAILED;
    *to++ = TAG_ARRAY;
    *to++ = (unsigned char)order;
    *to++ = (unsigned char)n_dimensions;
    if (n_dimensions > 0)
        memcpy(to, PyArray_DIMS(array), size - 3);
    e->out->size += size;
    return codec_put_dtype(e, PyArray_DESCR(array));
}

/* No buffer is asked of numpy: it would make a description of it, and has none for times. */
static int put_content(encoder *e, PyObject *array)
{
    PyArrayObject *a = (PyArrayObject *)array;
    return codec_put_body(e->out, array, PyArray_DATA(a), (size_t)PyArray_NBYTES(a), LARGE_ARRAY);
}

/* As pickle does, an array with gaps or a strange order of axes is written in C order. */
static int put_content_in_order(encoder *e, PyObject *array)
{
    if (e->depth > 0)
        return UNSUITED; /* copying lets other threads run, and they might change what contains the array */
    PyObject *copy = PyArray_NewCopy((PyArrayObject *)array, NPY_CORDER);
    int result = copy == NULL ? FAILED : put_content(e, copy);
    Py_XDECREF(copy);
    return result;
}

static int encode_array(encoder *e, PyObject *value)
{
    PyArrayObject *array = (PyArrayObject *)value;
    if ((Py_REFCNT(value) > 1 || e->depth == 0) && codec_is_met_again(e, value))
        return UNSUITED;
    uint64_t offset;
    if (e->hooks->shared != NULL && *e->hooks->shared->n_known && codec_find_shared(e->hooks, value, &offset) != NULL)
        return codec_encode_shared(e, value);
    bool c_order = PyArray_IS_C_CONTIGUOUS(array), f_order = PyArray_IS_F_CONTIGUOUS(array);
    int result = put_array_header(e, array, c_order || !f_order ? 'C' : 'F');
    if (result != ENCODED)
        return result;
    return c_order || f_order ? put_content(e, value) : put_content_in_order(e, value);
}

static int put_str_scalar(codec_out *out, PyObject *scalar, size_t size)
{
    Py_UCS4 *characters = PyUnicode_AsUCS4Copy(scalar);
    int result = characters == NULL ? FAILED : codec_put(out, characters, size);
    PyMem_Free(characters);
    return result;
}

static int put_scalar_content(encoder *e, PyObject *scalar, PyArray_Descr *dtype)
{
    size_t size = (size_t)PyDataType_ELSIZE(dtype);
    char number[sizeof(npy_clongdouble)];
    switch (dtype->type_num) {
    case NPY_UNICODE:
        return put_str_scalar(e->out, scalar, size);
    case NPY_STRING:
        return codec_put(e->out, PyBytes_AS_STRING(scalar), size);
    case NPY_VOID:
        if (codec_is_met_again(e, scalar)) /* it may be written to, so it matters whether there are one or two */
            return UNSUITED;
        return codec_put(e->out, ((PyVoidScalarObject *)scalar)->obval, size);
    default:
        PyArray_ScalarAsCtype(scalar, number);
        return codec_put(e->out, number, size);
    }
}

/* UNSUITED for a scalar of a subclass. */
static int encode_scalar(encoder *e, PyObject *scalar)
{
    if (Py_TYPE(scalar) == &PyDoubleArrType_Type) { /* what most reductions give; asking for the dtype takes 50 ns */
        unsigned char bytes[2 + sizeof(double)] = {TAG_SCALAR, NPY_DOUBLE};
        memcpy(bytes + 2, &PyArrayScalar_VAL(scalar, Double), sizeof(double));
        return codec_put(e->out, bytes, sizeof bytes);
    }
    PyArray_Descr *dtype = PyArray_DescrFromScalar(scalar);
    if (dtype == NULL)
        return FAILED;
    int result = Py_TYPE(scalar) == dtype->typeobj ? codec_put_byte(e->out, TAG_SCALAR) : UNSUITED;
    if (result == ENCODED)
        result = codec_put_dtype(e, dtype);
    if (result == ENCODED)
        result = put_scalar_content(e, scalar, dtype);
    Py_DECREF(dtype);
    return result;
}

int codec_encode_numpy(encoder *e, PyObject *value)
{
    if (!may_be_numpy(Py_TYPE(value)))
        return UNSUITED;
    if (codec_need_numpy() < 0)
        return FAILED;
    if (PyArray_CheckExact(value))
        return encode_array(e, value);
    if (PyArray_IsScalar(value, Generic))
        return encode_scalar(e, value);
    if (!PyArray_DescrCheck(value))
        return UNSUITED;
    return codec_put_byte(e->out, TAG_DTYPE) == ENCODED ? codec_put_dtype(e, (PyArray_Descr *)value) : FAILED;
}

/* --- decoding --- */

/* New reference; NULL with an exception. Nothing consists of a dtype that itself has a shape, or of no bytes. */
PyArray_Descr *codec_take_item_dtype(reader *r)
{
    PyArray_Descr *dtype = codec_need_numpy() < 0 ? NULL : codec_take_dtype(r);
    if (dtype != NULL && dtype->type_num == NPY_VOID &&
        (PyDataType_SUBARRAY(dtype) != NULL || PyDataType_ELSIZE(dtype) == 0)) {
        Py_CLEAR(dtype);
        codec_damaged();
    }
    return dtype;
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

/* An array over bytes that `base` keeps; takes over both references. Read-only unless `flags` say otherwise. */
static PyObject *make_array(PyArray_Descr *dtype, int n_dimensions, const npy_intp *shape, int flags,
                            const unsigned char *bytes, PyObject *base)
{
    PyObject *array =
        PyArray_NewFromDescr(&PyArray_Type, dtype, n_dimensions, shape, NULL, (void *)(uintptr_t)bytes, flags, NULL);
    if (array == NULL)
        Py_DECREF(base);
    else /* PyArray_SetBaseObject does this after a microsecond of looking, when cold, for chains of views; here are
            none */
        ((PyArrayObject_fields *)array)->base = base;
    return array;
}

/* An array that is the reader's alone; takes over the reference to the dtype. */
static PyObject *own_array(reader *r, PyArray_Descr *dtype, int n_dimensions, const npy_intp *shape, int order,
                           const body *content)
{
    unsigned char *bytes = codec_own_bytes(r, content);
    if (bytes == NULL) {
        PyObject *array = PyArray_NewFromDescr(&PyArray_Type, dtype, n_dimensions, shape, NULL, NULL, order, NULL);
        if (array != NULL && content->size > 0)
            codec_copy_body(r, PyArray_DATA((PyArrayObject *)array), content);
        return array;
    }
    PyObject *base = codec_own_buffer(r, bytes, content->size);
    if (base != NULL)
        return make_array(dtype, n_dimensions, shape, order | NPY_ARRAY_WRITEABLE, bytes, base);
    Py_DECREF(dtype);
    return NULL;
}

PyObject *codec_decode_array(reader *r)
{
    body content;
    npy_intp shape[NPY_MAXDIMS];
    const unsigned char *form = codec_take(r, 2); /* order, number of dimensions */
    if (form == NULL || (form[1] > NPY_MAXDIMS && codec_damaged() < 0) || take_shape(r, form[1], shape) < 0)
        return NULL;
    PyArray_Descr *dtype = codec_take_item_dtype(r);
    if (dtype == NULL || codec_take_body(r, &content) < 0)
        goto failed;
    if (!agrees(shape, form[1], (size_t)PyDataType_ELSIZE(dtype), content.size)) {
        codec_damaged();
        goto failed;
    }
    int order = form[0] == 'F' ? NPY_ARRAY_F_CONTIGUOUS : 0;
    if (r->source->access == CODEC_OWN)
        return own_array(r, dtype, form[1], shape, order, &content);
    PyObject *base = content.out_of_band ? codec_body_as_view(r, &content) : codec_body_as_bytes(r, &content);
    if (base == NULL)
        goto failed;
    const unsigned char *bytes = PyBytes_Check(base) ? (unsigned char *)PyBytes_AS_STRING(base) : content.bytes;
    bool writable = content.out_of_band && r->source->access == CODEC_SHARED;
    return make_array(dtype, form[1], shape, order | (writable ? NPY_ARRAY_WRITEABLE : 0), bytes, base);
failed:
    Py_XDECREF(dtype);
    return NULL;
}

PyObject *codec_decode_scalar(reader *r)
{
    npy_clongdouble few; /* and aligned, as the encoded bytes are not */
    PyArray_Descr *dtype = codec_take_item_dtype(r);
    size_t size = dtype == NULL ? 0 : (size_t)PyDataType_ELSIZE(dtype);
    const unsigned char *bytes = dtype == NULL ? NULL : codec_take(r, size);
    void *aligned = bytes == NULL || size <= sizeof few ? &few : PyMem_Malloc(size);
    PyObject *scalar = NULL;
    if (aligned == NULL) {
        PyErr_NoMemory();
    } else if (bytes != NULL) {
        memcpy(aligned, bytes, size);
        scalar = PyArray_Scalar(aligned, dtype, NULL);
    }
    if (aligned != &few)
        PyMem_Free(aligned);
    Py_XDECREF(dtype);
    return scalar;
}

PyObject *codec_decode_dtype(reader *r) { return codec_need_numpy() < 0 ? NULL : (PyObject *)codec_take_dtype(r); }
