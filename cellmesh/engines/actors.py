"""Actors of the session that live on the engine: which they are, and which of their calls wait, are under way, or have
ended with them. Pure.

An actor's home is in the session: there its calls stand in line, and there it is decided whether it begins again, since
not every engine can. So the engine is asked for a process that runs a constructor and then calls, in their order, and
that is not begun again; and home is told once that it has ended, with the calls that had begun, when all are known.

What its pocket tells of what it has made, and refers to, is true in the order in which it has told it, by *turns*; what
comes sooner waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec import Struct, field

from ..exit_codes import DIED_WITH_ITS_MACHINE, ENDED_SOMEHOW
from ..objstore._core import ACTOR_FLAG_ORDERED, ENDED_BY_ITSELF
from ..scheduler.cluster.messages import Actor, Shares
from .interface import ActorEnded, Blob, EngineActor, FailureKind
from .parcels import Done, Key, Progress


class Living(Struct):
    """An actor that has been constructed. `key`: what home calls it; `name`: what its pocket does; `how`: its calls
    run. These, by number: `line`: those that the engine has not been given, in order; `given`: those that it has, in
    order; `came`: what was told of some of these, before it was its turn; `begun`: those that have ended with it, and
    had begun. `turn`: the next. `kept`: objects that it was given and refers to still; `names`: what its
    pocket calls those that it has made; `brought`: what answers to its calls have, by their numbers, of which it has
    not said yet whether it keeps that. `is_killed`: home wants it ended, and its end is not yet told: it is given no
    more calls. `end`: it has ended."""

    key: Key
    name: Key
    how: Actor
    actor: EngineActor
    turn: int
    line: deque[int] = field(default_factory=deque[int])
    given: dict[int, None] = {}
    came: dict[int, deque[tuple[Progress, Done | None, Sequence[Blob]]]] = {}
    begun: list[int] = []
    kept: set[Key] = set()
    names: dict[Key, Key] = {}
    brought: dict[int, list[Key]] = {}
    is_killed: bool = False
    end: ActorEnded | None = None
    is_told: bool = False  # the end
    uses: Shares = {}  # of what the engine has

    @property
    def takes_calls(self) -> bool:
        return self.end is None and not self.is_killed

    @property
    def all_came(self) -> bool:
        """Whether nothing more is to be told of its calls."""
        return all(any(done is not None for _, done, _ in self.came.get(number, ())) for number in self.given)


class Actors:
    """See above."""

    def __init__(self) -> None:
        self._living: dict[Key, Living] = {}
        self._key_of: dict[EngineActor, Key] = {}
        self._ended: dict[EngineActor, ActorEnded] = {}  # whose constructor is not yet known to have ended

    def get(self, key: Key) -> Living | None:
        """What home calls so, if it is an actor."""
        return self._living.get(key)

    def begin(self, key: Key, name: Key, how: Actor, actor: EngineActor, turn: int) -> Living:
        """It has been constructed."""
        self._key_of[actor] = key
        living = self._living[key] = Living(key, name, how, actor, turn, end=self._ended.pop(actor, None))
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


def limits_of(how: Actor) -> list[int]:
    """How many of its calls may be under way at a time, of each concurrency group; none: one call after the other."""
    if how.concurrency == 1 and how.flags & ACTOR_FLAG_ORDERED:
        return []
    return [limit for limit in how.limits if limit] or [how.concurrency]


def exit_code_of(kind: FailureKind, code: int, has_left: bool = False) -> int:
    """Exit status or -signal, as home has it."""
    if has_left:
        return ENDED_BY_ITSELF
    return DIED_WITH_ITS_MACHINE if kind == "node_died" else code or ENDED_SOMEHOW
