/* What becomes of what a client leaves behind.
 *
 *     ATTACHED --(its end is reported)--> DYING --(stage after stage, page after page)--> FREE
 *
 * With many objects a burial takes longer than others shall wait for the lock. So it is done in pages of BURIAL_PAGE slots, and
 * between two of them the lock is free. Nobody can tell: what a dying client still refers to is merely still there, as it
 * was before its end was reported; a dead process refers to nothing new, so each slot needs one look; and its slot is given to
 * nobody before the last page is done.
 *
 * What is done twice finds nothing to do the second time. So whoever buries may die as well: the next burial, of whomever, begins his
 * and the one he was at anew. And several may bury the same client.
 *
 *   at once      others no longer count on it: idle, on its way, scheduler
 *   looking      objects, tasks, the arena: any process may have written anywhere. What leads nowhere, or was not told as it is, is
 *                found here, before anything is followed
 *   abandoning   what a driver has begun ends, see abandon.h
 *   actor        the fate of the actor that it serves or constructs, which decides on the calls
 *   tasks        what it runs is retried or fails; at the end its placement groups go
 *   references   to objects; waiting; reading
 *   chunks       memory that it had not made objects of yet
 *
 * Two holds are longer. The queues and lists of tasks are looked at in one go, 50 ns a task. And if the client has crashed, rather
 * than been killed, all that is derived is computed a second time, 60 ns an object.
 */
#ifndef CELLMESH_BURIAL_H
#define CELLMESH_BURIAL_H

#include "segment.h"

#ifndef BURIAL_PAGE
#define BURIAL_PAGE 4096u /* slots looked at while the lock is held: 0.1 ms, or 1 ms where all of them are freed */
#endif

#define DIED_OF_MEMORY (-1000) /* as `code`: it was ended because memory ran out */

/* What `client`, whose process has ended with `code` (-signal or exit status), leaves behind: its running tasks are
 * retried or fail, its actor restarts or dies, its references and half-written objects go; what
 * a driver has begun ends. Also the orderly way out for a client itself (code 0). Takes the lock, again and again for a moment. */
struct client_losses { uint32_t retried, failed, objects; bool actor_restarts; };
struct client_losses client_died(struct segment *segment, uint32_t client, int32_t code);

/* What follows when one actor that lives on another machine has ended there, with `code`: it starts again, unless `for_good`, or dies, and of its calls under way,
 * `calls`, those after the first `n_begun` have not been begun and stand in line again if it does start. Under the lock, on the proxy. */
void actor_lost(struct segment *proxy, uint32_t actor, int32_t code, bool for_good, const uint32_t *calls, uint32_t n_begun, uint32_t n);

/* Does so for every client whose process has ended; for segments without a scheduler, which is told of deaths. Returns how
 * many, and their pids in `pids`, which has room for MAX_CLIENTS. */
uint32_t client_reap(struct segment *segment, int32_t *pids);

#endif
