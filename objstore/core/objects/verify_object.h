/* Whether an object may be followed: see memory/verifier.h. */
#ifndef CELLMESH_VERIFY_OBJECT_H
#define CELLMESH_VERIFY_OBJECT_H

#include "memory/verifier.h"

/* A slot inside the table; a free one says nothing. After header_is_safe, under the lock. */
bool verify_object(struct verifier *verifier, uint32_t object);

/* The same of any index. */
bool object_is_safe(struct segment *segment, uint32_t object);

#endif
