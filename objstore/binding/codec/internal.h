/* Shared by the files of the codec: the format, the writer, the reader.
 *
 * A value is a tag byte and what the tag says. Integers are little-endian, at any address.
 *   count  one byte below OUT_OF_BAND, or WIDE and eight bytes
 *   body   a count and that many bytes, or OUT_OF_BAND: the next buffer
 * If there are buffers, the whole is preceded by a frame header: FRAME, three spare bytes, the number of buffers (4
 * bytes), the size of the in-band bytes (8 bytes) and the size of each buffer (8 bytes each).
 *
 * The format lives as long as one session, between processes of one machine and one version; it carries no version
 * itself.
 */
#ifndef CELLMESH_CODEC_INTERNAL_H
#define CELLMESH_CODEC_INTERNAL_H

#include "codec/codec.h"

#include <stdbool.h>
#include <string.h>

#if !PY_LITTLE_ENDIAN
#error "the codec copies integers as they lie in memory"
#endif

enum codec_tag {
    TAG_NONE = 1,
    TAG_FALSE,
    TAG_TRUE,
    TAG_INT8,
    TAG_INT32,
    TAG_INT64,
    TAG_BIG_INT, /* body: two's complement */
    TAG_FLOAT,
    TAG_COMPLEX,
    TAG_ASCII, /* body: the characters, one byte each */
    TAG_UCS1,
    TAG_UCS2, /* two bytes each */
    TAG_UCS4,
    TAG_BYTES,      /* body */
    TAG_TUPLE,      /* count, values */
    TAG_LIST,       /* count, values */
    TAG_DICT,       /* count, key and value in turn */
    TAG_REF,        /* count: number of the ref */
    TAG_ARRAY,      /* order ('C' or 'F'), number of dimensions, 8 bytes per dimension, dtype (see dtype.c), body */
    TAG_SCALAR,     /* dtype, as many bytes as it has */
    TAG_DTYPE,      /* dtype */
    TAG_PICKLE,     /* count of its buffers, body: the pickle; the buffers are the next ones out of band */
    TAG_DEPENDENCY, /* count: its number; only as an argument */
    TAG_HOLE,       /* only as an argument: the next element of the tuple that follows the arguments */
    TAG_SHARED,     /* an array in a shared object: see shared.c */
    N_TAGS
};

enum { OUT_OF_BAND = 0xfe, WIDE = 0xff };
/* First byte if a frame header follows: neither a tag nor the count that opens an argument list. */
enum { FRAME = 0xfe };

#define BUFFER_ALIGNMENT 64
#define FRAME_HEADER 16
#define LARGE_BODY (64 * 1024) /* from here on copying twice would be felt */
#define LARGE_ARRAY 1024       /* from here on a view beats a copy */
/* In the size of a buffer: nobody changes what it belongs to. */
#define READ_ONLY_BUFFER (UINT64_C(1) << 63)

/* --- encoding --- */

enum encoding { ENCODED = 0, FAILED = -1, UNSUITED = 1 }; /* FAILED: exception set; UNSUITED: pickle it */

/* Nested objects that might be met twice; more of them than this are pickled. */
#define MAX_SEEN 32
#define MAX_DEPTH 8
#define MAX_CONTAINERS 1000

typedef struct encoder {
    const codec_hooks *hooks;
    codec_out *out;
    unsigned depth, n_containers, n_seen;
    PyObject *seen[MAX_SEEN];
} encoder;

void codec_out_truncate(codec_out *out); /* forgets the contents, keeps the memory */
int codec_reserve_slow(codec_out *out, size_t n);

/* Room for n more bytes, or NULL with MemoryError. The caller advances out->size. */
static inline unsigned char *codec_reserve(codec_out *out, size_t n)
{
    if (out->capacity - out->size < n && codec_reserve_slow(out, n) < 0)
        return NULL;
    return out->data + out->size;
}

static inline int codec_put(codec_out *out, const void *bytes, size_t n)
{
    unsigned char *to = codec_reserve(out, n);
    if (to == NULL)
        return FAILED;
    memcpy(to, bytes, n);
    out->size += n;
    return ENCODED;
}

static inline int codec_put_byte(codec_out *out, unsigned char byte)
{
    unsigned char *to = codec_reserve(out, 1);
    if (to == NULL)
        return FAILED;
    *to = byte;
    out->size++;
    return ENCODED;
}

static inline int codec_put_tagged(codec_out *out, enum codec_tag tag, const void *bytes, size_t n)
{
    unsigned char *to = codec_reserve(out, n + 1);
    if (to == NULL)
        return FAILED;
    *to = (unsigned char)tag;
    memcpy(to + 1, bytes, n);
    out->size += n + 1;
    return ENCODED;
}

static inline int codec_put_count(codec_out *out, size_t n)
{
    if (n < OUT_OF_BAND)
        return codec_put_byte(out, (unsigned char)n);
    uint64_t wide = n;
    return codec_put_tagged(out, (enum codec_tag)WIDE, &wide, sizeof wide);
}

/* Appends a buffer, whose export passes to `out`. On failure it is released. */
int codec_add_buffer(codec_out *out, Py_buffer *view);

/* Appends a body that belongs to `owner`; from `large` bytes on only a reference to it. */
int codec_put_body(codec_out *out, PyObject *owner, const void *bytes, size_t n, size_t large);

/* Notes a ref and gives its number. */
int codec_add_ref(codec_out *out, PyObject *ref, uint32_t *number);

int codec_encode_value(encoder *e, PyObject *value);  /* enum encoding */
int codec_encode_pickle(encoder *e, PyObject *value); /* 0 or -1; after truncating what the fast form had written */
int codec_encode_numpy(encoder *e, PyObject *value);  /* enum encoding; UNSUITED also if it is not numpy's */
int codec_encode_shared(encoder *e, PyObject *array); /* enum encoding; UNSUITED also if its memory is not shared */
bool codec_is_met_again(encoder *e, PyObject *value); /* remembers it; true also if there is no room to remember */

/* --- decoding --- */

typedef struct reader {
    const unsigned char *at, *end;
    const codec_hooks *hooks;
    const codec_source *source;
    const unsigned char *data_start, *data_end; /* everything, frame header and buffers included */
    const unsigned char *buffer_sizes, *next_buffer;
    uint32_t n_buffers_left;
    unsigned depth;
    bool asked;         /* for private pages */
    codec_pages *pages; /* NULL: there are none; of the reader as of each Buffer over them */
} reader;

/* A body as it lies in the encoded bytes. */
typedef struct body {
    const unsigned char *bytes;
    size_t size;
    bool out_of_band, read_only;
} body;

extern PyObject *codec_damage; /* a ValueError, made by codec_init */
int codec_damaged(void);       /* sets it, returns -1 */

/* Understands the frame header if there is one. */
int codec_reader_init(reader *r, const codec_hooks *hooks, const unsigned char *data, size_t size,
                      const codec_source *source);

static inline const unsigned char *codec_take(reader *r, size_t n)
{
    if ((size_t)(r->end - r->at) < n) {
        codec_damaged();
        return NULL;
    }
    const unsigned char *taken = r->at;
    r->at += n;
    return taken;
}

int codec_take_count(reader *r, size_t *n);
int codec_take_body(reader *r, body *taken);
int codec_take_buffer(reader *r, body *taken);

PyObject *codec_decode_value(reader *r);
PyObject *codec_decode_array(reader *r);
PyObject *codec_decode_shared(reader *r);
PyObject *codec_decode_scalar(reader *r);
PyObject *codec_decode_dtype(reader *r);
PyObject *codec_body_as_bytes(const reader *r, const body *from);
PyObject *codec_body_as_view(const reader *r, const body *from); /* Buffer if there is an owner, else bytes */
void codec_copy_body(const reader *r, void *to, const body *from);
PyObject *codec_make_ref(const codec_source *source, size_t number);
PyObject *codec_call_unpickle(const reader *r, PyObject *pickle, PyObject *buffers);

/* --- own.c: what is the reader's alone --- */

PyObject *codec_body_as_own(reader *r, const body *from); /* a Buffer over private pages, or a bytearray */
/* The body in the value's private pages; NULL: there are none, it is to be copied. */
unsigned char *codec_own_bytes(reader *r, const body *from);
PyObject *codec_own_buffer(reader *r, unsigned char *bytes, size_t size); /* over such bytes */
void codec_pages_release(codec_pages *pages);                             /* may be NULL */

/* --- Buffer: a stretch of memory that something else owns, or has private pages over --- */

int buffer_init(PyObject *module);
/* `note` may be NULL; `pages`, where the bytes lie in private ones */
PyObject *buffer_new(PyObject *owner, codec_view_fn note, const unsigned char *bytes, size_t size, bool writable,
                     codec_pages *pages);

#endif
