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

void name_failed_argument(ClientObject *c, struct task_slot *t, PyObject *callable, int64_t dependency)
{
    PyObject *type, *error, *traceback;
    if (!c->hooks.argument_failed || !PyErr_ExceptionMatches(PyExc_Exception))
        return;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback)
        PyException_SetTraceback(error, traceback);
    PyObject *layout = layout_of(c, t), *name = function_name(c, t->function),
             *number = PyLong_FromLongLong(dependency);
    PyObject *first = dependency < 0 ? Py_NewRef(Py_None) : first_of(c, t);
    PyObject *result =
        layout && name && number
            ? PyObject_CallFunctionObjArgs(c->hooks.argument_failed, error, callable, name, layout, number, first, NULL)
            : NULL;
    if (!result)
        PyErr_WriteUnraisable(c->hooks.argument_failed); /* the error itself goes on */
    Py_XDECREF(result);
    Py_DECREF(first);
    Py_XDECREF(number);
    Py_XDECREF(name);
    Py_XDECREF(layout);
    Py_XDECREF(traceback);
    PyErr_Restore(type, error, PyException_GetTraceback(error)); /* the hook may have shortened it */
}
