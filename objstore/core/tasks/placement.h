/* Placement groups: bundles of resources that are reserved together, all or none, as pools of their own (decision 24).
 *
 * A bundle is a part of this node, or of another machine (remote_node.h), where its agent has reserved it: then its
 * pool has what that machine has set aside. In a cluster the agent (route.h) decides where the bundles of a group go
 * that cannot be here as a whole, or should not be. A bundle that is lost with its machine is placed again; the others
 * stay.
 *
 *   PENDING --all bundles fit into the node--> RESERVED --removed--> REMOVED --its last task has ended--> FREE
 *      +------------------------------------removed--------------> DROPPED --------------------------------^
 *
 * Groups with bundles that are to be here are served in order of their number, before ready tasks: whenever resources
 * become free, the oldest group that fits is reserved. A task of a group takes from a pool of the group, not from the
 * node, and may be ready before the group is reserved: to ask whether a group is reserved is to run an empty task. */
#ifndef CELLMESH_PLACEMENT_H
#define CELLMESH_PLACEMENT_H

#include "tasks/resource.h"
#include "tasks/task.h"

struct placement_spec {
    uint32_t number; /* from placement_number */
    uint32_t n;      /* bundles */
    const int64_t (*bundles)[MAX_KINDS];
    uint64_t name_hash;
    uint32_t owner_1;
    enum placement_mode mode;
};

/* All under the lock. */

static inline uint32_t placement_number(struct segment *s) { return ++s->h->n_placements; }

/* Queues a group. `object` is sealed and describes it. OBJSTORE_LIMIT, OBJSTORE_EXISTS (a living group has the name).
 */
int placement_create(struct segment *segment, const struct placement_spec *spec, uint32_t object);

/* The head of a group. OBJSTORE_NOT_FOUND: it has been removed, or is being removed. */
int placement_find(const struct segment *segment, uint32_t number, uint32_t *head);
int placement_find_name(const struct segment *segment, uint64_t name_hash, uint32_t *head);
/* The first head from `pool` on, MAX_POOLS: none. */
uint32_t placement_next(const struct segment *segment, uint32_t pool);

static inline const struct pool *placement_of(const struct segment *s, const struct resource_class *class)
{
    return pool_at(s, pool_at(s, class->place.pool)->head);
}
static inline const struct pool *placement_head(const struct segment *s, uint32_t class)
{
    return placement_of(s, class_at(s, class));
}
static inline bool placement_lives(const struct pool *head)
{
    return head->state == POOL_PENDING || head->state == POOL_RESERVED;
}

/* Whether the group holds resources of the node. */
static inline bool placement_holds(const struct pool *head)
{
    return head->state == POOL_RESERVED || head->state == POOL_REMOVED;
}

/* Whether some bundle of the group is not reserved. */
bool placement_is_open(const struct pool *head);

/* Whether the place of the class is in the living group of that number, 0: in the node. */
static inline bool placement_is(const struct segment *s, uint32_t class, uint32_t number)
{
    const struct place *place = &class_at(s, class)->place;
    if (!place->pool)
        return !number;
    const struct pool *head = placement_head(s, class);
    return head->number == number && placement_lives(head) &&
           place->pool + (uint32_t)place->n_pools <= resource_pool(s, class)->head + head->n;
}

/* Reserves the bundles that are to be here and fit now. */
void placement_grant(struct segment *segment);

/* The agent assigns all bundles that have no place. `client_1` has a value of pool.client_1 for each bundle of the
 * group; those of other bundles are ignored. False: the group has no such bundles now, or they must be assigned
 * otherwise. */
bool placement_assign(struct segment *segment, uint32_t head, const uint32_t *client_1);

/* Whether the agent, if there is one, places all bundles of the group. Otherwise it places only what does not fit here.
 */
bool placement_is_spread(const struct pool *head);

/* Removes a group: its queued tasks fail, and its resources return to the node once the running tasks have ended. */
void placement_remove(struct segment *segment, uint32_t head);
/* The workers that run tasks or actors of removed groups, which are to be killed; not those that are about to finish.
 * After header_is_safe. */
void placement_doomed(struct segment *segment, uint64_t clients[CLIENT_WORDS]);

void placement_owner_died(struct segment *segment, uint32_t client);
/* The bundles on the machine of a remote node are lost. If the group is not reserved yet, all its bundles are to be
 * placed again. */
void placement_machine_died(struct segment *segment, uint32_t client);
/* A task or an actor of the group of that pool has ended: goes on with the group's removal, if it is under way. */
void placement_settle(struct segment *segment, uint32_t pool);
static inline void placement_left(struct segment *s, uint32_t class) /* a task or an actor of the class has ended */
{
    if (class_at(s, class)->place.pool)
        placement_settle(s, class_at(s, class)->place.pool);
}

/* ---- for recover.c: before tasks are placed, and after */
void placement_rebuild(struct segment *segment);
void placement_resume(struct segment *segment);

#endif
