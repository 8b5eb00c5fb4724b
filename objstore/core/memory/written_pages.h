/* Whether a process has written to pages of a private mapping of its own. */
#ifndef CELLMESH_WRITTEN_PAGES_H
#define CELLMESH_WRITTEN_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* /proc/self/pagemap: of the process that has opened it, also in its children. */
struct pagemap {
    int fd; /* -1: not open */
    dev_t device;
    ino_t inode;
};

/* The descriptor is -1 where there is no such file. */
struct pagemap pagemap_open(void);
void pagemap_close(struct pagemap *pagemap);

/* Whether surely no page of the mapping has been written to, so that it shows its file. False where that cannot be
 * told: a user's code has closed the descriptor, say. */
bool pages_show_file(const struct pagemap *pagemap, const void *begin, size_t size);

/* How it is told: 1: written to; 0: not; -1: cannot be told. Since Linux 6.7; and an older way, which takes time for
 * pages that were never touched too. */
int written_by_scan(int fd, const void *begin, size_t size);
int written_by_entries(int fd, const void *begin, size_t size);

#endif
