"""Facts about single pieces of a cell's syntax, without regard to what stands around them. Pure."""

from __future__ import annotations

import ast
import symtable
import textwrap
from typing import TypeGuard

from .variables import Effects

# Context managers of the standard library and of test tools that may swallow the exception of their block.
SWALLOWING = frozenset({"suppress", "ExitStack", "AsyncExitStack", "raises", "assertRaises", "assertRaisesRegex"})
# Methods of builtin collections that change them; as a statement of its own a call of one is a change of its object.
MUTATING = frozenset(
    {
        "append",
        "extend",
        "insert",
        "remove",
        "clear",
        "sort",
        "reverse",
        "add",
        "discard",
        "update",
        "setdefault",
        "pop",
        "popitem",
        "appendleft",
        "popleft",
    }
)
# Decorators that keep a method without calling it.
INERT_DECORATORS = frozenset(
    {
        "property",
        "staticmethod",
        "classmethod",
        "abstractmethod",
        "cached_property",
        "overload",
        "override",
        "final",
        "setter",
        "getter",
        "deleter",
    }
)


def effects_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, class_name: str = "") -> Effects:
    """What the body of a function does to globals when it is called, by the compiler's own symbol table.

    Parameters
    ----------
    node : function definition or lambda
    class_name : str
        Of the class in whose body it stands: its private names are mangled alike.
    """
    reads: set[str] = set()
    writes: set[str] = set()
    frame = f"class {class_name}" if class_name else "if 1"
    module = symtable.symtable(f"{frame}:\n" + textwrap.indent(ast.unparse(node), " "), "<function>", "exec")
    tables = module.get_children()
    if class_name:
        tables = [table for frame_class in tables for table in frame_class.get_children()]
    while tables:
        table = tables.pop()
        tables.extend(table.get_children())
        for symbol in table.get_symbols():
            if symbol.is_global():
                if symbol.is_referenced():
                    reads.add(symbol.get_name())
                if symbol.is_assigned() or symbol.is_imported():
                    writes.add(symbol.get_name())
            elif table.get_type() == "class" and symbol.is_local() and symbol.is_referenced():
                reads.add(symbol.get_name())  # a class body looks among the globals for what it has not assigned yet
    # The table calls the targets of `del` and of `+=` assigned, and does not say that they have to be there before.
    deleted = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)}
    augmented = {n.target.id for n in ast.walk(node) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    reads |= writes & (deleted | augmented)
    return Effects(frozenset(reads), frozenset(writes), frozenset(writes & deleted))


def truth(test: ast.expr) -> bool | None:
    """What a test always is, None if that is not plain to see. In a notebook `__name__` is `"__main__"`."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        opposite = truth(test.operand)
        return None if opposite is None else not opposite
    if ast.unparse(test) in ("__name__ == '__main__'", "'__main__' == __name__"):
        return True
    return None


def is_never_empty(iterable: ast.expr) -> bool:
    """Whether a loop over it has at least one round: a literal with elements, `range` of positive literals."""
    if isinstance(iterable, ast.Tuple | ast.List | ast.Set):
        return any(not isinstance(element, ast.Starred) for element in iterable.elts)
    if isinstance(iterable, ast.Dict):
        return any(key is not None for key in iterable.keys)
    if isinstance(iterable, ast.Constant):
        return isinstance(iterable.value, str | bytes) and len(iterable.value) > 0
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and not iterable.keywords:
        if iterable.func.id in ("enumerate", "reversed", "sorted") and iterable.args:
            return is_never_empty(iterable.args[0])
        constants = [argument.value for argument in iterable.args if isinstance(argument, ast.Constant)]
        numbers = [value for value in constants if isinstance(value, int) and not isinstance(value, bool)]
        if iterable.func.id == "range" and len(numbers) == len(iterable.args):
            return len(numbers) in (1, 2, 3) and 0 not in numbers[2:] and len(range(*numbers)) > 0
    return False


def is_irrefutable(case: ast.match_case) -> bool:
    """Whether a case takes everything: `case _` and `case name`."""
    pattern = case.pattern
    while isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        pattern = pattern.pattern
    return case.guard is None and isinstance(pattern, ast.MatchAs)


def swallows(manager: ast.expr) -> bool:
    """Whether a context manager may swallow the exception of its block, as far as its name tells."""
    names = (n.id if isinstance(n, ast.Name) else getattr(n, "attr", "") for n in ast.walk(manager))
    return any(name in SWALLOWING for name in names)


def is_plain_method(statement: ast.stmt, owner: ast.ClassDef) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Whether nothing in the class body can call the method while the body runs."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    accessors = {id(d.value) for s in owner.body for d in getattr(s, "decorator_list", []) if is_accessor(d)}
    for decorator in statement.decorator_list:
        last = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
        if last not in INERT_DECORATORS:
            return False
    return not any(
        isinstance(n, ast.Name) and n.id == statement.name and isinstance(n.ctx, ast.Load) and id(n) not in accessors
        for n in ast.walk(owner)
    )


def is_accessor(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "getter", "deleter")
