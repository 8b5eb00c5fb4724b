#include "placement.h"

#include <string.h>

#include "actor.h"
#include "recover.h"

static void set_state(struct pool *head, uint32_t state)
{
    STEP();
    head->state = state;
    STEP();
}

/* ------------------------------------------------------------------ making and finding */

uint32_t placement_next(const struct segment *s, uint32_t pool)
{
    while (pool < s->h->touched_pools && s->h->pools[pool].state == POOL_FREE)
        pool++;
    return pool < s->h->touched_pools ? pool : MAX_POOLS;
}

int placement_find(const struct segment *s, uint32_t number, uint32_t *head)
{
    for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + s->h->pools[p].n))
        if (s->h->pools[p].number == number && placement_lives(&s->h->pools[p])) {
            *head = p;
            return OBJSTORE_OK;
        }
    return OBJSTORE_NOT_FOUND;
}

int placement_find_name(const struct segment *s, uint64_t name_hash, uint32_t *head)
{
    for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + s->h->pools[p].n))
        if (s->h->pools[p].name_hash == name_hash && placement_lives(&s->h->pools[p])) {
            *head = p;
            return OBJSTORE_OK;
        }
    return OBJSTORE_NOT_FOUND;
}

/* The first of n free pools in a row, MAX_POOLS: there are none. */
static uint32_t find_row(const struct segment *s, uint32_t n)
{
    for (uint32_t p = 1, next; p < MAX_POOLS; p = next + s->h->pools[next].n) {
        next = placement_next(s, p);
        if ((next < MAX_POOLS ? next : MAX_POOLS) - p >= n)
            return p;
        if (next == MAX_POOLS)
            break;
    }
    return MAX_POOLS;
}

int placement_create(struct segment *s, const struct placement_spec *spec, uint32_t object)
{
    struct header *h = s->h;
    uint32_t p;
    if (spec->name_hash && placement_find_name(s, spec->name_hash, &p) == OBJSTORE_OK)
        return OBJSTORE_EXISTS;
    p = find_row(s, spec->n);
    if (p == MAX_POOLS)
        return OBJSTORE_LIMIT;
    struct pool *head = &h->pools[p];
    for (uint32_t i = 0; i < spec->n; i++) {
        memset(&head[i], 0, sizeof head[i]);
        head[i].head = p;
        memcpy(head[i].total, spec->bundles[i], sizeof head[i].total);
        STEP();
    }
    head->number = spec->number;
    head->n = spec->n;
    head->object_1 = object + 1;
    head->owner_1 = spec->owner_1;
    head->apart = spec->apart;
    head->name_hash = spec->name_hash;
    if (h->touched_pools < p + spec->n)
        h->touched_pools = p + spec->n;
    set_state(head, POOL_PENDING); /* the commit */
    object_pin(s, object);
    h->n_unplaced++;
    task_wake_workers(s);
    return OBJSTORE_OK;
}

/* ------------------------------------------------------------------ reserving */

static void open_pools(struct pool *head)
{
    for (struct pool *p = head; p < head + head->n; p++) {
        int64_t share = p->total[KIND_GPU] < RESOURCE_UNIT ? p->total[KIND_GPU] : RESOURCE_UNIT;
        memcpy(p->available, p->total, sizeof p->available);
        for (uint32_t g = 0; g < MAX_GPUS; g++)
            p->gpu_free[g] = p->gpu_mask >> g & 1 ? (int32_t)share : 0;
    }
}

static void take_bundles(struct segment *s, struct pool *head)
{
    struct pool *node = &s->h->pools[0];
    uint32_t n = 0;
    if (head->apart && head->n > 1)
        return; /* there is one node */
    for (; n < head->n && resource_fits(s, node, head[n].total); n++) {
        head[n].gpu_mask = resource_acquire(s, node, head[n].total);
        STEP();
    }
    if (n < head->n) {
        while (n--)
            resource_release(s, node, head[n].total, head[n].gpu_mask);
        return;
    }
    open_pools(head);
    set_state(head, POOL_RESERVED);
    s->h->n_unplaced--;
}

void placement_grant(struct segment *s)
{
    struct pool *pools = s->h->pools, *next;
    for (uint32_t last = 0; s->h->n_unplaced; last = next->number) {
        next = NULL;
        for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + pools[p].n))
            if (pools[p].state == POOL_PENDING && pools[p].number > last && (!next || pools[p].number < next->number))
                next = &pools[p];
        if (!next)
            return;
        take_bundles(s, next);
    }
}

/* ------------------------------------------------------------------ removing */

static void free_group(struct segment *s, struct pool *head)
{
    bool reserved = placement_holds(head);
    uint32_t object = head->object_1 - 1;
    set_state(head, POOL_FREE);
    for (struct pool *p = head; reserved && p < head + head->n; p++)
        resource_release(s, &s->h->pools[0], p->total, p->gpu_mask);
    STEP();
    object_unpin(s, object);
    task_wake_workers(s);
}

/* What follows from being removed; done again whenever something of the group has ended. */
static void clear_group(struct segment *s, uint32_t head)
{
    struct pool *group = &s->h->pools[head];
    bool in_use = false;
    for (uint32_t i = 0; i < s->h->touched_tasks; i++) {
        struct task_slot *t = &s->tasks[i];
        uint32_t state = atomic_load_explicit(&t->state, memory_order_relaxed);
        if (state == TASK_FREE || state == TASK_CANCELLED || s->h->pools[s->classes[t->resource_class].place.pool].head != head)
            continue;
        if (t->flags & TASK_FLAG_ACTOR_CREATION) {
            actor_unplace(s, t->actor_1 - 1, group->number);
        } else if (state == TASK_WAITING || state == TASK_READY) {
            task_seal_failed(s, i, FAILURE_UNPLACED, (int32_t)group->number);
            task_discard(s, i);
        }
        state = atomic_load_explicit(&t->state, memory_order_relaxed);
        in_use |= state == TASK_RUNNING || state == TASK_HELD;
    }
    if (!in_use && group->state != POOL_FREE)
        free_group(s, group);
}

void placement_remove(struct segment *s, uint32_t head)
{
    struct pool *group = &s->h->pools[head];
    s->h->n_unplaced -= group->state == POOL_PENDING;
    set_state(group, group->state == POOL_PENDING ? POOL_DROPPED : POOL_REMOVED);
    clear_group(s, head);
}

void placement_doomed(struct segment *s, uint64_t clients[CLIENT_WORDS])
{
    bool any = false;
    memset(clients, 0, sizeof(uint64_t) * CLIENT_WORDS);
    for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + s->h->pools[p].n))
        any |= s->h->pools[p].state == POOL_REMOVED;
    for (uint32_t i = 0; any && i < s->h->touched_tasks; i++) {
        struct task_slot *t = &s->tasks[i];
        if (!slot_is_safe(s, SLOT_TASK, i)) {
            segment_condemn(s);
            return;
        }
        uint32_t state = atomic_load_explicit(&t->state, memory_order_relaxed);
        bool creates = t->flags & TASK_FLAG_ACTOR_CREATION;
        if ((state == TASK_HELD || (state == TASK_RUNNING && (creates || !task_is_sealed(s, t)))) && placement_head(s, t->resource_class)->state == POOL_REMOVED)
            clients[t->worker / 64] |= UINT64_C(1) << (t->worker % 64);
    }
}

void placement_owner_died(struct segment *s, uint32_t client)
{
    for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + s->h->pools[p].n))
        if (s->h->pools[p].owner_1 == client + 1 && placement_lives(&s->h->pools[p]))
            placement_remove(s, p);
}

void placement_settle(struct segment *s, uint32_t pool)
{
    uint32_t head = s->h->pools[pool].head;
    if (s->h->pools[head].state == POOL_REMOVED)
        clear_group(s, head);
}

/* ------------------------------------------------------------------ recovery */

void placement_rebuild(struct segment *s)
{
    struct pool *pools = s->h->pools;
    for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + pools[p].n)) {
        object_pin(s, pools[p].object_1 - 1);
        for (uint32_t i = 0; placement_holds(&pools[p]) && i < pools[p].n; i++)
            resource_reacquire(s, &pools[0], pools[p + i].total, pools[p + i].gpu_mask);
        open_pools(&pools[p]);
        if (s->h->n_placements < pools[p].number)
            s->h->n_placements = pools[p].number;
    }
    s->h->n_unplaced = 0; /* none is reserved before all that is held is known */
}

void placement_resume(struct segment *s)
{
    for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + s->h->pools[p].n))
        s->h->n_unplaced += s->h->pools[p].state == POOL_PENDING;
    for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + s->h->pools[p].n))
        if (!placement_lives(&s->h->pools[p]))
            clear_group(s, p);
}
