/* The store from C, as objstore.h describes it: a child process makes what its parent waits for, another child dies
 * while it holds an object. Nothing is left. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "objstore.h"
#include "tests/expect.h"

static const char TEXT[] = "more than the bytes that fit into a slot";

static struct segment attached(int fd)
{
    struct segment s;
    CHECK(segment_map(&s, fd) == OBJSTORE_OK && client_attach(&s, ROLE_DRIVER) == OBJSTORE_OK);
    return s;
}

static uint32_t promise(struct segment *s)
{
    uint32_t object;
    segment_lock(s);
    CHECK(object_create(s, s->me, 1 | PUT_BIT, &object) == OBJSTORE_OK);
    segment_unlock(s);
    return object;
}

static void keep_promise(struct segment *s, uint32_t object)
{
    segment_lock(s);
    uint64_t at = object_allocate(s, sizeof TEXT, 0);
    segment_unlock(s);
    CHECK(at);
    memcpy(s->base + at, TEXT, sizeof TEXT);
    CHECK(object_seal_arena(s, object, OBJECT_READY, at, sizeof TEXT, 0));
}

static void wait_for(struct segment *s, uint32_t object)
{
    for (;;) {
        uint32_t seen = client_inbox(s);
        atomic_store(&s->clients[s->me].need, 1); /* seals to go */
        if (!object_mark_waiting(s, object))
            return; /* it is sealed */
        client_sleep(s, seen, INT64_C(5000000000), NULL);
    }
}

static int wait_child(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

int main(void)
{
    struct segment_config config = {.size = 4 << 20, .n_objects = 64, .n_tasks = 64, .n_actors = 1, .n_events = 64};
    int fd = segment_create(&config);
    CHECK(fd >= 0);
    struct segment s = attached(fd);
    uint32_t object = promise(&s);

    pid_t maker = fork();
    if (maker == 0) { /* as any process with the descriptor */
        struct segment mine = attached(fd);
        keep_promise(&mine, object);
        client_died(&mine, mine.me, 0); /* leaves in good order */
        _exit(0);
    }
    wait_for(&s, object);
    CHECK(strcmp((const char *)s.base + s.objects[object].offset, TEXT) == 0);
    CHECK(wait_child(maker) == 0);

    pid_t victim = fork();
    if (victim == 0) {
        struct segment mine = attached(fd);
        object_hold(&mine, object);
        keep_promise(&mine, promise(&mine));
        raise(SIGKILL);
    }
    CHECK(WIFSIGNALED(wait_child(victim)));
    client_drop(&s, &object, 1); /* the dead one holds it, and another */
    CHECK(s.h->n_live_objects == 2);
    int32_t dead[MAX_CLIENTS];
    CHECK(client_reap(&s, dead) == 1 && dead[0] == victim && client_reap(&s, dead) == 0);
    segment_lock(&s);
    CHECK(segment_check(&s, NULL, NULL) == 0 && s.h->n_live_objects == 0 && s.h->arena.used_bytes == 0);
    segment_unlock(&s);
    segment_unmap(&s);
    close(fd);
    puts("two processes shared an object, one died with it, nothing is left");
    return 0;
}
