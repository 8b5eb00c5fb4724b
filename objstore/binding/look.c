/* Looking at the segment: listings, counts, events. Listings are copied under the lock into private memory first, and
 * turned into Python objects afterwards. */
#include "binding.h"

#include <string.h>
#include <time.h>

/* Slots that have been used, of a table of `n`. */
static uint32_t used_slots(uint32_t touched, uint32_t n) { return touched < n ? touched : n; }

static bool add(PyObject *list, PyObject *item)
{
    bool ok = list && item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return ok;
}

static PyObject *done(PyObject *list, bool ok)
{
    if (!ok)
        Py_CLEAR(list);
    return list;
}

/* Private memory for a copy of slots, from before the lock is taken: under it nothing is allocated. */
static void *new_copy(size_t n, size_t size)
{
    void *copy = PyMem_Malloc(n * size + 1);
    if (!copy)
        PyErr_NoMemory();
    return copy;
}

/* Tables are read page by page, each as it is at one moment: a million slots at once would keep everybody else from the lock for
 * tens of milliseconds. What lives all the while is seen, once. */
enum { PAGE_SLOTS = 4096 };
static uint32_t page_end(uint32_t begin, uint32_t n) { return n - begin < PAGE_SLOTS ? n : begin + PAGE_SLOTS; }

/* States that only listings know: the results are sealed, and its worker has yet to say that it is done. */
enum { SHOWN_FINISHED = TASK_HELD + 1, SHOWN_FAILED, SHOWN_STATES };

static const char *task_state_name(uint32_t state)
{
    static const char *const names[SHOWN_STATES] = {"free", "waiting", "ready", "running", "cancelled", "held", "finished", "failed"};
    return state < SHOWN_STATES ? names[state] : "?";
}

/* Under the lock. A task whose value can be fetched has ended for everybody who looks. */
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

LOOK(resources)
{
    (void)args;
    int64_t total[MAX_KINDS], available[MAX_KINDS];
    char names[MAX_KINDS][KIND_NAME_SIZE];
    if (lock_to_look(c) < 0)
        return NULL;
    uint32_t n = c->s.h->n_kinds;
    memcpy(total, c->s.h->pools[0].total, sizeof total);
    memcpy(available, c->s.h->pools[0].available, sizeof available);
    memcpy(names, c->s.h->kind_names, sizeof names);
    segment_unlock(&c->s);
    PyObject *dicts[2] = {PyDict_New(), PyDict_New()};
    bool ok = dicts[0] && dicts[1];
    for (uint32_t k = 0; ok && k < n; k++)
        for (int which = 0; ok && which < 2; which++) {
            if (total[k] == 0)
                continue;
            int64_t amount = which == 0 ? total[k] : available[k] > 0 ? available[k] : 0;
            PyObject *value = PyFloat_FromDouble((double)amount / RESOURCE_UNIT);
            ok = value && PyDict_SetItemString(dicts[which], names[k], value) == 0;
            Py_XDECREF(value);
        }
    PyObject *pair = ok ? PyTuple_Pack(2, dicts[0], dicts[1]) : NULL;
    Py_XDECREF(dicts[0]);
    Py_XDECREF(dicts[1]);
    return pair;
}

LOOK(assigned)
{
    (void)args;
    int64_t amounts[MAX_KINDS] = {0};
    char names[MAX_KINDS][KIND_NAME_SIZE];
    uint32_t task_1 = current_task_of(c);
    if (lock_to_look(c) < 0)
        return NULL;
    uint32_t actor_1 = c->s.clients[c->s.me].actor_1;
    bool sound = !actor_1 || slot_is_safe(&c->s, SLOT_ACTOR, actor_1 - 1);
    if (actor_1 && sound)
        task_1 = c->s.actors[actor_1 - 1].task_1;
    sound = sound && (!task_1 || slot_is_safe(&c->s, SLOT_TASK, task_1 - 1));
    if (sound && task_1 && atomic_load(&c->s.tasks[task_1 - 1].state) != TASK_FREE) {
        const struct resource_class *class = &c->s.classes[c->s.tasks[task_1 - 1].resource_class];
        memcpy(amounts, actor_1 ? class->hold : class->demand, sizeof amounts);
    }
    memcpy(names, c->s.h->kind_names, sizeof names);
    if (end_look(c, sound) < 0)
        return NULL;
    PyObject *dict = PyDict_New();
    for (uint32_t k = 0; dict && k < MAX_KINDS; k++)
        if (amounts[k]) {
            PyObject *value = PyFloat_FromDouble((double)amounts[k] / RESOURCE_UNIT);
            if (!value || PyDict_SetItemString(dict, names[k], value) < 0)
                Py_CLEAR(dict);
            Py_XDECREF(value);
        }
    return dict;
}

LOOK(clients)
{
    (void)args;
    static const char *const roles[] = {"scheduler", "driver", "worker", "proxy"};
    if (client_usable(c) < 0)
        return NULL;
    PyObject *list = PyList_New(0);
    bool ok = list;
    for (uint32_t i = 0; ok && i < MAX_CLIENTS; i++) {
        struct client_view v;
        if (atomic_load(&c->s.clients[i].state) != CLIENT_ATTACHED)
            continue;
        segment_lock(&c->s);
        bool there = client_look(&c->s, i, &v);
        segment_unlock(&c->s);
        if (!there)
            continue;
        const char *state = v.role != ROLE_WORKER ? "attached" : v.blocked ? "blocked" : v.seq ? "busy" : v.actor_1 ? "actor" : v.idle ? "idle" : "starting";
        ok = add(list, Py_BuildValue("{sIsssisssKsisKsKsIsKsOs(LI)}", "index", i, "role", roles[v.role % 4], "pid", (int)v.pid,
                                     "state", state, "task", (unsigned long long)v.seq, "actor", (int)v.actor_1 - 1, "n_finished",
                                     (unsigned long long)v.n_finished, "last_task", (unsigned long long)v.last_seq, "origin", v.origin,
                                     "parent", (unsigned long long)v.parent, "retriable", v.retriable ? Py_True : Py_False, "function",
                                     (long long)v.function_1 - 1, v.generation));
    }
    return done(list, ok);
}

LOOK(idle_workers)
{
    (void)args;
    if (client_usable(c) < 0)
        return NULL;
    uint64_t idle[CLIENT_WORDS];
    segment_lock(&c->s);
    memcpy(idle, c->s.h->idle, sizeof idle);
    segment_unlock(&c->s);
    PyObject *list = PyList_New(0);
    bool ok = list;
    for (uint32_t i = 0; ok && i < MAX_CLIENTS; i++)
        if (idle[i / 64] >> (i % 64) & 1)
            ok = add(list, PyLong_FromUnsignedLong(i));
    return done(list, ok);
}

static PyObject *task_dict(ClientObject *c, const struct task_slot *t, uint32_t shown)
{
    bool runs = atomic_load(&t->state) == TASK_RUNNING && t->worker < MAX_CLIENTS;
    return Py_BuildValue("{sKsNsssIsisIsisIsKsisO}", "seq", (unsigned long long)t->seq, "name", function_name(c, t->function), "state",
                         shown == TASK_RUNNING && (t->flags & TASK_FLAG_BLOCKED) ? "blocked" : task_state_name(shown), "attempt",
                         (unsigned)t->attempt, "worker", runs ? (int)t->worker : -1, "node", runs ? c->s.clients[t->worker].node : 0u, "pid",
                         runs ? (int)pid_of_worker(&c->s, t->worker) : 0, "origin", t->origin, "parent",
                         (unsigned long long)t->parent, "actor", (int)t->actor_1 - 1, "creation",
                         t->flags & TASK_FLAG_ACTOR_CREATION ? Py_True : Py_False);
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
        if (!(ok = lock_to_look(c) == 0))
            break;
        bool sound = true;
        memcpy(copy, c->s.tasks + begin, (end - begin) * sizeof *copy);
        for (uint32_t i = begin; i < end && sound; i++)
            if ((sound = slot_is_safe(&c->s, SLOT_TASK, i)))
                states[i - begin] = shown_state(&c->s, &c->s.tasks[i]);
        ok = end_look(c, sound) == 0;
        for (uint32_t i = 0; ok && i < end - begin && PyList_GET_SIZE(list) < limit; i++) {
            uint32_t held = atomic_load(&copy[i].state);
            if ((held == TASK_WAITING || held == TASK_READY || held == TASK_RUNNING) && !(copy[i].flags & TASK_FLAG_HIDDEN))
                ok = add(list, task_dict(c, &copy[i], states[i]));
        }
    }
    PyMem_Free(states);
    PyMem_Free(copy);
    return done(list, ok);
}

LOOK(tasks)
{
    unsigned int limit = 10000;
    return PyArg_ParseTuple(args, "|I:tasks", &limit) && client_usable(c) == 0 ? list_tasks(c, limit) : NULL;
}

LOOK(children)
{
    unsigned long long seq = PyLong_AsUnsignedLongLong(args);
    if (PyErr_Occurred() || client_usable(c) < 0)
        return NULL;
    uint32_t n = used_slots(c->s.h->touched_tasks, c->s.n_tasks), found = 0;
    uint32_t *slots = new_copy(n, sizeof *slots);
    bool sound = slots != NULL;
    for (uint32_t begin = 0, end; sound && begin < n; begin = end) {
        end = page_end(begin, n);
        if (!(sound = lock_to_look(c) == 0))
            break;
        for (uint32_t i = begin; i < end; i++) {
            struct task_slot *t = &c->s.tasks[i];
            uint32_t state = atomic_load(&t->state);
            if (!(sound = slot_is_safe(&c->s, SLOT_TASK, i)))
                break;
            bool shown = t->result_1 && !(t->flags & TASK_FLAG_HIDDEN);
            if (t->parent == seq && shown && (state == TASK_WAITING || state == TASK_READY || state == TASK_RUNNING)) {
                object_hold(&c->s, t->result_1 - 1);
                slots[found++] = t->result_1 - 1;
            }
        }
        sound = end_look(c, sound) == 0;
    }
    PyObject *list = sound ? PyList_New(0) : NULL;
    bool ok = list;
    for (uint32_t i = 0; ok && i < found; i++)
        ok = add(list, ref_new(c, slots[i], true));
    PyMem_Free(slots);
    return done(list, ok);
}

LOOK(ref_of)
{
    unsigned long long creator = PyLong_AsUnsignedLongLong(args);
    if (PyErr_Occurred() || client_usable(c) < 0)
        return NULL;
    uint32_t n = used_slots(c->s.h->touched_objects, c->s.n_objects), found = UINT32_MAX;
    for (uint32_t begin = 0, end; begin < n && found == UINT32_MAX; begin = end) {
        end = page_end(begin, n);
        segment_lock(&c->s);
        for (uint32_t i = begin; i < end && found == UINT32_MAX; i++)
            if (c->s.objects[i].creator == creator && object_state(&c->s.objects[i]) != OBJECT_FREE) {
                object_hold(&c->s, i);
                found = i;
            }
        segment_unlock(&c->s);
    }
    if (found == UINT32_MAX)
        Py_RETURN_NONE;
    return ref_new(c, found, true);
}

static PyObject *object_id(ClientObject *c, uint32_t slot, uint32_t generation)
{
    char text[33];
    snprintf(text, sizeof text, "%016llx%08x%08x", (unsigned long long)c->s.h->session, slot, generation);
    return PyUnicode_FromString(text);
}

static const char *object_state_name(uint32_t state)
{
    static const char *const names[] = {"free", "pending", "ready", "error", "failed"};
    return state < 5 ? names[state] : "?";
}

static const char *place_name(const struct object_slot *o)
{
    uint32_t state = object_state(o);
    return (state != OBJECT_READY && state != OBJECT_ERROR) || !atomic_load(&o->offset) ? "slot" : object_is_away(o) ? "disk" : "memory";
}

/* Where its bytes lie in this process, 0: not in the arena. */
static unsigned long long address_of(const ClientObject *c, const struct object_slot *o)
{
    uint32_t state = object_state(o);
    uint64_t chunk = state == OBJECT_READY || state == OBJECT_ERROR ? object_chunk(o) : 0;
    return chunk ? (unsigned long long)(uintptr_t)(c->s.base + chunk) : 0;
}

static PyObject *holder_list(const struct object_slot *o)
{
    PyObject *list = PyList_New(0);
    bool ok = list;
    for (uint32_t i = 0; ok && i < MAX_CLIENTS; i++)
        if (atomic_load(&o->holders[i / 64]) >> (i % 64) & 1)
            ok = add(list, PyLong_FromUnsignedLong(i));
    return done(list, ok);
}

LOOK(objects)
{
    unsigned int limit = 10000, first = 0;
    unsigned long long at_least = 0;
    const char *place = "";
    if (!PyArg_ParseTuple(args, "|IKIs:objects", &limit, &at_least, &first, &place) || client_usable(c) < 0)
        return NULL;
    flush_drops(c);
    uint32_t n = used_slots(c->s.h->touched_objects, c->s.n_objects);
    struct object_slot *copy = new_copy(PAGE_SLOTS, sizeof *copy);
    PyObject *list = copy ? PyList_New(0) : NULL;
    bool ok = list;
    for (uint32_t begin = first, end; ok && begin < n && PyList_GET_SIZE(list) < limit; begin = end) {
        end = page_end(begin, n);
        segment_lock(&c->s);
        memcpy(copy, c->s.objects + begin, (end - begin) * sizeof *copy);
        segment_unlock(&c->s);
        for (uint32_t i = 0; ok && i < end - begin && PyList_GET_SIZE(list) < limit; i++) {
            const struct object_slot *o = &copy[i];
            uint32_t state = object_state(o);
            if (state != OBJECT_FREE && o->size >= at_least && (!place[0] || strcmp(place, place_name(o)) == 0))
                ok = add(list, Py_BuildValue("{sIsNsssKsssKsKsNsI}", "slot", begin + i, "id", object_id(c, begin + i, o->generation),
                                             "state", object_state_name(state), "size", (unsigned long long)o->size, "place", place_name(o),
                                             "address", address_of(c, o), "creator", (unsigned long long)o->creator, "holders",
                                             holder_list(o), "pins", o->pins));
        }
    }
    PyMem_Free(copy);
    return done(list, ok);
}

LOOK(actors)
{
    (void)args;
    static const char *const states[] = {"free", "pending", "alive", "restarting", "dead"};
    if (client_usable(c) < 0)
        return NULL;
    uint32_t n = used_slots(c->s.h->touched_actors, c->s.n_actors);
    struct actor_slot *copy = new_copy(n, sizeof *copy);
    if (!copy || lock_to_look(c) < 0) {
        PyMem_Free(copy);
        return NULL;
    }
    bool sound = true;
    memcpy(copy, c->s.actors, n * sizeof *copy);
    for (uint32_t i = 0; i < n && sound; i++) {
        sound = slot_is_safe(&c->s, SLOT_ACTOR, i);
        if (sound && copy[i].object_1 && (sound = slot_is_safe(&c->s, SLOT_OBJECT, copy[i].object_1 - 1)))
            object_hold(&c->s, copy[i].object_1 - 1);
    }
    if (end_look(c, sound) < 0) {
        PyMem_Free(copy);
        return NULL;
    }
    PyObject *list = PyList_New(0);
    bool ok = list;
    for (uint32_t i = 0; i < n; i++) { /* to the end: all are held */
        const struct actor_slot *a = &copy[i];
        PyObject *ref = a->object_1 ? ref_new(c, a->object_1 - 1, true) : Py_NewRef(Py_None);
        PyObject *meta = !ok || !ref ? NULL : ref != Py_None ? decode_slot(c, a->object_1 - 1, ref) : Py_NewRef(Py_None);
        PyObject *id = !meta ? NULL : ref != Py_None ? PyObject_CallMethod(ref, "hex", NULL) : PyUnicode_FromString("");
        uint32_t state = atomic_load(&a->state);
        Py_XDECREF(ref);
        if (meta && id && state != ACTOR_FREE)
            ok = add(list, Py_BuildValue("{sIsOsisssisIsIsIsisOsO}", "index", i, "id", id, "slot", (int)a->object_1 - 1, "state", states[state % 5], "pid",
                                         a->worker_1 ? (int)pid_of_worker(&c->s, a->worker_1 - 1) : 0, "node",
                                         a->worker_1 ? c->s.clients[a->worker_1 - 1].node : 0u, "pending_calls",
                                         a->n_pending, "running_calls", a->n_running, "restarts_left", (int)a->restarts_left, "detached",
                                         a->flags & ACTOR_FLAG_DETACHED ? Py_True : Py_False, "meta", meta));
        else
            ok = ok && meta && id;
        Py_XDECREF(meta);
        Py_XDECREF(id);
    }
    PyMem_Free(copy);
    return done(list, ok);
}

LOOK(n_detached)
{
    (void)args;
    if (lock_to_look(c) < 0)
        return NULL;
    uint32_t n = actors_detached(&c->s);
    segment_unlock(&c->s);
    return PyLong_FromUnsignedLong(n);
}

LOOK(info)
{
    if (!is_ref(c, args))
        return PyErr_Format(PyExc_TypeError, "info expects an ObjectRef, not %R", args);
    if (lock_to_look(c) < 0)
        return NULL;
    RefObject *ref = (RefObject *)args;
    struct object_slot *o = &c->s.objects[ref->slot];
    struct task_slot t;
    bool has_task = false;
    uint32_t state = object_state(o);
    uint32_t task = task_producing(&c->s, ref->slot);
    bool sound = slot_is_safe(&c->s, SLOT_OBJECT, ref->slot) && (task == UINT32_MAX || slot_is_safe(&c->s, SLOT_TASK, task));
    if (!sound && end_look(c, false) < 0)
        return NULL;
    if (task != UINT32_MAX) {
        t = c->s.tasks[task];
        has_task = true;
    }
    uint32_t failure = state == OBJECT_FAILED ? o->u.failure.code : 0;
    uint64_t chunk = object_chunk(o);
    const char *encoding = state != OBJECT_READY || object_is_away(o) ? "" /* its bytes are not worth bringing back */
                           : codec_encoding_name(chunk ? c->s.base + chunk : o->u.inline_data, (size_t)o->size);
    segment_unlock(&c->s);
    const char *name = state == OBJECT_READY                 ? "finished"
                       : failure == FAILURE_CANCELLED        ? "cancelled"
                       : state != OBJECT_PENDING             ? "failed"
                       : has_task                            ? task_state_name(atomic_load(&t.state))
                                                             : "waiting";
    bool runs = has_task && atomic_load(&t.state) == TASK_RUNNING && t.worker < MAX_CLIENTS;
    return Py_BuildValue("{sNsssKsssssKsNsIsisIsOsIsi}", "id", object_id(c, ref->slot, ref->generation), "state", name, "size",
                         (unsigned long long)(state == OBJECT_PENDING ? 0 : o->size), "kind",
                         !atomic_load(&o->offset) ? "inline" : object_is_away(o) ? "disk" : "arena",
                         "encoding", encoding, "creator",
                         (unsigned long long)o->creator, "name", has_task ? function_name(c, t.function) : Py_NewRef(Py_None), "attempt",
                         has_task ? (unsigned)t.attempt : 0u, "pid", runs ? (int)pid_of_worker(&c->s, t.worker) : 0, "origin",
                         has_task ? t.origin : 0u, "put", o->creator & PUT_BIT ? Py_True : Py_False, "n_returns",
                         has_task ? (unsigned)t.n_returns : 1u, "actor", has_task ? (int)t.actor_1 - 1 : -1);
}

/* Without the lock: who asks may be about to wait for it. */
LOOK(stopped_owner)
{
    (void)args;
    if (client_usable(c) < 0)
        return NULL;
    struct header *h = c->s.h;
    int32_t stopped = atomic_load(&h->stopped_pid);
    bool is_driver = false;
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        is_driver |= atomic_load(&c->s.clients[i].pid) == stopped && c->s.clients[i].role == ROLE_DRIVER;
    return Py_BuildValue("(iOIid)", (int)stopped, is_driver ? Py_True : Py_False, (unsigned)atomic_load(&h->n_expelled),
                         (int)atomic_load(&h->expelled_pid), h->lock_grace_ms / 1000.0);
}

/* ------------------------------------------------------------------ why a task waits */

/* The task that must run next for an object to come about; of a call the constructor, while there is no actor yet. */
static uint32_t task_awaited(struct segment *s, uint32_t object)
{
    for (uint32_t steps = 0; steps < s->n_tasks; steps++) {
        uint32_t task = task_producing(s, object);
        if (task == UINT32_MAX)
            return UINT32_MAX;
        struct task_slot *t = &s->tasks[task];
        if (!slot_is_safe(s, SLOT_TASK, task))
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
static PyObject *amounts_lacking(const struct header *h, const int64_t wanted[MAX_KINDS], const int64_t available[MAX_KINDS],
                                 const int64_t shown[MAX_KINDS])
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

typedef struct { uint32_t function, client; int64_t amounts[MAX_KINDS]; } Holder;

LOOK(why)
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
    int64_t kept[MAX_KINDS] = {0}, reserved[MAX_KINDS] = {0}; /* by actors, by groups: for good, as far as anybody can tell */
    uint32_t n = 0, function = 0, unplaced = 0;
    const struct pool *pool = NULL;
    if (lock_to_look(c) < 0) {
        PyMem_Free(holders);
        return NULL;
    }
    uint32_t task = task_awaited(s, ((RefObject *)args)->slot);
    bool lacks = task != UINT32_MAX && atomic_load(&s->tasks[task].state) == TASK_READY &&
                 !resource_admissible(s, s->tasks[task].resource_class);
    if (lacks) {
        uint32_t class = s->tasks[task].resource_class;
        const struct pool *head = placement_head(s, class);
        unplaced = head->state == POOL_PENDING ? head->number : 0; /* then it is the group that waits */
        pool = unplaced ? s->h->pools : resource_pool(s, class);
        function = s->tasks[task].function;
        memcpy(wanted, s->classes[class].demand, sizeof wanted);
        for (uint32_t i = 0; unplaced && i < head->n * MAX_KINDS; i++)
            wanted[i % MAX_KINDS] = (i < MAX_KINDS ? 0 : wanted[i % MAX_KINDS]) + head[i / MAX_KINDS].total[i % MAX_KINDS];
        memcpy(available, pool->available, sizeof available);
        memcpy(total, pool->total, sizeof total);
    }
    for (uint32_t g = placement_next(s, 1); lacks && pool == s->h->pools && g < MAX_POOLS; g = placement_next(s, g + s->h->pools[g].n))
        for (uint32_t i = 0; placement_holds(&s->h->pools[g]) && i < s->h->pools[g].n * MAX_KINDS; i++)
            if (s->h->pools[g + i / MAX_KINDS].client_1 == POOL_HERE)
                reserved[i % MAX_KINDS] += s->h->pools[g + i / MAX_KINDS].total[i % MAX_KINDS];
    for (uint32_t i = 0; lacks && i < s->h->touched_tasks; i++) {
        const struct task_slot *t = &s->tasks[i];
        uint32_t state = slot_is_safe(s, SLOT_TASK, i) ? atomic_load(&t->state) : TASK_FREE;
        const int64_t *amounts = state == TASK_RUNNING ? task_amounts(s, t, scratch)
                                 : state == TASK_HELD  ? s->classes[t->resource_class].hold
                                                       : NULL;
        bool counts = false;
        if (amounts && resource_pool(s, t->resource_class) != pool)
            continue;
        for (uint32_t k = 0; amounts && k < s->h->n_kinds; k++) {
            counts |= amounts[k] > 0 && wanted[k] > available[k];
            kept[k] += state == TASK_HELD ? amounts[k] : 0;
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
        ok = add(list, Py_BuildValue("(NiN)", function_name(c, holders[i].function),
                                     holders[i].client < MAX_CLIENTS ? (int)atomic_load(&s->clients[holders[i].client].pid) : 0,
                                     amounts_lacking(s->h, wanted, available, holders[i].amounts)));
    if (ok)
        result = Py_BuildValue("{sIsNsNsNsNsNsOsO}", "unplaced", unplaced, "reserved",
                               amounts_lacking(s->h, wanted, available, reserved), "name", function_name(c, function), "wanted",
                               amounts_lacking(s->h, wanted, available, wanted), "available",
                               amounts_lacking(s->h, wanted, available, available), "total",
                               amounts_lacking(s->h, wanted, available, total), "holders", list, "stuck",
                               stuck ? Py_True : Py_False);
    Py_XDECREF(list);
    PyMem_Free(holders);
    if (!lacks)
        Py_RETURN_NONE;
    return result;
}

LOOK(stats)
{
    (void)args;
    if (client_usable(c) < 0)
        return NULL;
    flush_drops(c);
    const struct header *h = c->s.h;
    return Py_BuildValue("{sKsKsKsKsIsIsKsKsIsIsIsIsKsIsKsKsN}", "ahead_bytes",
                         (unsigned long long)h->ahead_bytes, "used_bytes", (unsigned long long)h->arena.used_bytes, "peak_bytes",
                         (unsigned long long)h->arena.peak_bytes, "capacity_bytes", (unsigned long long)(h->arena.end - h->arena.begin),
                         "n_objects", h->n_live_objects, "n_tasks", h->n_live_tasks, "n_finished", (unsigned long long)h->n_finished,
                         "n_events", (unsigned long long)atomic_load(&h->event_head), "n_ready", h->n_ready, "n_takeovers", h->n_takeovers,
                         "max_objects", h->n_objects, "max_tasks", h->n_tasks, "disk_bytes", (unsigned long long)h->away_bytes, "n_on_disk",
                         h->n_away, "disk_limit_bytes", (unsigned long long)h->away_limit, "n_freed_on_disk",
                         (unsigned long long)h->n_away_freed, "disk_folder",
                         PyUnicode_DecodeUTF8(h->away_folder, (Py_ssize_t)strnlen(h->away_folder, AWAY_FOLDER_SIZE), "replace"));
}

typedef struct { char text[64][160]; unsigned n; } Report;

static void note(void *ctx, const char *what, uint64_t index, uint64_t found, uint64_t expected)
{
    Report *r = ctx;
    if (r->n < 64)
        snprintf(r->text[r->n++], sizeof r->text[0], "%s: number %llu, found %llu, expected %llu", what, (unsigned long long)index,
                 (unsigned long long)found, (unsigned long long)expected);
}

LOOK(check)
{
    (void)args;
    if (client_usable(c) < 0)
        return NULL;
    flush_drops(c);
    Report *r = PyMem_Calloc(1, sizeof *r);
    if (!r)
        return PyErr_NoMemory();
    segment_lock(&c->s);
    segment_check(&c->s, note, r);
    segment_unlock(&c->s);
    PyObject *list = PyList_New(0);
    bool ok = list;
    for (unsigned i = 0; ok && i < r->n; i++)
        ok = add(list, PyUnicode_FromString(r->text[i]));
    PyMem_Free(r);
    return done(list, ok);
}

LOOK(peek)
{
    unsigned int slot, generation;
    if (!PyArg_ParseTuple(args, "II:peek", &slot, &generation) || lock_to_look(c) < 0)
        return NULL;
    bool there = false;
    if (slot < c->s.n_objects && !slot_is_safe(&c->s, SLOT_OBJECT, slot) && end_look(c, false) < 0)
        return NULL;
    if (slot < c->s.h->touched_objects) {
        struct object_slot *o = &c->s.objects[slot];
        there = object_state(o) == OBJECT_READY && (o->generation & 0xffff) == (generation & 0xffff);
        if (there)
            object_hold(&c->s, slot);
    }
    segment_unlock(&c->s);
    if (!there)
        Py_RETURN_NONE;
    PyObject *ref = ref_new(c, slot, true), *value = ref ? decode_slot(c, slot, ref) : NULL;
    Py_XDECREF(ref);
    return value;
}

LOOK(events)
{
    unsigned long long cursor, limit;
    if (client_usable(c) < 0 || !PyArg_ParseTuple(args, "KK:events", &cursor, &limit))
        return NULL;
    uint64_t at = cursor, lost = 0, head = atomic_load(&c->s.h->event_head);
    uint64_t most = head > at ? head - at : 0;
    most = most < limit ? most : limit;
    most = most < c->s.n_events ? most : c->s.n_events;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(most * sizeof(struct event_record)));
    if (!bytes)
        return NULL;
    uint64_t n = event_read(&c->s, &at, (struct event_record *)(void *)PyBytes_AS_STRING(bytes), most, &lost);
    if (n < most && _PyBytes_Resize(&bytes, (Py_ssize_t)(n * sizeof(struct event_record))) < 0)
        return NULL;
    return Py_BuildValue("(NKK)", bytes, (unsigned long long)at, (unsigned long long)lost);
}

#define FOLLOW_PAUSE_NS 10000000 /* between reads; with half as long for the GIL behind the last, eight million events a second are read in time */

/* Sleeping, waiting and copying need the GIL once together: while a cell runs Python it takes up to 5 ms to get, and the thread
 * that has to let go of it loses as much time again as two wake-ups take. */
LOOK(follow_events)
{
    unsigned long long cursor;
    Py_buffer out;
    PyObject *timeout_object;
    double timeout, span;
    if (client_usable(c) < 0 || !PyArg_ParseTuple(args, "Kw*Od:follow_events", &cursor, &out, &timeout_object, &span))
        return NULL;
    if (parse_timeout(timeout_object, &timeout) < 0 || (uintptr_t)out.buf % _Alignof(struct event_record)) {
        PyBuffer_Release(&out);
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "follow_events: the buffer is not aligned for records");
    }
    struct segment *s = &c->s;
    uint64_t at = cursor, lost = 0, n = 0, limit = (uint64_t)out.len / sizeof(struct event_record);
    int64_t end = monotonic_ns() + (int64_t)(span * 1e9);
    Py_BEGIN_ALLOW_THREADS
    event_wait(s, at, timeout < 0 ? -1 : (int64_t)(timeout * 1e9));
    for (;;) {
        n += event_read(s, &at, (struct event_record *)out.buf + n, limit - n, &lost);
        int64_t left = end - monotonic_ns();
        if (n == limit || left <= 0 || atomic_load(&s->h->closing))
            break;
        int64_t pause = left < FOLLOW_PAUSE_NS ? left : FOLLOW_PAUSE_NS;
        nanosleep(&(struct timespec){0, (long)pause}, NULL);
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&out);
    return Py_BuildValue("(KKK)", (unsigned long long)n, (unsigned long long)at, (unsigned long long)lost);
}

double ns_per_tick(const struct header *h)
{
    /* The rate over the whole life of the segment: exact after a few milliseconds, and steady afterwards. By a clock that nobody sets. */
    uint64_t ticks = ticks_now(), ns = (uint64_t)monotonic_ns();
    return ticks > h->clock_ticks ? (double)(ns - h->clock_monotonic_ns) / (double)(ticks - h->clock_ticks) : 1.0;
}

LOOK(clock)
{
    (void)args;
    if (client_usable(c) < 0)
        return NULL;
    const struct header *h = c->s.h;
    return Py_BuildValue("(KKd)", (unsigned long long)h->clock_ticks, (unsigned long long)h->clock_unix_ns, ns_per_tick(h));
}
