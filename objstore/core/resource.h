/* Resources of the node: amounts in ten-thousandths of a unit, interned shapes ("classes"), GPU devices.
 * Everything here is under the lock. */
#ifndef CELLMESH_RESOURCE_H
#define CELLMESH_RESOURCE_H

#include "segment.h"

/* The index of a kind's name, interning it if new. OBJSTORE_LIMIT, OBJSTORE_INVALID (name too long). */
int resource_kind(struct segment *segment, const char *name, uint32_t *kind);

/* The class with this demand, hold and environment, interning it if new. OBJSTORE_LIMIT. */
int resource_class(struct segment *segment, const int64_t demand[MAX_KINDS], const int64_t hold[MAX_KINDS], uint32_t env,
                   uint32_t *index);

/* May that client run tasks of the class? It can only if it has not run anything yet, or is of the class's environment. */
static inline bool worker_suits(const struct segment *s, uint32_t client, uint32_t class)
{
    const struct client_slot *c = &s->clients[client];
    return c->env == s->classes[class].env || !c->last_seq;
}

/* Could the whole, idle node ever run it? */
bool resource_feasible(const struct segment *segment, uint32_t index);

/* Is there room now? */
bool resource_admissible(const struct segment *segment, uint32_t index);

/* Takes a class's demand; returns the mask of GPU devices assigned. Give it back with the same mask. */
uint32_t resource_acquire(struct segment *segment, const int64_t amounts[MAX_KINDS]);
void resource_release(struct segment *segment, const int64_t amounts[MAX_KINDS], uint32_t gpu_mask);

void resource_set_total(struct segment *segment, const int64_t total[MAX_KINDS]);

/* For recovery: takes an assignment that was made earlier again. */
void resource_reacquire(struct segment *segment, const int64_t amounts[MAX_KINDS], uint32_t gpu_mask);

#endif
