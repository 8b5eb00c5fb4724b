/* What verifies the segment: every authoritative index and offset is held against its table, from the bottom up, before
 * it is followed. Each folder verifies what it knows (objects/verify_object.h, tasks/verify_task.h); recovery/verify.h
 * does all of it. */
#ifndef CELLMESH_VERIFIER_H
#define CELLMESH_VERIFIER_H

#include "memory/segment.h"

struct verifier {
    struct segment *s;
    const char *wrong; /* what is overwritten, NULL: nothing so far */
    uint64_t at;       /* which one */
};

static inline bool verify_failed(struct verifier *v, const char *what, uint64_t at)
{
    v->wrong = what;
    v->at = at;
    return false;
}

/* Where a process died, a slot may be free already that something still refers to: recovery sees to it. */
static inline bool verify_is_object(const struct segment *s, uint32_t object) { return object < s->h->touched_objects; }

#endif
