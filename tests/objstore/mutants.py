"""Deliberate mistakes in the core. Each is one that a hurried change could make; the death sweeps must catch every one.

    python tests/objstore/mutants.py            # all; `make nightly`
    python tests/objstore/mutants.py NAME       # one of them

Exit status 1 when a mutant survives.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.mutation import Mutant, main

CORE = Path(__file__).resolve().parents[2] / "objstore" / "core"
TESTS = (
    "arena_test",
    "resource_shapes_test",
    "mailbox_test",
    "timer_test",
    "starvation_test",
    "priorities_test",
    "awaited_test",
    "orphans_test",
    "scale_test",
    "threads_test",
    "stopped_test",
    "stepping_test",
    "crash_test",
)  # the quickest first
LIMIT_S = 600  # on a machine that is busy, too

COMMIT = "    atomic_store_explicit(&t->state, TASK_WAITING, memory_order_release); /* the commit */\n"
MUTANTS = [
    Mutant(
        "a task is committed before its fields",
        "tasks/task.c",
        "    t->next_1 = t->next_waiting_1 = 0;\n    t->result_1 = spec",
        "    atomic_store(&t->state, TASK_WAITING);\n    STEP();\n    t->next_1 = t->next_waiting_1 = 0;\n    "
        "t->result_1 = spec",
        test="stepping_test",
    ),
    Mutant(
        "an object is published before its bytes",
        "objects/object.c",
        "    begin_value(s, index, size, n_refs);\n    STEP();\n    object_set_offset(o, offset);\n    publish(s, o, "
        "state);\n",
        "    publish(s, o, state);\n    begin_value(s, index, size, n_refs);\n    STEP();\n    "
        "object_set_offset(o, offset);\n",
        test="stepping_test",
    ),
    Mutant(
        "a released task is free only after its references",
        "tasks/task.c",
        "    STEP();\n    atomic_store_explicit(&t->state, TASK_FREE, memory_order_release);\n    STEP();\n    "
        "object_unpin(s, function);\n"
        "    for (uint32_t i = 0; i < n_refs; i++)\n        object_unpin(s, refs[i]);\n",
        "    object_unpin(s, function);\n    for (uint32_t i = 0; i < n_refs; i++)\n        object_unpin(s, refs[i]);\n"
        "    STEP();\n    atomic_store_explicit(&t->state, TASK_FREE, memory_order_release);\n    STEP();\n",
        test="stepping_test",
    ),
    Mutant("a dead client's references stay", "clients/reap.c", "        object_drop(s, object, b->client);\n", ""),
    Mutant(
        "a dead client's half-written chunks stay",
        "clients/reap.c",
        "|| owner != b->client",
        "|| owner != b->client || true",
        test="scale_test",
    ),
    Mutant(
        "a dead client's wake-up is not given to another",
        "clients/reap.c",
        "    task_wake_workers(s);\n    wake_all(s);\n",
        "    task_wake_workers(s);\n",
        test="crash_test",
    ),
    Mutant(
        "a slot is given away before the reaping is over",
        "clients/reap.c",
        "    atomic_store(&c->state, CLIENT_DYING);\n    STEP();\n    tell_others(s);\n",
        "    atomic_store(&c->state, CLIENT_DYING);\n    atomic_store(&c->pid, 0);\n    tell_others(s);\n",
        test="scale_test",
    ),
    Mutant(
        "a reaping stands for ever when who reaps dies",
        "clients/reap.c",
        "        finish_others(s);\n",
        "        (void)0;\n",
        test="scale_test",
    ),
    Mutant(
        "a reaping goes on in the slot of the next client",
        "clients/reap.c",
        " && c->generation == generation",
        "",
        test="scale_test",
    ),
    Mutant(
        "a reaping ends a stage too early",
        "clients/reap.c",
        "        if (b.stage == OVER)\n",
        "        if (b.stage == CHUNKS)\n",
    ),
    Mutant(
        "a reaping ends with the first page",
        "clients/reap.c",
        "        if (b.stage == OVER)\n",
        "        if (b.stage >= SEES_OBJECTS)\n",
    ),
    Mutant(
        "a sweep of the arena goes on inside a chunk",
        "memory/arena.c",
        "                next = end_of(chunk_at(base, next), next); /* it is about to be merged */\n",
        "                (void)0;\n",
    ),
    Mutant(
        "recovery trusts old pins",
        "recovery/recover.c",
        "        o->pins = notes->survey.contained[i];\n",
        "        o->pins += notes->survey.contained[i];\n",
    ),
    Mutant(
        "recovery leaves absent what was being moved",
        "recovery/recover.c",
        "        offload_take_back(s);\n",
        "        (void)0;\n",
        test="stepping_test",
    ),
    Mutant(
        "recovery does not count what is offloaded",
        "recovery/recover.c",
        "        offload_count(s, o);\n",
        "",
        test="stepping_test",
    ),
    Mutant(
        "a mover does not look for readers",
        "objects/offload.c",
        "    if (is_read(s, move->slot)) {",
        "    if (false) {",
        test="stepping_test",
    ),
    Mutant(
        "memory is free before its object is absent",
        "objects/offload.c",
        "    atomic_exchange(&o->offset, OBJECT_ABSENT | move->file);\n    STEP();\n",
        "    arena_free(&h->arena, s->base, move->chunk);\n    STEP();\n    atomic_exchange(&o->offset, OBJECT_ABSENT "
        "| move->file);\n"
        "    STEP();\n    offload_count(s, o);\n    return OBJSTORE_OK;\n",
        test="stepping_test",
    ),
    Mutant(
        "what comes back names its object before it lies there",
        "objects/offload.c",
        "    atomic_store(&o->offset, chunk);\n    STEP();\n    arena_set_owner(s->base, chunk, ARENA_OBJECT, "
        "move->slot);\n",
        "    arena_set_owner(s->base, chunk, ARENA_OBJECT, move->slot);\n    STEP();\n    atomic_store(&o->offset, "
        "0);\n    STEP();\n"
        "    atomic_store(&o->offset, chunk);\n",
        test="stepping_test",
    ),
    Mutant(
        "a dead client reads on",
        "clients/reap.c",
        "    offload_forget_client(s, object, b->client);\n",
        "",
        test="stepping_test",
    ),
    Mutant(
        "recovery forgets chunks whose mark is missing",
        "recovery/recover.c",
        "        claim_chunks(s);\n",
        "        (void)0;\n",
        test="stepping_test",
    ),
    Mutant(
        "recovery leaves half-made actors",
        "recovery/recover.c",
        "        if (state != ACTOR_FREE && state != ACTOR_DEAD && !a->task_1)",
        "        if (false)",
        test="stepping_test",
    ),
    Mutant(
        "recovery leaves half-cancelled tasks",
        "recovery/recover.c",
        "        if (was_being_cancelled(s, t)) {",
        "        if (false) {",
        test="stepping_test",
    ),
    Mutant(
        "recovery forgets what groups hold",
        "tasks/placement.c",
        "                resource_keep(s, &pools[0], pools[p + i].total, pools[p + i].gpu_mask, 1);\n",
        "                (void)0;\n",
        test="stepping_test",
    ),
    Mutant(
        "recovery holds resources here for remote bundles",
        "tasks/placement.c",
        "            if (placement_holds(&pools[p]) && pools[p + i].client_1 == POOL_HERE)\n",
        "            if (placement_holds(&pools[p]))\n",
        test="stepping_test",
    ),
    Mutant(
        "recovery believes in bundles that were being taken",
        "tasks/placement.c",
        "            undo_taking(&pools[p]);\n",
        "            (void)0;\n",
        test="stepping_test",
    ),
    Mutant(
        "recovery leaves a group waiting whose bundles are all placed",
        "tasks/placement.c",
        "        if (head->state == POOL_PENDING && !placement_is_open(head))\n",
        "        if (false)\n",
        test="stepping_test",
    ),
    Mutant(
        "bundles of a lost machine stay",
        "clients/reap.c",
        "        placement_machine_died(s, b->client);\n",
        "",
        test="stepping_test",
    ),
    Mutant(
        "the end of a group is the end of an agent",
        "tasks/placement.c",
        "        if (t->flags & TASK_FLAG_REMOTE)\n            continue; /* its agent is told */\n",
        "",
        test="stepping_test",
    ),
    Mutant(
        "a group is committed before its fields",
        "tasks/placement.c",
        "    head->number = spec->number;\n",
        "    head->state = POOL_PENDING;\n    STEP();\n    head->number = spec->number;\n",
        test="stepping_test",
    ),
    Mutant(
        "a removed group goes before its tasks",
        "tasks/placement.c",
        "    if (!in_use && group->state != POOL_FREE)",
        "    if (group->state != POOL_FREE)",
        test="stepping_test",
    ),
    Mutant(
        "recovery does not finish a removal",
        "tasks/placement.c",
        "        if (!placement_lives(&s->h->pools[p]))\n",
        "        if (false)\n",
        test="stepping_test",
    ),
    Mutant(
        "recovery does not order the queue",
        "recovery/recover.c",
        "    line = sort_by_seq(line, spare, n);\n",
        "",
        test="stepping_test",
    ),
    Mutant(
        "a running task loses its worker before it is ready again",
        "tasks/task.c",
        "    task_count_attempt(t);\n    t->flags &= (uint16_t)~TASK_FLAG_CANCEL;\n    STEP();\n",
        "    task_count_attempt(t);\n    t->worker = UINT16_MAX;\n    t->flags &= (uint16_t)~TASK_FLAG_CANCEL;\n    "
        "STEP();\n",
        test="stepping_test",
    ),
    Mutant(
        "the fate of calls follows the reporter",
        "clients/reap.c",
        "    bool actor_restarts = call && atomic_load(&actor_at(s, t->actor_1 - 1)->state) != ACTOR_DEAD;\n",
        "    bool actor_restarts = call && losses->actor_restarts;\n",
        test="stepping_test",
    ),
    Mutant(
        "who leaves gives its slot back before it unlocks",
        "clients/reap.c",
        "    if (client != s->me)\n",
        "",
        test="threads_test",
    ),
    Mutant(
        "a slot that stands in the lock is claimed again",
        "clients/client.c",
        "        if (lock_owner_1(atomic_load(&s->h->lock)) == i + 1)\n            continue;\n",
        "",
        test="crash_test",
    ),
    Mutant(
        "a split shrinks the old chunk before the new one is written",
        "memory/arena.c",
        "    write_header(base, rest, surplus - ARENA_UNIT, offset, chunk->warm > front ? chunk->warm - front : 0);\n"
        "    ARENA_STEP();\n    set_size(chunk, size);\n",
        "    set_size(chunk, size);\n    ARENA_STEP();\n"
        "    write_header(base, rest, surplus - ARENA_UNIT, offset, chunk->warm > front ? chunk->warm - front : 0);\n",
    ),
    Mutant(
        "a merge defaces the chunk behind before it has grown",
        "memory/arena.c",
        "    set_size(chunk, end_of(chunk_at(base, next), next) - offset - ARENA_UNIT);\n    ARENA_STEP();\n"
        "    chunk_at(base, next)->check = 0;\n",
        "    uint64_t end = end_of(chunk_at(base, next), next);\n    chunk_at(base, next)->check = 0;\n    "
        "ARENA_STEP();\n"
        "    set_size(chunk, end - offset - ARENA_UNIT);\n",
    ),
    Mutant(
        "the waiter's mark comes before its bit",
        "objects/object.c",
        "    atomic_fetch_or(&o->waiters[s->me / 64], UINT64_C(1) << (s->me % 64));\n    STEP();\n"
        "    return (atomic_fetch_or(&o->state, OBJECT_HAS_WAITERS) & OBJECT_STATE_MASK) == OBJECT_PENDING;\n",
        "    bool pending = (atomic_fetch_or(&o->state, OBJECT_HAS_WAITERS) & OBJECT_STATE_MASK) == OBJECT_PENDING;\n"
        "    atomic_fetch_or(&o->waiters[s->me / 64], UINT64_C(1) << (s->me % 64));\n    return pending;\n",
        test="crash_test",
    ),
    Mutant(
        "a notifier wakes before it changes the inbox",
        "memory/sleep.c",
        "    atomic_fetch_add(word, 1);\n    STEP();\n    if (atomic_load(sleepers))\n        futex_wake(word, n);\n",
        "    extern int usleep(unsigned int);\n    if (atomic_load(sleepers))\n        futex_wake(word, n);\n"
        "    usleep(100);\n    atomic_fetch_add(word, 1);\n",
        (
            "memory/sleep.c",
            "    atomic_fetch_add(sleepers, 1);\n",
            "    extern int usleep(unsigned int);\n    usleep(50);\n    atomic_fetch_add(sleepers, 1);\n",
        ),
        test="threads_test",
    ),
    Mutant(
        "need may be too high",
        "objects/object.c",
        "atomic_fetch_sub(&client_at(s, client)->need, 1) <= 1 ||",
        "atomic_fetch_sub(&client_at(s, client)->need, 1) <= 0 ||",
        test="threads_test",
    ),
    Mutant(
        "a stream counts an item before it is listed",
        "objects/stream.c",
        "    refs_of(s, object)[stream->n] = *item;\n    STEP();\n    stream->n++;\n",
        "    stream->n++;\n    STEP();\n    refs_of(s, object)[stream->n - 1] = *item;\n",
        test="stepping_test",
    ),
    Mutant(
        "what runs for a dead driver is tried again",
        "clients/orphans.c",
        "            task_doom(s, i); /* otherwise it would be retried */\n",
        "            (void)t;\n",
    ),
    Mutant(
        "calls of a detached actor end with the driver",
        "clients/orphans.c",
        " && !detached;",
        " && (detached || !detached);",
    ),
    Mutant(
        "a dead actor is forgotten only after its cause of death",
        "tasks/actor.c",
        "    a->generation++;\n",
        "    if (death_object_1)\n        object_unpin(s, death_object_1 - 1);\n    death_object_1 = 0;\n    "
        "a->generation++;\n",
        test="stepping_test",
    ),
    Mutant(
        "a remote task takes resources here",
        "tasks/task.h",
        "    return t->flags & TASK_FLAG_REMOTE && !class_at",
        "    return t->flags & 0 && !class_at",
    ),
    Mutant(
        "what was to come from a lost machine stays pending",
        "clients/reap.c",
        "    if (object_state(o) == OBJECT_PENDING && o->creator ==",
        "    if (0 && o->creator ==",
        test="stepping_test",
    ),
    Mutant(
        "what a lost machine has sent is told to nobody",
        "clients/reap.c",
        "        STEP();\n        task_release_waiting(s, object);\n",
        "",
        test="stepping_test",
    ),
    Mutant(
        "a remote object is counted as offloaded",
        "objects/offload.c",
        " || !object_is_absent(o) || object_is_remote(o))",
        " || !object_is_absent(o))",
        test="stepping_test",
    ),
    Mutant(
        "a remote actor takes resources here",
        "tasks/actor.c",
        "    if (!task_holds_nothing(s, t)) {\n        resource_release",
        "    {\n        resource_release",
        test="stepping_test",
    ),
    Mutant(
        "a recovery takes resources for remote actors",
        "recovery/recover.c",
        "        if (!task_holds_nothing(s, t))\n            resource_keep",
        "            resource_keep",
        test="stepping_test",
    ),
    Mutant(
        "a lost actor's calls are not given back",
        "clients/reap.c",
        "            remote_give_back(s, calls[i]);\n",
        "            (void)0;\n",
        test="stepping_test",
    ),
    Mutant(
        "calls of a remote actor are limited here",
        "tasks/actor.c",
        " || is_remote(s, a);\n}",
        ";\n}",
        test="stepping_test",
    ),
    Mutant(
        "what asks where to begin begins here",
        "tasks/resource.c",
        "    if (resource_is_routed(s, c))\n        return UINT32_MAX;\n",
        "",
        test="stepping_test",
    ),
    Mutant(
        "a shape that tasks are of makes room for another",
        "tasks/resource.c",
        "            if (!used[i] && resource_is_used",
        "            if (resource_is_used",
    ),
    Mutant(
        "a shape goes whose parts its tasks will need",
        "tasks/resource.c",
        "            resource_is_whole(s, i, used);\n",
        "            (void)0;\n",
    ),
    Mutant(
        "the parts of a shape make room before it does",
        "tasks/resource.c",
        "whole = 1; whole >= 0; whole--)",
        "whole = 0; whole <= 1; whole++)",
        test="stepping_test",
    ),
    Mutant(
        "a shape is there before its fields",
        "tasks/resource.c",
        "    memcpy(c->demand, shape->demand, sizeof c->demand);\n    memcpy(c->hold",
        "    STEP();\n    h->n_classes += i == h->n_classes;\n    c->generation++;\n    STEP();\n    c->generation--;\n"
        "    memcpy(c->demand, shape->demand, sizeof c->demand);\n    memcpy(c->hold",
        test="stepping_test",
    ),
    Mutant(
        "a shape's old number leads to its successor",
        "tasks/resource.c",
        "resource_is_used(s, *index) && resource_number(s, *index) == number",
        "resource_is_used(s, *index)",
    ),
    Mutant(
        "a task changes its class before it leaves its queue",
        "tasks/task.c",
        "    queue_remove(s, class_at(s, t->resource_class), t, task);\n    STEP();\n    t->resource_class = "
        "(uint16_t)class;\n",
        "    t->resource_class = (uint16_t)class;\n    STEP();\n    queue_remove(s, class_at(s, t->resource_class), t, "
        "task);\n",
        test="stepping_test",
    ),
    Mutant(
        "a dead agent goes on directing",
        "clients/reap.c",
        "        h->director_1 = NO_DIRECTOR_YET;\n",
        "        (void)h;\n",
        test="stepping_test",
    ),
    Mutant(
        "a recovery forgets checkpoints",
        "recovery/recover.c",
        "        if (a->checkpoint_1)\n            object_pin(s, a->checkpoint_1 - 1);\n",
        "",
        test="stepping_test",
    ),
    Mutant(
        "an old checkpoint is let go of first",
        "tasks/actor.c",
        "    if (object_1)\n        object_pin(s, object_1 - 1);\n    STEP();\n    a->checkpoint_1 = object_1;\n    "
        "STEP();\n    if (before_1)\n        object_unpin(s, before_1 - 1);\n",
        "    if (before_1)\n        object_unpin(s, before_1 - 1);\n    STEP();\n    a->checkpoint_1 = object_1;\n    "
        "STEP();\n    if (object_1)\n        object_pin(s, object_1 - 1);\n",
        test="stepping_test",
    ),
    Mutant(
        "nothing is reserved for what needs much",
        "tasks/task.c",
        "if (__builtin_expect(passed && best, 0) && resource_reserve",
        "if (false && resource_reserve",
    ),
    Mutant(
        "of what fits the first class is taken, whatever its priority",
        "tasks/task.c",
        "            best = NULL;\n            depth = 0;\n            priority = class->terms.priority;\n",
        "            priority = class->terms.priority;\n",
    ),
    Mutant(
        "lower priorities go on behind higher ones that are ready",
        "tasks/task.c",
        " || class->terms.priority < priority || (h->n_envs",
        " || (h->n_envs",
    ),
    Mutant(
        "what is outranked gets a reservation",
        "tasks/task.c",
        " && passed_priority >= priority && resource",
        " && resource",
    ),
    Mutant(
        "a reservation holds what outranks it",
        "tasks/resource.c",
        "terms.priority <= reserved->terms.priority)\n        back",
        "terms.priority <= INT32_MAX)\n        back",
    ),
    Mutant(
        "a reservation is not taken over",
        "tasks/resource.c",
        "    if ((r->class_1 && class_at(s, r->class_1 - 1)->terms.priority >= c->terms.priority) ||",
        "    if (r->class_1 ||",
    ),
    Mutant(
        "a full gate gets a reservation",
        "tasks/task.c",
        "passed_priority && gate_is_open(s, class) ?",
        "passed_priority ?",
    ),
    Mutant(
        "a gate is full one task late", "tasks/gate.c", "->n_running >= c->terms.most", "->n_running > c->terms.most"
    ),
    Mutant("what begins is not counted", "tasks/task.c", "        gate_pass(s, t, 1);\n", "        (void)0;\n"),
    Mutant("what ends keeps its place", "tasks/task.c", "        gate_pass(s, t, -1);\n", "        (void)0;\n"),
    Mutant("a recovery forgets who has passed a gate", "recovery/recover.c", "        gate_count(s, t, 1);\n", ""),
    Mutant(
        "a recovery counts anew on top",
        "recovery/recover.c",
        "        h->gates[g].n_running = 0;\n",
        "        (void)0;\n",
    ),
    Mutant(
        "terms are not looked at",
        "tasks/resource.c",
        "    h->has_terms |= shape->terms.function || shape->terms.priority;\n",
        "",
    ),
    Mutant("constructors pass gates", "tasks/gate.c", "t->actor_1 ? 0 : class_at", "class_at"),
    Mutant(
        "a recursion waits for the place that it has",
        "tasks/gate.c",
        "    return c->n_in_place && gate_is_full(s, c) && !gate_wait(s, c);\n",
        "    return false && s && c;\n",
    ),
    Mutant(
        "a recursion comes too early",
        "tasks/gate.c",
        "    return c->n_in_place && gate_is_full(s, c) && !gate_wait(s, c);\n",
        "    return c->n_in_place && gate_is_full(s, c);\n",
    ),
    Mutant(
        "with a recursion others pass a full gate",
        "tasks/task.c",
        "    bool in_place = !gate_is_open(s, c);\n",
        "    bool in_place = false;\n",
    ),
    Mutant(
        "what is waited for stands behind",
        "tasks/task.c",
        "__builtin_expect(!h->has_terms && !h->n_deep, 1)",
        "__builtin_expect(!h->has_terms, 1)",
    ),
    Mutant(
        "the shallowest first",
        "tasks/task.c",
        "32u - (uint32_t)__builtin_clz(bits)",
        "1u + (uint32_t)__builtin_ctz(bits)",
    ),
    Mutant(
        "of dependencies the first alone is waited for",
        "tasks/task.c",
        "            if (t->depth)\n                task_await(s, refs[t->cursor], t->depth, 0);\n",
        "",
    ),
    Mutant(
        "a program that waits for dependencies asks for the first alone",
        "tasks/task.c",
        "            if (t->asked_for)\n                task_ask_for_next(s, task);\n",
        "",
    ),
    Mutant(
        "what a program asks for has no place in front once its dependencies are there",
        "tasks/task.c",
        "    task_enqueue(s, task, t->asked_for);\n}\n\n/* A result is sealed",
        "    task_enqueue(s, task, false);\n}\n\n/* A result is sealed",
    ),
    Mutant(
        "a call that a program asks for leaves a queue that it is not in",
        "tasks/task.c",
        "    if (is_call(t) || t->depth || atomic",
        "    if (t->depth || atomic",
    ),
    Mutant(
        "calls that no task waits for pass depth on",
        "tasks/blocked.c",
        "    if (t->actor_1 && !t->depth)\n",
        "    if (false)\n",
    ),
    Mutant(
        "a recovery counts depths on top",
        "recovery/recover.c",
        "    h->n_ready = h->n_deep = 0;\n",
        "    h->n_ready = 0;\n",
    ),
    Mutant(
        "other machines take as many as there are",
        "clients/remote_node.c",
        "    while (n < most && gate_is_open(s, c)) {",
        "    while (n < most) {",
    ),
    Mutant(
        "other machines take as many as lie there",
        "clients/remote_node.c",
        " && i < N_WEIGHED && gate_is_open(s, c);",
        " && i < N_WEIGHED;",
    ),
    Mutant("the first of a function waits", "tasks/gate.c", "    if (!last)\n        return 0;\n", ""),
    Mutant(
        "a clock that went back is waited for",
        "tasks/gate.c",
        "    return left <= c->terms.interval + ticks_in_20_us() ? left : 0;",
        "    return left < UINT64_MAX / 2 ? left : 0;",
    ),
    Mutant("nobody is to look when a gate opens", "tasks/gate.c", "    h->next_start = opens;\n", "    (void)0;\n"),
    Mutant(
        "who finds nothing does not say when to look",
        "tasks/task.c",
        "            gate_watch(s, class);\n",
        "            (void)0;\n",
    ),
    Mutant(
        "who wakes nobody does not say when to look",
        "tasks/task.c",
        "            gate_watch(s, c);\n",
        "            (void)0;\n",
    ),
    Mutant(
        "a gate goes to another function while it is named",
        "tasks/gate.c",
        "        if (!named[g + 1] && free",
        "        if (free",
    ),
    Mutant(
        "a reservation never lapses",
        "tasks/resource.c",
        "    if (!r->class_1 || (now < r->until && may",
        "    if (!r->class_1 || (may",
    ),
    Mutant(
        "a reservation that was in vain is made again at once",
        "tasks/resource.c",
        "    if (pool == UINT32_MAX || now < r->next)\n",
        "    if (pool == UINT32_MAX)\n",
    ),
    Mutant(
        "what actors keep is reserved, too",
        "tasks/resource.c",
        "c->demand[k] <= p->total[k] - p->kept[k]))",
        "c->demand[k] <= p->total[k]))",
    ),
    Mutant(
        "a reservation outlives its task",
        "tasks/task.c",
        "        resource_unreserve(s, t->resource_class);\n",
        "        (void)0;\n",
    ),
    Mutant(
        "a recovery leaves a reservation",
        "recovery/recover.c",
        "    memset(&h->reserved, 0, sizeof h->reserved);\n",
        "",
    ),
    Mutant("lanes save up turns", "tasks/task.h", "    l->turn = h->turn + 1;\n", "    l->turn++;\n"),
    Mutant(
        "a wait is forgotten before its task is ready",
        "tasks/timer.c",
        "    STEP();\n    atomic_store_explicit(&t->state, TASK_READY, memory_order_relaxed);\n    STEP();\n",
        "    times_at(s, task)->due = 0;\n    STEP();\n    atomic_store_explicit(&t->state, TASK_READY, "
        "memory_order_relaxed);\n    STEP();\n",
        test="stepping_test",
    ),
    Mutant(
        "a task waits before it knows for how long",
        "tasks/task.c",
        "    uint32_t delay = waits && t->flags & TASK_FLAG_TIMED ? timer_delay(s, task) : 0;\n",
        "    uint32_t delay = waits && t->flags & TASK_FLAG_TIMED ? timer_delay(s, task) : 0;\n    uint64_t due = "
        "delay ? times_at(s, task)->due : 0;\n"
        "    if (delay)\n        times_at(s, task)->due = 0;\n",
        (
            "tasks/task.c",
            "    if (delay)\n        timer_push(s, task);\n",
            "    if (delay) {\n        times_at(s, task)->due = due;\n        timer_push(s, task);\n    }\n",
        ),
        test="stepping_test",
    ),
    Mutant(
        "a task has ended and its time runs on",
        "tasks/task.c",
        "    if (__builtin_expect(t->flags & TASK_FLAG_TIMED, 0))\n        timer_end(s, task);\n",
        "",
    ),
    Mutant(
        "a wait goes on though its task was cancelled",
        "tasks/task.c",
        "    if (state == TASK_DELAYED)\n        timer_end(s, task);\n",
        "",
    ),
    Mutant(
        "a call waits on though its actor is dead",
        "tasks/actor.c",
        "        if (state == TASK_DELAYED)\n            timer_end(s, task);\n",
        "",
    ),
    Mutant(
        "who was cancelled is tried again, as its time was up, too",
        "tasks/task.c",
        "        times_at(s, task)->timed_out = 0;\n",
        "        (void)0;\n",
    ),
    Mutant(
        "recovery forgets the time of what runs",
        "recovery/recover.c",
        "        if (t->flags & TASK_FLAG_TIMED && times_at(s, task)->due)\n",
        "        if (false)\n",
    ),
    Mutant(
        "recovery leaves for ever what waits to be tried again",
        "recovery/recover.c",
        "            timer_push(s, task);\n            break;\n",
        "            break;\n",
    ),
    Mutant(
        "recovery keeps what was due of a task whose wait is over",
        "recovery/recover.c",
        "        s->times[task].due = 0; /* its delay was just over */\n",
        "        (void)0;\n",
    ),
    Mutant(
        "the scheduler does not hear of what is due earlier",
        "tasks/timer.c",
        "    if (h->timers_at && h->timers_at <= times_at(s, task)->due)\n",
        "    if (h->timers_at)\n",
    ),
    Mutant(
        "the heap does not move up what is due earlier",
        "tasks/timer.c",
        "i && due < due_in(s, (i - 1) / 2);",
        "i && due < due_in(s, (i - 1) / 2) && false;",
    ),
    Mutant(
        "the heap moves down the later of two",
        "tasks/timer.c",
        "due_in(s, (uint32_t)child + 1) < due_in(s, (uint32_t)child))",
        "due_in(s, (uint32_t)child + 1) > due_in(s, (uint32_t)child))",
    ),
    Mutant(
        "others begin before who waits for its CPU",
        "tasks/resource.c",
        "    int64_t back = kind == KIND_CPU ? pool_at(s, pool)->awaited : 0;\n",
        "    int64_t back = 0;\n",
    ),
    Mutant("who waits for its CPU is not woken", "tasks/task.c", "        task_wake_returning(s);\n", ""),
    Mutant(
        "a recovery forgets who waits for its CPU", "recovery/recover.c", "        task_note_returning(s, task);\n", ""
    ),
    Mutant(
        "a dead worker's task is waited for",
        "tasks/task.c",
        "    if (t->flags & TASK_FLAG_RETURNS)\n        task_set_returns(s, t, false);\n    int64_t scratch",
        "    int64_t scratch",
    ),
    Mutant(
        "a recovery forgets what actors keep",
        "recovery/recover.c",
        "resource_keep(s, resource_pool(s, t->resource_class), s->classes[t->resource_class].hold, t->gpu_mask, 1);",
        "resource_reacquire(s, resource_pool(s, t->resource_class), s->classes[t->resource_class].hold, t->gpu_mask);",
    ),
    Mutant(
        "a call waits for the next life of an actor that refuses it",
        "tasks/actor.c",
        "        refuse_calls(s, a);\n",
        "        if (!a)\n            refuse_calls(s, a);\n",
    ),
    Mutant(
        "what an actor refuses takes it along",
        "tasks/actor.c",
        "        object_pin(s, object_1 - 1);\n        refuse_calls(s, a);\n    }\n",
        "        refuse_calls(s, a);\n        object_1 = 0;\n    }\n",
    ),
    Mutant(
        "what is killed before it has begun begins as often as it likes",
        "tasks/actor.c",
        "        a->restarts_left -= a->restarts_left > 0;\n",
        "",
    ),
    Mutant(
        "a cancelled call stays until a process comes by",
        "tasks/task.c",
        "        actor_tidy(s, t->actor_1 - 1); /* last: the task is gone, and perhaps its actor */\n",
        "",
    ),
    Mutant(
        "a cancelled call is released before it leaves the mailbox",
        "tasks/actor.c",
        "            unlink_call(s, a, previous_1, at_1 - 1);\n            drop_cancelled(s, at_1 - 1);\n            "
        "continue;\n        }\n        previous_1 = at_1;\n        n++;",
        "            drop_cancelled(s, at_1 - 1);\n            unlink_call(s, a, previous_1, at_1 - 1);\n            "
        "continue;\n        }\n        previous_1 = at_1;\n        n++;",
    ),
    Mutant(
        "the lock is not taken over",
        "memory/lock.c",
        "    case PROCESS_ENDED:\n        return true;\n",
        "    case PROCESS_ENDED:\n        break;\n",
    ),
    Mutant(
        "references are dropped without the lock",
        "clients/client.c",
        "    segment_lock(s);\n    for (uint32_t i = 0; i < n; i++)\n        object_drop(s, objects[i], s->me);\n    "
        "segment_unlock(s);\n",
        "    for (uint32_t i = 0; i < n; i++)\n        object_drop(s, objects[i], s->me);\n",
    ),
    Mutant(
        "what is shared is moved to disk",
        "objects/offload.c",
        "o->size >= OBJECT_MOVABLE && !o->u.arena.n_refs &&",
        "o->size >= OBJECT_MOVABLE && (!o->u.arena.n_refs || o->u.arena.n_refs >= REFS_OF_SYNC) &&",
        test="crash_test",
    ),
    Mutant(
        "recovery does not count what is shared",
        "recovery/recover.c",
        "        object_count_shared(s, o);\n",
        "",
        test="crash_test",
    ),
    Mutant(
        "who comes to a barrier joins it afterwards",
        "objects/shared_sync.c",
        "    if (!(atomic_load(&b->members[s->me / 64]) & bit))\n"
        "        atomic_fetch_or(&b->members[s->me / 64], bit);\n    STEP();\n    do {",
        "    do {",
        delay=(
            "objects/shared_sync.c",
            "    *ticket = word;\n",
            "    atomic_fetch_or(&b->members[s->me / 64], bit);\n    *ticket = word;\n",
        ),
        test="crash_test",
    ),
    Mutant(
        "a member that dies breaks no barrier",
        "objects/shared_sync.c",
        "        if (!(atomic_load(&c->flags) & CLIENT_FLAG_LEFT))\n            sync_break(b, pid);\n",
        "",
        test="crash_test",
    ),
    Mutant(
        "a dead member is forgotten before its barrier is broken",
        "objects/shared_sync.c",
        "        if (!(atomic_load(&c->flags) & CLIENT_FLAG_LEFT))\n            sync_break(b, pid);\n        STEP();\n"
        "        atomic_fetch_and(&b->members[client / 64], ~bit);",
        "        atomic_fetch_and(&b->members[client / 64], ~bit);\n        STEP();\n"
        "        if (!(atomic_load(&c->flags) & CLIENT_FLAG_LEFT))\n            sync_break(b, pid);",
        test="crash_test",
    ),
    Mutant(
        "the owner of a condition stays its owner when it has died",
        "objects/shared_sync.c",
        "    if (b->kind == SYNC_CONDITION && owner_1(b) == client + 1)\n        sync_break(b, pid);\n",
        "",
        test="crash_test",
    ),
]


def caught_by(mutant: Mutant, folder: Path) -> str:
    """The test that fails, or an empty string."""
    for test in sorted(TESTS, key=lambda test: test != mutant.test):
        command = [
            "make",
            "-s",
            "-C",
            str(folder),
            "check",
            f"TESTS={test}",
            f"DEADLINE_S={LIMIT_S}",
            "JOBS=1",
            "CFLAGS=-O2 -Wno-error",
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if "error:" in done.stderr:
            sys.exit(f"the mutant {mutant.name!r} does not compile:\n{done.stderr}")
        if done.returncode:
            return test
    return ""


if __name__ == "__main__":
    sys.exit(main(MUTANTS, CORE, caught_by, at_once=os.cpu_count() or 1))
