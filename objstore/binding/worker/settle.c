/* What becomes of a task that has raised: an error, another attempt, or the end of its process. */
#include "worker/worker.h"

#include <string.h>

/* The description of an exception, made by a hook that must not fail; if it does, that is told instead. */
static PyObject *describe(ClientObject *c, struct task_slot *t, PyObject *exception)
{
    PyObject *name = function_name(c, t->function);
    PyObject *number = PyLong_FromUnsignedLongLong(t->flags & TASK_FLAG_HIDDEN ? 0 : t->seq);
    PyObject *tuple = name && number && c->hooks.error_value
                          ? PyObject_CallFunctionObjArgs(c->hooks.error_value, exception, name, number, NULL)
                          : NULL;
    if (tuple && PyTuple_Check(tuple) && (t->flags & TASK_FLAG_ACTOR_CREATION)) {
        /* Every call of the actor gets this error, so it says which task the constructor was. */
        PyObject *list = PySequence_List(tuple), *kind = PyUnicode_FromString("actor_init");
        bool good = list && kind && PyList_SetItem(list, 0, Py_NewRef(kind)) == 0 && PyList_Append(list, number) == 0;
        Py_SETREF(tuple, good ? PyList_AsTuple(list) : NULL);
        Py_XDECREF(list);
        Py_XDECREF(kind);
    }
    Py_XDECREF(number);
    if (!tuple) {
        PyErr_Clear();
        tuple = Py_BuildValue("(sOsssOis)", "task_error", name, Py_TYPE(exception)->tp_name,
                              "the error could not be described", "", Py_None, c->pid, "");
    }
    Py_XDECREF(name);
    return tuple;
}

static void seal_as_error(ClientObject *c, struct task_slot *t, uint32_t i, PyObject *description)
{
    Encoded e;
    bool sealed = false;
    if (description && encode_value(c, &e, description) == 0) {
        sealed = seal_value(c, task_result(&c->s, t, i), OBJECT_ERROR, &e) == 0;
        encoded_clear(&e);
    }
    if (!sealed) { /* not even the error fits */
        PyErr_Clear();
        object_seal_failed(&c->s, task_result(&c->s, t, i), FAILURE_STORE_FULL, 0, t->seq);
    }
}

/* Seals the results that have no value yet. */
static void seal_error(ClientObject *c, uint32_t task, PyObject *exception)
{
    struct task_slot *t = &c->s.tasks[task];
    PyObject *description = describe(c, t, exception);
    for (uint32_t i = 0; i < t->n_returns; i++)
        if (!object_sealed(&c->s.objects[task_result(&c->s, t, i)]))
            seal_as_error(c, t, i, description);
    Py_XDECREF(description);
}

static bool wants_retry(ClientObject *c, struct task_slot *t, PyObject *exception)
{
    if (!(t->flags & TASK_FLAG_RETRY_EXCEPTIONS) || !retry_allowed(t))
        return false;
    if (!c->hooks.should_retry)
        return true;
    PyObject *name = function_name(c, t->function);
    uint32_t function = t->function;
    PyObject *value = decode_slot(c, function, NULL, CODEC_OWN);
    PyObject *answer = value ? PyObject_CallFunctionObjArgs(c->hooks.should_retry, exception, value, NULL) : NULL;
    bool yes = answer && PyObject_IsTrue(answer) == 1;
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(name);
    Py_XDECREF(answer);
    Py_XDECREF(value);
    Py_XDECREF(name);
    return yes;
}

/* What a generator has yielded before it raised are the values of the first returns. */
static void seal_yielded(ClientObject *c, struct task_slot *t, PyObject *yielded)
{
    for (uint32_t i = 0; i < t->n_returns && i < PyList_GET_SIZE(yielded); i++) {
        if (seal_return(c, t->function, task_result(&c->s, t, i), PyList_GET_ITEM(yielded, i), false) >= 0)
            continue;
        PyObject *exception = take_exception(), *description = describe(c, t, exception);
        seal_as_error(c, t, i, description);
        Py_XDECREF(description);
        Py_DECREF(exception);
    }
}

/* Or the refs in its value, and the last one raises. False: that did not fit. */
static bool seal_refs(ClientObject *c, struct task_slot *t, PyObject *refs, PyObject *exception)
{
    PyObject *description = describe(c, t, exception),
             *ref = description ? put_error(c, description, EVENT_AS_ITEM) : NULL;
    bool sealed =
        ref && PyList_Append(refs, ref) == 0 && seal_return(c, t->function, task_result(&c->s, t, 0), refs, false) >= 0;
    PyErr_Clear();
    Py_XDECREF(ref);
    Py_XDECREF(description);
    return sealed;
}

static uint32_t settle_timeout(ClientObject *c, uint32_t task, PyObject *exception)
{
    if (retry_after_timeout(&c->s, task))
        return STATUS_RETRY;
    PyObject *error = timeout_of(c, task, exception);
    if (error)
        seal_error(c, task, error);
    else
        task_seal_failed(&c->s, task, FAILURE_TIMED_OUT, (int32_t)c->s.times[task].limits.timeout_ms);
    Py_XDECREF(error);
    return EVENT_ERROR;
}

/* The user's code ends its process, which of an actor the hook does. A plain task counts as one whose worker has died,
 * and the worker leaves when it can: what has waited for the task in the same process goes on. */
static uint32_t settle_exit(ClientObject *c, uint32_t task, PyObject *exception)
{
    struct task_slot *t = &c->s.tasks[task];
    bool again = retry_allowed(t);
    PyObject *name = function_name(c, t->function);
    PyObject *detail = PyObject_CallFunction(c->hooks.exited, "OOiii", exception, name, t->actor_1 != 0,
                                             again ? t->attempt + 2 : 0, (int)retry_most_attempts(t));
    long code = detail ? PyLong_AsLong(detail) : 0;
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(name);
    Py_XDECREF(detail);
    Py_DECREF(name);
    atomic_fetch_or(&c->s.clients[c->s.me].flags, CLIENT_FLAG_RETIRE);
    if (again)
        return STATUS_RETRY;
    task_seal_failed(&c->s, task, FAILURE_WORKER_CRASHED, (int32_t)code);
    return EVENT_CRASHED;
}

/* What the results of a task become that has raised. `yielded`: what its generator had yielded before, or NULL. */
static void seal_raised(ClientObject *c, uint32_t task, PyObject *exception, PyObject *yielded)
{
    struct task_slot *t = &c->s.tasks[task];
    if (yielded && t->n_returns == 1 && seal_refs(c, t, yielded, exception))
        return;
    if (!yielded || t->n_returns < 2) {
        seal_error(c, task, exception);
        return;
    }
    seal_yielded(c, t, yielded);
    if (PyList_GET_SIZE(yielded) < t->n_returns) {
        seal_error(c, task, exception);
    } else { /* there is no ref that could raise it */
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        PyErr_WriteUnraisable(NULL);
    }
}

uint32_t settle_exception(ClientObject *c, uint32_t task, PyObject *exception, PyObject *yielded)
{
    struct task_slot *t = &c->s.tasks[task];
    bool exits = PyErr_GivenExceptionMatches(exception, PyExc_SystemExit);
    send_held_output(c);
    if ((t->flags & TASK_FLAG_CANCEL) && (exits || PyErr_GivenExceptionMatches(exception, PyExc_KeyboardInterrupt) ||
                                          strcmp(Py_TYPE(exception)->tp_name, "CancelledError") == 0)) {
        if (task_timed_out(&c->s, task))
            return settle_timeout(c, task, exception);
        task_seal_failed(&c->s, task, FAILURE_CANCELLED, 1); /* it has run, which Ray tells apart */
        return EVENT_CANCELLED;
    }
    if (exits && c->hooks.exited)
        return settle_exit(c, task, exception);
    if (wants_retry(c, t, exception))
        return STATUS_RETRY;
    seal_raised(c, task, exception,
                t->flags & TASK_FLAG_STREAM ? NULL : yielded); /* items of a stream have been sent */
    return EVENT_ERROR;
}

void settle_construction(ClientObject *c, uint32_t task, PyObject *exception)
{
    struct task_slot *t = &c->s.tasks[task];
    uint32_t result = task_result(&c->s, t, 0);
    PyObject *error = NULL;
    if (object_sealed(&c->s.objects[result])) { /* in an earlier life; what it says stays */
        PyObject *description = describe(c, t, exception);
        error = description ? put_error(c, description, EVENT_AS_ITEM) : NULL;
        if (!error)
            PyErr_WriteUnraisable(NULL);
        Py_XDECREF(description);
    }
    settle_exception(c, task, exception, NULL);
    segment_lock(&c->s);
    actor_construction_failed(&c->s, t->actor_1 - 1, task, error ? ((RefObject *)error)->slot : result);
    segment_unlock(&c->s);
    Py_XDECREF(error);
}
