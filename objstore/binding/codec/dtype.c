/* numpy dtypes, written down.
 *
 *   number                          a plain number in native order, which the type number says all about
 *   number | SWAPPED                the same in the other order; SWAPPED may stand with times and str too
 *   time: unit (1 byte), count      datetime64 and timedelta64: so many of the unit
 *   str, bytes: count               size of an item
 *   void: enum layout, and
 *     RAW: count                    size of an item
 *     FIELDS, ALIGNED_FIELDS        count: size of an item; count of the fields; each: name (a str), offset (a count),
 *                                   dtype
 *     SUBARRAY                      count of the dimensions; each: count; dtype
 *
 * What this cannot say is pickled: objects, metadata, titles, types of other modules, np.record, dtypes without bytes.
 * A dtype with fields can be changed (its names), so meeting it again means as much as with a list. */
#define NO_IMPORT_ARRAY
#include "codec/dtype.h"

enum { SWAPPED = 0x80 };
enum layout { RAW, FIELDS, ALIGNED_FIELDS, SUBARRAY };

static bool is_plain_number(int number)
{
    return (number >= NPY_BOOL && number <= NPY_CLONGDOUBLE) || number == NPY_HALF;
}

static bool is_time(int number) { return number == NPY_DATETIME || number == NPY_TIMEDELTA; }

/* Borrowed; NULL with an exception. Descriptors of plain numbers are for ever, so each is asked for once: numpy's own
 * lookup takes a microsecond when it is cold, a tenth of the first `get` of an array. */
static PyArray_Descr *number_dtype(int number)
{
    static PyArray_Descr *known[NPY_HALF + 1];
    if (known[number] == NULL)
        known[number] = PyArray_DescrFromType(number);
    return known[number];
}

/* --- encoding --- */

static bool has_metadata(PyArray_Descr *dtype)
{
    PyObject *metadata = PyDataType_METADATA(dtype); /* pickle leaves an empty one behind */
    return metadata != NULL && PyDict_Size(metadata) != 0;
}

static int put_dtype(encoder *e, PyArray_Descr *dtype, unsigned depth);

static int put_time(codec_out *out, PyArray_Descr *dtype)
{
    const PyArray_DatetimeMetaData *unit = &((PyArray_DatetimeDTypeMetaData *)PyDataType_C_METADATA(dtype))->meta;
    int result = codec_put_byte(out, (unsigned char)unit->base);
    return result == ENCODED ? codec_put_count(out, (size_t)unit->num) : result;
}

/* Of (dtype, offset) or (dtype, offset, title); `alignment` becomes the largest met. */
static int put_field(encoder *e, PyObject *name, PyObject *field, unsigned depth, npy_intp *alignment)
{
    if (!PyUnicode_CheckExact(name) || PyTuple_GET_SIZE(field) != 2)
        return UNSUITED;
    PyArray_Descr *dtype = (PyArray_Descr *)PyTuple_GET_ITEM(field, 0);
    if (PyDataType_ALIGNMENT(dtype) > *alignment)
        *alignment = PyDataType_ALIGNMENT(dtype);
    int result = codec_encode_value(e, name);
    if (result == ENCODED)
        result = codec_put_count(e->out, PyLong_AsSize_t(PyTuple_GET_ITEM(field, 1)));
    return result == ENCODED ? put_dtype(e, dtype, depth + 1) : result;
}

static int put_fields(encoder *e, PyArray_Descr *dtype, unsigned depth)
{
    PyObject *names = PyDataType_NAMES(dtype), *fields = PyDataType_FIELDS(dtype);
    bool aligned = PyDataType_FLAGCHK(dtype, NPY_ALIGNED_STRUCT);
    Py_ssize_t n = PyTuple_GET_SIZE(names);
    npy_intp alignment = 1;
    if (codec_is_met_again(e, (PyObject *)dtype))
        return UNSUITED;
    int result = codec_put_byte(e->out, aligned ? ALIGNED_FIELDS : FIELDS);
    if (result == ENCODED)
        result = codec_put_count(e->out, (size_t)PyDataType_ELSIZE(dtype));
    if (result == ENCODED)
        result = codec_put_count(e->out, (size_t)n);
    for (Py_ssize_t i = 0; i < n && result == ENCODED; i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i), *field = PyDict_GetItemWithError(fields, name);
        result = field == NULL ? UNSUITED : put_field(e, name, field, depth, &alignment);
    }
    /* The reader computes the alignment from the fields. A dtype that was made of part of another's may have more. */
    bool same = PyDataType_ALIGNMENT(dtype) == (aligned ? alignment : 1);
    return result == ENCODED && !same ? UNSUITED : result;
}

static int put_subarray(encoder *e, PyArray_Descr *dtype, unsigned depth)
{
    const PyArray_ArrayDescr *parts = PyDataType_SUBARRAY(dtype);
    Py_ssize_t n = PyTuple_GET_SIZE(parts->shape);
    int result = codec_put_byte(e->out, SUBARRAY);
    if (result == ENCODED)
        result = codec_put_count(e->out, (size_t)n);
    for (Py_ssize_t i = 0; i < n && result == ENCODED; i++)
        result = codec_put_count(e->out, PyLong_AsSize_t(PyTuple_GET_ITEM(parts->shape, i)));
    return result == ENCODED ? put_dtype(e, parts->base, depth + 1) : result;
}

static int put_void(encoder *e, PyArray_Descr *dtype, unsigned depth)
{
    if (dtype->typeobj != &PyVoidArrType_Type || depth == MAX_DEPTH)
        return UNSUITED;
    if (PyDataType_SUBARRAY(dtype) != NULL)
        return put_subarray(e, dtype, depth);
    if (PyDataType_NAMES(dtype) != NULL)
        return put_fields(e, dtype, depth);
    int result = codec_put_byte(e->out, RAW);
    return result == ENCODED ? codec_put_count(e->out, (size_t)PyDataType_ELSIZE(dtype)) : result;
}

static int put_dtype(encoder *e, PyArray_Descr *dtype, unsigned depth)
{
    int number = dtype->type_num;
    bool is_void = number == NPY_VOID, is_text = number == NPY_STRING || number == NPY_UNICODE;
    if ((!is_plain_number(number) && !is_time(number) && !is_text && !is_void) || has_metadata(dtype) ||
        PyDataType_ELSIZE(dtype) == 0 || PyDataType_REFCHK(dtype) || (!is_void && PyDataType_NAMES(dtype) != NULL))
        return UNSUITED;
    int result = codec_put_byte(e->out, (unsigned char)(number | (PyDataType_ISNOTSWAPPED(dtype) ? 0 : SWAPPED)));
    if (result != ENCODED || is_plain_number(number))
        return result;
    if (is_time(number))
        return put_time(e->out, dtype);
    return is_text ? codec_put_count(e->out, (size_t)PyDataType_ELSIZE(dtype)) : put_void(e, dtype, depth);
}

int codec_put_dtype(encoder *e, PyArray_Descr *dtype)
{
    int number = dtype->type_num;
    if (is_plain_number(number) && dtype == number_dtype(number)) /* as nearly all are */
        return codec_put_byte(e->out, (unsigned char)number);
    return put_dtype(e, dtype, 0);
}

/* --- decoding --- */

/* What numpy says to numbers that make no sense is told as damage. */
static PyArray_Descr *checked(PyArray_Descr *dtype)
{
    if (dtype == NULL && (PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_TypeError))) {
        PyErr_Clear();
        codec_damaged();
    }
    return dtype;
}

/* From what numpy.dtype() takes; takes over the reference. */
static PyArray_Descr *converted(PyObject *description)
{
    PyArray_Descr *dtype = NULL;
    if (description == NULL)
        return NULL;
    if (!PyArray_DescrConverter(description, &dtype))
        dtype = NULL;
    Py_DECREF(description);
    return checked(dtype);
}

/* A count that numpy takes for a size. */
static int take_size(reader *r, size_t *size)
{
    return codec_take_count(r, size) < 0 ? -1 : *size > NPY_MAX_INT ? codec_damaged() : 0;
}

static PyArray_Descr *take_dtype(reader *r, unsigned depth);

static PyArray_Descr *take_time(reader *r, int number)
{
    size_t count;
    const unsigned char *unit = codec_take(r, 1);
    if (unit == NULL || take_size(r, &count) < 0)
        return NULL;
    if (*unit > NPY_FR_GENERIC || *unit == NPY_FR_D - 1 || count == 0) { /* before days were business days, long ago */
        codec_damaged();
        return NULL;
    }
    PyArray_Descr *dtype = PyArray_DescrNewFromType(number);
    if (dtype != NULL)
        ((PyArray_DatetimeDTypeMetaData *)PyDataType_C_METADATA(dtype))->meta =
            (PyArray_DatetimeMetaData){(NPY_DATETIMEUNIT)*unit, (int)count};
    return dtype;
}

/* str, bytes, raw bytes */
static PyArray_Descr *take_sized(reader *r, int number)
{
    size_t size;
    if (take_size(r, &size) < 0)
        return NULL;
    if (size == 0 || (number == NPY_UNICODE && size % sizeof(Py_UCS4) != 0)) {
        codec_damaged();
        return NULL;
    }
    PyArray_Descr *dtype = PyArray_DescrNewFromType(number);
    if (dtype != NULL)
        PyDataType_SET_ELSIZE(dtype, (npy_intp)size);
    return dtype;
}

static int take_field(reader *r, PyObject *names, PyObject *offsets, PyObject *formats, unsigned depth)
{
    size_t offset;
    if (r->at < r->end && (*r->at < TAG_ASCII || *r->at > TAG_UCS4))
        return codec_damaged();
    PyObject *name = codec_decode_value(r);
    PyArray_Descr *dtype = name == NULL || take_size(r, &offset) < 0 ? NULL : take_dtype(r, depth);
    PyObject *number = dtype == NULL ? NULL : PyLong_FromSize_t(offset);
    int result = number == NULL || PyList_Append(names, name) < 0 || PyList_Append(offsets, number) < 0 ||
                         PyList_Append(formats, (PyObject *)dtype) < 0
                     ? -1
                     : 0;
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    Py_XDECREF(number);
    return result;
}

static PyArray_Descr *take_fields(reader *r, bool aligned, unsigned depth)
{
    size_t size, n;
    if (take_size(r, &size) < 0 || take_size(r, &n) < 0)
        return NULL;
    PyObject *names = PyList_New(0), *offsets = PyList_New(0), *formats = PyList_New(0), *description = NULL;
    int result = names == NULL || offsets == NULL || formats == NULL ? -1 : 0;
    while (n-- > 0 && result == 0)
        result = take_field(r, names, offsets, formats, depth);
    if (result == 0)
        description = Py_BuildValue("{sOsOsOsnsO}", "names", names, "offsets", offsets, "formats", formats, "itemsize",
                                    (Py_ssize_t)size, "aligned", aligned ? Py_True : Py_False);
    Py_XDECREF(names);
    Py_XDECREF(offsets);
    Py_XDECREF(formats);
    return converted(description);
}

static PyArray_Descr *take_subarray(reader *r, unsigned depth)
{
    size_t n, length;
    if (take_size(r, &n) < 0)
        return NULL;
    if (n > NPY_MAXDIMS) {
        codec_damaged();
        return NULL;
    }
    PyObject *shape = PyTuple_New((Py_ssize_t)n);
    int result = shape == NULL ? -1 : 0;
    for (size_t i = 0; i < n && result == 0; i++) {
        PyObject *number = take_size(r, &length) < 0 ? NULL : PyLong_FromSize_t(length);
        result = number == NULL ? -1 : 0;
        PyTuple_SET_ITEM(shape, (Py_ssize_t)i, number);
    }
    PyArray_Descr *base = result < 0 ? NULL : take_dtype(r, depth);
    PyObject *description = base == NULL ? NULL : PyTuple_Pack(2, base, shape);
    Py_XDECREF(base);
    Py_XDECREF(shape);
    return converted(description);
}

static PyArray_Descr *take_void(reader *r, unsigned depth)
{
    const unsigned char *layout = depth < MAX_DEPTH ? codec_take(r, 1) : NULL;
    if (layout != NULL && *layout == RAW)
        return take_sized(r, NPY_VOID);
    if (layout != NULL && (*layout == FIELDS || *layout == ALIGNED_FIELDS))
        return take_fields(r, *layout == ALIGNED_FIELDS, depth + 1);
    if (layout != NULL && *layout == SUBARRAY)
        return take_subarray(r, depth + 1);
    codec_damaged();
    return NULL;
}

static PyArray_Descr *take_in_native_order(reader *r, int number, unsigned depth)
{
    if (is_plain_number(number))
        return (PyArray_Descr *)Py_XNewRef(number_dtype(number));
    if (is_time(number))
        return take_time(r, number);
    if (number == NPY_STRING || number == NPY_UNICODE)
        return take_sized(r, number);
    if (number == NPY_VOID)
        return take_void(r, depth);
    codec_damaged();
    return NULL;
}

static PyArray_Descr *take_dtype(reader *r, unsigned depth)
{
    const unsigned char *first = codec_take(r, 1);
    if (first == NULL)
        return NULL;
    PyArray_Descr *dtype = take_in_native_order(r, *first & ~SWAPPED, depth);
    if (dtype == NULL || !(*first & SWAPPED))
        return dtype;
    PyArray_Descr *swapped = PyArray_DescrNewByteorder(dtype, NPY_SWAP);
    Py_DECREF(dtype);
    return checked(swapped);
}

PyArray_Descr *codec_take_dtype(reader *r)
{
    if (r->at < r->end && is_plain_number(*r->at)) /* as nearly all are */
        return (PyArray_Descr *)Py_XNewRef(number_dtype(*r->at++));
    return take_dtype(r, 0);
}
