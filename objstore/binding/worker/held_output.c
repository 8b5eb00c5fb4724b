/* What a task has printed and its process holds back for a moment, to send much at once: it goes before the task's
 * result does, so who has the result finds it on its way. */
#include "binding.h"

static PyObject *client_set_flush(ClientObject *c, PyObject *flush)
{
    if (!PyCallable_Check(flush))
        return PyErr_Format(PyExc_TypeError, "set_flush(flush): expected a callable, got %R", flush);
    Py_XSETREF(c->flush_output, Py_NewRef(flush));
    Py_RETURN_NONE;
}

void flush_output(ClientObject *c)
{
    PyObject *type, *value, *traceback;
    c->holds_output = false;
    if (!c->flush_output || !c->pid)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *result = PyObject_CallNoArgs(c->flush_output);
    if (!result && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        PyErr_Clear(); /* an interrupt meant for the task, which has ended; what is left is sent a moment later */
    else if (!result)
        PyErr_WriteUnraisable(c->flush_output);
    Py_XDECREF(result);
    PyErr_Restore(type, value, traceback);
}

PyMethodDef output_methods[] = {
    {"set_flush", (PyCFunction)client_set_flush, METH_O,
     "set_flush(flush, /)\n--\n\nWhat to call before a result is there, once holds_output has been set."},
    {NULL}};
