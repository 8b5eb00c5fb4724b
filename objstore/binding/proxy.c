/* Proxy: a client slot that stands for another machine, for the process that speaks with it. Bytes and slots, no
 * values: whoever serves other machines never unpickles. Objects and tasks are named by their slots; the proxy holds
 * what it names, so they stay what they are. Here: its life, and the list of what it can do, each subject elsewhere. */
#include "../core/proxy.h"
#include "proxy_object.h"

int proxy_usable(ProxyObject *p)
{
    if (p->attached)
        return client_usable(p->client);
    PyErr_SetString(PyExc_ValueError, "this machine's proxy has been closed");
    return -1;
}

int parse_slot(ProxyObject *p, PyObject *number, uint32_t *slot)
{
    unsigned long n = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() || proxy_usable(p) < 0)
        return -1;
    if (n >= p->s.h->touched_objects || object_state(&p->s.objects[n]) == OBJECT_FREE) {
        PyErr_Format(PyExc_ValueError, "there is no object %lu", n);
        return -1;
    }
    *slot = (uint32_t)n;
    return 0;
}

int parse_running(ProxyObject *p, PyObject *number, uint32_t *task)
{
    unsigned long n = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() || proxy_usable(p) < 0)
        return -1;
    if (n >= p->s.h->touched_tasks || atomic_load(&p->s.tasks[n].state) != TASK_RUNNING ||
        p->s.tasks[n].worker != p->s.me) {
        PyErr_Format(PyExc_ValueError, "task %lu does not run on that machine", n);
        return -1;
    }
    *task = (uint32_t)n;
    return 0;
}

uint32_t *parse_slots(ProxyObject *p, PyObject *list, Py_ssize_t n_more, Py_ssize_t *n)
{
    if (proxy_usable(p) < 0)
        return NULL;
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "expected a list of slots");
        return NULL;
    }
    *n = PyList_GET_SIZE(list);
    uint32_t *slots = PyMem_New(uint32_t, (size_t)(*n + n_more + 1));
    if (!slots)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; slots && i < *n; i++)
        if (parse_slot(p, PyList_GET_ITEM(list, i), &slots[i]) < 0) {
            PyMem_Free(slots);
            return NULL;
        }
    return slots;
}

PyObject *list_of(const uint32_t *slots, Py_ssize_t n)
{
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *number = PyLong_FromUnsignedLong(slots[i]);
        if (!number)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, number);
    }
    return list;
}

/* ------------------------------------------------------------------ life */

static PyObject *proxy_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    CoreState *state = core_state(PyType_GetModule(type));
    PyObject *client;
    static char *names[] = {"client", "node", NULL};
    unsigned long long node = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|K:Proxy", names, state->client_type, &client, &node))
        return NULL;
    if (client_usable((ClientObject *)client) < 0)
        return NULL;
    ProxyObject *p = (ProxyObject *)type->tp_alloc(type, 0);
    if (!p)
        return NULL;
    p->client = (ClientObject *)Py_NewRef(client);
    int error = proxy_attach(&p->s, &p->client->s, (uint32_t)node);
    if (error) {
        raise_core_error(p->client, error, "clients");
        Py_DECREF(p);
        return NULL;
    }
    p->attached = true;
    return (PyObject *)p;
}

/* What runs there is retried, what is referred to from there let go of, what it has begun here ended. */
static PyObject *proxy_close(ProxyObject *p, PyObject *code_object)
{
    long code = PyLong_AsLong(code_object);
    if (PyErr_Occurred())
        return NULL;
    if (!p->attached)
        Py_RETURN_NONE;
    p->attached = false;
    struct segment *s = &p->client->s;
    uint32_t index = p->s.me;
    if (p->client->pid) {
        Py_BEGIN_ALLOW_THREADS
        client_died(s, index, (int32_t)code);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static void proxy_dealloc(ProxyObject *p)
{
    PyTypeObject *type = Py_TYPE(p);
    Py_XDECREF(p->client);
    type->tp_free((PyObject *)p);
    Py_DECREF(type);
}

static PyObject *proxy_index(ProxyObject *p, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(p->s.me);
}

#define PROXY(name, function, flags, doc) {name, (PyCFunction)(void (*)(void))function, flags, doc}
static PyMethodDef proxy_methods[] = {
    PROXY("close", proxy_close, METH_O, "close(code)\n--\n\nThe machine is gone, or out of reach: buries its client."),
    PROXY("take", proxy_take_tasks, METH_VARARGS,
          "take(resource_class, most, by_place)\n--\n\n[(task, number, class, function, arguments, refs, "
          "n_dependencies, n_returns, max_retries, flags, attempt, origin, parent, actor, actor's object, group)]; "
          "they run there now."),
    PROXY("results", proxy_results, METH_O, "results(task)\n--\n\nThe slots of its results."),
    PROXY("finish", proxy_finish, METH_VARARGS,
          "finish(task, status, pid, began, ended)\n--\n\nIts results are sealed. It ran in that process there, from "
          "so many seconds ago until so many seconds ago; pid 0: nobody knows."),
    PROXY("began", proxy_began, METH_VARARGS,
          "began(task, pid, ago)\n--\n\nIt runs there, in that process, since so many seconds ago."),
    PROXY("give_back", proxy_return_task, METH_O, "give_back(task)\n--\n\nIt has not begun there; others may take it."),
    PROXY("cancelled", proxy_cancelled, METH_O, "cancelled(tasks)\n--\n\nThose of them that nobody wants any more."),
    PROXY("submit", proxy_submit, METH_VARARGS,
          "submit(function, shape, arguments, refs, n_dependencies, n_returns, max_retries, flags, origin, parent, "
          "actor=None, group=0, limit of its stream=-1, placement group=0)\n--\n\n(task, number, results, stream or -1)."),
    PROXY("actor", proxy_actor, METH_O,
          "actor(object)\n--\n\n(actor, state, detail of its death, whether it died for good, spec, checkpoint or -1); "
          "None: it is a value."),
    PROXY("kept", proxy_kept, METH_O,
          "kept(resource_class)\n--\n\n({name: ten-thousandths} that an actor keeps once constructed, environment)."),
    PROXY("shape", proxy_shape, METH_O, "shape(resource_class)\n--\n\nWhat submits tasks of it, as long as there are any."),
    PROXY("host", proxy_host_actor, METH_VARARGS,
          "host(object, spec, function, shape, arguments, refs, n_dependencies, flags, attempt, origin, checkpoint, placement group=0)\n"
          "--\n\nBegins an actor of theirs here: (task, number, results)."),
    PROXY("stand_in", proxy_make_stand_in, METH_VARARGS,
          "stand_in(object, bytes, refs, spec, function, shape)\n--\n\n"
          "Seals an object, which stands for an actor of theirs from then on; its index. None: it was sealed already."),
    PROXY("bind", proxy_bind, METH_O, "bind(task)\n--\n\nThe constructor has returned there."),
    PROXY("construction_failed", proxy_construction_failed, METH_O,
          "construction_failed(task)\n--\n\nThe constructor has raised; its result tells what."),
    PROXY("lose_actor", proxy_lose_actor, METH_VARARGS,
          "lose_actor(actor, code, for_good, begun, others)\n--\n\n"
          "It has ended there, with these calls of it begun, and others not."),
    PROXY("kill", proxy_kill_actor, METH_VARARGS,
          "kill(object, no_restart)\n--\n\nEnds the actor that the object stands for."),
    PROXY("calls", proxy_calls, METH_VARARGS,
          "calls(actor, most)\n--\n\nCalls of an actor that lives there, as `take` tells of tasks."),
    PROXY("checkpoints", proxy_checkpoints, METH_O,
          "checkpoints(actors' objects)\n--\n\nThe slot of what each has saved last, -1: nothing."),
    PROXY("checkpoint", proxy_checkpoint, METH_VARARGS,
          "checkpoint(actor, object)\n--\n\nWhat it has saved for its next life."),
    PROXY("stream_limit", proxy_stream_limit, METH_O,
          "stream_limit(task)\n--\n\nHow far its stream may be ahead of its reader; 0: as far as it likes."),
    PROXY("item", proxy_item, METH_VARARGS,
          "item(task, index)\n--\n\nThe slot for an item; -1: it is there, -2: nobody reads on."),
    PROXY("taken", proxy_taken, METH_VARARGS,
          "taken(task, n)\n--\n\n"
          "Items that its reader has taken, 2**63 - 1 if nobody reads on; wakes this proxy when one is taken while `n` "
          "are too many."),
    PROXY("ahead", proxy_ahead, METH_VARARGS,
          "ahead(stream, index)\n--\n\nThe slot of a sealed item; None: not yet, or never. Wakes this proxy."),
    PROXY("advance", proxy_advance, METH_VARARGS, "advance(stream, n)\n--\n\nItems below `n` have been taken."),
    PROXY("find_actor", proxy_find_actor, METH_VARARGS,
          "find_actor(name, namespace)\n--\n\nThe slot of the living actor of that name, or None."),
    PROXY("actor_news", proxy_actor_news, METH_O,
          "actor_news(actors)\n--\n\n"
          "[(actor, has calls, has ended, is to be killed, for good)] of those with any of it."),
    PROXY("host_group", proxy_host_group, METH_VARARGS,
          "host_group(bundles, object)\n--\n\nPuts bundles aside for a group of theirs, which the object describes; its number here."),
    PROXY("bundle", proxy_bundle, METH_O, "bundle(task)\n--\n\n(number of the group, bundle, whether it captures) of a task that runs in one, or None."),
    PROXY("block", proxy_block, METH_O, "block(task)\n--\n\nIt waits there, and in its bundle others may run meanwhile."),
    PROXY("withdraw", proxy_withdraw, METH_VARARGS,
          "withdraw(task, number)\n--\n\nA task that this proxy has submitted will not begin. False: it has."),
    PROXY("cancel", proxy_cancel, METH_VARARGS, "cancel(result, force)\n--\n\nEnds the task that makes it."),
    PROXY("create", proxy_create, METH_NOARGS, "create()\n--\n\nAn object that is to come, held by this proxy."),
    PROXY("seal", proxy_seal, METH_VARARGS,
          "seal(object, state, bytes, refs, in_arena=False)\n--\n\nFalse: it was sealed already."),
    PROXY("seal_failed", proxy_seal_failed, METH_VARARGS,
          "seal_failed(object, code, detail)\n--\n\nFalse: it was sealed already."),
    PROXY("seal_elsewhere", proxy_seal_elsewhere, METH_VARARGS,
          "seal_elsewhere(object, size)\n--\n\nIts bytes stay on that machine until they are read."),
    PROXY("move", proxy_move, METH_VARARGS,
          "move(object, lost)\n--\n\nWhat lies elsewhere is brought by this proxy, or by nobody any more."),
    PROXY("look", proxy_look, METH_O,
          "look(object)\n--\n\n(state, size, refs, failure code, failure detail, place: 0 here, 1 elsewhere, 2 lost, "
          "whether it is an actor)."),
    PROXY("read", proxy_read, METH_VARARGS, "read(object, at, n)\n--\n\nSome of its bytes."),
    PROXY("hold", proxy_hold, METH_VARARGS, "hold(object, generation)\n--\n\nFalse: it has gone."),
    PROXY("generation", proxy_generation, METH_O, "generation(object)\n--\n\nWith its slot, its identity."),
    PROXY("drop", proxy_drop, METH_O, "drop(objects)\n--\n\nThe machine refers to them no more."),
    PROXY("await_sealed", proxy_await, METH_O, "await_sealed(object)\n--\n\nAsks for a wake-up; False: it is sealed."),
    PROXY("sealed", proxy_sealed, METH_O, "sealed(objects)\n--\n\nThose that are."),
    PROXY("unused", proxy_unused, METH_O, "unused(objects)\n--\n\nThose that nobody but this proxy refers to."),
    PROXY("wanted", proxy_wanted, METH_O,
          "wanted(objects)\n--\n\nThose that lie elsewhere and that somebody wants to read."),
    PROXY("begin", proxy_begin, METH_VARARGS,
          "begin(object, makes_room=True)\n--\n\nMemory for what lies elsewhere; 0: it needs none. Without "
          "`makes_room` nothing goes to disk for it: 0, too, if there is none."),
    PROXY("fill", proxy_fill, METH_VARARGS, "fill(object, memory, at, bytes)\n--\n\nSome of its bytes have come."),
    PROXY("peek", proxy_peek, METH_VARARGS, "peek(object, memory, at, n)\n--\n\nSome of the bytes that have come."),
    PROXY("transfer", proxy_transfer, METH_VARARGS,
          "transfer(object, size, number, comes)\n--\n\n"
          "For the record: its bytes begin to travel, from there to here or the other way."),
    PROXY("transferred", proxy_transferred, METH_VARARGS,
          "transferred(object, number, comes, complete)\n--\n\nFor the record: they have arrived, or will not."),
    PROXY("end", proxy_end, METH_VARARGS, "end(object, memory, complete)\n--\n\nIt is here now, or will not come."),
    {NULL}};
static PyGetSetDef proxy_getset[] = {{"index", (getter)proxy_index, NULL, "Its client slot.", NULL}, {NULL}};
static PyType_Slot proxy_slots[] = {
    {Py_tp_new, (void *)proxy_new},
    {Py_tp_dealloc, (void *)proxy_dealloc},
    {Py_tp_methods, proxy_methods},
    {Py_tp_getset, proxy_getset},
    {Py_tp_doc, "Proxy(client, node=0)\n--\n\nA client that stands for another machine, the one of that number."},
    {0, NULL}};
PyType_Spec proxy_spec = {"cellmesh.objstore._core.Proxy", sizeof(ProxyObject), 0, Py_TPFLAGS_DEFAULT, proxy_slots};
