"""A condition and its lock (shared_sync.c: condition_lock, condition_unlock, condition_take, condition_notify,
sync_client_ended; sync.c: lock_it, core_condition_wait).

Two processes wait, under the lock, for what a third does under it; it notifies both. One of the three may die anywhere:
whoever reaps it breaks the lock that it owned. If the third one dies before it has locked, the others wait until their
time is up. The kernel wakes one of those that sleep for the lock, and all that wait to be notified.
"""

from __future__ import annotations

from checker import Model, Step, Variables

WAITERS = ("a", "b")
ALL = (*WAITERS, "c")
MUTANTS = (
    "the news is read after unlocking",
    "who unlocks tells before the lock is free",
    "who wants the lock reads the news after it has tried",
    "a dead owner keeps the lock",
    "the one that is notified first takes both notifications",
)


def first(mutant: str) -> str:
    """Where locking begins."""
    return "try" if mutant == MUTANTS[2] else "lock"


def locking(me: str, mutant: str, then: str) -> dict[str, Step]:
    """lock_it."""
    tries_first = mutant == MUTANTS[2]

    def read(v: Variables) -> str:
        v[f"lock seen {me}"] = v["lock news"]
        return "sleep for it" if tries_first else "try"

    def attempt(v: Variables) -> str:
        if v["owner"] == "broken":
            return "done"
        if not v["owner"]:
            v["owner"] = me
            return then
        return "lock" if tries_first else "sleep for it"

    def sleep(v: Variables) -> str:
        if v["lock news"] != v[f"lock seen {me}"]:
            return "try" if tries_first else "lock"
        v[f"asleep {me}"] = True
        return "asleep for it"

    def asleep(v: Variables) -> str | None:
        if v[f"asleep {me}"] and "dead" not in v["at"].values():
            return None
        v[f"asleep {me}"] = False
        return "try" if tries_first else "lock"

    return {"lock": read, "try": attempt, "sleep for it": sleep, "asleep for it": asleep}


def unlocking(me: str, mutant: str, then: str) -> dict[str, Step]:
    """condition_unlock, with what the kernel does when it wakes one."""

    def unlock(v: Variables) -> str:
        if mutant == MUTANTS[1]:
            v["lock news"] += 1
            return "wake one"
        v["owner"] = ""
        return "tell who wants it"

    def tell(v: Variables) -> str:
        v["lock news"] += 1
        return "wake one"

    def wake_one(v: Variables) -> str | tuple[str, ...]:
        sleeping = tuple(f"wake {other}" for other in ALL if v[f"asleep {other}"])
        return sleeping or woken(v)

    def woken(v: Variables) -> str:
        if mutant == MUTANTS[1]:
            v["owner"] = ""
        return then

    def wake(other: str) -> Step:
        def step(v: Variables) -> str:
            v[f"asleep {other}"] = False
            return woken(v)

        return step

    return {
        "unlock": unlock,
        "tell who wants it": tell,
        "wake one": wake_one,
        **{f"wake {other}": wake(other) for other in ALL},
    }


def waiter(me: str, mutant: str) -> dict[str, Step]:
    """`with condition: while not ready: condition.wait()`"""

    def inside(v: Variables) -> str:
        waits, v[f"waits {me}"] = v[f"waits {me}"], False
        if waits and v["news"] != v[f"seen {me}"] and v["n_notified"]:  # condition_take
            v["n_notified"] -= 2 if mutant == MUTANTS[4] else 1
            v["n_waiting"] -= 1
        elif waits:
            v[f"seen {me}"], v[f"waits {me}"] = v["news"], True
            return "unlock"
        if v["ready"]:
            v[f"over {me}"] = True
            return "unlock"
        v["n_waiting"] += 1
        v[f"waits {me}"] = True
        if mutant != MUTANTS[0]:
            v[f"seen {me}"] = v["news"]
        return "unlock"

    def unlocked(v: Variables) -> str:
        if v[f"over {me}"]:
            return "done"
        if mutant == MUTANTS[0]:
            v[f"seen {me}"] = v["news"]
        return "sleep"

    def sleep(v: Variables) -> str | None:
        if v["news"] != v[f"seen {me}"] or v["owner"] == "broken":
            return first(mutant)
        return "done" if v["at"]["c"] == "dead" and not v["ready"] else None

    return {
        "start": lambda v: first(mutant),
        **locking(me, mutant, "inside"),
        "inside": inside,
        **unlocking(me, mutant, "unlocked"),
        "unlocked": unlocked,
        "sleep": sleep,
    }


def notifier(mutant: str) -> dict[str, Step]:
    """`with condition: ready = True; condition.notify_all()`"""

    def inside(v: Variables) -> str:
        v["ready"] = True
        v["n_notified"] = v["n_waiting"]
        return "tell"

    def tell(v: Variables) -> str:
        v["news"] += 1
        return "unlock"

    return {
        "start": lambda v: first(mutant),
        **locking("c", mutant, "inside"),
        "inside": inside,
        "tell": tell,
        **unlocking("c", mutant, "done"),
    }


def reaper(mutant: str) -> dict[str, Step]:
    """sync_client_ended."""

    def start(v: Variables) -> str | None:
        if "dead" in v["at"].values():
            return "reap"
        return "done" if all(v["at"][each] == "done" for each in ALL) else None

    def reap(v: Variables) -> str:
        owner = v["owner"]
        if owner not in ALL or v["at"][owner] != "dead" or mutant == MUTANTS[3]:
            return "done"
        v["owner"] = "broken"
        return "tell"

    def tell(v: Variables) -> str:
        v["news"] += 1
        v["lock news"] += 1
        for each in ALL:
            v[f"asleep {each}"] = False
        return "done"

    return {"start": start, "reap": reap, "tell": tell}


INSIDE = ("inside", "tell", "unlock")


def invariant(v: Variables, at: dict[str, str]) -> bool:
    """Never two inside, and no notification of nobody."""
    return sum(at[each] in INSIDE for each in ALL) <= 1 and 0 <= v["n_notified"] <= v["n_waiting"]


def model(mutant: str = "") -> Model:
    """Two that wait, one that notifies, one that reaps."""
    variables: Variables = {"owner": "", "news": 0, "lock news": 0, "n_waiting": 0, "n_notified": 0, "ready": False}
    for each in ALL:
        variables |= {f"lock seen {each}": 0, f"asleep {each}": False}
    for each in WAITERS:
        variables |= {f"seen {each}": 0, f"waits {each}": False, f"over {each}": False}
    processes = {**{each: waiter(each, mutant) for each in WAITERS}, "c": notifier(mutant), "reaper": reaper(mutant)}
    return Model("condition", variables, processes, invariant, killable=ALL, n_deaths=1)
