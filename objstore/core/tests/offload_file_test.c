/* Files of offloaded objects on a disk that fails: whatever fails at whichever call, the bytes that are read back are
 * right or there are none, and no half-written file stays. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/expect.h"

/* ------------------------------------------------------------------ a disk that fails at its n-th call */

enum fault { FINE, FULL, BROKEN, INTERRUPTED, SHORT, SHORT_THEN_FULL, NOTHING, N_FAULTS };
static enum fault fault;
static long calls_left;
static long n_faults;

static enum fault next_fault(void)
{
    if (fault == FINE || calls_left-- != 0)
        return FINE;
    enum fault now = fault;
    fault = now == SHORT_THEN_FULL ? FULL : FINE;
    calls_left = 0;
    n_faults++;
    return now;
}

static bool refuses(enum fault f)
{
    errno = f == FULL ? ENOSPC : f == INTERRUPTED ? EINTR : EIO;
    return f == FULL || f == BROKEN || f == INTERRUPTED;
}

static int failing_open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return refuses(next_fault()) ? -1 : (open)(path, flags, mode);
}
static int failing_fallocate(int fd, int mode, off_t at, off_t size)
{
    return refuses(next_fault()) ? -1 : (fallocate)(fd, mode, at, size);
}
static ssize_t failing_pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    enum fault f = next_fault();
    return refuses(f) ? -1 : f == NOTHING ? 0 : (pwrite)(fd, bytes, f == FINE ? n : (n + 1) / 2, at);
}
static ssize_t failing_pread(int fd, void *bytes, size_t n, off_t at)
{
    enum fault f = next_fault();
    return refuses(f) ? -1 : f == NOTHING ? 0 : (pread)(fd, bytes, f == FINE ? n : (n + 1) / 2, at);
}
static int failing_close(int fd) { return (close)(fd), refuses(next_fault()) ? -1 : 0; }

#define open failing_open
#define fallocate failing_fallocate
#define pwrite failing_pwrite
#define pread failing_pread
#define close failing_close
#define OFFLOAD_FILE_STEP UINT64_C(100)
#include "objects/offload_file.c"
#undef open
#undef pread
#undef pwrite
#undef close

/* ------------------------------------------------------------------ */

enum { SIZE = 1234 };
static char folder[] = "/tmp/cellmesh-disk-test-XXXXXX";
static unsigned char value[SIZE];
static const struct offload_file_name name = {77, 5, 3, 9};

static bool save(void)
{
    struct offload_file f;
    bool ok = offload_file_create(&f, folder, name, SIZE);
    while (ok && !offload_file_done(&f))
        ok = offload_file_write(&f, value);
    ok = ok && offload_file_finish(&f);
    CHECK(ok || f.why[0]);
    if (!ok)
        offload_file_discard(&f);
    return ok;
}

static bool load(struct offload_file_name whose, uint64_t size)
{
    unsigned char bytes[SIZE + 64] = {0};
    struct offload_file f;
    bool ok = offload_file_open(&f, folder, whose, size);
    while (ok && !offload_file_done(&f))
        ok = offload_file_read(&f, bytes);
    ok = ok && offload_file_finish(&f);
    CHECK(!ok || memcmp(bytes, value, SIZE) == 0); /* never wrong ones */
    CHECK(ok || f.why[0]);
    offload_file_discard(&f);
    return ok;
}

static unsigned count_files(void)
{
    unsigned n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static const char *path(void)
{
    static struct offload_file f;
    name_file(&f, folder, name);
    return f.path;
}

static void test_faults(void)
{
    for (enum fault kind = FULL; kind < N_FAULTS; kind++) {
        for (long n = 0;; n++) {
            fault = kind, calls_left = n;
            bool saved = save(), over = fault == kind;
            fault = FINE;
            CHECK(count_files() == saved);
            CHECK(saved == load(name, SIZE));
            offload_file_remove(folder, name);
            if (over)
                break;
        }
        fault = FINE;
        CHECK(save());
        for (long n = 0;; n++) {
            fault = kind, calls_left = n;
            load(name, SIZE);
            if (fault == kind)
                break;
        }
        fault = FINE;
        CHECK(load(name, SIZE)); /* reading harms nothing */
        offload_file_remove(folder, name);
    }
    CHECK(count_files() == 0);
}

static void change(off_t at, unsigned char bits)
{
    unsigned char byte;
    int fd = open(path(), O_RDWR);
    CHECK(pread(fd, &byte, 1, at) == 1);
    byte ^= bits;
    CHECK(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

static void test_damage(void)
{
    CHECK(save());
    for (off_t at = 0; at < BYTES_BEGIN + SIZE; at++) {
        unsigned char bits = (unsigned char)(1u << (at % 8));
        bool is_spare = at >= (off_t)sizeof(struct offload_file_header) && at < BYTES_BEGIN;
        if (is_spare && at % 64)
            continue;
        change(at, bits);
        CHECK(load(name, SIZE) == is_spare);
        change(at, bits);
        n_faults++;
    }
    CHECK(load(name, SIZE));
    for (off_t size = BYTES_BEGIN + SIZE - 1; size >= 0; size -= size > 64 ? 37 : 1, n_faults++) {
        CHECK(truncate(path(), size) == 0);
        CHECK(!load(name, SIZE));
    }
    offload_file_remove(folder, name);
    CHECK(!load(name, SIZE));
}

static void test_whose(void)
{
    CHECK(save());
    CHECK(!save()); /* a name is never used twice */
    CHECK(count_files() == 1 && load(name, SIZE) && !load(name, SIZE - 1) && !load(name, SIZE + 1));
    struct offload_file_name others[] = {{78, 5, 3, 9}, {77, 6, 3, 9}, {77, 5, 4, 9}, {77, 5, 3, 8}};
    struct offload_file from, to;
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        name_file(&from, folder, name);
        name_file(&to, folder, others[i]);
        CHECK(i == 0 || rename(from.path, to.path) == 0); /* the session is not part of the name */
        CHECK(!load(others[i], SIZE));
        CHECK(i == 0 || rename(to.path, from.path) == 0);
    }
    struct stat st;
    CHECK(stat(path(), &st) == 0 && (st.st_mode & 0777) == 0600);
    offload_file_remove(folder, name);
}

static void test_names(void)
{
    struct offload_file_name n;
    CHECK(offload_file_parse_name("00000003-00000009-5", &n) && n.slot == 3 && n.generation == 9 && n.number == 5);
    CHECK(offload_file_parse_name("ffffffff-ffffffff-ffffffffffffffff", &n) && n.number == UINT64_MAX);
    const char *not_ours[] = {"",
                              "3-9-5",
                              "00000003-00000009-05",
                              "00000003-00000009-5 ",
                              "00000003-00000009-",
                              "../00000003-00000009-5",
                              "00000003-00000009-5.txt",
                              "+0000003-00000009-5",
                              "00000003-0000000G-5",
                              "00000003-00000009-12345678901234567"};
    for (unsigned i = 0; i < sizeof not_ours / sizeof *not_ours; i++)
        CHECK(!offload_file_parse_name(not_ours[i], &n));
}

static void test_checksum(void)
{
    CHECK(crc32c(0, (const unsigned char *)"123456789", 9) == 0xe3069283); /* the catalogue's check value */
    for (uint64_t n = 0; n < SIZE; n += 7) {
        uint32_t whole = crc32c(0, value, n);
        CHECK(whole == crc32c_by_tables(0, value, n));
        CHECK(whole == crc32c(crc32c(0, value, n / 3), value + n / 3, n - n / 3));
    }
}

int main(void)
{
    for (unsigned i = 0; i < SIZE; i++)
        value[i] = (unsigned char)(i * 2654435761u >> 13);
    CHECK(mkdtemp(folder));
    test_checksum();
    test_names();
    test_faults();
    test_damage();
    test_whose();
    CHECK(count_files() == 0 && rmdir(folder) == 0);
    printf("%ld faults: never wrong bytes, no file left\n", n_faults);
    return n_faults > 1000 ? 0 : 1;
}
