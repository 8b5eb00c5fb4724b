"""The refs that the notebook's variables hold, also inside lists and dicts; and what a word of a magic's line names."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from ...observe.holders import N_VISITED_MAX, in_containers, walk
from ...refs import ObjectRef
from .analysis.read import CellError

DEPTH_MAX = 4
# Of an expression that names something that is there, and calls nothing.
NAMES = (ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Constant, ast.UnaryOp, ast.USub, ast.expr_context)


def refs_in(namespace: Mapping[str, Any]) -> Iterator[tuple[str, ObjectRef]]:
    """(name of the variable, ref) for each ref in the variables, containers included; a ref may come more than once."""
    for name, value in walk(list(namespace.items()), in_containers, DEPTH_MAX, N_VISITED_MAX):
        if isinstance(value, ObjectRef):
            yield name, value


def what_is(word: str, namespace: Mapping[str, Any]) -> Any:
    """What a variable holds, or a part of it such as ``refs[3]`` or ``run.model``; None where there is no such name.

    Raises
    ------
    CellError
        The variable has no such part.
    """
    if word in namespace:
        return namespace[word]
    try:
        nodes = [*ast.walk(ast.parse(word, mode="eval").body)]
    except SyntaxError:
        return None
    if not all(isinstance(node, NAMES) for node in nodes):
        return None
    try:
        return eval(word, {"__builtins__": {}}, namespace)
    except NameError:
        return None
    except Exception as error:  # of the user's container, whatever it raises
        raise CellError(f"{word}: {type(error).__name__}: {error}") from None
