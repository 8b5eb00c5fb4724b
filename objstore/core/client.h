/* Clients: processes attached to the segment. Attaching, sleeping on the inbox. What becomes of the dead: burial.h. */
#ifndef CELLMESH_CLIENT_H
#define CELLMESH_CLIENT_H

#include "task.h"

/* Takes a client slot for this process and sets segment->me. `role` is a client_role; a store without tasks has drivers only.
 * OBJSTORE_LIMIT: there are MAX_CLIENTS; OBJSTORE_SYSTEM, and errno says why: it cannot be read when this process began. Takes the lock. */
int client_attach(struct segment *segment, uint32_t role);

/* Signals a worker. Whoever is none, though its number was written somewhere, and whoever has got its pid since are left alone. Its pid, or 0. */
int32_t client_signal_worker(const struct segment *segment, uint32_t client, int number);

/* One bit for each client that is attached, or dying: what others are referred to by is nobody's. */
void clients_attached(const struct segment *segment, uint64_t clients[CLIENT_WORDS]);

/* What a client is and does, for whoever looks. */
struct client_view {
    uint32_t role, actor_1, origin;
    int32_t pid;
    bool idle, blocked, retriable;
    uint64_t seq, parent; /* of the task that it runs, 0: none */
    uint32_t function_1;  /* slot of what it runs, or of the class of the actor that it serves meanwhile */
    uint32_t generation;  /* of that slot */
    uint64_t n_finished, last_seq;
};
/* Under the lock. False: the slot is free. A stray write may have changed any field, so none is followed that leads nowhere. */
bool client_look(struct segment *segment, uint32_t client, struct client_view *view);

/* Makes a sealed object the context, which workers look at when they start, and has those go that have started before:
 * idle ones at once, busy ones after their task, actors never. Whoever sets it keeps the object. Takes the lock. */
void client_set_context(struct segment *segment, uint32_t object);
bool client_context(struct segment *segment, uint32_t *object); /* held by this client; false: there is none */

/* The inbox protocol. A waiter reads the inbox, looks at everything it waits for, and sleeps only while the inbox has
 * not changed; a notifier changes the inbox first and then wakes whoever is counted in `sleepers`. */
/* Pairs with notify_client: what is looked at afterwards is at least as new as this number. */
static inline uint32_t client_inbox(struct segment *s) { return atomic_load(&s->clients[s->me].inbox); }

/* Sleeps until the inbox differs from `seen`: 0, ETIMEDOUT, EINTR. With a `trust`, which begins at TRUST_MAX and is kept from
 * one call to the next, it looks for some microseconds before it sleeps, as long as that pays; NULL: it sleeps. `timeout_ns` < 0: for
 * ever. Never under the lock; look again after each return, whatever it says. */
#define TRUST_MAX 16
int client_sleep(struct segment *segment, uint32_t seen, int64_t timeout_ns, _Atomic int *trust);

/* Under the lock: once it is released, every client looks again at what it waits for. */
void wake_everybody(struct segment *segment);

/* Drops several references of this client in one go. Takes the lock. */
void client_drop(struct segment *segment, const uint32_t *objects, uint32_t n);

#endif
