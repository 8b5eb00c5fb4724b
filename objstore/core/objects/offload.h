/* Objects that are absent, which means that their bytes are not in memory: offloaded to disk because the arena was
 * full, or on another machine. This file is the protocol in the segment; files are offload_file.h's matter (decision
 * 25).
 *
 * An offloaded object stays READY: waiting for it succeeds, and a reader brings it back first. Its offset is the number
 * of a file instead of an offset in the arena. Only sealed values of at least OBJECT_MOVABLE bytes without references
 * are offloaded.
 *
 * A remote object is READY from the start, and its offset names the remote node of the machine that has it
 * (remote_node.h). The remote node fetches it once there are readers; it cannot when the machine is lost.
 *
 * Readers read bytes without the lock. So each reader sets a bit of its own before it looks where the bytes are, and
 * clears the bit when it no longer refers to them. A mover first marks the object as absent, then looks at the bits.
 * Whichever comes second sees the other: a late reader finds the object absent and takes the lock; a late mover finds
 * the bit and takes the mark back, still under the lock.
 *
 * Death. The chunk keeps naming its object until no reader can be reading it, and is only then freed. So a chunk that
 * names an absent object means that the mover died in between, and recovery puts the object back. Besides that, a dead
 * mover leaves at most a file that nothing refers to. */
#ifndef CELLMESH_OFFLOAD_H
#define CELLMESH_OFFLOAD_H

#include "objects/object.h"

/* An object that is being moved. `file`: the number of its file; `chunk`: its place in the arena, 0: none. */
struct offload_move {
    uint32_t slot, generation;
    uint64_t chunk, size, file;
};

/* ---- reading, without the lock, while something keeps the object alive */
static inline void offload_begin_reading(struct segment *s, uint32_t slot)
{
    /* Pairs with offload_leave, and so does the load of the offset that has to follow, seq_cst as well. */
    atomic_fetch_or(&readers_at(s, slot)->clients[s->me / 64], UINT64_C(1) << (s->me % 64));
}
static inline void offload_end_reading(struct segment *s, uint32_t slot)
{
    /* Pairs with is_read: all reads come before. */
    atomic_fetch_and(&readers_at(s, slot)->clients[s->me / 64], ~(UINT64_C(1) << (s->me % 64)));
}

/* ---- offloading */
/* Chooses an object that may be offloaded, holds it for this client and marks it as being moved. OBJSTORE_NOT_FOUND:
 * there is none, or the limit is reached; OBJSTORE_PENDING: other clients are moving some now. Takes the lock
 * repeatedly, for a moment each. */
int offload_choose(struct segment *segment, struct offload_move *move);

/* Under the lock, once the file is written: the object is offloaded and its memory is freed. OBJSTORE_PENDING: it has a
 * reader; OBJSTORE_LIMIT: the limit has been reached meanwhile. In any case it is no longer being moved. */
int offload_leave(struct segment *segment, const struct offload_move *move);

/* ---- and back */
/* Under the lock: where the object is. OBJSTORE_EXISTS: in memory. OBJSTORE_PENDING: another client is bringing it
 * back. OBJSTORE_OK: this client is to bring it back, as `move` says. OBJSTORE_NOT_FOUND: it was on a machine that is
 * lost. For a remote object the remote node is notified of the reader, and the result for other clients is
 * OBJSTORE_PENDING. */
int offload_claim(struct segment *segment, uint32_t slot, struct offload_move *move);

/* The remote node that has a remote object; MAX_CLIENTS: its machine is lost. */
uint32_t offload_remote_of(const struct segment *segment, const struct object_slot *object);

/* Under the lock: its bytes are now in `chunk`, which this client has allocated. */
void offload_return(struct segment *segment, const struct offload_move *move, uint64_t chunk);

/* Under the lock: the move has failed. */
void offload_give_up(struct segment *segment, uint32_t slot);

/* ---- the rest, all under the lock */
/* Whether a file belongs to an object, or may yet. */
bool offload_file_is_wanted(const struct segment *segment, uint32_t slot, uint32_t generation, uint64_t file);
/* The object is never offloaded; for the code of functions, for example. */
void offload_never(struct segment *segment, uint32_t slot);
void offload_freed(struct segment *segment, uint64_t size); /* an offloaded object has been freed */
void offload_count(struct segment *segment, const struct object_slot *o);
void offload_take_back(struct segment *segment); /* for recovery, before chunks are freed */
void offload_forget_client(struct segment *segment, uint32_t slot, uint32_t client); /* which has ended */

#endif
