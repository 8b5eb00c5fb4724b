/* Private pages over the bytes of an object: what a process writes to an array that it was given, nobody else sees
 * (decision 122). The kernel copies a page when it is first written to, and until then shows the segment's, so the
 * object must stay where and as it is for as long as they are there: each Buffer over them notes itself as a view of
 * it. At both ends a page may show neighbours' bytes, which nobody reads here.
 *
 * Pages that nobody has written to show the segment whatever lies there, also what comes later: they are kept for
 * whoever asks for that place again, who then pays no page faults.
 *
 * The lists are protected by the GIL. */
#include "binding.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define COPIED_BELOW (128u << 10) /* bytes: reading a copy takes as long as reading pages, writing to it far less */
#define MAPPINGS_MAX 16384        /* at a time; the kernel allows a process 65,530 of all kinds */
enum {
    KEPT_MAX = 64,   /* mappings that nobody uses: a look through their list costs little */
    FAULT_NS = 2000, /* what a page fault takes, and giving back the pages that it maps */
    MAP_NS = 8000,   /* what making a mapping takes, its first fault, and ending it */
    LOOKS = 5,       /* at pages take as long as the page faults that have mapped them */
    SHARE = 5        /* of the time that somebody has the pages, so much goes for a look at them: a fifth */
};

typedef struct mapping {
    codec_pages pages;
    ClientObject *client; /* alive for as long as they are used: each Buffer has a ref */
    unsigned char *begin;
    size_t size;
    const unsigned char *shows; /* where in this process the segment's own page of `begin` is */
    long faults;                /* of this process, when they were last looked at; NEW: it is used for the first time */
    int64_t look_ns, budget_ns; /* what the last look at its pages took, and what others may take */
    int64_t since;              /* when it was last given up */
    struct mapping *next, **place;
} Mapping;

enum { NEW = -1 };

static Mapping *used, *kept; /* the latter: the last that was given up comes first */
static uint32_t n_mappings, n_kept;

static void link_first(Mapping **list, Mapping *mapping)
{
    mapping->next = *list;
    mapping->place = list;
    if (*list)
        (*list)->place = &mapping->next;
    *list = mapping;
}

static void unlink_mapping(Mapping *mapping)
{
    *mapping->place = mapping->next;
    if (mapping->next)
        mapping->next->place = mapping->place;
}

static void take_kept(Mapping *mapping)
{
    unlink_mapping(mapping);
    n_kept--;
}

/* Of one that is in no list. */
static void unmap(Mapping *mapping)
{
    munmap(mapping->begin, mapping->size);
    PyMem_Free(mapping);
    n_mappings--;
}

void private_pages_forget(ClientObject *c)
{
    for (Mapping *mapping = kept, *next; mapping; mapping = next) {
        next = mapping->next;
        if (mapping->client == c) {
            take_kept(mapping);
            unmap(mapping);
        }
    }
    pagemap_close(&c->pagemap);
}

/* Of this process. None is no proof that nobody has written: the kernel, a driver and other processes
 * (process_vm_writev) may do so without one here. */
static long page_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_minflt + usage.ru_majflt : NEW;
}

static bool shows_segment(ClientObject *c, Mapping *mapping)
{
    if (!c->pagemap_asked) {
        c->pagemap_asked = true;
        c->pagemap = pagemap_open();
    }
    int64_t begin = monotonic_ns();
    bool shows = pages_show_file(&c->pagemap, mapping->begin, mapping->size);
    mapping->look_ns = monotonic_ns() - begin;
    return shows;
}

/* Whether a mapping that nobody uses any more is kept: no page of it has been written to. A look at all pages that are
 * mapped takes a twentieth of what mapping them anew would, but who reads a little of much is quicker without; so looks
 * take as long as making the mapping as often as it was given up, the faults since it was made, and a part of the time
 * since then, at most. All this is looked at here, as who asks for pages waits for them. */
static bool keeps(ClientObject *c, Mapping *mapping)
{
    if (c->closed || !c->pid) /* a forked child is given no more of them */
        return false;
    int64_t now = monotonic_ns();
    if (mapping->faults == NEW) {
        mapping->since = now;
        mapping->faults = page_faults();
        bool shows = shows_segment(c, mapping);
        mapping->budget_ns = LOOKS * mapping->look_ns;
        return shows;
    }
    mapping->budget_ns += MAP_NS + (now - mapping->since) / SHARE;
    mapping->since = now;
    if (mapping->budget_ns < mapping->look_ns) {
        long faults = page_faults();
        mapping->budget_ns += (faults - mapping->faults) * FAULT_NS;
        mapping->faults = faults;
    }
    if (mapping->budget_ns < mapping->look_ns || !shows_segment(c, mapping))
        return false;
    mapping->budget_ns -= mapping->look_ns;
    return true;
}

static void end_mapping(codec_pages *pages)
{
    Mapping *mapping = (Mapping *)pages;
    unlink_mapping(mapping);
    if (!keeps(mapping->client, mapping)) {
        unmap(mapping);
        return;
    }
    link_first(&kept, mapping);
    if (n_kept++ < KEPT_MAX)
        return;
    while (mapping->next)
        mapping = mapping->next;
    take_kept(mapping);
    unmap(mapping);
}

static Mapping *find_kept(const unsigned char *shows, size_t size)
{
    Mapping *mapping = kept;
    while (mapping && (mapping->shows != shows || mapping->size != size))
        mapping = mapping->next;
    return mapping;
}

static Mapping *new_mapping(ClientObject *c, uint64_t begin, size_t size)
{
    if (n_mappings == MAPPINGS_MAX || !segment_has_descriptor(&c->s))
        return NULL;
    Mapping *mapping = PyMem_Malloc(sizeof *mapping);
    void *at = mapping ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, c->s.fd, (off_t)begin)
                       : MAP_FAILED;
    if (at == MAP_FAILED) {
        PyMem_Free(mapping);
        return NULL;
    }
    *mapping = (Mapping){.client = c, .begin = at, .size = size, .shows = c->s.base + begin, .faults = NEW};
    n_mappings++;
    return mapping;
}

codec_pages *private_pages(void *client, const unsigned char *data, size_t size)
{
    ClientObject *c = client;
    uint64_t offset = (uint64_t)(data - c->s.base), begin = offset / ARENA_PAGE * ARENA_PAGE;
    size_t whole = (offset + size - begin + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE;
    if (size < COPIED_BELOW || !c->pid)
        return NULL;
    Mapping *mapping = find_kept(c->s.base + begin, whole);
    if (mapping)
        take_kept(mapping);
    else if (!(mapping = new_mapping(c, begin, whole)))
        return NULL;
    mapping->pages = (codec_pages){mapping->begin + (offset - begin), 0, end_mapping};
    link_first(&used, mapping);
    return &mapping->pages;
}

static PyObject *address(const void *at) { return PyLong_FromUnsignedLongLong((uintptr_t)at); }

PyObject *core_private_pages(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0), *row = list;
    for (const Mapping *m = used; m && row; m = m->next) {
        row = Py_BuildValue("(NnN)", address(m->begin), (Py_ssize_t)m->size, address(m->shows));
        if (row && PyList_Append(list, row) < 0)
            Py_CLEAR(row);
        Py_XDECREF(row); /* the list has it */
    }
    if (!row)
        Py_CLEAR(list);
    return list;
}
