#define _GNU_SOURCE
#include "objects/offload_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/crc32c.h"

#define OFFLOAD_FILE_MAGIC UINT64_C(0x796177616d6c6563) /* "celmaway" */

/* In front of the bytes, and written last, so an incomplete file has none. */
struct offload_file_header {
    uint64_t magic;
    struct offload_file_name name;
    uint64_t size;
    uint32_t checksum; /* of the bytes */
    uint32_t own;      /* of the header up to this field */
};
#define BYTES_BEGIN 4096 /* whole pages for the bytes */

static bool fail(struct offload_file *f, const char *what)
{
    snprintf(f->why, sizeof f->why, "%s", what);
    return false;
}

static bool fail_errno(struct offload_file *f, const char *what)
{
    char text[128];
    int error = errno;
    snprintf(f->why, sizeof f->why, "%s: %s", what, strerror_r(error, text, sizeof text));
    return false;
}

static void name_file(struct offload_file *f, const char *folder, struct offload_file_name name)
{
    f->name = name;
    snprintf(f->path, sizeof f->path, "%s/%08" PRIx32 "-%08" PRIx32 "-%" PRIx64, folder, name.slot, name.generation,
             name.number);
}

bool offload_file_parse_name(const char *text, struct offload_file_name *name)
{
    struct offload_file again;
    memset(name, 0, sizeof *name);
    if (sscanf(text, "%8" SCNx32 "-%8" SCNx32 "-%16" SCNx64, &name->slot, &name->generation, &name->number) != 3)
        return false;
    name_file(&again, "", *name);
    return strcmp(again.path + 1, text) == 0;
}

static struct offload_file_header header_of(const struct offload_file *f)
{
    struct offload_file_header h;
    memset(&h, 0, sizeof h);
    h.magic = OFFLOAD_FILE_MAGIC;
    h.name = f->name;
    h.size = f->size;
    h.checksum = f->checksum;
    h.own = crc32c(0, (const unsigned char *)&h, offsetof(struct offload_file_header, own));
    return h;
}

/* ------------------------------------------------------------------ writing */

/* Whether the folder belongs to this user alone: another user could have made it where all users may write. */
static bool make_private(const char *path)
{
    struct stat st;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return false;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == getuid() && !(st.st_mode & 077);
}

/* Programs that clean /tmp remove what looks old. */
static bool make_folder(const char *folder)
{
    char parent[sizeof((struct offload_file *)0)->path];
    snprintf(parent, sizeof parent, "%s", folder);
    char *slash = strrchr(parent, '/');
    if (slash)
        *slash = 0;
    return slash && make_private(parent) && make_private(folder);
}

bool offload_file_create(struct offload_file *f, const char *folder, struct offload_file_name name, uint64_t size)
{
    *f = (struct offload_file){.fd = -1, .is_new = true, .size = size};
    name_file(f, folder, name);
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    f->fd = open(f->path, flags, 0600);
    if (f->fd < 0 && errno == ENOENT && make_folder(folder)) {
        f->made_folder = true;
        f->fd = open(f->path, flags, 0600);
    }
    if (f->fd < 0)
        return fail_errno(f, "its file could not be made");
    f->was_made = true;
    /* A full disk fails here; on file systems that cannot tell, the writes fail. */
    if (fallocate(f->fd, 0, 0, (off_t)(BYTES_BEGIN + size)) != 0 && errno != EOPNOTSUPP && errno != ENOSYS &&
        errno != EINTR)
        return fail_errno(f, "there is no room for its file");
    return true;
}

static bool write_all(struct offload_file *f, const unsigned char *bytes, uint64_t size, uint64_t at)
{
    while (size) {
        ssize_t n = pwrite(f->fd, bytes, size, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? fail_errno(f, "its file could not be written")
                         : fail(f, "its file could not be written to the end");
        bytes += n;
        at += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return true;
}

static uint64_t step_of(const struct offload_file *f)
{
    return f->size - f->done < OFFLOAD_FILE_STEP ? f->size - f->done : OFFLOAD_FILE_STEP;
}

bool offload_file_write(struct offload_file *f, const unsigned char *bytes)
{
    uint64_t n = step_of(f);
    f->checksum = crc32c(f->checksum, bytes + f->done, n);
    if (!write_all(f, bytes + f->done, n, BYTES_BEGIN + f->done))
        return false;
    f->done += n;
    return true;
}

/* ------------------------------------------------------------------ reading */

static bool read_all(struct offload_file *f, unsigned char *bytes, uint64_t size, uint64_t at)
{
    while (size) {
        ssize_t n = pread(f->fd, bytes, size, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? fail_errno(f, "its file could not be read") : fail(f, "its file has been cut off");
        bytes += n;
        at += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return true;
}

bool offload_file_open(struct offload_file *f, const char *folder, struct offload_file_name name, uint64_t size)
{
    struct offload_file_header h, own;
    *f = (struct offload_file){.fd = -1, .size = size};
    name_file(f, folder, name);
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (f->fd < 0)
        return fail_errno(f, "its file could not be opened");
    if (!read_all(f, (unsigned char *)&h, sizeof h, 0))
        return false;
    f->checksum = h.checksum;
    own = header_of(f);
    f->checksum = 0;
    f->expected = h.checksum;
    return memcmp(&h, &own, sizeof h) == 0 || fail(f, "its file is damaged, or another one");
}

bool offload_file_read(struct offload_file *f, unsigned char *bytes)
{
    uint64_t n = step_of(f);
    if (!read_all(f, bytes + f->done, n, BYTES_BEGIN + f->done))
        return false;
    f->checksum = crc32c(f->checksum, bytes + f->done, n);
    f->done += n;
    return true;
}

/* ------------------------------------------------------------------ ending */

static void close_file(struct offload_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

bool offload_file_finish(struct offload_file *f)
{
    if (f->is_new) {
        struct offload_file_header h = header_of(f);
        if (!write_all(f, (const unsigned char *)&h, sizeof h, 0))
            return false;
    } else if (f->checksum != f->expected) {
        return fail(f, "its file is damaged: the checksum is wrong");
    }
    int fd = f->fd;
    f->fd = -1;
    return close(fd) == 0 || !f->is_new || fail_errno(f, "its file could not be written");
}

void offload_file_discard(struct offload_file *f)
{
    if (f->was_made)
        unlink(f->path);
    close_file(f);
}

void offload_file_remove(const char *folder, struct offload_file_name name)
{
    struct offload_file f = {.fd = -1};
    name_file(&f, folder, name);
    unlink(f.path);
}
