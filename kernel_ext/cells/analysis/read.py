"""What a `%%remote` cell is, from its text alone: definitions, or a body with what it reads and writes.

Pure: text in, a record out. This module knows no notebook, kernel or worker; the caller finds out which names exist.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import tokenize
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from io import StringIO
from types import CodeType
from typing import TypeGuard

from IPython.core import inputtransformer2 as ipython

from . import dataflow, definitions

# What a module's namespace has anyhow, on a worker too.
MODULE_NAMES = frozenset(
    {"__name__", "__doc__", "__builtins__", "__annotations__", "__spec__", "__package__", "__loader__"}
)
# IPython adds two builtins of its own in the notebook; workers have `display` too, but no shell to get.
BUILTINS = frozenset(dir(builtins)) - {"get_ipython"} | {"display"}

# Builtins that return nothing, and are called for what they show.
SHOWING = frozenset({"print", "display"})

Statement = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom


class CellError(ValueError):
    """What the author of a cell or of a magic's line has to change. The message names it and the remedy.

    Attributes
    ----------
    shown_as : Exception or None
        What Python itself would have raised; None where the mistake is one of usage.
    """

    def __init__(self, message: str, line: int | None = None, *, shown_as: Exception | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.shown_as = shown_as


@dataclass(frozen=True)
class Definitions:
    """A cell that only defines: imports, functions, classes.

    Attributes
    ----------
    source : str
        Plain Python, its lines numbered as those of the cell.
    functions, classes : tuple of str
        Names of the functions and classes, in the order of definition, each once.
    imports : tuple of str
        Names bound by imports; ``"*"`` for a star import.
    """

    source: str
    functions: tuple[str, ...]
    classes: tuple[str, ...]
    imports: tuple[str, ...]


@dataclass(frozen=True)
class Body:
    """Any other cell: it becomes a task.

    Attributes
    ----------
    source : str
        Plain Python, its lines numbered as those of the cell.
    reads : tuple of str
        Names taken from the notebook if they exist there, in the order of first reading. No builtins.
    weak_reads : frozenset of str
        Those of `reads` that the cell itself assigns on some path: without them it may still run.
    needed : dict of str to int
        Those of `reads` without which the cell certainly fails, with the line of the first read.
    builtins : tuple of str
        Names of builtins that are read; the notebook's value counts where it has redefined them.
    writes : tuple of str
        Names that come back, in the order of first binding. No imports.
    maybe_writes : frozenset of str
        Those of `writes` that the cell may also leave unassigned.
    keeps : frozenset of str
        Those of `maybe_writes`, not in `reads`, that then have the value the notebook held before.
    deletes : tuple of str
        Names that the notebook does not have any more after the cell.
    imports : tuple of str
        Names that only import statements bind.
    import_statements : tuple of str
        The text of the cell's unconditional imports.
    definitions : dict of str to Needs
        Functions and classes that the notebook can have as such, not as futures.
    passing : tuple of str
        Names that only loops and `with` bind. They stay in the task.
    changes : tuple of str
        Names taken from the notebook whose object the cell changes, or may change, in place.
    mutates : tuple of str
        Those of `changes` that do not come back: the change stays where the task ran.
    has_last_expression : bool
        Whether the cell ends with an expression (without a semicolon behind it): its value is the cell's result.
    ends_by_showing : bool
        Whether it ends with `print(...)` or `display(...)`, which have no value.
    uses_await : bool
        Whether there is `await`, `async for` or `async with` outside of functions.
    dynamic : tuple of str
        Calls found that hide from the analysis what they read and write: `exec`, `eval`, `globals`, `locals`, `vars`.
    """

    source: str
    reads: tuple[str, ...]
    weak_reads: frozenset[str]
    needed: dict[str, int]
    builtins: tuple[str, ...]
    writes: tuple[str, ...]
    maybe_writes: frozenset[str]
    keeps: frozenset[str]
    deletes: tuple[str, ...]
    imports: tuple[str, ...]
    import_statements: tuple[str, ...]
    definitions: dict[str, definitions.Needs]
    passing: tuple[str, ...]
    changes: tuple[str, ...]
    mutates: tuple[str, ...]
    has_last_expression: bool
    ends_by_showing: bool
    uses_await: bool
    dynamic: tuple[str, ...]


def read_cell(
    text: str, *, n_lines_before: int = 0, filename: str = "<cell>", flags: int = 0, is_body: bool = False
) -> Definitions | Body:
    """Say what a cell is.

    Parameters
    ----------
    text : str
        The cell without the lines before it.
    n_lines_before : int, >= 0
        How many lines of the notebook's cell stand before `text` (the ``%%remote`` line): lines are counted with them.
    filename : str
        For syntax errors.
    flags : int
        Compiler flags in force (`from __future__` imports of earlier cells).
    is_body : bool
        Whether the cell is a body even if it only defines.

    Returns
    -------
    Definitions or Body

    Raises
    ------
    SyntaxError
        With the line as the cell has it.
    CellError
        The cell is empty, uses IPython's own syntax, or a star import outside of a cell of definitions.
    """
    lines = _undressed(text)
    source = "\n" * n_lines_before + "".join(lines)
    try:
        tree = _parse(source, filename, flags)
    except SyntaxError:
        _refuse_ipython_syntax(lines, n_lines_before)
        raise
    if not tree.body:
        raise CellError("the cell is empty: there is nothing to run")
    if not is_body and _only_defines(tree):
        return _definitions(tree, source)
    # Errors that the parser leaves to later stages: `return` outside of a function, two arguments of one name, ...
    try:
        code: CodeType = compile(source, filename, "exec", flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        if error.msg == "'return' outside function":
            error.msg += ": a cell's result is the value of its last expression"
        raise
    lazy = bool((code.co_flags | flags) & __future__.annotations.compiler_flag)
    flow = dataflow.analyse(tree, lazy_annotations=lazy)
    if flow.star_import is not None:
        module = "." * flow.star_import.level + (flow.star_import.module or "")
        raise CellError(
            f"`from {module} import *` does not say which names it binds, so a remote cell cannot have it. "
            "Import the names you use, or put it into a cell that only defines.",
            flow.star_import.lineno,
        )
    known = [name for name in flow.reads if name not in MODULE_NAMES]
    defined = [node for node in tree.body if isinstance(node, definitions.Definition) and node.name in flow.definitions]
    here = definitions.made_here(
        definitions.needs_of_all(defined, lazy_annotations=lazy), {*flow.writes, *flow.deletes, *flow.passing}
    )
    ends_with_one = isinstance(tree.body[-1], ast.Expr) and not _ends_with_semicolon(source)
    shows = _shows(tree.body[-1], flow)
    return Body(
        source=source,
        reads=tuple(name for name in known if name not in BUILTINS),
        weak_reads=frozenset(known) - flow.certain_reads - BUILTINS,
        needed={name: line for name, line in flow.needed.items() if name not in BUILTINS | MODULE_NAMES},
        builtins=tuple(name for name in known if name in BUILTINS),
        writes=tuple(
            name for name in flow.bound if name in flow.writes or (name in flow.definitions and name not in here)
        ),
        maybe_writes=flow.maybe_writes,
        keeps=flow.keeps,
        deletes=flow.deletes,
        imports=flow.imports,
        import_statements=tuple(ast.unparse(node) for node in tree.body if _is_import(node)),
        definitions=here,
        passing=flow.passing,
        changes=flow.mutated,
        mutates=tuple(name for name in flow.mutated if name not in flow.writes),
        has_last_expression=ends_with_one and not shows,
        ends_by_showing=ends_with_one and shows,
        uses_await=bool(code.co_flags & inspect.CO_COROUTINE),
        dynamic=flow.dynamic,
    )


def _shows(last: ast.stmt, flow: dataflow.Flow) -> bool:
    """Whether a statement is a call of `print` or `display`, which the cell has not redefined."""
    call = last.value if isinstance(last, ast.Expr) else None
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in SHOWING
        and call.func.id not in flow.bound
    )


def definition_nodes(source: str, names: Collection[str], filename: str, flags: int) -> list[tuple[str, ast.Module]]:
    """The definitions of these names at the top of a cell, in their order: name, and what to compile."""
    tree = _parse(source, filename, flags)
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    found = [node for node in tree.body if isinstance(node, definitions.Definition) and node.name in names]
    return [(node.name, ast.Module([*future, node], [])) for node in found]


def _parse(source: str, filename: str, flags: int) -> ast.Module:
    only_tree = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return compile(source, filename, "exec", flags | only_tree, dont_inherit=True)


# ---- definitions


def _only_defines(tree: ast.Module) -> bool:
    """Whether there are definitions or imports, and beside them at most a docstring and what chooses among them."""
    body = tree.body[1:] if _is_string(tree.body[0]) else tree.body
    return bool(body) and all(_defines(node) for node in body)


def _defines(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):
        return all(_defines(n) or isinstance(n, ast.Pass) for n in (*node.body, *node.orelse))
    if isinstance(node, ast.Try):
        handled = (n for handler in node.handlers for n in handler.body)
        nodes = (*node.body, *handled, *node.orelse, *node.finalbody)
        return all(_defines(n) or isinstance(n, ast.Pass) for n in nodes)
    return isinstance(node, Statement)


def _definitions(tree: ast.Module, source: str) -> Definitions:
    found: dict[str, dict[str, None]] = {"functions": {}, "classes": {}, "imports": {}}
    for node in _statements(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found["functions"].setdefault(node.name)
        elif isinstance(node, ast.ClassDef):
            found["classes"].setdefault(node.name)
        elif _is_import(node):
            found["imports"] |= dict.fromkeys(_imported_names(node))
    return Definitions(source, *(tuple(names) for names in found.values()))


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block and of the branches in it, without the insides of functions and classes."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            handled = [n for handler in getattr(node, "handlers", []) for n in handler.body]
            yield from _statements([*node.body, *handled, *node.orelse, *getattr(node, "finalbody", [])])


def _is_import(node: ast.AST) -> TypeGuard[ast.Import | ast.ImportFrom]:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _imported_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    whole = isinstance(node, ast.Import)
    return [alias.asname or (alias.name.partition(".")[0] if whole else alias.name) for alias in node.names]


# ---- bodies


def _is_string(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _ends_with_semicolon(source: str) -> bool:
    """Whether the last token of the program is a semicolon: the notebook's way of asking for no output."""
    last = ""
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type == tokenize.OP or (token.string.strip() and token.type not in (tokenize.COMMENT, tokenize.NL)):
            last = token.string
    return last == ";"


# ---- IPython's syntax


def _undressed(text: str) -> list[str]:
    """The lines of a cell without what IPython takes away from every cell: common indentation and pasted prompts."""
    lines = text.splitlines(keepends=True)
    for undress in (ipython.leading_indent, ipython.classic_prompt, ipython.ipython_prompt):
        lines = undress(lines)
    return lines


def _refuse_ipython_syntax(lines: list[str], n_lines_before: int) -> None:
    """Raise `CellError` if IPython would have rewritten a line. Called when the parser has refused a cell."""
    ended = [line if line.endswith("\n") else line + "\n" for line in lines]
    tokens = ipython.make_tokens_by_line(ended)
    kinds = (ipython.MagicAssign, ipython.SystemAssign, ipython.EscapedCommand, ipython.HelpEnd)
    places = [place.start_line for kind in kinds if (place := kind.find(tokens)) is not None]
    if places:
        raise CellError(_refusal(lines[min(places)].strip()), min(places) + 1 + n_lines_before) from None


def _refusal(line: str) -> str:
    if "!" in line and not line.endswith("?"):
        return (
            f"`{line}` is a shell command of IPython, and workers run plain Python. Run it in a cell of its own, "
            "or call subprocess.run(..., shell=True)."
        )
    if line.startswith("%%"):
        return f"`{line}` has to stand above %%remote, as the first line of the cell, if the two go together at all."
    if "%" in line and not line.endswith("?"):
        return f"`{line}` is a magic command of IPython, and workers run plain Python. Run it in a cell of its own."
    return f"`{line}` asks IPython for help, and workers run plain Python. Ask in a cell of its own."
