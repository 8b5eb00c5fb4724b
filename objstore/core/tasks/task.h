/* Task slots, dependency edges and ready queues.
 *
 *   submit --> WAITING --(dependency sealed, for each in turn)--> READY --pop--> RUNNING --finish--> FREE
 *                 |                                                 |               |
 *                 +------------------ cancel ------> CANCELLED <----+               +--> READY (retry), perhaps
 *                                                                                        after DELAYED
 *
 * A task waits for one dependency at a time: it is in the waiting list of the first one that is not sealed, and when
 * that is sealed it moves on to the next. A sealed object stays sealed, so the work is linear in the number of
 * dependencies, and one link per task is enough however many there are (decision 11).
 *
 * A ready task is in the queue of its resource class; the call of an actor is in the actor's mailbox from its
 * submission on, which keeps the order. A process that makes tasks ready wakes at most one idle worker, and a woken
 * worker that sees more of them wakes the next: a flood of submits costs one system call, not one each. */
#ifndef CELLMESH_TASK_H
#define CELLMESH_TASK_H

#include "objects/object.h"

struct task_spec {
    uint32_t function; /* object slot */
    uint32_t resource_class;
    uint32_t actor_1;
    uint32_t n_returns;
    uint32_t n_dependencies;
    uint32_t n_refs; /* dependencies first, then refs nested in the arguments */
    const uint32_t *refs;
    const void *arguments;
    uint32_t arguments_size;
    uint32_t origin;
    uint64_t parent;
    int16_t max_retries;
    uint16_t flags;                  /* task_flags known at submission */
    uint16_t group;                  /* as in task_slot */
    uint32_t placement;              /* number of the placement group that the class was made for, 0: none */
    const struct time_limits *times; /* NULL: none */
};

/* Queues a task. `results` receives n_returns object slots, held by this client. OBJSTORE_LIMIT, OBJSTORE_FULL,
 * OBJSTORE_PENDING, OBJSTORE_NOT_FOUND (its placement group is gone); then nothing has changed. A call of a dead actor
 * succeeds, and its results are sealed at once. Under the lock. */
int task_submit(struct segment *segment, const struct task_spec *spec, uint32_t *results, uint32_t *task);

/* Takes the next task for this client, now RUNNING: the oldest one that may begin, or for the worker of an actor the
 * next call. UINT32_MAX: there is none; then the client counts as idle and will be notified. Under the lock. */
uint32_t task_pop(struct segment *segment);
uint32_t task_pop_of(struct segment *segment, uint32_t group); /* a call of that concurrency group */
enum { ANY_GROUP = MAX_GROUPS };
/* For a worker that is borrowed, and executes whatever there is: a call of its actor, if it is to have one now, else a
 * task that is none. */
uint32_t task_pop_borrowed(struct segment *segment, bool calls);
uint32_t task_pop_call(struct segment *segment, uint32_t actor); /* the next call of an actor that this client serves */

/* Task `waiter` is about to sleep until `object` is sealed. What has to run for that goes before tasks that no task
 * waits for, and what is waited for deeper goes first: so of a tree of tasks that wait for their children about depth x
 * CPUs are begun at a time (decision 123). Under the lock. */
void task_waits_for(struct segment *segment, uint32_t waiter, uint32_t object);
/* How deep under waiting tasks is what `task` waits for; 0: it is a call that no task waits for. */
uint32_t task_depth_below(const struct task_slot *task);

/* A program, not a task, has been waiting for `object` for a while: what has to run for that goes to the front of its
 * lane, where a flood of tasks that nobody waits for may be (decision 134). Under the lock. */
void task_ask_for(struct segment *segment, uint32_t object);

/* Ends a task: seals the results that are missing according to `event_status` (EVENT_OK: none is missing), gives back
 * its resources and references, and makes its dependents ready. Under the lock. */
void task_finish(struct segment *segment, uint32_t task, uint32_t event_status);

/* Ends a task and takes the next, see task_pop_of: a chain stays on one worker, without a wake-up. Under the lock. */
uint32_t task_finish_and_pop(struct segment *segment, uint32_t task, uint32_t event_status, uint32_t group);

/* Wakes the agent, if it has asked to be told of news. Under the lock. */
void task_tell_agent(struct segment *segment);

/* Under the lock: a READY task that is no call leaves its queue to run on another machine, RUNNING on this client, a
 * remote node. `pool`: the bundle there that it takes resources from; 0: none, it holds nothing of this node. */
void task_send(struct segment *segment, uint32_t task, uint32_t pool);

/* Under the lock: a READY task that is no call goes to the end of another class's queue. */
void task_reclass(struct segment *segment, uint32_t task, uint32_t resource_class);

/* Under the lock: puts a running task back at the head of its queue as the next attempt, perhaps after a delay, see
 * timer.h. task_retry_at_once: without a delay. */
void task_retry(struct segment *segment, uint32_t task);
void task_retry_at_once(struct segment *segment, uint32_t task);

/* Seals all results of a task as failed. Under the lock. */
void task_seal_failed(struct segment *segment, uint32_t task, uint32_t code, int32_t detail);

/* The task that is to seal a pending object, or UINT32_MAX. The note in the object is only a hint, since a sealer
 * writes over it first and may die then; the fields of the task decide. */
uint32_t task_producing(const struct segment *segment, uint32_t object);
void task_note_results(struct segment *segment, uint32_t task); /* rewrites the hints. Under the lock */

enum cancel_outcome { CANCEL_FINISHED, CANCEL_PENDING, CANCEL_RUNNING, CANCEL_NO_TASK };
/* Under the lock. CANCEL_RUNNING: flagged; the caller signals client `*worker` before it unlocks. */
enum cancel_outcome task_cancel(struct segment *segment, uint32_t object, uint32_t *task, uint32_t *worker);

/* Under the lock: a running task is to stop, without another attempt. */
void task_doom(struct segment *segment, uint32_t task);

/* A running task begins or ends to sleep in get or wait: its CPU is given back and taken again. Take the lock. */
void task_block(struct segment *segment, uint32_t task);
void task_unblock(struct segment *segment, uint32_t task);
/* Ends the sleep of a task whose code has not begun, as it waited for its arguments: it goes on only when its CPU is
 * free, but before other tasks begin. False: not now; the client will be notified. Takes the lock. */
bool task_return(struct segment *segment, uint32_t task);

/* Under the lock: a waiting or ready task whose results are sealed will not run. Its dependents move on; the slot and
 * its pins stay until the list that contains the task gets to it. */
void task_discard(struct segment *segment, uint32_t task);

/* Under the lock. The class for a shape, as resource_intern. If the table is full, tasks that can never run and whose
 * results nobody can ask for any more are cancelled first, and their classes make room. */
struct resource_shape;
int task_class(struct segment *segment, const struct resource_shape *shape, uint32_t *number, uint32_t *index);

/* All processes wait, and none may be added: the task that is waited for at the greatest depth will not run, so that
 * others may. False: there is none, or tasks run on other machines, which are waited for. Under the lock. */
bool task_fail_deepest(struct segment *segment, uint32_t n_processes);

/* How many more workers could begin a task. Under the lock, after header_is_safe. */
uint32_t task_workers_wanted(struct segment *segment);

/* Under the lock. The count saturates, as an actor may restart more often than fits into it. */
static inline void task_count_attempt(struct task_slot *t)
{
    t->attempt = (uint16_t)(t->attempt + (t->attempt < UINT16_MAX));
}

/* Where the refs, the further returns and the arguments are. To be called before their counts are used: if the task's
 * fields lead out of the arena, task_empty condemns the segment and sets the counts to 0. */
void task_empty(const struct segment *segment, struct task_slot *task);
static inline uint32_t *task_refs(const struct segment *s, struct task_slot *t)
{
    uint64_t n_more = t->n_returns ? t->n_returns - 1u : 0, bytes = (t->n_refs + n_more) * 4 + t->arguments_size;
    if (__builtin_expect(t->n_dependencies > t->n_refs ||
                             (t->offset ? !segment_holds(s, t->offset, bytes) : bytes > TASK_INLINE_SIZE),
                         0))
        task_empty(s, t);
    return (uint32_t *)(void *)(t->offset ? s->base + t->offset : t->inline_data);
}
static inline uint32_t *task_more_results(struct segment *s, struct task_slot *t)
{
    return task_refs(s, t) + t->n_refs;
}
static inline unsigned char *task_arguments(struct segment *s, struct task_slot *t)
{
    return (unsigned char *)(task_refs(s, t) + t->n_refs + (t->n_returns > 1 ? t->n_returns - 1u : 0u));
}
/* How many results it has. The first is in the slot, so the others alone can lead out of the arena. */
static inline uint32_t task_n_results(const struct segment *s, struct task_slot *t)
{
    if (t->n_returns > 1)
        task_refs(s, t);
    return t->n_returns;
}
static inline uint32_t task_result(struct segment *s, struct task_slot *t, uint32_t i)
{
    return i == 0 ? t->result_1 - 1 : task_more_results(s, t)[i - 1];
}

/* Whether this attempt was asked to stop by its timeout, rather than by a cancel. */
static inline bool task_timed_out(const struct segment *s, uint32_t task)
{
    const struct task_slot *t = task_at(s, task);
    return t->flags & TASK_FLAG_CANCEL && t->flags & TASK_FLAG_TIMED && times_at(s, task)->timed_out;
}

/* Whether it has results and all of them are sealed: it is about to finish, or is being cancelled. */
static inline bool task_is_sealed(struct segment *s, struct task_slot *t)
{
    for (uint32_t i = 0; i < task_n_results(s, t); i++)
        if (!object_sealed(object_at(s, task_result(s, t, i))))
            return false;
    return t->n_returns > 0;
}

/* ---- between task.c, actor.c and recover.c, under the lock */
void task_enqueue(struct segment *segment, uint32_t task, bool first); /* puts a READY task into its queue */
void task_advance(struct segment *segment, uint32_t task);             /* WAITING: to the next dependency, or READY */
void task_release(struct segment *segment, uint32_t task);             /* gives back slot, references and memory */
void task_release_results(struct segment *segment, uint32_t task);     /* its results are sealed: dependents move on */
void task_release_waiting(struct segment *segment, uint32_t object);   /* an object is sealed: likewise */
void task_record_finished(struct segment *segment, uint32_t task, uint32_t event_status);
void task_wake_workers(struct segment *segment);
/* What is to seal the object is waited for at that depth, by a task that went through that gate, 0: through none. */
void task_await(struct segment *segment, uint32_t object, uint32_t depth, uint32_t gate_1);
/* The task takes its place among those of that depth. */
void task_deepen(struct segment *segment, uint32_t task, uint32_t depth, bool in_place);
void task_ask_for_next(struct segment *segment, uint32_t task); /* what has to run before that task can */
/* A ready task that no task waits for goes before the others of its lane. */
void task_to_front(struct segment *segment, uint32_t task);
/* A task of this lane is taken. A lane that had no capacity for a while does not save up turns. */
static inline void task_serve_lane(struct header *h, struct lane *l)
{
    if (h->turn < l->turn)
        h->turn = l->turn;
    l->turn = h->turn + 1;
}
/* For recovery: a RUNNING task is counted if it waits for its CPU. */
void task_note_returning(struct segment *segment, uint32_t task);
void task_set_returns(struct segment *segment, struct task_slot *task, bool returns);
/* Wakes the clients whose task waits for its CPU and can have it now. */
void task_wake_returning(struct segment *segment);
/* Whether it runs on another machine, and in none of the bundles that are counted here. */
static inline bool task_holds_nothing(const struct segment *s, const struct task_slot *t)
{
    return t->flags & TASK_FLAG_REMOTE && !class_at(s, t->resource_class)->place.pool;
}
/* The amounts that it holds while it runs. */
const int64_t *task_amounts(struct segment *segment, const struct task_slot *task, int64_t scratch[MAX_KINDS]);

#endif
