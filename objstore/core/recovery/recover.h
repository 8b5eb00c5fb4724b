/* Recovery from a death inside the lock: everything derived is rebuilt from what is authoritative (layout.h, decision
 * 10). */
#ifndef CELLMESH_RECOVER_H
#define CELLMESH_RECOVER_H

#include "memory/segment.h"

/* Called by the process that has just taken the lock over. It is idempotent, so that process may die as well. The tasks
 * and references of the dead process stay: client_died deals with them once its death is reported. */
void recover(struct segment *segment);

#endif
