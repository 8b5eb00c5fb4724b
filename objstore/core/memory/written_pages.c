#define _GNU_SOURCE
#include "memory/written_pages.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of linux/fs.h, which may be older than the kernel. */
struct scan_region {
    uint64_t start, end, categories;
};

struct scan {
    uint64_t size, flags, start, end, walk_end, regions, n_regions, max_pages;
    uint64_t inverted, all_of, any_of, returned;
};

#define SCAN _IOWR('f', 16, struct scan)
enum { IS_OF_FILE = 1 << 2, IS_PRESENT = 1 << 3, IS_SWAPPED = 1 << 4 };

/* In an entry of pagemap. */
#define ENTRY_PRESENT (UINT64_C(1) << 63)
#define ENTRY_SWAPPED (UINT64_C(1) << 62)
#define ENTRY_OF_FILE (UINT64_C(1) << 61)
enum { ENTRIES = 512 };

struct pagemap pagemap_open(void)
{
    struct stat st;
    struct pagemap p = {.fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
    if (p.fd >= 0 && fstat(p.fd, &st) == 0) {
        p.device = st.st_dev;
        p.inode = st.st_ino;
    }
    return p;
}

static bool is_open(const struct pagemap *p)
{
    struct stat st;
    return p->fd >= 0 && fstat(p->fd, &st) == 0 && st.st_dev == p->device && st.st_ino == p->inode;
}

void pagemap_close(struct pagemap *p)
{
    if (is_open(p))
        close(p->fd);
    p->fd = -1;
}

int written_by_scan(int fd, const void *begin, size_t size)
{
    struct scan_region found;
    struct scan scan = {.size = sizeof scan,
                        .start = (uintptr_t)begin,
                        .end = (uintptr_t)begin + size,
                        .regions = (uintptr_t)&found,
                        .n_regions = 1,
                        .max_pages = 1,
                        .inverted = IS_OF_FILE,
                        .all_of = IS_OF_FILE,
                        .any_of = IS_PRESENT | IS_SWAPPED,
                        .returned = IS_PRESENT};
    int n = ioctl(fd, SCAN, &scan);
    return n < 0 ? -1 : n > 0;
}

int written_by_entries(int fd, const void *begin, size_t size)
{
    uint64_t entries[ENTRIES], page_size = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t page = (uintptr_t)begin / page_size, end = ((uintptr_t)begin + size + page_size - 1) / page_size;
    while (page < end) {
        uint64_t wanted = end - page < ENTRIES ? end - page : ENTRIES;
        ssize_t n =
            pread(fd, entries, wanted * sizeof *entries, (off_t)(page * sizeof *entries)) / (ssize_t)sizeof *entries;
        if (n <= 0)
            return -1;
        for (ssize_t i = 0; i < n; i++)
            if (entries[i] & (ENTRY_PRESENT | ENTRY_SWAPPED) && !(entries[i] & ENTRY_OF_FILE))
                return 1;
        page += (uint64_t)n;
    }
    return 0;
}

bool pages_show_file(const struct pagemap *p, const void *begin, size_t size)
{
    if (!is_open(p))
        return false;
    int written = written_by_scan(p->fd, begin, size);
    if (written < 0)
        written = written_by_entries(p->fd, begin, size);
    return written == 0;
}
