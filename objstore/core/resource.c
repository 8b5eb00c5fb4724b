#include "resource.h"

#include <string.h>

int resource_kind(struct segment *s, const char *name, uint32_t *kind)
{
    struct header *h = s->h;
    if (strlen(name) >= KIND_NAME_SIZE)
        return OBJSTORE_INVALID;
    for (uint32_t k = 0; k < h->n_kinds; k++)
        if (!strcmp(h->kind_names[k], name)) {
            *kind = k;
            return OBJSTORE_OK;
        }
    if (h->n_kinds == MAX_KINDS)
        return OBJSTORE_LIMIT;
    *kind = h->n_kinds;
    memcpy(h->kind_names[*kind], name, strlen(name) + 1);
    STEP();
    h->n_kinds++;
    return OBJSTORE_OK;
}

int resource_class(struct segment *s, const int64_t demand[MAX_KINDS], const int64_t hold[MAX_KINDS], uint32_t env,
                   struct place place, uint32_t *index)
{
    struct header *h = s->h;
    size_t bytes = sizeof(int64_t) * MAX_KINDS;
    for (uint32_t c = 0; c < h->n_classes; c++)
        if (!memcmp(class_at(s, c)->demand, demand, bytes) && !memcmp(class_at(s, c)->hold, hold, bytes) && class_at(s, c)->env == env &&
            !memcmp(&class_at(s, c)->place, &place, sizeof place)) {
            *index = c;
            return OBJSTORE_OK;
        }
    for (uint16_t i = 0; place.n_pools > 1 && i < place.n_pools; i++) {
        struct place one = {.pool = (uint16_t)(place.pool + i), .n_pools = 1, .captures = place.captures};
        if (resource_class(s, demand, hold, env, one, index))
            return OBJSTORE_LIMIT;
    }
    if (h->n_classes == MAX_CLASSES)
        return OBJSTORE_LIMIT;
    struct resource_class *c = class_at(s, h->n_classes);
    memset(c, 0, sizeof *c);
    memcpy(c->demand, demand, bytes);
    memcpy(c->hold, hold, bytes);
    c->env = env;
    c->place = place;
    *index = h->n_classes;
    h->n_envs += env != 0; /* rather one too many than one too few */
    STEP();
    h->n_classes++;
    return OBJSTORE_OK;
}

bool resource_feasible(const struct segment *s, uint32_t index)
{
    const struct resource_class *c = class_at(s, index);
    for (uint32_t p = c->place.pool; p < c->place.pool + (uint32_t)c->place.n_pools; p++) {
        uint32_t k = 0;
        while (k < s->h->n_kinds && c->demand[k] <= pool_at(s, p)->total[k])
            k++;
        if (k == s->h->n_kinds)
            return true;
    }
    return false;
}

/* Devices for `amount`: whole ones for a whole number, a share of one device for a fraction. 0: not now. */
static uint32_t choose_gpus(const struct pool *pool, int64_t amount)
{
    uint32_t mask = 0;
    int64_t share = amount < RESOURCE_UNIT ? amount : RESOURCE_UNIT, left = amount;
    for (uint32_t g = 0; g < MAX_GPUS && left > 0; g++)
        if (pool->gpu_free[g] >= share) {
            mask |= 1u << g;
            left -= share;
        }
    return left > 0 ? 0 : mask;
}

bool resource_fits(const struct segment *s, const struct pool *pool, const int64_t amounts[MAX_KINDS])
{
    for (uint32_t k = 0; k < s->h->n_kinds; k++)
        if (amounts[k] > 0 && amounts[k] > pool->available[k])
            return false;
    return amounts[KIND_GPU] <= 0 || choose_gpus(pool, amounts[KIND_GPU]) != 0;
}

/* The next pool of the class, from p on, that is reserved there; UINT32_MAX: there is none. */
static uint32_t next_pool(const struct segment *s, const struct resource_class *c, uint32_t p, uint32_t client_1)
{
    bool reserved = pool_at(s, pool_at(s, c->place.pool)->head)->state == POOL_RESERVED;
    uint32_t end = reserved ? c->place.pool + (uint32_t)c->place.n_pools : 0;
    while (p < end && pool_at(s, p)->client_1 != client_1)
        p++;
    return p < end ? p : UINT32_MAX;
}

uint32_t resource_room_on(const struct segment *s, uint32_t index, uint32_t client_1)
{
    const struct resource_class *c = class_at(s, index);
    const struct pool *pools = s->h->pools;
    if (resource_is_routed(s, index))
        return UINT32_MAX;
    if (!c->place.pool)
        return resource_fits(s, pools, c->demand) ? 0 : UINT32_MAX;
    uint32_t p = next_pool(s, c, c->place.pool, client_1);
    while (p != UINT32_MAX && !resource_fits(s, pool_at(s, p), c->demand))
        p = next_pool(s, c, p + 1, client_1);
    return p;
}

bool resource_is_here(const struct segment *s, uint32_t index)
{
    const struct resource_class *c = class_at(s, index);
    return !c->place.pool || next_pool(s, c, c->place.pool, POOL_HERE) != UINT32_MAX;
}

static int64_t count(const struct segment *s, const int64_t room[MAX_KINDS], const int64_t demand[MAX_KINDS], int64_t most)
{
    for (uint32_t k = 0; k < s->h->n_kinds && most > 0; k++)
        if (demand[k] > 0) {
            int64_t n = room[k] > 0 ? room[k] / demand[k] : 0;
            most = n < most ? n : most;
        }
    return most;
}

int64_t resource_startable(const struct segment *s, uint32_t index, int64_t room[MAX_KINDS])
{
    const struct resource_class *c = class_at(s, index);
    int64_t n = 0;
    if (resource_is_routed(s, index))
        return 0;
    if (!c->place.pool) {
        n = count(s, room, c->demand, c->n_ready);
        for (uint32_t k = 0; k < s->h->n_kinds; k++)
            room[k] -= c->demand[k] > 0 ? n * c->demand[k] : 0;
        return n;
    }
    for (uint32_t p = next_pool(s, c, c->place.pool, POOL_HERE); p != UINT32_MAX; p = next_pool(s, c, p + 1, POOL_HERE))
        n += count(s, pool_at(s, p)->available, c->demand, c->n_ready - n);
    return n;
}

static void move(const struct segment *s, struct pool *pool, const int64_t amounts[MAX_KINDS], uint32_t gpu_mask, int sign)
{
    for (uint32_t k = 0; k < s->h->n_kinds; k++)
        pool->available[k] = (int64_t)((uint64_t)pool->available[k] + (uint64_t)sign * (uint64_t)amounts[k]); /* wraps, if overwritten */
    int64_t share = amounts[KIND_GPU] < RESOURCE_UNIT ? amounts[KIND_GPU] : RESOURCE_UNIT;
    for (uint32_t g = 0; gpu_mask && g < MAX_GPUS; g++)
        if (gpu_mask >> g & 1)
            pool->gpu_free[g] += (int32_t)(sign * share);
}

void resource_lend(struct segment *s, uint32_t index, int sign)
{
    int64_t amounts[MAX_KINDS] = {class_at(s, index)->demand[KIND_CPU]};
    move(s, resource_pool(s, index), amounts, 0, sign);
}

uint32_t resource_acquire(const struct segment *s, struct pool *pool, const int64_t amounts[MAX_KINDS])
{
    uint32_t mask = amounts[KIND_GPU] > 0 ? choose_gpus(pool, amounts[KIND_GPU]) : 0;
    move(s, pool, amounts, mask, -1);
    return mask;
}

void resource_reacquire(const struct segment *s, struct pool *pool, const int64_t amounts[MAX_KINDS], uint32_t mask) { move(s, pool, amounts, mask, -1); }

void resource_release(const struct segment *s, struct pool *pool, const int64_t amounts[MAX_KINDS], uint32_t mask) { move(s, pool, amounts, mask, 1); }

void resource_set_total(struct segment *s, const int64_t total[MAX_KINDS])
{
    struct pool *node = &s->h->pools[0];
    for (uint32_t k = 0; k < MAX_KINDS; k++) {
        node->available[k] = (int64_t)((uint64_t)node->available[k] + (uint64_t)total[k] - (uint64_t)node->total[k]); /* wraps, if overwritten */
        node->total[k] = total[k];
    }
    for (uint32_t g = 0; g < MAX_GPUS; g++)
        node->gpu_free[g] = (int64_t)g < total[KIND_GPU] / RESOURCE_UNIT ? RESOURCE_UNIT : 0;
}
