/* Whether the indices and offsets in the segment may be followed. A stray write of any attached process (an array
 * written out of bounds, ctypes) may have changed any byte. So before a death is handled, every authoritative index and
 * offset is checked against its table. What is derived may still be wrong afterwards, but recover() can rebuild it. */
#include "recovery/verify.h"

#include <string.h>

#include "memory/verifier.h"
#include "objects/object.h"
#include "objects/verify_object.h"
#include "tasks/resource.h"
#include "tasks/verify_task.h"

static bool is_amount(int64_t n) { return n >= 0 && n <= INT64_C(1) << 60; }

static int look_at_nothing(void *context, uint32_t kind, uint32_t owner, uint64_t payload, uint64_t size)
{
    (void)context, (void)kind, (void)owner, (void)payload, (void)size;
    return 0;
}

static bool pools_are_safe(struct verifier *v)
{
    const struct header *h = v->s->h;
    const struct pool *head;
    if (!h->touched_pools || h->touched_pools > MAX_POOLS || h->pools[0].state != POOL_RESERVED || h->pools[0].n != 1)
        return verify_failed(v, "the header's pools", 0);
    for (uint32_t p = 0; p < MAX_POOLS; p++) /* also of free pools, since classes name them */
        if (h->pools[p].head > p)
            return verify_failed(v, "the head of pool", p);
    for (uint32_t p = 0; p < h->touched_pools; p += head->state == POOL_FREE ? 1 : head->n) {
        head = &h->pools[p];
        if (head->state > POOL_DROPPED)
            return verify_failed(v, "the state of pool", p);
        if (head->state == POOL_FREE)
            continue;
        if (head->head != p || !head->n || p + head->n > h->touched_pools || head->owner_1 > MAX_CLIENTS ||
            head->mode > PLACEMENT_STRICT_SPREAD ||
            (p && (!head->object_1 || !verify_is_object(v->s, head->object_1 - 1))))
            return verify_failed(v, "the fields of pool", p);
        for (uint32_t i = 0; i < head->n; i++) {
            if (head[i].head != p)
                return verify_failed(v, "the head of pool", p + i);
            if (head[i].client_1 > MAX_CLIENTS && head[i].client_1 < POOL_COMING)
                return verify_failed(v, "the machine of pool", p + i);
            for (uint32_t k = 0; k < MAX_KINDS; k++)
                if (!is_amount(head[i].total[k]))
                    return verify_failed(v, "the amounts of pool", p + i);
        }
    }
    return true;
}

static bool header_is_sound(struct verifier *v)
{
    const struct header *h = v->s->h;
    if (!segment_matches(v->s))
        return verify_failed(v, "the header's sizes", 0);
    if (h->touched_objects > h->n_objects || h->touched_tasks > h->n_tasks || h->touched_actors > h->n_actors)
        return verify_failed(v, "the header's counts of slots", 0);
    if (h->n_kinds > MAX_KINDS || h->n_classes > MAX_CLASSES || h->n_gates > MAX_CLASSES ||
        h->scheduler_1 > MAX_CLIENTS || h->waking_1 > MAX_CLIENTS || h->agent_1 > MAX_CLIENTS ||
        (h->director_1 > MAX_CLIENTS && h->director_1 < NO_DIRECTOR_YET))
        return verify_failed(v, "the header's numbers", 0);
    if (h->reserved.class_1 > h->n_classes || h->reserved.pool >= MAX_POOLS)
        return verify_failed(v, "the header's reservation", 0);
    for (uint32_t k = 0; k < h->n_kinds; k++)
        if (!memchr(h->kind_names[k], 0, KIND_NAME_SIZE))
            return verify_failed(v, "the name of a resource", k);
    if (!memchr(h->offload_folder, 0, OFFLOAD_FOLDER_SIZE))
        return verify_failed(v, "the folder of offloaded objects", 0);
    if (!pools_are_safe(v))
        return false;
    for (uint32_t c = 0; c < h->n_classes; c++) {
        if (!resource_is_used(v->s, c))
            continue;
        const struct place *place = &v->s->classes[c].place;
        if (!place->n_pools || place->pool + (uint32_t)place->n_pools > MAX_POOLS)
            return verify_failed(v, "the place of resource class", c);
        if (place->route > (ROUTE_PLACED | ROUTE_WAITS) || place->route == ROUTE_PLACED ||
            place->route == (ROUTE_PLACED | ROUTE_HERE) || !memchr(place->strategy, 0, STRATEGY_SIZE))
            return verify_failed(v, "the route of resource class", c);
        if (!gate_is_that_of(v->s, &v->s->classes[c]))
            return verify_failed(v, "the gate of resource class", c);
        for (uint32_t k = 0; k < MAX_KINDS; k++)
            if (!is_amount(v->s->classes[c].demand[k]) || !is_amount(v->s->classes[c].hold[k]))
                return verify_failed(v, "the amounts of resource class", c);
    }
    return true;
}

static bool client_is_safe(struct verifier *v, uint32_t i)
{
    const struct client_slot *c = &v->s->clients[i];
    if (atomic_load(&c->state) == CLIENT_FREE)
        return true;
    if (atomic_load(&c->state) > CLIENT_DYING || c->role > ROLE_REMOTE_NODE || c->actor_1 > v->s->h->touched_actors)
        return verify_failed(v, "the fields of client", i);
    return true;
}

bool header_is_safe(struct segment *s)
{
    struct verifier v = {s, NULL, 0};
    return header_is_sound(&v);
}

static void survey_object(struct verifier *v, struct survey *survey, uint32_t i)
{
    struct segment *s = v->s;
    const struct object_slot *o = &s->objects[i];
    uint32_t state = object_state(o);
    if (state != OBJECT_READY && state != OBJECT_ERROR)
        return;
    uint64_t chunk = object_chunk(o);
    survey->absent |= object_is_absent(o);
    if (!chunk)
        return;
    survey->unclaimed |= !arena_owner_is(s->base, chunk, ARENA_OBJECT, i);
    for (uint32_t k = 0, n = object_n_refs(s, o); k < n; k++)
        survey->contained[object_refs_at(s, chunk, o->size)[k]]++;
}

static bool verify_small_tables(struct verifier *v)
{
    bool safe = true;
    for (uint32_t i = 0; safe && i < v->s->h->touched_actors; i++)
        safe = verify_actor(v, i);
    for (uint32_t i = 0; safe && i < MAX_CLIENTS; i++)
        safe = client_is_safe(v, i);
    return safe;
}

static bool verify_slots(struct verifier *v, struct survey *survey)
{
    struct segment *s = v->s;
    bool safe = true;
    for (uint32_t i = 0; safe && i < s->h->touched_objects; i++) {
        object_fetch_ahead(s, i);
        safe = verify_object(v, i);
        if (safe && survey)
            survey_object(v, survey, i);
    }
    safe = safe && verify_small_tables(v);
    for (uint32_t i = 0; safe && i < s->h->touched_tasks; i++) {
        const struct task_slot *t = &s->tasks[i];
        fetch_slot(t + FETCH_AHEAD);
        safe = verify_task(v, i);
        if (safe && survey)
            survey->unclaimed |=
                atomic_load(&t->state) != TASK_FREE && t->offset && !arena_owner_is(s->base, t->offset, ARENA_TASK, i);
    }
    return safe;
}

bool small_tables_are_safe(struct segment *s)
{
    struct verifier v = {s, NULL, 0};
    return header_is_sound(&v) && verify_small_tables(&v);
}

bool slots_are_safe(struct segment *s, struct survey *survey, const char **wrong, uint64_t *at)
{
    struct verifier v = {s, NULL, 0};
    bool safe = verify_slots(&v, survey);
    *wrong = v.wrong;
    *at = v.at;
    return safe;
}

bool segment_is_safe(struct segment *s, const char **wrong, uint64_t *at)
{
    struct verifier v = {s, NULL, 0};
    bool safe = header_is_sound(&v) && verify_slots(&v, NULL) &&
                (arena_walk(&s->h->arena, s->base, look_at_nothing, NULL) == OBJSTORE_OK ||
                 verify_failed(&v, "the arena's chunks", 0));
    *wrong = v.wrong;
    *at = v.at;
    return safe;
}
