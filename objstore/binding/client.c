/* Client: this process's attachment to a segment. */
#include "binding.h"

#include <errno.h>
#include <signal.h>
#include <structmember.h>
#include <sys/mman.h>
#include <unistd.h>

PyObject *raise_store_error(ClientObject *c, const char *code, const char *detail)
{
    PyObject *error = c->hooks.store_error ? PyObject_CallFunction(c->hooks.store_error, "ss", code, detail)
                                           : PyObject_CallFunction(c->store_error_type, "s", detail);
    if (!error)
        return NULL;
    if (PyObject_HasAttrString(error, "__dict__") && !c->hooks.store_error) {
        PyObject *text = PyUnicode_FromString(code);
        if (!text || PyObject_SetAttrString(error, "code", text) < 0)
            PyErr_Clear(); /* the message says it too */
        Py_XDECREF(text);
    }
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
    return NULL;
}

PyObject *raise_core_error(ClientObject *c, int error, const char *what)
{
    static const char *const codes[] = {"ok", "full", "corrupt", "invalid", "limit", "closed", "timeout", "system", "exists", "not_found", "pending"};
    char text[256];
    int i = -error;
    if (error == OBJSTORE_LIMIT) /* which says how large that table is, and what helps */
        return raise_store_error(c, "limit", what);
    snprintf(text, sizeof text, "%s: %s", objstore_error_text(error), what);
    if (error == OBJSTORE_EXISTS) {
        PyErr_SetString(PyExc_ValueError, "an actor of that name is alive already");
        return NULL;
    }
    return raise_store_error(c, i > 0 && i < (int)(sizeof codes / sizeof *codes) ? codes[i] : "unknown", text);
}

int client_usable(ClientObject *c)
{
    if (c->closed)
        raise_store_error(c, "closed", "the session has been shut down");
    else if (!c->pid)
        raise_store_error(c, "forked", "this process was forked from one that uses cellmesh; start its own session instead");
    else if (atomic_load_explicit(&c->s.h->corrupt, memory_order_relaxed))
        raise_store_error(c, "corrupt", "something has overwritten the object store's memory (an array written out of bounds, for "
                          "example), so the session has ended");
    else if (atomic_load_explicit(&c->s.h->closing, memory_order_relaxed))
        raise_store_error(c, "closed", "the session has ended");
    else
        return 0;
    return -1;
}

int32_t pid_of_worker(const struct segment *s, uint32_t worker)
{
    return client_at(s, worker)->role == ROLE_PROXY ? 0 : atomic_load(&client_at(s, worker)->pid);
}

int32_t signal_worker(struct segment *s, uint32_t worker, int number)
{
    if (client_at(s, worker)->role != ROLE_PROXY)
        return client_signal_worker(s, worker, number);
    wake_client(s, worker);
    return 0;
}

int end_look(ClientObject *c, bool sound)
{
    if (!sound)
        segment_condemn(&c->s);
    segment_unlock(&c->s);
    return sound ? 0 : client_usable(c);
}

int lock_to_look(ClientObject *c)
{
    if (client_usable(c) < 0)
        return -1;
    segment_lock(&c->s);
    return header_is_safe(&c->s) ? 0 : end_look(c, false);
}

void flush_drops(ClientObject *c)
{
    uint32_t gone[DROP_BUFFER], n = 0;
    for (uint32_t i = 0; i < c->n_drops; i++) {
        uint32_t slot = c->drops[i];
        c->local[slot] &= ~LOCAL_BUFFERED;
        if (c->local[slot] == 0) /* else it was taken again meanwhile */
            gone[n++] = slot;
    }
    c->n_drops = 0;
    if (n && c->pid)
        client_drop(&c->s, gone, n);
}

/* ------------------------------------------------------------------ life */

static int load_hooks(ClientObject *c, PyObject *hooks)
{
    static const struct { const char *name; size_t offset; } names[] = {
        {"pickle", offsetof(Hooks, pickle)}, {"unpickle", offsetof(Hooks, unpickle)},
        {"load_function", offsetof(Hooks, load_function)}, {"load_method", offsetof(Hooks, load_method)},
        {"error_value", offsetof(Hooks, error_value)}, {"make_error", offsetof(Hooks, make_error)},
        {"timeout_error", offsetof(Hooks, timeout_error)}, {"store_error", offsetof(Hooks, store_error)},
        {"should_retry", offsetof(Hooks, should_retry)}, {"enter_task", offsetof(Hooks, enter_task)},
        {"leave_task", offsetof(Hooks, leave_task)}, {"await_ref", offsetof(Hooks, await_ref)},
        {"ref_future", offsetof(Hooks, ref_future)}, {"ref_mimebundle", offsetof(Hooks, ref_mimebundle)},
        {"make_stream", offsetof(Hooks, make_stream)}, {"iterate", offsetof(Hooks, iterate)},
        {"waits_long", offsetof(Hooks, waits_long)}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        PyObject *hook = PyObject_GetAttrString(hooks, names[i].name);
        if (!hook && !PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        *(PyObject **)((char *)&c->hooks + names[i].offset) = hook == Py_None ? NULL : hook;
    }
    c->codec.pickle = c->hooks.pickle;
    c->codec.unpickle = c->hooks.unpickle;
    return 0;
}

static PyObject *client_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fd", "role", "hooks", NULL};
    int fd;
    unsigned int role;
    PyObject *hooks;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iIO:Client", names, &fd, &role, &hooks))
        return NULL;
    CoreState *state = core_state(PyType_GetModule(type));
    ClientObject *c = (ClientObject *)type->tp_alloc(type, 0);
    if (!c)
        return NULL;
    c->store_error_type = Py_NewRef(state->store_error);
    c->codec.ref_type = state->ref_type;
    c->codec.ref_slot = ref_slot;
    c->codec.damaged = tell_damage;
    c->codec.ctx = c;
    c->closed = true;
    if (load_hooks(c, hooks) < 0)
        goto failed;
    int error = segment_map(&c->s, fd);
    if (!error)
        error = client_attach(&c->s, role);
    if (error) {
        if (error == OBJSTORE_SYSTEM)
            PyErr_SetFromErrno(PyExc_OSError);
        else
            raise_core_error(c, error, error == OBJSTORE_LIMIT ? "clients" : "attach");
        goto failed;
    }
    c->local = mmap(NULL, (size_t)c->s.n_objects * sizeof *c->local, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    c->functions = PyMem_Calloc(FUNCTION_CACHE, sizeof *c->functions);
    c->views = mmap(NULL, (size_t)c->s.n_objects * sizeof *c->views, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c->local == MAP_FAILED || c->views == MAP_FAILED || !c->functions || !copy_init(c)) {
        PyErr_NoMemory();
        goto failed;
    }
    c->pid = (int)getpid();
    c->trust = TRUST_MAX;
    c->closed = false;
    forked_watch(c);
    return (PyObject *)c;
failed:
    Py_DECREF(c);
    return NULL;
}

static void clear_functions(ClientObject *c)
{
    for (uint32_t i = 0; c->functions && i < FUNCTION_CACHE; i++)
        forget_function(&c->functions[i]);
}

static int client_clear(ClientObject *c)
{
    PyObject **hooks = (PyObject **)&c->hooks;
    for (size_t i = 0; i < sizeof c->hooks / sizeof *hooks; i++)
        Py_CLEAR(hooks[i]);
    c->codec.pickle = c->codec.unpickle = NULL;
    Py_CLEAR(c->instance);
    Py_CLEAR(c->call_variable);
    clear_functions(c);
    return 0;
}

static int client_traverse(ClientObject *c, visitproc visit, void *arg)
{
    PyObject **hooks = (PyObject **)&c->hooks;
    Py_VISIT(Py_TYPE(c));
    for (size_t i = 0; i < sizeof c->hooks / sizeof *hooks; i++)
        Py_VISIT(hooks[i]);
    Py_VISIT(c->instance);
    Py_VISIT(c->call_variable);
    for (uint32_t i = 0; c->functions && i < FUNCTION_CACHE; i++)
        Py_VISIT(c->functions[i].callable);
    return 0;
}

/* Refs, and the views that hold them, keep the client and with it the mapping alive after close. */
static PyObject *client_close(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (!c->closed && c->pid) {
        flush_drops(c);
        bell_end(c);
    }
    c->closed = true;
    Py_CLEAR(c->instance);
    Py_CLEAR(c->call_variable);
    clear_functions(c);
    Py_RETURN_NONE;
}

static void client_dealloc(ClientObject *c)
{
    PyTypeObject *type = Py_TYPE(c);
    PyObject_GC_UnTrack(c);
    c->closed = true;
    if (c->pid)
        bell_end(c);
    forked_forget(c);
    if (c->weakrefs)
        PyObject_ClearWeakRefs((PyObject *)c);
    client_clear(c);
    Py_XDECREF(c->store_error_type);
    PyMem_Free(c->functions);
    if (c->local && c->local != MAP_FAILED)
        munmap(c->local, (size_t)c->s.n_objects * sizeof *c->local);
    if (c->views && c->views != MAP_FAILED)
        munmap(c->views, (size_t)c->s.n_objects * sizeof *c->views);
    PyMem_Free(c->mapped);
    segment_unmap(&c->s);
    type->tp_free((PyObject *)c);
    Py_DECREF(type);
}

/* ------------------------------------------------------------------ objects and actors */

static PyObject *client_put(ClientObject *c, PyObject *value)
{
    uint32_t slot;
    return client_usable(c) < 0 ? NULL : put_value(c, value, &slot, EVENT_BY_PUT, false);
}

static PyObject *client_put_argument(ClientObject *c, PyObject *value)
{
    uint32_t slot;
    return client_usable(c) < 0 ? NULL : put_value(c, value, &slot, EVENT_AS_ARGUMENT, false);
}

static PyObject *client_flush(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    flush_drops(c);
    Py_RETURN_NONE;
}

static PyObject *client_get_actor(ClientObject *c, PyObject *args)
{
    const char *name, *scope;
    uint32_t actor, object_1 = 0;
    if (!PyArg_ParseTuple(args, "ss:get_actor", &name, &scope) || lock_to_look(c) < 0)
        return NULL;
    if (actor_find(&c->s, actor_name_hash(name, scope), &actor) == OBJSTORE_OK && (object_1 = actor_at(&c->s, actor)->object_1))
        object_hold(&c->s, object_1 - 1);
    segment_unlock(&c->s);
    if (!object_1)
        Py_RETURN_NONE;
    return ref_new(c, object_1 - 1, true);
}

static uint32_t actor_in(const struct object_slot *o)
{
    return o->offset ? o->u.arena.actor_1 : 0;
}

uint32_t actor_of_ref(ClientObject *c, PyObject *ref)
{
    if (!is_ref(c, ref))
        return 0;
    const struct object_slot *o = &c->s.objects[((RefObject *)ref)->slot];
    uint32_t actor_1 = actor_in(o);
    if (!actor_1 && lock_to_look(c) == 0) {
        /* It may have been sealed this moment, by whoever makes an actor of it in one step under the lock. */
        actor_1 = actor_in(o);
        segment_unlock(&c->s);
    }
    return actor_1 <= c->s.n_actors ? actor_1 : 0;
}

static int parse_actor(ClientObject *c, PyObject *ref, uint32_t *actor)
{
    uint32_t actor_1 = actor_of_ref(c, ref);
    if (actor_1) {
        *actor = actor_1 - 1;
        return 0;
    }
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "expected the ObjectRef of an actor");
    return -1;
}

static PyObject *client_actor_state(ClientObject *c, PyObject *ref)
{
    static const char *const names[] = {"free", "pending", "alive", "restarting", "dead"};
    uint32_t actor;
    if (client_usable(c) < 0 || parse_actor(c, ref, &actor) < 0)
        return NULL;
    return PyUnicode_FromString(names[atomic_load(&actor_at(&c->s, actor)->state) % 5]);
}

static PyObject *client_kill_actor(ClientObject *c, PyObject *args)
{
    PyObject *ref;
    int no_restart;
    uint32_t actor;
    if (client_usable(c) < 0 || !PyArg_ParseTuple(args, "Op:kill_actor", &ref, &no_restart) || parse_actor(c, ref, &actor) < 0)
        return NULL;
    segment_lock(&c->s);
    uint32_t client = actor_kill(&c->s, actor, no_restart);
    int32_t pid = client == UINT32_MAX ? 0 : atomic_load(&client_at(&c->s, client)->pid);
    if (pid > 0 && pid != c->pid) /* whoever ends its own actor leaves by itself: here it would die inside the lock */
        client_signal_worker(&c->s, client, SIGKILL);
    segment_unlock(&c->s);
    return PyLong_FromLong(pid);
}

/* False: no client has that pid, or another process has it by now. */
static PyObject *client_signal(ClientObject *c, PyObject *args)
{
    int pid, number;
    bool sent = false;
    if (client_usable(c) < 0 || !PyArg_ParseTuple(args, "ii:signal", &pid, &number))
        return NULL;
    for (uint32_t i = 0; pid > 0 && i < MAX_CLIENTS; i++)
        if (atomic_load(&c->s.clients[i].pid) == pid && atomic_load(&c->s.clients[i].state) == CLIENT_ATTACHED)
            sent |= process_signal(pid, atomic_load(&c->s.clients[i].start_time), number) != PROCESS_ENDED;
    return PyBool_FromLong(sent);
}

static PyObject *client_cancel(ClientObject *c, PyObject *args)
{
    static const char *const names[] = {"finished", "pending", "running", "put"};
    PyObject *ref;
    int force;
    if (client_usable(c) < 0 || !PyArg_ParseTuple(args, "O!p:cancel", c->codec.ref_type, &ref, &force))
        return NULL;
    if (lock_to_look(c) < 0)
        return NULL;
    uint32_t task = 0, worker = UINT32_MAX, producer = task_producing(&c->s, ((RefObject *)ref)->slot);
    if (producer != UINT32_MAX && !slot_is_safe(&c->s, SLOT_TASK, producer) && end_look(c, false) < 0)
        return NULL;
    enum cancel_outcome outcome = task_cancel(&c->s, ((RefObject *)ref)->slot, &task, &worker);
    const struct task_slot *t = task_at(&c->s, task);
    bool call = outcome == CANCEL_RUNNING && t->actor_1 && !(t->flags & TASK_FLAG_ACTOR_CREATION);
    const struct actor_slot *a = call ? actor_at(&c->s, t->actor_1 - 1) : NULL;
    bool concurrent = a && (a->max_concurrency > 1 || !(a->flags & ACTOR_FLAG_ORDERED));
    int32_t pid = 0;
    if (outcome == CANCEL_RUNNING && worker < MAX_CLIENTS) /* its handler looks at the flags (an asynchronous actor's: which coroutines are meant) */
        pid = signal_worker(&c->s, worker, force && !call ? SIGKILL : SIGINT);
    segment_unlock(&c->s);
    uint64_t creator = c->s.objects[((RefObject *)ref)->slot].creator;
    return Py_BuildValue("(siK)", concurrent ? "actor" : names[outcome], (int)pid, (unsigned long long)creator);
}

/* ------------------------------------------------------------------ resources */

static PyObject *client_set_total(ClientObject *c, PyObject *total)
{
    int64_t amounts[MAX_KINDS];
    if (!PyDict_Check(total))
        return PyErr_Format(PyExc_TypeError, "set_total expects a dict");
    if (client_usable(c) < 0 || parse_amounts(c, total, amounts) < 0)
        return NULL;
    segment_lock(&c->s);
    resource_set_total(&c->s, amounts);
    task_wake_workers(&c->s);
    segment_unlock(&c->s);
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ the scheduler's side */

static PyObject *client_workers_wanted(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (lock_to_look(c) < 0)
        return NULL;
    uint32_t n = task_workers_wanted(&c->s);
    segment_unlock(&c->s);
    return PyLong_FromUnsignedLong(n);
}

static PyObject *client_next_demand(ClientObject *c, PyObject *timeout_object)
{
    double timeout;
    if (client_usable(c) < 0 || parse_timeout(timeout_object, &timeout) < 0)
        return NULL;
    struct segment *s = &c->s;
    int64_t ns = timeout < 0 ? -1 : (int64_t)(timeout * 1e9);
    uint32_t seen = client_inbox(s);
    if (!atomic_load(&s->h->attention)) {
        Py_BEGIN_ALLOW_THREADS
        client_sleep(s, seen, ns, NULL);
        Py_END_ALLOW_THREADS
    }
    if (PyErr_CheckSignals() < 0)
        return NULL;
    return PyBool_FromLong(atomic_exchange(&s->h->attention, 0) != 0);
}

static PyObject *client_client_died(ClientObject *c, PyObject *args)
{
    unsigned int index;
    int code;
    if (client_usable(c) < 0 || !PyArg_ParseTuple(args, "Ii:client_died", &index, &code))
        return NULL;
    struct client_losses l = client_died(&c->s, index, code);
    if (placement_end_doomed(c) < 0) /* of groups that went with it */
        return NULL;
    return Py_BuildValue("{sIsIsIsO}", "retried", l.retried, "failed", l.failed, "objects", l.objects, "actor_restarts",
                         l.actor_restarts ? Py_True : Py_False);
}

static PyObject *client_set_context_object(ClientObject *c, PyObject *value)
{
    uint32_t slot;
    PyObject *ref = client_usable(c) < 0 ? NULL : put_value(c, value, &slot, EVENT_BY_PUT, false);
    if (ref)
        client_set_context(&c->s, slot);
    return ref;
}

static PyObject *client_context_object(ClientObject *c, PyObject *unused)
{
    (void)unused;
    uint32_t slot;
    if (client_usable(c) < 0)
        return NULL;
    if (!client_context(&c->s, &slot))
        Py_RETURN_NONE;
    PyObject *ref = ref_new(c, slot, true), *value = ref ? load_value(c, (RefObject *)ref) : NULL;
    Py_XDECREF(ref);
    return value;
}

static PyObject *client_retire(ClientObject *c, PyObject *number)
{
    unsigned long index = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() || client_usable(c) < 0)
        return NULL;
    if (index >= MAX_CLIENTS)
        return PyErr_Format(PyExc_ValueError, "unknown client %lu", index);
    uint64_t bit = UINT64_C(1) << (index % 64);
    segment_lock(&c->s);
    bool idle = c->s.h->idle[index / 64] & bit;
    if (idle) {
        c->s.h->idle[index / 64] &= ~bit;
        atomic_fetch_or(&c->s.clients[index].flags, CLIENT_FLAG_RETIRE);
        wake_client(&c->s, (uint32_t)index);
    }
    segment_unlock(&c->s);
    return PyBool_FromLong(idle);
}

/* Wakes every thread of this process that sleeps in get, wait, watch or next. */
static PyObject *client_wake(ClientObject *c, PyObject *unused)
{
    (void)unused;
    c->n_wakes++;
    if (c->s.h && c->pid)
        notify_client(&c->s, c->s.me);
    Py_RETURN_NONE;
}

/* Ends the session for everybody attached: waits raise, workers leave. */
static PyObject *client_end_session(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (!c->s.h || !c->pid)
        Py_RETURN_NONE;
    atomic_store(&c->s.h->closing, 1);
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        if (atomic_load(&c->s.clients[i].state) == CLIENT_ATTACHED)
            notify_client(&c->s, i);
    atomic_store(&c->s.h->event_waiting, 0);
    futex_wake(&c->s.h->event_waiting, 1 << 30);
    Py_RETURN_NONE;
}

static PyObject *client_get_current_task(ClientObject *c, void *unused)
{
    (void)unused;
    uint32_t task_1 = current_task_of(c);
    return PyLong_FromUnsignedLongLong(task_1 ? c->s.tasks[task_1 - 1].seq : 0);
}

static PyObject *client_get_origin(ClientObject *c, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(current_origin(c));
}

static int client_set_origin(ClientObject *c, PyObject *value, void *unused)
{
    (void)unused;
    unsigned long n = value ? PyLong_AsUnsignedLong(value) : 0;
    if (PyErr_Occurred())
        return -1;
    c->origin = (uint32_t)n;
    return 0;
}

static PyObject *client_get_index(ClientObject *c, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(c->s.me);
}

static PyObject *client_get_role(ClientObject *c, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(c->s.clients[c->s.me].role);
}

static PyObject *client_get_closed(ClientObject *c, void *unused)
{
    (void)unused;
    return PyBool_FromLong(c->closed || !c->pid || atomic_load(&c->s.h->closing));
}

static PyGetSetDef client_getset[] = {
    {"index", (getter)client_get_index, NULL, "This client's slot in the segment.", NULL},
    {"role", (getter)client_get_role, NULL, "ROLE_SCHEDULER, ROLE_DRIVER or ROLE_WORKER.", NULL},
    {"closed", (getter)client_get_closed, NULL, "Whether the session has ended for this process.", NULL},
    {"origin", (getter)client_get_origin, (setter)client_set_origin,
     "Number of the cell that new tasks are attributed to; inside a task, that of the task.", NULL},
    {"current_task", (getter)client_get_current_task, NULL, "Number of the task the calling thread executes, 0: none.", NULL},
    {NULL}};

#define FAST(function) ((PyCFunction)(void (*)(void))function)
static PyMethodDef client_methods[] = {
    {"close", (PyCFunction)client_close, METH_NOARGS, "close()\n--\n\nLets go of the segment; views of values stay valid."},
    {"end_session", (PyCFunction)client_end_session, METH_NOARGS, "end_session()\n--\n\nEnds the session for every attached process."},
    {"put", (PyCFunction)client_put, METH_O, "put(value)\n--\n\nStores a value, returns its ObjectRef."},
    {"put_argument", (PyCFunction)client_put_argument, METH_O, "put_argument(value)\n--\n\nThe same for a value that goes with a call; panels say so."},
    {"flush", (PyCFunction)client_flush, METH_NOARGS, "flush()\n--\n\nGives back dropped references that are still buffered."},
    {"get", FAST(client_get), METH_FASTCALL | METH_KEYWORDS, "get(refs, timeout=None)\n--\n\nThe value of a ref, or of each ref of a list."},
    {"wait", FAST(client_wait), METH_FASTCALL | METH_KEYWORDS, "wait(refs, num_returns, timeout)\n--\n\n(ready, rest), in input order."},
    {"ready", (PyCFunction)client_ready, METH_O, "ready(ref)\n--\n\nWhether get would return, or raise, at once."},
    {"mark_waiting", (PyCFunction)client_mark_waiting, METH_O, "mark_waiting(ref)\n--\n\nAsks for a wake-up; True: sealed already."},
    {"watch", (PyCFunction)client_watch, METH_O, "watch(timeout)\n--\n\nSleeps until something marked may have been sealed."},
    {"wake", (PyCFunction)client_wake, METH_NOARGS, "wake()\n--\n\nMakes every sleeping thread of this process look again."},
    {"submitter", FAST(client_submitter), METH_VARARGS | METH_KEYWORDS, "The callable that submits a function's tasks."},
    {"create_actor", FAST(client_create_actor), METH_VARARGS | METH_KEYWORDS, "Creates an actor; returns the ObjectRef of its actor object, and the number of the task that constructs it."},
    {"get_actor", (PyCFunction)client_get_actor, METH_VARARGS, "get_actor(name, namespace)\n--\n\nThe living actor of that name, or None."},
    {"signal", (PyCFunction)client_signal, METH_VARARGS, "signal(pid, number)\n--\n\nSignals an attached process; False: it has ended."},
    {"actor_state", (PyCFunction)client_actor_state, METH_O, "actor_state(ref)\n--\n\npending, alive, restarting or dead."},
    {"kill_actor", (PyCFunction)client_kill_actor, METH_VARARGS, "kill_actor(ref, no_restart)\n--\n\nKills its process; its pid or 0."},
    {"cancel", (PyCFunction)client_cancel, METH_VARARGS, "cancel(ref, force)\n--\n\n(outcome, pid, task number)."},
    {"resource_class", FAST(client_resource_class), METH_VARARGS | METH_KEYWORDS,
     "resource_class(demand, hold=None, env=0, placement=0, bundle=-1, captures=False, route=0, strategy=\"\")\n--\n\n(shape, whether an idle node could run it). Interns a shape."},
    {"surplus", (PyCFunction)client_surplus, METH_NOARGS,
     "surplus()\n--\n\n[(class, tasks that may run elsewhere, those that fit here, demand, tasks that cannot travel, whether they wait to be told where, "
     "strategy, bytes of large arguments by proxy, -1 for here)]; wakes this client once there are more."},
    {"room", (PyCFunction)client_room, METH_NOARGS, "room()\n--\n\n(free, taken for other machines), in ten-thousandths, from one look."},
    {"direct", (PyCFunction)client_direct, METH_O, "direct(how)\n--\n\nWho says where tasks go that ask: 0 nobody, 1 this client, 2 nobody will."},
    {"in_cluster", (PyCFunction)client_in_cluster, METH_NOARGS, "in_cluster()\n--\n\nWhether an agent of a cluster says where tasks go, or will again; None: there has been none yet."},
    {"place_here", (PyCFunction)client_place_here, METH_VARARGS,
     "place_here(resource_class, most, staying)\n--\n\n[(task, number)] of those that ask where to begin: they begin here. `staying`: those only that cannot travel."},
    {"recall", (PyCFunction)client_recall, METH_VARARGS, "recall(task, number)\n--\n\nOne that was placed here asks again. False: it has begun."},
    {"fail_unrouted", (PyCFunction)client_fail_unrouted, METH_VARARGS, "fail_unrouted(resource_class, staying)\n--\n\nThose that ask have nowhere to run; how many."},
    {"strategy", (PyCFunction)client_strategy, METH_O, "strategy(resource_class)\n--\n\nWhat its route depends on."},
    {"progress", (PyCFunction)client_progress, METH_O, "progress([(task, number)])\n--\n\nOf each: 0 gone, 1 waits for arguments, 2 for room, 3 runs, 4 sleeps."},
    {"serve", (PyCFunction)client_serve, METH_VARARGS, "serve(meta, name, namespace)\n--\n\nMakes this client an actor, whose calls `next` returns; its ref."},
    {"ref_at", (PyCFunction)client_ref_at, METH_O, "ref_at(slot)\n--\n\nA ref to what a slot holds."},
    {"bell", (PyCFunction)client_bell, METH_NOARGS, "bell()\n--\n\nA descriptor that is readable once this client has been woken."},
    {"placement_number", (PyCFunction)client_placement_number, METH_NOARGS, "placement_number()\n--\n\nFor a new placement group."},
    {"create_placement", FAST(client_create_placement), METH_VARARGS | METH_KEYWORDS,
     "create_placement(number, bundles, meta, name, namespace, owned, mode)\n--\n\nPuts a placement group in line."},
    {"groups", (PyCFunction)client_groups, METH_NOARGS,
     "groups()\n--\n\n[(number, mode, object, [({name: ten-thousandths}, where)])] of the placement groups that concern the agent."},
    {"assign", (PyCFunction)client_assign, METH_VARARGS,
     "assign(number, where)\n--\n\nWhere the bundles of a group are: client + 1 of a machine, -2 here. False: they are not wanted now."},
    {"remove_placement", (PyCFunction)client_remove_placement, METH_O, "remove_placement(number)\n--\n\nFalse: it had gone."},
    {"placement_reserved", (PyCFunction)client_placement_reserved, METH_O, "placement_reserved(number)\n--\n\nWhether tasks can run in the group."},
    {"find_placement", (PyCFunction)client_find_placement, METH_VARARGS, "find_placement(name, namespace)\n--\n\nWhat describes the group, or None."},
    {"current_placement", (PyCFunction)client_current_placement, METH_NOARGS, "current_placement()\n--\n\nWhat describes the group the caller runs in, or None."},
    {"placements", (PyCFunction)client_placements, METH_NOARGS, "placements()\n--\n\nThe placement groups."},
    {"set_total", (PyCFunction)client_set_total, METH_O, "set_total(amounts)\n--\n\nSets what the node has."},
    {"run", (PyCFunction)client_run, METH_NOARGS, "run()\n--\n\nExecutes tasks; -1: leave, otherwise an actor's constructor to run."},
    {"next", (PyCFunction)client_next, METH_O, "next(timeout)\n--\n\nTakes a task; -1: leave, -2: timed out, or wake() was called."},
    {"set_call_variable", (PyCFunction)client_set_call_variable, METH_O,
     "set_call_variable(variable)\n--\n\nA ContextVar that tells which of its calls an async actor executes."},
    {"load", (PyCFunction)client_load, METH_O, "load(task)\n--\n\n(callable, args, kwargs) of a taken task."},
    {"finish", FAST(client_finish), METH_FASTCALL, "finish(task, value)\n--\n\nEnds a taken task with its value."},
    {"fail", FAST(client_fail), METH_FASTCALL, "fail(task, exception)\n--\n\nEnds a taken task with an exception."},
    {"bind_actor", FAST(client_bind_actor), METH_FASTCALL, "bind_actor(task, instance)\n--\n\nThe constructor has returned: serve its mailbox."},
    {"save_checkpoint", (PyCFunction)client_save_checkpoint, METH_O,
     "save_checkpoint(value)\n--\n\nFor the next life of the actor that this process serves."},
    {"actor_info", (PyCFunction)client_actor_info, METH_NOARGS, "actor_info()\n--\n\nThe actor this process serves, or None."},
    {"task_info", (PyCFunction)client_task_info, METH_O, "task_info(task)\n--\n\nFacts of a taken task."},
    {"streams", (PyCFunction)client_streams, METH_O, "streams(task)\n--\n\nWhether what a taken task yields goes into a stream."},
    {"add_item", FAST(client_add_item), METH_FASTCALL, "add_item(task, index, value)\n--\n\nAn item of a taken task's stream; False: nobody reads any more."},
    {"wait_for_room", FAST(client_wait_for_room), METH_FASTCALL, "wait_for_room(task, n)\n--\n\nSleeps while a taken task with n items is too far ahead of its reader."},
    {"has_room", FAST(client_has_room), METH_FASTCALL, "has_room(task, n)\n--\n\nWhether wait_for_room would return at once."},
    {"next_item", FAST(client_next_item), METH_FASTCALL, "next_item(stream, timeout)\n--\n\nThe ref of the next item, waited for; None: that was all. False: timed out."},
    {"peek_item", (PyCFunction)client_peek_item, METH_O, "peek_item(stream)\n--\n\nThe ref of the next item, perhaps pending, which stays there; None: that was all."},
    {"cancelled", (PyCFunction)client_cancelled, METH_NOARGS, "cancelled()\n--\n\nWhether the thread's task has been asked to stop."},
    {"workers_wanted", (PyCFunction)client_workers_wanted, METH_NOARGS, "workers_wanted()\n--\n\nHow many more workers would find work."},
    {"next_demand", (PyCFunction)client_next_demand, METH_O, "next_demand(timeout)\n--\n\nSleeps until the scheduler is needed."},
    {"idle_memory", (PyCFunction)client_idle_memory, METH_NOARGS,
     "idle_memory()\n--\n\n(bytes in large free chunks, by how much the use was higher since the last call)."},
    {"notice_idle", (PyCFunction)client_notice_idle, METH_O, "notice_idle(bytes)\n--\n\nWake the scheduler once more than that is idle."},
    {"prepare", (PyCFunction)client_prepare, METH_O,
     "prepare(bytes)\n--\n\nFetches pages for another large object like the last, at most so many bytes, if there are none; the bytes fetched."},
    {"give_back", (PyCFunction)client_give_back, METH_O,
     "give_back(bytes)\n--\n\nReturns idle memory to the operating system; the bytes returned, about as many at most."},
    {"leave_memory", (PyCFunction)client_leave_memory, METH_NOARGS,
     "leave_memory()\n--\n\nAfter the session's end: keeps only the values in use here. False: others are attached still."},
    {"set_offload", (PyCFunction)client_set_offload, METH_VARARGS, "set_offload(folder, limit)\n--\n\nWhere objects go when memory is full, and how many bytes at most."},
    {"notice_offload", (PyCFunction)client_notice_offload, METH_O, "notice_offload(bytes)\n--\n\nAsks for attention once so many bytes lie on disk."},
    {"unwanted_files", (PyCFunction)client_unwanted_files, METH_O, "unwanted_files(names)\n--\n\nThose of the files that belong to no object."},
    {"client_died", (PyCFunction)client_client_died, METH_VARARGS, "client_died(index, code)\n--\n\nCleans up after a dead process."},
    {"find", (PyCFunction)client_find, METH_O, "find(hex)\n--\n\nThe ref of the object with that id, or None if it has gone."},
    {"reap", (PyCFunction)client_reap_dead, METH_NOARGS, "reap()\n--\n\nCleans up after every attached process that has ended; their pids."},
    {"detach", (PyCFunction)client_detach, METH_NOARGS, "detach()\n--\n\nGives up its place in the segment, unless values are in use here."},
    {"set_context", (PyCFunction)client_set_context_object, METH_O, "set_context(value)\n--\n\nPuts what workers find when they start, and replaces those there are; keep the ref."},
    {"context", (PyCFunction)client_context_object, METH_NOARGS, "context()\n--\n\nWhat set_context has put, or None."},
    {"collect_litter", (PyCFunction)client_collect_litter, METH_NOARGS,
     "collect_litter()\n--\n\nHas the garbage collector look for values of the store, if it is worth it; whether it did."},
    {"retire", (PyCFunction)client_retire, METH_O, "retire(index)\n--\n\nAsks an idle worker to leave; False: it is not idle."},
    {"clients", (PyCFunction)client_clients, METH_NOARGS, "clients()\n--\n\nThe attached processes."},
    {"idle_workers", (PyCFunction)client_idle_workers, METH_NOARGS, "idle_workers()\n--\n\nIndices of idle workers."},
    {"tasks", (PyCFunction)client_tasks, METH_VARARGS, "tasks(limit=10000)\n--\n\nUnfinished tasks."},
    {"objects", (PyCFunction)client_objects, METH_VARARGS, "objects(limit=10000)\n--\n\nLiving objects."},
    {"actors", (PyCFunction)client_actors, METH_NOARGS, "actors()\n--\n\nActors, dead ones that are still referenced included."},
    {"n_detached", (PyCFunction)client_n_detached, METH_NOARGS, "n_detached()\n--\n\nHow many detached actors live."},
    {"children", (PyCFunction)client_children, METH_O, "children(task_number)\n--\n\nRefs of unfinished tasks that a task submitted."},
    {"ref_of", (PyCFunction)client_ref_of, METH_O, "ref_of(number)\n--\n\nThe first living object that a task or put made, or None."},
    {"info", (PyCFunction)client_info, METH_O, "info(ref)\n--\n\nWhat is known of an object and its task."},
    {"why", (PyCFunction)client_why, METH_O, "why(ref)\n--\n\nWhat resources the task of a ref lacks, and who holds them; None if it waits for something else."},
    {"stats", (PyCFunction)client_stats, METH_NOARGS, "stats()\n--\n\nCounts and sizes of the segment."},
    {"stopped_owner", (PyCFunction)client_stopped_owner, METH_NOARGS,
     "stopped_owner()\n--\n\n(pid that holds the lock and is stopped or 0, whether it is a driver, how many such were killed, the last of them, grace in s)."},
    {"check", (PyCFunction)client_check, METH_NOARGS, "check()\n--\n\nViolated invariants; [] when sound."},
    {"peek", (PyCFunction)client_peek, METH_VARARGS, "peek(slot, generation & 0xffff)\n--\n\nA function object's value, or None."},
    {"events", (PyCFunction)client_events, METH_VARARGS, "events(cursor, limit)\n--\n\n(records, cursor, lost)."},
    {"follow_events", (PyCFunction)client_follow_events, METH_VARARGS,
     "follow_events(cursor, buffer, timeout, span)\n--\n\nWait for something to happen and put what does within `span` seconds into "
     "the buffer; (records, cursor, lost)."},
    {"clock", (PyCFunction)client_clock, METH_NOARGS, "clock()\n--\n\n(ticks, unix_ns, ns_per_tick)."},
    {"resources", (PyCFunction)client_resources, METH_NOARGS, "resources()\n--\n\n(total, available)."},
    {"assigned", (PyCFunction)client_assigned, METH_NOARGS, "assigned()\n--\n\nWhat the thread's task, or this process's actor, holds."},
    {NULL}};

static PyMemberDef client_members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(ClientObject, weakrefs), READONLY, NULL}, {NULL}};

static PyType_Slot client_slots[] = {
    {Py_tp_doc, "Client(fd, role, hooks)\n--\n\nAttaches this process to the segment behind `fd`."},
    {Py_tp_new, client_new}, {Py_tp_dealloc, client_dealloc}, {Py_tp_traverse, client_traverse}, {Py_tp_clear, client_clear},
    {Py_tp_methods, client_methods}, {Py_tp_getset, client_getset}, {Py_tp_members, client_members}, {0, NULL}};

PyType_Spec client_spec = {"cellmesh.objstore._core.Client", sizeof(ClientObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, client_slots};
