/* The CPython extension `_core`: what its files share. Only files of this folder include Python.h.
 *
 * Locks: the GIL protects everything private to the process (reference counts per slot, drop buffer, caches); the
 * segment lock protects what is shared. Order: the GIL may be held when the segment lock is taken, and under the
 * segment lock no Python code runs, nothing is allocated and no object dies. Everything that sleeps drops the GIL
 * first.
 */
#ifndef CELLMESH_BINDING_H
#define CELLMESH_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>

#include "clients/client.h"
#include "clients/reap.h"
#include "codec/codec.h"
#include "formats/records.h"
#include "memory/event.h"
#include "memory/liveness.h"
#include "memory/written_pages.h"
#include "objects/object.h"
#include "objects/verify_object.h"
#include "recovery/check.h"
#include "recovery/verify.h"
#include "retries/retry.h"
#include "tasks/actor.h"
#include "tasks/placement.h"
#include "tasks/resource.h"
#include "tasks/task.h"
#include "tasks/task_stream.h"
#include "tasks/verify_task.h"

/* CPython's slot tables keep functions in void pointers, which ISO C leaves to the platform and POSIX allows. */
#pragma GCC diagnostic ignored "-Wpedantic"

enum { DROP_BUFFER = 32, FUNCTION_CACHE = 1024, OFFLOAD_WHY_SIZE = 1400 };
#define DROP_AT_ONCE 65536u /* bytes: larger objects are given up without buffering */
#define IMPLICIT_PUT 65536u /* bytes: larger arguments become objects of their own */
/* bytes: where the codec begins to write arrays out of band, which arguments cannot be */
#define IMPLICIT_PUT_BUFFER 1024u
#define SHARED_BYTES 131072u       /* bytes: larger ones of the same bytes share one object */
#define ARGUMENTS_MAX (64u << 20)  /* bytes of small arguments together, which are copied while the lock is held */
#define LOCAL_MARKED 0x40000000u   /* in local counts: seen before, while a list is looked through for duplicates */
#define LOCAL_BUFFERED 0x80000000u /* in local counts: its drop is in the buffer */

typedef struct {
    uint32_t slot, generation;
    PyObject *callable; /* NULL: empty */
    PyObject *name;
    size_t array_size; /* for array_memory_expect */
    uint32_t n_calls;  /* of those after some of which the worker leaves */
    bool readonly;     /* its arguments' arrays are read-only views */
} CachedFunction;

/* Empties the place before destructors run, as these may look for a function there. */
static inline void forget_function(CachedFunction *place)
{
    CachedFunction old = *place;
    *place = (CachedFunction){0};
    Py_XDECREF(old.callable);
    Py_XDECREF(old.name);
}

typedef struct {
    PyObject *pickle, *unpickle, *load_function, *load_method, *error_value, *make_error, *timeout_error, *store_error,
        *should_retry, *timed_out, *exited, *enter_task, *leave_task, *await_ref, *ref_future, *ref_mimebundle,
        *make_stream, *iterate, *waits_long, *blocks_loop, *run_meanwhile, *has_yielded, *argument_candidate,
        *argument_sent, *let_go_arguments, *pickle_arguments, *unpickle_arguments, *argument_failed, *arguments_failed,
        *value_failed, *cancel_ref, *add_done_callback, *remove_done_callback, *reduce_ref;
} Hooks;

typedef struct client_object {
    PyObject_HEAD
    struct segment s;
    int pid; /* 0: this process was forked from the client's */
    bool closed;
    uint32_t origin;
    uint32_t *local; /* references of this process per object slot, sparse */
    uint32_t *views; /* likewise: what in this process looks at the bytes of an object that may be offloaded */
    /* blocks of the segment whose pages this process has mapped, as far as copies know (bulk_copy.c) */
    _Atomic bool *mapped;
    struct pagemap pagemap; /* see private_pages.c, which opens it when it first asks */
    bool pagemap_asked;
    uint32_t drops[DROP_BUFFER], n_drops;
    int n_waiting; /* threads inside a wait, and one for good once there is a watcher */
    bool watching;
    bool main_waits;         /* the task's main thread in a wait: its CPU has been given back */
    bool threads_wait;       /* ... as threads of it wait, and the process does nothing */
    _Atomic int trust;       /* does looking before sleeping pay? see client_sleep */
    PyObject *call_variable; /* of an async actor: the ContextVar that holds the number of the running call */
    uint32_t n_wakes;        /* wake() calls */
    struct served_group {
        uint32_t n_idle, n_starting; /* threads of run() that wait for a call, or will */
        uint32_t n_wakes_taken;      /* of n_wakes, those that next() has answered */
    } groups[MAX_GROUPS + 1];        /* of the actor served, and last of those that take calls of any */
    uint32_t watch_seen;
    Hooks hooks;
    codec_hooks codec;
    CachedFunction *functions;
    uint32_t n_functions_freed; /* in the session, when they were last looked through */
    PyObject *instance;         /* the actor served */
    bool readonly;              /* the arrays that its calls are given are read-only views */
    PyObject *flush_output;     /* sends what the tasks have printed and this process holds back, see held_output.c */
    bool holds_output;
    PyObject *context;          /* without variables, of a task that has ended: for the next, see run.c */
    int rest;                   /* what it does next while it is idle, see run.c */
    int64_t no_cycle_gc_before; /* monotonic, ns */
    uint32_t n_actors_kept;     /* actors to which this process still had refs at the last collection */
    int wake_fd;                /* 0: there is none, see wake_fd.c */
    pthread_t wake_thread;
    _Atomic bool wake_thread_ends;
    PyObject *store_error_type;
    PyObject *weakrefs;
    struct client_object *next; /* of this process, see forked.c */
    struct left_behind {
        PyObject *restore, *sys, *names[2], *streams[2];
        uint64_t sys_version;
    } left_behind; /* see left_behind.c */
} ClientObject;

typedef struct {
    PyObject_HEAD
    ClientObject *client;
    uint32_t slot, generation;
} RefObject;

typedef struct {
    PyTypeObject *client_type, *ref_type, *submitter_type, *watch_type, *remote_node_type, *runs_type;
    PyObject *store_error;
    PyObject *get_in_python;
    bool refs_are_plain;   /* as Ray's: true, and unequal to any value */
    PyObject *ref_methods; /* that refs have in addition, or NULL */
    PyTypeObject *records[N_RECORDS];
} CoreState;

CoreState *core_state(PyObject *module);
extern struct PyModuleDef core_module;

/* A named record, see formats/records.h. */
#define make_record(c, which, ...) \
    record_new(((CoreState *)PyType_GetModuleState(Py_TYPE(c)))->records, which, __VA_ARGS__)

/* ---- process/interrupt.c */
PyObject *process_repeat_interrupts(PyObject *module, PyObject *unused);
void interrupt_seen(void);
/* From here on the main thread gets every SIGINT of the process, and each changes the futex word on which it is about
 * to sleep. False: this is another thread, or SIGINT has no handler. Only around a call that sleeps: a handler that is
 * set meanwhile would be undone. */
bool interrupts_to_me(_Atomic uint32_t *word);
void interrupts_to_any_thread(void);

/* ---- process/with_gap.c */
PyObject *process_deferring(PyObject *module, PyObject *handler);
/* Have Python's own handler of SIGINT be such a one. -1: with an error set. */
int process_mend_interrupts(void);

/* ---- process/process.c */
PyObject *process_set_name(PyObject *module, PyObject *name);
PyObject *process_set_death_signal(PyObject *module, PyObject *number);
PyObject *process_become_subreaper(PyObject *module, PyObject *unused);
PyObject *process_line_buffer_stdout(PyObject *module, PyObject *unused);
PyObject *process_keep_heap(PyObject *module, PyObject *unused);
/* Returns to the operating system what of the heap is free, if that is some megabytes. */
void process_trim_heap(void);

/* ---- worker/run.c */
/* The task that the calling thread, or in an async actor the calling coroutine, executes. With the GIL held. */
extern _Thread_local ClientObject *current_client;
extern _Thread_local uint32_t current_task_1;
extern _Thread_local bool runs_borrowed; /* in run_one: this thread runs tasks, whatever runs beside it */
uint32_t current_call_of(const ClientObject *c);
static inline uint32_t current_task_of(const ClientObject *c)
{
    return c->call_variable && !runs_borrowed ? current_call_of(c) : current_client == c ? current_task_1 : 0;
}
static inline uint32_t current_origin(const ClientObject *c)
{
    uint32_t task_1 = current_task_of(c);
    return task_1 ? c->s.tasks[task_1 - 1].origin : c->origin;
}

/* ---- client.c */
extern PyType_Spec client_spec;
int client_usable(ClientObject *c);   /* 0, or -1 with StoreError "closed"/"forked"/"corrupt" */
int client_readable(ClientObject *c); /* likewise; 0 also while the session ends */
/* Takes the lock to read what other processes have written. -1: an exception, and no lock. The header is verified
 * then, so loops and indices stay inside the tables. */
int lock_to_inspect(ClientObject *c);

/* Gives the lock back. If what was read is not `sound`: -1 with StoreError "corrupt". */
int end_inspect(ClientObject *c, bool sound);
/* Whether those are attached who are counted on, see client_table_is_sound. 0, or -1 with StoreError "corrupt". */
int look_at_clients(ClientObject *c);
int32_t pid_of_worker(const struct segment *s, uint32_t worker); /* 0: a remote node, whose tasks run there */
/* Under the lock, so that the task that runs there cannot end first. For a remote node, its agent is notified, which
 * reads the flags. */
int32_t signal_worker(struct segment *s, uint32_t worker, int number);
PyObject *raise_store_error(ClientObject *c, const char *code, const char *detail);
PyObject *raise_core_error(ClientObject *c, int error, const char *what);
void flush_drops(ClientObject *c);

/* ---- actors.c */
uint32_t actor_of_ref(ClientObject *c, PyObject *ref); /* the actor of a ref, plus one; 0: none, or an exception */
int parse_actor_ref(ClientObject *c, PyObject *ref, uint32_t *actor); /* -1 with TypeError: it is no actor's */
PyObject *death_of(ClientObject *c, const struct actor_slot *a);      /* an ActorDeath */
uint64_t actor_name_hash(const char *name, const char *scope);

/* ---- process/forked.c */
int forked_module_init(void);
void forked_watch(ClientObject *c);
void forked_forget(const ClientObject *c);
_Noreturn void end_forked_child(void);
/* To be called after user code of a task. A child that the code has forked returns here too, and ends, with the
 * pending exception if there is one. */
static inline void end_if_forked(const ClientObject *c)
{
    if (!c->pid)
        end_forked_child();
}

/* ---- ref.c */
extern PyType_Spec ref_spec;
PyObject *ref_new(ClientObject *c, uint32_t slot, bool held); /* held: this client's bit is set already */
PyObject *ref_make(void *client, uint32_t slot);              /* for codec_source */
int ref_slot(void *client, PyObject *ref, uint32_t *slot);
void ref_refuse_conversions(PyTypeObject *type);
PyObject *core_refs_are_plain(PyObject *module, PyObject *flag);
PyObject *core_set_ref_methods(PyObject *module, PyObject *methods);
static inline bool is_ref(const ClientObject *c, PyObject *o) { return Py_TYPE(o) == c->codec.ref_type; }

/* ---- process/cycle_gc.c: what this process keeps alive that is of no use any more */
/* Drops what was made of functions that are gone, and what those have captured; whether there was any. */
bool cycle_gc_drop_functions(ClientObject *c);
bool cycle_gc_ask_others(ClientObject *c); /* to drop it, too; false: no function is gone since the last call */
bool cycle_gc_collect(ClientObject *c, bool at_once); /* false: it did so lately, or the collector is off */
bool cycle_gc_is_worth_it(ClientObject *c);

/* ---- process/bulk_copy.c */
bool copy_init(ClientObject *c); /* false: no memory */
/* large blocks without the GIL, by several threads */
void copy_bytes(void *client, void *to, const void *from, size_t n);

/* ---- process/private_pages.c: for codec_source */
codec_pages *private_pages(void *client, const unsigned char *data, size_t size);
void private_pages_forget(ClientObject *c); /* those that nobody uses */
PyObject *core_private_pages(PyObject *module, PyObject *unused);

/* ---- value.c: bytes in the segment <-> Python values */
typedef struct { /* an encoded value on its way into an object */
    codec_out out;
    uint64_t size;
} Encoded;

int encode_value(ClientObject *c, Encoded *e, PyObject *value);
void encoded_clear(Encoded *e);
PyObject *put_shared(ClientObject *c, PyObject *value, uint32_t *slot); /* for an argument */
PyObject *put_shared_encoded(ClientObject *c, PyObject *value, Encoded *e, uint32_t *slot);
PyObject *put_value(ClientObject *c, PyObject *value, uint32_t *slot, enum event_put why, bool force_arena); /* a Ref */
PyObject *put_error(ClientObject *c, PyObject *description, enum event_put why); /* a Ref, whose value raises */
/* Under the lock: an object that is held, and the record of it. OBJSTORE_LIMIT. */
int create_put(ClientObject *c, const Encoded *e, uint32_t origin, enum event_put why, uint32_t *slot);
int seal_value(ClientObject *c, uint32_t slot, uint32_t state, Encoded *e);
void tell_damage(void *client); /* for codec_hooks */
/* A hook has its say about the exception that is set, if it is of a kind; the exception goes on. The hook is given the
 * exception and then the tuple that `about(what)` makes. */
void tell_hook(PyObject *hook, PyObject *kind, PyObject *(*about)(const void *), const void *what);
/* The value, or raises what it describes. `access` is what the reader gets of arrays; of shared ones everybody gets the
 * same. */
PyObject *load_value(ClientObject *c, RefObject *ref, enum codec_access access);
/* The bytes of a READY or ERROR object. */
PyObject *decode_slot(ClientObject *c, uint32_t slot, PyObject *owner, enum codec_access access);
/* Whether a sealed object is a value whose bytes are in memory and quickly decoded, without code of the user's. */
bool decodes_at_once(ClientObject *c, uint32_t slot);
PyObject *error_description(ClientObject *c, RefObject *ref); /* tuple for make_error */
PyObject *make_exception(ClientObject *c, RefObject *ref);    /* what a failed object describes */

/* Waits for room. 0: full or interrupted, with an exception. */
uint64_t allocate(ClientObject *c, uint64_t size, uint32_t n_refs);
/* For what lies on disk. 0: full, without an exception, or interrupted, with one. */
uint64_t allocate_to_read(ClientObject *c, uint64_t size);

/* ---- process/offload.c: offloading objects, and reading them back */
/* Offloads an object. NO_ROOM: there is none that could go, or `why` (OFFLOAD_WHY_SIZE, "" at first) says why it
 * could not. */
enum {
    ROOM_FAILED = -1 /* exception */,
    NO_ROOM = 0,
    SOME_ROOM = 1,
    ROOM_SOON = 2 /* others are at it, or it was read meanwhile */
};
int make_room(ClientObject *c, char *why);
/* After an operation failed for want of slots or memory, for the n-th time: 1: try it again; 0; -1: exception. */
int find_room(ClientObject *c, int error, int n);
/* For 20 ms, or until the inbox is not what was seen. -1: exception. */
int sleep_a_little(ClientObject *c, uint32_t seen);
void keep_in_memory(ClientObject *c, uint32_t slot);
/* An object that this process reads; where the store has no room for it, `copy` has its bytes then. 0, or -1 with an
 * exception. */
int bring_back(ClientObject *c, uint32_t slot, PyObject **copy);
/* How long this thread waits for that, a monotonic time in ns: NO_DEADLINE, or TOO_LATE once it has passed and an
 * exception says so. */
extern _Thread_local int64_t bring_by_ns;
extern _Thread_local bool loads_arguments; /* what is remote is an argument of a task that has not begun */
#define NO_DEADLINE INT64_MAX
#define TOO_LATE INT64_MIN
void begin_reading(ClientObject *c, uint32_t slot);
/* The object is brought back if it is away, too, as of `bring_back`. `end_reading` follows in any case. */
int begin_reading_here(ClientObject *c, uint32_t slot, PyObject **copy);
void end_reading(ClientObject *c, uint32_t slot);
void note_view(PyObject *owner, bool begins); /* for codec_source; `owner` is a Ref */

/* ---- array_memory.c: results written where they will lie */
#define ARRAY_MEMORY_NEVER SIZE_MAX
void array_memory_expect(ClientObject *c, size_t size); /* arrays of so many bytes shall lie in the segment */
/* 1: `value` is the object now; 0: it cannot be; -1 */
int array_memory_seal(ClientObject *c, uint32_t slot, PyObject *value);
size_t array_memory_learn(ClientObject *c, PyObject *value); /* what to expect after `value` had to be copied */
/* in a forked child: it sees what it saw, and what it writes is its own. False: it cannot be */
bool array_memory_make_private(ClientObject *c);

/* ---- wait.c */
/* A wait looks at signals and at the end of the session between slices, though both wake it: soon at first, then twice
 * a second. */
#define FIRST_SLICE_NS (INT64_C(5) * 1000 * 1000)
#define LAST_SLICE_NS (INT64_C(500) * 1000 * 1000)
static inline int64_t longer_slice(int64_t slice) { return 2 * slice < LAST_SLICE_NS ? 2 * slice : LAST_SLICE_NS; }
/* to get: a task may run what it waits for itself */
enum wait_kind { WAIT_TO_LOOK, WAIT_TO_GET /* the first error ends it */, WAIT_TO_GET_ALL };
int wait_refs(ClientObject *c, PyObject *const *refs, Py_ssize_t n, Py_ssize_t goal, double timeout,
              enum wait_kind kind);
int parse_timeout(PyObject *timeout, double *seconds); /* None: -1.0 */
PyObject *client_ready(ClientObject *c, PyObject *ref);
int refuse_ref(ClientObject *c, PyObject *o, const char *function); /* -1 with the exception */
/* `function` is what the exception names. */
static inline int check_ref(ClientObject *c, PyObject *o, const char *function)
{
    return is_ref(c, o) && ((RefObject *)o)->client == c ? 0 : refuse_ref(c, o, function);
}

/* ---- get.c */
PyObject *client_get(ClientObject *c, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* what getting it would raise, or None */
PyObject *client_error_of(ClientObject *c, RefObject *ref, PyObject *timeout);
PyObject *core_make_get(PyObject *module, PyObject *args);

/* ---- submit/submitter.c */
extern PyType_Spec submitter_spec;

/* ---- worker/failed_argument.c */
/* Has the pending exception say which argument of a task could not be loaded. `dependency`: its number; -1: it is one
 * of those that are pickled together. */
void name_failed_argument(ClientObject *c, struct task_slot *t, PyObject *callable, int64_t dependency);

/* ---- worker/held_output.c */
void flush_output(ClientObject *c); /* keeps the exception that is pending */
static inline void send_held_output(ClientObject *c)
{
    if (c->holds_output)
        flush_output(c);
}

/* ---- worker/left_behind.c: what a task has changed in its process */
PyObject *note_and_call(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
void left_behind_clear(struct left_behind *l);
int left_behind_traverse(struct left_behind *l, visitproc visit, void *arg);

/* ---- process/watch.c: what exported code has taken along */
extern PyType_Spec watch_spec;
bool watch_changed(PyObject *watch);
bool watch_is_due(PyObject *watch); /* for a call: whether what pointers do not tell is to be looked at */

/* ---- worker/run.c */
PyObject *function_name(ClientObject *c, uint32_t slot); /* new reference to a str; never fails with an exception */

/* ---- worker/steps.c, facts.c, groups.c */
int parse_task(ClientObject *c, PyObject *number, uint32_t *task); /* one that runs in this process */
PyObject *client_task_info(ClientObject *c, PyObject *task);       /* a dict */
PyObject *group_limits(const struct actor_slot *a); /* of its concurrency groups, 0: any number of calls at a time */

/* ---- worker/times.c: how long tasks may run, and wait before they run again */
int parse_times(PyObject *value, void *to); /* for "O&": a struct time_limits, of None zeros */
bool has_times(const struct time_limits *times);
PyObject *times_of(ClientObject *c, uint32_t task);     /* as parse_times takes them */
double waits_s(const struct segment *s, uint32_t task); /* until its next attempt, 0: it does not wait for that */
void begin_time(ClientObject *c, uint32_t task);        /* its code begins to run */
/* the error of an attempt that was interrupted; NULL: it could not be made */
PyObject *timeout_of(ClientObject *c, uint32_t task, PyObject *exception);

/* ---- remote/remote_node.c, run_times.c */
extern PyType_Spec remote_spec, runs_spec;

/* ---- process/wake_fd.c */
void wake_fd_end(ClientObject *c);

/* ---- resources.c */
/* In units, by name; an amount below zero counts as zero and is left out. */
PyObject *amounts_to_python(const struct segment *s, const int64_t *amounts);
/* As people count, of the kinds of which there is any in `total`. */
PyObject *amounts_dict(const struct header *h, const int64_t amounts[MAX_KINDS], const int64_t total[MAX_KINDS]);
int parse_amounts(ClientObject *c, PyObject *dict, int64_t amounts[MAX_KINDS]);
/* The class of the caller's task, or of its actor's constructor; NULL: the caller is in no task. A task that is
 * submitted there takes after it: it goes to the same placement group, if that captures, and has the same priority,
 * unless it says otherwise. */
const struct resource_class *class_around(const ClientObject *c);
static inline bool takes_after(const struct resource_class *around, bool place, bool priority)
{
    return (place && around->place.captures) || (priority && around->terms.priority);
}
int take_after(ClientObject *c, const struct resource_class *around, bool place, bool priority, struct task_spec *spec,
               struct resource_shape *shape);
/* of Client.resource_class, for "O&": a struct resource_shape, as long as the object lives */
int parse_shape(PyObject *shape, void *to);
PyObject *raise_removed(ClientObject *c, uint32_t number); /* a placement group */
PyObject *raise_submit_error(ClientObject *c, int error, const struct task_spec *spec, bool actor);

/* ---- placement.c */
int placement_end_doomed(ClientObject *c); /* kills the workers of removed groups; -1: an exception */

/* ---- stream.c */
/* Runs what a generator function has returned: into the task's stream, until it ends or has no reader any more, which
 * gives the number of items; otherwise to a list of refs, or of as many values as the task has returns: of what it has
 * yielded before it raised that is `yielded`. */
PyObject *run_generator(ClientObject *c, uint32_t task, PyObject *generator, PyObject **yielded);
static inline bool must_run_generator(ClientObject *c, uint32_t task, PyObject *value)
{
    return PyGen_CheckExact(value) || PyAsyncGen_CheckExact(value) || (c->s.tasks[task].flags & TASK_FLAG_STREAM);
}

/* ---- inspect/events.c */
double ns_per_tick(const struct header *h);

/* ---- inspect/objects.c */
PyObject *client_info(ClientObject *c, PyObject *ref); /* what is known of an object and its task, a dict */

/* ---- methods of Client, by subject; client.c joins the tables */
extern PyMethodDef session_methods[], object_methods[], shared_methods[], sync_methods[], get_methods[], wait_methods[],
    submitter_methods[], task_methods[], actor_methods[], stream_methods[], resource_methods[], placement_methods[],
    run_methods[], step_methods[], fact_methods[], output_methods[], left_behind_methods[], time_methods[],
    scheduler_methods[], trim_methods[], offload_methods[], cycle_gc_methods[], wake_fd_methods[], standalone_methods[],
    route_methods[], serve_methods[], task_listing_methods[], object_listing_methods[], actor_listing_methods[],
    client_listing_methods[], why_methods[], event_methods[], segment_methods[];
void client_join_methods(void); /* before the type is made */
#define FAST(function) ((PyCFunction)(void (*)(void))function)

#endif
