"""Values of the engine that a session is on, as other programs there have them: a Ray `ObjectRef`, a Dask `Future`.

    import ray
    from cellmesh.util import engines

    ray.init(address="auto")                # this program's own connection, beside the session's
    cm.init(address="ray:auto")
    ref = engines.from_native(load.remote())    # of a Ray task: now a ref of this session, for tasks, cells and cards
    later = engines.to_native(total.remote(ref))    # and back, for Ray's tasks

The value stays on the engine, where a task of the session hands it over; it does not come through this program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from ..exceptions import EngineError, EngineUnreachableError, EngineUnsupportedError
from ..refs import ObjectRef
from ..session.current import current
from ..submit.scheduling_strategies import NodeAffinitySchedulingStrategy
from . import native_dask, native_ray

__all__ = ["from_native", "to_native"]

_KINDS = "a ray.ObjectRef or a distributed.Future"


class _Native(NamedTuple):
    """Of an engine: its library, what that calls a value, what takes one in, and what makes one."""

    library: str
    kind: str
    take: Callable[[Any, NodeAffinitySchedulingStrategy], ObjectRef[Any]]
    make: Callable[[ObjectRef[Any], NodeAffinitySchedulingStrategy], Any]


_NATIVE = {
    "ray": _Native("ray", "ObjectRef", native_ray.take, native_ray.make),
    "dask": _Native("distributed", "Future", native_dask.take, native_dask.make),
}


def from_native(ref: Any) -> ObjectRef[Any]:
    """Make a ref of this session of what the engine's own client calls a value.

    A task of the session, which needs no CPU, takes the value on the engine. An error that it stands for is the error
    of that task, of its own class.

    Parameters
    ----------
    ref : ray.ObjectRef or distributed.Future
        Of this program's own connection with the same cluster. This call waits until a `Future` has ended, as a task
        that waited for it would keep others from that worker; an `ObjectRef` may be pending.

    Returns
    -------
    ObjectRef
        `get` of it raises `ObjectLostError` if the engine has the value no more.

    Raises
    ------
    TypeError
        It is neither.
    EngineError
        The session has no engine, another one, or one of another cluster than this program's connection.
    EngineUnreachableError
        The engine is not there any more.
    EngineUnsupportedError
        The engine has no such values.
    """
    engine, on_engine = _engine()
    of = next((name for name, native in _NATIVE.items() if _is_a(ref, native.library, native.kind)), None)
    if of is None:
        raise TypeError(f"from_native() takes {_KINDS}, not {type(ref).__name__}")
    if of != engine:
        raise EngineError(f"from_native(): that is a value of {of}, and the engine of this session is {engine}")
    return _NATIVE[engine].take(ref, on_engine)


def to_native(ref: ObjectRef[Any]) -> Any:
    """Make what the engine's own client calls a value of a ref of this session.

    A task of the session, which needs no CPU, hands the value over on the engine.

    Parameters
    ----------
    ref : ObjectRef

    Returns
    -------
    ray.ObjectRef or distributed.Future
        Of this program's own connection with the cluster: `ray.init`, `distributed.Client`. What the ref's task has
        raised an `ObjectRef` raises when it is read. For a `Future` this call waits until the value is there, and
        raises it itself.

    Raises
    ------
    TypeError
        It is no ref of cellmesh's.
    EngineError
        The session has no engine, or this program has no connection of its own with it.
    EngineUnreachableError
        The engine is not there any more.
    EngineUnsupportedError
        The engine has no such values.
    """
    engine, on_engine = _engine()
    if not isinstance(ref, ObjectRef):
        raise TypeError(f"to_native() takes an ObjectRef of cellmesh's, not {type(ref).__name__}")
    return _NATIVE[engine].make(ref, on_engine)


def _engine() -> tuple[str, NodeAffinitySchedulingStrategy]:
    """The engine of this session, and what sends a task there."""
    engine = current().engine
    if engine is None:
        raise EngineError('this session has no engine: name one, as in init(address="ray:auto")')
    if engine.name not in _NATIVE:
        raise EngineUnsupportedError(
            f"{engine.name} has no values of its own: from_native and to_native need Ray or Dask"
        )
    if engine.lost:
        raise EngineUnreachableError(f"the engine {engine.name} cannot be used: {engine.lost}")
    return engine.name, NodeAffinitySchedulingStrategy(engine.name)


def _is_a(value: object, library: str, kind: str) -> bool:
    """Whether it is of a class of a library that may not be there."""
    module = sys.modules.get(library)
    return module is not None and isinstance(value, getattr(module, kind))
