"""`%inspect`: all about one future or actor: its card, where it is now, what it came from, what waits for it.

Nothing here fetches the value or waits for the task. A preview and a stack are asked for, with time limits.
"""

from __future__ import annotations

import builtins
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from IPython.core.error import StdinNotImplementedError

from ...exceptions import CellmeshError, TaskError
from ...text import duration, in_one_line
from ...tracebacks import readable_stack, with_source_lines
from ..cards.card import state_of
from ..cards.html import STATES, CardFacts, card_html, card_text, pre
from ..cells.analysis.read import CellError
from ..cells.find_refs import what_is
from ..graph.row import describe

if TYPE_CHECKING:
    from ...refs import ObjectRef
    from ...submit.actor import ActorHandle
    from ..cards.card import Cards
    from ..cards.live_display import Bundle
    from ..graph.model import Graph
    from ..graph.recorder import Recorder
    from ..host import Host

LINEAGE_DEPTH = 6
LINEAGE_LINES = 40


@dataclass(frozen=True)
class Inspection:
    """What has been found out, to display.

    Attributes
    ----------
    facts : CardFacts or None
        Of a future.
    sections : tuple of (str, str)
        Title and text of what else there is.
    at : str
        When that was; it is not kept up to date, and may be read in a saved notebook.
    card : dict or None
        Of an actor, as text and HTML.
    """

    facts: CardFacts | None
    sections: tuple[tuple[str, str], ...]
    at: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M:%S"))
    card: Bundle | None = None

    def __repr__(self) -> str:
        parts = [card_text(self.facts)] if self.facts is not None else [self.card["text/plain"]] if self.card else []
        return "\n\n".join([*parts, *(f"{title}\n{text}" for title, text in self.sections), f"As of {self.at}."])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        card = card_html(self.facts) if self.facts is not None else self.card["text/html"] if self.card else ""
        parts = "".join(
            f'<div style="margin-top:.6rem;font-weight:600">{escape(title)}</div>{pre(text)}'
            for title, text in self.sections
        )
        at = f'<div style="margin-top:.6rem;opacity:.62">As of {self.at}.</div>'
        return {"text/plain": repr(self), "text/html": f"<div>{card}{parts}{at}</div>"}


def inspect(name: str | None, namespace: dict[str, Any], host: Host) -> Inspection:
    """Find out all about what a variable holds, or a part of one (`what_is`).

    Raises
    ------
    CellError
        The variable holds neither a future nor an actor.
    """
    from ...groups.ref_group import RefGroup
    from ...refs import ObjectRef
    from ...submit.actor import ActorHandle

    value = what_is(name, namespace) if name else None
    if isinstance(value, ObjectRef):
        return _of_future(value, host.cards, host.recorder)
    if isinstance(value, ActorHandle):
        return _of_actor(value, host)
    if isinstance(value, RefGroup):
        return Inspection(None, (), card=host.group_cards.mimebundle(value))
    if not name:
        raise CellError("%inspect needs a variable that holds a future or an actor: %inspect a")
    is_there = value is not None or name in namespace
    instead = f"; it is a {type(value).__name__}, in this process" if is_there else ""
    raise CellError(
        f"%inspect: {name!r} holds neither a future nor an actor{instead}. %futures lists variables that do"
    )


def _of_future(ref: ObjectRef, cards: Cards, recorder: Recorder | None) -> Inspection:
    facts = cards.all_facts(ref)
    sections = []
    if facts.state == "running" and facts.pid:
        sections.append((f"Where it is now (pid {facts.pid})", _stack(facts.pid)))
    elif facts.state == "running" and facts.pid_there:
        sections.append(
            (
                f"Where it is now (pid {facts.pid_there} on {in_one_line(facts.node)})",
                f"Its stack is not sent from machine to machine; there `cellmesh stack {facts.pid_there}` shows it.",
            )
        )
    if recorder is not None and recorder.session.client is ref.client:
        sections += recorder.look(lambda graph: _family(graph, graph.row_of(ref.creator)))
    return Inspection(facts, tuple(sections))


def _family(graph: Graph, row: int) -> list[tuple[str, str]]:
    """Sections on what a task came from and goes into."""
    if row < 0:
        return []
    return [
        (title, "\n".join(lines))
        for title, key in (("What it came from", "depends_on"), ("What it goes into", "needed_by"))
        if (lines := _lineage(lambda number: describe(graph, number), row, key, lambda number: _label(graph, number)))
    ]


def _label(graph: Graph, cell: int) -> str:
    return graph.cells[cell].label if cell in graph.cells else ""


def debug(
    name: str | None, namespace: dict[str, Any], cards: Cards, of_rank: Callable[[str], tuple[int, ObjectRef]]
) -> Inspection | None:
    """Talk to pdb in the worker that has kept the frames of a failed task.

    Where that is not possible, the result shows its variables as text.

    Parameters
    ----------
    name : str or None
        A variable, or a rank. Without one: the last error that was shown, if its frames were kept; else the first rank
        that has failed.
    of_rank : callable
        A rank that has failed, and its call; the first with "".

    Raises
    ------
    CellError
        The variable holds nothing of a task that has failed, or nothing was kept.
    """
    from ...errors.post_mortem import converse
    from ...groups.ref_group import RefGroup
    from ...refs import ObjectRef

    value, again = what_is(name, namespace) if name else _shown_last(), f"%retry {name}"
    if isinstance(value, BaseException):
        name, again = name or "the last error", "the cell that has raised it"
    elif not name or name.isdecimal():
        rank, value = of_rank(name or "")
        name, again = f"rank {rank}", "the cell with %%ranks --keep-frames"
    elif isinstance(value, RefGroup):
        value = next((ref for ref in value if state_of(ref) == "failed"), value[0])
    failure = _failure_of(name, value)
    frames, kept = (failure.frames, failure.kept) if failure is not None else ((), None)
    if not frames:
        raise CellError(
            f"%inspect --pdb: the frames of {name!r} were not kept when it failed. They are of cells with %%remote "
            "--keep-frames or %%ranks --keep-frames, of functions with keep_frames=True, and of all tasks after "
            f"%config CellmeshMagics.keep_frames = True; {again} runs it again"
        )
    why = "the worker could not be reached"
    if kept is not None:
        try:
            # `builtins.input` is the kernel's while a cell runs.
            converse(kept, builtins.input, lambda text: print(text, end="", flush=True))
            return None
        except LookupError as reason:
            why = str(reason)
        except StdinNotImplementedError:
            why = "nothing can be typed here"
    print(f"The variables as they were then, since {why}:")
    return Inspection(
        cards.all_facts(value) if isinstance(value, ObjectRef) else None,
        tuple((with_source_lines(place).strip(), variables or "no variables") for place, variables in frames),
    )


def _failure_of(name: str, value: object) -> TaskError | None:
    """The failure of what a name stands for, a ref or an exception; None if its process died, which keeps nothing."""
    from ...refs import ObjectRef

    if isinstance(value, BaseException):
        if (failure := _failed_task(value)) is not None:
            return failure
        raise CellError(f"%inspect --pdb is for tasks that have failed, and {name!r} is no task's error")
    if not isinstance(value, ObjectRef):
        raise CellError(
            "%inspect --pdb needs a variable that holds the future of a task that has failed, or its error: "
            "%inspect --pdb a"
        )
    if state_of(value) != "failed":
        raise CellError(f"%inspect --pdb is for tasks that have failed, and {name!r} is {state_of(value)}")
    try:
        value.client.get(value, 1.0)
    except TaskError as error:
        return error
    except CellmeshError:
        pass
    return None


def _failed_task(error: BaseException | None) -> TaskError | None:
    """The error of a task: this one, or that from which it was raised, such as a rank's from which a training's was."""
    while error is not None and not isinstance(error, TaskError):
        error = error.__cause__
    return error


def _shown_last() -> TaskError | None:
    """The last error that the notebook has shown, if it is of a task whose frames were kept."""
    failure = _failed_task(getattr(sys, "last_value", None))
    return failure if failure is not None and failure.frames else None


def _of_actor(handle: ActorHandle, host: Host) -> Inspection:
    ref, card = handle._cellmesh_ref, host.actor_cards.mimebundle(handle)
    known = ref.client.actor(*ref.client.actor_place(ref)) if not ref.client.closed else None
    if known is None or not known["running_calls"]:
        return Inspection(None, (), card=card)
    if known["node"]:
        return Inspection(None, (("Where it is now", "`cellmesh stack` on that machine shows it."),), card=card)
    return Inspection(None, ((f"Where it is now (pid {known['pid']})", _stack(known["pid"])),), card=card)


def _stack(pid: int) -> str:
    from ...observe.stacks import stack_of
    from ...session.current import current

    try:
        return readable_stack(stack_of(current().node.link, pid)) or "In no Python code at this moment."
    except LookupError as reason:  # it has just ended, or does not answer
        return str(reason)


def _lineage(
    describe: Callable[[int], dict[str, Any]], start: int, key: str, cell_label: Callable[[int], str]
) -> list[str]:
    """The rows that can be reached, as an indented tree; each once, nearest first within a branch."""
    lines: list[str] = []
    seen = {start}
    stack = [(row, 0) for row in reversed(describe(start)[key])]
    while stack:
        number, depth = stack.pop()
        if number in seen:
            continue
        if len(lines) == LINEAGE_LINES:
            return [*lines, "…"]
        seen.add(number)
        row = describe(number)
        lines.append("  " * depth + _in_words(row, cell_label(row["cell"])))
        if depth + 1 < LINEAGE_DEPTH:
            stack += [(further, depth + 1) for further in reversed(row[key])]
        elif row[key]:
            lines.append("  " * (depth + 1) + "…")
    return lines


def _in_words(row: dict[str, Any], cell: str) -> str:
    sign, words, _ = STATES[row["state"]]
    name = "a value put into the store" if row["kind"] == "object" else row["function"]
    ran = (
        duration(row["finished"] - row["started"])
        if row["kind"] != "object" and None not in (row["started"], row["finished"])
        else ""
    )
    return f"{sign} " + " · ".join(filter(None, (name, words, cell if cell != name else "", ran)))
