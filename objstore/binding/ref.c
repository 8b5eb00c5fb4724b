/* ObjectRef: slot and generation, plus one reference of this process. Making and dropping one costs tens of nanoseconds:
 * a per-process count in private memory, and one bit in the segment for the whole process, given back in batches. */
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
           (o->offset && object_state(o) == OBJECT_READY && (o->u.arena.actor_1 || o->u.arena.n_refs == REFS_OF_STREAM));
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
    snprintf(text, sizeof text, "%016llx%08x%08x", (unsigned long long)ref->client->s.h->session, ref->slot, ref->generation);
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

#define ASK_FOR_VALUE "it stands for a value that a task makes: cellmesh.get(ref) gives that (in a notebook also %fetch), and a task that is " \
                      "given the ref receives it"

static PyObject *refuse_operator(PyObject *a, PyObject *b)
{
    return PyErr_Format(PyExc_TypeError, "an ObjectRef cannot be calculated with, compared by order or indexed (here with %s and %s); "
                        ASK_FOR_VALUE, Py_TYPE(a)->tp_name, Py_TYPE(b)->tp_name);
}

static PyObject *refuse_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    (void)modulus;
    return refuse_operator(a, b);
}

static PyObject *refuse_sign(PyObject *a) { return refuse_operator(a, a); }

/* Names that begin with an underscore are asked for by libraries, which only want to know whether they are there. */
static PyObject *ref_getattr(PyObject *ref, PyObject *name)
{
    PyObject *value = PyObject_GenericGetAttr(ref, name);
    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError) && PyUnicode_READ_CHAR(name, 0) != '_') {
        bool for_asyncio = PyUnicode_CompareWithASCIIString(name, "add_done_callback") == 0;
        PyErr_Clear();
        PyErr_Format(PyExc_AttributeError, "an ObjectRef has no attribute %R; %s", name,
                     for_asyncio ? "asyncio.wait takes futures: asyncio.wait([asyncio.wrap_future(ref.future()) for ref in refs]), or use "
                                   "`async for ref in cellmesh.as_completed(refs)`; gather and wait_for take refs as they are"
                                 : ASK_FOR_VALUE);
    }
    return value;
}

static PyObject *ref_compare(RefObject *a, PyObject *other, int op)
{
    if (op != Py_EQ && op != Py_NE)
        return refuse_operator((PyObject *)a, other);
    if (Py_TYPE(other) != Py_TYPE(a))
        Py_RETURN_NOTIMPLEMENTED;
    RefObject *b = (RefObject *)other;
    bool equal = a->slot == b->slot && a->generation == b->generation && a->client == b->client;
    return PyBool_FromLong(equal == (op == Py_EQ));
}

static PyObject *call_hook(RefObject *ref, PyObject *hook, const char *what)
{
    if (!hook)
        return PyErr_Format(PyExc_RuntimeError, "this ObjectRef cannot %s: only a session has that; of a store on its own, use "
                            "store.get(ref)", what);
    return PyObject_CallOneArg(hook, (PyObject *)ref);
}

static PyObject *ref_await(RefObject *ref)
{
    PyObject *awaitable = call_hook(ref, ref->client->hooks.await_ref, "be awaited");
    if (!awaitable)
        return NULL;
    PyObject *iterator = PyObject_CallMethod(awaitable, "__await__", NULL);
    Py_DECREF(awaitable);
    return iterator;
}

static PyObject *ref_future(RefObject *ref, PyObject *unused)
{
    (void)unused;
    return call_hook(ref, ref->client->hooks.ref_future, "become a Future");
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
    return codec_reduce_ref((PyObject *)ref);
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
static PyObject *ref_get_client(RefObject *ref, void *unused)
{
    (void)unused;
    return Py_NewRef(ref->client);
}

static PyMethodDef ref_methods[] = {
    {"hex", (PyCFunction)ref_hex, METH_NOARGS, "hex()\n--\n\nThe object's id, 32 hexadecimal digits, unique in the session."},
    {"future", (PyCFunction)ref_future, METH_NOARGS,
     "future()\n--\n\nA concurrent.futures.Future that receives the value or the exception."},
    {"_repr_mimebundle_", (PyCFunction)(void (*)(void))ref_mimebundle, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__reduce__", (PyCFunction)ref_reduce, METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL}};

static PyGetSetDef ref_getset[] = {{"slot", (getter)ref_get_slot, NULL, "Index in the node's object table.", NULL},
                                   {"generation", (getter)ref_get_generation, NULL, "How often the slot was reused.", NULL},
                                   {"creator", (getter)ref_get_creator, NULL, "Number of the task that makes it, or of the put (bit 63).", NULL},
                                   {"client", (getter)ref_get_client, NULL, "The client it belongs to.", NULL},
                                   {NULL}};

static PyType_Slot ref_slots[] = {
    {Py_tp_doc, "The handle of a value that exists now or later (a future).\n\n"
                "Get the value with cellmesh.get(ref) or `await ref`. Passing a ref to a task makes the task depend on it."},
    {Py_tp_dealloc, ref_dealloc}, {Py_tp_repr, ref_repr}, {Py_tp_hash, ref_hash}, {Py_tp_richcompare, ref_compare},
    {Py_tp_methods, ref_methods}, {Py_tp_getset, ref_getset}, {Py_am_await, ref_await}, {Py_tp_getattro, ref_getattr},
    {Py_mp_subscript, refuse_operator}, {Py_nb_add, refuse_operator}, {Py_nb_subtract, refuse_operator},
    {Py_nb_multiply, refuse_operator}, {Py_nb_true_divide, refuse_operator}, {Py_nb_floor_divide, refuse_operator},
    {Py_nb_remainder, refuse_operator}, {Py_nb_matrix_multiply, refuse_operator}, {Py_nb_power, refuse_power},
    {Py_nb_negative, refuse_sign}, {0, NULL}};

PyType_Spec ref_spec = {"cellmesh.ObjectRef", sizeof(RefObject), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, ref_slots};
