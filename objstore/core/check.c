#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "placement.h"
#include "recover.h"
#include "task.h"

/* What each invariant says is the text of its report. Pins and counts are computed a second time, from the
 * authoritative fields only, and compared. */
struct checker {
    struct segment *s;
    check_report report;
    void *context;
    uint32_t n_violations;
    uint64_t attached[CLIENT_WORDS];
    uint32_t *pins; /* at first what objects contain */
    uint64_t (*used)[MAX_KINDS]; /* of each pool; unsigned: overwritten amounts may overflow */
    uint32_t n_away, n_tasks;
    uint64_t away_bytes;
    bool *settling; /* results of running tasks: sealed without the lock, and those who wait moved on under it, a moment later */
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
    const int64_t *amounts = state == TASK_RUNNING ? task_amounts(s, t, scratch) : holds ? s->classes[t->resource_class].hold : NULL;
    for (uint32_t k = 0; amounts && k < s->h->n_kinds; k++)
        c->used[s->classes[t->resource_class].place.pool][k] += (uint64_t)amounts[k];
}

static void check_task(struct checker *c, uint32_t i)
{
    struct segment *s = c->s;
    struct task_slot *t = &s->tasks[i];
    uint32_t state = atomic_load(&t->state);
    if (state == TASK_FREE)
        return;
    expect(c, state <= TASK_HELD, "task state is known", i, state, TASK_HELD);
    expect(c, t->seq > 0 && t->seq < s->h->next_seq, "task seq was issued", i, t->seq, s->h->next_seq);
    expect(c, resource_is_used(s, t->resource_class), "task has a class", i, t->resource_class, s->h->n_classes);
    expect(c, t->offset < s->size, "task arguments lie in the segment", i, t->offset, s->size);
    expect(c, t->next_1 <= s->h->touched_tasks && t->next_waiting_1 <= s->h->touched_tasks, "a task's links lead to tasks", i, t->next_1,
           s->h->touched_tasks);
    count_pin(c, t->function, "task's function lives", i);
    const uint32_t *refs = task_refs(s, t);
    for (uint32_t k = 0; k < t->n_refs; k++)
        count_pin(c, refs[k], "task's argument lives", i);
    for (uint32_t k = 0; k < t->n_returns; k++)
        count_pin(c, task_result(s, t, k), "task's result lives", i);
    if (t->actor_1 && !(t->flags & TASK_FLAG_ACTOR_CREATION))
        count_pin(c, s->actors[t->actor_1 - 1].object_1 - 1, "call's actor lives", i);
    if (state == TASK_WAITING)
        expect(c, t->cursor < t->n_dependencies && (!object_sealed(&s->objects[refs[t->cursor]]) || c->settling[refs[t->cursor]]),
               "waiting task stands before an unsealed dependency", i, t->cursor, t->n_dependencies);
    if (state == TASK_READY)
        expect(c, t->cursor == t->n_dependencies, "ready task has all dependencies", i, t->cursor, t->n_dependencies);
    if (state == TASK_RUNNING)
        expect(c, t->worker < MAX_CLIENTS && atomic_load(&s->clients[t->worker].state) != CLIENT_FREE,
               "running task has a worker", i, t->worker, MAX_CLIENTS);
    count_resources(c, t);
}

/* Lists through `next_1` fields: they lead to slots in use only, and end. Returns the length. */
static uint32_t check_list(struct checker *c, uint32_t at_1, bool waiting, const char *what, uint64_t index)
{
    struct segment *s = c->s;
    uint32_t n = 0;
    for (; at_1; n++) {
        bool sound = at_1 <= s->h->touched_tasks && n < s->h->touched_tasks && atomic_load(&s->tasks[at_1 - 1].state) != TASK_FREE;
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
        expect(c, !(awaited & ~c->attached[w]), "those who wait for an object are attached", i, awaited, c->attached[w]);
    }
    expect(c, o->pins || object_held(o), "a living object has a pin or a holder", i, 0, 1);
    check_list(c, o->first_waiting_1, true, "the list of those who wait for an object ends", i);
    if (state != OBJECT_PENDING)
        expect(c, c->settling[i] || o->first_waiting_1 == 0, "no task waits for a sealed object", i, o->first_waiting_1, 0);
    else if (!(o->creator & PUT_BIT))
        expect(c, o->pins > 0, "a pending result is pinned by its task", i, o->pins, 1);
    if (state != OBJECT_READY && state != OBJECT_ERROR)
        return;
    if (object_is_away(o) && !object_is_elsewhere(o)) {
        c->n_away++;
        c->away_bytes += o->size;
        expect(c, (o->offset & ~OBJECT_AWAY) <= s->h->last_file, "the file of an object on disk has been begun", i,
               o->offset & ~OBJECT_AWAY, s->h->last_file);
    }
    for (uint32_t w = 0; o->size >= OBJECT_MOVABLE && w < CLIENT_WORDS; w++) {
        uint64_t read = atomic_load(&s->readers[i].clients[w]);
        expect(c, !(read & ~c->attached[w]), "readers are attached", i, read, c->attached[w]);
    }
}

static void check_clients(struct checker *c)
{
    struct segment *s = c->s;
    uint32_t waking = s->h->waking_1 - 1;
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        expect(c, !(s->h->idle[w] & ~c->attached[w]), "idle workers are attached", w, s->h->idle[w], c->attached[w]);
    expect(c, !s->h->waking_1 || c->attached[waking / 64] >> (waking % 64) & 1, "the worker on its way is attached", waking, 0, 1);
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        if (atomic_load(&s->clients[i].state) != CLIENT_FREE) /* who attaches fills its slot in before it takes the lock */
            expect(c, s->clients[i].task_1 <= s->h->touched_tasks, "a client's task is one", i, s->clients[i].task_1, s->h->touched_tasks);
}

static uint32_t check_lane(struct checker *c, const struct lane *lane, uint32_t class)
{
    struct segment *s = c->s;
    uint32_t n_ready = 0, last_1 = 0, at_1 = lane->head_1;
    for (; at_1 && at_1 <= s->h->touched_tasks && n_ready <= s->h->n_tasks; n_ready++) {
        const struct task_slot *t = &s->tasks[at_1 - 1];
        uint32_t state = atomic_load(&t->state);
        fetch_slot(t + FETCH_AHEAD); /* a guess: what was submitted together lies together */
        expect(c, state == TASK_READY, "a queue holds ready tasks", at_1 - 1, state, TASK_READY);
        expect(c, t->resource_class == class, "a queue holds tasks of its class", at_1 - 1, t->resource_class, class);
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
    uint32_t total = 0;
    for (uint32_t k = 0; k < s->h->n_classes; k++) {
        bool parts[MAX_CLASSES];
        expect(c, !resource_is_used(s, k) || resource_is_whole(s, k, parts), "a class of several pools has its parts", k, 0, 1);
        uint32_t n_ready = 0;
        for (uint32_t i = 0; i < N_LANES; i++)
            n_ready += check_lane(c, &s->classes[k].lanes[i], k);
        expect(c, s->classes[k].n_ready == n_ready, "a queue's count is right", k, s->classes[k].n_ready, n_ready);
        total += n_ready;
    }
    expect(c, s->h->n_ready == total, "ready tasks are counted", 0, s->h->n_ready, total);
}

static void check_mailboxes(struct checker *c)
{
    struct segment *s = c->s;
    for (uint32_t i = 0; i < s->h->touched_actors; i++) {
        const struct actor_slot *a = &s->actors[i];
        if (atomic_load(&a->state) == ACTOR_FREE)
            continue;
        const struct task_slot *t = a->task_1 ? &s->tasks[a->task_1 - 1] : NULL;
        expect(c, !t || (atomic_load(&t->state) != TASK_FREE && t->actor_1 == i + 1 && (t->flags & TASK_FLAG_ACTOR_CREATION)),
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
        expect(c, (uint64_t)p->available[k] == expected, "available resources are what is not used", pool * MAX_KINDS + k,
               (uint64_t)p->available[k], expected);
    }
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
                c->used[0][k] += (uint64_t)s->h->pools[i].total[k];
        }
    }
    check_pool(c, 0);
    expect(c, s->h->n_unplaced == n_unplaced, "placement groups with open bundles are counted", 0, s->h->n_unplaced, n_unplaced);
}

/* What verify.c decides comes first: all else follows indices and offsets. */
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
    expect(c, h->n_away == c->n_away, "objects on disk are counted", 0, h->n_away, c->n_away);
    expect(c, h->away_bytes == c->away_bytes, "bytes on disk are counted", 0, h->away_bytes, c->away_bytes);
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

/* Found by those who wait in them, not by the objects, of which there may be many more. */
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
        c->pins[object] = UINT32_MAX; /* of no interest here; says that this list has been looked at */
        check_list(c, s->objects[object].first_waiting_1, true, "the list of those who wait for an object ends", object);
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
    struct checker c = {.s = s, .report = report, .context = context, .pins = calloc(n_objects, sizeof *c.pins),
                        .used = calloc(MAX_POOLS, sizeof *c.used), .settling = calloc(n_objects, sizeof *c.settling)};
    if (!c.pins || !c.used || !c.settling)
        c.n_violations = 1; /* nobody knows */
    else
        check(&c);
    free(c.pins);
    free(c.used);
    free(c.settling);
    return c.n_violations;
}

uint32_t segment_check(struct segment *s, check_report report, void *context)
{
    return run_check(s, check_everything, report, context);
}

bool tasks_are_sound(struct segment *s)
{
    return run_check(s, check_tasks_alone, NULL, NULL) == 0;
}
