/* Deaths in a store that is full to its limits: nothing is torn, lost or left, and no process is held up for long.
 *
 *   scale_test                20,000 objects, or half as many tasks: correctness alone
 *   scale_test 1000000 150    so many, and a bystander stalls for at most 150 ms (nightly): 100 are promised, the rest
 *                             allows for the machine
 *
 * Each kind of death happens several times, each time beside a bystander that puts and drops objects. The longest of
 * the bystander's operations is the stall. The shortest stall of a kind is compared with the limit, since longer ones
 * are due to the machine. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define REAP_PAGE page_size
static unsigned page_size = 512; /* many pages in a small store */

#include "tasks/actor.h"
#include "tasks/resource.h"
#include "tests/expect.h"
#define CELLMESH_STEPS
#undef STEP
#define STEP() (atomic_signal_fence(memory_order_seq_cst), core_step())
static void core_step(void);
#include "clients/reap.c"
#include "recovery/check.h"

enum { N_TIMES = 5, DRIVER = 0, BATCH = 4096 };
static struct segment s;
static int fd;                                    /* of its memory: each client maps it itself, as processes do */
static uint32_t n_most, n_slots, function, class; /* n_slots: as many objects are in the store */
/* What happens when a reaping has come so far that `client` no longer holds that object. */
static struct {
    uint32_t client, object;
    void (*inside)(void), (*between_pages)(void);
} when;
static struct {
    _Atomic bool stop;
    _Atomic int64_t n, longest_ns;
} *bystander;

static void core_step(void)
{
    void (**happens)(void) = atomic_load(&s.h->lock) ? &when.inside : &when.between_pages, (*life)(void) = *happens;
    if (!life || atomic_load(&s.objects[when.object].holders[when.client / 64]) >> (when.client % 64) & 1)
        return;
    *happens = NULL;
    life();
}

/* ------------------------------------------------------------------ a full store */

static uint32_t put(uint32_t size, const uint32_t *refs, uint32_t n_refs)
{
    uint32_t object;
    segment_lock(&s);
    CHECK(object_create(&s, s.me, s.h->next_seq++ | PUT_BIT, &object) == OBJSTORE_OK);
    uint64_t at = object_allocate(&s, size, n_refs);
    CHECK(at);
    memset(s.base + at, 7, size);
    if (n_refs)
        memcpy(object_refs_at(&s, at, size), refs, n_refs * sizeof *refs);
    CHECK(object_seal_arena(&s, object, OBJECT_READY, at, size, n_refs));
    segment_unlock(&s);
    return object;
}

static void drop(uint32_t object) { client_drop(&s, &object, 1); }

static uint32_t submit(uint32_t argument_size)
{
    static const char argument[64];
    uint32_t result, task;
    struct task_spec spec = {.function = function,
                             .resource_class = class,
                             .n_returns = 1,
                             .max_retries = -1,
                             .arguments = argument,
                             .arguments_size = argument_size};
    segment_lock(&s);
    CHECK(task_submit(&s, &spec, &result, &task) == OBJSTORE_OK);
    segment_unlock(&s);
    return result;
}

/* Values in the arena, of which every fourth contains the one before it; or queued tasks, every other with arguments in
 * the arena. */
static void fill(bool tasks)
{
    int64_t cpu[MAX_KINDS] = {RESOURCE_UNIT};
    segment_lock(&s);
    CHECK(resource_class(&s, cpu, cpu, 0, ON_NODE, &class) == OBJSTORE_OK);
    resource_set_total(&s, cpu);
    segment_unlock(&s);
    uint32_t last = function = put(100, NULL, 0);
    for (uint32_t i = 1; i < n_slots; i++)
        last = tasks ? submit(i % 2 ? 8 : 60) : put(100, &last, i % 4 == 0);
}

static void attach(uint32_t role)
{
    CHECK(segment_map(&s, fd) == OBJSTORE_OK && client_attach(&s, role) == OBJSTORE_OK);
}

static void make_store(bool tasks)
{
    n_slots = tasks ? n_most / 2 : n_most;
    uint32_t n = n_slots + 64;
    struct segment_config config = {((uint64_t)n + 4096) * 640 + (2 << 20), n, n, 16, 1 << 12};
    fd = segment_create(&config);
    CHECK(fd >= 0);
    attach(ROLE_DRIVER);
    fill(tasks);
}

/* Everything is there, can be finished and goes. */
static void end_store(void)
{
    CHECK(s.me == DRIVER);
    segment_lock(&s);
    CHECK(segment_check(&s, NULL, NULL) == 0);
    CHECK(s.h->n_live_objects == n_slots);
    for (uint32_t task = task_pop(&s); task != UINT32_MAX; task = task_pop(&s)) {
        object_seal_inline(&s, s.tasks[task].result_1 - 1, OBJECT_READY, "ok", 2);
        task_finish(&s, task, EVENT_OK);
    }
    for (uint32_t i = 0; i < s.h->touched_objects; i++)
        if (object_state(&s.objects[i]) != OBJECT_FREE)
            object_drop(&s, i, s.me);
    CHECK(s.h->n_live_objects == 0 && s.h->n_live_tasks == 0 && s.h->arena.used_bytes == 0);
    CHECK(segment_check(&s, NULL, NULL) == 0);
    segment_unlock(&s);
    segment_unmap(&s);
    close(fd);
}

/* ------------------------------------------------------------------ who looks on */

static pid_t start(void (*life)(void))
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        life();
        _exit(0);
    }
    return pid;
}

static void note_time_since(int64_t *began)
{
    int64_t now = monotonic_ns();
    if (now - *began > atomic_load(&bystander->longest_ns))
        atomic_store(&bystander->longest_ns, now - *began);
    *began = now;
}

static void look_on(void)
{
    attach(ROLE_WORKER);
    for (int64_t began = monotonic_ns(); !atomic_load(&bystander->stop); atomic_fetch_add(&bystander->n, 1)) {
        uint32_t object = put(100, NULL, 0);
        note_time_since(&began);
        drop(object);
        note_time_since(&began);
    }
    client_died(&s, s.me, 0);
}

static pid_t start_bystander(void)
{
    atomic_store(&bystander->stop, false);
    atomic_store(&bystander->n, 0);
    pid_t pid = start(look_on);
    while (atomic_load(&bystander->n) == 0)
        usleep(100);
    atomic_store(&bystander->longest_ns, 0);
    return pid;
}

static void wait_for(pid_t pid, int how)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(how ? WIFSIGNALED(status) && WTERMSIG(status) == how : status == 0);
}

static uint32_t client_of(pid_t pid)
{
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        if (atomic_load(&s.clients[i].pid) == pid)
            return i;
    return MAX_CLIENTS;
}

static void report(pid_t pid) { client_died(&s, client_of(pid), -SIGKILL); }

/* ------------------------------------------------------------------ who dies */

static pid_t victim; /* of the reaper */

static void idle(void)
{
    attach(ROLE_WORKER);
    raise(SIGKILL);
}
static void holding_all(void) /* and a task, memory of its own, and a value that no other client holds */
{
    attach(ROLE_WORKER);
    for (uint32_t i = 0; i < s.h->touched_objects; i++)
        object_hold(&s, i);
    put(1000, NULL, 0);
    segment_lock(&s);
    task_pop(&s);
    CHECK(object_allocate(&s, 2000, 0));
    segment_unlock(&s);
    raise(SIGKILL);
}
static void inside(void)
{
    attach(ROLE_WORKER);
    segment_lock(&s);
    raise(SIGKILL);
}
static void inside_a_put(void)
{
    uint32_t object;
    attach(ROLE_WORKER);
    segment_lock(&s);
    CHECK(object_create(&s, s.me, s.h->next_seq++ | PUT_BIT, &object) == OBJSTORE_OK && object_allocate(&s, 500, 0));
    raise(SIGKILL);
}
static void inside_a_task(void)
{
    attach(ROLE_WORKER);
    segment_lock(&s);
    task_pop(&s);
    raise(SIGKILL);
}
static void reap_victim(void)
{
    attach(ROLE_WORKER);
    report(victim);
    client_died(&s, s.me, 0);
}
static void die(void) { raise(SIGKILL); }
static void reap_to(uint32_t share)
{
    attach(ROLE_WORKER);
    when.client = client_of(victim), when.object = s.h->touched_objects / share, when.inside = die;
    report(victim);
}
static void reaping(void) { reap_to(2); } /* a client that held all objects, in the middle of its references */
static void beginning_to_reap(void) { reap_to(8); }

static void one_dies(void (*life)(void))
{
    pid_t pid = start(life);
    wait_for(pid, SIGKILL);
    report(pid);
}
static void a_reaper_dies(void (*life)(void))
{
    victim = start(holding_all);
    wait_for(victim, SIGKILL);
    uint32_t dying = client_of(victim);
    pid_t pid = start(life);
    wait_for(pid, SIGKILL);
    CHECK(atomic_load(&s.clients[dying].state) == CLIENT_DYING);
    pid_t other = start(idle); /* its slot is not to be had yet */
    wait_for(other, SIGKILL);
    CHECK(client_of(victim) == dying && client_of(other) != dying);
    report(other);
    CHECK(atomic_load(&s.clients[dying].state) == CLIENT_FREE);
    report(pid);
}

/* While one reaps, another is done with it sooner, and the slot's next client dies and is not yet reaped. */
static void the_slot_is_taken(void)
{
    wait_for(start(reap_victim), 0);
    CHECK(atomic_load(&s.clients[when.client].state) == CLIENT_FREE);
    victim = start(holding_all);
    wait_for(victim, SIGKILL);
    CHECK(client_of(victim) == when.client);
    wait_for(start(beginning_to_reap), SIGKILL);
    CHECK(atomic_load(&s.clients[when.client].state) == CLIENT_DYING);
}
static void two_die(void (*life)(void))
{
    int32_t pids[MAX_CLIENTS];
    victim = start(life);
    wait_for(victim, SIGKILL);
    when.client = client_of(victim), when.object = s.h->touched_objects / 2, when.between_pages = the_slot_is_taken;
    report(victim);
    CHECK(!when.between_pages);
    client_reap(&s, pids); /* the process that began it */
}

static const struct kind {
    const char *name;
    bool tasks;
    void (*happens)(void (*)(void)), (*life)(void);
} kinds[] = {{"idle", false, one_dies, idle},
             {"holding every object", false, one_dies, holding_all},
             {"inside the lock", false, one_dies, inside},
             {"inside a put", false, one_dies, inside_a_put},
             {"reaping one who held all", false, a_reaper_dies, reaping},
             {"in the slot of one who held all", false, two_die, holding_all},
             {"running a task, others queued", true, one_dies, holding_all},
             {"inside a pop, others queued", true, one_dies, inside_a_task}};

static int by_size(const void *x, const void *y)
{
    int64_t m = *(const int64_t *)x, n = *(const int64_t *)y;
    return (m > n) - (m < n);
}

static bool meet(const struct kind *kind, int64_t limit_ns)
{
    int64_t stalls[N_TIMES];
    for (int i = 0; i < N_TIMES; i++) {
        make_store(kind->tasks);
        pid_t pid = start_bystander();
        kind->happens(kind->life);
        atomic_store(&bystander->stop, true);
        wait_for(pid, 0);
        stalls[i] = atomic_load(&bystander->longest_ns);
        end_store();
    }
    qsort(stalls, N_TIMES, sizeof *stalls, by_size);
    bool kept = limit_ns == 0 || stalls[0] <= limit_ns;
    printf("%-32s stall of a bystander: shortest %.1f ms, median %.1f ms, longest %.1f ms%s\n", kind->name,
           (double)stalls[0] / 1e6, (double)stalls[N_TIMES / 2] / 1e6, (double)stalls[N_TIMES - 1] / 1e6,
           kept ? "" : ": TOO LONG");
    return kept;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    n_most = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 20000;
    int64_t limit_ns = argc > 2 ? strtol(argv[2], NULL, 10) * 1000000 : 0;
    if (argc > 1)
        page_size = 4096;
    bystander = mmap(NULL, sizeof *bystander, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(bystander != MAP_FAILED);
    bool kept = true;
    for (const struct kind *k = kinds; k < kinds + sizeof kinds / sizeof *kinds; k++)
        kept &= meet(k, limit_ns);
    return kept ? 0 : 1;
}
