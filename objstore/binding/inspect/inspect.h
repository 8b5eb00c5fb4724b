/* What the listings share. A listing is copied under the lock into private memory first, and turned into Python objects
 * afterwards: under the lock nothing is allocated. */
#ifndef CELLMESH_BINDING_INSPECT_H
#define CELLMESH_BINDING_INSPECT_H

#include "formats/constants.h"

/* Appends a new reference, which it takes; false: with an exception. */
bool list_add(PyObject *list, PyObject *item);
/* The finished list; not ok: NULL, with an exception. */
PyObject *list_done(PyObject *list, bool ok);

/* Private memory for a copy of slots, from before the lock is taken. */
void *new_copy(size_t n, size_t size);

/* Slots that have been used, of a table of `n`. */
uint32_t used_slots(uint32_t touched, uint32_t n);

/* Tables are read page by page, each as it is at one moment: a million slots at once would keep all others from the
 * lock for tens of milliseconds. What lives all the while is seen, once. */
enum { PAGE_SLOTS = 4096 };
static inline uint32_t page_end(uint32_t begin, uint32_t n) { return n - begin < PAGE_SLOTS ? n : begin + PAGE_SLOTS; }

/* Unfinished tasks are those in one of these states; some are nobody's business. */
static inline bool is_listed(const struct task_slot *t, uint32_t state)
{
    return (state == TASK_WAITING || state == TASK_READY || state == TASK_RUNNING || state == TASK_DELAYED) &&
           !(t->flags & TASK_FLAG_HIDDEN);
}

/* What keeps ready tasks of a class from beginning though there is room; zeros: nothing. */
struct limits {
    unsigned n_running, most;
    double wait_s;
};

struct limits limits_of(const struct segment *s, const struct resource_class *class);

const char *word_of(const struct task_slot *t, uint32_t state);   /* as listings call it */
bool is_sent(const struct segment *s, const struct task_slot *t); /* of a running one: and has not begun, elsewhere */
PyObject *object_id(ClientObject *c, uint32_t slot, uint32_t generation); /* what hex() of its ref gives */

#endif
