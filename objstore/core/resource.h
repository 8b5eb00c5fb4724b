/* Resources of pools, that is of the node and of reserved bundles: amounts in ten-thousandths of a unit, interned shapes ("classes"), GPU devices.
 * Everything here is under the lock. */
#ifndef CELLMESH_RESOURCE_H
#define CELLMESH_RESOURCE_H

#include "segment.h"

/* The index of a kind's name, interning it if new. OBJSTORE_LIMIT, OBJSTORE_INVALID (name too long). */
int resource_kind(struct segment *segment, const char *name, uint32_t *kind);

/* What a class stands for. */
struct resource_shape {
    int64_t demand[MAX_KINDS], hold[MAX_KINDS];
    struct place place;
    uint32_t env;
    uint32_t number; /* its class's when it was last looked up */
};

/* Classes that no task is of, nor an actor's constructor, are given up once the table is full; so who keeps one in mind keeps its shape, or its
 * number: which of the classes it is, and the how manieth one there. Fits into 31 bits. */
static inline uint32_t resource_number(const struct segment *s, uint32_t index)
{
    return (s->classes[index].generation >> 1 << CLASS_BITS | index) & INT32_MAX;
}
static inline bool resource_is_used(const struct segment *s, uint32_t index) { return index < s->h->n_classes && s->classes[index].generation & 1; }

/* The class of that number. False: it has been given up. */
bool resource_numbered(const struct segment *segment, uint32_t number, uint32_t *index);

/* The class of that shape, interning it if new; `number`, as last known, becomes its number. One with several pools is made together
 * with those for each of them. OBJSTORE_LIMIT: there are tasks or actors of MAX_CLASSES shapes. */
int resource_intern(struct segment *segment, const struct resource_shape *shape, uint32_t *number, uint32_t *index);

/* Likewise, of the shape with this demand, hold, environment and place. */
int resource_class(struct segment *segment, const int64_t demand[MAX_KINDS], const int64_t hold[MAX_KINDS], uint32_t env,
                   struct place place, uint32_t *index);

/* What a class that is in use stands for. */
void resource_shape_of(const struct segment *segment, uint32_t index, struct resource_shape *shape);

/* Tasks of a class with several pools become, as they start, of the one for the pool where there is room. Are those for all of its pools there?
 * Marks them. */
bool resource_is_whole(const struct segment *segment, uint32_t index, bool parts[MAX_CLASSES]);

/* May that client run tasks of the class? It can only if it has not run anything yet, or is of the class's environment. */
static inline bool worker_suits(const struct segment *s, uint32_t client, uint32_t class)
{
    const struct client_slot *c = client_at(s, client);
    return c->env == class_at(s, class)->env || !c->last_seq;
}

/* Do its tasks wait for the agent to say where they begin? */
static inline bool resource_is_routed(const struct segment *s, uint32_t class)
{
    uint16_t route = class_at(s, class)->place.route;
    return route == ROUTE_WAITS || (route == ROUTE_ASKS && s->h->director_1 && s->h->director_1 <= MAX_CLIENTS);
}

/* Could its pool, or one of them, ever run it when idle? */
bool resource_feasible(const struct segment *segment, uint32_t index);

/* Do the amounts fit into what is available in the pool? */
bool resource_fits(const struct segment *segment, const struct pool *pool, const int64_t amounts[MAX_KINDS]);

/* The pool in which there is room for a task of the class now, or UINT32_MAX. `client_1`: of this node's, or of those that are on another
 * machine (pool.client_1). */
uint32_t resource_room_on(const struct segment *segment, uint32_t index, uint32_t client_1);
static inline uint32_t resource_room(const struct segment *s, uint32_t index) { return resource_room_on(s, index, POOL_HERE); }
static inline bool resource_admissible(const struct segment *s, uint32_t index) { return resource_room(s, index) != UINT32_MAX; }

/* May its tasks run here at all, room or not? No: all of its bundles are on other machines. */
bool resource_is_here(const struct segment *segment, uint32_t index);

/* How many ready tasks of the class could start now. `room`, what the node has left, becomes less; what classes of one placement
 * group take from each other is not looked at. */
int64_t resource_startable(const struct segment *segment, uint32_t index, int64_t room[MAX_KINDS]);

/* Takes a class's demand; returns the mask of GPU devices assigned. Give it back with the same mask. */
uint32_t resource_acquire(const struct segment *segment, struct pool *pool, const int64_t amounts[MAX_KINDS]);
void resource_release(const struct segment *segment, struct pool *pool, const int64_t amounts[MAX_KINDS], uint32_t gpu_mask);

/* The pool that tasks of the class, of one pool, take from. */
static inline struct pool *resource_pool(const struct segment *s, uint32_t class) { return pool_at(s, class_at(s, class)->place.pool); }

/* The CPUs of a task of the class, which waits for something, come back, or with -1 are taken again. */
void resource_lend(struct segment *segment, uint32_t index, int sign);

/* Of the node. */
void resource_set_total(struct segment *segment, const int64_t total[MAX_KINDS]);

/* For recovery: takes an assignment that was made earlier again. */
void resource_reacquire(const struct segment *segment, struct pool *pool, const int64_t amounts[MAX_KINDS], uint32_t gpu_mask);

#endif
