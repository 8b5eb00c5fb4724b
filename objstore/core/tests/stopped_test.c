/* An owner of the lock that is stopped rather than dead. Stopped by a signal (Ctrl-Z), it goes on to the end of its
 * change and stops again. An owner that does not go on (under a debugger) is reported, left alone during the grace
 * period, and then evicted, unless it is a driver. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clients/client.h"
#include "clients/reap.h"
#include "recovery/check.h"
#include "tests/expect.h"

enum { SIZE = 1 << 20, GRACE_MS = 100, LONG_MS = 60000 };
static struct segment s; /* one mapping, inherited; `s.me` tells who acts */

static void make_segment(uint32_t grace_ms)
{
    struct segment_config config = {SIZE, 64, 64, 4, 64};
    unsigned char *base = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED && segment_format(base, &config) == OBJSTORE_OK &&
          segment_use(&s, base, SIZE) == OBJSTORE_OK);
    CHECK(client_attach(&s, ROLE_DRIVER) == OBJSTORE_OK);
    s.h->lock_grace_ms = grace_ms;
}

enum stop { ONCE, FOR_GOOD };

/* A client that is stopped in the middle of a change, and when continued finishes it. For good: by a debugger, to which
 * SIGCONT is nothing. */
static pid_t stop_inside_lock(enum client_role role, enum stop how)
{
    pid_t pid = fork();
    if (pid == 0) {
        uint32_t object;
        CHECK(client_attach(&s, role) == OBJSTORE_OK);
        segment_lock(&s);
        object_create(&s, s.me, 1 | PUT_BIT, &object);
        if (how == FOR_GOOD)
            CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
        raise(SIGSTOP);
        object_drop(&s, object, s.me);
        segment_unlock(&s);
        _exit(0);
    }
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    return pid;
}

static bool is_stopped(pid_t pid)
{
    siginfo_t seen;
    CHECK(waitid(P_PID, (id_t)pid, &seen, WSTOPPED | WEXITED) == 0);
    return seen.si_code == CLD_STOPPED;
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

static void one_that_was_stopped_lets_go_and_stops_again(enum client_role role)
{
    make_segment(GRACE_MS);
    pid_t pid = stop_inside_lock(role, ONCE);
    lock_and_check();
    CHECK(is_stopped(pid));
    CHECK(s.h->n_takeovers == 0 && atomic_load(&s.h->n_evicted) == 0 && s.h->n_live_objects == 0 &&
          s.h->stops_again == 0);
    kill(pid, SIGCONT);
    CHECK(ended_with(pid) == 0);
}

static void a_waiter_ends_it(void)
{
    make_segment(GRACE_MS);
    pid_t pid = stop_inside_lock(ROLE_WORKER, FOR_GOOD);
    lock_and_check();
    CHECK(ended_with(pid) == -SIGKILL);
    CHECK(s.h->n_takeovers == 1 && atomic_load(&s.h->n_evicted) == 1 && atomic_load(&s.h->evicted_pid) == pid);
    client_died(&s, 1, -SIGKILL);
    CHECK(s.h->n_live_objects == 0);
}

/* Continues an owner as soon as a waiter has reported it, and `later_ms` after that. */
static pid_t continue_later(pid_t pid, useconds_t later_ms)
{
    pid_t tracer = getpid(), helper = fork();
    if (helper == 0) {
        while (atomic_load(&s.h->stopped_pid) != pid)
            usleep(100);
        usleep(later_ms * 1000);
        kill(tracer, SIGUSR1); /* only the tracer can */
        _exit(0);
    }
    return helper;
}

static pid_t traced;
static void continue_traced(int number)
{
    (void)number;
    ptrace(PTRACE_DETACH, traced, NULL, NULL);
}

static void continued_it_goes_on(enum client_role role, uint32_t grace_ms, useconds_t later_ms)
{
    make_segment(grace_ms);
    signal(SIGUSR1, continue_traced);
    traced = stop_inside_lock(role, FOR_GOOD);
    pid_t helper = continue_later(traced, later_ms);
    lock_and_check();
    CHECK(ended_with(helper) == 0 && ended_with(traced) == 0);
    CHECK(s.h->n_takeovers == 0 && atomic_load(&s.h->n_evicted) == 0 && s.h->n_live_objects == 0);
}

/* The waiter that finds it notifies the scheduler, which then waits too, and evicts it. */
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
    pid_t pid = stop_inside_lock(ROLE_WORKER, FOR_GOOD);
    lock_and_check();
    CHECK(ended_with(scheduler) == 0 && ended_with(pid) == -SIGKILL);
}

int main(void)
{
    one_that_was_stopped_lets_go_and_stops_again(ROLE_WORKER);
    one_that_was_stopped_lets_go_and_stops_again(ROLE_DRIVER);
    if (ptrace(PTRACE_DETACH, getpid(), NULL, NULL) < 0 && errno == ENOSYS) {
        puts("a stopped owner finishes its change; no debugger can stop one, as there is no ptrace (qemu's user mode)");
        return 0;
    }
    a_waiter_ends_it();
    continued_it_goes_on(ROLE_WORKER, LONG_MS, 0);
    continued_it_goes_on(ROLE_DRIVER, 0, 50); /* drivers are waited for */
    the_scheduler_is_told();
    puts("a stopped owner finishes its change; one that stays stopped is reported, and killed unless it is a driver");
    return 0;
}
