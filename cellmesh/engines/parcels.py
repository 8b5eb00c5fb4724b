"""What goes into a worker of an engine and comes out: a task with all that it refers to, and what it has made.

Objects are called by slot and generation, as where they are known: at home, or in the engine's process, which has
generations from `OWN` on. So a pocket that has run a task knows the function of the next one. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, msgpack

from ..scheduler.cluster.messages import Begun, Generation, Output, Slot, Task, Value

OWN = 1 << 31  # generations of objects that the engine has: a slot at home is not used so often
Key = tuple[int, int]


class Given(Struct, frozen=True, array_like=True):
    """An object. `blob`: the place of its bytes beside the parcel, if they are not in the value; -1: they are."""

    slot: Slot
    generation: Generation
    value: Value
    blob: int = -1


class Work(Struct, frozen=True, array_like=True):
    """A task for a pocket. `objects`: all that it refers to; what is referred to by another one comes before that."""

    session: str
    namespace: str
    task: Task
    objects: list[Given]


class Done(Struct, frozen=True, array_like=True):
    """A task has ended. `values`: its results; `made`: what they refer to and the pocket has made, by slot and
    generation there, inner ones first. Its process, and how long it ran there in microseconds. `news`: what
    it has printed, as far as no `Progress` has said so; `at`: how many came before, of this `run`. `actor`: what the
    pocket calls the one that it has constructed; `saved`: which of `made` its actor has saved last;
    `kept`: what that was given and refers to beyond this call;
    `gone`: of what it has made, what it does not refer to any more: all others it may name again."""

    failed: bool
    values: list[Given]
    made: list[Given]
    pid: int
    ran: int
    run: int = 0
    at: int = 0
    news: list[Begun | Output] = []
    actor: Key | None = None
    saved: Key | None = None
    kept: list[Key] = []
    gone: list[Key] = []


class Progress(Struct, frozen=True, array_like=True):
    """News of a task that runs. `number`: the task's; `run`: another one each time that it is begun; `at`: how many of
    its news came before; what has been said may be said again."""

    number: int
    run: int
    at: int
    news: list[Begun | Output]


encode: Callable[[Any], bytes] = msgpack.Encoder().encode
decode_work: Callable[[Any], Work] = msgpack.Decoder(Work).decode
decode_done: Callable[[Any], Done] = msgpack.Decoder(Done).decode
decode_progress: Callable[[Any], Progress] = msgpack.Decoder(Progress).decode
