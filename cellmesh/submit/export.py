"""Functions and classes on their way into the store: exported once per session and state, checked for what they
carry.
"""

from __future__ import annotations

import os
import threading
import types
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

from .. import front_end
from ..environment import runtime_env
from ..exceptions import ObjectStoreFullError
from ..objstore import own_pickles
from ..observe import function_names
from ..text import in_unicode

if TYPE_CHECKING:
    from ..objstore._core import Ref, Watch
    from ..objstore.serialization import FunctionObject
    from ..session.session import Session
    from .captures import Capture, Followed, Looking
    from .options import Options

WARN_BYTES = 10_000_000  # a function is loaded by every worker that runs it
LIMIT_BYTES = 100_000_000
N_CAPTURED_NAMED = 3
N_OLD, OLD_BYTES = 8, 16_000  # copies that have been replaced and are kept for a while, and how large they may be
MISSING = object()

# Recursive functions by kinship and digest. Such a function travels with its code inside its code, so each process that
# calls it again makes a copy of its own; without this, every process would load those of all others.
recursive: WeakValueDictionary[tuple[bytes, bytes], Any] = WeakValueDictionary()


class Made:
    """What the store has of some code as it is now, with the variables that it uses.

    Copies that have been replaced are kept for a while, if they are small and keep nothing else alive: a variable may
    have two values in turn.
    """

    def __init__(self, session: Session, before: Made | None, capture: Capture, in_call: bool) -> None:
        from ..objstore._core import Watch
        from .captures import Followed, Looking

        self.session = session
        self.refs: dict[Hashable, Ref] = {}
        self._digests: dict[Hashable, bytes] = {}
        self._old: OrderedDict[bytes, Ref] = OrderedDict()
        self._before: dict[bytes, Ref] = {}
        if before is not None and before.session is session:
            self._old = before._old
            self._before = {before._digests[key]: ref for key, ref in before.refs.items()}
        # What was captured is watched from now on.
        self.watch: Watch = Watch([*capture.items, *((made.watch,) for made in capture.made)])
        others = [Followed(one.name, one.value) for made in capture.made for one in made.followed]
        self.followed: list[Followed] = [*capture.followed, *others]
        self.looking: Looking = Looking(self.watch, self.followed)
        self.looking.seen(in_call)

    def store(self, key: Hashable, value: FunctionObject, code: Any) -> None:
        """Have it in the store, under this key; the same copy as before if that is what it was."""
        from ..objstore.serialization import kinship_of

        digest = self._digests[key] = digest_of(value)
        if kinship := kinship_of(value):
            recursive[kinship, digest] = code
        known = self._before.get(digest, self._old.get(digest))
        self._before = {}
        ref = self.refs[key] = self.session.client.put(value) if known is None else known
        function_names.remember(ref, value[0], value[1])
        if isinstance(value[2], bytes) and len(value[2]) <= OLD_BYTES:
            self._old[digest] = ref
            self._old.move_to_end(digest)
            while len(self._old) > N_OLD:
                self._old.popitem(last=False)


class Export:
    """A function or class of the user, which the store gets a copy of when a session first needs it.

    The copy is made of the code as it is then, with the globals and closures that it uses. Before each use it is looked
    whether these are still what they were; otherwise another copy is made (see `captures`).

    In other processes an export is made from its copy, and the code itself is loaded only if somebody asks for it.
    """

    def __init__(
        self,
        kind: Literal["function", "actor"],
        name: str,
        code: Any = MISSING,
        copies: dict[Hashable, Ref] | None = None,
        kinship: bytes = b"",
    ) -> None:
        self.kind = kind
        self.name: str = in_unicode(name)
        self._code = code
        self._copies = copies  # where the export came from
        self._kinship = kinship
        self.made: Made | None = None
        self._told: set[str] = set()  # variables that are changed in place

    @property
    def is_here(self) -> bool:
        """Whether the code need not be loaded first."""
        return self._code is not MISSING

    @property
    def code(self) -> Any:
        """The function or class."""
        if self._code is MISSING:
            from ..objstore.serialization import load_code_object

            assert self._copies is not None
            ref = next(iter(self._copies.values()))
            self._code = load_code_object(ref.client.get(ref))
        return self._code

    def may_have_changed(self, since: Made | None) -> bool:
        """Whether the code may no longer be what a copy is of; None: nobody knows of which. Code from another process
        does not change."""
        return self._copies is None and (since is None or since is not self.made or since.watch.changed())

    @property
    def kinship(self) -> bytes:
        """What the copies of a recursive function have in common, in all processes."""
        self._kinship = self._kinship or os.urandom(16)
        return self._kinship

    def key(
        self, options: Options, session: Session | None
    ) -> tuple[str, tuple[type, ...], tuple[Any, ...], bool, bool]:
        """The display name, exceptions to retry, environment, and whether frames of failures are kept and arrays are
        read-only; equal for options that need the same copy."""
        retry_on = options.get("retry_exceptions")
        wanted = runtime_env.effective(options, session.environment if session is not None else {})
        if session is not None and session.in_cluster:
            wanted = runtime_env.with_packages(session, wanted)
        return (
            options.get("name", self.name) if self.kind == "function" else self.name,
            tuple(retry_on) if isinstance(retry_on, (list, tuple)) else (),
            runtime_env.key_of(wanted),
            bool(options.get("keep_frames")),
            bool(options.get("readonly", front_end.dialect.readonly)),
        )

    def ref(self, session: Session, options: Options) -> Ref:
        """The function object in this session's store, of the code as it is now."""
        return self._ready(session, options, counts=True)[0]

    def bound(self, session: Session, options: Options) -> tuple[Ref, Watch | None, Renewal | None]:
        """As `ref`, with what a submitter needs to notice that it is no longer that."""
        ref, made = self._ready(session, options)
        return (ref, None, None) if made is None else (ref, made.watch, Renewal(self, session, options))

    def ref_for_pickle(self, session: Session | None, options: Options) -> Ref | None:
        """As `ref`, for code that captures this one; None where the code itself must be pickled.

        That is so without a session, in a pickle of others, and within this very export: the code refers to itself.
        """
        if session is None or session.client.closed or own_pickles.making.for_others:
            return None
        outer = next((i for i, capture in enumerate(_under_way.captures) if capture.of is self), None)
        if outer is not None:
            for capture in _under_way.captures[outer:]:
                capture.is_recursive = True
            return None
        ref, made = self._ready(session, options, counts=True)
        if _under_way.captures and made is not None:
            _under_way.captures[-1].made.append(made)
        return ref

    def _ready(
        self, session: Session, options: Options, *, counts: bool = False, in_call: bool = False
    ) -> tuple[Ref, Made | None]:
        """The copy of the code as it is now, and what is known of it (None: it came from another process).

        `counts`: this is a use of it. `in_call`: a call asks that the submitter has counted.
        """
        session.refresh_workers()
        key = self.key(options, session)
        if self._copies is not None and not in_call and key in self._copies:  # a submitter keeps the copy that it has
            return self._copies[key], None
        before = self.made
        made = self._current(session, counts, in_call)
        if made is None or key not in made.refs:
            value, capture = self._pickled(*key)
            if made is None:
                made = Made(session, before, capture, in_call)
            try:
                made.store(key, value, self.code)
            except ObjectStoreFullError as error:
                from ..errors.store import named

                raise named(error, self._with_what_it_captures()) from None
            self.made = made
            session.exports.add(self)
        return made.refs[key], made

    def _current(self, session: Session, counts: bool, in_call: bool) -> Made | None:
        """What there is of the code as it is now; None: nothing yet."""
        made = self.made
        if made is None or made.session is not session or made.watch.changed():
            return None
        looking = made.looking
        if counts:
            made.watch.n_calls += 1
        if not looking.is_due:
            return made
        if not (changed := looking.look()):
            looking.seen(counts or in_call)
            return made
        self._tell(changed, looking.n_doubtful(counts or in_call))
        return None  # the next call looks at what is made now

    def forget_old(self) -> bool:
        """Let go of the copy, if it is no longer what the code is; whether there is none now."""
        made = self.made
        if made is None:
            return True
        if made.watch.changed():
            self.made = None
        elif (n_doubtful := made.looking.n_doubtful()) <= 0:  # nothing to settle: the next call looks
            made.looking.seen(soon=True)
        elif changed := made.looking.look():
            self._tell(changed, n_doubtful)
            self.made = None
        else:
            made.looking.seen(soon=True)
        return self.made is None

    def _tell(self, names: list[str], n_doubtful: int) -> None:
        """Calls may have gone out with what variables held before, as nobody looks each time."""
        new = [name for name in names if name not in self._told]
        if n_doubtful <= 0 or not new:
            return
        self._told.update(new)
        from ..exceptions import ChangedInPlaceWarning
        from ..text import warn_user

        were = "was" if len(new) == 1 else "were"
        warn_user(
            f"{' and '.join(new)}, which {self.name!r} uses, {were} changed in place between calls of {self.name!r}, "
            "and some of them may have had what was there before: pass what changes as an argument, or assign a new "
            f"value ({new[0]} = ...), which is always seen.",
            ChangedInPlaceWarning,
        )

    def _pickled(
        self, name: str, retry_on: tuple[type, ...], environment_key: tuple[Any, ...], keep_frames: bool, readonly: bool
    ) -> tuple[FunctionObject, Capture]:
        from ..objstore.serialization import code_object
        from .captures import Capture
        from .class_states import states_of

        capture = Capture(self)
        _under_way.captures.append(capture)
        try:
            capture.see_held(self.code)
            value = code_object(
                self.kind,
                name,
                self.code,
                retry_on,
                environment_key,
                capture.see,
                lambda: states_of(capture.classes),
                keep_frames,
                readonly,
                lambda: self.kinship if capture.is_recursive and self.kind == "function" else b"",
            )
        except Exception as reason:  # whatever the user's __reduce__ raises
            from ..errors.serializability import pickling_error

            error = pickling_error(self.code, reason, self.name)
            try:
                raise error from error.__cause__
            finally:
                del error  # a frame that holds what it raises is a reference cycle
        finally:
            _under_way.captures.pop()
        data = value[2] if isinstance(value[2], bytes) else value[2][0]
        if len(data) > WARN_BYTES:
            self._complain(len(data))
        return value, capture

    def _with_what_it_captures(self) -> str:
        from ..text import in_bytes

        sizes = sorted(captured_sizes(self.code).items(), key=lambda item: -item[1])[:N_CAPTURED_NAMED]
        captured = ", ".join(f"{name!r} ({in_bytes(size)})" for name, size in sizes if size > sizes[0][1] / 100)
        return (
            f"the {'class' if self.kind == 'actor' else 'function'} "
            f"{self.name!r}{f', which captures {captured},' if captured else ''}"
        )

    def _complain(self, n_bytes: int) -> None:
        from ..exceptions import LargeClosureWarning
        from ..text import in_bytes, warn_user

        largest = largest_captured(self.code)
        holder = f", most of it in {largest[0]!r} ({in_bytes(largest[1])})" if largest else ""
        argument = largest[0] if largest else "the data"
        size = "is too large: it captures" if n_bytes > LIMIT_BYTES else "captures"
        text = (
            f"{self.name!r} {size} {in_bytes(n_bytes)}{holder}, which every worker that runs it must load. Put "
            f"it into the store once, ref = cellmesh.put({argument}), and pass the ref as an argument"
        )
        if n_bytes > LIMIT_BYTES:
            raise ValueError(f"{text}: functions and classes may carry at most {in_bytes(LIMIT_BYTES)}.")
        warn_user(f"{text}.", LargeClosureWarning)


class Renewal:
    """What a submitter asks for the function as it is now. It does not refer to the submitter, which refers to it."""

    def __init__(self, export: Export, session: Session, options: Options) -> None:
        self._export, self._session, self._options = export, session, options

    def __call__(self) -> tuple[Ref, Watch]:
        ref, made = self._export._ready(self._session, self._options, in_call=True)
        assert made is not None  # what came from another process has no renewal
        return ref, made.watch


class _UnderWay(threading.local):
    """What this thread is exporting, one within the other."""

    def __init__(self) -> None:
        self.captures: list[Capture] = []


_under_way = _UnderWay()


def reduced_for_others(code: Any) -> tuple[Any, ...]:
    """What others' pickles hold of a remote function or an actor class: all of it, so that any process can load it, in
    any session.
    """
    if own_pickles.making.for_others:
        return own_pickles.reducers[type(code)](code)
    from ..objstore import serialization

    own_pickles.making.for_others = True
    try:
        return serialization.load_code, serialization.dump_code(code)
    finally:
        own_pickles.making.for_others = False


def digest_of(value: FunctionObject) -> bytes:
    """The key of a function object: equal for equal ones."""
    import hashlib

    kind, name, payload = value
    assert not isinstance(payload, str)  # functions and actor classes alone have one, methods do not
    parts = (
        [payload]
        if isinstance(payload, bytes)
        else [
            payload[0],
            repr([(ref._slot, ref._generation) for ref in payload[1]]).encode(),
            payload[2],
            repr(payload[3:]).encode(),
        ]
    )
    found = hashlib.blake2b(f"{kind} {name}".encode(), digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()


# ---------------------------------------------------------------- what code uses
def functions_of(code: Any) -> Iterator[types.FunctionType]:
    """The Python functions of a function, a class, or something decorated by `remote`."""
    if hasattr(type(code), "__cellmesh_code__"):  # a property of the types that `remote` makes
        code = code.__cellmesh_code__
    if isinstance(code, type):
        for member in vars(code).values():
            for part in (member, getattr(member, "__func__", None), getattr(member, "fget", None)):
                if isinstance(part, types.FunctionType):
                    yield part
    elif isinstance(code, types.FunctionType):
        yield code


def largest_captured(code: Any) -> tuple[str, int] | None:
    """The name and size in bytes of the largest thing that a function or class captures."""
    return max(captured_sizes(code).items(), key=lambda item: item[1], default=None)


def captured_sizes(code: Any) -> dict[str, int]:
    """What a function or class captures: names, and sizes in bytes as far as they can be told."""
    from ..errors.serializability import captured

    sizes = {name: _size(value) for function in functions_of(code) for name, value in captured(function)}
    from .captures import held_by

    sizes |= {name: _size(value) for name, value in held_by(code)}
    if isinstance(code, type):
        sizes |= {
            name: _size(value)
            for name, value in vars(code).items()
            if not callable(value) and not isinstance(value, types.GetSetDescriptorType)
        }  # which refer to all of the class
    return sizes


def _size(value: Any) -> int:
    n_bytes = getattr(value, "nbytes", None)
    if isinstance(n_bytes, int):
        return n_bytes
    from ..objstore.serialization import dump_code

    try:
        return len(dump_code(value)[0])
    except Exception:  # parts of what could be pickled as a whole need not be picklable by themselves
        return 0
