/* The object store from C: memory that the processes of one machine share and that no process owns.
 *
 * One process creates a segment and gets a descriptor. Others inherit the descriptor, receive it over a unix socket, or
 * open /proc/PID/fd/N of a process that has it. Each process maps the segment and becomes a client:
 *
 *     struct segment_config config = {
 *         .size = 64 << 20, .n_objects = 1 << 16, .n_tasks = 64, .n_actors = 1, .n_events = 1 << 12};
 *     int fd = segment_create(&config);
 *     struct segment s;
 *     segment_map(&s, fd);
 *     client_attach(&s, ROLE_DRIVER);
 *     ...
 *     client_died(&s, s.me, 0);                            // leave: give back what it holds, and its slot
 *     segment_unmap(&s);
 *
 * `size` includes the tables: about 160 bytes an object and 128 bytes a task. The rest is for values.
 *
 * An object is a slot in a table. The slot's index and generation identify it. The client that creates an object holds
 * it, allocates space for its bytes, writes them without the lock, and seals it; after that the bytes never change.
 * Up to OBJECT_INLINE_SIZE bytes fit into the slot itself:
 *
 *     segment_lock(&s);
 *     object_create(&s, s.me, s.h->next_seq++ | PUT_BIT, &object);
 *     uint64_t at = object_allocate(&s, size, 0);          // 0: full
 *     segment_unlock(&s);
 *     memcpy(s.base + at, bytes, size);
 *     object_seal_arena(&s, object, OBJECT_READY, at, size, 0);
 *
 * Other clients receive index and generation by a channel of their own, and hold the object too (object_find) while
 * another client still does. Then they may read objects[object].size bytes at s.base + object_chunk(&objects[object])
 * without the lock; if the chunk is 0, the bytes are in u.inline_data. If objects may be offloaded
 * (header.offload_folder is set), a reader announces itself first (offload.h, offload_file.h). A client that no longer
 * needs the object calls client_drop; the last drop frees the memory. To wait for a seal: read the inbox, register,
 * look, sleep (client.h). tests/example_test.c shows it.
 *
 * Rules. "Under the lock" in a comment means between segment_lock and segment_unlock of this process's segment; no code
 * in between may wait or fail to return. A function whose comment says neither this nor "takes the lock" needs no lock
 * and takes none; something else has to keep the object alive. A struct segment belongs to one process. Its threads
 * share it and serialize their calls, except for reading and sleeping. After a fork the child maps and attaches again.
 * Nothing needs to be undone by hand: a process may be killed at any instruction. The next process that wants the lock
 * notices and repairs (recovery/recover.h); client_died or client_reap gives back what the dead process held. Fields
 * that are not atomic, or are marked L in layout.h, are read and written under the lock only.
 *
 * To build: the .c files of the folders that build.mk lists, as C11 with the GNU extensions of the C library, and
 * -pthread. docs/objstore.md has a program and the commands. A signature of the layout detects processes of different
 * builds.
 *
 * Results are those of error.h. Sizes are in bytes, offsets count from the base of the mapping, times are in
 * nanoseconds. */
#ifndef CELLMESH_OBJSTORE_H
#define CELLMESH_OBJSTORE_H

/* In reading order. */
// clang-format off: the order is that of reading
#include "error.h"           /* results */
#include "layout.h"          /* the format */
#include "memory/segment.h"  /* mapping, the lock */
#include "objects/object.h"  /* slots and their life */
#include "objects/offload.h" /* offloaded objects */
#include "clients/client.h"  /* attaching, sleeping */
#include "clients/reap.h"    /* the dead */
#include "recovery/check.h"  /* segment_check */
/* clang-format on */

#endif
