/* Death at every fail point. For every operation of the core (world.h) a victim process is killed before its n-th
 * STEP() or ARENA_STEP(), for every n until it survives, and a survivor examines the segment.
 *
 *   crash_test          every operation, then deaths of the processes that clear up after a death
 *   crash_test quick    ... each of which dies at every fourth step only, first at another one each time
 *   crash_test sample   ... and the victims at every seventeenth (for sanitizers, under which a death takes longer)
 *   crash_test all      ... after every single death, rather than one for each line of code (nightly)
 *   crash_test NAME [N [M]]
 *                       one operation [killed at its N-th step [and the process that clears up, at its M-th]]
 */
#include "tests/crash/world.h"

static unsigned char *memory;
static long n_kills, stride = 1;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
static long second_stride = 32; /* a process with shadow memory takes twenty times as long to die */
#else
static long second_stride = 1;
#endif

/* True: it survived. */
static bool kill_operation(const struct operation *o, long n)
{
    snprintf(where, sizeof where, "%s, step %ld", o->name, n);
    make_world(memory);
    if (kill_at(n, o->ready, o->run))
        return true;
    n_kills++;
    snprintf(where, sizeof where, "%s, step %ld (%s:%d)", o->name, n, death->file, death->line);
    return false;
}

/* ------------------------------------------------------------------ one death, and the death of the process that
 * clears up */

static long sweep_operation(const struct operation *o)
{
    long n = 0;
    while (!kill_operation(o, n)) {
        survive();
        n += stride;
    }
    survive();
    return n;
}

/* The segment as the first victim left it, from which the second begins again and again. */
static unsigned char *left_behind;

/* True: it survived. */
static bool kill_clearing_up(long step)
{
    char first[sizeof where];
    memcpy(first, where, sizeof first);
    s.me = UINT32_MAX;
    bool survived = kill_at(step, nobody, run_clear_up);
    n_kills += !survived;
    snprintf(where, sizeof where, "%.80s, then clearing up, step %ld (%.20s:%d)", first, step, death->file,
             death->line);
    survive();
    memcpy(where, first, sizeof first);
    return survived;
}

static void sweep_clearing_up(void)
{
    memcpy(left_behind, memory, WORLD_SIZE);
    static long n_sweeps;
    uint32_t n = n_held;
    for (long step = n_sweeps++ % second_stride; !kill_clearing_up(step); step += second_stride) {
        memcpy(memory, left_behind, WORLD_SIZE);
        n_held = n;
    }
}

static void sweep_second_deaths(bool all)
{
    for (const struct operation *o = operations; o < operations + N_OPERATIONS; o++)
        for (long n = 0; !kill_operation(o, n); n += stride)
            if (atomic_load(&s.h->lock) && (all || !died_here_before()))
                sweep_clearing_up();
}

/* ------------------------------------------------------------------ nobody sleeps on */

static pid_t start_client(void (*life)(void))
{
    pid_t pid = begin();
    if (pid == 0) {
        attach();
        life();
        _exit(0);
    }
    return pid;
}

static void until(bool (*condition)(void))
{
    int64_t end = monotonic_ns() + 5 * INT64_C(1000000000);
    while (!condition()) {
        CHECK(monotonic_ns() < end);
        usleep(50);
    }
}

static uint32_t n_sleepers;
static bool all_asleep(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        n += atomic_load(&s.clients[i].sleepers);
    return n == n_sleepers;
}
static bool no_task_but_the_actors(void) { return s.h->n_live_tasks == 1; } /* its constructor's, kept for restarts */
static bool child_ended(void) { return waitpid(-1, NULL, WNOHANG) > 0; }

static void get_without_timeout(void)
{
    for (uint32_t seen = client_inbox(&s); object_mark_waiting(&s, held[1]); seen = client_inbox(&s)) {
        atomic_store(&s.clients[s.me].need, 1);
        client_sleep(&s, seen, -1, NULL);
    }
}

static void work_without_timeout(void)
{
    for (uint32_t seen = client_inbox(&s); !atomic_load(&s.h->closing); seen = client_inbox(&s)) {
        work_until_idle();
        client_sleep(&s, seen, -1, NULL);
    }
}

static void run_one(void)
{
    n_sealed = 1; /* inline, that is outside the lock */
    work();
}

/* A worker dies between taking a task and the last notification: clients that sleep for the result get it. */
static bool a_getter_wakes(long n)
{
    make_world(memory);
    start_client(get_without_timeout);
    n_sleepers = 1;
    until(all_asleep);
    snprintf(where, sizeof where, "a getter sleeps, step %ld", n);
    bool survived = kill_at(n, attach, run_one);
    client_died(&s, 2, -SIGKILL);
    for (int i = 0; i < 2; i++) { /* one of them may go on as the actor's worker */
        attach();
        work_until_idle();
    }
    until(child_ended);
    survive();
    return survived;
}

static void run_hand_out_work(void)
{
    a = submit_one(8, 0);
    b = submit_one(0, drivers_actor_1);
    submit(&a, (struct shape){1, 1, 0, 1, 0}, results);
}

/* A driver dies while it submits: sleeping workers do all the work that it managed to submit. */
static bool workers_wake(long n)
{
    make_world(memory);
    pid_t workers[2] = {start_client(work_without_timeout), start_client(work_without_timeout)};
    n_sleepers = 2;
    until(no_task_but_the_actors);
    until(all_asleep);
    snprintf(where, sizeof where, "workers sleep, step %ld", n);
    bool survived = kill_at(n, attach, run_hand_out_work);
    client_died(&s, 3, -SIGKILL);
    until(no_task_but_the_actors);
    atomic_store(&s.h->closing, 1);
    notify_client(&s, 1);
    notify_client(&s, 2);
    CHECK(waitpid(workers[0], NULL, 0) == workers[0] && waitpid(workers[1], NULL, 0) == workers[1]);
    survive();
    return survived;
}

/* ------------------------------------------------------------------ nobody is held up */

static struct {
    _Atomic bool stop;
    _Atomic int64_t n, longest_ns;
} *bystander;
static bool bystander_works(void) { return atomic_load(&bystander->n) > 0; }

static void put_and_drop(void)
{
    while (!atomic_load(&bystander->stop)) {
        int64_t began = monotonic_ns();
        drop(put_arena(100, NULL, 0));
        int64_t took = monotonic_ns() - began;
        if (took > atomic_load(&bystander->longest_ns))
            atomic_store(&bystander->longest_ns, took);
        atomic_fetch_add(&bystander->n, 1);
    }
}

/* Another client's longest operation while the victim dies at its n-th step. */
static bool stall_at(long n, int64_t *stall_ns)
{
    make_world(memory);
    snprintf(where, sizeof where, "a bystander, step %ld", n);
    atomic_store(&bystander->stop, false);
    atomic_store(&bystander->n, 0);
    pid_t pid = start_client(put_and_drop);
    until(bystander_works);
    atomic_store(&bystander->longest_ns, 0);
    bool survived = kill_at(n, attach, run_everything);
    client_died(&s, 2, -SIGKILL);
    atomic_store(&bystander->stop, true);
    CHECK(waitpid(pid, NULL, 0) == pid);
    *stall_ns = atomic_load(&bystander->longest_ns);
    survive();
    return survived;
}

static int by_size(const void *x, const void *y)
{
    int64_t m = *(const int64_t *)x, n = *(const int64_t *)y;
    return (m > n) - (m < n);
}

static void measure_stalls(int64_t patience_ns)
{
    int64_t stalls[1024];
    size_t n = 0;
    lock_patience_ns = patience_ns;
    while (n < 1024 && !stall_at((long)n, &stalls[n]))
        n++;
    qsort(stalls, n, sizeof *stalls, by_size);
    printf("stall of a bystander, over %zu deaths: median %.1f ms, 99%% %.1f ms, longest %.1f ms\n", n,
           (double)stalls[n / 2] / 1e6, (double)stalls[n * 99 / 100] / 1e6, (double)stalls[n - 1] / 1e6);
}

/* ------------------------------------------------------------------ */

static int sweep_named(const char *name, const char *step, const char *second)
{
    for (const struct operation *o = operations; o < operations + N_OPERATIONS; o++)
        if (!strcmp(o->name, name)) {
            if (!step)
                return printf("%s: killed at each of %ld steps\n", name, sweep_operation(o)) < 0;
            bool survived = kill_operation(o, strtol(step, NULL, 10));
            printf("%s: %s\n", where, survived ? "survived" : "killed");
            if (!survived && second)
                kill_clearing_up(strtol(second, NULL, 10));
            else
                survive();
            return 0;
        }
    fprintf(stderr, "no operation is named %s\n", name);
    return 2;
}

static int main_of_crash_test(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    int64_t patience_ns = lock_patience_ns;
    const char *how = argc > 1 ? argv[1] : "";
    bool all = !strcmp(how, "all"), quick = !strcmp(how, "quick"), sample = !strcmp(how, "sample");
    lock_patience_ns = 300 * 1000; /* no other process is running: an owner that is found is dead */
    memory = shared(WORLD_SIZE);
    death = shared(sizeof *death);
    disk = shared(N_FILES * sizeof *disk);
    bystander = shared(sizeof *bystander);
    left_behind = malloc(WORLD_SIZE);
    if (sample)
        stride = 17;
    else if (quick)
        second_stride = 4;
    else if (argc > 1 && !all)
        return sweep_named(how, argc > 2 ? argv[2] : NULL, argc > 3 ? argv[3] : NULL);
    long n = 0;
    for (const struct operation *o = operations; o < operations + N_OPERATIONS; o++) {
        long steps = sweep_operation(o);
        snprintf(where, sizeof where, "%s", o->name);
        CHECK(steps > 2); /* an operation that shrank to nothing would prove nothing */
        n += steps;
    }
    printf("%d operations, %ld steps, killed at every %s\n", (int)N_OPERATIONS, n, sample ? "seventeenth" : "one");
    n = n_kills;
    sweep_second_deaths(all);
    printf("processes that took over, killed %ld times\n", n_kills - n);
    for (n = 0; !a_getter_wakes(n); n++)
        ;
    for (n = 0; !workers_wake(n); n++)
        ;
    measure_stalls(patience_ns);
    printf("%ld kills: nothing torn, lost or left, nobody slept on\n", n_kills);
    return 0;
}
