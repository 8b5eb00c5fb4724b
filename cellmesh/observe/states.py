"""What states are called, everywhere: listings and their filters, cards, the panel, the command line.

    waiting --inputs are there--> queued --a worker takes it--> running --> finished, failed
                                     ^                            |
                                 retrying <---an attempt is lost--+          any of them --> cancelled

What is said of objects, processes and machines has few words of its own, below.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from ..objstore._core import ACTOR_STATES, OBJECT_STATES
from ..text import closest

if TYPE_CHECKING:
    from ..objstore._core import Client


class State(IntEnum):
    """A task's state; its number is the one that the panel is sent."""

    WAITING = 0
    QUEUED = 1
    RUNNING = 2
    FINISHED = 3
    FAILED = 4
    CANCELLED = 5
    RETRYING = 6

    @property
    def word(self) -> str:
        return self.name.lower()


MEANING = {
    State.WAITING: "for what it depends on",
    State.QUEUED: "nothing is missing but a free worker",
    State.RUNNING: "a worker has it",
    State.FINISHED: "it has returned",
    State.FAILED: "it has raised, or could not be run",
    State.CANCELLED: "somebody has cancelled it",
    State.RETRYING: "an attempt was lost, the next one is queued",
}

# What more is known of a task, beside its state: in the column `detail` of listings.
DETAILS = {
    "sent": (State.QUEUED, "it was sent to another machine, and has not begun there as far as is known"),
    "blocked": (State.RUNNING, "it sleeps in get() or wait(), and others may have its CPUs"),
    "crashed": (State.FAILED, "its process has ended under it"),
}


class Kind(IntEnum):
    """What a row of the task graph and of a recording is."""

    TASK = 0
    ACTOR_CREATION = 1
    ACTOR_CALL = 2
    OBJECT = 3  # made by put

    @property
    def word(self) -> str:
        return self.name.lower()


UNKNOWN = "?"  # the name of a task whose function object has gone

TASKS = tuple(state.word for state in State)
KINDS = tuple(kind.word for kind in Kind)
ACTORS, OBJECTS = ACTOR_STATES, OBJECT_STATES
WORKERS = ("starting", "idle", "busy", "blocked", "actor", "attached")
JOBS = ("running", "ended", "lost")
NODES = ("alive", "draining", "dead")
LINES = ("", "connected", "slow", "broken", "lost")  # to an engine, see `EngineState`; "": to none, or a former one
PLACES = ("memory", "shared", "disk", "slot")  # where an object's value lies; in its slot there are no bytes of its own
PLACEMENT_GROUPS = ("pending", "reserved", "removed")


def in_listing(word: str) -> tuple[str, str]:
    """State and detail for what a session's tables say of a task: 'blocked' -> ('running', 'blocked')."""
    return (DETAILS[word][0].word, word) if word in DETAILS else (word, "")


def counted(client: Client) -> Counter[str]:
    """How many of a session's unfinished tasks are in each state."""
    counts: Counter[str] = Counter()
    for (_, word), n in client.count_tasks().items():
        counts[in_listing(word)[0]] += n
    return counts


def what_there_is(asked: object, known: Sequence[str]) -> str:
    """The sentence about a state that there is not, among those known."""
    hint = ""
    if known is TASKS and asked in DETAILS:
        hint = f"; {asked!r} is a detail of {DETAILS[str(asked)][0].word!r}: ('detail', '=', {asked!r})"
    elif known is TASKS and asked == "ready":
        hint = "; a task for which nothing is missing but a worker is 'queued'"
    elif close := closest(asked, known):
        hint = f"; did you mean {close!r}?"
    return f"there is no state {asked!r}, there are {', '.join(known)}{hint}"
