/* What the local scheduler asks of the segment: whether workers are wanted, and what to do when one ends. */
#include "inspect/inspect.h"

/* False: no client has that pid, or another process has it by now. */
static PyObject *client_signal(ClientObject *c, PyObject *args)
{
    int pid, number;
    bool sent = false;
    if (client_usable(c) < 0 || !PyArg_ParseTuple(args, "ii:signal", &pid, &number))
        return NULL;
    for (uint32_t i = 0; pid > 0 && i < MAX_CLIENTS; i++)
        if (atomic_load(&c->s.clients[i].pid) == pid && atomic_load(&c->s.clients[i].state) == CLIENT_ATTACHED)
            sent |= process_signal(pid, atomic_load(&c->s.clients[i].start_time), number) != PROCESS_ENDED;
    return PyBool_FromLong(sent);
}

static PyObject *client_workers_wanted(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (lock_to_inspect(c) < 0)
        return NULL;
    uint32_t n = task_workers_wanted(&c->s);
    segment_unlock(&c->s);
    return PyLong_FromUnsignedLong(n);
}

static PyObject *client_next_start(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (lock_to_inspect(c) < 0)
        return NULL;
    task_wake_workers(&c->s);
    uint64_t ticks = gate_next_look(&c->s);
    segment_unlock(&c->s);
    if (!ticks)
        Py_RETURN_NONE;
    return PyFloat_FromDouble((double)ticks * ns_per_tick(c->s.h) / 1e9);
}

static PyObject *client_next_demand(ClientObject *c, PyObject *timeout_object)
{
    double timeout;
    if (client_usable(c) < 0 || parse_timeout(timeout_object, &timeout) < 0)
        return NULL;
    struct segment *s = &c->s;
    int64_t ns = timeout < 0 ? -1 : (int64_t)(timeout * 1e9);
    uint32_t seen = client_inbox(s);
    if (!atomic_load(&s->h->attention)) {
        Py_BEGIN_ALLOW_THREADS
        client_sleep(s, seen, ns, NULL);
        Py_END_ALLOW_THREADS
    }
    if (PyErr_CheckSignals() < 0)
        return NULL;
    return PyBool_FromLong(atomic_exchange(&s->h->attention, 0) != 0);
}

static PyObject *client_client_died(ClientObject *c, PyObject *args)
{
    unsigned int index;
    int code;
    if (client_usable(c) < 0 || !PyArg_ParseTuple(args, "Ii:client_died", &index, &code))
        return NULL;
    struct client_losses l = client_died(&c->s, index, code);
    if (placement_end_doomed(c) < 0) /* of groups that went with it */
        return NULL;
    PyObject *again = make_record(c, RECORD_RETRIED_TASK, "Kii", (unsigned long long)l.again.task, (int)l.again.before,
                                  (int)l.again.most);
    return Py_BuildValue("{sIsIsIsOsN}", "retried", l.retried, "failed", l.failed, "objects", l.objects,
                         "actor_restarts", l.actor_restarts ? Py_True : Py_False, "again", again);
}

static PyObject *client_retire(ClientObject *c, PyObject *number)
{
    unsigned long index = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() || client_usable(c) < 0)
        return NULL;
    if (index >= MAX_CLIENTS)
        return PyErr_Format(PyExc_ValueError, "unknown client %lu", index);
    uint64_t bit = UINT64_C(1) << (index % 64);
    segment_lock(&c->s);
    bool idle = c->s.h->idle[index / 64] & bit;
    if (idle) {
        c->s.h->idle[index / 64] &= ~bit;
        atomic_fetch_or(&c->s.clients[index].flags, CLIENT_FLAG_RETIRE);
        wake_client(&c->s, (uint32_t)index);
    }
    segment_unlock(&c->s);
    return PyBool_FromLong(idle);
}

static PyObject *client_idle_workers(ClientObject *c, PyObject *args)
{
    (void)args;
    if (client_usable(c) < 0)
        return NULL;
    uint64_t idle[CLIENT_WORDS];
    segment_lock(&c->s);
    memcpy(idle, c->s.h->idle, sizeof idle);
    segment_unlock(&c->s);
    PyObject *list = PyList_New(0);
    bool ok = list;
    for (uint32_t i = 0; ok && i < MAX_CLIENTS; i++)
        if (idle[i / 64] >> (i % 64) & 1)
            ok = list_add(list, PyLong_FromUnsignedLong(i));
    return list_done(list, ok);
}

/* (that serve an actor, that run a task which waits, that run a task or call which does not) */
static PyObject *client_count_workers(ClientObject *c, PyObject *args)
{
    uint32_t n_actors = 0, n_blocked = 0, n_busy = 0;
    (void)args;
    if (lock_to_inspect(c) < 0)
        return NULL;
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        struct client_view v;
        if (!client_look(&c->s, i, &v) || v.role != ROLE_WORKER)
            continue;
        n_actors += v.actor_1 != 0;
        n_blocked += !v.actor_1 && v.blocked;
        n_busy += v.seq && !v.blocked;
    }
    segment_unlock(&c->s);
    return Py_BuildValue("III", n_actors, n_blocked, n_busy);
}

static PyObject *client_fail_deepest(ClientObject *c, PyObject *n_processes)
{
    unsigned long n = PyLong_AsUnsignedLong(n_processes);
    if (PyErr_Occurred() || lock_to_inspect(c) < 0)
        return NULL;
    bool failed = task_fail_deepest(&c->s, (uint32_t)n);
    segment_unlock(&c->s);
    return PyBool_FromLong(failed);
}

static PyObject *client_n_detached(ClientObject *c, PyObject *args)
{
    (void)args;
    if (lock_to_inspect(c) < 0)
        return NULL;
    uint32_t n = actors_detached(&c->s);
    segment_unlock(&c->s);
    return PyLong_FromUnsignedLong(n);
}

/* Without the lock: who asks may be about to wait for it. */
static PyObject *client_stopped_owner(ClientObject *c, PyObject *args)
{
    (void)args;
    if (client_usable(c) < 0)
        return NULL;
    struct header *h = c->s.h;
    int32_t stopped = atomic_load(&h->stopped_pid);
    bool is_driver = false;
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        is_driver |= atomic_load(&c->s.clients[i].pid) == stopped && c->s.clients[i].role == ROLE_DRIVER;
    return make_record(c, RECORD_STOPPED_OWNER, "iOIid", (int)stopped, is_driver ? Py_True : Py_False,
                       (unsigned)atomic_load(&h->n_evicted), (int)atomic_load(&h->evicted_pid),
                       h->lock_grace_ms / 1000.0);
}

PyMethodDef scheduler_methods[] = {
    {"signal", (PyCFunction)client_signal, METH_VARARGS,
     "signal(pid, number, /)\n--\n\nSignals an attached process; False: it has ended."},
    {"workers_wanted", (PyCFunction)client_workers_wanted, METH_NOARGS,
     "workers_wanted()\n--\n\nHow many more workers would find work."},
    {"next_start", (PyCFunction)client_next_start, METH_NOARGS,
     "next_start()\n--\n\nWakes a worker for what may begin by now, and tells in how many seconds to look again, as a "
     "task that waits for the clock alone may begin then; None: there is none."},
    {"next_demand", (PyCFunction)client_next_demand, METH_O,
     "next_demand(timeout, /)\n--\n\nSleeps until the scheduler is needed."},
    {"client_died", (PyCFunction)client_client_died, METH_VARARGS,
     "client_died(index, code, /)\n--\n\nCleans up after a dead process; what that has cost, as a dict."},
    {"retire", (PyCFunction)client_retire, METH_O,
     "retire(index, /)\n--\n\nAsks an idle worker to leave; False: it is not idle."},
    {"idle_workers", (PyCFunction)client_idle_workers, METH_NOARGS, "idle_workers()\n--\n\nIndices of idle workers."},
    {"count_workers", (PyCFunction)client_count_workers, METH_NOARGS,
     "count_workers()\n--\n\nThose that serve an actor, that run a task which waits, and that run something which does "
     "not."},
    {"fail_deepest", (PyCFunction)client_fail_deepest, METH_O,
     "fail_deepest(n_processes, /)\n--\n\nThe task that is waited for at the greatest depth will not run; False: there "
     "is none."},
    {"n_detached", (PyCFunction)client_n_detached, METH_NOARGS, "n_detached()\n--\n\nHow many detached actors live."},
    {"stopped_owner", (PyCFunction)client_stopped_owner, METH_NOARGS,
     "stopped_owner()\n--\n\nThe StoppedOwner of the lock. Takes no lock."},
    {NULL}};
