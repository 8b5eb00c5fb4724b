/* Results written where they will lie.
 *
 * A task that returns a large array has written it into private memory, from where it is copied into the segment: two
 * passes and, for the allocation, a page fault every 4 KiB. A function that has returned such an array once will
 * probably do it again, so while it runs the next time, arrays of exactly that size are allocated in the segment (numpy
 * lets an extension choose, NEP 49), and the one that is returned becomes the object as it lies there. Arrays of other
 * sizes, and everything that does not work out, take the ordinary way.
 *
 * A forked child must not see what its parent writes later, nor the parent what the child writes: before a fork the
 * pages of these arrays become a private view of the segment, copied when written to, and the arrays ordinary memory.
 *
 * All of this happens with the GIL held, except for the fork handler. */
#define NO_IMPORT_ARRAY
#include "binding.h"
#include "codec/numpy_api.h"
#include "shared/shared.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define PREFIX ARENA_UNIT /* between a chunk's payload and the array: room for the header of the encoded value */

static struct {
    ClientObject *client; /* never given up once there are arrays, which may outlive all else */
    PyObject *capsule;    /* of our handler */
    PyDataMem_Handler *ordinary;
    uint32_t n_arrays; /* L  that live in the segment */
    uint64_t *forked;  /* payloads of those that a fork has made private, */
    size_t n_forked, capacity;
} memory;

static _Thread_local size_t wanted; /* bytes; 0: no array is to lie in the segment */
static _Thread_local bool took;     /* one since that was said */

/* ------------------------------------------------------------------ the segment's side */

static bool is_ours(const void *data)
{
    const unsigned char *p = data;
    return memory.client && p >= memory.client->s.base && p < memory.client->s.base + memory.client->s.size;
}

static uint64_t payload_of(const void *data)
{
    return (uint64_t)((const unsigned char *)data - memory.client->s.base) - PREFIX;
}

static size_t find_forked(uint64_t payload)
{
    size_t i = 0;
    while (i < memory.n_forked && memory.forked[i] != payload)
        i++;
    return i;
}

static uint64_t whole_pages(uint64_t payload)
{
    return (arena_chunk_size(memory.client->s.base, payload) - PREFIX) / ARENA_PAGE * ARENA_PAGE;
}

/* Maps the array's own pages again, shared or private. */
static bool map_pages(uint64_t payload, uint64_t size, int flags)
{
    struct segment *s = &memory.client->s;
    uint64_t at = payload + PREFIX;
    return mmap(s->base + at, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED | MAP_NORESERVE, s->fd, (off_t)at) !=
           MAP_FAILED;
}

static void *take(size_t size)
{
    struct segment *s = &memory.client->s;
    segment_lock(s);
    uint64_t payload = arena_alloc_pages(segment_arena(s), s->base, size, ARENA_ARRAY, s->me);
    memory.n_arrays += payload != 0;
    took |= payload != 0;
    segment_unlock(s);
    return payload ? s->base + payload + PREFIX : NULL;
}

static void give_back(void *data)
{
    struct segment *s = &memory.client->s;
    uint64_t payload = payload_of(data);
    if (!memory.client->pid)
        return; /* a forked child: the chunk is its parent's */
    size_t i = find_forked(payload);
    if (i < memory.n_forked) {
        if (!map_pages(payload, whole_pages(payload), MAP_SHARED))
            return; /* must not be used by anyone else: it stays ours until the process ends */
        memory.forked[i] = memory.forked[--memory.n_forked];
    }
    segment_lock(s);
    arena_free(segment_arena(s), s->base, payload);
    memory.n_arrays--;
    segment_unlock(s);
}

/* ------------------------------------------------------------------ numpy's side */

static void *take_if_wanted(size_t size) { return size && size == wanted && memory.client->pid ? take(size) : NULL; }

static void *handle_malloc(void *ctx, size_t size)
{
    (void)ctx;
    void *data = take_if_wanted(size);
    return data ? data : memory.ordinary->allocator.malloc(memory.ordinary->allocator.ctx, size);
}

/* Zeroed pages of the operating system cost nothing until they are used, then more than pages of the segment. */
static void *handle_calloc(void *ctx, size_t n, size_t size)
{
    (void)ctx;
    void *data = size && n <= SIZE_MAX / size ? take_if_wanted(n * size) : NULL;
    return data ? memset(data, 0, n * size)
                : memory.ordinary->allocator.calloc(memory.ordinary->allocator.ctx, n, size);
}

static void handle_free(void *ctx, void *data, size_t size)
{
    (void)ctx;
    if (is_ours(data))
        give_back(data);
    else
        memory.ordinary->allocator.free(memory.ordinary->allocator.ctx, data, size);
}

static void *handle_realloc(void *ctx, void *data, size_t size)
{
    PyDataMemAllocator *ordinary = &memory.ordinary->allocator;
    if (!is_ours(data))
        return ordinary->realloc(ordinary->ctx, data, size);
    void *moved = ordinary->malloc(ordinary->ctx, size);
    if (moved) {
        size_t old = whole_pages(payload_of(data));
        memcpy(moved, data, old < size ? old : size);
        handle_free(ctx, data, old);
    }
    return moved;
}

static PyDataMem_Handler handler = {"cellmesh", 1, {NULL, handle_malloc, handle_calloc, handle_realloc, handle_free}};

static int make_private(void *ctx, uint32_t kind, uint32_t owner, uint64_t payload, uint64_t size)
{
    (void)ctx;
    if (kind != ARENA_ARRAY || owner != memory.client->s.me || find_forked(payload) < memory.n_forked)
        return 0;
    if (memory.n_forked == memory.capacity) {
        size_t capacity = memory.capacity ? 2 * memory.capacity : 16;
        uint64_t *forked = realloc(memory.forked, capacity * sizeof *forked);
        if (!forked)
            return 0; /* then this one stays shared with the child */
        memory.forked = forked;
        memory.capacity = capacity;
    }
    if (map_pages(payload, (size - PREFIX) / ARENA_PAGE * ARENA_PAGE, MAP_PRIVATE))
        memory.forked[memory.n_forked++] = payload;
    return 0;
}

static void before_fork(void)
{
    if (!memory.client || !memory.client->pid || !memory.n_arrays)
        return;
    struct segment *s = &memory.client->s;
    segment_lock(s);
    arena_walk(segment_arena(s), s->base, make_private, NULL);
    segment_unlock(s);
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The pages of arrays are private already, and may have been written to since an earlier fork: only what lies between
 * them is mapped again. */
bool array_memory_make_private(ClientObject *c)
{
    uint64_t begin = 0;
    bool done = true;
    if (memory.client == c) {
        qsort(memory.forked, memory.n_forked, sizeof *memory.forked, compare);
        for (size_t i = 0; i < memory.n_forked; i++) {
            done = done && segment_make_private(&c->s, begin, memory.forked[i] + PREFIX);
            begin = memory.forked[i] + PREFIX + whole_pages(memory.forked[i]);
        }
    }
    return segment_make_private(&c->s, begin, c->s.size) && done;
}

/* Makes numpy ask us, in the current context, which each task has to itself. A user's own handler is left alone. */
static void install(ClientObject *c)
{
    if (c->s.fd < 0)
        return;
    PyObject *present = PyDataMem_GetHandler();
    PyDataMem_Handler *ordinary = present ? PyCapsule_GetPointer(present, "mem_handler") : NULL;
    if (ordinary && strcmp(ordinary->name, "default_allocator") == 0) {
        if (!memory.client) {
            memory.capsule = PyCapsule_New(&handler, "mem_handler", NULL);
            memory.ordinary = ordinary;
            if (memory.capsule && pthread_atfork(before_fork, NULL, NULL) == 0)
                memory.client = (ClientObject *)Py_NewRef(c);
        }
        if (memory.client == c)
            Py_XDECREF(PyDataMem_SetHandler(memory.capsule));
    }
    Py_XDECREF(present);
    PyErr_Clear(); /* without it results are copied, as they are at first */
}

/* ------------------------------------------------------------------ results */

void array_memory_expect(ClientObject *c, size_t size)
{
    wanted = size;
    took = false;
    if (size && size != ARRAY_MEMORY_NEVER)
        install(c);
}

/* Whether `n` references are all that lead to the object: a weak one would give out another. */
static bool has_only(PyObject *value, Py_ssize_t n)
{
    PyObject *weak = *(PyObject **)((char *)value + Py_TYPE(value)->tp_weaklistoffset);
    return Py_REFCNT(value) == n && weak == NULL;
}

/* The array, if the caller alone holds it and it fills a chunk of this process. */
static PyArrayObject *as_only_holder(PyObject *value)
{
    PyArrayObject *array = (PyArrayObject *)value;
    bool whole = PyArray_CheckExact(value) && has_only(value, 1) && PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA) &&
                 PyArray_BASE(array) == NULL && PyArray_HANDLER(array) == memory.capsule &&
                 is_ours(PyArray_DATA(array));
    return whole && find_forked(payload_of(PyArray_DATA(array))) == memory.n_forked ? array : NULL;
}

static void leave_in_place(void *ctx, void *to, const void *from, size_t size)
{
    (void)ctx, (void)to, (void)from, (void)size;
}

/* Whether the encoded form is a header that fits in front of the array, and the array. Encoding may have run Python
 * code (a dtype's metadata are pickled), so the array's holders are counted again: the caller and the buffer. */
static bool fits_in_place(const Encoded *e, PyArrayObject *array)
{
    return e->out.n_buffers == 1 && e->out.n_refs == 0 && e->out.buffers[0].buf == PyArray_DATA(array) &&
           e->out.buffers[0].obj == (PyObject *)array && has_only((PyObject *)array, 2) &&
           e->size == PREFIX + (size_t)e->out.buffers[0].len;
}

int array_memory_seal(ClientObject *c, uint32_t slot, PyObject *value)
{
    PyArrayObject *array = memory.client == c && c->pid ? as_only_holder(value) : NULL;
    if (!array)
        return 0;
    Encoded e;
    if (encode_value(c, &e, value) < 0)
        return -1;
    bool fits = fits_in_place(&e, array);
    if (fits) {
        uint64_t payload = payload_of(PyArray_DATA(array));
        codec_write(&e.out, c->s.base + payload, leave_in_place, NULL);
        segment_lock(&c->s);
        if (object_seal_arena(&c->s, slot, OBJECT_READY, payload, e.size, 0)) {
            PyArray_CLEARFLAGS(array, NPY_ARRAY_OWNDATA);
            memory.n_arrays--;
        }
        segment_unlock(&c->s);
    }
    encoded_clear(&e);
    return fits;
}

size_t array_memory_learn(ClientObject *c, PyObject *value)
{
    if (c->s.me == UINT32_MAX || strcmp(Py_TYPE(value)->tp_name, "numpy.ndarray") != 0 || !PyArray_CheckExact(value))
        return 0;
    size_t size = (size_t)PyArray_NBYTES((PyArrayObject *)value);
    if (size < OBJECT_LARGE || shared_has(c, PyArray_DATA((PyArrayObject *)value)))
        return 0;
    if (took)
        return ARRAY_MEMORY_NEVER; /* there was one, and it is not for us: the function keeps what it returns */
    return size;
}
