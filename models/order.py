"""Which task begins next (task.c: next_lane_by_rank; blocked.c: task_waits_for), and how many are begun at a time.

Trees of tasks on a few CPUs: each task submits its children, waits for them, and ends. A task that waits has a process
and no CPU. When what it waits for is there it goes on at once, even if its CPU has been taken meanwhile: that it does
so before another task begins is taken for granted, as the kernel runs who was woken soon. Nothing else is said of how
long anything takes, so this is every order in which things may happen.
"""

from __future__ import annotations

from checker import Model, Step, Variables

N_CPUS = 2
CHILDREN = (2, 1)  # of a root, and of each of its children
N_ROOTS = 4
BOUND = N_CPUS * (len(CHILDREN) + 1)
MUTANTS = (
    "the oldest first, whoever waits",
    "the shallowest first",
    "all that somebody waits for is equal",
)


def _tree(children: tuple[int, ...], name: str) -> dict[str, tuple[str, ...]]:
    own = tuple(f"{name}{i}" for i in range(children[0])) if children else ()
    tasks = {name: own}
    for child in own:
        tasks |= _tree(children[1:], child)
    return tasks


TASKS: dict[str, tuple[str, ...]] = {}
for root in "abcdefgh"[:N_ROOTS]:
    TASKS |= _tree(CHILDREN, root)
BEGUN = ("running", "waits", "goes on")


def next_task(v: Variables, mutant: str) -> str:
    """The one that a free CPU takes."""
    ready = sorted((name for name in TASKS if v["at"][name] == "start" and v[name] >= 0), key=len)
    if mutant == MUTANTS[0]:
        return ready[0]
    if mutant == MUTANTS[1]:
        return min(ready, key=lambda name: (v[name] == 0, v[name]))
    return max(ready, key=lambda name: v[name])  # of equals the first


def is_woken(v: Variables, name: str) -> bool:
    """Whether it has waited, and need not any more."""
    return v["at"][name] == "waits" and all(v["at"][child] == "done" for child in TASKS[name])


def task(name: str, mutant: str) -> dict[str, Step]:
    """v[name]: -1 not submitted, 0 nobody waits for it, else how deep it is waited for."""
    children = TASKS[name]

    def start(v: Variables) -> str | None:
        if v[name] < 0 or v["cpus"] <= 0 or any(is_woken(v, other) for other in TASKS) or next_task(v, mutant) != name:
            return None
        v["cpus"] -= 1
        for child in children:
            v[child] = 0
        return "running"

    def running(v: Variables) -> str:
        if not children:
            v["cpus"] += 1
            return "done"
        for child in children:
            v[child] = 1 if mutant == MUTANTS[2] else v[name] + 1
        v["cpus"] += 1
        return "waits"

    def waits(v: Variables) -> str | None:
        if not is_woken(v, name):
            return None
        v["cpus"] -= 1
        return "goes on"

    def goes_on(v: Variables) -> str:
        v["cpus"] += 1
        return "done"

    return {"start": start, "running": running, "waits": waits, "goes on": goes_on}


def few_begun(v: Variables, at: dict[str, str]) -> bool:
    """A process for each task that has begun."""
    return sum(label in BEGUN for label in at.values()) <= BOUND


def model(mutant: str = "") -> Model:
    """All trees, submitted at once."""
    variables: Variables = {"cpus": N_CPUS} | {name: 0 if len(name) == 1 else -1 for name in TASKS}
    return Model("order", variables, {name: task(name, mutant) for name in TASKS}, few_begun)
