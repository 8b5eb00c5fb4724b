/* Times of tasks: the timeout of an attempt, and the delay before the next one (decision 89).
 *
 *   RUNNING --timeout--> interrupted, as by cancel --grace is over--> its worker is killed, see reap.h
 *   RUNNING --retry--> DELAYED --the delay is over--> READY
 *
 * A task with such times (TASK_FLAG_TIMED) has an entry in a table of its own, so that other tasks pay nothing for
 * them. The due times are in a heap, with the earliest at the top, and the scheduler sleeps until then. It is notified
 * only of a due time before the one it sleeps for: a flood of tasks with the same timeout wakes it once a timeout, not
 * once a task. */
#ifndef CELLMESH_TIMER_H
#define CELLMESH_TIMER_H

#include "memory/segment.h"

/* All under the lock, for tasks with TASK_FLAG_TIMED. */

/* The code of a running task begins: its timeout starts. */
void timer_begin(struct segment *segment, uint32_t task);
/* Removes the task's due time. */
void timer_end(struct segment *segment, uint32_t task);
/* The delay before the task's next attempt, in ms; 0: none, otherwise sets `due`. */
uint32_t timer_delay(struct segment *segment, uint32_t task);
/* Puts the task into the heap; once its own fields and the state of the task are written. */
void timer_push(struct segment *segment, uint32_t task);

/* Handles the next task that is due at `now`, in ns of CLOCK_MONOTONIC. TIMER_READY: its delay is over, it is READY.
 * TIMER_INTERRUPT, TIMER_KILL: the caller signals the task's worker before it unlocks. TIMER_NONE: there is none;
 * `header.timers_at` says when to look again. */
enum timer_verdict { TIMER_NONE, TIMER_READY, TIMER_INTERRUPT, TIMER_KILL };
enum timer_verdict timer_pass(struct segment *segment, uint64_t now, uint32_t *task);

#endif
