"""`%%tune`: the cell is the trial, with the parameters as variables; the line says what is searched and how."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import warnings
from typing import TYPE_CHECKING, Any

from ...session.current import current
from ...tune.exceptions import ExperimentExistsError, TuneWarning
from ...tune.space import SpaceError, parse_line
from ...tune.tuner import Tuner, see_through
from ..cells.analysis.read import Body, CellError
from ..cells.capture import capture
from ..cells.events import attach
from ..cells.registry import registry
from .trial import GIVEN, CellTrial

if TYPE_CHECKING:
    from ...tune.experiment import Experiment
    from ..cells.remote import RemoteCells


def tune_cell(cells: RemoteCells, text: str, head: list[str], options: argparse.Namespace) -> Experiment:
    """Start the search of a cell, and bind it to a variable.

    Parameters
    ----------
    cells : RemoteCells
    text, head
        As those of `RemoteCells.run`.
    options : argparse.Namespace
        As `arguments.TUNE_CELL` parses them.

    Raises
    ------
    CellError
        The cell cannot be a trial, or an option is wrong.
    """
    __tracebackhide__ = True
    trial, space = _trial_of(cells, text, head, options)
    try:
        tuner = _tuner(trial, space, options)
        search = tuner.start(detached=False if options.wait else None)
    except ExperimentExistsError:
        raise CellError(
            f"there is an experiment {options.name!r}: --replace begins it anew, --resume goes on with it, and "
            f"`%tune {options.name}` shows it"
        ) from None
    except (TypeError, ValueError, ImportError, NotImplementedError) as error:  # an option's value
        raise CellError(str(error)) from None
    cells.shell.user_ns[options.output or "search"] = search
    if not options.wait:
        return search
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", TuneWarning)
        see_through(search)
    for warning in told:  # it would point at IPython's line that runs magics
        print(f"{warning.category.__name__}: {warning.message}", file=sys.stderr)
    return search


def _trial_of(
    cells: RemoteCells, text: str, head: list[str], options: argparse.Namespace
) -> tuple[CellTrial, dict[str, Any]]:
    __tracebackhide__ = True
    try:
        space = parse_line(" ".join(options.parameters))
    except SpaceError as error:
        raise CellError(str(error)) from None
    if taken := sorted(space.keys() & GIVEN.keys()):
        raise CellError(f"a trial has {taken[0]}() already: give the parameter {taken[0]!r} another name")
    body, code = cells.read(text, head, registry.current, is_body=True)
    assert isinstance(body, Body)
    client = current().client
    attach(current())
    given = frozenset([*space, *GIVEN])
    if unread := [name for name in space if name not in (*body.reads, *body.builtins, *body.writes)]:
        print(f"{', '.join(unread)}: the cell does not read {'it' if len(unread) == 1 else 'them'}.")
    for changed in body.mutates:
        if changed not in given:
            print(f"{changed} is changed in place by each trial, in its own process: only what it reports comes back.")
    captured = capture(
        body, cells.shell.user_ns, cells.submission.shipper, client, own=cells.shell.user_ns_hidden, in_actor=given
    )
    code = dataclasses.replace(code, **captured.for_code(()), has_last_expression=body.has_last_expression)
    return CellTrial(code, tuple(captured.values), frozenset(body.changes), options.metric or ""), space


def _tuner(trial: CellTrial, space: dict[str, Any], options: argparse.Namespace) -> Tuner:
    scheduler, search_alg = options.scheduler, options.search
    resources = {"cpu": options.num_cpus, "gpu": options.num_gpus}
    short = {
        "metric": options.metric,
        "mode": options.mode,
        "num_samples": options.samples,
        "scheduler": scheduler.made() if scheduler is not None else None,
        "search_alg": search_alg.made() if search_alg is not None else None,
        "max_concurrent_trials": options.concurrent,
        "time_budget_s": options.time_budget,
        "seed": options.seed,
        "name": options.name,
        "stop": options.stop,
        "max_failures": options.max_failures,
    }
    return Tuner(
        trial,
        space,
        resources={name: amount for name, amount in resources.items() if amount is not None} or None,
        if_exists="replace" if options.replace else "resume" if options.resume else "error",
        **{name: value for name, value in short.items() if value is not None},
    )
