/* Orphans: what a dead driver, or a lost machine, has started is ended, as it has no use any more (decision 40).
 *
 * Its tasks and actors end, and the tasks and actors that those have started in turn. Waiting tasks are cancelled;
 * running ones are marked as cancelled, and their workers are killed. Detached actors, their calls, and what they have
 * started are spared.
 *
 * `makers` are the driver and the workers that work only for it. Reaping first finds them, then ends what they have
 * started, page by page. If a task begins meanwhile, its worker becomes another maker, and the stage starts over. */
#ifndef CELLMESH_ORPHANS_H
#define CELLMESH_ORPHANS_H

#include "memory/segment.h"

/* Adds makers, and kills the workers that it adds. 10 ns a task, once for each level of nested tasks. Under the lock,
 * after the tasks have been verified. */
void orphans_find(struct segment *segment, uint32_t driver, uint64_t makers[CLIENT_WORDS]);
/* Ends the task, or the actor that it constructs, if a maker has started it. True: it runs on a worker that is no maker
 * yet. */
bool orphans_end(struct segment *segment, uint32_t task, const uint64_t makers[CLIENT_WORDS]);

#endif
