"""The analysis of cells: a corpus of cells as text, and an oracle that runs cells with what it takes along."""

from __future__ import annotations

import builtins
import random
import re
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from cellmesh.kernel_ext.cells.analysis.read import Body, CellError, Definitions, read_cell
from cellmesh.kernel_ext.cells.analysis.title import title_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples

CORPUS = Path(__file__).with_name("cells_corpus.txt")
PLAIN = ("builtins", "deletes", "imports", "mutates", "dynamic", "passing", "functions", "classes")


def cases() -> list[tuple[str, str, str]]:
    """(title, expectation, cell) of every case in the corpus."""
    found = []
    for block in re.split(r"^==== ", CORPUS.read_text(), flags=re.MULTILINE)[1:]:
        title, *lines = block.rstrip("\n").split("\n")
        expected = " | ".join(line[2:].strip() for line in lines if line.startswith("#:"))
        found.append((title, expected, "\n".join(line for line in lines if not line.startswith("#:"))))
    return found


def parts(text: str) -> dict[str, list[str]]:
    """An expectation as a dict; flags stand for themselves."""
    found: dict[str, list[str]] = {}
    for part in filter(None, (part.strip() for part in text.split("|"))):
        words = part.split()
        for flag in ("last", "await"):
            if flag in words:
                words.remove(flag)
                found[flag] = []
        if words:
            for word in words:
                if word in ("reads", "writes", "defines", *PLAIN):
                    current = found.setdefault(word, [])
                else:
                    current.append(word)
    return {kind: sorted(names) for kind, names in found.items()}


def described(cell: Body | Definitions) -> dict[str, list[str]]:
    """What the analysis says, in the corpus's words."""
    if isinstance(cell, Definitions):
        said = {"functions": cell.functions, "classes": cell.classes, "imports": cell.imports}
        return {kind: sorted(names) for kind, names in said.items() if names}
    marks = dict.fromkeys(cell.maybe_writes, "?") | dict.fromkeys(cell.keeps, "~")
    said = {
        "reads": [name + "?" * (name in cell.weak_reads) for name in cell.reads],
        "writes": [name + marks.get(name, "") for name in cell.writes],
        "defines": [
            ":".join([name, *sorted(needs.later & {*cell.writes, *cell.deletes, *cell.passing})])
            for name, needs in cell.definitions.items()
        ],
        **{kind: getattr(cell, kind) for kind in ("builtins", "deletes", "imports", "mutates", "dynamic", "passing")},
    }
    flags = {"last": cell.has_last_expression, "await": cell.uses_await}
    found = {kind: sorted(names) for kind, names in said.items() if names}
    return found | {flag: [] for flag, on in flags.items() if on}


@pytest.mark.parametrize(("expected", "text"), [case[1:] for case in cases()], ids=[case[0] for case in cases()])
def test_corpus(expected: str, text: str) -> None:
    if expected.startswith("error "):
        _, kind, message = expected.split(maxsplit=2)
        with pytest.raises(SyntaxError if kind == "SyntaxError" else CellError) as caught:
            read_cell(text, n_lines_before=1)
        said = str(caught.value)
        assert message in said or message == f"line {getattr(caught.value, 'lineno', None)}", said
    else:
        assert described(read_cell(text, n_lines_before=1)) == parts(expected)


# ---- the oracle: random cells, run in the whole notebook and in what the analysis lends them

NAMES = ("a", "b", "c", "d")
FUNCTIONS = ("f", "g")


class Writer:
    """Writes a random cell that ends: every name may be unbound, every block may be left early, loops are short."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def name(self) -> str:
        return self.pick(*NAMES)

    def filled(self, template: str, depth: int = 0, *, walrus: bool = True) -> str:
        """The template with an expression for each E, a name for each N and a function's name for each F."""
        make = {"E": lambda: self.expression(depth, walrus=walrus), "N": self.name, "F": lambda: self.pick(*FUNCTIONS)}
        return re.sub(r"\b[ENF]\b", lambda found: make[found[0]](), template)

    def expression(self, depth: int = 0, *, walrus: bool = True) -> str:
        kinds = ["1", "N", "N"]
        if depth < 3:
            kinds += [
                "(E + E)",
                "(maybe() and E)",
                "(E if maybe() else E)",
                "sum([v for v in range(E % 3)])",
                "sum([N for v in range(E % 3)])",
                "sum((E for N in range(2)))",
                "call(F)",
                "call(lambda: N)",
                "call(lambda k=E: k)",
                "(E < E < E)",
                "len(f'{E == 0}')",
            ]
            kinds += ["(N := E)", "sum([(N := v) for v in range(E % 3)])"] * walrus
        return self.filled(self.pick(*kinds), depth + 1, walrus=walrus)

    def write(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    def block(self, indent: int, *, loop: bool, risky: bool = False) -> None:
        for _ in range(self.random.randint(1, 3)):
            if risky and self.pick(True, False):
                self.write(indent, "boom()")
            self.statement(indent, loop=loop)

    def statement(self, indent: int, *, loop: bool) -> None:
        kinds = [self.assign] * 10 + [self.define, self.define, self.make_lambda, self.call, self.importing]
        kinds += [self.delete] * (not self.random.randrange(3))
        if indent < 3:
            kinds += [self.if_, self.if_, self.for_, self.while_, self.try_, self.try_, self.with_, self.match_]
            kinds += [self.class_]
        self.pick(*kinds)(indent, loop)
        if loop and not self.random.randrange(5):
            self.write(indent, "if maybe():")
            self.write(indent + 1, self.pick("break", "continue"))
        if not self.random.randrange(12):
            self.write(indent, "if maybe(): raise ValueError")

    def assign(self, indent: int, loop: bool) -> None:
        self.write(indent, self.filled(self.pick("N = E", "N = E", "N += E", "N, N = E, E", "E", "assert E != -1")))

    def delete(self, indent: int, loop: bool) -> None:
        self.write(indent, f"del {self.pick(*NAMES, *FUNCTIONS)}")

    def importing(self, indent: int, loop: bool) -> None:
        self.write(indent, f"from math import pi as {self.name()}")

    def define(self, indent: int, loop: bool) -> None:
        if not self.random.randrange(4):
            self.write(indent, "@passed_on")
        self.write(indent, f"def {self.pick(*FUNCTIONS)}(x={self.expression(2)}):")
        if self.pick(True, False):
            self.write(indent + 1, f"global {self.name()}")
        self.block(indent + 1, loop=False)
        self.write(indent + 1, f"return {self.expression(1)}")

    def make_lambda(self, indent: int, loop: bool) -> None:
        function = self.pick("lambda: {}", "({} for v in range(9)).__next__").format(self.expression(1))
        self.write(indent, f"{self.pick(*FUNCTIONS)} = {function}")

    def call(self, indent: int, loop: bool) -> None:
        self.write(indent, f"{self.name()} = call({self.pick(*FUNCTIONS)})")

    def if_(self, indent: int, loop: bool) -> None:
        self.write(indent, f"if {self.pick('maybe()', self.expression(1))}:")
        self.block(indent + 1, loop=loop)
        if self.pick(True, False):
            self.write(indent, "else:")
            self.block(indent + 1, loop=loop)

    def for_(self, indent: int, loop: bool) -> None:
        iterable = self.pick("range(2)", "(1, 2)", "range(call(f) % 2)", "[v for v in [] ]")
        self.write(indent, f"for {self.name()} in {iterable}:")
        self.block(indent + 1, loop=True)
        self.otherwise(indent, loop)

    def while_(self, indent: int, loop: bool) -> None:
        self.write(indent, f"while {self.pick('maybe()', 'maybe() and ' + self.expression(1), 'True')}:")
        self.write(indent + 1, "if tired(): break")
        self.block(indent + 1, loop=True)
        self.otherwise(indent, loop)

    def otherwise(self, indent: int, loop: bool) -> None:
        if not self.random.randrange(3):
            self.write(indent, "else:")
            self.block(indent + 1, loop=loop)

    def try_(self, indent: int, loop: bool) -> None:
        self.write(indent, "try:")
        self.block(indent + 1, loop=loop, risky=True)
        final = self.pick(True, False, False)
        if not final or self.pick(True, False):
            self.write(indent, self.pick("except ValueError:", f"except ValueError as {self.name()}:"))
            self.block(indent + 1, loop=loop)
            if self.pick(True, False):
                self.write(indent, "else:")
                self.block(indent + 1, loop=loop)
        if final:
            self.write(indent, "finally:")
            self.block(indent + 1, loop=False)

    def with_(self, indent: int, loop: bool) -> None:
        plain = f"with nullcontext({self.expression(1)}) as {self.name()}:"
        self.write(indent, self.pick("with suppress(ValueError):", plain))
        self.block(indent + 1, loop=loop, risky=True)

    def match_(self, indent: int, loop: bool) -> None:
        self.write(indent, f"match ({self.expression(1)}, {self.pick('maybe()', '1')}):")
        patterns = ["(1, {})", "({}, True)", "({}, 1) if maybe()", "[*{}] if maybe()"]
        for pattern in [*self.random.sample(patterns, self.random.randint(1, 2)), *self.pick([], ["{}"], ["_"])]:
            self.write(indent + 1, f"case {pattern.format(self.name())}:")
            self.block(indent + 2, loop=loop)

    def class_(self, indent: int, loop: bool) -> None:
        self.write(indent, self.pick("class K:", "class K(Base):"))
        self.block(indent + 1, loop=False)
        self.write(indent + 1, "def method(self):")
        self.write(indent + 2, f"return {self.expression(1)}")
        if self.pick(True, False):
            self.write(indent, f"{self.name()} = K().method()")

    def cell(self) -> str:
        for _ in range(self.random.randint(2, 7)):
            self.statement(0, loop=False)
        return "\n".join(self.lines) + "\n"


class Stop(Exception):
    """The run has taken its share of steps."""


def outcome(cell: str, namespace: dict[str, Any], seed: int) -> str:
    """Run a cell; say how it ended. Everything it calls is deterministic for a seed, and ends."""
    chance, steps, depth = random.Random(seed), 0, 0

    def step() -> float:
        nonlocal steps
        steps += 1
        if steps > 200:
            raise Stop
        return chance.random()

    def boom() -> None:
        if step() < 0.4:
            raise ValueError

    def call(function: Any) -> Any:
        nonlocal depth
        step()
        if depth > 4:
            return 0
        depth += 1
        try:
            return function()
        finally:
            depth -= 1

    def passed_on(function: Any) -> Any:
        call(function)
        return function

    class Base:
        def __init_subclass__(cls) -> None:
            if hasattr(cls, "method"):
                call(lambda: cls.method(None))

    helpers = {
        "maybe": lambda: step() < 0.6,
        "tired": lambda: step() < 0.3,
        "boom": boom,
        "call": call,
        "passed_on": passed_on,
        "Base": Base,
        "suppress": suppress,
        "nullcontext": nullcontext,
    }
    namespace["__builtins__"] = vars(builtins) | helpers
    try:
        exec(compile(cell, "<cell>", "exec"), namespace)
    except Exception as error:
        return type(error).__name__
    return "end"


def same(one: Any, other: Any) -> bool:
    plain = (int, float, list, bool, tuple)
    if isinstance(one, plain) and isinstance(other, plain):
        return one == other
    return type(one).__name__ == type(other).__name__


@settings(
    max_examples=examples(200),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_what_is_lent_is_enough_and_what_comes_back_is_all(program: int, seed: int) -> None:
    present = [name for name in NAMES + FUNCTIONS if random.Random(f"{seed} {name}").random() < 0.9]
    cell = Writer(program).cell()
    try:
        body = read_cell(cell)
    except SyntaxError:  # a walrus in a comprehension in a class, a name that is a parameter and global, ...
        return
    if not isinstance(body, Body):
        return
    notebook = {name: (lambda n=n: n + 5) if name in FUNCTIONS else n for n, name in enumerate(present)}
    whole, lent = dict(notebook), {name: notebook[name] for name in (*body.reads, *body.builtins) if name in notebook}
    ended = outcome(cell, whole, seed)
    assert outcome(cell, lent, seed) == ended, cell
    if any(name not in notebook for name in body.needed if name in NAMES + FUNCTIONS):
        assert ended != "end", cell
    if ended != "end":
        return
    nothing = object()
    for name in body.writes:
        kept = notebook.get(name, nothing) if name in body.keeps else nothing
        assert same(lent.get(name, kept), whole.get(name, nothing)), (cell, name)
        assert name in body.maybe_writes or name in lent, (cell, name)
    for name in body.deletes:
        assert name not in whole, (cell, name)
    # The name of an `except ... as name` is the handler's: a notebook loses a variable of that name, here it stays.
    of_handlers = re.findall(r"ValueError as (\w)", cell)
    for name in set(NAMES + FUNCTIONS) - {
        *body.writes,
        *body.deletes,
        *body.imports,
        *body.definitions,
        *body.passing,
        *of_handlers,
    }:
        assert whole.get(name, nothing) is notebook.get(name, nothing), (cell, name)


@pytest.mark.parametrize(
    ("source", "writes", "title"),
    [
        ("import numpy as np\nheights = np.ones(3)", ["heights"], "heights"),
        ("a = 1\nb: int = a", ["a", "b"], "a, b"),
        ("for minute in range(15):\n    pass\nanswer = 42", ["minute", "answer"], "answer"),
        ("import time\nfor i in range(3):\n    time.sleep(i)", ["i"], "for i in range(3):"),
        ("with open('f') as f:\n    text = f.read()", ["f", "text"], "text"),
        ("def f(): pass\nx = f()", ["f", "x"], "x"),
        ("import numpy as np\n\nnp.mean(data)", [], "np.mean(data)"),
        ("long_name_of_a_function(with_many, arguments, that_go, on)", [], "long_name_of_a_function(with_many, argu…"),
    ],
)
def test_what_the_task_of_a_cell_is_called(source: str, writes: list[str], title: str) -> None:
    assert title_of(source, writes) == title
