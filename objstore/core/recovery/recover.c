#include "recovery/recover.h"

#include <stdlib.h>
#include <string.h>

#include "objects/offload.h"
#include "objects/shared_sync.h"
#include "recovery/verify.h"
#include "tasks/actor.h"
#include "tasks/placement.h"
#include "tasks/task.h"
#include "tasks/timer.h"

static bool keep_chunk(void *ctx, uint32_t kind, uint32_t owner, uint64_t payload)
{
    struct segment *s = ctx;
    switch (kind) {
    case ARENA_OBJECT:
        /* a guess: objects made together have adjacent chunks */
        fetch_slot(&s->objects[(uint64_t)owner + FETCH_AHEAD]);
        return owner < s->h->touched_objects && object_state(&s->objects[owner]) != OBJECT_FREE &&
               object_chunk(&s->objects[owner]) == payload;
    case ARENA_TASK:
        return owner < s->h->touched_tasks && atomic_load(&s->tasks[owner].state) != TASK_FREE &&
               s->tasks[owner].offset == payload;
    case ARENA_BUILDING:
    case ARENA_ARRAY: /* of a live client, or already named by a slot that was committed just before the death */
        if (owner < MAX_CLIENTS && atomic_load(&s->clients[owner].state) == CLIENT_ATTACHED)
            return true;
        return false;
    default:
        return false;
    }
}

/* The chunk of a committed slot may still be marked as being built: its owner is set last. */
static void claim_chunks(struct segment *s)
{
    for (uint32_t i = 0; i < s->h->touched_objects; i++) {
        uint32_t state = object_state(&s->objects[i]);
        if ((state == OBJECT_READY || state == OBJECT_ERROR) && object_chunk(&s->objects[i]))
            arena_set_owner(s->base, object_chunk(&s->objects[i]), ARENA_OBJECT, i);
    }
    for (uint32_t i = 0; i < s->h->touched_tasks; i++)
        if (atomic_load(&s->tasks[i].state) != TASK_FREE && s->tasks[i].offset)
            arena_set_owner(s->base, s->tasks[i].offset, ARENA_TASK, i);
}

/* Private memory of the process that recovers. Each pass over all slots takes 10 to 20 ms with a million objects, while
 * all clients wait; so the passes collect notes here that would need further passes. */
struct notes {
    struct survey survey;
    uint32_t *idle, n_idle; /* objects that no client holds and no object contains */
    struct place_in_line {
        uint64_t seq;
        uint32_t task;
    } *line; /* twice as many as tasks */
};

static void begin_notes(struct segment *s, struct notes *n)
{
    size_t n_objects = s->h->touched_objects + 1u, n_tasks = s->h->touched_tasks + 1u;
    *n = (struct notes){.survey.contained = calloc(n_objects, sizeof(uint32_t)),
                        .idle = malloc(n_objects * sizeof *n->idle),
                        .line = malloc(2 * n_tasks * sizeof *n->line)};
    if (!n->survey.contained || !n->idle || !n->line)
        abort(); /* without memory for the rebuild the segment cannot be made sound; the next client tries again */
}

static void end_notes(struct notes *n)
{
    free(n->survey.contained);
    free(n->idle);
    free(n->line);
}

static void rebuild_objects(struct segment *s, struct notes *notes)
{
    struct header *h = s->h;
    h->free_object_1 = 0;
    h->n_live_objects = 0;
    h->n_offloaded = 0;
    h->offloaded_bytes = 0;
    h->n_shared = 0;
    h->shared_bytes = 0;
    uint64_t attached[CLIENT_WORDS];
    clients_attached(s, attached);
    for (uint32_t i = h->touched_objects; i-- > 0;) {
        struct object_slot *o = &s->objects[i];
        fetch_slot(i >= FETCH_AHEAD ? o - FETCH_AHEAD : o);
        o->pins = notes->survey.contained[i];
        o->first_waiting_1 = 0;
        STEP();
        if (object_state(o) == OBJECT_FREE) {
            o->first_waiting_1 = h->free_object_1;
            h->free_object_1 = i + 1;
            continue;
        }
        h->n_live_objects++;
        offload_count(s, o);
        object_count_shared(s, o);
        sync_forget_others(s, i, attached);
        for (uint32_t w = 0; w < CLIENT_WORDS; w++) { /* the bits of clients that do not exist would never be cleared */
            if (atomic_load_explicit(&o->holders[w], memory_order_relaxed) & ~attached[w])
                atomic_fetch_and(&o->holders[w], attached[w]);
            if (atomic_load_explicit(&o->waiters[w], memory_order_relaxed) & ~attached[w])
                atomic_fetch_and(&o->waiters[w], attached[w]);
        }
        if (!o->pins && !object_held(o))
            notes->idle[notes->n_idle++] = i;
    }
}

static void clear_queues(struct segment *s)
{
    struct header *h = s->h;
    for (uint32_t c = 0; c < h->n_classes; c++) {
        memset(s->classes[c].lanes, 0, sizeof s->classes[c].lanes);
        s->classes[c].n_ready = s->classes[c].depths = s->classes[c].n_in_place = 0;
    }
    h->turn = 0;
    memset(&h->reserved, 0, sizeof h->reserved);
    memset(h->returning, 0, sizeof h->returning);
    resource_note_held_back(h);
    h->n_ready = h->n_deep = 0;
    h->n_timers = 0;
    h->timers_at = 0;
    h->waking_1 = 0;
    h->next_start = 0;
    for (uint32_t g = 0; g < h->n_gates; g++)
        h->gates[g].n_running = 0;
    memset(h->idle, 0, sizeof h->idle);
    h->free_task_1 = 0;
    h->n_live_tasks = 0;
    h->free_actor_1 = 0;
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        s->clients[i].task_1 = 0;
    for (uint32_t i = 0; i < h->touched_actors; i++) {
        struct actor_slot *a = &s->actors[i];
        uint32_t state = atomic_load(&a->state);
        a->head_1 = a->tail_1 = a->n_pending = a->n_running = a->task_1 = 0;
        memset(a->group_running, 0, sizeof a->group_running);
        a->flags &= ~(uint32_t)ACTOR_FLAG_IDLE;
        if (state == ACTOR_FREE) {
            a->next_free_1 = h->free_actor_1;
            h->free_actor_1 = i + 1;
            continue;
        }
        if (a->death_object_1)
            object_pin(s, a->death_object_1 - 1);
        if (a->checkpoint_1)
            object_pin(s, a->checkpoint_1 - 1);
        if (a->object_1 && (a->flags & ACTOR_FLAG_DETACHED))
            object_pin(s, a->object_1 - 1);
        if (a->object_1 && object_state(&s->objects[a->object_1 - 1]) != OBJECT_FREE)
            s->objects[a->object_1 - 1].u.arena.actor_1 = i + 1;
        else
            a->object_1 = 0;
    }
    int64_t total[MAX_KINDS];
    memcpy(total, h->pools[0].total, sizeof total);
    memcpy(h->pools[0].available, total, sizeof total);
    memset(h->pools[0].kept, 0, sizeof h->pools[0].kept);
    h->pools[0].awaited = 0;
    resource_set_total(s, total);
    placement_rebuild(s);
}

/* A radix sort by seq, stable, from the lowest digit up. Returns the one of the two arrays that has the result. Slots
 * that were never reused are in order already. */
static struct place_in_line *sort_by_seq(struct place_in_line *from, struct place_in_line *to, uint32_t n)
{
    enum { BITS = 11, N_DIGITS = 1 << BITS };
    uint64_t differ = 0;
    bool sorted = true;
    for (uint32_t i = 1; i < n; i++) {
        differ |= from[i].seq ^ from[0].seq;
        sorted &= from[i - 1].seq < from[i].seq;
    }
    for (unsigned shift = 0; !sorted && shift < 64 && differ >> shift; shift += BITS) {
        uint32_t at[N_DIGITS + 1] = {0};
        for (uint32_t i = 0; i < n; i++)
            at[(from[i].seq >> shift & (N_DIGITS - 1)) + 1]++;
        for (unsigned i = 1; i < N_DIGITS; i++)
            at[i] += at[i - 1];
        for (uint32_t i = 0; i < n; i++)
            to[at[from[i].seq >> shift & (N_DIGITS - 1)]++] = from[i];
        struct place_in_line *swap = to;
        to = from;
        from = swap;
    }
    return from;
}

static void pin_task(struct segment *s, uint32_t task)
{
    struct task_slot *t = &s->tasks[task];
    const uint32_t *refs = task_refs(s, t);
    task_note_results(s, task);
    if ((t->flags & TASK_FLAG_ACTOR_CREATION) && atomic_load(&t->state) != TASK_CANCELLED)
        s->actors[t->actor_1 - 1].task_1 = task + 1;
    object_pin(s, t->function);
    for (uint32_t i = 0; i < t->n_refs; i++)
        object_pin(s, refs[i]);
    for (uint32_t i = 0; i < t->n_returns; i++)
        object_pin(s, task_result(s, t, i));
    if (t->actor_1 && !(t->flags & TASK_FLAG_ACTOR_CREATION) && s->actors[t->actor_1 - 1].object_1)
        object_pin(s, s->actors[t->actor_1 - 1].object_1 - 1);
}

/* A cancel seals the results first, and may die before it writes the state of the task. */
static bool was_being_cancelled(struct segment *s, struct task_slot *t)
{
    /* a constructor that runs again has sealed its result in its first life */
    return task_is_sealed(s, t) && !(t->flags & TASK_FLAG_ACTOR_CREATION);
}

static void forget_place_in_heap(struct segment *s, uint32_t task)
{
    uint32_t state = atomic_load(&s->tasks[task].state);
    if (!(s->tasks[task].flags & TASK_FLAG_TIMED))
        return;
    s->times[task].place_1 = 0;
    if (state != TASK_RUNNING && state != TASK_DELAYED)
        s->times[task].due = 0; /* its delay was just over */
}

/* In order of submission, every task goes where its state says. */
static void place_task(struct segment *s, uint32_t task)
{
    struct task_slot *t = &s->tasks[task];
    int64_t scratch[MAX_KINDS];
    bool call = t->actor_1 && !(t->flags & TASK_FLAG_ACTOR_CREATION);
    struct actor_slot *a = t->actor_1 ? &s->actors[t->actor_1 - 1] : NULL;
    t->next_1 = t->next_waiting_1 = 0;
    if (call)
        t->flags &= (uint16_t)~TASK_FLAG_LOOSE;
    forget_place_in_heap(s, task);
    switch (atomic_load(&t->state)) {
    case TASK_RUNNING: {
        s->clients[t->worker].task_1 = task + 1;
        const int64_t *amounts = task_amounts(s, t, scratch);
        if (amounts)
            resource_reacquire(s, resource_pool(s, t->resource_class), amounts, t->gpu_mask);
        else
            actor_count(s, t, true);
        task_note_returning(s, task);
        gate_count(s, t, 1);
        if (t->flags & TASK_FLAG_TIMED && times_at(s, task)->due)
            timer_push(s, task);
        break;
    }
    case TASK_HELD:
        if (!task_holds_nothing(s, t))
            resource_keep(s, resource_pool(s, t->resource_class), s->classes[t->resource_class].hold, t->gpu_mask, 1);
        break;
    case TASK_CANCELLED:
        task_release(s, task);
        break;
    case TASK_WAITING:
    case TASK_READY:
    case TASK_DELAYED:
        if (was_being_cancelled(s, t)) {
            task_release(s, task);
            break;
        }
        if (call) { /* into the mailbox, as in actor_post, but without the pin, which pin_task has made */
            if (a->tail_1)
                s->tasks[a->tail_1 - 1].next_1 = task + 1;
            else
                a->head_1 = task + 1;
            a->tail_1 = task + 1;
            a->n_pending++;
        }
        if (atomic_load(&t->state) == TASK_DELAYED) {
            timer_push(s, task);
            break;
        }
        t->cursor = 0;
        atomic_store(&t->state, TASK_WAITING);
        task_advance(s, task);
        break;
    default:
        break;
    }
}

static void rebuild_tasks(struct segment *s, struct place_in_line *line)
{
    struct header *h = s->h;
    struct place_in_line *spare = line + h->touched_tasks;
    line = spare;
    for (uint32_t i = h->touched_tasks; i-- > 0;) {
        struct task_slot *t = &s->tasks[i];
        fetch_slot(i >= FETCH_AHEAD ? t - FETCH_AHEAD : t);
        const struct task_slot *soon = i >= FETCH_AHEAD / 2 ? t - FETCH_AHEAD / 2 : t;
        fetch_slot(&s->objects[soon->result_1 ? soon->result_1 - 1 : 0]);
        if (atomic_load(&t->state) == TASK_FREE) {
            t->next_1 = h->free_task_1;
            h->free_task_1 = i + 1;
            continue;
        }
        h->n_live_tasks++;
        STEP();
        pin_task(s, i);
        *--line = (struct place_in_line){t->seq, i};
        if (t->seq >= h->next_seq)
            h->next_seq = t->seq + 1;
    }
    uint32_t n = (uint32_t)(spare - line);
    line = sort_by_seq(line, spare, n);
    for (uint32_t i = 0; i < n; i++) {
        STEP();
        const struct task_slot *soon = &s->tasks[line[i + FETCH_AHEAD / 2 < n ? i + FETCH_AHEAD / 2 : i].task];
        fetch_slot(&s->tasks[line[i + FETCH_AHEAD < n ? i + FETCH_AHEAD : i].task]);
        fetch_slot(&s->objects[soon->result_1 ? soon->result_1 - 1 : 0]);
        place_task(s, line[i].task);
    }
}

static void finish_reaping(struct segment *s)
{
    for (uint32_t i = 0; i < s->h->touched_actors; i++) {
        const struct actor_slot *a = &s->actors[i];
        uint32_t state = atomic_load(&a->state);
        if (state != ACTOR_FREE && state != ACTOR_DEAD && !a->task_1)
            actor_die(s, i, 0); /* half made, or its constructor has failed: it would never come to life */
        else if (state != ACTOR_FREE && state != ACTOR_DEAD && !a->object_1)
            /* its last handle has gone, and the process that freed it died before it told the actor */
            actor_unreferenced(s, i);
        else if (state == ACTOR_DEAD &&
                 (a->head_1 || a->task_1 || a->checkpoint_1 || !a->object_1 || (a->flags & ACTOR_FLAG_DETACHED)))
            actor_reap(s, i);
    }
}

static void free_unreferenced_objects(struct segment *s, const struct notes *notes)
{
    for (uint32_t k = 0; k < notes->n_idle; k++) {
        uint32_t i = notes->idle[k];
        if (object_state(&s->objects[i]) != OBJECT_FREE && !s->objects[i].pins && !object_held(&s->objects[i])) {
            object_pin(s, i);
            object_unpin(s, i);
        }
    }
}

static bool rebuild(struct segment *s, struct notes *notes)
{
    const char *wrong;
    uint64_t at;
    if (!slots_are_safe(s, &notes->survey, &wrong, &at))
        return false;
    if (notes->survey.absent)
        offload_take_back(s);
    STEP();
    if (notes->survey.unclaimed)
        claim_chunks(s);
    STEP();
    if (arena_rebuild(&s->h->arena, s->base, keep_chunk, s) != OBJSTORE_OK)
        return false;
    STEP();
    rebuild_objects(s, notes);
    STEP();
    clear_queues(s);
    rebuild_tasks(s, notes->line);
    STEP();
    placement_resume(s);
    STEP();
    finish_reaping(s);
    STEP();
    free_unreferenced_objects(s, notes);
    return true;
}

void recover(struct segment *s)
{
    struct notes notes;
    if (!header_is_safe(s)) {
        segment_condemn(s);
        return;
    }
    begin_notes(s, &notes);
    bool safe = rebuild(s, &notes);
    end_notes(&notes);
    STEP();
    if (!safe) {
        segment_condemn(s);
        return;
    }
    task_wake_workers(s);
    wake_all(s); /* each client looks again at what it waits for */
    request_attention(s);
}
