/* Python values to bytes and back.
 *
 * Small plain values (None, bool, int, float, complex, str, bytes, tuple, list, dict, refs, numpy's arrays, scalars and
 * dtypes) have a form of their own, which costs some nanoseconds. A value that this form cannot reproduce exactly,
 * identity of nested mutable objects included, is pickled as a whole by a hook (cloudpickle, protocol 5, buffers out of
 * band).
 *
 * Encoded, a value is a run of bytes and, for large contents, out-of-band buffers that are only referred to until
 * codec_write copies them, once, to where the value shall lie. There the bytes come first and each buffer begins at a
 * multiple of 64. A value without buffers is just its bytes, so it may be stored anywhere.
 *
 * Refs inside a value are not encoded but numbered: their slots are listed in codec_out, in order, and the decoder
 * asks codec_source for the ref with that number.
 *
 * Everything here needs the GIL. Functions that return int give 0, or -1 with a Python exception set.
 */
#ifndef CELLMESH_CODEC_H
#define CELLMESH_CODEC_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*codec_view_fn)(PyObject *owner, bool begins);

/* Memory that every process may write to, in objects of the segment. An array over it is encoded as the place where it
 * lies, beside the ref of that object, and decoded to an array over the same memory. */
typedef struct codec_shared {
    const size_t *n_known; /* of how many such objects this process has views; 0: none is looked for */
    /* The ref, borrowed, of the shared object that has all of [low, high), and where in it `low` is; NULL: none. Raises
     * nothing. */
    PyObject *(*find)(void *ctx, const unsigned char *low, const unsigned char *high, uint64_t *offset);
    /* The other way round: the bytes of a ref's object, `*size` of them; NULL with an exception. */
    unsigned char *(*bytes)(void *ctx, PyObject *ref, uint64_t *size);
    codec_view_fn view; /* told when a view of such bytes begins, and when it ends */
} codec_shared;

/* What the codec asks of its user. Pointers are borrowed. */
typedef struct codec_hooks {
    PyObject *pickle; /* pickle(value) -> (bytes, list of contiguous buffers, memoryviews of what nobody changes) */
    /* likewise, a tuple of arguments, or None where they are too large to travel together; NULL: as `pickle` */
    PyObject *pickle_arguments;
    PyObject *unpickle;                                        /* unpickle(bytes or Buffer, list of buffers) -> value */
    PyObject *unpickle_arguments;                              /* likewise, a tuple of arguments; NULL: as `unpickle` */
    PyTypeObject *ref_type;                                    /* the exact type of refs */
    int (*ref_slot)(void *ctx, PyObject *ref, uint32_t *slot); /* -1 with an exception: no ref to be encoded here */
    void (*damaged)(void *ctx); /* raises what codec_decode is to raise where the bytes are damaged; NULL: ValueError */
    const codec_shared *shared; /* NULL: no memory is shared */
    void *ctx;
} codec_hooks;

typedef void (*codec_copy_fn)(void *ctx, void *to, const void *from, size_t size);

/* --- encoding --- */

/* One encoded value, or one argument list. Must not be moved: its pointers may point into itself. */
typedef struct codec_out {
    unsigned char *data; /* in-band bytes */
    size_t size, capacity;
    Py_buffer *buffers; /* out-of-band buffers, contiguous, in order; released by codec_out_clear */
    uint32_t n_buffers, buffers_capacity;
    uint32_t n_refs, refs_capacity;
    uint32_t *refs;  /* slots of contained refs, in order, possibly repeated */
    PyObject **kept; /* the refs themselves, kept alive until codec_out_clear */
    PyObject *alone; /* borrowed: the only one of the arguments that is pickled, NULL: none or several */
    size_t alone_at; /* where its bytes begin, the last ones */
    const codec_hooks *hooks;
    unsigned char inline_space[256]; /* what small values need, so that they allocate nothing */
    Py_buffer inline_buffers[1];
    uint32_t inline_refs[4];
    PyObject *inline_kept[4];
} codec_out;

void codec_out_init(codec_out *out);

/* Gives everything back; `out` is then as after codec_out_init. */
void codec_out_clear(codec_out *out);

/* Encodes a value into an initialised or cleared `out`. After a failure `out` must be cleared. */
int codec_encode(const codec_hooks *hooks, codec_out *out, PyObject *value);

/* Encodes arrays of zeros that are nowhere yet: one, for a tuple (shape, dtype), or several in a dict, for a dict of
 * such tuples. All of their bytes are buffers without memory, for codec_write with a `copy` that leaves alone what is
 * there. TypeError: the codec has no form for a dtype. */
int codec_encode_zeros(const codec_hooks *hooks, codec_out *out, PyObject *forms);

/* Asked once for each argument, in order. 1: it is dependency number *dependency; 0: encode its value; -1: failed. */
typedef int (*codec_arg_fn)(void *ctx, PyObject *value, uint32_t *dependency);

/* Encodes the arguments of a call, given as for vectorcall. No arguments: 0 bytes. Aliasing is kept between arguments
 * too, therefore one argument that needs pickle sends all that could share something with it through pickle, together.
 * `on_arg` may be NULL. 1: these are too large, see codec_hooks, and `out` is to be cleared. What is pickled alone is
 * never too large: `out->alone` says so. */
int codec_encode_args(const codec_hooks *hooks, codec_out *out, PyObject *const *args, Py_ssize_t n_positional,
                      PyObject *kwnames, codec_arg_fn on_arg, void *ctx);

/* Makes of encoded arguments what codec_encode would have made of `out->alone`. */
void codec_keep_alone(codec_out *out);

/* Bytes that codec_write will fill. Equal to out->size if there are no buffers. */
size_t codec_total_size(const codec_out *out);

/* Lays the value out at `dest`, which should be a multiple of 64 if there are buffers. `copy` (NULL: memcpy) copies
 * them and is given `ctx`. */
void codec_write(const codec_out *out, unsigned char *dest, codec_copy_fn copy, void *ctx);

/* Whether codec_write would write what is there already, codec_total_size bytes of it. */
bool codec_matches(const codec_out *out, const unsigned char *at);

/* --- decoding --- */

/* What a reader gets of arrays and of other buffers that were writable. */
enum codec_access {
    CODEC_READ_ONLY, /* views of the encoded bytes, which are read-only */
    CODEC_SHARED,    /* views of the encoded bytes, which are written to: they are every process's */
    CODEC_OWN        /* what is the reader's alone, and may be written to: views of private pages, or copies */
};

/* Private pages over a value's encoded bytes: what is written there nobody else sees. */
typedef struct codec_pages {
    unsigned char *bytes; /* the first of the encoded value */
    size_t n_users;       /* counted by the codec, from 0 */
    void (*end)(struct codec_pages *pages);
} codec_pages;

typedef struct codec_source {
    PyObject *owner;      /* keeps the encoded bytes as they are, views refer to it; NULL: everything is copied */
    const uint32_t *refs; /* slots of the contained refs */
    uint32_t n_refs;
    PyObject *(*make_ref)(void *ctx, uint32_t slot); /* new reference */
    void *ctx;
    codec_copy_fn copy; /* for large copies, NULL: memcpy */
    codec_view_fn view; /* told when a view of the owner's bytes begins, and when it ends; may be NULL */
    enum codec_access access;
    /* Of an owner's bytes, at most once for a value. Raises nothing. NULL, itself or what it returns: copies. */
    codec_pages *(*pages)(void *ctx, const unsigned char *data, size_t size);
} codec_source;

/* New reference. `access` says whether arrays can be written to; buffers of what nobody changes are read-only views of
 * the encoded bytes if there is an owner. ValueError if the bytes are damaged, see codec_hooks. */
PyObject *codec_decode(const codec_hooks *hooks, const unsigned char *data, size_t size, const codec_source *source);

/* A decoded argument list, ready for PyObject_Vectorcall(f, values, n_positional | PY_VECTORCALL_ARGUMENTS_OFFSET,
 * kwnames). */
typedef struct codec_args {
    PyObject **values; /* positional, then keyword values; values[-1] is free for vectorcall's use */
    Py_ssize_t n_positional, n_values;
    PyObject *kwnames; /* tuple of interned strings, or NULL */
    PyObject *inline_values[1 + 8];
} codec_args;

/* Fills `args`, to be given back by codec_args_clear; after a failure there is nothing to give back. */
int codec_decode_args(const codec_hooks *hooks, const unsigned char *data, size_t size, const codec_source *source,
                      PyObject *const *dependencies, uint32_t n_dependencies, codec_args *args);

void codec_args_clear(codec_args *args);

/* What codec_decode_args would take each value from: (number of positional values, tuple of keywords or None, [number
 * of a dependency, -1 for one of those that are pickled together, or -2]). Calls no hook. */
PyObject *codec_args_layout(const codec_hooks *hooks, const unsigned char *data, size_t size,
                            const codec_source *source);

/* Before an array is looked at by another file. */
int codec_need_numpy(void);

/* Where an array lies in shared memory: the ref of the object, borrowed; NULL: it lies elsewhere. */
PyObject *codec_find_shared(const codec_hooks *hooks, PyObject *array, uint64_t *offset);

/* An array over shared memory. `shape` and `strides` are tuples of numbers. ValueError if it does not lie inside. */
PyObject *codec_shared_view(const codec_hooks *hooks, PyObject *ref, uint64_t offset, PyObject *shape,
                            PyObject *strides, PyObject *dtype, bool writable);

/* Whether decoding takes no time to speak of: it runs no code of the user's and copies less than LARGE_BODY bytes. */
bool codec_is_quick(const unsigned char *data, size_t size);

/* What form a value was encoded in: "int", "str", "numpy array", "pickle", ...; "damaged" if it cannot be told. */
const char *codec_encoding_name(const unsigned char *data, size_t size);

/* --- binding --- */

/* Adds the type Buffer and the function _ref_at to the module. */
int codec_init(PyObject *module);

/* The body of Ref.__reduce__ where no other library has one. While this thread encodes, notes the ref and returns what
 * pickle needs; otherwise TypeError, because a ref that is not counted would keep nothing alive. */
PyObject *codec_reduce_ref(PyObject *ref);

/* Whether this thread is encoding a value just now; for whom: its codec_hooks.ctx, NULL if it is not. */
bool codec_is_encoding(void);
void *codec_encodes_for(void);

#endif
