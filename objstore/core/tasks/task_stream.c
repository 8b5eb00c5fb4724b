#include "tasks/task_stream.h"

int task_submit_stream(struct segment *s, struct task_spec *spec, uint32_t *refs, uint32_t limit, uint32_t *result,
                       uint32_t *stream)
{
    uint32_t task;
    int error = stream_create(s, limit, stream);
    if (error)
        return error;
    refs[spec->n_refs++] = *stream;
    spec->refs = refs;
    spec->flags |= TASK_FLAG_STREAM;
    error = task_submit(s, spec, result, &task);
    spec->n_refs--;
    if (error) {
        object_drop(s, *stream, s->me);
        return error;
    }
    stream_begin(s, *stream, *result); /* its task may have ended by now: this client holds the result */
    return OBJSTORE_OK;
}

int task_item(struct segment *s, uint32_t task, uint64_t index, uint32_t *item)
{
    int error = stream_item(s, task_stream(s, task), index, item);
    if (!error)
        object_at(s, *item)->u.pending.task_1 = task + 1;
    return error;
}
