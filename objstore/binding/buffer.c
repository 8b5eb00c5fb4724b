/* Buffer: a view of bytes in the segment, which holds a reference to what keeps them there. It is read-only unless they
 * are shared, or lie in private pages over the segment, which the last Buffer over them gives back. memoryview cannot
 * do that by itself: it needs an exporter, and this is it. */
#include "codec/internal.h"

#include <structmember.h>

typedef struct buffer {
    PyObject_HEAD
    PyObject *owner;    /* refers to nothing, so there are no cycles for the garbage collector to find */
    codec_view_fn note; /* told of our end; may be NULL */
    codec_pages *pages; /* that the bytes lie in; NULL: in the segment itself */
    const unsigned char *bytes;
    Py_ssize_t size;
    bool writable;
} buffer;

static PyTypeObject *buffer_type; /* made once by buffer_init */

static void buffer_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    buffer *b = (buffer *)self;
    codec_pages_release(b->pages); /* first: they show the owner's bytes wherever they have not been written to */
    if (b->note != NULL)
        b->note(b->owner, false);
    Py_DECREF(b->owner);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int buffer_get(PyObject *self, Py_buffer *view, int flags)
{
    buffer *b = (buffer *)self;
    return PyBuffer_FillInfo(view, self, (void *)(uintptr_t)b->bytes, b->size, !b->writable, flags);
}

static Py_ssize_t buffer_length(PyObject *self) { return ((buffer *)self)->size; }

static PyMemberDef buffer_members[] = {
    {"owner", T_OBJECT_EX, offsetof(buffer, owner), READONLY, "What keeps the bytes there: the ref of their object."},
    {NULL}};

/* PyType_Slot keeps functions in a void *, which POSIX allows and ISO C does not. */
#define FUNCTION(f) __extension__(void *)(f)

static PyType_Slot buffer_slots[] = {
    {Py_tp_dealloc, FUNCTION(buffer_dealloc)},
    {Py_tp_doc, "Bytes that lie in the segment; keeps the object they belong to pinned."},
    {Py_bf_getbuffer, FUNCTION(buffer_get)},
    {Py_sq_length, FUNCTION(buffer_length)},
    {Py_tp_members, buffer_members},
    {0, NULL},
};

static PyType_Spec buffer_spec = {
    .name = "cellmesh.objstore._core.Buffer",
    .basicsize = sizeof(buffer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = buffer_slots,
};

int buffer_init(PyObject *module)
{
    buffer_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &buffer_spec, NULL);
    return buffer_type == NULL ? -1 : PyModule_AddType(module, buffer_type);
}

PyObject *buffer_new(PyObject *owner, codec_view_fn note, const unsigned char *bytes, size_t size, bool writable,
                     codec_pages *pages)
{
    buffer *self = PyObject_New(buffer, buffer_type);
    if (self == NULL)
        return NULL;
    self->owner = Py_NewRef(owner);
    self->note = note;
    if (note != NULL)
        note(owner, true);
    self->bytes = bytes;
    self->size = (Py_ssize_t)size;
    self->writable = writable;
    self->pages = pages;
    if (pages != NULL)
        pages->n_users++;
    return (PyObject *)self;
}
