/* Streams: results that a task yields one by one, before it ends (decision 14).
 *
 * The task has one result, like other tasks, sealed at its end. It also has a *stream object*, whose references are the
 * result and the items, and whose bytes (struct stream) say how far the reader is. An item is an ordinary object. The
 * first one to ask for item n creates it, PENDING: either the reader, which then waits for it as for any object, or the
 * task, which seals it.
 *
 *     stream object:  result | item first | item first + 1 | ... | (pending: the reader is ahead)
 *                                  ^ next: handed out next; items before it are replaced by the result
 *
 * The reader holds the stream object and the task pins it. When only the task's pin is left there is no reader any
 * more, and the task learns that when it adds an item. A retried task seals the items that are not sealed yet, so items
 * are neither lost nor repeated if its function yields the same values again. Everything but the pins is authoritative,
 * so recovery does nothing about streams. tasks/task_stream.h connects tasks with their streams.
 *
 * All functions are called under the lock. */
#ifndef CELLMESH_STREAM_H
#define CELLMESH_STREAM_H

#include "objects/object.h"

/* Makes a stream without a result, held by this client. `limit`: how many items may be ahead of the reader before the
 * task pauses, 0: any number. OBJSTORE_FULL, OBJSTORE_LIMIT. */
int stream_create(struct segment *segment, uint32_t limit, uint32_t *stream);
/* Gives the stream the result of its task. */
void stream_begin(struct segment *segment, uint32_t stream, uint32_t result);

/* For the task: the object for its item number `index`, counted from 0 in every attempt. OBJSTORE_EXISTS: sealed in an
 * earlier attempt. OBJSTORE_CLOSED: there is no reader any more. OBJSTORE_LIMIT, OBJSTORE_FULL. */
int stream_item(struct segment *segment, uint32_t stream, uint64_t index, uint32_t *object);

/* Whether the task may go on after `n` items. If not, this client is notified when it should look again. */
bool stream_has_room(struct segment *segment, uint32_t stream, uint64_t n);

/* For the reader: the next item, sealed or not, held by this client; after the last one the result, once, if the task
 * has failed. OBJSTORE_NOT_FOUND: the stream has ended. */
int stream_peek(struct segment *segment, uint32_t stream, uint32_t *object);

/* Hands out what stream_peek returned, once it is sealed. False: it is not sealed, or another reader has taken it. */
bool stream_take(struct segment *segment, uint32_t stream, uint32_t object);

/* For a reader on another machine, which looks ahead of what has been taken: item number `index`, sealed or not.
 * OBJSTORE_NOT_FOUND: the task ended before it, or the items before it have not been asked for. */
int stream_ahead(struct segment *segment, uint32_t stream, uint64_t index, uint32_t *object);
/* Takes the items before number `n`, all of them sealed. */
void stream_advance(struct segment *segment, uint32_t stream, uint64_t n);
#define STREAM_FORSAKEN ((uint64_t)INT64_MAX)
/* How many items have been taken; STREAM_FORSAKEN: there is no reader any more. */
uint64_t stream_n_taken(struct segment *segment, uint32_t stream);
uint32_t stream_limit(struct segment *segment, uint32_t stream);

/* The result of the task with number `seq` is sealed: there will be no further item. */
void stream_end(struct segment *segment, uint32_t stream, uint64_t seq);

/* A client has dropped a stream object. Pins of a reader (the stream may be stored in another object) end without a
 * notification, since looking for streams would cost every task; a task that waits for room looks from time to time. */
void stream_released(struct segment *segment, uint32_t stream);

#endif
