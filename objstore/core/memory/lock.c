#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memory/liveness.h"
#include "memory/segment.h"
#include "memory/sleep.h"

/* A waiter asks after so long whether the owner is dead. Asking costs some 30 us; all clients stall until it does. */
static int64_t lock_patience_ns = 5 * 1000 * 1000;
enum { LOCK_SPIN = 200 };

/* ------------------------------------------------------------------ system */

int futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct timespec t = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    if (syscall(SYS_futex, word, FUTEX_WAIT, expected, timeout_ns < 0 ? NULL : &t, NULL, 0) == 0 || errno == EAGAIN)
        return 0;
    return errno;
}

void futex_wake(_Atomic uint32_t *word, int n) { syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0); }

int64_t monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ------------------------------------------------------------------ an owner that does not let go */

/* What a waiter has observed of the lock's owner so far. */
struct watch {
    int32_t stopped_pid;
    int64_t since_ns; /* when it was first seen stopped */
    bool asked;       /* the scheduler was asked, which may be able to tell what this process cannot */
};

static void ask_scheduler(struct segment *s)
{
    /* pairs with the scheduler's exchange (client_next_demand): either it sees what was written before, or this finds 0
     * and notifies it */
    if (s->h->scheduler_1 && !atomic_exchange(&s->h->attention, 1))
        notify_client(s, s->h->scheduler_1 - 1);
}

/* Only its death gives the lock back: a stopped owner may be in the middle of a change, and would go on with it when
 * continued. A driver is not killed, as it is the user's own process: the others wait until it goes on. */
static void evict(struct segment *s, const struct client_slot *owner, int32_t pid)
{
    struct header *h = s->h;
    if (owner->role == ROLE_DRIVER)
        return;
    /* The first of several waiters reports it. The exchange comes before the kill, because the next owner, which may
     * take the lock at once, resets stopped_pid. */
    bool tells = atomic_exchange(&h->stopped_pid, 0) == pid;
    if (process_signal(pid, atomic_load(&owner->start_time), SIGKILL) != PROCESS_ENDED && tells) {
        atomic_store(&h->evicted_pid, pid);
        atomic_fetch_add(&h->n_evicted, 1);
        if (!h->scheduler_1) /* which would report it */
            dprintf(STDERR_FILENO,
                    "cellmesh: process %d was stopped while it held the object store's lock. After %u ms it is "
                    "killed, so that others can go on.\n",
                    (int)pid, h->lock_grace_ms);
    }
}

/* Ctrl-Z and the like stop a process anywhere. The owner is continued until the end of its change, and stops again when
 * it unlocks, unless another process has just continued it. A process that was stopped after it had unlocked is left
 * alone. */
static void let_it_finish(struct segment *s, const struct client_slot *owner, int32_t pid, uint32_t word)
{
    word &= ~LOCK_WAITERS;
    /* read in segment_unlock by the owner, after a pass through the kernel: SIGCONT wakes it */
    atomic_store(&s->h->stops_again, word);
    if (process_look(pid, atomic_load(&owner->start_time)) == PROCESS_STOPPED &&
        (atomic_load(&s->h->lock) & ~LOCK_WAITERS) == word)
        process_signal(pid, atomic_load(&owner->start_time), SIGCONT);
    else
        atomic_compare_exchange_strong(&s->h->stops_again, &word, 0);
}

/* It may be continued at any time, so it is only reported at first. The scheduler evicts it after the grace period, any
 * other waiter a second later. */
static void watch_stopped(struct segment *s, struct watch *v, const struct client_slot *owner, int32_t pid)
{
    struct header *h = s->h;
    int64_t now = monotonic_ns(), patience_ns = (int64_t)h->lock_grace_ms * 1000000;
    if (v->stopped_pid != pid) {
        v->stopped_pid = pid;
        v->since_ns = now;
    } else if (atomic_exchange(&h->stopped_pid, pid) != pid) {
        ask_scheduler(s);
    }
    if (h->scheduler_1 && h->scheduler_1 != s->me + 1)
        patience_ns += 1000000000;
    if (now - v->since_ns >= patience_ns)
        evict(s, owner, pid);
}

/* The word was overwritten. A slot is not reused while the lock names it. */
static bool names_nobody(const struct segment *s, uint32_t word)
{
    uint32_t owner = lock_owner_1(word) - 1;
    return owner >= MAX_CLIENTS || !atomic_load(&s->clients[owner].pid) ||
           ((atomic_load_explicit(&s->clients[owner].generation, memory_order_relaxed) << LOCK_CLIENT_BITS ^ word) &
            ~LOCK_WAITERS) >>
               LOCK_CLIENT_BITS;
}

static bool owner_has_ended(struct segment *s, uint32_t word, struct watch *v)
{
    uint32_t owner = lock_owner_1(word) - 1;
    if (owner == s->me)
        return false;
    const struct client_slot *c = &s->clients[owner];
    int32_t pid = atomic_load(&c->pid);
    switch (process_look(pid, atomic_load(&c->start_time))) {
    case PROCESS_ENDED:
        return true;
    case PROCESS_UNKNOWN:
        if (!v->asked)
            ask_scheduler(s);
        v->asked = true;
        break;
    case PROCESS_STOPPED:
        let_it_finish(s, c, pid, word);
        watch_stopped(s, v, c, pid);
        break;
    case PROCESS_TRACED:
        watch_stopped(s, v, c, pid);
        break;
    case PROCESS_RUNS:
        if (v->stopped_pid) { /* continued */
            v->stopped_pid = 0;
            atomic_store(&s->h->stopped_pid, 0);
        }
    }
    return false;
}

/* The dead owner has executed no release. Its writes are visible since process_look has reported its end. */
static void take_over(struct segment *s, bool from_nobody)
{
    s->h->n_takeovers++;
    atomic_store(&s->h->stopped_pid, 0);
    atomic_store(&s->h->stops_again, 0);
    STEP();
    if (from_nobody)
        segment_condemn(s); /* its owner may still be at work */
    else
        s->hooks->took_over(s);
}

/* ------------------------------------------------------------------ the lock */

__attribute__((noinline)) static void wait_for_lock(struct segment *s)
{
    _Atomic uint32_t *lock = &s->h->lock;
    uint32_t mine = lock_word(s), seen;
    struct watch watch = {0};
    for (int i = 0; i < LOCK_SPIN; i++) {
        cpu_relax();
        seen = 0;
        if (atomic_load_explicit(lock, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_weak_explicit(lock, &seen, mine, memory_order_acquire, memory_order_relaxed))
            return;
    }
    for (;;) {
        seen = atomic_load_explicit(lock, memory_order_relaxed);
        if (seen == 0) {
            /* Other waiters may be asleep without being seen, so the bit stays set. */
            if (atomic_compare_exchange_strong_explicit(lock, &seen, mine | LOCK_WAITERS, memory_order_acquire,
                                                        memory_order_relaxed)) {
                if (watch.stopped_pid) /* it was continued */
                    atomic_store(&s->h->stopped_pid, 0);
                return;
            }
            continue;
        }
        if (!(seen & LOCK_WAITERS) &&
            !atomic_compare_exchange_strong_explicit(
                lock, &seen, seen | LOCK_WAITERS, memory_order_relaxed,
                memory_order_relaxed)) /* one word: either the owner's exchange finds the bit, or this finds its 0 */
            continue;
        seen |= LOCK_WAITERS;
        if (futex_wait(lock, seen, lock_patience_ns) != ETIMEDOUT)
            continue;
        /* pairs with the release fence of client_attach: what follows is read of the owner with this word, not of its
         * predecessor in the slot */
        atomic_thread_fence(memory_order_acquire);
        bool from_nobody = names_nobody(s, seen);
        if ((from_nobody || owner_has_ended(s, seen, &watch)) &&
            atomic_compare_exchange_strong_explicit(lock, &seen, mine | LOCK_WAITERS, memory_order_acquire,
                                                    memory_order_relaxed)) {
            take_over(s, from_nobody);
            return;
        }
    }
}

/* A branch for each takes fewer instructions than arithmetic, and none is ever taken. */
static inline bool counts_are_sound(const struct segment *s)
{
    const struct header *h = s->h;
    return h->touched_objects <= s->n_objects && h->touched_tasks <= s->n_tasks && h->touched_actors <= s->n_actors &&
           h->n_classes <= MAX_CLASSES && h->n_kinds <= MAX_KINDS;
}

__attribute__((cold, noinline)) static void give_up_counts(struct segment *s)
{
    struct header *h = s->h;
    segment_condemn(s);
    h->touched_objects = h->touched_objects <= s->n_objects ? h->touched_objects : 0;
    h->touched_tasks = h->touched_tasks <= s->n_tasks ? h->touched_tasks : 0;
    h->touched_actors = h->touched_actors <= s->n_actors ? h->touched_actors : 0;
    h->n_classes = h->n_classes <= MAX_CLASSES ? h->n_classes : 0;
    h->n_kinds = h->n_kinds <= MAX_KINDS ? h->n_kinds : 0;
}

void segment_lock(struct segment *s)
{
    uint32_t seen = 0;
    /* The acquires here and above pair with the exchange in segment_unlock: writes under the lock are visible to the
     * next owner. */
    if (!atomic_compare_exchange_strong_explicit(&s->h->lock, &seen, lock_word(s), memory_order_acquire,
                                                 memory_order_relaxed))
        wait_for_lock(s);
    if (__builtin_expect(!counts_are_sound(s), 0))
        give_up_counts(s);
}

/* ------------------------------------------------------------------ and back: who is told */

static struct client_slot *whose_inbox(struct segment *s, uint32_t client)
{
    /* A process that knows of a remote node has seen this field (remote_attach). In a slot that is just being reused it
     * may have any value. */
    uint32_t shared_1 = atomic_load_explicit(&s->clients[client].inbox_of_1, memory_order_relaxed);
    return &s->clients[shared_1 && shared_1 <= MAX_CLIENTS ? shared_1 - 1 : client];
}

void notify_client(struct segment *s, uint32_t client)
{
    if (client >= MAX_CLIENTS)
        return;
    struct client_slot *c = whose_inbox(s, client);
    word_wake(&c->inbox, &c->sleepers, INT_MAX); /* pairs with client_sleep */
    word_wake(&c->seals, &c->watchers, INT_MAX); /* pairs with client_sleep_until_seal */
}

/* A thread that waits for seals has no use for it. */
static void notify_of_work(struct segment *s, uint32_t client)
{
    struct client_slot *c = whose_inbox(s, client);
    word_wake(&c->inbox, &c->sleepers, INT_MAX); /* pairs with client_sleep */
}

void wake_all(struct segment *s)
{
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        struct client_slot *c = &s->clients[i];
        if (atomic_load(&c->state) != CLIENT_ATTACHED)
            continue;
        wake_client(s, i);
        word_wake(&c->seals, &c->watchers, INT_MAX); /* a process may have ended between a seal and its news */
    }
}

static void stop_again(struct segment *s)
{
    uint32_t word = lock_word(s);
    if (atomic_compare_exchange_strong(&s->h->stops_again, &word, 0))
        kill(getpid(), SIGSTOP);
}

/* noinline: mostly there is none to wake, and the way past this stays short */
__attribute__((noinline)) static void notify_marked(struct segment *s, const uint64_t clients[CLIENT_WORDS])
{
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        for (uint64_t bits = clients[w]; bits; bits &= bits - 1)
            notify_of_work(s, w * 64 + (uint32_t)__builtin_ctzll(bits));
}

void segment_unlock(struct segment *s)
{
    struct header *h = s->h;
    uint64_t wakes[CLIENT_WORDS], any = 0;
    for (uint32_t w = 0; w < CLIENT_WORDS; w++)
        any |= s->pending_wakes[w];
    if (any) {
        memcpy(wakes, s->pending_wakes, sizeof wakes);
        memset(s->pending_wakes, 0, sizeof wakes);
    }
    bool attention = s->pending_attention, events = s->events_written;
    s->pending_attention = s->events_written = false;
    STEP();
    uint32_t was = atomic_exchange(&h->lock, 0); /* pairs with the acquire of the next owner */
    STEP();
    if (was & LOCK_WAITERS)
        futex_wake(&h->lock, 1);
    if (any)
        notify_marked(s, wakes);
    if (attention && h->scheduler_1 && !atomic_exchange(&h->attention, 1)) /* as in ask_scheduler */
        notify_client(s, h->scheduler_1 - 1);
    if (events)
        fence_after_exchange(); /* pairs with event_wait: event_head, then event_waiting; there the other way round */
    if (events && atomic_load_explicit(&h->event_waiting, memory_order_relaxed) &&
        atomic_exchange(&h->event_waiting, 0))
        futex_wake(&h->event_waiting, INT_MAX);
    if (atomic_load_explicit(&h->stops_again, memory_order_relaxed)) /* see let_it_finish */
        stop_again(s);
}
