/* Streams: the task's side, which adds items, and the reader's, which takes them. */
#include "binding.h"

#include <errno.h>

/* ------------------------------------------------------------------ the task's side */

enum { GO_ON = 1, CLOSED = 0 }; /* or -1 with an exception */

static void raise_item_error(ClientObject *c, int error)
{
    raise_core_error(c, error, error == OBJSTORE_LIMIT ? "objects" : "items of a stream");
}

static int add_item(ClientObject *c, uint32_t task, uint64_t index, PyObject *value)
{
    Encoded e;
    uint32_t item = 0;
    int error = OBJSTORE_OK;
    for (int again = 1, attempt = 0; again > 0; again = find_room(c, error, attempt++)) {
        segment_lock(&c->s);
        error = task_item(&c->s, task, index, &item);
        segment_unlock(&c->s);
    }
    if (error == OBJSTORE_CLOSED || error == OBJSTORE_EXISTS)
        return error == OBJSTORE_EXISTS ? GO_ON : CLOSED;
    if (error && !PyErr_Occurred())
        raise_item_error(c, error);
    if (error)
        return -1;
    if (encode_value(c, &e, value) < 0)
        return -1;
    send_held_output(c);
    int result = seal_value(c, item, OBJECT_READY, &e);
    encoded_clear(&e);
    return result < 0 ? -1 : GO_ON;
}

/* The task may have ended meanwhile, cancelled while another thread waits here for it: then there is nothing to wait
 * for. */
static bool has_room(ClientObject *c, uint32_t task, uint64_t seq, uint64_t n)
{
    const struct task_slot *t = &c->s.tasks[task];
    segment_lock(&c->s);
    bool runs = t->seq == seq && atomic_load(&t->state) == TASK_RUNNING && t->worker == c->s.me;
    bool room = !runs || stream_has_room(&c->s, task_stream(&c->s, task), n);
    segment_unlock(&c->s);
    return room;
}

/* While it waits, the task's CPU is others': perhaps its reader needs it. */
static int wait_for_room(ClientObject *c, uint32_t task, uint64_t n)
{
    bool blocked = false;
    int result = 0;
    int64_t slice = FIRST_SLICE_NS;
    uint64_t seq = c->s.tasks[task].seq;
    for (;;) {
        uint32_t seen = client_inbox(&c->s);
        if (has_room(c, task, seq, n))
            break;
        if (!blocked)
            task_block(&c->s, task);
        blocked = true;
        flush_drops(c);
        struct segment *s = &c->s;
        Py_BEGIN_ALLOW_THREADS
        if (client_sleep(s, seen, slice, NULL) == ETIMEDOUT)
            slice = longer_slice(slice);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0 || client_usable(c) < 0) {
            result = -1;
            break;
        }
    }
    if (blocked)
        task_unblock(&c->s, task);
    return result;
}

static void close_iterator(PyObject *iterator)
{
    PyObject *result = PyObject_CallMethod(iterator, "close", NULL);
    if (!result && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear(); /* no generator: nothing to close */
    else if (!result)
        PyErr_WriteUnraisable(iterator); /* this stream has no reader any more, for errors either */
    Py_XDECREF(result);
}

static PyObject *next_item(ClientObject *c, PyObject *iterator)
{
    PyObject *item = PyIter_Next(iterator);
    end_if_forked(c);
    return item;
}

/* Who shares its process with another engine has its readers elsewhere, and tells them. 0: nobody there to wait for. */
static int tell_of_item(ClientObject *c)
{
    PyObject *waits = c->hooks.has_yielded ? PyObject_CallNoArgs(c->hooks.has_yielded) : Py_NewRef(Py_True);
    int result = waits ? PyObject_IsTrue(waits) : -1;
    Py_XDECREF(waits);
    return result;
}

static PyObject *fill_stream(ClientObject *c, uint32_t task, PyObject *iterator)
{
    if (!PyIter_Check(iterator))
        return PyErr_Format(PyExc_TypeError,
                            "the task was declared with num_returns=\"streaming\", so it must return a generator or "
                            "another iterator, not %R",
                            iterator);
    for (uint64_t n = 0;; n++) {
        int waits = n ? tell_of_item(c) : 0;
        if (waits < 0 || (waits && wait_for_room(c, task, n) < 0))
            return NULL;
        PyObject *item = next_item(c, iterator);
        if (!item)
            return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(n);
        int added = add_item(c, task, n, item);
        Py_DECREF(item);
        if (added == CLOSED)
            close_iterator(iterator);
        if (added != GO_ON)
            return added == CLOSED ? PyLong_FromUnsignedLongLong(n) : NULL;
    }
}

/* Not a stream, so it is all sent at the end: each item an object of its own, and the refs as the value. */
static void put_items(ClientObject *c, PyObject *iterator, PyObject *refs)
{
    PyObject *item;
    while (!PyErr_Occurred() && (item = next_item(c, iterator))) {
        uint32_t slot;
        PyObject *ref = put_value(c, item, &slot, EVENT_AS_ITEM, false);
        if (ref)
            PyList_Append(refs, ref);
        Py_XDECREF(ref);
        Py_DECREF(item);
    }
}

/* Likewise, an item for each return. One more is asked for, to know that there is one: a generator need not end. */
static void take_items(ClientObject *c, const struct task_slot *t, PyObject *iterator, PyObject *items)
{
    PyObject *item;
    for (uint32_t i = 0; i <= t->n_returns && !PyErr_Occurred() && (item = next_item(c, iterator)); i++) {
        if (i < t->n_returns) {
            PyList_Append(items, item);
        } else {
            PyObject *name = function_name(c, t->function);
            PySys_FormatStderr(
                "%R yields more than the num_returns=%u values that it was declared with: the others are left out\n",
                name, t->n_returns);
            Py_DECREF(name);
            close_iterator(iterator);
        }
        Py_DECREF(item);
    }
    if (!PyErr_Occurred() && PyList_GET_SIZE(items) < t->n_returns)
        PyErr_Format(PyExc_ValueError, "the task was declared with num_returns=%u but its generator yielded %zd",
                     t->n_returns, PyList_GET_SIZE(items));
}

PyObject *run_generator(ClientObject *c, uint32_t task, PyObject *generator, PyObject **yielded)
{
    const struct task_slot *t = &c->s.tasks[task];
    PyObject *iterator = PyAsyncGen_CheckExact(generator) ? PyObject_CallOneArg(c->hooks.iterate, generator)
                                                          : Py_NewRef(generator),
             *value = NULL;
    if (iterator && t->flags & TASK_FLAG_STREAM) {
        value = fill_stream(c, task, iterator);
    } else if (iterator && (value = PyList_New(0))) {
        if (t->n_returns > 1)
            take_items(c, t, iterator, value);
        else
            put_items(c, iterator, value);
        if (PyErr_Occurred()) {
            *yielded = value;
            value = NULL;
        }
    }
    Py_XDECREF(iterator);
    return value;
}

static PyObject *client_n_returns(ClientObject *c, PyObject *number)
{
    uint32_t task;
    if (parse_task(c, number, &task) < 0)
        return NULL;
    const struct task_slot *t = &c->s.tasks[task];
    return PyLong_FromLong(t->flags & TASK_FLAG_STREAM ? -1 : t->n_returns);
}

static int parse_place(ClientObject *c, PyObject *const *args, uint32_t *task, uint64_t *n)
{
    if (parse_task(c, args[0], task) < 0)
        return -1;
    *n = PyLong_AsUnsignedLongLong(args[1]);
    if (!PyErr_Occurred() && !(c->s.tasks[*task].flags & TASK_FLAG_STREAM))
        PyErr_Format(PyExc_ValueError, "task %u has no stream", *task);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *client_add_item(ClientObject *c, PyObject *const *args, Py_ssize_t nargs)
{
    uint32_t task;
    uint64_t index;
    if (nargs != 3)
        return PyErr_Format(PyExc_TypeError, "add_item(task, index, value)");
    end_if_forked(c);
    int added = parse_place(c, args, &task, &index) < 0 ? -1 : add_item(c, task, index, args[2]);
    return added < 0 ? NULL : PyBool_FromLong(added == GO_ON);
}

static PyObject *client_has_room(ClientObject *c, PyObject *const *args, Py_ssize_t nargs)
{
    uint32_t task;
    uint64_t n;
    if (nargs != 2)
        return PyErr_Format(PyExc_TypeError, "has_room(task, n)");
    return parse_place(c, args, &task, &n) < 0 ? NULL : PyBool_FromLong(has_room(c, task, c->s.tasks[task].seq, n));
}

static PyObject *client_wait_for_room(ClientObject *c, PyObject *const *args, Py_ssize_t nargs)
{
    uint32_t task;
    uint64_t n;
    if (nargs != 2)
        return PyErr_Format(PyExc_TypeError, "wait_for_room(task, n)");
    if (parse_place(c, args, &task, &n) < 0 || wait_for_room(c, task, n) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ the reader's side */

static int check_stream(ClientObject *c, PyObject *ref)
{
    if (client_usable(c) < 0)
        return -1;
    if (is_ref(c, ref) && ((RefObject *)ref)->client != c)
        raise_store_error(c, "closed", "this generator belongs to a session that has been shut down");
    else if (!is_ref(c, ref) || !object_is_stream(&c->s.objects[((RefObject *)ref)->slot]))
        PyErr_Format(PyExc_TypeError, "expected the ObjectRef of a stream, not %R", ref);
    return PyErr_Occurred() ? -1 : 0;
}

/* A new reference, or NULL: with an exception, or there is nothing more. `taken`: it is handed out already. */
static PyObject *peek(ClientObject *c, PyObject *ref, bool *taken)
{
    uint32_t stream = ((RefObject *)ref)->slot, item = 0;
    int error = OBJSTORE_OK;
    for (int again = 1, attempt = 0; again > 0; again = find_room(c, error, attempt++)) {
        segment_lock(&c->s);
        error = stream_peek(&c->s, stream, &item);
        if (!error && taken)
            *taken = stream_take(&c->s, stream, item);
        segment_unlock(&c->s);
    }
    if (error && error != OBJSTORE_NOT_FOUND && !PyErr_Occurred())
        raise_item_error(c, error);
    return error ? NULL : ref_new(c, item, true);
}

static PyObject *client_peek_item(ClientObject *c, PyObject *ref)
{
    if (check_stream(c, ref) < 0)
        return NULL;
    PyObject *item = peek(c, ref, NULL);
    if (!item && !PyErr_Occurred())
        Py_RETURN_NONE;
    return item;
}

static PyObject *client_next_item(ClientObject *c, PyObject *const *args, Py_ssize_t nargs)
{
    double timeout;
    if (nargs != 2)
        return PyErr_Format(PyExc_TypeError, "next_item(stream, timeout)");
    if (check_stream(c, args[0]) < 0 || parse_timeout(args[1], &timeout) < 0)
        return NULL;
    for (;;) {
        bool taken = false;
        PyObject *item = peek(c, args[0], &taken);
        if (taken || !item) {
            if (!item && !PyErr_Occurred())
                Py_RETURN_NONE;
            return item;
        }
        int result = wait_refs(c, &item, 1, 1, timeout, WAIT_TO_LOOK);
        Py_DECREF(item);
        if (result < 0)
            return NULL;
        if (result > 0)
            Py_RETURN_FALSE;
    }
}

PyMethodDef stream_methods[] = {
    {"n_returns", (PyCFunction)client_n_returns, METH_O,
     "n_returns(task, /)\n--\n\nOf a taken task; -1: what it yields goes into a stream."},
    {"add_item", FAST(client_add_item), METH_FASTCALL,
     "add_item(task, index, value, /)\n--\n\nAn item of a taken task's stream; False: it has no reader any more."},
    {"wait_for_room", FAST(client_wait_for_room), METH_FASTCALL,
     "wait_for_room(task, n, /)\n--\n\nSleeps while a taken task with n items is too far ahead of its reader."},
    {"has_room", FAST(client_has_room), METH_FASTCALL,
     "has_room(task, n, /)\n--\n\nWhether wait_for_room would return at once."},
    {"next_item", FAST(client_next_item), METH_FASTCALL,
     "next_item(stream, timeout, /)\n--\n\nThe ref of the next item, waited for; None: that was all. False: timed "
     "out."},
    {"peek_item", (PyCFunction)client_peek_item, METH_O,
     "peek_item(stream, /)\n--\n\nThe ref of the next item, perhaps pending, which stays there; None: that was all."},
    {NULL}};
