/* Placement groups, and the place of a task: in the node or in a group. */
#include "binding.h"

#include <signal.h>
#include <string.h>

/* ------------------------------------------------------------------ amounts */

int parse_amounts(ClientObject *c, PyObject *dict, int64_t amounts[MAX_KINDS])
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    memset(amounts, 0, sizeof(int64_t) * MAX_KINDS);
    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8(key);
        double amount = name ? PyFloat_AsDouble(value) : -1;
        if (PyErr_Occurred())
            return -1;
        if (!(amount >= 0 && amount < 1e14)) {
            PyErr_Format(PyExc_ValueError, "the amount of resource %R must be a number >= 0, not %R", key, value);
            return -1;
        }
        uint32_t kind = 0;
        segment_lock(&c->s);
        int error = resource_kind(&c->s, name, &kind);
        segment_unlock(&c->s);
        if (error) {
            PyErr_Format(PyExc_ValueError, "resource %R: %s (at most %d kinds, names shorter than %d bytes)", key,
                         objstore_error_text(error), MAX_KINDS, KIND_NAME_SIZE);
            return -1;
        }
        amounts[kind] = (int64_t)(amount * RESOURCE_UNIT + 0.5);
    }
    return 0;
}

static PyObject *amounts_dict(const struct header *h, const int64_t amounts[MAX_KINDS], const int64_t total[MAX_KINDS])
{
    PyObject *dict = PyDict_New();
    for (uint32_t k = 0; dict && k < h->n_kinds; k++) {
        PyObject *value = total[k] ? PyFloat_FromDouble((double)(amounts[k] > 0 ? amounts[k] : 0) / RESOURCE_UNIT) : NULL;
        if (total[k] && (!value || PyDict_SetItemString(dict, h->kind_names[k], value) < 0))
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* ------------------------------------------------------------------ where tasks go */

static PyObject *raise_removed(ClientObject *c, uint32_t number)
{
    char text[96];
    snprintf(text, sizeof text, "%u", number);
    return raise_store_error(c, "unplaced", text);
}

PyObject *client_resource_class(ClientObject *c, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"demand", "hold", "env", "placement", "bundle", "captures", "route", "strategy", NULL};
    PyObject *demand, *hold = Py_None;
    int64_t wants[MAX_KINDS], keeps[MAX_KINDS];
    uint32_t index = 0, head = 0;
    unsigned int env = 0, number = 0, route = ROUTE_ANY;
    int bundle = -1, captures = 0, error = OBJSTORE_OK;
    const char *strategy = "";
    if (client_usable(c) < 0 ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "O!|OIIipIs:resource_class", names, &PyDict_Type, &demand, &hold, &env, &number,
                                     &bundle, &captures, &route, &strategy) ||
        parse_amounts(c, demand, wants) < 0)
        return NULL;
    if (route > ROUTE_WAITS || strlen(strategy) >= STRATEGY_SIZE)
        return PyErr_Format(PyExc_ValueError, "where tasks go is told by a route from 0 to %d and fewer than %u bytes, not by %u and %zu", ROUTE_WAITS,
                            STRATEGY_SIZE, route, strlen(strategy));
    if (hold == Py_None)
        memcpy(keeps, wants, sizeof keeps);
    else if (!PyDict_Check(hold) || parse_amounts(c, hold, keeps) < 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "hold must be a dict or None");
    if (lock_to_look(c) < 0)
        return NULL;
    struct place place = ON_NODE;
    place.route = (uint16_t)route;
    memcpy(place.strategy, strategy, strlen(strategy));
    if (number && !(error = placement_find(&c->s, number, &head))) {
        uint32_t n = c->s.h->pools[head].n;
        place = bundle >= 0 ? (struct place){.pool = (uint16_t)(head + (uint32_t)bundle), .n_pools = 1, .captures = captures != 0}
                            : (struct place){.pool = (uint16_t)head, .n_pools = (uint16_t)n, .captures = captures != 0};
        if (bundle >= (int)n)
            error = OBJSTORE_INVALID;
    }
    struct resource_shape shape = {.place = place, .env = env, .number = UINT32_MAX};
    memcpy(shape.demand, wants, sizeof wants);
    memcpy(shape.hold, keeps, sizeof keeps);
    if (!error)
        error = resource_intern(&c->s, &shape, &shape.number, &index);
    bool fits = !error && resource_feasible(&c->s, index);
    segment_unlock(&c->s);
    if (error == OBJSTORE_NOT_FOUND)
        return raise_removed(c, number);
    return error ? raise_core_error(c, error, "resource shapes")
                 : Py_BuildValue("(y#O)", (const char *)&shape, (Py_ssize_t)sizeof shape, fits ? Py_True : Py_False);
}

int parse_shape(PyObject *shape, void *to)
{
    if (!PyBytes_Check(shape) || PyBytes_GET_SIZE(shape) != (Py_ssize_t)sizeof(struct resource_shape)) {
        PyErr_SetString(PyExc_TypeError, "a shape is what resource_class returns first");
        return 0;
    }
    *(const struct resource_shape **)to = (const void *)PyBytes_AS_STRING(shape);
    return 1;
}

/* The class that tells where the caller runs: its task's, or that of its actor's constructor. MAX_CLASSES: in no task. */
static uint32_t class_around(const ClientObject *c)
{
    uint32_t task_1 = current_task_of(c);
    const struct segment *s = &c->s;
    if (task_1 && task_at(s, task_1 - 1)->actor_1)
        task_1 = actor_at(s, task_at(s, task_1 - 1)->actor_1 - 1)->task_1;
    return task_1 ? task_at(s, task_1 - 1)->resource_class : MAX_CLASSES;
}

bool placement_captures(const ClientObject *c)
{
    uint32_t class = class_around(c);
    return class < MAX_CLASSES && c->s.classes[class].place.captures;
}

int placement_capture(ClientObject *c, struct task_spec *spec, struct resource_shape *shape)
{
    struct segment *s = &c->s;
    uint32_t index;
    segment_lock(s);
    const struct pool *head = placement_head(s, class_around(c));
    shape->place = (struct place){.pool = (uint16_t)head->head, .n_pools = (uint16_t)head->n, .captures = 1};
    shape->number = UINT32_MAX;
    int error = resource_intern(s, shape, &shape->number, &index);
    spec->placement = head->number;
    bool fits = !error && resource_feasible(s, index);
    segment_unlock(s);
    if (error)
        raise_core_error(c, error, "resource shapes");
    else if (!fits)
        PyErr_Format(PyExc_ValueError, "what the task or actor asks for is more than any bundle of placement group %u has, and "
                     "the caller's group captures what is submitted in it: ask for less, or use scheduling_strategy="
                     "PlacementGroupSchedulingStrategy(None) to leave the group", spec->placement);
    return fits ? 0 : -1;
}

PyObject *raise_submit_error(ClientObject *c, int error, const struct task_spec *spec, bool actor)
{
    if (error == OBJSTORE_NOT_FOUND)
        return raise_removed(c, spec->placement);
    if (error == OBJSTORE_PENDING)
        return raise_core_error(c, error, "the actor has as many calls queued or running as its option max_pending_calls allows; "
                                          "wait for some of them, for example with cellmesh.wait, before making more");
    bool no_actor = actor && error == OBJSTORE_LIMIT && c->s.h->touched_actors >= c->s.n_actors && !c->s.h->free_actor_1;
    return raise_core_error(c, error, no_actor ? "actors" : "objects or tasks");
}

/* ------------------------------------------------------------------ groups */

PyObject *client_placement_number(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    segment_lock(&c->s);
    uint32_t number = placement_number(&c->s);
    segment_unlock(&c->s);
    return PyLong_FromUnsignedLong(number);
}

PyObject *client_create_placement(ClientObject *c, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"number", "bundles", "meta", "name", "namespace", "owned", "mode", NULL};
    PyObject *bundles, *meta;
    const char *name, *scope;
    unsigned int number;
    int owned;
    unsigned int mode;
    if (client_usable(c) < 0 || !PyArg_ParseTupleAndKeywords(args, kwargs, "IO!OsspI:create_placement", names, &number, &PyList_Type,
                                                             &bundles, &meta, &name, &scope, &owned, &mode))
        return NULL;
    Py_ssize_t n = PyList_GET_SIZE(bundles);
    if (n < 1 || n >= (Py_ssize_t)MAX_POOLS)
        return PyErr_Format(PyExc_ValueError, "a placement group has 1..%u bundles, not %zd", MAX_POOLS - 1, n);
    if (mode > PLACEMENT_STRICT_SPREAD)
        return PyErr_Format(PyExc_ValueError, "create_placement: unknown mode %u", mode);
    int64_t (*amounts)[MAX_KINDS] = PyMem_Malloc((size_t)n * sizeof *amounts);
    if (!amounts)
        return PyErr_NoMemory();
    PyObject *ref = NULL;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!PyDict_Check(PyList_GET_ITEM(bundles, i)) || parse_amounts(c, PyList_GET_ITEM(bundles, i), amounts[i]) < 0) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "bundles must be dicts");
            goto done;
        }
    uint32_t slot;
    if (!(ref = put_value(c, meta, &slot, EVENT_BY_PUT, false)))
        goto done;
    if (lock_to_look(c) < 0) {
        Py_CLEAR(ref);
        goto done;
    }
    struct placement_spec spec = {number, (uint32_t)n, (const int64_t (*)[MAX_KINDS])amounts, *name ? actor_name_hash(name, scope) : 0,
                                  owned ? c->s.me + 1 : 0, (enum placement_mode)mode};
    int error = placement_create(&c->s, &spec, slot);
    segment_unlock(&c->s);
    if (error == OBJSTORE_EXISTS)
        PyErr_Format(PyExc_ValueError, "a placement group named '%s' exists in this namespace", name);
    else if (error)
        raise_core_error(c, error, "bundles");
    if (error)
        Py_CLEAR(ref);
done:
    PyMem_Free(amounts);
    Py_XDECREF(ref);
    return ref ? Py_NewRef(Py_None) : NULL;
}

static int parse_number(ClientObject *c, PyObject *value, uint32_t *number)
{
    unsigned long n = PyLong_AsUnsignedLong(value);
    *number = n <= UINT32_MAX ? (uint32_t)n : 0; /* 0: no group */
    return PyErr_Occurred() ? -1 : client_usable(c);
}

/* Under the lock: kills the workers of removed groups. True: this process is one of them. */
static bool kill_doomed(ClientObject *c)
{
    uint64_t doomed[CLIENT_WORDS];
    placement_doomed(&c->s, doomed);
    for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
        if (i != c->s.me && doomed[i / 64] >> (i % 64) & 1)
            client_signal_worker(&c->s, i, SIGKILL);
    }
    return doomed[c->s.me / 64] >> (c->s.me % 64) & 1;
}

int placement_end_doomed(ClientObject *c)
{
    if (lock_to_look(c) < 0)
        return -1;
    kill_doomed(c);
    segment_unlock(&c->s);
    return 0;
}

PyObject *client_remove_placement(ClientObject *c, PyObject *number)
{
    uint32_t head, n;
    if (parse_number(c, number, &n) < 0 || lock_to_look(c) < 0)
        return NULL;
    bool found = placement_find(&c->s, n, &head) == OBJSTORE_OK;
    if (found)
        placement_remove(&c->s, head);
    bool suicide = kill_doomed(c);
    segment_unlock(&c->s);
    if (suicide)
        raise(SIGKILL); /* it runs in the group */
    return PyBool_FromLong(found);
}

PyObject *client_placement_reserved(ClientObject *c, PyObject *number)
{
    uint32_t head, n;
    if (parse_number(c, number, &n) < 0 || lock_to_look(c) < 0)
        return NULL;
    int error = placement_find(&c->s, n, &head);
    bool reserved = !error && c->s.h->pools[head].state == POOL_RESERVED;
    segment_unlock(&c->s);
    return error ? raise_removed(c, n) : PyBool_FromLong(reserved);
}

static PyObject *describing_object(ClientObject *c, uint32_t object)
{
    PyObject *ref = ref_new(c, object, true), *value = ref ? load_value(c, (RefObject *)ref) : NULL;
    Py_XDECREF(ref);
    return value;
}

PyObject *client_find_placement(ClientObject *c, PyObject *args)
{
    const char *name, *scope;
    uint32_t head, object_1 = 0;
    if (!PyArg_ParseTuple(args, "ss:find_placement", &name, &scope) || lock_to_look(c) < 0)
        return NULL;
    if (placement_find_name(&c->s, actor_name_hash(name, scope), &head) == OBJSTORE_OK) {
        object_1 = c->s.h->pools[head].object_1;
        object_hold(&c->s, object_1 - 1);
    }
    segment_unlock(&c->s);
    return object_1 ? describing_object(c, object_1 - 1) : Py_NewRef(Py_None);
}

PyObject *client_current_placement(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    uint32_t object_1 = 0, class = class_around(c);
    segment_lock(&c->s);
    if (class < MAX_CLASSES && (object_1 = placement_head(&c->s, class)->object_1))
        object_hold(&c->s, object_1 - 1);
    segment_unlock(&c->s);
    return object_1 ? describing_object(c, object_1 - 1) : Py_NewRef(Py_None);
}

/* The last 32 bits of the number of the node that a bundle is on, 0: this one; None: it is not reserved. */
static PyObject *machine_of(const struct segment *s, const struct pool *head, const struct pool *bundle)
{
    if (!placement_holds(head) || bundle->client_1 > MAX_CLIENTS)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLong(bundle->client_1 ? client_at(s, bundle->client_1 - 1)->node : 0);
}

LOOK(placements)
{
    static const char *const states[] = {"free", "pending", "reserved", "removed", "removed"};
    (void)args;
    struct pool *copy = PyMem_Malloc(MAX_POOLS * sizeof *copy);
    if (!copy)
        return PyErr_NoMemory();
    if (lock_to_look(c) < 0) {
        PyMem_Free(copy);
        return NULL;
    }
    const struct header *h = c->s.h;
    memcpy(copy, h->pools, MAX_POOLS * sizeof *copy);
    for (uint32_t p = placement_next(&c->s, 1); p < MAX_POOLS; p = placement_next(&c->s, p + copy[p].n))
        object_hold(&c->s, copy[p].object_1 - 1);
    uint32_t n_used = h->touched_pools;
    segment_unlock(&c->s);
    PyObject *list = PyList_New(0);
    for (uint32_t p = 1; p < n_used; p += copy[p].state == POOL_FREE ? 1 : copy[p].n) {
        if (copy[p].state == POOL_FREE)
            continue;
        PyObject *bundles = PyList_New(0), *meta = describing_object(c, copy[p].object_1 - 1), *row = NULL;
        for (uint32_t i = p; bundles && i < p + copy[p].n; i++) {
            PyObject *one = Py_BuildValue("(NNN)", amounts_dict(h, copy[i].total, copy[i].total), amounts_dict(h, copy[i].available, copy[i].total),
                                          machine_of(&c->s, &copy[p], &copy[i]));
            if (!one || PyList_Append(bundles, one) < 0)
                Py_CLEAR(bundles);
            Py_XDECREF(one);
        }
        if (bundles && meta)
            row = Py_BuildValue("{sssOsO}", "state", states[copy[p].state], "meta", meta, "bundles", bundles);
        Py_XDECREF(bundles);
        Py_XDECREF(meta);
        if (list && (!row || PyList_Append(list, row) < 0))
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    PyMem_Free(copy);
    return list;
}

/* ------------------------------------------------------------------ for the agent */

/* [(number, mode, object that describes it, [({name: ten-thousandths}, where)])] of the living groups of this session that concern an agent, see
 * core/placement.h; where: -1 nowhere, -2 here soon, 0 here, n the client n - 1. */
PyObject *client_groups(ClientObject *c, PyObject *unused)
{
    (void)unused;
    struct segment *s = &c->s;
    if (lock_to_look(c) < 0)
        return NULL;
    uint32_t n = s->h->touched_pools;
    struct pool *copy = PyMem_RawMalloc(n * sizeof *copy);
    bool any = false;
    for (uint32_t p = 0; copy && p < n; p++) {
        copy[p] = s->h->pools[p];
        uint32_t owner_1 = copy[p].owner_1;
        bool is_ours = p && copy[p].head == p && placement_lives(&copy[p]) && !(owner_1 && client_at(s, owner_1 - 1)->role == ROLE_PROXY);
        copy[p].number = is_ours && (copy[p].routed || placement_is_open(&s->h->pools[p])) ? copy[p].number : 0;
        any |= copy[p].number != 0;
    }
    segment_unlock(s);
    PyObject *list = copy ? PyList_New(0) : PyErr_NoMemory();
    for (uint32_t p = 1; list && any && p < n; p++) {
        if (!copy[p].number || copy[p].head != p)
            continue;
        PyObject *bundles = PyList_New(0), *row = NULL;
        for (uint32_t i = p; bundles && i < p + copy[p].n; i++) {
            long where = copy[i].client_1 == POOL_NOWHERE ? -1 : copy[i].client_1 == POOL_COMING ? -2 : (long)copy[i].client_1;
            PyObject *one = Py_BuildValue("(Nl)", amounts_to_python(s, copy[i].total), where);
            if (!one || PyList_Append(bundles, one) < 0)
                Py_CLEAR(bundles);
            Py_XDECREF(one);
        }
        if (bundles)
            row = Py_BuildValue("(IIIN)", copy[p].number, copy[p].mode, copy[p].object_1 - 1, bundles);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    PyMem_RawFree(copy);
    return list;
}

PyObject *client_assign(ClientObject *c, PyObject *args)
{
    unsigned int number;
    PyObject *list;
    uint32_t where[MAX_POOLS], head;
    if (!PyArg_ParseTuple(args, "IO!:assign", &number, &PyList_Type, &list))
        return NULL;
    Py_ssize_t n = PyList_GET_SIZE(list);
    for (Py_ssize_t i = 0; i < n && i < (Py_ssize_t)MAX_POOLS; i++) {
        long at = PyLong_AsLong(PyList_GET_ITEM(list, i));
        if (PyErr_Occurred())
            return NULL;
        where[i] = at > 0 && at <= (long)MAX_CLIENTS ? (uint32_t)at : at == -2 ? POOL_COMING : POOL_NOWHERE;
    }
    if (lock_to_look(c) < 0)
        return NULL;
    bool found = placement_find(&c->s, number, &head) == OBJSTORE_OK && c->s.h->pools[head].n == n && placement_assign(&c->s, head, where);
    segment_unlock(&c->s);
    return PyBool_FromLong(found);
}
