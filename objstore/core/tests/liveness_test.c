/* A process without a free descriptor cannot read the state of another process: it takes nothing over from a live
 * process, and everything from a dead one. */
#define _GNU_SOURCE
#include "memory/liveness.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clients/client.h"
#include "clients/reap.h"
#include "recovery/check.h"
#include "tests/expect.h"

enum { SIZE = 1 << 20 };
static struct segment s; /* one mapping, inherited; `s.me` tells who acts */
static struct shared {
    _Atomic int held, let_go, done;
} *shared;

static void make_segment(void)
{
    struct segment_config config = {SIZE, 64, 64, 4, 64};
    unsigned char *base = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED && shared != MAP_FAILED);
    CHECK(segment_format(base, &config) == OBJSTORE_OK && segment_use(&s, base, SIZE) == OBJSTORE_OK);
}

static struct rlimit use_up_descriptors(void)
{
    struct rlimit before, none;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = (struct rlimit){0, before.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    return before;
}

/* A client that has the lock until it is told, or for ever. */
static pid_t hold_lock(bool for_ever)
{
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(client_attach(&s, ROLE_WORKER) == OBJSTORE_OK);
        segment_lock(&s);
        shared->held = 1;
        while (for_ever || !shared->let_go)
            usleep(100);
        shared->done = 1;
        segment_unlock(&s);
        pause();
    }
    CHECK(pid > 0);
    while (!shared->held)
        usleep(100);
    shared->held = 0;
    return pid;
}

/* Lets the lock's owner go on once a waiter has looked at it several times. */
static void let_go_later(void)
{
    if (fork() == 0) {
        while (!(atomic_load(&s.h->lock) & LOCK_WAITERS))
            usleep(100);
        usleep(30000);
        shared->let_go = 1;
        _exit(0);
    }
}

static void end(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, &status, 0) == pid);
}

static void without_descriptors_a_living_owner_keeps_the_lock(void)
{
    make_segment();
    CHECK(client_attach(&s, ROLE_DRIVER) == OBJSTORE_OK);
    pid_t owner = hold_lock(false);
    let_go_later();
    struct rlimit before = use_up_descriptors();
    segment_lock(&s);
    CHECK(shared->done && s.h->n_takeovers == 0);
    segment_unlock(&s);
    setrlimit(RLIMIT_NOFILE, &before);
    end(owner);
}

static void without_descriptors_the_lock_of_who_is_gone_is_taken_over(void)
{
    make_segment();
    CHECK(client_attach(&s, ROLE_DRIVER) == OBJSTORE_OK);
    end(hold_lock(true));
    struct rlimit before = use_up_descriptors();
    segment_lock(&s);
    CHECK(s.h->n_takeovers == 1 && segment_check(&s, NULL, NULL) == 0);
    segment_unlock(&s);
    setrlimit(RLIMIT_NOFILE, &before);
}

/* A zombie still has its pid, so only a process that can read its state tells it from a live one. */
static void the_scheduler_is_asked(void)
{
    make_segment();
    CHECK(client_attach(&s, ROLE_DRIVER) == OBJSTORE_OK);
    pid_t scheduler = fork();
    if (scheduler == 0) {
        CHECK(client_attach(&s, ROLE_SCHEDULER) == OBJSTORE_OK);
        while (!atomic_load(&s.h->attention))
            client_sleep(&s, client_inbox(&s), -1, NULL);
        segment_lock(&s);
        segment_unlock(&s);
        _exit(0);
    }
    while (!s.h->scheduler_1)
        usleep(100);
    pid_t owner = hold_lock(true);
    kill(owner, SIGKILL);
    siginfo_t ended;
    CHECK(waitid(P_PID, (id_t)owner, &ended, WEXITED | WNOWAIT) == 0);
    struct rlimit before = use_up_descriptors();
    segment_lock(&s);
    CHECK(s.h->n_takeovers == 1);
    segment_unlock(&s);
    setrlimit(RLIMIT_NOFILE, &before);
    end(owner);
    end(scheduler);
}

static void without_descriptors_nobody_alive_is_reaped(void)
{
    int32_t pids[MAX_CLIENTS];
    make_segment();
    CHECK(client_attach(&s, ROLE_DRIVER) == OBJSTORE_OK);
    pid_t dead = hold_lock(false);
    shared->let_go = 1;
    end(dead);
    pid_t alive = hold_lock(false);
    struct rlimit before = use_up_descriptors();
    CHECK(client_reap(&s, pids) == 1 && pids[0] == dead);
    CHECK(client_reap(&s, pids) == 0);
    setrlimit(RLIMIT_NOFILE, &before);
    CHECK(client_reap(&s, pids) == 0);
    end(alive);
    CHECK(client_reap(&s, pids) == 1 && pids[0] == alive);
}

static void who_cannot_say_when_it_began_does_not_attach(void)
{
    make_segment();
    struct rlimit before = use_up_descriptors();
    CHECK(client_attach(&s, ROLE_DRIVER) == OBJSTORE_SYSTEM && errno == EMFILE);
    setrlimit(RLIMIT_NOFILE, &before);
    CHECK(client_attach(&s, ROLE_DRIVER) == OBJSTORE_OK && s.me == 0);
}

/* Its number has been given to another, as far as the start time tells. */
static void a_successor_is_not_signalled(void)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    uint64_t began = process_start_time(pid);
    CHECK(began && process_look(pid, began) == PROCESS_RUNS);
    CHECK(process_signal(pid, began + 1, SIGKILL) == PROCESS_ENDED && process_look(pid, began) == PROCESS_RUNS);
    CHECK(process_signal(pid, began, SIGKILL) == PROCESS_RUNS);
    CHECK(waitpid(pid, NULL, 0) == pid && process_look(pid, began) == PROCESS_ENDED);
    CHECK(process_look(0, 0) == PROCESS_ENDED && process_look(-1, 0) == PROCESS_ENDED);
}

static void *wait_to_end(void *unused)
{
    (void)unused;
    while (!shared->let_go)
        usleep(100);
    _exit(0);
}

static int state_of(pid_t pid)
{
    char path[32], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    CHECK(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && fclose(f) == 0);
    return state;
}

/* The first thread of a process may end before the others, and does where a signal ends all: it is a zombie, and they
 * still write. */
static void a_process_lives_as_long_as_any_of_its_threads(void)
{
    make_segment();
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, wait_to_end, NULL) == 0);
        pthread_exit(NULL);
    }
    CHECK(pid > 0);
    while (state_of(pid) != 'Z')
        usleep(100);
    CHECK(process_look(pid, 0) == PROCESS_RUNS);
    shared->let_go = 1;
    siginfo_t ended;
    CHECK(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT) == 0);
    CHECK(state_of(pid) == 'Z' && process_look(pid, 0) == PROCESS_ENDED);
    end(pid);
}

int main(void)
{
    a_process_lives_as_long_as_any_of_its_threads();
    without_descriptors_a_living_owner_keeps_the_lock();
    without_descriptors_the_lock_of_who_is_gone_is_taken_over();
    the_scheduler_is_asked();
    without_descriptors_nobody_alive_is_reaped();
    who_cannot_say_when_it_began_does_not_attach();
    a_successor_is_not_signalled();
    puts("who cannot tell whether another lives waits for it");
    return 0;
}
