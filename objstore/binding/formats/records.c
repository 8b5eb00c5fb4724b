#include "formats/records.h"

#include <stdarg.h>

/* Fields in the order of the record. A name is a promise: Python and the agent read it. */
#define FIELDS(...)                 \
    (PyStructSequence_Field[])      \
    {                               \
        __VA_ARGS__, { NULL, NULL } \
    }
#define RECORD(type_name, text, ...) {"cellmesh.objstore._core." type_name, text, FIELDS(__VA_ARGS__), 0}

static PyStructSequence_Desc descriptions[N_RECORDS] = {
    [RECORD_ACTOR] = RECORD("ActorRecord", "An actor, as the agent tells another machine of it.",
                            {"actor", "its index"}, {"state", "one of ACTOR_STATES"},
                            {"death_detail", "how its process ended"}, {"for_good", "whether it was ended on purpose"},
                            {"spec", "an ActorSpec"}, {"checkpoint", "slot of what it has saved, -1: nothing"}),
    [RECORD_ACTOR_DEATH] =
        RECORD("ActorDeath", "How an actor ended.", {"how", "unplaced, constructor, exited, killed, ended or died"},
               {"detail", "exit code or signal"}),
    [RECORD_ACTOR_NEWS] =
        RECORD("ActorNews", "What an actor that lives on another machine wants of the agent.", {"actor", "its index"},
               {"has_calls", "calls wait for it"}, {"has_ended", "no handle is left"}, {"is_killed", "it is to end"},
               {"for_good", "without a restart"}),
    [RECORD_ACTOR_PLACE] = RECORD("ActorPlace", "What identifies an actor without keeping it alive.",
                                  {"slot", "in the table"}, {"generation", "how often that place was used"}),
    [RECORD_ACTOR_SPEC] =
        RECORD("ActorSpec", "How an actor takes its calls.", {"flags", "ACTOR_FLAG_ORDERED or 0"},
               {"max_concurrency", "calls that run at once"}, {"group_limits", "the same for each concurrency group"}),
    [RECORD_BUNDLE] =
        RECORD("Bundle", "A bundle of a placement group, as the agent sees it.", {"amounts", "{name: units}"},
               {"place", "BUNDLE_NOWHERE, BUNDLE_COMING, 0: here, n: the client n - 1"}),
    [RECORD_BUNDLE_STATE] =
        RECORD("BundleState", "A bundle of a placement group, for listings.", {"total", "{name: amount}"},
               {"available", "{name: amount}"}, {"node", "last 32 bits of its number, 0: here, None: not reserved"}),
    [RECORD_CANCELLED] =
        RECORD("Cancelled", "What a cancellation has met.", {"outcome", "finished, pending, running, put or actor"},
               {"pid", "of the process that was signalled, else 0"}, {"task", "number of the task or put"}),
    [RECORD_CAPACITY] =
        RECORD("Capacity", "What this node has to give, in units.", {"free", "{name: units}"},
               {"lent", "{name: units} that other machines use, or tasks that the agent has placed here"},
               {"kept", "{name: units} of actors and bundles"}, {"n_running", "tasks that run and actors that live"},
               {"n_lent", "how many of them count as lent"}),
    [RECORD_CLASS_TERMS] = RECORD("ClassTerms", "What a resource class says besides its demand.",
                                  {"kept", "{name: units} that an actor keeps once constructed"},
                                  {"env", "number of its environment"}, {"priority", "higher begins first"}),
    [RECORD_CLOCK] = RECORD("Clock", "Turns ticks of events into Unix time.", {"ticks", "at the segment's creation"},
                            {"unix_ns", "at the same moment"}, {"ns_per_tick", "the rate since then"}),
    [RECORD_CREATED_ACTOR] = RECORD("CreatedActor", "A new actor.", {"ref", "its handle"},
                                    {"constructor", "number of the task that constructs it"}),
    [RECORD_EVENTS] = RECORD("Events", "A piece of the event ring.", {"records", "bytes, of EVENT_DTYPE"},
                             {"cursor", "where to read on"}, {"lost", "records overwritten before they were read"}),
    [RECORD_EVENTS_READ] =
        RECORD("EventsRead", "What was read into a buffer.", {"n", "records"}, {"cursor", "where to read on"},
               {"lost", "records overwritten before they were read"}),
    [RECORD_EXPIRED] = RECORD("Expired", "Tasks whose time was up.", {"at", "when to look again, monotonic s; None"},
                              {"stopped", "[StoppedTask]"}),
    [RECORD_FAILURE] =
        RECORD("Failure", "Why the system has failed an object.", {"kind", "\"system\""}, {"code", "a failure's name"},
               {"detail", "what the code says it is"}, {"task", "number of the task"}),
    [RECORD_FUNCTION_PLACE] = RECORD("FunctionPlace", "Where a function object lies.", {"slot", "-1: there is none"},
                                     {"generation", "the lower 16 bits"}),
    [RECORD_GROUP] = RECORD("Group", "A placement group that concerns the agent.", {"number", "in this session"},
                            {"mode", "how its bundles are spread"}, {"about", "slot of the object that describes it"},
                            {"bundles", "[Bundle]"}),
    [RECORD_HOLDER] = RECORD("Holder", "Who has what a task waits for.", {"name", "of its function"},
                             {"pid", "of its process"}, {"amounts", "{name: amount}"}),
    [RECORD_IDLE_MEMORY] = RECORD("IdleMemory", "Unused memory of the store.", {"idle_bytes", "in large free chunks"},
                                  {"needed_bytes", "by how much the use was higher since the last call"}),
    [RECORD_OBJECT] =
        RECORD("ObjectRecord", "An object, as the agent tells another machine of it.", {"state", "one of OBJECT_*"},
               {"size", "in bytes"}, {"refs", "slots of the objects in it"}, {"failure", "a FAILURE_* code or 0"},
               {"failure_detail", "what the code says it is"}, {"place", "PLACE_HERE, PLACE_REMOTE, PLACE_LOST"},
               {"is_actor", "whether it stands for an actor"}),
    [RECORD_PLACED_TASK] = RECORD("PlacedTask", "A task that was told to begin on this node.", {"task", "its slot"},
                                  {"number", "its own"}),
    [RECORD_RESOURCES] = RECORD("Resources", "The resources of this node.", {"total", "{name: amount}"},
                                {"available", "{name: amount}"}),
    [RECORD_RESOURCE_CLASS] =
        RECORD("ResourceClass", "What tasks of equal needs share.", {"shape", "bytes, for submitters"},
               {"fits", "whether this node could ever run one"}),
    [RECORD_RETRIED_TASK] =
        RECORD("RetriedTask", "A task that runs again after its process died.", {"number", "0: there is none"},
               {"n_before", "attempts so far"}, {"most", "attempts that it may have, -1: any number"}),
    [RECORD_RUN] = RECORD("Run", "A task that runs on this machine.", {"number", "the task's"}, {"pid", "its process"},
                          {"since_s", "for how long"}),
    [RECORD_RUN_TIMES] = RECORD("RunTimes", "When a task ran, relative to now.", {"pid", "0: it is not known"},
                                {"waited_s", "before it began"}, {"ran_s", "how long"}, {"ended_s", "how long ago"}),
    [RECORD_STOPPED_OWNER] =
        RECORD("StoppedOwner", "The process that holds the segment's lock and is stopped.", {"pid", "0: there is none"},
               {"is_driver", "whether it is one"}, {"n_killed", "such processes that were killed"},
               {"killed_pid", "the last of them"}, {"grace_s", "how long one may be stopped"}),
    [RECORD_STOPPED_TASK] =
        RECORD("StoppedTask", "A task that was stopped because its time was up.", {"pid", "its process"},
               {"number", "the task's"}, {"killed", "whether its process was killed, else interrupted"}),
    [RECORD_SUBMITTED_TASK] =
        RECORD("SubmittedTask", "A task of another machine that was submitted here.", {"task", "its slot"},
               {"number", "its own"}, {"results", "slots"}, {"stream", "slot of its stream, -1: it has none"}),
    [RECORD_SURPLUS] = RECORD("Surplus", "Waiting tasks of one resource class.", {"resource_class", "its number"},
                              {"n_ready", "tasks that may run on another machine"},
                              {"n_startable", "of them could start here now"}, {"demand", "{name: units}"},
                              {"n_staying", "tasks that cannot travel"}, {"asks", "whether they wait to be told where"},
                              {"strategy", "as text"}, {"in_group", "whether they belong to a placement group"},
                              {"fits", "whether one would fit in here if nothing else ran"},
                              {"near", "{remote node or -1 for here: bytes of their arguments}"}),
    [RECORD_TASK] =
        RECORD("TaskRecord", "What it takes to run a task on another machine.", {"task", "its slot"},
               {"number", "its own"}, {"resource_class", "its number"}, {"function", "slot"}, {"arguments", "bytes"},
               {"refs", "slots of the objects in the arguments"}, {"n_dependencies", "how many of refs it waits for"},
               {"n_returns", "results"}, {"max_retries", "-1: any number"}, {"flags", "TASK_FLAG_*"},
               {"attempt", "from 0"}, {"origin", "number of the cell"}, {"parent", "number of the task it came from"},
               {"actor", "index, -1: none"}, {"actor_object", "slot of the actor's object, -1: none"},
               {"group", "concurrency group"}, {"times", "TaskTimes or None"}),
    [RECORD_TASK_BUNDLE] =
        RECORD("TaskBundle", "The bundle in which a task runs.", {"group", "number of the placement group"},
               {"bundle", "index in it"}, {"captures", "whether tasks that it submits run in the group, too"}),
    [RECORD_TASK_TIMES] =
        RECORD("TaskTimes", "How long a task may run, and waits before it runs again.", {"timeout_ms", "0: any time"},
               {"delay_ms", "before the second attempt"}, {"most_delay_ms", "before any attempt"},
               {"retries_timeout", "whether an attempt that ran too long is followed by another"}),
};

int records_init(PyObject *module, PyTypeObject *types[N_RECORDS])
{
    for (int i = 0; i < N_RECORDS; i++) {
        PyStructSequence_Desc *d = &descriptions[i];
        d->n_in_sequence = 0;
        while (d->fields[d->n_in_sequence].name)
            d->n_in_sequence++;
        types[i] = PyStructSequence_NewType(d);
        const char *name = types[i] ? strrchr(d->name, '.') + 1 : NULL;
        if (!name || PyModule_AddObjectRef(module, name, (PyObject *)types[i]) < 0)
            return -1;
    }
    return 0;
}

PyObject *record_new(PyTypeObject *const types[N_RECORDS], enum record which, const char *format, ...)
{
    char in_parentheses[64];
    PyOS_snprintf(in_parentheses, sizeof in_parentheses, "(%s)", format);
    va_list values;
    va_start(values, format);
    PyObject *tuple = Py_VaBuildValue(in_parentheses, values);
    va_end(values);
    PyObject *record = tuple ? PyStructSequence_New(types[which]) : NULL;
    assert(!tuple || PyTuple_GET_SIZE(tuple) == descriptions[which].n_in_sequence);
    for (Py_ssize_t i = 0; record && i < PyTuple_GET_SIZE(tuple); i++)
        PyStructSequence_SetItem(record, i, Py_NewRef(PyTuple_GET_ITEM(tuple, i)));
    Py_XDECREF(tuple);
    return record;
}
