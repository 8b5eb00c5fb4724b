/* What the code of a function took along when it was put into the store: variables, and what they stood for. A
 * submitter looks before each call whether that is still so, therefore a look compares pointers, and a few bytes, and
 * runs no Python code (decision 78). */
#include "binding.h"

#include <structmember.h>

#include <string.h>

typedef struct {
    PyObject *where; /* a dict, cell, list, class, or what has a buffer; or another watch */
    PyObject *name;  /* a key of a dict: what it stands for; NULL: all that `where` holds */
    /* of a name or a cell: its value, NULL for none; of a list: a tuple of all; of a dict or class: keys and values in
     * turn; of a buffer: bytes */
    PyObject *what;
} Watched;

typedef struct {
    PyObject_VAR_HEAD
    unsigned long long n_calls, look_at_call; /* calls so far; of which number on it is due, 0: never */
    long long look_at_ns;                     /* or from when on, monotonic */
    Watched items[1];
} WatchObject;

static bool same_items(PyObject *const *now, Py_ssize_t n, PyObject *before)
{
    return n == PyTuple_GET_SIZE(before) &&
           (!n || memcmp(now, &PyTuple_GET_ITEM(before, 0), (size_t)n * sizeof *now) == 0);
}

static bool same_entries(PyObject *dict, PyObject *before)
{
    if (2 * PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(before))
        return false;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; PyDict_Next(dict, &at, &key, &value); i += 2)
        if (key != PyTuple_GET_ITEM(before, i) || value != PyTuple_GET_ITEM(before, i + 1))
            return false;
    return true;
}

static bool same_attributes(PyObject *class, PyObject *before)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *dict = PyType_GetDict((PyTypeObject *)class);
    bool same = dict && same_entries(dict, before);
    Py_XDECREF(dict);
    return same;
#else
    return same_entries(((PyTypeObject *)class)->tp_dict, before);
#endif
}

static bool same_bytes(PyObject *where, PyObject *before)
{
    Py_buffer now;
    if (PyObject_GetBuffer(where, &now, PyBUF_SIMPLE) < 0) {
        PyErr_Clear(); /* as not any more contiguous */
        return false;
    }
    bool same = now.len == PyBytes_GET_SIZE(before) && memcmp(now.buf, PyBytes_AS_STRING(before), (size_t)now.len) == 0;
    PyBuffer_Release(&now);
    return same;
}

static bool is_same(const Watched *w, const PyTypeObject *watch_type)
{
    if (w->name) {
        PyObject *now = PyDict_GetItemWithError(w->where, w->name);
        if (!now)
            PyErr_Clear();
        return now == w->what;
    }
    if (PyCell_Check(w->where))
        return PyCell_GET(w->where) == w->what;
    if (PyList_Check(w->where))
        return same_items(((PyListObject *)w->where)->ob_item, PyList_GET_SIZE(w->where), w->what);
    if (PyDict_Check(w->where))
        return same_entries(w->where, w->what);
    if (PyType_Check(w->where))
        return same_attributes(w->where, w->what);
    if (Py_TYPE(w->where) == watch_type)
        return !watch_changed(w->where);
    return same_bytes(w->where, w->what);
}

bool watch_changed(PyObject *self)
{
    WatchObject *watch = (WatchObject *)Py_NewRef(self); /* a destructor of what is compared may replace it */
    bool same = true;
    for (Py_ssize_t i = 0; same && i < Py_SIZE(watch); i++)
        same = is_same(&watch->items[i], Py_TYPE(watch));
    Py_DECREF(watch);
    return !same;
}

bool watch_is_due(PyObject *self)
{
    WatchObject *watch = (WatchObject *)self;
    watch->n_calls++;
    return watch->look_at_call && (watch->n_calls >= watch->look_at_call || monotonic_ns() >= watch->look_at_ns);
}

/* ------------------------------------------------------------------ making one */

static bool parse_item(Watched *w, PyObject *item, PyTypeObject *watch_type)
{
    Py_ssize_t n = PyTuple_Check(item) ? PyTuple_GET_SIZE(item) : 0;
    PyObject *where = n ? PyTuple_GET_ITEM(item, 0) : NULL, *second = n > 1 ? PyTuple_GET_ITEM(item, 1) : NULL;
    PyObject *third = n > 2 ? PyTuple_GET_ITEM(item, 2) : NULL;
    bool is_name = where && PyDict_Check(where) && second && PyUnicode_Check(second);
    bool fits = is_name && n <= 3;
    if (where && !is_name && n <= 2)
        fits = PyCell_Check(where) || (Py_TYPE(where) == watch_type && n == 1) ||
               (second && (PyList_Check(where) || PyDict_Check(where) || PyType_Check(where) ? PyTuple_Check(second)
                                                                                             : PyBytes_Check(second)));
    if (!fits) {
        PyErr_Format(
            PyExc_TypeError,
            "Watch: %R is none of (dict, name[, value]), (cell[, value]), (list, tuple), (dict or class, tuple of keys "
            "and values), (buffer, bytes), (Watch,)",
            item);
        return false;
    }
    *w = (Watched){Py_NewRef(where), is_name ? Py_NewRef(second) : NULL, Py_XNewRef(is_name ? third : second)};
    return true;
}

static PyObject *watch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"items", NULL};
    PyObject *items;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:Watch", names, &PyList_Type, &items))
        return NULL;
    Py_ssize_t n = PyList_GET_SIZE(items);
    WatchObject *watch = (WatchObject *)type->tp_alloc(type, n);
    for (Py_ssize_t i = 0; watch && i < n; i++)
        if (!parse_item(&watch->items[i], PyList_GET_ITEM(items, i), type))
            Py_CLEAR(watch);
    return (PyObject *)watch;
}

static int watch_traverse(WatchObject *watch, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(watch));
    for (Py_ssize_t i = 0; i < Py_SIZE(watch); i++) {
        Py_VISIT(watch->items[i].where);
        Py_VISIT(watch->items[i].name);
        Py_VISIT(watch->items[i].what);
    }
    return 0;
}

/* What is left is no longer looked at: the object is garbage. */
static int watch_clear(WatchObject *watch)
{
    Py_ssize_t n = Py_SIZE(watch);
    Py_SET_SIZE(watch, 0);
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_CLEAR(watch->items[i].where);
        Py_CLEAR(watch->items[i].name);
        Py_CLEAR(watch->items[i].what);
    }
    return 0;
}

static void watch_dealloc(WatchObject *watch)
{
    PyTypeObject *type = Py_TYPE(watch);
    PyObject_GC_UnTrack(watch);
    watch_clear(watch);
    type->tp_free(watch);
    Py_DECREF(type);
}

static PyObject *watch_ask(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(watch_changed(self));
}

static PyMethodDef watch_methods[] = {
    {"changed", watch_ask, METH_NOARGS, "changed()\n--\n\nWhether anything of it is not as it was."}, {NULL}};

static PyMemberDef watch_members[] = {
    {"n_calls", T_ULONGLONG, offsetof(WatchObject, n_calls), 0, "Calls that submitters have made since."},
    {"look_at_call", T_ULONGLONG, offsetof(WatchObject, look_at_call), 0,
     "The number of the call from which on they ask `renew`; 0: none."},
    {"look_at_ns", T_LONGLONG, offsetof(WatchObject, look_at_ns), 0,
     "Or from when on, in nanoseconds of the monotonic clock."},
    {NULL}};

static PyType_Slot watch_slots[] = {
    {Py_tp_doc,
     "Watch(items)\n--\n\nVariables and what they stand for now.\n\n"
     "Items: (dict, name[, value]), (cell[, value]), (list, tuple), (dict or class, tuple of keys and values in turn), "
     "(buffer, bytes), (Watch,)."},
    {Py_tp_new, watch_new},
    {Py_tp_dealloc, watch_dealloc},
    {Py_tp_traverse, watch_traverse},
    {Py_tp_clear, watch_clear},
    {Py_tp_methods, watch_methods},
    {Py_tp_members, watch_members},
    {0, NULL}};

PyType_Spec watch_spec = {"cellmesh.objstore._core.Watch", offsetof(WatchObject, items), sizeof(Watched),
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, watch_slots};
