/* What Linux offers a process and Python does not. Here because the module ctypes would be a fiftieth of a session's
 * start. */
#include "binding.h"

#include <stdio.h>
#include <sys/prctl.h>

static PyObject *prctl_done(int result)
{
    if (result < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

PyObject *process_set_name(PyObject *module, PyObject *name)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    return text ? prctl_done(prctl(PR_SET_NAME, text, 0, 0, 0)) : NULL;
}

PyObject *process_set_death_signal(PyObject *module, PyObject *number)
{
    (void)module;
    long signal = PyLong_AsLong(number);
    if (signal == -1 && PyErr_Occurred())
        return NULL;
    return prctl_done(prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0));
}

PyObject *process_become_subreaper(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return prctl_done(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
}

PyObject *process_line_buffer_stdout(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if (setvbuf(stdout, NULL, _IOLBF, 0) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}
