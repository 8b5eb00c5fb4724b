/* ObjectRef: slot and generation, plus one reference of this process. Making and dropping one costs tens of
 * nanoseconds: a per-process count in private memory, and one bit in the segment for the whole process, given back in
 * batches. */
#include "binding.h"

PyObject *ref_new(ClientObject *c, uint32_t slot, bool held)
{
    if (slot >= c->s.n_objects)
        return raise_core_error(c, OBJSTORE_CORRUPT, "a reference leads outside the table of objects");
    RefObject *ref = PyObject_New(RefObject, c->codec.ref_type);
    if (!ref)
        return NULL;
    if (c->local[slot]++ == 0 && !held) /* a buffered drop counts as held: its bit is still set */
        object_hold(&c->s, slot);
    ref->client = (ClientObject *)Py_NewRef(c);
    ref->slot = slot;
    ref->generation = c->s.objects[slot].generation;
    return (PyObject *)ref;
}

PyObject *ref_make(void *client, uint32_t slot) { return ref_new(client, slot, false); }

/* A slot of another store means something else here, or nothing. */
int ref_slot(void *client, PyObject *ref, uint32_t *slot)
{
    *slot = ((RefObject *)ref)->slot;
    if (((RefObject *)ref)->client == client)
        return 0;
    raise_store_error(client, "closed", "the value contains an ObjectRef of a session that has been shut down");
    return -1;
}

/* Giving this one up frees much memory, ends an actor or stops a stream: not worth waiting for company. */
static bool matters(const struct object_slot *o)
{
    return o->size > DROP_AT_ONCE ||
           (o->offset && object_state(o) == OBJECT_READY && (o->u.arena.actor_1 || o->u.arena.n_refs >= REFS_OF_SYNC));
}

static void ref_dealloc(RefObject *ref)
{
    ClientObject *c = ref->client;
    PyTypeObject *type = Py_TYPE(ref);
    if (!c->closed && c->pid) {
        uint32_t *local = &c->local[ref->slot];
        --*local;
        if (*local == 0) {
            *local = LOCAL_BUFFERED;
            c->drops[c->n_drops++] = ref->slot;
            if (c->n_drops == DROP_BUFFER || matters(&c->s.objects[ref->slot]))
                flush_drops(c);
        }
    }
    PyObject_Free(ref);
    Py_DECREF(type);
    Py_DECREF(c);
}

static PyObject *ref_hex(RefObject *ref, PyObject *unused)
{
    (void)unused;
    char text[33];
    snprintf(text, sizeof text, "%016llx%08x%08x", (unsigned long long)ref->client->s.h->session, ref->slot,
             ref->generation);
    return PyUnicode_FromStringAndSize(text, 32);
}

static PyObject *ref_repr(RefObject *ref)
{
    PyObject *hex = ref_hex(ref, NULL);
    PyObject *text = hex ? PyUnicode_FromFormat("ObjectRef(%U)", hex) : NULL;
    Py_XDECREF(hex);
    return text;
}

static Py_hash_t ref_hash(RefObject *ref)
{
    uint64_t x = ((uint64_t)ref->generation << 32 | ref->slot) * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    return (Py_hash_t)x == -1 ? -2 : (Py_hash_t)x;
}

/* ---- what is meant for the value: the commonest slip with futures deserves more than Python's own words */

#define ASK_FOR_VALUE                                                                                                 \
    "it stands for a value that a task makes: cellmesh.get(ref) gives that (in a notebook also %%fetch), and a task " \
    "that is "                                                                                                        \
    "given the ref receives it (inside a list, a dict or an object it stays a ref)"

static PyObject *refuse_operator(PyObject *a, PyObject *b)
{
    return PyErr_Format(PyExc_TypeError,
                        "an ObjectRef cannot be calculated with, compared with a value or indexed (here with %s and "
                        "%s); " ASK_FOR_VALUE,
                        Py_TYPE(a)->tp_name, Py_TYPE(b)->tp_name);
}

static PyObject *refuse_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    (void)modulus;
    return refuse_operator(a, b);
}

static PyObject *refuse_sign(PyObject *a) { return refuse_operator(a, a); }

static int refuse_assignment(PyObject *ref, PyObject *key, PyObject *value)
{
    (void)value;
    refuse_operator(ref, key);
    return -1;
}

static PyObject *refuse(const char *what)
{
    return PyErr_Format(PyExc_TypeError, "an ObjectRef %s; " ASK_FOR_VALUE, what);
}

static PyObject *refuse_iteration(PyObject *ref)
{
    (void)ref;
    return refuse("cannot be iterated over or unpacked (a function with the option num_returns=N gives N refs)");
}

static PyObject *refuse_number(PyObject *ref)
{
    (void)ref;
    return refuse("is not a number");
}

static Py_ssize_t refuse_length(PyObject *ref)
{
    (void)ref;
    refuse("has no length");
    return -1;
}

static int refuse_search(PyObject *ref, PyObject *value)
{
    (void)ref;
    (void)value;
    refuse("cannot be searched");
    return -1;
}

static int ref_truth(PyObject *ref)
{
    CoreState *state = PyType_GetModuleState(Py_TYPE(ref));
    if (state->refs_are_plain)
        return 1;
    refuse("is neither true nor false (`ref is not None` tells whether there is one, ref.done() whether the value is "
           "there)");
    return -1;
}

static PyObject *ref_format(PyObject *ref, PyObject *spec)
{
    if (!PyUnicode_Check(spec) || PyUnicode_GET_LENGTH(spec))
        return refuse("cannot be formatted as a value");
    return PyObject_Str(ref);
}

static PyObject *ref_round(PyObject *ref, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return refuse_number(ref);
}

/* Not in the type's dict: `__iter__` and `__len__` there would make a ref an Iterable and a Sized for `isinstance`, and
 * list-like for pandas. */
void ref_refuse_conversions(PyTypeObject *type)
{
    type->tp_iter = refuse_iteration;
    type->tp_as_mapping->mp_length = refuse_length;
    type->tp_as_sequence->sq_contains = refuse_search;
    type->tp_as_number->nb_bool = ref_truth;
    type->tp_as_number->nb_int = type->tp_as_number->nb_float = type->tp_as_number->nb_index = refuse_number;
}

static bool is_named(PyObject *name, const char *text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }

/* `client` is for this package, and not in the type's dict, which TAB shows. Names that begin with an underscore are
 * asked for by libraries, which mostly only want to know whether they are there. */
static PyObject *ref_getattr(PyObject *ref, PyObject *name)
{
    if (PyUnicode_GET_LENGTH(name) == 6 && is_named(name, "client"))
        return Py_NewRef(((RefObject *)ref)->client);
    PyObject *value = PyObject_GenericGetAttr(ref, name);
    if (value || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return value;
    CoreState *state = PyType_GetModuleState(Py_TYPE(ref));
    PyObject *method = state->ref_methods ? PyDict_GetItemWithError(state->ref_methods, name) : NULL; /* borrowed */
    if (method) {
        PyErr_Clear();
        return PyMethod_New(method, ref);
    }
    if (is_named(name, "_condition") || is_named(name, "_state")) {
        PyErr_Clear();
        PyErr_Format(
            PyExc_AttributeError,
            "an ObjectRef has no %R: wait and as_completed of concurrent.futures take its own futures, [ref.future() "
            "for ref in refs]; cellmesh.wait(refs) and cellmesh.as_completed(refs) take refs as they are",
            name);
    } else if (PyUnicode_READ_CHAR(name, 0) != '_') {
        PyErr_Clear();
        PyErr_Format(PyExc_AttributeError, "an ObjectRef has no attribute %R; " ASK_FOR_VALUE, name);
    }
    return NULL;
}

/* None, sentinels, classes: what is equal to itself alone is no value. */
static bool is_equal_by_identity(PyTypeObject *type)
{
    /* None has a comparison of its own as of Python 3.13. */
    return type == Py_TYPE(Py_None) || !type->tp_richcompare ||
           type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

static PyObject *ref_compare(RefObject *a, PyObject *other, int op)
{
    if (op != Py_EQ && op != Py_NE)
        return refuse_operator((PyObject *)a, other);
    if (Py_TYPE(other) != Py_TYPE(a)) {
        CoreState *state = PyType_GetModuleState(Py_TYPE(a));
        if (state->refs_are_plain || is_equal_by_identity(Py_TYPE(other)))
            Py_RETURN_NOTIMPLEMENTED;
        return refuse_operator((PyObject *)a, other);
    }
    RefObject *b = (RefObject *)other;
    bool equal = a->slot == b->slot && a->generation == b->generation && a->client == b->client;
    return PyBool_FromLong(equal == (op == Py_EQ));
}

/* refs_are_plain(flag) */
PyObject *core_refs_are_plain(PyObject *module, PyObject *flag)
{
    int plain = PyObject_IsTrue(flag);
    if (plain < 0)
        return NULL;
    PyObject *before = PyBool_FromLong(core_state(module)->refs_are_plain);
    core_state(module)->refs_are_plain = plain;
    return before;
}

/* set_ref_methods(functions) */
PyObject *core_set_ref_methods(PyObject *module, PyObject *methods)
{
    if (!PyDict_CheckExact(methods))
        return PyErr_Format(PyExc_TypeError, "expected a dict of functions, not %s", Py_TYPE(methods)->tp_name);
    Py_XSETREF(core_state(module)->ref_methods, Py_NewRef(methods));
    Py_RETURN_NONE;
}

/* ---- a future */

/* `argument`: a second one, or NULL */
static PyObject *call_hook(RefObject *ref, PyObject *hook, PyObject *argument, const char *what)
{
    if (!hook)
        return PyErr_Format(PyExc_RuntimeError,
                            "this ObjectRef cannot %s: only a session has that; of a store on its own, use "
                            "store.get(ref)",
                            what);
    return PyObject_CallFunctionObjArgs(hook, (PyObject *)ref, argument, NULL);
}

static PyObject *ref_await(RefObject *ref)
{
    PyObject *awaitable = call_hook(ref, ref->client->hooks.await_ref, NULL, "be awaited");
    if (!awaitable)
        return NULL;
    PyObject *iterator = PyObject_CallMethod(awaitable, "__await__", NULL);
    Py_DECREF(awaitable);
    return iterator;
}

static PyObject *ref_future(RefObject *ref, PyObject *unused)
{
    (void)unused;
    return call_hook(ref, ref->client->hooks.ref_future, NULL, "become a Future");
}

/* (timeout=None), for `name` */
static int parse_wait(const char *name, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **timeout)
{
    Py_ssize_t n_keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (nargs + n_keywords > 1 || (n_keywords && !is_named(PyTuple_GET_ITEM(kwnames, 0), "timeout"))) {
        PyErr_Format(PyExc_TypeError, "%s(timeout=None) takes a number of seconds and nothing else", name);
        return -1;
    }
    *timeout = nargs + n_keywords ? args[0] : Py_None;
    return 0;
}

static PyObject *ref_result(RefObject *ref, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *timeout;
    if (parse_wait("result", args, nargs, kwnames, &timeout) < 0)
        return NULL;
    return client_get(ref->client, (PyObject *[]){(PyObject *)ref, timeout}, 2, NULL);
}

static PyObject *ref_exception(RefObject *ref, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *timeout;
    return parse_wait("exception", args, nargs, kwnames, &timeout) < 0 ? NULL
                                                                       : client_error_of(ref->client, ref, timeout);
}

/* Its session may have ended: then nothing is waited for. */
static bool is_over(const RefObject *ref)
{
    return ref->client->closed || (ref->client->pid && atomic_load(&ref->client->s.h->closing));
}

static PyObject *ref_done(RefObject *ref, PyObject *unused)
{
    (void)unused;
    return is_over(ref) ? Py_NewRef(Py_True) : client_ready(ref->client, (PyObject *)ref);
}

/* What the core calls its state; "" when the session has ended. */
static PyObject *is_state(RefObject *ref, const char *wanted)
{
    if (is_over(ref))
        Py_RETURN_FALSE;
    PyObject *info = client_info(ref->client, (PyObject *)ref);
    PyObject *state = info ? PyDict_GetItemString(info, "state") : NULL; /* borrowed */
    PyObject *result = info ? PyBool_FromLong(state && is_named(state, wanted)) : NULL;
    Py_XDECREF(info);
    return result;
}

static PyObject *ref_running(RefObject *ref, PyObject *unused)
{
    (void)unused;
    return is_state(ref, "running");
}

static PyObject *ref_cancelled(RefObject *ref, PyObject *unused)
{
    (void)unused;
    return is_state(ref, "cancelled");
}

static PyObject *ref_cancel(RefObject *ref, PyObject *unused)
{
    (void)unused;
    return is_over(ref) ? Py_NewRef(Py_False) : call_hook(ref, ref->client->hooks.cancel_ref, NULL, "be cancelled");
}

static PyObject *ref_add_done_callback(RefObject *ref, PyObject *fn)
{
    return call_hook(ref, ref->client->hooks.add_done_callback, fn, "call back");
}

static PyObject *ref_remove_done_callback(RefObject *ref, PyObject *fn)
{
    return call_hook(ref, ref->client->hooks.remove_done_callback, fn, "call back");
}

static PyObject *ref_mimebundle(RefObject *ref, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    if (!ref->client->hooks.ref_mimebundle)
        Py_RETURN_NONE; /* IPython falls back to repr */
    return PyObject_CallOneArg(ref->client->hooks.ref_mimebundle, (PyObject *)ref);
}

static PyObject *ref_reduce(RefObject *ref, PyObject *unused)
{
    (void)unused;
    PyObject *by_others = ref->client->hooks.reduce_ref;
    return by_others && !codec_is_encoding() ? PyObject_CallOneArg(by_others, (PyObject *)ref)
                                             : codec_reduce_ref((PyObject *)ref);
}

/* It never changes. */
static PyObject *ref_copy(PyObject *ref, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(ref);
}

static PyObject *ref_get_slot(RefObject *ref, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(ref->slot);
}
static PyObject *ref_get_generation(RefObject *ref, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(ref->generation);
}
static PyObject *ref_get_creator(RefObject *ref, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(ref->client->s.objects[ref->slot].creator);
}

#define WITH_KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS

/* Named and meant as in concurrent.futures.Future; the last as in asyncio.Future. */
static PyMethodDef ref_methods[] = {
    {"result", WITH_KEYWORDS(ref_result),
     "result($self, /, timeout=None)\n--\n\nThe value, as cellmesh.get(ref, timeout) gives it: waits for it at most "
     "`timeout` seconds, and raises "
     "what the task\nraised, or GetTimeoutError (a TimeoutError)."},
    {"exception", WITH_KEYWORDS(ref_exception),
     "exception($self, /, timeout=None)\n--\n\nWhat result() would raise, TaskCancelledError included, or None; waits "
     "as that does. The value itself "
     "is not\nfetched."},
    {"done", (PyCFunction)ref_done, METH_NOARGS,
     "done($self, /)\n--\n\nWhether result() returns or raises at once: the task has ended, or the session."},
    {"running", (PyCFunction)ref_running, METH_NOARGS, "running($self, /)\n--\n\nWhether its task runs now."},
    {"cancel", (PyCFunction)ref_cancel, METH_NOARGS,
     "cancel($self, /)\n--\n\nCancel the task, and those it has started, as cellmesh.cancel(ref) does. False: it has "
     "ended, or there is none (put).\nTrue for one that runs too, which may end with its own result if it ignores the "
     "KeyboardInterrupt."},
    {"cancelled", (PyCFunction)ref_cancelled, METH_NOARGS,
     "cancelled($self, /)\n--\n\nWhether it was cancelled, and has ended by that."},
    {"add_done_callback", (PyCFunction)ref_add_done_callback, METH_O,
     "add_done_callback($self, fn, /)\n--\n\nCall fn(ref) when the task has ended, or the session: in a thread of its "
     "own, at once and here if it has ended\nalready. What it raises is logged. asyncio's own callbacks are called in "
     "their event loop."},
    {"remove_done_callback", (PyCFunction)ref_remove_done_callback, METH_O,
     "remove_done_callback($self, fn, /)\n--\n\nForget a callback; how often it had been added."},
    {"hex", (PyCFunction)ref_hex, METH_NOARGS,
     "hex($self, /)\n--\n\nThe object's id, 32 hexadecimal digits, unique in the session."},
    {"future", (PyCFunction)ref_future, METH_NOARGS,
     "future($self, /)\n--\n\nA concurrent.futures.Future that receives the value or the exception, for what takes no "
     "other."},
    {"__format__", (PyCFunction)ref_format, METH_O, NULL},
    {"__round__", (PyCFunction)(void (*)(void))ref_round, METH_VARARGS | METH_KEYWORDS, NULL},
    {"_repr_mimebundle_", (PyCFunction)(void (*)(void))ref_mimebundle, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__reduce__", (PyCFunction)ref_reduce, METH_NOARGS, NULL},
    {"__copy__", ref_copy, METH_NOARGS, NULL},
    {"__deepcopy__", ref_copy, METH_O, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL}};

static PyGetSetDef ref_getset[] = {
    {"_slot", (getter)ref_get_slot, NULL, "Index in the node's object table.", NULL},
    {"_generation", (getter)ref_get_generation, NULL, "How often the slot was reused.", NULL},
    {"creator", (getter)ref_get_creator, NULL,
     "Number of the task that makes it, as in state.list_tasks(); of the put (bit 63).", NULL},
    {NULL}};

static PyType_Slot ref_slots[] = {{Py_tp_doc, "The handle of a value that exists now or later (a future).\n\n"
                                              "Get the value with cellmesh.get(ref), ref.result() or `await ref`. "
                                              "Passing a ref to a task makes the task depend on it."},
                                  {Py_tp_dealloc, ref_dealloc},
                                  {Py_tp_repr, ref_repr},
                                  {Py_tp_hash, ref_hash},
                                  {Py_tp_richcompare, ref_compare},
                                  {Py_tp_methods, ref_methods},
                                  {Py_tp_getset, ref_getset},
                                  {Py_am_await, ref_await},
                                  {Py_tp_getattro, ref_getattr},
                                  {Py_mp_subscript, refuse_operator},
                                  {Py_nb_add, refuse_operator},
                                  {Py_nb_subtract, refuse_operator},
                                  {Py_nb_multiply, refuse_operator},
                                  {Py_nb_true_divide, refuse_operator},
                                  {Py_nb_floor_divide, refuse_operator},
                                  {Py_nb_remainder, refuse_operator},
                                  {Py_nb_matrix_multiply, refuse_operator},
                                  {Py_nb_power, refuse_power},
                                  {Py_nb_negative, refuse_sign},
                                  {Py_nb_positive, refuse_sign},
                                  {Py_nb_absolute, refuse_sign},
                                  {Py_nb_invert, refuse_sign},
                                  {Py_nb_divmod, refuse_operator},
                                  {Py_nb_and, refuse_operator},
                                  {Py_nb_or, refuse_operator},
                                  {Py_nb_xor, refuse_operator},
                                  {Py_nb_lshift, refuse_operator},
                                  {Py_nb_rshift, refuse_operator},
                                  {Py_mp_ass_subscript, refuse_assignment},
                                  {0, NULL}};

PyType_Spec ref_spec = {"cellmesh.ObjectRef", sizeof(RefObject), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, ref_slots};
