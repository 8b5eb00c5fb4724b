/* Placement groups: bundles of resources that are reserved together, all or none, as pools of their own.
 *
 * A bundle is a part of this node, or of another machine, where its agent has reserved it (proxy.h): then it is a pool of what that machine has
 * put aside for us. Where an agent directs (route.h), it says where the bundles of groups go that cannot be here as a whole, or should not.
 * A bundle that is lost with its machine is looked for again, while the others stay what they are.
 *
 *   PENDING --all bundles fit into the node--> RESERVED --removed--> REMOVED --its last task has ended--> FREE
 *      +------------------------------------removed--------------> DROPPED --------------------------------^
 *
 * Groups with bundles that are to be here stand in line by number, before the tasks that are ready: whenever resources become free, the oldest
 * that fits is reserved. A task of a group takes from a pool of the group and not from the node, and is ready before the
 * group is: a group that is asked whether it is reserved answers with an empty task. */
#ifndef CELLMESH_PLACEMENT_H
#define CELLMESH_PLACEMENT_H

#include "resource.h"
#include "task.h"

struct placement_spec {
    uint32_t number;     /* from placement_number */
    uint32_t n;          /* bundles */
    const int64_t (*bundles)[MAX_KINDS];
    uint64_t name_hash;
    uint32_t owner_1;
    enum placement_mode mode;
};

/* All under the lock. */

static inline uint32_t placement_number(struct segment *s) { return ++s->h->n_placements; }

/* Puts a group in line. `object` is sealed and describes it. OBJSTORE_LIMIT, OBJSTORE_EXISTS (name taken by a living group). */
int placement_create(struct segment *segment, const struct placement_spec *spec, uint32_t object);

/* A group's head. OBJSTORE_NOT_FOUND: it is gone, or being removed. */
int placement_find(const struct segment *segment, uint32_t number, uint32_t *head);
int placement_find_name(const struct segment *segment, uint64_t name_hash, uint32_t *head);
uint32_t placement_next(const struct segment *segment, uint32_t pool); /* the first head from there on, MAX_POOLS: none */

static inline const struct pool *placement_head(const struct segment *s, uint32_t class)
{
    return pool_at(s, resource_pool(s, class)->head);
}
static inline bool placement_lives(const struct pool *head) { return head->state == POOL_PENDING || head->state == POOL_RESERVED; }

/* Does the group hold resources of the node? */
static inline bool placement_holds(const struct pool *head) { return head->state == POOL_RESERVED || head->state == POOL_REMOVED; }

/* Is anything of it not reserved? */
bool placement_is_open(const struct pool *head);

/* Is the class's place in the living group of that number? 0: in the node. */
static inline bool placement_is(const struct segment *s, uint32_t class, uint32_t number)
{
    const struct place *place = &class_at(s, class)->place;
    if (!place->pool)
        return !number;
    const struct pool *head = placement_head(s, class);
    return head->number == number && placement_lives(head) && place->pool + (uint32_t)place->n_pools <= resource_pool(s, class)->head + head->n;
}

/* Reserves what is to be here and fits now. */
void placement_grant(struct segment *segment);

/* The agent says of all bundles that are nowhere where they are: `client_1`, as pool.client_1, has one for each bundle of the group, of which the
 * others are not looked at. False: the group has no such bundles now, or they are to be given otherwise. */
bool placement_assign(struct segment *segment, uint32_t head, const uint32_t *client_1);

/* Is the group's whole line of bundles to be placed by the agent, if there is one? Otherwise it only helps where there is no room here. */
bool placement_is_spread(const struct pool *head);

/* Ends a group: its queued tasks fail, and once the running ones have ended, its resources are the node's again. */
void placement_remove(struct segment *segment, uint32_t head);
/* Workers that run tasks or actors of removed groups: to be killed. Not those that are about to finish. After header_is_safe. */
void placement_doomed(struct segment *segment, uint64_t clients[CLIENT_WORDS]);

void placement_owner_died(struct segment *segment, uint32_t client);
/* Bundles on the machine that it stands for are lost; of a group that is not reserved yet, all are to be placed again. */
void placement_machine_died(struct segment *segment, uint32_t client);
/* Goes on with a removal, if it is under way: something of the group of that pool has ended. */
void placement_settle(struct segment *segment, uint32_t pool);
static inline void placement_left(struct segment *s, uint32_t class) /* a task or actor of it has ended */
{
    if (class_at(s, class)->place.pool)
        placement_settle(s, class_at(s, class)->place.pool);
}

/* ---- for recover.c: before tasks are placed, and after */
void placement_rebuild(struct segment *segment);
void placement_resume(struct segment *segment);

#endif
