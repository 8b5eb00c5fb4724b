/* A machine with a few workers, of which each step is checked as it ends. Its variables are static: for one test
 * each. */
#ifndef CELLMESH_TESTS_ORDER_MACHINE_H
#define CELLMESH_TESTS_ORDER_MACHINE_H

#include "tests/small_world.h"

enum { N_WORKERS_MAX = 80 };
static struct segment s, workers[N_WORKERS_MAX];

static void new_machine(int n_workers)
{
    s = new_world();
    for (int i = 0; i < n_workers; i++)
        workers[i] = attached(ROLE_WORKER);
}

static void check(void)
{
    segment_lock(&s);
    CHECK(segment_check(&s, NULL, NULL) == 0);
    segment_unlock(&s);
}

__attribute__((unused)) static uint32_t next(int worker)
{
    uint32_t task = popped(&workers[worker]);
    check();
    return task;
}

#endif
