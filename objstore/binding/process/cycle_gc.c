/* Values that only reference cycles hold: gone for the program, and in the store until the garbage collector comes by.
 * It comes when many Python objects have been made, and a cycle with 100 MB is one. So it is sent for where memory of
 * the store depends on it: when the store is full, and when a process has nothing to do, a moment after it had.
 * Likewise where an actor depends on it, a process with what it has reserved: each handle that is new since the last
 * time may be in a cycle, as all is that a cell has which defines a function.
 *
 * And functions that workers have loaded, with what they have captured: they stay loaded for the next call, which
 * cannot come once the function's object is gone. They go between two tasks, when there are none, and when the store is
 * full. */
#include "binding.h"

#define WORTH_BYTES (16u << 20) /* in the store; for less an idle process is not bothered */
#define REST_NS (100 * 1000 * 1000)
enum { REST_TIMES = 20 }; /* as long as it took: so much of the time goes into it at most */

/* What was made of functions, to be loaded again for their next call. */
static PyObject *client_forget_function(ClientObject *c, PyObject *callable)
{
    for (uint32_t i = 0; c->functions && i < FUNCTION_CACHE; i++)
        if (c->functions[i].callable == callable)
            forget_function(&c->functions[i]);
    Py_RETURN_NONE;
}

bool cycle_gc_drop_functions(ClientObject *c)
{
    bool any = false;
    if (c->n_functions_freed == c->s.h->n_functions_freed)
        return false;
    c->n_functions_freed = c->s.h->n_functions_freed;
    for (uint32_t i = 0; c->functions && i < FUNCTION_CACHE; i++) {
        CachedFunction *f = &c->functions[i];
        const struct object_slot *o = object_at(&c->s, f->slot);
        if (!f->callable || (o->generation == f->generation && object_state(o) == OBJECT_READY))
            continue;
        forget_function(f);
        any = true;
    }
    if (any)
        flush_drops(c);
    return any;
}

bool cycle_gc_ask_others(ClientObject *c)
{
    segment_lock(&c->s);
    bool any = c->s.h->n_functions_asked != c->s.h->n_functions_freed;
    c->s.h->n_functions_asked = c->s.h->n_functions_freed;
    for (uint32_t w = 0; any && w < CLIENT_WORDS; w++)
        c->s.pending_wakes[w] |= c->s.h->idle[w];
    segment_unlock(&c->s);
    return any;
}

static uint32_t n_actors_held(const ClientObject *c)
{
    uint32_t n = 0, touched = c->s.h->touched_actors;
    for (uint32_t i = 0; i < touched && i < c->s.n_actors; i++) {
        uint32_t object_1 = c->s.actors[i].object_1;
        n += object_1 && object_1 <= c->s.n_objects && (c->local[object_1 - 1] & ~(LOCAL_MARKED | LOCAL_BUFFERED)) != 0;
    }
    return n;
}

bool cycle_gc_collect(ClientObject *c, bool at_once)
{
    int64_t began = monotonic_ns();
    if (!PyGC_IsEnabled() || (!at_once && began < c->no_cycle_gc_before))
        return false;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback); /* finalizers run */
    PyGC_Collect();
    PyErr_Restore(type, value, traceback);
    flush_drops(c);
    int64_t now = monotonic_ns();
    c->no_cycle_gc_before = now + REST_NS + REST_TIMES * (now - began);
    c->n_actors_kept = n_actors_held(c);
    return true;
}

bool cycle_gc_is_worth_it(ClientObject *c)
{
    uint32_t n = n_actors_held(c);
    if (n < c->n_actors_kept)
        c->n_actors_kept = n;
    return c->s.h->arena.used_bytes >= WORTH_BYTES || n > c->n_actors_kept;
}

static PyObject *client_collect_cycles(ClientObject *c, PyObject *unused)
{
    (void)unused;
    return client_usable(c) < 0 ? NULL : PyBool_FromLong(cycle_gc_is_worth_it(c) && cycle_gc_collect(c, false));
}

PyMethodDef cycle_gc_methods[] = {
    {"forget_function", (PyCFunction)client_forget_function, METH_O,
     "forget_function(callable, /)\n--\n\nHas this worker load a function again for its next call."},
    {"collect_cycles", (PyCFunction)client_collect_cycles, METH_NOARGS,
     "collect_cycles()\n--\n\nHas the garbage collector look for values of the store, if it is worth it; whether it "
     "did."},
    {NULL}};
