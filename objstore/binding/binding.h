/* The CPython extension `_core`: what its files share. Only files of this folder include Python.h.
 *
 * Locks: the GIL protects everything private to the process (reference counts per slot, drop buffer, caches); the
 * segment lock protects what is shared. Order: the GIL may be held when the segment lock is taken, and under the
 * segment lock no Python code runs, nothing is allocated and no object dies. Everything that sleeps drops the GIL first.
 */
#ifndef CELLMESH_BINDING_H
#define CELLMESH_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>

#include "../core/actor.h"
#include "../core/burial.h"
#include "../core/client.h"
#include "../core/event.h"
#include "../core/liveness.h"
#include "../core/object.h"
#include "../core/placement.h"
#include "../core/recover.h"
#include "../core/resource.h"
#include "../core/stream.h"
#include "../core/task.h"
#include "codec.h"

/* CPython's slot tables keep functions in void pointers, which ISO C leaves to the platform and POSIX allows. */
#pragma GCC diagnostic ignored "-Wpedantic"

enum { DROP_BUFFER = 32, FUNCTION_CACHE = 1024, OFFLOAD_WHY_SIZE = 1400 };
#define DROP_AT_ONCE 65536u        /* bytes: larger objects are given up without buffering */
#define IMPLICIT_PUT 65536u        /* bytes: larger arguments become objects of their own */
#define IMPLICIT_PUT_BUFFER 1024u  /* bytes: where the codec begins to write arrays out of band, which arguments cannot be */
#define ARGUMENTS_MAX (64u << 20)  /* bytes of small arguments together, which are copied while the lock is held */
#define LOCAL_MARKED 0x40000000u   /* in local counts: seen before, while a list is looked through for duplicates */
#define LOCAL_BUFFERED 0x80000000u /* in local counts: its drop is in the buffer */

typedef struct {
    uint32_t slot, generation;
    PyObject *callable; /* NULL: empty */
    PyObject *name;
    size_t array_size;  /* for array_memory_expect */
    uint32_t n_calls;   /* of those after some of which the worker leaves */
} CachedFunction;

/* The place is empty before destructors run, which may look for a function there. */
static inline void forget_function(CachedFunction *place)
{
    CachedFunction old = *place;
    *place = (CachedFunction){0};
    Py_XDECREF(old.callable);
    Py_XDECREF(old.name);
}

typedef struct {
    PyObject *pickle, *unpickle, *load_function, *load_method, *error_value, *make_error, *timeout_error, *store_error,
        *should_retry, *enter_task, *leave_task, *await_ref, *ref_future, *ref_mimebundle, *make_stream, *iterate, *waits_long;
} Hooks;

typedef struct client_object {
    PyObject_HEAD
    struct segment s;
    int pid;        /* 0: this process was forked from the client's */
    bool closed;
    uint32_t origin;
    uint32_t *local; /* references of this process per object slot, sparse */
    uint32_t *views; /* likewise: what in this process looks at the bytes of an object that may go to disk */
    _Atomic bool *mapped; /* blocks of the segment whose pages this process has mapped, as far as copies know (copy.c) */
    uint32_t drops[DROP_BUFFER], n_drops;
    int n_waiting;  /* threads inside a wait, and one for good once there is a watcher */
    bool watching;
    int depth;      /* tasks being run inside the waits of others */
    _Atomic int trust; /* does looking before sleeping pay? see client_sleep */
    PyObject *call_variable; /* of an async actor: the ContextVar that holds the number of the running call */
    uint32_t n_wakes, n_wakes_taken; /* wake() calls, and those that next() has answered */
    uint32_t watch_seen;
    Hooks hooks;
    codec_hooks codec;
    CachedFunction *functions;
    uint32_t n_functions_freed; /* in the session, when they were last looked through */
    PyObject *instance; /* the actor served */
    bool has_run;             /* tasks, since litter was last collected */
    int64_t no_litter_before; /* monotonic, ns */
    int bell_fd;              /* 0: there is none, see bell.c */
    pthread_t bell_thread;
    _Atomic bool bell_ends;
    PyObject *store_error_type;
    PyObject *weakrefs;
    struct client_object *next; /* of this process, see forked.c */
} ClientObject;

typedef struct {
    PyObject_HEAD
    ClientObject *client;
    uint32_t slot, generation;
} RefObject;

typedef struct {
    PyTypeObject *client_type, *ref_type, *submitter_type, *proxy_type, *runs_type;
    PyObject *store_error;
    PyObject *get_in_python;
} CoreState;

CoreState *core_state(PyObject *module);
extern struct PyModuleDef core_module;

/* ---- interrupt.c */
PyObject *process_repeat_interrupts(PyObject *module, PyObject *unused);
void interrupt_seen(void);
/* From here on the main thread gets every SIGINT of the process, and each changes the futex word on which it is about to sleep; false: this is
 * another thread, or nobody handles it. Only around a call that sleeps: who changes handlers meanwhile would be undone. */
bool interrupts_to_me(_Atomic uint32_t *word);
void interrupts_to_anybody(void);

/* ---- process.c */
PyObject *process_set_name(PyObject *module, PyObject *name);
PyObject *process_set_death_signal(PyObject *module, PyObject *number);
PyObject *process_become_subreaper(PyObject *module, PyObject *unused);
PyObject *process_line_buffer_stdout(PyObject *module, PyObject *unused);

/* The task that the calling thread, or in an async actor the calling coroutine, executes. With the GIL held. */
extern _Thread_local ClientObject *current_client;
extern _Thread_local uint32_t current_task_1;
uint32_t current_call_of(const ClientObject *c);
static inline uint32_t current_task_of(const ClientObject *c)
{
    return c->call_variable ? current_call_of(c) : current_client == c ? current_task_1 : 0;
}
static inline uint32_t current_origin(const ClientObject *c)
{
    uint32_t task_1 = current_task_of(c);
    return task_1 ? c->s.tasks[task_1 - 1].origin : c->origin;
}

/* ---- client.c */
extern PyType_Spec client_spec;
int client_usable(ClientObject *c); /* 0, or -1 with StoreError "closed"/"forked"/"corrupt" */
/* Takes the lock for whoever looks at what others have written; -1: an exception, and no lock. By what the header then says,
 * loops and indices stay inside the tables. */
int lock_to_look(ClientObject *c);

/* The actor that a ref stands for, plus one; 0: none, or there is an exception. */
uint32_t actor_of_ref(ClientObject *c, PyObject *ref);
/* Under the lock, so that what runs there cannot end before: for another machine's client its agent is told, which looks at the flags. */
int32_t pid_of_worker(const struct segment *s, uint32_t worker); /* 0: what it runs runs on another machine */
int32_t signal_worker(struct segment *s, uint32_t worker, int number);
int end_look(ClientObject *c, bool sound); /* gives the lock back; -1 with StoreError "corrupt": what was seen leads nowhere */
PyObject *raise_store_error(ClientObject *c, const char *code, const char *detail);
PyObject *raise_core_error(ClientObject *c, int error, const char *what);
void flush_drops(ClientObject *c);

/* ---- forked.c */
int forked_module_init(void);
void forked_watch(ClientObject *c);
void forked_forget(const ClientObject *c);
_Noreturn void end_forked_child(void);
/* After user code of a task: a child that it has forked comes back, too, and ends here, with the pending exception if there is one. */
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
static inline bool is_ref(const ClientObject *c, PyObject *o) { return Py_TYPE(o) == c->codec.ref_type; }

/* ---- litter.c: what this process keeps alive although nobody asks for it */
bool litter_drop_functions(ClientObject *c); /* what was made of functions that are gone, and what those have captured; whether there was any */
bool litter_ask_others(ClientObject *c);     /* to drop theirs; false: no function is gone since that was last asked */
bool litter_collect(ClientObject *c, bool at_once); /* false: it did so lately, or the collector is off */
bool litter_is_worth_it(const ClientObject *c);
PyObject *client_collect_litter(ClientObject *c, PyObject *unused);

/* ---- copy.c */
bool copy_init(ClientObject *c); /* false: no memory */
void copy_bytes(void *client, void *to, const void *from, size_t n); /* large blocks without the GIL, by several threads */

/* ---- value.c: bytes in the segment <-> Python values */
typedef struct { /* an encoded value on its way into an object */
    codec_out out;
    uint64_t size;
} Encoded;

int encode_value(ClientObject *c, Encoded *e, PyObject *value);
void encoded_clear(Encoded *e);
PyObject *put_value(ClientObject *c, PyObject *value, uint32_t *slot, enum event_put why, bool force_arena); /* a Ref */
int seal_value(ClientObject *c, uint32_t slot, uint32_t state, Encoded *e);
void tell_damage(void *client);                         /* for codec_hooks */
PyObject *load_value(ClientObject *c, RefObject *ref);                /* value, or raises what it describes */
PyObject *decode_slot(ClientObject *c, uint32_t slot, PyObject *owner); /* the bytes of a READY or ERROR object */
PyObject *error_description(ClientObject *c, RefObject *ref);         /* tuple for make_error */

/* Waits for room. `spare`: as for away_choose. 0: full or interrupted, with an exception. */
uint64_t allocate(ClientObject *c, uint64_t size, uint32_t n_refs, uint64_t spare);

/* ---- offload.c: objects to disk, and back */
/* Moves an object to disk. NO_ROOM: there is none that could go, or `why` (OFFLOAD_WHY_SIZE, "" at first) says why it could not. */
enum { ROOM_FAILED = -1 /* exception */, NO_ROOM = 0, SOME_ROOM = 1, ROOM_SOON = 2 /* others are at it, or it was read meanwhile */ };
int make_room(ClientObject *c, uint64_t spare, char *why);
/* After an operation failed for want of slots or memory, for the n-th time: 1: try it again; 0; -1: exception. */
int find_room(ClientObject *c, int error, int n);
void keep_in_memory(ClientObject *c, uint32_t slot);
int bring_back(ClientObject *c, uint32_t slot); /* an object that this process reads; 0, or -1 with an exception */
/* How long this thread waits for that, a monotonic time in ns: NO_DEADLINE, or TOO_LATE once it has passed and an exception says so. */
extern _Thread_local int64_t bring_by_ns;
#define NO_DEADLINE INT64_MAX
#define TOO_LATE INT64_MIN
void begin_reading(ClientObject *c, uint32_t slot);
void end_reading(ClientObject *c, uint32_t slot);
void note_view(PyObject *owner, bool begins); /* for codec_source; `owner` is a Ref */
PyObject *client_set_offload(ClientObject *c, PyObject *args);
PyObject *client_notice_offload(ClientObject *c, PyObject *bytes);
PyObject *client_unwanted_files(ClientObject *c, PyObject *names);

/* ---- array_memory.c: results written where they will lie */
#define ARRAY_MEMORY_NEVER SIZE_MAX
size_t array_memory_expect(size_t size); /* arrays of so many bytes shall lie in the segment; returns what was said before */
int array_memory_seal(ClientObject *c, uint32_t slot, PyObject *value); /* 1: `value` is the object now; 0: it cannot be; -1 */
size_t array_memory_learn(ClientObject *c, PyObject *value); /* what to expect after `value` had to be copied */
bool array_memory_make_private(ClientObject *c); /* in a forked child: it sees what it saw, and what it writes is its own. False: it cannot be */

/* ---- wait.c */
/* Who waits looks at signals and at the end of the session between slices, though both wake him: soon at first, then twice a second. */
#define FIRST_SLICE_NS (INT64_C(5) * 1000 * 1000)
#define LAST_SLICE_NS (INT64_C(500) * 1000 * 1000)
static inline int64_t longer_slice(int64_t slice) { return 2 * slice < LAST_SLICE_NS ? 2 * slice : LAST_SLICE_NS; }
int wait_refs(ClientObject *c, PyObject *const *refs, Py_ssize_t n, Py_ssize_t goal, double timeout, bool fail_fast);
int parse_timeout(PyObject *timeout, double *seconds); /* None: -1.0 */
PyObject *client_get(ClientObject *c, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *core_make_get(PyObject *module, PyObject *args);
PyObject *client_wait(ClientObject *c, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *client_ready(ClientObject *c, PyObject *ref);
PyObject *client_mark_waiting(ClientObject *c, PyObject *ref);
PyObject *client_watch(ClientObject *c, PyObject *timeout);

/* ---- submit.c */
extern PyType_Spec submitter_spec;
PyObject *client_submitter(ClientObject *c, PyObject *args, PyObject *kwargs);
PyObject *client_create_actor(ClientObject *c, PyObject *args, PyObject *kwargs);
uint64_t actor_name_hash(const char *name, const char *scope);

/* ---- run.c */
PyObject *client_run(ClientObject *c, PyObject *unused);
/* Runs the task that makes `object` here and now, on top of the task that waits for it. False: it cannot be had. */
bool run_awaited(ClientObject *c, uint32_t object);
PyObject *client_next(ClientObject *c, PyObject *timeout);
PyObject *client_set_call_variable(ClientObject *c, PyObject *variable);
PyObject *client_load(ClientObject *c, PyObject *task);
PyObject *client_finish(ClientObject *c, PyObject *const *args, Py_ssize_t nargs);
PyObject *client_fail(ClientObject *c, PyObject *const *args, Py_ssize_t nargs);
PyObject *client_bind_actor(ClientObject *c, PyObject *const *args, Py_ssize_t nargs);
PyObject *client_actor_info(ClientObject *c, PyObject *unused);
PyObject *client_save_checkpoint(ClientObject *c, PyObject *value);
PyObject *client_task_info(ClientObject *c, PyObject *task);
PyObject *client_cancelled(ClientObject *c, PyObject *unused);
int parse_task(ClientObject *c, PyObject *number, uint32_t *task); /* one that runs in this process */
PyObject *function_name(ClientObject *c, uint32_t slot); /* new reference to a str; never fails with an exception */

/* ---- memory.c: back to the operating system */
PyObject *client_idle_memory(ClientObject *c, PyObject *unused);
PyObject *client_notice_idle(ClientObject *c, PyObject *bytes);
PyObject *client_give_back(ClientObject *c, PyObject *bytes);
PyObject *client_prepare(ClientObject *c, PyObject *bytes);
PyObject *client_leave_memory(ClientObject *c, PyObject *unused);

/* ---- proxy.c, route.c, bell.c: other machines */
extern PyType_Spec proxy_spec, runs_spec;
double ns_per_tick(const struct header *h);
PyObject *amounts_to_python(const struct segment *s, const int64_t *amounts);
PyObject *client_surplus(ClientObject *c, PyObject *unused);
PyObject *client_serve(ClientObject *c, PyObject *args);
PyObject *client_ref_at(ClientObject *c, PyObject *number);
PyObject *client_room(ClientObject *c, PyObject *unused);
PyObject *client_direct(ClientObject *c, PyObject *how);
PyObject *client_in_cluster(ClientObject *c, PyObject *unused);
PyObject *client_place_here(ClientObject *c, PyObject *args);
PyObject *client_fail_unrouted(ClientObject *c, PyObject *args);
PyObject *client_recall(ClientObject *c, PyObject *args);
PyObject *client_strategy(ClientObject *c, PyObject *number);
PyObject *client_progress(ClientObject *c, PyObject *list);
PyObject *client_bell(ClientObject *c, PyObject *unused);
void bell_end(ClientObject *c);

/* ---- placement.c */
int parse_amounts(ClientObject *c, PyObject *dict, int64_t amounts[MAX_KINDS]);
PyObject *client_resource_class(ClientObject *c, PyObject *args, PyObject *kwargs);
bool placement_captures(const ClientObject *c); /* does the caller's group take what the caller submits? */
int placement_capture(ClientObject *c, struct task_spec *spec, struct resource_shape *shape);
int parse_shape(PyObject *shape, void *to); /* of Client.resource_class, for "O&": a struct resource_shape, as long as the object lives */
PyObject *raise_submit_error(ClientObject *c, int error, const struct task_spec *spec, bool actor);
int placement_end_doomed(ClientObject *c); /* kills the workers of removed groups; -1: an exception */
PyObject *client_placement_number(ClientObject *c, PyObject *unused);
PyObject *client_create_placement(ClientObject *c, PyObject *args, PyObject *kwargs);
PyObject *client_groups(ClientObject *c, PyObject *unused);
PyObject *client_assign(ClientObject *c, PyObject *args);
PyObject *client_remove_placement(ClientObject *c, PyObject *number);
PyObject *client_placement_reserved(ClientObject *c, PyObject *number);
PyObject *client_find_placement(ClientObject *c, PyObject *args);
PyObject *client_current_placement(ClientObject *c, PyObject *unused);

/* ---- stream.c */
/* Runs what a generator function has returned: into the task's stream, until it ends or nobody reads any more, which gives
 * the number of items; otherwise to a list of refs, or what gives as many values as the task has returns. */
PyObject *run_generator(ClientObject *c, uint32_t task, PyObject *generator);
static inline bool must_run_generator(ClientObject *c, uint32_t task, PyObject *value)
{
    return PyGen_CheckExact(value) || PyAsyncGen_CheckExact(value) || (c->s.tasks[task].flags & TASK_FLAG_STREAM);
}
PyObject *client_streams(ClientObject *c, PyObject *task);
PyObject *client_add_item(ClientObject *c, PyObject *const *args, Py_ssize_t nargs);
PyObject *client_wait_for_room(ClientObject *c, PyObject *const *args, Py_ssize_t nargs);
PyObject *client_has_room(ClientObject *c, PyObject *const *args, Py_ssize_t nargs);
PyObject *client_next_item(ClientObject *c, PyObject *const *args, Py_ssize_t nargs);
PyObject *client_peek_item(ClientObject *c, PyObject *stream);

/* ---- standalone.c */
PyObject *client_find(ClientObject *c, PyObject *hex);
PyObject *client_reap_dead(ClientObject *c, PyObject *unused);
PyObject *client_detach(ClientObject *c, PyObject *unused);

/* ---- look.c */
extern PyMethodDef look_methods[];
#define LOOK(name) PyObject *client_##name(ClientObject *c, PyObject *args)
LOOK(clients); LOOK(tasks); LOOK(objects); LOOK(actors); LOOK(n_detached); LOOK(info); LOOK(stats); LOOK(stopped_owner); LOOK(check); LOOK(peek);
LOOK(events); LOOK(follow_events); LOOK(clock); LOOK(resources); LOOK(assigned); LOOK(children); LOOK(ref_of); LOOK(idle_workers); LOOK(why);
LOOK(placements);

#endif
