/* formats/: what Python reads by name: constants, words, records; never an operation. */
#include "formats/constants.h"

#include "objects/shared_sync.h"

#include <stddef.h>

#include "clients/route.h"
#include "objects/stream.h"
#include "tasks/actor.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* In the order of the enumerations in core/layout.h. */
static const char *const actor_states[] = {"free", "pending", "alive", "restarting", "dead"};
static const char *const object_states[] = {"free", "pending", "ready", "error", "failed"};
static const char *const task_states[] = {"free", "waiting",  "queued",   "running", "cancelled",
                                          "held", "retrying", "finished", "failed"};
static const char *const roles[] = {"scheduler", "driver", "worker", "remote_node"};
static const char *const failures[] = {
    "unknown",      "worker_crashed", "cancelled",    "actor_died",   "actor_unavailable", "out_of_memory",
    "object_lost",  "store_full",     "stream_ended", "unplaced",     "actor_unplaced",    "node_died",
    "cannot_leave", "unrouted",       "timed_out",    "shared_stays", "too_deep"};
static const char *const placement_modes[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};
static_assert(LENGTH(actor_states) == ACTOR_DEAD + 1 && LENGTH(object_states) == OBJECT_FAILED + 1, "states");
static_assert(LENGTH(task_states) == SHOWN_FAILED + 1, "states of tasks");
static_assert(LENGTH(roles) == ROLE_REMOTE_NODE + 1 && LENGTH(failures) == FAILURE_TOO_DEEP + 1, "roles, failures");
static_assert(LENGTH(placement_modes) == PLACEMENT_STRICT_SPREAD + 1, "modes");

#define NAMES(array) array, LENGTH(array)
static const char *name_in(const char *const *names, size_t n, uint32_t number)
{
    return number < n ? names[number] : "?";
}
const char *actor_state_name(uint32_t state) { return name_in(NAMES(actor_states), state); }
const char *object_state_name(uint32_t state) { return name_in(NAMES(object_states), state); }
const char *task_state_name(uint32_t state) { return name_in(NAMES(task_states), state); }
const char *role_name(uint32_t role) { return name_in(NAMES(roles), role); }
const char *failure_name(uint32_t code) { return code < LENGTH(failures) ? failures[code] : failures[0]; }

#define CONSTANT(name) {#name, name}
static const struct {
    const char *name;
    long long value;
} numbers[] = {
    /* who attaches */
    CONSTANT(ROLE_SCHEDULER),
    CONSTANT(ROLE_DRIVER),
    CONSTANT(ROLE_WORKER),
    CONSTANT(ROLE_REMOTE_NODE),
    CONSTANT(MAX_CLIENTS),
    CONSTANT(MAX_SLOTS),
    /* where tasks begin */
    CONSTANT(ROUTE_ANY),
    CONSTANT(ROUTE_HERE),
    CONSTANT(ROUTE_ASKS),
    CONSTANT(ROUTE_WAITS),
    CONSTANT(ROUTE_UNDIRECTED),
    CONSTANT(ROUTE_DIRECTED),
    CONSTANT(ROUTE_NEVER),
    CONSTANT(STRATEGY_SIZE),
    /* resources */
    CONSTANT(RESOURCE_UNIT),
    CONSTANT(MAX_KINDS),
    CONSTANT(MAX_CLASSES),
    CONSTANT(MAX_POOLS),
    CONSTANT(BUNDLE_HERE),
    CONSTANT(BUNDLE_NOWHERE),
    CONSTANT(BUNDLE_COMING),
    /* objects */
    CONSTANT(OBJECT_PENDING),
    CONSTANT(OBJECT_READY),
    CONSTANT(OBJECT_ERROR),
    CONSTANT(OBJECT_FAILED),
    CONSTANT(PLACE_HERE),
    CONSTANT(PLACE_REMOTE),
    CONSTANT(PLACE_LOST),
    CONSTANT(ITEM_EXISTS),
    CONSTANT(ITEM_UNWANTED),
    CONSTANT(STREAM_FORSAKEN),
    CONSTANT(FAILURE_WORKER_CRASHED),
    CONSTANT(FAILURE_CANCELLED),
    CONSTANT(FAILURE_ACTOR_DIED),
    CONSTANT(FAILURE_ACTOR_UNAVAILABLE),
    CONSTANT(FAILURE_OUT_OF_MEMORY),
    CONSTANT(FAILURE_OBJECT_LOST),
    CONSTANT(FAILURE_STORE_FULL),
    CONSTANT(FAILURE_UNPLACED),
    CONSTANT(FAILURE_ACTOR_UNPLACED),
    CONSTANT(FAILURE_NODE_DIED),
    CONSTANT(FAILURE_CANNOT_LEAVE),
    CONSTANT(FAILURE_UNROUTED),
    CONSTANT(FAILURE_SHARED_STAYS),
    CONSTANT(SYNC_BARRIER),
    CONSTANT(SYNC_COUNTER),
    CONSTANT(SYNC_CONDITION),
    CONSTANT(SYNC_MOST_MEMBERS),
    CONSTANT(SYNC_DONE),
    CONSTANT(SYNC_PENDING),
    CONSTANT(SYNC_BROKEN),
    CONSTANT(SYNC_RESET),
    CONSTANT(SYNC_OWNED),
    CONSTANT(SYNC_NOT_OWNED),
    /* tasks */
    CONSTANT(TASK_FLAG_RETRY_EXCEPTIONS),
    CONSTANT(TASK_FLAG_ENV),
    CONSTANT(TASK_FLAG_STREAM),
    CONSTANT(TASK_FLAG_STAYS),
    CONSTANT(PROGRESS_GONE),
    CONSTANT(PROGRESS_WAITS),
    CONSTANT(PROGRESS_QUEUED),
    CONSTANT(PROGRESS_RUNS),
    CONSTANT(PROGRESS_SLEEPS),
    /* actors */
    CONSTANT(ACTOR_PENDING),
    CONSTANT(ACTOR_ALIVE),
    CONSTANT(ACTOR_RESTARTING),
    CONSTANT(ACTOR_DEAD),
    CONSTANT(ACTOR_FLAG_ORDERED),
    CONSTANT(MAX_GROUPS),
    /* how processes and actors end */
    CONSTANT(DIED_OF_MEMORY),
    CONSTANT(DIED_WITH_NODE),
    CONSTANT(ENDED_BY_KILL),
    CONSTANT(ENDED_BY_ITSELF),
    CONSTANT(ENDED_WITH_HANDLES),
    CONSTANT(NOT_BEGUN),
    /* events: kinds, and what some of their fields are */
    CONSTANT(EVENT_SUBMITTED),
    CONSTANT(EVENT_PARENT),
    CONSTANT(EVENT_DEPENDS),
    CONSTANT(EVENT_STARTED),
    CONSTANT(EVENT_FINISHED),
    CONSTANT(EVENT_RETRIED),
    CONSTANT(EVENT_PUT),
    CONSTANT(EVENT_FREED),
    CONSTANT(EVENT_ACTOR_CREATED),
    CONSTANT(EVENT_ACTOR_STATE),
    CONSTANT(EVENT_WORKER_STARTED),
    CONSTANT(EVENT_WORKER_DIED),
    CONSTANT(EVENT_BLOCKED),
    CONSTANT(EVENT_UNBLOCKED),
    CONSTANT(EVENT_RAN),
    CONSTANT(EVENT_TRANSFER),
    CONSTANT(EVENT_TRANSFERRED),
    CONSTANT(EVENT_CALLED),
    CONSTANT(EVENT_RUNS_ON),
    CONSTANT(EVENT_BY_PUT),
    CONSTANT(EVENT_AS_ARGUMENT),
    CONSTANT(EVENT_AS_ITEM),
    CONSTANT(EVENT_OK),
    CONSTANT(EVENT_ERROR),
    CONSTANT(EVENT_CANCELLED),
    CONSTANT(EVENT_CRASHED),
};

/* The fields of struct event_record, in their order: name, numpy's code, struct's code. */
static const struct {
    const char *name, *dtype;
    char format;
} event_fields[] = {
    {"t", "<u8", 'Q'}, {"seq", "<u8", 'Q'}, {"a", "<u4", 'I'},   {"b", "<u4", 'I'},
    {"c", "<u4", 'I'}, {"d", "<u2", 'H'},   {"kind", "u1", 'B'}, {"client", "u1", 'B'},
};
static_assert(offsetof(struct event_record, ticks) == 0 && offsetof(struct event_record, seq) == 8 &&
                  offsetof(struct event_record, a) == 16 && offsetof(struct event_record, b) == 20 &&
                  offsetof(struct event_record, c) == 24 && offsetof(struct event_record, d) == 28 &&
                  offsetof(struct event_record, kind) == 30 && offsetof(struct event_record, client) == 31,
              "event_fields says where the fields of a record lie");

static PyObject *event_dtype(void)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < LENGTH(event_fields); i++) {
        PyObject *field = Py_BuildValue("(ss)", event_fields[i].name, event_fields[i].dtype);
        if (!field || PyList_Append(list, field) < 0)
            Py_CLEAR(list);
        Py_XDECREF(field);
    }
    return list;
}

static PyObject *event_format(void)
{
    char text[LENGTH(event_fields) + 2] = "<";
    for (size_t i = 0; i < LENGTH(event_fields); i++)
        text[i + 1] = event_fields[i].format;
    return PyUnicode_FromString(text);
}

static PyObject *words(const char *const *names, size_t n)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++) {
        PyObject *word = PyUnicode_FromString(names[i]);
        if (!word)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, word);
    }
    return tuple;
}

static int add(PyObject *module, const char *name, PyObject *value)
{
    int result = value ? PyModule_AddObjectRef(module, name, value) : -1;
    Py_XDECREF(value);
    return result;
}

int constants_init(PyObject *module)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < LENGTH(numbers); i++)
        result = add(module, numbers[i].name, PyLong_FromLongLong(numbers[i].value));
    if (result < 0 || add(module, "PUT_BIT", PyLong_FromUnsignedLongLong(PUT_BIT)) < 0 ||
        add(module, "EVENT_DTYPE", event_dtype()) < 0 || add(module, "EVENT_FORMAT", event_format()) < 0 ||
        add(module, "ACTOR_STATES", words(actor_states + 1, LENGTH(actor_states) - 1)) < 0 ||
        add(module, "TASK_STATES", words(NAMES(task_states))) < 0 ||
        add(module, "OBJECT_STATES", words(object_states + 1, LENGTH(object_states) - 1)) < 0 ||
        add(module, "PLACEMENT_MODES", words(NAMES(placement_modes))) < 0 ||
        add(module, "FAILURES", words(NAMES(failures))) < 0)
        return -1;
    return 0;
}
