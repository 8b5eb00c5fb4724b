/* The files of objects that are away: one each, written and read in steps, so that whoever does it can be interrupted.
 *
 *     disk_create, disk_write until done, disk_finish        a file without a valid header is not one
 *     disk_open, disk_read until done, disk_finish
 *
 * The name tells the object's slot and generation and the number of the file, which is never used twice in a session. A header
 * says it again, with the size of the bytes that follow and their CRC-32C. Nothing is forced to the disk: a file has no meaning
 * after its session, and one that the system could not write in the end fails its checksum.
 *
 * Every function returns false after a failure, and `why` says what happened, in words that end a sentence. */
#ifndef CELLMESH_DISK_H
#define CELLMESH_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef DISK_STEP
#define DISK_STEP (UINT64_C(4) << 20) /* bytes written or read at a time */
#endif

/* Whose file it is. */
struct disk_name { uint64_t session, number; uint32_t slot, generation; };

struct disk_file {
    int fd;
    bool is_new, was_made;
    bool made_folder;           /* which somebody had removed, with all the files in it */
    struct disk_name name;
    uint64_t size, done;
    uint32_t checksum, expected;
    char path[1200], why[256];
};

bool disk_create(struct disk_file *f, const char *folder, struct disk_name name, uint64_t size);
bool disk_open(struct disk_file *f, const char *folder, struct disk_name name, uint64_t size);

/* The next DISK_STEP bytes, of all that begin at `bytes`. */
bool disk_write(struct disk_file *f, const unsigned char *bytes);
bool disk_read(struct disk_file *f, unsigned char *bytes);
static inline bool disk_done(const struct disk_file *f) { return f->done == f->size; }

/* The header is written, or the checksum compared; closes the file. */
bool disk_finish(struct disk_file *f);

/* Closes it, if it is open; one that was being written is deleted. */
void disk_abandon(struct disk_file *f);

/* Deletes a file that is needed no more; it may have gone already. */
void disk_remove(const char *folder, struct disk_name name);

/* Understands the name of a file. False: it is not one of ours. */
bool disk_parse_name(const char *text, struct disk_name *name);


#endif
