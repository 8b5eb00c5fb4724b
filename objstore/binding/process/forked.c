/* What a forked child keeps of the session: the values that it can see, and nothing else.
 *
 * Its place in the segment is its parent's. So its clients are void, which every operation looks at, and its view of
 * the segment becomes one of its own: what still runs here of the parent's work, a destructor or the rest of an
 * operation in which user code has forked, writes to copies that no other process sees. The child of a task ends where
 * the task's function ends, and never takes another task. */
#include "binding.h"

#include <pthread.h>
#include <unistd.h>

/* Every client of this process. A fork may happen in a thread without the GIL while another changes the list, therefore
 * each change is one store. */
static ClientObject *first;

void forked_watch(ClientObject *c)
{
    c->next = first;
    atomic_signal_fence(memory_order_seq_cst);
    first = c;
}

void forked_forget(const ClientObject *c)
{
    for (ClientObject **place = &first; *place; place = &(*place)->next)
        if (*place == c) {
            *place = c->next;
            return;
        }
}

static void in_child(void)
{
    for (ClientObject *c = first; c; c = c->next) {
        c->pid = 0;
        if (array_memory_make_private(c))
            atomic_store(&c->s.h->lock, 0); /* its owner is not in this process */
    }
}

int forked_module_init(void)
{
    static bool registered;
    if (!registered && pthread_atfork(NULL, NULL, in_child) != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    registered = true;
    return 0;
}

static void flush(const char *stream)
{
    PyObject *file = PySys_GetObject(stream), *result = file ? PyObject_CallMethod(file, "flush", NULL) : NULL;
    if (file && !result)
        PyErr_WriteUnraisable(file);
    Py_XDECREF(result);
}

/* As a program that ended with the pending exception would exit. */
static int exit_code(void)
{
    PyObject *type, *value, *traceback, *code;
    if (!PyErr_Occurred())
        return 0;
    if (!PyErr_ExceptionMatches(PyExc_SystemExit)) {
        PyErr_Print();
        return 1;
    }
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    code = PyObject_GetAttrString(value, "code");
    if (!code || code == Py_None)
        return 0;
    if (PyLong_Check(code))
        return (int)PyLong_AsLongAndOverflow(code, &(int){0}) & 0xff;
    PySys_FormatStderr("%S\n", code);
    return 1;
}

void end_forked_child(void)
{
    int code = exit_code();
    flush("stdout");
    flush("stderr");
    _exit(code);
}
