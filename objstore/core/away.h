/* Objects whose bytes are not in memory: those that a full arena sends to disk, and back, and those that lie on another machine. This
 * is the part of it that lies in the segment. No file is touched here.
 *
 * An object that is away stays READY: who waits for it is served, who reads it brings it back first. Its offset is the number
 * of a file instead of a place in the arena. Only sealed values of at least OBJECT_MOVABLE bytes go, without references in them.
 *
 * An object elsewhere is READY from the start, and its offset names the proxy of the machine where it lies (proxy.h): that one brings
 * it, once there are readers. It cannot when that machine is lost.
 *
 * Readers look at bytes without the lock, so each notes that it does, in its own bit, before it looks where they lie, and takes
 * the bit back when nothing of it refers to them any more. Whoever takes an object away writes "away" first and looks at the
 * bits afterwards. Whichever comes second sees the other: a reader that came too late finds the object away and takes the lock;
 * a mover that came too late finds the bit, and takes "away" back, still under the lock.
 *
 * Death. The chunk names its object until no reader can have come, and only then is it freed. So a chunk that names an object
 * which is away means that its mover died in between, and recovery puts the object back where it lay. What a dead mover leaves
 * besides is a file that nobody refers to. */
#ifndef CELLMESH_AWAY_H
#define CELLMESH_AWAY_H

#include "object.h"

/* An object on its way. `file`: the number of its file; `chunk`: where it lies in the arena, 0: not there; `spare`: bytes that it may
 * take beyond the limit. */
struct away_move { uint32_t slot, generation; uint64_t chunk, size, file, spare; };

/* ---- reading, without the lock, while something keeps the object alive */
static inline void away_begin_reading(struct segment *s, uint32_t slot)
{
    /* Pairs with away_leave, and so does the load of the offset that has to follow, seq_cst as well. */
    atomic_fetch_or(&readers_at(s, slot)->clients[s->me / 64], UINT64_C(1) << (s->me % 64));
}
static inline void away_end_reading(struct segment *s, uint32_t slot)
{
    /* Pairs with is_read: all reads lie before. */
    atomic_fetch_and(&readers_at(s, slot)->clients[s->me / 64], ~(UINT64_C(1) << (s->me % 64)));
}

/* ---- to disk */
/* Chooses an object that may go, holds it for this client and marks it as being moved. OBJSTORE_NOT_FOUND: there is none, or the
 * limit is reached; OBJSTORE_PENDING: others are moving some at this moment. `spare`: so many bytes come back for it, so it may go
 * beyond the limit by as much. Takes the lock, again and again for a moment. */
int away_choose(struct segment *segment, uint64_t spare, struct away_move *move);

/* Under the lock, when the file is written: the object is there now, and its memory is free. OBJSTORE_PENDING: somebody reads it;
 * OBJSTORE_LIMIT: too much lies there by now. In any case it is no longer being moved. */
int away_leave(struct segment *segment, const struct away_move *move);

/* ---- and back */
/* Under the lock: where the object is. OBJSTORE_EXISTS: in memory; OBJSTORE_PENDING: somebody brings it back at this moment;
 * OBJSTORE_OK: this client shall do that, with what `move` says. OBJSTORE_NOT_FOUND: it lay on a machine that is lost. Of what lies
 * elsewhere its proxy is told that somebody reads it, and for all others it is pending. */
int away_claim(struct segment *segment, uint32_t slot, struct away_move *move);

/* The proxy that brings an object which lies elsewhere; MAX_CLIENTS: its machine is lost. */
uint32_t away_proxy_of(const struct segment *segment, const struct object_slot *object);

/* Under the lock: its bytes lie in `chunk` (of ours) now. */
void away_return(struct segment *segment, const struct away_move *move, uint64_t chunk);

/* Under the lock: the move has come to nothing. */
void away_give_up(struct segment *segment, uint32_t slot);

/* ---- around it, all under the lock */
/* Whether a file belongs to an object, or may come to. */
bool away_file_is_wanted(const struct segment *segment, uint32_t slot, uint32_t generation, uint64_t file);
void away_keep(struct segment *segment, uint32_t slot);              /* never goes to disk: a function's code, for example */
void away_freed(struct segment *segment, uint64_t size);           /* one that lay on disk has been freed */
void away_count(struct segment *segment, const struct object_slot *o);
void away_take_back(struct segment *segment);                      /* for recovery, before chunks are judged */
void away_forget_client(struct segment *segment, uint32_t slot, uint32_t client); /* which has ended */

#endif
