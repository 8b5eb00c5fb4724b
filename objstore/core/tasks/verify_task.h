/* Whether a task or an actor may be followed: see memory/verifier.h. */
#ifndef CELLMESH_VERIFY_TASK_H
#define CELLMESH_VERIFY_TASK_H

#include "memory/verifier.h"

/* A slot inside the table; a free one says nothing. After header_is_safe, under the lock. */
bool verify_task(struct verifier *verifier, uint32_t task);
bool verify_actor(struct verifier *verifier, uint32_t actor);

/* The same of any index. */
bool task_is_safe(struct segment *segment, uint32_t task);
bool actor_is_safe(struct segment *segment, uint32_t actor);

#endif
