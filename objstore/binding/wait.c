/* wait, watch: sleeping until objects are sealed, interruptible at any time. */
#include "binding.h"

#include <errno.h>
#include <limits.h>
#include <time.h>

/* then it is looked at whether resources or processes are missing, and told */
#define PATIENCE_NS (INT64_C(2) * 1000 * 1000 * 1000)
/* Refs whose tasks are told in one critical section that they are waited for. */
#define TOLD_AT_ONCE 256
#define ALWAYS_NOTIFY (INT_MIN / 2)

int parse_timeout(PyObject *timeout, double *seconds)
{
    *seconds = -1.0;
    if (!timeout || timeout == Py_None)
        return 0;
    *seconds = PyFloat_AsDouble(timeout);
    bool is_number = *seconds != -1.0 || !PyErr_Occurred();
    if (!is_number && !PyErr_ExceptionMatches(PyExc_TypeError))
        return -1;
    if (!(*seconds >= 0)) {
        const char *hint = strcmp(Py_TYPE(timeout)->tp_name, "cellmesh.ObjectRef") == 0
                               ? "; several refs are given in a list, [a, b]"
                               : "";
        PyErr_Format(is_number ? PyExc_ValueError : PyExc_TypeError,
                     "timeout must be None or a number of seconds >= 0, not %R%s", timeout, hint);
        return -1;
    }
    return 0;
}

typedef struct {
    PyObject *const *refs;
    uint32_t *pending; /* indices into refs that are not sealed yet */
    Py_ssize_t n_pending, n_done, goal;
    enum wait_kind kind;
    bool failed;
} Watch;

/* Looks at everything still pending, and sets the waiter bits of what remains. */
static void look(ClientObject *c, Watch *w)
{
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < w->n_pending; i++) {
        uint32_t slot = ((RefObject *)w->refs[w->pending[i]])->slot;
        struct object_slot *o = &c->s.objects[slot];
        if (!object_sealed(o) && object_mark_waiting(&c->s, slot)) {
            w->pending[kept++] = w->pending[i];
            continue;
        }
        w->n_done++;
        if (w->kind == WAIT_TO_GET && object_state(o) != OBJECT_READY)
            w->failed = true;
    }
    w->n_pending = kept;
}

/* What a thread knows of the task that it waits for, which is not always its own: of a worker's task the threads that
 * the user's code has started wait for it, too. */
typedef struct {
    uint32_t task_1;
    uint64_t seq;
    bool of_user;        /* the thread */
    bool blocked;        /* by this thread, of_user: by one of them */
    uint32_t depth;      /* of what it waits for, as far as that has been told */
    int64_t looked, cpu; /* of_user: when it was last looked how busy the process is, and its CPU time then */
} Waiter;

#define THREAD_SLICE_NS (INT64_C(1) * 1000 * 1000)

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static Waiter this_waiter(const ClientObject *c)
{
    const struct client_slot *me = &c->s.clients[c->s.me];
    Waiter waiter = {.task_1 = current_task_of(c)};
    if (!waiter.task_1 && me->role == ROLE_WORKER && !me->actor_1 && !c->call_variable) {
        waiter.task_1 = me->task_1;
        waiter.of_user = waiter.task_1;
        waiter.looked = monotonic_ns();
        waiter.cpu = cpu_ns();
    }
    if (waiter.task_1)
        waiter.seq = c->s.tasks[waiter.task_1 - 1].seq;
    return waiter;
}

/* A thread of the user's may outlive the task. */
static bool has_task(const ClientObject *c, const Waiter *waiter)
{
    const struct task_slot *t = &c->s.tasks[waiter->task_1 ? waiter->task_1 - 1 : 0];
    return waiter->task_1 && t->seq == waiter->seq && t->worker == c->s.me && atomic_load(&t->state) == TASK_RUNNING;
}

/* The task waits when its main thread does, and when another thread of it does while the process uses no CPU. */
static void begin_to_wait(ClientObject *c, Waiter *waiter)
{
    if (waiter->of_user || waiter->blocked)
        return;
    task_block(&c->s, waiter->task_1 - 1);
    c->main_waits = waiter->blocked = true;
}

static void look_how_busy(ClientObject *c, Waiter *waiter)
{
    int64_t now = monotonic_ns(), cpu = cpu_ns(), span = now - waiter->looked, used = cpu - waiter->cpu;
    if (span < THREAD_SLICE_NS || !has_task(c, waiter))
        return;
    waiter->looked = now;
    waiter->cpu = cpu;
    if (used < span / 8 && !c->threads_wait) {
        task_block(&c->s, waiter->task_1 - 1);
        c->threads_wait = true;
    } else if (used > span / 2 && c->threads_wait && !c->main_waits) {
        task_unblock(&c->s, waiter->task_1 - 1);
        c->threads_wait = false;
    }
}

static void end_to_wait(ClientObject *c, const Waiter *waiter)
{
    if (waiter->of_user ? !has_task(c, waiter) || !c->threads_wait : !waiter->blocked)
        return;
    if (!waiter->of_user)
        c->main_waits = false;
    if (!c->main_waits)
        task_unblock(&c->s, waiter->task_1 - 1);
    c->threads_wait = false;
}

/* What the task waits for goes before what no task waits for. How deep that is may grow meanwhile. */
static void let_them_go_first(ClientObject *c, const Watch *w, Waiter *waiter)
{
    uint32_t depth = task_depth_below(&c->s.tasks[waiter->task_1 - 1]);
    if (depth <= waiter->depth)
        return;
    waiter->depth = depth;
    for (Py_ssize_t i = 0; i < w->n_pending;) {
        segment_lock(&c->s);
        for (Py_ssize_t end = i + TOLD_AT_ONCE; i < end && i < w->n_pending; i++)
            task_waits_for(&c->s, waiter->task_1 - 1, ((RefObject *)w->refs[w->pending[i]])->slot);
        segment_unlock(&c->s);
    }
}

/* What a program waits for goes before tasks of the same function that nobody waits for. Once it has waited for a
 * while, as this costs more than a task, and if others wait for a worker as well. True: they are told. */
static bool ask_for_them(ClientObject *c, const Watch *w)
{
    for (Py_ssize_t i = w->n_pending; i > 0;) { /* each goes to the front, so the first is asked for last */
        segment_lock(&c->s);
        bool others = c->s.h->n_ready > (uint64_t)w->n_pending;
        for (Py_ssize_t end = i - TOLD_AT_ONCE; others && i > end && i > 0; i--)
            task_ask_for(&c->s, ((RefObject *)w->refs[w->pending[i - 1]])->slot);
        segment_unlock(&c->s);
        if (!others)
            return false;
    }
    return true;
}

/* Tells the user, once, why nothing happens. */
static int tell(PyObject *hook, PyObject *ref)
{
    PyObject *result = PyObject_CallOneArg(hook, ref);
    if (!result) {
        if (!PyErr_ExceptionMatches(PyExc_Exception))
            return -1;              /* KeyboardInterrupt is for the caller, who waits */
        PyErr_WriteUnraisable(ref); /* the wait itself is none the worse */
    }
    Py_XDECREF(result);
    return 0;
}

/* Nothing has happened for long, perhaps because something has overwritten who is to be woken: -1, with an exception.
 * Nobody waits for the lock here, whose owner may be stopped. */
static int wait_in_vain(ClientObject *c) { return atomic_load(&c->s.h->lock) ? 0 : look_at_clients(c); }

/* Sleeps for a slice at most, and makes the next one longer. A thread that sleeps for more than the first sees to it
 * that SIGINT wakes it, which costs too much for a short wait: from the look at the signals on each interrupt is news
 * in the inbox. -1: there was one before. */
static int sleep_a_slice(ClientObject *c, uint32_t seen, int64_t left, int64_t *slice)
{
    bool mine = *slice > FIRST_SLICE_NS && interrupts_to_me(&c->s.clients[c->s.me].inbox);
    int result = mine && PyErr_CheckSignals() < 0 ? -1 : 0;
    if (result == 0) {
        int64_t ns = left < *slice ? left : *slice;
        Py_BEGIN_ALLOW_THREADS
        if (client_sleep(&c->s, seen, ns, &c->trust) == ETIMEDOUT)
            *slice = longer_slice(*slice);
        Py_END_ALLOW_THREADS
    }
    if (mine)
        interrupts_to_any_thread();
    return result;
}

/* Who shares its process with another engine has no other worker: what the task waits for runs here. 1: something
 * has. */
static int run_meanwhile(ClientObject *c)
{
    PyObject *has_run = PyObject_CallNoArgs(c->hooks.run_meanwhile);
    int result = has_run ? PyObject_IsTrue(has_run) : -1;
    Py_XDECREF(has_run);
    return result;
}

static int wait_loop(ClientObject *c, Watch *w, double timeout)
{
    struct client_slot *me = &c->s.clients[c->s.me];
    int64_t end = timeout < 0 ? INT64_MAX : monotonic_ns() + (int64_t)(timeout < 9e9 ? timeout * 1e9 : 9e18);
    Waiter waiter = this_waiter(c);
    bool asked = waiter.task_1, told = !c->hooks.waits_long,
         loop_told = !c->call_variable || !waiter.task_1 || !c->hooks.blocks_loop;
    int64_t slice = waiter.of_user ? THREAD_SLICE_NS : FIRST_SLICE_NS;
    int64_t patience = told ? 0 : monotonic_ns() + PATIENCE_NS;
    int result = 0;
    for (;;) {
        uint32_t seen = client_inbox(&c->s);
        /* `need` counts the seals until the wake-up; another waiting thread of this process would upset the count,
         * then every seal is news. From zero upwards it can only be too low, which costs one more look. */
        atomic_store(&me->need, c->n_waiting ? ALWAYS_NOTIFY : 0);
        look(c, w);
        if (w->n_done >= w->goal || w->failed)
            break;
        if (!c->n_waiting)
            atomic_fetch_add(&me->need, (int)(w->goal - w->n_done));
        int64_t left = end - (end == INT64_MAX ? 0 : monotonic_ns());
        if (left <= 0) {
            result = 1;
            break;
        }
        if (has_task(c, &waiter)) {
            let_them_go_first(c, w, &waiter);
            begin_to_wait(c, &waiter);
        }
        if (!asked && slice > FIRST_SLICE_NS)
            asked = ask_for_them(c, w);
        flush_drops(c);
        if (c->hooks.run_meanwhile && waiter.blocked) {
            result = run_meanwhile(c);
            if (result < 0)
                break;
            if (result > 0) {
                result = 0;
                continue;
            }
        }
        atomic_fetch_add_explicit(&c->s.h->n_waits, 1, memory_order_relaxed);
        c->n_waiting++;
        if (!told && slice > FIRST_SLICE_NS) { /* not past the time to tell */
            int64_t until = patience - monotonic_ns();
            left = until < left ? (until > 1 ? until : 1) : left;
        }
        result = sleep_a_slice(c, seen, left, &slice);
        c->n_waiting--;
        if (waiter.of_user)
            look_how_busy(c, &waiter);
        if (result < 0)
            break;
        if (!told && w->n_pending && monotonic_ns() > patience) {
            told = true;
            if (tell(c->hooks.waits_long, w->refs[w->pending[0]]) < 0) {
                result = -1;
                break;
            }
        }
        if (!loop_told && w->n_pending && slice > FIRST_SLICE_NS) {
            loop_told = true;
            if (tell(c->hooks.blocks_loop, w->refs[w->pending[0]]) < 0) {
                result = -1;
                break;
            }
        }
        if (PyErr_CheckSignals() < 0 || client_usable(c) < 0 ||
            (slice == LAST_SLICE_NS && client_inbox(&c->s) == seen && wait_in_vain(c) < 0)) {
            result = -1;
            break;
        }
    }
    end_to_wait(c, &waiter);
    return result;
}

/* 0: goal reached (or, WAIT_TO_GET, an error found); 1: timed out; -1: exception. */
int wait_refs(ClientObject *c, PyObject *const *refs, Py_ssize_t n, Py_ssize_t goal, double timeout,
              enum wait_kind kind)
{
    Py_ssize_t n_done = 0; /* often all is there already, and of a thousand refs the first are enough */
    for (Py_ssize_t i = 0; i < n && n_done < goal; i++) {
        uint32_t state = object_state(&c->s.objects[((RefObject *)refs[i])->slot]);
        n_done += state >= OBJECT_READY;
        if (kind == WAIT_TO_GET && state > OBJECT_READY)
            return 0;
    }
    if (n_done >= goal)
        return 0;
    if (timeout == 0)
        return 1;
    uint32_t small[64], *pending = small;
    if (n > 64 && !(pending = PyMem_Malloc((size_t)n * sizeof *pending))) {
        PyErr_NoMemory();
        return -1;
    }
    Watch w = {refs, pending, n, 0, goal, kind, false};
    for (Py_ssize_t i = 0; i < n; i++)
        pending[i] = (uint32_t)i;
    int result = wait_loop(c, &w, timeout);
    if (pending != small)
        PyMem_Free(pending);
    return result;
}
int refuse_ref(ClientObject *c, PyObject *o, const char *function)
{
    if (!is_ref(c, o))
        PyErr_Format(
            PyExc_TypeError,
            "%s expects an ObjectRef or a list of ObjectRefs (what f.remote() and put() return), not %R of type %s",
            function, o, Py_TYPE(o)->tp_name);
    else
        raise_store_error(c, "closed", "this ObjectRef belongs to a session that has been shut down");
    return -1;
}

/* All refs of this session, none of them twice; marks in the private counts make it linear without a set. */
static int check_distinct(ClientObject *c, PyObject *const *refs, Py_ssize_t n)
{
    Py_ssize_t n_marked = 0;
    PyObject *twice = NULL;
    for (; n_marked < n && !twice && check_ref(c, refs[n_marked], "wait") == 0; n_marked++) {
        uint32_t *local = &c->local[((RefObject *)refs[n_marked])->slot];
        if (*local & LOCAL_MARKED)
            twice = refs[n_marked];
        *local |= LOCAL_MARKED;
    }
    for (Py_ssize_t i = 0; i < n_marked; i++)
        c->local[((RefObject *)refs[i])->slot] &= ~LOCAL_MARKED;
    if (twice)
        PyErr_Format(PyExc_ValueError,
                     "wait() needs distinct refs, and %R occurs more than once: use list(dict.fromkeys(refs))", twice);
    return PyErr_Occurred() ? -1 : 0;
}

/* wait(refs, num_returns, timeout) -> (ready, rest) */
static PyObject *client_wait(ClientObject *c, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    double timeout;
    (void)kwnames;
    if (nargs != 3 || !PyList_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "wait(refs, num_returns, timeout): refs must be a list of ObjectRefs");
    Py_ssize_t goal = PyLong_AsSsize_t(args[1]);
    if ((goal == -1 && PyErr_Occurred()) || client_usable(c) < 0 || parse_timeout(args[2], &timeout) < 0)
        return NULL;
    Py_ssize_t n = PyList_GET_SIZE(args[0]);
    PyObject *held = PyList_GetSlice(args[0], 0, n);
    if (!held)
        return NULL;
    PyObject **refs = ((PyListObject *)held)->ob_item, *ready = NULL, *rest = NULL, *pair = NULL;
    if (check_distinct(c, refs, n) < 0)
        goto done;
    if (goal < 0 || goal > n) {
        PyErr_Format(PyExc_ValueError, "num_returns must lie between 0 and the number of refs (%zd), not %zd", n, goal);
        goto done;
    }
    if (wait_refs(c, refs, n, goal, timeout, WAIT_TO_LOOK) < 0)
        goto done;
    Py_ssize_t n_ready = 0, end = 0; /* all behind `end` is rest */
    ready = PyList_New(0);
    for (; ready && end < n && n_ready < goal; end++)
        if (object_sealed(&c->s.objects[((RefObject *)refs[end])->slot])) {
            if (PyList_Append(ready, refs[end]) < 0)
                goto done;
            n_ready++;
        }
    rest = ready ? PyList_New(n - n_ready) : NULL;
    if (!rest)
        goto done;
    for (Py_ssize_t i = 0, taken = 0; i < n; i++) {
        if (taken < n_ready && refs[i] == PyList_GET_ITEM(ready, taken))
            taken++;
        else
            PyList_SET_ITEM(rest, i - taken, Py_NewRef(refs[i]));
    }
    pair = PyTuple_Pack(2, ready, rest);
done:
    Py_XDECREF(ready);
    Py_XDECREF(rest);
    Py_DECREF(held);
    return pair;
}

PyObject *client_ready(ClientObject *c, PyObject *ref)
{
    if (client_usable(c) < 0 || check_ref(c, ref, "ready") < 0)
        return NULL;
    return PyBool_FromLong(object_sealed(&c->s.objects[((RefObject *)ref)->slot]));
}

static PyObject *client_mark_waiting(ClientObject *c, PyObject *ref)
{
    if (client_usable(c) < 0 || check_ref(c, ref, "mark_waiting") < 0)
        return NULL;
    if (!c->watching) { /* from now on a thread may be about to watch at any time, so every seal is news */
        c->watching = true;
        c->n_waiting++;
    }
    atomic_store(&c->s.clients[c->s.me].need, ALWAYS_NOTIFY);
    return PyBool_FromLong(!object_mark_waiting(&c->s, ((RefObject *)ref)->slot));
}

static PyObject *client_ask_for(ClientObject *c, PyObject *refs)
{
    if (!PyList_Check(refs))
        return PyErr_Format(PyExc_TypeError, "ask_for(refs): refs must be a list of ObjectRefs");
    Py_ssize_t n = PyList_GET_SIZE(refs);
    if (client_usable(c) < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < n; i++)
        if (check_ref(c, PyList_GET_ITEM(refs, i), "ask_for") < 0)
            return NULL;
    uint32_t *pending = PyMem_Malloc((size_t)(n + 1) * sizeof *pending);
    if (!pending)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++)
        pending[i] = (uint32_t)i;
    ask_for_them(c, &(Watch){.refs = ((PyListObject *)refs)->ob_item, .pending = pending, .n_pending = n});
    PyMem_Free(pending);
    Py_RETURN_NONE;
}

/* Sleeps until an object has been sealed, or wake() called, since the last call. One thread per process. */
static PyObject *client_watch(ClientObject *c, PyObject *timeout_object)
{
    double timeout;
    if (client_usable(c) < 0 || parse_timeout(timeout_object, &timeout) < 0)
        return NULL;
    int64_t end = timeout < 0 ? INT64_MAX : monotonic_ns() + (int64_t)(timeout * 1e9);
    for (;;) {
        uint32_t now = client_seals(&c->s);
        int64_t left = end == INT64_MAX ? INT64_MAX / 2 : end - monotonic_ns();
        if (now != c->watch_seen || left <= 0) {
            if (now == c->watch_seen && timeout > 0 && wait_in_vain(c) < 0)
                return NULL;
            c->watch_seen = now;
            break;
        }
        struct segment *s = &c->s;
        Py_BEGIN_ALLOW_THREADS
        client_sleep_until_seal(s, now, left < INT64_C(10000000000) ? left : INT64_C(10000000000));
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0 || client_usable(c) < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

PyMethodDef wait_methods[] = {
    {"wait", FAST(client_wait), METH_FASTCALL | METH_KEYWORDS,
     "wait(refs, num_returns, timeout)\n--\n\n(ready, rest), in input order."},
    {"ready", (PyCFunction)client_ready, METH_O, "ready(ref, /)\n--\n\nWhether get would return, or raise, at once."},
    {"mark_waiting", (PyCFunction)client_mark_waiting, METH_O,
     "mark_waiting(ref, /)\n--\n\nAsks for a wake-up; True: sealed already."},
    {"ask_for", (PyCFunction)client_ask_for, METH_O,
     "ask_for(refs, /)\n--\n\nWhat makes them goes before tasks of the same function that nobody waits for."},
    {"watch", (PyCFunction)client_watch, METH_O,
     "watch(timeout, /)\n--\n\nSleeps until something marked may have been sealed."},
    {NULL}};
