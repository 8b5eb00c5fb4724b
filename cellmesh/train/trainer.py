"""Trainers: a function that several ranks run together, as one training that reports, saves and goes on.

A training is an experiment of `cellmesh.tune` with one trial, whose task runs the ranks (`group.py`): so it has its
journal, its checkpoints, its restarts and its card, and a Tuner takes a trainer as it takes a function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..api import get_runtime_context
from ..objects import put
from ..objstore.annotations import get_signature
from ..refs import ObjectRef
from ..tune.control.room import capacity
from ..tune.experiment import Experiment
from ..tune.resources import options_of
from ..tune.results import Result
from ..tune.running.host import machines
from ..tune.tuner import CheckpointConfig, FailureConfig, RunConfig, Tuner
from ..util.preloading import preload
from .collective import MAX_RANKS
from .exceptions import TrainError, TrainingFailedError
from .group import run_group
from .rank import GroupPlan, RankInfo

LOOP_CONFIG = "train_loop_config"  # Ray's name for the part of a trial's configuration that is the function's argument
KINDS = {"cpu": "CPU", "gpu": "GPU", "memory": "memory"}


@dataclass
class ScalingConfig:
    """How many ranks, and with what.

    Attributes
    ----------
    num_workers : int, or (int, int)
        The ranks: 1 or more. Two numbers: as many as there is room for when the ranks begin, from the one to the other;
        when they are started again, after a failure, they may be others.
    use_gpu : bool
        Whether each has a GPU.
    resources_per_worker : dict, optional
        Of each rank: {"CPU": 2, "GPU": 1} and others by name; one CPU unless given.
    placement_strategy : str
        How ranks are spread over machines, as of `placement_group`; those that share memory are on one.
    """

    num_workers: int | tuple[int, int] = 1
    use_gpu: bool = False
    resources_per_worker: Mapping[str, float] | None = None
    placement_strategy: str = "PACK"


class Trainer:
    """Runs a function on several ranks of one machine, which share memory and have collectives on numpy arrays.

        def loop(config):
            comm = train.get_context().communicator
            ...
            comm.all_reduce(gradient, "avg")
            train.report(loss=loss)

        train.Trainer(loop, num_workers=2, config={"lr": 0.1}).fit()

    Parameters
    ----------
    train_loop_per_worker : callable
        The function: of the configuration, or without arguments where it takes none and none is given.
    train_loop_config, config : dict, optional
        The configuration; two names of one thing.
    scaling_config : ScalingConfig, optional
    num_workers : int, or (int, int), optional
    resources : dict, optional
        Of each rank; these two instead of a `ScalingConfig`.
    run_config : RunConfig, optional
        Of `cellmesh.tune`.
    name, storage_path, max_failures, num_to_keep, verbose : optional
        What stands in a `RunConfig`, by its name. `max_failures`: how often the ranks are started again, from the last
        checkpoint.
    if_exists : str
        What becomes of a training of the same name: "error", "replace", or "resume", which goes on with it.
    datasets : dict, optional
        By name: arrays, dicts of arrays, tables, sequences, or refs to them. They are stored once; a rank gets its part
        from `get_dataset_shard`.
    resume_from_checkpoint : Checkpoint, optional
        What `get_checkpoint` gives until the training has one of its own.

    Raises
    ------
    TypeError, ValueError
        An argument is of a wrong kind, or has a value that it does not take.
    """

    shares_memory: bool = True
    modules: tuple[str, ...] = ("cellmesh.train.group",)  # that ranks need, each of which is a new process

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        scaling_config: ScalingConfig | None = None,
        num_workers: int | tuple[int, int] | None = None,
        resources: Mapping[str, float] | None = None,
        run_config: RunConfig | None = None,
        name: str | None = None,
        storage_path: str | None = None,
        max_failures: int | None = None,
        num_to_keep: int | None = None,
        verbose: int | None = None,
        if_exists: Literal["error", "replace", "resume"] = "error",
        datasets: Mapping[str, Any] | None = None,
        resume_from_checkpoint: Any = None,
    ) -> None:
        if not callable(train_loop_per_worker):
            raise TypeError(f"{type(self).__name__}({train_loop_per_worker!r}): the first argument is a function")
        if config is not None and train_loop_config is not None:
            raise TypeError("config= and train_loop_config= are two names of one thing: give one of them")
        self.loop: Callable[..., Any] = train_loop_per_worker
        self.config: Mapping[str, Any] | None = config if config is not None else train_loop_config
        self.scaling_config: ScalingConfig = _scaled(scaling_config or ScalingConfig(), num_workers, resources)
        self.run_config: RunConfig = _configured(
            run_config or RunConfig(), name, storage_path, max_failures, num_to_keep, verbose
        )
        self.if_exists: Literal["error", "replace", "resume"] = if_exists
        self.datasets: dict[str, Any] = dict(datasets or {})
        self.resume_from_checkpoint: Any = resume_from_checkpoint
        self.choose_backend(bundle_of(self.scaling_config).get("GPU", 0))
        if self.shares_memory and sizes_of(self.scaling_config)[1] > MAX_RANKS:
            raise ValueError(
                f"num_workers={self.scaling_config.num_workers}: a group in shared memory has at most {MAX_RANKS}; "
                "others take backend='gloo'"
            )

    def choose_backend(self, n_gpus: float) -> None:
        """What follows from the GPUs that each rank has: for subclasses."""

    def setup(self) -> Callable[[RankInfo], AbstractContextManager[None]] | None:
        """What is around the function on each rank: for subclasses."""
        return None

    def fit(self) -> Result:
        """Train, to the end. Ctrl-C and the stop button end it; what was reported is kept.

        Returns
        -------
        Result
            Of `cellmesh.tune`: the last metrics, the checkpoints, a table of all reports.

        Raises
        ------
        TrainingFailedError
            A rank has raised or died, and is not to be tried again; it names the rank.
        TrainError
            No machine has what the ranks take.
        """
        self.check_room()
        experiment = Tuner(self.as_trainable(), {}, run_config=self.run_config, if_exists=self.if_exists).fit()
        return self.check_result(experiment)

    @staticmethod
    def check_result(experiment: Experiment) -> Result:
        """The result of the experiment that a training was, or what `fit` raises of it."""
        result = experiment[0]
        if result.state == "ERROR":
            cause = experiment.exception(0)
            failed = TrainingFailedError(f"{result.error}\nWhat was reported until then is in {result.path}")
            failed.rank, failed.result = getattr(cause, "rank", -1), result
            raise failed from cause
        return result

    def as_trainable(self) -> Callable[[dict[str, Any]], None]:
        """The trainer as a function of a trial's configuration, for a Tuner; which calls this by itself."""
        preload(*self.modules)
        scaling = self.scaling_config
        least, most = sizes_of(scaling)
        plan = GroupPlan(
            name=getattr(self.loop, "__name__", type(self.loop).__name__),
            loop=put(self.loop),
            n_ranks=most,
            least=least,
            bundle=bundle_of(scaling),
            shares_memory=self.shares_memory,
            strategy="STRICT_PACK" if self.shares_memory else scaling.placement_strategy,
            setup=self.setup(),
            start=self.resume_from_checkpoint,
            datasets={key: data if isinstance(data, ObjectRef) else put(data) for key, data in self.datasets.items()},
        )
        trainable: Any = functools.partial(_run_in_trial, plan, _config_for(self.loop, self.config))
        trainable.__name__ = plan.name
        # The trial gives the CPUs back while it waits for its ranks, so they are those of the ranks.
        trainable._cellmesh_resources = {"cpu": self._total().get("CPU", 0) if self.shares_memory else 0}
        return trainable

    def _total(self) -> dict[str, float]:
        """What all ranks take; the least that they may be."""
        return {kind: n * sizes_of(self.scaling_config)[0] for kind, n in bundle_of(self.scaling_config).items()}

    def check_room(self) -> None:
        """`TrainError` if the machines can never run the ranks."""
        get_runtime_context()  # which starts a session where there is none
        each, (n, _) = bundle_of(self.scaling_config), sizes_of(self.scaling_config)
        asked, at_least = (self._total(), 1) if self.shares_memory else (each, n)
        if capacity({"num_cpus": 0, **options_of(asked)}, machines(), None) < at_least:
            where = "on one machine, as they share memory" if self.shares_memory else "on all machines together"
            raise TrainError(
                f"{n} ranks with {each} each find no room {where}: ask for fewer, or for less, or start the session "
                "with more (cellmesh.cluster_resources() says what there is)"
            )


def _config_for(loop: Callable[..., Any], config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a function is called with; None: with nothing. One that needs a configuration has an empty one, where none
    is given. `TypeError` if it cannot be called so.
    """
    given = None if config is None else dict(config)
    try:
        signature = get_signature(loop, follow_wrapped=False)
    except ValueError:  # it is compiled, and does not say
        return given
    if given is None:
        try:
            signature.bind()
        except TypeError:
            given = {}
        else:
            return None
    try:
        signature.bind(given)
    except TypeError as error:
        name = getattr(loop, "__name__", type(loop).__name__)
        raise TypeError(f"{name} is called with config= as its argument: {error}") from None
    return given


def _run_in_trial(plan: GroupPlan, own: dict[str, Any] | None, config: dict[str, Any]) -> None:
    """The function of a trial: its configuration overrides the trainer's."""
    given = {**config, **config.get(LOOP_CONFIG, {})}
    given.pop(LOOP_CONFIG, None)
    run_group(plan, own if not given else {**(own or {}), **given})


def bundle_of(scaling: ScalingConfig) -> dict[str, float]:
    """The resources of a rank, by the names that placement groups have for them."""
    given = scaling.resources_per_worker
    bundle = {KINDS.get(kind.lower(), kind): float(amount) for kind, amount in (given or {}).items()}
    bundle.setdefault("CPU", 1.0)
    if scaling.use_gpu:
        bundle.setdefault("GPU", 1.0)
    return {kind: amount for kind, amount in bundle.items() if amount}


def sizes_of(scaling: ScalingConfig) -> tuple[int, int]:
    """How many ranks there are at least, and at most."""
    n = scaling.num_workers
    return n if isinstance(n, tuple) else (n, n)


def _scaled(
    scaling: ScalingConfig, n: int | tuple[int, int] | None, resources: Mapping[str, float] | None
) -> ScalingConfig:
    scaling = replace(
        scaling,
        num_workers=scaling.num_workers if n is None else n,
        resources_per_worker=scaling.resources_per_worker if resources is None else resources,
    )
    sizes: tuple[Any, ...] = sizes_of(scaling)
    if len(sizes) != 2 or any(type(size) is not int or size < 1 for size in sizes) or sizes[0] > sizes[1]:
        raise ValueError(
            f"num_workers={scaling.num_workers!r}: a whole number of ranks, 1 or more; or the least and the most of "
            "them, as (1, 4)"
        )
    for kind, amount in (scaling.resources_per_worker or {}).items():
        if isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount < 0:
            raise ValueError(f"resources={{{kind!r}: {amount!r}}}: an amount is a number that is not negative")
    if not bundle_of(scaling):
        raise ValueError(f"resources={resources}: a rank takes something, such as {{'cpu': 0.5}}")
    return scaling


def _configured(
    run: RunConfig,
    name: str | None,
    storage_path: str | None,
    max_failures: int | None,
    num_to_keep: int | None,
    verbose: int | None,
) -> RunConfig:
    """The configuration with what was given by its name."""
    failures, kept = run.failure_config or FailureConfig(), run.checkpoint_config or CheckpointConfig()
    return replace(
        run,
        name=run.name if name is None else name,
        storage_path=run.storage_path if storage_path is None else storage_path,
        verbose=run.verbose if verbose is None else verbose,
        failure_config=failures if max_failures is None else replace(failures, max_failures=max_failures),
        checkpoint_config=kept if num_to_keep is None else replace(kept, num_to_keep=num_to_keep),
    )
