"""Classes of notebooks in workers: one class, whatever code brought it, and that as it is for the code that runs.

A class that travels by value is one class in each process, so that objects of it are of the same class wherever they
came from; its methods and attributes are those of the pickle that was loaded last. Code that was exported when a
variable that a method reads had another value must not run with these: it is loaded again. Code says of its classes in
which state they were by a digest of their pickles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakSet

N_KEPT = 1000  # classes


class LoadedClasses:
    """What one process has loaded."""

    def __init__(self) -> None:
        self._loaded: dict[str, tuple[bytes, WeakSet[Any]]] = {}  # by class: its state, and the code that came with it

    def note(self, code: Any, states: Mapping[str, bytes]) -> list[Any]:
        """Code was loaded, and its classes with it, in these states. Returns what has been loaded with other ones."""
        stale: dict[int, Any] = {}
        for name, state in states.items():
            known = self._loaded.get(name)
            if known is None or known[0] != state:
                stale |= {id(other): other for other in (known[1] if known else ())}
                known = self._loaded[name] = state, WeakSet()
            known[1].add(code)
        if len(self._loaded) > N_KEPT:
            self._loaded = {name: known for name, known in self._loaded.items() if known[1]}
        return list(stale.values())


loaded: LoadedClasses = LoadedClasses()


def states_of(classes: Iterable[type]) -> dict[str, bytes]:
    """The states of classes that travel by value."""
    import hashlib

    from cloudpickle.cloudpickle import _get_or_create_tracker_id

    from ..objstore.serialization import dump_code

    return {
        _get_or_create_tracker_id(cls): hashlib.blake2b(dump_code(cls)[0], digest_size=16).digest() for cls in classes
    }
