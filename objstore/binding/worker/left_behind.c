/* What a task has changed in its process, and the next one is not to find there. Most of it takes a system call to ask
 * for, more than a small task takes as a whole. So the few functions that change it note that they have been called. */
#include "worker/worker.h"

#define RESTORE_TIMES 3 /* a signal handler of the task's may raise meanwhile */

bool process_noted;

PyObject *note_and_call(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    if (nargs < 1) {
        PyErr_SetString(PyExc_TypeError, "note_and_call(function, *args, **kwargs)");
        return NULL;
    }
    process_noted = true;
    return PyObject_Vectorcall(args[0], args + 1, (size_t)nargs - 1, kwnames);
}

/* Whether sys.stdout or sys.stderr is another one. To look both up would be felt in small tasks. */
#if PY_VERSION_HEX >= 0x030C0000
static int sys_changes(PyDict_WatchEvent event, PyObject *sys, PyObject *key, PyObject *value)
{
    (void)event, (void)sys, (void)value;
    if (!key || PyUnicode_CompareWithASCIIString(key, "stdout") == 0 ||
        PyUnicode_CompareWithASCIIString(key, "stderr") == 0)
        process_noted = true;
    return 0;
}

static int watch_sys(const struct left_behind *l)
{
    static int watcher = -1;
    if (watcher < 0)
        watcher = PyDict_AddWatcher(sys_changes);
    return watcher < 0 ? -1 : PyDict_Watch(watcher, l->sys);
}

#else
static int watch_sys(const struct left_behind *l)
{
    (void)l;
    return 0;
}

bool streams_changed(struct left_behind *l)
{
    l->sys_version = ((PyDictObject *)l->sys)->ma_version_tag;
    return PyDict_GetItemWithError(l->sys, l->names[0]) != l->streams[0] ||
           PyDict_GetItemWithError(l->sys, l->names[1]) != l->streams[1];
}
#endif

static PyObject *client_set_restore(ClientObject *c, PyObject *args)
{
    struct left_behind *l = &c->left_behind;
    PyObject *restore, *streams[2];
    PyObject *sys = PyImport_ImportModule("sys");
    if (!sys || !PyArg_ParseTuple(args, "OOO:set_restore", &restore, &streams[0], &streams[1])) {
        Py_XDECREF(sys);
        return NULL;
    }
    Py_XSETREF(l->sys, Py_NewRef(PyModule_GetDict(sys)));
    Py_DECREF(sys);
    for (int i = 0; i < 2; i++) {
        Py_XSETREF(l->streams[i], Py_NewRef(streams[i]));
        Py_XSETREF(l->names[i], PyUnicode_InternFromString(i ? "stderr" : "stdout"));
        if (!l->names[i])
            return NULL;
    }
    if (watch_sys(l) < 0)
        return NULL;
    process_noted = false;
    Py_XSETREF(l->restore, Py_NewRef(restore));
    Py_RETURN_NONE;
}

void restore_process(ClientObject *c)
{
    PyObject *restore = c->left_behind.restore;
    if (!restore)
        return;
    for (int i = 0; i < RESTORE_TIMES; i++) {
        PyObject *result = PyObject_CallNoArgs(restore);
        Py_XDECREF(result);
        if (result) {
            process_noted = false;
            return;
        }
        if (i < RESTORE_TIMES - 1)
            PyErr_Clear();
    }
    PyErr_WriteUnraisable(restore);
    atomic_fetch_or(&c->s.clients[c->s.me].flags, CLIENT_FLAG_RETIRE);
}

void left_behind_clear(struct left_behind *l)
{
    Py_CLEAR(l->restore);
    Py_CLEAR(l->sys);
    for (int i = 0; i < 2; i++) {
        Py_CLEAR(l->streams[i]);
        Py_CLEAR(l->names[i]);
    }
}

int left_behind_traverse(struct left_behind *l, visitproc visit, void *arg)
{
    Py_VISIT(l->restore);
    Py_VISIT(l->sys);
    Py_VISIT(l->streams[0]);
    Py_VISIT(l->streams[1]);
    return 0;
}

PyMethodDef left_behind_methods[] = {
    {"set_restore", (PyCFunction)client_set_restore, METH_VARARGS,
     "set_restore(restore, stdout, stderr, /)\n--\n\nWhat to call at the end of a task that has called "
     "note_and_call, or has put anything in the place of these streams."},
    {NULL}};
