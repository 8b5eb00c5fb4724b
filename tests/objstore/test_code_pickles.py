"""Code keeps the names of its files, whatever the installed release of cloudpickle does with them."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from cellmesh.errors.describe import describe

ROOT = Path(__file__).resolve().parents[2]
CELL = '''
def outer(x):
    """With code in it of every kind."""
    def nested(y):
        def deeper(z): return z
        return deeper(y)
    def produce():
        yield x
    async def wait():
        async with x: await x
    return nested, (lambda y: y), [y + x for y in x], {y for y in x}, (y for y in x), produce, wait

class Thing(Exception):
    def method(self): return [n for n in ()]
    @property
    def prop(self): return 1
    @classmethod
    def of_class(cls): return lambda: cls
    @staticmethod
    def static(): return 1
    class Inner:
        def method(self): return 1
'''


@pytest.fixture
def cell() -> dict[str, Any]:
    """What a cell of a notebook defines."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(CELL, "Cell In[7]", "exec"), names)
    return names


def all_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from all_code(inner)


def code_of(value: Any) -> Iterator[CodeType]:
    """The code of a function or a class, with all that is within it."""
    if isinstance(value, FunctionType):
        yield from all_code(value.__code__)
    elif isinstance(value, (classmethod, staticmethod)):
        yield from code_of(value.__func__)
    elif isinstance(value, property):
        yield from code_of(value.fget)
    elif isinstance(value, type):
        for inner in vars(value).values():
            yield from code_of(inner)


@pytest.mark.parametrize("name", ["outer", "Thing"])
def test_all_code_within_keeps_its_file_and_lines(
    name: str, cell: dict[str, Any], travelled: Callable[[Any], Any]
) -> None:
    before, after = ([*code_of(value)] for value in (cell[name], travelled(cell[name])))
    assert len(before) >= 6 and {code.co_filename for code in before} == {"Cell In[7]"}
    assert [(c.co_name, c.co_filename, c.co_firstlineno, list(c.co_positions())) for c in after] == [
        (c.co_name, c.co_filename, c.co_firstlineno, list(c.co_positions())) for c in before
    ]


def test_a_lambda_and_a_closure_keep_theirs(travelled: Callable[[Any], Any]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def make(n):\n    return lambda x: x / n\nhalve = make(0)", "Cell In[8]", "exec"), names)
    with pytest.raises(ZeroDivisionError) as raised:
        travelled(names["halve"])(1)
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert (last.filename, last.lineno) == ("Cell In[8]", 2)


def test_the_class_of_an_exception_keeps_its_file(cell: dict[str, Any]) -> None:
    """An exception that is raised in a task brings its class along, and with it the methods."""
    thing = cell["Thing"]("no")
    back = pickle.loads(describe(thing, "work")[5])
    assert back.method.__code__.co_filename == "Cell In[7]"


def test_a_worker_finds_the_source(tmp_path: Path) -> None:
    """`inspect` and a debugger read a function's lines in the worker; the function is from a program, not a module."""
    program = tmp_path / "program.py"
    program.write_text(
        "import inspect\nimport cellmesh as cm\n\n"
        "def inner(x):\n    return x  # said here\n\n"
        "@cm.remote\ndef source():\n    return inspect.getsource(inner), inspect.getsource(lambda: 1 + 1)\n\n"
        "if __name__ == '__main__':\n    print(*cm.get(source.remote()), sep='')\n"
    )
    done = subprocess.run([sys.executable, "-P", program], capture_output=True, text=True, timeout=60)
    assert "return x  # said here" in done.stdout and "lambda: 1 + 1" in done.stdout, done.stderr


def makers_of_pickles(path: Path) -> list[str]:
    """Where a module has cloudpickle make a pickle by itself."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in ("dump", "dumps", "Pickler", "CloudPickler"):
            if isinstance(node.value, ast.Name) and node.value.id == "cloudpickle":
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_nothing_of_ours_has_cloudpickle_leave_files_out() -> None:
    ours = ("objstore/code_pickles.py", "objstore/serialization.py")  # which put them back
    packages = ("cellmesh", "objstore", "scheduler", "kernel_ext")
    found = [place for name in packages for path in (ROOT / name).rglob("*.py") for place in makers_of_pickles(path)]
    assert [place for place in found if not place.startswith(ours)] == []
    assert any(place.startswith(ours[0]) for place in found)  # so that this looks at something


ANNOTATED = """
import functools

@functools.singledispatch
def use(x: Later) -> str: return "used"
def plain(x: Later, *, y: int = 2) -> int: return x * y
"""


def test_annotations_of_functions_travel(
    travelled: Callable[[Any], Any], annotated: Callable[[str], tuple[dict[str, Any], Any]]
) -> None:
    names, later = annotated(ANNOTATED)
    use, plain = travelled(names["use"]), travelled(names["plain"])
    assert use.__annotations__["x"] == plain.__annotations__["x"] == later
    assert (use(1), plain(3), plain(3, y=3)) == ("used", 6, 9)
