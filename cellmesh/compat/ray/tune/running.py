"""`tune.run`, `run_experiments` and `Experiment`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....tune import journal
from ....tune import search as _search
from ....tune.exceptions import TuneError
from ....tune.experiment import folder_of
from . import configs, legacy
from .analysis import ExperimentAnalysis
from .configs import CheckpointConfig, FailureConfig, RunConfig, TuneConfig
from .trainables import algorithm_of_2018, resolved, resources_of, with_resources
from .trials import Trial
from .tuner import Tuner, analysis_of

# Accepted, without effect.
_IGNORED = frozenset(
    ("verbose", "progress_reporter", "log_to_file", "trial_dirname_creator", "sync_config", "reuse_actors",
     "chdir_to_trial_dir", "_remote", "_remote_string_queue", "_entrypoint", "server_port", "with_server",
     "queue_trials", "checkpoint_at_end_of_trial")
)  # fmt: skip
_REFUSED = {
    "storage_filesystem": "experiments lie in a folder of this machine: storage_path",
    "export_formats": "write what you export into a checkpoint",
    "restore": "begin from a checkpoint yourself: give its path in the configuration",
}
_TAKEN = frozenset(
    ("name", "metric", "mode", "stop", "time_budget_s", "config", "resources_per_trial", "num_samples", "storage_path",
     "search_alg", "scheduler", "checkpoint_config", "trial_name_creator", "max_failures", "fail_fast", "resume",
     "resume_config", "raise_on_failed_trial", "callbacks", "max_concurrent_trials", "keep_checkpoints_num",
     "checkpoint_score_attr", "checkpoint_freq", "checkpoint_at_end", "local_dir")
)  # fmt: skip


class Experiment:
    """What `tune.run` takes, as an object.

    Parameters
    ----------
    name : str
    run : callable, Trainable subclass or str
    **spec
        As `tune.run` has them.
    """

    def __init__(self, name: str, run: Any, **spec: Any) -> None:
        self.name = name
        self.run = run
        self.spec: dict[str, Any] = legacy.spec_of(name, {"run": run, **spec})

    @classmethod
    def from_json(cls, name: str, spec: Mapping[str, Any]) -> Experiment:
        """From a dict with "run"."""
        found = legacy.spec_of(name, spec)
        return cls(name, **{**found, "run": algorithm_of_2018(found["run"])})


def run(run_or_experiment: Any, *, raise_on_failed_trial: bool = True, **options: Any) -> ExperimentAnalysis:
    """Try configurations of a trainable, and return an analysis of what it has found.

    Parameters
    ----------
    run_or_experiment : callable, Trainable subclass, str or Experiment
    raise_on_failed_trial : bool
        Whether trials that have failed are an error at the end.
    **options
        Ray's: metric, mode, config, num_samples, stop, resources_per_trial, scheduler, search_alg, name, storage_path,
        max_failures, fail_fast, checkpoint_config, callbacks, resume, ...

    Raises
    ------
    TuneError
        Trials have failed; or an option asks for what there is not.
    TypeError
        There is no such option.
    """
    if isinstance(run_or_experiment, Experiment):
        options = {**options, "name": run_or_experiment.name, **run_or_experiment.spec}
        run_or_experiment = options.pop("run")
    elif isinstance(run_or_experiment, (list, tuple)):
        raise TuneError("tune.run takes one experiment: run_experiments([...]) takes several")
    started = _Started(run_or_experiment, options)
    return started.finish(raise_on_failed_trial)


def run_experiments(
    experiments: Any,
    scheduler: Any = None,
    verbose: Any = None,
    progress_reporter: Any = None,
    resume: Any = None,
    resume_config: Any = None,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    concurrent: bool = True,
    callbacks: Sequence[Any] | None = None,
    **ignored: Any,
) -> list[Trial]:
    """Run experiments, all at a time, and return their trials.

    Parameters
    ----------
    experiments : dict, Experiment or list of Experiment
        By name a dict with "run", "stop", "config", "num_samples" (or "repeat"), "resources_per_trial" (or
        "resources", "trial_resources"), ...
    scheduler : Scheduler, optional
        Of all of them; each has a copy of its own.

    Raises
    ------
    TuneError
        Trials have failed.
    """
    if unknown := sorted(ignored.keys() - _IGNORED):
        raise TypeError(f"run_experiments() got an unexpected keyword argument {unknown[0]!r}")
    if isinstance(experiments, Mapping):
        found = [Experiment.from_json(name, spec) for name, spec in experiments.items()]
    else:
        found = [experiments] if isinstance(experiments, Experiment) else list(experiments)
    common = {"scheduler": scheduler, "callbacks": callbacks, "resume": resume, "resume_config": resume_config}
    started = [
        _Started(one.spec["run"], {**common, "name": one.name, **{k: v for k, v in one.spec.items() if k != "run"}})
        for one in found
    ]
    analyses = [one.finish(raise_on_failed_trial=False) for one in started]
    trials = [trial for analysis in analyses for trial in analysis.trials]
    _check(trials, raise_on_failed_trial)
    return trials


class _Started:
    """An experiment that has been begun with the options of `tune.run`."""

    def __init__(self, trainable: Any, options: Mapping[str, Any]) -> None:
        given = {name: value for name, value in options.items() if value is not None}
        _check_options(given)
        trainable = resolved(trainable) if not isinstance(trainable, str) else trainable
        resources = resources_of(given.get("resources_per_trial"))
        if resources is not None:
            trainable = with_resources(trainable, given["resources_per_trial"])
        limit = given.get("max_concurrent_trials")
        self.tune = TuneConfig(
            metric=given.get("metric"),
            mode=given.get("mode"),
            search_alg=_search.make(given["search_alg"]) if "search_alg" in given else None,
            scheduler=given.get("scheduler"),
            num_samples=given.get("num_samples", 1),
            max_concurrent_trials=limit,
            time_budget_s=given.get("time_budget_s"),
            trial_name_creator=given.get("trial_name_creator"),
        )
        self.run = RunConfig(
            name=given.get("name"),
            storage_path=given.get("storage_path", given.get("local_dir")),
            stop=given.get("stop"),
            failure_config=FailureConfig(given.get("max_failures", 0), given.get("fail_fast", False)),
            checkpoint_config=given.get("checkpoint_config") or _old_checkpoints(given),
            callbacks=given.get("callbacks"),
        )
        self._tuner = self._made(trainable, given)
        self._search = self._tuner.start()

    def _made(self, trainable: Any, given: Mapping[str, Any]) -> Tuner:
        space = given.get("config", {})
        errored = _resuming(given)
        if errored is None or self.run.name is None:
            return Tuner(trainable, param_space=space, tune_config=self.tune, run_config=self.run)
        folder = folder_of(self.run.name, configs.storage_of(self.run.storage_path))
        if journal.first_record(folder) is None:
            if given.get("resume") in (True, "LOCAL"):
                raise ValueError(f"Called resume when no checkpoint exists in {folder}")
            return Tuner(trainable, param_space=space, tune_config=self.tune, run_config=self.run)
        return Tuner.restore(
            str(folder),
            trainable,
            resume_errored=errored == "resume",
            restart_errored=errored == "restart",
            param_space=space or None,
            stop=self.run.stop,
            scheduler=self.tune.scheduler,
            search_alg=self.tune.search_alg,
        )

    def finish(self, raise_on_failed_trial: bool) -> ExperimentAnalysis:
        analysis = analysis_of(self._search, self.run, self.tune)
        failed = [trial.error for trial in analysis.trials if trial.error is not None]
        if failed and self.run.failure_config and self.run.failure_config.fail_fast == "raise":
            raise failed[0]
        _check(analysis.trials, raise_on_failed_trial)
        return analysis


def _check(trials: Sequence[Trial], raise_on_failed_trial: bool) -> None:
    failed = [trial for trial in trials if trial.status == Trial.ERROR]
    if failed and raise_on_failed_trial:
        raise TuneError("Trials did not complete", failed) from failed[0].error


def _check_options(given: Mapping[str, Any]) -> None:
    for name in given:
        if name in _REFUSED:
            raise TuneError(f"{name}={given[name]!r}: {_REFUSED[name]}")
        if name not in _TAKEN | _IGNORED:
            raise TypeError(f"tune.run() got an unexpected keyword argument {name!r}: it takes {', '.join(_TAKEN)}")


def _old_checkpoints(given: Mapping[str, Any]) -> CheckpointConfig:
    score = given.get("checkpoint_score_attr")
    is_min = isinstance(score, str) and score.startswith("min-")
    return CheckpointConfig(
        num_to_keep=given.get("keep_checkpoints_num"),
        checkpoint_score_attribute=score.removeprefix("min-") if isinstance(score, str) else None,
        checkpoint_score_order="min" if is_min else "max",
        checkpoint_frequency=given.get("checkpoint_freq", 0),
        checkpoint_at_end=given.get("checkpoint_at_end", False),
    )


def _resuming(given: Mapping[str, Any]) -> str | None:
    """What becomes of failed trials when the experiment goes on; None: it is begun."""
    resume, config = given.get("resume"), given.get("resume_config")
    if not resume:
        return None if config is None else configs.errored_of(config)
    if resume is True:
        return ""
    word, _, more = str(resume).partition("+")
    if word not in ("LOCAL", "AUTO") or more not in ("", "ERRORED", "RESTART_ERRORED"):
        raise TuneError(f"resume={resume!r}: it is True, 'AUTO', 'LOCAL', or 'AUTO+ERRORED', 'AUTO+RESTART_ERRORED'")
    return {"": "", "ERRORED": "resume", "RESTART_ERRORED": "restart"}[more]
