/* Bytes to values. The bytes come from processes of our own session, yet every length is checked against what is there:
 * a damaged segment must give an error, not a crash. */
#include "codec/internal.h"

#define MAX_READ_DEPTH (MAX_DEPTH + 2)
#define SMALL_PICKLE (64 * 1024) /* below this a copy costs less than a view */

PyObject *codec_damage;

int codec_damaged(void)
{
    PyErr_SetString(codec_damage, "the encoded value is damaged");
    return -1;
}

static PyObject *damaged(void)
{
    codec_damaged();
    return NULL;
}

/* --- the reader --- */

static size_t aligned(size_t n) { return (n + BUFFER_ALIGNMENT - 1) & ~(size_t)(BUFFER_ALIGNMENT - 1); }

static int read_frame_header(reader *r, const unsigned char *data, size_t size)
{
    uint64_t in_band;
    if (size < FRAME_HEADER)
        return codec_damaged();
    memcpy(&r->n_buffers_left, data + 4, 4);
    memcpy(&in_band, data + 8, 8);
    size_t header = FRAME_HEADER + 8 * (size_t)r->n_buffers_left;
    if (header > size || in_band > size - header)
        return codec_damaged();
    r->buffer_sizes = data + FRAME_HEADER;
    r->at = data + header;
    r->end = r->at + in_band;
    /* Of buffers that are all empty nothing need follow, so this may lie behind the end; codec_take_buffer looks. */
    r->next_buffer = r->end;
    return 0;
}

int codec_reader_init(reader *r, const codec_hooks *hooks, const unsigned char *data, size_t size,
                      const codec_source *source)
{
    r->at = r->data_start = data;
    r->end = r->data_end = data + size;
    r->hooks = hooks;
    r->source = source;
    r->n_buffers_left = 0;
    r->depth = 0;
    r->asked = false;
    r->pages = NULL;
    if (size > 0 && data[0] == FRAME)
        return read_frame_header(r, data, size);
    return 0;
}

int codec_take_buffer(reader *r, body *taken)
{
    uint64_t size;
    size_t total = (size_t)(r->data_end - r->data_start);
    size_t start = aligned((size_t)(r->next_buffer - r->data_start));
    if (r->n_buffers_left == 0)
        return codec_damaged();
    memcpy(&size, r->buffer_sizes, 8);
    bool read_only = size & READ_ONLY_BUFFER;
    size &= ~READ_ONLY_BUFFER;
    if (start > total || size > total - start)
        return codec_damaged();
    r->n_buffers_left--;
    r->buffer_sizes += 8;
    r->next_buffer = r->data_start + start + size;
    *taken = (body){r->data_start + start, size, true, read_only};
    return 0;
}

static int take_wide(reader *r, size_t *n)
{
    uint64_t wide;
    const unsigned char *bytes = codec_take(r, 8);
    if (bytes == NULL)
        return -1;
    memcpy(&wide, bytes, 8);
    *n = wide;
    return 0;
}

int codec_take_count(reader *r, size_t *n)
{
    const unsigned char *first = codec_take(r, 1);
    if (first == NULL)
        return -1;
    if (*first == WIDE)
        return take_wide(r, n);
    *n = *first;
    return *first == OUT_OF_BAND ? codec_damaged() : 0;
}

/* The number of values that follow; each takes a byte at least, so a damaged number cannot ask for much memory. */
static int take_n_values(reader *r, size_t *n)
{
    if (codec_take_count(r, n) < 0)
        return -1;
    return *n <= (size_t)(r->end - r->at) ? 0 : codec_damaged();
}

int codec_take_body(reader *r, body *taken)
{
    if (r->at < r->end && *r->at == OUT_OF_BAND) {
        r->at++;
        return codec_take_buffer(r, taken);
    }
    if (codec_take_count(r, &taken->size) < 0)
        return -1;
    taken->bytes = codec_take(r, taken->size);
    taken->out_of_band = false;
    return taken->bytes == NULL ? -1 : 0;
}

/* --- bodies as objects --- */

void codec_copy_body(const reader *r, void *to, const body *from)
{
    if (from->out_of_band && r->source->copy != NULL)
        r->source->copy(r->source->ctx, to, from->bytes, from->size);
    else
        memcpy(to, from->bytes, from->size);
}

PyObject *codec_body_as_bytes(const reader *r, const body *from)
{
    if (!from->out_of_band)
        return PyBytes_FromStringAndSize((const char *)from->bytes, (Py_ssize_t)from->size);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)from->size);
    if (bytes != NULL && from->size > 0)
        codec_copy_body(r, PyBytes_AS_STRING(bytes), from);
    return bytes;
}

PyObject *codec_body_as_view(const reader *r, const body *from)
{
    if (r->source->owner == NULL)
        return codec_body_as_bytes(r, from);
    return buffer_new(r->source->owner, r->source->view, from->bytes, from->size, r->source->access == CODEC_SHARED,
                      NULL);
}

/* --- numbers and strings --- */

static PyObject *decode_fixed_int(reader *r, size_t size)
{
    const unsigned char *bytes = codec_take(r, size);
    int32_t narrow;
    int64_t wide;
    if (bytes == NULL)
        return NULL;
    if (size == 1)
        return PyLong_FromLong((int8_t)*bytes);
    if (size == 4) {
        memcpy(&narrow, bytes, 4);
        return PyLong_FromLong(narrow);
    }
    memcpy(&wide, bytes, 8);
    return PyLong_FromLongLong(wide);
}

static PyObject *decode_big_int(reader *r)
{
    body digits;
    if (codec_take_body(r, &digits) < 0)
        return NULL;
#if PY_VERSION_HEX >= 0x030d0000
    return PyLong_FromNativeBytes(digits.bytes, digits.size, Py_ASNATIVEBYTES_LITTLE_ENDIAN);
#else
    return _PyLong_FromByteArray(digits.bytes, digits.size, 1, 1);
#endif
}

static PyObject *decode_float(reader *r)
{
    double number;
    const unsigned char *bytes = codec_take(r, sizeof number);
    if (bytes == NULL)
        return NULL;
    memcpy(&number, bytes, sizeof number);
    return PyFloat_FromDouble(number);
}

static PyObject *decode_complex(reader *r)
{
    Py_complex number;
    const unsigned char *bytes = codec_take(r, sizeof number);
    if (bytes == NULL)
        return NULL;
    memcpy(&number, bytes, sizeof number);
    return PyComplex_FromCComplex(number);
}

static PyObject *decode_str(reader *r, size_t char_size, Py_UCS4 max_char)
{
    body chars;
    if (codec_take_body(r, &chars) < 0)
        return NULL;
    if (chars.size % char_size != 0)
        return damaged();
    if (chars.size == 1)
        return PyUnicode_FromOrdinal(*chars.bytes); /* these are shared within a process */
    PyObject *str = PyUnicode_New((Py_ssize_t)(chars.size / char_size), max_char);
    if (str != NULL && chars.size > 0)
        codec_copy_body(r, PyUnicode_DATA(str), &chars);
    return str;
}

static PyObject *decode_bytes(reader *r)
{
    body content;
    return codec_take_body(r, &content) < 0 ? NULL : codec_body_as_bytes(r, &content);
}

/* --- containers --- */

static PyObject *decode_tuple(reader *r)
{
    size_t n;
    if (take_n_values(r, &n) < 0)
        return NULL;
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *value = codec_decode_value(r);
        if (value == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, value);
    }
    return tuple;
}

static PyObject *decode_list(reader *r)
{
    size_t n;
    if (take_n_values(r, &n) < 0)
        return NULL;
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list != NULL && i < n; i++) {
        PyObject *value = codec_decode_value(r);
        if (value == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, value);
    }
    return list;
}

static int decode_dict_item(reader *r, PyObject *dict)
{
    PyObject *key = codec_decode_value(r);
    PyObject *value = key == NULL ? NULL : codec_decode_value(r);
    int result = value == NULL ? -1 : PyDict_SetItem(dict, key, value);
    Py_XDECREF(key);
    Py_XDECREF(value);
    return result;
}

static PyObject *decode_dict(reader *r)
{
    size_t n;
    if (take_n_values(r, &n) < 0)
        return NULL;
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i < n; i++)
        if (decode_dict_item(r, dict) < 0)
            Py_CLEAR(dict);
    return dict;
}

static PyObject *decode_container(reader *r, enum codec_tag tag)
{
    if (r->depth == MAX_READ_DEPTH)
        return damaged();
    r->depth++;
    PyObject *value = tag == TAG_TUPLE ? decode_tuple(r) : tag == TAG_LIST ? decode_list(r) : decode_dict(r);
    r->depth--;
    return value;
}

/* --- refs and pickles --- */

static PyObject *decode_ref(reader *r)
{
    size_t number;
    return codec_take_count(r, &number) < 0 ? NULL : codec_make_ref(r->source, number);
}

/* One of a pickle's buffers. */
static PyObject *take_view(reader *r)
{
    body content;
    if (codec_take_buffer(r, &content) < 0)
        return NULL;
    return r->source->access == CODEC_OWN && !content.read_only ? codec_body_as_own(r, &content)
                                                                : codec_body_as_view(r, &content);
}

static PyObject *take_views(reader *r, size_t n)
{
    if (n > r->n_buffers_left)
        return damaged();
    PyObject *views = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; views != NULL && i < n; i++) {
        PyObject *view = take_view(r);
        if (view == NULL)
            Py_CLEAR(views);
        else
            PyList_SET_ITEM(views, (Py_ssize_t)i, view);
    }
    return views;
}

static PyObject *decode_pickle(reader *r)
{
    size_t n;
    body content;
    if (codec_take_count(r, &n) < 0 || codec_take_body(r, &content) < 0)
        return NULL;
    PyObject *pickle = content.size < SMALL_PICKLE ? codec_body_as_bytes(r, &content) : codec_body_as_view(r, &content);
    PyObject *views = pickle == NULL ? NULL : take_views(r, n);
    PyObject *value = views == NULL ? NULL : codec_call_unpickle(r, pickle, views);
    Py_XDECREF(pickle);
    Py_XDECREF(views);
    return value;
}

/* --- any value --- */

PyObject *codec_decode_value(reader *r)
{
    const unsigned char *tag = codec_take(r, 1);
    if (tag == NULL)
        return NULL;
    switch (*tag) {
    case TAG_NONE:
        return Py_NewRef(Py_None);
    case TAG_FALSE:
        return Py_NewRef(Py_False);
    case TAG_TRUE:
        return Py_NewRef(Py_True);
    case TAG_INT8:
        return decode_fixed_int(r, 1);
    case TAG_INT32:
        return decode_fixed_int(r, 4);
    case TAG_INT64:
        return decode_fixed_int(r, 8);
    case TAG_BIG_INT:
        return decode_big_int(r);
    case TAG_FLOAT:
        return decode_float(r);
    case TAG_COMPLEX:
        return decode_complex(r);
    case TAG_ASCII:
        return decode_str(r, 1, 0x7f);
    case TAG_UCS1:
        return decode_str(r, 1, 0xff);
    case TAG_UCS2:
        return decode_str(r, 2, 0xffff);
    case TAG_UCS4:
        return decode_str(r, 4, 0x10ffff);
    case TAG_BYTES:
        return decode_bytes(r);
    case TAG_TUPLE:
    case TAG_LIST:
    case TAG_DICT:
        return decode_container(r, (enum codec_tag) * tag);
    case TAG_REF:
        return decode_ref(r);
    case TAG_ARRAY:
        return codec_decode_array(r);
    case TAG_SHARED:
        return codec_decode_shared(r);
    case TAG_SCALAR:
        return codec_decode_scalar(r);
    case TAG_DTYPE:
        return codec_decode_dtype(r);
    case TAG_PICKLE:
        return decode_pickle(r);
    default:
        return damaged();
    }
}

__attribute__((cold, noinline)) static PyObject *tell_user(const codec_hooks *hooks)
{
    if (hooks->damaged != NULL && PyErr_ExceptionMatches(codec_damage)) {
        PyErr_Clear();
        hooks->damaged(hooks->ctx);
    }
    return NULL;
}

PyObject *codec_decode(const codec_hooks *hooks, const unsigned char *data, size_t size, const codec_source *source)
{
    reader r;
    if (codec_reader_init(&r, hooks, data, size, source) < 0)
        return tell_user(hooks);
    PyObject *value = codec_decode_value(&r);
    codec_pages_release(r.pages);
    return value != NULL ? value : tell_user(hooks);
}

const char *codec_encoding_name(const unsigned char *data, size_t size)
{
    static const char *const names[N_TAGS] = {
        [TAG_NONE] = "None",
        [TAG_FALSE] = "bool",
        [TAG_TRUE] = "bool",
        [TAG_INT8] = "int",
        [TAG_INT32] = "int",
        [TAG_INT64] = "int",
        [TAG_BIG_INT] = "int",
        [TAG_FLOAT] = "float",
        [TAG_COMPLEX] = "complex",
        [TAG_ASCII] = "str",
        [TAG_UCS1] = "str",
        [TAG_UCS2] = "str",
        [TAG_UCS4] = "str",
        [TAG_BYTES] = "bytes",
        [TAG_TUPLE] = "tuple",
        [TAG_LIST] = "list",
        [TAG_DICT] = "dict",
        [TAG_REF] = "ref",
        [TAG_ARRAY] = "numpy array",
        [TAG_SCALAR] = "numpy scalar",
        [TAG_DTYPE] = "dtype",
        [TAG_PICKLE] = "pickle",
        [TAG_SHARED] = "shared array",
    };
    uint32_t n_buffers;
    size_t start = 0;
    if (size >= FRAME_HEADER && data[0] == FRAME) {
        memcpy(&n_buffers, data + 4, 4);
        start = FRAME_HEADER + 8 * (size_t)n_buffers;
    }
    const char *name = start < size && data[start] < N_TAGS ? names[data[start]] : NULL;
    return name == NULL ? "damaged" : name;
}
