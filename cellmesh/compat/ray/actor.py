"""`ray.actor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import api as _api
from ...exceptions import ActorDiedError
from ...refs import ObjectRef
from ...session.current import current
from ...submit.actor import ActorHandle, ActorMethod
from ...submit.actor_blueprint import method
from ...submit.actor_class import ActorClass
from .. import missing as _missing

if TYPE_CHECKING:
    from ...objstore._core import Client

__all__ = ["ActorClass", "ActorHandle", "ActorMethod", "exit_actor", "method"]


class ActorClassInheritanceException(TypeError):  # Ray's name
    """A class cannot inherit from an actor class; here the TypeError of Python's own class says so."""


class WeakHandle(ActorHandle[Any]):
    """What `get_actor` returns: a handle that does not keep its actor alive, unless while a call is made."""

    _cellmesh_client: Client
    _cellmesh_place: tuple[int, int]  # slot and generation
    _cellmesh_hash: int

    def __init__(self, handle: ActorHandle[Any]) -> None:
        ref = handle._cellmesh_ref
        self.__dict__.update(
            _cellmesh_client=ref.client,
            _cellmesh_place=(ref._slot, ref._generation),
            _cellmesh_hash=hash(ref),
            _cellmesh_blueprint=handle._cellmesh_blueprint,
        )

    @property
    def _cellmesh_ref(self) -> ObjectRef[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]  # there it is held
        if self._cellmesh_client.closed or (ref := self._cellmesh_client.find_ref(*self._cellmesh_place)) is None:
            raise ActorDiedError(
                f"the actor of class {self._cellmesh_blueprint.class_name!r} is dead: its last handle went, and what "
                "get_actor() returns holds none"
            )
        return ref

    def __getattr__(self, name: str) -> ActorMethod[..., Any, Any]:
        if name.startswith("_cellmesh_"):
            raise AttributeError(name)
        return getattr(ActorHandle(self._cellmesh_ref, self._cellmesh_blueprint), name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, WeakHandle):
            return (self._cellmesh_client, self._cellmesh_place) == (other._cellmesh_client, other._cellmesh_place)
        return isinstance(other, ActorHandle) and self._cellmesh_place == (
            other._cellmesh_ref._slot,
            other._cellmesh_ref._generation,
        )

    def __hash__(self) -> int:
        return self._cellmesh_hash

    def __repr__(self) -> str:
        try:
            return super().__repr__()
        except ActorDiedError:
            return f"<actor {self._cellmesh_blueprint.class_name}: dead>"


def exit_actor() -> None:
    """`cellmesh.exit_actor`; Ray says TypeError where there is no actor."""
    of = current()
    if not of.is_worker or of.client.actor_info() is None:
        raise TypeError(
            "exit_actor API is called on a non-actor worker: it ends the actor whose method calls it, and this is not "
            "an actor's process"
        )
    _api.exit_actor()


__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.actor")
