/* What the files of the worker share. run.c has the loop, and all that a task of a plain function takes. */
#ifndef CELLMESH_BINDING_WORKER_H
#define CELLMESH_BINDING_WORKER_H

#include "binding.h"

/* ---- run.c */

/* What taking a task gives in place of one. */
enum { LEAVE = -1, TIMED_OUT = -2, FAILED = -3 /* with an exception */ };
int64_t take_task(ClientObject *c, uint32_t group, double timeout, bool until_wake);
void set_current(ClientObject *c, uint32_t task_1); /* what current_task_of tells */

/* A status beside those of events: the task goes back into its queue. */
enum { STATUS_RETRY = 100 };
void end_task(ClientObject *c, uint32_t task, uint32_t status);

typedef struct {
    PyObject *few[16], **values;
    uint32_t n;
} Values;
void values_clear(Values *v);

enum { LOADED = 0, DEPENDENCY_FAILED = 1 };

/* The function that an object holds, as a new reference. */
PyObject *resolve_function(ClientObject *c, uint32_t slot);
/* When a worker begins to load a task, in ticks; 0 where that cannot take long and is not measured. */
uint64_t loads_since(const ClientObject *c, const struct task_slot *t);
/* The arguments of a task. False: with an exception, or with `*bad`, the slot of a dependency that holds an error. */
/* Whether the arrays that a task of the function is given are read-only views, not its own. */
bool takes_readonly(const ClientObject *c, uint32_t function);
bool load_call(ClientObject *c, struct task_slot *t, PyObject *callable, Values *v, codec_args *args, uint32_t *bad);

/* Seals one result. `ours`: the caller alone holds what leads to the value, so the value may become the object as it
 * lies there. */
int seal_return(ClientObject *c, uint32_t function, uint32_t slot, PyObject *value, bool ours);
/* Seals all results; `value` is the caller's reference. -1: with an exception. */
int seal_returns(ClientObject *c, struct task_slot *t, PyObject *value);
PyObject *take_exception(void); /* the pending one, with its traceback; none is pending afterwards */

/* ---- left_behind.c */
extern bool process_noted;             /* something has been called that changes the process */
void restore_process(ClientObject *c); /* as tasks are to find it */
#if PY_VERSION_HEX < 0x030C0000
bool streams_changed(struct left_behind *l);
#endif

/* Whether a task has left something in its process. */
static inline bool leaves_something(ClientObject *c)
{
#if PY_VERSION_HEX < 0x030C0000 /* later ones tell of it */
    struct left_behind *l = &c->left_behind;
    if (l->sys && ((PyDictObject *)l->sys)->ma_version_tag != l->sys_version && streams_changed(l))
        return true;
#else
    (void)c;
#endif
    return process_noted;
}

/* ---- settle.c: what becomes of a task that has raised */

/* Seals its results, or leaves them for another attempt; returns the event status, or STATUS_RETRY. `yielded`: as of
 * run_generator, or NULL. */
uint32_t settle_exception(ClientObject *c, uint32_t task, PyObject *exception, PyObject *yielded);
/* The constructor of an actor has raised, which ends the actor. */
void settle_construction(ClientObject *c, uint32_t task, PyObject *exception);

/* ---- groups.c: concurrency groups of an actor */

int parse_group(PyObject *number, uint32_t *group);
/* All threads of the group have a call: has another one wait for the next. False: there is none, and will be none. */
bool serves_beside(const ClientObject *c, uint32_t group); /* whether calls of the group run in several threads */
bool start_thread(struct served_group *served, PyObject *start);

#endif
