/* A private mapping shows its file until a page of it is written to; both ways of asking see that. */
#define _GNU_SOURCE
#include "memory/written_pages.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/expect.h"

enum { PAGE = 4096, N_PAGES = 3000 };
#define SIZE ((size_t)N_PAGES * PAGE)

static struct pagemap pagemap;
static bool scans; /* whether the kernel can */

static unsigned char *mapped(int fd)
{
    unsigned char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static void expect(const unsigned char *at, int written)
{
    CHECK(written_by_entries(pagemap.fd, at, SIZE) == written);
    CHECK(!scans || written_by_scan(pagemap.fd, at, SIZE) == written);
    CHECK(pages_show_file(&pagemap, at, SIZE) == !written);
}

static int sum(const unsigned char *at)
{
    int total = 0;
    for (size_t i = 0; i < SIZE; i += PAGE)
        total += at[i];
    return total;
}

static void what_is_read_is_not_written(int fd)
{
    unsigned char *at = mapped(fd);
    expect(at, 0);
    CHECK(sum(at) == N_PAGES);
    expect(at, 0);
    munmap(at, SIZE);
}

/* One page: the first, the last, one in between; also when it has gone to swap, as far as there is any. */
static void what_is_written_is_seen(int fd)
{
    static const size_t places[] = {0, 1700 * (size_t)PAGE + 77, SIZE - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        unsigned char *at = mapped(fd);
        at[places[i]] = 9;
        expect(at, 1);
        CHECK(sum(at) >= N_PAGES);
        expect(at, 1);
        madvise(at, SIZE, MADV_PAGEOUT);
        expect(at, 1);
        CHECK(at[places[i]] == 9);
        munmap(at, SIZE);
    }
}

/* A page that a child wrote to is the child's. */
static void a_child_s_write_is_its_own(int fd)
{
    unsigned char *at = mapped(fd);
    pid_t child = fork();
    if (child == 0) {
        at[5] = 9;
        struct pagemap own = pagemap_open();
        _exit(pages_show_file(&own, at, SIZE));
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    expect(at, 0);
    munmap(at, SIZE);
}

/* What the file is given or loses afterwards shows. */
static void it_goes_on_to_show_the_file(int fd, unsigned char *shared)
{
    unsigned char *at = mapped(fd);
    CHECK(sum(at) == N_PAGES);
    memset(shared, 2, SIZE / 2);
    CHECK(madvise(shared + SIZE / 2, SIZE / 2, MADV_REMOVE) == 0);
    CHECK(sum(at) == N_PAGES);
    memset(shared + SIZE / 2, 3, SIZE / 2);
    CHECK(sum(at) == N_PAGES / 2 * 5);
    expect(at, 0);
    munmap(at, SIZE);
}

/* A user's code may close our descriptor, and open another that gets its number. */
static void another_s_descriptor_is_not_asked(int fd)
{
    unsigned char *at = mapped(fd);
    struct pagemap lost = pagemap_open();
    CHECK(lost.fd >= 0 && pages_show_file(&lost, at, SIZE));
    CHECK(dup2(fd, lost.fd) == lost.fd && !pages_show_file(&lost, at, SIZE));
    int other = lost.fd;
    pagemap_close(&lost);
    CHECK(lost.fd == -1 && !pages_show_file(&lost, at, SIZE) && close(other) == 0);
    munmap(at, SIZE);
}

int main(void)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)SIZE) == 0);
    unsigned char *shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(shared != MAP_FAILED);
    memset(shared, 1, SIZE);
    pagemap = pagemap_open();
    CHECK(pagemap.fd >= 0);
    scans = written_by_scan(pagemap.fd, shared, SIZE) == 0;
    what_is_read_is_not_written(fd);
    what_is_written_is_seen(fd);
    a_child_s_write_is_its_own(fd);
    another_s_descriptor_is_not_asked(fd);
    it_goes_on_to_show_the_file(fd, shared);
    pagemap_close(&pagemap);
    munmap(shared, SIZE);
    close(fd);
    return 0;
}
