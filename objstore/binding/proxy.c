/* Proxy: a client slot that stands for another machine, for the process that speaks with it. Bytes and slots, no values: whoever serves
 * other machines never unpickles. Objects and tasks are named by their slots; the proxy holds what it names, so they stay what they are. */
#include <signal.h>
#include <string.h>

#include "../core/away.h"
#include "../core/proxy.h"
#include "../core/stream.h"
#include "proxy_object.h"

enum { MOST_LOOKED_AT = 1024 };

int proxy_usable(ProxyObject *p)
{
    if (p->attached)
        return client_usable(p->client);
    PyErr_SetString(PyExc_ValueError, "this machine's proxy has been closed");
    return -1;
}

int parse_slot(ProxyObject *p, PyObject *number, uint32_t *slot)
{
    unsigned long n = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return -1;
    if (n >= p->s.h->touched_objects || object_state(&p->s.objects[n]) == OBJECT_FREE) {
        PyErr_Format(PyExc_ValueError, "there is no object %lu", n);
        return -1;
    }
    *slot = (uint32_t)n;
    return 0;
}

int parse_running(ProxyObject *p, PyObject *number, uint32_t *task)
{
    unsigned long n = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return -1;
    if (n >= p->s.h->touched_tasks || atomic_load(&p->s.tasks[n].state) != TASK_RUNNING || p->s.tasks[n].worker != p->s.me) {
        PyErr_Format(PyExc_ValueError, "task %lu does not run on that machine", n);
        return -1;
    }
    *task = (uint32_t)n;
    return 0;
}

uint32_t *parse_slots(ProxyObject *p, PyObject *list, Py_ssize_t n_more, Py_ssize_t *n)
{
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "expected a list of slots");
        return NULL;
    }
    *n = PyList_GET_SIZE(list);
    uint32_t *slots = PyMem_New(uint32_t, (size_t)(*n + n_more + 1));
    if (!slots)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; slots && i < *n; i++)
        if (parse_slot(p, PyList_GET_ITEM(list, i), &slots[i]) < 0) {
            PyMem_Free(slots);
            return NULL;
        }
    return slots;
}

/* Some, where nothing has to go for it; 0. */
static uint64_t allocate_free(ProxyObject *p, uint64_t size, uint32_t n_refs)
{
    segment_lock(&p->client->s);
    uint64_t offset = object_allocate(&p->client->s, size, n_refs);
    segment_unlock(&p->client->s);
    return offset;
}

/* Space in the arena, at once: whoever serves other machines must not keep them waiting. 0: an exception. */
static uint64_t allocate_at_once(ProxyObject *p, uint64_t size, uint32_t n_refs)
{
    ClientObject *c = p->client;
    char why[OFFLOAD_WHY_SIZE] = "";
    for (;;) {
        uint64_t offset = allocate_free(p, size, n_refs);
        if (offset)
            return offset;
        int made = make_room(c, 0, why);
        if (made == ROOM_FAILED)
            return 0;
        if (made != SOME_ROOM) {
            raise_core_error(c, OBJSTORE_FULL, "a value from another machine");
            return 0;
        }
    }
}

PyObject *list_of(const uint32_t *slots, Py_ssize_t n)
{
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *number = PyLong_FromUnsignedLong(slots[i]);
        if (!number)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, number);
    }
    return list;
}

/* ------------------------------------------------------------------ life */

static PyObject *proxy_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    CoreState *state = core_state(PyType_GetModule(type));
    PyObject *client;
    static char *names[] = {"client", "node", NULL};
    unsigned long long node = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|K:Proxy", names, state->client_type, &client, &node))
        return NULL;
    if (client_usable((ClientObject *)client) < 0)
        return NULL;
    ProxyObject *p = (ProxyObject *)type->tp_alloc(type, 0);
    if (!p)
        return NULL;
    p->client = (ClientObject *)Py_NewRef(client);
    int error = proxy_attach(&p->s, &p->client->s, (uint32_t)node);
    if (error) {
        raise_core_error(p->client, error, "clients");
        Py_DECREF(p);
        return NULL;
    }
    p->attached = true;
    return (PyObject *)p;
}

/* What runs there is retried, what is referred to from there let go of, what it has begun here ended. */
static PyObject *proxy_close(ProxyObject *p, PyObject *code_object)
{
    long code = PyLong_AsLong(code_object);
    if (PyErr_Occurred())
        return NULL;
    if (!p->attached)
        Py_RETURN_NONE;
    p->attached = false;
    struct segment *s = &p->client->s;
    uint32_t index = p->s.me;
    if (p->client->pid) {
        Py_BEGIN_ALLOW_THREADS
        client_died(s, index, (int32_t)code);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static void proxy_dealloc(ProxyObject *p)
{
    PyTypeObject *type = Py_TYPE(p);
    Py_XDECREF(p->client);
    type->tp_free((PyObject *)p);
    Py_DECREF(type);
}

static PyObject *proxy_index(ProxyObject *p, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(p->s.me);
}

/* ------------------------------------------------------------------ tasks of ours that run there */

/* What has to be known of a task elsewhere. It is RUNNING on us: nobody else changes it but for its flags. */
static PyObject *describe_task(ProxyObject *p, uint32_t task)
{
    struct task_slot *t = &p->s.tasks[task];
    int object = t->actor_1 ? (int)p->s.actors[t->actor_1 - 1].object_1 - 1 : -1;
    return Py_BuildValue("(IKIIy#NIIiIIIKiiI)", task, (unsigned long long)t->seq, (unsigned)t->resource_class, t->function,
                         (const char *)task_arguments(&p->s, t), (Py_ssize_t)t->arguments_size, list_of(task_refs(&p->s, t), t->n_refs),
                         t->n_dependencies, (unsigned)t->n_returns, (int)t->max_retries, (unsigned)(t->flags & (TASK_FLAG_RETRY_EXCEPTIONS | TASK_FLAG_ENV | TASK_FLAG_STREAM)),
                         (unsigned)t->attempt, t->origin, (unsigned long long)t->parent, (int)t->actor_1 - 1, object, (unsigned)t->group);
}

static PyObject *proxy_take_tasks(ProxyObject *p, PyObject *args)
{
    unsigned int class, most;
    int by_place;
    uint32_t tasks[MOST_TASKS], n = 0;
    if (!PyArg_ParseTuple(args, "IIp:take", &class, &most, &by_place) || proxy_usable(p) < 0)
        return NULL;
    if (class >= p->s.h->n_classes)
        return PyErr_Format(PyExc_ValueError, "unknown resource class %u", class);
    segment_lock(&p->s);
    n = proxy_take(&p->s, class, most < MOST_TASKS ? most : MOST_TASKS, by_place, tasks);
    segment_unlock(&p->s);
    return describe_tasks(p, tasks, n);
}

PyObject *describe_tasks(ProxyObject *p, const uint32_t *tasks, uint32_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (uint32_t i = 0; list && i < n; i++) {
        PyObject *record = describe_task(p, tasks[i]);
        if (!record)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, record);
    }
    return list;
}

static PyObject *proxy_results(ProxyObject *p, PyObject *number)
{
    uint32_t task;
    if (proxy_usable(p) < 0 || parse_running(p, number, &task) < 0)
        return NULL;
    struct task_slot *t = &p->s.tasks[task];
    PyObject *list = PyList_New(t->n_returns);
    for (uint32_t i = 0; list && i < t->n_returns; i++)
        PyList_SET_ITEM(list, (Py_ssize_t)i, PyLong_FromUnsignedLong(task_result(&p->s, t, i)));
    return list;
}

static uint64_t ticks_of(const ProxyObject *p, double seconds)
{
    double ticks = seconds * 1e9 / ns_per_tick(p->s.h);
    return ticks > 0 ? ticks < 1e18 ? (uint64_t)ticks : UINT64_C(1000000000000000000) : 0;
}

static PyObject *proxy_finish(ProxyObject *p, PyObject *args)
{
    PyObject *number;
    int status;
    unsigned int pid = 0;
    double began = 0, ended = 0;
    uint32_t task;
    if (!PyArg_ParseTuple(args, "Oi|Idd:finish", &number, &status, &pid, &began, &ended))
        return NULL;
    if (status < 0 || status > EVENT_CRASHED)
        return PyErr_Format(PyExc_ValueError, "unknown status %d", status);
    if (proxy_usable(p) < 0 || parse_running(p, number, &task) < 0)
        return NULL;
    uint64_t began_ticks = pid ? ticks_of(p, began) : 0, ended_ticks = pid ? ticks_of(p, ended) : 0;
    segment_lock(&p->s);
    if (pid)
        proxy_record_run(&p->s, task, pid, began_ticks, ended_ticks);
    task_finish(&p->s, task, (uint32_t)status);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

static PyObject *proxy_began(ProxyObject *p, PyObject *args)
{
    PyObject *number;
    unsigned int pid;
    double ago;
    uint32_t task;
    if (!PyArg_ParseTuple(args, "OId:began", &number, &pid, &ago) || proxy_usable(p) < 0 || parse_running(p, number, &task) < 0)
        return NULL;
    uint64_t ticks = ticks_of(p, ago);
    segment_lock(&p->s);
    proxy_record_run(&p->s, task, pid, ticks, PROXY_RUNS_ON);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

static PyObject *proxy_return_task(ProxyObject *p, PyObject *number)
{
    uint32_t task;
    if (proxy_usable(p) < 0 || parse_running(p, number, &task) < 0)
        return NULL;
    segment_lock(&p->s);
    proxy_give_back(&p->s, task);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

/* Those of a list of tasks of which something is true: 1, 0; -1: an exception. */
static PyObject *those_tasks(ProxyObject *p, PyObject *list, int (*holds)(ProxyObject *, PyObject *))
{
    if (proxy_usable(p) < 0)
        return NULL;
    PyObject *found = PyList_New(0), *items = PySequence_Fast(list, "expected a list of tasks");
    for (Py_ssize_t i = 0; found && items && i < PySequence_Fast_GET_SIZE(items); i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(items, i);
        int yes = holds(p, item);
        if (yes < 0 || (yes && PyList_Append(found, item) < 0))
            Py_CLEAR(found);
    }
    if (!items)
        Py_CLEAR(found);
    Py_XDECREF(items);
    return found;
}

static int is_cancelled(ProxyObject *p, PyObject *number)
{
    uint32_t task;
    return parse_running(p, number, &task) < 0 ? -1 : (p->s.tasks[task].flags & TASK_FLAG_CANCEL) != 0;
}

static PyObject *proxy_cancelled(ProxyObject *p, PyObject *list) { return those_tasks(p, list, is_cancelled); }

/* ------------------------------------------------------------------ tasks of theirs that run here */

static PyObject *proxy_submit(ProxyObject *p, PyObject *args)
{
    unsigned int function, class, n_dependencies, n_returns, flags, origin, group = 0;
    int max_retries;
    long long limit = -1; /* of its stream */
    unsigned long long parent;
    Py_buffer arguments;
    PyObject *list, *actor = Py_None, *result = NULL;
    if (!PyArg_ParseTuple(args, "IIy*O!IIiIIK|OIL:submit", &function, &class, &arguments, &PyList_Type, &list, &n_dependencies, &n_returns,
                          &max_retries, &flags, &origin, &parent, &actor, &group, &limit))
        return NULL;
    Py_ssize_t n;
    uint32_t task = 0, actor_1 = 0, stream = 0, *refs = NULL;
    if (proxy_usable(p) < 0 || (actor != Py_None && parse_actor_object(p, actor, &actor_1) < 0) || !(refs = parse_slots(p, list, n_returns + 1, &n)))
        goto done;
    if (function >= p->s.h->touched_objects || class >= p->s.h->n_classes || n_dependencies > (size_t)n || n_returns > UINT16_MAX ||
        limit < -1 || limit > UINT32_MAX || (limit >= 0 && n_returns != 1) ||
        max_retries < -1 || max_retries > INT16_MAX || group >= MAX_GROUPS || arguments.len > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "submit: a number is out of range");
        goto done;
    }
    struct task_spec spec = {.function = function, .resource_class = class, .n_returns = n_returns, .n_dependencies = n_dependencies,
                             .n_refs = (uint32_t)n, .refs = refs, .arguments = arguments.buf, .arguments_size = (uint32_t)arguments.len,
                             .origin = origin, .parent = parent, .max_retries = (int16_t)max_retries, .actor_1 = actor_1, .group = (uint16_t)group,
                             .flags = (uint16_t)(flags & (TASK_FLAG_RETRY_EXCEPTIONS | TASK_FLAG_ENV | TASK_FLAG_STAYS))};
    segment_lock(&p->s);
    uint32_t *made = refs + n + 1; /* behind the stream */
    int error = limit < 0 ? task_submit(&p->s, &spec, made, &task) : stream_submit(&p->s, &spec, refs, (uint32_t)limit, made, &stream);
    if (!error && limit >= 0)
        task = task_producing(&p->s, made[0]);
    uint64_t seq = error ? 0 : p->s.objects[made[0]].creator;
    segment_unlock(&p->s);
    if (error)
        raise_core_error(p->client, error, "a task from another machine");
    else
        result = Py_BuildValue("(IKNi)", task, (unsigned long long)seq, list_of(made, (Py_ssize_t)n_returns), limit < 0 ? -1 : (int)stream);
done:
    PyMem_Free(refs);
    PyBuffer_Release(&arguments);
    return result;
}

/* Ends a task that we have submitted, as `cancel` does. */
static PyObject *proxy_cancel(ProxyObject *p, PyObject *args)
{
    PyObject *number;
    int force;
    uint32_t slot, task = 0, worker = UINT32_MAX;
    if (!PyArg_ParseTuple(args, "Op:cancel", &number, &force) || proxy_usable(p) < 0 || parse_slot(p, number, &slot) < 0)
        return NULL;
    segment_lock(&p->s);
    if (task_cancel(&p->s, slot, &task, &worker) == CANCEL_RUNNING && worker < MAX_CLIENTS)
        signal_worker(&p->s, worker, force ? SIGKILL : SIGINT);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

/* A task that we have submitted and that has not begun is not to begin any more. */
static PyObject *proxy_withdraw(ProxyObject *p, PyObject *args)
{
    unsigned int task;
    unsigned long long seq;
    if (!PyArg_ParseTuple(args, "IK:withdraw", &task, &seq) || proxy_usable(p) < 0)
        return NULL;
    segment_lock(&p->s);
    struct task_slot *t = task < p->s.h->touched_tasks ? &p->s.tasks[task] : NULL;
    bool waits = t && t->seq == seq && t->caller == p->s.me && atomic_load(&t->state) == TASK_READY && !t->actor_1;
    if (waits) {
        task_seal_failed(&p->s, task, FAILURE_CANCELLED, 0);
        task_discard(&p->s, task);
    }
    segment_unlock(&p->s);
    return PyBool_FromLong(waits);
}

/* ------------------------------------------------------------------ objects */

static PyObject *proxy_create(ProxyObject *p, PyObject *unused)
{
    (void)unused;
    uint32_t slot;
    if (proxy_usable(p) < 0)
        return NULL;
    segment_lock(&p->s);
    int error = proxy_create_object(&p->s, &slot);
    segment_unlock(&p->s);
    return error ? raise_core_error(p->client, error, "objects") : PyLong_FromUnsignedLong(slot);
}

/* Seals an object with bytes that came from elsewhere. False: it was sealed already. */
static PyObject *proxy_seal(ProxyObject *p, PyObject *args)
{
    PyObject *number, *list;
    unsigned int state;
    Py_buffer bytes;
    int in_arena = 0;
    if (!PyArg_ParseTuple(args, "OIy*O!|p:seal", &number, &state, &bytes, &PyList_Type, &list, &in_arena))
        return NULL;
    PyObject *result = NULL;
    uint32_t slot, *refs = NULL;
    Py_ssize_t n = 0;
    if (proxy_usable(p) < 0 || parse_slot(p, number, &slot) < 0 || !(refs = parse_slots(p, list, 0, &n)))
        goto done;
    if (state != OBJECT_READY && state != OBJECT_ERROR) {
        PyErr_Format(PyExc_ValueError, "seal: unknown state %u", state);
        goto done;
    }
    bool sealed;
    if (bytes.len <= (Py_ssize_t)OBJECT_INLINE_SIZE && !n && !in_arena) {
        segment_lock(&p->s);
        sealed = object_seal_inline(&p->s, slot, state, bytes.buf, (uint32_t)bytes.len);
        task_release_waiting(&p->s, slot);
        segment_unlock(&p->s);
    } else {
        uint64_t chunk = allocate_at_once(p, (uint64_t)bytes.len, (uint32_t)n);
        if (!chunk)
            goto done;
        memcpy(p->s.base + chunk, bytes.buf, (size_t)bytes.len);
        memcpy(object_refs_at(&p->s, chunk, (uint64_t)bytes.len), refs, (size_t)n * sizeof *refs);
        segment_lock(&p->s);
        sealed = object_seal_arena(&p->s, slot, state, chunk, (uint64_t)bytes.len, (uint32_t)n);
        if (!sealed)
            arena_free(&p->s.h->arena, p->s.base, chunk);
        task_release_waiting(&p->s, slot);
        segment_unlock(&p->s);
    }
    result = PyBool_FromLong(sealed);
done:
    PyMem_Free(refs);
    PyBuffer_Release(&bytes);
    return result;
}

static PyObject *proxy_seal_failed(ProxyObject *p, PyObject *args)
{
    PyObject *number;
    unsigned int code;
    int detail;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OIi:seal_failed", &number, &code, &detail) || proxy_usable(p) < 0 || parse_slot(p, number, &slot) < 0)
        return NULL;
    segment_lock(&p->s);
    bool sealed = object_seal_failed(&p->s, slot, code, detail, p->s.objects[slot].creator);
    task_release_waiting(&p->s, slot);
    segment_unlock(&p->s);
    return PyBool_FromLong(sealed);
}

static PyObject *proxy_seal_elsewhere(ProxyObject *p, PyObject *args)
{
    PyObject *number;
    unsigned long long size;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OK:seal_elsewhere", &number, &size) || proxy_usable(p) < 0 || parse_slot(p, number, &slot) < 0)
        return NULL;
    if (size < OBJECT_MOVABLE || size > ARENA_MAX_SIZE)
        return PyErr_Format(PyExc_ValueError, "an object of %llu bytes cannot stay where it is", size);
    segment_lock(&p->s);
    bool sealed = object_seal_elsewhere(&p->s, slot, size);
    task_release_waiting(&p->s, slot);
    segment_unlock(&p->s);
    return PyBool_FromLong(sealed);
}

static PyObject *proxy_move(ProxyObject *p, PyObject *args)
{
    PyObject *number;
    int lost;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "Op:move", &number, &lost) || proxy_usable(p) < 0 || parse_slot(p, number, &slot) < 0)
        return NULL;
    segment_lock(&p->s);
    object_move_elsewhere(&p->s, slot, lost);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

/* Where the bytes of an object are: here, also on disk; elsewhere; nowhere. */
enum { HERE = 0, ELSEWHERE = 1, LOST = 2 };

static int place_of(ProxyObject *p, uint32_t slot)
{
    const struct object_slot *o = &p->s.objects[slot];
    return !object_is_elsewhere(o) ? HERE : away_proxy_of(&p->s, o) < MAX_CLIENTS ? ELSEWHERE : LOST;
}

/* (state, size, references, failure code, failure detail, place). */
static PyObject *proxy_look(ProxyObject *p, PyObject *number)
{
    uint32_t slot;
    if (proxy_usable(p) < 0 || parse_slot(p, number, &slot) < 0)
        return NULL;
    const struct object_slot *o = &p->s.objects[slot];
    uint32_t state = object_state(o);
    bool failed = state == OBJECT_FAILED;
    if (!proxy_suits_object(&p->s, slot))
        return PyErr_Format(PyExc_TypeError, "object %u is a stream", slot);
    uint32_t n = object_n_refs(&p->s, o);
    PyObject *refs = n ? list_of(object_refs_at(&p->s, object_chunk(o), o->size), n) : PyList_New(0);
    return Py_BuildValue("(IKNIii)", state, (unsigned long long)(state >= OBJECT_READY ? o->size : 0), refs, failed ? o->u.failure.code : 0,
                         failed ? (int)o->u.failure.detail : 0, place_of(p, slot));
}

/* Some of an object's bytes. */
static PyObject *proxy_read(ProxyObject *p, PyObject *args)
{
    PyObject *number;
    unsigned long long at;
    Py_ssize_t n;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OKn:read", &number, &at, &n) || proxy_usable(p) < 0 || parse_slot(p, number, &slot) < 0)
        return NULL;
    struct object_slot *o = &p->s.objects[slot];
    uint32_t state = object_state(o);
    if ((state != OBJECT_READY && state != OBJECT_ERROR) || n < 0 || at > o->size || (uint64_t)n > o->size - at)
        return PyErr_Format(PyExc_ValueError, "object %u has no such bytes", slot);
    if (place_of(p, slot) != HERE)
        return PyErr_Format(PyExc_ValueError, "object %u has to be brought first", slot); /* by this process: it cannot wait for itself */
    if (!atomic_load(&o->offset))
        return PyBytes_FromStringAndSize((const char *)o->u.inline_data + at, n);
    bool movable = o->size >= OBJECT_MOVABLE;
    if (movable)
        begin_reading(p->client, slot);
    int back = 0;
    while (movable && object_is_away(o) && back == 0)
        back = bring_back(p->client, slot);
    uint64_t chunk = object_chunk(o);
    PyObject *bytes = back < 0 ? NULL : PyBytes_FromStringAndSize((const char *)p->s.base + chunk + at, n);
    if (movable)
        end_reading(p->client, slot);
    return bytes;
}

static PyObject *proxy_hold(ProxyObject *p, PyObject *args)
{
    unsigned int slot, generation;
    if (!PyArg_ParseTuple(args, "II:hold", &slot, &generation) || proxy_usable(p) < 0)
        return NULL;
    segment_lock(&p->s);
    bool found = object_find(&p->s, slot, generation);
    segment_unlock(&p->s);
    return PyBool_FromLong(found);
}

static PyObject *proxy_generation(ProxyObject *p, PyObject *number)
{
    uint32_t slot;
    if (proxy_usable(p) < 0 || parse_slot(p, number, &slot) < 0)
        return NULL;
    return PyLong_FromUnsignedLong(p->s.objects[slot].generation);
}

static PyObject *proxy_drop(ProxyObject *p, PyObject *list)
{
    Py_ssize_t n;
    uint32_t *slots = proxy_usable(p) < 0 ? NULL : parse_slots(p, list, 0, &n);
    if (!slots)
        return NULL;
    client_drop(&p->s, slots, (uint32_t)n);
    PyMem_Free(slots);
    Py_RETURN_NONE;
}

/* Asks to be woken when it is sealed. False: it is. */
static PyObject *proxy_await(ProxyObject *p, PyObject *number)
{
    uint32_t slot;
    if (proxy_usable(p) < 0 || parse_slot(p, number, &slot) < 0)
        return NULL;
    atomic_store(&p->s.clients[p->s.me].need, 0); /* every seal is news */
    return PyBool_FromLong(object_mark_waiting(&p->s, slot));
}

static bool is_sealed(const struct segment *s, uint32_t slot) { return object_sealed(&s->objects[slot]); }

/* Those of a list of objects of which something is true. */
static PyObject *those(ProxyObject *p, PyObject *list, bool (*holds)(const struct segment *, uint32_t), bool locked)
{
    Py_ssize_t n, n_found = 0;
    uint32_t *slots = proxy_usable(p) < 0 ? NULL : parse_slots(p, list, 0, &n);
    if (!slots)
        return NULL;
    for (Py_ssize_t i = 0; i < n;) { /* not all of a long list under the lock at once */
        if (locked)
            segment_lock(&p->s);
        for (Py_ssize_t end = i + MOST_LOOKED_AT; i < n && i < end; i++)
            if (holds(&p->s, slots[i]))
                slots[n_found++] = slots[i];
        if (locked)
            segment_unlock(&p->s);
    }
    PyObject *found = list_of(slots, n_found);
    PyMem_Free(slots);
    return found;
}

static PyObject *proxy_sealed(ProxyObject *p, PyObject *list) { return those(p, list, is_sealed, false); }
static PyObject *proxy_unused(ProxyObject *p, PyObject *list) { return those(p, list, proxy_holds_alone, true); }
static PyObject *proxy_wanted(ProxyObject *p, PyObject *list) { return those(p, list, proxy_is_wanted, false); }

/* ------------------------------------------------------------------ bringing what lies there */

/* Begins: memory for it, as a number; 0: it is here, or being brought, or there is no room and none is to be made. */
static PyObject *proxy_begin(ProxyObject *p, PyObject *args)
{
    PyObject *number;
    int makes_room = 1;
    uint32_t slot;
    struct away_move move;
    if (!PyArg_ParseTuple(args, "O|p:begin", &number, &makes_room) || proxy_usable(p) < 0 || parse_slot(p, number, &slot) < 0)
        return NULL;
    segment_lock(&p->s);
    int error = away_claim(&p->s, slot, &move);
    segment_unlock(&p->s);
    if (error)
        return PyLong_FromLong(0);
    uint64_t chunk = makes_room ? allocate_at_once(p, move.size, 0) : allocate_free(p, move.size, 0);
    if (!chunk) {
        segment_lock(&p->s);
        away_give_up(&p->s, slot);
        segment_unlock(&p->s);
        return PyErr_Occurred() ? NULL : PyLong_FromLong(0);
    }
    return PyLong_FromUnsignedLongLong(chunk);
}

static PyObject *proxy_fill(ProxyObject *p, PyObject *args)
{
    unsigned long long chunk, at;
    Py_buffer bytes;
    PyObject *number;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OKKy*:fill", &number, &chunk, &at, &bytes))
        return NULL;
    bool ok = proxy_usable(p) == 0 && parse_slot(p, number, &slot) == 0;
    if (ok && (at > p->s.objects[slot].size || (uint64_t)bytes.len > p->s.objects[slot].size - at)) {
        PyErr_SetString(PyExc_ValueError, "fill: beyond the object's end");
        ok = false;
    }
    if (ok) {
        unsigned char *to = p->s.base + chunk + at;
        Py_BEGIN_ALLOW_THREADS
        memcpy(to, bytes.buf, (size_t)bytes.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&bytes);
    if (!ok)
        return NULL;
    Py_RETURN_NONE;
}

/* Some of those that have come, for somebody who gets them from here. */
static PyObject *proxy_peek(ProxyObject *p, PyObject *args)
{
    unsigned long long chunk, at;
    Py_ssize_t n;
    PyObject *number;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OKKn:peek", &number, &chunk, &at, &n) || proxy_usable(p) < 0 || parse_slot(p, number, &slot) < 0)
        return NULL;
    uint64_t size = p->s.objects[slot].size;
    if (n < 0 || at > size || (uint64_t)n > size - at)
        return PyErr_Format(PyExc_ValueError, "peek: beyond the object's end");
    return PyBytes_FromStringAndSize((const char *)p->s.base + chunk + at, n);
}

/* Ends it: the bytes are complete, or come to nothing. */
static PyObject *proxy_end(ProxyObject *p, PyObject *args)
{
    unsigned long long chunk;
    PyObject *number;
    int complete;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OKp:end", &number, &chunk, &complete) || proxy_usable(p) < 0 || parse_slot(p, number, &slot) < 0)
        return NULL;
    struct away_move move = {.slot = slot, .generation = p->s.objects[slot].generation, .size = p->s.objects[slot].size};
    segment_lock(&p->s);
    if (complete) {
        away_return(&p->s, &move, chunk);
    } else {
        away_give_up(&p->s, slot);
        arena_free(&p->s.h->arena, p->s.base, chunk);
    }
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

/* For the record. */
static PyObject *proxy_transfer(ProxyObject *p, PyObject *args)
{
    PyObject *number;
    unsigned long long size;
    unsigned int journey;
    int comes;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OKIp:transfer", &number, &size, &journey, &comes) || proxy_usable(p) < 0 || parse_slot(p, number, &slot) < 0)
        return NULL;
    segment_lock(&p->s);
    proxy_record_transfer(&p->s, slot, size, journey, comes);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

static PyObject *proxy_transferred(ProxyObject *p, PyObject *args)
{
    PyObject *number;
    unsigned int journey;
    int comes, complete;
    uint32_t slot;
    if (!PyArg_ParseTuple(args, "OIpp:transferred", &number, &journey, &comes, &complete) || proxy_usable(p) < 0 || parse_slot(p, number, &slot) < 0)
        return NULL;
    segment_lock(&p->s);
    proxy_record_transferred(&p->s, slot, journey, comes, complete);
    segment_unlock(&p->s);
    Py_RETURN_NONE;
}

/* What an actor of that class keeps once it has been constructed, and the environment that the class wants. */
static PyObject *proxy_kept(ProxyObject *p, PyObject *number)
{
    unsigned long class = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() || proxy_usable(p) < 0)
        return NULL;
    if (class >= p->s.h->n_classes)
        return PyErr_Format(PyExc_ValueError, "unknown resource class %lu", class);
    return Py_BuildValue("(NI)", amounts_to_python(&p->s, p->s.classes[class].hold), (unsigned)p->s.classes[class].env);
}

#define PROXY(name, function, flags, doc) {name, (PyCFunction)(void (*)(void))function, flags, doc}
static PyMethodDef proxy_methods[] = {
    PROXY("close", proxy_close, METH_O, "close(code)\n--\n\nThe machine is gone, or out of reach: buries its client."),
    PROXY("take", proxy_take_tasks, METH_VARARGS,
          "take(resource_class, most, by_place)\n--\n\n[(task, number, class, function, arguments, refs, n_dependencies, n_returns, max_retries, flags, attempt, "
          "origin, parent, actor, actor's object, group)]; they run there now."),
    PROXY("results", proxy_results, METH_O, "results(task)\n--\n\nThe slots of its results."),
    PROXY("finish", proxy_finish, METH_VARARGS,
          "finish(task, status, pid, began, ended)\n--\n\nIts results are sealed. It ran in that process there, from so many seconds ago until so "
          "many seconds ago; pid 0: nobody knows."),
    PROXY("began", proxy_began, METH_VARARGS, "began(task, pid, ago)\n--\n\nIt runs there, in that process, since so many seconds ago."),
    PROXY("give_back", proxy_return_task, METH_O, "give_back(task)\n--\n\nIt has not begun there; others may take it."),
    PROXY("cancelled", proxy_cancelled, METH_O, "cancelled(tasks)\n--\n\nThose of them that nobody wants any more."),
    PROXY("submit", proxy_submit, METH_VARARGS,
          "submit(function, class, arguments, refs, n_dependencies, n_returns, max_retries, flags, origin, parent, actor=None, group=0, "
          "limit of its stream=-1)\n--\n\n(task, number, results, stream or -1)."),
    PROXY("actor", proxy_actor, METH_O, "actor(object)\n--\n\n(actor, state, detail of its death, whether it died for good, spec, checkpoint or -1); None: it is a value."),
    PROXY("kept", proxy_kept, METH_O, "kept(resource_class)\n--\n\n({name: ten-thousandths} that an actor keeps once constructed, environment)."),
    PROXY("host", proxy_host_actor, METH_VARARGS,
          "host(object, spec, function, class, arguments, refs, n_dependencies, flags, attempt, origin, checkpoint)\n--\n\nBegins an actor of theirs here: (task, number, results)."),
    PROXY("stand_in", proxy_make_stand_in, METH_VARARGS, "stand_in(object, spec, function, class)\n--\n\nMakes an object stand for an actor of theirs; its index."),
    PROXY("bind", proxy_bind, METH_O, "bind(task)\n--\n\nThe constructor has returned there."),
    PROXY("construction_failed", proxy_construction_failed, METH_O, "construction_failed(task)\n--\n\nThe constructor has raised; its result tells what."),
    PROXY("lose_actor", proxy_lose_actor, METH_VARARGS,
          "lose_actor(actor, code, for_good, begun, others)\n--\n\nIt has ended there, with these calls of it begun, and others not."),
    PROXY("kill", proxy_kill_actor, METH_VARARGS, "kill(object, no_restart)\n--\n\nEnds the actor that the object stands for."),
    PROXY("calls", proxy_calls, METH_VARARGS, "calls(actor, most)\n--\n\nCalls of an actor that lives there, as `take` tells of tasks."),
    PROXY("checkpoint", proxy_checkpoint, METH_VARARGS, "checkpoint(actor's object, object)\n--\n\nWhat it has saved for its next life."),
    PROXY("stream_limit", proxy_stream_limit, METH_O, "stream_limit(task)\n--\n\nHow far its stream may be ahead of its reader; 0: as far as it likes."),
    PROXY("item", proxy_item, METH_VARARGS, "item(task, index)\n--\n\nThe slot for an item; -1: it is there, -2: nobody reads on."),
    PROXY("taken", proxy_taken, METH_VARARGS, "taken(task, n)\n--\n\nItems that its reader has taken, 2**63 - 1 if nobody reads on; wakes this proxy when one is taken while `n` are too many."),
    PROXY("ahead", proxy_ahead, METH_VARARGS, "ahead(stream, index)\n--\n\nThe slot of a sealed item; None: not yet, or never. Wakes this proxy."),
    PROXY("advance", proxy_advance, METH_VARARGS, "advance(stream, n)\n--\n\nItems below `n` have been taken."),
    PROXY("find_actor", proxy_find_actor, METH_VARARGS, "find_actor(name, namespace)\n--\n\nThe slot of the living actor of that name, or None."),
    PROXY("actor_news", proxy_actor_news, METH_O, "actor_news(actors)\n--\n\n[(actor, has calls, has ended, is to be killed, for good)] of those with any of it."),
    PROXY("withdraw", proxy_withdraw, METH_VARARGS, "withdraw(task, number)\n--\n\nA task that this proxy has submitted will not begin. False: it has."),
    PROXY("cancel", proxy_cancel, METH_VARARGS, "cancel(result, force)\n--\n\nEnds the task that makes it."),
    PROXY("create", proxy_create, METH_NOARGS, "create()\n--\n\nAn object that is to come, held by this proxy."),
    PROXY("seal", proxy_seal, METH_VARARGS, "seal(object, state, bytes, refs, in_arena=False)\n--\n\nFalse: it was sealed already."),
    PROXY("seal_failed", proxy_seal_failed, METH_VARARGS, "seal_failed(object, code, detail)\n--\n\nFalse: it was sealed already."),
    PROXY("seal_elsewhere", proxy_seal_elsewhere, METH_VARARGS, "seal_elsewhere(object, size)\n--\n\nIts bytes stay on that machine until they are read."),
    PROXY("move", proxy_move, METH_VARARGS, "move(object, lost)\n--\n\nWhat lies elsewhere is brought by this proxy, or by nobody any more."),
    PROXY("look", proxy_look, METH_O, "look(object)\n--\n\n(state, size, refs, failure code, failure detail, place: 0 here, 1 elsewhere, 2 lost)."),
    PROXY("read", proxy_read, METH_VARARGS, "read(object, at, n)\n--\n\nSome of its bytes."),
    PROXY("hold", proxy_hold, METH_VARARGS, "hold(object, generation)\n--\n\nFalse: it has gone."),
    PROXY("generation", proxy_generation, METH_O, "generation(object)\n--\n\nWith its slot, its identity."),
    PROXY("drop", proxy_drop, METH_O, "drop(objects)\n--\n\nThe machine refers to them no more."),
    PROXY("await_sealed", proxy_await, METH_O, "await_sealed(object)\n--\n\nAsks for a wake-up; False: it is sealed."),
    PROXY("sealed", proxy_sealed, METH_O, "sealed(objects)\n--\n\nThose that are."),
    PROXY("unused", proxy_unused, METH_O, "unused(objects)\n--\n\nThose that nobody but this proxy refers to."),
    PROXY("wanted", proxy_wanted, METH_O, "wanted(objects)\n--\n\nThose that lie elsewhere and that somebody wants to read."),
    PROXY("begin", proxy_begin, METH_VARARGS,
          "begin(object, makes_room=True)\n--\n\nMemory for what lies elsewhere; 0: it needs none. Without `makes_room` nothing goes to disk for "
          "it: 0, too, if there is none."),
    PROXY("fill", proxy_fill, METH_VARARGS, "fill(object, memory, at, bytes)\n--\n\nSome of its bytes have come."),
    PROXY("peek", proxy_peek, METH_VARARGS, "peek(object, memory, at, n)\n--\n\nSome of the bytes that have come."),
    PROXY("transfer", proxy_transfer, METH_VARARGS,
          "transfer(object, size, number, comes)\n--\n\nFor the record: its bytes begin to travel, from there to here or the other way."),
    PROXY("transferred", proxy_transferred, METH_VARARGS,
          "transferred(object, number, comes, complete)\n--\n\nFor the record: they have arrived, or will not."),
    PROXY("end", proxy_end, METH_VARARGS, "end(object, memory, complete)\n--\n\nIt is here now, or will not come."),
    {NULL}};
static PyGetSetDef proxy_getset[] = {{"index", (getter)proxy_index, NULL, "Its client slot.", NULL}, {NULL}};
static PyType_Slot proxy_slots[] = {{Py_tp_new, (void *)proxy_new}, {Py_tp_dealloc, (void *)proxy_dealloc}, {Py_tp_methods, proxy_methods},
                                    {Py_tp_getset, proxy_getset}, {Py_tp_doc, "Proxy(client, node=0)\n--\n\nA client that stands for another machine, the one of that number."}, {0, NULL}};
PyType_Spec proxy_spec = {"cellmesh.objstore._core.Proxy", sizeof(ProxyObject), 0, Py_TPFLAGS_DEFAULT, proxy_slots};
