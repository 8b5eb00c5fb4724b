/* Offloads objects when the arena is full, and reads them back when they are wanted. The process that needs the room or
 * the value does it, in its own time and without the GIL; the protocol is in core/objects/offload.h, the files in
 * core/objects/offload_file.h.
 *
 * A process counts what it looks at: views of an object's bytes, and calls that decode them. With the first it notes
 * itself as a reader in the segment, with the last it takes that back. The counts are private and protected by the
 * GIL. */
#include "binding.h"

#include <string.h>

#include "objects/offload.h"
#include "objects/offload_file.h"

/* for another process that brings the object back, which tells; or dies, and does not */
#define WAIT_NS (INT64_C(20) * 1000 * 1000)
#define N_WAITS 400 /* WAIT_NS each: how long a full store is waited for */
#define STEP_NS \
    (INT64_C(8) * 1000 * 1000 * 1000) /* a disk that takes longer for OFFLOAD_FILE_STEP bytes is of no use */

/* ------------------------------------------------------------------ readers */

void begin_reading(ClientObject *c, uint32_t slot)
{
    if (c->views[slot]++ == 0 && c->pid)
        offload_begin_reading(&c->s, slot);
}

int begin_reading_here(ClientObject *c, uint32_t slot, PyObject **copy)
{
    begin_reading(c, slot);
    int back = 0;
    while (object_is_absent(&c->s.objects[slot]) && back == 0 && !*copy)
        back = bring_back(c, slot, copy);
    return back;
}

void end_reading(ClientObject *c, uint32_t slot)
{
    if (--c->views[slot] == 0 && c->pid)
        offload_end_reading(&c->s, slot);
}

void note_view(PyObject *owner, bool begins)
{
    RefObject *ref = (RefObject *)owner;
    (begins ? begin_reading : end_reading)(ref->client, ref->slot);
}

/* ------------------------------------------------------------------ steps, interruptible */

static struct offload_file_name name_of(const ClientObject *c, const struct offload_move *m)
{
    return (struct offload_file_name){c->s.h->session, m->file, m->slot, m->generation};
}

/* One step without the GIL. 1: go on; 0: `f->why` says what is wrong; -1: exception. */
static int step(ClientObject *c, struct offload_file *f, unsigned char *bytes)
{
    bool ok;
    int64_t began = monotonic_ns();
    Py_BEGIN_ALLOW_THREADS
    ok = f->is_new ? offload_file_write(f, bytes) : offload_file_read(f, bytes);
    Py_END_ALLOW_THREADS
    if (PyErr_CheckSignals() < 0 || client_usable(c) < 0)
        return -1;
    if (ok && f->is_new && monotonic_ns() - began > STEP_NS) {
        snprintf(f->why, sizeof f->why, "the disk is too slow: less than %d kB/s",
                 (int)(OFFLOAD_FILE_STEP / (STEP_NS / 1000000)));
        return 0;
    }
    return ok;
}

/* As step, for all that is left of it. */
static int finish(ClientObject *c, struct offload_file *f, unsigned char *bytes)
{
    bool ok;
    int result = 1;
    while (result > 0 && !offload_file_done(f))
        result = step(c, f, bytes);
    if (result <= 0)
        return result;
    Py_BEGIN_ALLOW_THREADS
    ok = offload_file_finish(f);
    Py_END_ALLOW_THREADS
    return ok;
}

/* ------------------------------------------------------------------ offloading */

/* Writes the bytes that `m` says; then, if they still have no reader, they are freed. The outcome is that of make_room.
 */
static int carry_out(ClientObject *c, const struct offload_move *m, char *why)
{
    struct offload_file f;
    int error = OBJSTORE_SYSTEM, result;
    bool made;
    Py_BEGIN_ALLOW_THREADS
    made = offload_file_create(&f, c->s.h->offload_folder, name_of(c, m), m->size);
    Py_END_ALLOW_THREADS
    result = made ? finish(c, &f, c->s.base + m->chunk) : 0;
    segment_lock(&c->s);
    if (f.made_folder)
        request_attention(&c->s); /* the scheduler holds its lock */
    if (result > 0)
        error = offload_leave(&c->s, m);
    else
        offload_give_up(&c->s, m->slot);
    segment_unlock(&c->s);
    if (result == NO_ROOM)
        snprintf(why, OFFLOAD_WHY_SIZE, "%s (in %s)", f.why, c->s.h->offload_folder);
    if (error) {
        Py_BEGIN_ALLOW_THREADS
        offload_file_discard(&f);
        Py_END_ALLOW_THREADS
    }
    return result <= 0 ? result : error ? ROOM_SOON : SOME_ROOM;
}

int make_room(ClientObject *c, char *why)
{
    struct offload_move m;
    int found = offload_choose(&c->s, &m);
    if (found != OBJSTORE_OK)
        return found == OBJSTORE_PENDING ? ROOM_SOON : NO_ROOM;
    c->local[m.slot]++; /* the bit is set; a drop of the object meanwhile must not take it from us */
    int result = carry_out(c, &m, why);
    if (--c->local[m.slot] == 0)
        client_drop(&c->s, &m.slot, 1);
    return result;
}

int sleep_a_little(ClientObject *c, uint32_t seen)
{
    struct segment *s = &c->s;
    Py_BEGIN_ALLOW_THREADS
    client_sleep(s, seen, WAIT_NS, NULL);
    Py_END_ALLOW_THREADS
    return PyErr_CheckSignals() < 0 || client_usable(c) < 0 ? -1 : 0;
}

int find_room(ClientObject *c, int error, int n)
{
    if (error != OBJSTORE_LIMIT && error != OBJSTORE_FULL)
        return 0;
    if (n == 0) {
        flush_drops(c);
        return 1;
    }
    char why[OFFLOAD_WHY_SIZE] = "";
    int made = error == OBJSTORE_FULL && n < N_WAITS ? make_room(c, why) : NO_ROOM;
    if (made != ROOM_SOON)
        return made;
    return sleep_a_little(c, client_inbox(&c->s)) < 0 ? ROOM_FAILED : SOME_ROOM;
}

void keep_in_memory(ClientObject *c, uint32_t slot)
{
    segment_lock(&c->s);
    offload_never(&c->s, slot);
    segment_unlock(&c->s);
}

/* ------------------------------------------------------------------ and back */

static PyObject *raise_lost(ClientObject *c, const struct offload_move *m, const char *why)
{
    char text[1600];
    snprintf(text, sizeof text,
             "an object of %llu bytes that had been moved to disk, because the object store was full, cannot be read "
             "back: %s (in %s)",
             (unsigned long long)m->size, why, c->s.h->offload_folder);
    return raise_store_error(c, "lost", text);
}

/* Reads the file into the store, or, where that has no room, into memory of this process alone: what can be moved may
 * not fit into the limit on disk. Its place in the store; or 0 with `copy`, or with an exception. */
static uint64_t read_back(ClientObject *c, const struct offload_move *m, PyObject **copy)
{
    struct offload_file f;
    uint64_t chunk = 0;
    unsigned char *place = NULL;
    bool opened;
    Py_BEGIN_ALLOW_THREADS
    opened = offload_file_open(&f, c->s.h->offload_folder, name_of(c, m), m->size);
    Py_END_ALLOW_THREADS
    int result = opened ? 1 : 0;
    if (opened && (chunk = allocate_to_read(c, m->size)))
        place = c->s.base + chunk;
    else if (opened && !PyErr_Occurred() && (*copy = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)m->size)))
        place = (unsigned char *)PyBytes_AS_STRING(*copy);
    if (place)
        result = finish(c, &f, place);
    if (place && result > 0)
        return chunk;
    Py_CLEAR(*copy);
    if (result == 0)
        raise_lost(c, m, f.why);
    offload_file_discard(&f);
    if (chunk) {
        segment_lock(&c->s);
        arena_free(segment_arena(&c->s), c->s.base, chunk);
        segment_unlock(&c->s);
    }
    return 0;
}

_Thread_local int64_t bring_by_ns = NO_DEADLINE;
_Thread_local bool loads_arguments;

/* Until this process is to bring it, or another one has. What is remote may have to be made again first, which
 * takes a CPU: a task that waits for it gives its own back. 1: ours to bring; 0: it is here; -1: an exception. */
static int claim(ClientObject *c, uint32_t slot, struct offload_move *m)
{
    uint32_t task_1 = current_task_of(c);
    bool blocked = false;
    int result;
    for (;;) {
        uint32_t seen = client_inbox(&c->s);
        segment_lock(&c->s);
        int found = offload_claim(&c->s, slot, m);
        segment_unlock(&c->s);
        result = found == OBJSTORE_OK;
        if (found == OBJSTORE_NOT_FOUND) {
            raise_store_error(c, "lost", "an object lay on another machine, which has been lost");
            result = -1;
        }
        if (found != OBJSTORE_PENDING)
            break;
        if (task_1 && !blocked && object_is_remote(&c->s.objects[slot])) {
            task_block(&c->s, task_1 - 1);
            blocked = true;
        }
        result = sleep_a_little(c, seen);
        if (result == 0 && bring_by_ns != NO_DEADLINE && monotonic_ns() > bring_by_ns) {
            PyErr_SetString(PyExc_TimeoutError, "a value on another machine did not come in time");
            bring_by_ns = TOO_LATE;
            result = -1;
        }
        if (result < 0)
            break;
    }
    while (blocked && result == 0 && loads_arguments) { /* it has not begun, so it may wait until its CPU is free */
        uint32_t seen = client_inbox(&c->s);
        blocked = !task_return(&c->s, task_1 - 1);
        result = blocked ? sleep_a_little(c, seen) : 0;
    }
    if (blocked)
        task_unblock(&c->s, task_1 - 1);
    return result;
}

int bring_back(ClientObject *c, uint32_t slot, PyObject **copy)
{
    struct offload_move m;
    int ours = claim(c, slot, &m);
    if (ours <= 0)
        return ours;
    uint64_t chunk = read_back(c, &m, copy);
    segment_lock(&c->s);
    if (chunk)
        offload_return(&c->s, &m, chunk);
    else
        offload_give_up(&c->s, slot);
    segment_unlock(&c->s);
    if (!chunk)
        return *copy ? 0 : -1;
    Py_BEGIN_ALLOW_THREADS
    offload_file_remove(c->s.h->offload_folder, name_of(c, &m));
    Py_END_ALLOW_THREADS
    return 0;
}

/* ------------------------------------------------------------------ the scheduler's side */

static PyObject *client_set_offload(ClientObject *c, PyObject *args)
{
    const char *folder;
    unsigned long long limit;
    if (client_usable(c) < 0 || !PyArg_ParseTuple(args, "sK:set_offload", &folder, &limit))
        return NULL;
    size_t n = strlen(folder);
    if (n >= OFFLOAD_FOLDER_SIZE)
        return PyErr_Format(PyExc_ValueError, "the path of the folder is too long: at most %d bytes",
                            (int)OFFLOAD_FOLDER_SIZE - 1);
    segment_lock(&c->s);
    memcpy(c->s.h->offload_folder, folder, n + 1);
    c->s.h->offload_limit = limit;
    segment_unlock(&c->s);
    Py_RETURN_NONE;
}

static PyObject *client_notice_offload(ClientObject *c, PyObject *bytes)
{
    unsigned long long n = PyLong_AsUnsignedLongLong(bytes);
    if (PyErr_Occurred() || client_usable(c) < 0)
        return NULL;
    segment_lock(&c->s);
    c->s.h->offload_notice = n;
    segment_unlock(&c->s);
    Py_RETURN_NONE;
}

/* Those of the named files that belong to no object, nor ever will. */
static PyObject *client_unwanted_files(ClientObject *c, PyObject *names)
{
    if (client_usable(c) < 0)
        return NULL;
    PyObject *unwanted = PyList_New(0), *items = PySequence_Fast(names, "unwanted_files expects a list of names");
    for (Py_ssize_t i = 0; unwanted && items && i < PySequence_Fast_GET_SIZE(items); i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(items, i);
        const char *text = PyUnicode_AsUTF8(item);
        struct offload_file_name name;
        bool wanted = true;
        if (text && offload_file_parse_name(text, &name)) {
            segment_lock(&c->s);
            wanted = offload_file_is_wanted(&c->s, name.slot, name.generation, name.number);
            segment_unlock(&c->s);
        }
        if (!text || (!wanted && PyList_Append(unwanted, item) < 0))
            Py_CLEAR(unwanted);
    }
    if (!items)
        Py_CLEAR(unwanted);
    Py_XDECREF(items);
    return unwanted;
}

PyMethodDef offload_methods[] = {
    {"set_offload", (PyCFunction)client_set_offload, METH_VARARGS,
     "set_offload(folder, limit, /)\n--\n\nWhere objects go when memory is full, and how many bytes at most."},
    {"notice_offload", (PyCFunction)client_notice_offload, METH_O,
     "notice_offload(bytes, /)\n--\n\nAsks for attention once so many bytes are offloaded."},
    {"unwanted_files", (PyCFunction)client_unwanted_files, METH_O,
     "unwanted_files(names, /)\n--\n\nThose of the files that belong to no object."},
    {NULL}};
