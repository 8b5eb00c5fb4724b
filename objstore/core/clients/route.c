#include "clients/route.h"

#include <string.h>

#include "objects/offload.h"
#include "tasks/actor.h"

void route_direct(struct segment *s, enum route_directs how)
{
    struct header *h = s->h;
    h->director_1 = how == ROUTE_DIRECTED ? s->me + 1 : how == ROUTE_NEVER ? NO_DIRECTOR : NO_DIRECTOR_YET;
    STEP();
    if (h->n_ready)
        request_attention(s);
    task_wake_workers(s);
}

/* The next task of a lane, from `at_1` on, + 1. */
static uint32_t next_to_route(struct segment *s, uint32_t at_1, bool staying)
{
    uint32_t walked = 0;
    while (at_1 && staying && remote_suits(s, at_1 - 1) && !walk_is_over(s, &walked, s->n_tasks))
        at_1 = task_at(s, at_1 - 1)->next_1;
    return at_1;
}

uint32_t route_place(struct segment *s, uint32_t class, uint32_t most, bool staying, uint32_t *tasks)
{
    const struct resource_class *c = class_at(s, class);
    struct place place = c->place;
    uint32_t placed, n = 0;
    place.route = (uint16_t)(place.route | ROUTE_PLACED);
    if (resource_class_at(s, class, place, &placed))
        return UINT32_MAX;
    for (const struct lane *l = c->lanes; l < c->lanes + N_LANES + N_DEPTHS; l++)
        for (uint32_t at_1 = next_to_route(s, l->head_1, staying), next_1; at_1 && n < most; at_1 = next_1) {
            next_1 = next_to_route(s, task_at(s, at_1 - 1)->next_1, staying);
            tasks[n++] = at_1 - 1;
            task_reclass(s, at_1 - 1, placed);
        }
    return n;
}

bool route_recall(struct segment *s, uint32_t task)
{
    struct task_slot *t = task_at(s, task);
    struct place place = class_at(s, t->resource_class)->place;
    uint32_t routed;
    if (!(place.route & ROUTE_PLACED) || atomic_load_explicit(&t->state, memory_order_relaxed) != TASK_READY)
        return false;
    place.route = (uint16_t)(place.route & ~ROUTE_PLACED);
    if (resource_class_at(s, t->resource_class, place, &routed))
        return false;
    task_reclass(s, task, routed);
    return true;
}

static void fail_one(struct segment *s, uint32_t task)
{
    struct task_slot *t = task_at(s, task);
    uint32_t shared = remote_shared_of(s, task);
    struct actor_slot *a = t->actor_1 ? actor_at(s, t->actor_1 - 1) : NULL;
    if (shared != UINT32_MAX)
        task_seal_failed(s, task, FAILURE_SHARED_STAYS, (int32_t)shared);
    else if (!a)
        task_seal_failed(s, task, FAILURE_UNROUTED, (int32_t)resource_number(s, t->resource_class));
    if (!a) {
        task_discard(s, task);
        return;
    }
    if (shared != UINT32_MAX && !a->death_object_1) { /* what its calls raise */
        object_pin(s, t->result_1 - 1);
        a->death_object_1 = t->result_1;
    }
    actor_kill(s, t->actor_1 - 1, true);
}

uint32_t route_fail(struct segment *s, uint32_t class, bool staying)
{
    const struct resource_class *c = class_at(s, class);
    uint32_t n = 0, walked = 0;
    for (const struct lane *l = c->lanes; l < c->lanes + N_LANES + N_DEPTHS; l++)
        for (uint32_t at_1; (at_1 = next_to_route(s, l->head_1, staying)) && !walk_is_over(s, &walked, s->n_tasks); n++)
            fail_one(s, at_1 - 1);
    return n;
}

/* Whether this machine has, or may come to have, what a task of the class asks for. */
static bool may_run_here(const struct segment *s, uint32_t class)
{
    const struct place place = class_at(s, class)->place;
    if (!place.pool || pool_at(s, pool_at(s, place.pool)->head)->state != POOL_RESERVED)
        return resource_feasible(s, class);
    for (uint32_t p = place.pool; p < place.pool + (uint32_t)place.n_pools; p++)
        if (pool_at(s, p)->client_1 == POOL_HERE)
            return resource_feasible(s, class);
    return false;
}

uint32_t route_fail_shared(struct segment *s, uint32_t class)
{
    const struct resource_class *c = class_at(s, class);
    uint32_t n = 0, walked = 0;
    if (resource_is_routed(s, class_at(s, class)) || may_run_here(s, class))
        return 0;
    for (const struct lane *l = c->lanes; l < c->lanes + N_LANES + N_DEPTHS; l++)
        for (uint32_t at_1 = l->head_1, next_1; at_1 && !walk_is_over(s, &walked, s->n_tasks); at_1 = next_1) {
            next_1 = task_at(s, at_1 - 1)->next_1;
            if (remote_shared_of(s, at_1 - 1) != UINT32_MAX) {
                fail_one(s, at_1 - 1);
                n++;
            }
        }
    return n;
}

uint64_t route_bytes(struct segment *s, uint32_t task, uint32_t client, uint64_t *there)
{
    struct task_slot *t = task_at(s, task);
    const uint32_t *refs = task_refs(s, t);
    uint64_t others = 0;
    *there = 0;
    for (uint32_t i = 0; i < t->n_refs; i++) {
        const struct object_slot *o = object_at(s, refs[i]);
        if (object_state(o) != OBJECT_READY || o->size < OBJECT_MOVABLE)
            continue;
        uint32_t where = object_is_remote(o) ? offload_remote_of(s, o) : UINT32_MAX;
        *(where == client ? there : &others) += o->size;
    }
    return others;
}
