/* Reaping: what a dead client leaves behind is cleared away (decision 37).
 *
 *     ATTACHED --(its end is reported)--> DYING --(stage after stage, page after page)--> FREE
 *
 * With many objects, reaping takes longer than other processes should wait for the lock. So it goes in pages of
 * REAP_PAGE slots, and the lock is free between two pages. This is invisible to others: until its page comes, what the
 * dying client refers to is simply still there, as it was before its end was reported. A dead process adds no
 * references, so one look at each slot is enough, and its own slot is not reused before the last page is done.
 *
 * Each step is idempotent. So the process that reaps may die as well: the next one that reaps any client starts with
 * those two. Several processes may reap the same client.
 *
 *   at once      other clients no longer count on it: it is not idle, not being woken, not the scheduler
 *   verifying    objects, tasks, the arena: a stray write may have changed anything, and is found here, before an index
 *                or a link is followed
 *   orphans      what a dead driver has started ends, see orphans.h
 *   actor        what happens to the actor that it served or constructed, which decides what happens to its calls
 *   tasks        what it was running is retried or fails; at the end its placement groups go
 *   references   its references to objects, its waiting, its reading
 *   chunks       memory that it had not made objects of yet
 *
 * Two steps hold the lock for longer. The queues and lists of tasks are verified in one go, 50 ns a task. If the client
 * has crashed, rather than been killed, everything derived is computed again, 60 ns an object.
 */
#ifndef CELLMESH_REAP_H
#define CELLMESH_REAP_H

#include "memory/segment.h"

#ifndef REAP_PAGE
#define REAP_PAGE 4096u /* slots handled while the lock is held: 0.1 ms, or 1 ms if all of them are freed */
#endif

#define DIED_OF_MEMORY (-1000) /* a `code`: it was killed because memory ran out */

/* The number of a task, how many attempts came before the next, and how many there may be, -1: any number. */
struct rerun {
    uint64_t task;
    int32_t before, most;
};
struct client_losses {
    uint32_t retried, failed, objects;
    bool actor_restarts;
    struct rerun again; /* the last task, not a call, that is retried; number 0: none */
};
/* Reaps `client`, whose process has ended with `code` (-signal or exit status): its running tasks are retried or fail,
 * its actor restarts or dies, its references and half-written objects go, and what a driver has started ends. A client
 * also leaves in this way, with code 0. Takes the lock, once a page. */
struct client_losses client_died(struct segment *segment, uint32_t client, int32_t code);

/* An actor that lives on another machine has ended there with `code`: it restarts, unless `for_good`, or dies. `calls`
 * are its calls under way; those after the first `n_begun` had not begun, and are queued again if it restarts. Under
 * the lock, on the remote node. */
void actor_lost(struct segment *remote, uint32_t actor, int32_t code, bool for_good, const uint32_t *calls,
                uint32_t n_begun, uint32_t n);

/* Reaps every client whose process has ended; for segments without a scheduler, which learns of deaths. Returns how
 * many, and their pids in `pids`, which has room for MAX_CLIENTS. */
uint32_t client_reap(struct segment *segment, int32_t *pids);

#endif
