"""Large arguments that are given to several calls: stored once while their bytes are the same, or told.

A call copies what it is given, so a data frame given to a hundred calls would lie in the store a hundred times. Before
a large argument is stored, the core asks here for the object that the same value has become before. What it would store
is compared with that object's bytes, so it does not matter what the value is, whether it was changed meanwhile, or
whether its id has been used again; comparing costs a fraction of storing.

The object is there as long as a task needs it. Of values that do not change (read-only arrays, Arrow data) it is
kept while the value lives, or until the store has no room. Of others the caller is told, once, that `put` is cheaper.
"""

from __future__ import annotations

import sys
import weakref
import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..objstore._core import Ref

N_REMEMBERED = 32
# Told of: so many times and so many bytes in all.
TOLD = ((10, 100_000_000), (3, 1_000_000_000))


class _Sent:
    """What is known of a value that was an argument; the value itself is not kept."""

    def __init__(self, value: Any, size: int) -> None:
        self.kind, self.size = type(value), size
        self.place: tuple[int, int] = (0, 0)  # of the object: slot and generation
        self.ref: Ref | None = None  # keeps the object
        self.n = 0
        self.checksum: int | None = None
        self.is_told = False
        try:
            self.weak: weakref.ref[Any] | None = weakref.ref(value)
        except TypeError:  # bytes, str, lists, dicts
            self.weak = None

    def may_be(self, value: Any, size: int) -> bool:
        """Whether a value of the same id may be this one. Exact where there are weak references."""
        return self.kind is type(value) and self.size == size and (self.weak is None or self.weak() is value)


class SentArguments:
    """The large arguments of one session. Called by any thread that submits."""

    def __init__(self) -> None:
        self._sent: OrderedDict[int, _Sent] = OrderedDict()  # by id
        self._told: set[str] = set()

    def candidate(self, value: Any, size: int) -> Ref | tuple[int, int] | None:
        """The object that a value may have become before, or the slot and generation of one that may have gone."""
        known = self._sent.get(id(value))
        if known is None or not known.may_be(value, size):
            return None
        return known.place if known.ref is None else known.ref

    def sent(self, value: Any, size: int, ref: Ref, compared: bool, same: bool) -> None:
        """A value was sent as this object. `compared`: with what it had become before; `same`: it is that."""
        known = self._sent.get(id(value))
        if known is None or not known.may_be(value, size) or (compared and not same):
            known = self._sent[id(value)] = _Sent(value, size)
            if known.weak is not None:
                known.weak = weakref.ref(value, self._forgetting(id(value)))
            while len(self._sent) > N_REMEMBERED:
                self._sent.popitem(last=False)
        known.n += 1
        known.place = ref._slot, ref._generation
        if is_immutable(value):
            known.ref = ref if known.weak is not None else None
        elif not known.is_told:
            self._consider(known, value, same)

    def _forgetting(self, key: int) -> Any:
        sent = self._sent  # not self: the value may live longer than the session

        def forget(weak: Any) -> None:
            known = sent.get(key)
            if known is not None and known.weak is weak:
                del sent[key]

        return forget

    def let_go(self) -> None:
        """The store needs room."""
        for known in list(self._sent.values()):
            known.ref = None

    def clear(self) -> None:
        """The session ends."""
        self._sent.clear()

    def _consider(self, known: _Sent, value: Any, same: bool) -> None:
        """Tell of it, if it is enough. What was not compared with the last object is compared by checksums, at two
        times.
        """
        is_enough = any(known.n >= n and known.n * known.size >= n_bytes for n, n_bytes in TOLD)
        if not same and known.checksum is None and known.n > 1:
            known.checksum = _checksum(value)
        elif is_enough:
            known.is_told = True
            if same or known.checksum == _checksum(value):
                self._tell(value, known)

    def _tell(self, value: Any, known: _Sent) -> None:
        from ..exceptions import RepeatedArgumentWarning
        from ..text import in_bytes, variable_of_caller, warn_user

        name = variable_of_caller(value)
        what = name or f"a {type(value).__name__}"
        if what in self._told:
            return
        self._told.add(what)
        warn_user(
            f"{what} ({in_bytes(known.size)}) was sent {known.n} times: ref = cellmesh.put({name or '...'}) sends it "
            "once, and the calls take ref in its place.",
            RepeatedArgumentWarning,
        )


def is_immutable(value: Any) -> bool:
    """Whether nobody is expected to change a value: bytes, texts, Arrow data, read-only arrays of read-only memory."""
    kind = type(value)
    if kind in (bytes, str) or kind.__module__ == "pyarrow.lib":
        return True
    numpy = sys.modules.get("numpy")
    if numpy is None or kind is not numpy.ndarray or value.dtype.hasobject:
        return False
    while isinstance(value, numpy.ndarray):
        if value.flags.writeable:
            return False
        value = value.base
    return value is None or _is_read_only_memory(value)


def _is_read_only_memory(owner: Any) -> bool:
    from ..objstore import reducers
    from ..objstore._core import Buffer

    return type(owner) in (bytes, Buffer) or reducers.is_immutable_memory(owner)


def _checksum(value: Any) -> int:
    from ..objstore.serialization import measure

    checksum = 0

    def update(chunk: Any) -> None:
        nonlocal checksum
        checksum = zlib.crc32(chunk, checksum)

    measure(value, update)
    return checksum
