"""What shows a session to a person: a program's terminal, or a notebook. One object decides all of it.

`current` is that object. A program has a `Program`, which prints; the kernel extension puts its own in place and
restores the one it found. Modules below ask `front_end.current` at the moment of use and keep no copy. `dialect` is the
second such object: what a library whose names we provide (`compat.ray`) changes about errors and calls.

A leaf: this module imports no other module of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from .objstore._core import Ref
    from .observe.learning import LearningRun
    from .session.session import Session
    from .tune.experiment import Experiment

# Each prints what has arrived of tasks' output; the argument is the number of the task whose error is shown next, or 0.
printers: list[Callable[[int], object]] = []


def as_written(line: str) -> str:
    """Lines are equal that are the same."""
    return line


def more_on_workers(name: str, pid: int, line: str, count: int, n_workers: int) -> tuple[str, str]:
    """How `count` more lines equal to one are told, the last of them `line` of process `pid`: who, and what."""
    workers = f"on {n_workers} workers" if n_workers > 1 else "on one worker"
    return f"({name}, {count} more {workers})", line


class Folding(NamedTuple):
    """Which lines of different tasks are equal, those for which `key` is, and how that is told."""

    key: Callable[[str], object] = as_written
    tell: Callable[[str, int, str, int, int], tuple[str, str]] = more_on_workers


class FrontEnd(Protocol):
    """What the modules of this package ask of the place where a person looks.

    Attributes
    ----------
    keep_frames : bool
        Whether tasks keep the frames of their failures: in a driver what the user wants, in a worker what it does.
    folding : Folding
        How equal lines of several tasks become one.
    shows_experiments : bool
        Whether `display_experiment` shows anything.
    detaches_experiments : bool
        Whether experiments that are started go on when this process ends, unless something else is asked for.
    """

    keep_frames: bool
    folding: Folding

    @property
    def shows_experiments(self) -> bool: ...

    @property
    def detaches_experiments(self) -> bool: ...

    def session_started(self, session: Session) -> None:
        """A driver's session has begun; nothing has been submitted yet."""
        ...

    def takes_output(self, session: Session) -> bool:
        """A driver's session prints to the driver from now on. True: the front end shows it, and nobody else does."""
        ...

    def label_of(self, name: str, origin: int) -> str:
        """What stands before a line that a task prints, by the task's name and its cell."""
        ...

    def before_error(self, task: int) -> None:
        """An error of that task, or (0) of another kind, is shown next: what was printed before comes first."""
        ...

    def inputs_in_words(self, task: int, name: str) -> str:
        """A sentence about what a failed task was given, "" if that is not known."""
        ...

    def spell_option(self, option: str, name: str, origin: int) -> str:
        """How the user writes an option where the task of that name and origin was submitted."""
        ...

    def display_ref(self, ref: Ref) -> Any:
        """The MIME bundle of a ref, None if it has only its repr."""
        ...

    def held(self) -> Iterable[tuple[str, Any]]:
        """The refs, or values with refs in them, that it holds itself, and by what, in words."""
        ...

    def live_display(self, display_id: str) -> Callable[[dict[str, Any]], None] | None:
        """A function that shows a bundle, and updates it from the second call on, from any thread; None: there is
        none.
        """
        ...

    def submitting_for(self, experiment: str, begins: bool = False) -> AbstractContextManager[None]:
        """What is submitted inside belongs to the experiment of that name, which begins now or has before, and not to
        the cell that runs.
        """
        ...

    def experiment_started(self, experiment: Experiment) -> None:
        """An experiment has begun, or goes on."""
        ...

    def experiment_ended(self, experiment: Experiment) -> None:
        """Somebody has waited for the end of an experiment, and it has come."""
        ...

    def display_experiment(self, experiment: Experiment) -> None:
        """Show an experiment here, and what becomes of it."""
        ...

    def learning_changed(self, run: LearningRun) -> None:
        """A run of learning has begun, has a new result, or is over. Called after every iteration: it returns soon."""
        ...

    def display_learning(self, run: LearningRun) -> bool:
        """Show a run of learning here, and what becomes of it; False: nothing is shown."""
        ...


class Program:
    """The front end of a program, and of a worker: text on stdout and stderr."""

    keep_frames: bool = False
    folding: Folding = Folding()

    @property
    def shows_experiments(self) -> bool:
        """No: who waits for one draws a line on stderr."""
        return False

    @property
    def detaches_experiments(self) -> bool:
        """No: what a program begins ends with it."""
        return False

    def session_started(self, session: Session) -> None:
        """See `FrontEnd`."""

    def takes_output(self, session: Session) -> bool:
        """See `FrontEnd`."""
        return False

    def label_of(self, name: str, origin: int) -> str:
        """The task's name."""
        return name

    def before_error(self, task: int) -> None:
        """Print what has arrived."""
        for show in list(printers):
            show(task)

    def inputs_in_words(self, task: int, name: str) -> str:
        """Nothing: a program keeps no inputs."""
        return ""

    def spell_option(self, option: str, name: str, origin: int) -> str:
        """As the option of a decorator or of `options()`."""
        return f"option {option}"

    def display_ref(self, ref: Ref) -> Any:
        """None: its repr."""

    def held(self) -> Iterable[tuple[str, Any]]:
        """None: a program shows no refs."""
        return ()

    def live_display(self, display_id: str) -> Callable[[dict[str, Any]], None] | None:
        """None: progress is drawn on stderr."""

    def submitting_for(self, experiment: str, begins: bool = False) -> AbstractContextManager[None]:
        """A program has no cells."""
        return nullcontext()

    def experiment_started(self, experiment: Experiment) -> None:
        """See `FrontEnd`."""

    def experiment_ended(self, experiment: Experiment) -> None:
        """See `FrontEnd`."""

    def display_experiment(self, experiment: Experiment) -> None:
        """Nothing: its repr."""

    def learning_changed(self, run: LearningRun) -> None:
        """Nothing: who trains has the results."""

    def display_learning(self, run: LearningRun) -> bool:
        """Nothing: its repr."""
        return False


class Dialect:
    """What another library's names over ours change; this one changes nothing.

    Attributes
    ----------
    refuses_while_restarting : bool
        Whether a call of an actor that restarts fails at once.
    readonly : bool
        Whether tasks and actors get read-only arrays, unless their options say otherwise.
    """

    refuses_while_restarting: bool = False
    readonly: bool = False

    def adapted(self, record: tuple[Any, ...], error: BaseException) -> BaseException:
        """The error that `get` raises, by the record that it was made of."""
        return error


current: FrontEnd = Program()
dialect: Dialect = Dialect()
