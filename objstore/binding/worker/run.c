/* The worker: take a task out of the segment, run it, seal its result, take the next. Plain functions and the calls of
 * ordered actors never leave this file; constructors and async actors are run by Python through next, load, finish. */
#include "worker/worker.h"

#include <errno.h>
#include <string.h>

/* What an idle worker does after each of these times, the last one first; after the first, from then on: nothing. */
enum { SLEEP, TRIM_HEAP, COLLECT_CYCLES };
#define MS_NS (INT64_C(1000) * 1000)
static const int64_t IDLE_NS[] = {[COLLECT_CYCLES] = 500 * MS_NS, [TRIM_HEAP] = 2000 * MS_NS, [SLEEP] = 10000 * MS_NS};

_Thread_local ClientObject *current_client;
_Thread_local uint32_t current_task_1;
_Thread_local bool runs_borrowed;

void set_current(ClientObject *c, uint32_t task_1)
{
    current_client = c;
    current_task_1 = task_1;
    c->rest = COLLECT_CYCLES;
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
    bool runs = n < c->s.h->touched_tasks && atomic_load(&c->s.tasks[n].state) == TASK_RUNNING &&
                c->s.tasks[n].worker == c->s.me;
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
    cycle_gc_drop_functions(c);
    flush_drops(c);
    int now = c->rest;
    Py_BEGIN_ALLOW_THREADS
    client_sleep(&c->s, seen, ns < IDLE_NS[now] ? ns : IDLE_NS[now], &c->trust);
    Py_END_ALLOW_THREADS
    bool is_time = ns >= IDLE_NS[now] && client_inbox(&c->s) == seen;
    if (is_time && now == COLLECT_CYCLES) {
        c->rest = TRIM_HEAP;
        if (cycle_gc_is_worth_it(c))
            cycle_gc_collect(c, true);
    } else if (is_time && now == TRIM_HEAP) {
        c->rest = SLEEP;
        Py_BEGIN_ALLOW_THREADS
        process_trim_heap();
        Py_END_ALLOW_THREADS
    }
    return PyErr_CheckSignals() < 0 ? FAILED : 0; /* the end of the session is a reason to leave, not an error */
}

/* For so long what is ready may be kept from beginning for another task. The end of that time is not announced. */
static int64_t reserved_for_ns(ClientObject *c)
{
    uint64_t ticks = resource_reserved_for(&c->s);
    return ticks ? (int64_t)((double)ticks * ns_per_tick(c->s.h)) + 1000 * 1000 : 0;
}

/* What a borrowed worker takes, in place of a concurrency group. */
enum { CALLS_AND_TASKS = ANY_GROUP + 1, TASKS_ALONE };

static uint32_t pop(ClientObject *c, uint32_t group)
{
    return group <= ANY_GROUP ? task_pop_of(&c->s, group) : task_pop_borrowed(&c->s, group == CALLS_AND_TASKS);
}

int64_t take_task(ClientObject *c, uint32_t group, double timeout, bool until_wake)
{
    struct served_group *served = &c->groups[group <= ANY_GROUP ? group : ANY_GROUP];
    int64_t end = timeout < 0 ? INT64_MAX : monotonic_ns() + (int64_t)(timeout * 1e9);
    for (;;) {
        uint32_t seen = client_inbox(&c->s);
        segment_lock(&c->s);
        uint32_t task = should_leave(c) ? UINT32_MAX : pop(c, group);
        bool leave = task == UINT32_MAX && should_leave(c);
        segment_unlock(&c->s);
        if (task != UINT32_MAX)
            return task;
        if (leave)
            return LEAVE;
        int64_t left = end == INT64_MAX ? INT64_MAX / 2 : end - monotonic_ns();
        if (left <= 0)
            return TIMED_OUT;
        if (until_wake && c->n_wakes != served->n_wakes_taken) {
            served->n_wakes_taken = c->n_wakes;
            return TIMED_OUT;
        }
        int64_t reserved = reserved_for_ns(c);
        served->n_idle++;
        int woken = idle(c, seen, reserved && reserved < left ? reserved : left);
        served->n_idle--;
        if (woken < 0)
            return FAILED;
    }
}

/* ------------------------------------------------------------------ letting submitters pass */

/* Finishing takes the lock that submitting takes. A worker that meets a stream of submissions of tiny tasks would take
 * each task as it comes and hold up the submitter by as much as it gets done itself. So while no process waits for what
 * it makes, it steps aside for a moment: tasks gather, and are all done without contention once a process waits for
 * one.
 */
#define ASIDE_MIN_NS 500
#define ASIDE_MAX_NS 32000
#define ASIDE_TIMES 64 /* in a row; who submits for longer than these 2 ms is not waited for */

struct back_off {
    uint64_t seq;       /* of what was submitted last, as of the end of the last task */
    uint32_t n_awaited; /* likewise */
    bool is_busy;       /* something was submitted meanwhile */
    int n;              /* times in a row */
};

static void step_aside(ClientObject *c, struct back_off *m)
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
static int64_t finish_and_take(ClientObject *c, uint32_t group, uint32_t task, uint32_t status, struct back_off *m)
{
    cycle_gc_drop_functions(c);
    step_aside(c, m);
    segment_lock(&c->s);
    uint32_t next = UINT32_MAX;
    if (should_leave(c))
        task_finish(&c->s, task, status);
    else
        next = task_finish_and_pop(&c->s, task, status, group);
    m->is_busy = c->s.h->next_seq != m->seq;
    m->seq = c->s.h->next_seq;
    segment_unlock(&c->s);
    return next == UINT32_MAX ? take_task(c, group, -1.0, false) : next;
}

/* ------------------------------------------------------------------ functions and arguments */

/* Whether the payload of a function's object says so, see serialization.py. */
static bool wants_readonly(PyObject *payload)
{
    return PyTuple_Check(payload) && PyTuple_GET_SIZE(payload) > 6 && PyTuple_GET_ITEM(payload, 6) == Py_True;
}

/* What a function's object describes, as a new reference: user code that runs meanwhile may replace the cache's. */
PyObject *resolve_function(ClientObject *c, uint32_t slot)
{
    CachedFunction *f = &c->functions[slot % FUNCTION_CACHE];
    uint32_t generation = c->s.objects[slot].generation;
    if (f->callable && f->slot == slot && f->generation == generation)
        return Py_NewRef(f->callable);
    PyObject *ref = ref_new(c, slot, false);
    PyObject *value = ref ? decode_slot(c, slot, ref, CODEC_OWN) : NULL, *callable = NULL;
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
        *f = (CachedFunction){.slot = slot,
                              .generation = generation,
                              .callable = Py_NewRef(callable),
                              .name = Py_NewRef(PyTuple_GET_ITEM(value, 1)),
                              .readonly = wants_readonly(PyTuple_GET_ITEM(value, 2))};
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
    const struct object_slot *o = &c->s.objects[slot]; /* for a name no offloaded object is read */
    bool readable = object_is_safe(&c->s, slot) && object_state(o) == OBJECT_READY && !object_is_absent(o);
    PyObject *value = readable ? decode_slot(c, slot, NULL, CODEC_OWN) : NULL;
    PyObject *name =
        value && PyTuple_Check(value) && PyTuple_GET_SIZE(value) == 3 ? Py_NewRef(PyTuple_GET_ITEM(value, 1)) : NULL;
    Py_XDECREF(value);
    if (!name) {
        PyErr_Clear(); /* only a name for show */
        name = PyUnicode_FromString("?");
    }
    return name;
}

void values_clear(Values *v)
{
    for (uint32_t i = 0; i < v->n; i++)
        Py_XDECREF(v->values[i]);
    if (v->values != v->few)
        PyMem_Free(v->values);
}

#define FEW_BYTES 48 /* some numbers and short strings; a pickle, which may import a library, takes more */

/* When a worker begins to load a task, in ticks; 0 where that cannot take long, as with most, and is not measured. */
uint64_t loads_since(const ClientObject *c, const struct task_slot *t)
{
    const CachedFunction *f = &c->functions[t->function % FUNCTION_CACHE];
    bool is_short = !t->n_refs && t->arguments_size < FEW_BYTES && f->callable && f->slot == t->function &&
                    f->generation == c->s.objects[t->function].generation;
    return is_short ? 0 : ticks_now();
}

bool takes_readonly(const ClientObject *c, uint32_t function)
{
    const CachedFunction *f = &c->functions[function % FUNCTION_CACHE];
    return c->readonly || (f->callable && f->slot == function && f->readonly);
}

/* The values of the dependencies. DEPENDENCY_FAILED: `*bad` is the slot of one that holds an error. */
static int load_dependencies(ClientObject *c, struct task_slot *t, enum codec_access access, Values *v, uint32_t *bad)
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
        bool outer = loads_arguments;
        loads_arguments = true;
        v->values[i] = decode_slot(c, refs[i], owner, access);
        loads_arguments = outer;
        Py_XDECREF(owner);
        if (!v->values[i])
            return -1;
        v->n++;
    }
    return LOADED;
}

static int load_arguments(ClientObject *c, struct task_slot *t, enum codec_access access, const Values *v,
                          codec_args *args)
{
    uint32_t n_nested = t->n_refs - t->n_dependencies - (t->flags & TASK_FLAG_STREAM ? 1 : 0);
    codec_source source = {.refs = task_refs(&c->s, t) + t->n_dependencies,
                           .n_refs = n_nested,
                           .make_ref = ref_make,
                           .ctx = c,
                           .access = access};
    return codec_decode_args(&c->codec, task_arguments(&c->s, t), t->arguments_size, &source, v->values, v->n, args);
}

/* False: with an exception, or with `*bad`. */
bool load_call(ClientObject *c, struct task_slot *t, PyObject *callable, Values *v, codec_args *args, uint32_t *bad)
{
    enum codec_access access = takes_readonly(c, t->function) ? CODEC_READ_ONLY : CODEC_OWN;
    int loaded = load_dependencies(c, t, access, v, bad);
    if (loaded == LOADED && load_arguments(c, t, access, v, args) == 0)
        return true;
    if (loaded != DEPENDENCY_FAILED)
        name_failed_argument(c, t, callable, loaded == LOADED ? INT64_C(-1) : (int64_t)v->n);
    return false;
}

/* ------------------------------------------------------------------ results */

/* Where it is remembered what a function returns; NULL: another one has taken its place in the cache. */
static size_t *expected_array(ClientObject *c, uint32_t function)
{
    CachedFunction *f = &c->functions[function % FUNCTION_CACHE];
    return f->slot == function ? &f->array_size : NULL;
}

/* `ours`: the caller alone holds what leads to the value, so the value may become the object as it lies there. */
int seal_return(ClientObject *c, uint32_t function, uint32_t slot, PyObject *value, bool ours)
{
    Encoded e;
    send_held_output(c);
    int result = ours ? array_memory_seal(c, slot, value) : 0;
    if (result != 0)
        return result;
    if (encode_value(c, &e, value) < 0)
        return -1;
    send_held_output(c); /* of what pickling has printed */
    result = seal_value(c, slot, OBJECT_READY, &e);
    encoded_clear(&e);
    size_t *expected = expected_array(c, function);
    if (result == 0 && expected && *expected != ARRAY_MEMORY_NEVER)
        *expected = array_memory_learn(c, value);
    return result;
}

/* An item of a container that the user's code keeps (in a cache, an attribute, a global) has one holder too, and can
 * still be written to. Therefore an item is taken out of a container that is ours alone, and otherwise copied. */
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

int seal_returns(ClientObject *c, struct task_slot *t, PyObject *value)
{
    if (t->n_returns == 0)
        return 0;
    if (t->n_returns == 1)
        return seal_return(c, t->function, task_result(&c->s, t, 0), value, true) < 0 ? -1 : 0;
    PyObject *items = PySequence_Fast(value, "");
    if (!items && !PyErr_ExceptionMatches(PyExc_TypeError))
        return -1; /* raised by a generator */
    if (!items || PySequence_Fast_GET_SIZE(items) != t->n_returns) {
        if (items)
            PyErr_Format(PyExc_ValueError,
                         "the option num_returns=%u wants as many values, and the task returned %zd: %R", t->n_returns,
                         PySequence_Fast_GET_SIZE(items), value);
        else
            PyErr_Format(PyExc_ValueError,
                         "the option num_returns=%u wants a tuple or list of as many values, and the task returned %R "
                         "of type %s",
                         t->n_returns, value, Py_TYPE(value)->tp_name);
        Py_XDECREF(items);
        return -1;
    }
    /* `value` is the caller's reference */
    int result = seal_items(c, t, items, Py_REFCNT(items) == (items == value ? 2 : 1));
    Py_DECREF(items);
    return result;
}

PyObject *take_exception(void)
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

/* Runs the function; a new reference to its value, NULL with an exception, or NULL with `*bad` set. The task is current
 * by now: a cancellation from here on interrupts it; an interrupt that came before was not for it. */
static PyObject *call_function(ClientObject *c, uint32_t task, uint32_t *bad)
{
    struct task_slot *t = &c->s.tasks[task];
    if (t->flags & TASK_FLAG_CANCEL) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        return NULL;
    }
    uint64_t since = loads_since(c, t);
    PyObject *result = NULL, *callable = resolve_function(c, t->function);
    Values v;
    codec_args args;
    if (!callable)
        return NULL;
    if (load_call(c, t, callable, &v, &args, bad)) {
        event_called(&c->s, t, since);
        if (__builtin_expect(t->flags & TASK_FLAG_TIMED, 0))
            begin_time(c, task);
        size_t *expected = expected_array(c, t->function);
        array_memory_expect(c, expected ? *expected : 0);
        result = PyObject_Vectorcall(callable, args.values, (size_t)args.n_positional | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                     args.kwnames);
        array_memory_expect(c, 0);
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

/* After so many calls of a function its worker makes room for a fresh one: memory that leaked, and GPUs, are free
 * again. */
static void count_call(ClientObject *c, const struct task_slot *t)
{
    CachedFunction *f = &c->functions[t->function % FUNCTION_CACHE];
    /* another one's place by now: rather too early than too late */
    if (f->slot != t->function || ++f->n_calls >= t->group)
        atomic_fetch_or(&c->s.clients[c->s.me].flags, CLIENT_FLAG_RETIRE);
}

/* A task's context variables are its own. A task that has set none, and whose context nobody holds, leaves its context
 * to the next one. */
static PyObject *new_context(ClientObject *c)
{
    PyObject *context = c->context;
    c->context = NULL;
    return context ? context : PyContext_CopyCurrent();
}

static void let_go_of_context(ClientObject *c, PyObject *context)
{
    if (!c->context && Py_REFCNT(context) == 1 && PyObject_Size(context) == 0)
        c->context = context;
    else
        Py_DECREF(context);
}

/* Actors keep what they have changed. */
static void restore_after(ClientObject *c, bool is_call)
{
    if (__builtin_expect(!is_call && leaves_something(c), 0))
        restore_process(c);
}

/* Runs a task to its sealed results; returns the status to finish it with. `beside`: calls of its actor run in other
 * threads, so that which call has a thread next is chance. */
static uint32_t execute(ClientObject *c, uint32_t task, bool beside)
{
    uint32_t bad = UINT32_MAX, status = EVENT_OK;
    bool env = c->s.tasks[task].flags & TASK_FLAG_ENV;
    bool is_call = c->s.tasks[task].actor_1;
    PyObject *context = !is_call ? new_context(c) : beside ? PyContext_CopyCurrent() : NULL;
    bool entered = context && PyContext_Enter(context) == 0;
    if (!entered)
        PyErr_Clear(); /* no memory for one: then the thread's */
    c->threads_wait = false;
    set_current(c, task + 1);
    if (env)
        call_env_hook(c, c->hooks.enter_task, task);
    PyObject *yielded = NULL, *value = call_function(c, task, &bad);
    if (value && must_run_generator(c, task, value))
        Py_SETREF(value, run_generator(c, task, value, &yielded));
    end_if_forked(c);
    if (bad != UINT32_MAX) {
        seal_like_dependency(c, task, bad);
        status = EVENT_ERROR;
    } else if (!value || seal_returns(c, &c->s.tasks[task], value) < 0) {
        end_if_forked(c);
        PyObject *exception = take_exception();
        restore_after(c, is_call); /* or a timer of the task's raises in what tells of its error */
        status = settle_exception(c, task, exception, yielded);
        Py_DECREF(exception);
    }
    Py_XDECREF(yielded);
    Py_XDECREF(value);
    if (env)
        call_env_hook(c, c->hooks.leave_task, task);
    if (c->s.tasks[task].group && !c->s.tasks[task].actor_1)
        count_call(c, &c->s.tasks[task]);
    end_if_forked(c); /* in code that pickled the value, or destroyed it */
    restore_after(c, is_call);
    set_current(c, 0);
    if (entered)
        PyContext_Exit(context);
    if (is_call)
        Py_XDECREF(context);
    else if (context)
        let_go_of_context(c, context);
    return status;
}

void end_task(ClientObject *c, uint32_t task, uint32_t status)
{
    segment_lock(&c->s);
    if (status == STATUS_RETRY)
        task_retry(&c->s, task);
    else
        task_finish(&c->s, task, status);
    segment_unlock(&c->s);
}

static PyObject *client_run(ClientObject *c, PyObject *const *args, Py_ssize_t nargs)
{
    uint32_t group = ANY_GROUP;
    if (nargs != 0 && nargs != 2)
        return PyErr_Format(PyExc_TypeError, "run(), or run(group, start)");
    if (client_readable(c) < 0 || (nargs && parse_group(args[0], &group) < 0))
        return NULL;
    PyObject *start = nargs ? args[1] : NULL;
    struct served_group *served = &c->groups[group];
    struct back_off back_off = {0};
    bool beside = nargs && serves_beside(c, group);
    if (served->n_starting)
        served->n_starting--;
    int64_t task = take_task(c, group, -1.0, false);
    while (task >= 0 && !(c->s.tasks[task].flags & TASK_FLAG_ACTOR_CREATION)) {
        if (start && !served->n_idle && !served->n_starting && !start_thread(served, start))
            start = NULL;
        uint32_t status = execute(c, (uint32_t)task, beside);
        if (status == STATUS_RETRY) {
            end_task(c, (uint32_t)task, status);
            task = take_task(c, group, -1.0, false);
        } else {
            task = finish_and_take(c, group, (uint32_t)task, status, &back_off);
        }
        if (task >= 0 && PyErr_CheckSignals() < 0)
            PyErr_Clear(); /* an interrupt meant for the task that has just ended */
        end_if_forked(c);
    }
    return task == FAILED ? NULL : PyLong_FromLongLong(task);
}

/* For a process that belongs to another engine, and executes here what that has given it: also a task that another one
 * of this thread waits for. If it serves an actor, a call of it, one at a time, unless calls are not asked for; and
 * beside them what they wait for. */
static PyObject *client_run_one(ClientObject *c, PyObject *const *args, Py_ssize_t nargs)
{
    double timeout;
    uint32_t outer = current_client == c ? current_task_1 : 0;
    int calls = 1;
    if (nargs != 1 && nargs != 2)
        return PyErr_Format(PyExc_TypeError, "run_one(timeout), or run_one(timeout, calls)");
    if (client_readable(c) < 0 || parse_timeout(args[0], &timeout) < 0 ||
        (nargs == 2 && (calls = PyObject_IsTrue(args[1])) < 0))
        return NULL;
    int64_t task = take_task(c, outer || !calls ? TASKS_ALONE : CALLS_AND_TASKS, timeout, true);
    if (task == FAILED)
        return NULL;
    if (task == LEAVE)
        Py_RETURN_NONE;
    if (task < 0)
        Py_RETURN_FALSE;
    bool before = runs_borrowed;
    runs_borrowed = true;
    end_task(c, (uint32_t)task, execute(c, (uint32_t)task, false));
    runs_borrowed = before;
    if (outer) {
        set_current(c, outer);
        segment_lock(&c->s);
        c->s.clients[c->s.me].task_1 = outer;
        segment_unlock(&c->s);
    }
    Py_RETURN_TRUE;
}

PyMethodDef run_methods[] = {
    {"run_one", FAST(client_run_one), METH_FASTCALL,
     "run_one(timeout, calls=True, /)\n--\n\nExecutes a task as run does, no call of an actor if none is asked for; "
     "False: there was none in time, or wake() was called; None: leave."},
    {"run", FAST(client_run), METH_FASTCALL,
     "run(group=None, start=None, /)\n--\n\nExecutes tasks; -1: leave, otherwise an actor's "
     "constructor to run. Of an actor: calls of that concurrency group; `start()` begins "
     "another thread of it, or returns False, when all have a call."},
    {NULL}};
