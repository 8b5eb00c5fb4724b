"""The name of the task of a cell: what the cell assigns, or its first line. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable

MAX_CHARS = 40


def title_of(source: str, writes: Iterable[str]) -> str:
    """A name for the task of a cell: ``"heights"``, ``"a, b"``, or the cell's first line if it assigns nothing.

    Parameters
    ----------
    source : str
        The cell as plain Python.
    writes : iterable of str
        The names that come back. Variables of loops and of `with`, and what the cell defines, do not count.
    """
    tree = ast.parse(source)
    passing = {id(part) for node in ast.walk(tree) for target in _passing_targets(node) for part in ast.walk(target)}
    stored = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in passing
    }
    return _shortened(", ".join(name for name in writes if name in stored) or _first_line(tree, source))


def _passing_targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        return [node.target]
    return [node.optional_vars] if isinstance(node, ast.withitem) and node.optional_vars is not None else []


def _first_line(tree: ast.Module, source: str) -> str:
    does = [
        node
        for node in tree.body
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    return source.splitlines()[does[0].lineno - 1].strip() if does else ""


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - 1]}…"
