/* The table of tasks. */
#include "inspect/inspect.h"

#include <string.h>

/* A task that is READY again is shown as retrying. */
const char *word_of(const struct task_slot *t, uint32_t state)
{
    return task_state_name(state == TASK_READY && t->attempt > 0 ? TASK_DELAYED : state);
}

/* Under the lock. A task whose value can be fetched has ended for every observer. */
static uint32_t shown_state(struct segment *s, struct task_slot *t)
{
    uint32_t state = atomic_load(&t->state);
    if (state != TASK_RUNNING || t->flags & TASK_FLAG_ACTOR_CREATION || !task_is_sealed(s, t))
        return state;
    const struct object_slot *result = &s->objects[t->result_1 - 1];
    if (object_state(result) == OBJECT_FAILED && result->u.failure.code == FAILURE_CANCELLED)
        return TASK_CANCELLED;
    return object_state(result) == OBJECT_READY ? SHOWN_FINISHED : SHOWN_FAILED;
}

bool is_sent(const struct segment *s, const struct task_slot *t)
{
    return t->worker < MAX_CLIENTS && s->clients[t->worker].node && !t->begun && !(t->flags & TASK_FLAG_BLOCKED);
}

static const char *shown_word(const struct segment *s, const struct task_slot *t, uint32_t shown)
{
    if (shown != TASK_RUNNING)
        return word_of(t, shown);
    return t->flags & TASK_FLAG_BLOCKED ? "blocked" : is_sent(s, t) ? "sent" : word_of(t, shown);
}

struct limits limits_of(const struct segment *s, const struct resource_class *class)
{
    struct limits limits = {0, 0, 0};
    if (!class || gate_is_open(s, class))
        return limits;
    limits.n_running = gate_at(s, class->gate_1 - 1)->n_running;
    limits.most = gate_is_full(s, class) ? class->terms.most : 0;
    limits.wait_s = limits.most ? 0 : (double)gate_wait(s, class) * ns_per_tick(s->h) / 1e9;
    return limits;
}

static PyObject *task_dict(ClientObject *c, uint32_t task, const struct task_slot *t, uint32_t shown)
{
    bool runs = atomic_load(&t->state) == TASK_RUNNING && t->worker < MAX_CLIENTS;
    const struct resource_class *class = class_at(&c->s, t->resource_class); /* without the lock: for show */
    struct limits limits = limits_of(&c->s, shown == TASK_READY ? class : NULL);
    return Py_BuildValue(
        "{sisIsIsdsKsNsssIsisIsisIsKsisOsdsi}", "priority", (int)class->terms.priority, "n_running", limits.n_running,
        "most", limits.most, "wait_s", limits.wait_s, "seq", (unsigned long long)t->seq, "name",
        function_name(c, t->function), "state", shown_word(&c->s, t, shown), "attempt", (unsigned)t->attempt, "worker",
        runs ? (int)t->worker : -1, "node", runs ? c->s.clients[t->worker].node : 0u, "pid",
        runs ? (int)pid_of_worker(&c->s, t->worker) : 0, "origin", t->origin, "parent", (unsigned long long)t->parent,
        "actor", (int)t->actor_1 - 1, "creation", t->flags & TASK_FLAG_ACTOR_CREATION ? Py_True : Py_False, "waits_s",
        atomic_load(&t->state) == TASK_DELAYED ? waits_s(&c->s, task) : 0.0, "most_attempts",
        (int)retry_most_attempts(t));
}

static PyObject *list_tasks(ClientObject *c, uint32_t limit)
{
    uint32_t n = used_slots(c->s.h->touched_tasks, c->s.n_tasks);
    struct task_slot *copy = new_copy(PAGE_SLOTS, sizeof *copy);
    uint32_t *states = new_copy(PAGE_SLOTS, sizeof *states);
    PyObject *list = copy && states ? PyList_New(0) : NULL;
    bool ok = list;
    for (uint32_t begin = 0, end; ok && begin < n && PyList_GET_SIZE(list) < limit; begin = end) {
        end = page_end(begin, n);
        if (!(ok = lock_to_inspect(c) == 0))
            break;
        bool sound = true;
        memcpy(copy, c->s.tasks + begin, (end - begin) * sizeof *copy);
        for (uint32_t i = begin; i < end && sound; i++)
            if ((sound = task_is_safe(&c->s, i)))
                states[i - begin] = shown_state(&c->s, &c->s.tasks[i]);
        ok = end_inspect(c, sound) == 0;
        for (uint32_t i = 0; ok && i < end - begin && PyList_GET_SIZE(list) < limit; i++) {
            if (is_listed(&copy[i], atomic_load(&copy[i].state)))
                ok = list_add(list, task_dict(c, begin + i, &copy[i], states[i]));
        }
    }
    PyMem_Free(states);
    PyMem_Free(copy);
    return list_done(list, ok);
}

static PyObject *client_tasks(ClientObject *c, PyObject *args)
{
    unsigned int limit = 10000;
    return PyArg_ParseTuple(args, "|I:tasks", &limit) && client_usable(c) == 0 ? list_tasks(c, limit) : NULL;
}

/* So many tasks, one after the other in the table, of one cell and in one state. */
struct run {
    uint32_t origin, n;
    const char *word;
};

/* Under the lock. */
static bool count_page(struct segment *s, uint32_t begin, uint32_t end, struct run *runs, uint32_t *n_runs)
{
    for (uint32_t i = begin; i < end; i++) {
        struct task_slot *t = &s->tasks[i];
        if (!task_is_safe(s, i))
            return false;
        uint32_t shown = shown_state(s, t);
        if (!is_listed(t, shown))
            continue;
        const char *word = shown_word(s, t, shown);
        struct run *last = *n_runs ? &runs[*n_runs - 1] : NULL;
        if (last && last->origin == t->origin && last->word == word)
            last->n++;
        else
            runs[(*n_runs)++] = (struct run){t->origin, 1, word};
    }
    return true;
}

static bool add_run(PyObject *counts, const struct run *run)
{
    PyObject *key = Py_BuildValue("(ks)", (unsigned long)run->origin, run->word);
    PyObject *old = key ? PyDict_GetItemWithError(counts, key) : NULL;
    PyObject *new = PyErr_Occurred() ? NULL : PyLong_FromLong((old ? PyLong_AsLong(old) : 0) + (long)run->n);
    bool ok = new && PyDict_SetItem(counts, key, new) == 0;
    Py_XDECREF(key);
    Py_XDECREF(new);
    return ok;
}

static PyObject *client_count_tasks(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    uint32_t n = used_slots(c->s.h->touched_tasks, c->s.n_tasks);
    struct run *runs = new_copy(PAGE_SLOTS, sizeof *runs);
    PyObject *counts = runs ? PyDict_New() : NULL;
    bool ok = counts;
    for (uint32_t begin = 0, end; ok && begin < n; begin = end) {
        uint32_t n_runs = 0;
        end = page_end(begin, n);
        ok = lock_to_inspect(c) == 0 && end_inspect(c, count_page(&c->s, begin, end, runs, &n_runs)) == 0;
        for (uint32_t i = 0; ok && i < n_runs; i++)
            ok = add_run(counts, &runs[i]);
    }
    PyMem_Free(runs);
    if (!ok)
        Py_CLEAR(counts);
    return counts;
}

PyMethodDef task_listing_methods[] = {
    {"tasks", (PyCFunction)client_tasks, METH_VARARGS, "tasks(limit=10000, /)\n--\n\nUnfinished tasks."},
    {"count_tasks", (PyCFunction)client_count_tasks, METH_NOARGS,
     "count_tasks()\n--\n\nHow many unfinished tasks there are, by (origin, state)."},
    {NULL}};
