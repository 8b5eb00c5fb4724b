/* The extension module: types, constants, and making a segment. */
#include "binding.h"

#include <errno.h>

#include "../core/route.h"

CoreState *core_state(PyObject *module) { return PyModule_GetState(module); }

static PyObject *create_segment(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    static char *names[] = {"size", "n_objects", "n_tasks", "n_actors", "n_events", NULL};
    unsigned long long size;
    unsigned int n_objects = 1u << 20, n_tasks = 1u << 20, n_actors = 4096, n_events = 1u << 19;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "K|IIII:create_segment", names, &size, &n_objects, &n_tasks, &n_actors, &n_events))
        return NULL;
    /* The tables come on top of the bytes for values; sparse, so what is not used costs nothing. */
    uint64_t tables = 4096ull * 64 + (uint64_t)n_objects * (sizeof(struct object_slot) + sizeof(struct object_readers)) +
                      (uint64_t)n_tasks * sizeof(struct task_slot) + (uint64_t)n_actors * sizeof(struct actor_slot) + (uint64_t)n_events * sizeof(struct event_record) +
                      sizeof(struct header) + MAX_CLASSES * sizeof(struct resource_class) + MAX_CLIENTS * sizeof(struct client_slot);
    struct segment_config config = {(size + tables + 4095) / 4096 * 4096, n_objects, n_tasks, n_actors, n_events};
    int fd = segment_create(&config);
    if (fd >= 0)
        return PyLong_FromLong(fd);
    if (fd == OBJSTORE_SYSTEM)
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyErr_Format(PyExc_ValueError, "create_segment: %s (size %llu bytes must be at least 65536, n_events a power of two)",
                        objstore_error_text(fd), size);
}

static PyMethodDef functions[] = {
    {"create_segment", (PyCFunction)(void (*)(void))create_segment, METH_VARARGS | METH_KEYWORDS,
     "create_segment(size, n_objects=1<<20, n_tasks=1<<20, n_actors=4096, n_events=1<<19)\n--\n\n"
     "A sealed memfd with an empty segment that has room for `size` bytes of values; returns the descriptor."},
    {"make_get", core_make_get, METH_VARARGS,
     "make_get(function, doc)\n--\n\nThe public `get`, which leaves to the function what is out of the ordinary."},
    {"set_process_name", process_set_name, METH_O, "set_process_name(name)\n--\n\nThe name in ps and top; its first 15 bytes."},
    {"set_death_signal", process_set_death_signal, METH_O,
     "set_death_signal(signal)\n--\n\nHave the kernel send it to this process when the thread that forked it ends."},
    {"become_subreaper", process_become_subreaper, METH_NOARGS,
     "become_subreaper()\n--\n\nBecome the parent of all descendants whose parent ends."},
    {"repeat_interrupts", process_repeat_interrupts, METH_NOARGS,
     "repeat_interrupts()\n--\n\nFrom now on SIGINT comes again, every 20 ms, until its handler has called a client's cancelled()."},
    {"line_buffer_stdout", process_line_buffer_stdout, METH_NOARGS,
     "line_buffer_stdout()\n--\n\nHave C's stdout flush at newlines, whatever it leads to."},
    {NULL}};

#define CONSTANT(name) {#name, name}
static const struct { const char *name; long value; } constants[] = {
    CONSTANT(ROLE_SCHEDULER), CONSTANT(ROLE_DRIVER), CONSTANT(ROLE_WORKER), CONSTANT(ROLE_PROXY), CONSTANT(ROUTE_ANY),
    CONSTANT(ROUTE_HERE), CONSTANT(ROUTE_ASKS), CONSTANT(ROUTE_WAITS), CONSTANT(ROUTE_UNDIRECTED), CONSTANT(ROUTE_DIRECTED),
    CONSTANT(ROUTE_NEVER), CONSTANT(TASK_FLAG_STAYS), CONSTANT(DIED_OF_MEMORY)};

static PyObject *event_dtype(void)
{
    return Py_BuildValue("[(ss)(ss)(ss)(ss)(ss)(ss)(ss)(ss)]", "t", "<u8", "seq", "<u8", "a", "<u4", "b", "<u4", "c", "<u4", "d", "<u2",
                         "kind", "u1", "client", "u1");
}

static int add_type(PyObject *module, PyType_Spec *spec, const char *name, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *type ? PyModule_AddObjectRef(module, name, (PyObject *)*type) : -1;
}

static int core_exec(PyObject *module)
{
    CoreState *state = core_state(module);
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) { /* a process has one place in a session, and one list of clients */
        PyErr_SetString(PyExc_ImportError, "cellmesh cannot be used in a subinterpreter: import it in the main interpreter, or use a process");
        return -1;
    }
    if (forked_module_init() < 0 || add_type(module, &client_spec, "Client", &state->client_type) < 0 ||
        add_type(module, &ref_spec, "Ref", &state->ref_type) < 0 ||
        add_type(module, &submitter_spec, "Submitter", &state->submitter_type) < 0 ||
        add_type(module, &proxy_spec, "Proxy", &state->proxy_type) < 0 || add_type(module, &runs_spec, "Runs", &state->runs_type) < 0)
        return -1;
    state->store_error = PyErr_NewExceptionWithDoc("cellmesh.objstore.StoreError",
                                                   "The store cannot do what was asked; `code` says why.", NULL, NULL);
    if (!state->store_error || PyModule_AddObjectRef(module, "StoreError", state->store_error) < 0)
        return -1;
    PyObject *dtype = event_dtype();
    int result = dtype ? PyModule_AddObjectRef(module, "EVENT_DTYPE", dtype) : -1;
    Py_XDECREF(dtype);
    for (size_t i = 0; result == 0 && i < sizeof constants / sizeof *constants; i++)
        result = PyModule_AddIntConstant(module, constants[i].name, constants[i].value);
    return result < 0 ? -1 : codec_init(module);
}

static int core_traverse(PyObject *module, visitproc visit, void *arg)
{
    CoreState *state = core_state(module);
    Py_VISIT(state->client_type);
    Py_VISIT(state->ref_type);
    Py_VISIT(state->submitter_type);
    Py_VISIT(state->proxy_type);
    Py_VISIT(state->runs_type);
    Py_VISIT(state->store_error);
    Py_VISIT(state->get_in_python);
    return 0;
}

static int core_clear(PyObject *module)
{
    CoreState *state = core_state(module);
    Py_CLEAR(state->client_type);
    Py_CLEAR(state->ref_type);
    Py_CLEAR(state->submitter_type);
    Py_CLEAR(state->proxy_type);
    Py_CLEAR(state->runs_type);
    Py_CLEAR(state->store_error);
    Py_CLEAR(state->get_in_python);
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, core_exec}, {0, NULL}};

struct PyModuleDef core_module = {PyModuleDef_HEAD_INIT, .m_name = "_core", .m_doc = "The node's shared segment, seen from Python.",
                                  .m_size = sizeof(CoreState), .m_methods = functions, .m_slots = slots,
                                  .m_traverse = core_traverse, .m_clear = core_clear};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&core_module); }
