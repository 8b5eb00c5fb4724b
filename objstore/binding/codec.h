/* Python values to bytes and back.
 *
 * Small plain values (None, bool, int, float, complex, str, bytes, tuple, list, dict, refs, numpy's arrays, scalars and
 * dtypes) have a form of their own, which costs some nanoseconds. A value that this form cannot reproduce exactly, identity
 * of nested mutable objects included, is pickled as a whole by a hook (cloudpickle, protocol 5, buffers out of band).
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

/* What the codec asks of its user. Pointers are borrowed. */
typedef struct codec_hooks {
    PyObject *pickle;       /* pickle(value) -> (bytes, list of contiguous buffers) */
    PyObject *unpickle;     /* unpickle(bytes or Buffer, list of read-only buffers) -> value */
    PyTypeObject *ref_type; /* the exact type of refs */
    int (*ref_slot)(void *ctx, PyObject *ref, uint32_t *slot); /* -1 with an exception: no ref to be encoded here */
    void (*damaged)(void *ctx); /* raises what codec_decode is to raise where the bytes are damaged; NULL: ValueError */
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

/* Asked once for each argument, in order. 1: it is dependency number *dependency; 0: encode its value; -1: failed. */
typedef int (*codec_arg_fn)(void *ctx, PyObject *value, uint32_t *dependency);

/* Encodes the arguments of a call, given as for vectorcall. No arguments: 0 bytes. Aliasing is kept between arguments
 * too, therefore one argument that needs pickle sends all but the dependencies through pickle, together.
 * `on_arg` may be NULL. */
int codec_encode_args(const codec_hooks *hooks, codec_out *out, PyObject *const *args, Py_ssize_t n_positional,
                      PyObject *kwnames, codec_arg_fn on_arg, void *ctx);

/* Bytes that codec_write will fill. Equal to out->size if there are no buffers. */
size_t codec_total_size(const codec_out *out);

/* Lays the value out at `dest`, which should be a multiple of 64 if there are buffers. `copy` (NULL: memcpy) copies
 * them and is given `ctx`. */
void codec_write(const codec_out *out, unsigned char *dest, codec_copy_fn copy, void *ctx);

/* --- decoding --- */

typedef void (*codec_view_fn)(PyObject *owner, bool begins);

typedef struct codec_source {
    PyObject *owner;      /* keeps the encoded bytes as they are, views refer to it; NULL: everything is copied */
    const uint32_t *refs; /* slots of the contained refs */
    uint32_t n_refs;
    PyObject *(*make_ref)(void *ctx, uint32_t slot); /* new reference */
    void *ctx;
    codec_copy_fn copy; /* for large copies, NULL: memcpy */
    codec_view_fn view; /* told when a view of the owner's bytes begins, and when it ends; may be NULL */
} codec_source;

/* New reference. Arrays and buffers out of band are read-only views of the encoded bytes if there is an owner; all
 * arrays in the codec's own form are read-only. ValueError if the bytes are damaged, see codec_hooks. */
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

/* What form a value was encoded in: "int", "str", "numpy array", "pickle", ...; "damaged" if it cannot be told. */
const char *codec_encoding_name(const unsigned char *data, size_t size);

/* --- binding --- */

/* Adds the type Buffer and the function _ref_at to the module. */
int codec_init(PyObject *module);

/* The body of Ref.__reduce__. While this thread encodes, notes the ref and returns what pickle needs; otherwise
 * TypeError, because a ref that nobody counts would keep nothing alive. */
PyObject *codec_reduce_ref(PyObject *ref);

#endif
