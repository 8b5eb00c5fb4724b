"""Functions and classes on their way into the store: exported once per session, checked for what they carry along."""
from __future__ import annotations

import types
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from . import environment, function_names
from .options import Options
from .text import in_unicode

if TYPE_CHECKING:
    from .objstore._core import Ref
    from .session import Session

WARN_BYTES = 10_000_000   # a function is loaded by every worker that runs it
LIMIT_BYTES = 100_000_000
MISSING = object()


class Export:
    """A function or class of the user, which the store gets a copy of when a session first needs it.

    The copy is made of the code as it is then, with the globals it uses. In a notebook a session is told where a cell
    ends (`Session.forget_changed_code`): code that would be pickled differently now, because something it uses was
    defined anew, is exported again at its next use.

    In other processes an export is made from its copy, and the code itself is loaded only if somebody asks for it.
    """

    def __init__(self, kind: Literal["function", "actor"], name: str, code: Any = MISSING,
                 copies: dict[Hashable, Ref] | None = None) -> None:
        self.kind = kind
        self.name = in_unicode(name)
        self._code = code
        self._copies = copies  # where the export came from
        self._under_way = False

    @property
    def code(self) -> Any:
        """The function or class."""
        if self._code is MISSING:
            from .objstore.serialization import load_code_object
            assert self._copies is not None
            ref = next(iter(self._copies.values()))
            self._code = load_code_object(ref.client.get(ref))
        return self._code

    def key(self, options: Options, session: Session | None) -> tuple[str, tuple[type, ...], tuple[Any, ...]]:
        """The display name, exceptions to retry, and environment; equal for options that need the same copy."""
        retry_on = options.get("retry_exceptions")
        wanted = environment.effective(options, session.config.runtime_env if session is not None else {})
        if session is not None and session.in_cluster:
            wanted = environment.with_packages(session, wanted)
        return (options.get("name", self.name) if self.kind == "function" else self.name,
                tuple(retry_on) if isinstance(retry_on, (list, tuple)) else (),
                environment.key_of(wanted))

    def ref(self, session: Session, options: Options) -> Ref:
        """The function object in this session's store."""
        session.refresh_workers()
        key = self.key(options, session)
        if self._copies is not None and key in self._copies:
            return self._copies[key]
        copies = session.exports.setdefault(self, {})
        if key not in copies:
            self._under_way = True
            try:
                copies[key] = session.client.put(self._pickled(*key))
            finally:
                self._under_way = False
            function_names.remember(copies[key], self.kind, key[0])
            if session.tracks_code:
                session.exported_uses[self] = list(uses(self.code))
        return copies[key]

    def ref_for_pickle(self, session: Session | None, options: Options) -> Ref | None:
        """As `ref`, for code that captures this one; None where the code itself must be pickled.

        That is so without a session, and within this very export: the code refers to itself.
        """
        if session is None or session.client.closed or self._under_way:
            return None
        return self.ref(session, options)

    def _pickled(self, name: str, retry_on: tuple[type, ...],
                 environment_key: tuple[Any, ...]) -> tuple[str, str, Any]:
        from .objstore.serialization import code_object
        try:
            value = code_object(self.kind, name, self.code, retry_on, environment_key)
        except Exception as reason:  # whatever the user's __reduce__ raises
            from .serializability import pickling_error
            error = pickling_error(self.code, reason, self.name)
            raise error from error.__cause__
        data = value[2] if isinstance(value[2], bytes) else value[2][0]
        if len(data) > WARN_BYTES:
            self._complain(len(data))
        return value

    def _complain(self, n_bytes: int) -> None:
        from .exceptions import LargeClosureWarning
        from .text import in_bytes, warn_user
        largest = largest_captured(self.code)
        holder = f", most of it in {largest[0]!r} ({in_bytes(largest[1])})" if largest else ""
        argument = largest[0] if largest else "the data"
        text = (f"{self.name!r} captures {in_bytes(n_bytes)}{holder}, which every worker that runs it must load. Put "
                f"it into the store once, ref = cellmesh.put({argument}), and pass the ref as an argument")
        if n_bytes > LIMIT_BYTES:
            raise ValueError(f"{text}: functions and classes may carry at most {in_bytes(LIMIT_BYTES)}.")
        warn_user(f"{text}.", LargeClosureWarning)


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


Use = tuple[dict[str, Any], str, Any]  # globals, a name in them, what it stood for


def uses(code: Any) -> Iterator[Use]:
    """What code takes from the globals of notebook cells, itself or through what it calls."""
    from .serializability import captured, global_names
    todo = list(functions_of(code))
    seen: set[int] = set()
    while todo:
        function = todo.pop()
        if id(function) in seen or function.__module__ != "__main__":  # code in files is imported, not copied
            continue
        seen.add(id(function))
        for name in global_names(function):
            yield function.__globals__, name, function.__globals__.get(name, MISSING)
        for _, value in captured(function):
            todo += functions_of(value)


def largest_captured(code: Any) -> tuple[str, int] | None:
    """The name and size in bytes of the largest thing that a function or class captures."""
    from .serializability import captured
    sizes = {name: _size(value) for function in functions_of(code) for name, value in captured(function)}
    if isinstance(code, type):
        sizes |= {name: _size(value) for name, value in vars(code).items() if not callable(value)}
    return max(sizes.items(), key=lambda item: item[1], default=None)


def _size(value: Any) -> int:
    n_bytes = getattr(value, "nbytes", None)
    if isinstance(n_bytes, int):
        return n_bytes
    from .objstore.serialization import dump_code
    try:
        return len(dump_code(value)[0])
    except Exception:  # parts of what could be pickled as a whole need not be picklable by themselves
        return 0

