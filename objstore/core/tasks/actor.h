/* Actors: a mailbox of calls, one worker that serves it, and a life that ends with the last handle.
 *
 *   PENDING --constructor done--> ALIVE --worker died, restarts left--> RESTARTING --constructor done--> ALIVE
 *      |                            |                                       |
 *      +--constructor raised--------+-- killed, last handle gone, crashed --+--> DEAD --object freed--> FREE
 *
 * A handle is a reference to the actor object. Each queued call pins that object, so calls submitted before the last
 * handle went away are still served. The constructor's task is kept (TASK_HELD) for restarts. */
#ifndef CELLMESH_ACTOR_H
#define CELLMESH_ACTOR_H

#include "tasks/task.h"

struct actor_spec {
    uint64_t name_hash;
    int32_t max_restarts, max_task_retries;
    uint32_t max_concurrency;
    uint32_t flags; /* ACTOR_FLAG_ORDERED, ACTOR_FLAG_DETACHED, ACTOR_FLAG_REFUSES */
    uint32_t max_pending;
    uint32_t group_limit[MAX_GROUPS];
};

/* All under the lock. */

/* Makes an actor for its sealed actor object. The caller then submits the constructor with actor_1 set, and calls
 * actor_constructed_by. OBJSTORE_LIMIT, OBJSTORE_EXISTS (a living actor has the name). */
int actor_create(struct segment *segment, const struct actor_spec *spec, uint32_t object, uint32_t *actor);
void actor_constructed_by(struct segment *segment, uint32_t actor, uint32_t task);
void actor_discard(struct segment *segment, uint32_t actor); /* its creation could not be completed */

/* The living actor of that name. OBJSTORE_NOT_FOUND. */
int actor_find(struct segment *segment, uint64_t name_hash, uint32_t *actor);

/* Queues a call. False: the actor is dead or refuses the call, which has been sealed and released. */
bool actor_post(struct segment *segment, uint32_t actor, uint32_t task);
/* Whether another call may be queued. */
bool actor_admits(const struct segment *segment, uint32_t actor);
/* The next call that may run, of a concurrency group with capacity: the first ready one, for an ordered actor the first
 * ready one whose caller has no earlier call that is not ready. UINT32_MAX: none; the worker counts as idle. `group`:
 * only of that group, or ANY_GROUP. */
uint32_t actor_take(struct segment *segment, uint32_t actor, uint32_t group);
/* Removes cancelled calls from the mailbox of an actor that no process serves: those at its head, and those found
 * between the next few others. */
void actor_tidy(struct segment *segment, uint32_t actor);
/* Puts a call back to its place by seq. */
void actor_return(struct segment *segment, uint32_t actor, uint32_t task);
void actor_wake(struct segment *segment, uint32_t actor);
/* A call has begun, or has ended. */
void actor_count(struct segment *segment, const struct task_slot *call, bool runs);

/* The constructor has returned in this client. */
void actor_bind(struct segment *segment, uint32_t actor, uint32_t task);
/* The constructor has raised what an object holds: its result, or, as that was sealed in the actor's first life,
 * another. If that one is no error, calls are told that the actor has ended. */
void actor_construction_failed(struct segment *segment, uint32_t actor, uint32_t task, uint32_t error);

/* Stores the actor's checkpoint, for the constructor of its next life; replaces the one before. */
void actor_checkpoint(struct segment *segment, uint32_t actor, uint32_t object);

/* Ends an actor for good: every queued call fails. */
void actor_die(struct segment *segment, uint32_t actor, int32_t detail);
/* Clears up after an actor that is DEAD; recovery calls it again for an actor whose end was interrupted. */
void actor_reap(struct segment *segment, uint32_t actor);
/* Its worker has died: it restarts or ends. True: it restarts. */
bool actor_worker_died(struct segment *segment, uint32_t actor, int32_t detail);
/* Marks it to be killed. Returns the client to kill, or UINT32_MAX if there is no more to do. */
uint32_t actor_kill(struct segment *segment, uint32_t actor, bool no_restart);
/* Ends it because its placement group, which has that number, is removed. If a process serves or constructs it, it ends
 * once that process has been killed. */
void actor_unplace(struct segment *segment, uint32_t actor, uint32_t number);
/* The actor object is being freed: no handle and no queued call is left. */
void actor_unreferenced(struct segment *segment, uint32_t actor);
/* The failure of calls of an actor that is dead, if its constructor has left no error. */
static inline uint32_t actor_failure(const struct actor_slot *a)
{
    return a->flags & ACTOR_FLAG_UNPLACED ? FAILURE_ACTOR_UNPLACED : FAILURE_ACTOR_DIED;
}
/* In place of an exit status, for actors that were ended on purpose. */
enum { ENDED_BY_KILL = -3001, ENDED_BY_ITSELF = -3002, ENDED_WITH_HANDLES = -3003 };
#define NOT_BEGUN (-3004) /* likewise, for a call that its actor refuses */
/* Whether a call fails because its actor restarts. */
static inline bool actor_refuses(const struct actor_slot *a, const struct task_slot *call)
{
    return a->flags & ACTOR_FLAG_REFUSES && !call->max_retries;
}
/* How a dead actor has ended, for those failures. */
static inline int32_t actor_end_code(const struct actor_slot *a)
{
    return a->death_detail                   ? a->death_detail
           : a->flags & ACTOR_FLAG_EXITED    ? ENDED_BY_ITSELF
           : a->flags & ACTOR_FLAG_KILLED    ? ENDED_BY_KILL
           : a->flags & ACTOR_FLAG_TERMINATE ? ENDED_WITH_HANDLES
                                             : 0;
}
/* Whether its worker is to leave. */
bool actor_ended(const struct segment *segment, uint32_t actor);

/* How many detached actors live. Under the lock. */
uint32_t actors_detached(const struct segment *segment);

#endif
