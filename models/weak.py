"""The order of memory accesses: what the protocols do on processors that carry out independent accesses in any order.

A thread is a list of instructions. Each of their accesses to memory is a process of the checker's, which waits for
those accesses of its thread that come before it in every execution, and for no others; so the checker visits every
order that is allowed:

 - accesses to one word keep their order (a thread does not read its own store before the others do, which these
   protocols never need);
 - a load that acquires comes before all that follows, a store that releases after all that precedes, and a seq_cst load
   after each seq_cst store in front of it;
 - a fence that acquires keeps earlier loads in front of it, one that releases later stores behind it, a seq_cst one
   everything, and so does a call of the kernel;
 - what is written, and whether, waits for the loads that it depends on; loads are carried out on speculation;
 - a read-modify-write loads and stores, with no store of others in between; its load acquires, its store releases. So
   what follows may come before its store, which is what aarch64 does (ldaxr, stlxr).

That is C11, on a machine with one memory that all processors see alike (aarch64, not POWER), and without values out of
thin air. It is a little weaker than aarch64. On x86 only a load may come before an earlier store, and a
read-modify-write or a seq_cst store is in order with everything.

Each protocol stands here with the orders of the core. Its mutants have one order too few; those that the core once had
are sound on x86.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from checker import Model, Step, Variables

ACQUIRES, RELEASES = ("acquire", "seq_cst"), ("release", "seq_cst")
Threads = dict[str, list["Do"]]
Holds = Callable[[Variables], bool]


@dataclass(frozen=True)
class Do:
    """One instruction. `into` and `uses` name registers, which are variables too; `when` and `value` may look at those
    in `uses`.
    """

    what: str  # load, store, change (a read-modify-write), fence, call
    word: str = ""
    order: str = "relaxed"
    into: str = ""
    uses: tuple[str, ...] = ()
    value: Callable[[Variables], Any] = lambda v: None
    when: Callable[[Variables], bool] = lambda v: True
    until: Callable[[Variables], bool] = lambda v: True  # of a change: it is tried again until then

    @property
    def parts(self) -> str:
        return {"load": "r", "store": "w", "change": "rw"}.get(self.what, "f")


def load(word: str, into: str, order: str = "relaxed") -> Do:
    return Do("load", word, order, into)


def store(
    word: str, value: Any, order: str = "relaxed", uses: tuple[str, ...] = (), when: Holds = lambda v: True
) -> Do:
    return Do("store", word, order, uses=uses, when=when, value=value if callable(value) else lambda v: value)


def change(
    word: str,
    value: Callable[[Variables], Any],
    order: str = "seq_cst",
    into: str = "",
    uses: tuple[str, ...] = (),
    when: Holds = lambda v: True,
    until: Holds = lambda v: True,
) -> Do:
    return Do("change", word, order, into, uses, value, when, until)


def fence(order: str) -> list[Do]:
    return [Do("fence", order=order)] if order else []


def call(value: Callable[[Variables], None], uses: tuple[str, ...] = (), when: Holds = lambda v: True) -> Do:
    """The kernel does something. Who has set "asleep" goes on once somebody has cleared it."""
    return Do("call", order="seq_cst", uses=uses, value=value, when=when)


def sleep(while_true: Holds, uses: tuple[str, ...], when: Holds) -> Do:
    """A futex: the kernel compares and puts to sleep in one step."""

    def futex(v: Variables) -> None:
        v["asleep"] = while_true(v)

    return call(futex, uses, when)


def wake(uses: tuple[str, ...], when: Holds) -> Do:
    return call(lambda v: v.update(asleep=False), uses, when)


def comes_before(a: Do, x: str, b: Do, y: str, machine: str) -> bool:
    """Whether part `x` of `a` is carried out before part `y` of the later `b` in every execution."""
    if (a.word and a.word == b.word) or a.what == "call" or b.what == "call":
        return True
    if b.what == "fence":
        return b.order != "acquire" or x in "rf"
    if a.what == "fence":
        return a.order != "release" or y in "wf"
    if machine == "x86":
        return x == "r" or y == "w" or "change" in (a.what, b.what) or a.order == "seq_cst"
    depends = a.into in b.uses and (y == "w" or b.what == "change")
    return (
        (x == "r" and a.order in ACQUIRES)
        or (y == "w" and b.order in RELEASES)
        or a.order == b.order == "seq_cst"
        or depends
    )


def perform(do: Do, part: str, thread: str, earlier: list[str]) -> dict[str, Step]:
    """The access as a process of the checker's."""
    reserved = f"{do.word} reserved"

    def start(v: Variables) -> str | None:
        if any(v["at"][name] != "done" for name in earlier):
            return None
        if part in "wf" or do.what == "change":  # speculation goes no further than loads
            if not do.when(v):
                return "done"
        if do.word and do.what != "load" and v[reserved] not in ("", thread):
            return None
        if part == "r":
            if not do.until(v):
                return None
            if do.into:
                v[do.into] = v[do.word]
            if do.what == "change":
                v[reserved] = thread
        elif part == "w":
            v[do.word], v[reserved] = do.value(v), ""
        elif do.what == "call":
            do.value(v)
            return "asleep" if v.get("asleep") else "done"
        return "done"

    return {"start": start, "asleep": lambda v: None if v["asleep"] else "done"}


def processes(threads: Threads, machine: str) -> dict[str, Mapping[str, Step]]:
    """Every access of every thread, by thread, place and part."""
    found: dict[str, Mapping[str, Step]] = {}
    for thread, instructions in threads.items():
        parts = [
            (
                f"{thread} {i} {do.what} "
                f"{do.word}{'' if len(do.parts) == 1 else ', its ' + {'r': 'load', 'w': 'store'}[part]}",
                do,
                part,
            )
            for i, do in enumerate(instructions)
            for part in do.parts
        ]
        earlier: dict[str, list[str]] = {name: [] for name, _, _ in parts}
        for (a_name, a, x), (b_name, b, y) in combinations(parts, 2):
            if comes_before(a, x, b, y, machine):
                earlier[b_name].append(a_name)
        for name, do, part in parts:
            found[name] = perform(do, part, thread, earlier[name])
    return found


@dataclass(frozen=True)
class Protocol:
    """Variables, threads and what must hold when they have come to an end; all may depend on the mutant."""

    name: str
    build: Callable[[str], tuple[Variables, Threads, Holds]]
    MUTANTS: tuple[str, ...]
    SOUND: tuple[str, ...] = ()  # mutants that x86 puts up with

    def model(self, variant: str = "") -> Model:
        """With the orders of the core, or of a mutant; " on x86" says where."""
        mutant = variant.removesuffix(" on x86")
        variables, threads, holds = self.build(mutant)
        for do in (do for instructions in threads.values() for do in instructions):
            variables |= {name: None for name in (do.into, *do.uses) if name and name not in variables}
            if do.word:
                variables[f"{do.word} reserved"] = ""
        made = processes(threads, "weak" if mutant == variant else "x86")
        return Model(
            self.name,
            variables,
            made,
            invariant=lambda v, at: any(label != "done" for label in at.values()) or holds(v),
        )


# ------------------------------------------------------------------ the protocols


def seq_cst_unless(wrong: bool, weaker: str = "relaxed") -> str:
    return weaker if wrong else "seq_cst"


def lock(mutant: str) -> tuple[Variables, Threads, Holds]:
    """segment_lock, segment_unlock: two that count."""

    def counts(me: str) -> list[Do]:
        n = f"n of {me}"
        return [
            change(
                "lock",
                lambda v: 1,
                "relaxed" if mutant == "the lock acquires nothing" else "acquire",
                until=lambda v: v["lock"] == 0,
            ),
            load("n", n),
            store("n", lambda v: v[n] + 1, uses=(n,)),
            change("lock", lambda v: 0, seq_cst_unless(mutant == "the unlock releases nothing")),
        ]

    return {"lock": 0, "n": 0}, {"one": counts("one"), "another": counts("another")}, lambda v: v["n"] == 2


def inbox(mutant: str) -> tuple[Variables, Threads, Holds]:
    """client_sleep, notify_client: nobody sleeps on news, or finds none when woken."""
    notifier = [
        store("news", 1),
        change("inbox", lambda v: v["inbox"] + 1, seq_cst_unless(mutant == "the inbox releases nothing", "acquire")),
        load("sleepers", "any", seq_cst_unless(mutant == "the sleepers are looked for too early", "acquire")),
        wake(("any",), lambda v: v["any"] > 0),
    ]
    waiter = [
        load("inbox", "seen", seq_cst_unless(mutant == "the news is looked for before the inbox")),
        load("news", "found"),
        change("sleepers", lambda v: v["sleepers"] + 1, "seq_cst"),
        sleep(lambda v: v["inbox"] == v["seen"], ("seen", "found"), lambda v: not v["found"]),
        load("news", "found later"),
    ]
    return (
        {"inbox": 0, "news": 0, "sleepers": 0, "asleep": False},
        {"notifier": notifier, "waiter": waiter},
        lambda v: v["found later"] == 1,
    )


def attention(mutant: str) -> tuple[Variables, Threads, Holds]:
    """segment_unlock, client_next_demand: the scheduler sees what somebody wants of it, or will look again. One of two
    tells it for both.
    """

    def asks(me: str) -> list[Do]:
        was = f"was {me}"

        def first(v: Variables) -> bool:
            return not v[was]

        return [
            store(f"news {me}", 1),
            change("attention", lambda v: 1, seq_cst_unless(mutant == "the notice releases nothing", "acquire"), was),
            change("inbox", lambda v: v["inbox"] + 1, uses=(was,), when=first),
            wake((was,), first),
        ]

    scheduler = [
        load("inbox", "seen", "seq_cst"),
        load("attention", "due", "seq_cst"),
        sleep(lambda v: v["inbox"] == v["seen"], ("seen", "due"), lambda v: not v["due"]),
        change("attention", lambda v: 0, seq_cst_unless(mutant == "the notice is taken without acquiring")),
        load("news a", "found a"),
        load("news b", "found b"),
    ]
    return (
        {"inbox": 0, "attention": 0, "news a": 0, "news b": 0, "asleep": False},
        {"a": asks("a"), "b": asks("b"), "scheduler": scheduler},
        lambda v: v["attention"] == 1 or v["found a"] == v["found b"] == 1,
    )


def event_wait(mutant: str) -> tuple[Variables, Threads, Holds]:
    """event_write, segment_unlock, event_wait: nobody sleeps on a record."""
    writer = [
        store("head", 1, "release"),
        change("lock", lambda v: 0),
        *fence("" if mutant == "no fence behind the unlock" else "seq_cst"),
        load("waiting", "waits"),
        change("waiting", lambda v: 0, "seq_cst", "waited", ("waits",), lambda v: v["waits"]),
        wake(("waits", "waited"), lambda v: v["waits"] and v["waited"]),
    ]
    reader = [
        store("waiting", 1, "seq_cst"),
        load("head", "seen", seq_cst_unless(mutant == "the reader looks too early", "acquire")),
        sleep(lambda v: v["waiting"] == 1, ("seen",), lambda v: v["seen"] == 0),
    ]
    return {"head": 0, "lock": 1, "waiting": 0, "asleep": False}, {"writer": writer, "reader": reader}, lambda v: True


def ring(mutant: str) -> tuple[Variables, Threads, Holds]:
    """event_write, event_read: two slots with records 0 and 1; the reader reads record 1 while 2 and 3 are written."""
    writer: list[Do] = []
    for n in (2, 3):
        writer += [
            *fence("" if mutant == "no fence before the record" else "release"),
            store(f"a{n % 2}", n),
            store(f"b{n % 2}", n),
            store("head", n + 1, "relaxed" if mutant == "the head releases nothing" else "release"),
        ]
    reader = [
        load("head", "head at first", "relaxed" if mutant == "the head is read late" else "acquire"),
        load("a1", "a"),
        load("b1", "b"),
        *fence("" if mutant == "no fence behind the copy" else "acquire"),
        load("head", "after"),
    ]

    def whole(v: Variables) -> bool:
        n = 3 if v["head at first"] == 4 else 1  # the newest record that may lie there
        return v["after"] + 1 - 2 > n or v["a"] == v["b"] == n

    return {"head": 2, "a0": 0, "b0": 0, "a1": 1, "b1": 1}, {"writer": writer, "reader": reader}, whole


def readers(mutant: str) -> tuple[Variables, Threads, Holds]:
    """offload_leave, decode_slot: nobody reads what is not the object."""
    mover = [
        change("offset", lambda v: "absent"),
        load("bit", "is read", seq_cst_unless(mutant == "the mover looks too early")),
        store("place", "other", uses=("is read",), when=lambda v: not v["is read"]),
    ]
    reader = [
        change("bit", lambda v: 1),
        load("offset", "seen", seq_cst_unless(mutant == "the reader looks too early", "acquire")),
        load("place", "read"),
        change("bit", lambda v: 0, seq_cst_unless(mutant == "the bit is taken back while it reads", "acquire")),
    ]
    return (
        {"offset": "here", "bit": 0, "place": "object"},
        {"mover": mover, "reader": reader},
        lambda v: v["seen"] == "absent" or v["read"] == "object",
    )


def seal(mutant: str) -> tuple[Variables, Threads, Holds]:
    """publish, object_mark_waiting, wait_loop: nobody sleeps while what it waits for is sealed, and who sees it sealed
    sees the value.
    """

    def waited_for(v: Variables) -> bool:
        return "marked" in v["was"] and v["had"]

    sealer = [
        store("value", 1),
        change(
            "state",
            lambda v: v["state"] + "sealed",
            seq_cst_unless(mutant == "the state releases nothing", "acquire"),
            "was",
        ),
        change("bit", lambda v: 0, "seq_cst", "had", ("was",), lambda v: "marked" in v["was"]),
        change("need", lambda v: v["need"] - 1, "seq_cst", "left", ("was", "had"), waited_for),
        call(
            lambda v: v.update(inbox=1, asleep=False),
            ("was", "had", "left"),
            lambda v: waited_for(v) and v["left"] <= 1,
        ),
    ]
    marks = seq_cst_unless(mutant == "the mark releases nothing")
    waiter = [
        load("inbox", "seen", "seq_cst"),
        store("need", 0, "seq_cst"),
        load("state", "found", "acquire"),
        change("bit", lambda v: 1, marks),
        change("state", lambda v: v["state"] + "marked", marks, "marks"),
        load("value", "value seen"),
        change("need", lambda v: v["need"] + 1, "seq_cst", uses=("marks",), when=lambda v: "sealed" not in v["marks"]),
        sleep(lambda v: v["inbox"] == v["seen"], ("seen", "marks"), lambda v: "sealed" not in v["marks"]),
    ]
    return (
        {"value": 0, "state": "", "bit": 0, "need": 5, "inbox": 0, "asleep": False},
        {"sealer": sealer, "waiter": waiter},
        lambda v: "sealed" not in v["marks"] or v["value seen"] == 1,
    )


def hand_over(mutant: str) -> tuple[Variables, Threads, Holds]:
    """object_seal_arena, keep_chunk: recovery, which takes place beside a sealer that lives, frees no chunk of its."""
    both = "the owner is relaxed"
    releases = "relaxed" if mutant in (both, "the owner releases nothing") else "release"
    acquires = "relaxed" if mutant in (both, "the owner acquires nothing") else "acquire"
    sealer = [store("offset", 1), change("state", lambda v: "ready"), store("owner", "object", releases)]
    survivor = [load("owner", "named", acquires), load("offset", "names")]
    return (
        {"offset": 0, "state": "pending", "owner": "sealer"},
        {"sealer": sealer, "survivor": survivor},
        lambda v: v["named"] == "sealer" or v["names"] == 1,
    )


def newcomer(mutant: str) -> tuple[Variables, Threads, Holds]:
    """client_attach, owner_has_ended: who sees the lock of a slot's new client does not take it for the client
    before.
    """
    comes = [
        change("pid", lambda v: "new"),
        store("generation", 2),
        store("start time", "new", "seq_cst"),
        *fence("" if mutant == "no fence before the lock" else "release"),
        change("lock", lambda v: 2, "acquire"),
    ]
    waits = [
        load("lock", "word"),
        *fence("" if mutant == "no fence behind the look at the lock" else "acquire"),
        load("pid", "whose", "seq_cst"),
        load("start time", "since", "seq_cst"),
    ]
    return (
        {"pid": "dead", "generation": 1, "start time": "dead", "lock": 0},
        {"newcomer": comes, "waiter": waits},
        lambda v: v["word"] == 0 or v["whose"] == v["since"] == "new",
    )


WORDS = ("a", "b", "c")


@dataclass(frozen=True)
class Death:
    """The argument of liveness.h: a survivor finds what the dead has written, up to one instruction, and nothing
    behind.
    """

    name = "weak: death"
    MUTANTS = (
        "the kernel has no barrier",
        "the survivor has no barrier",
        "another thread's end is taken for that of the process",
    )
    SOUND = ("the kernel has no barrier on x86",)  # what is stored in order arrives in order, if late

    def model(self, variant: str = "") -> Model:
        """An owner that is interrupted anywhere, its kernel, and a survivor."""
        mutant = variant.removesuffix(" on x86")
        machine = "weak" if mutant == variant else "x86"
        made = processes(
            {
                "owner": [store(word, 1) for word in WORDS],
                "survivor": [
                    load("ended", "knows"),
                    *fence("" if mutant == self.MUTANTS[1] else "seq_cst"),
                    *(load(word, f"{word} found") for word in reversed(WORDS)),
                ],
            },
            machine,
        )
        stores = [name for name in made if name.startswith("owner")]
        for i, name in enumerate(stores):
            made[name] = {"start": self.unless_interrupted(made[name]["start"], i)}
        for i in range(len(stores) + 1):
            made[f"interrupt at {i}"] = {"start": self.interrupt(i, stores)}

        def exits(v: Variables) -> str | None:
            known = mutant == self.MUTANTS[2] or (
                v["cut"] is not None and (mutant == self.MUTANTS[0] or all(v["at"][name] == "done" for name in stores))
            )
            v["ended"] |= known
            return "done" if known else None

        def prefix(v: Variables, at: dict[str, str]) -> bool:
            found = [v[f"{word} found"] for word in WORDS]
            over = v["knows"] and all(label == "done" for label in at.values())
            exact = mutant == self.MUTANTS[0] and machine == "x86"  # there the last ones may be missing
            return not over or found == [int(i < (sum(found) if exact else v["cut"])) for i in range(len(WORDS))]

        variables: Variables = {"cut": None, "ended": False, "knows": None, "ended reserved": ""}
        for word in WORDS:
            variables |= {word: 0, f"{word} found": None, f"{word} reserved": ""}
        return Model(self.name, variables, made | {"kernel": {"start": exits}}, invariant=prefix)

    @staticmethod
    def unless_interrupted(perform: Step, i: int) -> Step:
        return lambda v: "done" if v["cut"] is not None and i >= v["cut"] else perform(v)

    @staticmethod
    def interrupt(i: int, stores: list[str]) -> Step:
        def step(v: Variables) -> str | None:
            if v["cut"] is None and all(v["at"][name] != "done" for name in stores[i:]):
                v["cut"] = i
            return "done" if v["cut"] is not None else None

        return step


PROTOCOLS: dict[str, Protocol | Death] = {
    protocol.name: protocol
    for protocol in (
        Protocol("weak: lock", lock, ("the lock acquires nothing", "the unlock releases nothing")),
        Protocol(
            "weak: inbox",
            inbox,
            (
                "the inbox releases nothing",
                "the sleepers are looked for too early",
                "the news is looked for before the inbox",
            ),
        ),
        Protocol(
            "weak: attention", attention, ("the notice releases nothing", "the notice is taken without acquiring")
        ),
        Protocol(
            "weak: event wait",
            event_wait,
            ("no fence behind the unlock", "the reader looks too early"),
            ("no fence behind the unlock on x86",),
        ),
        Protocol(
            "weak: ring",
            ring,
            (
                "no fence before the record",
                "no fence behind the copy",
                "the head releases nothing",
                "the head is read late",
            ),
            ("no fence before the record on x86",),
        ),
        Protocol(
            "weak: readers",
            readers,
            ("the mover looks too early", "the reader looks too early", "the bit is taken back while it reads"),
        ),
        Protocol("weak: seal", seal, ("the state releases nothing", "the mark releases nothing")),
        Protocol(
            "weak: hand over",
            hand_over,
            ("the owner is relaxed", "the owner releases nothing", "the owner acquires nothing"),
            ("the owner is relaxed on x86",),
        ),
        Protocol("weak: newcomer", newcomer, ("no fence before the lock", "no fence behind the look at the lock")),
        Death(),
    )
}
