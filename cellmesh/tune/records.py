"""The records of an experiment's journal, each of them also an event of its controller.

One line of JSON a record, in the order in which things happened. Whatever an experiment is, it is the fold of these:
the controller that goes on with it (`controller.py`) and whoever looks at it (`picture.py`) read the same file. `at` is
seconds since 1970 by the controller's clock, the only clock there is.

A value that JSON has no word for is marked (`values.py`). Nothing here is ever unpickled to read a journal: what a
configuration holds beyond JSON travels as opaque bytes to the trial that needs it.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

VERSION = 1  # of this format; a journal of a higher one is refused

Outcome = Literal["done", "stopped", "paused", "failed", "lost", "gone"]


class Record(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What all of them have."""

    at: float


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an experiment was defined with, as far as it is data: for people, and for `resume`.

    `space` is in the form of `space.to_json`. `search` is None, and `stop` and `resources` are False, for what cannot
    be kept.
    """

    trainable: str
    space: Any
    scheduler: dict[str, Any]
    search: dict[str, Any] | None
    stop: dict[str, float] | Literal[False] | None
    num_samples: int
    seed: int
    resources: dict[str, Any] | Literal[False]  # options of each trial's task; with `bundles` for several of them
    max_concurrent: int | None = None
    time_budget_s: float | None = None
    checkpoint_frequency: int = 0
    checkpoint_at_end: bool = False


class Opened(Record, frozen=True, tag="opened"):
    """The first record, and again the first of every controller that goes on with the experiment. `plan` is what the
    controller needs to know (`Plan`).
    """

    version: int
    name: str
    plan: dict[str, Any]
    definition: Definition
    errored: Literal["", "restart", "resume"] = ""  # what becomes of trials that have failed: begin again, or go on
    cellmesh: str = ""


class Suggested(Record, frozen=True, tag="trial"):
    """A trial exists. Trials are numbered 0, 1, 2, ... `code` is its configuration, pickled, where JSON loses some of
    it. `resources`: what it takes, where that depends on its configuration.
    """

    trial: int
    config: dict[str, Any]
    code: bytes = b""
    resources: dict[str, Any] | None = None


class NoneLeft(Record, frozen=True, tag="none left"):
    """No trial will be suggested any more; with `later`, none until another result is there."""

    later: bool = False


class Launched(Record, frozen=True, tag="launched"):
    """An attempt of a trial was submitted. For people: the controller that replays a journal launches nothing. `config`
    is there where the scheduler has changed what was suggested.
    """

    trial: int
    attempt: int
    checkpoint: str = ""
    config: dict[str, Any] | None = None


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """A checkpoint: a folder or file below the experiment's own folder, and how far the trial was."""

    path: str
    iteration: int
    time_total_s: float


class Reported(Record, frozen=True, tag="report"):
    """A trial reported. `result` is flat: "eval/loss" for what was {"eval": {"loss": ...}}. `waits`: it waits for the
    answer.
    """

    trial: int
    attempt: int
    result: dict[str, Any]
    checkpoint: Saved | None = None
    pid: int = 0
    node: str = ""


class Ended(Record, frozen=True, tag="end"):
    """An attempt is over: its function has returned (`done`), was told to stop or to pause, raised (`failed`), its
    process died (`lost`), or the machine that it ran on (`gone`). `error` is the text for people, `line` the user's
    line that raised.
    """

    trial: int
    attempt: int
    outcome: Outcome
    checkpoint: Saved | None = None
    error: str = ""
    line: str = ""


class Asked(Record, frozen=True, tag="asked"):
    """Somebody asked for something: `what` of one trial, or of all (-1)."""

    what: Literal["stop", "pause", "resume"]
    trial: int = -1
    why: str = ""
    failed: bool = False  # it is to end because it cannot go on


class Became(Record, frozen=True, tag="state"):
    """A trial is in another state now, and why. For people, like `Launched`: it follows from the others."""

    trial: int
    state: str
    why: str = ""


class Told(Record, frozen=True, tag="told"):
    """The user is told of something."""

    text: str


class Capacity(Record, frozen=True, tag="capacity"):
    """So many trials may run at a time from now on. `nodes`: what the machines have, where each trial takes its own."""

    n: int
    nodes: list[dict[str, float]] = []


class Closed(Record, frozen=True, tag="closed"):
    """The experiment has ended. Another `Opened` may follow."""

    why: str = ""
    failed: bool = False


AnyRecord: TypeAlias = (
    Opened | Suggested | NoneLeft | Launched | Reported | Ended | Asked | Became | Told | Capacity | Closed
)
Event: TypeAlias = Opened | Suggested | NoneLeft | Reported | Ended | Asked | Capacity  # what happens to a controller
