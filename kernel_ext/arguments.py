"""The flags of the magics: one table, from which parsing, `?`, completion and the documentation are made."""
from __future__ import annotations

import argparse
import difflib
import json
import shlex
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from IPython.core.error import UsageError

from ..text import bytes_of


@dataclass(frozen=True)
class Flag:
    """One flag or positional argument of a magic.

    Attributes
    ----------
    name : str
        ``--cpus``, or ``names`` for a positional one.
    help : str
    metavar : str
        What stands for the value in the documentation; ``""`` for a flag without value.
    parse : callable
        From the text to the value; its ValueError's text is what the user reads.
    many : bool
        Positional: takes any number.
    """

    name: str
    help: str
    metavar: str = ""
    parse: Callable[[str], Any] = str
    many: bool = False

    @property
    def key(self) -> str:
        return self.name.lstrip("-").replace("-", "_")


@dataclass(frozen=True)
class Magic:
    """A magic's command line, and what its documentation says."""

    name: str
    summary: str
    flags: tuple[Flag, ...] = ()
    details: str = ""

    def parse(self, line: str) -> argparse.Namespace:
        """Parse what stands behind the magic's name.

        Raises
        ------
        UsageError
            In words for the user; IPython shows it without a traceback.
        """
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise UsageError(f"{self.name}: {str(error).lower()}; {self.name}? shows how it is used") from None
        return self._parser.parse_args(words)

    def usage(self) -> str:
        """The line, as it may be written; of several lines if it is long."""
        words = " ".join([self.name, *(_in_usage(flag) for flag in self.flags)])
        return textwrap.fill(words, 96, subsequent_indent=" " * (1 + len(self.name)), break_on_hyphens=False)

    def documentation(self) -> str:
        """What `?` shows."""
        rows = [f"{_in_list(flag):<22} {line}" if not number else f"{'':<22} {line}" for flag in self.flags
                for number, line in enumerate(textwrap.wrap(flag.help, 76))]
        parts = [self.summary,
                 textwrap.indent(self.usage(), "    "),
                 "\n".join(f"    {row}" for row in rows), textwrap.dedent(self.details).strip("\n")]
        return "\n\n".join(part for part in parts if part) + "\n"

    @cached_property
    def _parser(self) -> Parser:  # argparse makes several objects for each flag: ten times what it costs to read a line
        parser = Parser(self)
        for flag in self.flags:
            if not flag.name.startswith("-"):
                parser.add_argument(flag.name, nargs="*" if flag.many else "?", default=[] if flag.many else None,
                                    type=_typed(flag.parse))
            elif flag.metavar:
                parser.add_argument(flag.name, dest=flag.key, type=_typed(flag.parse))
            else:
                parser.add_argument(flag.name, dest=flag.key, action="store_true")
        return parser


class Parser(argparse.ArgumentParser):
    """argparse, except that a mistake is a UsageError instead of the end of the process."""

    def __init__(self, magic: Magic) -> None:
        super().__init__(prog=magic.name, add_help=False, allow_abbrev=False)
        self._magic = magic

    def error(self, message: str) -> NoReturn:
        hint = ""
        if message.startswith("unrecognized arguments: "):
            wrong = message.removeprefix("unrecognized arguments: ").split()[0]
            close = difflib.get_close_matches(wrong, [flag.name for flag in self._magic.flags], n=1)
            message = f"there is no {wrong}"
            hint = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"{self._magic.name}: {message}{hint} ({self._magic.name}? shows how it is used)")


def _typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return convert


def _in_usage(flag: Flag) -> str:
    if not flag.name.startswith("-"):
        return f"[{flag.name} ...]" if flag.many else f"[{flag.name}]"
    return f"[{flag.name} {flag.metavar}]" if flag.metavar else f"[{flag.name}]"


def _in_list(flag: Flag) -> str:
    return f"{flag.name} {flag.metavar}".rstrip()


# ---- values

def amount(text: str) -> float:
    """A number of CPUs or the like, fractions allowed."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not 0 <= value < float("inf"):
        raise ValueError(f"{text!r} is not an amount: it must be 0 or more")
    return int(value) if value == int(value) else value


def count(text: str) -> int:
    """A whole number >= 0, or -1 for "for ever"."""
    try:
        value = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None
    if value < -1:
        raise ValueError(f"{text!r} must be 0 or more, or -1 for no limit")
    return value


def size(text: str) -> int:
    """A number of bytes: 1000000, 500M, 2G, 1.5GiB."""
    return bytes_of(text)


def resources(text: str) -> dict[str, float]:
    """Custom resources: disk=1,licence=0.5 or JSON."""
    if text.startswith("{"):
        try:
            return {str(name): amount(str(value)) for name, value in json.loads(text).items()}
        except json.JSONDecodeError:
            raise ValueError(f"{text!r} is not of the form name=amount,name=amount, and no JSON") from None
    pairs = [part.partition("=") for part in text.split(",") if part]
    if any(not name or not equals for name, equals, _ in pairs):
        raise ValueError(f"{text!r} is not of the form name=amount,name=amount")
    return {name.strip(): amount(value) for name, _, value in pairs}


def names(text: str) -> list[str]:
    """Variables, separated by commas; empty for none."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    for name in found:
        if not name.isidentifier():
            raise ValueError(f"{name!r} is not the name of a variable")
    return found


def names_or_count(text: str) -> list[str] | int:
    return int(text) if text.isdigit() else names(text)


# ---- the magics

REMOTE = Magic("%%remote", "Run the cell as a task on another process, or make what it defines remote.", (
    Flag("--cpus", "CPUs that the task (actor) needs; 1 by default, fractions allowed.", "N", amount),
    Flag("--gpus", "GPUs that it needs.", "N", amount),
    Flag("--memory", "Memory that it needs, such as 500M or 2G.", "BYTES", size),
    Flag("--resources", "Custom resources that it needs: name=amount,name=amount.", "LIST", resources),
    Flag("--name", "What the task is called in listings; how get_actor() finds the actors of the class.", "NAME"),
    Flag("--retries", "How often a task is run again when its process dies (3 by default), or an actor started again "
                      "(0); -1 for no limit.", "N", count),
    Flag("--retry-exceptions", "Run a task again, within --retries, also when it raises."),
    Flag("--returns", "Exactly these variables come back, in place of all that the cell assigns; empty ('') for none. "
                      "In a cell of definitions: how many values a function returns.", "NAMES", names_or_count),
    Flag("--inputs", "Exactly these variables go along, in place of all that the cell reads; empty ('') for none.",
         "NAMES", names),
    Flag("--on", "Run the cell in the process of this actor (a variable, or the actor's name), as if it were a method: "
                 "self is the actor's instance. What the cell assigns stays there, for the next --on cell.", "ACTOR"),
    Flag("--progress", "Show a progress bar of the tasks that the cell's task submits in its turn, by function."),
    Flag("--wait", "Return when the task has ended; raise its error here."),
    Flag("--keep", "Should the task fail, its worker keeps the frames, for %inspect --pdb."),
    Flag("--node", "The node to run on, by name, id or number (cellmesh.nodes() lists them).", "NODE"),
    Flag("--spread", "Run what the cell defines, or its task, on the node where least runs, not here as long as there is room."),
), """
    A cell that only defines (imports, functions, classes) is run here, and its functions become remote functions,
    its classes actor classes: f.remote(...), Simulator.remote(...). Exceptions, enums, records without methods and
    async functions stay what they are.

    Any other cell becomes one task. The variables that it reads are sent along: values by value (large ones through
    the store, once, until they change), futures as dependencies, which arrive as their values. The variables that it
    assigns are futures at once, so the next %%remote cell can use them. The value of a last expression is the cell's
    result. Names that it imports are imported here, too.

    What the cell changes in place (results.append(x), df["a"] = 1) changes on the worker only; assign it to get it
    back, or name it in --returns. Workers run plain Python: no !commands and no %magics.

        %%remote --cpus 2
        model = train(data)
        model.score(test)
""")

ACTOR = Magic("%%actor", "Start an actor of the class that the cell defines, and bind its handle to a variable.", (
    Flag("variable", "The variable for the handle: its methods are called as variable.method.remote(...)."),
    Flag("--args", "Arguments of the constructor, as in a call: \"10, step=2\". Variables of the notebook may be used.",
         "LIST"),
    Flag("--cpus", "CPUs that the actor needs, fractions allowed.", "N", amount),
    Flag("--gpus", "GPUs that it needs.", "N", amount),
    Flag("--memory", "Memory that it needs, such as 500M or 2G.", "BYTES", size),
    Flag("--resources", "Custom resources that it needs: name=amount,name=amount.", "LIST", resources),
    Flag("--name", "How get_actor() and %%remote --on find it. A living actor of that name that the variable held is "
                   "replaced.", "NAME"),
    Flag("--restarts", "How often it is started anew when its process dies (0); -1 for no limit.", "N", count),
    Flag("--concurrency", "How many calls run at a time (1; 1000 with async methods).", "N", count),
    Flag("--detached", "Let it outlive the variable and the kernel: after a restart this cell, or get_actor(NAME), finds it. It ends with kill() or shutdown()."),
), """
    The cell is run here as any cell is; the last class that it defines becomes an actor class under its own name. What
    else it defines stays plain, for the class to use. Running the cell again starts a new actor; the old one ends when
    nothing refers to it any more.

        %%actor counter --args "10"
        class Counter:
            def __init__(self, start):
                self.n = start
            def add(self, k):
                self.n += k
                return self.n

    Look inside with a cell of its own: %%remote --on counter.
""")

FETCH = Magic("%fetch", "Replace futures with their values: %fetch a b waits for a and b and binds their values.", (
    Flag("names", "Variables that hold futures, or lists, tuples or dicts of futures.", parse=str, many=True),
    Flag("--timeout", "Give up after that many seconds.", "SECONDS", amount),
))

MESH = Magic("%mesh", "Start, look at, or stop the session.", (
    Flag("action", "start, status (the default), stop, or connect.", parse=str),
    Flag("address", "connect: a session's address, or auto.", parse=str),
    Flag("--cpus", "start: how many CPUs tasks may use together.", "N", amount),
    Flag("--gpus", "start: how many GPUs.", "N", amount),
    Flag("--resources", "start: custom resources, name=amount,name=amount.", "LIST", resources),
    Flag("--store", "start: room for values, such as 2G.", "BYTES", size),
    Flag("--logs", "start: a folder where each worker writes all that its tasks print; the notebook shows what a "
                   "reader can follow.", "FOLDER"),
))

FUTURES = Magic("%futures", "List the futures among the notebook's variables, with their state.")

INSPECT = Magic("%inspect", "Show all about a future or an actor: its card, where it is now, what it came from.", (
    Flag("variable", "Holds the future, or the actor's handle."),
    Flag("--pdb", "Of a task that has failed: pdb over its frames, in the worker that has kept them."),
), """
    For a task that runs, and for an actor: the Python stack of its process at this moment, in the lines of your cells,
    if it is on this machine.
    Nothing is fetched.

    --pdb is for tasks of cells with %%remote --keep, and for all that fail after %config CellmeshMagics.keep_frames =
    True (of actors, for those that start then); %retry runs an earlier failure again. A worker keeps its last three
    failures and goes on with other tasks. p, pp, w, u, d, l and statements work as in %debug, q ends it. Where nothing can
    be typed (nbconvert, papermill), or when the worker has gone, the variables are shown as they were, as text.
""")

GRAPH = Magic("%graph", "Show the live graph of tasks, objects and actors.", (
    Flag("--save", "Save the session as it is now in place of showing it: run.cellmesh, which JupyterLab opens without a "
                   "kernel, or run.html, a page for any browser.", "FILE"),
), """
    Saved is what happened when, names, what tasks have printed, and the tracebacks of those that failed; no values.
""")

CANCEL = Magic("%cancel", "Cancel the tasks of the last cell that has any, or those that are named.", (
    Flag("what", "Numbers of cells (%cancel 3), or variables that hold futures (%cancel a b).", many=True),
    Flag("--all", "All tasks of the session."),
    Flag("--force", "Kill the processes of tasks that run, in place of interrupting them."),
), """
    The stop button ends the cell and leaves its tasks alone. To have it cancel them as well:
    %config CellmeshMagics.cancel_on_stop = True
""")

RETRY = Magic("%retry", "Submit tasks that have failed or were cancelled again, with the inputs they had.", (
    Flag("names", "Variables that hold futures, or lists, tuples or dicts of futures.", many=True),
    Flag("--all", "All variables of the notebook."),
), """
    The variables hold the new futures afterwards; of a list those that had failed are replaced. What has failed of that
    which a task needs is submitted again before it, and what has failed because of it after it. A function that has
    been defined anew since runs as it is now. The result is the new future, if there is one: again = %retry a.

    Inputs are kept of what the notebook itself submits, except generators and calls of actors: of each function the
    first 1,000 calls of a cell, if they are at most 64 kB each beside values that were put into the store.
""")

ALL = (REMOTE, ACTOR, FETCH, MESH, FUTURES, INSPECT, GRAPH, CANCEL, RETRY)
