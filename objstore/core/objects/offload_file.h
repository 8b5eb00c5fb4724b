/* The files of offloaded objects: one file each, written and read in steps, so that a caller can be interrupted.
 *
 *     offload_file_create, offload_file_write until done, offload_file_finish
 *     offload_file_open,   offload_file_read until done,  offload_file_finish
 *
 * The name of a file has the slot and generation of the object and the number of the file, which is not reused within a
 * session. A header, written last, repeats them, with the size of the bytes that follow and their CRC-32C; a file
 * without a valid header is void. Nothing is synced to the disk: a file has no meaning after its session, and one that
 * the system failed to write back fails its checksum.
 *
 * Functions return false on failure; `why` then says what happened, as the end of a sentence. */
#ifndef CELLMESH_OFFLOAD_FILE_H
#define CELLMESH_OFFLOAD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef OFFLOAD_FILE_STEP
#define OFFLOAD_FILE_STEP (UINT64_C(4) << 20) /* bytes written or read at a time */
#endif

/* Whose file it is. */
struct offload_file_name {
    uint64_t session, number;
    uint32_t slot, generation;
};

struct offload_file {
    int fd;
    bool is_new, was_made;
    bool made_folder; /* the folder had been removed, with all files in it */
    struct offload_file_name name;
    uint64_t size, done;
    uint32_t checksum, expected;
    char path[1200], why[256];
};

bool offload_file_create(struct offload_file *f, const char *folder, struct offload_file_name name, uint64_t size);
bool offload_file_open(struct offload_file *f, const char *folder, struct offload_file_name name, uint64_t size);

/* Writes or reads the next OFFLOAD_FILE_STEP bytes of the object's bytes, which start at `bytes`. */
bool offload_file_write(struct offload_file *f, const unsigned char *bytes);
bool offload_file_read(struct offload_file *f, unsigned char *bytes);
static inline bool offload_file_done(const struct offload_file *f) { return f->done == f->size; }

/* Writes the header, or compares the checksum; closes the file. */
bool offload_file_finish(struct offload_file *f);

/* Closes the file, if it is open, and deletes it if it was being written. */
void offload_file_discard(struct offload_file *f);

/* Deletes a file, which may be gone already. */
void offload_file_remove(const char *folder, struct offload_file_name name);

/* Parses the name of a file. False: it is no such name. */
bool offload_file_parse_name(const char *text, struct offload_file_name *name);

#endif
