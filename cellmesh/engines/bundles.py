"""The bundles of home's placement groups that an engine has put aside, or is to: those that home wants together are a
group of the engine's. Pure."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ..scheduler.cluster.messages import GroupBundle, Message, Reserve, Reserved, Task, Unreserve
from .calls import in_units
from .interface import Bundle, Engine, Group


class _Part(Struct):
    """Bundles of home's `group`, by their indexes there, in the order that they have in the engine's."""

    group: int
    indexes: list[int]


class Bundles:
    """See above. `send`: to home."""

    def __init__(self, engine: Engine, send: Callable[[Message], None]) -> None:
        self._engine, self._send = engine, send
        self._parts: dict[Group, _Part] = {}

    def reserve(self, message: Reserve) -> None:
        """Home wants some."""
        if not self._engine.can.groups:
            self._send(Reserved(message.group, message.indexes, given=False))
            return
        group = self._engine.reserve([in_units(bundle) for bundle in message.bundles], message.mode)
        self._parts[group] = _Part(message.group, message.indexes)

    def set_aside(self, group: Group) -> None:
        """The engine has them."""
        if (part := self._parts.get(group)) is not None:
            self._send(Reserved(part.group, part.indexes))

    def unreserve(self, message: Unreserve) -> None:
        """Home wants them no more."""
        for group, part in list(self._parts.items()):
            if part.group == message.group and {*part.indexes} <= {*message.indexes}:
                del self._parts[group]
                self._engine.unreserve(group)

    def of(self, bundle: GroupBundle) -> Bundle | None:
        """What the engine calls a bundle of home's; None: it is given back."""
        for group, part in self._parts.items():
            if part.group == bundle.group and bundle.index in part.indexes:
                return Bundle(group, part.indexes.index(bundle.index), bundle.captures)
        return None


def is_in(task: Task, message: Unreserve) -> bool:
    """Whether a task has its resources of one of these bundles."""
    bundle = task.bundle
    return bundle is not None and bundle.group == message.group and bundle.index in message.indexes
