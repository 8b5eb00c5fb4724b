#include "objects/shared_sync.h"

#include <limits.h>

#include "memory/sleep.h"

#define BROKEN (UINT64_C(1) << 63)
#define ARRIVED UINT64_C(0xffff)
#define PHASE_1 (UINT64_C(1) << 16)
#define PHASE (UINT64_C(0xffffffff) << 16)
#define EPOCH_1 (UINT64_C(1) << 48)
#define EPOCH (UINT64_C(0x7fff) << 48)
#define CLIENT_1 UINT64_C(0xffff) /* of a condition's word */

struct shared_sync *sync_at(const struct segment *s, uint32_t object, uint32_t kind)
{
    const struct object_slot *o = object_at(s, object);
    uint64_t chunk = object_is_shared(o) && o->u.arena.n_refs == REFS_OF_SYNC ? object_chunk(o) : 0;
    if (!chunk || o->size != sizeof(struct shared_sync) || !segment_holds(s, chunk, o->size))
        return NULL;
    struct shared_sync *sync = (struct shared_sync *)(void *)(s->base + chunk);
    return sync_is_sound(sync) && (!kind || sync->kind == kind) ? sync : NULL;
}

void sync_format(struct shared_sync *b, uint32_t kind, uint32_t n)
{
    b->kind = kind;
    b->n = n;
}

static void tell_waiters(struct shared_sync *b) { word_wake(&b->news, &b->sleepers, INT_MAX); }

static uint32_t owner_1(const struct shared_sync *b) { return (uint32_t)(atomic_load(&b->word) & CLIENT_1); }

/* ------------------------------------------------------------------ barriers */

int barrier_arrive(struct segment *s, struct shared_sync *b, uint64_t *ticket)
{
    uint64_t bit = UINT64_C(1) << (s->me % 64), word = atomic_load(&b->word), next;
    if (!(atomic_load(&b->members[s->me / 64]) & bit))
        atomic_fetch_or(&b->members[s->me / 64], bit);
    STEP();
    do {
        if (word & BROKEN)
            return SYNC_BROKEN;
        bool is_last = (word & ARRIVED) + 1 >= b->n;
        next = is_last ? (word & EPOCH) | ((word + PHASE_1) & PHASE) : word + 1;
    } while (!atomic_compare_exchange_weak(&b->word, &word, next));
    STEP();
    *ticket = word;
    if (next & ARRIVED)
        return SYNC_PENDING;
    tell_waiters(b);
    return SYNC_DONE;
}

static int look_at(uint64_t word, uint64_t ticket)
{
    if ((word & EPOCH) != (ticket & EPOCH))
        return SYNC_RESET;
    if ((word & PHASE) != (ticket & PHASE))
        return SYNC_DONE;
    return word & BROKEN ? SYNC_BROKEN : SYNC_PENDING;
}

int barrier_look(const struct shared_sync *b, uint64_t ticket) { return look_at(atomic_load(&b->word), ticket); }

int barrier_withdraw(struct shared_sync *b, uint64_t ticket)
{
    uint64_t word = atomic_load(&b->word);
    for (int found;;) {
        found = look_at(word, ticket);
        if (found != SYNC_PENDING || !(word & ARRIVED) || atomic_compare_exchange_weak(&b->word, &word, word - 1))
            return found;
    }
}

/* ------------------------------------------------------------------ counters */

int counter_add(struct shared_sync *b, int64_t n, int64_t *value)
{
    uint64_t word = atomic_load(&b->word);
    do {
        if (__builtin_add_overflow((int64_t)word, n, value))
            return SYNC_OVERFLOW;
    } while (!atomic_compare_exchange_weak(&b->word, &word, (uint64_t)*value));
    return SYNC_DONE;
}

/* ------------------------------------------------------------------ conditions */

static uint64_t as_owner(const struct segment *s, uint32_t thread) { return (uint64_t)thread << 16 | (s->me + 1); }

bool condition_is_owned(const struct segment *s, const struct shared_sync *b, uint32_t thread)
{
    return atomic_load(&b->word) == as_owner(s, thread);
}

int condition_lock(const struct segment *s, struct shared_sync *b, uint32_t thread)
{
    uint64_t word = 0, mine = as_owner(s, thread);
    STEP();
    if (atomic_compare_exchange_strong(&b->word, &word, mine))
        return SYNC_DONE;
    return word & BROKEN ? SYNC_BROKEN : word == mine ? SYNC_OWNED : SYNC_PENDING;
}

int condition_unlock(const struct segment *s, struct shared_sync *b, uint32_t thread)
{
    uint64_t word = as_owner(s, thread);
    STEP();
    if (!atomic_compare_exchange_strong(&b->word, &word, 0))
        return word & BROKEN ? SYNC_BROKEN : SYNC_NOT_OWNED;
    word_wake(&b->lock_news, &b->lock_sleepers, 1); /* if that one dies, others look again by themselves */
    return SYNC_DONE;
}

uint32_t condition_enter(struct shared_sync *b)
{
    b->n_waiting++;
    return atomic_load(&b->news);
}

/* Who has come after the last notification does not take what was meant for one who waited. */
bool condition_take(struct shared_sync *b, uint32_t *seen)
{
    uint32_t now = atomic_load(&b->news);
    bool taken = now != *seen && b->n_notified > 0;
    *seen = now;
    if (taken) {
        b->n_notified--;
        condition_give_up(b);
    }
    return taken;
}

/* Those who have died in their wait are still counted, and at worst somebody looks once in vain. */
void condition_give_up(struct shared_sync *b)
{
    b->n_waiting -= b->n_waiting > 0;
    if (b->n_notified > b->n_waiting)
        b->n_notified = b->n_waiting;
}

void condition_notify(struct shared_sync *b, uint32_t n)
{
    uint32_t most = b->n_waiting > b->n_notified ? b->n_waiting - b->n_notified : 0;
    b->n_notified += n < most ? n : most;
    word_wake(&b->news, &b->sleepers, n < most && n < INT_MAX ? (int)n : INT_MAX);
}

/* ------------------------------------------------------------------ breaking and mending */

void sync_break(struct shared_sync *b, int32_t by)
{
    atomic_store(&b->broken_by, by); /* first: who finds it broken asks by whom */
    STEP();
    if (b->kind == SYNC_CONDITION)
        atomic_store(&b->word, BROKEN);
    else
        atomic_fetch_or(&b->word, BROKEN);
    tell_waiters(b);
    word_wake(&b->lock_news, &b->lock_sleepers, INT_MAX);
}

void sync_reset(struct shared_sync *b)
{
    uint64_t word = atomic_load(&b->word);
    if (b->kind == SYNC_CONDITION) {
        if (word && !(word & BROKEN))
            return;
        b->n_waiting = b->n_notified = 0;
        atomic_compare_exchange_strong(&b->word, &word, 0);
    } else {
        for (uint32_t w = 0; w < CLIENT_WORDS; w++)
            atomic_store(&b->members[w], 0);
        while (!atomic_compare_exchange_weak(&b->word, &word, ((word + EPOCH_1) & EPOCH) | (word & PHASE)))
            ;
    }
    tell_waiters(b);
}

void sync_client_ended(struct segment *s, uint32_t object, uint32_t client)
{
    struct shared_sync *b = sync_at(s, object, 0);
    const struct client_slot *c = client_at(s, client);
    if (!b)
        return;
    uint64_t bit = UINT64_C(1) << (client % 64);
    int32_t pid = atomic_load(&c->pid);
    if (b->kind == SYNC_CONDITION && owner_1(b) == client + 1)
        sync_break(b, pid);
    if (b->kind == SYNC_BARRIER && atomic_load(&b->members[client / 64]) & bit) {
        if (!(atomic_load(&c->flags) & CLIENT_FLAG_LEFT))
            sync_break(b, pid);
        STEP();
        atomic_fetch_and(&b->members[client / 64], ~bit); /* last: until then a reaper that dies is made up for */
    }
}

void sync_forget_others(struct segment *s, uint32_t object, const uint64_t attached[CLIENT_WORDS])
{
    struct shared_sync *b = sync_at(s, object, 0);
    if (!b || sync_names_only(b, attached))
        return;
    sync_break(b, 0);
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        atomic_fetch_and(&b->members[w], attached[w]);
}

void sync_look_after(struct segment *s, struct shared_sync *b)
{
    uint32_t owner = owner_1(b) - 1;
    uint64_t word = atomic_load(&b->word);
    if (b->kind != SYNC_CONDITION || !word || word & BROKEN || (word & CLIENT_1) != owner + 1)
        return;
    if (owner >= MAX_CLIENTS || atomic_load(&client_at(s, owner)->state) == CLIENT_FREE)
        sync_break(b, 0);
}

bool sync_is_sound(const struct shared_sync *b)
{
    return b->kind >= SYNC_BARRIER && b->kind <= SYNC_CONDITION &&
           (b->kind != SYNC_BARRIER || (b->n >= 1 && b->n <= SYNC_MOST_MEMBERS));
}

bool sync_names_only(const struct shared_sync *b, const uint64_t attached[CLIENT_WORDS])
{
    uint64_t others = 0;
    for (uint32_t w = 0; b->kind == SYNC_BARRIER && w < CLIENT_WORDS; w++)
        others |= atomic_load(&b->members[w]) & ~attached[w];
    uint32_t owner = b->kind == SYNC_CONDITION ? owner_1(b) : 0;
    return !others && (!owner || (owner <= MAX_CLIENTS && attached[(owner - 1) / 64] >> ((owner - 1) % 64) & 1));
}
