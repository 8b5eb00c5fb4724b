#include "proxy.h"

#include <string.h>

#include "client.h"

enum { N_LOOKED_THROUGH = 64 };

int proxy_attach(struct segment *proxy, const struct segment *agent)
{
    *proxy = *agent;
    proxy->fd = -1;
    proxy->me = UINT32_MAX;
    memset(proxy->pending_wakes, 0, sizeof proxy->pending_wakes);
    proxy->pending_attention = proxy->events_written = false;
    int error = client_attach(proxy, ROLE_PROXY);
    if (!error)
        proxy->clients[proxy->me].inbox_of_1 = agent->me + 1; /* nobody has heard of it yet */
    return error;
}

int proxy_create_object(struct segment *s, uint32_t *object)
{
    return object_create(s, s->me, proxy_as_creator(s, s->me), object);
}

bool proxy_suits_object(const struct segment *s, uint32_t object)
{
    const struct object_slot *o = &s->objects[object];
    return !object_is_stream(o) && !(object_state(o) == OBJECT_READY && object_chunk(o) && o->u.arena.actor_1);
}

bool proxy_suits(struct segment *s, uint32_t task)
{
    struct task_slot *t = &s->tasks[task];
    const struct resource_class *c = &s->classes[t->resource_class];
    if (t->actor_1 || t->flags & (TASK_FLAG_ENV | TASK_FLAG_STREAM | TASK_FLAG_STAYS) || c->env || c->place.pool || c->place.n_pools != 1)
        return false;
    for (uint32_t i = 0; i < t->n_refs; i++)
        if (!proxy_suits_object(s, task_refs(s, t)[i]))
            return false;
    return true;
}

/* The first task of a lane that suits, + 1. They are those of one function, mostly, so there is not much to look through. */
static uint32_t first_that_suits(struct segment *s, const struct lane *l)
{
    uint32_t at_1 = l->head_1;
    for (uint32_t i = 0; at_1 && i < N_LOOKED_THROUGH && !proxy_suits(s, at_1 - 1); i++)
        at_1 = s->tasks[at_1 - 1].next_1;
    return at_1 && proxy_suits(s, at_1 - 1) ? at_1 : 0;
}

uint32_t proxy_take(struct segment *s, uint32_t class, uint32_t most, uint32_t *tasks)
{
    struct resource_class *c = &s->classes[class];
    uint32_t n = 0;
    while (n < most) {
        struct lane *best = NULL;
        uint32_t task_1 = 0;
        for (struct lane *l = c->lanes; l < c->lanes + N_LANES; l++) {
            uint32_t first_1 = !best || l->turn < best->turn ? first_that_suits(s, l) : 0;
            if (first_1) {
                best = l;
                task_1 = first_1;
            }
        }
        if (!best)
            break;
        s->h->turn = best->turn++;
        task_send(s, task_1 - 1);
        tasks[n++] = task_1 - 1;
    }
    return n;
}

void proxy_give_back(struct segment *s, uint32_t task)
{
    task_retry(s, task);
    STEP();
    s->tasks[task].attempt--; /* which the retry has counted */
}

bool proxy_holds_alone(const struct segment *s, uint32_t object)
{
    const struct object_slot *o = &s->objects[object];
    uint64_t others = 0;
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        others |= atomic_load(&o->holders[w]) & ~(w == s->me / 64 ? UINT64_C(1) << (s->me % 64) : 0);
    return !o->pins && !others;
}

bool proxy_is_wanted(const struct segment *s, uint32_t object)
{
    uint64_t any = 0;
    if (!object_is_elsewhere(&s->objects[object]))
        return false;
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        any |= atomic_load(&s->readers[object].clients[w]);
    return any != 0;
}
