/* Primitives for processes that share memory: a barrier, a counter, and a condition with its lock. Each is a shared
 * object whose bytes are a struct shared_sync (layout.h). They work by atomic operations on these bytes, without the
 * segment's lock. Who waits sleeps on a word of the primitive (memory/sleep.h), and looks again from time to time.
 *
 * Death. A barrier has a bit for each client that has joined it, set before anything else is done; a condition's word
 * names the client that owns its lock. Whoever reaps a dead client finds its marks, under the segment's lock, and
 * breaks the primitive: a bit in `word`, so that nothing is done with it any more, and news. It stays broken until it
 * is reset. Steps that a dead process had not come to are in vain then, or are made up for: a barrier that the dead
 * process had completed without telling is found complete by those who look again. A client that leaves in good order
 * (CLIENT_FLAG_LEFT) is no member any more, and breaks no barrier; if it owns a lock, it has died.
 *
 * The word of a barrier: | broken 1 | epoch 15 | phase 32 | arrived 16 |. A ticket is the word as it was on arrival:
 * with another phase all have come, with another epoch the barrier has been reset. The word of a condition: | broken 1
 * | 0 | thread id 32 | client + 1, 16 |, 0: nobody owns it. That of a counter is its value. */
#ifndef CELLMESH_SHARED_SYNC_H
#define CELLMESH_SHARED_SYNC_H

#include "objects/object.h"

enum sync_kind { SYNC_BARRIER = 1, SYNC_COUNTER = 2, SYNC_CONDITION = 3 };
enum { SYNC_MOST_MEMBERS = 65535 };

enum sync_result {
    SYNC_DONE = 0,
    SYNC_PENDING = 1,   /* not yet */
    SYNC_BROKEN = 2,    /* a member died, or aborted it */
    SYNC_RESET = 3,     /* it was reset while this one waited */
    SYNC_OWNED = 4,     /* this thread owns it already */
    SYNC_NOT_OWNED = 5, /* this thread does not own it */
    SYNC_OVERFLOW = 6   /* the value does not fit into 64 bits; it is as it was */
};

/* The primitive in an object that something keeps alive; NULL: it is none of that kind (0: any). */
struct shared_sync *sync_at(const struct segment *segment, uint32_t object, uint32_t kind);
/* In zeros, behind the text, before the object is sealed with REFS_OF_SYNC. */
void sync_format(struct shared_sync *sync, uint32_t kind, uint32_t n);

/* ---- barriers. Joins and arrives: SYNC_DONE if this was the last one, who has told the others then; SYNC_PENDING with
 * a ticket; SYNC_BROKEN. */
int barrier_arrive(struct segment *segment, struct shared_sync *barrier, uint64_t *ticket);
int barrier_look(const struct shared_sync *barrier, uint64_t ticket);
/* Takes the arrival back: SYNC_PENDING; or what barrier_look says, and there is nothing to be taken back. */
int barrier_withdraw(struct shared_sync *barrier, uint64_t ticket);
static inline uint32_t barrier_n_arrived(const struct shared_sync *b) { return atomic_load(&b->word) & 0xffff; }

/* ---- counters */
int counter_add(struct shared_sync *counter, int64_t n, int64_t *value); /* the new one */

/* ---- conditions. `thread`: a number of this client's, not 0. */
int condition_lock(const struct segment *segment, struct shared_sync *condition, uint32_t thread);
int condition_unlock(const struct segment *segment, struct shared_sync *condition, uint32_t thread);
bool condition_is_owned(const struct segment *segment, const struct shared_sync *condition, uint32_t thread);
/* By the owner. A waiter enters, unlocks, and sleeps while `news` is what condition_enter has returned; it locks
 * again, and is done if condition_take says so, else goes on with the new `seen`, or gives up. */
uint32_t condition_enter(struct shared_sync *condition);
bool condition_take(struct shared_sync *condition, uint32_t *seen);
void condition_give_up(struct shared_sync *condition);
void condition_notify(struct shared_sync *condition, uint32_t n);

/* ---- breaking and mending, any kind but counters */
static inline bool sync_is_broken(const struct shared_sync *b) { return atomic_load(&b->word) >> 63; }
void sync_break(struct shared_sync *sync, int32_t by); /* see broken_by */
/* As new; who waits gets SYNC_RESET, or SYNC_BROKEN. Only a condition that is broken, or that nobody owns. */
void sync_reset(struct shared_sync *sync);

/* Under the lock: a client has ended. */
void sync_client_ended(struct segment *segment, uint32_t object, uint32_t client);
/* Under the lock, for recovery: breaks what names a client that is not among those attached. */
void sync_forget_others(struct segment *segment, uint32_t object, const uint64_t attached[CLIENT_WORDS]);
/* By who waits, now and then: breaks a condition whose owner is no client, which only a stray write can do. */
void sync_look_after(struct segment *segment, struct shared_sync *sync);

/* Whether the bytes are those of a primitive; and whether all that it names is attached. */
bool sync_is_sound(const struct shared_sync *sync);
bool sync_names_only(const struct shared_sync *sync, const uint64_t attached[CLIENT_WORDS]);

#endif
