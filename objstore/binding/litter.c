/* Values that only reference cycles hold: gone for the program, and in the store until the garbage collector comes by. It comes
 * when many Python objects have been made, and a cycle with 100 MB is one. So it is sent for where memory of the store depends
 * on it: when the store is full, and when a process has nothing to do, a moment after it had. */
#include "binding.h"

#define WORTH_BYTES (16u << 20) /* in the store; for less an idle process is not bothered */
#define REST_NS (100 * 1000 * 1000)
enum { REST_TIMES = 20 };       /* as long as it took: so much of the time goes into it at most */

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
