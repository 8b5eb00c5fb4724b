"""Which names a cell reads from the notebook, and which it leaves behind: data flow over the cell's syntax tree.

What the notebook lends to a cell must be exact in both directions. A name too few is a NameError that the notebook would
not have raised. A name too many makes the cell wait for a task it does not need, fail with it, or ship a gigabyte for
nothing; and the commonest name too many is one that the cell itself made when it ran before.

So the tree is walked in the order of execution, as an abstract interpreter. For each name it knows the set of things
that may be true where it stands: *untouched* (whatever the notebook holds), *assigned* by the cell, *deleted* by it.
Branches join by union, loops run until nothing changes, and an exception may leave a `try` after any assignment in it.
A read of a name that may be untouched is a read from the notebook.

Functions are the difficulty: their bodies read names when they are called. Calling takes a reference, so what a function
reads is put down where its *name* is first loaded (or at once, when a decorator or a base class sees it), not where it is
defined. Which names a body takes from the globals is asked of `symtable`, the compiler's own answer.

Beyond it lies what only running can tell: `exec`, `globals()["x"]`, and a context manager of the user's own that swallows
exceptions. The first two are reported (`dynamic`); `--inputs` and `--returns` are for them.
"""
from __future__ import annotations

import ast
import symtable
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

UNTOUCHED, ASSIGNED, DELETED = 1, 2, 4

# A key is the name of a module-level variable, or (class statement, name) for one in a class body that is being walked.
Key = str | tuple[int, str]

# Calls whose effect on names no analysis sees.
DYNAMIC = frozenset({"exec", "eval", "globals", "locals", "vars"})
# Context managers of the standard library and of test tools that may swallow the exception of their block.
SWALLOWING = frozenset({"suppress", "ExitStack", "AsyncExitStack", "raises", "assertRaises", "assertRaisesRegex"})
# Methods of builtin collections that change them; as a statement of its own a call of one is a change of its object.
MUTATING = frozenset({"append", "extend", "insert", "remove", "clear", "sort", "reverse", "add", "discard", "update",
                      "setdefault", "pop", "popitem", "appendleft", "popleft"})
# Decorators that keep a method without calling it.
INERT_DECORATORS = frozenset({"property", "staticmethod", "classmethod", "abstractmethod", "cached_property", "overload",
                              "override", "final", "setter", "getter", "deleter"})


@dataclass(frozen=True)
class Effects:
    """What the body of a function does to module-level names when it is called."""

    reads: frozenset[str]
    writes: frozenset[str]
    deletes: frozenset[str]


@dataclass
class State:
    """What may be true at one point of the cell. A name that is not in `bits` is untouched."""

    bits: dict[Key, int] = field(default_factory=dict)
    latent: dict[str, frozenset[Effects]] = field(default_factory=dict)  # functions not yet referred to, by name

    def copy(self) -> State:
        return State(dict(self.bits), dict(self.latent))

    def of(self, key: Key) -> int:
        return self.bits.get(key, UNTOUCHED)


def join(*states: State | None) -> State | None:
    """What may be true where several paths meet; None stands for a path that does not get there."""
    reached = [state for state in states if state is not None]
    if not reached:
        return None
    joined = reached[0].copy()
    for other in reached[1:]:
        joined.bits = {key: joined.of(key) | other.of(key) for key in joined.bits.keys() | other.bits.keys()}
        for name, effects in other.latent.items():
            joined.latent[name] = joined.latent.get(name, frozenset()) | effects
    return joined


@dataclass
class Loop:
    """The states in which a loop is left by `break`, or begun again by `continue`."""

    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


@dataclass(frozen=True)
class Flow:
    """What the walk found out about module-level names. Tuples are in the order of first occurrence.

    Attributes
    ----------
    reads : tuple of str
        Read, on some path, from what the notebook holds.
    certain_reads : frozenset of str
        Those of `reads` of which some read stands where no path has assigned the name.
    needed : dict of str to int
        Those of `reads` without which the cell cannot come to its end, and the line of the first read.
    writes : tuple of str
        What the cell may leave assigned, or may or may not delete.
    maybe_writes : frozenset of str
        Those of `writes` that some path does not assign.
    keeps : frozenset of str
        Those of `maybe_writes` which some path leaves as the notebook holds them, without a read on any.
    deletes : tuple of str
        What the cell deletes on every path.
    imports : tuple of str
        Names bound by import statements and by nothing else; they are not in `writes`.
    mutated : tuple of str
        Names taken from the notebook whose object the cell changes in place, or may change: `x += 1` does if x is a list.
    dynamic : tuple of str
        Calls of `DYNAMIC` found.
    star_import : ast.ImportFrom or None
        The first ``from m import *``.
    """

    reads: tuple[str, ...]
    certain_reads: frozenset[str]
    needed: dict[str, int]
    writes: tuple[str, ...]
    maybe_writes: frozenset[str]
    keeps: frozenset[str]
    deletes: tuple[str, ...]
    imports: tuple[str, ...]
    mutated: tuple[str, ...]
    dynamic: tuple[str, ...]
    star_import: ast.ImportFrom | None


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


class Walker:
    """Walks statements and expressions in the order of execution. `self.state` is None where no path gets to."""

    def __init__(self, *, lazy_annotations: bool = False) -> None:
        self.lazy_annotations = lazy_annotations
        self.state: State | None = State()
        self.reads: dict[str, None] = {}
        self.certain_reads: set[str] = set()
        self.needed: dict[str, int] = {}         # name -> line
        self.order: dict[str, None] = {}         # every module-level name ever bound or deleted
        self.import_bound: set[str] = set()
        self.except_bound: set[str] = set()      # `except E as e`: bound for the handler only
        self.bound: set[str] = set()             # by anything else
        self.mutated: dict[str, None] = {}
        self.dynamic: dict[str, None] = {}
        self.star_import: ast.ImportFrom | None = None
        self.exposed: set[str] = set()           # read by what somebody may call at any time
        self.wild_writes: set[str] = set()       # assigned by such functions
        self.wild_deletes: set[str] = set()
        self.loops: list[Loop] = []
        self.interrupted: list[State] = []       # one per enclosing block whose exceptions are caught: join of its states
        self.shadows: list[frozenset[str]] = []  # names that a comprehension or a type parameter hides
        self.classes: list[ast.ClassDef] = []
        self.class_globals: list[set[str]] = []
        self.comprehensions = 0                  # how many are being walked: they do not see a class body's names
        self.later = 0                           # > 0 in what is evaluated some time after it was walked
        self.unsure = 0                          # > 0 where it is not sure that execution passes

    # ---- names

    def key(self, name: str) -> Key:
        if self.classes and name not in self.class_globals[-1]:
            return id(self.classes[-1]), name
        return name

    def read(self, name: str, line: int) -> None:
        if self.state is None or self.is_hidden(name):
            return
        name = self.mangled(name)
        key = self.key(name)
        in_class = self.state.of(key) if key != name and not self.comprehensions else UNTOUCHED
        if in_class == ASSIGNED:
            return  # the class body's own
        self.take(name)
        if self.state.of(name) == UNTOUCHED and not self.unsure and not in_class & ASSIGNED:
            self.needed.setdefault(name, line)
        if self.later:
            self.exposed.add(name)
        self.release(self.state.latent.get(name, ()))

    def take(self, name: str) -> None:
        """Note a read of a module-level name; it concerns the notebook if the cell may not have touched the name."""
        bits = self.state.of(name)
        if bits & UNTOUCHED:
            self.reads.setdefault(name)
        if bits == UNTOUCHED:
            self.certain_reads.add(name)

    def write(self, name: str, latent: frozenset[Effects] = frozenset(), *, bound_by: set[str] | None = None) -> None:
        if self.state is None:
            return
        key = self.key(self.mangled(name))
        self.state.bits[key] = ASSIGNED
        if isinstance(key, str):
            self.order.setdefault(key)
            (self.bound if bound_by is None else bound_by).add(key)
            self.state.latent.pop(key, None)
            if latent:
                self.state.latent[key] = latent
                if key in self.exposed:
                    self.release(latent)
        elif latent:
            self.release(latent)
        self.note_interruption()

    def delete(self, name: str, line: int) -> None:
        self.read(name, line)
        self.forget(name)

    def forget(self, name: str, *, bound_by: set[str] | None = None) -> None:
        if self.state is None:
            return
        key = self.key(self.mangled(name))
        self.state.bits[key] = DELETED
        if isinstance(key, str):
            self.state.latent.pop(key, None)
            self.order.setdefault(key)
            (self.bound if bound_by is None else bound_by).add(key)
        self.note_interruption()

    def release(self, functions: Iterable[Effects]) -> None:
        """Somebody holds these functions now: they may be called here, or at any later time."""
        seen: set[Effects] = set()
        pending = list(functions)
        while pending and self.state is not None:
            effects = pending.pop()
            if effects in seen:
                continue
            seen.add(effects)
            self.dynamic |= dict.fromkeys(sorted(effects.reads & DYNAMIC))
            for name in sorted(effects.reads):
                self.take(name)
                self.exposed.add(name)
                pending.extend(self.state.latent.get(name, ()))
            for name in sorted(effects.writes):
                self.wild_writes.add(name)
                self.order.setdefault(name)
                self.bound.add(name)
                self.state.bits[name] = self.state.of(name) | ASSIGNED
            self.wild_deletes |= effects.deletes
            for name in effects.deletes:
                self.state.bits[name] = self.state.of(name) | DELETED
            self.note_interruption()

    def is_hidden(self, name: str) -> bool:
        return any(name in shadow for shadow in self.shadows)

    def mangled(self, name: str) -> str:
        if not self.classes or not name.startswith("__") or name.endswith("__"):
            return name
        owner = self.classes[-1].name.lstrip("_")
        return f"_{owner}{name}" if owner else name

    def note_interruption(self) -> None:
        self.interrupted = [join(state, self.state) for state in self.interrupted]

    # ---- what was found

    def flow(self) -> Flow:
        end = self.state
        ends_by_raising = end is None
        bits = {name: ASSIGNED if ends_by_raising else end.of(name) for name in self.order
                if name in self.bound | self.import_bound}
        for name in self.wild_writes:
            bits[name] |= ASSIGNED
        for name in self.wild_deletes:
            bits[name] |= DELETED
        imports = tuple(n for n in bits if n in self.import_bound and n not in self.bound)
        writes = tuple(n for n, b in bits.items() if n not in imports and b & (ASSIGNED | DELETED) and b != DELETED)
        # A name that is gone at the end was deleted, or never there. For those where it may be both, the cell gets the
        # notebook's value at the start: then what is there at the end tells.
        reads = dict.fromkeys([*self.reads, *(n for n in writes if bits[n] & UNTOUCHED and bits[n] & DELETED)])
        return Flow(
            reads=tuple(reads),
            certain_reads=frozenset(self.certain_reads),
            needed={} if self.dynamic else dict(self.needed),
            writes=writes,
            maybe_writes=frozenset(n for n in writes if bits[n] != ASSIGNED),
            keeps=frozenset(n for n in writes if bits[n] & UNTOUCHED and n not in reads),
            deletes=tuple(n for n, b in bits.items() if b == DELETED),
            imports=imports,
            mutated=tuple(n for n in self.mutated if n in reads),
            dynamic=tuple(self.dynamic),
            star_import=self.star_import,
        )

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
                self.shadows.append(frozenset(n.id for n in parts if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)))
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
            if _is_plain_method(statement, node):
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

    def effects(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Effects:
        """What the body of a function does to globals when it is called, by the compiler's own symbol table."""
        reads: set[str] = set()
        writes: set[str] = set()
        # In a class of the same name private names are mangled alike; the frame itself is skipped.
        frame = f"class {self.classes[-1].name}" if self.classes else "if 1"
        module = symtable.symtable(f"{frame}:\n" + textwrap.indent(ast.unparse(node), " "), "<function>", "exec")
        tables = module.get_children()
        if self.classes:
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
        hidden = frozenset().union(*self.shadows)
        return Effects(frozenset(reads) - hidden, frozenset(writes) - hidden, frozenset(writes & deleted) - hidden)

    # ---- control flow

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        truth = _truth(node.test)
        if truth is None:
            self.either(node.body, node.orelse)
        else:
            self.block(node.body if truth else node.orelse)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self.loop(node, [node.target], skips=not _is_never_empty(node.iter))

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
            exhausted = None if _truth(node.test) is True else tested
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
        self.state = None if _truth(node.test) is False else passed

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            self.visit(item.optional_vars)
        if any(_swallows(item.context_expr) for item in node.items):
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
                unmatched = None if _is_irrefutable(case) else join(unmatched, self.state if case.guard else None)
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


def _truth(test: ast.expr) -> bool | None:
    """What a test always is, None if that is not plain to see. In a notebook `__name__` is `"__main__"`."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        truth = _truth(test.operand)
        return None if truth is None else not truth
    if ast.unparse(test) in ("__name__ == '__main__'", "'__main__' == __name__"):
        return True
    return None


def _is_never_empty(iterable: ast.expr) -> bool:
    """Whether a loop over it has at least one round: a literal with elements, `range` of positive literals."""
    if isinstance(iterable, ast.Tuple | ast.List | ast.Set):
        return any(not isinstance(element, ast.Starred) for element in iterable.elts)
    if isinstance(iterable, ast.Dict):
        return any(key is not None for key in iterable.keys)
    if isinstance(iterable, ast.Constant):
        return isinstance(iterable.value, str | bytes) and len(iterable.value) > 0
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and not iterable.keywords:
        if iterable.func.id in ("enumerate", "reversed", "sorted") and iterable.args:
            return _is_never_empty(iterable.args[0])
        numbers = [argument.value for argument in iterable.args if isinstance(argument, ast.Constant)]
        if iterable.func.id == "range" and len(numbers) == len(iterable.args) and all(type(n) is int for n in numbers):
            return len(numbers) in (1, 2, 3) and 0 not in numbers[2:] and len(range(*numbers)) > 0
    return False


def _is_irrefutable(case: ast.match_case) -> bool:
    pattern = case.pattern
    while isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        pattern = pattern.pattern
    return case.guard is None and isinstance(pattern, ast.MatchAs)


def _swallows(manager: ast.expr) -> bool:
    return any((isinstance(n, ast.Name) and n.id in SWALLOWING) or (isinstance(n, ast.Attribute) and n.attr in SWALLOWING)
               for n in ast.walk(manager))


def _is_plain_method(statement: ast.stmt, owner: ast.ClassDef) -> bool:
    """Whether nothing in the class body can call the method while the body runs."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    accessors = {id(d.value) for s in owner.body for d in getattr(s, "decorator_list", []) if _is_accessor(d)}
    for decorator in statement.decorator_list:
        last = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
        if last not in INERT_DECORATORS:
            return False
    return not any(isinstance(n, ast.Name) and n.id == statement.name and isinstance(n.ctx, ast.Load)
                   and id(n) not in accessors for n in ast.walk(owner))


def _is_accessor(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "getter", "deleter")
