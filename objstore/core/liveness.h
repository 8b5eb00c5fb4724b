/* What can be learnt of another process, and told to it, by its number. Numbers come back: the time at which a process began tells it from
 * the next that has its number. */
#ifndef CELLMESH_LIVENESS_H
#define CELLMESH_LIVENESS_H

#include <stdint.h>

/* Only PROCESS_ENDED allows to take over what the process had. Whoever cannot tell goes on waiting, and asks again. */
enum liveness {
    PROCESS_UNKNOWN, /* there is one of that number, and no more can be read: no descriptor or no memory is left */
    PROCESS_ENDED,   /* it is gone, or a zombie, or another process has its number */
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
