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
                   uint32_t *index)
{
    struct header *h = s->h;
    size_t bytes = sizeof(int64_t) * MAX_KINDS;
    for (uint32_t c = 0; c < h->n_classes; c++)
        if (!memcmp(s->classes[c].demand, demand, bytes) && !memcmp(s->classes[c].hold, hold, bytes) && s->classes[c].env == env) {
            *index = c;
            return OBJSTORE_OK;
        }
    if (h->n_classes == MAX_CLASSES)
        return OBJSTORE_LIMIT;
    struct resource_class *c = &s->classes[h->n_classes];
    memset(c, 0, sizeof *c);
    memcpy(c->demand, demand, bytes);
    memcpy(c->hold, hold, bytes);
    c->env = env;
    *index = h->n_classes;
    h->n_envs += env != 0; /* rather one too many than one too few */
    STEP();
    h->n_classes++;
    return OBJSTORE_OK;
}

bool resource_feasible(const struct segment *s, uint32_t index)
{
    for (uint32_t k = 0; k < s->h->n_kinds; k++)
        if (s->classes[index].demand[k] > s->h->total[k])
            return false;
    return true;
}

/* Devices for `amount`: whole ones for a whole number, a share of one device for a fraction. 0: not now. */
static uint32_t choose_gpus(const struct segment *s, int64_t amount)
{
    const struct header *h = s->h;
    uint32_t n = (uint32_t)(h->total[KIND_GPU] / RESOURCE_UNIT), mask = 0;
    if (n > MAX_GPUS)
        n = MAX_GPUS;
    int64_t share = amount < RESOURCE_UNIT ? amount : RESOURCE_UNIT, left = amount;
    for (uint32_t g = 0; g < n && left > 0; g++)
        if (h->gpu_free[g] >= share) {
            mask |= 1u << g;
            left -= share;
        }
    return left > 0 ? 0 : mask;
}

bool resource_admissible(const struct segment *s, uint32_t index)
{
    const struct header *h = s->h;
    const int64_t *demand = s->classes[index].demand;
    for (uint32_t k = 0; k < h->n_kinds; k++)
        if (demand[k] > 0 && demand[k] > h->available[k])
            return false;
    return demand[KIND_GPU] <= 0 || choose_gpus(s, demand[KIND_GPU]) != 0;
}

static void move(struct segment *s, const int64_t amounts[MAX_KINDS], uint32_t gpu_mask, int sign)
{
    struct header *h = s->h;
    for (uint32_t k = 0; k < h->n_kinds; k++)
        h->available[k] = (int64_t)((uint64_t)h->available[k] + (uint64_t)(sign * amounts[k])); /* wraps, if overwritten */
    int64_t share = amounts[KIND_GPU] < RESOURCE_UNIT ? amounts[KIND_GPU] : RESOURCE_UNIT;
    for (uint32_t g = 0; gpu_mask && g < MAX_GPUS; g++)
        if (gpu_mask >> g & 1)
            h->gpu_free[g] += (int32_t)(sign * share);
}

uint32_t resource_acquire(struct segment *s, const int64_t amounts[MAX_KINDS])
{
    uint32_t mask = amounts[KIND_GPU] > 0 ? choose_gpus(s, amounts[KIND_GPU]) : 0;
    move(s, amounts, mask, -1);
    return mask;
}

void resource_reacquire(struct segment *s, const int64_t amounts[MAX_KINDS], uint32_t mask) { move(s, amounts, mask, -1); }

void resource_release(struct segment *s, const int64_t amounts[MAX_KINDS], uint32_t mask) { move(s, amounts, mask, 1); }

void resource_set_total(struct segment *s, const int64_t total[MAX_KINDS])
{
    struct header *h = s->h;
    for (uint32_t k = 0; k < MAX_KINDS; k++) {
        h->available[k] += total[k] - h->total[k];
        h->total[k] = total[k];
    }
    for (uint32_t g = 0; g < MAX_GPUS; g++)
        h->gpu_free[g] = (int64_t)g < total[KIND_GPU] / RESOURCE_UNIT ? RESOURCE_UNIT : 0;
}
