"""Ray's configurations, what a trial takes of the machine, and what they mean here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ....tune import CheckpointConfig as _CheckpointConfig
from ....tune import FailureConfig as _FailureConfig
from ....tune import PlacementGroupFactory as _PlacementGroupFactory
from ....tune import RunConfig as _RunConfig
from ....tune import TuneConfig as _TuneConfig
from ....tune.exceptions import TuneError
from ...missing import refuse_options

# Values that mean nothing here, in the words of the error where there is something to do.
_NO_STORAGE = (
    "experiments lie in a folder of this machine: give a path, and copy the folder with your own tool when it is over"
)
_NO_PREEMPTION = {
    "controller_failure_limit": "cellmesh.train's name= and if_exists='resume' go on where it has ended",
    "max_preemption_failures": "a rank whose machine goes is a failure, of max_failures",
    "relax_collectives_on_preemption": "a rank whose machine goes is a failure, of max_failures",
    "preemption_grace_s": "the others end with the first rank that fails",
}
_NOT_FOR_A_RUN = {
    "worker_runtime_env": "ray.init(runtime_env=...) holds in all workers",
    "logging_config": "logging.getLogger(...).setLevel(...) holds in all workers",
}


@dataclass
class FailureConfig:
    """What becomes of failures: `max_failures` attempts more (-1: always), `fail_fast` True or "raise". Of preemption
    and of the controller only Ray's defaults are taken.
    """

    max_failures: int = 0
    fail_fast: bool | str = False
    controller_failure_limit: int = -1
    max_preemption_failures: int = -1
    relax_collectives_on_preemption: bool = False
    preemption_grace_s: float = 0.0

    def __post_init__(self) -> None:
        refuse_options("FailureConfig", vars(self), _NO_PREEMPTION, vars(FailureConfig))
        if not (isinstance(self.fail_fast, bool) or self.fail_fast == "raise"):
            raise ValueError(f"fail_fast={self.fail_fast!r}: it is True, False or 'raise'")
        if self.fail_fast and self.max_failures:
            raise ValueError(f"max_failures={self.max_failures}: it must be 0 where fail_fast={self.fail_fast!r}")


@dataclass
class CheckpointConfig:
    """Which checkpoints are kept (None: all), and when a `Trainable` writes them."""

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str | None = "max"
    checkpoint_frequency: int | None = 0
    checkpoint_at_end: bool | None = None

    def __post_init__(self) -> None:
        if self.num_to_keep is not None and self.num_to_keep <= 0:
            raise ValueError(f"Received invalid num_to_keep: {self.num_to_keep}. Must be None or an integer >= 1")
        if self.checkpoint_score_order not in ("max", "min"):
            raise ValueError(f"checkpoint_score_order={self.checkpoint_score_order!r}: it is 'max' or 'min'")


@dataclass
class SyncConfig:
    """Accepted, without effect: an experiment lies on the machine of its controller, and checkpoints go there."""

    sync_period: int = 300
    sync_timeout: int = 1800
    sync_artifacts: bool = False
    sync_artifacts_on_checkpoint: bool = True


@dataclass
class ResumeConfig:
    """What becomes of trials when an experiment goes on."""

    class ResumeType(Enum):
        """From the checkpoint, from the beginning, or not at all."""

        RESUME = "resume"
        RESTART = "restart"
        SKIP = "skip"

    finished: Any = ResumeType.SKIP
    unfinished: Any = ResumeType.RESUME
    errored: Any = ResumeType.SKIP


@dataclass
class RunConfig:
    """How an experiment runs. `progress_reporter`, `sync_config` and `log_to_file` are accepted without effect."""

    name: str | None = None
    storage_path: str | None = None
    storage_filesystem: Any = None
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    sync_config: SyncConfig | None = None
    verbose: int | None = None
    stop: Any = None
    callbacks: Sequence[Any] | None = None
    progress_reporter: Any = None
    log_to_file: bool | str | tuple[str, str] = False
    local_dir: str | None = None
    worker_runtime_env: Any = None
    logging_config: Any = None

    def __post_init__(self) -> None:
        refuse_options("RunConfig", vars(self), _NOT_FOR_A_RUN)
        if self.local_dir is not None:
            raise DeprecationWarning("`RunConfig(local_dir)` is now `RunConfig(storage_path)`, as in Ray")
        if self.storage_filesystem is not None:
            raise ValueError(f"storage_filesystem={self.storage_filesystem!r}: {_NO_STORAGE}")


@dataclass
class TuneConfig:
    """What is looked for, and how. `reuse_actors` and `trial_dirname_creator` are accepted without effect."""

    mode: str | None = None
    metric: str | None = None
    search_alg: Any = None
    scheduler: Any = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: Any = None
    reuse_actors: bool = False
    trial_name_creator: Callable[[Any], str] | None = None
    trial_dirname_creator: Callable[[Any], str] | None = None
    chdir_to_trial_dir: Any = None


class PlacementGroupFactory(_PlacementGroupFactory):
    """What each trial takes: bundles, such as {"CPU": 2}; the trial runs in the first one."""

    def __init__(
        self, bundles: Sequence[Mapping[str, float]], strategy: str = "PACK", *args: Any, **kwargs: Any
    ) -> None:
        if not bundles:
            raise ValueError("Cannot initialize a PlacementGroupFactory with zero bundles")
        super().__init__(bundles, strategy)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> PlacementGroupFactory:
        """From the options of a trial."""
        own = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
        bundle = {rays: options[ours] for ours, rays in own.items() if ours in options}
        whole = {"CPU": 1.0, **bundle, **options.get("resources", {})}
        head = {name: float(amount) for name, amount in whole.items()}
        if "bundles" in options:
            return cls([*([] if any(head.values()) else [{}]), *options["bundles"]], options["strategy"])
        return cls([head])

    @property
    def required_resources(self) -> dict[str, float]:
        """What all bundles need."""
        names = dict.fromkeys(name for bundle in self._bundles for name in bundle)
        return {name: sum(bundle.get(name, 0.0) for bundle in self._bundles) for name in names}

    @property
    def head_cpus(self) -> float:
        """CPUs of the first bundle."""
        return self._bundles[0].get("CPU", 0.0)

    @property
    def head_bundle_is_empty(self) -> bool:
        """Whether the first bundle asks for nothing."""
        return not self._bundles[0]

    def __repr__(self) -> str:
        return f"<PlacementGroupFactory (bundles={self._bundles}, strategy={self._strategy!r})>"


def storage_of(path: Any) -> str | None:
    """The folder that is meant by Ray's `storage_path`.

    Raises
    ------
    ValueError
        It is on another system.
    """
    if path is None:
        return None
    text = str(path).removeprefix("file://")
    if "://" in text:
        raise ValueError(f"storage_path={path!r}: {_NO_STORAGE}")
    return text


def run_config(of: RunConfig) -> _RunConfig:
    """Ray's configuration as ours; callbacks are called by whoever waits (`watching.py`)."""
    failures, checkpoints = of.failure_config or FailureConfig(), of.checkpoint_config or CheckpointConfig()
    return _RunConfig(
        name=of.name,
        storage_path=storage_of(of.storage_path),
        stop=stop_of(of.stop),
        failure_config=_FailureConfig(failures.max_failures, bool(failures.fail_fast)),
        checkpoint_config=_CheckpointConfig(
            num_to_keep=checkpoints.num_to_keep,
            checkpoint_score_attribute=checkpoints.checkpoint_score_attribute,
            checkpoint_score_order="min" if checkpoints.checkpoint_score_order == "min" else "max",
            checkpoint_frequency=checkpoints.checkpoint_frequency or 0,
            checkpoint_at_end=bool(checkpoints.checkpoint_at_end),
        ),
        verbose=0,
    )


def tune_config(of: TuneConfig) -> _TuneConfig:
    """Ray's configuration as ours."""
    if of.mode not in (None, "min", "max"):
        raise ValueError(f"The `mode` parameter supplied is {of.mode!r}. Has to be one of ['min', 'max']")
    budget = of.time_budget_s
    return _TuneConfig(
        metric=of.metric,
        mode="min" if of.mode == "min" else "max",
        search_alg=of.search_alg,
        scheduler=of.scheduler,
        num_samples=of.num_samples,
        max_concurrent_trials=of.max_concurrent_trials or None,
        time_budget_s=None if budget is None else float(getattr(budget, "total_seconds", lambda: budget)()),
    )


def stop_of(stop: Any) -> Any:
    """Bounds may be nested as results are: {"eval": {"score": 1}} is {"eval/score": 1}."""
    return flattened(stop) if isinstance(stop, Mapping) else stop


def flattened(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a/b": 1}; an empty mapping stays."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            flat.update(flattened(value, f"{prefix}{name}/"))
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """{"a/b": 1} -> {"a": {"b": 1}}."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, name = path.split("/")
        node = tree
        for parent in parents:
            inner = node.setdefault(parent, {})
            if not isinstance(inner, dict):  # "a" and "a/b" were both reported
                parents, name, node = [], path, tree
                break
            node = inner
        node[name] = value
    return tree


def errored_of(config: ResumeConfig | None) -> str:
    """What our `resume` is told of Ray's `ResumeConfig`.

    Raises
    ------
    TuneError
        It asks for what there is not.
    """
    if config is None:
        return ""
    words = [str(getattr(kind, "value", kind)) for kind in (config.finished, config.unfinished, config.errored)]
    if words[0] != "skip" or words[1] != "resume":
        raise TuneError(
            f"ResumeConfig(finished={words[0]!r}, unfinished={words[1]!r}): trials that have ended stay so, and those "
            "that have not go on; errored='restart' or 'resume' is what can be chosen"
        )
    return {"skip": "", "restart": "restart", "resume": "resume"}[words[2]]
