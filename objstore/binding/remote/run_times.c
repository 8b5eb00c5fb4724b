/* Runs: where and when tasks ran that are watched, read off the event ring. For the agent, which has run
 * them for another machine and tells it. It costs those tasks nothing, and the ring's other records a comparison
 * each. */
#include "binding.h"

typedef struct {
    uint64_t seq, submitted, started, finished; /* seq 0: not watched; times in ticks, 0: not yet */
    uint32_t pid;
} Run;

enum { MOST_WATCHED = 1 << 16, BATCH = 1024 };

typedef struct {
    PyObject_HEAD
    ClientObject *client;
    uint64_t cursor;
    Py_ssize_t n; /* watched */
    Run *runs;    /* by the last bits of their numbers; of two that share them the first is watched */
} RunsObject;

static PyObject *runs_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    CoreState *state = core_state(PyType_GetModule(type));
    static char *names[] = {"client", NULL};
    PyObject *client;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:Runs", names, state->client_type, &client))
        return NULL;
    RunsObject *r = (RunsObject *)type->tp_alloc(type, 0);
    if (!r)
        return NULL;
    r->client = (ClientObject *)Py_NewRef(client);
    r->runs = PyMem_Calloc(MOST_WATCHED, sizeof *r->runs);
    if (!r->runs) {
        Py_DECREF(r);
        return PyErr_NoMemory();
    }
    return (PyObject *)r;
}

static void runs_dealloc(RunsObject *r)
{
    PyTypeObject *type = Py_TYPE(r);
    PyMem_Free(r->runs);
    Py_XDECREF(r->client);
    type->tp_free((PyObject *)r);
    Py_DECREF(type);
}

static Run *find(RunsObject *r, uint64_t seq)
{
    Run *run = &r->runs[seq % MOST_WATCHED];
    return seq && run->seq == seq ? run : NULL;
}

static void note(RunsObject *r, const struct event_record *record)
{
    Run *run = find(r, record->seq);
    if (!run)
        return;
    if (record->kind == EVENT_STARTED) {
        run->started = record->ticks;
        run->pid = record->c ? 0 : record->b; /* a call that is sent on to its actor runs on another machine */
    } else if (record->kind == EVENT_RETRIED) {
        run->started = 0;
    } else if (record->kind == EVENT_FINISHED) {
        run->finished = record->ticks;
    }
}

static void follow(RunsObject *r)
{
    struct event_record records[BATCH];
    uint64_t lost = 0, n;
    do {
        n = event_read(&r->client->s, &r->cursor, records, BATCH, &lost);
        for (uint64_t i = 0; i < n; i++)
            note(r, &records[i]);
    } while (n == BATCH);
}

static PyObject *runs_watch(RunsObject *r, PyObject *number)
{
    uint64_t seq = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred() || client_usable(r->client) < 0)
        return NULL;
    Run *run = &r->runs[seq % MOST_WATCHED];
    /* what has happened until now is no matter, but for how it was begun: a worker may have started it already */
    if (!r->n) {
        uint64_t head = atomic_load(&r->client->s.h->event_head);
        r->cursor = head > BATCH ? head - BATCH : 0;
    }
    if (seq && !run->seq) {
        *run = (Run){.seq = seq, .submitted = ticks_now()};
        r->n++;
    }
    Py_RETURN_NONE;
}

static double seconds(RunsObject *r, uint64_t from, uint64_t to)
{
    return to > from ? (double)(to - from) * ns_per_tick(r->client->s.h) * 1e-9 : 0.0;
}

/* [Run] of those that have begun. */
static PyObject *runs_begun(RunsObject *r, PyObject *numbers)
{
    if (client_usable(r->client) < 0)
        return NULL;
    PyObject *items = PySequence_Fast(numbers, "expected numbers of tasks"), *found = items ? PyList_New(0) : NULL;
    if (found)
        follow(r);
    uint64_t now = ticks_now();
    for (Py_ssize_t i = 0; found && i < PySequence_Fast_GET_SIZE(items); i++) {
        uint64_t seq = PyLong_AsUnsignedLongLong(PySequence_Fast_GET_ITEM(items, i));
        const Run *run = find(r, seq);
        PyObject *row = run && run->started && !run->finished && run->pid
                            ? make_record(r->client, RECORD_RUN, "KId", (unsigned long long)seq, run->pid,
                                          seconds(r, run->started, now))
                            : NULL;
        if (PyErr_Occurred() || (row && PyList_Append(found, row) < 0))
            Py_CLEAR(found);
        Py_XDECREF(row);
    }
    Py_XDECREF(items);
    return found;
}

static PyObject *runs_take(RunsObject *r, PyObject *number)
{
    uint64_t seq = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred() || client_usable(r->client) < 0)
        return NULL;
    Run *watched = find(r, seq), run;
    if (!watched)
        return make_record(r->client, RECORD_RUN_TIMES, "Iddd", 0u, 0.0, 0.0, 0.0);
    if (!watched->finished)
        follow(r);
    run = *watched;
    watched->seq = 0;
    r->n--;
    /* its result is seen before its end is written down */
    uint64_t now = ticks_now(), ended = run.finished ? run.finished : now;
    if (!run.started)
        return make_record(r->client, RECORD_RUN_TIMES, "Iddd", 0u, 0.0, 0.0, 0.0);
    return make_record(r->client, RECORD_RUN_TIMES, "Iddd", run.pid, seconds(r, run.submitted, run.started),
                       seconds(r, run.started, ended), seconds(r, ended, now));
}

static PyMethodDef methods[] = {
    {"watch", (PyCFunction)runs_watch, METH_O, "watch(number, /)\n--\n\nThis task, just submitted, is of interest."},
    {"begun", (PyCFunction)runs_begun, METH_O, "begun(numbers, /)\n--\n\n[Run] of those that run on this machine."},
    {"take", (PyCFunction)runs_take, METH_O,
     "take(number, /)\n--\n\nThe RunTimes of a task that has ended and is of no more interest."},
    {NULL}};
static PyType_Slot slots[] = {{Py_tp_new, (void *)runs_new},
                              {Py_tp_dealloc, (void *)runs_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, "Runs(client)\n--\n\nWhere and when tasks ran, read off the event ring."},
                              {0, NULL}};
PyType_Spec runs_spec = {"cellmesh.objstore._core.Runs", sizeof(RunsObject), 0, Py_TPFLAGS_DEFAULT, slots};
