/* The segment as a whole: counts, sizes, invariants. */
#include "inspect/inspect.h"

#include <string.h>

static PyObject *client_stats(ClientObject *c, PyObject *args)
{
    (void)args;
    if (client_usable(c) < 0)
        return NULL;
    flush_drops(c);
    const struct header *h = c->s.h;
    unsigned long long peak = h->arena.peak_bytes, used = h->arena.used_bytes;
    used = used < peak ? used : peak; /* without what is prepared ahead */
    return Py_BuildValue(
        "{sKsKsKsKsIsIsKsKsIsIsIsIsKsIsKsKsKsIsN}", "ahead_bytes", (unsigned long long)h->ahead_bytes, "used_bytes",
        used, "peak_bytes", peak, "capacity_bytes", (unsigned long long)(h->arena.end - h->arena.begin), "n_objects",
        h->n_live_objects, "n_tasks", h->n_live_tasks, "n_finished", (unsigned long long)h->n_finished, "n_events",
        (unsigned long long)atomic_load(&h->event_head), "n_ready", h->n_ready, "n_takeovers", h->n_takeovers,
        "max_objects", h->n_objects, "max_tasks", h->n_tasks, "offloaded_bytes", (unsigned long long)h->offloaded_bytes,
        "n_offloaded", h->n_offloaded, "offload_limit_bytes", (unsigned long long)h->offload_limit, "n_offloaded_freed",
        (unsigned long long)h->n_offloaded_freed, "shared_bytes", (unsigned long long)h->shared_bytes, "n_shared",
        h->n_shared, "offload_folder",
        PyUnicode_DecodeUTF8(h->offload_folder, (Py_ssize_t)strnlen(h->offload_folder, OFFLOAD_FOLDER_SIZE),
                             "replace"));
}

typedef struct {
    char text[64][160];
    unsigned n;
} Report;

static void note(void *ctx, const char *what, uint64_t index, uint64_t found, uint64_t expected)
{
    Report *r = ctx;
    if (r->n < 64)
        snprintf(r->text[r->n++], sizeof r->text[0], "%s: number %llu, found %llu, expected %llu", what,
                 (unsigned long long)index, (unsigned long long)found, (unsigned long long)expected);
}

static PyObject *client_check(ClientObject *c, PyObject *args)
{
    (void)args;
    if (client_usable(c) < 0)
        return NULL;
    flush_drops(c);
    Report *r = PyMem_Calloc(1, sizeof *r);
    if (!r)
        return PyErr_NoMemory();
    segment_lock(&c->s);
    segment_check(&c->s, note, r);
    segment_unlock(&c->s);
    PyObject *list = PyList_New(0);
    bool ok = list;
    for (unsigned i = 0; ok && i < r->n; i++)
        ok = list_add(list, PyUnicode_FromString(r->text[i]));
    PyMem_Free(r);
    return list_done(list, ok);
}

PyMethodDef segment_methods[] = {
    {"stats", (PyCFunction)client_stats, METH_NOARGS, "stats()\n--\n\nCounts and sizes of the segment."},
    {"check", (PyCFunction)client_check, METH_NOARGS, "check()\n--\n\nViolated invariants; [] when sound."},
    {NULL}};
