/* Writes down, in order, all that a process does to the files below a folder: for crash_images.py, which makes of it
   what a machine that lost power in between would find. To be preloaded; what was acknowledged in between, the process
   notes itself.

     CRASH_FOLDER   the folder, without links in its path
     CRASH_LOG      where to write it down, which lies outside
     CRASH_AT       SIGKILL before the nth change from here on; 0 or unset: never

   One thread. What is not written down here (mmap for writing, writev) is refused, so that no log is incomplete;
   folders are taken for granted. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_FDS = 1024, MAX_PATH = 512 };

struct record {
    char kind[8];
    uint64_t offset, path_bytes, data_bytes;
};

static char paths[MAX_FDS][MAX_PATH]; /* of what is open below the folder, relative to it */
static const char *folder;
static size_t folder_bytes;
static int log_fd = -1;
static long left;

static void *real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    return found;
}

/* A pointer to a function out of a pointer to data, which C11 itself does not know; POSIX does. */
#define REAL(type, name)                                \
    static type real_##name;                            \
    do {                                                \
        if (!real_##name) {                             \
            void *found = real(#name);                  \
            memcpy(&real_##name, &found, sizeof found); \
        }                                               \
    } while (0)

typedef ssize_t (*write_call)(int, const void *, size_t);
typedef ssize_t (*pwrite_call)(int, const void *, size_t, off_t);
typedef int (*open_call)(const char *, int, ...);
typedef int (*path_call)(const char *);
typedef int (*fd_call)(int);
typedef int (*truncate_call)(int, off_t);
typedef void *(*mmap_call)(void *, size_t, int, int, int, off_t);

static void put(const void *data, size_t n)
{
    REAL(write_call, write);
    for (const char *at = data; n > 0;) {
        ssize_t done = real_write(log_fd, at, n);
        if (done < 0)
            abort();
        at += done, n -= (size_t)done;
    }
}

static void note(const char *kind, const char *path, uint64_t offset, const void *data, size_t n)
{
    struct record record = {.offset = offset, .path_bytes = strlen(path), .data_bytes = n};
    strncpy(record.kind, kind, sizeof record.kind - 1);
    put(&record, sizeof record);
    put(path, record.path_bytes);
    put(data, n);
}

static void refuse(const char *what)
{
    fprintf(stderr, "write_log: %s is not written down\n", what);
    abort();
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CRASH_LOG"), *at = getenv("CRASH_AT");
    REAL(open_call, open);
    folder = getenv("CRASH_FOLDER");
    if (!folder || !path)
        return;
    folder_bytes = strlen(folder);
    left = at ? strtol(at, NULL, 10) : 0;
    log_fd = real_open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log_fd < 0)
        abort();
}

static const char *below(const char *path)
{
    if (log_fd < 0 || strncmp(path, folder, folder_bytes))
        return NULL;
    return !path[folder_bytes] ? "." : path[folder_bytes] == '/' ? path + folder_bytes + 1 : NULL;
}

static const char *opened(int fd) { return fd >= 0 && fd < MAX_FDS && paths[fd][0] ? paths[fd] : NULL; }

/* The next change comes now. */
static void change(void)
{
    if (left > 0 && --left == 0)
        raise(SIGKILL);
}

/* For what the process itself wants to be in the log. */
void write_log_note(const char *kind, const void *data, size_t n)
{
    if (log_fd >= 0)
        note(kind, "", 0, data, n);
}

static int open_it(open_call call, const char *path, int flags, mode_t mode)
{
    const char *name = below(path);
    bool is_new = name && flags & O_CREAT && access(path, F_OK);
    if (is_new || (name && flags & O_TRUNC))
        change();
    int fd = call(path, flags, mode);
    if (fd < 0 || !name)
        return fd;
    if (fd >= MAX_FDS || strlen(name) >= MAX_PATH)
        refuse("a descriptor or path so long");
    strcpy(paths[fd], name);
    if (is_new)
        note("create", name, 0, NULL, 0);
    else if (flags & O_TRUNC)
        note("cut", name, 0, NULL, 0);
    return fd;
}

static mode_t mode_of(int flags, va_list arguments) { return flags & O_CREAT ? va_arg(arguments, mode_t) : 0; }

int open(const char *path, int flags, ...)
{
    REAL(open_call, open);
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_it(real_open, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    REAL(open_call, open64);
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_it(real_open64, path, flags, mode);
}

int close(int fd)
{
    REAL(fd_call, close);
    if (opened(fd))
        paths[fd][0] = 0;
    return real_close(fd);
}

static ssize_t write_it(pwrite_call call, int fd, const void *data, size_t n, off_t offset)
{
    if (!opened(fd))
        return call(fd, data, n, offset);
    change();
    ssize_t done = call(fd, data, n, offset);
    if (done > 0)
        note("write", paths[fd], (uint64_t)offset, data, (size_t)done);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t offset)
{
    REAL(pwrite_call, pwrite);
    return write_it(real_pwrite, fd, data, n, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off_t offset)
{
    REAL(pwrite_call, pwrite64);
    return write_it(real_pwrite64, fd, data, n, offset);
}

ssize_t write(int fd, const void *data, size_t n)
{
    REAL(write_call, write);
    if (!opened(fd))
        return real_write(fd, data, n);
    change();
    off_t offset = lseek(fd, 0, SEEK_CUR);
    ssize_t done = real_write(fd, data, n);
    if (done > 0)
        note("write", paths[fd], (uint64_t)offset, data, (size_t)done);
    return done;
}

static int sync_it(fd_call call, int fd)
{
    if (opened(fd))
        change();
    int status = call(fd);
    if (opened(fd) && !status)
        note("sync", paths[fd], 0, NULL, 0);
    return status;
}

int fsync(int fd)
{
    REAL(fd_call, fsync);
    return sync_it(real_fsync, fd);
}

int fdatasync(int fd)
{
    REAL(fd_call, fdatasync);
    return sync_it(real_fdatasync, fd);
}

static int truncate_it(truncate_call call, int fd, off_t size)
{
    if (opened(fd))
        change();
    int status = call(fd, size);
    if (opened(fd) && !status)
        note("cut", paths[fd], (uint64_t)size, NULL, 0);
    return status;
}

int ftruncate(int fd, off_t size)
{
    REAL(truncate_call, ftruncate);
    return truncate_it(real_ftruncate, fd, size);
}

int ftruncate64(int fd, off_t size)
{
    REAL(truncate_call, ftruncate64);
    return truncate_it(real_ftruncate64, fd, size);
}

int unlink(const char *path)
{
    REAL(path_call, unlink);
    if (below(path))
        change();
    int status = real_unlink(path);
    if (below(path) && !status)
        note("unlink", below(path), 0, NULL, 0);
    return status;
}

static void *map_it(mmap_call call, void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (opened(fd) && protection & PROT_WRITE && flags & MAP_SHARED)
        refuse("mmap for writing");
    return call(at, n, protection, flags, fd, offset);
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    REAL(mmap_call, mmap);
    return map_it(real_mmap, at, n, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    REAL(mmap_call, mmap64);
    return map_it(real_mmap64, at, n, protection, flags, fd, offset);
}

int rename(const char *from, const char *to)
{
    typedef int (*rename_call)(const char *, const char *);
    REAL(rename_call, rename);
    if (!below(from) != !below(to))
        refuse("rename to or from elsewhere");
    if (below(from))
        change();
    int status = real_rename(from, to);
    if (below(from) && !status)
        note("rename", below(from), 0, below(to), strlen(below(to)));
    return status;
}

ssize_t writev(int fd, const struct iovec *parts, int n)
{
    typedef ssize_t (*writev_call)(int, const struct iovec *, int);
    REAL(writev_call, writev);
    if (opened(fd))
        refuse("writev");
    return real_writev(fd, parts, n);
}

int posix_fallocate(int fd, off_t offset, off_t n)
{
    typedef int (*fallocate_call)(int, off_t, off_t);
    REAL(fallocate_call, posix_fallocate);
    if (opened(fd))
        refuse("posix_fallocate");
    return real_posix_fallocate(fd, offset, n);
}
