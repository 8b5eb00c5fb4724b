/* Which argument of a task could not be loaded: told by the exception, for its author knows the parameter and not the
 * pickle. */
#include "binding.h"

static codec_source source_of(ClientObject *c, struct task_slot *t)
{
    uint32_t n_nested = t->n_refs - t->n_dependencies - (t->flags & TASK_FLAG_STREAM ? 1 : 0);
    return (codec_source){
        .refs = task_refs(&c->s, t) + t->n_dependencies, .n_refs = n_nested, .make_ref = ref_make, .ctx = c};
}

static PyObject *layout_of(ClientObject *c, struct task_slot *t)
{
    codec_source source = source_of(c, t);
    return codec_args_layout(&c->codec, task_arguments(&c->s, t), t->arguments_size, &source);
}

/* The first argument, which in the task of a cell knows what the others are called; None if that one cannot be loaded
 * either. */
static PyObject *first_of(ClientObject *c, struct task_slot *t)
{
    codec_source source = source_of(c, t);
    codec_args args;
    PyObject *first = Py_None, **values = PyMem_Malloc((t->n_dependencies + 1) * sizeof *values);
    for (uint32_t i = 0; values && i < t->n_dependencies; i++)
        values[i] = Py_None;
    if (values && codec_decode_args(&c->codec, task_arguments(&c->s, t), t->arguments_size, &source, values,
                                    t->n_dependencies, &args) == 0) {
        first = args.n_positional ? args.values[0] : Py_None;
        Py_INCREF(first);
        codec_args_clear(&args);
    } else {
        PyErr_Clear(); /* the user's classes again */
        Py_INCREF(first);
    }
    PyMem_Free(values);
    return first;
}

struct failed_task {
    ClientObject *c;
    struct task_slot *t;
    PyObject *callable;
    int64_t dependency;
};

static PyObject *about_task(const void *what)
{
    const struct failed_task *f = what;
    PyObject *layout = layout_of(f->c, f->t), *name = function_name(f->c, f->t->function), *about = NULL;
    PyObject *first = f->dependency < 0 ? Py_NewRef(Py_None) : first_of(f->c, f->t);
    if (layout && name)
        about = Py_BuildValue("(OOOLO)", f->callable, name, layout, (long long)f->dependency, first);
    Py_DECREF(first);
    Py_XDECREF(name);
    Py_XDECREF(layout);
    return about;
}

void name_failed_argument(ClientObject *c, struct task_slot *t, PyObject *callable, int64_t dependency)
{
    struct failed_task task = {c, t, callable, dependency};
    tell_hook(c->hooks.argument_failed, PyExc_Exception, about_task, &task);
}
