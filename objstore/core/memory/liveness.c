#define _GNU_SOURCE
#include "memory/liveness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STATE = 3, N_THREADS = 20, START_TIME = 22 }; /* fields of /proc/PID/stat, see proc(5) */

/* False: they cannot be read. */
static bool read_stat(int32_t pid, char *state, uint64_t *n_threads, uint64_t *start_time)
{
    char path[48], text[512];
    /* Not /proc/PID/stat: for its own process qemu's user mode (a build for another processor) makes up a start time
     * that other processes do not see. */
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    char *p = strrchr(text, ')'); /* the command may contain spaces and parentheses */
    if (!p || p[1] == 0)
        return false;
    *state = p[2];
    for (int field = STATE - 1; *p && field < START_TIME;) {
        if (*p++ == ' ' && ++field == N_THREADS)
            *n_threads = strtoull(p, NULL, 10);
    }
    *start_time = strtoull(p, NULL, 10);
    return *start_time != 0;
}

/* The state is that of the first thread. As a zombie it waits for the others, which go on, or are about to die of the
 * same signal. */
static enum liveness look(int32_t pid, uint64_t start_time)
{
    char state;
    uint64_t began, n_threads = 0;
    if (pid <= 0 || (kill(pid, 0) < 0 && errno == ESRCH)) /* which needs no descriptor */
        return PROCESS_ENDED;
    if (!read_stat(pid, &state, &n_threads, &began))
        return PROCESS_UNKNOWN;
    if (((state == 'Z' || state == 'X') && n_threads <= 1) || (start_time && began != start_time))
        return PROCESS_ENDED;
    return state == 'T' ? PROCESS_STOPPED : state == 't' ? PROCESS_TRACED : PROCESS_RUNS;
}

enum liveness process_look(int32_t pid, uint64_t start_time)
{
    enum liveness seen = look(pid, start_time);
    if (seen == PROCESS_ENDED)
        /* pairs with the kernel's barrier at its exit, see liveness.h: its writes are visible to all reads from here on
         */
        atomic_thread_fence(memory_order_seq_cst);
    return seen;
}

uint64_t process_start_time(int32_t pid)
{
    char state;
    uint64_t began, n_threads;
    return read_stat(pid, &state, &n_threads, &began) && state != 'Z' && state != 'X' ? began : 0;
}

enum liveness process_signal(int32_t pid, uint64_t start_time, int number)
{
    /* no other process can get the pid between the look and the signal */
    int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    enum liveness seen = process_look(pid, start_time);
    if (seen != PROCESS_ENDED &&
        (fd >= 0 ? syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) : kill(pid, number)) < 0 && errno == ESRCH)
        seen = PROCESS_ENDED;
    if (fd >= 0)
        close(fd);
    return seen;
}
