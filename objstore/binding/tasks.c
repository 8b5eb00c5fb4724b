/* Tasks by their refs and numbers: cancelling one, and finding what it has submitted. */
#include <signal.h>

#include "inspect/inspect.h"

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

static PyObject *client_children(ClientObject *c, PyObject *args)
{
    unsigned long long seq = PyLong_AsUnsignedLongLong(args);
    if (PyErr_Occurred() || client_usable(c) < 0)
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
            uint32_t state = atomic_load(&t->state);
            if (!(sound = task_is_safe(&c->s, i)))
                break;
            bool shown = t->result_1 && !(t->flags & TASK_FLAG_HIDDEN);
            if (t->parent == seq && shown &&
                (state == TASK_WAITING || state == TASK_READY || state == TASK_RUNNING || state == TASK_DELAYED)) {
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

PyMethodDef task_methods[] = {{"cancel", (PyCFunction)client_cancel, METH_VARARGS,
                               "cancel(ref, force, /)\n--\n\nCancels the task of a ref; a Cancelled."},
                              {"children", (PyCFunction)client_children, METH_O,
                               "children(task_number, /)\n--\n\nRefs of unfinished tasks that a task submitted."},
                              {NULL}};
