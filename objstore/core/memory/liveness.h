/* Observing and signalling another process by its pid. Pids are reused: the start time tells a process from the next
 * one with its pid.
 *
 * What a survivor sees of the writes of a dead process, on any processor. A killed process executes no release, and
 * other processors may see its last stores out of order. Nevertheless a process that knows of the death sees all writes
 * up to one instruction, in program order, and none after it:
 *
 *  - A signal takes effect where the thread enters the kernel. Interrupts and faults are precise: instructions before
 *    that point have been executed, those after it have not, and no speculative store becomes visible.
 *  - On the processor of the dying thread the kernel executes a full barrier between the last user instruction and the
 *    moment from which others can learn of the end. exit_mm documents it ("a memory barrier after accessing user-space
 *    memory, before clearing tsk->mm", since 5.11), and exit_notify, which makes the process a zombie, comes later.
 *    Older kernels take locks in between, each with a release and an acquire.
 *  - A process has ended when its last thread has. Its first thread may be a zombie before that: the number of threads
 *    tells, and neither waitpid nor a pidfd reports the end earlier.
 *  - The process that learns of the end (process_look; the parent, which calls client_died) executes a full barrier
 *    before it reads.
 *
 * So program order within one process, which the compiler keeps between two STEPs, is enough for recovery. */
#ifndef CELLMESH_LIVENESS_H
#define CELLMESH_LIVENESS_H

#include <stdint.h>

/* Only PROCESS_ENDED permits to take over what the process had. With PROCESS_UNKNOWN a caller waits and asks again. */
enum liveness {
    PROCESS_UNKNOWN, /* a process has that pid, and no more can be read: there is no descriptor or no memory left */
    PROCESS_ENDED,   /* it is gone, or a zombie without threads, or another process has its pid */
    PROCESS_RUNS,
    PROCESS_STOPPED, /* by a signal; SIGCONT continues it */
    PROCESS_TRACED   /* stopped by a debugger */
};

/* `start_time`: as process_start_time returned it; 0: any process with that pid. */
enum liveness process_look(int32_t pid, uint64_t start_time);

/* In clock ticks since boot; 0: it cannot be read, or the process has ended. */
uint64_t process_start_time(int32_t pid);

/* Signals the process if it is still the one with that start time, and returns what was found. Without a free
 * descriptor it looks first and then signals the pid, in two steps. */
enum liveness process_signal(int32_t pid, uint64_t start_time, int number);

#endif
