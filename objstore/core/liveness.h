/* What can be learnt of another process, and told to it, by its number. Numbers come back: the time at which a process began tells it from
 * the next that has its number.
 *
 * What a survivor finds of what the dead has written, on any machine. A process that is killed releases nothing, and other processors may
 * see its last stores in another order than it made them. Nevertheless whoever knows that it has ended finds all that it wrote up to one
 * instruction, in program order, and nothing behind:
 *
 *  - A signal takes effect where the thread enters the kernel. Interrupts and faults are precise: what lies before that instruction has
 *    been carried out, what lies behind has not, and no store becomes visible on speculation.
 *  - On the dying thread's processor the kernel has a full barrier between its last instruction outside and the moment from which others
 *    can learn that it has ended. exit_mm names it ("a memory barrier after accessing user-space memory, before clearing tsk->mm",
 *    since 5.11), and exit_notify, which makes it a zombie, comes later. In older kernels locks lie in between, each of which is let go by
 *    a release and had by an acquire.
 *  - A process has ended when its last thread has. Its first one may be a zombie before: the number of threads tells, and neither waitpid
 *    nor a pidfd speaks before.
 *  - Who learns of it (process_look; the parent, which says so to client_died) has a full barrier of its own before it reads.
 *
 * So the order of writes within one process, which the compiler keeps between two STEPs, is enough for recovery. */
#ifndef CELLMESH_LIVENESS_H
#define CELLMESH_LIVENESS_H

#include <stdint.h>

/* Only PROCESS_ENDED allows to take over what the process had. Whoever cannot tell goes on waiting, and asks again. */
enum liveness {
    PROCESS_UNKNOWN, /* there is one of that number, and no more can be read: no descriptor or no memory is left */
    PROCESS_ENDED,   /* it is gone, or a zombie without threads, or another process has its number */
    PROCESS_RUNS,
    PROCESS_STOPPED, /* by a signal: SIGCONT has it go on */
    PROCESS_TRACED   /* stopped by a debugger */
};

/* `start_time`: what process_start_time once said of it; 0: any process of that number. */
enum liveness process_look(int32_t pid, uint64_t start_time);

/* In clock ticks since boot; 0: it cannot be read, or the process has ended. */
uint64_t process_start_time(int32_t pid);

/* Signals the process if it is (still) the one that began then, and says what was known of it. Where no descriptor is left the number is looked at
 * and signalled in two steps. */
enum liveness process_signal(int32_t pid, uint64_t start_time, int number);

#endif
