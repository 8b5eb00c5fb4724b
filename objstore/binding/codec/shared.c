/* numpy arrays over memory that processes share: where they lie is written, not what they hold.
 *
 * After the tag: the number of the ref (count), whether the array may be written to, its number of dimensions, then 8
 * bytes each for its place in the object, its lengths and its strides, and the dtype. */
#define NO_IMPORT_ARRAY
#include "codec/dtype.h"

enum { FORM = 2 }; /* bytes: writable, number of dimensions */

/* --- the memory that an array reaches, relative to its first element --- */

typedef struct reach {
    int64_t low, high;
} reach;

/* False: it cannot be said in 64 bits. Of an array without elements: none. */
static bool reach_of(int n_dimensions, const npy_intp *shape, const npy_intp *strides, size_t item_size, reach *to)
{
    *to = (reach){0, (int64_t)item_size};
    for (int i = 0; i < n_dimensions; i++)
        if (shape[i] == 0) {
            *to = (reach){0, 0};
            return true;
        }
    for (int i = 0; i < n_dimensions; i++) {
        int64_t *end = strides[i] < 0 ? &to->low : &to->high, step;
        if (__builtin_mul_overflow((int64_t)shape[i] - 1, (int64_t)strides[i], &step) ||
            __builtin_add_overflow(*end, step, end))
            return false;
    }
    return true;
}

PyObject *codec_find_shared(const codec_hooks *hooks, PyObject *value, uint64_t *offset)
{
    PyArrayObject *array = (PyArrayObject *)value;
    const unsigned char *first = PyArray_DATA(array);
    reach r;
    if (!reach_of(PyArray_NDIM(array), PyArray_DIMS(array), PyArray_STRIDES(array), (size_t)PyArray_ITEMSIZE(array),
                  &r))
        return NULL;
    PyObject *ref = hooks->shared->find(hooks->ctx, first + r.low, first + r.high, offset);
    if (ref != NULL)
        *offset -= (uint64_t)r.low;
    return ref;
}

/* --- encoding --- */

int codec_encode_shared(encoder *e, PyObject *value)
{
    PyArrayObject *array = (PyArrayObject *)value;
    uint32_t number;
    uint64_t offset = 0;
    int n = PyArray_NDIM(array);
    PyObject *ref = codec_find_shared(e->hooks, value, &offset);
    unsigned char form[FORM] = {PyArray_ISWRITEABLE(array) != 0, (unsigned char)n};
    if (ref == NULL)
        return UNSUITED;
    if (codec_add_ref(e->out, ref, &number) != ENCODED || codec_put_byte(e->out, TAG_SHARED) != ENCODED ||
        codec_put_count(e->out, number) != ENCODED || codec_put(e->out, form, FORM) != ENCODED ||
        codec_put(e->out, &offset, 8) != ENCODED || codec_put(e->out, PyArray_DIMS(array), 8 * (size_t)n) != ENCODED ||
        codec_put(e->out, PyArray_STRIDES(array), 8 * (size_t)n) != ENCODED)
        return FAILED;
    return codec_put_dtype(e, PyArray_DESCR(array));
}

static int put_zeros(encoder *e, PyObject *shape, PyObject *dtype)
{
    PyArray_Dims dims = {NULL, 0};
    unsigned char head[3] = {TAG_ARRAY, 'C', 0};
    size_t size = (size_t)PyDataType_ELSIZE((PyArray_Descr *)dtype);
    if (!PyArray_IntpConverter(shape, &dims))
        return FAILED;
    bool fits = true;
    for (int i = 0; i < dims.len; i++)
        fits = fits && dims.ptr[i] >= 0 && !__builtin_mul_overflow(size, (size_t)dims.ptr[i], &size);
    head[2] = (unsigned char)dims.len;
    int result = fits && size <= PY_SSIZE_T_MAX ? codec_put(e->out, head, sizeof head) : FAILED;
    if (result != ENCODED && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "an array of more bytes than can be counted");
    if (result == ENCODED && dims.len > 0)
        result = codec_put(e->out, dims.ptr, 8 * (size_t)dims.len);
    PyDimMem_FREE(dims.ptr);
    if (result == ENCODED)
        result = codec_put_dtype(e, (PyArray_Descr *)dtype);
    if (result == ENCODED)
        result = codec_put_byte(e->out, OUT_OF_BAND);
    Py_buffer nothing = {.len = (Py_ssize_t)size};
    return result == ENCODED ? codec_add_buffer(e->out, &nothing) : result;
}

static int put_form(encoder *e, PyObject *form)
{
    PyObject *shape, *dtype;
    if (!PyTuple_Check(form) || !PyArg_ParseTuple(form, "O!O:shared", &PyTuple_Type, &shape, &dtype))
        return FAILED;
    if (PyArray_DescrCheck(dtype))
        return put_zeros(e, shape, dtype);
    PyErr_SetString(PyExc_TypeError, "a dtype is expected");
    return FAILED;
}

static int put_forms(encoder *e, PyObject *forms)
{
    PyObject *name, *form;
    Py_ssize_t position = 0;
    if (!PyDict_Check(forms))
        return put_form(e, forms);
    int result = codec_put_byte(e->out, TAG_DICT);
    if (result == ENCODED)
        result = codec_put_count(e->out, (size_t)PyDict_GET_SIZE(forms));
    while (result == ENCODED && PyDict_Next(forms, &position, &name, &form)) {
        result = codec_encode_value(e, name);
        if (result == ENCODED)
            result = put_form(e, form);
    }
    return result;
}

int codec_encode_zeros(const codec_hooks *hooks, codec_out *out, PyObject *forms)
{
    encoder e = {.hooks = hooks, .out = out};
    out->hooks = hooks;
    if (codec_need_numpy() < 0)
        return -1;
    int result = put_forms(&e, forms);
    if (result == UNSUITED)
        PyErr_SetString(PyExc_TypeError, "arrays of such a dtype cannot be shared: a dtype of numbers, times, texts or "
                                         "bytes of fixed width, or a structure of them is needed, without metadata");
    return result == ENCODED ? 0 : -1;
}

/* --- decoding --- */

/* Takes over the reference to the dtype. */
static PyObject *view_of(const codec_hooks *hooks, PyObject *ref, uint64_t offset, int n, const npy_intp *shape,
                         const npy_intp *strides, PyArray_Descr *dtype, bool writable)
{
    uint64_t size = 0;
    reach r;
    unsigned char *bytes = hooks->shared->bytes(hooks->ctx, ref, &size);
    bool inside = bytes != NULL && reach_of(n, shape, strides, (size_t)PyDataType_ELSIZE(dtype), &r) &&
                  offset <= size && r.low >= -(int64_t)offset && r.high <= (int64_t)(size - offset);
    PyObject *base = inside ? buffer_new(ref, hooks->shared->view, bytes, size, true, NULL) : NULL, *array = NULL;
    if (base == NULL) {
        if (bytes != NULL && !PyErr_Occurred())
            codec_damaged();
        Py_DECREF(dtype);
        return NULL;
    }
    array = PyArray_NewFromDescr(&PyArray_Type, dtype, n, shape, strides, bytes + offset,
                                 writable ? NPY_ARRAY_WRITEABLE : 0, NULL);
    if (array == NULL)
        Py_DECREF(base);
    else
        ((PyArrayObject_fields *)array)->base = base;
    return array;
}

static int take_lengths(reader *r, int n, npy_intp *to, bool signs)
{
    const unsigned char *bytes = codec_take(r, 8 * (size_t)n);
    if (bytes == NULL)
        return -1;
    memcpy(to, bytes, 8 * (size_t)n);
    for (int i = 0; i < n && !signs; i++)
        if (to[i] < 0)
            return codec_damaged();
    return 0;
}

PyObject *codec_decode_shared(reader *r)
{
    npy_intp shape[NPY_MAXDIMS], strides[NPY_MAXDIMS];
    size_t number;
    uint64_t offset;
    if (codec_need_numpy() < 0 || codec_take_count(r, &number) < 0)
        return NULL;
    const unsigned char *form = codec_take(r, FORM + 8);
    if (form == NULL || ((form[1] > NPY_MAXDIMS || r->hooks->shared == NULL) && codec_damaged() < 0))
        return NULL;
    memcpy(&offset, form + FORM, 8);
    if (take_lengths(r, form[1], shape, false) < 0 || take_lengths(r, form[1], strides, true) < 0)
        return NULL;
    PyArray_Descr *dtype = codec_take_item_dtype(r);
    PyObject *ref = dtype == NULL ? NULL : codec_make_ref(r->source, number);
    if (ref == NULL) {
        Py_XDECREF(dtype);
        return NULL;
    }
    PyObject *array = view_of(r->hooks, ref, offset, form[1], shape, strides, dtype, form[0] != 0);
    Py_DECREF(ref);
    return array;
}

PyObject *codec_shared_view(const codec_hooks *hooks, PyObject *ref, uint64_t offset, PyObject *shape,
                            PyObject *strides, PyObject *dtype, bool writable)
{
    PyArray_Dims lengths = {NULL, 0}, steps = {NULL, 0};
    PyObject *array = NULL;
    if (codec_need_numpy() < 0)
        return NULL;
    if (!PyArray_DescrCheck(dtype))
        return PyErr_Format(PyExc_TypeError, "a dtype is expected, not %R", dtype);
    if (!PyArray_IntpConverter(shape, &lengths) || !PyArray_IntpConverter(strides, &steps))
        goto done;
    bool good = lengths.len == steps.len;
    for (int i = 0; i < lengths.len; i++)
        good = good && lengths.ptr[i] >= 0;
    if (good)
        array = view_of(hooks, ref, offset, lengths.len, lengths.ptr, steps.ptr, (PyArray_Descr *)Py_NewRef(dtype),
                        writable);
    else
        codec_damaged();
done:
    PyDimMem_FREE(lengths.ptr);
    PyDimMem_FREE(steps.ptr);
    return array;
}
