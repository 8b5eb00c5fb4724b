/* A segment for tests with a few tasks, whose clients are all in this process, or in its children. */
#ifndef CELLMESH_SMALL_WORLD_H
#define CELLMESH_SMALL_WORLD_H

#include <sys/mman.h>

#include "clients/client.h"
#include "clients/reap.h"
#include "memory/event.h"
#include "objects/object.h"
#include "recovery/check.h"
#include "recovery/recover.h"
#include "tasks/actor.h"
#include "tasks/placement.h"
#include "tasks/resource.h"
#include "tasks/task.h"
#include "tests/expect.h"

enum { SIZE = 1 << 20 };
static unsigned char *base;
static uint32_t class_small, function;

static struct segment attached(uint32_t role)
{
    struct segment s;
    CHECK(segment_use(&s, base, SIZE) == OBJSTORE_OK && client_attach(&s, role) == OBJSTORE_OK);
    return s;
}

static uint32_t created(struct segment *s)
{
    uint32_t object;
    segment_lock(s);
    CHECK(object_create(s, s->me, s->h->next_seq++ | PUT_BIT, &object) == OBJSTORE_OK);
    segment_unlock(s);
    return object;
}

static uint32_t submitted(struct segment *s, struct task_spec spec)
{
    uint32_t result, task;
    spec.function = function;
    spec.resource_class = class_small;
    spec.n_returns = 1;
    segment_lock(s);
    CHECK(task_submit(s, &spec, &result, &task) == OBJSTORE_OK);
    segment_unlock(s);
    return task;
}

static uint32_t popped(struct segment *s)
{
    segment_lock(s);
    uint32_t task = task_pop(s);
    segment_unlock(s);
    return task;
}

__attribute__((unused)) static void finish(struct segment *s, uint32_t task)
{
    object_seal_inline(s, task_result(s, &s->tasks[task], 0), OBJECT_READY, "", 0);
    segment_lock(s);
    task_finish(s, task, EVENT_OK);
    segment_unlock(s);
}

/* An actor that `worker` serves. */
__attribute__((unused)) static uint32_t made_actor(struct segment *driver, struct segment *worker, uint32_t flags)
{
    struct actor_spec a = {.max_concurrency = 1, .flags = ACTOR_FLAG_ORDERED | flags};
    uint32_t object = created(driver), actor;
    segment_lock(driver);
    uint64_t offset = object_allocate(driver, 8, 0);
    CHECK(offset && object_seal_arena(driver, object, OBJECT_READY, offset, 8, 0));
    CHECK(actor_create(driver, &a, object, &actor) == OBJSTORE_OK);
    segment_unlock(driver);
    uint32_t task = submitted(driver, (struct task_spec){.actor_1 = actor + 1, .flags = TASK_FLAG_ACTOR_CREATION});
    segment_lock(driver);
    actor_constructed_by(driver, actor, task);
    segment_unlock(driver);
    CHECK(popped(worker) == task);
    object_seal_inline(worker, task_result(worker, &worker->tasks[task], 0), OBJECT_READY, "", 0);
    segment_lock(worker);
    actor_bind(worker, actor, task);
    task_release_results(worker, task);
    segment_unlock(worker);
    return actor;
}

/* Room for four tasks at once. Returns a driver. */
static struct segment new_world(void)
{
    struct segment_config config = {.size = SIZE, .n_objects = 64, .n_tasks = 64, .n_actors = 4, .n_events = 64};
    int64_t one[MAX_KINDS] = {RESOURCE_UNIT}, total[MAX_KINDS] = {4 * RESOURCE_UNIT};
    base = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED && segment_format(base, &config) == OBJSTORE_OK);
    struct segment s = attached(ROLE_DRIVER);
    segment_lock(&s);
    CHECK(resource_class(&s, one, one, 0, ON_NODE, &class_small) == OBJSTORE_OK);
    resource_set_total(&s, total);
    segment_unlock(&s);
    function = created(&s);
    CHECK(object_seal_inline(&s, function, OBJECT_READY, "", 0));
    return s;
}

#endif
