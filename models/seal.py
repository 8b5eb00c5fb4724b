"""Sealing and waiting (object.c: publish, object_mark_waiting; wait.c: wait_loop with its counter `need`).

One client waits twice, as programs do: first for one object, and gives up at any time (a timeout); then for two of
three objects, with what the first wait left behind. Each object has its sealer; the third may never come. The inbox is
one step here: inbox.py is about it.
"""

from __future__ import annotations

from checker import Model, Step, Variables

N = 3
GOAL = 2
MUTANTS = (
    "the mark comes before the waiter's bit",
    "need is what the last wait left",
    "need wakes one seal late",
    "the state is read and then written",
    "the waiter's look does not mark",
)


def waiter(mutant: str) -> dict[str, Step]:
    """The loop of get; `wanted` begins with object 0 alone."""

    def start(v: Variables) -> str:
        v["seen"] = v["inbox"]
        return "reset"

    def reset(v: Variables) -> str:
        if mutant != MUTANTS[1]:
            v["need"] = 0
        v["at_object"] = v["n_done"] = 0
        return "look"

    def sealed(v: Variables) -> bool:
        return v[f"state{v['at_object']}"].startswith("sealed")

    def move_on(v: Variables, found: bool) -> str:
        v["n_done"] += found
        v["at_object"] += 1
        return "look" if v["at_object"] < v["wanted"] else "enough?"

    def look(v: Variables) -> str:
        if sealed(v) or mutant == MUTANTS[4]:
            return move_on(v, sealed(v))
        return "mark" if mutant == MUTANTS[0] else "set bit"

    def set_bit(v: Variables) -> str:
        v[f"bit{v['at_object']}"] = True
        if mutant == MUTANTS[0]:
            return move_on(v, False)
        return "mark"

    def mark(v: Variables) -> str:  # one read-modify-write
        state = f"state{v['at_object']}"
        was_sealed = v[state].startswith("sealed")
        v[state] = v[state].removesuffix("+") + "+"
        if mutant == MUTANTS[0] and not was_sealed:
            return "set bit"
        return move_on(v, was_sealed)

    def enough(v: Variables) -> str:
        goal = 1 if v["wanted"] == 1 else GOAL
        if v["n_done"] >= goal:
            return next_wait(v)
        v["need"] += goal - v["n_done"]
        return "sleep"

    def sleep(v: Variables) -> str | tuple[str, ...] | None:
        awake = v["inbox"] != v["seen"]
        if v["wanted"] == 1:  # may time out
            return ("start", "give up") if awake else "give up"
        return "start" if awake else None

    def next_wait(v: Variables) -> str:
        if v["wanted"] == N:
            return "done"
        v["wanted"] = N
        return "start"

    return {
        "start": start,
        "reset": reset,
        "look": look,
        "set bit": set_bit,
        "mark": mark,
        "enough?": enough,
        "sleep": sleep,
        "give up": next_wait,
    }


def sealer(i: int, mutant: str) -> dict[str, Step]:
    """publish()."""
    state, bit, old = f"state{i}", f"bit{i}", f"old{i}"

    def read(v: Variables) -> str:
        v[old] = v[state]
        return "write"

    def write(v: Variables) -> str:
        v[state] = "sealed"
        return "collect" if v[old].endswith("+") else "done"

    def exchange(v: Variables) -> str:
        v[old] = v[state]
        return write(v)

    def collect(v: Variables) -> str:
        was, v[bit] = v[bit], False
        return "count down" if was else "done"

    def count_down(v: Variables) -> str:
        before = v["need"]
        v["need"] -= 1
        return "notify" if before <= (0 if mutant == MUTANTS[2] else 1) else "done"

    def notify(v: Variables) -> str:
        v["inbox"] += 1
        return "done"

    first = read if mutant == MUTANTS[3] else exchange
    return {
        "start": first if i < GOAL else lambda v: ("seal", "done"),
        "seal": first,
        "write": write,
        "collect": collect,
        "count down": count_down,
        "notify": notify,
    }


def model(mutant: str = "") -> Model:
    """One waiter, three sealers."""
    variables: Variables = {"inbox": 0, "need": 0, "seen": 0, "wanted": 1, "at_object": 0, "n_done": 0}
    for i in range(N):
        variables |= {f"state{i}": "pending", f"bit{i}": False, f"old{i}": ""}
    return Model("seal", variables, {"waiter": waiter(mutant), **{f"sealer {i}": sealer(i, mutant) for i in range(N)}})
