/* What the agent sees of the tasks that wait here, and what it says of where they begin. */
#include "formats/constants.h"

#include <string.h>

#include "clients/route.h"
#include "objects/offload.h"

enum { MOST_TASKS = 1024, MOST_LOOKED_AT = 1024 };

/* ------------------------------------------------------------------ what waits */

struct row { /* the tasks of a class that wait */
    uint32_t class, n_suited, n_others, startable;
    bool routed, feasible;
    struct resource_shape shape;
    uint64_t bytes[MAX_CLIENTS]; /* of their large arguments, by the remote node where they lie */
    uint64_t bytes_here;
};

static void look_at_class(struct segment *s, struct row *row)
{
    const struct resource_class *c = class_at(s, row->class);
    for (const struct lane *l = c->lanes; l < c->lanes + N_LANES + N_DEPTHS; l++)
        for (uint32_t at_1 = l->head_1, i = 0; at_1 && i < MOST_LOOKED_AT; at_1 = task_at(s, at_1 - 1)->next_1, i++) {
            struct task_slot *t = task_at(s, at_1 - 1);
            if (!remote_suits(s, at_1 - 1)) {
                row->n_others++;
                continue;
            }
            row->n_suited++;
            for (uint32_t r = 0; r < t->n_refs; r++) {
                const struct object_slot *o = object_at(s, task_refs(s, t)[r]);
                if (object_state(o) != OBJECT_READY || o->size < OBJECT_MOVABLE)
                    continue;
                uint32_t where = object_is_remote(o) ? offload_remote_of(s, o) : MAX_CLIENTS;
                *(where < MAX_CLIENTS ? &row->bytes[where] : &row->bytes_here) += o->size;
            }
        }
}

/* The classes with ready tasks, those of the highest priority first. */
static uint32_t by_priority(const struct segment *s, uint16_t order[MAX_CLASSES])
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->h->n_classes && k < MAX_CLASSES; k++) {
        if (!s->classes[k].n_ready)
            continue;
        uint32_t at = n++;
        for (; at && s->classes[order[at - 1]].terms.priority < s->classes[k].terms.priority; at--)
            order[at] = order[at - 1];
        order[at] = (uint16_t)k;
    }
    return n;
}

static PyObject *near_to_python(const struct row *row)
{
    PyObject *dict = PyDict_New();
    for (uint32_t i = 0; dict && i <= MAX_CLIENTS; i++) {
        uint64_t n = i < MAX_CLIENTS ? row->bytes[i] : row->bytes_here;
        PyObject *key = n ? PyLong_FromLong(i < MAX_CLIENTS ? (long)i : -1) : NULL,
                 *bytes = n ? PyLong_FromUnsignedLongLong(n) : NULL;
        if (n && (!key || !bytes || PyDict_SetItem(dict, key, bytes) < 0))
            Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(bytes);
    }
    return dict;
}

/* From now on this client is woken, once, when tasks wait for which there is no room. Classes all of whose tasks stay
 * here by themselves are left out; those of them that what they share keeps from the only machines with room fail. */
static PyObject *client_surplus(ClientObject *c, PyObject *unused)
{
    (void)unused;
    struct segment *s = &c->s;
    int64_t room[MAX_KINDS];
    if (lock_to_inspect(c) < 0)
        return NULL;
    memcpy(room, s->h->pools[0].available, sizeof room);
    s->h->agent_1 = s->me + 1;
    uint32_t n = 0, n_classes = s->h->n_classes;
    for (uint32_t k = 0; k < n_classes; k++)
        n += s->classes[k].n_ready != 0;
    struct row *rows = n ? PyMem_RawCalloc(n, sizeof *rows) : NULL;
    uint32_t n_rows = n && !rows ? UINT32_MAX : 0;
    uint16_t order[MAX_CLASSES];
    uint32_t n_ready = by_priority(s, order);
    for (uint32_t i = 0; i < n_ready && rows; i++) {
        uint32_t k = order[i];
        int64_t fits = resource_startable(s, k, room);
        rows[n_rows].class = k;
        rows[n_rows].startable = fits > 0 ? (uint32_t)fits : 0;
        rows[n_rows].routed = resource_is_routed(s, class_at(s, k));
        rows[n_rows].feasible = resource_feasible(s, k);
        resource_shape_of(s, k, &rows[n_rows].shape);
        look_at_class(s, &rows[n_rows]);
        if (rows[n_rows].n_others)
            rows[n_rows].n_others -= route_fail_shared(s, k);
        uint32_t may = (uint32_t)gate_room(s, class_at(s, k), rows[n_rows].n_suited);
        if (rows[n_rows].n_suited > may)
            rows[n_rows].n_suited = may;
        n_rows++;
    }
    segment_unlock(s);
    PyObject *list = n_rows == UINT32_MAX ? PyErr_NoMemory() : PyList_New(0);
    for (uint32_t i = 0; list && i < n_rows; i++) {
        const struct resource_shape *shape = &rows[i].shape;
        if (!rows[i].n_suited && !rows[i].routed)
            continue;
        PyObject *row =
            make_record(c, RECORD_SURPLUS, "IIINIOsOON", shape->number, rows[i].n_suited, rows[i].startable,
                        amounts_to_python(s, shape->demand), rows[i].n_others, rows[i].routed ? Py_True : Py_False,
                        shape->place.strategy, shape->place.pool ? Py_True : Py_False,
                        rows[i].feasible ? Py_True : Py_False, near_to_python(&rows[i]));
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    PyMem_RawFree(rows);
    return list;
}

/* An actor that holds nothing takes no slot of a lease. */
static bool holds_any(const struct segment *s, const int64_t *amounts)
{
    uint32_t k = 0;
    while (k < s->h->n_kinds && amounts[k] <= 0)
        k++;
    return k < s->h->n_kinds;
}

/* A Capacity, from one look. Lent: bundles reserved and tasks that run for other machines, and tasks that the agent has
 * placed here. */
static PyObject *client_capacity(ClientObject *c, PyObject *unused)
{
    (void)unused;
    struct segment *s = &c->s;
    int64_t room[MAX_KINDS], kept[MAX_KINDS], lent[MAX_KINDS] = {0}, scratch[MAX_KINDS];
    unsigned n_running = 0, n_lent = 0;
    if (lock_to_inspect(c) < 0)
        return NULL;
    resource_unreserved(s, room);
    memcpy(kept, s->h->pools[0].kept, sizeof kept);
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        const struct client_slot *client = &s->clients[i];
        uint32_t task_1 = client->actor_1 ? actor_at(s, client->actor_1 - 1)->task_1 : client->task_1;
        if (atomic_load(&client->state) != CLIENT_ATTACHED || client->role != ROLE_WORKER || !task_1)
            continue;
        const struct task_slot *t = task_at(s, task_1 - 1);
        uint32_t state = atomic_load(&t->state);
        const struct resource_class *class = class_at(s, t->resource_class);
        bool theirs = t->caller < MAX_CLIENTS && client_at(s, t->caller)->role == ROLE_REMOTE_NODE;
        const int64_t *amounts = state == TASK_RUNNING ? task_amounts(s, t, scratch)
                                 : state == TASK_HELD  ? class->hold
                                                       : NULL;
        bool is_lent = amounts && (theirs || class->place.route & ROUTE_PLACED) && !class->place.pool;
        n_running += amounts && !(t->flags & TASK_FLAG_BLOCKED);
        n_lent += is_lent && !(t->flags & TASK_FLAG_BLOCKED) && (state == TASK_RUNNING || holds_any(s, amounts));
        for (uint32_t k = 0; is_lent && k < MAX_KINDS; k++)
            lent[k] += amounts[k];
    }
    for (uint32_t p = placement_next(s, 1); p < MAX_POOLS; p = placement_next(s, p + s->h->pools[p].n)) {
        const struct pool *head = &s->h->pools[p];
        bool theirs = head->owner_1 && client_at(s, head->owner_1 - 1)->role == ROLE_REMOTE_NODE;
        for (uint32_t i = p; placement_holds(head) && (theirs || head->routed) && i < p + head->n; i++)
            for (uint32_t k = 0; s->h->pools[i].client_1 == POOL_HERE && k < MAX_KINDS; k++)
                lent[k] += s->h->pools[i].total[k];
    }
    segment_unlock(s);
    return make_record(c, RECORD_CAPACITY, "NNNII", amounts_to_python(s, room), amounts_to_python(s, lent),
                       amounts_to_python(s, kept), n_running, n_lent);
}

/* ------------------------------------------------------------------ where it is to begin */

static PyObject *client_direct(ClientObject *c, PyObject *how)
{
    long n = PyLong_AsLong(how);
    if (PyErr_Occurred())
        return NULL;
    if (n < ROUTE_UNDIRECTED || n > ROUTE_NEVER)
        return PyErr_Format(PyExc_ValueError, "direct: unknown %ld", n);
    if (lock_to_inspect(c) < 0)
        return NULL;
    route_direct(&c->s, (enum route_directs)n);
    segment_unlock(&c->s);
    Py_RETURN_NONE;
}

/* 1: it is locked; 0: the class of that number has been given up, so none of its tasks wait. */
static int lock_routed(ClientObject *c, uint32_t number, uint32_t *class)
{
    if (lock_to_inspect(c) < 0)
        return -1;
    bool found = resource_numbered(&c->s, number, class);
    uint16_t route = found ? class_at(&c->s, *class)->place.route : ROUTE_WAITS;
    bool asks = route == ROUTE_ASKS || route == ROUTE_WAITS;
    if (!found || !asks)
        segment_unlock(&c->s);
    if (asks)
        return found;
    PyErr_Format(PyExc_ValueError, "tasks of resource class %u do not ask where to begin", number);
    return -1;
}

static PyObject *client_in_cluster(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    if (!c->s.h->director_1)
        Py_RETURN_NONE;
    return PyBool_FromLong(c->s.h->director_1 != NO_DIRECTOR);
}

static PyObject *client_place_here(ClientObject *c, PyObject *args)
{
    unsigned int class, most;
    int staying, found;
    uint32_t tasks[MOST_TASKS];
    uint64_t numbers[MOST_TASKS];
    if (!PyArg_ParseTuple(args, "IIp:place_here", &class, &most, &staying) ||
        (found = lock_routed(c, class, &class)) < 0)
        return NULL;
    if (!found)
        return PyList_New(0);
    uint32_t n = route_place(&c->s, class, most < MOST_TASKS ? most : MOST_TASKS, staying, tasks);
    for (uint32_t i = 0; n != UINT32_MAX && i < n; i++)
        numbers[i] = task_at(&c->s, tasks[i])->seq;
    segment_unlock(&c->s);
    if (n == UINT32_MAX)
        return raise_core_error(c, OBJSTORE_LIMIT, "resource shapes");
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < n; i++) {
        PyObject *pair = make_record(c, RECORD_PLACED_TASK, "IK", tasks[i], (unsigned long long)numbers[i]);
        if (!pair || PyList_Append(list, pair) < 0)
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

static PyObject *client_fail_unrouted(ClientObject *c, PyObject *args)
{
    unsigned int class;
    int staying, found;
    if (!PyArg_ParseTuple(args, "Ip:fail_unrouted", &class, &staying) || (found = lock_routed(c, class, &class)) < 0)
        return NULL;
    uint32_t n = found ? route_fail(&c->s, class, staying) : 0;
    if (found)
        segment_unlock(&c->s);
    return PyLong_FromUnsignedLong(n);
}

static PyObject *client_recall(ClientObject *c, PyObject *args)
{
    unsigned int task;
    unsigned long long seq;
    if (!PyArg_ParseTuple(args, "IK:recall", &task, &seq) || lock_to_inspect(c) < 0)
        return NULL;
    bool back = task < c->s.h->touched_tasks && task_at(&c->s, task)->seq == seq && route_recall(&c->s, task);
    segment_unlock(&c->s);
    return PyBool_FromLong(back);
}

static PyObject *client_strategy(ClientObject *c, PyObject *number)
{
    unsigned long n = PyLong_AsUnsignedLong(number);
    char text[STRATEGY_SIZE] = "";
    uint32_t class;
    if (PyErr_Occurred() || lock_to_inspect(c) < 0)
        return NULL;
    if (n <= UINT32_MAX && resource_numbered(&c->s, (uint32_t)n, &class))
        memcpy(text, c->s.classes[class].place.strategy, sizeof text);
    segment_unlock(&c->s);
    return PyUnicode_FromString(text);
}

/* How far each of [(task, number)] is, see enum progress. */
static PyObject *client_progress(ClientObject *c, PyObject *list)
{
    if (client_usable(c) < 0)
        return NULL;
    PyObject *items = PySequence_Fast(list, "progress expects a list of tasks"), *result;
    Py_ssize_t n = items ? PySequence_Fast_GET_SIZE(items) : 0;
    if (!items || !(result = PyBytes_FromStringAndSize(NULL, n))) {
        Py_XDECREF(items);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        unsigned int task;
        unsigned long long seq;
        if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(items, i), "IK", &task, &seq)) {
            Py_CLEAR(result);
            break;
        }
        const struct task_slot *t =
            task < c->s.h->touched_tasks && task_at(&c->s, task)->seq == seq ? task_at(&c->s, task) : NULL;
        uint32_t state = t ? atomic_load(&t->state) : TASK_FREE;
        bool sleeps = state == TASK_DELAYED || (state == TASK_RUNNING && t->flags & TASK_FLAG_BLOCKED);
        bool lives = state == TASK_HELD && holds_any(&c->s, class_at(&c->s, t->resource_class)->hold);
        PyBytes_AS_STRING(result)[i] = state == TASK_WAITING            ? PROGRESS_WAITS
                                       : state == TASK_READY            ? PROGRESS_QUEUED
                                       : sleeps                         ? PROGRESS_SLEEPS
                                       : state == TASK_RUNNING || lives ? PROGRESS_RUNS
                                                                        : PROGRESS_GONE;
    }
    Py_DECREF(items);
    return result;
}

PyMethodDef route_methods[] = {
    {"surplus", (PyCFunction)client_surplus, METH_NOARGS,
     "surplus()\n--\n\n[Surplus] of the resource classes with tasks that wait; wakes this client once there are more."},
    {"capacity", (PyCFunction)client_capacity, METH_NOARGS,
     "capacity()\n--\n\nThe Capacity of this node, from one look."},
    {"direct", (PyCFunction)client_direct, METH_O,
     "direct(how, /)\n--\n\nThe client that decides where tasks begin that ask: ROUTE_UNDIRECTED none, ROUTE_DIRECTED "
     "this one, ROUTE_NEVER none from now on."},
    {"in_cluster", (PyCFunction)client_in_cluster, METH_NOARGS,
     "in_cluster()\n--\n\nWhether an agent of a cluster says where tasks go, or will again; None: there has been none "
     "yet."},
    {"place_here", (PyCFunction)client_place_here, METH_VARARGS,
     "place_here(resource_class, most, staying, /)\n--\n\n[PlacedTask] of those that ask where to begin: they begin "
     "here. `staying`: those only that cannot travel."},
    {"recall", (PyCFunction)client_recall, METH_VARARGS,
     "recall(task, number, /)\n--\n\nOne that was placed here asks again. False: it has begun."},
    {"fail_unrouted", (PyCFunction)client_fail_unrouted, METH_VARARGS,
     "fail_unrouted(resource_class, staying, /)\n--\n\nThose that ask have nowhere to run; how many."},
    {"strategy", (PyCFunction)client_strategy, METH_O, "strategy(resource_class, /)\n--\n\nWhat its route depends on."},
    {"progress", (PyCFunction)client_progress, METH_O,
     "progress(tasks, /)\n--\n\nHow far each of [(task, number)] is: a byte for each, one of PROGRESS_*."},
    {NULL}};
