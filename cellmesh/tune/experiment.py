"""A handle on an experiment that runs, or has run: look at it, stop it, wait for it, go on with it."""

from __future__ import annotations

import os
import shutil
import threading
import weakref
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeVar

from .. import front_end
from ..api import get_actor
from ..exceptions import ActorError, SessionError
from ..objects import get
from ..text import closest, warn_user
from ..tracebacks import with_readable_place
from . import journal
from .control.trial import LAST
from .exceptions import ExperimentNotFoundError, TuneError, TuneWarning
from .journal import Following
from .results import ResultGrid
from .view import ExperimentView

if TYPE_CHECKING:
    from ..refs import ObjectRef
    from ..submit.actor import ActorHandle

T = TypeVar("T")
NAMESPACE = "cellmesh.tune"  # of the controllers' names

_handles: dict[int, weakref.ref[Experiment]] = {}  # by id, in the order in which they were made


def living() -> list[Experiment]:
    """The handles that this process has, oldest first; from any thread."""
    handles = [handle() for handle in list(_handles.values())]
    return [handle for handle in handles if handle is not None]


class Experiment(ResultGrid):
    """An experiment: its results as they come, and what can be done with it.

    Reading needs its folder alone, so it works while the experiment runs and after it, from any process of this
    machine.
    """

    def __init__(self, folder: Path, host: ActorHandle[Any] | None = None) -> None:
        self.following: Following = Following(folder)
        super().__init__(self.following.view, folder)
        self._host = host
        key = id(self)
        _handles[key] = weakref.ref(self, lambda _: _handles.pop(key, None))
        self._over: ObjectRef[str] | None = None  # the controller's answer to `wait`, asked for once
        self._n_told = 0
        self._failures: dict[int, list[ObjectRef[Any]]] = {}  # of the controller, when it was left
        self._lock = threading.RLock()  # of leaving: a display looks from a thread of its own

    def __reduce__(self) -> tuple[Any, ...]:
        return Experiment, (self._folder, self._host)

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self._folder.name

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._look().is_over

    @property
    def is_attended(self) -> bool:
        """Whether a controller runs it."""
        return not self.is_over and self._attended_by() is not None

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self._folder

    @property
    def size_bytes(self) -> int:
        """Of its journal, which grows with everything that happens; 0 if it has been deleted."""
        try:
            return (self._folder / journal.FILE).stat().st_size
        except FileNotFoundError:
            return 0

    @property
    def is_run(self) -> bool:
        """Whether a controller writes its journal, whoever has started it."""
        return self.size_bytes > 0 and journal.is_written(self._folder)

    def refresh(self) -> ExperimentView:
        """Read what has happened since."""
        return self.following.refresh()

    def look(self, at: Callable[[ExperimentView], T]) -> T:
        """What a function makes of the experiment as it is now, while no other thread reads on."""
        return self.following.look(at)

    def _look(self) -> ExperimentView:
        try:
            return self.refresh()
        except FileNotFoundError:  # it is deleted: what was read of it stays
            return self._view

    def _attended_by(self) -> ActorHandle[Any] | None:
        """Its controller, looked for when it is needed: to read, no session has to run."""
        if self._host is None and journal.is_written(self._folder):
            self._host = controller_of(self._folder)
        return self._host

    # ---- while it runs
    def wait(self, timeout: float | None = None) -> Experiment:
        """Wait until it is over; returns itself. Ctrl-C ends the wait, not the experiment.

        Raises
        ------
        GetTimeoutError
            It is not over in time.
        TuneError
            It could not go on, or its controller has died; what it has found is there.
        """
        if (host := self._attended_by()) is None:
            if not self.is_over:
                raise self._unattended("wait for")
            return self
        try:
            over = self._over
            if over is None:
                with front_end.current.submitting_for(self.name):
                    over = self._over = host.wait.remote()
            failed = get(over, timeout=timeout)
        except ActorError as error:
            if self.refresh().is_over:  # it has left since
                failed = self._view.why if self._view.is_failed else ""
            else:
                raise self._died(error) from None
        self.leave()
        self.refresh()
        front_end.current.experiment_ended(self)
        for text in self.tell():
            warn_user(f"{self.name}: {text}", TuneWarning)
        if failed:
            raise TuneError(f"{self.name!r} could not go on: {with_readable_place(failed)}")
        return self

    def tell(self) -> list[str]:
        """What the controller has to tell and has not been shown yet."""
        new, self._n_told = self._view.told[self._n_told :], len(self._view.told)
        return new

    def stop(self, trial: int | None = None, why: str = "") -> None:
        """End a trial, or everything; what has been reported is kept."""
        self._ask("stop", trial, why)

    def pause(self, trial: int | None = None) -> None:
        """Pause a trial, or all that there are, until `resume`; `TuneError` if it has ended."""
        self._ask("pause", trial, "")

    def resume(self, trial: int | None = None) -> None:
        """Let what `pause` paused go on; `TuneError` if it has ended."""
        self._ask("resume", trial, "")

    def ref(self, trial: int) -> ObjectRef[Any] | None:
        """The ref of the trial's latest attempt, for `%inspect`; None if this controller has not run it, or if the
        experiment is over and the trial had not failed.
        """
        found = self._failures.get(trial, [])
        if not found and (host := self._attended_by()) is not None:
            try:
                with front_end.current.submitting_for(self.name):
                    found = get(host.ref.remote(trial))
            except ActorError:  # it has left, or died
                self._host = None
        return found[0] if found else None

    def exception(self, trial: int) -> Exception | None:
        """What the trial's latest attempt raised, as an object; None if it raised nothing, or this controller has not
        run it.
        """
        ref = self.ref(trial)
        if ref is None:
            return None
        try:
            get(ref)
        except Exception as error:  # whatever the user's function raised
            return error
        return None

    def export(self, kind: str, path: str | Path) -> None:
        """Write what trials have reported so far in a format that others read; nothing is written unasked.

        Parameters
        ----------
        kind : str
            "csv" (`TRIAL/progress.csv`), "json" (`TRIAL/result.json`, a line for each result) or "tensorboard" (event
            files; needs tensorboardX).
        path : str or Path
            The folder, which is made if it is not there.

        Raises
        ------
        ValueError
            There is no such format.
        ModuleNotFoundError
            The format needs a package that is not installed.
        """
        from .loggers import make
        from .loggers.replay import Replay

        logger = make(kind, path)
        replay = Replay(self._folder, [logger])
        replay.advance()
        if not replay.view.is_over:
            logger.on_experiment_end(replay.trials())

    def _ask(self, what: Literal["stop", "pause", "resume"], trial: int | None, why: str) -> None:
        if trial is not None and not isinstance(trial, SupportsIndex):
            raise TypeError(f"{what}(trial={trial!r}): a trial is told by its number, 0 to {len(self) - 1}")
        if trial is not None and not 0 <= trial < len(self):
            raise IndexError(f"{what}(trial={trial}): the experiment has trials 0 to {len(self) - 1}")
        is_over = self.is_over
        if what != "stop":
            self._check_goes_on(what, trial, is_over)
        if is_over:
            return
        if (host := self._attended_by()) is None:
            raise self._unattended(what)
        try:
            with front_end.current.submitting_for(self.name):
                get(host.ask.remote(what, -1 if trial is None else trial, why))
        except ActorError as error:
            if not self.is_over:
                raise self._died(error) from None

    def leave(self) -> None:
        """Let the controller's process end, once the experiment is over."""
        with self._lock:
            host, self._host = self._host, None
            if host is None:
                return
            try:
                self._failures = get(host.failures.remote())
                host.leave.remote()
            except (ActorError, SessionError):  # somebody else has had it leave
                pass

    def _check_goes_on(self, what: str, trial: int | None, is_over: bool) -> None:
        """Only what has not ended can be paused, and go on after a pause."""
        if is_over:
            raise TuneError(
                f"the experiment {self.name!r} is over, so there is nothing to {what}: tune.resume({self.name!r}, "
                'errored="restart") tries its failed trials again'
            )
        if trial is not None and (state := self[trial].state) in LAST:
            raise TuneError(f"trial {trial} of {self.name!r} has ended ({state}), so there is nothing to {what}")

    # ---- display
    def _ipython_display_(self) -> None:
        if front_end.current.shows_experiments:
            front_end.current.display_experiment(self)
        else:
            print(repr(self))

    def __repr__(self) -> str:
        return super().__repr__() if self.size_bytes else super().__repr__()[:-1] + ", deleted>"

    def _unattended(self, what: str) -> TuneError:
        if not self.size_bytes:
            return TuneError(f"the experiment {self.name!r} has been deleted, so there is nothing to {what}")
        if journal.is_written(self._folder):
            return TuneError(
                f"another session runs the experiment {self.name!r}, so this one cannot {what} it: join that one "
                "first, cellmesh.init(its address); `cellmesh status` lists the sessions"
            )
        return TuneError(
            f"nobody runs the experiment {self.name!r}, so there is nothing to {what}: tune.resume({self.name!r}) goes "
            "on with it"
        )

    def _died(self, error: ActorError) -> TuneError:
        self._host = None
        return TuneError(
            f"the controller of {self.name!r} has died: {error}. What it has found is kept: "
            f"tune.resume({self.name!r}) goes on with it"
        )


elsewhere: dict[str, Path] = {}  # of each name, where the latest lies that this process has begun, if not as usual


def folder_of(name: str, storage_path: str | None) -> Path:
    """Where the experiment of that name lies."""
    storage = Path(storage_path).expanduser() if storage_path else journal.default_storage()
    return storage.absolute() / name


def controller_name(folder: Path) -> str:
    """The name of the actor that runs the experiment; folders of one name lie in several places."""
    return f"{folder.name} {zlib.crc32(os.fsencode(folder)):08x}"


def remember(folder: Path) -> None:
    """This process has begun the experiment there."""
    if folder.parent == journal.default_storage().absolute():
        elsewhere.pop(folder.name, None)
    else:
        elsewhere[folder.name] = folder


def attach(name: str, storage_path: str | None = None) -> Experiment:
    """The experiment of that name, which runs or has run.

    Parameters
    ----------
    name : str
    storage_path : str, optional
        The folder in which experiments lie, if it is not the usual one and this process has not begun it.

    Raises
    ------
    ExperimentNotFoundError
        There is none.
    """
    folder = existing(name, storage_path)
    return Experiment(folder)


def controller_of(folder: Path) -> ActorHandle[Any] | None:
    """The controller of an experiment, if this session has it."""
    try:
        return get_actor(controller_name(folder), namespace=NAMESPACE)
    except ValueError:
        return None


def existing(name: str, storage_path: str | None) -> Path:
    """The folder of an experiment that is there."""
    usual = folder_of(name, storage_path)
    for folder in [elsewhere[name], usual] if not storage_path and name in elsewhere else [usual]:
        if journal.first_record(folder) is not None:
            return folder
    others = [found["name"] for found in experiments(storage_path)]
    hint = f"; did you mean {close!r}?" if (close := closest(name, others)) else ""
    known = f"there are {', '.join(map(repr, others[:10]))}" if others else "there are none"
    raise ExperimentNotFoundError(f"no experiment {name!r} lies in {usual.parent}: {known}{hint}")


def experiments(storage_path: str | None = None) -> list[dict[str, Any]]:
    """The experiments that lie in a folder, the latest first: name, when it began, whether it is over, path. Without a
    folder those in the usual one, and those that this process has begun elsewhere.
    """
    storage = folder_of("x", storage_path).parent
    found = []
    for folder in [*(storage.iterdir() if storage.is_dir() else ()), *(elsewhere.values() if not storage_path else ())]:
        try:
            record = journal.first_record(folder)
        except TuneError:
            continue  # no journal of ours, or a newer one
        if record is not None:
            over = journal.has_closed(folder)
            found.append({"name": folder.name, "began_at": record.at, "is_over": over, "path": str(folder)})
    return sorted(found, key=lambda one: -one["began_at"])


def delete(name: str, storage_path: str | None = None) -> None:
    """Delete an experiment with its checkpoints.

    Raises
    ------
    ExperimentNotFoundError
        There is none.
    ExperimentBusyError
        It runs.
    """
    folder = existing(name, storage_path)
    journal.Writer(folder).close()  # raises if somebody writes
    shutil.rmtree(folder)
