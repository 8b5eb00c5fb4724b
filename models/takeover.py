"""The lock and its takeover (core/memory/lock.c: segment_lock, segment_unlock, owner_has_ended; core/clients/client.c:
client_attach).

Clients in slots of their own lock, change two words that belong together, and unlock; two of them may die anywhere. A
newcomer gets the slot of a dead client once that death has been reported, and locks too. Client 1 leaves with its last
unlock. Time is not modelled: a waiter's patience may end at any moment, so whatever the length of a time slice, the
answers must be right.
"""

from __future__ import annotations

from checker import Model, Step, Variables

WAITERS = 1 << 8
MUTANTS = (
    "a takeover without comparing",
    "the word does not say which generation",
    "a reused slot keeps its generation",
    "waiters are forgotten by who slept",
    "no recovery",
    "who leaves gives its slot back before it unlocks",
)
NOBODY = 9  # in place of a pid
# Clients by number: 0 and 1 in slots of the same number, 2 comes later, into slot 0, once 3 has freed it.
SLOT = (0, 1, 0, 2)


def client(p: int, mutant: str) -> dict[str, Step]:
    """From attaching to having unlocked."""
    slot, word, seen, verdict = SLOT[p], f"word{p}", f"seen{p}", f"verdict{p}"

    def attach(v: Variables) -> str | None:
        if p == 2:
            return "claim" if v["slot_is_free"] else None
        if p == 3:  # the scheduler: reports the end of client 0
            return "begin" if v["at"]["client 0"] in ("done", "dead") else None
        return "begin"

    def claim(v: Variables) -> str:
        v["pid0"] = 2
        return "bump"

    def bump(v: Variables) -> str:
        if mutant != MUTANTS[2]:
            v["generation0"] += 1
        return "stamp"

    def stamp(v: Variables) -> str:
        v["stamp0"] = 2
        return "begin"

    def begin(v: Variables) -> str:
        v[word] = 1 + slot + (0 if mutant == MUTANTS[1] else 16 * v[f"generation{slot}"])
        return "try"

    def attempt(v: Variables) -> str:
        if v["lock"]:
            return "read"
        v["lock"] = v[word]
        return "inside"

    def read(v: Variables) -> str:
        v[seen] = v["lock"]
        return "wait" if v["lock"] else "take"

    def take(v: Variables) -> str:
        if v["lock"]:
            return "read"
        v["lock"] = v[word] | (0 if mutant == MUTANTS[3] else WAITERS)
        return "inside"

    def wait(v: Variables) -> str:  # marks that it waits, and sleeps if the word is still the same
        if v["lock"] != v[seen]:
            return "read"
        v["lock"] = v[seen] = v[seen] | WAITERS
        return "futex"

    def futex(v: Variables) -> str:
        if v["lock"] != v[seen]:
            return "read"
        v["asleep"] |= 1 << p
        return "asleep"

    def asleep(v: Variables) -> str | None:
        if not v["asleep"] >> p & 1:
            return "read"
        # While everybody lives, patience is not what a waiter has to rely on.
        return "ask pid" if "dead" in v["at"].values() or v["at"]["client 1"] == "unlock" else None

    def ask_pid(v: Variables) -> str:
        v["asleep"] &= ~(1 << p)
        owner = (v[seen] & 15) - 1
        v[verdict] = v[f"pid{owner}"]
        return "ask stamp"

    def ask_stamp(v: Variables) -> str:  # of another process than the slot's: that one has gone
        owner = (v[seen] & 15) - 1
        gone = v[verdict] == NOBODY or v["at"][f"client {v[verdict]}"] == "dead" or v[f"stamp{owner}"] != v[verdict]
        return "take over" if gone else "read"

    def take_over(v: Variables) -> str:
        if v["lock"] != v[seen] and mutant != MUTANTS[0]:
            return "read"
        v["lock"] = v[word] | WAITERS
        return "inside" if mutant == MUTANTS[4] else "recover"

    def recover(v: Variables) -> str:
        v["b"] = v["a"]
        return "inside"

    def inside(v: Variables) -> str:
        v["torn"] |= v["a"] != v["b"]
        v["a"] = 1 - v["a"]
        return "half"

    def half(v: Variables) -> str:
        v["b"] = v["a"]
        v["slot_is_free"] |= p == 3
        if p == 1 and mutant == MUTANTS[5]:
            v["pid1"] = NOBODY
        return "unlock"

    def unlock(v: Variables) -> str:
        v[seen], v["lock"] = v["lock"], 0
        return "wake" if v[seen] & WAITERS else "vacate" if p == 1 else "done"

    def wake(v: Variables) -> str:  # the kernel wakes one of those asleep
        v["asleep"] &= v["asleep"] - 1
        return "vacate" if p == 1 else "done"

    def vacate(v: Variables) -> str:
        v["pid1"] = NOBODY
        return "done"

    return {
        "start": attach,
        "claim": claim,
        "bump": bump,
        "stamp": stamp,
        "begin": begin,
        "try": attempt,
        "read": read,
        "take": take,
        "wait": wait,
        "futex": futex,
        "asleep": asleep,
        "ask pid": ask_pid,
        "ask stamp": ask_stamp,
        "take over": take_over,
        "recover": recover,
        "inside": inside,
        "half": half,
        "unlock": unlock,
        "wake": wake,
        "vacate": vacate,
    }


INSIDE = ("inside", "half", "recover", "unlock")


def model(mutant: str = "") -> Model:
    """Two clients, a newcomer and the scheduler; at most two deaths."""
    variables: Variables = {"lock": 0, "asleep": 0, "a": 0, "b": 0, "torn": False, "slot_is_free": False}
    for slot in range(3):
        variables |= {f"pid{slot}": SLOT.index(slot), f"stamp{slot}": SLOT.index(slot), f"generation{slot}": 1}
    for p in range(4):
        variables |= {f"word{p}": 0, f"seen{p}": 0, f"verdict{p}": 0}

    def alone(v: Variables, at: dict[str, str]) -> bool:
        return not v["torn"] and sum(label in INSIDE for label in at.values()) <= 1

    return Model(
        "takeover",
        variables,
        {f"client {p}": client(p, mutant) for p in range(4)},
        invariant=alone,
        killable=("client 0", "client 1"),
        n_deaths=2,
    )
