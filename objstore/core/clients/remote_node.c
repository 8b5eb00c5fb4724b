#include "clients/remote_node.h"

#include <string.h>

#include "clients/client.h"
#include "clients/route.h"
#include "memory/event.h"

enum { N_LOOKED_THROUGH = 64, N_LOOKED_INTO = 256, N_WEIGHED = 1024 };

int remote_attach(struct segment *remote, const struct segment *agent, uint32_t node)
{
    *remote = *agent;
    remote->fd = -1;
    remote->me = UINT32_MAX;
    memset(remote->pending_wakes, 0, sizeof remote->pending_wakes);
    remote->pending_attention = remote->events_written = false;
    int error = client_attach(remote, ROLE_REMOTE_NODE);
    if (!error) { /* no other process knows it yet */
        atomic_store_explicit(&remote->clients[remote->me].inbox_of_1, agent->me + 1, memory_order_relaxed);
        remote->clients[remote->me].node = node;
    }
    return error;
}

int remote_create_object(struct segment *s, uint32_t *object)
{
    return object_create(s, s->me, remote_as_creator(s, s->me), object);
}

bool remote_suits_object(const struct segment *s, uint32_t object)
{
    const struct object_slot *o = object_at(s, object);
    bool large_actor =
        object_state(o) == OBJECT_READY && object_chunk(o) && o->u.arena.actor_1 && o->size > REMOTE_MOST_ACTOR;
    return !object_is_stream(o) && !object_is_shared(o) && !large_actor;
}

/* A shared object that is this one, or in it; UINT32_MAX: none. Deeper inside, the reader on the other machine gets the
 * error. */
static uint32_t shared_within(struct segment *s, uint32_t object)
{
    const struct object_slot *o = object_at(s, object);
    if (object_is_shared(o))
        return object;
    uint32_t n = object_is_stream(o) ? 0 : object_n_refs(s, o);
    if (n && !segment_holds(s, object_chunk(o), o->size + 3 + (uint64_t)n * 4)) {
        segment_condemn(s);
        return UINT32_MAX;
    }
    for (uint32_t k = 0; k < n && k < N_LOOKED_INTO; k++) {
        uint32_t inner = object_refs_at(s, object_chunk(o), o->size)[k];
        if (object_is_shared(object_at(s, inner)))
            return inner;
    }
    return UINT32_MAX;
}

uint32_t remote_shared_of(struct segment *s, uint32_t task)
{
    const struct task_slot *t = task_at(s, task);
    const uint32_t *refs = task_refs(s, task_at(s, task));
    uint32_t found = shared_within(s, t->function);
    for (uint32_t i = 0; found == UINT32_MAX && i < t->n_refs; i++)
        found = shared_within(s, refs[i]);
    return found;
}

bool remote_suits(struct segment *s, uint32_t task)
{
    struct task_slot *t = task_at(s, task);
    const struct resource_class *c = class_at(s, t->resource_class);
    if (t->flags & TASK_FLAG_STAYS || (c->env && !(c->env & ENV_TRAVELS)) || c->place.route == ROUTE_HERE ||
        c->place.route & ROUTE_PLACED)
        return false;
    if (t->actor_1 &&
        (!actor_at(s, t->actor_1 - 1)->object_1 || !remote_suits_object(s, actor_at(s, t->actor_1 - 1)->object_1 - 1)))
        return false;
    const uint32_t *refs = task_refs(s, t);
    uint32_t n_own = !!(t->flags & TASK_FLAG_STREAM); /* its own stream stays */
    for (uint32_t i = 0; i + n_own < t->n_refs; i++)
        if (!remote_suits_object(s, refs[i]))
            return false;
    return remote_shared_of(s, task) == UINT32_MAX;
}

/* The first suitable task of a lane, + 1. Most tasks of a lane are of one function, so the search is short. */
static uint32_t first_that_suits(struct segment *s, const struct lane *l)
{
    uint32_t at_1 = l->head_1;
    for (uint32_t i = 0; at_1 && i < N_LOOKED_THROUGH && !remote_suits(s, at_1 - 1); i++)
        at_1 = task_at(s, at_1 - 1)->next_1;
    return at_1 && remote_suits(s, at_1 - 1) ? at_1 : 0;
}

/* First tasks whose arguments are there, then those that have little to transfer. */
static uint32_t take_by_place(struct segment *s, const struct resource_class *c, uint32_t most, uint32_t *tasks)
{
    uint32_t n = 0;
    for (int rank = 0; rank < 2; rank++)
        for (const struct lane *l = c->lanes; l < c->lanes + N_LANES + N_DEPTHS; l++)
            for (uint32_t at_1 = l->head_1, next_1, i = 0; at_1 && n < most && i < N_WEIGHED && gate_is_open(s, c);
                 at_1 = next_1, i++) {
                uint64_t there, others = route_bytes(s, at_1 - 1, s->me, &there);
                next_1 = task_at(s, at_1 - 1)->next_1;
                if ((rank ? !others : there > 0) && remote_suits(s, at_1 - 1)) {
                    tasks[n++] = at_1 - 1;
                    task_send(s, at_1 - 1, 0);
                }
            }
    return n;
}

uint32_t remote_take(struct segment *s, uint32_t class, uint32_t most, bool by_place, uint32_t *tasks)
{
    struct resource_class *c = class_at(s, class);
    uint32_t n = by_place && !c->place.pool ? take_by_place(s, c, most, tasks) : 0;
    while (n < most && gate_is_open(s, c)) {
        struct lane *best = NULL;
        uint32_t task_1 = 0;
        for (struct lane *l = c->lanes; l < c->lanes + N_LANES + N_DEPTHS; l++) {
            uint32_t first_1 = !best || l->turn < best->turn ? first_that_suits(s, l) : 0;
            if (first_1) {
                best = l;
                task_1 = first_1;
            }
        }
        uint32_t pool = best && c->place.pool ? resource_room_on(s, c, s->me + 1) : 0;
        if (!best || pool == UINT32_MAX)
            break;
        task_serve_lane(s->h, best);
        task_send(s, task_1 - 1, pool);
        tasks[n++] = task_1 - 1;
    }
    return n;
}

int remote_host(struct segment *s, const struct actor_spec *spec, uint32_t object, struct task_spec *constructor,
                uint32_t *results, uint32_t *task)
{
    uint32_t actor;
    int error = actor_create(s, spec, object, &actor);
    if (error)
        return error;
    constructor->actor_1 = actor + 1;
    constructor->flags |= TASK_FLAG_ACTOR_CREATION;
    if (spec->flags & ACTOR_FLAG_HOSTED || constructor->flags & TASK_FLAG_HIDDEN)
        constructor->flags |= TASK_FLAG_STAYS;
    error = task_submit(s, constructor, results, task);
    if (error)
        actor_discard(s, actor);
    else
        actor_constructed_by(s, actor, *task);
    return error;
}

int remote_stand_in(struct segment *s, const struct actor_spec *spec, uint32_t object, uint32_t function,
                    uint32_t resource_class)
{
    struct task_spec constructor = {.function = function, .resource_class = resource_class, .flags = TASK_FLAG_HIDDEN};
    uint32_t task;
    int error = remote_host(s, spec, object, &constructor, NULL, &task);
    if (error)
        return error;
    task_send(s, task, 0);
    actor_bind(s, task_at(s, task)->actor_1 - 1, task);
    return OBJSTORE_OK;
}

uint32_t remote_take_calls(struct segment *s, uint32_t actor, uint32_t most, uint32_t *tasks)
{
    uint32_t n = 0;
    while (n < most && (tasks[n] = task_pop_call(s, actor)) != UINT32_MAX)
        task_at(s, tasks[n++])->begun = 0;
    return n;
}

void remote_give_back(struct segment *s, uint32_t task)
{
    task_retry_at_once(s, task);
    STEP();
    task_at(s, task)->attempt--; /* undoes the count of the retry */
}

void remote_record_run(struct segment *s, uint32_t task, uint32_t pid, uint64_t began, uint64_t ended)
{
    const struct task_slot *t = task_at(s, task);
    uint16_t shift = 0;
    if (t->flags & TASK_FLAG_HIDDEN)
        return;
    while (began >> shift >= EVENT_RUNS_ON || (ended != REMOTE_RUNS_ON && ended >> shift >= EVENT_RUNS_ON))
        shift++;
    event_write(s, EVENT_RAN, t->seq, pid, (uint32_t)(began >> shift),
                ended == REMOTE_RUNS_ON ? EVENT_RUNS_ON : (uint32_t)(ended >> shift), shift, s->me);
}

static void record_transfer(struct segment *s, enum event_kind kind, uint32_t object, uint32_t a, uint64_t b,
                            uint32_t number, bool comes)
{
    event_write(s, kind, object_at(s, object)->creator, a, (uint32_t)b, number << 1 | comes, (uint16_t)(b >> 32),
                s->me);
}

void remote_record_transfer(struct segment *s, uint32_t object, uint64_t size, uint32_t number, bool comes)
{
    record_transfer(s, EVENT_TRANSFER, object, s->clients[s->me].node, size, number, comes);
}

void remote_record_transferred(struct segment *s, uint32_t object, uint32_t number, bool comes, bool complete)
{
    record_transfer(s, EVENT_TRANSFERRED, object, s->clients[s->me].node, complete, number, comes);
}

bool remote_holds_alone(const struct segment *s, uint32_t object)
{
    const struct object_slot *o = object_at(s, object);
    uint64_t others = 0;
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        others |= atomic_load(&o->holders[w]) & ~(w == s->me / 64 ? UINT64_C(1) << (s->me % 64) : 0);
    return !o->pins && !others;
}

bool remote_is_wanted(const struct segment *s, uint32_t object)
{
    uint64_t any = 0;
    if (!object_is_remote(object_at(s, object)))
        return false;
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        any |= atomic_load(&readers_at(s, object)->clients[w]);
    return any != 0;
}
