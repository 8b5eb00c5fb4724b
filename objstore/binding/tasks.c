/* Tasks by their refs and numbers: cancelling them, and finding what it has submitted. */
#include <signal.h>

#include "inspect/inspect.h"

/* Cancelling a task costs more than reading it: others are to get the lock after a millisecond. */
enum { CANCEL_PAGE = 512 };

static PyObject *client_cancel(ClientObject *c, PyObject *args)
{
    static const char *const names[] = {"finished", "pending", "running", "put"};
    PyObject *ref;
    int force;
    if (client_usable(c) < 0 || !PyArg_ParseTuple(args, "O!p:cancel", c->codec.ref_type, &ref, &force))
        return NULL;
    if (lock_to_inspect(c) < 0)
        return NULL;
    uint32_t task = 0, worker = UINT32_MAX, producer = task_producing(&c->s, ((RefObject *)ref)->slot);
    if (producer != UINT32_MAX && !task_is_safe(&c->s, producer) && end_inspect(c, false) < 0)
        return NULL;
    enum cancel_outcome outcome = task_cancel(&c->s, ((RefObject *)ref)->slot, &task, &worker);
    const struct task_slot *t = task_at(&c->s, task);
    bool call = outcome == CANCEL_RUNNING && t->actor_1 && !(t->flags & TASK_FLAG_ACTOR_CREATION);
    const struct actor_slot *a = call ? actor_at(&c->s, t->actor_1 - 1) : NULL;
    bool concurrent = a && (a->max_concurrency > 1 || !(a->flags & ACTOR_FLAG_ORDERED));
    int32_t pid = 0;
    /* its handler looks at the flags (an asynchronous actor's: which coroutines are meant) */
    if (outcome == CANCEL_RUNNING && worker < MAX_CLIENTS)
        pid = signal_worker(&c->s, worker, force && !call ? SIGKILL : SIGINT);
    segment_unlock(&c->s);
    uint64_t creator = c->s.objects[((RefObject *)ref)->slot].creator;
    return make_record(c, RECORD_CANCELLED, "siK", concurrent ? "actor" : names[outcome], (int)pid,
                       (unsigned long long)creator);
}

/* Under the lock. Which ones had not begun, and are now cancelled. */
static bool cancel_page(struct segment *s, const uint32_t *slots, uint32_t n, bool *cancelled)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t task = task_producing(s, slots[i]), worker;
        if (task != UINT32_MAX && !task_is_safe(s, task))
            return false;
        uint32_t state = task == UINT32_MAX ? TASK_FREE : atomic_load(&task_at(s, task)->state);
        cancelled[i] = (state == TASK_WAITING || state == TASK_READY || state == TASK_DELAYED) &&
                       task_cancel(s, slots[i], &task, &worker) == CANCEL_PENDING;
    }
    return true;
}

static PyObject *client_cancel_pending(ClientObject *c, PyObject *refs)
{
    if (client_usable(c) < 0)
        return NULL;
    if (!PyList_Check(refs))
        return PyErr_Format(PyExc_TypeError, "cancel_pending() needs a list of refs, got %.100s",
                            Py_TYPE(refs)->tp_name);
    uint32_t slots[CANCEL_PAGE];
    bool cancelled[CANCEL_PAGE];
    PyObject *left = PyList_New(0);
    bool ok = left;
    for (Py_ssize_t begin = 0, n; ok && begin < PyList_GET_SIZE(refs); begin += n) {
        for (n = 0; ok && n < CANCEL_PAGE && begin + n < PyList_GET_SIZE(refs); n++) {
            PyObject *ref = PyList_GET_ITEM(refs, begin + n);
            if (!(ok = PyObject_TypeCheck(ref, c->codec.ref_type)))
                PyErr_Format(PyExc_TypeError, "cancel_pending() needs refs, got %.100s", Py_TYPE(ref)->tp_name);
            else
                slots[n] = ((RefObject *)ref)->slot;
        }
        ok = ok && lock_to_inspect(c) == 0 && end_inspect(c, cancel_page(&c->s, slots, (uint32_t)n, cancelled)) == 0;
        for (Py_ssize_t i = 0; ok && i < n; i++)
            if (!cancelled[i])
                ok = PyList_Append(left, PyList_GET_ITEM(refs, begin + i)) == 0;
    }
    return list_done(left, ok);
}

static PyObject *client_children(ClientObject *c, PyObject *args)
{
    unsigned long long seq;
    long long origin = -1;
    if (!PyArg_ParseTuple(args, "K|L:children", &seq, &origin) || client_usable(c) < 0)
        return NULL;
    uint32_t n = used_slots(c->s.h->touched_tasks, c->s.n_tasks), found = 0;
    uint32_t *slots = new_copy(n, sizeof *slots);
    bool sound = slots != NULL;
    for (uint32_t begin = 0, end; sound && begin < n; begin = end) {
        end = page_end(begin, n);
        if (!(sound = lock_to_inspect(c) == 0))
            break;
        for (uint32_t i = begin; i < end; i++) {
            struct task_slot *t = &c->s.tasks[i];
            if (!(sound = task_is_safe(&c->s, i)))
                break;
            if (t->parent == seq && t->result_1 && (origin < 0 || t->origin == origin) &&
                is_listed(t, atomic_load(&t->state))) {
                object_hold(&c->s, t->result_1 - 1);
                slots[found++] = t->result_1 - 1;
            }
        }
        sound = end_inspect(c, sound) == 0;
    }
    PyObject *list = sound ? PyList_New(0) : NULL;
    bool ok = list;
    for (uint32_t i = 0; ok && i < found; i++)
        ok = list_add(list, ref_new(c, slots[i], true));
    PyMem_Free(slots);
    return list_done(list, ok);
}

PyMethodDef task_methods[] = {
    {"cancel", (PyCFunction)client_cancel, METH_VARARGS,
     "cancel(ref, force, /)\n--\n\nCancels the task of a ref; a Cancelled."},
    {"cancel_pending", (PyCFunction)client_cancel_pending, METH_O,
     "cancel_pending(refs, /)\n--\n\nCancels those of their tasks that have not begun; the refs of the others."},
    {"children", (PyCFunction)client_children, METH_VARARGS,
     "children(task_number, origin=-1, /)\n--\n\nRefs of unfinished tasks that a task submitted, of one cell only or "
     "of any."},
    {NULL}};
