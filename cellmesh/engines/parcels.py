"""What goes into a worker of an engine and comes out: a task with all that it refers to, and what it has made.

Objects are called by slot and generation, as where they are known: at home, or in the engine's process, which has
generations from `OWN` on. So a pocket that has run a task knows the function of the next one. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, msgpack
from msgspec.structs import replace

from ..scheduler.cluster.messages import (
    Begun,
    Cancel,
    Generation,
    Kill,
    Message,
    Number,
    Output,
    Ref,
    Slot,
    Taken,
    Task,
    Value,
)

OWN = 1 << 31  # generations of objects that the engine has: a slot at home is not used so often
CLOSED = 1 << 62  # in the place of how many items were taken: it is not read on
Key = tuple[int, int]
Large = bytes | memoryview  # the bytes of a large value, which may lie where their pocket has them
# In a pocket, in the place of actors: home's agent, who makes some there; and the one that lives here.
AGENT, MAKER, SELF = (0, OWN - 1), (1, OWN - 1), (2, OWN - 1)


class Given(Struct, frozen=True, array_like=True):
    """An object. `blob`: the place of its bytes beside the parcel, if they are not in the value; -1: they are."""

    slot: Slot
    generation: Generation
    value: Value
    blob: int = -1


class Work(Struct, frozen=True, array_like=True):
    """Tasks for a pocket, one of them or several that are packed together. `objects`: all that they refer to; what is
    referred to by another one comes before that. `about`: what describes the placement group of the one task."""

    session: str
    namespace: str
    tasks: list[Task]
    objects: list[Given]
    about: Ref | None = None

    @property
    def task(self) -> Task:
        """The one, or the first."""
        return self.tasks[0]

    @property
    def may_hear(self) -> bool:
        """Whether something may be said to it while it runs: it yields, or has handles of actors."""
        return self.task.stream >= 0 or any(given.value.actor is not None for given in self.objects)


class Yielded(Message, frozen=True, tag="yielded"):
    """What a generator has yielded, from item `at` on. `made`, `gone`, `turn`: as of `Done`."""

    at: Number
    values: list[Given]
    made: list[Given]
    gone: list[Key]
    turn: Number = 0


class Called(Message, frozen=True, tag="called"):
    """Calls of actors of the session that a pocket has made, by its numbers, in their order, or constructors of actors
    that it makes. `results`: what it calls what each returns, or makes; `made`, `gone`, `turn`: as of `Done`. `pocket`:
    which one it is, for the answers."""

    pocket: Number
    tasks: list[Task]
    results: list[list[Key]]
    made: list[Given]
    gone: list[Key]
    turn: Number = 0


class Uncalled(Message, frozen=True, tag="uncalled"):
    """The values of these calls that a pocket has made are not wanted any more."""

    pocket: Number
    numbers: list[Number]


class Reads(Message, frozen=True, tag="reads"):
    """How far a call has been read that a pocket has made, and that yields: as of `Taken`."""

    pocket: Number
    number: Number
    n: Number
    closed: bool = False


class Answered(Message, frozen=True, tag="answered"):
    """What has become of a call that a pocket has made, for the pocket; or, not `is_over`, what that has yielded, and
    `at`: how many items came before. `values`: one for each return, or the actor, by home's name; `objects`: what they
    refer to, as of `Work`, and `data`: the bytes of those that are large."""

    pocket: Number
    number: Number
    failed: bool
    values: list[Given]
    objects: list[Given]
    data: list[bytes]
    at: Number = 0
    is_over: bool = True


Piece = Begun | Output | Yielded | Called | Uncalled | Reads | Kill
"""Of the news of a task that runs."""
SOON = (Yielded, Called, Uncalled, Reads, Kill)  # what of it is told at once


class Done(Struct, frozen=True, array_like=True):
    """A task has ended. `values`: its results; `made`: what they refer to and the pocket has made, by slot and
    generation there, inner ones first. Its process, and how long it ran there in microseconds. `news`: what
    it has printed and yielded, as far as no `Progress` has said so; `at`: how many came before, of this `run`.
    `actor`: what the pocket calls the one that it has constructed; `saved`: which of `made` its actor has saved last;
    `kept`: what that was given and refers to beyond this call;
    `gone`: of what it has made, what it does not refer to any more: all others it may name again. `turn`: how often the
    pocket has told of such things before. `unanswered`: of an actor, as of `Progress`: what other answers have brought
    is among `kept`, if it is."""

    failed: bool
    values: list[Given]
    made: list[Given]
    pid: int
    ran: int
    run: int = 0
    at: int = 0
    news: list[Piece] = []
    actor: Key | None = None
    saved: Key | None = None
    kept: list[Key] = []
    gone: list[Key] = []
    turn: int = 0
    unanswered: list[int] = []


class Outcomes(Struct, frozen=True, array_like=True):
    """What becomes of tasks of one parcel, by their numbers. `ended`: as of a single one; `back`: they have not begun,
    and will not. What has been said may be said again."""

    ended: list[tuple[int, Done]]
    back: list[int]


class Progress(Struct, frozen=True, array_like=True):
    """News of a task that runs. `number`: the task's; `run`: another one each time that it is begun; `at`: how many of
    its news came before; what has been said may be said again. `taken`: of a generator, how many items its reader has
    taken, or `CLOSED`, as far as its pocket knows; -1: it is none. `others`: of its parcel. `unanswered`: calls that
    the pocket has made and has no answer to, by their numbers, and how many items of each have come; said now and
    then."""

    number: int
    run: int
    at: int
    news: list[Piece]
    taken: int = -1
    others: Outcomes | None = None
    unanswered: dict[int, int] | None = None


def with_places(news: Sequence[tuple[Piece, Sequence[Large]]], large: list[Large]) -> list[Piece]:
    """News with the large values of each: those go to the end of `large`, and their places are those there."""
    placed: list[Piece] = []
    for piece, values in news:
        if isinstance(piece, Yielded | Called) and values:
            if isinstance(piece, Yielded):
                piece = replace(piece, values=_moved(piece.values, len(large)))
            piece = replace(piece, made=_moved(piece.made, len(large)))
            large += values
        placed.append(piece)
    return placed


def places_of(piece: Piece) -> list[int]:
    """The places of the large values of a piece of news."""
    values = piece.values if isinstance(piece, Yielded) else []
    made = piece.made if isinstance(piece, Yielded | Called) else []
    return [given.blob for given in (*values, *made) if given.blob >= 0]


def _moved(objects: Sequence[Given], by: int) -> list[Given]:
    return [replace(given, blob=given.blob + by) if given.blob >= 0 else given for given in objects]


encode: Callable[[Any], bytes] = msgpack.Encoder().encode
decode_work: Callable[[Any], Work] = msgpack.Decoder(Work).decode
decode_done: Callable[[Any], Done] = msgpack.Decoder(Done).decode
decode_outcomes: Callable[[Any], Outcomes] = msgpack.Decoder(Outcomes).decode
decode_progress: Callable[[Any], Progress] = msgpack.Decoder(Progress).decode
decode_said: Callable[[Any], Taken | Cancel | Answered] = msgpack.Decoder(Taken | Cancel | Answered).decode
