/* Actors: a mailbox of calls, one worker that serves it, and a life that ends with the last handle.
 *
 *   PENDING --constructor done--> ALIVE --worker died, restarts left--> RESTARTING --constructor done--> ALIVE
 *      |                            |                                       |
 *      +--constructor raised--------+-- killed, last handle gone, crashed --+--> DEAD --object freed--> FREE
 *
 * A handle is a reference to the actor object; each queued call pins it, so calls submitted before the last handle
 * went away are still served. The constructor's task is kept (TASK_HELD) for restarts. */
#ifndef CELLMESH_ACTOR_H
#define CELLMESH_ACTOR_H

#include "task.h"

struct actor_spec {
    uint64_t name_hash;
    int32_t max_restarts, max_task_retries;
    uint32_t max_concurrency;
    uint32_t flags; /* ACTOR_FLAG_ORDERED, ACTOR_FLAG_DETACHED */
    uint32_t max_pending;
    uint16_t group_limit[MAX_GROUPS];
};

/* All under the lock. */

/* Makes an actor around its sealed actor object; the caller then submits the constructor with actor_1 set and tells
 * actor_constructed_by. OBJSTORE_LIMIT, OBJSTORE_EXISTS (name taken by a living actor). */
int actor_create(struct segment *segment, const struct actor_spec *spec, uint32_t object, uint32_t *actor);
void actor_constructed_by(struct segment *segment, uint32_t actor, uint32_t task);
void actor_discard(struct segment *segment, uint32_t actor); /* creation could not be completed */

/* The living actor of that name. OBJSTORE_NOT_FOUND. */
int actor_find(struct segment *segment, uint64_t name_hash, uint32_t *actor);

/* Queues a call. False: the actor is dead, the call has been sealed and released. */
bool actor_post(struct segment *segment, uint32_t actor, uint32_t task);
/* May another call be queued? */
bool actor_admits(const struct segment *segment, uint32_t actor);
/* The next call that may run: the first ready one of a caller without an earlier unready one (ordered), or simply the
 * first ready one, of a group that has room. UINT32_MAX: none; the worker counts as idle. */
uint32_t actor_take(struct segment *segment, uint32_t actor);
/* A call goes back to where its seq belongs. */
void actor_return(struct segment *segment, uint32_t actor, uint32_t task);
void actor_wake(struct segment *segment, uint32_t actor);
/* A call runs, or has ended. */
void actor_count(struct segment *segment, const struct task_slot *call, bool runs);

/* The constructor has returned in this client. */
void actor_bind(struct segment *segment, uint32_t actor, uint32_t task);
/* The constructor has raised; its result holds the error. */
void actor_construction_failed(struct segment *segment, uint32_t actor, uint32_t task);

/* What it has saved, for the constructor of its next life; replaces what it had saved before. */
void actor_checkpoint(struct segment *segment, uint32_t actor, uint32_t object);

/* Ends an actor for good: every queued call fails. */
void actor_die(struct segment *segment, uint32_t actor, int32_t detail);
/* What follows from being DEAD; recovery calls it again for an actor whose end was interrupted. */
void actor_bury(struct segment *segment, uint32_t actor);
/* Its worker has died: restart or end. True: it will restart. */
bool actor_worker_died(struct segment *segment, uint32_t actor, int32_t detail);
/* Marks it for killing; returns the client to kill or UINT32_MAX when it was dealt with here. */
uint32_t actor_kill(struct segment *segment, uint32_t actor, bool no_restart);
/* Ends it because its placement group, of that number, is removed; where a process serves it or is constructing it, once
 * that has been killed. */
void actor_unplace(struct segment *segment, uint32_t actor, uint32_t number);
/* The actor object is being freed: no handle and no queued call is left. */
void actor_unreferenced(struct segment *segment, uint32_t actor);
/* What calls of an actor that is dead, without an error of its constructor, fail with. */
static inline uint32_t actor_failure(const struct actor_slot *a)
{
    return a->flags & ACTOR_FLAG_UNPLACED ? FAILURE_ACTOR_UNPLACED : FAILURE_ACTOR_DIED;
}
/* Should the worker leave? */
bool actor_ended(const struct segment *segment, uint32_t actor);

/* How many detached ones live. Under the lock. */
uint32_t actors_detached(const struct segment *segment);

#endif
