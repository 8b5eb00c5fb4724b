/* Values to bytes.
 *
 * The fast form must not be told from pickle by its results. What could betray it is identity: a nested mutable object
 * that is reached twice must arrive as one object. An object reached twice has two references at least, so only
 * nested containers (and arrays, and long strings, which would be written twice) with more than one reference are
 * remembered, in a small list. When one of them turns up again, the value is pickled as a whole. This also ends
 * recursion in self-referential values.
 *
 * No Python code runs and nothing is allocated for the garbage collector while the fast form is written, so the value
 * cannot change meanwhile. (The copy of a non-contiguous array lets other threads run; it is made for a top-level array
 * only.)
 */
#include "codec/internal.h"

#define LONG_STRING 256 /* bytes from which writing a shared string twice would be a waste worth avoiding */

bool codec_is_met_again(encoder *e, PyObject *value)
{
    for (unsigned i = 0; i < e->n_seen; i++)
        if (e->seen[i] == value)
            return true;
    if (e->n_seen == MAX_SEEN)
        return true;
    e->seen[e->n_seen++] = value;
    return false;
}

/* Whether a nested object was, or could later be, reached by another way. The object at the top may be held by one
 * reference only, our caller's, and yet contain itself. */
static inline bool is_shared_again(encoder *e, PyObject *value)
{
    return (Py_REFCNT(value) > 1 || e->depth == 0) && codec_is_met_again(e, value);
}

/* --- numbers --- */

#if PY_VERSION_HEX >= 0x030d0000
static Py_ssize_t big_int_size(PyObject *value)
{
    return PyLong_AsNativeBytes(value, NULL, 0, Py_ASNATIVEBYTES_LITTLE_ENDIAN);
}

static int write_big_int(PyObject *value, unsigned char *to, Py_ssize_t size)
{
    return PyLong_AsNativeBytes(value, to, size, Py_ASNATIVEBYTES_LITTLE_ENDIAN) < 0 ? -1 : 0;
}
#else
static Py_ssize_t big_int_size(PyObject *value)
{
    size_t n_bits = _PyLong_NumBits(value);
    return n_bits == (size_t)-1 && PyErr_Occurred() ? -1 : (Py_ssize_t)(n_bits / 8 + 1); /* with a sign bit */
}

static int write_big_int(PyObject *value, unsigned char *to, Py_ssize_t size)
{
    return _PyLong_AsByteArray((PyLongObject *)value, to, (size_t)size, 1, 1);
}
#endif

static int encode_big_int(codec_out *out, PyObject *value)
{
    Py_ssize_t size = big_int_size(value);
    if (size < 0 || codec_put_byte(out, TAG_BIG_INT) != ENCODED || codec_put_count(out, (size_t)size) != ENCODED)
        return FAILED;
    unsigned char *to = codec_reserve(out, (size_t)size);
    if (to == NULL || write_big_int(value, to, size) < 0)
        return FAILED;
    out->size += (size_t)size;
    return ENCODED;
}

static inline int encode_int(codec_out *out, PyObject *value)
{
    int overflow;
    int64_t n = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0)
        return encode_big_int(out, value);
    if (n == (int8_t)n)
        return codec_put_tagged(out, TAG_INT8, &n, 1);
    if (n == (int32_t)n)
        return codec_put_tagged(out, TAG_INT32, &n, 4);
    return codec_put_tagged(out, TAG_INT64, &n, 8);
}

static inline int encode_float(codec_out *out, PyObject *value)
{
    double number = PyFloat_AS_DOUBLE(value);
    return codec_put_tagged(out, TAG_FLOAT, &number, sizeof number);
}

static int encode_complex(codec_out *out, PyObject *value)
{
    Py_complex number = PyComplex_AsCComplex(value);
    return codec_put_tagged(out, TAG_COMPLEX, &number, sizeof number);
}

/* --- strings --- */

static enum codec_tag tag_of_str(PyObject *value)
{
    if (PyUnicode_IS_ASCII(value))
        return TAG_ASCII;
    switch (PyUnicode_KIND(value)) {
    case PyUnicode_1BYTE_KIND:
        return TAG_UCS1;
    case PyUnicode_2BYTE_KIND:
        return TAG_UCS2;
    default:
        return TAG_UCS4;
    }
}

static inline int encode_ascii_short(codec_out *out, PyObject *value, size_t length)
{
    unsigned char *to = codec_reserve(out, length + 2);
    if (to == NULL)
        return FAILED;
    to[0] = TAG_ASCII;
    to[1] = (unsigned char)length;
    memcpy(to + 2, PyUnicode_1BYTE_DATA(value), length);
    out->size += length + 2;
    return ENCODED;
}

static int encode_str(encoder *e, PyObject *value)
{
#if PY_VERSION_HEX < 0x030c0000
    if (PyUnicode_READY(value) < 0)
        return FAILED;
#endif
    size_t length = (size_t)PyUnicode_GET_LENGTH(value);
    if (length < OUT_OF_BAND && PyUnicode_IS_ASCII(value))
        return encode_ascii_short(e->out, value, length);
    size_t size = length * PyUnicode_KIND(value);
    if (size >= LONG_STRING && is_shared_again(e, value))
        return UNSUITED;
    if (codec_put_byte(e->out, (unsigned char)tag_of_str(value)) != ENCODED)
        return FAILED;
    return codec_put_body(e->out, value, PyUnicode_DATA(value), size, LARGE_BODY);
}

static int encode_bytes(encoder *e, PyObject *value)
{
    size_t size = (size_t)PyBytes_GET_SIZE(value);
    if (size >= LONG_STRING && is_shared_again(e, value))
        return UNSUITED;
    if (codec_put_byte(e->out, TAG_BYTES) != ENCODED)
        return FAILED;
    return codec_put_body(e->out, value, PyBytes_AS_STRING(value), size, LARGE_BODY);
}

/* --- containers --- */

/* What precedes the elements of a container. */
static int open_container(encoder *e, enum codec_tag tag, PyObject *value, Py_ssize_t n)
{
    if (e->depth == MAX_DEPTH || ++e->n_containers > MAX_CONTAINERS || is_shared_again(e, value))
        return UNSUITED;
    if (codec_put_byte(e->out, (unsigned char)tag) != ENCODED)
        return FAILED;
    return codec_put_count(e->out, (size_t)n);
}

static int encode_elements(encoder *e, PyObject *const *elements, Py_ssize_t n)
{
    int result = ENCODED;
    e->depth++;
    for (Py_ssize_t i = 0; i < n && result == ENCODED; i++)
        result = codec_encode_value(e, elements[i]);
    e->depth--;
    return result;
}

static int encode_tuple(encoder *e, PyObject *value)
{
    Py_ssize_t n = PyTuple_GET_SIZE(value);
    if (n == 0) { /* there is only one, so meeting it again means nothing */
        static const unsigned char empty[2] = {TAG_TUPLE, 0};
        return codec_put(e->out, empty, sizeof empty);
    }
    int result = open_container(e, TAG_TUPLE, value, n);
    return result == ENCODED ? encode_elements(e, ((PyTupleObject *)value)->ob_item, n) : result;
}

static int encode_list(encoder *e, PyObject *value)
{
    Py_ssize_t n = PyList_GET_SIZE(value);
    int result = open_container(e, TAG_LIST, value, n);
    return result == ENCODED ? encode_elements(e, ((PyListObject *)value)->ob_item, n) : result;
}

static int encode_dict(encoder *e, PyObject *value)
{
    int result = open_container(e, TAG_DICT, value, PyDict_GET_SIZE(value));
    PyObject *key, *item;
    Py_ssize_t position = 0;
    e->depth++;
    while (result == ENCODED && PyDict_Next(value, &position, &key, &item)) {
        result = codec_encode_value(e, key);
        if (result == ENCODED)
            result = codec_encode_value(e, item);
    }
    e->depth--;
    return result;
}

/* --- refs --- */

static int encode_ref(codec_out *out, PyObject *value)
{
    uint32_t number;
    if (codec_add_ref(out, value, &number) != ENCODED || codec_put_byte(out, TAG_REF) != ENCODED)
        return FAILED;
    return codec_put_count(out, number);
}

/* --- any value --- */

int codec_encode_value(encoder *e, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyLong_Type)
        return encode_int(e->out, value);
    if (type == &PyUnicode_Type)
        return encode_str(e, value);
    if (type == &PyFloat_Type)
        return encode_float(e->out, value);
    if (value == Py_None)
        return codec_put_byte(e->out, TAG_NONE);
    if (type == e->hooks->ref_type)
        return encode_ref(e->out, value);
    if (type == &PyTuple_Type)
        return encode_tuple(e, value);
    if (type == &PyList_Type)
        return encode_list(e, value);
    if (type == &PyDict_Type)
        return encode_dict(e, value);
    if (type == &PyBool_Type)
        return codec_put_byte(e->out, value == Py_True ? TAG_TRUE : TAG_FALSE);
    if (type == &PyBytes_Type)
        return encode_bytes(e, value);
    if (type == &PyComplex_Type)
        return encode_complex(e->out, value);
    return codec_encode_numpy(e, value);
}

int codec_encode(const codec_hooks *hooks, codec_out *out, PyObject *value)
{
    encoder e;
    e.hooks = out->hooks = hooks;
    e.out = out;
    e.depth = e.n_containers = e.n_seen = 0;
    int result = codec_encode_value(&e, value);
    if (result != UNSUITED)
        return result;
    codec_out_truncate(out);
    return codec_encode_pickle(&e, hooks->pickle, value);
}
