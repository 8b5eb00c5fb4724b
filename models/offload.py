"""Reading an object while somebody moves it to disk (core/objects/offload.c, binding/process/offload.c: decode_slot,
bring_back).

Two readers look at one object, one of them twice, without the lock. A mover, which may die anywhere, offloads it at the
same time, and another one once more; somebody else waits for free memory and writes there. There are two places for the
object in memory.
"""

from __future__ import annotations

from checker import Model, Step, Variables

READERS = ("reader 0", "reader 1")
MUTANTS = (
    "the mover looks for readers before it says absent",
    "a reader looks where the object lies before it sets its bit",
    "a reader takes its bit back before it has looked",
    "recovery leaves absent what was being moved",
    "recovery does not come before the next owner",
    "the mover frees the memory whoever reads",
)


def take_lock(who: str, then: str, mutant: str) -> Step:
    """Free, or its owner is dead: then what it left is put right first."""

    def step(v: Variables) -> str | None:
        owner = v["lock"]
        if owner and v["at"][owner] != "dead":
            return None
        if owner and mutant != MUTANTS[4]:
            place = next((p for p in (0, 1) if v[f"place{p}"] == "object"), None)
            if v["offset"] == "absent" and place is not None and mutant != MUTANTS[3]:
                v["offset"] = place
            for p in (0, 1):  # chunks that name an object which lies elsewhere
                if v[f"place{p}"] == "object" and v["offset"] != p:
                    v[f"place{p}"] = "free"
        v["lock"] = who
        return then

    return step


def unlock(v: Variables) -> str:
    v["lock"] = ""
    return "done"


def reader(name: str, mutant: str) -> dict[str, Step]:
    """decode_slot; how often is in n."""
    bit, sees, n = f"bit {name}", f"sees {name}", f"n {name}"

    def set_bit(v: Variables) -> str:
        v[bit] = True
        return "look where" if mutant != MUTANTS[1] else "is it absent?"

    def look_where(v: Variables) -> str:
        v[sees] = v["offset"]
        return "is it absent?" if mutant != MUTANTS[1] else "set bit"

    def is_it_absent(v: Variables) -> str:
        return "lock" if v[sees] == "absent" else "read"

    def bring_back(v: Variables) -> str | None:
        if v["offset"] == "absent":
            place = next((p for p in (0, 1) if v[f"place{p}"] == "free"), None)
            if place is None:
                return None
            v[f"place{place}"], v["offset"] = "object", place
        v[sees], v["lock"] = v["offset"], ""
        return "read"

    def read(v: Variables) -> str:  # the invariant is about this label
        if mutant == MUTANTS[2]:
            v[bit] = False
        return "go on reading" if mutant == MUTANTS[2] else "clear bit"

    def clear_bit(v: Variables) -> str:
        v[bit] = False
        v[n] += 1
        return "start" if name == READERS[0] and v[n] < 2 else "done"

    start = look_where if mutant == MUTANTS[1] else set_bit
    return {
        "start": start,
        "set bit": set_bit,
        "look where": look_where,
        "is it absent?": is_it_absent,
        "lock": take_lock(name, "bring back", mutant),
        "bring back": bring_back,
        "read": read,
        "go on reading": clear_bit,
        "clear bit": clear_bit,
    }


def mover(name: str, mutant: str) -> dict[str, Step]:
    """offload_choose, offload_leave; its file is written in between."""
    chunk = f"chunk {name}"

    def choose(v: Variables) -> str:
        v[chunk], v["lock"] = v["offset"], ""
        return "done" if v[chunk] == "absent" else "lock again"

    def say_absent(v: Variables) -> str:
        if v["offset"] != v[chunk]:  # the core excludes it: an object is moved by one at a time
            return "unlock"
        v["offset"] = "absent"
        return "look for readers" if mutant != MUTANTS[0] else "free"

    def look_for_readers(v: Variables) -> str:
        if any(v[f"bit {r}"] for r in READERS) and mutant != MUTANTS[5]:
            return "take back" if mutant != MUTANTS[0] else "unlock"
        return "free" if mutant != MUTANTS[0] else "say absent"

    def take_back(v: Variables) -> str:
        v["offset"] = v[chunk]
        return "unlock"

    def free(v: Variables) -> str:
        v[f"place{v[chunk]}"] = "free"
        return "unlock"

    return {
        "start": take_lock(name, "choose", mutant),
        "choose": choose,
        "lock again": take_lock(name, "look for readers" if mutant == MUTANTS[0] else "say absent", mutant),
        "say absent": say_absent,
        "look for readers": look_for_readers,
        "take back": take_back,
        "free": free,
        "unlock": unlock,
    }


def writer(mutant: str) -> dict[str, Step]:
    """Somebody else's object comes to lie where memory is free, for a while."""

    def write(v: Variables) -> str:
        place = next((p for p in (0, 1) if v[f"place{p}"] == "free"), None)
        if place is not None:
            v[f"place{place}"] = "other"
        v["lock"] = ""
        return "done" if place is None else "lock again"

    def give_back(v: Variables) -> str:
        for p in (0, 1):
            if v[f"place{p}"] == "other":
                v[f"place{p}"] = "free"
        v["lock"] = ""
        return "done"

    return {
        "start": take_lock("writer", "write", mutant),
        "write": write,
        "lock again": take_lock("writer", "give back", mutant),
        "give back": give_back,
    }


def holds(v: Variables, at: dict[str, str]) -> bool:
    """Nobody reads what is not the object, and it does not get lost."""
    looking = [v[f"sees {r}"] for r in READERS if at[r] in ("read", "go on reading")]
    return all(place != "absent" and v[f"place{place}"] == "object" for place in looking)


def model(mutant: str = "") -> Model:
    """Two readers, two movers, of which one may die, and a writer."""
    variables: Variables = {"lock": "", "offset": 0, "place0": "object", "place1": "free"}
    for r in READERS:
        variables |= {f"bit {r}": False, f"sees {r}": "", f"n {r}": 0}
    movers = ("mover 0", "mover 1")
    variables |= {f"chunk {m}": "" for m in movers}
    processes = (
        {r: reader(r, mutant) for r in READERS} | {m: mover(m, mutant) for m in movers} | {"writer": writer(mutant)}
    )
    return Model("offload", variables, processes, invariant=holds, killable=movers, n_deaths=1)
