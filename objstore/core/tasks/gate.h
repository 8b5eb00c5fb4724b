/* Gates limit the tasks of a function: how many run at a time, and how soon after another the next may begin. A class
 * names the gate of its function. Ready tasks are in the queues as always; while the gate is closed there is no
 * capacity for them (resource_room; decision 88).
 *
 * All classes of a function share its gate, and each applies its own limits: `most` and `interval` of its terms. A task
 * is counted while it is RUNNING, on whatever machine, also while it waits for other tasks: it is counted before it
 * leaves for another machine, and until it ends, is retried, or its machine is lost. A task that a running task of the
 * same function waits for passes a full gate, as a recursion would never end otherwise. It is counted too, so more than
 * `most` may run; then no other begins until there are fewer.
 *
 * A full gate opens when a task ends, and the worker of that task looks. For a gate that opens with time the scheduler
 * has a deadline, header.next_start.
 *
 * Authoritative are `function` and `last`; `n_running` is derived. Everything here is under the lock. */
#ifndef CELLMESH_GATE_H
#define CELLMESH_GATE_H

#include "memory/segment.h"

/* The gate of a function + 1; a new function takes a gate that no class names. 0: the function is 0. There are as many
 * gates as classes. */
uint32_t gate_for(struct segment *segment, uint64_t function);

/* Whether `most` tasks run already. */
bool gate_is_full(const struct segment *segment, const struct resource_class *class);

/* Ticks until the next task may begin by its interval, 0: now. The clock of this CPU may be a little behind the one
 * that was read last. An overwritten value holds nothing up. */
uint64_t gate_wait(const struct segment *segment, const struct resource_class *class);

/* cold: the path of classes without a gate stays short */
bool gate_lets_pass(const struct segment *segment, const struct resource_class *class) __attribute__((cold));
static inline bool gate_is_open(const struct segment *s, const struct resource_class *c)
{
    return __builtin_expect(!c->gate_1, 1) || gate_lets_pass(s, c);
}

/* Whether it is full, and nothing else keeps those tasks from beginning that may pass a full gate. */
bool gate_is_open_in_place(const struct segment *segment, const struct resource_class *class) __attribute__((cold));

/* How many of `n` tasks could begin now. */
int64_t gate_room(const struct segment *segment, const struct resource_class *class, int64_t n);

/* A task begins to run (sign 1) or stops running (-1). Calls and constructors of actors pass no gate. */
void gate_count(struct segment *segment, const struct task_slot *task, int sign);
/* The same, and the next task begins an interval later. */
void gate_pass(struct segment *segment, const struct task_slot *task, int sign);

/* Ready tasks of the class did not begin: if only the interval is the reason, the scheduler is to look in time. */
void gate_watch(struct segment *segment, const struct resource_class *class);

/* For the scheduler, which looks now: ticks until it looks again, 0: never. */
uint64_t gate_next_look(struct segment *segment);

/* Whether the class names the gate of its function, or rightly none. */
bool gate_is_that_of(const struct segment *segment, const struct resource_class *class);

#endif
