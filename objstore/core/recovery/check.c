/* recovery/: verifying and rebuilding what is derived, every invariant; never on the path of a task. */
#include <stdlib.h>
#include <string.h>

#include "objects/shared_sync.h"
#include "recovery/check.h"
#include "recovery/verify.h"
#include "tasks/placement.h"
#include "tasks/task.h"

/* The text of a report states the invariant. Pins and counts are computed again, from the authoritative fields alone,
 * and compared. */
struct checker {
    struct segment *s;
    check_report report;
    void *context;
    uint32_t n_violations;
    uint64_t attached[CLIENT_WORDS];
    uint32_t *pins;              /* at first the references inside objects */
    uint64_t (*used)[MAX_KINDS]; /* of each pool; unsigned, as overwritten amounts may overflow */
    uint64_t (*kept)[MAX_KINDS]; /* of that, what actors and bundles keep */
    uint64_t awaited[MAX_POOLS];
    uint32_t n_through[MAX_CLASSES]; /* running tasks, by gate */
    uint32_t n_offloaded, n_shared, n_tasks, n_timers;
    uint64_t offloaded_bytes, shared_bytes;
    /* results of running tasks: sealed without the lock; their waiting tasks move on under it, a moment later */
    bool *settling;
};

static void expect(struct checker *c, bool sound, const char *what, uint64_t index, uint64_t found, uint64_t expected)
{
    if (sound)
        return;
    c->n_violations++;
    if (c->report)
        c->report(c->context, what, index, found, expected);
}

static void count_pin(struct checker *c, uint32_t object, const char *what, uint64_t index)
{
    bool valid = object < c->s->h->touched_objects && object_state(&c->s->objects[object]) != OBJECT_FREE;
    expect(c, valid, what, index, object, c->s->h->touched_objects);
    if (valid)
        c->pins[object]++;
}

static void count_resources(struct checker *c, struct task_slot *t)
{
    struct segment *s = c->s;
    int64_t scratch[MAX_KINDS];
    uint32_t state = atomic_load(&t->state);
    bool holds = state == TASK_HELD && !task_holds_nothing(s, t);
    const int64_t *amounts = state == TASK_RUNNING ? task_amounts(s, t, scratch)
                             : holds               ? s->classes[t->resource_class].hold
                                                   : NULL;
    for (uint32_t k = 0; amounts && k < s->h->n_kinds; k++)
        c->used[s->classes[t->resource_class].place.pool][k] += (uint64_t)amounts[k];
    for (uint32_t k = 0; holds && k < s->h->n_kinds; k++)
        c->kept[s->classes[t->resource_class].place.pool][k] += (uint64_t)amounts[k];
    uint32_t gate_1 = state == TASK_RUNNING && !t->actor_1 ? s->classes[t->resource_class].gate_1 : 0;
    if (gate_1 && gate_1 <= MAX_CLASSES)
        c->n_through[gate_1 - 1]++;
    bool returns = state == TASK_RUNNING && t->flags & TASK_FLAG_RETURNS;
    if (!returns)
        return;
    c->awaited[s->classes[t->resource_class].place.pool] += (uint64_t)s->classes[t->resource_class].demand[KIND_CPU];
    expect(c, t->flags & TASK_FLAG_BLOCKED && s->h->returning[t->worker % MAX_CLIENTS / 64] >> (t->worker % 64) & 1,
           "a task that waits for its CPU is blocked, and its worker is noted", t->seq, t->flags, TASK_FLAG_BLOCKED);
}

static void check_times(struct checker *c, uint32_t i, uint32_t state)
{
    struct segment *s = c->s;
    const struct task_times *x = &s->times[i];
    bool timed = s->tasks[i].flags & TASK_FLAG_TIMED,
         due = timed && x->due && (state == TASK_RUNNING || state == TASK_DELAYED);
    expect(c, due || state != TASK_DELAYED, "a delayed task knows when it goes on", i, timed ? x->due : 0, 1);
    uint32_t place = timed ? x->place_1 - 1 : UINT32_MAX;
    bool placed = place < s->h->n_timers && times_at(s, place)->heap_1 == i + 1;
    expect(c, !timed || placed == due, "what is due, and it alone, stands in the heap", i, placed, due);
    expect(c, !placed || !place || times_at(s, times_at(s, (place - 1) / 2)->heap_1 - 1)->due <= x->due,
           "the heap has what is due first above", i, place, x->due);
    expect(c, !due || (s->h->timers_at && s->h->timers_at <= x->due), "the scheduler knows when to look", i,
           s->h->timers_at, x->due);
    c->n_timers += due;
}

static void check_task(struct checker *c, uint32_t i)
{
    struct segment *s = c->s;
    struct task_slot *t = &s->tasks[i];
    uint32_t state = atomic_load(&t->state);
    if (state == TASK_FREE)
        return;
    expect(c, state <= TASK_DELAYED, "task state is known", i, state, TASK_DELAYED);
    expect(c, t->seq > 0 && t->seq < s->h->next_seq, "task seq was issued", i, t->seq, s->h->next_seq);
    expect(c, resource_is_used(s, t->resource_class), "task has a class", i, t->resource_class, s->h->n_classes);
    expect(c, t->offset < s->size, "task arguments lie in the segment", i, t->offset, s->size);
    expect(c, t->next_1 <= s->h->touched_tasks && t->next_waiting_1 <= s->h->touched_tasks,
           "a task's links lead to tasks", i, t->next_1, s->h->touched_tasks);
    count_pin(c, t->function, "task's function lives", i);
    const uint32_t *refs = task_refs(s, t);
    for (uint32_t k = 0; k < t->n_refs; k++)
        count_pin(c, refs[k], "task's argument lives", i);
    for (uint32_t k = 0; k < t->n_returns; k++)
        count_pin(c, task_result(s, t, k), "task's result lives", i);
    if (t->actor_1 && !(t->flags & TASK_FLAG_ACTOR_CREATION))
        count_pin(c, s->actors[t->actor_1 - 1].object_1 - 1, "call's actor lives", i);
    if (state == TASK_WAITING)
        expect(c,
               t->cursor < t->n_dependencies &&
                   (!object_sealed(&s->objects[refs[t->cursor]]) || c->settling[refs[t->cursor]]),
               "waiting task stands before an unsealed dependency", i, t->cursor, t->n_dependencies);
    if (state == TASK_READY || state == TASK_DELAYED)
        expect(c, t->cursor == t->n_dependencies, "ready task has all dependencies", i, t->cursor, t->n_dependencies);
    if (state == TASK_RUNNING)
        expect(c, t->worker < MAX_CLIENTS && atomic_load(&s->clients[t->worker].state) != CLIENT_FREE,
               "running task has a worker", i, t->worker, MAX_CLIENTS);
    check_times(c, i, state);
    count_resources(c, t);
}

/* A list through `next_1` fields contains only slots in use, and ends. Returns its length. */
static uint32_t check_list(struct checker *c, uint32_t at_1, bool waiting, const char *what, uint64_t index)
{
    struct segment *s = c->s;
    uint32_t n = 0;
    for (; at_1; n++) {
        bool sound = at_1 <= s->h->touched_tasks && n < s->h->touched_tasks &&
                     atomic_load(&s->tasks[at_1 - 1].state) != TASK_FREE;
        expect(c, sound, what, index, at_1, s->h->touched_tasks);
        if (!sound)
            break;
        at_1 = waiting ? s->tasks[at_1 - 1].next_waiting_1 : s->tasks[at_1 - 1].next_1;
    }
    return n;
}

static void check_object(struct checker *c, uint32_t i)
{
    struct segment *s = c->s;
    struct object_slot *o = &s->objects[i];
    uint32_t state = object_state(o);
    if (state == OBJECT_FREE) {
        expect(c, !c->pins[i], "a contained object lives", i, c->pins[i], 0);
        return;
    }
    expect(c, state <= OBJECT_FAILED, "object state is known", i, state, OBJECT_FAILED);
    expect(c, o->pins == c->pins[i], "pins equal what refers to the object", i, o->pins, c->pins[i]);
    for (uint32_t w = 0; w < CLIENT_WORDS; w++) {
        uint64_t held = atomic_load(&o->holders[w]), awaited = atomic_load(&o->waiters[w]);
        expect(c, !(held & ~c->attached[w]), "holders are attached", i, held, c->attached[w]);
        expect(c, !(awaited & ~c->attached[w]), "those who wait for an object are attached", i, awaited,
               c->attached[w]);
    }
    expect(c, o->pins || object_held(o), "a living object has a pin or a holder", i, 0, 1);
    check_list(c, o->first_waiting_1, true, "the list of those who wait for an object ends", i);
    if (state != OBJECT_PENDING)
        expect(c, c->settling[i] || o->first_waiting_1 == 0, "no task waits for a sealed object", i, o->first_waiting_1,
               0);
    else if (!(o->creator & PUT_BIT))
        expect(c, o->pins > 0, "a pending result is pinned by its task", i, o->pins, 1);
    if (state != OBJECT_READY && state != OBJECT_ERROR)
        return;
    if (object_is_absent(o) && !object_is_remote(o)) {
        c->n_offloaded++;
        c->offloaded_bytes += o->size;
        expect(c, (o->offset & ~OBJECT_ABSENT) <= s->h->last_file, "the file of an offloaded object has been begun", i,
               o->offset & ~OBJECT_ABSENT, s->h->last_file);
    }
    const struct shared_sync *sync = sync_at(s, i, 0);
    expect(c, !sync || sync_names_only(sync, c->attached), "who has joined a barrier, or owns a condition, is attached",
           i, 0, 1);
    c->n_shared += object_is_shared(o);
    c->shared_bytes += object_is_shared(o) ? o->size : 0;
    for (uint32_t w = 0; o->size >= OBJECT_MOVABLE && w < CLIENT_WORDS; w++) {
        uint64_t read = atomic_load(&s->readers[i].clients[w]);
        expect(c, !(read & ~c->attached[w]), "readers are attached", i, read, c->attached[w]);
    }
}

static void check_clients(struct checker *c)
{
    struct segment *s = c->s;
    uint32_t waking = s->h->waking_1 - 1;
    for (uint32_t w = 0; w < CLIENT_WORDS; w++) {
        expect(c, !(s->h->idle[w] & ~c->attached[w]), "idle workers are attached", w, s->h->idle[w], c->attached[w]);
        expect(c, !(s->h->returning[w] & ~c->attached[w]), "workers that wait for a CPU are attached", w,
               s->h->returning[w], c->attached[w]);
    }
    expect(c, !s->h->waking_1 || c->attached[waking / 64] >> (waking % 64) & 1, "the worker on its way is attached",
           waking, 0, 1);
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        /* an attaching client fills its slot before it takes the lock */
        if (atomic_load(&s->clients[i].state) != CLIENT_FREE)
            expect(c, s->clients[i].task_1 <= s->h->touched_tasks, "a client's task is one", i, s->clients[i].task_1,
                   s->h->touched_tasks);
}

/* `depth`: of the tasks that other tasks wait for; 0: nobody waits for those in the lane. */
static uint32_t check_lane(struct checker *c, const struct lane *lane, uint32_t class, uint32_t depth,
                           uint32_t *n_in_place)
{
    struct segment *s = c->s;
    uint32_t n_ready = 0, last_1 = 0, at_1 = lane->head_1;
    for (; at_1 && at_1 <= s->h->touched_tasks && n_ready <= s->h->n_tasks; n_ready++) {
        const struct task_slot *t = &s->tasks[at_1 - 1];
        uint32_t state = atomic_load(&t->state);
        fetch_slot(t + FETCH_AHEAD); /* a guess: tasks submitted together have adjacent chunks */
        expect(c, state == TASK_READY, "a queue holds ready tasks", at_1 - 1, state, TASK_READY);
        expect(c, t->resource_class == class, "a queue holds tasks of its class", at_1 - 1, t->resource_class, class);
        expect(c, t->depth == depth, "a queue holds tasks of its depth", at_1 - 1, t->depth, depth);
        *n_in_place += t->in_place;
        expect(c, t->next_waiting_1 == last_1, "a queue's links agree", at_1 - 1, t->next_waiting_1, last_1);
        last_1 = at_1;
        at_1 = t->next_1;
    }
    expect(c, !at_1, "a queue ends", class, at_1, 0);
    expect(c, lane->tail_1 == last_1, "a queue's tail is its last task", class, lane->tail_1, last_1);
    return n_ready;
}

static void check_queues(struct checker *c)
{
    struct segment *s = c->s;
    uint32_t total = 0, n_deep = 0;
    for (uint32_t k = 0; k < s->h->n_classes; k++) {
        bool parts[MAX_CLASSES];
        expect(c, !resource_is_used(s, k) || resource_is_whole(s, k, parts), "a class of several pools has its parts",
               k, 0, 1);
        expect(c, !resource_is_used(s, k) || gate_is_that_of(s, &s->classes[k]), "a class has its function's gate", k,
               s->classes[k].gate_1, s->h->n_gates);
        uint32_t n_ready = 0, n_in_place = 0;
        for (uint32_t i = 0; i < N_LANES + N_DEPTHS; i++) {
            uint32_t depth = i < N_LANES ? 0 : i - N_LANES + 1,
                     n = check_lane(c, &s->classes[k].lanes[i], k, depth, &n_in_place);
            n_ready += n;
            n_deep += depth ? n : 0;
            expect(c, !depth || (s->classes[k].depths >> (depth - 1) & 1) == (n != 0),
                   "it is known which depths have tasks", k, s->classes[k].depths, n);
        }
        expect(c, s->classes[k].n_in_place == n_in_place, "tasks that may pass a full gate are counted", k,
               s->classes[k].n_in_place, n_in_place);
        expect(c, s->classes[k].n_ready == n_ready, "a queue's count is right", k, s->classes[k].n_ready, n_ready);
        total += n_ready;
    }
    for (uint32_t g = 0; g < s->h->n_gates; g++)
        expect(c, s->h->gates[g].n_running == c->n_through[g], "the running tasks of a function are counted", g,
               s->h->gates[g].n_running, c->n_through[g]);
    expect(c, s->h->n_ready == total, "ready tasks are counted", 0, s->h->n_ready, total);
    expect(c, s->h->n_deep == n_deep, "ready tasks that tasks wait for are counted", 0, s->h->n_deep, n_deep);
    uint64_t held_back = s->h->reserved.class_1;
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        held_back |= s->h->returning[w];
    expect(c, s->h->holds_back == (held_back != 0), "it is known whether anything is held back", 0, s->h->holds_back,
           held_back != 0);
    uint32_t reserved = s->h->reserved.class_1 - 1;
    expect(c, !s->h->reserved.class_1 || s->classes[reserved].n_ready, "what is reserved is for a task that waits",
           reserved, 0, 1);
}

static void check_mailboxes(struct checker *c)
{
    struct segment *s = c->s;
    for (uint32_t i = 0; i < s->h->touched_actors; i++) {
        const struct actor_slot *a = &s->actors[i];
        if (atomic_load(&a->state) == ACTOR_FREE)
            continue;
        const struct task_slot *t = a->task_1 ? &s->tasks[a->task_1 - 1] : NULL;
        expect(
            c,
            !t || (atomic_load(&t->state) != TASK_FREE && t->actor_1 == i + 1 && (t->flags & TASK_FLAG_ACTOR_CREATION)),
            "an actor's constructor is one", i, a->task_1, 0);
        uint32_t n = check_list(c, a->head_1, false, "a mailbox ends", i);
        expect(c, n == a->n_pending, "a mailbox's count is right", i, a->n_pending, n);
    }
}

static void check_free_lists(struct checker *c)
{
    struct segment *s = c->s;
    uint32_t n_free = 0, at_1 = s->h->free_object_1;
    for (; at_1 && at_1 <= s->h->touched_objects && n_free < s->h->touched_objects; n_free++)
        at_1 = s->objects[at_1 - 1].first_waiting_1;
    expect(c, !at_1 && n_free == s->h->touched_objects - s->h->n_live_objects, "free objects are listed", 0, n_free,
           s->h->touched_objects - s->h->n_live_objects);
    n_free = 0;
    for (at_1 = s->h->free_task_1; at_1 && at_1 <= s->h->touched_tasks && n_free < s->h->touched_tasks; n_free++)
        at_1 = s->tasks[at_1 - 1].next_1;
    expect(c, !at_1 && n_free == s->h->touched_tasks - s->h->n_live_tasks, "free tasks are listed", 0, n_free,
           s->h->touched_tasks - s->h->n_live_tasks);
}

static void check_pool(struct checker *c, uint32_t pool)
{
    const struct pool *p = &c->s->h->pools[pool];
    for (uint32_t k = 0; k < c->s->h->n_kinds; k++) {
        uint64_t expected = (uint64_t)p->total[k] - c->used[pool][k];
        expect(c, (uint64_t)p->available[k] == expected, "available resources are what is not used",
               pool * MAX_KINDS + k, (uint64_t)p->available[k], expected);
        expect(c, (uint64_t)p->kept[k] == c->kept[pool][k], "what actors and bundles hold is counted",
               pool * MAX_KINDS + k, (uint64_t)p->kept[k], c->kept[pool][k]);
    }
    expect(c, (uint64_t)p->awaited == c->awaited[pool], "CPUs that are waited for are counted", pool,
           (uint64_t)p->awaited, c->awaited[pool]);
}

static void check_resources(struct checker *c)
{
    struct segment *s = c->s;
    uint32_t n_unplaced = 0;
    for (uint32_t g = placement_next(s, 1); g < MAX_POOLS; g = placement_next(s, g + s->h->pools[g].n)) {
        n_unplaced += placement_lives(&s->h->pools[g]) && placement_is_open(&s->h->pools[g]);
        for (uint32_t i = g; placement_holds(&s->h->pools[g]) && i < g + s->h->pools[g].n; i++) {
            check_pool(c, i);
            for (uint32_t k = 0; s->h->pools[i].client_1 == POOL_HERE && k < s->h->n_kinds; k++)
                c->used[0][k] += (uint64_t)s->h->pools[i].total[k], c->kept[0][k] += (uint64_t)s->h->pools[i].total[k];
        }
    }
    check_pool(c, 0);
    expect(c, s->h->n_unplaced == n_unplaced, "placement groups with open bundles are counted", 0, s->h->n_unplaced,
           n_unplaced);
}

/* verify.c comes first, since everything else follows indices and offsets. */
static bool is_safe(struct checker *c)
{
    struct survey survey = {c->pins, false, false};
    const char *wrong = NULL;
    uint64_t at = 0;
    bool safe = header_is_safe(c->s) ? slots_are_safe(c->s, &survey, &wrong, &at) : segment_is_safe(c->s, &wrong, &at);
    expect(c, safe, wrong, at, 0, 0);
    return safe;
}

static void count_pins(struct checker *c)
{
    struct segment *s = c->s;
    for (uint32_t g = placement_next(s, 1); g < MAX_POOLS; g = placement_next(s, g + s->h->pools[g].n))
        count_pin(c, s->h->pools[g].object_1 - 1, "a placement group's object lives", g);
    for (uint32_t i = 0; i < s->h->touched_actors; i++) {
        const struct actor_slot *a = &s->actors[i];
        if (atomic_load(&a->state) == ACTOR_FREE)
            continue;
        if (a->death_object_1)
            count_pin(c, a->death_object_1 - 1, "an actor's cause of death lives", i);
        if (a->checkpoint_1)
            count_pin(c, a->checkpoint_1 - 1, "an actor's checkpoint lives", i);
        if (a->object_1 && (a->flags & ACTOR_FLAG_DETACHED))
            count_pin(c, a->object_1 - 1, "a detached actor's object lives", i);
    }
}

static void check_tasks(struct checker *c)
{
    struct segment *s = c->s;
    clients_attached(s, c->attached);
    for (uint32_t i = 0; i < s->h->touched_tasks; i++) {
        fetch_slot(&s->tasks[i + FETCH_AHEAD]);
        for (uint32_t k = 0; atomic_load(&s->tasks[i].state) == TASK_RUNNING && k < s->tasks[i].n_returns; k++)
            c->settling[task_result(s, &s->tasks[i], k)] = true;
    }
    for (uint32_t i = 0; i < s->h->touched_tasks; i++) {
        fetch_slot(&s->tasks[i + FETCH_AHEAD]);
        check_task(c, i);
        c->n_tasks += atomic_load(&s->tasks[i].state) != TASK_FREE;
    }
    expect(c, s->h->n_timers == c->n_timers, "what is due is counted", 0, s->h->n_timers, c->n_timers);
    check_clients(c);
    check_queues(c);
    check_mailboxes(c);
    check_resources(c);
}

static void check_objects(struct checker *c)
{
    struct segment *s = c->s;
    struct header *h = s->h;
    uint32_t n_live = 0;
    count_pins(c);
    for (uint32_t i = 0; i < h->touched_objects; i++) {
        fetch_slot(&s->objects[i + FETCH_AHEAD]);
        check_object(c, i);
        n_live += object_state(&s->objects[i]) != OBJECT_FREE;
    }
    expect(c, h->n_live_objects == n_live, "living objects are counted", 0, h->n_live_objects, n_live);
    expect(c, h->n_offloaded == c->n_offloaded, "offloaded objects are counted", 0, h->n_offloaded, c->n_offloaded);
    expect(c, h->offloaded_bytes == c->offloaded_bytes, "offloaded bytes are counted", 0, h->offloaded_bytes,
           c->offloaded_bytes);
    expect(c, h->n_shared == c->n_shared, "shared objects are counted", 0, h->n_shared, c->n_shared);
    expect(c, h->shared_bytes == c->shared_bytes, "shared bytes are counted", 0, h->shared_bytes, c->shared_bytes);
    expect(c, h->n_live_tasks == c->n_tasks, "living tasks are counted", 0, h->n_live_tasks, c->n_tasks);
    check_free_lists(c);
}

static void check_everything(struct checker *c)
{
    if (!is_safe(c))
        return;
    expect(c, arena_check(&c->s->h->arena, c->s->base) == OBJSTORE_OK, "the arena is sound", 0, 0, 0);
    check_tasks(c);
    check_objects(c);
}

/* Found from the waiting tasks, not from the objects, of which there may be many more. */
static void check_waiting_lists(struct checker *c)
{
    struct segment *s = c->s;
    for (uint32_t i = 0; i < s->h->touched_tasks; i++) {
        struct task_slot *t = &s->tasks[i];
        uint32_t state = atomic_load(&t->state);
        if ((state != TASK_WAITING && state != TASK_CANCELLED) || t->cursor >= t->n_dependencies)
            continue;
        uint32_t object = task_refs(s, t)[t->cursor];
        if (c->pins[object] == UINT32_MAX)
            continue;
        c->pins[object] = UINT32_MAX; /* not needed here; marks that this list has been visited */
        check_list(c, s->objects[object].first_waiting_1, true, "the list of those who wait for an object ends",
                   object);
    }
}

static void check_tasks_alone(struct checker *c)
{
    check_tasks(c);
    check_waiting_lists(c);
}

static uint32_t run_check(struct segment *s, void (*check)(struct checker *), check_report report, void *context)
{
    uint32_t n_objects = s->h->touched_objects < s->n_objects ? s->h->touched_objects + 1 : s->n_objects;
    struct checker c = {.s = s,
                        .report = report,
                        .context = context,
                        .pins = calloc(n_objects, sizeof *c.pins),
                        .used = calloc(MAX_POOLS, sizeof *c.used),
                        .kept = calloc(MAX_POOLS, sizeof *c.kept),
                        .settling = calloc(n_objects, sizeof *c.settling)};
    if (!c.pins || !c.used || !c.kept || !c.settling)
        c.n_violations = 1; /* unknown */
    else
        check(&c);
    free(c.pins);
    free(c.used);
    free(c.kept);
    free(c.settling);
    return c.n_violations;
}

uint32_t segment_check(struct segment *s, check_report report, void *context)
{
    return run_check(s, check_everything, report, context);
}

bool tasks_are_sound(struct segment *s) { return run_check(s, check_tasks_alone, NULL, NULL) == 0; }
