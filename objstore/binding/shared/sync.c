/* Barriers, counters and conditions in shared memory, for `cellmesh.util.shared_sync`: waiting with the GIL released,
 * until what is waited for is there, time is up, a signal has come, or a member has died. The protocol is that of
 * core/objects/shared_sync.h; its results go to Python as they are. */
#include "shared/shared.h"

#include <errno.h>
#include <unistd.h>

#include "objects/shared_sync.h"

static _Atomic int trust = TRUST_MAX; /* does looking before sleeping pay? of this process */

/* ------------------------------------------------------------------ arguments */

typedef struct {
    ClientObject *client;
    struct shared_sync *sync;
} Sync;

/* -1: an exception. */
static int parse_sync(PyObject *module, PyObject *ref, uint32_t kind, Sync *to)
{
    if (Py_TYPE(ref) != core_state(module)->ref_type) {
        PyErr_Format(PyExc_TypeError, "a ref of a primitive is expected, not %R", ref);
        return -1;
    }
    ClientObject *c = ((RefObject *)ref)->client;
    uint64_t size;
    if (client_usable(c) < 0 || !shared_bytes(c, ref, &size))
        return -1;
    *to = (Sync){c, sync_at(&c->s, ((RefObject *)ref)->slot, kind)};
    if (!to->sync)
        raise_core_error(c, OBJSTORE_CORRUPT, "something has overwritten a barrier, a counter or a condition");
    return to->sync ? 0 : -1;
}

/* A number that no other thread of the client has. */
static uint32_t this_thread(const ClientObject *c)
{
    static _Thread_local uint32_t id;
    static _Thread_local int of;
    if (of != c->pid) {
        of = c->pid;
        id = (uint32_t)gettid();
    }
    return id;
}

/* ------------------------------------------------------------------ sleeping */

typedef struct {
    Sync on;
    _Atomic uint32_t *word, *sleepers;
    int64_t end, slice; /* end: monotonic, ns */
    bool heeds_signals;
} Sleep;

static Sleep new_sleep(Sync on, bool for_lock, double timeout)
{
    struct shared_sync *b = on.sync;
    return (Sleep){.on = on,
                   .word = for_lock ? &b->lock_news : &b->news,
                   .sleepers = for_lock ? &b->lock_sleepers : &b->sleepers,
                   .end = timeout < 0 ? INT64_MAX : monotonic_ns() + (int64_t)(timeout < 9e9 ? timeout * 1e9 : 9e18),
                   .slice = FIRST_SLICE_NS,
                   .heeds_signals = true};
}

/* Sleeps until the word is no longer `seen`, for a slice at most, see sleep_a_slice in wait.c. 1: time is up; -1: an
 * exception. */
static int sleep_on(Sleep *z, uint32_t seen)
{
    ClientObject *c = z->on.client;
    int64_t left = z->end - (z->end == INT64_MAX ? 0 : monotonic_ns());
    if (left <= 0)
        return 1;
    bool mine = z->heeds_signals && z->slice > FIRST_SLICE_NS && interrupts_to_me(z->word);
    int result = mine && PyErr_CheckSignals() < 0 ? -1 : 0;
    if (z->slice > FIRST_SLICE_NS)
        flush_drops(c); /* a long wait; what is dropped here may be what others want room for */
    if (result == 0) {
        int64_t ns = left < z->slice ? left : z->slice;
        Py_BEGIN_ALLOW_THREADS
        if (word_sleep(z->word, z->sleepers, seen, ns, &trust) == ETIMEDOUT) {
            z->slice = longer_slice(z->slice);
            sync_look_after(&c->s, z->on.sync);
        }
        Py_END_ALLOW_THREADS
    }
    if (mine)
        interrupts_to_any_thread();
    if (result < 0 || (z->heeds_signals && PyErr_CheckSignals() < 0) || client_usable(c) < 0)
        return -1;
    return 0;
}

static PyObject *as_result(int result) { return PyLong_FromLong(result); }

/* ------------------------------------------------------------------ barriers */

static int wait_for_others(Sync on, uint64_t ticket, double timeout)
{
    Sleep z = new_sleep(on, false, timeout);
    for (;;) {
        uint32_t seen = atomic_load(z.word);
        int found = barrier_look(on.sync, ticket);
        if (found != SYNC_PENDING)
            return found;
        int slept = sleep_on(&z, seen);
        if (slept == 0)
            continue;
        found = barrier_withdraw(on.sync, ticket);
        return slept < 0 ? -1 : found;
    }
}

static PyObject *barrier_wait(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    Sync on;
    double timeout;
    uint64_t ticket;
    if (n != 2)
        return PyErr_Format(PyExc_TypeError, "barrier_wait(ref, timeout)");
    if (parse_sync(module, args[0], SYNC_BARRIER, &on) < 0 || parse_timeout(args[1], &timeout) < 0)
        return NULL;
    int result = barrier_arrive(&on.client->s, on.sync, &ticket);
    if (result == SYNC_PENDING)
        result = wait_for_others(on, ticket, timeout);
    return result < 0 ? NULL : as_result(result);
}

static PyObject *core_barrier_arrive(PyObject *module, PyObject *ref)
{
    Sync on;
    uint64_t ticket;
    if (parse_sync(module, ref, SYNC_BARRIER, &on) < 0)
        return NULL;
    return as_result(barrier_arrive(&on.client->s, on.sync, &ticket));
}

static PyObject *core_barrier_arrived(PyObject *module, PyObject *ref)
{
    Sync on;
    return parse_sync(module, ref, SYNC_BARRIER, &on) < 0 ? NULL : PyLong_FromUnsignedLong(barrier_n_arrived(on.sync));
}

/* ------------------------------------------------------------------ counters */

static PyObject *core_counter_add(PyObject *module, PyObject *args)
{
    Sync on;
    PyObject *ref;
    long long n;
    int64_t value;
    if (!PyArg_ParseTuple(args, "OL:counter_add", &ref, &n) || parse_sync(module, ref, SYNC_COUNTER, &on) < 0)
        return NULL;
    if (counter_add(on.sync, n, &value) == SYNC_DONE)
        return PyLong_FromLongLong(value);
    return PyErr_Format(PyExc_OverflowError, "the counter would leave 64 bits: it is at %lld, and stays there",
                        (long long)atomic_load(&on.sync->word));
}

static PyObject *core_counter_set(PyObject *module, PyObject *args)
{
    Sync on;
    PyObject *ref;
    long long value;
    if (!PyArg_ParseTuple(args, "OL:counter_set", &ref, &value) || parse_sync(module, ref, SYNC_COUNTER, &on) < 0)
        return NULL;
    return PyLong_FromLongLong((long long)atomic_exchange(&on.sync->word, (uint64_t)value));
}

static PyObject *core_counter_get(PyObject *module, PyObject *ref)
{
    Sync on;
    return parse_sync(module, ref, SYNC_COUNTER, &on) < 0 ? NULL
                                                          : PyLong_FromLongLong((long long)atomic_load(&on.sync->word));
}

/* ------------------------------------------------------------------ conditions */

static int lock_it(Sync on, double timeout, bool heeds_signals)
{
    int result = condition_lock(&on.client->s, on.sync, this_thread(on.client));
    if (result != SYNC_PENDING || timeout == 0)
        return result;
    Sleep z = new_sleep(on, true, timeout);
    z.heeds_signals = heeds_signals;
    for (;;) {
        uint32_t seen = atomic_load(z.word);
        result = condition_lock(&on.client->s, on.sync, this_thread(on.client));
        int slept = result == SYNC_PENDING ? sleep_on(&z, seen) : 1;
        if (slept != 0)
            return slept < 0 ? -1 : result;
    }
}

static PyObject *core_condition_lock(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    Sync on;
    double timeout;
    if (n != 2)
        return PyErr_Format(PyExc_TypeError, "condition_lock(ref, timeout)");
    if (parse_sync(module, args[0], SYNC_CONDITION, &on) < 0 || parse_timeout(args[1], &timeout) < 0)
        return NULL;
    int result = lock_it(on, timeout, true);
    return result < 0 ? NULL : as_result(result);
}

static PyObject *core_condition_unlock(PyObject *module, PyObject *ref)
{
    Sync on;
    if (parse_sync(module, ref, SYNC_CONDITION, &on) < 0)
        return NULL;
    return as_result(condition_unlock(&on.client->s, on.sync, this_thread(on.client)));
}

/* Locks again, as the owner's block expects it, also when it is interrupted. -1: an exception, the first one. */
static int lock_again(Sync on)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    int result = lock_it(on, -1.0, false);
    if (type)
        PyErr_Restore(type, value, traceback);
    return result;
}

static PyObject *core_condition_wait(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    Sync on;
    double timeout;
    if (n != 2)
        return PyErr_Format(PyExc_TypeError, "condition_wait(ref, timeout)");
    if (parse_sync(module, args[0], SYNC_CONDITION, &on) < 0 || parse_timeout(args[1], &timeout) < 0)
        return NULL;
    if (sync_is_broken(on.sync))
        return as_result(SYNC_BROKEN);
    if (!condition_is_owned(&on.client->s, on.sync, this_thread(on.client)))
        return as_result(SYNC_NOT_OWNED);
    Sleep z = new_sleep(on, false, timeout);
    uint32_t seen = condition_enter(on.sync);
    condition_unlock(&on.client->s, on.sync, this_thread(on.client));
    for (;;) {
        int slept = 0;
        while (slept == 0 && atomic_load(z.word) == seen && !sync_is_broken(on.sync))
            slept = sleep_on(&z, seen);
        int result = lock_again(on);
        bool owned = result == SYNC_DONE;
        if (owned && slept >= 0 && condition_take(on.sync, &seen))
            return as_result(SYNC_DONE);
        if (owned && slept != 0)
            condition_give_up(on.sync);
        if (result < 0 || slept < 0)
            return NULL;
        if (!owned || slept > 0)
            return as_result(owned ? SYNC_PENDING : result);
        condition_unlock(&on.client->s, on.sync, this_thread(on.client));
    }
}

static PyObject *core_condition_notify(PyObject *module, PyObject *args)
{
    Sync on;
    PyObject *ref;
    unsigned int n;
    if (!PyArg_ParseTuple(args, "OI:condition_notify", &ref, &n) || parse_sync(module, ref, SYNC_CONDITION, &on) < 0)
        return NULL;
    if (sync_is_broken(on.sync))
        return as_result(SYNC_BROKEN);
    if (!condition_is_owned(&on.client->s, on.sync, this_thread(on.client)))
        return as_result(SYNC_NOT_OWNED);
    condition_notify(on.sync, n);
    return as_result(SYNC_DONE);
}

/* ------------------------------------------------------------------ all of them */

/* Whether it is broken, and by whom it was last: pid of a member that died, or minus that of who aborted it. */
static PyObject *core_sync_broken(PyObject *module, PyObject *ref)
{
    Sync on;
    if (parse_sync(module, ref, 0, &on) < 0)
        return NULL;
    bool broken = on.sync->kind != SYNC_COUNTER && sync_is_broken(on.sync);
    return Py_BuildValue("Oi", broken ? Py_True : Py_False, (int)atomic_load(&on.sync->broken_by));
}

static PyObject *core_sync_abort(PyObject *module, PyObject *ref)
{
    Sync on;
    if (parse_sync(module, ref, SYNC_BARRIER, &on) < 0)
        return NULL;
    sync_break(on.sync, -on.client->pid);
    Py_RETURN_NONE;
}

static PyObject *core_sync_reset(PyObject *module, PyObject *ref)
{
    Sync on;
    if (parse_sync(module, ref, 0, &on) < 0)
        return NULL;
    if (on.sync->kind != SYNC_COUNTER)
        sync_reset(on.sync);
    Py_RETURN_NONE;
}

/* shared_sync(kind, n, text) -> Ref */
static PyObject *client_shared_sync(ClientObject *c, PyObject *args)
{
    unsigned int kind, n;
    PyObject *text;
    if (!PyArg_ParseTuple(args, "IIU:shared_sync", &kind, &n, &text) || client_usable(c) < 0)
        return NULL;
    struct shared_sync sync = {.kind = kind, .n = n};
    if (!sync_is_sound(&sync))
        return PyErr_Format(PyExc_ValueError, "shared_sync: kind %u for %u processes, of at most %d", kind, n,
                            SYNC_MOST_MEMBERS);
    Encoded e;
    PyObject *ref = NULL;
    if (encode_value(c, &e, text) < 0)
        return NULL;
    if (e.size <= sizeof sync.text) {
        e.size = sizeof sync;
        uint64_t offset = shared_begin(c, &e);
        if (offset) {
            sync_format((struct shared_sync *)(void *)(c->s.base + offset), kind, n);
            ref = shared_seal(c, &e, offset, REFS_OF_SYNC);
        }
    } else {
        PyErr_SetString(PyExc_ValueError, "shared_sync: the text is too long");
    }
    encoded_clear(&e);
    return ref;
}

PyMethodDef sync_methods[] = {
    {"shared_sync", (PyCFunction)client_shared_sync, METH_VARARGS,
     "shared_sync(kind, n, text, /)\n--\n\nA barrier of n, a counter or a condition, called so: its Ref."},
    {NULL}};

PyMethodDef sync_functions[] = {
    {"barrier_wait", FAST(barrier_wait), METH_FASTCALL,
     "barrier_wait(ref, timeout, /)\n--\n\nJoins, and waits: a SYNC_*, SYNC_PENDING when the time is up."},
    {"barrier_arrive", core_barrier_arrive, METH_O,
     "barrier_arrive(ref, /)\n--\n\nJoins, and does not wait: a SYNC_*, SYNC_PENDING if others are still to come."},
    {"barrier_arrived", core_barrier_arrived, METH_O, "barrier_arrived(ref, /)\n--\n\nHow many wait there."},
    {"counter_add", core_counter_add, METH_VARARGS, "counter_add(ref, n, /)\n--\n\nThe new value."},
    {"counter_set", core_counter_set, METH_VARARGS, "counter_set(ref, value, /)\n--\n\nThe value that it had."},
    {"counter_get", core_counter_get, METH_O, "counter_get(ref, /)\n--\n\nThe value."},
    {"condition_lock", FAST(core_condition_lock), METH_FASTCALL,
     "condition_lock(ref, timeout, /)\n--\n\nA SYNC_*, SYNC_PENDING when the time is up."},
    {"condition_unlock", core_condition_unlock, METH_O, "condition_unlock(ref, /)\n--\n\nA SYNC_*."},
    {"condition_wait", FAST(core_condition_wait), METH_FASTCALL,
     "condition_wait(ref, timeout, /)\n--\n\nA SYNC_*: notified (SYNC_DONE) or, when the time is up, SYNC_PENDING."},
    {"condition_notify", core_condition_notify, METH_VARARGS, "condition_notify(ref, n, /)\n--\n\nA SYNC_*."},
    {"sync_broken", core_sync_broken, METH_O,
     "sync_broken(ref, /)\n--\n\nWhether it is broken; and the pid of the member that died last, or minus that of who "
     "aborted it."},
    {"sync_abort", core_sync_abort, METH_O, "sync_abort(ref, /)\n--\n\nBreaks a barrier."},
    {"sync_reset", core_sync_reset, METH_O, "sync_reset(ref, /)\n--\n\nMakes it as new."},
    {NULL}};
