/* Routes: on which machine a task begins, where the agent decides (decision 56).
 *
 * The route of a class (enum place_route) is part of its identity. Tasks of a route that asks stay in their queue until
 * the agent sends them to another machine (remote_node.h) or places them here: then they move to the class that is the
 * same but for ROUTE_PLACED, and begin like others. Without an agent, tasks that may run here begin here at once; the
 * local scheduler fails those that may not once there will be no agent, NO_DIRECTOR. All under the lock. */
#ifndef CELLMESH_ROUTE_H
#define CELLMESH_ROUTE_H

#include "clients/remote_node.h"
#include "tasks/resource.h"

/* This client decides from now on where tasks go whose route asks; or no client does, for now or for good. */
enum route_directs { ROUTE_UNDIRECTED = 0, ROUTE_DIRECTED = 1, ROUTE_NEVER = 2 };
void route_direct(struct segment *segment, enum route_directs how);

/* Places up to `most` tasks of a class whose route asks here; `staying`: only those that cannot travel. Returns how
 * many, and which in `tasks`. UINT32_MAX: there can be no further class. */
uint32_t route_place(struct segment *segment, uint32_t resource_class, uint32_t most, bool staying, uint32_t *tasks);

/* Moves a task that was placed here back to the class it came from. False: it has begun. */
bool route_recall(struct segment *segment, uint32_t task);

/* Fails all tasks of a class that wait for a decision, or only those that cannot travel: FAILURE_UNROUTED, or
 * FAILURE_SHARED_STAYS. Returns how many. */
uint32_t route_fail(struct segment *segment, uint32_t resource_class, bool staying);

/* Fails the tasks of a class that need something shared, which keeps them here, and more than there ever will be here:
 * FAILURE_SHARED_STAYS. Tasks that wait for a decision are not looked at. Returns how many. */
uint32_t route_fail_shared(struct segment *segment, uint32_t resource_class);

/* The bytes of a task's arguments that would have to be transferred if it ran on `client`, a remote node (UINT32_MAX:
 * this machine): those in the arena here, or on a third machine. `there`: the bytes that would not. */
uint64_t route_bytes(struct segment *segment, uint32_t task, uint32_t client, uint64_t *there);

#endif
