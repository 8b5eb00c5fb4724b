/* One task in steps, for Python: constructors and the calls of async actors. */
#include "worker/worker.h"

static PyObject *client_next(ClientObject *c, PyObject *const *args, Py_ssize_t nargs)
{
    double timeout;
    uint32_t group = ANY_GROUP;
    if (nargs != 1 && nargs != 2)
        return PyErr_Format(PyExc_TypeError, "next(timeout), or next(timeout, group)");
    if (client_readable(c) < 0 || parse_timeout(args[0], &timeout) < 0 ||
        (nargs == 2 && parse_group(args[1], &group) < 0))
        return NULL;
    int64_t task = take_task(c, group, timeout, true);
    return task == FAILED ? NULL : PyLong_FromLongLong(task);
}

int parse_task(ClientObject *c, PyObject *number, uint32_t *task)
{
    unsigned long n = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return -1;
    if (n >= c->s.h->touched_tasks || atomic_load(&c->s.tasks[n].state) != TASK_RUNNING ||
        c->s.tasks[n].worker != c->s.me) {
        PyErr_Format(PyExc_ValueError, "task %lu is not running in this process", n);
        return -1;
    }
    *task = (uint32_t)n;
    return 0;
}

static PyObject *args_to_python(const codec_args *args)
{
    Py_ssize_t n_keywords = args->n_values - args->n_positional;
    PyObject *tuple = PyTuple_New(args->n_positional), *dict = PyDict_New();
    for (Py_ssize_t i = 0; tuple && i < args->n_positional; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args->values[i]));
    for (Py_ssize_t i = 0; dict && i < n_keywords; i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(args->kwnames, i), args->values[args->n_positional + i]) < 0)
            Py_CLEAR(dict);
    PyObject *pair = tuple && dict ? PyTuple_Pack(2, tuple, dict) : NULL;
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return pair;
}

static PyObject *client_load(ClientObject *c, PyObject *number)
{
    uint32_t task, bad = UINT32_MAX;
    if (parse_task(c, number, &task) < 0)
        return NULL;
    set_current(c, task + 1);
    struct task_slot *t = &c->s.tasks[task];
    uint64_t since = loads_since(c, t);
    PyObject *callable = resolve_function(c, t->function), *pair = NULL, *result = NULL;
    Values v;
    codec_args args;
    if (!callable)
        return NULL;
    if (load_call(c, t, callable, &v, &args, &bad)) {
        event_called(&c->s, t, since);
        if (t->flags & TASK_FLAG_TIMED)
            begin_time(c, task);
        pair = args_to_python(&args);
        codec_args_clear(&args);
    }
    values_clear(&v);
    if (bad != UINT32_MAX) {
        PyObject *ref = ref_new(c, bad, false);
        if (ref)
            load_value(c, (RefObject *)ref, CODEC_OWN);
        Py_XDECREF(ref);
    } else if (pair) {
        result = PyTuple_Pack(3, callable, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
    }
    Py_DECREF(callable);
    Py_XDECREF(pair);
    return result;
}

static PyObject *client_finish(ClientObject *c, PyObject *const *args, Py_ssize_t nargs)
{
    uint32_t task, status = EVENT_OK;
    if (nargs != 2)
        return PyErr_Format(PyExc_TypeError, "finish(task, value)");
    end_if_forked(c);
    if (parse_task(c, args[0], &task) < 0)
        return NULL;
    if (seal_returns(c, &c->s.tasks[task], args[1]) < 0) {
        PyObject *exception = take_exception();
        status = settle_exception(c, task, exception, NULL);
        Py_DECREF(exception);
    }
    end_task(c, task, status);
    set_current(c, 0);
    Py_RETURN_NONE;
}

static PyObject *client_fail(ClientObject *c, PyObject *const *args, Py_ssize_t nargs)
{
    uint32_t task;
    if (nargs < 2 || nargs > 3 || !PyExceptionInstance_Check(args[1]) || (nargs == 3 && !PyList_CheckExact(args[2])))
        return PyErr_Format(PyExc_TypeError,
                            "fail(task, exception), or fail(task, exception, what its generator has yielded)");
    if (!c->pid)
        PyErr_SetObject((PyObject *)Py_TYPE(args[1]), args[1]);
    end_if_forked(c);
    if (parse_task(c, args[0], &task) < 0)
        return NULL;
    struct task_slot *t = &c->s.tasks[task];
    if (t->flags & TASK_FLAG_ACTOR_CREATION)
        settle_construction(c, task, args[1]);
    else
        end_task(c, task, settle_exception(c, task, args[1], nargs == 3 ? args[2] : NULL));
    set_current(c, 0);
    Py_RETURN_NONE;
}

static PyObject *client_bind_actor(ClientObject *c, PyObject *const *args, Py_ssize_t nargs)
{
    uint32_t task;
    if (nargs != 2)
        return PyErr_Format(PyExc_TypeError, "bind_actor(task, instance)");
    end_if_forked(c);
    if (parse_task(c, args[0], &task) < 0)
        return NULL;
    struct task_slot *t = &c->s.tasks[task];
    if (!(t->flags & TASK_FLAG_ACTOR_CREATION) || seal_returns(c, t, Py_None) < 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "task %u constructs no actor", task);
    Py_XSETREF(c->instance, Py_NewRef(args[1]));
    c->readonly = takes_readonly(c, t->function);
    segment_lock(&c->s);
    actor_bind(&c->s, t->actor_1 - 1, task);
    task_release_results(&c->s, task);
    segment_unlock(&c->s);
    set_current(c, 0);
    Py_RETURN_NONE;
}

PyMethodDef step_methods[] = {
    {"next", FAST(client_next), METH_FASTCALL,
     "next(timeout, group=None, /)\n--\n\nTakes a task; -1: leave, -2: timed out, or wake() was called."},
    {"load", (PyCFunction)client_load, METH_O, "load(task, /)\n--\n\n(callable, args, kwargs) of a taken task."},
    {"finish", FAST(client_finish), METH_FASTCALL, "finish(task, value, /)\n--\n\nEnds a taken task with its value."},
    {"fail", FAST(client_fail), METH_FASTCALL,
     "fail(task, exception, yielded=None, /)\n--\n\nEnds a taken task with an exception. What its generator had "
     "yielded stays; refs to that if it has one result."},
    {"bind_actor", FAST(client_bind_actor), METH_FASTCALL,
     "bind_actor(task, instance, /)\n--\n\nThe constructor has returned: serve its mailbox."},
    {NULL}};
