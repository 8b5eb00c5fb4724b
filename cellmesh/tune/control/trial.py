"""One trial: its states, and its process.

                    launch                    end
       PENDING ----------------> RUNNING ----------------> TERMINATED
          ^  ^                    |  |  |
          |  +---- again ---------+  |  +---- fail -----> ERROR
          |                          | pause
          +-------- resume ------- PAUSED

The state is what has been decided, and changes at once. The process follows: it hears of a decision at its next report,
and ends some time after. A trial may end, fail and be paused in every state that is not its last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any

from ..records import Saved


class State(StrEnum):
    """What has been decided of a trial."""

    PENDING = "PENDING"  # is to run, and waits for room; its number is in `Controller.waiting`
    RUNNING = "RUNNING"  # an attempt is under way
    PAUSED = "PAUSED"  # waits until it is resumed
    TERMINATED = "TERMINATED"  # has ended by itself, or was stopped
    ERROR = "ERROR"  # has failed once more than it may


class Process(Enum):
    """What the process of a trial does."""

    NONE = "none"
    WORKS = "works"  # between two reports
    WAITS = "waits"  # inside a report, for the answer: its memory is held, its share of the machine is not
    LEAVES = "leaves"  # has been told to end, or will be at its next report; what it still reports is not heard


# Members by themselves: in Python 3.11 looking one up in its class takes 0.1 us, which is much of a report's time.
PENDING, RUNNING, PAUSED, TERMINATED, ERROR = State
NONE, WORKS, WAITS, LEAVES = Process

TRANSITIONS: dict[tuple[State, str], State] = {
    (PENDING, "launch"): RUNNING,
    (PENDING, "pause"): PAUSED,
    (PENDING, "end"): TERMINATED,
    (PENDING, "fail"): ERROR,
    (RUNNING, "pause"): PAUSED,
    (RUNNING, "again"): PENDING,
    (RUNNING, "end"): TERMINATED,
    (RUNNING, "fail"): ERROR,
    (PAUSED, "resume"): PENDING,
    (PAUSED, "end"): TERMINATED,
    (PAUSED, "fail"): ERROR,
    # Another controller goes on with an experiment that was stopped, or whose failed trials are to be tried again.
    (TERMINATED, "reopen"): PENDING,
    (ERROR, "reopen"): PENDING,
}
LAST = TERMINATED, ERROR


class ForbiddenTransition(Exception):
    """Our bug: the table has no such transition. The trial is untouched."""


def next_state(state: State, event: str) -> State:
    """The state after `event`; `ForbiddenTransition` if the table has none."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ForbiddenTransition(f"a trial that is {state.value} has no {event!r}") from None


@dataclass(slots=True, eq=False)
class Trial:
    """A configuration, and what has become of it."""

    number: int
    config: Any  # opaque to the controller
    code: bytes = b""  # the configuration as it was suggested, pickled, if a journal loses some of it
    resources: dict[str, Any] | None = None  # what it takes; None: what all take
    n_overtaken: int = 0  # trials that have begun before it as there was no room for it
    state: State = PENDING
    why: str = ""  # it is in this state
    paused_by: str = ""  # "scheduler" or "user"; who resumes must be the same
    process: Process = NONE
    attempt: int = 0  # of this process, or of the last one; 0: none has begun
    n_failures: int = 0
    failed_at: int = -1  # its iteration when it failed last
    n_ignored: int = 0  # reports of this process after it was told to end
    last: dict[str, Any] | None = None  # the latest result
    ran_with: Any = None  # the configuration of its latest attempt
    is_changed: bool = False  # its configuration is not what was suggested
    is_cut: bool = False  # it ended because the experiment did
    has_metric: bool = False  # some result had the metric
    checkpoint: Saved | None = None  # from which its next process goes on
    saved: list[tuple[Saved, float | None]] = field(default_factory=list)  # on disk, oldest first; with their scores

    @property
    def is_over(self) -> bool:
        return self.state in LAST

    @property
    def iteration(self) -> int:
        """How far it is by its latest result."""
        return (self.last or {}).get("training_iteration", 0)

    @property
    def is_held(self) -> bool:
        """Whether its process waits without counting against the capacity."""
        return self.process is WAITS and self.state is not RUNNING

    @property
    def is_busy(self) -> bool:
        """Whether its process uses its share of the machine."""
        return self.process is not NONE and not self.is_held
