/* Streams: the results of a task that come one by one, before it ends.
 *
 * The task has one result, as others have, sealed at its end. Beside it there is the *stream object*: its references are
 * the result and the items, its own bytes say how far the reader is (struct stream). An item is an ordinary object. Whoever
 * asks for item n first makes it, PENDING: the reader, who then waits for it as for any object, or the task, which seals it.
 *
 *     stream object:  result | item first | item first + 1 | ... | (pending: the reader is ahead)
 *                                  ^ next: handed out next; in place of those before it stands the result once more
 *
 * The stream object is held by the reader and pinned by the task. When only the task is left nobody will read on: the task
 * is told so when it wants to add an item. A task that is retried seals what has not been sealed yet, so items are neither
 * lost nor repeated if its function yields the same again. All of it is authoritative but the pins, so that recovery has
 * nothing to do with streams. */
#ifndef CELLMESH_STREAM_H
#define CELLMESH_STREAM_H

#include "task.h"

/* Queues a task that yields. `*result` and `*stream` are held by this client. `limit`: items that may be there without
 * having been taken before the task pauses, 0 for any number. `refs` has room for one more reference. Errors as
 * task_submit. Under the lock. */
int stream_submit(struct segment *segment, struct task_spec *spec, uint32_t *refs, uint32_t limit, uint32_t *result,
                  uint32_t *stream);

/* For the task: where to put its item number `index`, counted from 0 in every attempt. OBJSTORE_EXISTS: sealed in an
 * earlier attempt, OBJSTORE_CLOSED: nobody reads any more, or no room in a table or the arena. Under the lock. */
int stream_item(struct segment *segment, uint32_t task, uint64_t index, uint32_t *object);

/* May the task go on after `n` items? If not, this client is notified when it should look again. Under the lock. */
bool stream_has_room(struct segment *segment, uint32_t task, uint64_t n);

/* For the reader: the next item, sealed or not, or the result if the task has failed and that has not been told yet; held
 * by this client. OBJSTORE_NOT_FOUND: that was all. Under the lock. */
int stream_peek(struct segment *segment, uint32_t stream, uint32_t *object);

/* Hands out what stream_peek gave, once it is sealed. False: it is not, or somebody else has got it. Under the lock. */
bool stream_take(struct segment *segment, uint32_t stream, uint32_t object);

/* For a reader on another machine, who looks ahead of what has been taken: item number `index`, sealed or not. OBJSTORE_NOT_FOUND: the task has
 * ended before it, or those before it have not been asked for. Under the lock. */
int stream_ahead(struct segment *segment, uint32_t stream, uint64_t index, uint32_t *object);
void stream_advance(struct segment *segment, uint32_t stream, uint64_t n);    /* takes those below `n`, all sealed. Under the lock */
#define STREAM_FORSAKEN ((uint64_t)INT64_MAX)
uint64_t stream_n_taken(struct segment *segment, uint32_t task);              /* STREAM_FORSAKEN: nobody reads on. Under the lock */
uint32_t stream_limit(struct segment *segment, uint32_t task);

/* The result is sealed: there will be no further item. Under the lock. */
void stream_end(struct segment *segment, uint32_t task);

/* A client has let go of a stream object. A reader's pins (it may be stored in another object) go without a word, since
 * looking for streams would cost every task; a task that waits for room looks by itself now and then. Under the lock. */
void stream_released(struct segment *segment, uint32_t stream);

#endif
