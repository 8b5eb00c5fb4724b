/* Whether the segment may be followed at all. A stray write of any process attached (an array written out of bounds, ctypes)
 * may have changed any byte; so before death is dealt with, every index and offset that is authoritative is held against
 * its table. What is derived may be wrong afterwards, but recover() can build it again. */
#include "recover.h"

#include <string.h>

#include "resource.h"
#include "stream.h"

struct verifier { struct segment *s; const char *wrong; uint64_t at; };

static bool fail(struct verifier *v, const char *what, uint64_t at)
{
    v->wrong = what;
    v->at = at;
    return false;
}

/* Where a process died, a slot may be free already that something still refers to: recovery sees to it. */
static bool is_slot(const struct segment *s, uint32_t object) { return object < s->h->touched_objects; }

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
        return fail(v, "the header's pools", 0);
    for (uint32_t p = 0; p < MAX_POOLS; p++) /* also those that are free: classes name them */
        if (h->pools[p].head > p)
            return fail(v, "the head of pool", p);
    for (uint32_t p = 0; p < h->touched_pools; p += head->state == POOL_FREE ? 1 : head->n) {
        head = &h->pools[p];
        if (head->state > POOL_DROPPED)
            return fail(v, "the state of pool", p);
        if (head->state == POOL_FREE)
            continue;
        if (head->head != p || !head->n || p + head->n > h->touched_pools || head->owner_1 > MAX_CLIENTS || head->mode > PLACEMENT_STRICT_SPREAD ||
            (p && (!head->object_1 || !is_slot(v->s, head->object_1 - 1))))
            return fail(v, "the fields of pool", p);
        for (uint32_t i = 0; i < head->n; i++) {
            if (head[i].head != p)
                return fail(v, "the head of pool", p + i);
            if (head[i].client_1 > MAX_CLIENTS && head[i].client_1 < POOL_COMING)
                return fail(v, "the machine of pool", p + i);
            for (uint32_t k = 0; k < MAX_KINDS; k++)
                if (!is_amount(head[i].total[k]))
                    return fail(v, "the amounts of pool", p + i);
        }
    }
    return true;
}

static bool header_is_sound(struct verifier *v)
{
    const struct header *h = v->s->h;
    if (!segment_matches(v->s))
        return fail(v, "the header's sizes", 0);
    if (h->touched_objects > h->n_objects || h->touched_tasks > h->n_tasks || h->touched_actors > h->n_actors)
        return fail(v, "the header's counts of slots", 0);
    if (h->n_kinds > MAX_KINDS || h->n_classes > MAX_CLASSES || h->scheduler_1 > MAX_CLIENTS || h->waking_1 > MAX_CLIENTS ||
        h->agent_1 > MAX_CLIENTS || (h->director_1 > MAX_CLIENTS && h->director_1 < NO_DIRECTOR_YET))
        return fail(v, "the header's numbers", 0);
    for (uint32_t k = 0; k < h->n_kinds; k++)
        if (!memchr(h->kind_names[k], 0, KIND_NAME_SIZE))
            return fail(v, "the name of a resource", k);
    if (!memchr(h->away_folder, 0, AWAY_FOLDER_SIZE))
        return fail(v, "the folder of objects on disk", 0);
    if (!pools_are_safe(v))
        return false;
    for (uint32_t c = 0; c < h->n_classes; c++) {
        if (!resource_is_used(v->s, c))
            continue;
        const struct place *place = &v->s->classes[c].place;
        if (!place->n_pools || place->pool + (uint32_t)place->n_pools > MAX_POOLS)
            return fail(v, "the place of resource class", c);
        if (place->route > (ROUTE_PLACED | ROUTE_WAITS) || place->route == ROUTE_PLACED || place->route == (ROUTE_PLACED | ROUTE_HERE) ||
            !memchr(place->strategy, 0, STRATEGY_SIZE))
            return fail(v, "the route of resource class", c);
        for (uint32_t k = 0; k < MAX_KINDS; k++)
            if (!is_amount(v->s->classes[c].demand[k]) || !is_amount(v->s->classes[c].hold[k]))
                return fail(v, "the amounts of resource class", c);
    }
    return true;
}

static bool object_is_safe(struct verifier *v, uint32_t i)
{
    struct segment *s = v->s;
    const struct object_slot *o = &s->objects[i];
    uint32_t state = object_state(o);
    if (state > OBJECT_FAILED)
        return fail(v, "the state of object", i);
    if (state == OBJECT_FREE || state == OBJECT_PENDING || state == OBJECT_FAILED)
        return true;
    uint64_t chunk = object_chunk(o);
    if (object_is_away(o))
        return (state == OBJECT_READY && o->size <= ARENA_MAX_SIZE && !o->u.arena.n_refs && !o->u.arena.actor_1) ||
               fail(v, "the fields of an object that is away", i);
    if (!chunk)
        return o->size <= OBJECT_INLINE_SIZE || fail(v, "the size of object", i);
    if (o->size > ARENA_MAX_SIZE || !arena_holds(&s->h->arena, s->base, chunk, o->size))
        return fail(v, "the place of object", i);
    bool is_stream = o->u.arena.n_refs == REFS_OF_STREAM;
    if (is_stream && (o->size != sizeof(struct stream) || stream_at(s, chunk)->capacity < stream_at(s, chunk)->n))
        return fail(v, "the stream in object", i);
    uint64_t n_refs = object_n_refs(s, o), most = is_stream ? stream_at(s, chunk)->capacity : n_refs;
    if (!arena_holds(&s->h->arena, s->base, chunk, ((o->size + 3) & ~UINT64_C(3)) + most * 4))
        return fail(v, "the number of references of object", i);
    if (is_stream && (stream_at(s, chunk)->waiting_1 > MAX_CLIENTS || stream_at(s, chunk)->next < stream_at(s, chunk)->first))
        return fail(v, "the stream in object", i);
    if (!is_stream && o->u.arena.actor_1 > s->h->touched_actors)
        return fail(v, "the actor of object", i);
    for (uint64_t k = 0; k < n_refs; k++)
        if (!is_slot(s, object_refs_at(s, chunk, o->size)[k]))
            return fail(v, "a reference of object", i);
    return true;
}

static bool task_is_safe(struct verifier *v, uint32_t i)
{
    struct segment *s = v->s;
    struct task_slot *t = &s->tasks[i];
    uint32_t state = atomic_load(&t->state);
    if (state == TASK_FREE)
        return true;
    if (state > TASK_HELD)
        return fail(v, "the state of task", i);
    uint64_t n_more = t->n_returns > 1 ? t->n_returns - 1u : 0, bytes = ((uint64_t)t->n_refs + n_more) * 4 + t->arguments_size;
    if (t->offset ? !arena_holds(&s->h->arena, s->base, t->offset, bytes) : bytes > TASK_INLINE_SIZE)
        return fail(v, "the arguments of task", i);
    bool streams = t->flags & TASK_FLAG_STREAM, creates = t->flags & TASK_FLAG_ACTOR_CREATION;
    if (t->n_dependencies > t->n_refs || t->cursor > t->n_dependencies || !resource_is_used(s, t->resource_class) ||
        (t->worker >= MAX_CLIENTS && (t->worker != UINT16_MAX || state == TASK_RUNNING || state == TASK_HELD)) ||
        t->caller > MAX_CLIENTS || (streams && !t->n_refs) || (t->n_returns && !t->result_1) || !is_slot(s, t->function))
        return fail(v, "the fields of task", i);
    for (uint32_t k = 0; k < t->n_refs; k++)
        if (!is_slot(s, task_refs(s, t)[k]))
            return fail(v, "a reference of task", i);
    for (uint32_t k = 0; k < t->n_returns; k++)
        if (!is_slot(s, task_result(s, t, k)))
            return fail(v, "a result of task", i);
    if (t->actor_1 && !creates && t->group >= MAX_GROUPS)
        return fail(v, "the group of task", i);
    if (streams && !object_is_stream(&s->objects[task_refs(s, t)[t->n_refs - 1]]))
        return fail(v, "the stream of task", i);
    if (t->actor_1 > s->h->touched_actors || (creates && !t->actor_1) || (state == TASK_HELD && !creates))
        return fail(v, "the actor of task", i);
    const struct actor_slot *a = t->actor_1 ? &s->actors[t->actor_1 - 1] : NULL;
    return !a || atomic_load(&a->state) != ACTOR_FREE || fail(v, "the actor of task", i);
}

static bool actor_is_safe(struct verifier *v, uint32_t i)
{
    const struct segment *s = v->s;
    const struct actor_slot *a = &s->actors[i];
    if (atomic_load(&a->state) == ACTOR_FREE)
        return true;
    if (atomic_load(&a->state) > ACTOR_DEAD || a->worker_1 > MAX_CLIENTS || a->task_1 > s->h->touched_tasks ||
        (a->object_1 && !is_slot(s, a->object_1 - 1)) || (a->death_object_1 && !is_slot(s, a->death_object_1 - 1)) ||
        (a->checkpoint_1 && !is_slot(s, a->checkpoint_1 - 1)))
        return fail(v, "the fields of actor", i);
    return true;
}

static bool client_is_safe(struct verifier *v, uint32_t i)
{
    const struct client_slot *c = &v->s->clients[i];
    if (atomic_load(&c->state) == CLIENT_FREE)
        return true;
    if (atomic_load(&c->state) > CLIENT_DYING || c->role > ROLE_PROXY || c->actor_1 > v->s->h->touched_actors)
        return fail(v, "the fields of client", i);
    return true;
}

bool header_is_safe(struct segment *s)
{
    struct verifier v = {s, NULL, 0};
    return header_is_sound(&v);
}

bool slot_is_safe(struct segment *s, enum slot_kind kind, uint32_t i)
{
    static bool (*const is_safe[])(struct verifier *, uint32_t) = {object_is_safe, task_is_safe, actor_is_safe};
    const uint32_t n[] = {s->n_objects, s->n_tasks, s->n_actors};
    struct verifier v = {s, NULL, 0};
    segment_arena(s);
    return i < n[kind] && is_safe[kind](&v, i);
}

static void survey_object(struct verifier *v, struct survey *survey, uint32_t i)
{
    struct segment *s = v->s;
    const struct object_slot *o = &s->objects[i];
    uint32_t state = object_state(o);
    if (state != OBJECT_READY && state != OBJECT_ERROR)
        return;
    uint64_t chunk = object_chunk(o);
    survey->away |= object_is_away(o);
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
        safe = actor_is_safe(v, i);
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
        safe = object_is_safe(v, i);
        if (safe && survey)
            survey_object(v, survey, i);
    }
    safe = safe && verify_small_tables(v);
    for (uint32_t i = 0; safe && i < s->h->touched_tasks; i++) {
        const struct task_slot *t = &s->tasks[i];
        fetch_slot(t + FETCH_AHEAD);
        safe = task_is_safe(v, i);
        if (safe && survey)
            survey->unclaimed |= atomic_load(&t->state) != TASK_FREE && t->offset && !arena_owner_is(s->base, t->offset, ARENA_TASK, i);
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
                (arena_walk(&s->h->arena, s->base, look_at_nothing, NULL) == OBJSTORE_OK || fail(&v, "the arena's chunks", 0));
    *wrong = v.wrong;
    *at = v.at;
    return safe;
}
