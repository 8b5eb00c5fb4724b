"""The flags of `%%remote` and `%%actor` as options of tasks and actors, and which flags contradict each other."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ...submit.flags import OF_TASKS, flag_of
from .analysis.read import CellError

if TYPE_CHECKING:
    from ...submit.options import Kind

IN_WORDS: dict[Kind, str] = {"task": "tasks", "actor": "actors"}


def options_given(line: argparse.Namespace, kind: Kind) -> dict[str, Any]:
    """The options of a task or an actor that a line gives, for `remote`."""
    from ...submit.options import valid_names

    found = {option: getattr(line, option, None) for option in valid_names(kind) if option in OF_TASKS}
    return {option: value for option, value in found.items() if value is not None and value is not False}


def refuse_what_nothing_takes(options: argparse.Namespace, kinds: list[Kind]) -> None:
    """A flag for actors in a cell that makes none, or for tasks in one that only makes actors."""
    from ...submit.options import TABLE

    for kind, what in IN_WORDS.items():
        for option in options_given(options, kind):
            if kinds and not set(kinds) & set(TABLE[option].kinds):  # a cell of imports makes neither
                instead = "; for actors it is --max-restarts" if option == "max_retries" else ""
                raise CellError(
                    f"{flag_of(option)} is for {what}, and this cell makes "
                    f"{' and '.join(IN_WORDS[one] for one in kinds)}{instead}"
                )


def made_remote(code: Any, options: dict[str, Any]) -> Any:
    from ...api import remote

    try:
        return remote(**options)(code)
    except (ValueError, TypeError) as error:  # an option that does not go with it
        raise CellError(str(error)) from None


def options_for(options: argparse.Namespace, kind: Kind) -> dict[str, Any]:
    """What the flags say of a task or of an actor class."""
    given = options_given(options, kind)
    if options.node is not None:
        if "scheduling_strategy" in given:
            raise CellError(
                "--node and --scheduling-strategy (or --spread) contradict each other: leave one of them out"
            )
        if (strategy := _on_node(options.node)) is not None:
            given["scheduling_strategy"] = strategy
    return given


def _on_node(wanted: str) -> Any:
    """All nodes of a session without a cluster are this machine, so the right name is already the place."""
    if not wanted:
        raise CellError("--node '': give the name, id or number of a node; cellmesh.nodes() lists them")
    from ...api import nodes
    from ...session.current import current

    if current().client.in_cluster():
        from ...submit.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(wanted, soft=False)
    there = {name for node in nodes() for name in (node["NodeName"], node["NodeID"])}
    if wanted not in there:
        raise CellError(f"--node {wanted}: there is no such node; the session has {', '.join(sorted(there))}")
    return None
