/* Death at every instruction. For every operation of the core (world.h) a victim is single-stepped. Whenever an
 * instruction has changed the segment, a survivor gets a copy of it and acts as if the victim had died there. A killed
 * process leaves shared memory as its last instruction left it, so the copy is exactly what a death leaves.
 * Instructions that change nothing leave nothing new to examine, so this covers every boundary between two
 * instructions.
 *
 *   stepping_test          every operation
 *   stepping_test sample   every sixteenth (crash_test kills all of them, at every step)
 *   stepping_test NAME     one of them
 *   stepping_test again    the process that clears up after a death inside the lock is stepped likewise, for each line
 *                          of code at which such a death can be (nightly)
 *
 * Sanitizers add instructions that the product does not have, so there is nothing to step with one. */
#include <sys/ptrace.h>

#include "tests/crash/world.h"

static unsigned char *memory, *last, *copy; /* the victim's, as seen before, the survivor's */
/* A survivor looks at the segment as it is now; the victim counts as dead. */
static void examine(pid_t victim)
{
    uint32_t n = n_held;
    memcpy(copy, memory, WORLD_SIZE);
    see(copy);
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        if (atomic_load(&s.clients[i].pid) == victim)
            atomic_store(&s.clients[i].pid, INT32_MAX); /* no pid is that high */
    survive();
    n_held = n;
}

struct walk {
    long instructions, states;
};

static void trace_me(void (*ready)(void), void (*run)(void))
{
    ready();
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        perror("ptrace is not allowed here, so nothing can be single-stepped");
        _exit(2);
    }
    raise(SIGSTOP);
    run();
    _exit(0);
}

/* Single-steps `run`; the victim's segment lies in `memory`. */
static struct walk step_through(void (*ready)(void), void (*run)(void), const char *name)
{
    struct walk walk = {0, 0};
    pid_t victim = begin();
    if (victim == 0)
        trace_me(ready, run);
    int status;
    CHECK(waitpid(victim, &status, 0) == victim && WIFSTOPPED(status));
    memcpy(last, memory, WORLD_SIZE);
    for (;;) {
        if (walk.instructions == 0 || memcmp(last, memory, WORLD_SIZE) != 0) {
            snprintf(where, sizeof where, "%s, instruction %ld", name, walk.instructions);
            memcpy(last, memory, WORLD_SIZE);
            examine(victim);
            walk.states++;
        }
        CHECK(ptrace(PTRACE_SINGLESTEP, victim, NULL, NULL) == 0 && waitpid(victim, &status, 0) == victim);
        if (!WIFSTOPPED(status))
            break;
        CHECK(WSTOPSIG(status) == SIGTRAP);
        walk.instructions++;
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return walk;
}

static void add(struct walk *sum, struct walk t)
{
    sum->instructions += t.instructions;
    sum->states += t.states;
}

static struct walk step_operations(const char *only, int every)
{
    struct walk sum = {0, 0};
    for (const struct operation *o = operations; o < operations + N_OPERATIONS; o += every) {
        if (only && strcmp(only, o->name) != 0)
            continue;
        make_world(memory);
        struct walk t = step_through(o->ready, o->run, o->name);
        printf("%-28s %7ld instructions, %6ld states\n", o->name, t.instructions, t.states);
        add(&sum, t);
    }
    return sum;
}

/* ------------------------------------------------------------------ the second death */

static struct walk step_clearing_up(void)
{
    struct walk sum = {0, 0};
    for (const struct operation *o = operations; o < operations + N_OPERATIONS; o++)
        for (long n = 0;; n++) {
            make_world(memory);
            if (kill_at(n, o->ready, o->run))
                break;
            if (!atomic_load(&s.h->lock) || died_here_before())
                continue;
            char name[100];
            snprintf(name, sizeof name, "clearing up after %s at %s:%d", o->name, death->file, death->line);
            s.me = UINT32_MAX;
            struct walk t = step_through(nobody, run_clear_up, name);
            printf("%-60s %7ld instructions, %6ld states\n", name, t.instructions, t.states);
            add(&sum, t);
        }
    return sum;
}

static int main_of_stepping_test(int argc, char **argv)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    return printf("not with a sanitizer\n") < 0;
#endif
    setvbuf(stdout, NULL, _IOLBF, 0);
    lock_patience_ns = 1000;
    memory = shared(WORLD_SIZE);
    copy = shared(WORLD_SIZE);
    last = shared(WORLD_SIZE);
    death = shared(sizeof *death);
    disk = shared(N_FILES * sizeof *disk);
    bool again = argc > 1 && !strcmp(argv[1], "again"), sample = argc > 1 && !strcmp(argv[1], "sample");
    const char *only = argc > 1 && !sample ? argv[1] : NULL;
    struct walk t = again ? step_clearing_up() : step_operations(only, sample ? 16 : 1);
    printf("died at each of %ld instructions, looked at %ld states: nothing torn, lost or left\n", t.instructions,
           t.states);
    return t.states > (only ? 0 : sample ? 100 : 1000) ? 0 : 1;
}
