/* worker/: the loop that runs tasks, and what a task asks of it; never the choice of what runs next. */

/* What a worker knows of the task that it runs and of the actor that it serves. */
#include "worker/worker.h"

/* The actor that this process serves, or constructs, + 1; a task that is none of its calls has none. */
static uint32_t own_actor_1(ClientObject *c)
{
    uint32_t task_1 = current_task_of(c);
    return task_1 ? c->s.tasks[task_1 - 1].actor_1 : c->s.clients[c->s.me].actor_1;
}

static PyObject *client_save_checkpoint(ClientObject *c, PyObject *value)
{
    uint32_t slot, actor_1 = client_usable(c) < 0 ? 0 : own_actor_1(c);
    if (!actor_1)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_RuntimeError, "this process serves no actor");
    PyObject *ref = put_value(c, value, &slot, EVENT_BY_PUT, false);
    if (!ref)
        return NULL;
    segment_lock(&c->s);
    actor_checkpoint(&c->s, actor_1 - 1, slot);
    segment_unlock(&c->s);
    Py_DECREF(ref);
    Py_RETURN_NONE;
}

static PyObject *client_actor_info(ClientObject *c, PyObject *unused)
{
    (void)unused;
    uint32_t actor_1 = own_actor_1(c);
    if (!actor_1)
        Py_RETURN_NONE;
    const struct actor_slot *a = &c->s.actors[actor_1 - 1];
    unsigned restarts = a->task_1 ? c->s.tasks[a->task_1 - 1].attempt : 0; /* of its constructor */
    PyObject *checkpoint = a->checkpoint_1 ? ref_new(c, a->checkpoint_1 - 1, false) : Py_NewRef(Py_None);
    return Py_BuildValue("{sIsIsNsOsIsIsNsN}", "index", actor_1 - 1, "max_concurrency", a->max_concurrency, "groups",
                         group_limits(a), "ordered", a->flags & ACTOR_FLAG_ORDERED ? Py_True : Py_False, "generation",
                         a->generation, "restarts", restarts, "object",
                         a->object_1 ? ref_new(c, a->object_1 - 1, false) : Py_NewRef(Py_None), "checkpoint",
                         checkpoint);
}

PyObject *client_task_info(ClientObject *c, PyObject *number)
{
    uint32_t task;
    if (parse_task(c, number, &task) < 0)
        return NULL;
    const struct task_slot *t = &c->s.tasks[task];
    PyObject *gpus = PyList_New(0);
    for (uint32_t g = 0; gpus && g < MAX_GPUS; g++)
        if (t->gpu_mask >> g & 1) {
            PyObject *id = PyLong_FromUnsignedLong(g);
            if (!id || PyList_Append(gpus, id) < 0)
                Py_CLEAR(gpus);
            Py_XDECREF(id);
        }
    return Py_BuildValue("{sKsIsIsNsNsIsisOsd}", "seq", (unsigned long long)t->seq, "attempt", (unsigned)t->attempt,
                         "origin", t->origin, "name", function_name(c, t->function), "gpu_ids",
                         gpus ? gpus : Py_NewRef(Py_None), "resource_class", (unsigned)t->resource_class, "actor",
                         (int)t->actor_1 - 1, "cancelled", t->flags & TASK_FLAG_CANCEL ? Py_True : Py_False, "num_cpus",
                         (double)c->s.classes[t->resource_class].demand[KIND_CPU] / RESOURCE_UNIT);
}

static PyObject *client_cancelled(ClientObject *c, PyObject *unused)
{
    (void)unused;
    interrupt_seen();
    uint32_t task_1 = current_task_of(c);
    return PyBool_FromLong(task_1 && (c->s.tasks[task_1 - 1].flags & TASK_FLAG_CANCEL));
}

static PyObject *client_set_call_variable(ClientObject *c, PyObject *variable)
{
    if (!PyContextVar_CheckExact(variable))
        return PyErr_Format(PyExc_TypeError, "set_call_variable(variable): expected a ContextVar, got %R", variable);
    Py_XSETREF(c->call_variable, Py_NewRef(variable));
    Py_RETURN_NONE;
}

PyMethodDef fact_methods[] = {
    {"set_call_variable", (PyCFunction)client_set_call_variable, METH_O,
     "set_call_variable(variable, /)\n--\n\nA ContextVar that tells which of its calls an async actor executes."},
    {"save_checkpoint", (PyCFunction)client_save_checkpoint, METH_O,
     "save_checkpoint(value, /)\n--\n\nFor the next life of the actor that this process serves."},
    {"actor_info", (PyCFunction)client_actor_info, METH_NOARGS,
     "actor_info()\n--\n\nThe actor this process serves, or None."},
    {"task_info", (PyCFunction)client_task_info, METH_O, "task_info(task, /)\n--\n\nFacts of a taken task."},
    {"cancelled", (PyCFunction)client_cancelled, METH_NOARGS,
     "cancelled()\n--\n\nWhether the thread's task has been asked to stop."},
    {NULL}};
