/* The table of resource classes: unused shapes make room for new ones, shapes of tasks do not, and the number of a
 * class that was given up is not found. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "tests/small_world.h"

static uint32_t last_env = 0;
static struct resource_shape new_shape(struct place place)
{
    return (struct resource_shape){
        .demand = {RESOURCE_UNIT}, .hold = {RESOURCE_UNIT}, .env = ++last_env, .place = place, .number = UINT32_MAX};
}

static uint32_t interned(struct segment *s, struct resource_shape *shape)
{
    uint32_t index;
    segment_lock(s);
    CHECK(resource_intern(s, shape, &shape->number, &index) == OBJSTORE_OK);
    segment_unlock(s);
    return index;
}

/* A task of a class, which waits for ever. */
static void give_task(struct segment *s, uint32_t class, uint32_t never)
{
    uint32_t task = submitted(s, (struct task_spec){.refs = &never, .n_refs = 1, .n_dependencies = 1});
    s->tasks[task].resource_class = (uint16_t)class;
}

static bool is_there(const struct segment *s, uint32_t env, struct place place)
{
    for (uint32_t c = 0; c < s->h->n_classes; c++)
        if (resource_is_used(s, c) && s->classes[c].env == env && !memcmp(&s->classes[c].place, &place, sizeof place))
            return true;
    return false;
}

int main(void)
{
    struct segment s = new_world(), worker = attached(ROLE_WORKER), other = attached(ROLE_WORKER);
    uint32_t never = created(&s), index;
    while (s.h->n_classes < N_LASTING_CLASSES)
        interned(&s, &(struct resource_shape){.demand = {s.h->n_classes}, .place = ON_NODE, .number = UINT32_MAX});
    struct resource_shape kept = new_shape(ON_NODE), former = new_shape(ON_NODE),
                          spread = new_shape((struct place){.pool = 1, .n_pools = 3});
    uint32_t class = interned(&s, &kept), number = kept.number, ended = submitted(&s, (struct task_spec){0});
    CHECK(popped(&other) == ended);
    s.tasks[ended].resource_class = (uint16_t)interned(&s, &former);
    uint32_t old = former.number;
    finish(&other, ended);
    uint32_t actor = made_actor(&s, &worker, 0);
    s.tasks[s.actors[actor].task_1 - 1].resource_class = (uint16_t)class; /* kept by its constructor */
    give_task(&s, interned(&s, &spread), never);

    for (uint32_t i = 0; i < 8 * MAX_CLASSES; i++) {
        struct resource_shape shape = new_shape(ON_NODE);
        index = interned(&s, &shape);
        CHECK(index >= N_LASTING_CLASSES && index != class);
    }
    CHECK(interned(&s, &kept) == class && kept.number == number);
    for (uint16_t p = 1; p <= 3; p++) /* into one of which its task will go */
        CHECK(is_there(&s, spread.env, (struct place){.pool = p, .n_pools = 1}));
    CHECK(!resource_numbered(&s, old, &index));
    CHECK(s.classes[interned(&s, &former)].env == former.env && former.number != old);

    recover(&s);
    CHECK(segment_check(&s, NULL, NULL) == 0 && interned(&s, &kept) == class && kept.number == number);
    puts("resource shapes that nobody uses make room for others");
    return 0;
}
