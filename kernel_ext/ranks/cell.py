"""`%%ranks`: a cell runs in every rank; what it assigns is in the notebook as refs by rank."""

from __future__ import annotations

import argparse
import dataclasses
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ...exceptions import GroupMemberDiedError
from ...groups.ref_group import RefGroup
from ...session.current import current
from ...submit.actor import call_in_actor
from ...train.failures import is_death
from ..cells.analysis.read import Body, CellError
from ..cells.capture import capture
from ..cells.events import attach
from ..cells.registry import registry
from ..cells.submission import check_returns
from .folding import View, in_words
from .rank import GIVEN, run_cell_in_rank
from .waiting import CellInRanks, error_in_words

if TYPE_CHECKING:
    from ...groups.actor_group import ActorGroup
    from .rank import Rank
    from .ranks import Ranks


def run_cell(ranks: Ranks, text: str, head: list[str], options: argparse.Namespace) -> None:
    """Run a cell in the ranks, and wait for them.

    Parameters
    ----------
    ranks : Ranks
    text, head
        As those of `RemoteCells.run`.
    options : argparse.Namespace
        As `arguments.RANKS_CELL` parses them.

    Raises
    ------
    CellError
        The cell cannot be run, or an option is wrong.
    TaskError
        What a rank has raised.
    GroupMemberDiedError
        A rank is dead.
    GroupBrokenError
        Ranks have waited for one that would not come.
    """
    __tracebackhide__ = True
    group, chosen = ranks.group, ranks.chosen(options.ranks)
    namespace, run = ranks.cells.shell.user_ns, registry.current
    body, code = ranks.cells.read(text, head, run, is_body=True)
    assert isinstance(body, Body)
    _check(body, namespace, options)
    is_auto = not head  # no line of %%ranks stands above it
    view = View(_only(ranks, chosen, options), options.all, f"In {in_words(chosen)} (%ranks auto)" if is_auto else "")
    members = group._cellmesh_members
    if (dead := next((rank for rank in chosen if members.is_dead(rank)), None)) is not None:
        raise _died(group, dead)
    if ranks.collectives is not None:
        ranks.collectives.mend()
    session = current()
    attach(session)
    there = ranks.left.names(ranks.id, namespace)
    captured = capture(
        body,
        namespace,
        ranks.cells.submission.shipper,
        session.client,
        own=ranks.cells.shell.user_ns_hidden,
        in_actor=there | GIVEN,
    )
    writes = body.writes if options.returns is None else tuple(options.returns)
    code = dataclasses.replace(
        code,
        **captured.for_code(writes),
        writes=writes,
        has_last_expression=body.has_last_expression,
        lives_there=tuple(sorted(there)),
        keep=options.keep_frames,
    )
    strip = ranks.host.strip(run, view)
    if strip is None and (view.only or view.all):
        raise CellError("--only and --all say what the strip under a cell shows; here each line has its rank in front")
    running = CellInRanks(group, code.filename, strip, ranks.collectives)
    with ranks.host.showing(strip):
        try:
            with strip.submitting() if strip is not None else nullcontext():
                for rank in chosen:
                    values = _of_rank(captured.names, captured.values, namespace, rank)
                    n_returns = len(writes) + 1
                    refs = call_in_actor(
                        group[rank], run_cell_in_rank, code, *values, name=f"rank {rank}", num_returns=n_returns
                    )
                    running.add(rank, refs if n_returns > 1 else [refs])
            running.wait()
        except KeyboardInterrupt:
            running.stop(session.client)
            raise
        finally:
            ranks.failed = {rank: running.calls[rank][-1] for rank in sorted(running.errors)}
            _bind(ranks, body, running, writes)
        error = running.first_error
        if error is not None:
            error = _told(error, running, group)
    if error is not None:
        raise error


def _check(body: Body, namespace: dict[str, Any], options: argparse.Namespace) -> None:
    if "input" in body.builtins and "input" not in namespace:
        raise CellError(
            "input() asks somebody who sits at a keyboard, and ranks have none: ask in a cell of the notebook; ranks "
            "get the answer by the name of the variable"
        )
    check_returns(options.returns, body)


def _only(ranks: Ranks, chosen: tuple[int, ...], options: argparse.Namespace) -> tuple[int, ...]:
    """The ranks whose output is shown; empty for all."""
    if options.only is None:
        return ()
    if options.all:
        raise CellError("--only shows the output of some ranks, --all that of each by itself: give one of them")
    only = ranks.chosen(options.only)
    if left_out := [rank for rank in only if rank not in chosen]:
        does = "does" if len(left_out) == 1 else "do"
        raise CellError(f"--only {options.only}: {in_words(left_out)} {does} not run the cell")
    return only


def _of_rank(names: list[str], values: list[Any], namespace: dict[str, Any], rank: int) -> list[Any]:
    """What a rank gets: of what ranks have returned its own."""
    return [
        held[held.ranks.index(rank)] if isinstance(held := namespace[name], RefGroup) and rank in held.ranks else value
        for name, value in zip(names, values, strict=True)
    ]


def _bind(ranks: Ranks, body: Body, running: CellInRanks, writes: tuple[str, ...]) -> None:
    """Bind what the cell assigns to refs by rank, unless no rank has come to its end; and note what ranks have now."""
    namespace = ranks.cells.shell.user_ns
    chosen = tuple(running.calls)
    if running.finished:
        for i, name in enumerate(writes):
            namespace[name] = RefGroup([running.calls[rank][i] for rank in chosen], chosen, name)
        for deleted in body.deletes:
            namespace.pop(deleted, None)
    assigned = (*body.writes, *body.imports, *body.definitions, *body.passing, *body.mutates)
    ranks.left.add(ranks.id, [name for name in assigned if running.finished or name not in namespace], namespace)


def _told(error: Exception, running: CellInRanks, group: ActorGroup[Rank]) -> Exception:
    """The error of the cell; what has become of the other ranks is said under it."""
    rank = next((rank for rank, own in running.errors.items() if own is error), -1)
    died = is_death(error)
    by_words: dict[str, list[int]] = {}
    for failed, own in running.errors.items():
        if not (died and failed == rank):
            by_words.setdefault(error_in_words(own), []).append(failed)
    if died:
        running.note(f"rank {rank} has died")
    for words, some in by_words.items():
        where = running.line_of(getattr(running.errors[some[0]], "remote_traceback", ""), last=True)
        running.note(f"{in_words(sorted(some))} failed{f' in {where}' if where else ''}: {words}")
    return _died(group, rank) if died else error


def _died(group: ActorGroup[Rank], rank: int) -> GroupMemberDiedError:
    """The error of a rank that is dead, with what can be done."""
    words, error = group._cellmesh_members.death(rank)
    rest = ",".join(str(other) for other in group.ranks if other != rank)
    return GroupMemberDiedError(
        f"rank {rank} is dead: {words.splitlines()[0]}\n%ranks restart {rank} makes it anew, without its variables"
        + (f"; %%ranks {rest} runs a cell without it" if rest else ""),
        rank=rank,
        error=error,
    )
