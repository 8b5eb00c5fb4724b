"""Deliberate mistakes in the core. Each is one that a hurried change could make; the death sweeps must catch every one.

    python tests/objstore/mutants.py            # all; `make nightly`
    python tests/objstore/mutants.py NAME       # one of them

Exit status 1 when a mutant survives.
"""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from mutation import Mutant, main  # noqa: E402

CORE = Path(__file__).resolve().parents[2] / "objstore" / "core"
TESTS = ("arena_test", "abandon_test", "scale_test", "stepping_test", "threads_test", "stopped_test", "crash_test")  # the quickest first
LIMIT_S = 600   # on a machine that is busy, too

COMMIT = "    atomic_store_explicit(&t->state, TASK_WAITING, memory_order_release); /* the commit */\n"
MUTANTS = [
    Mutant("a task is committed before its fields", "task.c", "    t->next_1 = t->next_waiting_1 = 0;\n    t->result_1 = spec",
           "    atomic_store(&t->state, TASK_WAITING);\n    STEP();\n    t->next_1 = t->next_waiting_1 = 0;\n    t->result_1 = spec"),
    Mutant("an object is published before its bytes", "object.c",
           "    begin_value(s, index, size, n_refs);\n    STEP();\n    object_set_offset(o, offset);\n    publish(s, index, state);\n",
           "    publish(s, index, state);\n    begin_value(s, index, size, n_refs);\n    STEP();\n    object_set_offset(o, offset);\n"),
    Mutant("a released task is free only after its references", "task.c",
           "    STEP();\n    atomic_store_explicit(&t->state, TASK_FREE, memory_order_release);\n    STEP();\n    object_unpin(s, function);\n"
           "    for (uint32_t i = 0; i < n_refs; i++)\n        object_unpin(s, refs[i]);\n",
           "    object_unpin(s, function);\n    for (uint32_t i = 0; i < n_refs; i++)\n        object_unpin(s, refs[i]);\n"
           "    STEP();\n    atomic_store_explicit(&t->state, TASK_FREE, memory_order_release);\n    STEP();\n"),
    Mutant("a dead client's references stay", "burial.c", "        object_drop(s, object, b->client);\n", ""),
    Mutant("a dead client's half-written chunks stay", "burial.c", "|| owner != b->client", "|| owner != b->client || true"),
    Mutant("a dead client's wake-up is not given to another", "burial.c", "    task_wake_workers(s);\n    wake_everybody(s);\n",
           "    task_wake_workers(s);\n"),
    Mutant("a slot is given away before the burial is over", "burial.c",
           "    atomic_store(&c->state, CLIENT_DYING);\n    STEP();\n    tell_others(s);\n",
           "    atomic_store(&c->state, CLIENT_DYING);\n    atomic_store(&c->pid, 0);\n    tell_others(s);\n"),
    Mutant("a burial stands for ever when who buries dies", "burial.c", "        finish_others(s);\n", "        (void)0;\n"),
    Mutant("a burial goes on in the slot of the next client", "burial.c", " && c->generation == generation", ""),
    Mutant("a burial ends a stage too early", "burial.c", "        if (b.stage == OVER)\n", "        if (b.stage == CHUNKS)\n"),
    Mutant("a burial ends with the first page", "burial.c", "        if (b.stage == OVER)\n", "        if (b.stage >= SEES_OBJECTS)\n"),
    Mutant("a sweep of the arena goes on inside a chunk", "arena.c",
           "                next = end_of(chunk_at(base, next), next); /* it is about to be joined */\n", "                (void)0;\n"),
    Mutant("recovery trusts old pins", "recover.c", "        o->pins = notes->survey.contained[i];\n",
           "        o->pins += notes->survey.contained[i];\n"),
    Mutant("recovery leaves away what was being moved", "recover.c", "        away_take_back(s);\n", "        (void)0;\n"),
    Mutant("recovery does not count what is away", "recover.c", "        away_count(s, o);\n", ""),
    Mutant("a mover does not look for readers", "away.c", "    if (is_read(s, move->slot)) {", "    if (false) {"),
    Mutant("memory is free before its object is away", "away.c",
           "    atomic_exchange(&o->offset, OBJECT_AWAY | move->file); /* a full fence: readers' bits are looked at afterwards */\n    STEP();\n",
           "    arena_free(&h->arena, s->base, move->chunk);\n    STEP();\n    atomic_exchange(&o->offset, OBJECT_AWAY | move->file);\n"
           "    STEP();\n    away_count(s, o);\n    return OBJSTORE_OK;\n"),
    Mutant("what comes back names its object before it lies there", "away.c",
           "    atomic_store(&o->offset, chunk);\n    STEP();\n    arena_set_owner(s->base, chunk, ARENA_OBJECT, move->slot);\n",
           "    arena_set_owner(s->base, chunk, ARENA_OBJECT, move->slot);\n    STEP();\n    atomic_store(&o->offset, 0);\n    STEP();\n"
           "    atomic_store(&o->offset, chunk);\n"),
    Mutant("a dead client reads on", "burial.c", "    away_forget_client(s, object, b->client);\n", ""),
    Mutant("recovery forgets chunks whose mark is missing", "recover.c", "        claim_chunks(s);\n", "        (void)0;\n"),
    Mutant("recovery leaves half-made actors", "recover.c", "        if (state != ACTOR_FREE && state != ACTOR_DEAD && !a->task_1)",
           "        if (false)"),
    Mutant("recovery leaves half-cancelled tasks", "recover.c", "        if (was_being_cancelled(s, t)) {", "        if (false) {"),
    Mutant("recovery forgets what groups hold", "placement.c",
           "                resource_reacquire(s, &pools[0], pools[p + i].total, pools[p + i].gpu_mask);\n", "                (void)0;\n"),
    Mutant("recovery holds resources here for bundles elsewhere", "placement.c",
           "            if (placement_holds(&pools[p]) && pools[p + i].client_1 == POOL_HERE)\n", "            if (placement_holds(&pools[p]))\n"),
    Mutant("recovery believes in bundles that were being taken", "placement.c", "            undo_taking(&pools[p]);\n", "            (void)0;\n"),
    Mutant("recovery leaves a group waiting whose bundles are all placed", "placement.c",
           "        if (head->state == POOL_PENDING && !placement_is_open(head))\n", "        if (false)\n"),
    Mutant("bundles of a lost machine stay", "burial.c", "        placement_machine_died(s, b->client);\n", ""),
    Mutant("the end of a group is the end of an agent", "placement.c",
           "        if (t->flags & TASK_FLAG_ELSEWHERE)\n            continue; /* its agent is told */\n", ""),
    Mutant("a group is committed before its fields", "placement.c", "    head->number = spec->number;\n",
           "    head->state = POOL_PENDING;\n    STEP();\n    head->number = spec->number;\n"),
    Mutant("a removed group goes before its tasks", "placement.c", "    if (!in_use && group->state != POOL_FREE)",
           "    if (group->state != POOL_FREE)"),
    Mutant("recovery does not finish a removal", "placement.c", "        if (!placement_lives(&s->h->pools[p]))\n", "        if (false)\n"),
    Mutant("recovery does not order the queue", "recover.c", "    line = sort_by_seq(line, spare, n);\n", ""),
    Mutant("a running task loses its worker before it is ready again", "task.c",
           "    task_count_attempt(t);\n    t->flags &= (uint16_t)~TASK_FLAG_CANCEL;\n    STEP();\n",
           "    task_count_attempt(t);\n    t->worker = UINT16_MAX;\n    t->flags &= (uint16_t)~TASK_FLAG_CANCEL;\n    STEP();\n"),
    Mutant("the fate of calls follows the reporter", "burial.c",
           "    bool actor_restarts = call && atomic_load(&actor_at(s, t->actor_1 - 1)->state) != ACTOR_DEAD;\n",
           "    bool actor_restarts = call && losses->actor_restarts;\n"),
    Mutant("who leaves gives its slot back before it unlocks", "burial.c", "    if (client != s->me)\n", ""),
    Mutant("a slot that stands in the lock is claimed again", "client.c",
           "        if (lock_owner_1(atomic_load(&s->h->lock)) == i + 1)\n            continue;\n", ""),
    Mutant("a split shrinks the old chunk before the new one is written", "arena.c",
           "    write_header(base, rest, surplus - ARENA_UNIT, offset, chunk->warm > front ? chunk->warm - front : 0);\n"
           "    ARENA_STEP();\n    set_size(chunk, size);\n",
           "    set_size(chunk, size);\n    ARENA_STEP();\n"
           "    write_header(base, rest, surplus - ARENA_UNIT, offset, chunk->warm > front ? chunk->warm - front : 0);\n"),
    Mutant("a merge defaces the chunk behind before it has grown", "arena.c",
           "    set_size(chunk, end_of(chunk_at(base, next), next) - offset - ARENA_UNIT);\n    ARENA_STEP();\n"
           "    chunk_at(base, next)->check = 0;\n",
           "    uint64_t end = end_of(chunk_at(base, next), next);\n    chunk_at(base, next)->check = 0;\n    ARENA_STEP();\n"
           "    set_size(chunk, end - offset - ARENA_UNIT);\n"),
    Mutant("the waiter's mark comes before its bit", "object.c",
           "    atomic_fetch_or(&o->waiters[s->me / 64], UINT64_C(1) << (s->me % 64));\n    STEP();\n"
           "    return (atomic_fetch_or(&o->state, OBJECT_HAS_WAITERS) & OBJECT_STATE_MASK) == OBJECT_PENDING;\n",
           "    bool pending = (atomic_fetch_or(&o->state, OBJECT_HAS_WAITERS) & OBJECT_STATE_MASK) == OBJECT_PENDING;\n"
           "    atomic_fetch_or(&o->waiters[s->me / 64], UINT64_C(1) << (s->me % 64));\n    return pending;\n"),
    Mutant("a notifier wakes before it changes the inbox", "segment.c",
           "    atomic_fetch_add(&c->inbox, 1);\n    STEP();\n    if (atomic_load(&c->sleepers))\n        futex_wake(&c->inbox, INT_MAX);\n",
           "    if (atomic_load(&c->sleepers))\n        futex_wake(&c->inbox, INT_MAX);\n"
           "    usleep(100);\n    atomic_fetch_add(&c->inbox, 1);\n",
           ("client.c", "    atomic_fetch_add(&c->sleepers, 1);\n", "    usleep(50);\n    atomic_fetch_add(&c->sleepers, 1);\n")),
    Mutant("need may be too high", "object.c", "atomic_fetch_sub(&client_at(s, client)->need, 1) <= 1 ||",
           "atomic_fetch_sub(&client_at(s, client)->need, 1) <= 0 ||"),
    Mutant("a stream counts an item before it is listed", "stream.c",
           "    refs_of(s, object)[stream->n] = *item;\n    STEP();\n    stream->n++;\n",
           "    stream->n++;\n    STEP();\n    refs_of(s, object)[stream->n - 1] = *item;\n"),
    Mutant("what runs for a dead driver is tried again", "abandon.c",
           "            t->flags |= TASK_FLAG_CANCEL; /* else it would be retried */\n", "            (void)t;\n"),
    Mutant("calls of a detached actor end with the driver", "abandon.c", " && !detached;", " && (detached || !detached);"),
    Mutant("a dead actor is forgotten only after its cause of death", "actor.c", "    a->generation++;\n",
           "    if (death_object_1)\n        object_unpin(s, death_object_1 - 1);\n    death_object_1 = 0;\n    a->generation++;\n"),
    Mutant("a task elsewhere takes resources here", "task.h", "    return t->flags & TASK_FLAG_ELSEWHERE && !class_at", "    return t->flags & 0 && !class_at"),
    Mutant("what was to come from a lost machine stays pending", "burial.c", "    if (object_state(o) == OBJECT_PENDING && o->creator ==", "    if (0 && o->creator =="),
    Mutant("what a lost machine has sent is told to nobody", "burial.c", "        STEP();\n        task_release_waiting(s, object);\n", ""),
    Mutant("what lies elsewhere is counted as lying on disk", "away.c", " || !object_is_away(o) || object_is_elsewhere(o))", " || !object_is_away(o))"),
    Mutant("an actor elsewhere takes resources here", "actor.c", "    if (!task_holds_nothing(s, t)) {\n        resource_release", "    {\n        resource_release"),
    Mutant("a recovery takes resources for actors elsewhere", "recover.c", "        if (!task_holds_nothing(s, t))\n            resource_reacquire",
           "            resource_reacquire"),
    Mutant("a lost actor's calls are not given back", "burial.c", "            proxy_give_back(s, calls[i]);\n", "            (void)0;\n"),
    Mutant("calls of an actor elsewhere are limited here", "actor.c", " || is_elsewhere(s, a);\n}", ";\n}"),
    Mutant("what asks where to begin begins here", "resource.c", "    if (resource_is_routed(s, index))\n        return UINT32_MAX;\n", ""),
    Mutant("a task changes its class before it leaves its queue", "task.c",
           "    queue_remove(s, task);\n    STEP();\n    task_at(s, task)->resource_class = (uint16_t)class;\n",
           "    task_at(s, task)->resource_class = (uint16_t)class;\n    STEP();\n    queue_remove(s, task);\n"),
    Mutant("a dead agent goes on directing", "burial.c", "        h->director_1 = NO_DIRECTOR_YET;\n", "        (void)h;\n"),
    Mutant("a recovery forgets checkpoints", "recover.c", "        if (a->checkpoint_1)\n            object_pin(s, a->checkpoint_1 - 1);\n", ""),
    Mutant("an old checkpoint is let go of first", "actor.c", "    if (object_1)\n        object_pin(s, object_1 - 1);\n    STEP();\n    a->checkpoint_1 = object_1;\n    STEP();\n    if (before_1)\n        object_unpin(s, before_1 - 1);\n",
           "    if (before_1)\n        object_unpin(s, before_1 - 1);\n    STEP();\n    a->checkpoint_1 = object_1;\n    STEP();\n    if (object_1)\n        object_pin(s, object_1 - 1);\n"),
    Mutant("the lock is not taken over", "segment.c", "    case PROCESS_ENDED:\n        return true;\n", "    case PROCESS_ENDED:\n        break;\n"),
    Mutant("references are dropped without the lock", "client.c",
           "    segment_lock(s);\n    for (uint32_t i = 0; i < n; i++)\n        object_drop(s, objects[i], s->me);\n    segment_unlock(s);\n",
           "    for (uint32_t i = 0; i < n; i++)\n        object_drop(s, objects[i], s->me);\n"),
]


def caught_by(mutant: Mutant, folder: Path) -> str:
    """The test that fails, or an empty string."""
    for test in TESTS:
        command = ["make", "-s", "-C", str(folder), "check", f"TESTS={test}", f"DEADLINE_S={LIMIT_S}", "CFLAGS=-O2 -Wno-error"]
        done = subprocess.run(command, capture_output=True, text=True)
        if "error:" in done.stderr:
            sys.exit(f"the mutant {mutant.name!r} does not compile:\n{done.stderr}")
        if done.returncode:
            return test
    return ""


if __name__ == "__main__":
    sys.exit(main(MUTANTS, CORE, caught_by))
