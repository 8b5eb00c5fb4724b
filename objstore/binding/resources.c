/* Resources: amounts as dicts, what tasks of equal needs share, what the node has. */
#include "formats/constants.h"

#include <string.h>

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

PyObject *amounts_dict(const struct header *h, const int64_t amounts[MAX_KINDS], const int64_t total[MAX_KINDS])
{
    PyObject *dict = PyDict_New();
    for (uint32_t k = 0; dict && k < h->n_kinds; k++) {
        PyObject *value =
            total[k] ? PyFloat_FromDouble((double)(amounts[k] > 0 ? amounts[k] : 0) / RESOURCE_UNIT) : NULL;
        if (total[k] && (!value || PyDict_SetItemString(dict, h->kind_names[k], value) < 0))
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* Amounts in ten-thousandths, by name; what is below nothing counts as nothing. */
PyObject *amounts_to_python(const struct segment *s, const int64_t *amounts)
{
    PyObject *dict = PyDict_New();
    for (uint32_t k = 0; dict && k < s->h->n_kinds; k++) {
        PyObject *amount = amounts[k] > 0 ? PyLong_FromLongLong(amounts[k]) : NULL;
        if (amounts[k] > 0 && (!amount || PyDict_SetItemString(dict, s->h->kind_names[k], amount) < 0))
            Py_CLEAR(dict);
        Py_XDECREF(amount);
    }
    return dict;
}

PyObject *raise_removed(ClientObject *c, uint32_t number)
{
    char text[96];
    snprintf(text, sizeof text, "%u", number);
    return raise_store_error(c, "unplaced", text);
}

static PyObject *client_resource_class(ClientObject *c, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"demand",   "hold",     "env",      "placement", "bundle",     "captures", "route",
                            "strategy", "priority", "function", "most",      "interval_s", NULL};
    PyObject *demand, *hold = Py_None;
    int64_t wants[MAX_KINDS], keeps[MAX_KINDS];
    uint32_t index = 0, head = 0;
    unsigned int env = 0, number = 0, route = ROUTE_ANY, most = 0;
    int bundle = -1, captures = 0, priority = 0, error = OBJSTORE_OK;
    const char *strategy = "", *limited = "";
    double interval_s = 0;
    if (client_usable(c) < 0 ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "O!|OIIipIsisId:resource_class", names, &PyDict_Type, &demand, &hold,
                                     &env, &number, &bundle, &captures, &route, &strategy, &priority, &limited, &most,
                                     &interval_s) ||
        parse_amounts(c, demand, wants) < 0)
        return NULL;
    if (route > ROUTE_WAITS || strlen(strategy) >= STRATEGY_SIZE)
        return PyErr_Format(PyExc_ValueError,
                            "where tasks go is told by a route from 0 to %d and fewer than %u bytes, not by %u and %zu",
                            ROUTE_WAITS, STRATEGY_SIZE, route, strlen(strategy));
    if (!(interval_s >= 0 && interval_s < 1e9) || (!*limited && (most || interval_s > 0)))
        return PyErr_Format(PyExc_ValueError,
                            "what is limited is a function, so many of it at a time and so many seconds apart");
    if (hold == Py_None)
        memcpy(keeps, wants, sizeof keeps);
    else if (!PyDict_Check(hold) || parse_amounts(c, hold, keeps) < 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "hold must be a dict or None");
    if (lock_to_inspect(c) < 0)
        return NULL;
    struct place place = ON_NODE;
    place.route = (uint16_t)route;
    memcpy(place.strategy, strategy, strlen(strategy));
    if (number && !(error = placement_find(&c->s, number, &head))) {
        uint32_t n = c->s.h->pools[head].n;
        place =
            bundle >= 0
                ? (struct place){.pool = (uint16_t)(head + (uint32_t)bundle), .n_pools = 1, .captures = captures != 0}
                : (struct place){.pool = (uint16_t)head, .n_pools = (uint16_t)n, .captures = captures != 0};
        if (bundle >= (int)n)
            error = OBJSTORE_INVALID;
    }
    struct terms terms = {.function = *limited ? actor_name_hash(limited, "") : 0,
                          .interval = (uint64_t)(interval_s * 1e9 / ns_per_tick(c->s.h)),
                          .most = most,
                          .priority = priority};
    struct resource_shape shape = {.place = place, .terms = terms, .env = env, .number = UINT32_MAX};
    memcpy(shape.demand, wants, sizeof wants);
    memcpy(shape.hold, keeps, sizeof keeps);
    if (!error)
        error = task_class(&c->s, &shape, &shape.number, &index);
    bool fits = !error && resource_feasible(&c->s, index);
    segment_unlock(&c->s);
    if (error == OBJSTORE_NOT_FOUND)
        return raise_removed(c, number);
    return error ? raise_core_error(c, error, "resource shapes")
                 : make_record(c, RECORD_RESOURCE_CLASS, "y#O", (const char *)&shape, (Py_ssize_t)sizeof shape,
                               fits ? Py_True : Py_False);
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

const struct resource_class *class_around(const ClientObject *c)
{
    uint32_t task_1 = current_task_of(c);
    const struct segment *s = &c->s;
    if (task_1 && task_at(s, task_1 - 1)->actor_1)
        task_1 = actor_at(s, task_at(s, task_1 - 1)->actor_1 - 1)->task_1;
    return task_1 ? class_at(s, task_at(s, task_1 - 1)->resource_class) : NULL;
}

int take_after(ClientObject *c, const struct resource_class *around, bool place, bool priority, struct task_spec *spec,
               struct resource_shape *shape)
{
    struct segment *s = &c->s;
    uint32_t index;
    if (priority)
        shape->terms.priority = around->terms.priority;
    shape->number = UINT32_MAX;
    if (!place || !around->place.captures)
        return 0;
    segment_lock(s);
    const struct pool *head = placement_of(s, around);
    shape->place = (struct place){.pool = (uint16_t)head->head, .n_pools = (uint16_t)head->n, .captures = 1};
    int error = task_class(s, shape, &shape->number, &index);
    spec->placement = head->number;
    bool fits = !error && resource_feasible(s, index);
    segment_unlock(s);
    if (error)
        raise_core_error(c, error, "resource shapes");
    else if (!fits)
        PyErr_Format(PyExc_ValueError,
                     "what the task or actor asks for is more than any bundle of placement group %u has, and "
                     "the caller's group captures what is submitted in it: ask for less, or use scheduling_strategy="
                     "PlacementGroupSchedulingStrategy(None) to leave the group",
                     spec->placement);
    return fits ? 0 : -1;
}

PyObject *raise_submit_error(ClientObject *c, int error, const struct task_spec *spec, bool actor)
{
    if (error == OBJSTORE_NOT_FOUND)
        return raise_removed(c, spec->placement);
    if (error == OBJSTORE_PENDING)
        return raise_core_error(c, error,
                                "the actor has as many calls queued or running as its option max_pending_calls allows; "
                                "wait for some of them, for example with cellmesh.wait, before making more");
    bool no_actor =
        actor && error == OBJSTORE_LIMIT && c->s.h->touched_actors >= c->s.n_actors && !c->s.h->free_actor_1;
    return raise_core_error(c, error, no_actor ? "actors" : "objects or tasks");
}

static PyObject *client_set_total(ClientObject *c, PyObject *total)
{
    int64_t amounts[MAX_KINDS];
    if (!PyDict_Check(total))
        return PyErr_Format(PyExc_TypeError, "set_total expects a dict");
    if (client_usable(c) < 0 || parse_amounts(c, total, amounts) < 0)
        return NULL;
    segment_lock(&c->s);
    resource_set_total(&c->s, amounts);
    task_wake_workers(&c->s);
    segment_unlock(&c->s);
    Py_RETURN_NONE;
}

static PyObject *client_resources(ClientObject *c, PyObject *args)
{
    (void)args;
    int64_t total[MAX_KINDS], available[MAX_KINDS];
    char names[MAX_KINDS][KIND_NAME_SIZE];
    if (lock_to_inspect(c) < 0)
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
    PyObject *pair = ok ? make_record(c, RECORD_RESOURCES, "OO", dicts[0], dicts[1]) : NULL;
    Py_XDECREF(dicts[0]);
    Py_XDECREF(dicts[1]);
    return pair;
}

static PyObject *client_assigned(ClientObject *c, PyObject *args)
{
    (void)args;
    int64_t amounts[MAX_KINDS] = {0};
    char names[MAX_KINDS][KIND_NAME_SIZE];
    uint32_t task_1 = current_task_of(c);
    if (lock_to_inspect(c) < 0)
        return NULL;
    uint32_t actor_1 = c->s.clients[c->s.me].actor_1;
    bool sound = !actor_1 || actor_is_safe(&c->s, actor_1 - 1);
    if (actor_1 && sound)
        task_1 = c->s.actors[actor_1 - 1].task_1;
    sound = sound && (!task_1 || task_is_safe(&c->s, task_1 - 1));
    if (sound && task_1 && atomic_load(&c->s.tasks[task_1 - 1].state) != TASK_FREE) {
        const struct resource_class *class = &c->s.classes[c->s.tasks[task_1 - 1].resource_class];
        memcpy(amounts, actor_1 ? class->hold : class->demand, sizeof amounts);
    }
    memcpy(names, c->s.h->kind_names, sizeof names);
    if (end_inspect(c, sound) < 0)
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

PyMethodDef resource_methods[] = {
    {"set_total", (PyCFunction)client_set_total, METH_O, "set_total(amounts, /)\n--\n\nSets what the node has."},
    {"resources", (PyCFunction)client_resources, METH_NOARGS, "resources()\n--\n\nThe Resources of this node."},
    {"resource_class", FAST(client_resource_class), METH_VARARGS | METH_KEYWORDS,
     "resource_class(demand, hold=None, env=0, placement=0, bundle=-1, captures=False, route=0, strategy=\"\", "
     "priority=0, function=\"\", most=0, interval_s=0.0)\n--\n\nWhat tasks of these needs share: a ResourceClass, good "
     "as long as the session lives. `function`: tasks of all shapes that name it are counted together; `most` of them "
     "run at a time, and they begin `interval_s` apart."},
    {"assigned", (PyCFunction)client_assigned, METH_NOARGS,
     "assigned()\n--\n\nWhat the thread's task, or this process's actor, holds."},
    {NULL}};
