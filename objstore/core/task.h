/* Task slots, dependency edges and ready queues.
 *
 *   submit --> WAITING --(dependency sealed, for each in turn)--> READY --pop--> RUNNING --finish--> FREE
 *                 |                                                 |               |
 *                 +------------------ cancel ------> CANCELLED <----+               +--> READY (retry)
 *
 * A task waits for one dependency at a time: it stands in the waiting list of the first one that is not sealed, and
 * when that is sealed moves on to the next. Readiness never goes back, so the work is linear in the dependencies, and
 * one link per task is enough however many there are.
 *
 * A ready task stands in the queue of its resource class, the call of an actor in the actor's mailbox (there from the
 * moment of its submission, which keeps the order). Whoever makes something ready wakes at most one idle worker, and a
 * woken worker that sees more wakes the next: a flood of submits costs one system call, not one each. */
#ifndef CELLMESH_TASK_H
#define CELLMESH_TASK_H

#include "object.h"

struct task_spec {
    uint32_t function;          /* object slot */
    uint32_t resource_class;
    uint32_t actor_1;
    uint32_t n_returns;
    uint32_t n_dependencies;
    uint32_t n_refs;            /* dependencies first, then refs nested in the arguments */
    const uint32_t *refs;
    const void *arguments;
    uint32_t arguments_size;
    uint32_t origin;
    uint64_t parent;
    int16_t max_retries;
    uint16_t flags;             /* task_flags known at submission */
    uint16_t group;             /* as in task_slot */
    uint32_t placement;         /* number of the placement group that the class was made for, 0: none */
};

/* Queues a task. `results` receives n_returns object slots, held by this client. OBJSTORE_LIMIT, OBJSTORE_FULL,
 * OBJSTORE_PENDING, OBJSTORE_NOT_FOUND (its placement group is gone); then nothing has happened. A call of a dead actor succeeds and its results are sealed at once. Under the lock. */
int task_submit(struct segment *segment, const struct task_spec *spec, uint32_t *results, uint32_t *task);

/* The next task for this client, now RUNNING: plain workers take the oldest admissible one, actors' workers the next
 * call. UINT32_MAX: nothing; then the client counts as idle and will be notified. Under the lock. */
uint32_t task_pop(struct segment *segment);
uint32_t task_pop_call(struct segment *segment, uint32_t actor); /* the next call of an actor that this client serves */

/* A client that is blocked on `object` takes its producing task, now RUNNING, to run it where it stands: recursion of any
 * depth then needs neither more CPUs nor a process per level. It runs on the CPU of `waiter`, the task that waits, where it
 * fits into that. UINT32_MAX: not a ready, plain task that fits. Under the lock. */
uint32_t task_claim(struct segment *segment, uint32_t object, uint32_t waiter);

/* Ends a task whose results are sealed, or seals what is missing as `status` tells (EVENT_OK: nothing is missing):
 * gives back its resources and references, and makes dependents ready. Under the lock. */
void task_finish(struct segment *segment, uint32_t task, uint32_t event_status);

/* Ends a task and takes the next, see task_pop: a chain stays on one worker without a wake-up. Under the lock. */
uint32_t task_finish_and_pop(struct segment *segment, uint32_t task, uint32_t event_status);

/* Wakes the agent, if it wants to know of news that concern it. Under the lock. */
void task_tell_agent(struct segment *segment);

/* Under the lock: a READY task, no call, leaves its queue to run on another machine, RUNNING on this client, a proxy. `pool`: the bundle there that it
 * takes from, with room for it; 0: none, it holds nothing of this node. */
void task_send(struct segment *segment, uint32_t task, uint32_t pool);

/* Under the lock: a READY task, no call, goes to the end of another class's queue. */
void task_reclass(struct segment *segment, uint32_t task, uint32_t resource_class);

/* Under the lock: puts a running task back at the head of its queue as the next attempt. */
void task_retry(struct segment *segment, uint32_t task);

/* Seals all results of a task as failed. Under the lock. */
void task_seal_failed(struct segment *segment, uint32_t task, uint32_t code, int32_t detail);

/* The task that is to seal a pending object, or UINT32_MAX. The object's own note of it is only a hint, since whoever
 * seals the object writes over it first, and may die then; the task's fields decide. */
uint32_t task_producing(const struct segment *segment, uint32_t object);
void task_note_results(struct segment *segment, uint32_t task); /* writes the hints again. Under the lock */

enum cancel_outcome { CANCEL_FINISHED, CANCEL_PENDING, CANCEL_RUNNING, CANCEL_NO_TASK };
/* Under the lock. CANCEL_RUNNING: flagged; the caller signals client `*worker` before it unlocks. */
enum cancel_outcome task_cancel(struct segment *segment, uint32_t object, uint32_t *task, uint32_t *worker);

/* A running task begins or ends sleeping in get/wait: its CPU is given back and taken again. Takes the lock itself. */
void task_block(struct segment *segment, uint32_t task);
void task_unblock(struct segment *segment, uint32_t task);

/* Under the lock: a waiting or ready task whose results are sealed will not run. Its dependents move on; the slot, and
 * its pins, stay until the list that holds it comes by. */
void task_discard(struct segment *segment, uint32_t task);

/* How many more workers would find something to do. Under the lock, after header_is_safe. */
uint32_t task_workers_wanted(struct segment *segment);

/* Under the lock. An actor may begin anew more often than can be counted: then it stays at the last number, rather than at none. */
static inline void task_count_attempt(struct task_slot *t) { t->attempt = (uint16_t)(t->attempt + (t->attempt < UINT16_MAX)); }

/* Attempts that count against max_retries: not those that memory ran out in. */
static inline bool task_may_retry(const struct task_slot *t)
{
    return t->max_retries < 0 || t->attempt - (t->flags >> TASK_OOM_SHIFT) < t->max_retries;
}

/* Where refs, further returns and arguments lie. To be called before they are counted: of a task whose words lead out of the arena
 * it condemns the segment, and leaves none. */
void task_empty(const struct segment *segment, struct task_slot *task);
static inline uint32_t *task_refs(const struct segment *s, struct task_slot *t)
{
    uint64_t n_more = t->n_returns ? t->n_returns - 1u : 0, bytes = (t->n_refs + n_more) * 4 + t->arguments_size;
    if (__builtin_expect(t->n_dependencies > t->n_refs || (t->offset ? !segment_holds(s, t->offset, bytes) : bytes > TASK_INLINE_SIZE), 0))
        task_empty(s, t);
    return (uint32_t *)(void *)(t->offset ? s->base + t->offset : t->inline_data);
}
static inline uint32_t *task_more_results(struct segment *s, struct task_slot *t) { return task_refs(s, t) + t->n_refs; }
static inline unsigned char *task_arguments(struct segment *s, struct task_slot *t)
{
    return (unsigned char *)(task_refs(s, t) + t->n_refs + (t->n_returns > 1 ? t->n_returns - 1u : 0u));
}
static inline uint32_t task_result(struct segment *s, struct task_slot *t, uint32_t i)
{
    return i == 0 ? t->result_1 - 1 : task_more_results(s, t)[i - 1];
}

/* It has results, and they are there: it is about to finish, or was about to be cancelled. */
static inline bool task_is_sealed(struct segment *s, struct task_slot *t)
{
    task_refs(s, t);
    for (uint32_t i = 0; i < t->n_returns; i++)
        if (!object_sealed(object_at(s, task_result(s, t, i))))
            return false;
    return t->n_returns > 0;
}

/* ---- between task.c, actor.c and recover.c, under the lock */
void task_enqueue(struct segment *segment, uint32_t task, bool first); /* a READY task into its queue */
void task_advance(struct segment *segment, uint32_t task);             /* WAITING: to the next dependency, or READY */
void task_release(struct segment *segment, uint32_t task);             /* slot, references and memory back */
void task_release_results(struct segment *segment, uint32_t task);      /* results are sealed: dependents move on */
void task_release_waiting(struct segment *segment, uint32_t object);    /* an object is sealed: likewise */
void task_record_finished(struct segment *segment, uint32_t task, uint32_t event_status);
void task_wake_workers(struct segment *segment);
/* Runs on another machine, in none of the bundles that are counted here. */
static inline bool task_holds_nothing(const struct segment *s, const struct task_slot *t)
{
    return t->flags & TASK_FLAG_ELSEWHERE && !class_at(s, t->resource_class)->place.pool;
}
const int64_t *task_amounts(struct segment *segment, const struct task_slot *task, int64_t scratch[MAX_KINDS]); /* held while running */

#endif
