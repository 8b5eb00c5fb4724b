"""What may be true of variables at one point of a cell, and what reads and writes say about the cell. Pure.

This module knows no syntax: `dataflow` and `expressions` walk the tree and call `read`, `write` and `delete` in the
order of execution.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

UNTOUCHED, ASSIGNED, DELETED = 1, 2, 4

# What binds a name. Names that only loops and `with` bind ("passing"), or `except`, are the cell's own: they do not
# come back.
Binding = Literal["assignment", "import", "definition", "passing", "except"]
OWN: frozenset[Binding] = frozenset({"passing", "except"})

# A key is the name of a module-level variable, or (class statement, name) for one in a class body that is being walked.
Key = str | tuple[int, str]
# Calls whose effect on names no analysis sees.
DYNAMIC = frozenset({"exec", "eval", "globals", "locals", "vars"})


@dataclass(frozen=True)
class Effects:
    """What the body of a function does to module-level names when it is called."""

    reads: frozenset[str]
    writes: frozenset[str]
    deletes: frozenset[str]

    def without(self, shadows: Iterable[frozenset[str]]) -> Effects:
        """The same, for a place where names are hidden by the variables of comprehensions."""
        hidden = frozenset().union(*shadows)
        return Effects(self.reads - hidden, self.writes - hidden, self.deletes - hidden)


@dataclass
class State:
    """What may be true at one point of the cell. A name that is not in `bits` is untouched."""

    bits: dict[Key, int] = field(default_factory=dict)
    latent: dict[str, frozenset[Effects]] = field(default_factory=dict)  # functions not yet referred to, by name

    def copy(self) -> State:
        return State(dict(self.bits), dict(self.latent))

    def of(self, key: Key) -> int:
        return self.bits.get(key, UNTOUCHED)


def join(*states: State | None) -> State | None:
    """What may be true where several paths meet; None stands for a path that does not get there."""
    reached = [state for state in states if state is not None]
    if not reached:
        return None
    joined = reached[0].copy()
    for other in reached[1:]:
        joined.bits = {key: joined.of(key) | other.of(key) for key in joined.bits.keys() | other.bits.keys()}
        for name, effects in other.latent.items():
            joined.latent[name] = joined.latent.get(name, frozenset()) | effects
    return joined


@dataclass(frozen=True)
class Flow:
    """What the walk found out about module-level names. Tuples are in the order of first occurrence.

    Attributes
    ----------
    reads : tuple of str
        Read, on some path, from what the notebook holds.
    certain_reads : frozenset of str
        Those of `reads` of which some read stands where no path has assigned the name.
    needed : dict of str to int
        Those of `reads` without which the cell cannot come to its end, and the line of the first read.
    bound : tuple of str
        Whatever the cell binds or deletes.
    writes : tuple of str
        What the cell may leave assigned, or may or may not delete.
    maybe_writes : frozenset of str
        Those of `writes` that some path does not assign.
    keeps : frozenset of str
        Those of `maybe_writes` which some path leaves as the notebook holds them, without a read on any.
    deletes : tuple of str
        What the cell deletes on every path.
    imports : tuple of str
        Names bound by import statements and by nothing else; they are not in `writes`.
    definitions : tuple of str
        Names bound by functions and classes at the top of the cell and by nothing else; they are not in `writes`.
    passing : tuple of str
        Names that only the targets of loops and `with` bind; they are not in `writes`.
    mutated : tuple of str
        Names taken from the notebook whose object the cell changes in place, or may: `x += 1` does if x is a list.
    dynamic : tuple of str
        Calls of `DYNAMIC` found.
    star_import : ast.ImportFrom or None
        The first ``from m import *``.
    """

    reads: tuple[str, ...]
    certain_reads: frozenset[str]
    needed: dict[str, int]
    bound: tuple[str, ...]
    writes: tuple[str, ...]
    maybe_writes: frozenset[str]
    keeps: frozenset[str]
    deletes: tuple[str, ...]
    imports: tuple[str, ...]
    definitions: tuple[str, ...]
    passing: tuple[str, ...]
    mutated: tuple[str, ...]
    dynamic: tuple[str, ...]
    star_import: ast.ImportFrom | None


class Variables:
    """The state at the point that has been reached, and what has been found on the way.

    `state` is None where no path gets to.
    """

    def __init__(self) -> None:
        self.state: State | None = State()
        self.reads: dict[str, None] = {}
        self.certain_reads: set[str] = set()
        self.needed: dict[str, int] = {}  # name -> line
        self.order: dict[str, None] = {}  # every module-level name ever bound or deleted
        self.bindings: dict[str, set[Binding]] = {}  # of each of these
        self.mutated: dict[str, None] = {}
        self.dynamic: dict[str, None] = {}
        self.star_import: ast.ImportFrom | None = None
        self.exposed: set[str] = set()  # read by functions that may be called at any time
        self.wild_writes: set[str] = set()  # assigned by such functions
        self.wild_deletes: set[str] = set()
        # One for each enclosing block whose exceptions are caught: what was true at any point of it so far.
        self.interrupted: list[State | None] = []
        self.shadows: list[frozenset[str]] = []  # names that a comprehension or a type parameter hides
        self.classes: list[ast.ClassDef] = []  # whose bodies are being walked
        self.class_globals: list[set[str]] = []
        self.comprehensions = 0  # how many are being walked: they do not see a class body's names
        self.later = 0  # > 0 in what is evaluated some time after it was walked
        self.unsure = 0  # > 0 where it is not sure that execution passes

    def key(self, name: str) -> Key:
        if self.classes and name not in self.class_globals[-1]:
            return id(self.classes[-1]), name
        return name

    def read(self, name: str, line: int) -> None:
        if self.state is None or self.is_hidden(name):
            return
        name = self.mangled(name)
        key = self.key(name)
        in_class = self.state.of(key) if key != name and not self.comprehensions else UNTOUCHED
        if in_class == ASSIGNED:
            return  # the class body's own
        self.take(name)
        if self.state.of(name) == UNTOUCHED and not self.unsure and not in_class & ASSIGNED:
            self.needed.setdefault(name, line)
        if self.later:
            self.exposed.add(name)
        self.release(self.state.latent.get(name, ()))

    def take(self, name: str) -> None:
        """Note a read of a module-level name; it concerns the notebook if the cell may not have touched the name."""
        assert self.state is not None
        bits = self.state.of(name)
        if bits & UNTOUCHED:
            self.reads.setdefault(name)
        if bits == UNTOUCHED:
            self.certain_reads.add(name)

    def write(self, name: str, latent: frozenset[Effects] = frozenset(), *, bound_by: Binding = "assignment") -> None:
        if self.state is None:
            return
        key = self.key(self.mangled(name))
        self.state.bits[key] = ASSIGNED
        if isinstance(key, str):
            self.note_binding(key, bound_by)
            self.state.latent.pop(key, None)
            if latent:
                self.state.latent[key] = latent
                if key in self.exposed:
                    self.release(latent)
        elif latent:
            self.release(latent)
        self.note_interruption()

    def delete(self, name: str, line: int) -> None:
        self.read(name, line)
        self.forget(name)

    def forget(self, name: str, *, bound_by: Binding = "assignment") -> None:
        if self.state is None:
            return
        key = self.key(self.mangled(name))
        self.state.bits[key] = DELETED
        if isinstance(key, str):
            self.state.latent.pop(key, None)
            self.note_binding(key, bound_by)
        self.note_interruption()

    def release(self, functions: Iterable[Effects]) -> None:
        """There are references to these functions now: they may be called here, or at any later time."""
        seen: set[Effects] = set()
        pending = list(functions)
        while pending and self.state is not None:
            effects = pending.pop()
            if effects in seen:
                continue
            seen.add(effects)
            self.dynamic |= dict.fromkeys(sorted(effects.reads & DYNAMIC))
            for name in sorted(effects.reads):
                self.take(name)
                self.exposed.add(name)
                pending.extend(self.state.latent.get(name, ()))
            for name in sorted(effects.writes):
                self.wild_writes.add(name)
                self.note_binding(name, "assignment")
                self.state.bits[name] = self.state.of(name) | ASSIGNED
            self.wild_deletes |= effects.deletes
            for name in effects.deletes:
                self.state.bits[name] = self.state.of(name) | DELETED
            self.note_interruption()

    def note_binding(self, name: str, bound_by: Binding) -> None:
        self.order.setdefault(name)
        self.bindings.setdefault(name, set()).add(bound_by)

    def is_hidden(self, name: str) -> bool:
        return any(name in shadow for shadow in self.shadows)

    def mangled(self, name: str) -> str:
        if not self.classes or not name.startswith("__") or name.endswith("__"):
            return name
        owner = self.classes[-1].name.lstrip("_")
        return f"_{owner}{name}" if owner else name

    def note_interruption(self) -> None:
        self.interrupted = [join(state, self.state) for state in self.interrupted]

    # ---- what was found

    def flow(self) -> Flow:
        end = self.state
        bits = {name: ASSIGNED if end is None else end.of(name) for name in self.order if self.bindings[name] - OWN}
        for name in self.wild_writes:
            bits[name] |= ASSIGNED
        for name in self.wild_deletes:
            bits[name] |= DELETED
        imports = tuple(n for n in bits if self.bindings[n] <= {"import", "except"})
        definitions = tuple(n for n in bits if self.bindings[n] <= {"definition", "except"})
        writes = tuple(
            n
            for n, b in bits.items()
            if n not in imports and n not in definitions and b & (ASSIGNED | DELETED) and b != DELETED
        )
        # A name that is gone at the end was deleted, or never there. For those where it may be both, the cell gets the
        # notebook's value at the start: then what is there at the end tells.
        reads = dict.fromkeys([*self.reads, *(n for n in writes if bits[n] & UNTOUCHED and bits[n] & DELETED)])
        return Flow(
            reads=tuple(reads),
            certain_reads=frozenset(self.certain_reads),
            needed={} if self.dynamic else dict(self.needed),
            bound=tuple(self.order),
            writes=writes,
            maybe_writes=frozenset(n for n in writes if bits[n] != ASSIGNED),
            keeps=frozenset(n for n in writes if bits[n] & UNTOUCHED and n not in reads),
            deletes=tuple(n for n, b in bits.items() if b == DELETED),
            imports=imports,
            definitions=definitions,
            passing=tuple(n for n in self.order if "passing" in self.bindings[n] <= OWN),
            mutated=tuple(n for n in self.mutated if n in reads),
            dynamic=tuple(self.dynamic),
            star_import=self.star_import,
        )
