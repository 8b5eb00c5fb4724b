#include "tasks/resource.h"

#include <stddef.h>
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

static uint32_t find(const struct segment *s, const struct resource_shape *shape)
{
    for (uint32_t i = 0; i < s->h->n_classes; i++) {
        const struct resource_class *c = &s->classes[i];
        if (c->env == shape->env && c->generation & 1 && !memcmp(c->demand, shape->demand, sizeof c->demand) &&
            !memcmp(c->hold, shape->hold, sizeof c->hold) && !memcmp(&c->place, &shape->place, sizeof c->place) &&
            !memcmp(&c->terms, &shape->terms, sizeof c->terms))
            return i;
    }
    return MAX_CLASSES;
}

bool resource_numbered(const struct segment *s, uint32_t number, uint32_t *index)
{
    *index = number % MAX_CLASSES;
    return resource_is_used(s, *index) && resource_number(s, *index) == number;
}

void resource_shape_of(const struct segment *s, uint32_t index, struct resource_shape *shape)
{
    const struct resource_class *c = &s->classes[index];
    *shape = (struct resource_shape){
        .place = c->place, .terms = c->terms, .env = c->env, .number = resource_number(s, index)};
    memcpy(shape->demand, c->demand, sizeof shape->demand);
    memcpy(shape->hold, c->hold, sizeof shape->hold);
}

static struct resource_shape in_pool(const struct resource_shape *shape, uint32_t pool)
{
    struct resource_shape one = *shape;
    one.place = (struct place){.pool = (uint16_t)pool, .n_pools = 1, .captures = shape->place.captures};
    return one;
}

bool resource_is_whole(const struct segment *s, uint32_t index, bool parts[MAX_CLASSES])
{
    struct resource_shape shape;
    bool whole = true;
    resource_shape_of(s, index, &shape);
    for (uint32_t p = shape.place.pool; shape.place.n_pools > 1 && p < shape.place.pool + (uint32_t)shape.place.n_pools;
         p++) {
        struct resource_shape one = in_pool(&shape, p);
        uint32_t part = find(s, &one);
        if (part == MAX_CLASSES)
            whole = false;
        else
            parts[part] = true;
    }
    return whole;
}

static uint32_t n_unused(const struct segment *s)
{
    uint32_t n = MAX_CLASSES - s->h->n_classes;
    for (uint32_t i = 0; i < s->h->n_classes; i++)
        n += !resource_is_used(s, i);
    return n;
}

/* Searches for tasks instead of counting them: that costs nothing until the table is full, and cannot be wrong after a
 * death. */
static void give_up_unused(struct segment *s)
{
    bool used[MAX_CLASSES] = {false};
    for (uint32_t i = 0; i < s->h->touched_tasks; i++) {
        const struct task_slot *t = &s->tasks[i];
        fetch_slot(t + FETCH_AHEAD);
        if (atomic_load_explicit(&t->state, memory_order_relaxed) != TASK_FREE)
            used[t->resource_class % MAX_CLASSES] = true;
    }
    for (uint32_t i = 0; i < s->h->n_classes; i++)
        if (used[i])
            resource_is_whole(s, i, used);
    for (int whole = 1; whole >= 0; whole--) /* first, so that no class exists without its parts */
        for (uint32_t i = N_LASTING_CLASSES; i < s->h->n_classes; i++)
            if (!used[i] && resource_is_used(s, i) && (s->classes[i].place.n_pools > 1) == whole) {
                s->classes[i].generation++;
                STEP();
            }
}

static uint32_t make(struct segment *s, const struct resource_shape *shape)
{
    struct header *h = s->h;
    uint32_t i = 0;
    while (i < h->n_classes && s->classes[i].generation & 1)
        i++;
    if (i == MAX_CLASSES)
        return MAX_CLASSES;
    struct resource_class *c = &s->classes[i];
    memset(c, 0, offsetof(struct resource_class, generation));
    memcpy(c->demand, shape->demand, sizeof c->demand);
    memcpy(c->hold, shape->hold, sizeof c->hold);
    c->env = shape->env;
    c->place = shape->place;
    c->terms = shape->terms;
    c->gate_1 = gate_for(s, shape->terms.function);
    h->has_terms |= shape->terms.function || shape->terms.priority;
    h->n_envs += shape->env != 0; /* may count one too many: workers with that environment may still live */
    STEP();
    h->n_classes += i == h->n_classes;
    STEP();
    c->generation++; /* the commit */
    return i;
}

int resource_intern(struct segment *s, const struct resource_shape *shape, uint32_t *number, uint32_t *index)
{
    if (resource_numbered(s, *number, index))
        return OBJSTORE_OK;
    const struct place *place = &shape->place;
    uint32_t n_parts = place->n_pools > 1 ? place->n_pools : 0;
    *index = find(s, shape);
    if (*index == MAX_CLASSES && n_unused(s) <= n_parts)
        give_up_unused(s); /* now, not between the parts */
    for (uint32_t p = place->pool; *index == MAX_CLASSES && p < place->pool + n_parts; p++) {
        struct resource_shape one = in_pool(shape, p);
        if (find(s, &one) == MAX_CLASSES && make(s, &one) == MAX_CLASSES)
            return OBJSTORE_LIMIT;
    }
    if (*index == MAX_CLASSES && (*index = make(s, shape)) == MAX_CLASSES)
        return OBJSTORE_LIMIT;
    *number = resource_number(s, *index);
    return OBJSTORE_OK;
}

int resource_class(struct segment *s, const int64_t demand[MAX_KINDS], const int64_t hold[MAX_KINDS], uint32_t env,
                   struct place place, uint32_t *index)
{
    struct resource_shape shape = {.place = place, .env = env};
    uint32_t number = UINT32_MAX;                      /* of none */
    memcpy(shape.demand, demand, sizeof shape.demand); /* which may be given up now with its class */
    memcpy(shape.hold, hold, sizeof shape.hold);
    return resource_intern(s, &shape, &number, index);
}

int resource_class_at(struct segment *s, uint32_t class, struct place place, uint32_t *index)
{
    struct resource_shape shape;
    uint32_t number = UINT32_MAX; /* of none */
    resource_shape_of(s, class, &shape);
    shape.place = place;
    return resource_intern(s, &shape, &number, index);
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

/* Devices for `amount`: whole devices for a whole number, a share of one device for a fraction. 0: not available. */
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

/* The next pool of the class, from p on, that is reserved on that machine; UINT32_MAX: none. */
static uint32_t next_pool(const struct segment *s, const struct resource_class *c, uint32_t p, uint32_t client_1)
{
    bool reserved = pool_at(s, pool_at(s, c->place.pool)->head)->state == POOL_RESERVED;
    uint32_t end = reserved ? c->place.pool + (uint32_t)c->place.n_pools : 0;
    while (p < end && pool_at(s, p)->client_1 != client_1)
        p++;
    return p < end ? p : UINT32_MAX;
}

/* How much of what is available in that pool is held back from tasks of the class. */
static int64_t kept_back(const struct segment *s, const struct resource_class *c, uint32_t pool, uint32_t kind)
{
    const struct reservation *r = &s->h->reserved;
    const struct resource_class *reserved = r->class_1 ? class_at(s, r->class_1 - 1) : NULL;
    int64_t back = kind == KIND_CPU ? pool_at(s, pool)->awaited : 0;
    if (reserved && reserved != c && r->pool == pool && c->terms.priority <= reserved->terms.priority)
        back += reserved->demand[kind];
    return back;
}

static bool leaves_enough(const struct segment *s, const struct resource_class *c, uint32_t pool)
{
    const int64_t *demand = c->demand;
    uint32_t k = 0;
    while (k < s->h->n_kinds &&
           (demand[k] <= 0 || demand[k] <= pool_at(s, pool)->available[k] - kept_back(s, c, pool, k)))
        k++;
    return k == s->h->n_kinds;
}

/* Whether the pool has capacity, besides what is held back. */
static inline bool fits_beside(const struct segment *s, const struct resource_class *c, uint32_t pool)
{
    return resource_fits(s, pool_at(s, pool), c->demand) &&
           __builtin_expect(!s->h->holds_back || leaves_enough(s, c, pool), 1);
}

uint32_t resource_room_on(const struct segment *s, const struct resource_class *c, uint32_t client_1)
{
    if (resource_is_routed(s, c))
        return UINT32_MAX;
    if (!c->place.pool)
        return fits_beside(s, c, 0) ? 0 : UINT32_MAX;
    uint32_t p = next_pool(s, c, c->place.pool, client_1);
    while (p != UINT32_MAX && !fits_beside(s, c, p))
        p = next_pool(s, c, p + 1, client_1);
    return p;
}

bool resource_is_here(const struct segment *s, uint32_t index)
{
    const struct resource_class *c = class_at(s, index);
    return !c->place.pool || next_pool(s, c, c->place.pool, POOL_HERE) != UINT32_MAX;
}

/* ------------------------------------------------------------------ reservations */

#define FIRST_RESERVATION (ticks_in_20_us() * 50000) /* about a second */
#define LONGEST_RESERVATION (FIRST_RESERVATION * 1024)

/* Whether one of its tasks could begin in the pool if all running tasks had ended. */
static bool may_come_to_fit(const struct segment *s, const struct resource_class *c, const struct pool *p)
{
    uint32_t k = 0;
    while (k < s->h->n_kinds && (c->demand[k] <= 0 || c->demand[k] <= p->total[k] - p->kept[k]))
        k++;
    return k == s->h->n_kinds;
}

void resource_note_held_back(struct header *h)
{
    uint64_t any = h->reserved.class_1;
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        any |= h->returning[w];
    h->holds_back = any != 0;
}

bool resource_reserve(struct segment *s, uint32_t index)
{
    const struct resource_class *c = class_at(s, index);
    struct reservation *r = &s->h->reserved;
    if ((r->class_1 && class_at(s, r->class_1 - 1)->terms.priority >= c->terms.priority) || resource_is_routed(s, c))
        return false;
    uint32_t pool = c->place.pool ? next_pool(s, c, c->place.pool, POOL_HERE) : 0;
    while (pool != UINT32_MAX && !may_come_to_fit(s, c, pool_at(s, pool)))
        pool = c->place.pool ? next_pool(s, c, pool + 1, POOL_HERE) : UINT32_MAX;
    uint64_t now = ticks_now();
    if (pool == UINT32_MAX || now < r->next)
        return false;
    if (!r->span)
        r->span = FIRST_RESERVATION;
    r->pool = pool;
    r->until = now + r->span;
    r->class_1 = index + 1;
    STEP();
    resource_note_held_back(s->h);
    return true;
}

void resource_unreserve(struct segment *s, uint32_t index)
{
    struct reservation *r = &s->h->reserved;
    if (r->class_1 == index + 1) {
        memset(r, 0, sizeof *r);
        resource_note_held_back(s->h);
    }
}

void resource_lapse(struct segment *s)
{
    struct reservation *r = &s->h->reserved;
    uint64_t now = ticks_now();
    if (!r->class_1 || (now < r->until && may_come_to_fit(s, class_at(s, r->class_1 - 1), pool_at(s, r->pool))))
        return;
    r->class_1 = 0;
    resource_note_held_back(s->h);
    r->next = now + r->span;
    r->span = r->span < LONGEST_RESERVATION ? 2 * r->span : LONGEST_RESERVATION;
    STEP();
}

void resource_unreserved(const struct segment *s, int64_t room[MAX_KINDS])
{
    const struct reservation *r = &s->h->reserved;
    memcpy(room, s->h->pools[0].available, sizeof(int64_t) * MAX_KINDS);
    room[KIND_CPU] -= s->h->pools[0].awaited;
    for (uint32_t k = 0; r->class_1 && !r->pool && k < s->h->n_kinds; k++)
        room[k] -= class_at(s, r->class_1 - 1)->demand[k];
}

uint64_t resource_reserved_for(const struct segment *s)
{
    const struct reservation *r = &s->h->reserved;
    uint64_t now = ticks_now(), until = r->class_1 ? r->until : 0;
    return until > now ? until - now : r->class_1 ? 1 : 0;
}

static int64_t count(const struct segment *s, const struct resource_class *c, uint32_t pool,
                     const int64_t room[MAX_KINDS], int64_t most)
{
    const int64_t *demand = c->demand;
    for (uint32_t k = 0; k < s->h->n_kinds && most > 0; k++)
        if (demand[k] > 0) {
            int64_t left = room[k] - kept_back(s, c, pool, k), n = left > 0 ? left / demand[k] : 0;
            most = n < most ? n : most;
        }
    return most;
}

int64_t resource_startable(const struct segment *s, uint32_t index, int64_t room[MAX_KINDS])
{
    const struct resource_class *c = class_at(s, index);
    int64_t n = 0, most = gate_room(s, c, c->n_ready);
    if (resource_is_routed(s, c))
        return 0;
    if (!c->place.pool) {
        n = count(s, c, 0, room, most);
        for (uint32_t k = 0; k < s->h->n_kinds; k++)
            room[k] -= c->demand[k] > 0 ? n * c->demand[k] : 0;
        return n;
    }
    for (uint32_t p = next_pool(s, c, c->place.pool, POOL_HERE); p != UINT32_MAX; p = next_pool(s, c, p + 1, POOL_HERE))
        n += count(s, c, p, pool_at(s, p)->available, most - n);
    return n;
}

static void move(const struct segment *s, struct pool *pool, const int64_t amounts[MAX_KINDS], uint32_t gpu_mask,
                 int sign)
{
    for (uint32_t k = 0; k < s->h->n_kinds; k++)
        /* wraps, if overwritten */
        pool->available[k] = (int64_t)((uint64_t)pool->available[k] + (uint64_t)sign * (uint64_t)amounts[k]);
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

void resource_reacquire(const struct segment *s, struct pool *pool, const int64_t amounts[MAX_KINDS], uint32_t mask)
{
    move(s, pool, amounts, mask, -1);
}

void resource_keep(const struct segment *s, struct pool *pool, const int64_t amounts[MAX_KINDS], uint32_t mask,
                   int sign)
{
    move(s, pool, amounts, mask, -sign);
    for (uint32_t k = 0; k < s->h->n_kinds; k++)
        pool->kept[k] = (int64_t)((uint64_t)pool->kept[k] + (uint64_t)sign * (uint64_t)amounts[k]); /* as in move */
}

void resource_release(const struct segment *s, struct pool *pool, const int64_t amounts[MAX_KINDS], uint32_t mask)
{
    move(s, pool, amounts, mask, 1);
}

void resource_set_total(struct segment *s, const int64_t total[MAX_KINDS])
{
    struct pool *node = &s->h->pools[0];
    for (uint32_t k = 0; k < MAX_KINDS; k++) {
        /* wraps, if overwritten */
        node->available[k] = (int64_t)((uint64_t)node->available[k] + (uint64_t)total[k] - (uint64_t)node->total[k]);
        node->total[k] = total[k];
    }
    for (uint32_t g = 0; g < MAX_GPUS; g++)
        node->gpu_free[g] = (int64_t)g < total[KIND_GPU] / RESOURCE_UNIT ? RESOURCE_UNIT : 0;
}
