/* After a process died inside the lock: everything derived is built again from what is authoritative (layout.h). */
#ifndef CELLMESH_RECOVER_H
#define CELLMESH_RECOVER_H

#include "segment.h"

/* Called by the process that has just taken over the lock; idempotent, so it may itself die and be repeated. The dead
 * process's tasks and references stay as they are: client_died deals with them once its death is reported. */
void recover(struct segment *segment);

/* Whether every authoritative index and offset stays inside its table, so that what follows them does; under the lock. If not,
 * `wrong` says what is overwritten and `at` which one. */
bool segment_is_safe(struct segment *segment, const char **wrong, uint64_t *at);

/* The same of all slots alone, and what else a look at each tells. After header_is_safe: `contained` has an entry for each touched
 * object, and counts how often others refer to it. */
struct survey { uint32_t *contained; bool away, unclaimed; /* some object is on disk; some chunk in use does not name its slot */ };
bool slots_are_safe(struct segment *segment, struct survey *survey, const char **wrong, uint64_t *at);

/* The same of the header, the pools and the resource classes alone: what whoever looks counts by. Microseconds, however much
 * the segment holds. Under the lock. */
bool header_is_safe(struct segment *segment);

/* The same, and of actors and clients. */
bool small_tables_are_safe(struct segment *segment);

/* The same of one slot, which may lie beyond its table; a free one says nothing. After header_is_safe, under the lock. */
enum slot_kind { SLOT_OBJECT, SLOT_TASK, SLOT_ACTOR };
bool slot_is_safe(struct segment *segment, enum slot_kind kind, uint32_t index);

/* Walks the whole segment and verifies every invariant; under the lock. Calls `report` for each violation. Returns how
 * many there are. */
/* The part of it that concerns queues, mailboxes, waiting lists and resources: what the end of a task follows. Takes time by the
 * number of tasks, not of objects. After all of the above has been found safe. */
bool tasks_are_sound(struct segment *segment);

typedef void (*check_report)(void *context, const char *what, uint64_t index, uint64_t found, uint64_t expected);
uint32_t segment_check(struct segment *segment, check_report report, void *context);

#endif
