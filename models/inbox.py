"""The inbox (core/clients/client.c, core/memory/lock.c: client_sleep, notify_client): nobody sleeps on news.

Two threads of one client wait for two pieces of news, each from a notifier of its own. A notifier may die anywhere; its
death is then reported (client_died), which is news for everybody.
"""

from __future__ import annotations

from checker import Model, Step, Variables

MUTANTS = (
    "the inbox is read after the look",
    "sleepers are woken before the inbox changes",
    "sleepers are counted when they sleep already",
    "the news comes after the notice",
    "a death is no news",
)


def waiter(i: int, mutant: str) -> dict[str, Step]:
    """A thread in get; leaves when it has seen all news."""
    seen = f"seen{i}"
    late, uncounted = mutant == MUTANTS[0], mutant == MUTANTS[2]

    def read(v: Variables) -> str:
        v[seen] = v["inbox"]
        return "count" if late else "look"

    def look(v: Variables) -> str:
        return "done" if v["news"] == 2 else "read" if late else "futex" if uncounted else "count"

    def count(v: Variables) -> str:
        v["sleepers"] += 1
        return "asleep" if uncounted else "futex"

    def futex(v: Variables) -> str:  # the kernel compares and puts to sleep in one step
        if v["inbox"] != v[seen]:
            return "start" if uncounted else "leave"
        v["asleep"] |= 1 << i
        return "count" if uncounted else "asleep"

    def asleep(v: Variables) -> str | None:
        return None if v["asleep"] >> i & 1 else "leave"

    def leave(v: Variables) -> str:
        v["sleepers"] -= 1
        return "start"

    return {
        "start": look if late else read,
        "read": read,
        "look": look,
        "count": count,
        "futex": futex,
        "asleep": asleep,
        "leave": leave,
    }


def notifying(mutant: str) -> dict[str, Step]:
    """notify_client, from label "notify" to "told"."""
    early = mutant == MUTANTS[1]

    def bump(v: Variables) -> str:
        v["inbox"] += 1
        return "told" if early else "any asleep?"

    def any_asleep(v: Variables) -> str:
        return "wake" if v["sleepers"] else "bump" if early else "told"

    def wake(v: Variables) -> str:
        v["asleep"] = 0
        return "bump" if early else "told"

    return {"notify": any_asleep if early else bump, "bump": bump, "any asleep?": any_asleep, "wake": wake}


def notifier(i: int, mutant: str) -> dict[str, Step]:
    """Changes something and tells."""
    late = mutant == MUTANTS[3]

    def publish(v: Variables) -> str:
        v["news"] += 1
        v["missing"] &= ~(1 << i)
        return "done" if late else "notify"

    def told(v: Variables) -> str:
        return "publish" if late else "done"

    steps = notifying(mutant)
    return {**steps, "start": steps["notify"] if late else publish, "publish": publish, "told": told}


def reporter(mutant: str) -> dict[str, Step]:
    """The scheduler: does what a dead notifier left undone, and tells everybody."""

    def watch(v: Variables) -> str | None:
        ends = [v["at"][f"notifier {i}"] for i in (0, 1)]
        if "dead" not in ends:
            return "done" if ends == ["done", "done"] else None
        if v["missing"] >> ends.index("dead") & 1:
            v["missing"] &= ~(1 << ends.index("dead"))
            v["news"] += 1
        return "done" if mutant == MUTANTS[4] else "notify"

    return {**notifying(""), "start": watch, "told": lambda v: "done"}


def model(mutant: str = "") -> Model:
    """Two waiting threads, two notifiers, at most one death."""
    variables = {"inbox": 0, "sleepers": 0, "asleep": 0, "news": 0, "missing": 3, "seen0": 0, "seen1": 0}
    return Model(
        "inbox",
        variables,
        killable=("notifier 0", "notifier 1"),
        n_deaths=1,
        processes={
            "waiter 0": waiter(0, mutant),
            "waiter 1": waiter(1, mutant),
            "notifier 0": notifier(0, mutant),
            "notifier 1": notifier(1, mutant),
            "reporter": reporter(mutant),
        },
    )
