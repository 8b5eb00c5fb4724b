"""Loops that an interrupt can leave without what should end with them, in Python 3.13 (scheduler/sync/condition.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

import pytest
from support.repository import ROOT, files

FOLDERS = ("cellmesh/", "kernel_ext/", "objstore/", "scheduler/")
A_COMMAND = "a program of the command line, which ends with the interrupt"
OTHER_THREAD = "in a thread of its own, where no interrupt is raised"
CONTROL = "a control process, which takes no interrupt"
IN_LOOP = "in an event loop, which takes interrupts between two callbacks"
A_FILE = "a file that is read; it is closed with its last reference"
NOTHING = "what the block would do when it ends is of no use after an interrupt"
HARMLESS = {
    "cellmesh/cli/cluster.py": A_COMMAND,
    "cellmesh/cli/start.py": A_COMMAND,
    "cellmesh/engines/dask/host.py": OTHER_THREAD,
    "cellmesh/engines/fake_engine.py": "an engine for tests, all of it in threads of its own",
    "cellmesh/engines/ray/outside.py": OTHER_THREAD,
    "cellmesh/engines/ray/relay.py": OTHER_THREAD,
    "cellmesh/observe/logs.py": A_FILE,
    "cellmesh/session/unfetched_errors.py": OTHER_THREAD,
    "cellmesh/submit/mapping.py": IN_LOOP,
    "cellmesh/tasks/periodic.py": OTHER_THREAD,
    "cellmesh/train/collective.py": NOTHING,
    "cellmesh/tune/journal.py": A_FILE,
    "cellmesh/tune/watching/following.py": OTHER_THREAD,
    "kernel_ext/graph/recorder.py": OTHER_THREAD,
    "scheduler/cluster/net/line.py": CONTROL,
    "scheduler/cluster/store/sqlite.py": CONTROL,
    "scheduler/local_scheduler/server.py": CONTROL,
    "scheduler/worker/generators.py": IN_LOOP,
    "scheduler/node/offload_dir.py": A_FILE,
    "scheduler/worker/trial.py": A_FILE,
}


class Gaps(ast.NodeVisitor):
    """Collects jumps back on a condition, within one function, inside of what is to be undone: `with`, `finally`, and
    handlers of an interrupt.
    """

    def __init__(self) -> None:
        self.lines: list[int] = []
        self._depth = 0

    def _within(self, nodes: Sequence[ast.AST], undone: bool = True) -> None:
        self._depth += undone
        for node in nodes:
            self.visit(node)
        self._depth -= undone

    def _visit_function(self, node: ast.AST) -> None:
        depth, self._depth = self._depth, 0
        self.generic_visit(node)
        self._depth = depth

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_GeneratorExp = _visit_function

    def _visit_with(self, node: ast.With | ast.AsyncWith) -> None:
        self._within(node.items, False)
        self._within(node.body)

    visit_With = visit_AsyncWith = _visit_with

    def visit_Try(self, node: ast.Try) -> None:
        last = bool(node.finalbody)
        self._within(node.body, last or any(map(_takes_interrupts, node.handlers)))
        self._within([*node.handlers, *node.orelse], last)
        self._within(node.finalbody, False)

    def _note(self, node: ast.stmt | ast.expr, jumps: bool) -> None:
        if self._depth and jumps:
            self.lines.append(node.lineno)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._note(node, not (isinstance(node.test, ast.Constant) and bool(node.test.value)))

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._note(node, isinstance(node.body[-1], ast.If))

    visit_AsyncFor = visit_For

    def _visit_comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp) -> None:
        self._note(node, any(part.ifs for part in node.generators))

    visit_ListComp = visit_SetComp = visit_DictComp = _visit_comprehension


def _takes_interrupts(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or bool({"BaseException", "KeyboardInterrupt"} & {*ast.unparse(handler.type).split()})


def gaps(text: str) -> Iterator[int]:
    """Lines of a program where such loops begin."""
    found = Gaps()
    found.visit(ast.parse(text))
    yield from found.lines


def test_no_interrupt_passes_by_what_ends_a_block() -> None:
    texts = {name: (ROOT / name).read_text() for name in files() if name.startswith(FOLDERS) and name.endswith(".py")}
    found = {name: lines for name, text in texts.items() if (lines := list(gaps(text)))}
    told = [f"{name}:{line}" for name, lines in found.items() if name not in HARMLESS for line in lines]
    assert not told, (
        "in Python 3.13 an interrupt at these loops passes by `with` and `finally`; scheduler/sync/condition.py says "
        f"what to write instead: {', '.join(told)}"
    )
    assert not {*HARMLESS} - {*found}, "these have no such loop any more: take them from the list"


@pytest.mark.parametrize(
    "loop",
    [
        "while x:\n  f()",
        "for y in x:\n  f()\n  if y:\n   f()",
        "f([y for y in x if y])",
        "f({y: y for y in x if y})",
    ],
)
def test_loops_that_jump_back_on_a_condition_are_found_in_what_is_to_be_undone(loop: str) -> None:
    inner = loop.replace("\n", "\n ")
    assert not list(gaps(loop))
    assert list(gaps(f"with x:\n {inner}")) == [2]
    assert list(gaps(f"try:\n {inner}\nfinally:\n f()")) == [2]
    assert list(gaps(f"try:\n {inner}\nexcept BaseException:\n f()")) == [2]
    assert not list(gaps(f"try:\n {inner}\nexcept ValueError:\n f()"))
    assert not list(gaps(f"with x:\n def g():\n  {loop.replace(chr(10), chr(10) + '  ')}"))


@pytest.mark.parametrize(
    "loop", ["while True:\n  if x:\n   break\n  f()", "for y in x:\n  if y:\n   continue\n  f()", "f([y for y in x])"]
)
def test_loops_that_are_whole_are_not(loop: str) -> None:
    inner = loop.replace("\n", "\n ")
    assert not list(gaps(f"with x:\n {inner}"))
