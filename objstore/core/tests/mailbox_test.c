/* Mailboxes. Cancelled calls of an actor that no process serves leave its mailbox, and with the last of them an actor
 * without handles ends. Concurrency groups have calls and threads of their own. */
#define _GNU_SOURCE
#include <stdio.h>

#include "tests/small_world.h"

enum { N_CALLS = 40 };

static struct segment s;
static uint32_t actor, handle, calls[N_CALLS];

static void drop(uint32_t object) { client_drop(&s, &object, 1); }

static uint32_t result_of(uint32_t task) { return s.tasks[task].result_1 - 1; }

static void cancel(uint32_t task)
{
    uint32_t found, worker, result = result_of(task);
    segment_lock(&s);
    CHECK(task_cancel(&s, result, &found, &worker) == CANCEL_PENDING);
    CHECK(segment_check(&s, NULL, NULL) == 0);
    segment_unlock(&s);
    drop(result);
}

/* Its constructor waits for room that never comes. */
static void make_actor(void)
{
    struct actor_spec spec = {.max_concurrency = 1, .flags = ACTOR_FLAG_ORDERED, .max_pending = N_CALLS};
    int64_t huge[MAX_KINDS] = {99 * RESOURCE_UNIT};
    uint32_t plain = class_small;
    handle = created(&s);
    segment_lock(&s);
    uint64_t offset = object_allocate(&s, 8, 0);
    CHECK(offset && object_seal_arena(&s, handle, OBJECT_READY, offset, 8, 0));
    CHECK(actor_create(&s, &spec, handle, &actor) == OBJSTORE_OK);
    CHECK(resource_class(&s, huge, huge, 0, ON_NODE, &class_small) == OBJSTORE_OK);
    segment_unlock(&s);
    uint32_t task = submitted(&s, (struct task_spec){.actor_1 = actor + 1, .flags = TASK_FLAG_ACTOR_CREATION});
    segment_lock(&s);
    actor_constructed_by(&s, actor, task);
    segment_unlock(&s);
    drop(result_of(task));
    class_small = plain;
}

static void call(int n)
{
    for (int i = 0; i < n; i++)
        calls[i] = submitted(&s, (struct task_spec){.actor_1 = actor + 1});
}

static bool is_gone(void) { return atomic_load(&s.actors[actor].state) == ACTOR_FREE && s.h->n_live_tasks == 0; }

static uint32_t popped_of(struct segment *worker, uint32_t group)
{
    segment_lock(worker);
    uint32_t task = task_pop_of(worker, group);
    segment_unlock(worker);
    return task;
}

static uint32_t call_of(uint16_t group)
{
    return submitted(&s, (struct task_spec){.actor_1 = actor + 1, .group = group});
}

static struct segment serving(uint32_t flags, uint32_t limit)
{
    struct segment worker = attached(ROLE_WORKER);
    actor = made_actor(&s, &worker, 0);
    s.actors[actor].flags = flags;
    s.actors[actor].group_limit[0] = 1;
    s.actors[actor].group_limit[1] = limit;
    return worker;
}

static void groups(void)
{
    struct segment worker = serving(0, 70000);
    uint32_t others[3] = {call_of(1), call_of(1), call_of(1)}, one = call_of(0), two = call_of(0);
    CHECK(popped_of(&worker, 0) == one && popped_of(&worker, 0) == UINT32_MAX); /* it has no room */
    CHECK(popped_of(&worker, 1) == others[0] && popped_of(&worker, 2) == UINT32_MAX);
    finish(&worker, one);
    CHECK(popped_of(&worker, ANY_GROUP) == others[1] && popped_of(&worker, 0) == two &&
          popped_of(&worker, 1) == others[2]);
    CHECK(s.actors[actor].group_running[1] == 3 && s.actors[actor].n_pending == 0);
    for (int i = 0; i < 3; i++)
        finish(&worker, others[i]);
    finish(&worker, two);
    CHECK(s.actors[actor].group_running[1] == 0 && s.actors[actor].n_running == 0);
    puts("who serves a group takes its calls, and no others");
}

static void groups_in_order(void)
{
    struct segment worker = serving(ACTOR_FLAG_ORDERED, 1);
    uint32_t first = call_of(0), second = call_of(1);
    CHECK(popped_of(&worker, 1) == UINT32_MAX); /* it was submitted later */
    uint32_t seen = client_inbox(&worker);
    CHECK(popped_of(&worker, 0) == first && client_inbox(&worker) != seen && popped_of(&worker, 1) == second);
    finish(&worker, first);
    finish(&worker, second);
    puts("in an ordered actor the thread of another group is woken once it is that one's turn");
}

int main(void)
{
    s = new_world();
    make_actor();
    call(3);
    CHECK(s.actors[actor].n_pending == 3);
    cancel(calls[1]);
    CHECK(s.actors[actor].n_pending == 2 && s.h->n_live_tasks == 3);
    drop(handle);
    CHECK(atomic_load(&s.actors[actor].state) == ACTOR_PENDING); /* its calls may still run */
    cancel(calls[0]);
    cancel(calls[2]);
    CHECK(is_gone());

    make_actor(); /* the last comes first */
    call(N_CALLS);
    CHECK(!actor_admits(&s, actor));
    drop(handle);
    for (int i = N_CALLS; i-- > 0;)
        cancel(calls[i]);
    CHECK(is_gone());

    make_actor(); /* one that stands in line for something else, too */
    uint32_t never = created(&s);
    calls[0] =
        submitted(&s, (struct task_spec){.actor_1 = actor + 1, .refs = &never, .n_refs = 1, .n_dependencies = 1});
    cancel(calls[0]);
    CHECK(s.actors[actor].n_pending == 0);
    drop(handle);
    segment_lock(&s);
    object_seal_inline(&s, never, OBJECT_READY, "", 0);
    task_release_waiting(&s, never);
    segment_unlock(&s);
    CHECK(is_gone());

    make_actor(); /* killed before it has begun, it may begin once more; and then no more */
    call(1);
    s.actors[actor].restarts_left = 1;
    segment_lock(&s);
    CHECK(actor_kill(&s, actor, false) == UINT32_MAX && atomic_load(&s.actors[actor].state) == ACTOR_RESTARTING);
    CHECK(s.actors[actor].restarts_left == 0 && s.tasks[s.actors[actor].task_1 - 1].attempt == 1 &&
          s.actors[actor].n_pending == 1);
    CHECK(actor_kill(&s, actor, false) == UINT32_MAX && atomic_load(&s.actors[actor].state) == ACTOR_DEAD);
    CHECK(object_state(&s.objects[result_of(calls[0])]) == OBJECT_FAILED &&
          actor_end_code(&s.actors[actor]) == ENDED_BY_KILL);
    CHECK(segment_check(&s, NULL, NULL) == 0);
    segment_unlock(&s);
    drop(result_of(calls[0])), drop(handle);
    CHECK(is_gone());

    struct segment worker = attached(ROLE_WORKER); /* the worker of an actor drops them when it gets there */
    actor = made_actor(&s, &worker, 0);
    call(3);
    cancel(calls[0]);
    CHECK(s.actors[actor].n_pending <= 3 && popped(&worker) == calls[1]);
    finish(&worker, calls[1]);
    CHECK(popped(&worker) == calls[2] && s.actors[actor].n_pending == 0);
    finish(&worker, calls[2]);

    /* its worker dies, and it is to begin again: what was not begun fails */
    s.actors[actor].flags |= ACTOR_FLAG_REFUSES;
    s.actors[actor].restarts_left = 1;
    call(4);
    s.tasks[calls[3]].max_retries = 1; /* but for what may be repeated */
    CHECK(popped(&worker) == calls[0]);
    client_died(&s, worker.me, -9);
    CHECK(atomic_load(&s.actors[actor].state) == ACTOR_RESTARTING && s.actors[actor].head_1 == calls[3] + 1 &&
          s.actors[actor].n_pending == 1);
    calls[4] = submitted(&s, (struct task_spec){.actor_1 = actor + 1});
    CHECK(s.actors[actor].n_pending == 1);
    for (int i = 0; i < 5; i++)
        CHECK(object_state(&s.objects[result_of(calls[i])]) == (i == 3 ? OBJECT_PENDING : OBJECT_FAILED));
    segment_lock(&s);
    CHECK(segment_check(&s, NULL, NULL) == 0);
    actor_kill(&s, actor, true);
    segment_unlock(&s);

    worker = attached(ROLE_WORKER); /* without handles, only the calls keep the actor */
    actor = made_actor(&s, &worker, ACTOR_FLAG_REFUSES);
    s.actors[actor].restarts_left = 1;
    call(2);
    drop(s.actors[actor].object_1 - 1);
    CHECK(atomic_load(&s.actors[actor].state) == ACTOR_ALIVE);
    client_died(&s, worker.me, -9);
    CHECK(atomic_load(&s.actors[actor].state) == ACTOR_FREE);
    segment_lock(&s);
    CHECK(segment_check(&s, NULL, NULL) == 0);
    segment_unlock(&s);
    puts("a call that was cancelled leaves the mailbox, and the last one takes the actor along");
    groups();
    groups_in_order();
    return 0;
}
