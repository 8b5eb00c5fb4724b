"""An explicit-state model checker: every interleaving of small processes, and death wherever it may come.

A model is a dictionary of shared variables and some processes. A process is a dictionary from labels to atomic steps; a
step gets the variables, changes them, and returns the next label, several of which one may be taken (a tuple), or None
when it cannot be taken now; v["at"] says where every process is. "done" ends a process, "dead" means killed. The steps
are sequentially consistent, as the core's atomics on these words are.

Three things are looked for: a state that violates the invariant, a state without successors in which somebody has not
finished (a lost wake-up, a deadlock), and a state from which the end can no longer be reached (going round in circles).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Variables = dict[str, Any]
Step = Callable[[Variables], "str | tuple[str, ...] | None"]
State = tuple[tuple[str, ...], tuple[Any, ...]]


@dataclass
class Model:
    """What is explored. `killable`: processes that may die anywhere, `n_deaths` of them at most; they need not
    finish.
    """

    name: str
    variables: Variables
    processes: dict[str, Mapping[str, Step]]
    invariant: Callable[[Variables, dict[str, str]], bool] = lambda variables, at: True
    killable: tuple[str, ...] = ()
    n_deaths: int = 0
    start: dict[str, str] = field(default_factory=dict)  # where not at "start"


@dataclass(frozen=True)
class Result:
    """How many states there are, and the way to a bad one."""

    n_states: int
    wrong: str
    trace: list[str]


def explore(model: Model, limit: int = 5_000_000) -> Result:
    """Visit every reachable state, shortest way first; a wrong one is returned with the way that leads there."""
    names, keys = list(model.processes), list(model.variables)
    first: State = (tuple(model.start.get(n, "start") for n in names), tuple(model.variables[k] for k in keys))
    came_from: dict[State, tuple[State, str] | None] = {first: None}
    before: dict[State, list[State]] = {first: []}
    finished: list[State] = []
    queue = [first]
    for state in queue:  # grows while we go
        at = dict(zip(names, state[0], strict=True))
        if not model.invariant(dict(zip(keys, state[1], strict=True)), at):
            return Result(len(came_from), "the invariant is violated", _way(came_from, state))
        successors = _successors(model, names, keys, state)
        if all(label in ("done", "dead") for label in state[0]):
            finished.append(state)
        elif not any(who_died is None for _, _, who_died in successors):
            return Result(len(came_from), "somebody waits for ever", _way(came_from, state))
        for successor, what, _ in successors:
            if successor not in came_from:
                came_from[successor] = (state, what)
                before[successor] = []
                queue.append(successor)
            before[successor].append(state)
        if len(came_from) > limit:
            return Result(len(came_from), f"more than {limit:,} states", [])
    reaches_end = set(finished)
    while finished:
        for state in before[finished.pop()]:
            if state not in reaches_end:
                reaches_end.add(state)
                finished.append(state)
    for state in came_from:
        if state not in reaches_end:
            return Result(len(came_from), "the end can no longer be reached", _way(came_from, state))
    return Result(len(came_from), "", [])


def _successors(model: Model, names: list[str], keys: list[str], state: State) -> list[tuple[State, str, str | None]]:
    found: list[tuple[State, str, str | None]] = []
    labels, values = state
    for i, name in enumerate(names):
        if labels[i] in ("done", "dead"):
            continue
        variables = dict(zip(keys, values, strict=True)) | {"at": dict(zip(names, labels, strict=True))}
        outcome = model.processes[name][labels[i]](variables)
        if outcome is not None:
            after = tuple(variables[k] for k in keys)
            for label in (outcome,) if isinstance(outcome, str) else outcome:
                found.append((((*labels[:i], label, *labels[i + 1 :]), after), f"{name}: {labels[i]} -> {label}", None))
        if name in model.killable and labels.count("dead") < model.n_deaths:
            found.append((((*labels[:i], "dead", *labels[i + 1 :]), values), f"{name} dies at {labels[i]}", name))
    return found


def _way(came_from: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    steps: list[str] = []
    while (link := came_from[state]) is not None:
        steps.append(link[1])
        state = link[0]
    return steps[::-1]
