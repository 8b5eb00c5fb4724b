/* `_fold`: event records into the columns of the graph (graph.py), one after the other, and from them the states of
 * tasks; without the GIL (decision 31).
 *
 * The columns are numpy's memory: Python decides what there is and reads it, this file fills it in. Nothing in a record
 * is trusted, as any process of the session can write to the ring. What happened is decided by the time in a record and
 * never by its place, so every order of the same records ends in the same columns.
 *
 * What needs Python is left to it: `fold` stops at a record whose function has no number yet, and at those of
 * actors. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "memory/event.h"

/* CPython's slot tables keep functions in void pointers, which ISO C leaves to the platform and POSIX allows. */
#pragma GCC diagnostic ignored "-Wpedantic"

#define SLACK (1u << 16)          /* numbers a little older than the first one seen still get an entry */
#define PUT_FUNCTION (1ull << 48) /* the keys of put and its kin, which no function has: this and an event_put */
enum { N_WORKERS = 256, N_TOTALS = 6, N_COUNTS = 256 };

/* The number of panel_messages.Kind.OBJECT, exported so that a test can compare the two. */
enum kind { KIND_OBJECT = 3 };
/* The states of cellmesh/observe/states.py, in their order; STATES of the module has the words. */
#define STATES(X)       \
    X(WAITING, waiting) \
    X(QUEUED, queued)   \
    X(RUNNING, running) X(FINISHED, finished) X(FAILED, failed) X(CANCELLED, cancelled) X(RETRYING, retrying)
#define STATE(name, word) name,
enum state { STATES(STATE) };
static const uint8_t end_state[] = {
    [EVENT_OK] = FINISHED, [EVENT_ERROR] = FAILED, [EVENT_CANCELLED] = CANCELLED, [EVENT_CRASHED] = FAILED};

/* Every column: its type, its name, and the group whose columns are all of one length. */
/* clang-format off */ /* one column a line */
#define COLUMNS(X)                                                                                                     \
    X(uint64_t, seq, ENTRIES) X(uint64_t, seen, ENTRIES) X(uint64_t, submitted, ENTRIES)                               \
    X(uint64_t, started, ENTRIES)                                                                                      \
    X(uint64_t, retried, ENTRIES) X(uint64_t, finished, ENTRIES) X(double, size, ENTRIES)                              \
    X(int32_t, function, ENTRIES)                                                                                      \
    X(uint64_t, called, ENTRIES)                                                                                       \
    X(uint32_t, cell, ENTRIES) X(uint32_t, actor_index, ENTRIES) X(int32_t, parent, ENTRIES)                           \
    X(uint32_t, pid, ENTRIES)                                                                                          \
    X(int32_t, open_dependencies, ENTRIES) X(int32_t, row, ENTRIES) X(uint8_t, worker, ENTRIES)                        \
    X(uint8_t, status, ENTRIES)                                                                                        \
    X(uint8_t, kind, ENTRIES) X(uint8_t, state, ENTRIES) X(uint8_t, counted, ENTRIES) X(bool, known, ENTRIES)          \
    X(bool, gone, ENTRIES) X(bool, vanished, ENTRIES) X(bool, queued, ENTRIES) X(bool, dirty, ENTRIES)                 \
    X(int32_t, changed, ENTRIES)                                                                                       \
    X(uint32_t, node, ENTRIES) X(uint32_t, pid_there, ENTRIES) X(uint64_t, ran, ENTRIES)                               \
    X(uint64_t, began, ENTRIES)                                                                                        \
    X(uint64_t, ended, ENTRIES)                                                                                        \
    X(int32_t, lost_entry, LOST) X(uint32_t, lost_node, LOST) X(uint32_t, lost_pid, LOST)                              \
    X(uint64_t, lost_sent, LOST)                                                                                       \
    X(uint64_t, lost_began, LOST) X(uint64_t, lost_at, LOST)                                                           \
    X(int32_t, loose_source, LOOSE) X(int32_t, loose_target, LOOSE)                                                    \
    X(int32_t, open_source, OPEN) X(int32_t, open_target, OPEN)                                                        \
    X(int32_t, entry_of, NUMBERS)                                                                                      \
    X(uint64_t, put_number, PUTS) X(uint64_t, put_time, PUTS) X(uint32_t, put_cell, PUTS)                              \
    X(uint32_t, put_size, PUTS)                                                                                        \
    X(uint16_t, put_why, PUTS)                                                                                         \
    X(uint64_t, worker_since, WORKERS) X(uint64_t, worker_busy, WORKERS) X(uint64_t, worker_died, WORKERS)             \
    X(uint64_t, worker_blocked, WORKERS) X(uint64_t, worker_unblocked, WORKERS) X(int64_t, worker_entry, WORKERS)      \
    X(uint32_t, worker_pid, WORKERS)                                                                                   \
    X(int64_t, n_entries, ONE) X(int64_t, n_loose, ONE) X(int64_t, n_open, ONE) X(int64_t, queued_low, ONE)            \
    X(int64_t, dirty_low, ONE) X(int64_t, n_lost, ONE)                                                                 \
    X(int64_t, beyond, TOTALS) X(int64_t, counts, COUNTS)
/* clang-format on */

enum group { ENTRIES, LOOSE, OPEN, NUMBERS, PUTS, LOST, WORKERS, ONE, TOTALS, COUNTS, N_GROUPS };
enum total { BEYOND_SUBMITTED, BEYOND_STARTED, BEYOND_FINISHED }; /* then by status */

#define ONE_MORE(type, name, group) +1
enum { N_COLUMNS = COLUMNS(ONE_MORE) };

typedef struct {
    uint64_t key; /* slot << 16 | generation */
    int32_t number;
} Function;

typedef struct {
    PyObject_HEAD
#define MEMBER(type, name, group) type *name;
    COLUMNS(MEMBER)
    Py_buffer views[N_COLUMNS];
    uint64_t length[N_GROUPS];
    uint64_t object_bytes;     /* objects made by put that are larger have an entry even if nothing depends on them */
    uint64_t first_number;     /* where `entry_of` begins */
    unsigned long long newest; /* time of the latest record */
    Function *functions;       /* by key, ascending */
    Py_ssize_t n_functions;
    bool has_begun; /* first_number is known */
} Folder;

static const struct {
    const char *name;
    size_t size, offset;
    enum group group;
} columns[] = {
#define ROW(type, name, group) {#name, sizeof(type), offsetof(Folder, name), group},
    /* clang-format off */ /* a macro without a semicolon */
    COLUMNS(ROW)
    /* clang-format on */
};

/* ------------------------------------------------------------------ entries */

/* The entry of a task or put number, -1 if it has none. */
static int64_t find(const Folder *f, uint64_t number)
{
    uint64_t index = (number & ~PUT_BIT) - f->first_number; /* below the first one it wraps round to a huge one */
    return f->has_begun && index < f->length[NUMBERS] ? (int64_t)f->entry_of[index] - 1 : -1;
}

/* The same, but made if there is none; -1 if there is no room for it. */
static int64_t entry(Folder *f, uint64_t number, uint64_t ticks)
{
    uint64_t plain = number & ~PUT_BIT;
    if (!f->has_begun) {
        f->first_number = plain < f->length[NUMBERS] / 2 ? 0 : plain - SLACK;
        f->has_begun = true;
    }
    int64_t e = find(f, number);
    if (e >= 0) {
        if (ticks < f->seen[e])
            f->seen[e] = ticks;
        return e;
    }
    e = *f->n_entries;
    if (plain - f->first_number >= f->length[NUMBERS] || e >= (int64_t)f->length[ENTRIES])
        return -1;
    *f->n_entries = e + 1;
    f->entry_of[plain - f->first_number] = (int32_t)e + 1;
    f->seq[e] = number;
    f->seen[e] = ticks;
    if (number & PUT_BIT)
        f->kind[e] = KIND_OBJECT;
    if (e < *f->queued_low)
        *f->queued_low = e;
    return e;
}

static void mark_dirty(Folder *f, int64_t e)
{
    f->dirty[e] = true;
    if (e < *f->dirty_low)
        *f->dirty_low = e;
}

/* It is known now; if it had been given up it is queued again. */
static void mark_described(Folder *f, int64_t e)
{
    f->known[e] = true;
    mark_dirty(f, e);
    if (!f->queued[e] && f->row[e] < 0) {
        f->queued[e] = true;
        if (e < *f->queued_low)
            *f->queued_low = e;
    }
}

/* ------------------------------------------------------------------ functions */

/* Where the key is, or would be. */
static Py_ssize_t place_of(const Folder *f, uint64_t key)
{
    Py_ssize_t low = 0, high = f->n_functions;
    while (low < high) {
        Py_ssize_t middle = low + (high - low) / 2;
        if (f->functions[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool number_of(const Folder *f, uint64_t key, int32_t *number)
{
    Py_ssize_t at = place_of(f, key);
    if (at == f->n_functions || f->functions[at].key != key)
        return false;
    *number = f->functions[at].number;
    return true;
}

/* ------------------------------------------------------------------ records; false: Python's turn, nothing has been
 * done */

static uint64_t number_in(const struct event_record *r) { return r->a | (uint64_t)r->b << 32; }

static bool fold_submitted(Folder *f, const struct event_record *r)
{
    int32_t function;
    if (!number_of(f, (uint64_t)r->a << 16 | r->d, &function))
        return false;
    int64_t e = entry(f, r->seq, r->ticks);
    if (e < 0) {
        f->beyond[BEYOND_SUBMITTED]++;
        return true;
    }
    f->submitted[e] = r->ticks;
    f->function[e] = function;
    f->cell[e] = r->b;
    f->actor_index[e] = r->c;
    mark_described(f, e);
    return true;
}

static void describe_object(Folder *f, int64_t e, int32_t function, uint64_t ticks, uint32_t cell, uint32_t size)
{
    f->submitted[e] = f->started[e] = f->finished[e] = ticks;
    f->function[e] = function;
    f->cell[e] = cell;
    f->size[e] = size;
    mark_described(f, e);
}

/* A small object gets an entry only when something depends on it; what was said of the last ones is remembered for
 * that. */
static bool fold_put(Folder *f, const struct event_record *r)
{
    int32_t function = 0;
    bool wanted = r->c > f->object_bytes || find(f, r->seq) >= 0;
    if (wanted && !number_of(f, PUT_FUNCTION | r->d, &function))
        return false;
    uint64_t at = r->seq & (f->length[PUTS] - 1);
    f->put_number[at] = r->seq;
    f->put_time[at] = r->ticks;
    f->put_cell[at] = r->b;
    f->put_size[at] = r->c;
    f->put_why[at] = r->d;
    int64_t e = wanted ? entry(f, r->seq, r->ticks) : -1;
    if (e >= 0)
        describe_object(f, e, function, r->ticks, r->b, r->c);
    return true;
}

static bool fold_depends(Folder *f, const struct event_record *r)
{
    uint64_t creator = number_in(r), at = creator & (f->length[PUTS] - 1);
    bool is_task = !(creator & PUT_BIT), recalled = !is_task && find(f, creator) < 0 && f->put_number[at] == creator;
    int32_t function = 0;
    if (recalled && !number_of(f, PUT_FUNCTION | f->put_why[at], &function))
        return false;
    int64_t target = entry(f, r->seq, r->ticks);
    if (target < 0)
        return true;
    int64_t source = entry(f, creator, recalled ? f->put_time[at] : r->ticks);
    if (source < 0)
        return true;
    if (recalled)
        describe_object(f, source, function, f->put_time[at], f->put_cell[at], f->put_size[at]);
    if (*f->n_loose >= (int64_t)f->length[LOOSE] || *f->n_open >= (int64_t)f->length[OPEN])
        return true; /* as many as the graph takes */
    f->loose_source[*f->n_loose] = (int32_t)source;
    f->loose_target[(*f->n_loose)++] = (int32_t)target;
    if (is_task) {
        f->open_source[*f->n_open] = (int32_t)source;
        f->open_target[(*f->n_open)++] = (int32_t)target;
        f->open_dependencies[target]++;
        mark_dirty(f, target);
    }
    return true;
}

static void fold_parent(Folder *f, const struct event_record *r)
{
    int64_t e = entry(f, r->seq, r->ticks);
    if (e >= 0)
        f->parent[e] = (int32_t)entry(f, number_in(r), r->ticks);
}

static void identify_worker(Folder *f, uint8_t worker, uint32_t pid, uint64_t ticks)
{
    if (ticks >= f->worker_since[worker]) {
        f->worker_since[worker] = ticks;
        f->worker_pid[worker] = pid;
    }
}

static void fold_started(Folder *f, const struct event_record *r)
{
    int64_t e = entry(f, r->seq, r->ticks);
    if (!r->c && r->ticks >= f->worker_busy[r->client]) {
        f->worker_busy[r->client] = r->ticks;
        f->worker_entry[r->client] = e;
        identify_worker(f, r->client, r->b, r->ticks);
    }
    if (e < 0) {
        f->beyond[BEYOND_STARTED]++;
    } else if (r->ticks >= f->started[e]) {
        f->started[e] = r->ticks;
        f->worker[e] = r->client;
        f->pid[e] = r->b;
        f->node[e] = r->c;
        mark_dirty(f, e);
    }
}

/* What was known of an attempt on a machine that is lost; the next one overwrites it. */
static void keep_lost(Folder *f, int64_t e, const struct event_record *r)
{
    int64_t at = *f->n_lost;
    if (at >= (int64_t)f->length[LOST])
        return; /* as many as the graph takes */
    bool is_known = f->started[e] && f->started[e] <= r->ticks && f->node[e] == r->c;
    bool has_begun = is_known && f->ran[e] >= f->started[e];
    f->lost_entry[at] = (int32_t)e;
    f->lost_node[at] = r->c;
    f->lost_sent[at] = is_known ? f->started[e] : r->ticks;
    f->lost_began[at] = has_begun ? f->began[e] : 0;
    f->lost_pid[at] = has_begun ? f->pid_there[e] : 0;
    f->lost_at[at] = r->ticks;
    *f->n_lost = at + 1;
}

static uint64_t before(const struct event_record *r, uint32_t ago)
{
    uint64_t ticks = r->d < 32 ? (uint64_t)ago << r->d : UINT64_MAX;
    return ticks < r->ticks ? r->ticks - ticks : 1;
}

/* A task on another machine, as that tells it: durations, of which the agent has made times of here. */
static void fold_ran(Folder *f, const struct event_record *r)
{
    int64_t e = entry(f, r->seq, r->ticks);
    if (e < 0 || r->ticks < f->ran[e])
        return;
    f->ran[e] = r->ticks;
    f->pid_there[e] = r->a;
    f->began[e] = before(r, r->b);
    f->ended[e] = r->c == EVENT_RUNS_ON ? 0 : before(r, r->c);
    mark_dirty(f, e);
}

static void fold_called(Folder *f, const struct event_record *r)
{
    int64_t e = entry(f, r->seq, r->ticks);
    if (e >= 0 && r->ticks >= f->called[e]) {
        f->called[e] = r->ticks;
        mark_dirty(f, e);
    }
}

static void fold_retried(Folder *f, const struct event_record *r)
{
    int64_t e = entry(f, r->seq, r->ticks);
    if (e >= 0 && r->c && r->d)
        keep_lost(f, e, r);
    if (e < 0) {
        f->beyond[BEYOND_STARTED]--;
    } else if (r->ticks >= f->retried[e]) {
        f->retried[e] = r->ticks;
        mark_dirty(f, e);
    }
}

static void fold_finished(Folder *f, const struct event_record *r)
{
    int64_t e = entry(f, r->seq, r->ticks);
    uint8_t status = (uint8_t)(r->b < EVENT_CRASHED ? r->b : EVENT_CRASHED);
    if (e < 0) {
        f->beyond[BEYOND_FINISHED + status]++;
    } else if (r->ticks >= f->finished[e]) {
        f->finished[e] = r->ticks;
        f->status[e] = status;
        f->size[e] = r->c;
        mark_dirty(f, e);
    }
}

static void fold_freed(Folder *f, const struct event_record *r)
{
    int64_t e = find(f, r->seq);
    if (e >= 0)
        f->gone[e] = true;
}

static void later(uint64_t *time, uint64_t ticks)
{
    if (ticks > *time)
        *time = ticks;
}

static bool fold_record(Folder *f, const struct event_record *r)
{
    switch (r->kind) {
    case EVENT_SUBMITTED:
        return fold_submitted(f, r);
    case EVENT_PARENT:
        fold_parent(f, r);
        break;
    case EVENT_DEPENDS:
        return fold_depends(f, r);
    case EVENT_STARTED:
        fold_started(f, r);
        break;
    case EVENT_CALLED:
        fold_called(f, r);
        break;
    case EVENT_FINISHED:
        fold_finished(f, r);
        break;
    case EVENT_RETRIED:
        fold_retried(f, r);
        break;
    case EVENT_PUT:
        return fold_put(f, r);
    case EVENT_FREED:
        fold_freed(f, r);
        break;
    case EVENT_ACTOR_CREATED:
    case EVENT_ACTOR_STATE:
        return false;
    case EVENT_WORKER_STARTED:
        identify_worker(f, (uint8_t)r->a, r->b, r->ticks);
        break;
    case EVENT_WORKER_DIED:
        later(&f->worker_died[(uint8_t)r->a], r->ticks);
        break;
    case EVENT_BLOCKED:
        later(&f->worker_blocked[r->client], r->ticks);
        break;
    case EVENT_UNBLOCKED:
        later(&f->worker_unblocked[r->client], r->ticks);
        break;
    case EVENT_RAN:
        fold_ran(f, r);
        break;
    case EVENT_TRANSFER:
    case EVENT_TRANSFERRED:
        return false;
    default:
        break; /* of a later version */
    }
    return true;
}

/* ------------------------------------------------------------------ states */

/* The latest of start, retry and end decides. */
static enum state state_of(const Folder *f, int64_t e)
{
    uint64_t started = f->started[e], retried = f->retried[e], finished = f->finished[e];
    if (finished && finished >= started && finished >= retried)
        return end_state[f->status[e]];
    if (f->vanished[e])
        return FINISHED;
    if (retried > started)
        return RETRYING;
    if (started)
        return f->node[e] && f->ran[e] < started ? QUEUED : RUNNING; /* sent: as far as is known it waits there */
    return f->open_dependencies[e] > 0 ? WAITING : QUEUED;
}

/* States of all that is dirty, and how many tasks with a row are in each; the rows concerned go into `changed`. */
static int64_t derive(Folder *f)
{
    int64_t n = 0, e = *f->dirty_low;
    for (; e < *f->n_entries; e++) {
        if (!f->dirty[e])
            continue;
        f->dirty[e] = false;
        f->state[e] = (uint8_t)state_of(f, e);
        if (f->row[e] < 0)
            continue;
        f->changed[n++] = f->row[e];
        if (f->kind[e] != KIND_OBJECT) {
            f->counts[f->counted[e]]--;
            f->counted[e] = f->state[e];
            f->counts[f->counted[e]]++;
        }
    }
    *f->dirty_low = e;
    return n;
}

/* ------------------------------------------------------------------ Python */

static PyObject *folder_fold(PyObject *self, PyObject *args)
{
    Folder *f = (Folder *)self;
    Py_buffer data;
    Py_ssize_t at;
    if (!PyArg_ParseTuple(args, "y*n:fold", &data, &at))
        return NULL;
    Py_ssize_t n = data.len / (Py_ssize_t)sizeof(struct event_record);
    if (data.len % (Py_ssize_t)sizeof(struct event_record) || (uintptr_t)data.buf % _Alignof(struct event_record) ||
        at < 0 || at > n) {
        PyBuffer_Release(&data);
        return PyErr_Format(
            PyExc_ValueError,
            "fold: wants whole, aligned records of %zu bytes and a place between 0 and their number, %zd; "
            "got %zd bytes and place %zd",
            sizeof(struct event_record), n, data.len, at);
    }
    const struct event_record *records = data.buf;
    Py_BEGIN_ALLOW_THREADS
    for (; at < n; at++) {
        if (records[at].ticks > f->newest)
            f->newest = records[at].ticks;
        if (!fold_record(f, &records[at]))
            break;
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    return PyLong_FromSsize_t(at);
}

static PyObject *folder_derive(PyObject *self, PyObject *unused)
{
    (void)unused;
    int64_t n;
    Py_BEGIN_ALLOW_THREADS
    n = derive((Folder *)self);
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(n);
}

static PyObject *folder_learn(PyObject *self, PyObject *args)
{
    Folder *f = (Folder *)self;
    unsigned long long key;
    int number;
    if (!PyArg_ParseTuple(args, "Ki:learn", &key, &number))
        return NULL;
    Py_ssize_t at = place_of(f, key);
    if (at == f->n_functions || f->functions[at].key != key) {
        Function *more = PyMem_Resize(f->functions, Function, (size_t)f->n_functions + 1);
        if (!more)
            return PyErr_NoMemory();
        f->functions = more;
        memmove(more + at + 1, more + at, (size_t)(f->n_functions++ - at) * sizeof *more);
    }
    f->functions[at] = (Function){key, number};
    Py_RETURN_NONE;
}

static PyObject *folder_entry(PyObject *self, PyObject *args)
{
    unsigned long long number, ticks;
    if (!PyArg_ParseTuple(args, "KK:entry", &number, &ticks))
        return NULL;
    return PyLong_FromLongLong(entry((Folder *)self, number, ticks));
}

static PyObject *folder_find(PyObject *self, PyObject *number)
{
    unsigned long long wanted = PyLong_AsUnsignedLongLong(number);
    return wanted == (unsigned long long)-1 && PyErr_Occurred() ? NULL
                                                                : PyLong_FromLongLong(find((Folder *)self, wanted));
}

static void folder_dealloc(PyObject *self)
{
    Folder *f = (Folder *)self;
    PyTypeObject *type = Py_TYPE(self);
    for (unsigned i = 0; i < N_COLUMNS; i++)
        if (f->views[i].obj)
            PyBuffer_Release(&f->views[i]);
    PyMem_Free(f->functions);
    type->tp_free(self);
    Py_DECREF(type);
}

/* One column from the keyword of its name. */
static int take_column(Folder *f, PyObject *given, unsigned i)
{
    PyObject *column = given ? PyDict_GetItemString(given, columns[i].name) : NULL;
    if (!column)
        return PyErr_Format(PyExc_TypeError, "Folder: column %s is missing", columns[i].name), -1;
    Py_buffer *view = &f->views[i];
    if (PyObject_GetBuffer(column, view, PyBUF_WRITABLE | PyBUF_ND) < 0)
        return -1;
    uint64_t *length = &f->length[columns[i].group], n = (uint64_t)view->len / columns[i].size;
    if ((size_t)view->itemsize != columns[i].size || (uintptr_t)view->buf % columns[i].size ||
        (*length && *length != n) || !n)
        return PyErr_Format(
                   PyExc_ValueError,
                   "Folder: column %s must have aligned items of %zu bytes, as many as the others of its group (%llu); "
                   "it has %llu bytes in items of %zd",
                   columns[i].name, columns[i].size, (unsigned long long)*length, (unsigned long long)view->len,
                   view->itemsize),
               -1;
    *length = n;
    memcpy((char *)f + columns[i].offset, &view->buf, sizeof view->buf);
    return 0;
}

static PyObject *folder_new(PyTypeObject *type, PyObject *args, PyObject *given)
{
    unsigned long long object_bytes;
    if (!PyArg_ParseTuple(args, "K:Folder", &object_bytes))
        return NULL;
    Folder *f = (Folder *)type->tp_alloc(type, 0);
    if (!f)
        return NULL;
    f->object_bytes = object_bytes;
    for (unsigned i = 0; i < N_COLUMNS; i++)
        if (take_column(f, given, i) < 0) {
            Py_DECREF(f);
            return NULL;
        }
    const uint64_t *n = f->length;
    if (n[WORKERS] != N_WORKERS || n[ONE] != 1 || n[TOTALS] != N_TOTALS || n[COUNTS] != N_COUNTS ||
        n[PUTS] & (n[PUTS] - 1) || n[ENTRIES] >= INT32_MAX) {
        Py_DECREF(f);
        return PyErr_Format(PyExc_ValueError,
                            "Folder: wants %d workers, %d totals, %d counts, numbers that stand alone, puts by a power "
                            "of two, and less than 2**31 entries",
                            N_WORKERS, N_TOTALS, N_COUNTS);
    }
    return (PyObject *)f;
}

static PyMethodDef methods[] = {
    {"fold", folder_fold, METH_VARARGS,
     "fold(records, begin, /)\n--\n\nFold the records from `begin` on; returns how many are done, which is fewer than "
     "there are when the next one is for Python: `learn` its function or handle it."},
    {"derive", folder_derive, METH_NOARGS,
     "derive()\n--\n\nBring the states of dirty entries and `counts` up to date; their rows, so many, are in "
     "`changed`."},
    {"learn", folder_learn, METH_VARARGS,
     "learn(key, number, /)\n--\n\nThe function with this key, slot << 16 | generation, has this number."},
    {"entry", folder_entry, METH_VARARGS,
     "entry(number, ticks, /)\n--\n\nThe entry of a task or put number, made if there is none; -1 if there is no "
     "room."},
    {"find", folder_find, METH_O, "find(number, /)\n--\n\nThe entry of a task or put number, or -1."},
    {NULL}};

static PyMemberDef members[] = {
    {"newest", T_ULONGLONG, offsetof(Folder, newest), READONLY, "The time of the latest record folded, in ticks."},
    {NULL}};

static PyType_Slot folder_slots[] = {{Py_tp_doc, "Folder(object_bytes, **columns)\n--\n\nFolds event records into "
                                                 "columns, which it keeps; names that it does not know are ignored."},
                                     {Py_tp_new, folder_new},
                                     {Py_tp_dealloc, folder_dealloc},
                                     {Py_tp_methods, methods},
                                     {Py_tp_members, members},
                                     {0, NULL}};

static PyType_Spec folder_spec = {.name = "cellmesh.kernel_ext.graph._fold.Folder",
                                  .basicsize = sizeof(Folder),
                                  .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                                  .slots = folder_slots};

static int fold_exec(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &folder_spec, NULL);
    int result = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    if (result < 0 || PyModule_AddIntConstant(module, "PUT_FUNCTION", (long)PUT_FUNCTION) < 0 ||
        PyModule_AddIntConstant(module, "KIND_OBJECT", KIND_OBJECT) < 0)
        return -1;
#define WORD(name, word) " " #word
    PyObject *text = PyUnicode_FromString(STATES(WORD)), *words = text ? PyUnicode_Split(text, NULL, -1) : NULL;
    PyObject *states = words ? PyList_AsTuple(words) : NULL;
    result = states ? PyModule_AddObjectRef(module, "STATES", states) : -1;
    Py_XDECREF(text);
    Py_XDECREF(words);
    Py_XDECREF(states);
    return result;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fold_exec}, {0, NULL}};

static struct PyModuleDef fold_module = {PyModuleDef_HEAD_INIT, .m_name = "_fold",
                                         .m_doc = "Event records into the graph's columns.", .m_slots = slots};

PyMODINIT_FUNC PyInit__fold(void) { return PyModuleDef_Init(&fold_module); }
