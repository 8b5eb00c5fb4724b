/* Tests of the allocator: single cases, random operations against a shadow, and a death at every step.
 *
 *   arena_test           all tests
 *   arena_test bench     nanoseconds of an alloc + free pair (compile with -DBENCH for realistic figures)
 *
 * arena.c is included, so that a test can die between any two of its steps. */
#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static jmp_buf death;
static long steps_left = -1; /* -1: live for ever */

static void step(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    if (steps_left >= 0 && steps_left-- == 0)
        longjmp(death, 1);
}

#ifndef BENCH
#define ARENA_STEP() step()
#define ARENA_POISON 1
#endif
#define IDLE_SIZE 8192
#include "memory/arena.c"

#include "tests/expect.h"

/* --- an arena with a shadow of what it should hold --- */

#define MAX_SPACE (1U << 20)
#define MAX_LIVE 512

static _Alignas(64) unsigned char space[MAX_SPACE];

struct live {
    uint64_t payload, size;
    uint32_t owner; /* also the seed of the bytes in it */
};

struct world {
    struct arena arena;
    struct live live[MAX_LIVE];
    unsigned n_live;
    uint32_t next_owner;
    uint64_t n_kept;     /* calls of keep_live that said yes */
    uint64_t n_in_pages; /* chunks of whole pages */
    uint64_t n_emptied;
};

static struct world world;
static uint64_t random_state = 1;

static uint64_t random_below(uint64_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % bound;
}

static void begin_world(uint64_t size)
{
    memset(&world, 0, sizeof world);
    memset(space, 0, sizeof space);
    arena_init(&world.arena, space, 0, size);
    CHECK(arena_check(&world.arena, space) == OBJSTORE_OK);
}

static void fill(const struct live *live)
{
    for (uint64_t i = 0; i < live->size; i++)
        space[live->payload + i] = (unsigned char)(live->owner * 31 + i);
}

static bool is_filled(const struct live *live)
{
    for (uint64_t i = 0; i < live->size; i++)
        if (space[live->payload + i] != (unsigned char)(live->owner * 31 + i))
            return false;
    return true;
}

/* Every third size in whole pages, where that is possible. */
static uint64_t allocate(uint64_t size, uint32_t owner)
{
    uint64_t payload = size % 3 == 0 ? arena_alloc_pages(&world.arena, space, size, ARENA_BUILDING, owner) : 0;
    if (payload == 0)
        return arena_alloc(&world.arena, space, size, ARENA_BUILDING, owner);
    uint64_t payload_size = arena_chunk_size(space, payload);
    CHECK((payload + ARENA_UNIT) % ARENA_PAGE == 0 && payload_size % ARENA_PAGE == ARENA_UNIT);
    CHECK(payload_size >= size + ARENA_UNIT && payload + payload_size <= world.arena.touched_end);
    world.n_in_pages++;
    return payload;
}

static bool make(uint64_t size)
{
    uint32_t owner = world.next_owner++;
    uint64_t payload = allocate(size, owner);
    if (payload == 0)
        return false;
    CHECK(payload % ARENA_UNIT == 0 && arena_chunk_size(space, payload) >= size);
    world.live[world.n_live] = (struct live){payload, size, owner};
    fill(&world.live[world.n_live++]);
    arena_set_owner(space, payload, ARENA_OBJECT, owner);
    return true;
}

static void drop(unsigned i)
{
    CHECK(is_filled(&world.live[i]));
    CHECK(arena_free(&world.arena, space, world.live[i].payload) == OBJSTORE_OK);
    world.live[i] = world.live[--world.n_live];
}

static void drop_all(void)
{
    while (world.n_live > 0)
        drop(world.n_live - 1);
}

/* Only chunks that the shadow knows survive; those still being built do not. */
static bool keep_live(void *ctx, uint32_t kind, uint32_t owner, uint64_t payload)
{
    (void)ctx;
    for (unsigned i = 0; i < world.n_live; i++)
        if (kind == ARENA_OBJECT && world.live[i].owner == owner && world.live[i].payload == payload)
            return ++world.n_kept, true;
    return false;
}

static uint64_t shadow_bytes(void)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < world.n_live; i++)
        total += ARENA_UNIT + arena_chunk_size(space, world.live[i].payload);
    return total;
}

static void check_world(void)
{
    CHECK(arena_check(&world.arena, space) == OBJSTORE_OK);
    CHECK(world.arena.used_bytes == shadow_bytes());
    for (unsigned i = 0; i < world.n_live; i++)
        CHECK(is_filled(&world.live[i]));
}

static int count_chunk(void *ctx, uint32_t kind, uint32_t owner, uint64_t payload, uint64_t size)
{
    (void)owner, (void)payload, (void)size;
    uint64_t *counts = ctx;
    counts[kind]++;
    return 0;
}

/* --- by hand --- */

static void test_tiny_arenas(void)
{
    for (uint64_t end = 0; end <= 64 * 8; end += 7) {
        begin_world(end);
        uint64_t room = end / 64 >= 1 ? end / 64 - 1 : 0; /* units; the first is offset 0 = none */
        CHECK(make(1) == (room >= 2));
        CHECK(!make(end + 1));
        check_world();
        drop_all();
        check_world();
        CHECK(make(room >= 2 ? (room - 1) * 64 : 1) == (room >= 2));
        CHECK(!make(1));
        check_world();
    }
}

static void test_refused_requests(void)
{
    begin_world(4096);
    CHECK(arena_alloc(&world.arena, space, ARENA_MAX_SIZE + 1, ARENA_OBJECT, 1) == 0);
    CHECK(arena_alloc(&world.arena, space, ARENA_MAX_SIZE, ARENA_OBJECT, 1) == 0);
    CHECK(arena_alloc(&world.arena, space, UINT64_MAX, ARENA_OBJECT, 1) == 0);
    CHECK(arena_alloc(&world.arena, space, 1, ARENA_FREE, 1) == 0);
    CHECK(make(100));
    uint64_t payload = world.live[0].payload;
    CHECK(arena_free(&world.arena, space, payload + 64) == OBJSTORE_INVALID);
    CHECK(arena_free(&world.arena, space, payload + 1) == OBJSTORE_INVALID);
    CHECK(arena_free(&world.arena, space, 0) == OBJSTORE_INVALID);
    CHECK(arena_free(&world.arena, space, UINT64_MAX) == OBJSTORE_INVALID);
    check_world();
    drop_all();
    CHECK(arena_free(&world.arena, space, payload) == OBJSTORE_INVALID);
    check_world();
}

static void test_recycles_before_touching_fresh_memory(void)
{
    begin_world(MAX_SPACE);
    uint64_t size = 200 * 1000; /* not the beginning of its size class */
    CHECK(make(size) && make(64));
    uint64_t touched = world.arena.touched_end, payload = world.live[0].payload;
    drop(0);
    CHECK(world.arena.touched_end == touched);
    CHECK(make(size));
    CHECK(world.live[1].payload == payload && world.arena.touched_end == touched);
    drop(1);
    CHECK(make(1000) && world.arena.touched_end == touched);
    check_world();
}

static void test_finds_the_one_chunk_that_fits(void)
{
    begin_world(MAX_SPACE);
    uint64_t sizes[] = {70 * 64, 69 * 64, 68 * 64, 71 * 64, 70 * 64, 69 * 64, 68 * 64, 68 * 64}; /* one class */
    for (unsigned i = 0; i < 8; i++)
        CHECK(make(sizes[i]) && make(64));
    CHECK(make(world.arena.end - world.arena.top - ARENA_UNIT)); /* no top left */
    uint64_t wanted = world.live[6].payload;
    for (unsigned i = 0; i < 8; i++)
        for (unsigned k = 0; k < world.n_live; k++)
            if (world.live[k].owner == 2 * i) {
                drop(k);
                break;
            }
    check_world();
    CHECK(make(71 * 64));
    CHECK(world.live[world.n_live - 1].payload == wanted);
    check_world();
}

static int note_largest(void *ctx, uint32_t kind, uint32_t owner, uint64_t payload, uint64_t size)
{
    (void)owner, (void)payload;
    if (kind == ARENA_FREE && size > *(uint64_t *)ctx)
        *(uint64_t *)ctx = size;
    return 0;
}

/* Exactly that much can be had, and no more. */
static void check_largest(void)
{
    uint64_t seen = 0, largest = arena_largest_free(&world.arena, space);
    CHECK(arena_walk(&world.arena, space, note_largest, &seen) == OBJSTORE_OK && seen == largest);
    CHECK(arena_alloc(&world.arena, space, largest + 1, ARENA_OBJECT, 1) == 0);
    uint64_t payload = largest ? arena_alloc(&world.arena, space, largest, ARENA_OBJECT, 1) : 0;
    CHECK(!largest || (payload && arena_free(&world.arena, space, payload) == OBJSTORE_OK));
}

static void test_walk_shows_every_chunk(void)
{
    begin_world(8192);
    CHECK(make(64) && make(128) && make(192));
    drop(1);
    uint64_t counts[4] = {0};
    CHECK(arena_walk(&world.arena, space, count_chunk, counts) == OBJSTORE_OK);
    CHECK(counts[ARENA_FREE] == 2 && counts[ARENA_OBJECT] == 2);
}

static void test_large_ranges_and_classes(void)
{
    for (uint64_t size = 64; size <= ARENA_MAX_SIZE; size += size < 4096 ? 64 : size / 37 / 64 * 64) {
        struct size_class own = class_of(size), fits = class_that_fits(size);
        unsigned own_index = own.level * ARENA_N_SUBLEVELS + own.sublevel;
        unsigned fits_index = fits.level * ARENA_N_SUBLEVELS + fits.sublevel;
        CHECK(own.level < ARENA_N_LEVELS && own.sublevel < ARENA_N_SUBLEVELS);
        CHECK(fits_index == own_index || fits_index == own_index + 1);
        struct size_class smaller = class_of(size - 64);
        unsigned smaller_index = smaller.level * ARENA_N_SUBLEVELS + smaller.sublevel;
        CHECK(fits_index != own_index || size == 64 || smaller_index < own_index);
    }
}

/* --- at random --- */

static uint64_t random_size(uint64_t space_size)
{
    uint64_t bounds[] = {64, 1024, 1024, space_size / 16, space_size / 2};
    return random_below(bounds[random_below(5)] + 1);
}

/* As a process that gives pages back: nothing may change but the counters. */
static void empty_idle(uint64_t most)
{
    uint64_t idle = arena_idle_bytes(&world.arena, space), used = world.arena.used_bytes;
    uint64_t payload = arena_take_idle(&world.arena, space, most, ARENA_BUILDING, 77);
    CHECK((payload != 0) == (idle != 0));
    if (payload == 0)
        return;
    memset(space + payload, 0, arena_chunk_size(space, payload));
    CHECK(arena_free_emptied(&world.arena, space, payload) == OBJSTORE_OK);
    CHECK(world.arena.used_bytes == used && arena_idle_bytes(&world.arena, space) < idle);
    world.n_emptied++;
}

static void random_operation(uint64_t space_size)
{
    if (random_below(20) == 0)
        empty_idle(random_below(4) == 0 ? UINT64_MAX : random_below(space_size));
    else if (world.n_live < MAX_LIVE && random_below(100) < 55)
        make(random_size(space_size));
    else if (world.n_live > 0)
        drop((unsigned)random_below(world.n_live));
    if (random_below(10) == 0)
        check_largest();
}

static void test_random_operations(void)
{
    uint64_t sizes[] = {512, 2048, 8192, 65536, MAX_SPACE};
    for (unsigned i = 0; i < 5; i++) {
        begin_world(sizes[i]);
        for (unsigned n = 0; n < 4000; n++) {
            random_operation(sizes[i]);
            CHECK(arena_check(&world.arena, space) == OBJSTORE_OK);
            if (n % 64 == 0)
                check_world();
        }
        drop_all();
        check_world();
        CHECK(world.arena.used_bytes == 0 && world.arena.top == world.arena.begin);
        CHECK(sizes[i] < 65536 || world.n_in_pages > 20);
        CHECK(sizes[i] < MAX_SPACE || world.n_emptied > 10);
    }
}

static void test_rebuild_changes_nothing_when_sound(void)
{
    begin_world(65536);
    for (unsigned n = 0; n < 300; n++)
        random_operation(65536);
    struct arena before = world.arena;
    memset(world.arena.heads, 0x5a, sizeof world.arena.heads);
    world.arena.used_bytes = world.arena.levels = world.arena.top = 12345;
    world.n_kept = 0;
    CHECK(arena_rebuild(&world.arena, space, keep_live, NULL) == OBJSTORE_OK);
    CHECK(world.n_kept == world.n_live);
    CHECK(world.arena.used_bytes == before.used_bytes && world.arena.top == before.top);
    CHECK(world.arena.levels == before.levels && world.arena.touched_end == before.touched_end);
    check_world();
    CHECK(arena_rebuild(&world.arena, space, NULL, NULL) == OBJSTORE_OK);
    check_world();
}

static void test_rebuild_frees_what_is_rejected(void)
{
    begin_world(65536);
    for (unsigned n = 0; n < 300; n++)
        random_operation(65536);
    world.n_live = world.n_live / 2; /* the rest leaks */
    CHECK(arena_rebuild(&world.arena, space, keep_live, NULL) == OBJSTORE_OK);
    check_world();
    world.n_live = 0;
    CHECK(arena_rebuild(&world.arena, space, keep_live, NULL) == OBJSTORE_OK);
    check_world();
    CHECK(world.arena.top == world.arena.begin);
}

static bool check_in_parts(uint32_t most)
{
    uint64_t at = 0;
    int result;
    while ((result = arena_check_part(&world.arena, space, &at, most)) == OBJSTORE_PENDING)
        ;
    return result == OBJSTORE_OK;
}

/* Part by part, with whatever happens in between. */
static void test_sweep(void)
{
    for (uint32_t most = 1; most < 40; most += 3) {
        begin_world(65536);
        for (unsigned n = 0; n < 300; n++)
            random_operation(65536);
        CHECK(check_in_parts(most));
        unsigned n_lost = world.n_live - world.n_live / 2;
        world.n_live -= n_lost;
        uint64_t at = 0;
        while (arena_sweep(&world.arena, space, &at, most, keep_live, NULL) == OBJSTORE_PENDING)
            if (most % 2 && world.n_live > 0)
                drop((unsigned)random_below(world.n_live));
        check_world();
        CHECK(check_in_parts(most));
    }
}

/* --- killed at every step --- */

static unsigned char saved_space[MAX_SPACE];
static struct world saved_world;
static uint64_t saved_random;

static void save(uint64_t size)
{
    memcpy(saved_space, space, size);
    saved_world = world;
    saved_random = random_state;
}

static void restore(uint64_t size)
{
    memcpy(space, saved_space, size);
    world = saved_world;
    random_state = saved_random;
}

/* Rebuilds, dying at step `die_at` of the first attempt. */
static void rebuild_dying_at(long die_at)
{
    if (setjmp(death) == 0) {
        steps_left = die_at;
        CHECK(arena_rebuild(&world.arena, space, keep_live, NULL) == OBJSTORE_OK);
    }
    steps_left = -1;
    CHECK(arena_rebuild(&world.arena, space, keep_live, NULL) == OBJSTORE_OK);
}

/* A free that was under way may or may not have happened. */
static void settle_interrupted_free(unsigned victim)
{
    const struct chunk *chunk = chunk_seen(space, world.live[victim].payload - ARENA_UNIT);
    if (chunk->check != (CHUNK_CHECK ^ (world.live[victim].payload - ARENA_UNIT)) || is_free(chunk))
        world.live[victim] = world.live[--world.n_live];
    else
        fill(&world.live[victim]); /* poisoned */
}

/* One operation, killed at step `die_at`; false if it has fewer steps. */
static bool killed_at(long die_at, int victim, uint64_t size)
{
    if (setjmp(death) == 0) {
        steps_left = die_at;
        if (victim >= 0)
            arena_free(&world.arena, space, world.live[victim].payload);
        else if (size % 5 == 0)
            empty_idle(size);
        else
            allocate(size, 77);
        steps_left = -1;
        return false;
    }
    return true;
}

static void go_on_after_the_crash(uint64_t space_size)
{
    check_world();
    for (unsigned n = 0; n < 10; n++) {
        random_operation(space_size);
        check_world();
    }
    drop_all();
    check_world();
    CHECK(world.arena.top == world.arena.begin);
}

static unsigned kill_at_every_step(uint64_t space_size)
{
    int victim = world.n_live > 0 && random_below(2) ? (int)random_below(world.n_live) : -1;
    uint64_t size = random_size(space_size);
    unsigned n_deaths = 0;
    save(space_size);
    for (long die_at = 0; killed_at(die_at, victim, size); die_at++, n_deaths++) {
        if (victim >= 0)
            settle_interrupted_free((unsigned)victim);
        rebuild_dying_at((long)random_below(2 * world.n_live + 4));
        go_on_after_the_crash(space_size);
        restore(space_size);
    }
    restore(space_size);
    return n_deaths;
}

static void test_killed_at_every_step(void)
{
    uint64_t sizes[] = {1024, 4096, 65536};
    unsigned n_deaths = 0, n_rounds = 300;
#ifdef TORTURE
    n_rounds = 5000;
#endif
    for (unsigned i = 0; i < 3; i++) {
        begin_world(sizes[i]);
        for (unsigned n = 0; n < n_rounds; n++) {
            random_operation(sizes[i]);
            n_deaths += kill_at_every_step(sizes[i]);
        }
    }
    CHECK(n_deaths > 2000);
    printf("killed %u times\n", n_deaths);
}

/* --- scribbled memory --- */

/* Whatever bytes lie there, the walkers end, and what they accept can be rebuilt. */
static void test_scribbled_memory(void)
{
    uint64_t size = 8192;
    unsigned n_found = 0;
    begin_world(size);
    for (unsigned n = 0; n < 100; n++)
        random_operation(size);
    save(size);
    for (unsigned n = 0; n < 20000; n++) {
        uint64_t at = world.arena.begin + random_below((size - world.arena.begin) / 8) * 8;
        uint64_t value = random_below(4) == 0 ? random_state : random_below(size / 8) * 8;
        memcpy(space + at, &value, 8);
        if (n % 3 == 0) /* all but the range */
            ((uint64_t *)(void *)&world.arena)[2 + random_below(sizeof world.arena / 8 - 2)] = value;
        n_found += arena_check(&world.arena, space) != OBJSTORE_OK;
        if (arena_rebuild(&world.arena, space, NULL, NULL) == OBJSTORE_OK)
            CHECK(arena_check(&world.arena, space) == OBJSTORE_OK);
        uint64_t seed = random_state;
        restore(size);
        random_state = seed;
    }
    CHECK(n_found > 1000);
}

/* --- timing --- */

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void bench(void)
{
    const unsigned n = 1000000;
    for (uint64_t size = 64; size <= 4096; size *= 4) {
        begin_world(MAX_SPACE);
        double start = now_ns();
        for (unsigned i = 0; i < n; i++)
            arena_free(&world.arena, space, arena_alloc(&world.arena, space, size, ARENA_OBJECT, i));
        printf("%5u B: pair %5.1f ns", (unsigned)size, (now_ns() - start) / n);
        uint64_t ring[64] = {0};
        for (unsigned i = 0; i < 64; i++)
            ring[i] = arena_alloc(&world.arena, space, size, ARENA_OBJECT, i);
        start = now_ns();
        for (unsigned i = 0; i < n; i++) {
            uint64_t *slot = &ring[i * 37 % 64];
            arena_free(&world.arena, space, *slot);
            *slot = arena_alloc(&world.arena, space, size, ARENA_OBJECT, i);
        }
        printf(", among 64 others %5.1f ns\n", (now_ns() - start) / n);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        bench();
        return 0;
    }
    test_tiny_arenas();
    test_refused_requests();
    test_recycles_before_touching_fresh_memory();
    test_finds_the_one_chunk_that_fits();
    test_walk_shows_every_chunk();
    test_large_ranges_and_classes();
    test_random_operations();
    test_rebuild_changes_nothing_when_sound();
    test_rebuild_frees_what_is_rejected();
    test_sweep();
    test_killed_at_every_step();
    test_scribbled_memory();
    puts("arena: ok");
    return 0;
}
