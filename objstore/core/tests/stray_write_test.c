/* One word of the segment is overwritten, as by a stray write of any attached process; then a driver or a worker does
 * what follows that word. The segment is condemned, or the value is found to be out of range without that; no process
 * reads outside the mapping, or loops. */
#define _GNU_SOURCE
#include "tests/small_world.h"

#include <string.h>
#include <unistd.h>

#include "clients/remote_node.h"
#include "clients/route.h"
#include "objects/shared_sync.h"
#include "tasks/task_stream.h"

#define STRAY 0xfffffff0u
enum { HANGS_AFTER_S = 20 };
static struct segment s, worker;
static uint32_t object, inner, task, actor, stream, result, barrier, condition; /* what the world holds */

static uint32_t put(uint64_t size, const uint32_t *refs, uint32_t n_refs)
{
    uint32_t made = created(&s);
    segment_lock(&s);
    uint64_t offset = object_allocate(&s, size, n_refs);
    CHECK(offset);
    if (n_refs)
        memcpy(object_refs_at(&s, offset, size), refs, n_refs * sizeof *refs);
    CHECK(object_seal_arena(&s, made, OBJECT_READY, offset, size, n_refs));
    segment_unlock(&s);
    return made;
}

static uint32_t shared(uint32_t kind)
{
    uint32_t made = created(&s);
    segment_lock(&s);
    uint64_t offset = object_allocate(&s, sizeof(struct shared_sync), 0);
    CHECK(offset);
    memset(s.base + offset, 0, sizeof(struct shared_sync));
    sync_format((struct shared_sync *)(void *)(s.base + offset), kind, 2);
    CHECK(object_seal_arena(&s, made, OBJECT_READY, offset, sizeof(struct shared_sync), REFS_OF_SYNC));
    segment_unlock(&s);
    return made;
}

/* Chunks in use in front of and behind a free one; a queue of two tasks; an actor with two calls; a stream. */
static void make_world(void)
{
    uint32_t refs[2];
    s = new_world();
    worker = attached(ROLE_WORKER);
    actor = made_actor(&s, &worker, 0);
    submitted(&s, (struct task_spec){.actor_1 = actor + 1});
    submitted(&s, (struct task_spec){.actor_1 = actor + 1});
    inner = put(200, NULL, 0);
    uint32_t between = put(200, NULL, 0);
    object = put(300, &inner, 1);
    task = submitted(&s, (struct task_spec){.n_refs = 1, .refs = &inner});
    submitted(&s, (struct task_spec){.n_refs = 1, .refs = &inner});
    struct task_spec yields = {.function = function, .resource_class = class_small, .n_returns = 1};
    segment_lock(&s);
    CHECK(task_submit_stream(&s, &yields, refs, 2, &result, &stream) == OBJSTORE_OK);
    segment_unlock(&s);
    barrier = shared(SYNC_BARRIER);
    condition = shared(SYNC_CONDITION);
    client_drop(&s, &between, 1);
    worker.clients[worker.me].actor_1 = 0; /* so that it takes tasks, too */
}

/* ------------------------------------------------------------------ what is done */

static void drops(void) { client_drop(&s, &object, 1); }
static void puts_and_drops(void)
{
    segment_lock(&s);
    uint64_t offset = object_allocate(&s, 100, 0);
    if (offset)
        arena_free(segment_arena(&s), s.base, offset);
    object_allocate(&s, 100000, 0);
    segment_unlock(&s);
}
static void creates(void)
{
    uint32_t made;
    segment_lock(&s);
    object_create(&s, s.me, PUT_BIT, &made);
    segment_unlock(&s);
}
static void submits(void)
{
    struct task_spec spec = {.function = function, .resource_class = class_small, .n_returns = 1};
    uint32_t made, its_result;
    segment_lock(&s);
    task_submit(&s, &spec, &its_result, &made);
    segment_unlock(&s);
}
static void works(void)
{
    for (uint32_t popped_task; (popped_task = popped(&worker)) != UINT32_MAX && !worker.h->corrupt;)
        finish(&worker, popped_task);
}
static void serves(void)
{
    segment_lock(&worker);
    for (uint32_t call; (call = task_pop_call(&worker, actor)) != UINT32_MAX && !worker.h->corrupt;)
        task_finish(&worker, call, EVENT_OK);
    segment_unlock(&worker);
}
static void cancels(void)
{
    uint32_t its_task, its_worker;
    segment_lock(&s);
    task_cancel(&s, task_result(&s, &s.tasks[task], 0), &its_task, &its_worker);
    segment_unlock(&s);
}
static void kills(void)
{
    segment_lock(&s);
    actor_die(&s, actor, 0);
    segment_unlock(&s);
}
static void calls(void)
{
    struct task_spec spec = {.function = function, .resource_class = class_small, .n_returns = 1, .actor_1 = actor + 1};
    uint32_t made, its_result;
    segment_lock(&s);
    task_submit(&s, &spec, &its_result, &made);
    segment_unlock(&s);
}
static void reads(void)
{
    uint32_t item;
    segment_lock(&s);
    if (stream_peek(&s, stream, &item) == OBJSTORE_OK)
        stream_take(&s, stream, item);
    segment_unlock(&s);
}
static void locks(void)
{
    segment_lock(&s);
    segment_unlock(&s);
}
static void routes(void) /* the agent: tasks that can begin nowhere fail */
{
    segment_lock(&s);
    route_fail(&s, class_small, false);
    segment_unlock(&s);
}
static void groups(void)
{
    segment_lock(&s);
    placement_grant(&s);
    segment_unlock(&s);
}

static void waits(void) /* and one of those that wait dies */
{
    struct shared_sync *b = sync_at(&s, barrier, SYNC_BARRIER), *c = sync_at(&s, condition, SYNC_CONDITION);
    uint64_t ticket;
    if (b && barrier_arrive(&s, b, &ticket) == SYNC_PENDING)
        barrier_withdraw(b, ticket);
    if (c && condition_lock(&s, c, 7) == SYNC_DONE) {
        condition_notify(c, 3);
        condition_unlock(&s, c, 7);
    }
    if (c)
        sync_look_after(&s, c);
    CHECK(!c || !atomic_load(&c->word) || sync_is_broken(c)); /* nobody owns it for ever */
    client_died(&s, worker.me, 1);
}
static void drops_barrier(void) { client_drop(&s, &barrier, 1); }

/* ------------------------------------------------------------------ what is overwritten */

static struct object_slot *slot(void) { return &s.objects[object]; }
static struct task_slot *queued(void) { return &s.tasks[task]; }
static uint64_t *chunk(uint32_t of, int word)
{
    return (uint64_t *)(void *)(s.base + s.objects[of].offset - ARENA_UNIT) + word;
}
static uint64_t *gap(int word) { return chunk(inner, 0) + (ARENA_UNIT + *chunk(inner, 1)) / 8 + word; }
static struct lane *lane(void)
{
    struct lane *l = s.classes[class_small].lanes;
    while (!l->head_1)
        l++;
    return l;
}

static void offset_beyond(void) { slot()->offset = UINT64_C(1) << 40; }
static void offset_odd(void) { slot()->offset += 8; }
static void size_of_object(void) { slot()->size = UINT64_C(1) << 40; }
static void n_refs_of_object(void) { slot()->u.arena.n_refs = STRAY; }
static void ref_of_object(void) { *object_refs_at(&s, slot()->offset, slot()->size) = STRAY; }
static void actor_of_object(void) { slot()->u.arena.actor_1 = STRAY; }
static void state_of_object(void) { slot()->state = OBJECT_FREE; }
static void failed_with_offset(void)
{
    slot()->state = OBJECT_FAILED;
    slot()->offset = UINT64_C(1) << 40;
}
static void free_object(void) { s.h->free_object_1 = STRAY; }
static void free_object_in_use(void) { s.h->free_object_1 = object + 1; }
static void free_task(void) { s.h->free_task_1 = STRAY; }
static void free_task_in_use(void) { s.h->free_task_1 = task + 1; }

static void header_of_chunk(void) { *chunk(object, 0) = STRAY; }
static void size_of_chunk(void) { *chunk(object, 1) = UINT64_C(1) << 40; }
static void chunk_in_front(void) { *chunk(object, 3) = UINT64_C(1) << 40; }
static void size_of_gap(void) { *gap(1) = UINT64_C(1) << 40; }
static void link_of_gap(void) { *gap(4) = UINT64_C(1) << 40; }
static void link_back_of_gap(void) { *gap(5) = UINT64_C(1) << 40; }
static void heads(void)
{
    for (unsigned level = 0; level < ARENA_N_LEVELS; level++)
        for (unsigned sublevel = 0; sublevel < ARENA_N_SUBLEVELS; sublevel++)
            s.h->arena.heads[level][sublevel] = UINT64_C(1) << 40;
}
static void levels(void)
{
    memset(s.h->arena.heads, 0, sizeof s.h->arena.heads);
    memset(s.h->arena.sublevels, 0, sizeof s.h->arena.sublevels);
    s.h->arena.levels = UINT64_C(1) << 60;
}
static void top(void) { s.h->arena.top = UINT64_C(1) << 40; }
static void end_of_arena(void) { s.h->arena.end = UINT64_C(1) << 40; }
static void begin_of_arena(void) { s.h->arena.begin = 0; }

static void queue_head(void) { lane()->head_1 = STRAY; }
static void queue_head_in_circles(void) { queued()->next_1 = task + 1; }
static void queue_tail(void) { lane()->tail_1 = STRAY; }
static void queue_of_others(void)
{
    for (struct lane *l = s.classes[class_small].lanes; l < s.classes[class_small].lanes + N_LANES; l++)
        l->head_1 = l->tail_1 = 0;
    queued()->next_1 = queued()->next_waiting_1 = 0;
}
static void function_of_task(void) { queued()->function = STRAY; }
static void result_of_task(void) { queued()->result_1 = STRAY; }
static void class_of_task(void) { queued()->resource_class = UINT16_MAX; }
static void n_refs_of_task(void) { queued()->n_refs = STRAY; }
static void n_returns_of_task(void) { queued()->n_returns = UINT16_MAX; }
static void offset_of_task(void) { queued()->offset = UINT64_C(1) << 40; }
static void ref_of_task(void) { *(uint32_t *)(void *)queued()->inline_data = STRAY; }
static void n_dependencies_of_task(void) { queued()->n_dependencies = STRAY; }
static void place_of_class(void) { s.classes[class_small].place.pool = UINT16_MAX; }
static void pool_s_head(void) { s.h->pools[0].head = STRAY; }
static void n_kinds(void) { s.h->n_kinds = STRAY; }
static void n_classes(void) { s.h->n_classes = STRAY; }
static void touched_tasks(void) { s.h->touched_tasks = STRAY; }
static void agent(void)
{
    s.h->agent_1 = STRAY;
    memset(s.h->idle, 0, sizeof s.h->idle);
}
static void waiting_list(void)
{
    uint32_t its_result = task_result(&s, queued(), 0);
    s.objects[its_result].first_waiting_1 = STRAY;
}
static void pools(void)
{
    s.h->touched_pools = 4;
    s.h->n_unplaced = 1;
    s.h->pools[1].state = POOL_PENDING; /* a group without bundles: it would be looked at for ever */
}

static struct task_slot *call(void) { return &s.tasks[s.actors[actor].head_1 - 1]; }
static void caller(void) { call()->caller = 511; }
static void group(void) { call()->group = UINT16_MAX; }
static void actor_of_call(void) { call()->actor_1 = STRAY; }
static void mailbox(void) { s.actors[actor].head_1 = STRAY; }
static void mailbox_in_circles(void)
{
    call()->next_1 = s.actors[actor].head_1;
    atomic_store(&call()->state, TASK_WAITING);
}
static void mailbox_s_end(void) { s.actors[actor].tail_1 = STRAY; }
static void worker_of_actor(void)
{
    s.actors[actor].worker_1 = STRAY;
    s.actors[actor].flags |= ACTOR_FLAG_IDLE;
}
static void constructor(void) { s.actors[actor].task_1 = STRAY; }
static void object_of_actor(void) { s.actors[actor].object_1 = STRAY; }

static void place_of_stream(void) { s.objects[stream].offset = UINT64_C(1) << 40; }
static void n_of_stream(void) { stream_at(&s, s.objects[stream].offset)->n = STRAY; }
static void capacity_of_stream(void)
{
    stream_at(&s, s.objects[stream].offset)->n = stream_at(&s, s.objects[stream].offset)->capacity = STRAY;
}
static void result_of_stream(void) { *object_refs_at(&s, s.objects[stream].offset, sizeof(struct stream)) = STRAY; }

static struct shared_sync *sync_of(uint32_t of)
{
    return (struct shared_sync *)(void *)(s.base + s.objects[of].offset);
}
static void kind_of_sync(void) { sync_of(barrier)->kind = STRAY; }
static void n_of_barrier(void) { sync_of(barrier)->n = STRAY; }
static void size_of_sync(void) { s.objects[barrier].size = 8; }
static void place_of_sync(void) { s.objects[barrier].offset = UINT64_C(1) << 40; }
static void arrived_of_barrier(void) { sync_of(barrier)->word = UINT64_C(0xffff); }
static void members_of_barrier(void) { sync_of(barrier)->members[3] = UINT64_MAX; }
static void owner_of_condition(void) { sync_of(condition)->word = STRAY; }
static void waiting_of_condition(void) { sync_of(condition)->n_notified = STRAY; }

static void lock_of_nobody(void) { s.h->lock = MAX_CLIENTS + 3; }
static void lock_of_a_free_slot(void) { s.h->lock = MAX_CLIENTS - 1; }
static void lock_of_a_former_client(void)
{
    s.h->lock = ((s.clients[worker.me].generation + 1) << LOCK_CLIENT_BITS) | (worker.me + 1);
}

static const struct stray {
    const char *name;
    void (*overwrite)(void), (*act)(void);
    bool harmless; /* nothing follows it: all goes on */
} strays[] = {
#define STRAYS(what, acts) {#what ", " #acts, what, acts, false}
    STRAYS(offset_beyond, drops),
    STRAYS(offset_odd, drops),
    STRAYS(size_of_object, drops),
    STRAYS(n_refs_of_object, drops),
    STRAYS(ref_of_object, drops),
    STRAYS(actor_of_object, drops),
    STRAYS(state_of_object, drops),
    {"a failed object's offset", failed_with_offset, drops, true},
    STRAYS(free_object, creates),
    STRAYS(free_object_in_use, creates),
    STRAYS(free_task, submits),
    STRAYS(free_task_in_use, submits),
    STRAYS(header_of_chunk, drops),
    STRAYS(size_of_chunk, drops),
    STRAYS(chunk_in_front, drops),
    STRAYS(size_of_gap, drops),
    STRAYS(link_of_gap, drops),
    STRAYS(link_back_of_gap, drops),
    STRAYS(heads, puts_and_drops),
    STRAYS(levels, puts_and_drops),
    STRAYS(top, puts_and_drops),
    STRAYS(end_of_arena, puts_and_drops),
    STRAYS(begin_of_arena, puts_and_drops),
    STRAYS(queue_head, works),
    STRAYS(queue_head_in_circles, works),
    STRAYS(queue_tail, submits),
    STRAYS(queue_of_others, cancels),
    STRAYS(function_of_task, works),
    STRAYS(result_of_task, works),
    STRAYS(class_of_task, works),
    STRAYS(class_of_task, routes),
    STRAYS(n_refs_of_task, works),
    STRAYS(n_returns_of_task, works),
    STRAYS(offset_of_task, works),
    STRAYS(ref_of_task, works),
    STRAYS(n_dependencies_of_task, works),
    STRAYS(place_of_class, works),
    STRAYS(pool_s_head, submits),
    STRAYS(n_kinds, works),
    STRAYS(n_classes, works),
    STRAYS(touched_tasks, locks),
    STRAYS(agent, submits),
    STRAYS(waiting_list, cancels),
    STRAYS(pools, groups),
    STRAYS(caller, serves),
    STRAYS(group, serves),
    STRAYS(actor_of_call, serves),
    STRAYS(mailbox, serves),
    STRAYS(mailbox_in_circles, serves),
    STRAYS(mailbox_s_end, calls),
    STRAYS(worker_of_actor, calls),
    STRAYS(constructor, kills),
    STRAYS(object_of_actor, calls),
    STRAYS(mailbox, kills),
    STRAYS(place_of_stream, reads),
    STRAYS(n_of_stream, reads),
    STRAYS(capacity_of_stream, reads),
    STRAYS(result_of_stream, reads),
    STRAYS(kind_of_sync, waits),
    STRAYS(n_of_barrier, waits),
    STRAYS(size_of_sync, waits),
    STRAYS(place_of_sync, waits),
    STRAYS(place_of_sync, drops_barrier),
    {"more have come than there are", arrived_of_barrier, waits, true},
    {"others have joined", members_of_barrier, waits, true},
    {"nobody owns a condition", owner_of_condition, waits, true},
    {"more are notified than wait", waiting_of_condition, waits, true},
    STRAYS(lock_of_nobody, locks),
    STRAYS(lock_of_a_free_slot, locks),
    STRAYS(lock_of_a_former_client, locks),
};

int main(void)
{
    int n_failed = 0;
    for (size_t i = 0; i < sizeof strays / sizeof *strays; i++) {
        make_world();
        strays[i].overwrite();
        printf("%s\n", strays[i].name); /* the last one is where it died, or hung */
        fflush(stdout);
        alarm(HANGS_AFTER_S);
        strays[i].act();
        alarm(0);
        bool condemned = s.h->corrupt && s.h->closing;
        if (condemned == strays[i].harmless)
            printf("^^^^ %s\n", condemned ? "condemned" : "not condemned"), n_failed++;
        munmap(base, SIZE);
    }
    return n_failed != 0;
}
