"""A barrier of two (shared_sync.c: barrier_arrive, barrier_look, sync_client_ended; sync.c: wait_for_others).

Two members come together twice. One of them may die anywhere; whoever reaps it breaks the barrier if it has joined.
The arrival is one step, as it is one exchange. A member that has not joined when it dies is nobody's business: the
other one waits until its time is up.
"""

from __future__ import annotations

from checker import Model, Step, Variables

ROUNDS = 2
MEMBERS = ("a", "b")
MUTANTS = (
    "who comes joins afterwards",
    "the last one tells before the phase changes",
    "the news is read after the look",
    "a dead member breaks nothing",
    "who reaps forgets the member before it breaks the barrier",
)


def member(me: str, mutant: str) -> dict[str, Step]:
    """barrier_wait, so many times."""
    other = MEMBERS[MEMBERS[0] == me]
    tells_first, looks_first = mutant == MUTANTS[1], mutant == MUTANTS[2]

    def join(v: Variables) -> str:
        v[f"bit {me}"] = True
        return "sleep or go on" if mutant == MUTANTS[0] else "arrive"

    def arrive(v: Variables) -> str:
        if v["broken"]:
            return "done"
        if tells_first and v["arrived"] == 1 and not v[f"told {me}"]:
            v["news"], v[f"told {me}"] = v["news"] + 1, True
            return "arrive"
        v[f"ticket {me}"], v[f"came {me}"] = v["phase"], v[f"came {me}"] + 1
        if v["arrived"] == 1:
            v["phase"], v["arrived"], v[f"told {me}"] = v["phase"] + 1, 0, False
            return "join" if mutant == MUTANTS[0] else "go on" if tells_first else "tell"
        v["arrived"] += 1
        return "join" if mutant == MUTANTS[0] else "look" if looks_first else "read"

    def after_joining(v: Variables) -> str:
        return "tell" if v["phase"] != v[f"ticket {me}"] else "read"

    def tell(v: Variables) -> str:
        v["news"] += 1
        return go_on(v)

    def read(v: Variables) -> str:
        v[f"seen {me}"] = v["news"]
        return "sleep" if looks_first else "look"

    def look(v: Variables) -> str:
        if v["phase"] != v[f"ticket {me}"]:
            return go_on(v)
        if v["broken"]:
            return "done"
        return "read" if looks_first else "sleep"

    def sleep(v: Variables) -> str | None:
        awake = v["news"] != v[f"seen {me}"] or "dead" in v["at"].values()  # then it looks twice a second
        strangers = v["at"][other] == "dead" and not v[f"bit {other}"] and not v[f"came {other}"]
        again = "look" if looks_first else "read"
        return "done" if strangers else again if awake else None

    def go_on(v: Variables) -> str:
        v[f"passed {me}"] += 1
        return "done" if v[f"passed {me}"] == ROUNDS else "arrive"

    return {
        "start": arrive if mutant == MUTANTS[0] else join,
        "join": join,
        "sleep or go on": after_joining,
        "arrive": arrive,
        "tell": tell,
        "read": read,
        "look": look,
        "sleep": sleep,
        "go on": go_on,
    }


def reaper(mutant: str) -> dict[str, Step]:
    """sync_client_ended; the first one that does it may die, too."""

    def start(v: Variables) -> str | None:
        if "dead" in (v["at"][me] for me in MEMBERS):
            return "reap"
        return "done" if all(v["at"][me] == "done" for me in MEMBERS) else None

    def dead(v: Variables) -> str:
        return next(me for me in MEMBERS if v["at"][me] == "dead")

    def reap(v: Variables) -> str:
        if not v[f"bit {dead(v)}"]:
            return "done"
        if mutant == MUTANTS[4]:
            v[f"bit {dead(v)}"] = False
            return "break"
        return "forget" if mutant == MUTANTS[3] else "break"

    def break_it(v: Variables) -> str:
        v["broken"] = True
        return "tell"

    def tell(v: Variables) -> str:
        v["news"] += 1
        return "forget"

    def forget(v: Variables) -> str:
        v[f"bit {dead(v)}"] = False
        return "done"

    return {"start": start, "reap": reap, "break": break_it, "tell": tell, "forget": forget}


def second_reaper(mutant: str) -> dict[str, Step]:
    """Completes what the first one, which has died, has left."""
    steps = reaper(mutant)
    begin = steps["start"]

    def start(v: Variables) -> str | None:
        return begin(v) if v["at"]["reaper"] in ("dead", "done") else None

    return {**steps, "start": start}


def invariant(v: Variables, at: dict[str, str]) -> bool:
    """Nobody goes on before the other one has come as often."""
    return v["passed a"] <= v["came b"] and v["passed b"] <= v["came a"]


def model(mutant: str = "") -> Model:
    """Two members, one that reaps, and the next one, should that one die."""
    variables: Variables = {"phase": 0, "arrived": 0, "broken": False, "news": 0}
    for me in MEMBERS:
        variables |= {f"bit {me}": False, f"ticket {me}": 0, f"came {me}": 0, f"seen {me}": 0}
        variables |= {f"passed {me}": 0, f"told {me}": False}
    processes = {
        **{me: member(me, mutant) for me in MEMBERS},
        "reaper": reaper(mutant),
        "next reaper": second_reaper(mutant),
    }
    return Model("barrier", variables, processes, invariant, killable=("a", "reaper"), n_deaths=2)
