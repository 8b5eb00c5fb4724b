/* The object store from C: shared memory for the processes of one machine, without a process that owns it.
 *
 * One process makes a segment and gets a descriptor; others inherit it, receive it over a unix socket, or open
 * /proc/PID/fd/N of one that has it. Each maps it and becomes a client:
 *
 *     struct segment_config config = {.size = 64 << 20, .n_objects = 1 << 16, .n_tasks = 64, .n_actors = 1, .n_events = 1 << 12};
 *     int fd = segment_create(&config);
 *     struct segment s;
 *     segment_map(&s, fd);
 *     client_attach(&s, ROLE_DRIVER);
 *     ...
 *     client_died(&s, s.me, 0);                            // leaves: gives back what it holds and its place
 *     segment_unmap(&s);
 *
 * `size` is that of tables and values together: some 160 bytes an object and 128 a task come before what is for values.
 *
 * An object is a slot in a table, known by its index and the slot's generation. Whoever makes one holds it, takes space for its
 * bytes, writes them without the lock, and seals it; from then on nobody changes them. Up to OBJECT_INLINE_SIZE bytes fit
 * into the slot itself:
 *
 *     segment_lock(&s);
 *     object_create(&s, s.me, s.h->next_seq++ | PUT_BIT, &object);
 *     uint64_t at = object_allocate(&s, size, 0);          // 0: full
 *     segment_unlock(&s);
 *     memcpy(s.base + at, bytes, size);
 *     object_seal_arena(&s, object, OBJECT_READY, at, size, 0);
 *
 * Others hear of it in some way of their own, index and generation, and hold it too (object_find), as long as somebody does. Then they
 * may read objects[object].size bytes at s.base + object_chunk(&objects[object]) without the lock, or of its u.inline_data if that
 * is 0; if objects may go to disk, which is so once header.away_folder is set, only after saying so (away.h, disk.h). Who
 * has no more use for it calls client_drop; with the last hold its memory is free. Waiting for a seal: read the inbox, mark,
 * look, sleep (see client.h); example_test.c does it.
 *
 * Rules. "Under the lock" in a comment means between segment_lock and segment_unlock of this process's segment, and
 * nothing that may wait or fail to return comes in between; what says neither this nor "takes the lock" needs no lock
 * and takes none, and must have something that keeps the object alive. A struct segment belongs to one process; its
 * threads share it and serialize themselves, but for reading and sleeping. After a fork the child maps and attaches
 * anew. Nothing is undone by hand: a process may be killed at any instruction, whoever wants the lock next notices and
 * repairs (recover.h), and client_died or client_reap gives back what the dead one held. What is not atomic, or marked
 * L in layout.h, is read and written under the lock alone.
 *
 * To build: the .c files of this folder that are no tests, as C11 with GNU extensions of the C library, and -pthread;
 * docs/objstore.md has a program and the commands. What is shared by processes of different builds is checked by a
 * signature of the layout.
 *
 * Results are those of error.h. All sizes are bytes, all offsets count from the mapping's base, times are nanoseconds. */
#ifndef CELLMESH_OBJSTORE_H
#define CELLMESH_OBJSTORE_H

#include "away.h"    /* objects on disk */
#include "burial.h"  /* the dead */
#include "client.h"  /* attaching, sleeping */
#include "error.h"   /* results */
#include "layout.h"  /* what lies where */
#include "object.h"  /* slots and their life */
#include "recover.h" /* segment_check, and what happens after a death */
#include "segment.h" /* mapping, the lock */

#endif
