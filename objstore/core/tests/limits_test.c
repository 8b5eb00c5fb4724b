/* The largest possible table, at its end: indices of 31 bits, offsets beyond 300 GB, one object too many. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "objstore.h"
#include "tests/expect.h"

enum { N_LEFT = 4 };

static uint32_t created(struct segment *s)
{
    uint32_t object;
    CHECK(object_create(s, s->me, 1 | PUT_BIT, &object) == OBJSTORE_OK);
    return object;
}

int main(void)
{
    struct segment_config config = {
        .size = UINT64_C(736) << 30, .n_objects = MAX_SLOTS, .n_tasks = MAX_SLOTS, .n_actors = 1, .n_events = 64};
    struct segment_config larger = config;
    larger.n_objects++;
    CHECK(segment_create(&larger) == OBJSTORE_INVALID);
    struct segment_config huge = {
        .size = ARENA_MAX_SIZE * 2, .n_objects = 1, .n_tasks = 1, .n_actors = 1, .n_events = 1};
    unsigned char untouched[1];
    CHECK(segment_format(untouched, &huge) == OBJSTORE_INVALID); /* more than a process can map */
    int fd = segment_create(&config);
    CHECK(fd >= 0);
    struct segment s;
    CHECK(segment_map(&s, fd) == OBJSTORE_OK && client_attach(&s, ROLE_DRIVER) == OBJSTORE_OK);

    segment_lock(&s);
    s.h->touched_objects = MAX_SLOTS - N_LEFT; /* as if the others were in use; their slots are not looked at here */
    uint32_t inner = created(&s), outer = created(&s), beyond;
    CHECK(inner == MAX_SLOTS - N_LEFT && outer == inner + 1);
    CHECK(created(&s) && created(&s) == MAX_SLOTS - 1 &&
          object_create(&s, s.me, 1 | PUT_BIT, &beyond) == OBJSTORE_LIMIT);
    uint64_t at = object_allocate(&s, 100, 1);
    CHECK(at > sizeof(struct object_slot) * (uint64_t)MAX_SLOTS);
    memset(s.base + at, 7, 100);
    *object_refs_at(&s, at, 100) = inner;
    CHECK(object_seal_inline(&s, inner, OBJECT_READY, "inner", 6) &&
          object_seal_arena(&s, outer, OBJECT_READY, at, 100, 1));
    segment_unlock(&s);

    client_drop(&s, &inner, 1);
    /* the outer one refers to it */
    CHECK(object_state(&s.objects[inner]) == OBJECT_READY && s.objects[inner].pins == 1);
    client_drop(&s, &outer, 1);
    CHECK(object_state(&s.objects[inner]) == OBJECT_FREE && s.h->n_live_objects == N_LEFT - 2 &&
          s.h->arena.used_bytes == 0);
    segment_lock(&s);
    CHECK(created(&s) == inner && created(&s) == outer); /* the slots are used again */
    segment_unlock(&s);
    segment_unmap(&s);
    close(fd);
    puts("the last of 2,147,483,647 objects is one like the others");
    return 0;
}
