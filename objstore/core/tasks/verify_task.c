#include "tasks/verify_task.h"

#include "tasks/resource.h"
#include "tasks/task.h"

bool verify_task(struct verifier *v, uint32_t i)
{
    struct segment *s = v->s;
    struct task_slot *t = &s->tasks[i];
    uint32_t state = atomic_load(&t->state);
    if (state == TASK_FREE)
        return true;
    if (state > TASK_DELAYED)
        return verify_failed(v, "the state of task", i);
    uint64_t n_more = t->n_returns > 1 ? t->n_returns - 1u : 0,
             bytes = ((uint64_t)t->n_refs + n_more) * 4 + t->arguments_size;
    if (t->offset ? !arena_holds(&s->h->arena, s->base, t->offset, bytes) : bytes > TASK_INLINE_SIZE)
        return verify_failed(v, "the arguments of task", i);
    bool streams = t->flags & TASK_FLAG_STREAM, creates = t->flags & TASK_FLAG_ACTOR_CREATION;
    if (t->n_dependencies > t->n_refs || t->cursor > t->n_dependencies || !resource_is_used(s, t->resource_class) ||
        (t->worker >= MAX_CLIENTS && (t->worker != UINT16_MAX || state == TASK_RUNNING || state == TASK_HELD)) ||
        t->caller > MAX_CLIENTS || t->depth > N_DEPTHS || (streams && !t->n_refs) ||
        (state == TASK_DELAYED && !(t->flags & TASK_FLAG_TIMED)) || (t->n_returns && !t->result_1) ||
        !verify_is_object(s, t->function))
        return verify_failed(v, "the fields of task", i);
    for (uint32_t k = 0; k < t->n_refs; k++)
        if (!verify_is_object(s, task_refs(s, t)[k]))
            return verify_failed(v, "a reference of task", i);
    for (uint32_t k = 0; k < t->n_returns; k++)
        if (!verify_is_object(s, task_result(s, t, k)))
            return verify_failed(v, "a result of task", i);
    if (t->actor_1 && !creates && t->group >= MAX_GROUPS)
        return verify_failed(v, "the group of task", i);
    if (streams && !object_is_stream(&s->objects[task_refs(s, t)[t->n_refs - 1]]))
        return verify_failed(v, "the stream of task", i);
    if (t->actor_1 > s->h->touched_actors || (creates && !t->actor_1) || (state == TASK_HELD && !creates))
        return verify_failed(v, "the actor of task", i);
    const struct actor_slot *a = t->actor_1 ? &s->actors[t->actor_1 - 1] : NULL;
    return !a || atomic_load(&a->state) != ACTOR_FREE || verify_failed(v, "the actor of task", i);
}

bool verify_actor(struct verifier *v, uint32_t i)
{
    const struct segment *s = v->s;
    const struct actor_slot *a = &s->actors[i];
    if (atomic_load(&a->state) == ACTOR_FREE)
        return true;
    if (atomic_load(&a->state) > ACTOR_DEAD || a->worker_1 > MAX_CLIENTS || a->task_1 > s->h->touched_tasks ||
        (a->object_1 && !verify_is_object(s, a->object_1 - 1)) ||
        (a->death_object_1 && !verify_is_object(s, a->death_object_1 - 1)) ||
        (a->checkpoint_1 && !verify_is_object(s, a->checkpoint_1 - 1)))
        return verify_failed(v, "the fields of actor", i);
    return true;
}

bool task_is_safe(struct segment *s, uint32_t i)
{
    struct verifier v = {s, NULL, 0};
    segment_arena(s);
    return i < s->n_tasks && verify_task(&v, i);
}

bool actor_is_safe(struct segment *s, uint32_t i)
{
    struct verifier v = {s, NULL, 0};
    segment_arena(s);
    return i < s->n_actors && verify_actor(&v, i);
}
