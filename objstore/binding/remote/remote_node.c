/* Remote node: a client slot that stands for another machine, for the process that speaks with it. Bytes and slots, no
 * values: the process that serves other machines never unpickles. Objects and tasks are named by their slots. The
 * remote node holds what it names, so a slot stays what it is. This file has its life and the table of its methods;
 * each subject has a file. */
#include "clients/remote_node.h"
#include "remote/remote_node.h"

int remote_usable(RemoteNodeObject *p)
{
    if (p->attached)
        return client_usable(p->client);
    PyErr_SetString(PyExc_ValueError, "this remote node has been closed");
    return -1;
}

int parse_slot(RemoteNodeObject *p, PyObject *number, uint32_t *slot)
{
    unsigned long n = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() || remote_usable(p) < 0)
        return -1;
    if (n >= p->s.h->touched_objects || object_state(&p->s.objects[n]) == OBJECT_FREE) {
        PyErr_Format(PyExc_ValueError, "there is no object %lu", n);
        return -1;
    }
    *slot = (uint32_t)n;
    return 0;
}

int parse_running(RemoteNodeObject *p, PyObject *number, uint32_t *task)
{
    unsigned long n = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() || remote_usable(p) < 0)
        return -1;
    if (n >= p->s.h->touched_tasks || atomic_load(&p->s.tasks[n].state) != TASK_RUNNING ||
        p->s.tasks[n].worker != p->s.me) {
        PyErr_Format(PyExc_ValueError, "task %lu does not run on that machine", n);
        return -1;
    }
    *task = (uint32_t)n;
    return 0;
}

uint32_t *parse_slots(RemoteNodeObject *p, PyObject *list, Py_ssize_t n_more, Py_ssize_t *n)
{
    if (remote_usable(p) < 0)
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

static PyObject *remote_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    CoreState *state = core_state(PyType_GetModule(type));
    PyObject *client;
    static char *names[] = {"client", "node", NULL};
    unsigned long long node = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|K:RemoteNode", names, state->client_type, &client, &node))
        return NULL;
    if (client_usable((ClientObject *)client) < 0)
        return NULL;
    RemoteNodeObject *p = (RemoteNodeObject *)type->tp_alloc(type, 0);
    if (!p)
        return NULL;
    p->client = (ClientObject *)Py_NewRef(client);
    int error = remote_attach(&p->s, &p->client->s, (uint32_t)node);
    if (error) {
        raise_core_error(p->client, error, "clients");
        Py_DECREF(p);
        return NULL;
    }
    p->attached = true;
    return (PyObject *)p;
}

/* What runs there is retried, what is referred to from there let go of, what it has begun here ended. */
static PyObject *remote_close(RemoteNodeObject *p, PyObject *code_object)
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

static void remote_dealloc(RemoteNodeObject *p)
{
    PyTypeObject *type = Py_TYPE(p);
    Py_XDECREF(p->client);
    type->tp_free((PyObject *)p);
    Py_DECREF(type);
}

static PyObject *remote_index(RemoteNodeObject *p, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(p->s.me);
}

#define REMOTE(name, function, flags, doc) {name, (PyCFunction)(void (*)(void))function, flags, doc}
static PyMethodDef remote_node_methods[] = {
    REMOTE("close", remote_close, METH_O,
           "close(code, /)\n--\n\nThe machine is gone, or out of reach: reaps its client."),
    REMOTE("take", remote_take_tasks, METH_VARARGS,
           "take(resource_class, most, by_place, /)\n--\n\n[TaskRecord] of up to `most` waiting tasks, `by_place` "
           "those first whose arguments lie there; they run there now."),
    REMOTE("results", remote_results, METH_O, "results(task, /)\n--\n\nThe slots of its results."),
    REMOTE("finish", remote_finish, METH_VARARGS,
           "finish(task, status, pid, began, ended, /)\n--\n\nIts results are sealed. It ran in that process there, "
           "from so many seconds ago until so many seconds ago; pid 0: it is not known."),
    REMOTE("began", remote_began, METH_VARARGS,
           "began(task, pid, ago, /)\n--\n\nIt runs there, in that process, since so many seconds ago."),
    REMOTE("give_back", remote_return_task, METH_O,
           "give_back(task, /)\n--\n\nIt has not begun there; others may take it."),
    REMOTE("cancelled", remote_cancelled, METH_O,
           "cancelled(tasks, /)\n--\n\nThose of them whose results are no longer wanted."),
    REMOTE(
        "submit", remote_submit, METH_VARARGS,
        "submit(function, shape, arguments, refs, n_dependencies, n_returns, max_retries, flags, origin, parent, "
        "actor=None, group=0, stream_limit=-1, placement=0, times=None, /)\n--\n\nSubmits a task of that machine here; "
        "the SubmittedTask."),
    REMOTE("actor", remote_actor, METH_O,
           "actor(object, /)\n--\n\nThe ActorRecord of the actor that an object stands for; None: it is a value."),
    REMOTE("kept", remote_kept, METH_O, "kept(resource_class, /)\n--\n\nThe ClassTerms."),
    REMOTE("shape", remote_shape, METH_O,
           "shape(resource_class, /)\n--\n\nWhat submits tasks of it, as long as there are any."),
    REMOTE(
        "host", remote_host_actor, METH_VARARGS,
        "host(object, spec, function, shape, arguments, refs, n_dependencies, flags, attempt, origin, checkpoint, "
        "placement=0, home=None, /)\n--\n\nBegins an actor of that machine here, or, for which it says what its home "
        "knows, one whose home is here; the SubmittedTask that constructs it. None: the name is taken."),
    REMOTE("stand_in", remote_make_stand_in, METH_VARARGS,
           "stand_in(object, bytes, refs, spec, function, shape, /)\n--\n\nSeals an object, which stands for an actor "
           "of that machine from then on; its index. None: it was sealed already."),
    REMOTE("bind", remote_bind, METH_O, "bind(task, /)\n--\n\nThe constructor has returned there."),
    REMOTE("construction_failed", remote_construction_failed, METH_VARARGS,
           "construction_failed(task, error, /)\n--\n\nThe constructor has raised what that object holds."),
    REMOTE("lose_actor", remote_lose_actor, METH_VARARGS,
           "lose_actor(actor, code, for_good, begun, others, /)\n--\n\nIt has ended there, with these calls of it "
           "begun, and others not."),
    REMOTE("kill", remote_kill_actor, METH_VARARGS,
           "kill(object, no_restart, /)\n--\n\nEnds the actor that the object stands for."),
    REMOTE("calls", remote_calls, METH_VARARGS,
           "calls(actor, most, /)\n--\n\n[TaskRecord] of calls of an actor that lives there; they run there now."),
    REMOTE("checkpoints", remote_checkpoints, METH_O,
           "checkpoints(objects, /)\n--\n\nOf actors' objects: the slot of what each has saved last, -1: nothing."),
    REMOTE("checkpoint", remote_checkpoint, METH_VARARGS,
           "checkpoint(actor, object, /)\n--\n\nWhat it has saved for its next life."),
    REMOTE("stream_limit", remote_stream_limit, METH_O,
           "stream_limit(task, /)\n--\n\nHow far its stream may be ahead of its reader; 0: as far as it likes."),
    REMOTE(
        "item", remote_item, METH_VARARGS,
        "item(task, index, /)\n--\n\nThe slot for an item; ITEM_EXISTS: it is there, ITEM_UNWANTED: it has no reader."),
    REMOTE("taken", remote_taken, METH_VARARGS,
           "taken(task, n, /)\n--\n\nItems that its reader has taken, STREAM_FORSAKEN if it has no reader; wakes this "
           "client when one is taken while `n` are too many."),
    REMOTE("ahead", remote_ahead, METH_VARARGS,
           "ahead(stream, index, /)\n--\n\nThe slot of a sealed item; None: not yet, or never. Wakes this client."),
    REMOTE("advance", remote_advance, METH_VARARGS, "advance(stream, n, /)\n--\n\nItems below `n` have been taken."),
    REMOTE("find_actor", remote_find_actor, METH_VARARGS,
           "find_actor(name, namespace, /)\n--\n\nThe slot of the living actor of that name, or None."),
    REMOTE("actor_news", remote_actor_news, METH_O, "actor_news(actors, /)\n--\n\n[ActorNews] of those with any."),
    REMOTE("host_group", remote_host_group, METH_VARARGS,
           "host_group(bundles, object, /)\n--\n\nReserves bundles for a group of that machine, which the object "
           "describes; its number here."),
    REMOTE("bundle", remote_bundle, METH_O,
           "bundle(task, /)\n--\n\nThe TaskBundle of a task that runs in one, or None."),
    REMOTE("block", remote_block, METH_O,
           "block(task, /)\n--\n\nIt waits there, and in its bundle others may run meanwhile."),
    REMOTE("withdraw", remote_withdraw, METH_VARARGS,
           "withdraw(task, number, /)\n--\n\nA task that was submitted by this machine will not begin. False: it has."),
    REMOTE("cancel", remote_cancel, METH_VARARGS, "cancel(result, force, /)\n--\n\nEnds the task that makes it."),
    REMOTE("create", remote_create, METH_NOARGS,
           "create()\n--\n\nThe slot of an object that is to come, held for this machine."),
    REMOTE("seal", remote_seal, METH_VARARGS,
           "seal(object, state, bytes, refs, in_arena=False, /)\n--\n\nFalse: it was sealed already."),
    REMOTE("seal_failed", remote_seal_failed, METH_VARARGS,
           "seal_failed(object, code, detail, /)\n--\n\nFalse: it was sealed already."),
    REMOTE("seal_remote", remote_seal_remote, METH_VARARGS,
           "seal_remote(object, size, /)\n--\n\nIts bytes stay on that machine until they are read."),
    REMOTE("move", remote_move, METH_VARARGS,
           "move(object, lost, /)\n--\n\nWhat lies there is brought by this client; `lost`: by none."),
    REMOTE("inspect", remote_inspect, METH_O,
           "inspect(object, /)\n--\n\nThe ObjectRecord; TypeError: it stays on its machine."),
    REMOTE(
        "shared_error", remote_shared_error, METH_O,
        "shared_error(object, /)\n--\n\nAn error, encoded, in the place of a shared object; None: it is not shared."),
    REMOTE("read", remote_read, METH_VARARGS, "read(object, at, n, /)\n--\n\nSome of its bytes."),
    REMOTE("hold", remote_hold, METH_VARARGS, "hold(object, generation, /)\n--\n\nFalse: it has gone."),
    REMOTE("generation", remote_generation, METH_O, "generation(object, /)\n--\n\nWith its slot, its identity."),
    REMOTE("drop", remote_drop, METH_O, "drop(objects, /)\n--\n\nThe machine refers to them no more."),
    REMOTE("await_sealed", remote_await, METH_O,
           "await_sealed(object, /)\n--\n\nAsks for a wake-up; False: it is sealed."),
    REMOTE("sealed", remote_sealed, METH_O, "sealed(objects, /)\n--\n\nThose that are."),
    REMOTE("unused", remote_unused, METH_O, "unused(objects, /)\n--\n\nThose to which only this machine refers."),
    REMOTE("wanted", remote_wanted, METH_O,
           "wanted(objects, /)\n--\n\nThose that are remote and that a process wants to read."),
    REMOTE("begin", remote_begin, METH_VARARGS,
           "begin(object, makes_room=True, /)\n--\n\nMemory for what lies there; 0: it needs none. Without "
           "`makes_room` nothing is offloaded for it: 0, too, if there is none."),
    REMOTE("fill", remote_fill, METH_VARARGS, "fill(object, memory, at, bytes, /)\n--\n\nSome of its bytes have come."),
    REMOTE("peek", remote_peek, METH_VARARGS,
           "peek(object, memory, at, n, /)\n--\n\nSome of the bytes that have come."),
    REMOTE("transfer", remote_transfer, METH_VARARGS,
           "transfer(object, size, number, comes, /)\n--\n\nFor the record: its bytes begin to travel, from there to "
           "here or the other way."),
    REMOTE("transferred", remote_transferred, METH_VARARGS,
           "transferred(object, number, comes, complete, /)\n--\n\nFor the record: they have arrived, or will not."),
    REMOTE("end", remote_end, METH_VARARGS,
           "end(object, memory, complete, /)\n--\n\nIt is here now, or will not come."),
    {NULL}};
static PyGetSetDef remote_getset[] = {{"index", (getter)remote_index, NULL, "Its client slot.", NULL}, {NULL}};
static PyType_Slot remote_slots[] = {
    {Py_tp_new, (void *)remote_new},
    {Py_tp_dealloc, (void *)remote_dealloc},
    {Py_tp_methods, remote_node_methods},
    {Py_tp_getset, remote_getset},
    {Py_tp_doc, "RemoteNode(client, node=0)\n--\n\nA client that stands for another machine, the one of that number."},
    {0, NULL}};
PyType_Spec remote_spec = {"cellmesh.objstore._core.RemoteNode", sizeof(RemoteNodeObject), 0, Py_TPFLAGS_DEFAULT,
                           remote_slots};
