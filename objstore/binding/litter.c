/* Values that only reference cycles hold: gone for the program, and in the store until the garbage collector comes by. It comes
 * when many Python objects have been made, and a cycle with 100 MB is one. So it is sent for where memory of the store depends
 * on it: when the store is full, and when a process has nothing to do, a moment after it had.
 *
 * And functions that workers have loaded, with what they have captured: they stay loaded for the next call, which cannot come once the
 * function's object is gone. They go between two tasks, when there are none, and when the store is full. */
#include "binding.h"

#define WORTH_BYTES (16u << 20) /* in the store; for less an idle process is not bothered */
#define REST_NS (100 * 1000 * 1000)
enum { REST_TIMES = 20 };       /* as long as it took: so much of the time goes into it at most */

bool litter_drop_functions(ClientObject *c)
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

bool litter_ask_others(ClientObject *c)
{
    segment_lock(&c->s);
    bool any = c->s.h->n_functions_asked != c->s.h->n_functions_freed;
    c->s.h->n_functions_asked = c->s.h->n_functions_freed;
    for (uint32_t w = 0; any && w < CLIENT_WORDS; w++)
        c->s.pending_wakes[w] |= c->s.h->idle[w];
    segment_unlock(&c->s);
    return any;
}

bool litter_collect(ClientObject *c, bool at_once)
{
    int64_t began = monotonic_ns();
    if (!PyGC_IsEnabled() || (!at_once && began < c->no_litter_before))
        return false;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback); /* finalizers run */
    PyGC_Collect();
    PyErr_Restore(type, value, traceback);
    flush_drops(c);
    int64_t now = monotonic_ns();
    c->no_litter_before = now + REST_NS + REST_TIMES * (now - began);
    return true;
}

bool litter_is_worth_it(const ClientObject *c) { return c->s.h->arena.used_bytes >= WORTH_BYTES; }

PyObject *client_collect_litter(ClientObject *c, PyObject *unused)
{
    (void)unused;
    return client_usable(c) < 0 ? NULL : PyBool_FromLong(litter_is_worth_it(c) && litter_collect(c, false));
}
