/* The extension module: types, constants, and making a segment. */
#include "shared/shared.h"

#include <errno.h>

#include "formats/constants.h"

CoreState *core_state(PyObject *module) { return PyModule_GetState(module); }

static PyObject *create_segment(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    static char *names[] = {"size", "n_objects", "n_tasks", "n_actors", "n_events", NULL};
    unsigned long long size;
    unsigned int n_objects = 1u << 20, n_tasks = 1u << 20, n_actors = 4096, n_events = 1u << 19;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "K|IIII:create_segment", names, &size, &n_objects, &n_tasks,
                                     &n_actors, &n_events))
        return NULL;
    /* The tables come on top of the bytes for values; sparse, so what is not used costs nothing. */
    uint64_t tables =
        4096ull * 64 + (uint64_t)n_objects * (sizeof(struct object_slot) + sizeof(struct object_readers)) +
        (uint64_t)n_tasks * (sizeof(struct task_slot) + sizeof(struct task_times)) +
        (uint64_t)n_actors * sizeof(struct actor_slot) + (uint64_t)n_events * sizeof(struct event_record) +
        sizeof(struct header) + MAX_CLASSES * sizeof(struct resource_class) + MAX_CLIENTS * sizeof(struct client_slot);
    struct segment_config config = {(size + tables + 4095) / 4096 * 4096, n_objects, n_tasks, n_actors, n_events};
    int fd = segment_create(&config);
    if (fd >= 0)
        return PyLong_FromLong(fd);
    if (fd == OBJSTORE_SYSTEM)
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyErr_Format(PyExc_ValueError,
                        "create_segment: %s (size %llu bytes must be at least 65536, n_events a power of two)",
                        objstore_error_text(fd), size);
}

static PyMethodDef functions[] = {
    {"create_segment", (PyCFunction)(void (*)(void))create_segment, METH_VARARGS | METH_KEYWORDS,
     "create_segment(size, n_objects=1<<20, n_tasks=1<<20, n_actors=4096, n_events=1<<19)\n--\n\nA sealed memfd with "
     "an empty segment that has room for `size` bytes of values; returns the descriptor."},
    {"private_pages", core_private_pages, METH_NOARGS,
     "private_pages()\n--\n\nThis process's private pages over objects: (address, bytes, the segment's address)."},
    {"refs_are_plain", core_refs_are_plain, METH_O,
     "refs_are_plain(flag, /)\n--\n\nWhether refs are true and unequal to any value, as Ray's, or refuse to say; "
     "returns what was so before."},
    {"set_ref_methods", core_set_ref_methods, METH_O,
     "set_ref_methods(functions, /)\n--\n\nFunctions by name that refs have as methods beside their own."},
    {"make_get", core_make_get, METH_VARARGS,
     "make_get(function, doc, /)\n--\n\nThe public `get`, which leaves to the function what is out of the ordinary."},
    {"shared_place", core_shared_place, METH_O,
     "shared_place(array, /)\n--\n\n(ref, offset) of an array in shared memory, as pickle needs it, or None."},
    {"shared_view", core_shared_view, METH_VARARGS,
     "shared_view(ref, offset, shape, strides, dtype, writable, /)\n--\n\nThe array over shared memory again."},
    {"set_process_name", process_set_name, METH_O,
     "set_process_name(name, /)\n--\n\nThe name in ps and top; its first 15 bytes."},
    {"set_death_signal", process_set_death_signal, METH_O,
     "set_death_signal(signal, /)\n--\n\nHave the kernel send it to this process when the thread that forked it ends."},
    {"become_subreaper", process_become_subreaper, METH_NOARGS,
     "become_subreaper()\n--\n\nBecome the parent of all descendants whose parent ends."},
    {"repeat_interrupts", process_repeat_interrupts, METH_NOARGS,
     "repeat_interrupts()\n--\n\nFrom now on SIGINT comes again, every 20 ms, until its handler has called a client's "
     "cancelled()."},
    {"deferring", process_deferring, METH_O,
     "deferring(handler, /)\n--\n\nThe handler of a signal, for one that raises. In Python 3.14 it does so in no\n"
     "`with` statement that has entered and would not leave."},
    {"note_and_call", (PyCFunction)(void (*)(void))note_and_call, METH_FASTCALL | METH_KEYWORDS,
     "note_and_call(function, /, *args, **kwargs)\n--\n\nCalls it; at the end of the task its process is restored."},
    {"line_buffer_stdout", process_line_buffer_stdout, METH_NOARGS,
     "line_buffer_stdout()\n--\n\nHave C's stdout flush at newlines, whatever it leads to."},
    {"keep_heap", process_keep_heap, METH_NOARGS,
     "keep_heap()\n--\n\nHave freed memory of C's heap, 64 MB of it, stay for what is allocated next; False: it "
     "cannot."},
    {NULL}};

static int add_type(PyObject *module, PyType_Spec *spec, const char *name, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *type ? PyModule_AddObjectRef(module, name, (PyObject *)*type) : -1;
}

static int core_exec(PyObject *module)
{
    CoreState *state = core_state(module);
    /* a process has one place in a session, and one list of clients */
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(
            PyExc_ImportError,
            "cellmesh cannot be used in a subinterpreter: import it in the main interpreter, or use a process");
        return -1;
    }
    client_join_methods();
    if (process_mend_interrupts() < 0 || forked_module_init() < 0 ||
        add_type(module, &client_spec, "Client", &state->client_type) < 0 ||
        add_type(module, &ref_spec, "Ref", &state->ref_type) < 0 ||
        add_type(module, &submitter_spec, "Submitter", &state->submitter_type) < 0 ||
        add_type(module, &watch_spec, "Watch", &state->watch_type) < 0 ||
        add_type(module, &remote_spec, "RemoteNode", &state->remote_node_type) < 0 ||
        add_type(module, &runs_spec, "Runs", &state->runs_type) < 0 || records_init(module, state->records) < 0)
        return -1;
    ref_refuse_conversions(state->ref_type);
    state->store_error = PyErr_NewExceptionWithDoc("cellmesh.objstore.StoreError",
                                                   "The store cannot do what was asked; `code` says why.", NULL, NULL);
    if (!state->store_error || PyModule_AddObjectRef(module, "StoreError", state->store_error) < 0)
        return -1;
    if (PyModule_AddFunctions(module, sync_functions) < 0)
        return -1;
    return constants_init(module) < 0 ? -1 : codec_init(module);
}

static int core_traverse(PyObject *module, visitproc visit, void *arg)
{
    CoreState *state = core_state(module);
    Py_VISIT(state->client_type);
    Py_VISIT(state->ref_type);
    Py_VISIT(state->submitter_type);
    Py_VISIT(state->watch_type);
    Py_VISIT(state->remote_node_type);
    Py_VISIT(state->runs_type);
    Py_VISIT(state->store_error);
    Py_VISIT(state->get_in_python);
    Py_VISIT(state->ref_methods);
    for (int i = 0; i < N_RECORDS; i++)
        Py_VISIT(state->records[i]);
    return 0;
}

static int core_clear(PyObject *module)
{
    CoreState *state = core_state(module);
    Py_CLEAR(state->client_type);
    Py_CLEAR(state->ref_type);
    Py_CLEAR(state->submitter_type);
    Py_CLEAR(state->watch_type);
    Py_CLEAR(state->remote_node_type);
    Py_CLEAR(state->runs_type);
    Py_CLEAR(state->store_error);
    Py_CLEAR(state->get_in_python);
    Py_CLEAR(state->ref_methods);
    for (int i = 0; i < N_RECORDS; i++)
        Py_CLEAR(state->records[i]);
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, core_exec}, {0, NULL}};

struct PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,       .m_name = "_core",      .m_doc = "The node's shared segment, seen from Python.",
    .m_size = sizeof(CoreState), .m_methods = functions, .m_slots = slots,
    .m_traverse = core_traverse, .m_clear = core_clear};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&core_module); }
