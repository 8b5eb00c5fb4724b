"""`%cancel`: cancels tasks by cell, by future, or all of them."""

from __future__ import annotations

import itertools
from typing import Any

from ...session.current import current, current_or_none
from .analysis.read import CellError
from .registry import n_unfinished, registry

ENDED = ("finished", "failed", "cancelled")


def cancel(what: list[str], namespace: dict[str, Any], *, everything: bool = False, force: bool = False) -> None:
    """Cancel tasks and say how many.

    Parameters
    ----------
    what : list of str
        Numbers of cells as the notebook shows them, and names of variables that hold futures (or of parts of them,
        ``refs[3]``), in lists, tuples, dicts and sets too, or a generator of them. Without any, and without
        `everything`: the last cell that has unfinished tasks.
    namespace : dict
        The notebook's.
    everything : bool
        All tasks that this session has submitted.
    force : bool
        Kill the processes of running tasks.

    Raises
    ------
    CellError
        A name is no future, or a number no cell.
    """
    session = current_or_none()
    named = [ref for word in what if not word.isdigit() for ref in _futures(word, namespace)]
    if session is None or session.client.closed:
        print("No session runs: there is nothing to cancel.")
        return
    numbers = sorted(n_unfinished())
    if what and not everything:
        wanted = {f"In [{word}]" for word in what if word.isdigit()}
        numbers = [number for number in numbers if registry.cell(number).label in wanted]
    by_cell = _refs_of(numbers)
    if not what and not everything:
        by_cell = dict(list(by_cell.items())[-1:])
    _cancel_all(named, by_cell, force)


def cancel_runs(numbers: list[int]) -> None:
    """Cancel the tasks of these runs of cells, and say how many."""
    _cancel_all([], _refs_of(numbers), force=False)


def _cancel_all(named: list[Any], by_cell: dict[int, list[Any]], force: bool) -> None:
    refs = list(dict.fromkeys(itertools.chain(named, *by_cell.values())))
    begun = current().client.cancel_pending(refs)
    n = len(refs) - len(begun)
    tasks_of = {ref: ref.creator for ref in begun if _is_unfinished(ref)}
    for ref in tasks_of:
        _cancel(ref, force)
    n += len(set(tasks_of.values()))  # a task may have several futures
    if not n:
        print(f"{'Those tasks have ended already' if refs else 'There are no such tasks'}: nothing to cancel.")
        return
    cells = sorted({registry.cell(number).label for number in by_cell} - {""})
    tasks = "1 task" if n == 1 else f"{n} tasks"
    print(f"Cancelled {tasks}{' of ' + ', '.join(cells) if cells else ''}.")


def _refs_of(numbers: list[int]) -> dict[int, list[Any]]:
    """Refs of the driver's tasks that have not ended, by the number of the cell, of these cells that have any."""
    client = current().client
    return {number: refs for number in numbers if (refs := client.children(0, number))}


def _futures(name: str, namespace: dict[str, Any]) -> list[Any]:
    from ...submit.generator import ObjectRefGenerator
    from .find_refs import refs_in, what_is

    value = what_is(name, namespace)
    found = [value.completed()] if isinstance(value, ObjectRefGenerator) else [ref for _, ref in refs_in({name: value})]
    if not found:
        raise CellError(f"%cancel: {name!r} is neither a future nor the number of a cell, and holds no futures")
    return found


def _is_unfinished(ref: Any) -> bool:
    info = ref.client.info(ref)
    return info["state"] not in ENDED and not info["put"]


def _cancel(ref: Any, force: bool) -> None:
    from ...api import cancel as cancel_ref

    cancel_ref(ref, force=force and ref.client.info(ref)["actor"] < 0)
