/* Where encoded values gather, and how they are laid out in the end. */
#include "codec/internal.h"

static void point_inwards(codec_out *out)
{
    out->data = out->inline_space;
    out->size = 0;
    out->capacity = sizeof out->inline_space;
    out->buffers = out->inline_buffers;
    out->n_buffers = 0;
    out->buffers_capacity = Py_ARRAY_LENGTH(out->inline_buffers);
    out->refs = out->inline_refs;
    out->kept = out->inline_kept;
    out->n_refs = 0;
    out->refs_capacity = Py_ARRAY_LENGTH(out->inline_refs);
}

void codec_out_init(codec_out *out)
{
    point_inwards(out);
    out->hooks = NULL;
    out->alone = NULL;
}

static void drop_contents(codec_out *out)
{
    for (uint32_t i = 0; i < out->n_buffers; i++)
        PyBuffer_Release(&out->buffers[i]);
    for (uint32_t i = 0; i < out->n_refs; i++)
        Py_DECREF(out->kept[i]);
    out->n_buffers = out->n_refs = 0;
    out->size = 0;
    out->alone = NULL;
}

void codec_out_clear(codec_out *out)
{
    drop_contents(out);
    if (out->data != out->inline_space)
        PyMem_Free(out->data);
    if (out->buffers != out->inline_buffers)
        PyMem_Free(out->buffers);
    if (out->refs != out->inline_refs) {
        PyMem_Free(out->refs);
        PyMem_Free(out->kept);
    }
    point_inwards(out);
}

void codec_out_truncate(codec_out *out) { drop_contents(out); }

/* A larger copy of an array, the old one freed unless it is the inline one; NULL with MemoryError. */
static void *grown(void *array, const void *inline_array, size_t used_bytes, size_t new_bytes)
{
    void *larger = array == inline_array ? PyMem_Malloc(new_bytes) : PyMem_Realloc(array, new_bytes);
    if (larger == NULL)
        return PyErr_NoMemory();
    if (array == inline_array)
        memcpy(larger, array, used_bytes);
    return larger;
}

int codec_reserve_slow(codec_out *out, size_t n)
{
    if (n > (size_t)PY_SSIZE_T_MAX / 2 - out->size) {
        PyErr_NoMemory();
        return -1;
    }
    size_t capacity = 2 * (out->size + n);
    unsigned char *data = grown(out->data, out->inline_space, out->size, capacity);
    if (data == NULL)
        return -1;
    out->data = data;
    out->capacity = capacity;
    return 0;
}

/* A doubled capacity, or 0 with an exception if 32 bits do not hold it. */
static uint32_t doubled(uint32_t capacity)
{
    if (capacity <= UINT32_MAX / 2)
        return 2 * capacity;
    PyErr_SetString(PyExc_OverflowError, "one value holds more than 2**31 refs or buffers");
    return 0;
}

static int grow_buffers(codec_out *out)
{
    uint32_t capacity = doubled(out->buffers_capacity);
    if (capacity == 0)
        return -1;
    size_t used_bytes = out->n_buffers * sizeof(Py_buffer), new_bytes = capacity * sizeof(Py_buffer);
    Py_buffer *buffers = grown(out->buffers, out->inline_buffers, used_bytes, new_bytes);
    if (buffers == NULL)
        return -1;
    out->buffers = buffers;
    out->buffers_capacity = capacity;
    return 0;
}

int codec_add_buffer(codec_out *out, Py_buffer *view)
{
    if (out->n_buffers == out->buffers_capacity && grow_buffers(out) < 0) {
        PyBuffer_Release(view);
        return FAILED;
    }
    /* A view may be moved although PyBuffer_FillInfo lets its shape point into itself: only buf and len are read from
     * here on, and releasing does not look at the shape. */
    out->buffers[out->n_buffers++] = *view;
    return ENCODED;
}

int codec_put_body(codec_out *out, PyObject *owner, const void *bytes, size_t n, size_t large)
{
    if (n < large)
        return codec_put_count(out, n) == ENCODED ? codec_put(out, bytes, n) : FAILED;
    Py_buffer view;
    if (PyBuffer_FillInfo(&view, owner, (void *)(uintptr_t)bytes, (Py_ssize_t)n, 1, PyBUF_SIMPLE) < 0)
        return FAILED;
    if (codec_add_buffer(out, &view) != ENCODED)
        return FAILED;
    return codec_put_byte(out, OUT_OF_BAND);
}

static int grow_refs(codec_out *out)
{
    uint32_t capacity = doubled(out->refs_capacity);
    if (capacity == 0)
        return -1;
    bool was_inline = out->refs == out->inline_refs;
    uint32_t *refs = PyMem_Malloc(capacity * sizeof *refs);
    PyObject **kept = PyMem_Malloc(capacity * sizeof *kept);
    if (refs == NULL || kept == NULL) {
        PyMem_Free(refs);
        PyMem_Free(kept);
        PyErr_NoMemory();
        return -1;
    }
    memcpy(refs, out->refs, out->n_refs * sizeof *refs);
    memcpy(kept, out->kept, out->n_refs * sizeof *kept);
    if (!was_inline) {
        PyMem_Free(out->refs);
        PyMem_Free(out->kept);
    }
    out->refs = refs;
    out->kept = kept;
    out->refs_capacity = capacity;
    return 0;
}

int codec_add_ref(codec_out *out, PyObject *ref, uint32_t *number)
{
    if (out->n_refs == out->refs_capacity && grow_refs(out) < 0)
        return FAILED;
    if (out->hooks->ref_slot(out->hooks->ctx, ref, &out->refs[out->n_refs]) < 0)
        return FAILED;
    *number = out->n_refs++;
    out->kept[*number] = Py_NewRef(ref);
    return ENCODED;
}

void codec_keep_alone(codec_out *out)
{
    out->size -= out->alone_at;
    memmove(out->data, out->data + out->alone_at, out->size);
    out->alone = NULL;
}

/* --- the laid-out form --- */

static size_t aligned(size_t n) { return (n + BUFFER_ALIGNMENT - 1) & ~(size_t)(BUFFER_ALIGNMENT - 1); }

static size_t in_band_end(const codec_out *out)
{
    return out->n_buffers == 0 ? out->size : FRAME_HEADER + 8 * (size_t)out->n_buffers + out->size;
}

size_t codec_total_size(const codec_out *out)
{
    size_t size = in_band_end(out);
    for (uint32_t i = 0; i < out->n_buffers; i++)
        size = aligned(size) + (size_t)out->buffers[i].len;
    return size;
}

static unsigned char *write_frame_header(const codec_out *out, unsigned char *dest)
{
    uint64_t in_band = out->size;
    memset(dest, 0, 4);
    dest[0] = FRAME;
    memcpy(dest + 4, &out->n_buffers, 4);
    memcpy(dest + 8, &in_band, 8);
    dest += FRAME_HEADER;
    for (uint32_t i = 0; i < out->n_buffers; i++, dest += 8) {
        uint64_t size = (uint64_t)out->buffers[i].len | (out->buffers[i].readonly ? READ_ONLY_BUFFER : 0);
        memcpy(dest, &size, 8);
    }
    return dest;
}

static void plain_copy(void *ctx, void *to, const void *from, size_t size)
{
    (void)ctx;
    memcpy(to, from, size);
}

void codec_write(const codec_out *out, unsigned char *dest, codec_copy_fn copy, void *ctx)
{
    unsigned char *to = out->n_buffers == 0 ? dest : write_frame_header(out, dest);
    memcpy(to, out->data, out->size);
    size_t offset = in_band_end(out);
    if (copy == NULL)
        copy = plain_copy;
    for (uint32_t i = 0; i < out->n_buffers; i++) {
        offset = aligned(offset);
        if (out->buffers[i].len > 0)
            copy(ctx, dest + offset, out->buffers[i].buf, (size_t)out->buffers[i].len);
        offset += (size_t)out->buffers[i].len;
    }
}

bool codec_matches(const codec_out *out, const unsigned char *at)
{
    const unsigned char *from = at;
    if (out->n_buffers) {
        unsigned char *header = PyMem_Malloc(in_band_end(out)); /* as it would be written */
        size_t n = header ? (size_t)(write_frame_header(out, header) - header) : 0;
        bool same = header && memcmp(header, at, n) == 0;
        PyMem_Free(header);
        if (!same)
            return false;
        from += n;
    }
    if (memcmp(from, out->data, out->size) != 0)
        return false;
    size_t offset = in_band_end(out);
    for (uint32_t i = 0; i < out->n_buffers; i++) {
        size_t n = (size_t)out->buffers[i].len;
        offset = aligned(offset);
        if (n && memcmp(at + offset, out->buffers[i].buf, n) != 0)
            return false;
        offset += n;
    }
    return true;
}
