/* Calls of one caller to an ordered actor keep their order, calls of different callers need not. A client that gets the
 * slot of a dead one is another caller. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>

#include "tests/small_world.h"

int main(void)
{
    struct segment keeper = new_world(), worker = attached(ROLE_WORKER), caller = attached(ROLE_WORKER);
    uint32_t actor = made_actor(&keeper, &worker, 0), first = submitted(&keeper, (struct task_spec){0});
    uint32_t later = task_result(&keeper, &keeper.tasks[first], 0);

    uint32_t waiting =
        submitted(&caller, (struct task_spec){.actor_1 = actor + 1, .refs = &later, .n_refs = 1, .n_dependencies = 1});
    uint32_t behind = submitted(&caller, (struct task_spec){.actor_1 = actor + 1});
    CHECK(popped(&worker) == UINT32_MAX); /* the second call of a caller waits for the first */
    client_died(&keeper, caller.me, -SIGKILL);
    struct segment next = attached(ROLE_WORKER);
    CHECK(next.me == caller.me);
    uint32_t call = submitted(&next, (struct task_spec){.actor_1 = actor + 1});
    CHECK(popped(&worker) == call); /* not for a call of the dead client whose slot this was */
    finish(&worker, call);

    CHECK(popped(&worker) == UINT32_MAX); /* those of the dead client still come in order */
    struct segment other = attached(ROLE_WORKER);
    CHECK(popped(&other) == first);
    finish(&other, first);
    CHECK(popped(&worker) == waiting);
    finish(&worker, waiting);
    CHECK(popped(&worker) == behind && segment_check(&keeper, NULL, NULL) == 0);
    puts("a slot's next client is not behind the last one's calls");
    return 0;
}
