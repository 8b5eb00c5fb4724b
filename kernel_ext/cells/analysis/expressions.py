"""The part of `dataflow.Walker` for expressions, in the order of their evaluation, and for branches. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from .syntax import effects_of
from .variables import DYNAMIC, UNTOUCHED, Binding, Effects, State, Variables, join


class Expressions(Variables):
    """Walks expressions; a sub-class says what a statement does."""

    def __init__(self) -> None:
        super().__init__()
        self.target_of: Binding = "assignment"

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
            self.write(node.id, bound_by=self.target_of)
        else:
            self.delete(node.id, node.lineno)

    def passing_target(self, target: ast.expr | None) -> None:
        """What a loop or `with` assigns to."""
        self.target_of = "passing"
        self.visit(target)
        self.target_of = "assignment"

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
        if (
            isinstance(target, ast.Name)
            and self.state is not None
            and self.state.of(target.id) & UNTOUCHED
            and not self.is_hidden(target.id)
        ):
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

    def defaults(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            self.visit(default)

    def effects(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Effects:
        """What the function does to module-level names when it is called."""
        return effects_of(node, self.classes[-1].name if self.classes else "").without(self.shadows)
