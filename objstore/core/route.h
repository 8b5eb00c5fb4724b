/* On which machine a task begins, where the agent has a say in it.
 *
 * A class's route (enum place_route) is part of its identity. Tasks whose route asks stand in their queue until the agent has sent them
 * to another machine (proxy.h) or has placed them here: then they are of the class that is the same but for ROUTE_PLACED, and begin here like any.
 * Where no agent directs, those that need not go elsewhere begin here at once; those that must are failed by the local scheduler
 * when there will be none, NO_DIRECTOR. All under the lock. */
#ifndef CELLMESH_ROUTE_H
#define CELLMESH_ROUTE_H

#include "proxy.h"
#include "resource.h"

/* This client says from now on where tasks go whose route asks; or nobody does, for now or for good. */
enum route_directs { ROUTE_UNDIRECTED = 0, ROUTE_DIRECTED = 1, ROUTE_NEVER = 2 };
void route_direct(struct segment *segment, enum route_directs how);

/* Up to `most` tasks of a class whose route asks are to begin here; of those only that cannot travel, if `staying`. Returns how many, `tasks` which.
 * OBJSTORE_LIMIT as UINT32_MAX: there can be no other class. */
uint32_t route_place(struct segment *segment, uint32_t resource_class, uint32_t most, bool staying, uint32_t *tasks);

/* A task that was placed here and has not begun goes back to where it was. False: it has begun. */
bool route_recall(struct segment *segment, uint32_t task);

/* Ends all tasks of a class that wait for where to go, or those only that cannot travel: FAILURE_UNROUTED. Returns how many. */
uint32_t route_fail(struct segment *segment, uint32_t resource_class, bool staying);

/* Bytes of a task's arguments that would have to be brought if it ran there: those that lie in the arena here, or on a third machine. `there`:
 * bytes that need not. `client`: the proxy, UINT32_MAX for this machine. */
uint64_t route_bytes(struct segment *segment, uint32_t task, uint32_t client, uint64_t *there);

#endif
