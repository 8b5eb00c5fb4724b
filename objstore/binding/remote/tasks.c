/* Remote node: tasks_out, which run on the other machine, and tasks_in, which it has submitted here. See
 * core/clients/remote_node.h. */
#include <signal.h>

#include "clients/remote_node.h"
#include "remote/remote_node.h"
#include "tasks/task_stream.h"

/* ------------------------------------------------------------------ tasks_out: they run there */

/* What it takes to run a task there. It is RUNNING on this client, so no other process changes more than its flags. */
static PyObject *describe_task(RemoteNodeObject *p, uint32_t task)
{
    struct task_slot *t = task_at(&p->s, task);
    const uint32_t *refs = task_refs(&p->s, t);
    int object = t->actor_1 ? (int)actor_at(&p->s, t->actor_1 - 1)->object_1 - 1 : -1;
    unsigned flags = t->flags & (TASK_FLAG_RETRY_EXCEPTIONS | TASK_FLAG_ENV | TASK_FLAG_STREAM);
    return make_record(p->client, RECORD_TASK, "IKIIy#NIIiIIIKiiIN", task, (unsigned long long)t->seq,
                       resource_number(&p->s, t->resource_class), t->function, (const char *)task_arguments(&p->s, t),
                       (Py_ssize_t)t->arguments_size, list_of(refs, t->n_refs), t->n_dependencies,
                       (unsigned)t->n_returns, (int)t->max_retries, flags, (unsigned)t->attempt, t->origin,
                       (unsigned long long)t->parent, (int)t->actor_1 - 1, object, (unsigned)t->group,
                       times_of(p->client, task));
}

PyObject *remote_take_tasks(RemoteNodeObject *p, PyObject *args)
{
    unsigned int class, most;
    int by_place;
    uint32_t tasks[MOST_TASKS], n = 0;
    if (!PyArg_ParseTuple(args, "IIp:take", &class, &most, &by_place) || remote_usable(p) < 0)
        return NULL;
    segment_lock(&p->s);
    if (resource_numbered(&p->s, class, &class)) /* else it was given up, as none wait */
        n = remote_take(&p->s, class, most < MOST_TASKS ? most : MOST_TASKS, by_place, tasks);
    segment_unlock(&p->s);
    return describe_tasks(p, tasks, n);
}

PyObject *describe_tasks(RemoteNodeObject *p, const uint32_t *tasks, uint32_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (uint32_t i = 0; list && i < n; i++) {
        PyObject *record = describe_task(p, tasks[i]);
        if (!record)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, record);
    }
    return list;
}

PyObject *remote_results(RemoteNodeObject *p, PyObject *number)
{
    uint32_t task;
    if (parse_running(p, number, &task) < 0)
        return NULL;
    struct task_slot *t = task_at(&p->s, task);
    task_refs(&p->s, t);
    PyObject *list = PyList_New(t->n_returns);
    for (uint32_t i = 0; list && i < t->n_returns; i++)
        PyList_SET_ITEM(list, (Py_ssize_t)i, PyLong_FromUnsignedLong(task_result(&p->s, t, i)));
    return list;
}

static uint64_t ticks_of(const RemoteNodeObject *p, double seconds)
{
    double ticks = seconds * 1e9 / ns_per_tick(p->s.h);
    return ticks > 0 ? ticks < 1e18 ? (uint64_t)ticks : UINT64_C(1000000000000000000) : 0;
}

PyObject *remote_finish(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number;
    int status;
    unsigned int pid = 0;
    double began = 0, ended = 0;
    uint32_t task;
    if (!PyArg_ParseTuple(args, "Oi|Idd:finish", &number, &status, &pid, &began, &ended))
        return NULL;
    if (status < 0 || status > EVENT_CRASHED)
        return PyErr_Format(PyExc_ValueError, "unknown status %d", status);
    if (parse_running(p, number, &task) < 0)
        return NULL;
    uint64_t began_ticks = pid ? ticks_of(p, began) : 0, ended_ticks = pid ? ticks_of(p, ended) : 0;
    segment_lock(&p->s);
    if (pid)
        remote_record_run(&p->s, task, pid, began_ticks, ended_ticks);
    task_finish(&p->s, task, (uint32_t)status);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

PyObject *remote_began(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number;
    unsigned int pid;
    double ago;
    uint32_t task;
    if (!PyArg_ParseTuple(args, "OId:began", &number, &pid, &ago) || parse_running(p, number, &task) < 0)
        return NULL;
    uint64_t ticks = ticks_of(p, ago);
    segment_lock(&p->s);
    task_at(&p->s, task)->begun = 1;
    remote_record_run(&p->s, task, pid, ticks, REMOTE_RUNS_ON);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

PyObject *remote_return_task(RemoteNodeObject *p, PyObject *number)
{
    uint32_t task;
    if (parse_running(p, number, &task) < 0)
        return NULL;
    segment_lock(&p->s);
    remote_give_back(&p->s, task);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

PyObject *remote_cancelled(RemoteNodeObject *p, PyObject *list)
{
    if (remote_usable(p) < 0)
        return NULL;
    PyObject *found = PyList_New(0), *items = PySequence_Fast(list, "expected a list of tasks");
    for (Py_ssize_t i = 0; found && items && i < PySequence_Fast_GET_SIZE(items); i++) {
        PyObject *number = PySequence_Fast_GET_ITEM(items, i);
        uint32_t task;
        if (parse_running(p, number, &task) < 0 ||
            (task_at(&p->s, task)->flags & TASK_FLAG_CANCEL && PyList_Append(found, number) < 0))
            Py_CLEAR(found);
    }
    if (!items)
        Py_CLEAR(found);
    Py_XDECREF(items);
    return found;
}

/* The shape of a class; of a class that has been given up, a shape that asks for nothing. */
static int look_at_shape(RemoteNodeObject *p, PyObject *number, struct resource_shape *shape)
{
    unsigned long n = PyLong_AsUnsignedLong(number);
    uint32_t class;
    if (PyErr_Occurred() || remote_usable(p) < 0)
        return -1;
    *shape = (struct resource_shape){.place = ON_NODE, .number = UINT32_MAX};
    segment_lock(&p->s);
    if (n <= UINT32_MAX && resource_numbered(&p->s, (uint32_t)n, &class))
        resource_shape_of(&p->s, class, shape);
    segment_unlock(&p->s);
    return 0;
}

/* What an actor of that class keeps once it has been constructed, the environment that the class wants, and its
 * priority. */
PyObject *remote_kept(RemoteNodeObject *p, PyObject *number)
{
    struct resource_shape shape;
    if (look_at_shape(p, number, &shape) < 0)
        return NULL;
    return make_record(p->client, RECORD_CLASS_TERMS, "NIi", amounts_to_python(&p->s, shape.hold), (unsigned)shape.env,
                       (int)shape.terms.priority);
}

PyObject *remote_shape(RemoteNodeObject *p, PyObject *number)
{
    struct resource_shape shape;
    return look_at_shape(p, number, &shape) < 0 ? NULL : PyBytes_FromStringAndSize((const char *)&shape, sizeof shape);
}

/* ------------------------------------------------------------------ tasks_in: they run here */

PyObject *remote_submit(RemoteNodeObject *p, PyObject *args)
{
    const struct resource_shape *shape;
    unsigned int function, n_dependencies, n_returns, flags, origin, group = 0, placement = 0;
    int max_retries;
    long long limit = -1; /* of its stream */
    unsigned long long parent;
    struct time_limits times = {0};
    Py_buffer arguments;
    PyObject *list, *actor = Py_None, *result = NULL;
    if (!PyArg_ParseTuple(args, "IO&y*O!IIiIIK|OILIO&:submit", &function, parse_shape, &shape, &arguments, &PyList_Type,
                          &list, &n_dependencies, &n_returns, &max_retries, &flags, &origin, &parent, &actor, &group,
                          &limit, &placement, parse_times, &times))
        return NULL;
    Py_ssize_t n;
    uint32_t task = 0, actor_1 = 0, stream = 0, *refs = NULL;
    if ((actor != Py_None && parse_actor_object(p, actor, &actor_1) < 0) ||
        !(refs = parse_slots(p, list, n_returns + 1, &n)))
        goto done;
    if (function >= p->s.h->touched_objects || n_dependencies > (size_t)n || n_returns > UINT16_MAX || limit < -1 ||
        limit > UINT32_MAX || (limit >= 0 && n_returns != 1) || max_retries < -1 || max_retries > INT16_MAX ||
        group >= MAX_GROUPS || arguments.len > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "submit: a number is out of range");
        goto done;
    }
    flags &= TASK_FLAG_RETRY_EXCEPTIONS | TASK_FLAG_ENV | TASK_FLAG_STAYS;
    uint32_t class_number = shape->number;
    struct task_spec spec = {.function = function,
                             .n_returns = n_returns,
                             .n_dependencies = n_dependencies,
                             .n_refs = (uint32_t)n,
                             .refs = refs,
                             .arguments = arguments.buf,
                             .arguments_size = (uint32_t)arguments.len,
                             .origin = origin,
                             .parent = parent,
                             .max_retries = (int16_t)max_retries,
                             .actor_1 = actor_1,
                             .group = (uint16_t)group,
                             .placement = placement,
                             .flags = (uint16_t)flags,
                             .times = has_times(&times) ? &times : NULL};
    segment_lock(&p->s);
    uint32_t *made = refs + n + 1; /* behind the stream */
    int error = resource_intern(&p->s, shape, &class_number, &spec.resource_class);
    if (!error)
        error = limit < 0 ? task_submit(&p->s, &spec, made, &task)
                          : task_submit_stream(&p->s, &spec, refs, (uint32_t)limit, made, &stream);
    if (!error && limit >= 0)
        task = task_producing(&p->s, made[0]);
    uint64_t seq = error ? 0 : object_at(&p->s, made[0])->creator;
    segment_unlock(&p->s);
    if (error)
        raise_core_error(p->client, error, "a task from another machine");
    else
        result = make_record(p->client, RECORD_SUBMITTED_TASK, "IKNi", task, (unsigned long long)seq,
                             list_of(made, (Py_ssize_t)n_returns), limit < 0 ? -1 : (int)stream);
done:
    PyMem_Free(refs);
    PyBuffer_Release(&arguments);
    return result;
}

/* Ends a task that we have submitted, as `cancel` does. */
PyObject *remote_cancel(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number;
    int force;
    uint32_t slot, task = 0, worker = UINT32_MAX;
    if (!PyArg_ParseTuple(args, "Op:cancel", &number, &force) || parse_slot(p, number, &slot) < 0)
        return NULL;
    segment_lock(&p->s);
    if (task_cancel(&p->s, slot, &task, &worker) == CANCEL_RUNNING && worker < MAX_CLIENTS)
        signal_worker(&p->s, worker, force ? SIGKILL : SIGINT);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

/* A task that we have submitted and that has not begun is not to begin any more. */
PyObject *remote_withdraw(RemoteNodeObject *p, PyObject *args)
{
    unsigned int task;
    unsigned long long seq;
    if (!PyArg_ParseTuple(args, "IK:withdraw", &task, &seq) || remote_usable(p) < 0)
        return NULL;
    segment_lock(&p->s);
    struct task_slot *t = task < p->s.h->touched_tasks ? task_at(&p->s, task) : NULL;
    bool waits = t && t->seq == seq && t->caller == p->s.me && atomic_load(&t->state) == TASK_READY && !t->actor_1;
    if (waits) {
        task_seal_failed(&p->s, task, FAILURE_CANCELLED, 0);
        task_discard(&p->s, task);
    }
    segment_unlock(&p->s);
    return PyBool_FromLong(waits);
}
