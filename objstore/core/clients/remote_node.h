/* Clients that stand for other machines (decision 43).
 *
 * The agent, the process that represents this node in the cluster, attaches one for each machine that it knows. A task
 * that runs there is RUNNING here on that client, which may have any number of tasks, and holds no resources of this
 * node. An object that is there is READY here, without bytes until it is read. The client holds the objects that the
 * machine refers to. So when the machine is lost, its client is reaped like any other: its tasks are retried, its
 * references are dropped, and its objects cannot be read any more. What a machine starts here is submitted by its
 * client.
 *
 * All clients of an agent share the inbox of its first one. */
#ifndef CELLMESH_REMOTE_NODE_H
#define CELLMESH_REMOTE_NODE_H

#include "tasks/actor.h"

/* Makes `remote` a client for the machine `node` (0: none), with the mapping and the inbox of `agent`, which must
 * outlive it. OBJSTORE_LIMIT. Takes the lock. */
int remote_attach(struct segment *remote, const struct segment *agent, uint32_t node);

/* Under the lock: an object that the machine will send, PENDING, held by the remote node. It fails if the machine is
 * lost before. OBJSTORE_LIMIT. */
int remote_create_object(struct segment *remote, uint32_t *object);
static inline uint64_t remote_as_creator(const struct segment *s, uint32_t client)
{
    return CREATED_BY_REMOTE_NODE | (uint64_t)s->clients[client].generation << 16 | client;
}

enum { REMOTE_MOST_ACTOR = 64 << 10 }; /* bytes of an actor's value that fit into a message */

/* Whether a ready task can run on another machine: it did not come from another one, need not run here, and has no
 * runtime environment, or one that travels. */
bool remote_suits(struct segment *segment, uint32_t task);
/* A shared object that a task refers to, itself or in a value; it keeps the task on this machine. UINT32_MAX: none. */
uint32_t remote_shared_of(struct segment *segment, uint32_t task);
/* Whether an object can leave this machine: streams, and actors with very many methods, cannot. */
bool remote_suits_object(const struct segment *segment, uint32_t object);

/* Takes up to `most` suitable tasks of a class, now RUNNING, in order of their turn; `by_place`: first those whose
 * large arguments are on that machine. For a class in a placement group it takes at most as many as fit into the
 * bundles there. Returns how many; 0 also if very many unsuitable tasks come first. Under the lock. */
uint32_t remote_take(struct segment *remote, uint32_t resource_class, uint32_t most, bool by_place, uint32_t *tasks);

/* Under the lock: a task that was taken has not begun there after all. That does not count as an attempt. */
void remote_give_back(struct segment *remote, uint32_t task);

/* ---- actors, all under the lock
 *
 * An actor has its *home* in one segment, where its calls are queued and where it is decided whether it restarts. It
 * may *live* on another machine: then its constructor ran on the remote node, which takes its calls and reports its end
 * (reap.h, actor_lost). On that machine it is an actor of its own, ACTOR_FLAG_HOSTED. A machine that is given a handle
 * has a *stand-in*: an actor that looks as if its constructor had run on the remote node of the machine that gave the
 * handle. So calls reach the home from any machine. */

/* Makes an actor of a sealed object in the arena, and submits its constructor. ACTOR_FLAG_HOSTED: it is to live here
 * for that machine; else its home is here, and the machine has but asked for it. Results as task_submit, or
 * OBJSTORE_EXISTS. */
int remote_host(struct segment *remote, const struct actor_spec *actor, uint32_t object, struct task_spec *constructor,
                uint32_t *results, uint32_t *task);

/* Makes a stand-in of a sealed object in the arena. `function`: any object that this remote node holds. Results as
 * task_submit. */
int remote_stand_in(struct segment *remote, const struct actor_spec *actor, uint32_t object, uint32_t function,
                    uint32_t resource_class);

/* Takes up to `most` calls of an actor that lives there, now RUNNING. If it takes all, the next call wakes the remote
 * node. */
uint32_t remote_take_calls(struct segment *remote, uint32_t actor, uint32_t most, uint32_t *tasks);

/* Writes an event, under the lock: a task that runs there began `began` ticks ago, in process `pid` there, and ended
 * `ended` ticks ago; REMOTE_RUNS_ON: it has not ended. */
#define REMOTE_RUNS_ON UINT64_MAX
void remote_record_run(struct segment *remote, uint32_t task, uint32_t pid, uint64_t began, uint64_t ended);

/* The same for transfers: the `size` bytes of an object begin to travel, or have stopped. `number`: of the transfer;
 * `comes`: from that machine to this one. */
void remote_record_transfer(struct segment *remote, uint32_t object, uint64_t size, uint32_t number, bool comes);
void remote_record_transferred(struct segment *remote, uint32_t object, uint32_t number, bool comes, bool complete);

/* Whether only this client refers to an object. Under the lock. */
bool remote_holds_alone(const struct segment *remote, uint32_t object);

/* Whether some client wants to read an object that is remote. */
bool remote_is_wanted(const struct segment *remote, uint32_t object);

#endif
