/* Resources of the pools, which are the node and reserved bundles: amounts in ten-thousandths of a unit, interned
 * shapes
 * ("resource classes"), and GPU devices. Everything here is under the lock. */
#ifndef CELLMESH_RESOURCE_H
#define CELLMESH_RESOURCE_H

#include "tasks/gate.h"

/* The index of a kind of resource by name; a new name is added. OBJSTORE_LIMIT, OBJSTORE_INVALID (name too long). */
int resource_kind(struct segment *segment, const char *name, uint32_t *kind);

/* The shape that a class stands for. */
struct resource_shape {
    int64_t demand[MAX_KINDS], hold[MAX_KINDS];
    struct place place;
    struct terms terms;
    uint32_t env;
    uint32_t number; /* of its class, when that was last looked up */
};

/* Once the table is full, classes without tasks and without constructors of actors are given up. So code that remembers
 * a class remembers its shape, or its number: the index, and how often that index was used before. 31 bits. */
static inline uint32_t resource_number(const struct segment *s, uint32_t index)
{
    return (class_at(s, index)->generation >> 1 << CLASS_BITS | index) & INT32_MAX;
}
static inline bool resource_is_used(const struct segment *s, uint32_t index)
{
    return index < s->h->n_classes && s->classes[index].generation & 1;
}

/* The class with that number. False: it has been given up. */
bool resource_numbered(const struct segment *segment, uint32_t number, uint32_t *index);

/* The class for that shape; a new one is added. `number` is the last one known, and is updated. A class with several
 * pools is made together with a class for each of them. OBJSTORE_LIMIT: tasks and actors use MAX_CLASSES shapes. */
int resource_intern(struct segment *segment, const struct resource_shape *shape, uint32_t *number, uint32_t *index);

/* The same for a shape with this demand, hold, environment and place, without terms. */
int resource_class(struct segment *segment, const int64_t demand[MAX_KINDS], const int64_t hold[MAX_KINDS],
                   uint32_t env, struct place place, uint32_t *index);

/* The same for the shape of that class, but at another place. */
int resource_class_at(struct segment *segment, uint32_t class, struct place place, uint32_t *index);

/* The shape of a class that is in use. */
void resource_shape_of(const struct segment *segment, uint32_t index, struct resource_shape *shape);

/* A task of a class with several pools moves, as it begins, to the class for the pool with capacity. Whether there is
 * such a class for each of the pools; marks them in `parts`. */
bool resource_is_whole(const struct segment *segment, uint32_t index, bool parts[MAX_CLASSES]);

/* Whether that client may run tasks of the class: it has the environment of the class, or has not run anything yet. */
static inline bool worker_suits(const struct segment *s, uint32_t client, uint32_t class)
{
    const struct client_slot *c = client_at(s, client);
    return c->env == class_at(s, class)->env || !c->last_seq;
}

/* Whether its tasks wait for the agent to decide where they begin. */
static inline bool resource_is_routed(const struct segment *s, const struct resource_class *c)
{
    uint16_t route = c->place.route;
    return route == ROUTE_WAITS || (route == ROUTE_ASKS && s->h->director_1 && s->h->director_1 <= MAX_CLIENTS);
}

/* Whether its pool, or one of its pools, could run it when nothing else runs. */
bool resource_feasible(const struct segment *segment, uint32_t index);

/* Whether the amounts fit into what is available in the pool. */
bool resource_fits(const struct segment *segment, const struct pool *pool, const int64_t amounts[MAX_KINDS]);

/* The pool with capacity for a task of the class now, or UINT32_MAX. `client_1`, as pool.client_1: only pools on that
 * machine. */
uint32_t resource_room_on(const struct segment *segment, const struct resource_class *class, uint32_t client_1);
/* The same for this node, and only if the gate of the class is open, or open to some of its tasks. */
static inline uint32_t resource_room(const struct segment *s, const struct resource_class *c)
{
    bool may = __builtin_expect(!s->h->has_terms, 1) || gate_is_open(s, c) || gate_is_open_in_place(s, c);
    return may ? resource_room_on(s, c, POOL_HERE) : UINT32_MAX;
}
static inline bool resource_admissible(const struct segment *s, const struct resource_class *c)
{
    return resource_room(s, c) != UINT32_MAX;
}

/* Whether its tasks may run here at all. False: all of its bundles are on other machines. */
bool resource_is_here(const struct segment *segment, uint32_t index);

/* Tasks that need much would wait for ever behind a flood of small ones, which take whatever becomes free. So a lane
 * that has been passed over for a few rounds gets a reservation: tasks of other classes leave free what one of its
 * tasks needs. There is one reservation at a time, and it holds nothing back from classes of a higher priority. It
 * lapses, since the tasks that hold the rest may run for ever, or wait for a task that is held back. A reservation that
 * was in vain is followed by a pause of the same length, and then by one twice as long, so that some reservation
 * outlasts tasks of any length. The clock is read only where tasks wait for capacity.
 *
 * False: there is a reservation of at least that priority, it is too early, or the class could not begin even if all
 * running tasks had ended (actors keep what they hold). */
bool resource_reserve(struct segment *segment, uint32_t index);
void resource_note_held_back(struct header *header);              /* after a change of `reserved` or `returning` */
void resource_unreserve(struct segment *segment, uint32_t index); /* a task of that class has left its queue */
void resource_lapse(struct segment *segment);                     /* if it is time to */
/* Takes what is reserved off `room`, which is what the node has left. */
void resource_unreserved(const struct segment *segment, int64_t room[MAX_KINDS]);
/* For how many ticks from now ready tasks may be held back; 0: nothing is reserved. A hint, without the lock. */
uint64_t resource_reserved_for(const struct segment *segment);

/* How many ready tasks of the class could begin now. Takes their demand off `room`, which is what the node has left;
 * what classes of one placement group take from each other is ignored. */
int64_t resource_startable(const struct segment *segment, uint32_t index, int64_t room[MAX_KINDS]);

/* An actor, or a bundle of the node, begins to keep the amounts (sign 1) or gives them back (-1). */
void resource_keep(const struct segment *segment, struct pool *pool, const int64_t amounts[MAX_KINDS],
                   uint32_t gpu_mask, int sign);

/* Takes the amounts; returns the mask of the GPU devices assigned, with which they are released. */
uint32_t resource_acquire(const struct segment *segment, struct pool *pool, const int64_t amounts[MAX_KINDS]);
void resource_release(const struct segment *segment, struct pool *pool, const int64_t amounts[MAX_KINDS],
                      uint32_t gpu_mask);

/* The pool of a class with one pool. */
static inline struct pool *resource_pool(const struct segment *s, uint32_t class)
{
    return pool_at(s, class_at(s, class)->place.pool);
}

/* A task of the class begins to wait and lends its CPUs (sign 1), or takes them again (-1). */
void resource_lend(struct segment *segment, uint32_t index, int sign);

/* Sets the totals of the node. */
void resource_set_total(struct segment *segment, const int64_t total[MAX_KINDS]);

/* For recovery: takes the amounts and devices of an earlier assignment again. */
void resource_reacquire(const struct segment *segment, struct pool *pool, const int64_t amounts[MAX_KINDS],
                        uint32_t gpu_mask);

#endif
