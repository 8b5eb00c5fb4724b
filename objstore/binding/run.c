/* The worker: take a task out of the segment, run it, seal its result, take the next. Plain functions and the calls of
 * ordered actors never leave this file; constructors and async actors are run by Python through next, load, finish. */
#include "binding.h"

#include <errno.h>
#include <string.h>

enum { LEAVE = -1, TIMED_OUT = -2, FAILED = -3 };
#define IDLE_SLICE_NS (INT64_C(10) * 1000 * 1000 * 1000)
#define LITTER_AFTER_NS (INT64_C(500) * 1000 * 1000)

_Thread_local ClientObject *current_client;
_Thread_local uint32_t current_task_1;

static void set_current(ClientObject *c, uint32_t task_1)
{
    current_client = c;
    current_task_1 = task_1;
    c->has_run = true;
}

uint32_t current_call_of(const ClientObject *c)
{
    PyObject *value = NULL;
    if (PyContextVar_Get(c->call_variable, NULL, &value) < 0 || !value) {
        PyErr_Clear();
        return 0;
    }
    unsigned long n = PyLong_Check(value) ? PyLong_AsUnsignedLong(value) : ULONG_MAX;
    if (n == ULONG_MAX)
        PyErr_Clear();
    Py_DECREF(value);
    /* What a call has started in the background may outlive the call. */
    bool runs = n < c->s.h->touched_tasks && atomic_load(&c->s.tasks[n].state) == TASK_RUNNING && c->s.tasks[n].worker == c->s.me;
    return runs ? (uint32_t)n + 1 : 0;
}

/* ------------------------------------------------------------------ taking */

static bool should_leave(ClientObject *c)
{
    struct client_slot *me = &c->s.clients[c->s.me];
    if (atomic_load(&c->s.h->closing))
        return true;
    return me->actor_1 ? actor_ended(&c->s, me->actor_1 - 1) : atomic_load(&me->flags) & CLIENT_FLAG_RETIRE;
}

/* Sleeps until there may be something to take. 0, or FAILED with an exception. */
static int idle(ClientObject *c, uint32_t seen, int64_t ns)
{
    litter_drop_functions(c);
    flush_drops(c);
    int64_t slice = c->has_run ? LITTER_AFTER_NS : IDLE_SLICE_NS;
    Py_BEGIN_ALLOW_THREADS
    client_sleep(&c->s, seen, ns < slice ? ns : slice, &c->trust);
    Py_END_ALLOW_THREADS
    if (c->has_run && ns >= slice && client_inbox(&c->s) == seen) {
        c->has_run = false;
        if (litter_is_worth_it(c))
            litter_collect(c, true);
    }
    return PyErr_CheckSignals() < 0 ? FAILED : 0; /* the end of the session is a reason to leave, not an error */
}

static int64_t take(ClientObject *c, double timeout, bool until_wake)
{
    int64_t end = timeout < 0 ? INT64_MAX : monotonic_ns() + (int64_t)(timeout * 1e9);
    for (;;) {
        uint32_t seen = client_inbox(&c->s);
        segment_lock(&c->s);
        uint32_t task = should_leave(c) ? UINT32_MAX : task_pop(&c->s);
        bool leave = task == UINT32_MAX && should_leave(c);
        segment_unlock(&c->s);
        if (task != UINT32_MAX)
            return task;
        if (leave)
            return LEAVE;
        int64_t left = end == INT64_MAX ? INT64_MAX / 2 : end - monotonic_ns();
        if (left <= 0)
            return TIMED_OUT;
        if (until_wake && c->n_wakes != c->n_wakes_taken) {
            c->n_wakes_taken = c->n_wakes;
            return TIMED_OUT;
        }
        if (idle(c, seen, left) < 0)
            return FAILED;
    }
}

/* ------------------------------------------------------------------ letting submitters pass */

/* Finishing takes the lock that submitting takes. A worker that meets a stream of submissions of tiny tasks would take
 * each task as it comes and hold up the submitter by as much as it gets done itself. So while nobody waits for what it
 * makes, it steps aside for a moment: tasks gather, and are all done without contention once somebody waits. */
#define ASIDE_MIN_NS 500
#define ASIDE_MAX_NS 32000
#define ASIDE_TIMES 64 /* in a row; who submits for longer than these 2 ms is not waited for */

struct courtesy {
    uint64_t seq;       /* of what was submitted last, as of the end of the last task */
    uint32_t n_awaited; /* likewise */
    bool is_busy;       /* something was submitted meanwhile */
    int n;              /* times in a row */
};

static void step_aside(ClientObject *c, struct courtesy *m)
{
    uint32_t n_awaited = atomic_load_explicit(&c->s.n_awaited, memory_order_relaxed);
    if (n_awaited != m->n_awaited || !m->is_busy) {
        m->n_awaited = n_awaited;
        m->n = 0;
        return;
    }
    if (m->n == ASIDE_TIMES)
        return;
    int64_t ns = m->n < 7 ? ASIDE_MIN_NS << m->n : ASIDE_MAX_NS, end = monotonic_ns() + ns;
    uint32_t n_waits = atomic_load_explicit(&c->s.h->n_waits, memory_order_relaxed);
    m->n++;
    while (monotonic_ns() < end && atomic_load_explicit(&c->s.h->n_waits, memory_order_relaxed) == n_waits)
        cpu_relax();
}

/* Ends `task` and takes the next in the same critical section: a chain stays on one worker without a wake-up. */
static int64_t finish_and_take(ClientObject *c, uint32_t task, uint32_t status, struct courtesy *m)
{
    litter_drop_functions(c);
    step_aside(c, m);
    segment_lock(&c->s);
    uint32_t next = UINT32_MAX;
    if (should_leave(c))
        task_finish(&c->s, task, status);
    else
        next = task_finish_and_pop(&c->s, task, status);
    m->is_busy = c->s.h->next_seq != m->seq;
    m->seq = c->s.h->next_seq;
    segment_unlock(&c->s);
    return next == UINT32_MAX ? take(c, -1.0, false) : next;
}

/* ------------------------------------------------------------------ functions and arguments */

/* What a function's object describes, as a new reference: user code that runs meanwhile may replace the cache's. */
static PyObject *resolve(ClientObject *c, uint32_t slot)
{
    CachedFunction *f = &c->functions[slot % FUNCTION_CACHE];
    uint32_t generation = c->s.objects[slot].generation;
    if (f->callable && f->slot == slot && f->generation == generation)
        return Py_NewRef(f->callable);
    PyObject *ref = ref_new(c, slot, false);
    PyObject *value = ref ? decode_slot(c, slot, ref) : NULL, *callable = NULL;
    Py_XDECREF(ref);
    if (value && (!PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 3)) {
        PyErr_SetString(PyExc_SystemError, "a task's function object is no function");
        Py_CLEAR(value);
    }
    if (value && c->instance && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(value, 0), "method") == 0)
        callable = PyObject_CallFunctionObjArgs(c->hooks.load_method, c->instance, PyTuple_GET_ITEM(value, 2), NULL);
    else if (value)
        callable = PyObject_CallOneArg(c->hooks.load_function, value);
    if (callable) {
        CachedFunction old = *f; /* its destructors may run Python code, which may look for a function here */
        *f = (CachedFunction){slot, generation, Py_NewRef(callable), Py_NewRef(PyTuple_GET_ITEM(value, 1)), 0, 0};
        Py_XDECREF(old.callable);
        Py_XDECREF(old.name);
    }
    Py_XDECREF(value);
    return callable;
}

PyObject *function_name(ClientObject *c, uint32_t slot)
{
    CachedFunction *f = &c->functions[slot % FUNCTION_CACHE];
    if (f->callable && f->slot == slot && f->generation == c->s.objects[slot].generation)
        return Py_NewRef(f->name);
    const struct object_slot *o = &c->s.objects[slot]; /* for a name nothing is brought back from disk */
    bool readable = slot_is_safe(&c->s, SLOT_OBJECT, slot) && object_state(o) == OBJECT_READY && !object_is_away(o);
    PyObject *value = readable ? decode_slot(c, slot, NULL) : NULL;
    PyObject *name = value && PyTuple_Check(value) && PyTuple_GET_SIZE(value) == 3 ? Py_NewRef(PyTuple_GET_ITEM(value, 1)) : NULL;
    Py_XDECREF(value);
    if (!name) {
        PyErr_Clear(); /* only a name for show */
        name = PyUnicode_FromString("?");
    }
    return name;
}

typedef struct { PyObject *few[16], **values; uint32_t n; } Values;

static void values_clear(Values *v)
{
    for (uint32_t i = 0; i < v->n; i++)
        Py_XDECREF(v->values[i]);
    if (v->values != v->few)
        PyMem_Free(v->values);
}

enum { LOADED = 0, DEPENDENCY_FAILED = 1 };

#define FEW_BYTES 48 /* some numbers and short strings; a pickle, which may import a library, takes more */

/* When a worker begins to load a task, in ticks; 0 where that cannot take long, as with most, and is not measured. */
static uint64_t loads_since(const ClientObject *c, const struct task_slot *t)
{
    const CachedFunction *f = &c->functions[t->function % FUNCTION_CACHE];
    bool is_short = !t->n_refs && t->arguments_size < FEW_BYTES && f->callable && f->slot == t->function &&
                    f->generation == c->s.objects[t->function].generation;
    return is_short ? 0 : ticks_now();
}

/* The values of the dependencies. DEPENDENCY_FAILED: `*bad` is the slot of one that holds an error. */
static int load_dependencies(ClientObject *c, struct task_slot *t, Values *v, uint32_t *bad)
{
    const uint32_t *refs = task_refs(&c->s, t);
    v->n = 0;
    v->values = v->few;
    if (t->n_dependencies > 16 && !(v->values = PyMem_Calloc(t->n_dependencies, sizeof(PyObject *)))) {
        PyErr_NoMemory();
        v->values = v->few;
        return -1;
    }
    for (uint32_t i = 0; i < t->n_dependencies; i++) {
        struct object_slot *o = &c->s.objects[refs[i]];
        if (object_state(o) != OBJECT_READY) {
            *bad = refs[i];
            return DEPENDENCY_FAILED;
        }
        bool is_inline = atomic_load_explicit(&o->offset, memory_order_relaxed) == 0;
        PyObject *owner = is_inline ? NULL : ref_new(c, refs[i], false); /* zero-copy views keep it */
        if (!is_inline && !owner)
            return -1;
        v->values[i] = decode_slot(c, refs[i], owner);
        Py_XDECREF(owner);
        if (!v->values[i])
            return -1;
        v->n++;
    }
    return LOADED;
}

static int load_arguments(ClientObject *c, struct task_slot *t, const Values *v, codec_args *args)
{
    uint32_t n_nested = t->n_refs - t->n_dependencies - (t->flags & TASK_FLAG_STREAM ? 1 : 0);
    codec_source source = {.refs = task_refs(&c->s, t) + t->n_dependencies, .n_refs = n_nested, .make_ref = ref_make, .ctx = c};
    return codec_decode_args(&c->codec, task_arguments(&c->s, t), t->arguments_size, &source, v->values, v->n, args);
}

/* ------------------------------------------------------------------ results */

/* Where it is remembered what a function returns; NULL: another one has taken its place in the cache. */
static size_t *expected_array(ClientObject *c, uint32_t function)
{
    CachedFunction *f = &c->functions[function % FUNCTION_CACHE];
    return f->slot == function ? &f->array_size : NULL;
}

/* `ours`: the caller alone holds what leads to the value, so the value may become the object as it lies there. */
static int seal_return(ClientObject *c, uint32_t function, uint32_t slot, PyObject *value, bool ours)
{
    Encoded e;
    int result = ours ? array_memory_seal(c, slot, value) : 0;
    if (result != 0)
        return result;
    if (encode_value(c, &e, value) < 0)
        return -1;
    result = seal_value(c, slot, OBJECT_READY, &e);
    encoded_clear(&e);
    size_t *expected = expected_array(c, function);
    if (result == 0 && expected && *expected != ARRAY_MEMORY_NEVER)
        *expected = array_memory_learn(c, value);
    return result;
}

/* An item of a container that the user's code keeps (in a cache, an attribute, a global) has one holder too, and can still be
 * written to. Therefore an item is taken out of a container that is ours alone, and otherwise copied. */
static int seal_items(ClientObject *c, struct task_slot *t, PyObject *items, bool ours)
{
    int result = 0;
    for (uint32_t i = 0; i < t->n_returns && result >= 0; i++) {
        PyObject **place = &PySequence_Fast_ITEMS(items)[i], *item = Py_NewRef(*place);
        if (ours)
            Py_SETREF(*place, Py_NewRef(Py_None));
        result = seal_return(c, t->function, task_result(&c->s, t, i), item, ours);
        Py_DECREF(item);
    }
    return result < 0 ? -1 : 0;
}

static int seal_returns(ClientObject *c, struct task_slot *t, PyObject *value)
{
    if (t->n_returns == 0)
        return 0;
    if (t->n_returns == 1)
        return seal_return(c, t->function, task_result(&c->s, t, 0), value, true) < 0 ? -1 : 0;
    PyObject *items = PySequence_Fast(value, "");
    if (!items && !PyErr_ExceptionMatches(PyExc_TypeError))
        return -1; /* raised by a generator */
    if (!items || PySequence_Fast_GET_SIZE(items) != t->n_returns) {
        PyErr_Format(PyExc_ValueError, "the task was declared with num_returns=%u but returned %R", t->n_returns, value);
        Py_XDECREF(items);
        return -1;
    }
    int result = seal_items(c, t, items, Py_REFCNT(items) == (items == value ? 2 : 1)); /* `value` is the caller's reference */
    Py_DECREF(items);
    return result;
}

/* The description of an exception, made by a hook that must not fail; if it does, that is told instead. */
static PyObject *describe(ClientObject *c, struct task_slot *t, PyObject *exception)
{
    PyObject *name = function_name(c, t->function);
    PyObject *number = PyLong_FromUnsignedLongLong(t->flags & TASK_FLAG_HIDDEN ? 0 : t->seq);
    PyObject *tuple = name && number && c->hooks.error_value
                          ? PyObject_CallFunctionObjArgs(c->hooks.error_value, exception, name, number, NULL)
                          : NULL;
    if (tuple && PyTuple_Check(tuple) && (t->flags & TASK_FLAG_ACTOR_CREATION)) {
        /* Every call of the actor gets this error, so it says which task the constructor was. */
        PyObject *list = PySequence_List(tuple), *kind = PyUnicode_FromString("actor_init");
        bool good = list && kind && PyList_SetItem(list, 0, Py_NewRef(kind)) == 0 && PyList_Append(list, number) == 0;
        Py_SETREF(tuple, good ? PyList_AsTuple(list) : NULL);
        Py_XDECREF(list);
        Py_XDECREF(kind);
    }
    Py_XDECREF(number);
    if (!tuple) {
        PyErr_Clear();
        tuple = Py_BuildValue("(sOsssOis)", "task_error", name, Py_TYPE(exception)->tp_name,
                              "the error could not be described", "", Py_None, c->pid, "");
    }
    Py_XDECREF(name);
    return tuple;
}

static void seal_error(ClientObject *c, uint32_t task, PyObject *exception)
{
    struct task_slot *t = &c->s.tasks[task];
    PyObject *description = describe(c, t, exception);
    for (uint32_t i = 0; i < t->n_returns; i++) {
        Encoded e;
        bool sealed = false;
        if (description && encode_value(c, &e, description) == 0) {
            sealed = seal_value(c, task_result(&c->s, t, i), OBJECT_ERROR, &e) == 0;
            encoded_clear(&e);
        }
        if (!sealed) { /* not even the error fits */
            PyErr_Clear();
            object_seal_failed(&c->s, task_result(&c->s, t, i), FAILURE_STORE_FULL, 0, t->seq);
        }
    }
    Py_XDECREF(description);
}

static bool wants_retry(ClientObject *c, struct task_slot *t, PyObject *exception)
{
    if (!(t->flags & TASK_FLAG_RETRY_EXCEPTIONS) || !task_may_retry(t))
        return false;
    if (!c->hooks.should_retry)
        return true;
    PyObject *name = function_name(c, t->function);
    uint32_t function = t->function;
    PyObject *value = decode_slot(c, function, NULL);
    PyObject *answer = value ? PyObject_CallFunctionObjArgs(c->hooks.should_retry, exception, value, NULL) : NULL;
    bool yes = answer && PyObject_IsTrue(answer) == 1;
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(name);
    Py_XDECREF(answer);
    Py_XDECREF(value);
    Py_XDECREF(name);
    return yes;
}

/* Ends a task with the pending exception (or `exception`); returns the event status, or STATUS_RETRY when the task
 * goes back into its queue instead. */
enum { STATUS_RETRY = 100 };

static uint32_t settle_exception(ClientObject *c, uint32_t task, PyObject *exception)
{
    struct task_slot *t = &c->s.tasks[task];
    if ((t->flags & TASK_FLAG_CANCEL) &&
        (PyErr_GivenExceptionMatches(exception, PyExc_KeyboardInterrupt) ||
         strcmp(Py_TYPE(exception)->tp_name, "CancelledError") == 0)) {
        task_seal_failed(&c->s, task, FAILURE_CANCELLED, 0);
        return EVENT_CANCELLED;
    }
    if (wants_retry(c, t, exception))
        return STATUS_RETRY;
    seal_error(c, task, exception);
    return EVENT_ERROR;
}

static PyObject *take_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

/* ------------------------------------------------------------------ one task */

static void call_env_hook(ClientObject *c, PyObject *hook, uint32_t task)
{
    PyObject *number = hook ? PyLong_FromUnsignedLong(task) : NULL;
    PyObject *info = number ? client_task_info(c, number) : NULL;
    PyObject *result = info ? PyObject_CallOneArg(hook, info) : NULL;
    if (hook && !result)
        PyErr_WriteUnraisable(hook);
    Py_XDECREF(number);
    Py_XDECREF(info);
    Py_XDECREF(result);
}

/* Runs the function; a new reference to its value, NULL with an exception, or NULL with `*bad` set. The task is current by now:
 * who cancels it from here on interrupts it; an interrupt that came before was nobody's. */
static PyObject *call_function(ClientObject *c, uint32_t task, uint32_t *bad)
{
    struct task_slot *t = &c->s.tasks[task];
    if (t->flags & TASK_FLAG_CANCEL) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        return NULL;
    }
    uint64_t since = loads_since(c, t);
    PyObject *result = NULL, *callable = resolve(c, t->function);
    Values v;
    codec_args args;
    if (!callable)
        return NULL;
    if (load_dependencies(c, t, &v, bad) == LOADED && load_arguments(c, t, &v, &args) == 0) {
        event_called(&c->s, t, since);
        size_t *expected = expected_array(c, t->function), outer = array_memory_expect(expected ? *expected : 0);
        result = PyObject_Vectorcall(callable, args.values, (size_t)args.n_positional | PY_VECTORCALL_ARGUMENTS_OFFSET, args.kwnames);
        array_memory_expect(outer);
        codec_args_clear(&args);
    }
    values_clear(&v);
    Py_DECREF(callable);
    return result;
}

static void seal_like_dependency(ClientObject *c, uint32_t task, uint32_t bad)
{
    struct task_slot *t = &c->s.tasks[task];
    segment_lock(&c->s);
    for (uint32_t i = 0; i < t->n_returns; i++)
        object_seal_like(&c->s, task_result(&c->s, t, i), bad);
    segment_unlock(&c->s);
}

/* After so many calls of a function its worker makes room for a fresh one: memory that leaked, and GPUs, are free again. */
static void count_call(ClientObject *c, const struct task_slot *t)
{
    CachedFunction *f = &c->functions[t->function % FUNCTION_CACHE];
    if (f->slot != t->function || ++f->n_calls >= t->group) /* another one's place by now: rather too early than too late */
        atomic_fetch_or(&c->s.clients[c->s.me].flags, CLIENT_FLAG_RETIRE);
}

/* Runs a task to its sealed results; returns the status to finish it with. */
static uint32_t execute(ClientObject *c, uint32_t task)
{
    uint32_t bad = UINT32_MAX, status = EVENT_OK;
    uint32_t outer_1 = current_task_of(c);
    bool env = c->s.tasks[task].flags & TASK_FLAG_ENV;
    set_current(c, task + 1);
    if (env)
        call_env_hook(c, c->hooks.enter_task, task);
    PyObject *value = call_function(c, task, &bad);
    if (value && must_run_generator(c, task, value))
        Py_SETREF(value, run_generator(c, task, value));
    end_if_forked(c);
    if (bad != UINT32_MAX) {
        seal_like_dependency(c, task, bad);
        status = EVENT_ERROR;
    } else if (!value || seal_returns(c, &c->s.tasks[task], value) < 0) {
        end_if_forked(c);
        PyObject *exception = take_exception();
        status = settle_exception(c, task, exception);
        Py_DECREF(exception);
    }
    Py_XDECREF(value);
    if (env)
        call_env_hook(c, c->hooks.leave_task, task);
    if (c->s.tasks[task].group && !c->s.tasks[task].actor_1)
        count_call(c, &c->s.tasks[task]);
    end_if_forked(c); /* in code that pickled the value, or destroyed it */
    set_current(c, outer_1);
    return status;
}

static void end_task(ClientObject *c, uint32_t task, uint32_t status)
{
    segment_lock(&c->s);
    if (status == STATUS_RETRY)
        task_retry(&c->s, task);
    else
        task_finish(&c->s, task, status);
    segment_unlock(&c->s);
}

PyObject *client_run(ClientObject *c, PyObject *unused)
{
    (void)unused;
    if (client_usable(c) < 0)
        return NULL;
    struct courtesy courtesy = {0};
    int64_t task = take(c, -1.0, false);
    while (task >= 0 && !(c->s.tasks[task].flags & TASK_FLAG_ACTOR_CREATION)) {
        uint32_t status = execute(c, (uint32_t)task);
        if (status == STATUS_RETRY) {
            end_task(c, (uint32_t)task, status);
            task = take(c, -1.0, false);
        } else {
            task = finish_and_take(c, (uint32_t)task, status, &courtesy);
        }
        if (task >= 0 && PyErr_CheckSignals() < 0)
            PyErr_Clear(); /* an interrupt meant for the task that has just ended */
        end_if_forked(c);
    }
    return task == FAILED ? NULL : PyLong_FromLongLong(task);
}

bool run_awaited(ClientObject *c, uint32_t object)
{
    uint32_t on_top_of = current_task_of(c) - 1;
    segment_lock(&c->s);
    uint32_t task = task_claim(&c->s, object, on_top_of);
    segment_unlock(&c->s);
    if (task == UINT32_MAX)
        return false;
    c->depth++;
    end_task(c, task, execute(c, task));
    c->depth--;
    return true;
}

/* ------------------------------------------------------------------ the same in steps, for Python */

PyObject *client_next(ClientObject *c, PyObject *timeout_object)
{
    double timeout;
    if (client_usable(c) < 0 || parse_timeout(timeout_object, &timeout) < 0)
        return NULL;
    int64_t task = take(c, timeout, true);
    return task == FAILED ? NULL : PyLong_FromLongLong(task);
}

PyObject *client_set_call_variable(ClientObject *c, PyObject *variable)
{
    if (!PyContextVar_CheckExact(variable))
        return PyErr_Format(PyExc_TypeError, "set_call_variable(variable): expected a ContextVar, got %R", variable);
    Py_XSETREF(c->call_variable, Py_NewRef(variable));
    Py_RETURN_NONE;
}

int parse_task(ClientObject *c, PyObject *number, uint32_t *task)
{
    unsigned long n = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return -1;
    if (n >= c->s.h->touched_tasks || atomic_load(&c->s.tasks[n].state) != TASK_RUNNING || c->s.tasks[n].worker != c->s.me) {
        PyErr_Format(PyExc_ValueError, "task %lu is not running in this process", n);
        return -1;
    }
    *task = (uint32_t)n;
    return 0;
}

static PyObject *args_to_python(const codec_args *args)
{
    Py_ssize_t n_keywords = args->n_values - args->n_positional;
    PyObject *tuple = PyTuple_New(args->n_positional), *dict = PyDict_New();
    for (Py_ssize_t i = 0; tuple && i < args->n_positional; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args->values[i]));
    for (Py_ssize_t i = 0; dict && i < n_keywords; i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(args->kwnames, i), args->values[args->n_positional + i]) < 0)
            Py_CLEAR(dict);
    PyObject *pair = tuple && dict ? PyTuple_Pack(2, tuple, dict) : NULL;
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return pair;
}

PyObject *client_load(ClientObject *c, PyObject *number)
{
    uint32_t task, bad = UINT32_MAX;
    if (parse_task(c, number, &task) < 0)
        return NULL;
    set_current(c, task + 1);
    struct task_slot *t = &c->s.tasks[task];
    uint64_t since = loads_since(c, t);
    PyObject *callable = resolve(c, t->function), *pair = NULL, *result = NULL;
    Values v;
    codec_args args;
    if (!callable)
        return NULL;
    if (load_dependencies(c, t, &v, &bad) == LOADED && load_arguments(c, t, &v, &args) == 0) {
        event_called(&c->s, t, since);
        pair = args_to_python(&args);
        codec_args_clear(&args);
    }
    values_clear(&v);
    if (bad != UINT32_MAX) {
        PyObject *ref = ref_new(c, bad, false);
        if (ref)
            load_value(c, (RefObject *)ref);
        Py_XDECREF(ref);
    } else if (pair) {
        result = PyTuple_Pack(3, callable, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
    }
    Py_DECREF(callable);
    Py_XDECREF(pair);
    return result;
}

PyObject *client_finish(ClientObject *c, PyObject *const *args, Py_ssize_t nargs)
{
    uint32_t task, status = EVENT_OK;
    if (nargs != 2)
        return PyErr_Format(PyExc_TypeError, "finish(task, value)");
    end_if_forked(c);
    if (parse_task(c, args[0], &task) < 0)
        return NULL;
    if (seal_returns(c, &c->s.tasks[task], args[1]) < 0) {
        PyObject *exception = take_exception();
        status = settle_exception(c, task, exception);
        Py_DECREF(exception);
    }
    end_task(c, task, status);
    set_current(c, 0);
    Py_RETURN_NONE;
}

PyObject *client_fail(ClientObject *c, PyObject *const *args, Py_ssize_t nargs)
{
    uint32_t task;
    if (nargs != 2 || !PyExceptionInstance_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "fail(task, exception)");
    if (!c->pid)
        PyErr_SetObject((PyObject *)Py_TYPE(args[1]), args[1]);
    end_if_forked(c);
    if (parse_task(c, args[0], &task) < 0)
        return NULL;
    struct task_slot *t = &c->s.tasks[task];
    uint32_t status = settle_exception(c, task, args[1]);
    if (t->flags & TASK_FLAG_ACTOR_CREATION) {
        segment_lock(&c->s);
        actor_construction_failed(&c->s, t->actor_1 - 1, task);
        segment_unlock(&c->s);
    } else {
        end_task(c, task, status);
    }
    set_current(c, 0);
    Py_RETURN_NONE;
}

PyObject *client_bind_actor(ClientObject *c, PyObject *const *args, Py_ssize_t nargs)
{
    uint32_t task;
    if (nargs != 2)
        return PyErr_Format(PyExc_TypeError, "bind_actor(task, instance)");
    end_if_forked(c);
    if (parse_task(c, args[0], &task) < 0)
        return NULL;
    struct task_slot *t = &c->s.tasks[task];
    if (!(t->flags & TASK_FLAG_ACTOR_CREATION) || seal_returns(c, t, Py_None) < 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "task %u constructs no actor", task);
    Py_XSETREF(c->instance, Py_NewRef(args[1]));
    segment_lock(&c->s);
    actor_bind(&c->s, t->actor_1 - 1, task);
    task_release_results(&c->s, task);
    segment_unlock(&c->s);
    set_current(c, 0);
    Py_RETURN_NONE;
}

/* The actor that this process serves, or constructs, + 1. */
static uint32_t own_actor_1(ClientObject *c)
{
    uint32_t actor_1 = c->s.clients[c->s.me].actor_1, task_1 = current_task_of(c);
    return actor_1 || !task_1 ? actor_1 : c->s.tasks[task_1 - 1].actor_1;
}

PyObject *client_save_checkpoint(ClientObject *c, PyObject *value)
{
    uint32_t slot, actor_1 = client_usable(c) < 0 ? 0 : own_actor_1(c);
    if (!actor_1)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_RuntimeError, "this process serves no actor");
    PyObject *ref = put_value(c, value, &slot, EVENT_BY_PUT, false);
    if (!ref)
        return NULL;
    segment_lock(&c->s);
    actor_checkpoint(&c->s, actor_1 - 1, slot);
    segment_unlock(&c->s);
    Py_DECREF(ref);
    Py_RETURN_NONE;
}

PyObject *client_actor_info(ClientObject *c, PyObject *unused)
{
    (void)unused;
    uint32_t actor_1 = own_actor_1(c);
    if (!actor_1)
        Py_RETURN_NONE;
    const struct actor_slot *a = &c->s.actors[actor_1 - 1];
    unsigned restarts = a->task_1 ? c->s.tasks[a->task_1 - 1].attempt : 0; /* of its constructor */
    PyObject *checkpoint = a->checkpoint_1 ? ref_new(c, a->checkpoint_1 - 1, false) : Py_NewRef(Py_None);
    return Py_BuildValue("{sIsIsOsIsIsNsN}", "index", actor_1 - 1, "max_concurrency", a->max_concurrency, "ordered",
                         a->flags & ACTOR_FLAG_ORDERED ? Py_True : Py_False, "generation", a->generation, "restarts", restarts, "object",
                         a->object_1 ? ref_new(c, a->object_1 - 1, false) : Py_NewRef(Py_None), "checkpoint", checkpoint);
}

PyObject *client_task_info(ClientObject *c, PyObject *number)
{
    uint32_t task;
    if (parse_task(c, number, &task) < 0)
        return NULL;
    const struct task_slot *t = &c->s.tasks[task];
    PyObject *gpus = PyList_New(0);
    for (uint32_t g = 0; gpus && g < MAX_GPUS; g++)
        if (t->gpu_mask >> g & 1) {
            PyObject *id = PyLong_FromUnsignedLong(g);
            if (!id || PyList_Append(gpus, id) < 0)
                Py_CLEAR(gpus);
            Py_XDECREF(id);
        }
    return Py_BuildValue("{sKsIsIsNsNsIsisOsd}", "seq", (unsigned long long)t->seq, "attempt", (unsigned)t->attempt, "origin",
                         t->origin, "name", function_name(c, t->function), "gpu_ids", gpus ? gpus : Py_NewRef(Py_None),
                         "resource_class", (unsigned)t->resource_class, "actor", (int)t->actor_1 - 1, "cancelled",
                         t->flags & TASK_FLAG_CANCEL ? Py_True : Py_False, "num_cpus",
                         (double)c->s.classes[t->resource_class].demand[KIND_CPU] / RESOURCE_UNIT);
}

PyObject *client_cancelled(ClientObject *c, PyObject *unused)
{
    (void)unused;
    interrupt_seen();
    uint32_t task_1 = current_task_of(c);
    return PyBool_FromLong(task_1 && (c->s.tasks[task_1 - 1].flags & TASK_FLAG_CANCEL));
}
