"""What the head must not forget: its members, its dead, how many lives it has had, and what agents keep in it.

Everything lies in memory, so reading never waits; every change is written through to a backend before any agent is told
of it. A backend keeps a table of keys and bytes and has three methods, `load`, `commit` of several changes at once, and
`close`: `sqlite` is the default, `redis` the other. What can be said with these records is said here,
once for both (decision 50).

One head writes. `begin_life` counts its lives, and a commit of an earlier life is refused (`ReplacedError`): a head
that was stopped and is continued after another has taken its place changes nothing any more.

A request is done once: with its change its answer is kept, by node and number, in the same commit, so that an agent
that asks again, of whichever life of the head, gets the same answer. The last `N_ANSWERS` of a node are kept.

While the backend cannot be reached, what is there can be read, and writing raises `AwayError`. Whether the change that
met the loss has been made is found out on the next one, before it: everything is loaded again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Protocol

import msgspec
from msgspec import Struct, msgpack

from ..messages import Member, StoreReply, StoreRequest

# The format of the records; bump it with any change of `_Entry`, `_Node` or the keys, but a field that has a default
# and may be ignored.
FORMAT = 1
N_ANSWERS = 1024  # of a node, four times what it may have unanswered
MAX_BYTES = 1 << 28  # of all entries: they lie in memory
MAX_ENTRIES = 1_000_000
MOST_DEAD = (
    100_000  # whose numbers are refused: one that comes back later than that many others have died would be taken in
)
MAX_KEYS_REPLIED = 10_000
MAX_REPLY_BYTES = 1 << 20  # of keys and values that are listed
KEPT = {"jobs": 1000, "runs": 1000}  # of these tables the first entries go when there are more

Changes = Mapping[str, bytes | None]  # None: the record is deleted


class ControlStoreError(RuntimeError):
    """What goes wrong with the control store; its text says what to do.

    ControlStoreError
    ├── AwayError         it cannot be reached: nothing can be written for now
    ├── DamagedError      what it holds makes no sense
    ├── FullError         there is no room for that
    └── ReplacedError     another head uses it: this one must end
    """


class AwayError(ControlStoreError):
    """The backend cannot be reached. Whether the change has been made is not known."""


class DamagedError(ControlStoreError):
    """What the backend holds makes no sense."""


class FullError(ControlStoreError):
    """A bound is reached; nothing has been changed."""


class ReplacedError(ControlStoreError):
    """Another head has begun a life with this store."""

    def __init__(self) -> None:
        super().__init__(
            "Another head has begun to use this control store, so this one may not change it any more, and ends."
        )


class Backend(Protocol):
    """Keeps records by key. Keys are text without NUL of at most 1,100 characters, values bytes of at most a good
    MiB."""

    @property
    def warning(self) -> str:
        """What people should know about how safe it is; empty if nothing acknowledged can be lost."""
        ...

    def load(self) -> dict[str, bytes]:
        """All there is. Raises `AwayError` or `DamagedError`."""
        ...

    def commit(self, changes: Changes, life: bytes | None) -> None:
        """Make all these changes or none, and return when they are safe.

        `life`: what the record "life" must hold, or `ReplacedError`; None: whatever it holds. Raises `AwayError`, after
        which the changes may have been made or not, but all or none.
        """
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class _Entry(Struct, frozen=True, array_like=True):
    value: bytes
    node: int = 0  # with which it lives; 0: with none


class _Node(Struct, frozen=True, array_like=True):
    member: Member
    draining: bool
    is_found: bool = False  # at its address, by the head; earlier versions did not look


class ControlStore:
    """The control store of one head, on a backend that is its own from then on.

    Raises
    ------
    AwayError, DamagedError
        It cannot be read.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._life: bytes | None = None
        self._must_load = False
        self._load()

    def _load(self) -> None:
        records = self._backend.load()
        self._tables: dict[str, dict[str, _Entry]] = {}
        self._living_with: dict[int, set[tuple[str, str]]] = {}  # node -> entries that go with it
        self._members: dict[int, _Node] = {}
        self._dead: dict[int, tuple[int, str]] = {}  # node -> the how manieth, and why; in that order
        self._answers: dict[int, dict[int, StoreReply]] = {}
        self.epoch = 0
        try:
            found = int(records.pop("format", b"%d" % FORMAT))
            if found != FORMAT:
                raise DamagedError(
                    f"The control store has format {found} and this version of cellmesh reads {FORMAT}: "
                    "use the version that wrote it, or begin a cluster with an empty one."
                )
            for key, value in records.items():
                self._take_in(key, value)
            self._dead = dict(sorted(self._dead.items(), key=lambda item: item[1][0]))
        except (ValueError, msgspec.DecodeError) as error:
            raise DamagedError(
                f"The control store holds a record that makes no sense ({error}): restore it from a "
                "copy, or begin a cluster with an empty one."
            ) from error
        self._size = sum(_size(key, entry) for table in self._tables.values() for key, entry in table.items())
        self._must_load = False

    def _take_in(self, key: str, value: bytes) -> None:
        kind, _, rest = key.partition("/")
        if kind == "life":
            self.epoch = int(value)
        elif kind == "entry":
            table, _, name = rest.partition("/")
            self._set(table, name, msgpack.decode(value, type=_Entry))
        elif kind == "member":
            self._members[int(rest)] = msgpack.decode(value, type=_Node)
        elif kind == "dead":
            number, _, reason = value.decode().rpartition("\0")  # none of those that an earlier version evicted
            self._dead[int(rest)] = int(number or "0"), reason
        elif kind == "answer":
            node, _, number = rest.partition("/")
            self._answers.setdefault(int(node), {})[int(number)] = StoreReply(int(number), value == b"1")
        else:
            raise ValueError(f"{key!r} is no key")

    def _set(self, table: str, key: str, new: _Entry | None) -> _Entry | None:
        """Change an entry, None: delete it; returns what it was."""
        entries = self._tables.setdefault(table, {})
        old = entries.pop(key, None)
        if old is not None and old.node:
            self._living_with[old.node].discard((table, key))
            if not self._living_with[old.node]:
                del self._living_with[old.node]
        if new is not None:
            entries[key] = new
            if new.node:
                self._living_with.setdefault(new.node, set()).add((table, key))
        return old

    @property
    def warning(self) -> str:
        """What people should know about how safe it is; empty if nothing acknowledged can be lost."""
        return self._backend.warning

    # ---- lives and members
    def begin_life(self) -> int:
        """Count one more life of the head, and shut out those before. Returns its epoch."""
        epoch = self.epoch + 1
        life = b"%d" % epoch
        self._backend.commit({"life": life, "format": b"%d" % FORMAT}, b"%d" % self.epoch if self.epoch else None)
        self.epoch, self._life = epoch, life
        return epoch

    @property
    def members(self) -> list[tuple[Member, bool]]:
        """The members as the head last knew them, and whether each was draining, by number."""
        return [(node.member, node.draining) for _, node in sorted(self._members.items())]

    @property
    def dead(self) -> dict[int, str]:
        """The last nodes that have been one and are none any more, and why; the oldest first."""
        return {node: reason for node, (_, reason) in self._dead.items()}

    @property
    def found(self) -> set[int]:
        """Members that the head has found at their addresses."""
        return {number for number, node in self._members.items() if node.is_found}

    def remember(self, member: Member, draining: bool, is_found: bool = False) -> None:
        """A member, new or changed."""
        node = _Node(member, draining, is_found)
        self._commit({f"member/{member.node}": msgpack.encode(node)})
        self._members[member.node] = node

    def evict(self, node: int, reason: str) -> None:
        """A node is gone for ever, and with it what lived with it."""
        gone = list(self._living_with.get(node, ()))
        number = next((number for number, _ in reversed(self._dead.values())), 0) + 1
        forgotten = list(
            itertools.islice((old for old in self._dead if old != node), max(0, len(self._dead) + 1 - MOST_DEAD))
        )
        changes: dict[str, bytes | None] = {f"member/{node}": None, f"dead/{node}": f"{number}\0{reason}".encode()}
        changes |= {f"dead/{old}": None for old in forgotten}
        changes |= {_entry_key(*key): None for key in gone} | {
            f"answer/{node}/{n}": None for n in self._answers.get(node, ())
        }
        self._commit(changes)
        for name, key in gone:
            self._size -= _size(key, self._set(name, key, None))
        self._members.pop(node, None)
        self._answers.pop(node, None)
        self._dead.pop(node, None)
        self._dead[node] = number, reason
        for old in forgotten:
            del self._dead[old]

    # ---- what agents keep in it
    def perform(self, request: StoreRequest) -> StoreReply:
        """Do a request, unless it has been done; the answer is the same either way.

        Raises
        ------
        AwayError
            It is not known whether it has been done. Asked again later, it is done once all the same.
        FullError
            It would be too much; nothing is changed.
        """
        if request.operation in ("get", "keys", "latest"):
            return self._look(request)
        if self._must_load:
            self._reload()
        if request.number in self._answers.get(request.node, ()):
            return self._answers[request.node][request.number]
        key, table = request.key, self._tables.setdefault(request.table, {})
        entry = table.get(key)
        new: _Entry | None = entry
        if request.operation == "delete":
            new = None
        elif _is_to_be_set(request, entry):
            new = _Entry(request.value, request.node if request.lives_with else 0)
        reply = StoreReply(request.number, (entry is not None) if request.operation == "delete" else new is not entry)
        is_more = entry is None and new is not None
        first = min(table) if is_more and len(table) >= KEPT.get(request.table, math.inf) else None
        size = self._size + _size(key, new) - _size(key, entry)
        if first is not None:
            size -= _size(first, table[first])
        n_entries = sum(map(len, self._tables.values()))
        is_many = is_more and first is None and n_entries >= MAX_ENTRIES
        if new is not entry and new is not None and (size > MAX_BYTES or is_many):
            raise FullError(
                f"The control store holds {n_entries} entries of {self._size >> 20} MiB, and at most "
                f"{MAX_ENTRIES} of {MAX_BYTES >> 20} MiB fit: delete some, or put large values into the "
                "object store."
            )
        answers = self._answers.get(request.node, {})
        old = [n for n in answers if n <= request.number - N_ANSWERS]
        changes: dict[str, bytes | None] = {f"answer/{request.node}/{n}": None for n in old}
        changes[f"answer/{request.node}/{request.number}"] = b"1" if reply.done else b"0"
        if new is not entry:
            changes[_entry_key(request.table, key)] = None if new is None else msgpack.encode(new)
        if first is not None:
            changes[_entry_key(request.table, first)] = None
        self._commit(changes)
        self._answers.setdefault(request.node, {})[request.number] = reply
        for n in old:
            del answers[n]
        self._size = size
        if first is not None:
            self._set(request.table, first, None)
        self._set(request.table, key, new)
        return reply

    def _look(self, request: StoreRequest) -> StoreReply:
        table = self._tables.get(request.table, {})
        if request.operation == "get":
            entry = table.get(request.key)
            return StoreReply(request.number, entry is not None, entry.value if entry is not None else b"")
        with_values = request.operation == "latest"
        found = sorted((key for key in table if key.startswith(request.key)), reverse=with_values)
        left, n = MAX_REPLY_BYTES, 0
        for key in found[:MAX_KEYS_REPLIED]:
            left -= len(key) + (len(table[key].value) if with_values else 0)
            if left < 0:
                break
            n += 1
        return StoreReply(
            request.number,
            bool(found),
            keys=found[:n],
            more=n < len(found),
            values=[table[key].value for key in found[:n]] if with_values else [],
        )

    def end(self) -> None:
        """The cluster has ended: delete all there is, and let go of the backend."""
        self._backend.commit(dict.fromkeys(self._backend.load()), self._life)
        self.close()

    def close(self) -> None:
        """Let go of the backend."""
        self._backend.close()

    # ---- writing
    def _reload(self) -> None:
        """After a loss: what the backend has is what counts."""
        self._load()
        if self._life is not None and b"%d" % self.epoch != self._life:
            self._must_load = True
            raise ReplacedError

    def _commit(self, changes: Changes) -> None:
        if self._life is None:
            raise RuntimeError("begin_life() comes before any change")
        if self._must_load:
            self._reload()
        try:
            self._backend.commit(changes, self._life)
        except AwayError:
            self._must_load = True
            raise


def _is_to_be_set(request: StoreRequest, entry: _Entry | None) -> bool:
    if request.operation == "swap":
        return entry is not None and entry.value == request.expected
    return request.operation == "put" or entry is None


def _entry_key(table: str, key: str) -> str:
    return f"entry/{table}/{key}"


def _size(key: str, entry: _Entry | None) -> int:
    return 0 if entry is None else len(key) + len(entry.value) + 200
