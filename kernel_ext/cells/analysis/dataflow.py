"""Which names a cell reads from the notebook, and which it leaves behind: data flow over the cell's syntax tree.

The set of names must be exact in both directions. If a name is missing, the cell raises a NameError that the notebook
would not have raised. If there is a name too many, the cell waits for a task that it does not need, fails with it, or
takes a gigabyte along for nothing. The commonest such name is one that the cell itself made when it ran before.

So `Walker` walks the tree in the order of execution, as an abstract interpreter; `expressions` has its part for
expressions. For each name it knows what may be true at that point: *untouched* (the notebook's value), *assigned* by
the cell, *deleted* by it. Branches join by union, loops run until nothing changes, and an exception may leave a `try`
after any assignment in it. A read of a name that may be untouched is a read from the notebook.

A function reads names when it is called, not where it is defined. A call needs a reference. So the reads of a function
count where its *name* is first loaded, or at once if a decorator or a base class sees it. `symtable`, the compiler's
own answer, says which names a body takes from the globals.

Only running can tell what `exec` and `globals()["x"]` do, and whether a context manager of the user's swallows
exceptions. `dynamic` reports the first two; `--inputs` and `--returns` are for them. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .expressions import Expressions
from .syntax import MUTATING, is_irrefutable, is_never_empty, is_plain_method, swallows, truth
from .variables import Binding, Effects, Flow, State, join


def analyse(tree: ast.Module, *, lazy_annotations: bool = False) -> Flow:
    """Walk `tree`, the whole of a cell.

    Parameters
    ----------
    tree : ast.Module
    lazy_annotations : bool
        Whether `from __future__ import annotations` is in force, so that annotations are not evaluated.
    """
    walker = Walker(frozenset(map(id, tree.body)), lazy_annotations=lazy_annotations)
    walker.block(tree.body)
    return walker.flow()


@dataclass
class Loop:
    """The states in which a loop is left by `break`, or begun again by `continue`."""

    breaks: list[State | None] = field(default_factory=list)
    continues: list[State | None] = field(default_factory=list)


class Walker(Expressions):
    """Walks a cell in the order of execution."""

    def __init__(self, at_the_top: frozenset[int] = frozenset(), *, lazy_annotations: bool = False) -> None:
        super().__init__()
        self.at_the_top = at_the_top  # ids of the statements that are executed whatever happens
        self.lazy_annotations = lazy_annotations
        self.loops: list[Loop] = []

    # ---- statements that bind

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.value, ast.Lambda) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self.defaults(node.value.args)
            self.write(node.targets[0].id, frozenset([self.effects(node.value)]))
            return
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.mutate(node.target)
            self.read(node.target.id, node.lineno)
            self.visit(node.value)
            self.write(node.target.id)
        else:
            self.mutate(node.target.value)
            for child in ast.iter_child_nodes(node.target):
                self.visit(child)
            self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.value)
        if node.value is not None or not isinstance(node.target, ast.Name):
            self.visit(node.target)
        self.annotation(node.annotation)

    def annotation(self, node: ast.expr | None) -> None:
        if not self.lazy_annotations:
            self.visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self.visit(target)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in MUTATING:
            self.mutate(call.func.value)
        self.visit(call)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.write(alias.asname or alias.name.partition(".")[0], bound_by="import")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.star_import = self.star_import or node
            else:
                self.write(alias.asname or alias.name, bound_by="import")

    def visit_TypeAlias(self, node: Any) -> None:
        self.with_type_parameters(node, [node.value])
        self.write(node.name.id)

    def visit_Global(self, node: ast.Global) -> None:
        if self.classes:
            self.class_globals[-1].update(node.names)

    # ---- functions and classes

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        effects = self.definition(node)
        if node.decorator_list:
            self.release([effects])
        self.write(node.name, frozenset([effects]), bound_by=self.definition_at(node))

    visit_AsyncFunctionDef = visit_FunctionDef

    def definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Effects:
        """Walk what a `def` statement evaluates at once; return what its body does later."""
        self.block(node.decorator_list)
        self.defaults(node.args)
        if not self.lazy_annotations:
            annotations = [argument.annotation for argument in ast.walk(node.args) if isinstance(argument, ast.arg)]
            self.with_type_parameters(node, [*annotations, node.returns])
        return self.effects(node)

    def with_type_parameters(self, node: ast.AST, children: Iterable[ast.AST | None]) -> None:
        parameters = getattr(node, "type_params", [])
        self.shadows.append(frozenset(parameter.name for parameter in parameters))
        for child in children:
            self.visit(child)
        with self.perhaps():  # bounds are evaluated when they are asked for
            self.block(parameters)
        self.shadows.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.block(node.decorator_list)
        self.with_type_parameters(node, [*node.bases, *node.keywords])
        methods: set[Effects] = set()
        self.shadows.append(frozenset(parameter.name for parameter in getattr(node, "type_params", [])))
        self.classes.append(node)
        self.class_globals.append(set())
        for statement in node.body:
            if is_plain_method(statement, node):
                methods.add(self.definition(statement))
                self.write(statement.name)
            else:
                self.visit(statement)
        self.class_globals.pop()
        self.classes.pop()
        self.shadows.pop()
        if node.decorator_list or node.bases or node.keywords:
            self.release(methods)  # a decorator, a metaclass or __init_subclass__ may call them
        self.write(node.name, frozenset(methods), bound_by=self.definition_at(node))

    def definition_at(self, node: ast.stmt) -> Binding:
        """Which of several definitions is taken, only the task knows: one in a branch is a variable as others are."""
        return "definition" if id(node) in self.at_the_top else "assignment"

    # ---- control flow

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        known = truth(node.test)
        if known is None:
            self.either(node.body, node.orelse)
        else:
            self.block(node.body if known else node.orelse)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self.loop(node, skips=not is_never_empty(node.iter))

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.loop(node, skips=True)

    def loop(self, node: ast.For | ast.AsyncFor | ast.While, *, skips: bool) -> None:
        """Walk a loop until another round finds nothing new.

        The states only grow and there are few of them, so it ends; mostly after the second round.
        """
        entry = self.state
        start, before = entry, None
        tested, end, loop = None, None, Loop()
        while before != (start, self.n_found()):
            before = (start, self.n_found())
            self.loops.append(Loop())
            assert start is not None
            self.state = start.copy()
            if isinstance(node, ast.While):
                self.visit(node.test)
            tested = self.state.copy() if self.state is not None else None
            with self.perhaps():
                if not isinstance(node, ast.While):
                    self.passing_target(node.target)
                self.block(node.body)
            loop = self.loops.pop()
            end = join(self.state, *loop.continues)
            start = join(start, entry, end)
        if isinstance(node, ast.While):
            exhausted = None if truth(node.test) is True else tested
        else:
            exhausted = start if skips else end
        self.state = exhausted.copy() if exhausted else None
        with self.perhaps():
            self.block(node.orelse)
        self.state = join(self.state, *loop.breaks)

    def n_found(self) -> tuple[int, ...]:
        return len(self.reads), len(self.exposed), len(self.wild_writes), len(self.wild_deletes)

    def visit_Break(self, node: ast.Break) -> None:
        self.loops[-1].breaks.append(self.state)
        self.state = None

    def visit_Continue(self, node: ast.Continue) -> None:
        self.loops[-1].continues.append(self.state)
        self.state = None

    def visit_Raise(self, node: ast.Raise) -> None:
        self.visit(node.exc)
        self.visit(node.cause)
        self.state = None

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        passed = self.state
        with self.perhaps():
            self.state = passed.copy() if passed else None
            self.visit(node.msg)
        self.state = None if truth(node.test) is False else passed

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            self.passing_target(item.optional_vars)
        if any(swallows(item.context_expr) for item in node.items):
            left = self.interruptible(node.body)
            self.state = join(self.state, left)
        else:
            self.block(node.body)

    visit_AsyncWith = visit_With

    def visit_Try(self, node: ast.Try) -> None:
        if not node.finalbody:
            self.guarded(node)
            return
        # What `finally` does happens on every way out: by the end, by an exception, by break and by continue.
        kept = [(len(loop.breaks), len(loop.continues)) for loop in self.loops]
        anywhere = self.interruptible([_Guarded(node)])
        end = self.state
        for loop, (n_breaks, n_continues) in zip(self.loops, kept, strict=True):
            for ways, n_kept in ((loop.breaks, n_breaks), (loop.continues, n_continues)):
                ways[n_kept:] = [state for way in ways[n_kept:] if (state := self.after(node.finalbody, way))]
        self.after(node.finalbody, anywhere)
        self.state = self.after(node.finalbody, end)

    visit_TryStar = visit_Try

    def after(self, block: list[ast.stmt], state: State | None) -> State | None:
        """Walk a block from the given state."""
        self.state = state.copy() if state else None
        with self.perhaps():
            self.block(block)
        return self.state

    def visit__Guarded(self, node: _Guarded) -> None:
        self.guarded(node.statement)

    def guarded(self, node: ast.Try) -> None:
        """Walk a try statement without its `finally`."""
        if node.handlers:
            caught = self.interruptible(node.body)
        else:
            self.block(node.body)
            caught = None
        with self.perhaps():
            self.block(node.orelse)
        ends = [self.state]
        for handler in node.handlers:
            self.state = caught.copy() if caught else None
            with self.perhaps():
                self.visit(handler.type)
                if handler.name:
                    self.write(handler.name, bound_by="except")
                self.block(handler.body)
                if handler.name:
                    self.forget(handler.name, bound_by="except")
            ends.append(self.state)
            if not isinstance(node, ast.Try):  # except*: several handlers may run, one after the other
                caught = join(caught, self.state)
        self.state = join(*ends)

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        unmatched, ends = self.state, []
        with self.perhaps():
            for case in node.cases:
                self.state = unmatched.copy() if unmatched else None
                self.visit(case.pattern)
                self.visit(case.guard)
                # A guard that says no leaves the names bound.
                unmatched = None if is_irrefutable(case) else join(unmatched, self.state if case.guard else None)
                self.block(case.body)
                ends.append(self.state)
        self.state = join(unmatched, *ends)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self.visit(node.pattern)
        if node.name:
            self.write(node.name)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.write(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.block(node.keys)
        self.block(node.patterns)
        if node.rest:
            self.write(node.rest)


class _Guarded(ast.stmt):
    """A try statement taken without its `finally`, so that it can be walked as one statement of a block."""

    def __init__(self, statement: ast.Try) -> None:
        super().__init__()
        self.statement = statement
