/* Unused memory of the store: pages come before they are needed, and go back to the operating system when
 * they are not, while a session runs and after it. */
#include "binding.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "recovery/recover.h"

/* The amount of unused memory, and by how much the use has been higher since the last call. */
static PyObject *client_idle_memory(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    struct arena *a = segment_arena(&c->s);
    segment_lock(&c->s);
    uint64_t idle = arena_idle_bytes(a, c->s.base),
             needed = a->high_bytes > a->used_bytes ? a->high_bytes - a->used_bytes : 0;
    a->high_bytes = a->used_bytes;
    segment_unlock(&c->s);
    return make_record(c, RECORD_IDLE_MEMORY, "KK", (unsigned long long)idle, (unsigned long long)needed);
}

static PyObject *client_notice_idle(ClientObject *c, PyObject *bytes)
{
    unsigned long long n = PyLong_AsUnsignedLongLong(bytes);
    if (PyErr_Occurred() || client_usable(c) < 0)
        return NULL;
    segment_lock(&c->s);
    object_notice_idle(&c->s, n);
    segment_unlock(&c->s);
    Py_RETURN_NONE;
}

/* The pages that lie wholly within [begin, end). */
static void drop_pages(struct segment *s, uint64_t begin, uint64_t end)
{
    begin = (begin + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE;
    end = end / ARENA_PAGE * ARENA_PAGE;
    if (begin < end)
        madvise(s->base + begin, end - begin, MADV_REMOVE);
}

/* Taken out of the arena meanwhile, so that no process waits for the system call, and no other is given the pages. */
static uint64_t give_back_some(struct segment *s, uint64_t most)
{
    struct arena *a = segment_arena(s);
    segment_lock(s);
    uint64_t payload = arena_take_idle(a, s->base, most, ARENA_BUILDING, s->me);
    uint64_t size = payload ? arena_chunk_size(s->base, payload) : 0;
    segment_unlock(s);
    if (!payload)
        return 0;
    drop_pages(s, payload, payload + size);
    segment_lock(s);
    arena_free_emptied(a, s->base, payload);
    segment_unlock(s);
    return size;
}

/* Where it is a scheduler or a driver that changes the arena, it looks first: a stray write shall not end them. */
static bool arena_is_sound(struct segment *s)
{
    segment_lock(s);
    if (!atomic_load(&s->h->corrupt) && arena_check(segment_arena(s), s->base) != OBJSTORE_OK)
        recover(s);
    bool sound = !atomic_load(&s->h->corrupt);
    segment_unlock(s);
    return sound;
}

static PyObject *client_give_back(ClientObject *c, PyObject *bytes)
{
    unsigned long long most = PyLong_AsUnsignedLongLong(bytes), done = 0, some = 1;
    if (PyErr_Occurred() || client_usable(c) < 0)
        return NULL;
    if (!arena_is_sound(&c->s) && client_usable(c) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    while (done < most && some) {
        some = give_back_some(&c->s, most - done);
        done += some;
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromUnsignedLongLong(done);
}

/* ------------------------------------------------------------------ pages ahead of need */

#define FETCH_STEP (UINT64_C(4) << 20)
#define CHECKED 65536 /* with more objects and tasks it takes milliseconds to see that the arena is sound */

/* In steps: a process that writes to the file waits meanwhile. */
static bool fetch_pages(const struct segment *s, uint64_t begin, uint64_t end)
{
    bool done = true;
    for (; done && begin < end; begin += FETCH_STEP)
        done = fallocate(s->fd, 0, (off_t)begin, (off_t)(end - begin < FETCH_STEP ? end - begin : FETCH_STEP)) == 0;
    return done;
}

/* Has the kernel allocate pages where the next large object will lie, if the last one found none. They are not cleared,
 * a tenth of what a page fault takes; a process that fills them spares the rest too (bulk_copy.c). Nothing is done
 * where memory is scarce. */
static PyObject *client_prepare(ClientObject *c, PyObject *bytes)
{
    unsigned long long most = PyLong_AsUnsignedLongLong(bytes);
    if (PyErr_Occurred() || client_usable(c) < 0)
        return NULL;
    struct segment *s = &c->s;
    struct arena *a = segment_arena(s);
    segment_lock(s);
    uint64_t size = s->h->ahead_bytes < most ? s->h->ahead_bytes : most;
    s->h->ahead_bytes = 0;
    bool worth = size >= OBJECT_LARGE && s->h->n_live_objects + s->h->n_live_tasks <= CHECKED;
    segment_unlock(s);
    if (!worth || !arena_is_sound(s))
        return client_usable(c) < 0 ? NULL : PyLong_FromLong(0);
    segment_lock(s);
    uint64_t high_bytes = a->high_bytes, peak_bytes = a->peak_bytes, payload = 0;
    if (size <= (a->end - a->begin - a->used_bytes) / 4)
        payload = arena_alloc(a, s->base, size, ARENA_BUILDING, s->me);
    a->high_bytes = high_bytes; /* this is no demand */
    a->peak_bytes = peak_bytes;
    segment_unlock(s);
    if (!payload)
        return PyLong_FromLong(0);
    bool done;
    Py_BEGIN_ALLOW_THREADS
    done = fetch_pages(s, payload, payload + size);
    segment_lock(s);
    if (done)
        arena_free(a, s->base, payload);
    else
        arena_free_emptied(a, s->base, payload);
    segment_unlock(s);
    Py_END_ALLOW_THREADS
    return PyLong_FromUnsignedLongLong(done ? size : 0);
}

/* ------------------------------------------------------------------ after the session */

static bool others_live(const struct segment *s)
{
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        const struct client_slot *other = &s->clients[i];
        if (i != s->me && process_look(atomic_load(&other->pid), atomic_load(&other->start_time)) != PROCESS_ENDED)
            return true;
    }
    return false;
}

/* Refs that somebody keeps, as variables of a notebook do, keep the client and its mapping; the values that they can no
 * longer fetch they need not keep. Small ones stay, as their views are not counted. */
static PyObject *client_leave_memory(ClientObject *c, PyObject *unused)
{
    (void)unused;
    struct segment *s = &c->s;
    if (!c->closed || !c->pid || others_live(s) || !arena_is_sound(s))
        Py_RETURN_FALSE;
    while (give_back_some(s, UINT64_MAX))
        ;
    segment_lock(s);
    for (uint32_t i = 0; i < s->h->touched_objects && object_is_safe(s, i); i++) {
        const struct object_slot *o = &s->objects[i];
        uint64_t chunk = object_state(o) == OBJECT_READY || object_state(o) == OBJECT_ERROR ? object_chunk(o) : 0;
        if (chunk && o->size >= OBJECT_MOVABLE && !c->views[i])
            drop_pages(s, chunk, chunk + o->size);
    }
    segment_unlock(s);
    Py_RETURN_TRUE;
}

PyMethodDef trim_methods[] = {
    {"idle_memory", (PyCFunction)client_idle_memory, METH_NOARGS, "idle_memory()\n--\n\nThe IdleMemory of the store."},
    {"notice_idle", (PyCFunction)client_notice_idle, METH_O,
     "notice_idle(bytes, /)\n--\n\nWake the scheduler once more than that is idle."},
    {"give_back", (PyCFunction)client_give_back, METH_O,
     "give_back(bytes, /)\n--\n\nReturns idle memory to the operating system; the bytes returned, about as many at "
     "most."},
    {"prepare", (PyCFunction)client_prepare, METH_O,
     "prepare(bytes, /)\n--\n\nFetches pages for another large object like the last, at most so many bytes, if there "
     "are none; the bytes fetched."},
    {"leave_memory", (PyCFunction)client_leave_memory, METH_NOARGS,
     "leave_memory()\n--\n\nAfter the session's end: keeps only the values in use here. False: others are attached "
     "still."},
    {NULL}};
