/* retries/: which task that has failed gets another attempt; never how an attempt begins or ends. */

/* Whether a task whose attempt has failed gets another one. Its `max_retries` decides, whoever asks:
 *
 *   what has failed              who asks                                               which of these
 *   the code raised              binding/worker/settle.c, after `retry_exceptions`      retry_allowed
 *   it took too long             the same, or clients/reap.c if it had to be killed     retry_after_timeout
 *   memory ran out               clients/reap.c                                         retry_after_oom
 *   its process or machine died  clients/reap.c                                         retry_allowed
 *
 * task_retry makes the task another attempt, perhaps after a delay (tasks/timer.h). */
#ifndef CELLMESH_RETRY_H
#define CELLMESH_RETRY_H

#include "memory/segment.h"

/* Attempts in which memory ran out do not count against max_retries. */
static inline bool retry_allowed(const struct task_slot *t)
{
    return t->max_retries < 0 || t->attempt - (t->flags >> TASK_OOM_SHIFT) < t->max_retries;
}

/* Only if the task asks for it. */
static inline bool retry_after_timeout(struct segment *s, uint32_t task)
{
    return times_at(s, task)->limits.retries_timeout && retry_allowed(task_at(s, task));
}

/* It may not be the task's fault that memory ran out, so such attempts are counted separately, up to a limit of their
 * own. Counts this one if there will be another. */
static inline bool retry_after_oom(struct task_slot *t)
{
    if (t->max_retries == 0 || t->flags >> TASK_OOM_SHIFT == TASK_OOM_MAX)
        return false;
    t->flags = (uint16_t)(t->flags + (1u << TASK_OOM_SHIFT));
    return true;
}

/* -1: any number. */
static inline int32_t retry_most_attempts(const struct task_slot *t)
{
    return t->max_retries < 0 ? -1 : 1 + t->max_retries + (t->flags >> TASK_OOM_SHIFT);
}

#endif
