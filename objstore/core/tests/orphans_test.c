/* What a driver has started ends with it, at any depth of nesting; a detached actor, and what that has started, goes
 * on. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/small_world.h"

/* A worker in a process of its own, which takes a task, makes another one, takes that too if it is `busy`, and waits to
 * be killed. */
static pid_t working(bool busy, uint32_t *index)
{
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct segment s = attached(ROLE_WORKER);
        CHECK(popped(&s) != UINT32_MAX);
        submitted(&s, (struct task_spec){.max_retries = -1});
        CHECK(!busy || popped(&s) != UINT32_MAX);
        CHECK(write(ready[1], &s.me, sizeof s.me) == sizeof s.me);
        for (;;)
            pause();
    }
    CHECK(pid > 0 && read(ready[0], index, sizeof *index) == sizeof *index);
    close(ready[0]), close(ready[1]);
    return pid;
}

static bool was_killed(pid_t pid)
{
    int status;
    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static uint32_t state_of(const struct segment *s, uint32_t task) { return atomic_load(&s->tasks[task].state); }

/* A task of the driver runs and has made another, which runs and has made a third; others wait. */
static void test_tasks_in_tasks(struct segment *keeper)
{
    struct segment driver = attached(ROLE_DRIVER);
    uint32_t outer_worker, inner_worker;
    uint32_t outer = submitted(&driver, (struct task_spec){.max_retries = -1}),
             result = task_result(&driver, &driver.tasks[outer], 0);
    segment_lock(keeper);
    object_hold(keeper, result);
    segment_unlock(keeper);
    uint32_t waiting = submitted(&driver, (struct task_spec){.refs = &result, .n_refs = 1, .n_dependencies = 1});
    pid_t outer_pid = working(false, &outer_worker), inner_pid = working(true, &inner_worker);
    uint32_t anothers = submitted(keeper, (struct task_spec){0});
    CHECK(state_of(keeper, waiting) == TASK_WAITING && keeper->h->n_live_tasks == 5);

    client_died(keeper, driver.me, -SIGKILL);
    CHECK(was_killed(outer_pid) && was_killed(inner_pid));
    client_died(keeper, outer_worker, -SIGKILL);
    client_died(keeper, inner_worker, -SIGKILL);
    CHECK(keeper->h->n_live_tasks == 1 && state_of(keeper, anothers) == TASK_READY);
    CHECK(object_state(&keeper->objects[result]) == OBJECT_FAILED && segment_check(keeper, NULL, NULL) == 0);
    segment_lock(keeper);
    object_drop(keeper, result, keeper->me);
    segment_unlock(keeper);
    struct segment worker = attached(ROLE_WORKER);
    CHECK(popped(&worker) == anothers);
    finish(&worker, anothers);
    client_died(keeper, worker.me, 0);
}

/* Both are served by this process, which reports the death and so is not killed. */
static void test_actors(struct segment *keeper)
{
    struct segment driver = attached(ROLE_DRIVER), plain_worker = attached(ROLE_WORKER),
                   detached_worker = attached(ROLE_WORKER);
    uint32_t plain = made_actor(&driver, &plain_worker, 0),
             detached = made_actor(&driver, &detached_worker, ACTOR_FLAG_DETACHED);
    uint32_t call = submitted(&driver, (struct task_spec){.actor_1 = detached + 1});
    uint32_t its_own = submitted(&detached_worker, (struct task_spec){0});
    client_died(keeper, driver.me, -SIGKILL);
    client_died(keeper, plain_worker.me, -SIGKILL);
    CHECK(atomic_load(&keeper->actors[plain].state) == ACTOR_FREE &&
          atomic_load(&keeper->actors[detached].state) == ACTOR_ALIVE);
    CHECK(popped(&detached_worker) == call);
    finish(&detached_worker, call);
    CHECK(state_of(keeper, its_own) == TASK_READY && segment_check(keeper, NULL, NULL) == 0);
}

int main(void)
{
    struct segment keeper = new_world();
    test_tasks_in_tasks(&keeper);
    test_actors(&keeper);
    puts("what a driver has begun ends with it");
    return 0;
}
