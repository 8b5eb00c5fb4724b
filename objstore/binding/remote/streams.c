/* Remote node: the items of tasks that yield on another machine than their readers. */
#include "clients/remote_node.h"
#include "formats/constants.h"
#include "objects/stream.h"
#include "remote/remote_node.h"

static int parse_streaming(RemoteNodeObject *p, PyObject *number, uint32_t *task)
{
    if (parse_running(p, number, task) < 0)
        return -1;
    if (p->s.tasks[*task].flags & TASK_FLAG_STREAM)
        return 0;
    PyErr_Format(PyExc_ValueError, "task %u has no stream", *task);
    return -1;
}

static int parse_stream(RemoteNodeObject *p, PyObject *number, uint32_t *stream)
{
    if (parse_slot(p, number, stream) < 0)
        return -1;
    if (object_is_stream(&p->s.objects[*stream]))
        return 0;
    PyErr_Format(PyExc_ValueError, "object %u is no stream", *stream);
    return -1;
}

PyObject *remote_stream_limit(RemoteNodeObject *p, PyObject *number)
{
    uint32_t task;
    return parse_streaming(p, number, &task) < 0
               ? NULL
               : PyLong_FromUnsignedLong(stream_limit(&p->s, task_stream(&p->s, task)));
}

PyObject *remote_item(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number;
    unsigned long long index;
    uint32_t task, item = 0;
    if (!PyArg_ParseTuple(args, "OK:item", &number, &index) || parse_streaming(p, number, &task) < 0)
        return NULL;
    segment_lock(&p->s);
    int error = task_item(&p->s, task, index, &item);
    segment_unlock(&p->s);
    if (error == OBJSTORE_EXISTS || error == OBJSTORE_CLOSED)
        return PyLong_FromLong(error == OBJSTORE_EXISTS ? ITEM_EXISTS : ITEM_UNWANTED);
    return error ? raise_core_error(p->client, error, "items of a stream") : PyLong_FromUnsignedLong(item);
}

PyObject *remote_taken(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number;
    unsigned long long n;
    uint32_t task;
    if (!PyArg_ParseTuple(args, "OK:taken", &number, &n) || parse_streaming(p, number, &task) < 0)
        return NULL;
    segment_lock(&p->s);
    stream_has_room(&p->s, task_stream(&p->s, task), n); /* else it wakes us */
    uint64_t taken = stream_n_taken(&p->s, task_stream(&p->s, task));
    segment_unlock(&p->s);
    return PyLong_FromUnsignedLongLong(taken);
}

PyObject *remote_ahead(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number;
    unsigned long long index;
    uint32_t stream, item;
    if (!PyArg_ParseTuple(args, "OK:ahead", &number, &index) || parse_stream(p, number, &stream) < 0)
        return NULL;
    atomic_store(&p->s.clients[p->s.me].need, 0); /* every seal is news */
    segment_lock(&p->s);
    int error = stream_ahead(&p->s, stream, index, &item);
    bool there = !error && !object_mark_waiting(&p->s, item);
    if (there)
        object_hold(&p->s, item);
    segment_unlock(&p->s);
    if (error && error != OBJSTORE_NOT_FOUND)
        return raise_core_error(p->client, error, "items of a stream");
    if (there)
        return PyLong_FromUnsignedLong(item);
    Py_RETURN_NONE;
}

PyObject *remote_advance(RemoteNodeObject *p, PyObject *args)
{
    PyObject *number;
    unsigned long long n;
    uint32_t stream;
    if (!PyArg_ParseTuple(args, "OK:advance", &number, &n) || parse_stream(p, number, &stream) < 0)
        return NULL;
    segment_lock(&p->s);
    stream_advance(&p->s, stream, n);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}
