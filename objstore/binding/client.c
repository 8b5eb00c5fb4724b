/* Client: this process's attachment to a segment. */
#include "formats/constants.h"
#include "shared/shared.h"

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
    static const char *const codes[] = {"ok",      "full",   "corrupt", "invalid",   "limit",  "closed",
                                        "timeout", "system", "exists",  "not_found", "pending"};
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

int client_readable(ClientObject *c)
{
    if (c->closed)
        raise_store_error(c, "closed", "the session has been shut down");
    else if (!c->pid)
        raise_store_error(c, "forked",
                          "this process was forked from one that uses cellmesh; start its own session instead");
    else if (atomic_load_explicit(&c->s.h->corrupt, memory_order_relaxed))
        raise_store_error(c, "corrupt",
                          "something has overwritten the object store's memory (an array written out of bounds, for "
                          "example), so the session has ended");
    else
        return 0;
    return -1;
}

int client_usable(ClientObject *c)
{
    if (client_readable(c) < 0)
        return -1;
    if (!atomic_load_explicit(&c->s.h->closing, memory_order_relaxed))
        return 0;
    raise_store_error(c, "closed", "the session has ended");
    return -1;
}

int32_t pid_of_worker(const struct segment *s, uint32_t worker)
{
    return client_at(s, worker)->role == ROLE_REMOTE_NODE ? 0 : atomic_load(&client_at(s, worker)->pid);
}

int32_t signal_worker(struct segment *s, uint32_t worker, int number)
{
    if (client_at(s, worker)->role != ROLE_REMOTE_NODE)
        return client_signal_worker(s, worker, number);
    wake_client(s, worker);
    return 0;
}

int end_inspect(ClientObject *c, bool sound)
{
    if (!sound)
        segment_condemn(&c->s);
    segment_unlock(&c->s);
    return sound ? 0 : client_usable(c);
}

int lock_to_inspect(ClientObject *c)
{
    if (client_usable(c) < 0)
        return -1;
    segment_lock(&c->s);
    return header_is_safe(&c->s) ? 0 : end_inspect(c, false);
}

int look_at_clients(ClientObject *c)
{
    return lock_to_inspect(c) < 0 ? -1 : end_inspect(c, client_table_is_sound(&c->s));
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
    static const struct {
        const char *name;
        size_t offset;
    } names[] = {{"pickle", offsetof(Hooks, pickle)},
                 {"unpickle", offsetof(Hooks, unpickle)},
                 {"load_function", offsetof(Hooks, load_function)},
                 {"load_method", offsetof(Hooks, load_method)},
                 {"error_value", offsetof(Hooks, error_value)},
                 {"make_error", offsetof(Hooks, make_error)},
                 {"timeout_error", offsetof(Hooks, timeout_error)},
                 {"store_error", offsetof(Hooks, store_error)},
                 {"should_retry", offsetof(Hooks, should_retry)},
                 {"timed_out", offsetof(Hooks, timed_out)},
                 {"exited", offsetof(Hooks, exited)},
                 {"enter_task", offsetof(Hooks, enter_task)},
                 {"leave_task", offsetof(Hooks, leave_task)},
                 {"await_ref", offsetof(Hooks, await_ref)},
                 {"ref_future", offsetof(Hooks, ref_future)},
                 {"ref_mimebundle", offsetof(Hooks, ref_mimebundle)},
                 {"make_stream", offsetof(Hooks, make_stream)},
                 {"iterate", offsetof(Hooks, iterate)},
                 {"waits_long", offsetof(Hooks, waits_long)},
                 {"blocks_loop", offsetof(Hooks, blocks_loop)},
                 {"run_meanwhile", offsetof(Hooks, run_meanwhile)},
                 {"has_yielded", offsetof(Hooks, has_yielded)},
                 {"argument_candidate", offsetof(Hooks, argument_candidate)},
                 {"argument_sent", offsetof(Hooks, argument_sent)},
                 {"let_go_arguments", offsetof(Hooks, let_go_arguments)},
                 {"pickle_arguments", offsetof(Hooks, pickle_arguments)},
                 {"unpickle_arguments", offsetof(Hooks, unpickle_arguments)},
                 {"argument_failed", offsetof(Hooks, argument_failed)},
                 {"arguments_failed", offsetof(Hooks, arguments_failed)},
                 {"value_failed", offsetof(Hooks, value_failed)},
                 {"cancel_ref", offsetof(Hooks, cancel_ref)},
                 {"add_done_callback", offsetof(Hooks, add_done_callback)},
                 {"remove_done_callback", offsetof(Hooks, remove_done_callback)},
                 {"reduce_ref", offsetof(Hooks, reduce_ref)}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        PyObject *hook = PyObject_GetAttrString(hooks, names[i].name);
        if (!hook && !PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        *(PyObject **)((char *)&c->hooks + names[i].offset) = hook == Py_None ? NULL : hook;
    }
    c->codec.pickle = c->hooks.pickle;
    c->codec.pickle_arguments = c->hooks.pickle_arguments;
    c->codec.unpickle = c->hooks.unpickle;
    c->codec.unpickle_arguments = c->hooks.unpickle_arguments;
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
    c->pagemap.fd = -1;
    c->store_error_type = Py_NewRef(state->store_error);
    c->codec.ref_type = state->ref_type;
    c->codec.ref_slot = ref_slot;
    c->codec.damaged = tell_damage;
    c->codec.shared = &shared_memory;
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
    c->codec.pickle = c->codec.pickle_arguments = c->codec.unpickle = c->codec.unpickle_arguments = NULL;
    Py_CLEAR(c->instance);
    Py_CLEAR(c->call_variable);
    Py_CLEAR(c->flush_output);
    Py_CLEAR(c->context);
    left_behind_clear(&c->left_behind);
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
    Py_VISIT(c->flush_output);
    Py_VISIT(c->context);
    left_behind_traverse(&c->left_behind, visit, arg);
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
        wake_fd_end(c);
    }
    c->closed = true;
    private_pages_forget(c);
    Py_CLEAR(c->instance);
    Py_CLEAR(c->call_variable);
    Py_CLEAR(c->flush_output);
    Py_CLEAR(c->context);
    left_behind_clear(&c->left_behind);
    clear_functions(c);
    Py_RETURN_NONE;
}

static void client_dealloc(ClientObject *c)
{
    PyTypeObject *type = Py_TYPE(c);
    PyObject_GC_UnTrack(c);
    c->closed = true;
    if (c->pid)
        wake_fd_end(c);
    forked_forget(c);
    private_pages_forget(c);
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

/* Wakes every thread of this process that sleeps in get, wait, watch or next. */
static PyObject *client_wake(ClientObject *c, PyObject *unused)
{
    (void)unused;
    c->n_wakes++;
    if (c->s.h && c->pid)
        notify_client(&c->s, c->s.me);
    Py_RETURN_NONE;
}

/* Ends the session for every attached process: waits raise, workers leave. */
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

static PyObject *client_get_current_task_name(ClientObject *c, void *unused)
{
    (void)unused;
    uint32_t task_1 = current_task_of(c);
    return task_1 ? function_name(c, c->s.tasks[task_1 - 1].function) : PyUnicode_FromString("");
}

static PyObject *client_get_context_version(ClientObject *c, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(c->s.h && c->pid ? client_context_version(&c->s) : 0);
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
    {"current_task", (getter)client_get_current_task, NULL, "Number of the task the calling thread executes, 0: none.",
     NULL},
    {"current_task_name", (getter)client_get_current_task_name, NULL, "Its name, '': none.", NULL},
    {"context_version", (getter)client_get_context_version, NULL, "Another number once set_context has been called.",
     NULL},
    {NULL}};

/* What each subject has of Client's methods. */
static PyMethodDef *const subjects[] = {
    session_methods,       shared_methods,         sync_methods,         object_methods,
    get_methods,           wait_methods,           submitter_methods,    task_methods,
    actor_methods,         stream_methods,         resource_methods,     placement_methods,
    run_methods,           step_methods,           fact_methods,         output_methods,
    left_behind_methods,   time_methods,           scheduler_methods,    trim_methods,
    offload_methods,       cycle_gc_methods,       wake_fd_methods,      standalone_methods,
    route_methods,         serve_methods,          task_listing_methods, object_listing_methods,
    actor_listing_methods, client_listing_methods, why_methods,          event_methods,
    segment_methods};
enum { MOST_METHODS = 128 };
static PyMethodDef client_methods[MOST_METHODS + 1]; /* all of them, as the type wants them */

void client_join_methods(void)
{
    size_t n = 0;
    for (size_t s = 0; s < sizeof subjects / sizeof *subjects; s++)
        for (const PyMethodDef *method = subjects[s]; method->ml_name; method++) {
            assert(n < MOST_METHODS);
            client_methods[n++] = *method;
        }
    client_methods[n] = (PyMethodDef){NULL};
}

static PyMemberDef client_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ClientObject, weakrefs), READONLY, NULL},
    {"holds_output", T_BOOL, offsetof(ClientObject, holds_output), 0,
     "Whether there is something for what set_flush was told."},
    {NULL}};

static PyType_Slot client_slots[] = {
    {Py_tp_doc, "Client(fd, role, hooks)\n--\n\nAttaches this process to the segment behind `fd`."},
    {Py_tp_new, client_new},
    {Py_tp_dealloc, client_dealloc},
    {Py_tp_traverse, client_traverse},
    {Py_tp_clear, client_clear},
    {Py_tp_methods, client_methods},
    {Py_tp_getset, client_getset},
    {Py_tp_members, client_members},
    {0, NULL}};

PyType_Spec client_spec = {"cellmesh.objstore._core.Client", sizeof(ClientObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, client_slots};

PyMethodDef session_methods[] = {{"close", (PyCFunction)client_close, METH_NOARGS,
                                  "close()\n--\n\nLets go of the segment; views of values stay valid."},
                                 {"end_session", (PyCFunction)client_end_session, METH_NOARGS,
                                  "end_session()\n--\n\nEnds the session for every attached process."},
                                 {"wake", (PyCFunction)client_wake, METH_NOARGS,
                                  "wake()\n--\n\nMakes every sleeping thread of this process look again."},
                                 {NULL}};
