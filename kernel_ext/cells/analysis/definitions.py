"""Which functions and classes of a cell that becomes a task can be made in the notebook as well. Pure.

The author of the cell calls them in the next cell, so they are to be functions and classes there, not futures. A `def`
or `class` statement evaluates some parts at once: decorators, defaults, annotations, bases, the body of a class. What
these need must exist in the notebook. If the cell assigns it, only the task can make the definition, which then comes
back like any other value.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .syntax import effects_of

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Needs:
    """What definitions of one name need of the cell's other names.

    Attributes
    ----------
    at_once : frozenset of str
        To be made.
    later : frozenset of str
        When they are called.
    """

    at_once: frozenset[str]
    later: frozenset[str]


def needs_of_all(nodes: Iterable[Definition], *, lazy_annotations: bool = False) -> dict[str, Needs]:
    """What each of a cell's definitions needs, itself or through those that it calls; by name.

    Parameters
    ----------
    nodes : iterable of definitions
        Those at the top of the cell that bind their names alone.
    lazy_annotations : bool
        As for `dataflow.analyse`.
    """
    own: dict[str, Needs] = {}
    for node in nodes:
        known = own.get(node.name, Needs(frozenset(), frozenset()))
        new = needs_of(node, lazy_annotations=lazy_annotations)
        own[node.name] = Needs(known.at_once | new.at_once, known.later | new.later)
    return {name: Needs(_with_calls(of.at_once, own), _with_calls(of.later, own)) for name, of in own.items()}


def _with_calls(names: frozenset[str], needs: dict[str, Needs]) -> frozenset[str]:
    """The names, and what is needed by the definitions among them, which may be called."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            if name in needs:
                pending.extend(needs[name].later)
    return frozenset(found)


def made_here(needs: dict[str, Needs], absent: Iterable[str]) -> dict[str, Needs]:
    """The definitions that can be made where the values of the names `absent` are not."""
    here, missing = dict(needs), set(absent)
    while lost := [name for name, of in here.items() if missing & of.at_once]:
        for name in lost:
            del here[name]
        missing.update(lost)
    return here


def needs_of(node: Definition, *, lazy_annotations: bool = False) -> Needs:
    """What one definition needs. Names that only it has (of a class body, of comprehensions) may be among them."""
    at_once, later = set[str](), set[str]()
    for part in _evaluated(node, lazy_annotations):
        if isinstance(part, ast.Name):
            at_once.add(part.id)
        elif isinstance(part, ast.Global):
            at_once.update(part.names)  # a class body that assigns to the notebook
        elif isinstance(part, Function):
            effects = effects_of(part)
            later |= effects.reads | effects.writes
    return Needs(frozenset(at_once), frozenset(later))


def _evaluated(node: ast.AST, lazy_annotations: bool) -> Iterator[ast.AST]:
    """The parts of a statement that are evaluated when it is executed; of a function the node itself, not the body."""
    if isinstance(node, Function):
        yield node
        arguments = node.args
        parts: list[ast.AST | None] = [
            *getattr(node, "decorator_list", []),
            *arguments.defaults,
            *arguments.kw_defaults,
        ]
        if not lazy_annotations:
            parts += [argument.annotation for argument in ast.walk(arguments) if isinstance(argument, ast.arg)]
            parts.append(getattr(node, "returns", None))
    else:
        yield node
        parts = list(ast.iter_child_nodes(node))
        if lazy_annotations and isinstance(node, ast.AnnAssign):
            parts.remove(node.annotation)
    for part in parts:
        if part is not None:
            yield from _evaluated(part, lazy_annotations)
