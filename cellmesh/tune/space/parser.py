"""Spaces as texts, for the command line of a cell: `lr=loguniform(1e-4, 1e-1) depth=[1,2,3] act=["relu","tanh"] n=8`.

Nothing is evaluated: a text is read by Python's own grammar, of which only literals and calls of the domains' names are
taken. A list is a grid; inside a domain it is a list. Pure.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from ...text import closest
from .domains import NAMES, Domain, grid_search
from .errors import SpaceError

CONSTANTS: dict[str, bool | float | None] = {
    "True": True,
    "False": False,
    "None": None,
    "inf": math.inf,
    "nan": math.nan,
}
ALLOWED = {name: function for name, function in NAMES.items() if name != "sample_from"}
MAX_CHARS = 10_000  # of a text: Python's parser has a stack
MAX_DEPTH = 50  # of brackets
OPEN, CLOSE = "([{", ")]}"


class _Reader:
    """One text. Positions are characters from its start, 1 is the first."""

    def __init__(self, text: str, line: str, start: int, name: str) -> None:
        self.text, self.line, self.start, self.name = text, line, start, name

    def refuse(self, at: int, why: str) -> NoReturn:
        where = f"{self.name}: " if self.name else ""
        raise SpaceError(f"{where}{why}, at character {self.start + at + 1} of {_shown(self.line)}")

    def at(self, node: ast.AST) -> int:
        """Where a node begins; Python counts bytes."""
        column = getattr(node, "col_offset", 0)
        return len(self.text.encode()[:column].decode(errors="ignore"))

    def read(self) -> Any:
        if len(self.text) > MAX_CHARS or _depth(self.text) > MAX_DEPTH:
            self.refuse(0, f"more than {MAX_CHARS} characters or {MAX_DEPTH} brackets in each other")
        try:
            with warnings.catch_warnings():  # of what looks like a mistake; what is one is refused
                warnings.simplefilter("ignore")
                tree = ast.parse(self.text, mode="eval")
        except RecursionError:
            self.refuse(0, "too much in each other")
        except SyntaxError as error:
            at = max(0, (error.offset or 1) - 1) if error.lineno == 1 else 0
            self.refuse(at, error.msg)
        except (ValueError, MemoryError) as error:  # a null byte, an int of thousands of digits; a stack that is full
            self.refuse(0, str(error) or "too much in each other")
        try:
            return self.value(tree.body, True)
        except RecursionError:
            self.refuse(0, "too much in each other")

    def value(self, node: ast.expr, is_outside: bool) -> Any:
        """`is_outside`: of every domain, where a list is a grid."""
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as value):
                return value
            case ast.Name(id=name) if name in CONSTANTS:
                return CONSTANTS[name]
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                number = self.value(operand, is_outside)
                if not isinstance(number, (int, float)) or isinstance(number, bool):
                    self.refuse(self.at(node), "a sign stands before a number")
                return -number if isinstance(sign, ast.USub) else number
            case ast.List(elts=elements):
                values = [self.value(each, False) for each in elements]
                return self.made(node, lambda: grid_search(values)) if is_outside else values
            case ast.Tuple(elts=elements):
                return tuple([self.value(each, False) for each in elements])
            case ast.Dict(keys=keys, values=values):
                return self.items(node, keys, values, is_outside)
            case ast.Call():
                return self.call(node)
            case ast.Name(id=name):
                self.unknown(node, name, f"put texts in quotes: {name!r}")
            case _:
                what = _cut(ast.unparse(node), 40)
                self.refuse(
                    self.at(node), f"{what} is not allowed: numbers, texts, lists, tuples, dicts and domains are"
                )

    def items(self, node: ast.Dict, keys: list[ast.expr | None], values: list[ast.expr], is_outside: bool) -> Any:
        found: dict[Any, Any] = {}
        for key, value in zip(keys, values, strict=True):
            name = self.value(key, False) if key is not None else None
            if not isinstance(name, str):
                self.refuse(self.at(key or node), "a key is a text in quotes")
            found[name] = self.value(value, is_outside)
        return found

    def call(self, node: ast.Call) -> Domain:
        name = ast.unparse(node.func).removeprefix("tune.")
        if name == "sample_from":
            self.refuse(self.at(node), "sample_from needs a function, which a text cannot have; make the space a dict")
        if name not in ALLOWED:
            self.unknown(node, name, "")
        arguments = []
        for each in node.args:
            if isinstance(each, ast.Starred):
                self.refuse(self.at(each), "* is not allowed")
            arguments.append(self.value(each, False))
        keywords = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.refuse(self.at(keyword.value), "** is not allowed")
            keywords[keyword.arg] = self.value(keyword.value, False)
        return self.made(node, lambda: ALLOWED[name](*arguments, **keywords))

    def made(self, node: ast.AST, make: Callable[[], Domain]) -> Domain:
        try:
            return make()
        except (SpaceError, TypeError) as error:
            self.refuse(self.at(node), str(error))

    def unknown(self, node: ast.AST, name: str, remedy: str) -> NoReturn:
        close = closest(name, [*ALLOWED, *CONSTANTS])
        hints = [f"did you mean {close}?" if close else "", remedy, f"there are {', '.join(ALLOWED)}"]
        self.refuse(self.at(node), f"{name} is no domain ({'; '.join(filter(None, hints))})")


def _shown(line: str) -> str:
    return repr(_cut(line, 100))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _depth(text: str) -> int:
    """How deep brackets stand in each other, or more: those in texts count, too. Signs are counted like brackets."""
    deepest = depth = 0
    for letter in text:
        depth = depth + 1 if letter in OPEN else depth - 1 if letter in CLOSE else depth
        deepest = max(deepest, depth)
    signs = max((len(run.replace(" ", "")) for run in re.findall(r"[-+~ ]+", text)), default=0)
    return max(deepest, signs)


def parse(text: str) -> Any:
    """A domain or a value from its text.

    Parameters
    ----------
    text : str
        A number, a text in quotes, True, False, None, inf, nan, a tuple, a dict with texts as keys, the call of a
        domain such as `loguniform(1e-4, 1e-1)`, or a list, which is a grid.

    Raises
    ------
    SpaceError
        It is something else: names the position and what is allowed.

    Examples
    --------
    >>> parse("loguniform(1e-4, 1e-1)")
    loguniform(0.0001, 0.1)
    """
    return _Reader(text.strip(), text, len(text) - len(text.lstrip()), "").read()


def parse_line(line: str) -> dict[str, Any]:
    """A space from the line of a magic: `name=value`, with spaces between; in brackets and quotes there may be spaces,
    too.

    Raises
    ------
    SpaceError
        A part is no `name=value`, a name is given twice, or a value is none that `parse` takes.

    Examples
    --------
    >>> parse_line('lr=loguniform(1e-4, 1e-1) depth=[1,2,3] n=8')
    {'lr': loguniform(0.0001, 0.1), 'depth': grid_search([1, 2, 3]), 'n': 8}
    """
    space: dict[str, Any] = {}
    for start, part in split_line(line):
        name, equals, text = part.partition("=")
        here = _Reader(part, line, start, "")
        if not equals or not name.isidentifier():
            here.refuse(
                0, f"{_shown(part)} is not name=value, such as lr=loguniform(1e-4,1e-1), without spaces around ="
            )
        if name in space:
            here.refuse(0, f"{name} is given twice")
        space[name] = _Reader(text, line, start + len(name) + 1, name).read()
    return space


def split_line(line: str) -> list[tuple[int, str]]:
    """The parts between the spaces of a line, each with its start."""
    found, start, depth, quote = list[tuple[int, str]](), 0, 0, ""
    for at, letter in enumerate(f"{line} "):
        if quote:
            is_escaped = (len(line[:at]) - len(line[:at].rstrip("\\"))) % 2
            quote = "" if letter == quote and not is_escaped else quote
        elif letter in "'\"":
            quote = letter
        elif letter in OPEN or letter in CLOSE:
            depth = max(0, depth + (1 if letter in OPEN else -1))
        elif letter.isspace() and depth == 0:
            if at > start:
                found.append((start, line[start:at]))
            start = at + 1
    return [*found, (start, line[start:])] if start < len(line) else found
