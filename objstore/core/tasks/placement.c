#include "tasks/placement.h"

#include <string.h>

#include "tasks/actor.h"
#include "tasks/verify_task.h"

static void set_state(struct pool *head, uint32_t state)
{
    STEP();
    head->state = state;
    STEP();
}

/* ------------------------------------------------------------------ making and finding */

uint32_t placement_next(const struct segment *s, uint32_t pool)
{
    uint32_t end = s->h->touched_pools < MAX_POOLS ? s->h->touched_pools : MAX_POOLS;
    while (pool < end && s->h->pools[pool].state == POOL_FREE)
        pool++;
    if (pool >= end)
        return MAX_POOLS;
    uint32_t n = s->h->pools[pool].n;
    if (n && n <= MAX_POOLS - pool)
        return pool;
    segment_stray(s); /* callers that ask go through so many pools */
    return MAX_POOLS;
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

/* The first of n adjacent free pools, MAX_POOLS: none. */
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
        head[i].client_1 = POOL_NOWHERE;
        memcpy(head[i].total, spec->bundles[i], sizeof head[i].total);
        STEP();
    }
    head->number = spec->number;
    head->n = spec->n;
    head->object_1 = object + 1;
    head->owner_1 = spec->owner_1;
    head->mode = spec->mode;
    head->routed = 0;
    head->name_hash = spec->name_hash;
    if (h->touched_pools < p + spec->n)
        h->touched_pools = p + spec->n;
    set_state(head, POOL_PENDING); /* the commit */
    object_pin(s, object);
    h->n_unplaced++;
    task_wake_workers(s);
    if (placement_is_open(head))
        task_tell_agent(s);
    return OBJSTORE_OK;
}

/* ------------------------------------------------------------------ reserving */

bool placement_is_open(const struct pool *head)
{
    uint32_t i = 0;
    while (i < head->n && head[i].client_1 != POOL_NOWHERE && head[i].client_1 != POOL_COMING)
        i++;
    return i < head->n;
}

bool placement_is_spread(const struct pool *head)
{
    return head->n > 1 && (head->mode == PLACEMENT_SPREAD || head->mode == PLACEMENT_STRICT_SPREAD);
}

static bool waits(const struct pool *head) { return placement_lives(head) && placement_is_open(head); }

/* Whether nothing is taken from it. */
static void open_pool(struct pool *p)
{
    int64_t gpus = p->total[KIND_GPU], share = gpus < RESOURCE_UNIT ? gpus : RESOURCE_UNIT;
    if (p->client_1 != POOL_HERE)
        p->gpu_mask = (uint32_t)((UINT64_C(1) << ((gpus + RESOURCE_UNIT - 1) / RESOURCE_UNIT)) - 1);
    memcpy(p->available, p->total, sizeof p->available);
    memset(p->kept, 0, sizeof p->kept);
    p->awaited = 0;
    for (uint32_t g = 0; g < MAX_GPUS; g++)
        p->gpu_free[g] = p->gpu_mask >> g & 1 ? (int32_t)share : 0;
}

/* Whether bundles without a place may be here. */
static bool may_be_here(const struct segment *s, const struct pool *head)
{
    bool is_directed = s->h->director_1 && s->h->director_1 <= MAX_CLIENTS, any = false;
    if (head->state == POOL_PENDING)
        return !placement_is_spread(head) || (head->mode == PLACEMENT_SPREAD && !is_directed);
    for (uint32_t i = 0; i < head->n; i++)
        any |= head[i].client_1 == POOL_HERE || head[i].client_1 == POOL_COMING;
    return !is_directed && (head->mode != PLACEMENT_STRICT_SPREAD || !any);
}

static void take_bundles(struct segment *s, struct pool *head)
{
    struct pool *node = &s->h->pools[0], *end = head + head->n, *p = head;
    bool free_too = may_be_here(s, head);
    for (; p < end; p++) {
        if (p->client_1 != POOL_COMING && (p->client_1 != POOL_NOWHERE || !free_too))
            continue;
        if (!resource_fits(s, node, p->total))
            break;
        p->gpu_mask = resource_acquire(s, node, p->total);
        STEP();
    }
    bool fits = p == end;
    while (p-- > head) {
        if (p->client_1 != POOL_COMING && (p->client_1 != POOL_NOWHERE || !free_too))
            continue;
        if (!fits) {
            resource_release(s, node, p->total, p->gpu_mask);
            continue;
        }
        resource_release(s, node, p->total, p->gpu_mask);
        resource_keep(s, node, p->total, p->gpu_mask, 1);
        p->client_1 = POOL_HERE; /* counts in a reserved group */
        STEP();
        open_pool(p);
    }
    if (!fits || placement_is_open(head))
        return;
    set_state(head, POOL_RESERVED);
    s->h->n_unplaced--;
    task_tell_agent(s); /* another machine may be waiting for it */
}

void placement_grant(struct segment *s)
{
    struct pool *pools = s->h->pools, *next;
    for (uint32_t last = 0; s->h->n_unplaced; last = next->number) {
        next = NULL;
        for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + pools[p].n))
            if (waits(&pools[p]) && pools[p].number > last && (!next || pools[p].number < next->number))
                next = &pools[p];
        if (!next)
            return;
        take_bundles(s, next);
    }
}

bool placement_assign(struct segment *s, uint32_t head, const uint32_t *client_1)
{
    struct pool *group = &s->h->pools[head];
    bool any = false;
    for (uint32_t i = 0; i < group->n; i++) {
        bool is_coming = client_1[i] == POOL_COMING || client_1[i] - 1 < MAX_CLIENTS;
        any |= group[i].client_1 == POOL_NOWHERE;
        if (group[i].client_1 == POOL_NOWHERE && !is_coming)
            return false;
    }
    if (!any || !placement_lives(group))
        return false;
    group->routed = 1;
    STEP();
    for (uint32_t i = 0; i < group->n; i++)
        if (group[i].client_1 == POOL_NOWHERE) {
            group[i].client_1 = client_1[i];
            STEP();
            open_pool(&group[i]);
        }
    if (!placement_is_open(group)) {
        set_state(group, POOL_RESERVED);
        s->h->n_unplaced--;
    }
    task_wake_workers(s);
    return true;
}

/* ------------------------------------------------------------------ removing */

static void free_group(struct segment *s, struct pool *head)
{
    bool reserved = placement_holds(head);
    uint32_t object = head->object_1 - 1;
    set_state(head, POOL_FREE);
    for (struct pool *p = head; reserved && p < head + head->n; p++)
        if (p->client_1 == POOL_HERE)
            resource_keep(s, &s->h->pools[0], p->total, p->gpu_mask, -1);
    STEP();
    object_unpin(s, object);
    task_wake_workers(s);
}

/* Goes on with a removal; repeated whenever a task or an actor of the group has ended. */
static void clear_group(struct segment *s, uint32_t head)
{
    struct pool *group = &s->h->pools[head];
    bool in_use = false;
    for (uint32_t i = 0; i < s->h->touched_tasks; i++) {
        struct task_slot *t = task_at(s, i);
        uint32_t state = atomic_load_explicit(&t->state, memory_order_relaxed);
        if (state == TASK_FREE || state == TASK_CANCELLED || resource_pool(s, t->resource_class)->head != head)
            continue;
        if (t->flags & TASK_FLAG_ACTOR_CREATION) {
            actor_unplace(s, t->actor_1 - 1, group->number);
        } else if (state == TASK_WAITING || state == TASK_READY || state == TASK_DELAYED) {
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
    s->h->n_unplaced -= placement_is_open(group);
    set_state(group, group->state == POOL_PENDING ? POOL_DROPPED : POOL_REMOVED);
    if (group->routed)
        task_tell_agent(s);
    clear_group(s, head);
}

void placement_doomed(struct segment *s, uint64_t clients[CLIENT_WORDS])
{
    bool any = false;
    memset(clients, 0, sizeof(uint64_t) * CLIENT_WORDS);
    for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + s->h->pools[p].n))
        any |= s->h->pools[p].state == POOL_REMOVED;
    for (uint32_t i = 0; any && i < s->h->touched_tasks; i++) {
        struct task_slot *t = task_at(s, i);
        if (!task_is_safe(s, i)) {
            segment_condemn(s);
            return;
        }
        uint32_t state = atomic_load_explicit(&t->state, memory_order_relaxed);
        bool creates = t->flags & TASK_FLAG_ACTOR_CREATION;
        if (t->flags & TASK_FLAG_REMOTE)
            continue; /* its agent is told */
        if ((state == TASK_HELD || (state == TASK_RUNNING && (creates || !task_is_sealed(s, t)))) &&
            placement_head(s, t->resource_class)->state == POOL_REMOVED)
            clients[t->worker / 64] |= UINT64_C(1) << (t->worker % 64);
    }
}

void placement_owner_died(struct segment *s, uint32_t client)
{
    for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + s->h->pools[p].n))
        if (s->h->pools[p].owner_1 == client + 1 && placement_lives(&s->h->pools[p]))
            placement_remove(s, p);
}

void placement_machine_died(struct segment *s, uint32_t client)
{
    struct pool *pools = s->h->pools;
    for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + pools[p].n)) {
        struct pool *head = &pools[p];
        bool was_open = waits(head), any = false;
        for (uint32_t i = 0; i < head->n; i++)
            any |= head[i].client_1 == client + 1;
        for (uint32_t i = 0; any && i < head->n; i++)
            if (head[i].client_1 == client + 1 || head->state == POOL_PENDING) {
                head[i].client_1 = POOL_NOWHERE;
                STEP();
            }
        s->h->n_unplaced += waits(head) && !was_open;
    }
}

void placement_settle(struct segment *s, uint32_t pool)
{
    uint32_t head = pool_at(s, pool)->head;
    if (pool_at(s, head)->state == POOL_REMOVED)
        clear_group(s, head);
}

/* ------------------------------------------------------------------ recovery */

/* It died while it reserved the bundles here, so they are not reserved. The bundles of a group that was to be here as a
 * whole may go to other machines again. */
static void undo_taking(struct pool *head)
{
    bool any = false;
    for (uint32_t i = 0; i < head->n; i++)
        any |= head[i].client_1 == POOL_NOWHERE;
    for (uint32_t i = 0; i < head->n; i++)
        if (any || head[i].client_1 == POOL_HERE)
            head[i].client_1 = any || !head->routed ? POOL_NOWHERE : POOL_COMING;
}

void placement_rebuild(struct segment *s)
{
    struct pool *pools = s->h->pools;
    for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + pools[p].n)) {
        object_pin(s, pools[p].object_1 - 1);
        if (pools[p].state == POOL_PENDING)
            undo_taking(&pools[p]);
        for (uint32_t i = 0; i < pools[p].n; i++) {
            if (placement_holds(&pools[p]) && pools[p + i].client_1 == POOL_HERE)
                resource_keep(s, &pools[0], pools[p + i].total, pools[p + i].gpu_mask, 1);
            open_pool(&pools[p + i]);
        }
        if (s->h->n_placements < pools[p].number)
            s->h->n_placements = pools[p].number;
    }
    s->h->n_unplaced = 0; /* none is reserved until everything that is held is known */
}

void placement_resume(struct segment *s)
{
    for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + s->h->pools[p].n)) {
        struct pool *head = &s->h->pools[p];
        if (head->state == POOL_PENDING && !placement_is_open(head))
            set_state(head, POOL_RESERVED); /* the process that placed its last bundle died before it wrote the state */
        s->h->n_unplaced += waits(head);
    }
    for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + s->h->pools[p].n))
        if (!placement_lives(&s->h->pools[p]))
            clear_group(s, p);
}
