/* Barriers, counters and conditions among threads as clients, see threads_test.c: nobody goes on early, nothing is
 * lost, and what was written before is seen after; then among processes, one of which dies. */
#define _GNU_SOURCE
#include "tests/small_world.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "objects/shared_sync.h"

enum { N = 4, ROUNDS = 2000, SLICE_NS = 1000 * 1000 };
static uint32_t barrier, counter, condition;
static struct segment driver;

static uint32_t shared(uint32_t kind, uint32_t n)
{
    uint32_t object = created(&driver);
    segment_lock(&driver);
    uint64_t offset = object_allocate(&driver, sizeof(struct shared_sync), 0);
    CHECK(offset);
    memset(base + offset, 0, sizeof(struct shared_sync));
    sync_format((struct shared_sync *)(void *)(base + offset), kind, n);
    CHECK(object_seal_arena(&driver, object, OBJECT_READY, offset, sizeof(struct shared_sync), REFS_OF_SYNC));
    segment_unlock(&driver);
    return object;
}

/* As the binding does it. */
static int come(struct segment *s)
{
    struct shared_sync *b = sync_at(s, barrier, SYNC_BARRIER);
    _Atomic int trust = TRUST_MAX;
    uint64_t ticket;
    CHECK(b);
    int result = barrier_arrive(s, b, &ticket);
    while (result == SYNC_PENDING) {
        uint32_t seen = atomic_load(&b->news);
        result = barrier_look(b, ticket);
        if (result == SYNC_PENDING)
            word_sleep(&b->news, &b->sleepers, seen, SLICE_NS, &trust);
    }
    return result;
}

static int own(struct segment *s, uint32_t thread)
{
    struct shared_sync *b = sync_at(s, condition, SYNC_CONDITION);
    CHECK(b);
    for (;;) {
        uint32_t seen = atomic_load(&b->lock_news);
        int result = condition_lock(s, b, thread);
        if (result != SYNC_PENDING)
            return result;
        word_sleep(&b->lock_news, &b->lock_sleepers, seen, SLICE_NS, NULL);
    }
}

/* ------------------------------------------------------------------ threads */

static long came[N], inside, added; /* plain: the barrier, or the lock, orders them */

static void *meet(void *arg)
{
    struct segment s = attached(ROLE_DRIVER);
    long *mine = arg;
    int64_t value;
    for (long i = 1; i <= ROUNDS; i++) {
        *mine = i;
        CHECK(come(&s) == SYNC_DONE);
        for (int k = 0; k < N; k++)
            CHECK(came[k] == i);
        CHECK(counter_add(sync_at(&s, counter, SYNC_COUNTER), 1, &value) == SYNC_DONE);
        CHECK(come(&s) == SYNC_DONE);
        CHECK((int64_t)atomic_load(&sync_at(&s, counter, SYNC_COUNTER)->word) >= N * i);
    }
    client_died(&s, s.me, 0);
    return NULL;
}

static void *take_turns(void *arg)
{
    struct segment s = attached(ROLE_DRIVER);
    struct shared_sync *b = sync_at(&s, condition, SYNC_CONDITION);
    long me = (long *)arg - came;
    for (long i = 0; i < ROUNDS; i++) {
        CHECK(own(&s, 7) == SYNC_DONE && inside++ == 0);
        while (added % N != me) {
            uint32_t seen = condition_enter(b);
            bool taken = false;
            while (!taken) {
                inside--;
                CHECK(condition_unlock(&s, b, 7) == SYNC_DONE);
                while (atomic_load(&b->news) == seen)
                    word_sleep(&b->news, &b->sleepers, seen, SLICE_NS, NULL);
                CHECK(own(&s, 7) == SYNC_DONE && inside++ == 0);
                taken = condition_take(b, &seen);
            }
        }
        added++;
        condition_notify(b, N);
        inside--;
        CHECK(condition_unlock(&s, b, 7) == SYNC_DONE);
    }
    client_died(&s, s.me, 0);
    return NULL;
}

static void run_threads(void *(*life)(void *))
{
    pthread_t threads[N];
    for (int i = 0; i < N; i++)
        CHECK(pthread_create(&threads[i], NULL, life, &came[i]) == 0);
    for (int i = 0; i < N; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* ------------------------------------------------------------------ processes */

static pid_t member(int (*joins)(struct segment *))
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct segment s = attached(ROLE_WORKER);
        _exit(joins(&s));
    }
    return pid;
}

static int holds_for_ever(struct segment *s)
{
    CHECK(own(s, 7) == SYNC_DONE);
    for (;;)
        pause();
}
static int owns(struct segment *s) { return own(s, 8); }

static void dies(pid_t pid)
{
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        if (atomic_load(&driver.clients[i].pid) == pid)
            client_died(&driver, i, -SIGKILL);
}

static int ended(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void until_word(const struct shared_sync *b, uint64_t mask, uint64_t value)
{
    while ((atomic_load(&b->word) & mask) != value)
        usleep(100);
}

static void members_die(void)
{
    struct shared_sync *b = sync_at(&driver, barrier, SYNC_BARRIER), *c = sync_at(&driver, condition, SYNC_CONDITION);
    sync_reset(b); /* those threads have joined it, and left */
    pid_t waiting = member(come), dying = member(come);
    until_word(b, 0xffff, 2);
    dies(dying);
    CHECK(ended(waiting) == SYNC_BROKEN && atomic_load(&b->broken_by) == dying && come(&driver) == SYNC_BROKEN);

    pid_t holding = member(holds_for_ever);
    while (!atomic_load(&c->word))
        usleep(100);
    waiting = member(owns);
    usleep(1000);
    dies(holding);
    CHECK(ended(waiting) == SYNC_BROKEN && atomic_load(&c->broken_by) == holding);
    sync_reset(c);
    CHECK(own(&driver, 7) == SYNC_DONE && condition_unlock(&driver, c, 7) == SYNC_DONE);
    int32_t pids[MAX_CLIENTS];
    client_reap(&driver, pids);
}

int main(void)
{
    driver = new_world();
    barrier = shared(SYNC_BARRIER, N);
    counter = shared(SYNC_COUNTER, 0);
    condition = shared(SYNC_CONDITION, 0);
    run_threads(meet);
    CHECK(atomic_load(&sync_at(&driver, counter, SYNC_COUNTER)->word) == N * ROUNDS);
    CHECK(!sync_is_broken(sync_at(&driver, barrier, SYNC_BARRIER)));
    run_threads(take_turns);
    CHECK(added == N * ROUNDS);
    members_die();
    CHECK(segment_check(&driver, NULL, NULL) == 0 && driver.h->n_shared == 3);
    uint32_t all[3] = {barrier, counter, condition};
    client_drop(&driver, all, 3);
    CHECK(segment_check(&driver, NULL, NULL) == 0 && driver.h->n_shared == 0 && driver.h->shared_bytes == 0);
    return 0;
}
