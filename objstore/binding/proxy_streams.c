/* Proxy: the items of tasks that yield on another machine than their readers. */
#include "../core/proxy.h"
#include "../core/stream.h"
#include "proxy_object.h"

static int parse_streaming(ProxyObject *p, PyObject *number, uint32_t *task)
{
    if (parse_running(p, number, task) < 0)
        return -1;
    if (p->s.tasks[*task].flags & TASK_FLAG_STREAM)
        return 0;
    PyErr_Format(PyExc_ValueError, "task %u has no stream", *task);
    return -1;
}

static int parse_stream(ProxyObject *p, PyObject *number, uint32_t *stream)
{
    if (parse_slot(p, number, stream) < 0)
        return -1;
    if (object_is_stream(&p->s.objects[*stream]))
        return 0;
    PyErr_Format(PyExc_ValueError, "object %u is no stream", *stream);
    return -1;
}

PyObject *proxy_stream_limit(ProxyObject *p, PyObject *number)
{
    uint32_t task;
    return parse_streaming(p, number, &task) < 0 ? NULL : PyLong_FromUnsignedLong(stream_limit(&p->s, task));
}

enum { EXISTS = -1, CLOSED = -2 };

PyObject *proxy_item(ProxyObject *p, PyObject *args)
{
    PyObject *number;
    unsigned long long index;
    uint32_t task, item = 0;
    if (!PyArg_ParseTuple(args, "OK:item", &number, &index) || parse_streaming(p, number, &task) < 0)
        return NULL;
    segment_lock(&p->s);
    int error = stream_item(&p->s, task, index, &item);
    segment_unlock(&p->s);
    if (error == OBJSTORE_EXISTS || error == OBJSTORE_CLOSED)
        return PyLong_FromLong(error == OBJSTORE_EXISTS ? EXISTS : CLOSED);
    return error ? raise_core_error(p->client, error, "items of a stream") : PyLong_FromUnsignedLong(item);
}

PyObject *proxy_taken(ProxyObject *p, PyObject *args)
{
    PyObject *number;
    unsigned long long n;
    uint32_t task;
    if (!PyArg_ParseTuple(args, "OK:taken", &number, &n) || parse_streaming(p, number, &task) < 0)
        return NULL;
    segment_lock(&p->s);
    stream_has_room(&p->s, task, n); /* else it wakes us */
    uint64_t taken = stream_n_taken(&p->s, task);
    segment_unlock(&p->s);
    return PyLong_FromUnsignedLongLong(taken);
}

PyObject *proxy_ahead(ProxyObject *p, PyObject *args)
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

PyObject *proxy_advance(ProxyObject *p, PyObject *args)
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
