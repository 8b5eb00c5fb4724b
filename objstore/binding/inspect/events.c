/* The event ring, and the clock of its records. */
#include "inspect/inspect.h"

#include <time.h>

double ns_per_tick(const struct header *h)
{
    /* The rate over the whole life of the segment: exact after a few milliseconds, and steady afterwards. By a clock
     * that is never set. */
    uint64_t ticks, ns;
    clock_read(&ticks, &ns);
    return ticks > h->clock_ticks ? (double)(ns - h->clock_monotonic_ns) / (double)(ticks - h->clock_ticks) : 1.0;
}

static PyObject *client_clock(ClientObject *c, PyObject *args)
{
    (void)args;
    if (client_usable(c) < 0)
        return NULL;
    const struct header *h = c->s.h;
    return make_record(c, RECORD_CLOCK, "KKd", (unsigned long long)h->clock_ticks, (unsigned long long)h->clock_unix_ns,
                       ns_per_tick(h));
}

static PyObject *client_events(ClientObject *c, PyObject *args)
{
    unsigned long long cursor, limit;
    if (client_usable(c) < 0 || !PyArg_ParseTuple(args, "KK:events", &cursor, &limit))
        return NULL;
    uint64_t at = cursor, lost = 0, head = atomic_load(&c->s.h->event_head);
    uint64_t most = head > at ? head - at : 0;
    most = most < limit ? most : limit;
    most = most < c->s.n_events ? most : c->s.n_events;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(most * sizeof(struct event_record)));
    if (!bytes)
        return NULL;
    uint64_t n = event_read(&c->s, &at, (struct event_record *)(void *)PyBytes_AS_STRING(bytes), most, &lost);
    if (n < most && _PyBytes_Resize(&bytes, (Py_ssize_t)(n * sizeof(struct event_record))) < 0)
        return NULL;
    return make_record(c, RECORD_EVENTS, "NKK", bytes, (unsigned long long)at, (unsigned long long)lost);
}

/* between reads; with half as long for the GIL behind the last, eight million events a second are read in time */
#define FOLLOW_PAUSE_NS 10000000

/* Sleeping, waiting and copying need the GIL once together: while a cell runs Python it takes up to 5 ms to get, and
 * the thread that has to let go of it loses as much time again as two wake-ups take. */
static PyObject *client_follow_events(ClientObject *c, PyObject *args)
{
    unsigned long long cursor;
    Py_buffer out;
    PyObject *timeout_object;
    double timeout, span;
    if (client_usable(c) < 0 || !PyArg_ParseTuple(args, "Kw*Od:follow_events", &cursor, &out, &timeout_object, &span))
        return NULL;
    if (parse_timeout(timeout_object, &timeout) < 0 || (uintptr_t)out.buf % _Alignof(struct event_record)) {
        PyBuffer_Release(&out);
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_ValueError, "follow_events: the buffer is not aligned for records");
    }
    struct segment *s = &c->s;
    uint64_t at = cursor, lost = 0, n = 0, limit = (uint64_t)out.len / sizeof(struct event_record);
    int64_t end = monotonic_ns() + (int64_t)(span * 1e9);
    Py_BEGIN_ALLOW_THREADS
    event_wait(s, at, timeout < 0 ? -1 : (int64_t)(timeout * 1e9));
    for (;;) {
        n += event_read(s, &at, (struct event_record *)out.buf + n, limit - n, &lost);
        int64_t left = end - monotonic_ns();
        if (n == limit || left <= 0 || atomic_load(&s->h->closing))
            break;
        int64_t pause = left < FOLLOW_PAUSE_NS ? left : FOLLOW_PAUSE_NS;
        nanosleep(&(struct timespec){0, (long)pause}, NULL);
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&out);
    return make_record(c, RECORD_EVENTS_READ, "KKK", (unsigned long long)n, (unsigned long long)at,
                       (unsigned long long)lost);
}

PyMethodDef event_methods[] = {
    {"events", (PyCFunction)client_events, METH_VARARGS,
     "events(cursor, limit, /)\n--\n\nWhat the ring holds after the cursor, at most `limit` records: Events."},
    {"follow_events", (PyCFunction)client_follow_events, METH_VARARGS,
     "follow_events(cursor, buffer, timeout, span, /)\n--\n\nWaits for something to happen and puts what does within "
     "`span` seconds into the buffer; EventsRead."},
    {"clock", (PyCFunction)client_clock, METH_NOARGS, "clock()\n--\n\nThe Clock of the events."},
    {NULL}};
