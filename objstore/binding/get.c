/* get: the value of a ref, or of each ref of a list, once it is there; and what getting it would raise. wait.c does the
 * waiting. */
#include "binding.h"

static PyObject *raise_timeout(ClientObject *c, PyObject *refs, PyObject *timeout)
{
    PyObject *exception = c->hooks.timeout_error
                              ? PyObject_CallFunctionObjArgs(c->hooks.timeout_error, refs, timeout, NULL)
                              : PyObject_CallFunction(PyExc_TimeoutError, "s", "get timed out");
    if (exception)
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    return NULL;
}

/* The time that is left to bring what is remote; a thread has one `get` in another, where a value's own code calls
 * it. */
static int64_t begin_get(double timeout)
{
    int64_t outer = bring_by_ns;
    bring_by_ns = timeout >= 0 && timeout < 1e9 ? monotonic_ns() + (int64_t)(timeout * 1e9) : NO_DEADLINE;
    return outer;
}

static PyObject *end_get(ClientObject *c, int64_t outer, PyObject *found, PyObject *refs, PyObject *timeout)
{
    bool late = !found && bring_by_ns == TOO_LATE;
    bring_by_ns = outer;
    if (!late)
        return found;
    PyErr_Clear();
    return raise_timeout(c, refs, timeout);
}

typedef struct {
    PyObject *refs, *timeout_object;
    double timeout;
    bool return_exceptions, wants_error; /* the latter: what getting it would raise, or None */
    bool readonly;
    bool *mixed; /* NULL, or to be set, in place of an exception, when something in a list is no ref */
} GetCall;

/* get(refs, timeout=None, *, return_exceptions=False, readonly=False) */
static int parse_get(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, GetCall *call)
{
    Py_ssize_t n_keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    bool wrong = nargs < 1 || nargs > 2;
    call->refs = wrong ? NULL : args[0];
    if (nargs == 2)
        call->timeout_object = args[1];
    for (Py_ssize_t i = 0; i < n_keywords && !wrong; i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i), *value = args[nargs + i];
        if (nargs < 2 && PyUnicode_CompareWithASCIIString(name, "timeout") == 0) {
            call->timeout_object = value;
        } else {
            bool *flag = PyUnicode_CompareWithASCIIString(name, "return_exceptions") == 0 ? &call->return_exceptions
                         : PyUnicode_CompareWithASCIIString(name, "readonly") == 0        ? &call->readonly
                                                                                          : NULL;
            int set = flag ? PyObject_IsTrue(value) : 0;
            if (set < 0)
                return -1;
            if (flag)
                *flag = set;
            wrong = !flag;
        }
    }
    if (wrong) {
        PyErr_Format(
            PyExc_TypeError,
            "get(refs, timeout=None, *, return_exceptions=False, readonly=False) takes one ObjectRef or list of them, "
            "a timeout, whether to return exceptions, and whether arrays are read-only");
        return -1;
    }
    return parse_timeout(call->timeout_object, &call->timeout);
}

static PyObject *take_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

/* The pending exception, as a value, if it is the task's or of loading the value, and no interrupt, timeout or end of
 * the session. */
static PyObject *exception_as_value(ClientObject *c)
{
    if (c->closed || !c->pid || bring_by_ns == TOO_LATE || !PyErr_ExceptionMatches(PyExc_Exception))
        return NULL;
    return take_exception();
}

static PyObject *get_one(ClientObject *c, RefObject *ref, const GetCall *call)
{
    PyObject *value = load_value(c, ref, call->readonly ? CODEC_READ_ONLY : CODEC_OWN);
    return value || !call->return_exceptions ? value : exception_as_value(c);
}

static PyObject *get_list(ClientObject *c, const GetCall *call)
{
    int64_t outer = begin_get(call->timeout);
    Py_ssize_t n = PyList_GET_SIZE(call->refs);
    PyObject *held = PyList_GetSlice(call->refs, 0, n); /* the caller's list may change while we sleep */
    if (!held)
        return end_get(c, outer, NULL, call->refs, call->timeout_object);
    PyObject **refs = ((PyListObject *)held)->ob_item, *values = NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (call->mixed && !is_ref(c, refs[i])) {
            *call->mixed = true;
            goto done;
        }
        if (check_ref(c, refs[i], "get") < 0)
            goto done;
    }
    int result = wait_refs(c, refs, n, n, call->timeout, call->return_exceptions ? WAIT_TO_GET_ALL : WAIT_TO_GET);
    if (result > 0)
        raise_timeout(c, call->refs, call->timeout_object);
    if (result != 0)
        goto done;
    /* an error ends it, whether or not the others are there */
    for (Py_ssize_t i = 0; i < n && !call->return_exceptions; i++) {
        uint32_t state = object_state(&c->s.objects[((RefObject *)refs[i])->slot]);
        if (state == OBJECT_ERROR || state == OBJECT_FAILED) {
            load_value(c, (RefObject *)refs[i], CODEC_OWN);
            goto done;
        }
    }
    values = PyList_New(n);
    for (Py_ssize_t i = 0; values && i < n; i++) {
        PyObject *value = get_one(c, (RefObject *)refs[i], call);
        if (!value)
            Py_CLEAR(values);
        else
            PyList_SET_ITEM(values, i, value);
    }
done:
    Py_DECREF(held);
    return end_get(c, outer, values, call->refs, call->timeout_object);
}

static inline PyObject *get_ref(ClientObject *c, const GetCall *call)
{
    if (check_ref(c, call->refs, "get") < 0)
        return NULL;
    int64_t outer = begin_get(call->timeout);
    RefObject *ref = (RefObject *)call->refs;
    struct object_slot *o = &c->s.objects[ref->slot];
    PyObject *value = NULL;
    int result = object_sealed(o) ? 0 : wait_refs(c, &call->refs, 1, 1, call->timeout, WAIT_TO_GET);
    if (result > 0)
        raise_timeout(c, call->refs, call->timeout_object);
    else if (result == 0 && call->wants_error)
        value = object_state(o) == OBJECT_READY ? Py_NewRef(Py_None) : make_exception(c, ref);
    else if (result == 0)
        value = get_one(c, ref, call);
    return end_get(c, outer, value, call->refs, call->timeout_object);
}

static inline PyObject *get_or_tell(ClientObject *c, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                                    bool *mixed)
{
    bool plain = nargs == 1 && !kwnames;
    GetCall call = {.refs = plain ? args[0] : NULL, .timeout_object = Py_None, .timeout = -1.0, .mixed = mixed};
    if (client_usable(c) < 0 || (!plain && parse_get(args, nargs, kwnames, &call) < 0))
        return NULL;
    return PyList_Check(call.refs) ? get_list(c, &call) : get_ref(c, &call);
}

PyObject *client_get(ClientObject *c, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return get_or_tell(c, args, nargs, kwnames, NULL);
}

PyObject *client_error_of(ClientObject *c, RefObject *ref, PyObject *timeout)
{
    GetCall call = {.refs = (PyObject *)ref, .timeout_object = timeout, .wants_error = true};
    if (parse_timeout(timeout, &call.timeout) < 0)
        return NULL;
    if (client_usable(c) == 0)
        return get_ref(c, &call);
    return take_exception(); /* what result() raises then */
}

/* The module's `get`: that of the client the refs belong to, which a ref knows, so the session need not be looked up.
 * All else, as other containers, mistakes and refs of ended sessions, goes to the function in Python. After a wait
 * every line of code is cold, and the Python around a call that takes half a microsecond warm took three. */
static PyObject *core_get(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    CoreState *state = core_state(module);
    PyObject *first = nargs > 0 ? args[0] : NULL;
    if (first && PyList_Check(first))
        first = PyList_GET_SIZE(first) ? PyList_GET_ITEM(first, 0) : NULL;
    if (first && Py_TYPE(first) == state->ref_type) {
        ClientObject *c = ((RefObject *)first)->client;
        bool mixed = false;
        PyObject *found = c->closed || !c->pid ? NULL : get_or_tell(c, args, nargs, kwnames, &mixed);
        if (found || PyErr_Occurred())
            return found;
    }
    return PyObject_Vectorcall(state->get_in_python, args, (size_t)nargs, kwnames);
}

static PyMethodDef get_definition = {"get", (PyCFunction)(void (*)(void))core_get, METH_FASTCALL | METH_KEYWORDS, NULL};

/* make_get(function, doc) */
PyObject *core_make_get(PyObject *module, PyObject *args)
{
    CoreState *state = core_state(module);
    PyObject *function, *doc;
    if (!PyArg_ParseTuple(args, "OU:make_get", &function, &doc))
        return NULL;
    const char *text = PyUnicode_AsUTF8(doc);
    PyObject *home = text ? PyUnicode_FromString("cellmesh") : NULL;
    if (!home)
        return NULL;
    get_definition.ml_doc = text;
    Py_INCREF(doc); /* for ever: the definition points into it */
    Py_XSETREF(state->get_in_python, Py_NewRef(function));
    PyObject *get = PyCFunction_NewEx(&get_definition, module, home);
    Py_DECREF(home);
    return get;
}

PyMethodDef get_methods[] = {{"get", FAST(client_get), METH_FASTCALL | METH_KEYWORDS,
                              "get(refs, timeout=None, *, return_exceptions=False, readonly=False)\n--\n\nThe value of "
                              "a ref, or of each ref of a list."},
                             {NULL}};
