#include "inspect/inspect.h"

/* Slots that have been used, of a table of `n`. */
uint32_t used_slots(uint32_t touched, uint32_t n) { return touched < n ? touched : n; }

bool list_add(PyObject *list, PyObject *item)
{
    bool ok = list && item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return ok;
}

PyObject *list_done(PyObject *list, bool ok)
{
    if (!ok)
        Py_CLEAR(list);
    return list;
}

/* Private memory for a copy of slots, from before the lock is taken: under it nothing is allocated. */
void *new_copy(size_t n, size_t size)
{
    void *copy = PyMem_Malloc(n * size + 1);
    if (!copy)
        PyErr_NoMemory();
    return copy;
}
