/* Remote node: bundles of placement groups on other machines. See core/tasks/placement.h. */
#include "remote/remote_node.h"
#include "tasks/placement.h"

/* The reservation ends with the client of the machine that wanted it. */
PyObject *remote_host_group(RemoteNodeObject *p, PyObject *args)
{
    PyObject *bundles, *about;
    int64_t amounts[MAX_POOLS][MAX_KINDS];
    uint32_t object;
    if (!PyArg_ParseTuple(args, "O!O:host_group", &PyList_Type, &bundles, &about) || remote_usable(p) < 0 ||
        parse_slot(p, about, &object) < 0)
        return NULL;
    Py_ssize_t n = PyList_GET_SIZE(bundles);
    if (n < 1 || n >= (Py_ssize_t)MAX_POOLS)
        return PyErr_Format(PyExc_ValueError, "a placement group has 1..%u bundles, not %zd", MAX_POOLS - 1, n);
    for (Py_ssize_t i = 0; i < n; i++)
        if (!PyDict_Check(PyList_GET_ITEM(bundles, i)) ||
            parse_amounts(p->client, PyList_GET_ITEM(bundles, i), amounts[i]) < 0)
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "bundles must be dicts");
    segment_lock(&p->s);
    bool is_there = object_sealed(object_at(&p->s, object));
    struct placement_spec spec = {
        placement_number(&p->s), (uint32_t)n, (const int64_t (*)[MAX_KINDS])amounts, 0, p->s.me + 1, PLACEMENT_PACK};
    int error = is_there ? placement_create(&p->s, &spec, object) : OBJSTORE_PENDING;
    segment_unlock(&p->s);
    if (!is_there)
        return PyErr_Format(PyExc_ValueError, "what describes the group is not there");
    return error ? raise_core_error(p->client, error, "bundles") : PyLong_FromUnsignedLong(spec.number);
}

/* The TaskBundle of a task that runs in one. */
PyObject *remote_bundle(RemoteNodeObject *p, PyObject *number)
{
    uint32_t task;
    if (remote_usable(p) < 0 || parse_running(p, number, &task) < 0)
        return NULL;
    uint32_t class = task_at(&p->s, task)->resource_class;
    const struct place *place = &class_at(&p->s, class)->place;
    if (!place->pool)
        Py_RETURN_NONE;
    const struct pool *head = placement_head(&p->s, class);
    return make_record(p->client, RECORD_TASK_BUNDLE, "IIN", head->number, place->pool - head->head,
                       PyBool_FromLong(place->captures));
}

PyObject *remote_block(RemoteNodeObject *p, PyObject *number)
{
    uint32_t task;
    if (remote_usable(p) < 0 || parse_running(p, number, &task) < 0)
        return NULL;
    if (class_at(&p->s, task_at(&p->s, task)->resource_class)->place.pool)
        task_block(&p->s, task);
    Py_RETURN_NONE;
}
