/* Placement groups, and the place of a task: in the node or in a group. */
#include "formats/constants.h"

#include <signal.h>
#include <string.h>

/* ------------------------------------------------------------------ groups */

static PyObject *client_placement_number(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    segment_lock(&c->s);
    uint32_t number = placement_number(&c->s);
    segment_unlock(&c->s);
    return PyLong_FromUnsignedLong(number);
}

static PyObject *client_create_placement(ClientObject *c, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"number", "bundles", "meta", "name", "namespace", "owned", "mode", NULL};
    PyObject *bundles, *meta;
    const char *name, *scope;
    unsigned int number;
    int owned;
    unsigned int mode;
    if (client_usable(c) < 0 ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "IO!OsspI:create_placement", names, &number, &PyList_Type, &bundles,
                                     &meta, &name, &scope, &owned, &mode))
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
        if (!PyDict_Check(PyList_GET_ITEM(bundles, i)) ||
            parse_amounts(c, PyList_GET_ITEM(bundles, i), amounts[i]) < 0) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "bundles must be dicts");
            goto done;
        }
    uint32_t slot;
    if (!(ref = put_value(c, meta, &slot, EVENT_BY_PUT, false)))
        goto done;
    if (lock_to_inspect(c) < 0) {
        Py_CLEAR(ref);
        goto done;
    }
    struct placement_spec spec = {number,
                                  (uint32_t)n,
                                  (const int64_t (*)[MAX_KINDS])amounts,
                                  *name ? actor_name_hash(name, scope) : 0,
                                  owned ? c->s.me + 1 : 0,
                                  (enum placement_mode)mode};
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
    if (lock_to_inspect(c) < 0)
        return -1;
    kill_doomed(c);
    segment_unlock(&c->s);
    return 0;
}

static PyObject *client_remove_placement(ClientObject *c, PyObject *number)
{
    uint32_t head, n;
    if (parse_number(c, number, &n) < 0 || lock_to_inspect(c) < 0)
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

static PyObject *client_placement_reserved(ClientObject *c, PyObject *number)
{
    uint32_t head, n;
    if (parse_number(c, number, &n) < 0 || lock_to_inspect(c) < 0)
        return NULL;
    int error = placement_find(&c->s, n, &head);
    bool reserved = !error && c->s.h->pools[head].state == POOL_RESERVED;
    segment_unlock(&c->s);
    return error ? raise_removed(c, n) : PyBool_FromLong(reserved);
}

static PyObject *describing_object(ClientObject *c, uint32_t object)
{
    PyObject *ref = ref_new(c, object, true), *value = ref ? load_value(c, (RefObject *)ref, CODEC_OWN) : NULL;
    Py_XDECREF(ref);
    return value;
}

static PyObject *client_find_placement(ClientObject *c, PyObject *args)
{
    const char *name, *scope;
    uint32_t head, object_1 = 0;
    if (!PyArg_ParseTuple(args, "ss:find_placement", &name, &scope) || lock_to_inspect(c) < 0)
        return NULL;
    if (placement_find_name(&c->s, actor_name_hash(name, scope), &head) == OBJSTORE_OK) {
        object_1 = c->s.h->pools[head].object_1;
        object_hold(&c->s, object_1 - 1);
    }
    segment_unlock(&c->s);
    return object_1 ? describing_object(c, object_1 - 1) : Py_NewRef(Py_None);
}

static PyObject *client_current_placement(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    uint32_t object_1 = 0;
    const struct resource_class *around = class_around(c);
    segment_lock(&c->s);
    if (around && (object_1 = placement_of(&c->s, around)->object_1))
        object_hold(&c->s, object_1 - 1);
    segment_unlock(&c->s);
    return object_1 ? describing_object(c, object_1 - 1) : Py_NewRef(Py_None);
}

static PyObject *client_captures_children(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    const struct resource_class *around = class_around(c);
    return PyBool_FromLong(around && around->place.captures);
}

/* The last 32 bits of the number of the node that a bundle is on, 0: this one; None: it is not reserved. */
static PyObject *machine_of(const struct segment *s, const struct pool *head, const struct pool *bundle)
{
    if (!placement_holds(head) || bundle->client_1 > MAX_CLIENTS)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLong(bundle->client_1 ? client_at(s, bundle->client_1 - 1)->node : 0);
}

static PyObject *client_placements(ClientObject *c, PyObject *args)
{
    static const char *const states[] = {"free", "pending", "reserved", "removed", "removed"};
    (void)args;
    struct pool *copy = PyMem_Malloc(MAX_POOLS * sizeof *copy);
    if (!copy)
        return PyErr_NoMemory();
    if (lock_to_inspect(c) < 0) {
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
            PyObject *one =
                make_record(c, RECORD_BUNDLE_STATE, "NNN", amounts_dict(h, copy[i].total, copy[i].total),
                            amounts_dict(h, copy[i].available, copy[i].total), machine_of(&c->s, &copy[p], &copy[i]));
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

/* [Group] of the living placement groups of this session that concern an agent, see core/tasks/placement.h. */
static PyObject *client_groups(ClientObject *c, PyObject *unused)
{
    (void)unused;
    struct segment *s = &c->s;
    if (lock_to_inspect(c) < 0)
        return NULL;
    uint32_t n = s->h->touched_pools;
    struct pool *copy = PyMem_RawMalloc(n * sizeof *copy);
    bool any = false;
    for (uint32_t p = 0; copy && p < n; p++) {
        copy[p] = s->h->pools[p];
        uint32_t owner_1 = copy[p].owner_1;
        bool is_ours = p && copy[p].head == p && placement_lives(&copy[p]) &&
                       !(owner_1 && client_at(s, owner_1 - 1)->role == ROLE_REMOTE_NODE);
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
            long where = copy[i].client_1 == POOL_NOWHERE  ? BUNDLE_NOWHERE
                         : copy[i].client_1 == POOL_COMING ? BUNDLE_COMING
                                                           : (long)copy[i].client_1;
            PyObject *one = make_record(c, RECORD_BUNDLE, "Nl", amounts_to_python(s, copy[i].total), where);
            if (!one || PyList_Append(bundles, one) < 0)
                Py_CLEAR(bundles);
            Py_XDECREF(one);
        }
        if (bundles)
            row = make_record(c, RECORD_GROUP, "IIIN", copy[p].number, copy[p].mode, copy[p].object_1 - 1, bundles);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    PyMem_RawFree(copy);
    return list;
}

static PyObject *client_assign(ClientObject *c, PyObject *args)
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
        where[i] = at > 0 && at <= (long)MAX_CLIENTS ? (uint32_t)at : at == BUNDLE_COMING ? POOL_COMING : POOL_NOWHERE;
    }
    if (lock_to_inspect(c) < 0)
        return NULL;
    bool found = placement_find(&c->s, number, &head) == OBJSTORE_OK && c->s.h->pools[head].n == n &&
                 placement_assign(&c->s, head, where);
    segment_unlock(&c->s);
    return PyBool_FromLong(found);
}

PyMethodDef placement_methods[] = {
    {"placement_number", (PyCFunction)client_placement_number, METH_NOARGS,
     "placement_number()\n--\n\nFor a new placement group."},
    {"create_placement", FAST(client_create_placement), METH_VARARGS | METH_KEYWORDS,
     "create_placement(number, bundles, meta, name, namespace, owned, mode)\n--\n\nPuts a placement group in line."},
    {"remove_placement", (PyCFunction)client_remove_placement, METH_O,
     "remove_placement(number, /)\n--\n\nFalse: it had gone."},
    {"placement_reserved", (PyCFunction)client_placement_reserved, METH_O,
     "placement_reserved(number, /)\n--\n\nWhether tasks can run in the group."},
    {"find_placement", (PyCFunction)client_find_placement, METH_VARARGS,
     "find_placement(name, namespace, /)\n--\n\nWhat describes the group, or None."},
    {"current_placement", (PyCFunction)client_current_placement, METH_NOARGS,
     "current_placement()\n--\n\nWhat describes the group the caller runs in, or None."},
    {"captures_children", (PyCFunction)client_captures_children, METH_NOARGS,
     "captures_children()\n--\n\nWhether what the caller submits goes to the group that the caller runs in."},
    {"placements", (PyCFunction)client_placements, METH_NOARGS, "placements()\n--\n\nThe placement groups."},
    {"groups", (PyCFunction)client_groups, METH_NOARGS,
     "groups()\n--\n\n[Group] of the placement groups that concern the agent."},
    {"assign", (PyCFunction)client_assign, METH_VARARGS,
     "assign(number, where, /)\n--\n\nWhere the bundles of a group are: client + 1 of a machine, BUNDLE_COMING here, "
     "BUNDLE_NOWHERE. False: they are not wanted now."},
    {NULL}};
