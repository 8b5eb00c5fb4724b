"""Which names a cell reads from the notebook, and which it leaves behind: data flow over the cell's syntax tree.

What the notebook lends to a cell must be exact in both directions. A name too few is a NameError that the notebook
would not have raised. A name too many makes the cell wait for a task it does not need, fail with it, or ship a gigabyte
for nothing; and the commonest name too many is one that the cell itself made when it ran before.

So the tree is walked in the order of execution, as an abstract interpreter. For each name it knows the set of things
that may be true where it stands: *untouched* (whatever the notebook holds), *assigned* by the cell, *deleted* by it.
Branches join by union, loops run until nothing changes, and an exception may leave a `try` after any assignment in it.
A read of a name that may be untouched is a read from the notebook.

Functions are the difficulty: their bodies read names when they are called. Calling takes a reference, so what a
function reads is put down where its *name* is first loaded (or at once, when a decorator or a base class sees it), not
where it is defined. Which names a body takes from the globals is asked of `symtable`, the compiler's own answer.

Beyond it lies what only running can tell: `exec`, `globals()["x"]`, and a context manager of the user's own that
swallows exceptions. The first two are reported (`dynamic`); `--inputs` and `--returns` are for them.
"""
from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .syntax import MUTATING, effects_of, is_irrefutable, is_never_empty, is_plain_method, swallows, truth
from .variables import DYNAMIC, UNTOUCHED, Effects, Flow, State, Variables, join


def analyse(tree: ast.Module, *, lazy_annotations: bool = False) -> Flow:
    """Walk `tree`, the whole of a cell.

    Parameters
    ----------
    tree : ast.Module
    lazy_annotations : bool
        Whether `from __future__ import annotations` is in force, so that annotations are not evaluated.
    """
    walker = Walker(lazy_annotations=lazy_annotations)
    walker.block(tree.body)
    return walker.flow()


@dataclass
class Loop:
    """The states in which a loop is left by `break`, or begun again by `continue`."""

    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


class Walker(Variables):
    """Walks statements and expressions in the order of execution."""

    def __init__(self, *, lazy_annotations: bool = False) -> None:
        super().__init__()
        self.lazy_annotations = lazy_annotations
        self.loops: list[Loop] = []

    # ---- branches

    @contextmanager
    def perhaps(self) -> Iterator[None]:
        """What is walked inside may not be executed, or its failure may go unnoticed."""
        self.unsure += 1
        yield
        self.unsure -= 1

    def either(self, *paths: Iterable[ast.AST]) -> None:
        """Walk alternatives from the same state and meet behind them."""
        before, ends = self.state, []
        with self.perhaps():
            for path in paths:
                self.state = before.copy() if before else None
                self.block(path)
                ends.append(self.state)
        self.state = join(*ends)

    def chain(self, operands: Iterable[ast.AST]) -> None:
        """Operands of which evaluation may stop after any (`and`, `or`, chained comparisons)."""
        stopped = self.state.copy() if self.state else None
        with self.perhaps():
            for operand in operands:
                self.visit(operand)
                stopped = join(stopped, self.state)
        self.state = stopped

    def interruptible(self, body: Iterable[ast.AST]) -> State | None:
        """Walk a block that an exception may leave after any of its steps; what may be true then is returned."""
        if self.state is None:
            return None
        self.interrupted.append(self.state.copy())
        with self.perhaps():
            self.block(body)
        return self.interrupted.pop()

    # ---- dispatch

    def block(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            if self.state is None:
                return  # nothing gets here
            self.visit(node)

    def visit(self, node: ast.AST | None) -> None:
        if node is None or self.state is None:
            return
        handler = getattr(self, f"visit_{type(node).__name__}", None)
        if handler is not None:
            handler(node)
        else:
            for child in ast.iter_child_nodes(node):
                self.visit(child)

    # ---- expressions

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.read(node.id, node.lineno)
        elif isinstance(node.ctx, ast.Store):
            self.write(node.id)
        else:
            self.delete(node.id, node.lineno)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.write(node.target.id)  # in a comprehension too it binds outside of it

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        self.chain(node.values[1:])

    def visit_Compare(self, node: ast.Compare) -> None:
        self.visit(node.left)
        self.visit(node.comparators[0])
        self.chain(node.comparators[1:])

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self.either([node.body], [node.orelse])

    def visit_Dict(self, node: ast.Dict) -> None:
        for name, value in zip(node.keys, node.values, strict=True):
            self.visit(name)
            self.visit(value)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in DYNAMIC and not self.is_hidden(node.func.id):
            self.dynamic.setdefault(node.func.id)
        for child in ast.iter_child_nodes(node):
            self.visit(child)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.note_mutation(node)
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.note_mutation(node)
        self.visit(node.value)
        self.visit(node.slice)

    def note_mutation(self, node: ast.Attribute | ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.mutate(node.value)

    def mutate(self, target: ast.expr) -> None:
        """The object that `target` denotes is changed in place: `x[0] = 1`, `x.y.z = 1`, `x.append(1)`."""
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if (isinstance(target, ast.Name) and self.state is not None and self.state.of(target.id) & UNTOUCHED
                and not self.is_hidden(target.id)):
            self.mutated.setdefault(target.id)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.defaults(node.args)
        self.release([self.effects(node)])

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self.comprehension(node.generators, [node.elt])

    visit_SetComp = visit_ListComp

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        # It runs later, or never: its names are taken here, and what is bound to them later may be called by it.
        self.later += 1
        self.visit_ListComp(node)
        self.later -= 1

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self.comprehension(node.generators, [node.key, node.value])

    def comprehension(self, generators: list[ast.comprehension], elements: list[ast.expr]) -> None:
        self.visit(generators[0].iter)
        before = self.state.copy() if self.state else None
        depth = len(self.shadows)
        self.comprehensions += 1
        with self.perhaps():
            for number, generator in enumerate(generators):
                if number:
                    self.visit(generator.iter)
                parts = list(ast.walk(generator.target))
                names = (part for part in parts if isinstance(part, ast.Name))
                self.shadows.append(frozenset(name.id for name in names if isinstance(name.ctx, ast.Store)))
                self.block(part for part in parts if isinstance(part, ast.Attribute | ast.Subscript))
                self.block(generator.ifs)
            self.block(elements)
        self.comprehensions -= 1
        del self.shadows[depth:]
        self.state = join(before, self.state)

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
            self.write(alias.asname or alias.name.partition(".")[0], bound_by=self.import_bound)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.star_import = self.star_import or node
            else:
                self.write(alias.asname or alias.name, bound_by=self.import_bound)

    def visit_TypeAlias(self, node: ast.AST) -> None:
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
        self.write(node.name, frozenset([effects]))

    visit_AsyncFunctionDef = visit_FunctionDef

    def definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Effects:
        """Walk what a `def` statement evaluates at once; return what its body does later."""
        self.block(node.decorator_list)
        self.defaults(node.args)
        if not self.lazy_annotations:
            annotations = [argument.annotation for argument in ast.walk(node.args) if isinstance(argument, ast.arg)]
            self.with_type_parameters(node, [*annotations, node.returns])
        return self.effects(node)

    def defaults(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            self.visit(default)

    def with_type_parameters(self, node: ast.AST, children: Iterable[ast.AST | None]) -> None:
        parameters = getattr(node, "type_params", [])
        self.shadows.append(frozenset(parameter.name for parameter in parameters))
        for child in children:
            self.visit(child)
        with self.perhaps():  # bounds are evaluated when somebody asks for them
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
        self.write(node.name, frozenset(methods))

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
        self.loop(node, [node.target], skips=not is_never_empty(node.iter))

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.loop(node, [node.test], skips=True)

    def loop(self, node: ast.For | ast.AsyncFor | ast.While, head: list[ast.expr], *, skips: bool) -> None:
        """Walk a loop until another round finds nothing new. `head` is walked before each round and before the end.

        The states only grow and there are few of them, so it ends; mostly after the second round.
        """
        entry, is_while = self.state, isinstance(node, ast.While)
        start, before = entry, None
        while before != (start, self.n_found()):
            before = (start, self.n_found())
            self.loops.append(Loop())
            self.state = start.copy()
            if is_while:
                self.block(head)
            tested = self.state.copy()
            with self.perhaps():
                self.block(node.body if is_while else [*head, *node.body])
            loop = self.loops.pop()
            end = join(self.state, *loop.continues)
            start = join(start, entry, end)
        if is_while:
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
            self.visit(item.optional_vars)
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
                    self.write(handler.name, bound_by=self.except_bound)
                self.block(handler.body)
                if handler.name:
                    self.forget(handler.name, bound_by=self.except_bound)
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

    def effects(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Effects:
        """What the function does to module-level names when it is called."""
        return effects_of(node, self.classes[-1].name if self.classes else "").without(self.shadows)


class _Guarded(ast.stmt):
    """A try statement taken without its `finally`, so that it can be walked as one statement of a block."""

    def __init__(self, statement: ast.Try) -> None:
        super().__init__()
        self.statement = statement
