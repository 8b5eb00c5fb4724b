/* Checks every invariant of the segment; for tests, and after a crash. */
#ifndef CELLMESH_CHECK_H
#define CELLMESH_CHECK_H

#include "memory/segment.h"

/* Walks the whole segment, under the lock. Calls `report` for each violation and returns how many there are. */
typedef void (*check_report)(void *context, const char *what, uint64_t index, uint64_t found, uint64_t expected);
uint32_t segment_check(struct segment *segment, check_report report, void *context);

/* The part that concerns queues, mailboxes, waiting lists and resources, which the end of a task follows. Its time
 * grows with the number of tasks, not of objects. After what verify.h looks at has been found safe. */
bool tasks_are_sound(struct segment *segment);

#endif
