/* Verifies that the indices and offsets in the segment may be followed. See memory/verifier.h. */
#ifndef CELLMESH_VERIFY_H
#define CELLMESH_VERIFY_H

#include "memory/segment.h"

/* Whether every authoritative index and offset is inside its table. If not, `wrong` says what was overwritten and `at`
 * which one. Under the lock. */
bool segment_is_safe(struct segment *segment, const char **wrong, uint64_t *at);

/* The same for the slots alone, after header_is_safe. One pass also collects: `contained` has an entry for each touched
 * object, and counts how often other objects refer to it. */
struct survey {
    uint32_t *contained;
    bool absent, unclaimed; /* an object is not in memory; a chunk in use does not name its slot */
};
bool slots_are_safe(struct segment *segment, struct survey *survey, const char **wrong, uint64_t *at);

/* The same for the header, the pools and the resource classes alone, which listings rely on. Takes microseconds,
 * whatever the segment contains. Under the lock. */
bool header_is_safe(struct segment *segment);

/* The same, and the actors and clients. */
bool small_tables_are_safe(struct segment *segment);

#endif
