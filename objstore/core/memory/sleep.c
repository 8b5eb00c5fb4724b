#include "memory/sleep.h"

#include <sched.h>

/* A wake-up costs more than a microsecond, tens of them on an idle virtual CPU; polling for so long costs at most as
 * much. It pays off when the other side runs on another CPU and is quick. Only experience tells whether it does:
 *
 *  - seen while polling: a wake-up was saved;
 *  - not seen: the time was wasted;
 *  - a gap in the clock: another process ran on this CPU meanwhile, most likely the one that is waited for. Each round
 *    lets others run (sched_yield), but the kernel does not give away this process's fair share, so the other one may
 *    have been held up;
 *  - not polled, and woken soon: polling might have paid off. */
#define LOOK_NS 30000
#define LOOK_GAP_NS 4000
enum { TRUST_PAID = 1, TRUST_WASTED = -2, TRUST_SHARED = -16 };

static void learn(_Atomic int *trust, int change)
{
    int now = atomic_load_explicit(trust, memory_order_relaxed) + change;
    now = now > TRUST_MAX ? TRUST_MAX : now < -TRUST_MAX ? -TRUST_MAX : now;
    atomic_store_explicit(trust, now, memory_order_relaxed); /* an update by another thread may be lost */
}

static bool look_first(const _Atomic uint32_t *word, uint32_t seen, _Atomic int *trust)
{
    int64_t last = monotonic_ns(), end = last + LOOK_NS, now = last;
    for (; now < end && now - last < LOOK_GAP_NS; now = monotonic_ns()) {
        last = now;
        for (int i = 0; i < 32; i++) {
            /* pairs with who changes it: the news is visible */
            if (atomic_load_explicit(word, memory_order_acquire) != seen) {
                learn(trust, TRUST_PAID);
                return true;
            }
            cpu_relax();
        }
        sched_yield();
    }
    learn(trust, now - last < LOOK_GAP_NS ? TRUST_WASTED : TRUST_SHARED);
    return atomic_load_explicit(word, memory_order_acquire) != seen;
}

int word_sleep(_Atomic uint32_t *word, _Atomic uint32_t *sleepers, uint32_t seen, int64_t timeout_ns,
               _Atomic int *trust)
{
    bool looks =
        trust && (timeout_ns < 0 || timeout_ns > LOOK_NS) && atomic_load_explicit(trust, memory_order_relaxed) > 0;
    if (looks && look_first(word, seen, trust))
        return 0;
    int64_t began = trust && !looks ? monotonic_ns() : 0;
    /* Pairs with word_wake; the kernel has a full barrier before it compares the word. */
    atomic_fetch_add(sleepers, 1);
    STEP();
    int result = futex_wait(word, seen, timeout_ns);
    STEP();
    atomic_fetch_sub(sleepers, 1);
    if (began && result == 0 && monotonic_ns() - began < LOOK_NS)
        learn(trust, TRUST_PAID);
    return result;
}

void word_wake(_Atomic uint32_t *word, const _Atomic uint32_t *sleepers, int n)
{
    STEP();
    /* Pairs with word_sleep. Here: the news, the word, then the sleepers; there: the sleepers, then the word. */
    atomic_fetch_add(word, 1);
    STEP();
    if (atomic_load(sleepers))
        futex_wake(word, n);
}
