/* Clients, the processes attached to the segment: attaching, and sleeping on the inbox. reap.h clears up after dead
 * ones. */
#ifndef CELLMESH_CLIENT_H
#define CELLMESH_CLIENT_H

#include "memory/sleep.h"
#include "tasks/task.h"

/* Takes a client slot for this process and sets segment->me. `role` is a client_role; a store without tasks has only
 * drivers. OBJSTORE_LIMIT: there are MAX_CLIENTS. OBJSTORE_SYSTEM (see errno): the start time of this process cannot be
 * read. Takes the lock. */
int client_attach(struct segment *segment, uint32_t role);

/* Signals a worker and returns its pid, or 0. A client that is no worker is not signalled, nor is a process that has
 * got the pid of a dead worker. */
int32_t client_signal_worker(const struct segment *segment, uint32_t client, int number);

/* What a client is and does, for listings. */
struct client_view {
    uint32_t role, actor_1, origin;
    int32_t pid;
    bool idle, blocked, retriable;
    uint64_t seq, parent; /* of the task that it runs, 0: none */
    /* object slot of the function that it runs, or else of the class of the actor that it serves */
    uint32_t function_1;
    uint32_t generation; /* of that slot */
    uint64_t n_finished, last_seq;
};
/* Under the lock. False: the slot is free. A stray write may have changed any field, so indices out of range are not
 * followed. */
bool client_look(struct segment *segment, uint32_t client, struct client_view *view);

/* Under the lock, after header_is_safe. Whether those are attached who are counted on: this client, the scheduler, idle
 * workers, the workers of living actors. False: the table has been overwritten. */
bool client_table_is_sound(const struct segment *segment);

/* Makes a sealed object the context, which workers read when they start. Workers that have started before leave: idle
 * ones at once, busy ones after their task, those of actors never. The caller keeps the object alive. Takes the lock.
 */
void client_set_context(struct segment *segment, uint32_t object);
/* The object is held by this client. False: there is none. */
bool client_context(struct segment *segment, uint32_t *object);

/* The inbox protocol. A waiter reads the inbox, looks at everything it waits for, and sleeps only while the inbox has
 * not changed. A notifier first changes the inbox, then wakes the threads counted in `sleepers`.
 *
 * This load pairs with notify_client: what is read afterwards is at least as new as the number. */
static inline uint32_t client_inbox(struct segment *s) { return atomic_load(&s->clients[s->me].inbox); }

/* Sleeps until the inbox differs from `seen`, as word_sleep. */
int client_sleep(struct segment *segment, uint32_t seen, int64_t timeout_ns, _Atomic int *trust);

/* The same for a thread that waits for seals, or for notify_client by whoever else: what wake_client announces, such as
 * calls of an actor, does not wake it. */
static inline uint32_t client_seals(struct segment *s) { return atomic_load(&s->clients[s->me].seals); }
int client_sleep_until_seal(struct segment *segment, uint32_t seen, int64_t timeout_ns);

/* Drops several references of this client. Takes the lock once. */
void client_drop(struct segment *segment, const uint32_t *objects, uint32_t n);

#endif
