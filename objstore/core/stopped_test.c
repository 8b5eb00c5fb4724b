/* An owner of the lock that is stopped (SIGSTOP, a debugger) instead of dead: it is reported, left alone as long as it may
 * still be continued, and then killed, so that nobody waits for ever. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burial.h"
#include "client.h"
#include "expect.h"
#include "recover.h"

enum { SIZE = 1 << 20, GRACE_MS = 100, LONG_MS = 60000 };
static struct segment s; /* one mapping, inherited; `s.me` tells who acts */

static void make_segment(uint32_t grace_ms)
{
    struct segment_config config = {SIZE, 64, 64, 4, 64};
    unsigned char *base = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED && segment_format(base, &config) == OBJSTORE_OK && segment_use(&s, base, SIZE) == OBJSTORE_OK);
    CHECK(client_attach(&s, ROLE_DRIVER) == OBJSTORE_OK);
    s.h->lock_grace_ms = grace_ms;
}

/* A client that stops itself in the middle of a change, and when continued finishes it. */
static pid_t stop_inside_lock(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        uint32_t object;
        CHECK(client_attach(&s, ROLE_WORKER) == OBJSTORE_OK);
        segment_lock(&s);
        object_create(&s, s.me, 1 | PUT_BIT, &object);
        raise(SIGSTOP);
        object_drop(&s, object, s.me);
        segment_unlock(&s);
        _exit(0);
    }
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    return pid;
}

static int ended_with(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void lock_and_check(void)
{
    segment_lock(&s);
    CHECK(segment_check(&s, NULL, NULL) == 0);
    segment_unlock(&s);
    CHECK(atomic_load(&s.h->stopped_pid) == 0);
}

static void a_waiter_ends_it(void)
{
    make_segment(GRACE_MS);
    pid_t pid = stop_inside_lock();
    lock_and_check();
    CHECK(ended_with(pid) == -SIGKILL);
    CHECK(s.h->n_takeovers == 1 && atomic_load(&s.h->n_expelled) == 1 && atomic_load(&s.h->expelled_pid) == pid);
    client_died(&s, 1, -SIGKILL);
    CHECK(s.h->n_live_objects == 0);
}

static void continued_it_goes_on(void)
{
    make_segment(LONG_MS);
    pid_t pid = stop_inside_lock(), helper = fork();
    if (helper == 0) { /* continues it as soon as somebody has complained */
        while (atomic_load(&s.h->stopped_pid) != pid)
            usleep(100);
        kill(pid, SIGCONT);
        _exit(0);
    }
    lock_and_check();
    CHECK(ended_with(helper) == 0 && ended_with(pid) == 0);
    CHECK(s.h->n_takeovers == 0 && atomic_load(&s.h->n_expelled) == 0 && s.h->n_live_objects == 0);
}

/* Whoever finds it calls the scheduler, which by then waits too, and is the one to end it. */
static void the_scheduler_is_told(void)
{
    make_segment(GRACE_MS);
    pid_t scheduler = fork();
    if (scheduler == 0) {
        CHECK(client_attach(&s, ROLE_SCHEDULER) == OBJSTORE_OK);
        while (!atomic_load(&s.h->attention))
            client_sleep(&s, client_inbox(&s), 10000000, NULL);
        _exit(atomic_load(&s.h->stopped_pid) > 0 ? 0 : 1);
    }
    while (!s.h->scheduler_1)
        usleep(100);
    pid_t pid = stop_inside_lock();
    lock_and_check();
    CHECK(ended_with(scheduler) == 0 && ended_with(pid) == -SIGKILL);
}

int main(void)
{
    a_waiter_ends_it();
    continued_it_goes_on();
    the_scheduler_is_told();
    puts("a stopped owner is reported, may be continued, and is killed after the grace period");
    return 0;
}
