/* shared/: memory that every process may write to; never a value that is final. */

/* Arrays that stay writable: making them, and finding out which of a process's arrays lie in shared memory. Those are
 * known by their addresses, so a view of a view counts, whichever library has made it. */
#define NO_IMPORT_ARRAY
#include "shared/shared.h"

#include "codec/numpy_api.h"
#include "inspect/inspect.h"

#include <sys/mman.h>

/* ------------------------------------------------------------------ which memory of this process is shared */

/* Shared objects of which this process has views, by ascending address. With the GIL. */
typedef struct {
    const unsigned char *begin, *end;
    PyObject *ref;
    size_t n_views;
} Range;

static struct {
    Range *ranges;
    size_t n, capacity;
} known;

/* The number of ranges that begin at `at` or before. */
static size_t ranges_up_to(const unsigned char *at)
{
    size_t low = 0, high = known.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (known.ranges[middle].begin <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static Range *range_with(const unsigned char *low, const unsigned char *high)
{
    size_t n = ranges_up_to(low);
    return n && high <= known.ranges[n - 1].end ? &known.ranges[n - 1] : NULL;
}

static const unsigned char *begin_of(const RefObject *ref)
{
    return ref->client->s.base + object_chunk(&ref->client->s.objects[ref->slot]);
}

/* Room for one more range, before there is a view. -1: an exception. */
int shared_reserve(void)
{
    if (known.n < known.capacity)
        return 0;
    size_t capacity = known.capacity ? 2 * known.capacity : 16;
    Range *ranges = PyMem_Realloc(known.ranges, capacity * sizeof *ranges);
    if (!ranges) {
        PyErr_NoMemory();
        return -1;
    }
    known.ranges = ranges;
    known.capacity = capacity;
    return 0;
}

static void begin_view(RefObject *ref)
{
    const unsigned char *begin = begin_of(ref);
    Range *range = range_with(begin, begin);
    if (range) {
        range->n_views++;
        return;
    }
    size_t at = ranges_up_to(begin);
    memmove(known.ranges + at + 1, known.ranges + at, (known.n++ - at) * sizeof *known.ranges);
    known.ranges[at] = (Range){begin, begin + ref->client->s.objects[ref->slot].size, Py_NewRef(ref), 1};
}

/* Found by its name, as the session may have ended meanwhile. */
static void end_view(const RefObject *ref)
{
    size_t i = 0;
    while (i < known.n && (((RefObject *)known.ranges[i].ref)->client != ref->client ||
                           ((RefObject *)known.ranges[i].ref)->slot != ref->slot ||
                           ((RefObject *)known.ranges[i].ref)->generation != ref->generation))
        i++;
    if (i == known.n || --known.ranges[i].n_views)
        return;
    PyObject *last = known.ranges[i].ref;
    memmove(known.ranges + i, known.ranges + i + 1, (--known.n - i) * sizeof *known.ranges);
    Py_DECREF(last);
}

void shared_note_view(PyObject *owner, bool begins)
{
    if (begins)
        begin_view((RefObject *)owner);
    else
        end_view((RefObject *)owner);
}

static PyObject *find(void *client, const unsigned char *low, const unsigned char *high, uint64_t *offset)
{
    const Range *range = range_with(low, high);
    if (!range || ((RefObject *)range->ref)->client != client || ((ClientObject *)client)->closed)
        return NULL;
    *offset = (uint64_t)(low - range->begin);
    return range->ref;
}

bool shared_has(ClientObject *c, const void *data)
{
    uint64_t offset;
    return find(c, data, data, &offset) != NULL;
}

/* ------------------------------------------------------------------ and back */

unsigned char *shared_bytes(void *client, PyObject *argument, uint64_t *size)
{
    ClientObject *c = client;
    if (check_ref(c, argument, "a shared array") < 0 || shared_reserve() < 0)
        return NULL;
    RefObject *ref = (RefObject *)argument;
    const struct object_slot *o = &c->s.objects[ref->slot];
    if (!object_sealed(o) && wait_refs(c, &argument, 1, 1, -1.0, WAIT_TO_LOOK) < 0)
        return NULL;
    if (object_state(o) != OBJECT_READY) /* of another machine, which says so */
        return (unsigned char *)load_value(c, ref, CODEC_OWN);
    uint64_t chunk = object_chunk(o);
    if (!object_is_shared(o) || chunk >= c->s.size || o->size > c->s.size - chunk) {
        raise_core_error(c, OBJSTORE_CORRUPT, "a shared array's memory is another object's");
        return NULL;
    }
    *size = o->size;
    return c->s.base + chunk;
}

const codec_shared shared_memory = {&known.n, find, shared_bytes, shared_note_view};

/* ------------------------------------------------------------------ in pickles */

/* What pickle needs of an array in shared memory: (ref, offset), else None. Of another client than the one that encodes
 * there are only copies. */
PyObject *core_shared_place(PyObject *module, PyObject *array)
{
    (void)module;
    if (!known.n || codec_need_numpy() < 0)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    if (!PyArray_Check(array))
        return PyErr_Format(PyExc_TypeError, "an array is expected, not %R", array);
    const Range *range = range_with(PyArray_DATA((PyArrayObject *)array), PyArray_DATA((PyArrayObject *)array));
    ClientObject *c = range ? ((RefObject *)range->ref)->client : NULL;
    uint64_t offset;
    PyObject *ref = c && c->pid && (!codec_is_encoding() || codec_encodes_for() == c)
                        ? codec_find_shared(&c->codec, array, &offset)
                        : NULL;
    return ref ? Py_BuildValue("OK", ref, (unsigned long long)offset) : Py_NewRef(Py_None);
}

PyObject *core_shared_view(PyObject *module, PyObject *args)
{
    PyObject *ref, *shape, *strides, *dtype;
    unsigned long long offset;
    int writable;
    if (!PyArg_ParseTuple(args, "O!KO!O!Op:shared_view", core_state(module)->ref_type, &ref, &offset, &PyTuple_Type,
                          &shape, &PyTuple_Type, &strides, &dtype, &writable) ||
        client_usable(((RefObject *)ref)->client) < 0)
        return NULL;
    return codec_shared_view(&((RefObject *)ref)->client->codec, ref, offset, shape, strides, dtype, writable);
}

/* ------------------------------------------------------------------ making */

#define EMPTY_PAGES \
    (UINT64_C(1) << 20) /* bytes: larger memory gives up its pages, and gets zeroed ones when it is used */

static void fill_with_zeros(struct segment *s, uint64_t offset, uint64_t size)
{
    uint64_t begin = (offset + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE,
             end = (offset + size) / ARENA_PAGE * ARENA_PAGE;
    if (size < EMPTY_PAGES || madvise(s->base + begin, end - begin, MADV_REMOVE) < 0)
        begin = end = offset + size;
    memset(s->base + offset, 0, begin - offset);
    memset(s->base + end, 0, offset + size - end);
}

static void leave_in_place(void *ctx, void *to, const void *from, size_t size)
{
    (void)ctx, (void)to, (void)from, (void)size;
}

static int create_and_seal(ClientObject *c, const Encoded *e, uint64_t offset, uint32_t kind, uint32_t *slot)
{
    uint32_t origin = current_origin(c);
    segment_lock(&c->s);
    int error = create_put(c, e, origin, EVENT_BY_PUT, slot);
    if (!error)
        object_seal_arena(&c->s, *slot, OBJECT_READY, offset, e->size, kind);
    segment_unlock(&c->s);
    return error;
}

uint64_t shared_begin(ClientObject *c, Encoded *e)
{
    uint64_t offset = allocate(c, e->size, 0);
    if (!offset)
        return 0;
    Py_BEGIN_ALLOW_THREADS
    fill_with_zeros(&c->s, offset, e->size);
    Py_END_ALLOW_THREADS
    codec_write(&e->out, c->s.base + offset, leave_in_place, NULL);
    return offset;
}

PyObject *shared_seal(ClientObject *c, const Encoded *e, uint64_t offset, uint32_t kind)
{
    uint32_t slot;
    int error = create_and_seal(c, e, offset, kind, &slot);
    if (error == OBJSTORE_LIMIT) { /* what this process has let go of may not have been given back yet */
        flush_drops(c);
        error = create_and_seal(c, e, offset, kind, &slot);
    }
    if (!error)
        return ref_new(c, slot, true);
    segment_lock(&c->s);
    arena_free(segment_arena(&c->s), c->s.base, offset);
    segment_unlock(&c->s);
    return raise_core_error(c, error, "objects");
}

/* shared(forms) -> the array, or the dict of arrays */
static PyObject *client_shared(ClientObject *c, PyObject *forms)
{
    Encoded e;
    if (client_usable(c) < 0)
        return NULL;
    codec_out_init(&e.out);
    PyObject *ref = NULL, *value = NULL;
    if (codec_encode_zeros(&c->codec, &e.out, forms) == 0) {
        e.size = codec_total_size(&e.out);
        uint64_t offset = shared_begin(c, &e);
        ref = offset ? shared_seal(c, &e, offset, REFS_OF_SHARED) : NULL;
    }
    codec_out_clear(&e.out);
    if (ref)
        value = load_value(c, (RefObject *)ref, CODEC_OWN);
    Py_XDECREF(ref);
    return value;
}

/* ------------------------------------------------------------------ what it is, in words */

enum { MOST_FORMS = 10 }; /* the first ones of an object with many arrays */

static PyObject *form_of(PyObject *name, PyObject *value)
{
    PyArrayObject *array = (PyArrayObject *)value;
    PyObject *shape = PyTuple_New(PyArray_NDIM(array));
    for (int i = 0; shape && i < PyArray_NDIM(array); i++)
        PyTuple_SET_ITEM(shape, i, PyLong_FromSsize_t(PyArray_DIM(array, i)));
    PyObject *dtype = PyObject_Str((PyObject *)PyArray_DESCR(array));
    return shape && dtype ? Py_BuildValue("ONN", name, dtype, shape) : NULL;
}

static PyObject *forms_of(PyObject *value)
{
    PyObject *name, *item, *list = PyList_New(0);
    Py_ssize_t position = 0;
    bool ok = list;
    if (PyUnicode_Check(value)) {
        ok = ok && PyList_Append(list, value) == 0;
    } else if (PyDict_Check(value)) {
        while (ok && PyList_GET_SIZE(list) < MOST_FORMS && PyDict_Next(value, &position, &name, &item))
            ok = list_add(list, form_of(name, item));
    } else {
        ok = ok && list_add(list, form_of(Py_None, value));
    }
    return list_done(list, ok);
}

PyObject *shared_forms(ClientObject *c, uint32_t slot)
{
    segment_lock(&c->s);
    bool shared =
        slot < c->s.h->touched_objects && object_is_safe(&c->s, slot) && object_is_shared(&c->s.objects[slot]);
    if (shared)
        object_hold(&c->s, slot);
    segment_unlock(&c->s);
    if (!shared)
        Py_RETURN_NONE;
    PyObject *ref = ref_new(c, slot, true), *value = ref ? load_value(c, (RefObject *)ref, CODEC_OWN) : NULL;
    PyObject *forms = value ? forms_of(value) : NULL;
    Py_XDECREF(value);
    Py_XDECREF(ref);
    return forms;
}

static PyObject *client_shared_forms(ClientObject *c, PyObject *number)
{
    unsigned long slot = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() || client_usable(c) < 0)
        return NULL;
    return shared_forms(c, slot < UINT32_MAX ? (uint32_t)slot : UINT32_MAX);
}

PyMethodDef shared_methods[] = {
    {"shared_forms", (PyCFunction)client_shared_forms, METH_O,
     "shared_forms(slot, /)\n--\n\nOf each array of a shared object (name or None, dtype, shape); None: it is none."},

    {"shared", (PyCFunction)client_shared, METH_O,
     "shared(forms, /)\n--\n\nArrays of zeros that every process may write to: one, for (shape, dtype), or a dict of "
     "them."},
    {NULL}};
