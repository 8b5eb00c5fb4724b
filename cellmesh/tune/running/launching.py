"""How an experiment's controller is started, and what its trials run."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ... import front_end
from ...api import get_runtime_context, kill, remote
from ...errors.serializability import inspect_serializability
from ...exceptions import ActorAlreadyExistsError, ActorDiedError, ActorError, GetTimeoutError
from ...objects import get
from ...objstore import code_pickles
from ...util.preloading import preload
from .. import journal
from ..control.room import capacity, in_words
from ..exceptions import ExperimentBusyError, TuneError
from ..experiment import NAMESPACE, Experiment, controller_name, controller_of, remember
from ..records import Definition
from ..trainable import run_trial
from .attempts import task_options
from .host import Host, machines
from .opening import Opening

if TYPE_CHECKING:
    from ...submit.actor import ActorHandle
    from ...submit.remote_function import RemoteFunction

ENDS_WITHIN_S = 0.2  # an experiment that is interrupted, if its trials let it


def task_of(trainable: Callable[..., Any] | bytes, definition: Definition, name: str) -> RemoteFunction[..., Any, Any]:
    """The remote function of an attempt at a trial. `trainable`: bytes are opened by the trial alone."""
    run = functools.partial(run_trial, trainable, definition.checkpoint_frequency, definition.checkpoint_at_end)
    options = {} if definition.resources is False else task_options(definition.resources)
    return remote(max_retries=0, name=name, **options)(run)


def launch(opening: Opening, detached: bool | None, verbose: int = 1) -> Experiment:
    """Start the controller. `detached` None: as is usual where a person looks.

    Raises
    ------
    ExperimentBusyError
        The experiment has one.
    """
    folder = Path(opening.folder)
    if detached is None:
        detached = front_end.current.detaches_experiments
    options: dict[str, Any] = {"lifetime": "detached"} if detached else {}
    actor: Any = remote(num_cpus=0, max_concurrency=100_000)(Host)
    make: Any = actor.options(name=controller_name(folder), namespace=NAMESPACE, **options).remote
    experiment: Experiment | None = None
    try:
        with front_end.current.submitting_for(folder.name, begins=True):
            host = _begun(make, opening, folder)
            experiment = Experiment(folder, host)
        remember(folder)
        preload(Host.__module__, "asyncio", run_trial.__module__, *opening.search.modules)  # for those that follow
        front_end.current.experiment_started(experiment)
    except KeyboardInterrupt:
        if experiment is not None:  # nobody has it yet who could stop it
            stop_interrupted(experiment, verbose)
        raise
    return experiment


def _begun(make: Callable[[Opening], ActorHandle[Any]], opening: Opening, folder: Path) -> ActorHandle[Any]:
    """The controller, which has begun the experiment."""
    try:
        host = make(opening)
    except ActorAlreadyExistsError:
        have_leave(folder)
        host = make(opening)
    except TypeError:
        for part in ("space", "scheduler", "search", "stopper", "resources", "callbacks"):
            if not (found := inspect_serializability(getattr(opening, part), part)):
                raise TypeError(f"the experiment cannot be sent to its controller: {found}") from None
        raise
    try:
        get(host.begin.remote())
    except BaseException as error:
        kill(host)
        if isinstance(error, ActorDiedError) and isinstance(error.cause, ExperimentBusyError):
            raise journal.busy(folder) from None
        if isinstance(error, ActorDiedError) and isinstance(error.cause, Exception):
            raise error.cause from None  # what the scheduler or the searcher does not take
        raise
    return host


def stop_interrupted(experiment: Experiment, verbose: int) -> None:
    """Ctrl-C, or the stop button, ends an experiment that somebody waits for."""
    experiment.stop(why="interrupted")
    try:
        experiment.wait(ENDS_WITHIN_S)
    except GetTimeoutError:
        pass  # a trial that cannot be interrupted; what has been reported is kept all the same
    if verbose:
        name = experiment.name
        print(f"{name} has been stopped. What it has found is kept: tune.attach({name!r})", file=sys.stderr)


def have_leave(folder: Path) -> None:
    """Have a controller leave that lingers after the end of its experiment.

    Raises
    ------
    ExperimentBusyError
        It is not over.
    """
    old = controller_of(folder)
    try:
        if old is not None:
            get(old.leave.remote())
            raise journal.busy(folder)
    except ActorError:  # it has left
        pass


def check_budget(time_budget_s: float) -> None:
    """`ValueError` if it is none."""
    if not time_budget_s > 0:
        raise ValueError(f"time_budget_s={time_budget_s}: it is more than 0 seconds")


def check_room(resources: Mapping[str, Any] | Literal[False]) -> None:
    """`TuneError` if no machine can ever run a trial. Trials that take their own (False) are looked at one by one."""
    get_runtime_context()  # which starts a session where there is none
    if resources is not False and not capacity(resources, machines(), 1):
        raise TuneError(
            f"no machine has what a trial takes, {in_words(resources)}: ask for less, or start the session with more "
            "(cellmesh.cluster_resources() says what there is)"
        )


def pickled(trainable: Any) -> bytes:
    """The trainable, for a resume that is not given it.

    Raises
    ------
    TypeError
        It cannot be pickled; the message names what in it cannot.
    """
    try:
        return code_pickles.dumps(trainable)
    except Exception as error:  # whatever a part of it raises
        name = getattr(trainable, "__name__", type(trainable).__name__)
        found = inspect_serializability(trainable, name)
        raise TypeError(f"the trainable {name} cannot be sent to its trials: {error}\n{found}") from error
