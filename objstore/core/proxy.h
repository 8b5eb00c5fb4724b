/* Clients that stand for other machines.
 *
 * An agent, the process that speaks for this node to others, attaches one for each machine that it knows. What runs there is RUNNING
 * here on that client, any number of tasks at a time, and holds nothing of this node's resources; what lies there is READY here, without
 * bytes until somebody reads it; what is referred to from there, the client holds. So when that machine is lost its client is buried like
 * any other: its tasks are retried, its references dropped, and what lies there can be read no more. And what another machine has begun
 * here was submitted by the client that stands for it.
 *
 * All clients of an agent share the inbox of its first one. */
#ifndef CELLMESH_PROXY_H
#define CELLMESH_PROXY_H

#include "actor.h"

/* Makes `proxy` a client of its own that stands for `node` (0: for none), with the mapping and the inbox of `agent`, which must outlive it. OBJSTORE_LIMIT.
 * Takes the lock. */
int proxy_attach(struct segment *proxy, const struct segment *agent, uint32_t node);

/* Under the lock: an object that is on its way from that machine, PENDING, held by the proxy. If the machine is lost before it comes, it fails.
 * OBJSTORE_LIMIT. */
int proxy_create_object(struct segment *proxy, uint32_t *object);
static inline uint64_t proxy_as_creator(const struct segment *s, uint32_t client)
{
    return CREATED_BY_PROXY | (uint64_t)s->clients[client].generation << 16 | client;
}

enum { PROXY_MOST_ACTOR = 64 << 10 }; /* bytes of an actor's value that can be told of in a message */

/* Whether a ready task can run on another machine: with no runtime environment or one that travels, not from another one
 * itself, nor one that is to run here. */
bool proxy_suits(struct segment *segment, uint32_t task);
bool proxy_suits_object(const struct segment *segment, uint32_t object); /* streams, and actors with very many methods, cannot leave */

/* Takes up to `most` tasks of a class that suit, of one in a placement group as many as there is room for in the bundles there, those whose turn it is first; `by_place`: before them those whose large arguments lie there.
 * They are RUNNING then. Returns how many, 0 also where very many that do not suit stand before them. Under the lock. */
uint32_t proxy_take(struct segment *proxy, uint32_t resource_class, uint32_t most, bool by_place, uint32_t *tasks);

/* Under the lock: a task that has been taken has not begun there after all. This was no attempt. */
void proxy_give_back(struct segment *proxy, uint32_t task);

/* ---- actors, all under the lock
 *
 * An actor has its home in one segment: there its calls stand in line, and there it is decided whether it starts again. It may *live* on another
 * machine: its constructor ran on the proxy, which takes its calls and tells of its end (burial.h, actor_lost). On that machine, it is an
 * actor of its own, ACTOR_FLAG_HOSTED. And a machine that is handed a handle has a *stand-in*: an actor whose constructor has, as far as anybody
 * can tell, run on the proxy of the machine that gave the handle. So calls reach the home from wherever they are made. */

/* Makes an actor of a sealed object in the arena, for a machine that wants it to live here: submits its constructor. As task_submit. */
int proxy_host(struct segment *proxy, const struct actor_spec *actor, uint32_t object, struct task_spec *constructor, uint32_t *results, uint32_t *task);

/* Makes a stand-in of a sealed object in the arena. `function`: any object that this proxy holds. As task_submit. */
int proxy_stand_in(struct segment *proxy, const struct actor_spec *actor, uint32_t object, uint32_t function, uint32_t resource_class);

/* Takes up to `most` calls of an actor that lives there; they are RUNNING then. When there are no more, the next wakes the proxy. */
uint32_t proxy_take_calls(struct segment *proxy, uint32_t actor, uint32_t most, uint32_t *tasks);

/* For the record, under the lock: a task that runs there began so many ticks ago, in process `pid` there, and ended so many ticks ago; `ended`
 * PROXY_RUNS_ON: it has not. */
#define PROXY_RUNS_ON UINT64_MAX
void proxy_record_run(struct segment *proxy, uint32_t task, uint32_t pid, uint64_t began, uint64_t ended);

/* Likewise: an object's `size` bytes begin to travel, or have ceased to. `number`: of this journey; `comes`: from there to us. */
void proxy_record_transfer(struct segment *proxy, uint32_t object, uint64_t size, uint32_t number, bool comes);
void proxy_record_transferred(struct segment *proxy, uint32_t object, uint32_t number, bool comes, bool complete);

/* Whether nobody but this client refers to an object any more. Under the lock. */
bool proxy_holds_alone(const struct segment *proxy, uint32_t object);

/* Whether anybody wants to read an object that lies elsewhere. */
bool proxy_is_wanted(const struct segment *proxy, uint32_t object);

#endif
