"""Actors of the session that live on the engine: which they are, and which of their calls wait, are under way, or have
ended with them. Pure.

An actor's home is in the session: there its calls stand in line, and there it is decided whether it begins again, since
not every engine can. So the engine is asked for a process that runs a constructor and then calls, in their order, and
that is not begun again; and home is told once that it has ended, with the calls that had begun, when all are known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec import Struct, field

from ..exit_codes import DIED_WITH_ITS_MACHINE, ENDED_SOMEHOW
from ..objstore._core import ENDED_BY_ITSELF
from ..scheduler.cluster.messages import Shares
from .interface import ActorEnded, Blob, EngineActor, FailureKind
from .parcels import Key, Progress


class Living(Struct):
    """An actor that has been constructed. `key`: what home calls it; `name`: what its pocket does. Its calls, by
    number: `line`: those that the engine has not been given, in order; `given`: those that it has, in order; `came`:
    the outcomes of some of these, before those of earlier ones; `said`: likewise what they have said; `begun`: those
    that have ended with it, and had begun. `kept`: objects that it was given and refers to still; `names`: what its
    pocket calls those that it has made. `end`: it has ended."""

    key: Key
    name: Key
    actor: EngineActor
    line: deque[int] = field(default_factory=deque[int])
    given: dict[int, None] = {}
    came: dict[int, tuple[bytes, list[Blob]]] = {}
    said: dict[int, list[tuple[Progress, Sequence[Blob]]]] = {}
    begun: list[int] = []
    kept: set[Key] = set()
    names: dict[Key, Key] = {}
    end: ActorEnded | None = None
    is_told: bool = False  # the end
    uses: Shares = {}  # of what the engine has


class Actors:
    """See above."""

    def __init__(self) -> None:
        self._living: dict[Key, Living] = {}
        self._key_of: dict[EngineActor, Key] = {}
        self._ended: dict[EngineActor, ActorEnded] = {}  # whose constructor is not yet known to have ended

    def get(self, key: Key) -> Living | None:
        """What home calls so, if it is an actor."""
        return self._living.get(key)

    def begin(self, key: Key, name: Key, actor: EngineActor) -> Living:
        """It has been constructed."""
        self._key_of[actor] = key
        living = self._living[key] = Living(key, name, actor, end=self._ended.pop(actor, None))
        return living

    def ended(self, event: ActorEnded, is_begun: bool) -> Living | None:
        """One has ended. `is_begun`: its constructor is under way, as far as is known. None: nobody wants to know."""
        key = self._key_of.get(event.actor)
        if key is None:
            if is_begun:
                self._ended[event.actor] = event
            return None
        self._living[key].end = event
        return self._living[key]

    def failed(self, actor: EngineActor) -> None:
        """Its constructor has not come to its end."""
        self._ended.pop(actor, None)

    def forget(self, key: Key) -> Living | None:
        """Home does not know it any more."""
        living = self._living.pop(key, None)
        if living is not None:
            del self._key_of[living.actor]
        return living


def exit_code_of(kind: FailureKind, code: int, has_left: bool = False) -> int:
    """Exit status or -signal, as home has it."""
    if has_left:
        return ENDED_BY_ITSELF
    return DIED_WITH_ITS_MACHINE if kind == "node_died" else code or ENDED_SOMEHOW
