/* Why a task waits: what it lacks, and who has it. */
#include "inspect/inspect.h"

#include <string.h>

/* The task that must run next for an object to come about; of a call the constructor, while there is no actor yet. */
static uint32_t task_awaited(struct segment *s, uint32_t object)
{
    for (uint32_t steps = 0; steps < s->n_tasks; steps++) {
        uint32_t task = task_producing(s, object);
        if (task == UINT32_MAX)
            return UINT32_MAX;
        struct task_slot *t = &s->tasks[task];
        if (!task_is_safe(s, task))
            return UINT32_MAX;
        if (atomic_load(&t->state) == TASK_WAITING && t->cursor < t->n_dependencies) {
            object = task_refs(s, t)[t->cursor];
            continue;
        }
        bool call = t->actor_1 && !(t->flags & TASK_FLAG_ACTOR_CREATION);
        return call && s->actors[t->actor_1 - 1].task_1 ? s->actors[t->actor_1 - 1].task_1 - 1 : task;
    }
    return UINT32_MAX;
}

/* A dict of the amounts of those kinds in which `wanted` is more than there is now. */
static PyObject *amounts_lacking(const struct header *h, const int64_t wanted[MAX_KINDS],
                                 const int64_t available[MAX_KINDS], const int64_t shown[MAX_KINDS])
{
    PyObject *dict = PyDict_New();
    for (uint32_t k = 0; dict && k < h->n_kinds; k++)
        if (wanted[k] > 0 && wanted[k] > available[k] && shown[k] > 0) {
            PyObject *amount = PyFloat_FromDouble((double)shown[k] / RESOURCE_UNIT);
            if (!amount || PyDict_SetItemString(dict, h->kind_names[k], amount) < 0)
                Py_CLEAR(dict);
            Py_XDECREF(amount);
        }
    return dict;
}

/* Whether an actor, by the task of its constructor, keeps what it holds for good, as far as can be told: it is not
 * being killed, and somebody has a handle. Its calls alone keep it until they end, as tasks do. */
static bool stays(const struct segment *s, const struct task_slot *t)
{
    const struct actor_slot *a = t->actor_1 ? &s->actors[t->actor_1 - 1] : NULL;
    const struct object_slot *o = a && a->object_1 ? &s->objects[a->object_1 - 1] : NULL;
    if (!o)
        return !a;
    bool ends = a->flags & (ACTOR_FLAG_TERMINATE | ACTOR_FLAG_KILLED);
    return !ends && (object_held(o) || o->pins > a->n_pending + a->n_running);
}

typedef struct {
    uint32_t function, client;
    int64_t amounts[MAX_KINDS];
} Holder;

static PyObject *client_why(ClientObject *c, PyObject *args)
{
    enum { N_HOLDERS = 64 };
    if (client_usable(c) < 0)
        return NULL;
    if (!is_ref(c, args))
        return PyErr_Format(PyExc_TypeError, "why expects an ObjectRef, not %R", args);
    struct segment *s = &c->s;
    Holder *holders = PyMem_Malloc(N_HOLDERS * sizeof *holders);
    if (!holders)
        return PyErr_NoMemory();
    int64_t wanted[MAX_KINDS] = {0}, available[MAX_KINDS], total[MAX_KINDS], scratch[MAX_KINDS];
    /* by actors, by groups: for good, as far as can be told */
    int64_t kept[MAX_KINDS] = {0}, reserved[MAX_KINDS] = {0};
    uint32_t n = 0, function = 0, unplaced = 0;
    struct limits limits = {0, 0, 0};
    const struct pool *pool = NULL;
    flush_drops(c); /* or this process would be taken for one that has handles still */
    if (lock_to_inspect(c) < 0) {
        PyMem_Free(holders);
        return NULL;
    }
    uint32_t task = task_awaited(s, ((RefObject *)args)->slot);
    bool lacks = task != UINT32_MAX && atomic_load(&s->tasks[task].state) == TASK_READY &&
                 !resource_admissible(s, class_at(s, s->tasks[task].resource_class));
    if (lacks) {
        uint32_t class = s->tasks[task].resource_class;
        const struct pool *head = placement_head(s, class);
        unplaced = head->state == POOL_PENDING ? head->number : 0; /* then it is the group that waits */
        pool = unplaced ? s->h->pools : resource_pool(s, class);
        function = s->tasks[task].function;
        limits = limits_of(s, class_at(s, class));
        memcpy(wanted, s->classes[class].demand, sizeof wanted);
        for (uint32_t i = 0; unplaced && i < head->n * MAX_KINDS; i++)
            wanted[i % MAX_KINDS] =
                (i < MAX_KINDS ? 0 : wanted[i % MAX_KINDS]) + head[i / MAX_KINDS].total[i % MAX_KINDS];
        memcpy(available, pool->available, sizeof available);
        memcpy(total, pool->total, sizeof total);
    }
    for (uint32_t g = placement_next(s, 1); lacks && pool == s->h->pools && g < MAX_POOLS;
         g = placement_next(s, g + s->h->pools[g].n))
        for (uint32_t i = 0; placement_holds(&s->h->pools[g]) && i < s->h->pools[g].n * MAX_KINDS; i++)
            if (s->h->pools[g + i / MAX_KINDS].client_1 == POOL_HERE)
                reserved[i % MAX_KINDS] += s->h->pools[g + i / MAX_KINDS].total[i % MAX_KINDS];
    for (uint32_t i = 0; lacks && i < s->h->touched_tasks; i++) {
        const struct task_slot *t = &s->tasks[i];
        uint32_t state = task_is_safe(s, i) ? atomic_load(&t->state) : TASK_FREE;
        const int64_t *amounts = state == TASK_RUNNING ? task_amounts(s, t, scratch)
                                 : state == TASK_HELD  ? s->classes[t->resource_class].hold
                                                       : NULL;
        bool counts = false;
        if (amounts && resource_pool(s, t->resource_class) != pool)
            continue;
        for (uint32_t k = 0; amounts && k < s->h->n_kinds; k++) {
            counts |= amounts[k] > 0 && wanted[k] > available[k];
            kept[k] += state == TASK_HELD && stays(s, t) ? amounts[k] : 0;
        }
        if (counts && n < N_HOLDERS) {
            holders[n] = (Holder){t->function, t->worker, {0}};
            memcpy(holders[n++].amounts, amounts, sizeof scratch);
        }
    }
    segment_unlock(s);
    PyObject *list = lacks ? PyList_New(0) : NULL, *result = NULL;
    bool ok = list, stuck = false;
    for (uint32_t k = 0; lacks && k < MAX_KINDS; k++)
        stuck |= wanted[k] > 0 && wanted[k] > total[k] - kept[k] - reserved[k];
    for (uint32_t i = 0; ok && i < n; i++)
        ok = list_add(
            list,
            make_record(c, RECORD_HOLDER, "NiN", function_name(c, holders[i].function),
                        holders[i].client < MAX_CLIENTS ? (int)atomic_load(&s->clients[holders[i].client].pid) : 0,
                        amounts_lacking(s->h, wanted, available, holders[i].amounts)));
    if (ok)
        result = Py_BuildValue(
            "{sIsIsdsIsNsNsNsNsNsOsO}", "n_running", limits.n_running, "most", limits.most, "wait_s", limits.wait_s,
            "unplaced", unplaced, "reserved", amounts_lacking(s->h, wanted, available, reserved), "name",
            function_name(c, function), "wanted", amounts_lacking(s->h, wanted, available, wanted), "available",
            amounts_lacking(s->h, wanted, available, available), "total",
            amounts_lacking(s->h, wanted, available, total), "holders", list, "stuck", stuck ? Py_True : Py_False);
    Py_XDECREF(list);
    PyMem_Free(holders);
    if (!lacks)
        Py_RETURN_NONE;
    return result;
}

PyMethodDef why_methods[] = {
    {"why", (PyCFunction)client_why, METH_O,
     "why(ref, /)\n--\n\nWhat resources the task of a ref lacks, and who holds them; whether as many of its function "
     "run as may (`most`, else 0), or how long until the next may begin; None if it waits for something else."},
    {NULL}};
