"""Serialization that the C codec leaves to Python: everything beyond builtin scalars, small containers and numpy
arrays.

Values are pickled by cloudpickle with protocol 5. Their large buffers (numpy, Arrow, pandas, polars) stay out of the
pickle: the codec writes them into the segment, 64-byte aligned, and unpickling refers to them where they lie, on
private pages (decision 122).

Code (functions and classes) is pickled by value where it comes from a notebook. It may capture refs and actor handles;
the refs travel beside the pickle, where the segment can count them: an object lives as long as code that captured it.
"""

from __future__ import annotations

import inspect
import io
import pickle as _pickle
import types
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import cloudpickle

from . import code_pickles, own_pickles, reducers
from .code_pickles import PROTOCOL

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

# Buffers below this stay in the pickle: a reference would cost more than a copy, and the copy can be written to, as the
# limits of a plot's axes must be.
IN_BAND_BYTES = 256


# What `register` was told: by class, the functions that make a picklable thing of an instance and the other way round.
Serializers = dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]]
_serializers: Serializers = {}
_reducers = own_pickles.reducers


class _Reducers(dict[type, Callable[[Any], Any]]):
    """Ours, and then those of cloudpickle and `copyreg`, to which libraries add at any time, and of subclasses."""

    def __missing__(self, cls: type) -> Callable[[Any], Any]:
        found = cloudpickle.Pickler.dispatch_table.get(cls) or reducers.of_subclass(cls)
        if found is None:
            raise KeyError(cls)
        return found


class Pickler(code_pickles.Pickler):
    """That of code, except for classes with registered serializers, and data of some libraries (see `reducers`)."""

    def __init__(
        self, file: SupportsWrite[bytes], buffer_callback: Callable[[_pickle.PickleBuffer], Any] | None = None
    ) -> None:
        self.dispatch_table = _Reducers(reducers.of_imported_libraries() | _reducers)
        super().__init__(file, protocol=PROTOCOL, buffer_callback=buffer_callback)  # looks up dispatch_table


def pickle(value: object) -> tuple[bytes, list[_pickle.PickleBuffer | memoryview]]:
    """Pickle a value with its buffers out of band.

    Returns
    -------
    data : bytes
    buffers : list of PickleBuffer, or memoryview for what nobody changes
        Each C-contiguous, one-dimensional, of bytes, in the order in which `unpickle` wants them.
    """
    buffers: list[_pickle.PickleBuffer | memoryview] = []
    file = io.BytesIO()
    pickler = Pickler(file, _flattening(buffers))
    try:
        pickler.dump(value)
    except BaseException:  # a traceback that is kept must not keep what was pickled so far
        pickler.clear_memo()
        buffers.clear()
        file.close()
        raise
    return file.getvalue(), buffers


def measure(value: object, update: Callable[[Any], None] = lambda chunk: None) -> int:
    """How many bytes a value has when it is pickled; nothing is kept of them.

    Parameters
    ----------
    value : object
    update : callable
        Is shown every piece of the pickle, large buffers where they lie.

    Raises
    ------
    Exception
        Whatever pickling or `update` raises.
    """
    meter = _Meter(update)
    _Measuring(meter, meter.aside).dump(value)
    return meter.size


class _Meter:
    """A file that keeps nothing."""

    def __init__(self, update: Callable[[Any], None]) -> None:
        self._update = update
        self.size = 0

    def write(self, chunk: Any) -> int:
        self.size += len(chunk)
        self._update(chunk)
        return len(chunk)

    def aside(self, buffer: _pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:  # not contiguous: pickle copies it into the stream
            return True
        self.size += raw.nbytes
        self._update(raw)
        return False


class _Measuring(Pickler):
    def reducer_override(self, obj: Any) -> Any:
        # Refs travel beside the pickle, and pickle must not touch them.
        return (str, (obj.hex(),)) if type(obj) is ref_type() else super().reducer_override(obj)


def unpickle(data: bytes, buffers: Sequence[Any]) -> Any:
    """The value again; what it holds of `buffers` it refers to without a copy."""
    return _pickle.loads(data, buffers=buffers)


def _flattening(buffers: list[_pickle.PickleBuffer | memoryview]) -> Callable[[_pickle.PickleBuffer], bool]:
    def take(buffer: _pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:  # not contiguous: pickle copies it into the stream
            return True
        if raw.nbytes < IN_BAND_BYTES:
            return True
        buffers.append(raw if reducers.is_immutable_memory(raw.obj) else _pickle.PickleBuffer(raw))
        return False

    return take


@cache
def ref_type() -> type:
    """The type of refs, which pickle must not touch by itself."""
    from ._core import Ref

    return Ref


class _CodePickler(Pickler):
    def __init__(
        self,
        file: io.BytesIO,
        buffer_callback: Callable[[_pickle.PickleBuffer], Any] | None = None,
        on_code: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__(file, buffer_callback)
        self._ref_type = ref_type()
        self._on_code = on_code
        self.refs: list[Any] = []

    def persistent_id(self, value: Any) -> int | None:
        if type(value) is not self._ref_type:
            if self._on_code is not None and isinstance(value, types.FunctionType | type):
                self._on_code(value)
            return None
        self.refs.append(value)
        return len(self.refs) - 1


class _CodeUnpickler(_pickle.Unpickler):
    def __init__(self, file: io.BytesIO, refs: Sequence[Any]) -> None:
        super().__init__(file)
        self._refs = refs

    def persistent_load(self, number: int) -> Any:
        return self._refs[number]


def dump_code(code: object, on_code: Callable[[Any], None] | None = None) -> tuple[bytes, tuple[Any, ...]]:
    """Pickle a function or a class, or what holds some, by value if it comes from a notebook, with the refs that it
    captured beside it.

    `on_code` is told of each function and class before it is pickled, perhaps more than once.
    """
    file = io.BytesIO()
    pickler = _CodePickler(file, on_code=on_code)
    pickler.dump(_WithSerializers(code) if _serializers else code)
    return file.getvalue(), tuple(pickler.refs)


class TooLarge(Exception):
    """A pickle is longer than it may be."""


class _BoundedFile(io.BytesIO):
    """Takes so many bytes, in all, and then raises TooLarge."""

    limit = 0

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > self.limit:
            raise TooLarge
        return super().write(data)


def dump_bounded(value: object, limit: int) -> tuple[bytes, tuple[Any, ...]]:
    """As `dump_code`, for any value; ends early if it takes more than `limit` bytes.

    Raises
    ------
    TooLarge
    """

    def look_at(buffer: _pickle.PickleBuffer) -> bool:  # before it is copied into the stream
        if memoryview(buffer).nbytes > limit:
            raise TooLarge
        return True

    file = _BoundedFile()
    file.limit = limit
    pickler = _CodePickler(file, look_at)
    pickler.dump(value)
    return file.getvalue(), tuple(pickler.refs)


class _WithSerializers:
    """Code that registers the serializers of its sender where it is loaded."""

    def __init__(self, code: Any) -> None:
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return _register_all, (_serializers, self.code)


def _register_all(serializers: Serializers, code: Any) -> Any:
    for cls, functions in serializers.items():
        register(cls, *functions)
    return code


def register(cls: type, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]) -> None:
    """Pickle instances of a class, not of its subclasses, by these functions from now on."""
    _serializers[cls] = serializer, deserializer
    _reducers[cls] = lambda instance: (deserializer, (serializer(instance),))


def registered() -> Serializers:
    """What `register` was told."""
    return _serializers


def deregister(cls: type) -> None:
    """Undo `register`."""
    _serializers.pop(cls, None)
    _reducers.pop(cls, None)


def load_code(data: bytes, refs: Sequence[Any] = ()) -> Any:
    """The function or class of `dump_code`."""
    return _CodeUnpickler(io.BytesIO(data), refs).load()


# A function object, as tasks refer to it, is a tuple of kind, display name and payload. The payload is the pickled code
# as bytes, or a method's name; where refs were captured, exceptions are to be retried or the process is to be prepared,
# it is a tuple of that, the refs, the pickled exception classes (b"" for none), the environment's key, and, of code
# with classes that travel by value, their states (`class_states` of cellmesh).
Payload = bytes | str | tuple[Any, ...]
FunctionObject = tuple[str, str, Payload]


def code_object(
    kind: str,
    name: str,
    code: Any,
    retry_on: tuple[type, ...] = (),
    environment: tuple[Any, ...] = (),
    on_code: Callable[[Any], None] | None = None,
    states: Callable[[], dict[str, bytes]] = dict,
    keep_frames: bool = False,
    readonly: bool = False,
    kinship: Callable[[], bytes] = bytes,
) -> FunctionObject:
    """What is put into the store for a function or an actor class.

    Parameters
    ----------
    kind : {"function", "actor"}
    name : str
        The display name.
    code : callable or type
    retry_on : tuple of exception classes
        For which exceptions a task is run again.
    environment : tuple
        The key of the environment that the code wants; see `environment_of`.
    on_code : callable, optional
        As for `dump_code`.
    states : callable
        The states of classes that it has been told of.
    keep_frames : bool
        Whether its failures keep their frames.
    readonly : bool
        Whether the arrays that its calls are given are read-only views.
    kinship : callable
        What `kinship_of` gives, asked for when the code has been pickled.
    """
    data, refs = dump_code(code, on_code)
    return kind, name, _payload(data, refs, retry_on, environment, states(), keep_frames, readonly, kinship())


def environment_of(value: FunctionObject) -> tuple[Any, ...]:
    """The key of the environment that the code in a function object wants; () for none."""
    return value[2][3] if isinstance(value[2], tuple) else ()


def class_states_of(value: FunctionObject) -> dict[str, bytes]:
    """The states of the classes that come with the code in a function object."""
    return value[2][4] if isinstance(value[2], tuple) and len(value[2]) > 4 else {}


def keeps_frames(value: FunctionObject) -> bool:
    """Whether failures of the code in a function object keep their frames."""
    return isinstance(value[2], tuple) and len(value[2]) > 5 and value[2][5]


def kinship_of(value: FunctionObject) -> bytes:
    """What the copies have in common that processes make of one recursive function; b"" for others."""
    return value[2][7] if isinstance(value[2], tuple) and len(value[2]) > 7 else b""


def load_code_object(value: FunctionObject) -> Any:
    """The function or class in a function object."""
    payload = value[2]
    assert not isinstance(payload, str)  # a method has no code of its own
    return load_code(payload) if isinstance(payload, bytes) else load_code(*payload[:2])


def method_object(name: str, method: str, retry_on: tuple[type, ...] = ()) -> FunctionObject:
    """What is put into the store for a method of an actor class; `name` is the display name."""
    return "method", name, _payload(method, (), retry_on)


def visitor_object(name: str, function: Callable[..., Any]) -> FunctionObject:
    """What is put into the store for a function that an actor runs as if it were a method of its class."""
    return "method", name, dump_code(function)[0]


def load_method(instance: object, payload: Payload) -> Any:
    """The bound method that the payload of a `method_object` names, or the function of a `visitor_object`, bound."""
    if isinstance(payload, bytes):
        return types.MethodType(load_code(payload), instance)
    name = method_name(payload)
    method = getattr(instance, name)
    if not callable(method):  # `self.value = 7` beside `def value(self)`
        method = inspect.getattr_static(type(instance), name).__get__(instance, type(instance))
    return method


def method_name(payload: Payload) -> str:
    """The name in the payload of a `method_object`; "" for a `visitor_object`."""
    return "" if isinstance(payload, bytes) else payload if isinstance(payload, str) else payload[0]


def retried_exceptions(value: FunctionObject) -> tuple[type, ...] | None:
    """For which exceptions a task of this function object is run again; None: for any."""
    if isinstance(value[2], tuple) and value[2][2]:
        return _load_types(value[2][2])
    return None


def _payload(
    code: bytes | str,
    refs: tuple[Any, ...],
    retry_on: tuple[type, ...],
    environment: tuple[Any, ...] = (),
    states: dict[str, bytes] | None = None,
    keep_frames: bool = False,
    readonly: bool = False,
    kinship: bytes = b"",
) -> Payload:
    if not any((refs, retry_on, environment, states, keep_frames, readonly, kinship)):
        return code
    whole = code, refs, dump_code(retry_on)[0] if retry_on else b"", environment
    if readonly or kinship:  # the core reads whether it is read-only, by its place
        return (*whole, states or {}, keep_frames, readonly, kinship)
    if keep_frames:
        return (*whole, states or {}, True)
    return (*whole, states) if states else whole


@lru_cache(maxsize=256)
def _load_types(data: bytes) -> tuple[type, ...]:
    return load_code(data)
