/* Private pages over the bytes of an object: what a process writes to an array that it was given, nobody else sees
 * (decision 125). The kernel copies a page when it is first written to, and until then shows the segment's, so the
 * object must stay where and as it is for as long as they are there: each Buffer over them notes itself as a view of
 * it. At both ends a page may show neighbours' bytes, which nobody reads here.
 *
 * The counts are protected by the GIL. */
#include "binding.h"

#include <sys/mman.h>

#define COPIED_BELOW (128u << 10) /* bytes: a copy costs less than mapping, page faults and unmapping */
#define MAPPINGS_MAX 16384        /* at a time; the kernel allows a process 65,530 of all kinds */

typedef struct mapping {
    codec_pages pages;
    unsigned char *begin;
    size_t size;
    const unsigned char *shows; /* where in this process the segment's own page of `begin` is */
    struct mapping *next, **place;
} Mapping;

static Mapping *first;
static uint32_t n_mappings;

static void end_mapping(codec_pages *pages)
{
    Mapping *mapping = (Mapping *)pages;
    munmap(mapping->begin, mapping->size);
    *mapping->place = mapping->next;
    if (mapping->next)
        mapping->next->place = mapping->place;
    PyMem_Free(mapping);
    n_mappings--;
}

codec_pages *private_pages(void *client, const unsigned char *data, size_t size)
{
    ClientObject *c = client;
    const struct segment *s = &c->s;
    uint64_t offset = (uint64_t)(data - s->base), begin = offset / ARENA_PAGE * ARENA_PAGE;
    size_t length = offset + size - begin;
    if (size < COPIED_BELOW || n_mappings == MAPPINGS_MAX || !c->pid || !segment_has_descriptor(s))
        return NULL;
    Mapping *mapping = PyMem_Malloc(sizeof *mapping);
    void *at = mapping ? mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, s->fd, (off_t)begin)
                       : MAP_FAILED;
    if (at == MAP_FAILED) {
        PyMem_Free(mapping);
        return NULL;
    }
    *mapping = (Mapping){.pages = {(unsigned char *)at + (offset - begin), 0, end_mapping},
                         .begin = at,
                         .size = length,
                         .shows = s->base + begin,
                         .next = first,
                         .place = &first};
    if (first)
        first->place = &mapping->next;
    first = mapping;
    n_mappings++;
    return &mapping->pages;
}

static PyObject *address(const void *at) { return PyLong_FromUnsignedLongLong((uintptr_t)at); }

PyObject *core_private_pages(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0), *row = list;
    for (const Mapping *m = first; m && row; m = m->next) {
        row = Py_BuildValue("(NnN)", address(m->begin), (Py_ssize_t)m->size, address(m->shows));
        if (row && PyList_Append(list, row) < 0)
            Py_CLEAR(row);
        Py_XDECREF(row); /* the list has it */
    }
    if (!row)
        Py_CLEAR(list);
    return list;
}
