/* The end of what a driver, or another machine, has begun: nobody is left to want it.
 *
 * Its tasks and its actors end, and those that these have made in turn. What waits is cancelled; what runs is marked as cancelled,
 * and its worker is killed. Detached actors are spared, and so is what they have made, and calls of them.
 *
 * `makers` are the driver and the workers that do nothing but work for it. A burial has them found, then ends what they have made,
 * page by page; a task that starts meanwhile makes another maker of its worker, and then all begins anew. */
#ifndef CELLMESH_ABANDON_H
#define CELLMESH_ABANDON_H

#include "segment.h"

/* Kills the workers that it adds. Takes 10 ns a task, again for each level of tasks in tasks. Under the lock, when the tasks have
 * been looked at. */
void abandon_find(struct segment *segment, uint32_t driver, uint64_t makers[CLIENT_WORDS]);
/* Ends the task, or the actor it constructs, if one of them has made it. True: it runs, and has
 * not been found. */
bool abandon_task(struct segment *segment, uint32_t task, const uint64_t makers[CLIENT_WORDS]);

#endif
