/* Times of tasks: how long they may run, and wait before they run again. See core/tasks/timer.h. */
#include "binding.h"

#include <signal.h>

#include "tasks/timer.h"

enum { AT_ONCE = 256 }; /* that are due, until others have the lock for a moment */

int parse_times(PyObject *value, void *to)
{
    struct time_limits *out = to;
    *out = (struct time_limits){0};
    if (value == Py_None)
        return 1;
    if (!PyTuple_Check(value) || !PyArg_ParseTuple(value, "IIIp;times", &out->timeout_ms, &out->delay_ms,
                                                   &out->most_delay_ms, &out->retries_timeout)) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError,
                         "times must be None or (timeout, first delay, longest delay, whether timeouts are retried), "
                         "in ms, not %R",
                         value);
        return 0;
    }
    if (out->timeout_ms <= INT32_MAX && out->delay_ms <= out->most_delay_ms && out->most_delay_ms <= INT32_MAX)
        return 1;
    PyErr_Format(PyExc_ValueError, "times are at most %d ms, and the first delay at most the longest: not %R",
                 INT32_MAX, value);
    return 0;
}

bool has_times(const struct time_limits *times) { return times->timeout_ms || times->delay_ms; }

PyObject *times_of(ClientObject *c, uint32_t task)
{
    const struct segment *s = &c->s;
    const struct time_limits *t = &times_at(s, task)->limits;
    if (!(task_at(s, task)->flags & TASK_FLAG_TIMED))
        Py_RETURN_NONE;
    return make_record(c, RECORD_TASK_TIMES, "IIIO", t->timeout_ms, t->delay_ms, t->most_delay_ms,
                       t->retries_timeout ? Py_True : Py_False);
}

double waits_s(const struct segment *s, uint32_t task)
{
    int64_t ns = (int64_t)times_at(s, task)->due - monotonic_ns();
    return atomic_load(&task_at(s, task)->state) == TASK_DELAYED && ns > 0 ? (double)ns * 1e-9 : 0.0;
}

void begin_time(ClientObject *c, uint32_t task)
{
    segment_lock(&c->s);
    timer_begin(&c->s, task);
    segment_unlock(&c->s);
}

PyObject *timeout_of(ClientObject *c, uint32_t task, PyObject *exception)
{
    const struct task_times *x = times_at(&c->s, task);
    double ran = (double)(monotonic_ns() - (int64_t)x->since) * 1e-9;
    PyObject *name = function_name(c, task_at(&c->s, task)->function);
    PyObject *error = c->hooks.timed_out ? PyObject_CallFunction(c->hooks.timed_out, "OOdd", exception, name,
                                                                 x->limits.timeout_ms * 1e-3, ran)
                                         : Py_NewRef(PyExc_TimeoutError);
    Py_DECREF(name);
    if (error && PyExceptionInstance_Check(error))
        return error;
    if (!error)
        PyErr_WriteUnraisable(c->hooks.timed_out);
    Py_XDECREF(error);
    return NULL;
}

struct stopped {
    int32_t pid;
    uint64_t seq;
    bool killed;
};

/* Under the lock: what is due at `now`, at most so many tasks; those that are told to stop are noted. False: that was
 * all. */
static bool pass(struct segment *s, uint64_t now, struct stopped *stopped, int *n)
{
    enum timer_verdict verdict = TIMER_READY;
    for (int i = 0; i < AT_ONCE && verdict != TIMER_NONE; i++) {
        uint32_t task;
        verdict = timer_pass(s, now, &task);
        if (verdict != TIMER_INTERRUPT && verdict != TIMER_KILL)
            continue;
        bool killed = verdict == TIMER_KILL;
        int32_t pid = signal_worker(s, task_at(s, task)->worker, killed ? SIGKILL : SIGINT);
        stopped[(*n)++] = (struct stopped){pid, task_at(s, task)->seq, killed};
    }
    return verdict != TIMER_NONE;
}

static PyObject *client_pass_times(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    PyObject *list = PyList_New(0);
    struct stopped stopped[AT_ONCE];
    uint64_t now = (uint64_t)monotonic_ns(), at = 0;
    for (bool more = true; list && more;) {
        int n = 0;
        segment_lock(&c->s);
        more = pass(&c->s, now, stopped, &n);
        at = c->s.h->timers_at;
        segment_unlock(&c->s);
        for (int i = 0; list && i < n; i++) {
            PyObject *told = make_record(c, RECORD_STOPPED_TASK, "iKO", (int)stopped[i].pid,
                                         (unsigned long long)stopped[i].seq, stopped[i].killed ? Py_True : Py_False);
            if (!told || PyList_Append(list, told) < 0)
                Py_CLEAR(list);
            Py_XDECREF(told);
        }
    }
    if (!list)
        return NULL;
    return at ? make_record(c, RECORD_EXPIRED, "dN", (double)at * 1e-9, list)
              : make_record(c, RECORD_EXPIRED, "ON", Py_None, list);
}

static PyObject *client_set_timeout_grace(ClientObject *c, PyObject *seconds)
{
    double s = PyFloat_AsDouble(seconds);
    if (PyErr_Occurred() || client_usable(c) < 0)
        return NULL;
    if (!(s >= 0 && s <= 1e6))
        return PyErr_Format(PyExc_ValueError, "set_timeout_grace(seconds): from 0 to 1,000,000, not %R", seconds);
    segment_lock(&c->s);
    c->s.h->timeout_grace_ms = (uint32_t)(s * 1e3);
    segment_unlock(&c->s);
    Py_RETURN_NONE;
}

PyMethodDef time_methods[] = {
    {"pass_times", (PyCFunction)client_pass_times, METH_NOARGS,
     "pass_times()\n--\n\nStops tasks whose time is up, and has those try again that have waited for it; an Expired."},
    {"set_timeout_grace", (PyCFunction)client_set_timeout_grace, METH_O,
     "set_timeout_grace(seconds, /)\n--\n\nSo long after their interruption tasks whose time is up are killed."},
    {NULL}};
