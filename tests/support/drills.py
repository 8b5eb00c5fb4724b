"""What all drills have in common: each runs in a folder of its own, and what goes wrong in it is told, not raised."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import cloudpickle

D = TypeVar("D")


def perform(
    module: ModuleType, drills: Iterable[tuple[int, D]], run: Callable[[D, Path], None], tell: Callable[[str], None]
) -> list[str]:
    """Run drills, one after the other; what went wrong, which `tell` hears at once.

    Parameters
    ----------
    module : module
        What it defines is sent by value: workers cannot import it.
    drills : iterable of int and drill
        By number.
    run : callable
        Runs one, in that folder. What it raises went wrong.
    tell : callable
    """
    cloudpickle.register_pickle_by_value(module)
    wrong = []
    try:
        for number, drill in drills:
            with tempfile.TemporaryDirectory(prefix="drill-") as place:
                try:
                    run(drill, Path(place))
                except Exception as error:
                    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
                    wrong.append(f"{number} {drill}: {type(error).__name__}: {error}{notes}")
                    tell(wrong[-1])
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    return wrong
