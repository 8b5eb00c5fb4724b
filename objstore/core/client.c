#define _GNU_SOURCE
#include "client.h"

#include <sched.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "actor.h"
#include "away.h"
#include "event.h"
#include "placement.h"
#include "recover.h"

int client_attach(struct segment *s, uint32_t role)
{
    int32_t pid = (int32_t)getpid();
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        struct client_slot *c = &s->clients[i];
        int32_t seen = atomic_load(&c->pid);
        /* A slot that was claimed but never became attached belongs to nobody once its process has gone. One that stands in
         * the lock is not for us, even if it has been given back: as our own its owner would look alive. */
        bool abandoned = seen != 0 && atomic_load(&c->state) == CLIENT_FREE && process_start_time(seen) == 0;
        if (lock_owner_1(atomic_load(&s->h->lock)) == i + 1)
            continue;
        if ((seen != 0 && !abandoned) || !atomic_compare_exchange_strong(&c->pid, &seen, pid))
            continue;
        STEP();
        c->generation++; /* from here on whoever takes the predecessor for dead cannot get at our lock */
        STEP();
        atomic_store(&c->start_time, process_start_time(pid));
        c->role = role;
        c->actor_1 = c->task_1 = 0;
        c->n_finished = c->last_seq = 0;
        c->last_origin = c->env = 0;
        atomic_store(&c->flags, 0);
        atomic_store(&c->sleepers, 0);
        atomic_store(&c->need, 0);
        s->me = i;
        STEP();
        segment_lock(s);
        STEP();
        atomic_store(&c->state, CLIENT_ATTACHED);
        STEP();
        if (role == ROLE_SCHEDULER)
            s->h->scheduler_1 = i + 1;
        if (role == ROLE_WORKER)
            event_write(s, EVENT_WORKER_STARTED, 0, i, (uint32_t)pid, 0, 0, i);
        segment_unlock(s);
        return OBJSTORE_OK;
    }
    return OBJSTORE_LIMIT;
}

/* ------------------------------------------------------------------ looking */

void clients_attached(const struct segment *s, uint64_t clients[CLIENT_WORDS])
{
    memset(clients, 0, sizeof(uint64_t) * CLIENT_WORDS);
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        clients[i / 64] |= (uint64_t)(atomic_load(&s->clients[i].state) == CLIENT_ATTACHED) << (i % 64);
}

bool client_look(struct segment *s, uint32_t client, struct client_view *v)
{
    const struct client_slot *c = &s->clients[client];
    if (atomic_load(&c->state) != CLIENT_ATTACHED)
        return false;
    *v = (struct client_view){.role = c->role, .origin = c->last_origin, .pid = atomic_load(&c->pid),
                              .idle = s->h->idle[client / 64] >> (client % 64) & 1, .n_finished = c->n_finished, .last_seq = c->last_seq};
    if (c->actor_1 <= s->n_actors)
        v->actor_1 = c->actor_1;
    const struct task_slot *t = c->task_1 && c->task_1 <= s->n_tasks ? &s->tasks[c->task_1 - 1] : NULL;
    uint32_t made_by_1 = v->actor_1 ? s->actors[v->actor_1 - 1].task_1 : 0;
    const struct task_slot *made_by = made_by_1 && made_by_1 <= s->n_tasks ? &s->tasks[made_by_1 - 1] : NULL;
    if (t && atomic_load(&t->state) == TASK_RUNNING && t->worker == client) {
        v->seq = t->seq;
        v->parent = t->parent;
        v->retriable = t->max_retries != 0;
        v->blocked = t->flags & TASK_FLAG_BLOCKED;
        made_by = t;
    }
    if (made_by && made_by->function < s->n_objects) {
        v->function_1 = made_by->function + 1;
        v->generation = s->objects[made_by->function].generation;
    }
    return true;
}

/* ------------------------------------------------------------------ sleeping */

void wake_everybody(struct segment *s)
{
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        if (atomic_load(&s->clients[i].state) == CLIENT_ATTACHED)
            wake_client(s, i);
}

/* A wake-up costs more than a microsecond, tens of them on an idle virtual CPU; looking for so long costs as much at most.
 * It pays when the other side runs on another CPU and is quick, and nothing but experience says whether it does:
 *
 *  - seen while looking: the wake-up was saved;
 *  - not seen: the time was wasted;
 *  - a gap in the clock: another process ran on this CPU meanwhile, most likely the one that is waited for. Each look lets
 *    others run (sched_yield), but the scheduler does not hand over what it thinks is our fair share, so it may have been held up;
 *  - not looked, and woken soon: looking might have paid. */
#define LOOK_NS 30000
#define LOOK_GAP_NS 4000
enum { TRUST_PAID = 1, TRUST_WASTED = -2, TRUST_SHARED = -16 };

static void learn(_Atomic int *trust, int change)
{
    int now = atomic_load_explicit(trust, memory_order_relaxed) + change;
    now = now > TRUST_MAX ? TRUST_MAX : now < -TRUST_MAX ? -TRUST_MAX : now;
    atomic_store_explicit(trust, now, memory_order_relaxed); /* threads of one process may lose a lesson */
}

static bool look_first(const struct client_slot *c, uint32_t seen, _Atomic int *trust)
{
    int64_t last = monotonic_ns(), end = last + LOOK_NS, now = last;
    for (; now < end && now - last < LOOK_GAP_NS; now = monotonic_ns()) {
        last = now;
        for (int i = 0; i < 32; i++) {
            if (atomic_load_explicit(&c->inbox, memory_order_acquire) != seen) {
                learn(trust, TRUST_PAID);
                return true;
            }
            cpu_relax();
        }
        sched_yield();
    }
    learn(trust, now - last < LOOK_GAP_NS ? TRUST_WASTED : TRUST_SHARED);
    return atomic_load_explicit(&c->inbox, memory_order_acquire) != seen;
}

int client_sleep(struct segment *s, uint32_t seen, int64_t timeout_ns, _Atomic int *trust)
{
    struct client_slot *c = &s->clients[s->me];
    bool looks = trust && (timeout_ns < 0 || timeout_ns > LOOK_NS) && atomic_load_explicit(trust, memory_order_relaxed) > 0;
    if (looks && look_first(c, seen, trust))
        return 0;
    int64_t began = trust && !looks ? monotonic_ns() : 0;
    atomic_fetch_add(&c->sleepers, 1);
    STEP();
    int result = futex_wait(&c->inbox, seen, timeout_ns);
    STEP();
    atomic_fetch_sub(&c->sleepers, 1);
    if (began && result == 0 && monotonic_ns() - began < LOOK_NS)
        learn(trust, TRUST_PAID);
    return result;
}

/* ------------------------------------------------------------------ leaving */

void client_drop(struct segment *s, const uint32_t *objects, uint32_t n)
{
    segment_lock(s);
    for (uint32_t i = 0; i < n; i++)
        object_drop(s, objects[i], s->me);
    segment_unlock(s);
}

/* Memory that ran out is not the task's fault alone, so it has attempts of its own for that. */
static bool may_retry(struct task_slot *t, int32_t code)
{
    if (code != DIED_OF_MEMORY)
        return task_may_retry(t);
    if (t->max_retries == 0 || t->flags >> TASK_OOM_SHIFT == TASK_OOM_MAX)
        return false;
    t->flags = (uint16_t)(t->flags + (1u << TASK_OOM_SHIFT));
    return true;
}

/* A task was running on a client that is gone. */
static void lose_task(struct segment *s, uint32_t task, int32_t code, struct client_losses *losses)
{
    struct task_slot *t = &s->tasks[task];
    bool call = t->actor_1 != 0; /* whether its actor goes on, the actor tells: its fate may have been settled by one who died since */
    bool actor_restarts = call && atomic_load(&s->actors[t->actor_1 - 1].state) != ACTOR_DEAD;
    if (task_is_sealed(s, t)) { /* it died between sealing and finishing: the work is done */
        task_finish(s, task, object_state(&s->objects[t->result_1 - 1]) == OBJECT_READY ? EVENT_OK : EVENT_ERROR);
    } else if (t->flags & TASK_FLAG_CANCEL) {
        task_seal_failed(s, task, FAILURE_CANCELLED, 0);
        task_finish(s, task, EVENT_CANCELLED);
    } else if (!placement_lives(placement_head(s, t->resource_class))) {
        losses->failed++;
        task_seal_failed(s, task, FAILURE_UNPLACED, (int32_t)placement_head(s, t->resource_class)->number);
        task_finish(s, task, EVENT_ERROR);
    } else if ((!call || actor_restarts) && may_retry(t, code)) {
        losses->retried++;
        task_retry(s, task);
    } else {
        losses->failed++;
        const struct actor_slot *a = call ? &s->actors[t->actor_1 - 1] : NULL;
        uint32_t reason = !call ? FAILURE_WORKER_CRASHED : actor_restarts ? FAILURE_ACTOR_UNAVAILABLE : actor_failure(a);
        bool memory = code == DIED_OF_MEMORY;
        if (reason == FAILURE_ACTOR_UNPLACED)
            code = a->death_detail;
        task_seal_failed(s, task, memory ? FAILURE_OUT_OF_MEMORY : reason, memory ? -SIGKILL : code);
        task_finish(s, task, EVENT_CRASHED);
    }
}

struct keep { const struct segment *s; uint32_t dead; };

static bool keep_chunk(void *ctx, uint32_t kind, uint32_t owner, uint64_t payload)
{
    (void)payload;
    const struct keep *k = ctx;
    return !arena_belongs_to_client(kind) || owner != k->dead;
}

static void forget(struct segment *s, uint32_t client)
{
    struct header *h = s->h;
    uint64_t bit = UINT64_C(1) << (client % 64);
    h->idle[client / 64] &= ~bit;
    if (h->waking_1 == client + 1)
        h->waking_1 = 0; /* its wake-up is lost: give the credit to another */
    if (h->scheduler_1 == client + 1)
        h->scheduler_1 = 0;
}

static uint32_t drop_references(struct segment *s, uint32_t client)
{
    uint64_t bit = UINT64_C(1) << (client % 64);
    uint32_t w = client / 64, n = 0;
    for (uint32_t i = 0; i < s->h->touched_objects; i++) {
        struct object_slot *o = &s->objects[i];
        if (object_state(o) == OBJECT_FREE)
            continue;
        if (atomic_load_explicit(&o->waiters[w], memory_order_relaxed) & bit)
            atomic_fetch_and(&o->waiters[w], ~bit);
        away_forget_client(s, i, client);
        if (atomic_load_explicit(&o->holders[w], memory_order_relaxed) & bit) {
            object_drop(s, i, client);
            n++;
        }
    }
    return n;
}

/* The actor that this client serves or is constructing, by the constructor's task: the client's own note of it is
 * written last. A constructor belongs to the actor's fate, not to the fate of tasks. */
static uint32_t actor_of(const struct segment *s, uint32_t client)
{
    for (uint32_t i = 0; i < s->h->touched_tasks; i++) {
        const struct task_slot *t = &s->tasks[i];
        uint32_t state = atomic_load(&t->state);
        if ((state == TASK_RUNNING || state == TASK_HELD) && t->worker == client && (t->flags & TASK_FLAG_ACTOR_CREATION))
            return t->actor_1;
    }
    return 0;
}

static bool runs_something(const struct segment *s, uint32_t client)
{
    for (uint32_t i = 0; i < s->h->touched_tasks; i++) {
        uint32_t state = atomic_load(&s->tasks[i].state);
        if ((state == TASK_RUNNING || state == TASK_HELD) && s->tasks[i].worker == client)
            return true;
    }
    return false;
}

/* Any process may have written anywhere. What is derived is then built again: all of it, if one has crashed or leaves work behind;
 * of one that leaves in order, which happens more often, what its burial follows: the arena's lists. */
static bool survives_a_look(struct segment *s, uint32_t client, int32_t code)
{
    const char *wrong;
    uint64_t at;
    if (!segment_is_safe(s, &wrong, &at)) {
        segment_condemn(s);
        return false;
    }
    bool all = code != 0 || runs_something(s, client);
    if (all ? segment_check(s, NULL, NULL) != 0 : arena_check(&s->h->arena, s->base) != OBJSTORE_OK)
        recover(s);
    return true;
}

static struct client_losses bury(struct segment *s, uint32_t client, int32_t code)
{
    struct client_losses losses = {0, 0, 0, false};
    struct client_slot *c = &s->clients[client];
    if (atomic_load(&c->state) == CLIENT_ATTACHED && survives_a_look(s, client, code)) {
        forget(s, client);
        int32_t how = code == DIED_OF_MEMORY ? -SIGKILL : code;
        if (c->role == ROLE_WORKER)
            event_write(s, EVENT_WORKER_DIED, 0, client, (uint32_t)how, 0, 0, s->me);
        uint32_t actor_1 = actor_of(s, client);
        c->actor_1 = 0;
        if (actor_1 && (s->actors[actor_1 - 1].flags & ACTOR_FLAG_KILLED))
            code = how = 0; /* on purpose: how the process ended tells nothing */
        if (actor_1)
            losses.actor_restarts = actor_worker_died(s, actor_1 - 1, how);
        for (uint32_t i = 0; i < s->h->touched_tasks; i++)
            if (atomic_load(&s->tasks[i].state) == TASK_RUNNING && s->tasks[i].worker == client)
                lose_task(s, i, code, &losses);
        placement_owner_died(s, client);
        losses.objects = drop_references(s, client);
        struct keep k = {s, client};
        arena_rebuild(&s->h->arena, s->base, keep_chunk, &k);
        STEP();
        atomic_store(&c->state, CLIENT_FREE);
        STEP();
        if (client != s->me)
            atomic_store(&c->pid, 0);
        task_wake_workers(s);
        wake_everybody(s); /* it may have died between a change and telling those who sleep for it */
    }
    return losses;
}

struct client_losses client_died(struct segment *s, uint32_t client, int32_t code)
{
    struct client_losses losses = {0, 0, 0, false};
    if (client >= MAX_CLIENTS)
        return losses;
    segment_lock(s);
    bool leaves = client == s->me && atomic_load(&s->clients[client].state) == CLIENT_ATTACHED;
    losses = bury(s, client, code);
    segment_unlock(s);
    STEP();
    if (leaves) /* not before: whoever waited for the lock would have taken its owner for dead */
        atomic_store(&s->clients[client].pid, 0);
    return losses;
}

static bool has_ended(const struct client_slot *c)
{
    return atomic_load(&c->state) == CLIENT_ATTACHED && process_start_time(atomic_load(&c->pid)) != atomic_load(&c->start_time);
}

uint32_t client_reap(struct segment *s, int32_t *pids)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        if (!has_ended(&s->clients[i]))
            continue;
        segment_lock(s); /* under which no slot changes hands: another may have reaped it meanwhile, and somebody else moved in */
        if (has_ended(&s->clients[i])) {
            pids[n++] = atomic_load(&s->clients[i].pid);
            bury(s, i, 0);
        }
        segment_unlock(s);
    }
    return n;
}

/* ------------------------------------------------------------------ what workers start with */

void client_set_context(struct segment *s, uint32_t object)
{
    segment_lock(s);
    s->h->context_generation = s->objects[object].generation;
    s->h->context_1 = object + 1;
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        struct client_slot *c = &s->clients[i];
        if (atomic_load(&c->state) != CLIENT_ATTACHED || c->role != ROLE_WORKER || c->actor_1)
            continue;
        atomic_fetch_or(&c->flags, CLIENT_FLAG_RETIRE);
        s->h->idle[i / 64] &= ~(UINT64_C(1) << (i % 64));
        if (s->h->waking_1 == i + 1)
            s->h->waking_1 = 0;
        wake_client(s, i);
    }
    request_attention(s);
    segment_unlock(s);
}

bool client_context(struct segment *s, uint32_t *object)
{
    segment_lock(s);
    *object = s->h->context_1 - 1;
    bool there = s->h->context_1 && object_state(&s->objects[*object]) == OBJECT_READY &&
                 s->objects[*object].generation == s->h->context_generation;
    if (there)
        object_hold(s, *object);
    segment_unlock(s);
    return there;
}
