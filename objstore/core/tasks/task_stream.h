/* Generator tasks and their streams, see objects/stream.h. All under the lock. */
#ifndef CELLMESH_TASK_STREAM_H
#define CELLMESH_TASK_STREAM_H

#include "objects/stream.h"
#include "tasks/task.h"

/* The stream object of a task with TASK_FLAG_STREAM: its last reference. */
static inline uint32_t task_stream(const struct segment *s, uint32_t task)
{
    struct task_slot *t = task_at(s, task);
    const uint32_t *refs = task_refs(s, t);
    return t->n_refs ? refs[t->n_refs - 1] : UINT32_MAX;
}

/* Queues a generator task. `*result` and `*stream` are held by this client. `limit`: as for stream_create. `refs` has
 * room for one more reference. Errors as task_submit. */
int task_submit_stream(struct segment *segment, struct task_spec *spec, uint32_t *refs, uint32_t limit,
                       uint32_t *result, uint32_t *stream);

/* The object for the task's item number `index`; results as stream_item. */
int task_item(struct segment *segment, uint32_t task, uint64_t index, uint32_t *object);

#endif
