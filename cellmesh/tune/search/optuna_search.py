"""Optuna's samplers as searchers: https://optuna.org, Akiba et al., 2019, arXiv:1907.10902.

One study, asked and told. With one trial at a time it suggests what Optuna alone suggests for the same seed, the same
space and the same results.

**Resuming.** An experiment that is resumed tells what had been suggested and reported. Samplers keep what they need in
three places: finished trials, attributes of trials (CMA-ES, NSGA, QMC), and their random generator. So the study is
asked again, in the same order, and told the same results, which brings all three back; the next suggestion is the one
that would have been made. Where that takes too long (GP; TPE after `MAX_ASKED_AGAIN` trials), or gives something else
(another version of Optuna), trials are added to the study as they were, and the sampler gets a generator that depends
on the seed and their number.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from ..space import SpaceError, from_json, same, to_json, unstored
from ..space.expand import check_num_samples, check_seed, generator_of
from ..space.resolve import resolve
from ..space.tree import checked, thaw
from .adapter import merged
from .optuna_space import DefineByRun, OptunaSpace, flat, import_optuna, space_of
from .protocol import NoSuggestion, Search
from .searcher import check_objectives

SAMPLERS = {
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "cmaes": "CmaEsSampler",
    "qmc": "QMCSampler",
    "nsga2": "NSGAIISampler",
    "nsga3": "NSGAIIISampler",
    "random": "RandomSampler",
}
NEEDS: dict[str, tuple[str, ...]] = {"gp": ("torch", "scipy"), "cmaes": ("cmaes",), "qmc": ("scipy",)}  # beside Optuna
ENUMERATING = ("GridSampler", "BruteForceSampler")  # suggest each configuration once, and then have no more
NOT_ADAPTIVE = ("qmc", "random")
NUMBERS_ALONE = ("cmaes", "qmc")  # draw what has no order at random
MAX_ASKED_AGAIN = {"gp": 0, "tpe": 200}  # trials; by far the most of what these take is the suggestion
TRIAL_ATTR = "tune_trial"  # in a storage of the user's own: the trial's number


@dataclass
class _Told:
    """What is known of a trial of before."""

    config: Mapping[str, Any]
    results: list[Mapping[str, Any]] = field(default_factory=list)
    end: tuple[Mapping[str, Any] | None, bool, bool] | None = None


class Optuna(Search):
    """Suggests what a sampler of Optuna does.

    Parameters
    ----------
    sampler : str or optuna.samplers.BaseSampler
        "tpe", "gp" (needs torch and scipy), "cmaes" (needs cmaes), "qmc" (needs scipy), "nsga2", "nsga3", "random", or
        a sampler, which has its own seed.
    space : dict or callable, optional
        Instead of the experiment's space: domains, distributions of Optuna, or a function that asks an `optuna.Trial`
        and may return a dict of constants.
    metric, mode : str or list of str, optional
        Instead of the experiment's: one, or several objectives with "min" or "max" for each.
    points_to_evaluate : sequence of dict, optional
        Configurations, or parts of them, that are tried first.
    evaluated_rewards : sequence, optional
        What `points_to_evaluate` are worth, in their order, so that they need not be tried: a number, or a list of them
        for several objectives.
    seed : int, optional
        Of the sampler; otherwise the experiment's.
    storage, study_name : optional
        Where Optuna keeps the study; otherwise in memory, and the experiment's journal brings it back.

    Raises
    ------
    ModuleNotFoundError
        Optuna, or what the sampler needs, is not installed.
    ValueError
        There is no such sampler, or metrics and modes do not fit each other.
    """

    modules: tuple[str, ...] = ("optuna",)

    def __init__(
        self,
        sampler: Any = "tpe",
        *,
        space: Any = None,
        metric: str | Sequence[str] | None = None,
        mode: str | Sequence[str] | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        evaluated_rewards: Sequence[Any] | None = None,
        seed: int | None = None,
        storage: Any = None,
        study_name: str | None = None,
    ) -> None:
        self.sampler: Any = self._known(sampler)
        check_objectives(metric, mode)
        if evaluated_rewards is not None and len(evaluated_rewards) != len(points_to_evaluate or ()):
            n = len(points_to_evaluate or ())
            raise ValueError(
                f"{len(evaluated_rewards)} evaluated_rewards for {n} points_to_evaluate: give one for each"
            )
        self.space: Any = space
        self.metric: str | Sequence[str] | None = metric
        self.mode: str | Sequence[str] | None = mode
        self.points_to_evaluate: list[Mapping[str, Any]] = list(points_to_evaluate or ())
        self.evaluated_rewards: list[Any] | None = None if evaluated_rewards is None else list(evaluated_rewards)
        self.seed: int | None = seed
        self.storage: Any = storage
        self.study_name: str | None = study_name
        self.is_adaptive: bool = sampler not in NOT_ADAPTIVE if isinstance(sampler, str) else True
        self._trials: dict[int, Any] = {}  # those under way
        self._steps: dict[int, int] = {}  # the latest of each
        self._replayed: list[tuple[Any, ...]] | None = None  # calls since `replay`, until the next suggestion
        self._n_suggested = 0
        self._is_exhausted = False
        self._suggested: set[str] = set()  # by samplers that go through all there is

    @property
    def _optuna(self) -> Any:
        return import_optuna()  # no attribute, as searchers are pickled

    def _known(self, sampler: Any) -> Any:
        if isinstance(sampler, self._optuna.samplers.BaseSampler):
            return sampler
        if not isinstance(sampler, str) or sampler not in SAMPLERS:
            raise ValueError(f"sampler={sampler!r}: give a sampler of Optuna, or one of {', '.join(SAMPLERS)}")
        missing = [module for module in NEEDS.get(sampler, ()) if find_spec(module) is None]
        if missing:
            names = " ".join(missing)
            raise ModuleNotFoundError(f"Optuna's sampler {sampler!r} needs more: pip install {names}", name=missing[0])
        return sampler

    # ---- the study
    def begin(self, metric: str | None, mode: str, space: Mapping[str, Any], num_samples: int, seed: int) -> None:
        check_num_samples(num_samples)
        self._num_samples, self._seed = num_samples, check_seed(seed)
        self._tree = checked(space)
        objective = metric if self.metric is None else self.metric
        if objective is None:
            raise ValueError("Optuna needs metric=, the name of what is reported and to be optimised")
        self._metrics = [objective] if isinstance(objective, str) else list(objective)
        modes = mode if self.mode is None else self.mode
        self._modes = [modes] * len(self._metrics) if isinstance(modes, str) else list(modes)
        self._space = space_of(self.space, self._tree)
        if self.sampler in NUMBERS_ALONE and self._space.categorical:
            names = ", ".join(self._space.categorical)
            warnings.warn(f"Optuna's {self.sampler!r} is for numbers: it draws {names} at random", stacklevel=2)
        self._points = [self._params_of(point) for point in self.points_to_evaluate]
        self._study = self._new_study(0, self._make_sampler(self.seed if self.seed is not None else seed))

    def _params_of(self, point: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(self._space, DefineByRun):
            return flat(point)
        try:
            return self._space.params(point)[0]
        except SpaceError as error:
            raise SpaceError(f"points_to_evaluate: {error}") from None

    def _make_sampler(self, seed: int) -> Any:
        if not isinstance(self.sampler, str):
            return self.sampler
        # Of each parameter that is drawn at random Optuna would tell in each trial; `begin` has told once.
        more = {"warn_independent_sampling": False} if self.sampler in NUMBERS_ALONE else {}
        with warnings.catch_warnings():  # "qmc" and "nsga3" are experimental, as they have been for years
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            return getattr(self._optuna.samplers, SAMPLERS[self.sampler])(seed=seed % (1 << 32), **more)

    def _new_study(self, n_points_done: int, sampler: Any) -> Any:
        """A study that knows the points, but for those that had been suggested."""
        optuna = self._optuna
        with self._quiet(optuna.logging.WARNING):  # it says on stderr that there is a study
            study = optuna.create_study(
                directions=["minimize" if mode == "min" else "maximize" for mode in self._modes],
                sampler=sampler,
                pruner=optuna.pruners.NopPruner(),
                storage=self.storage,
                study_name=self.study_name,
                load_if_exists=True,
            )
        study.stop = self._exhaust  # Optuna's own is for its own loop
        if self.storage is not None and study.trials:
            return study
        if self.evaluated_rewards is None:
            for point in self._points[n_points_done:]:
                study.enqueue_trial(point)
            return study
        for point, reward in zip(self.points_to_evaluate, self.evaluated_rewards, strict=True):
            params, distributions = self._space.params(point)
            values = list(reward) if isinstance(reward, (list, tuple)) else [reward]
            study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, values=values))
        return study

    def _exhaust(self) -> None:
        """The sampler has gone through everything there is."""
        self._is_exhausted = True

    @contextmanager
    def _quiet(self, level: int) -> Iterator[None]:
        before = self._optuna.logging.get_verbosity()
        self._optuna.logging.set_verbosity(max(before, level))
        try:
            yield
        finally:
            self._optuna.logging.set_verbosity(before)

    # ---- the controller's questions
    def count(self) -> int | None:
        return None if self._num_samples == -1 else self._num_samples

    def suggest(self, trial: int) -> dict[str, Any] | NoSuggestion:
        if self._replayed is not None:
            self._go_on()
        if self._is_exhausted or self._n_suggested >= self._num_samples != -1:
            return NoSuggestion.FINISHED
        self._n_suggested += 1
        return self._ask(trial)

    def _ask(self, trial: int) -> dict[str, Any] | NoSuggestion:
        with self._quiet(self._optuna.logging.ERROR):  # of a grid that has been gone through it warns each time
            asked = self._study.ask()
        if self.storage is not None:
            asked.set_user_attr(TRIAL_ATTR, trial)
        try:
            suggested = self._space.suggest(asked)
            config = resolve(merged(thaw(self._tree), suggested), generator_of(self._seed, trial))
        except Exception:
            self._study.tell(asked, state=self._optuna.trial.TrialState.FAIL)
            raise
        if type(self.sampler).__name__ in ENUMERATING and not self._is_new(asked.params):
            self._study.tell(asked, state=self._optuna.trial.TrialState.FAIL)
            return NoSuggestion.FINISHED  # all have been suggested, and some are still under way
        self._trials[trial] = asked
        return config

    def _is_new(self, params: Mapping[str, Any]) -> bool:
        text, n = repr(sorted(params.items())), len(self._suggested)
        self._suggested.add(text)
        return len(self._suggested) > n

    def on_trial_result(self, trial: int, result: Mapping[str, Any]) -> None:
        if self._replayed is not None:
            self._replayed.append(("on_trial_result", trial, result))
        elif trial in self._trials and (step := self._step(result)) is not None:
            self._report(trial, *step)

    def _report(self, trial: int, value: float, step: int) -> None:
        """Report an intermediate value, unless that step or a later one has one: the trial was tried again."""
        if step > self._steps.get(trial, -1):
            self._steps[trial] = step
            self._trials[trial].report(value, step)

    def _step(self, result: Mapping[str, Any]) -> tuple[float, int] | None:
        """An intermediate value and its step. Optuna has these for a single objective alone."""
        if len(self._metrics) > 1 or self._metrics[0] not in result:
            return None
        return float(result[self._metrics[0]]), int(result["training_iteration"])

    def on_trial_end(self, trial: int, result: Mapping[str, Any] | None, failed: bool, pruned: bool = False) -> None:
        if self._replayed is not None:
            self._replayed.append(("on_trial_end", trial, result, failed, pruned))
        elif (asked := self._trials.pop(trial, None)) is not None:
            self._steps.pop(trial, None)
            state, values = self._outcome(result, failed, pruned)
            self._study.tell(asked, values, state=state)

    def _outcome(self, result: Mapping[str, Any] | None, failed: bool, pruned: bool) -> tuple[Any, list[float] | None]:
        """The state in which Optuna has a trial, and its values. A trial without a number for each metric is a failed
        one, of which samplers take no notice.
        """
        states = self._optuna.trial.TrialState
        values = [float((result or {}).get(metric, math.nan)) for metric in self._metrics]
        if failed or any(map(math.isnan, values)):
            return states.FAIL, None
        return (states.PRUNED, None) if pruned and len(values) == 1 else (states.COMPLETE, values)

    # ---- resuming
    def replay(self, trial: int, config: Mapping[str, Any]) -> None:
        self._n_suggested += 1
        self._replayed = self._replayed or []
        self._replayed.append(("replay", trial, config))

    def _go_on(self) -> None:
        """Bring the study to where it was."""
        calls, self._replayed = self._replayed or [], None
        n = sum(call[0] == "replay" for call in calls)
        if self.storage is not None:
            self._find(calls)
        elif n > MAX_ASKED_AGAIN.get(str(self.sampler), n) or not self._ask_again(calls):
            self._add(calls, n)

    def _ask_again(self, calls: Sequence[tuple[Any, ...]]) -> bool:
        """Ask and tell everything again; whether the same was suggested."""
        for name, trial, *rest in calls:
            if name != "replay":
                getattr(self, name)(trial, *rest)
            elif not same(self._ask(trial), rest[0]):
                return False
        return True

    def _add(self, calls: Sequence[tuple[Any, ...]], n: int) -> None:
        """Add the trials to a new study."""
        own = self.seed if self.seed is not None else self._seed
        self._study = self._new_study(n, self._make_sampler(int(generator_of(own, n).integers(1 << 32))))
        self._trials, self._steps = {}, {}
        create, running = self._optuna.trial.create_trial, self._optuna.trial.TrialState.RUNNING
        for trial, told in _by_trial(calls).items():
            params, distributions = self._space.params(self._suggested_part(told.config))
            state, values = (running, None) if told.end is None else self._outcome(*told.end)
            found = [step for result in told.results if (step := self._step(result)) is not None]
            first = {step: value for value, step in reversed(found)}  # of a step that was taken twice
            steps = dict(sorted(first.items()))
            if state == self._optuna.trial.TrialState.PRUNED and steps:
                values = [list(steps.values())[-1]]
            self._study.add_trial(
                create(
                    state=state,
                    values=values,
                    params=params,
                    distributions=distributions,
                    intermediate_values={} if state == running else steps,
                )
            )
            if told.end is None:
                frozen = self._study.get_trials(deepcopy=False)[-1]
                self._trials[trial] = self._optuna.trial.Trial(self._study, frozen._trial_id)
                for step, value in steps.items():
                    self._report(trial, value, step)

    def _suggested_part(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """The part of a configuration that is Optuna's: not the constants of the experiment's space, if it has its
        own.
        """
        if isinstance(self._space, OptunaSpace) and self.space is not None:
            return {key: value for key, value in config.items() if key in self._space.tree}
        return config

    def _find(self, calls: Sequence[tuple[Any, ...]]) -> None:
        """Find the trials in the user's storage, and tell of those that had not ended there."""
        known = {trial.user_attrs.get(TRIAL_ATTR): trial for trial in self._study.get_trials(deepcopy=False)}
        for trial, told in _by_trial(calls).items():
            frozen = known.get(trial)
            if frozen is None or frozen.state.is_finished():
                continue
            self._trials[trial] = self._optuna.trial.Trial(self._study, frozen._trial_id)
            if told.end is not None:
                self.on_trial_end(trial, *told.end)

    def describe(self) -> dict[str, Any] | None:
        description = {
            "kind": "optuna",
            **{name: getattr(self, name) for name in ("sampler", "metric", "mode", "seed", "study_name")},
            **{name: to_json(getattr(self, name)) for name in ("space", "points_to_evaluate", "evaluated_rewards")},
        }
        is_whole = isinstance(self.sampler, str) and self.storage is None and not any(unstored(description))
        return description if is_whole else None

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Optuna:
        """The searcher that gave this description."""
        options = {key: from_json(value) for key, value in description.items() if key != "kind"}
        return cls(options.pop("sampler"), **options)


class OptunaSearch(Optuna):
    """`Optuna` with the arguments in Ray Tune's order."""

    def __init__(
        self,
        space: Any = None,
        metric: str | Sequence[str] | None = None,
        mode: str | Sequence[str] | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        sampler: Any = None,
        study_name: str | None = None,
        storage: Any = None,
        seed: int | None = None,
        evaluated_rewards: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(
            "tpe" if sampler is None else sampler,
            space=space,
            metric=metric,
            mode=mode,
            points_to_evaluate=points_to_evaluate,
            evaluated_rewards=evaluated_rewards,
            seed=seed,
            storage=storage,
            study_name=study_name,
        )


def _by_trial(calls: Sequence[tuple[Any, ...]]) -> dict[int, _Told]:
    """What was told of each trial, in the order of their suggestions."""
    found: dict[int, _Told] = {}
    for name, trial, *rest in calls:
        if name == "replay":
            found[trial] = _Told(rest[0])
        elif name == "on_trial_result" and trial in found:
            found[trial].results.append(rest[0])
        elif trial in found:
            found[trial].end = (rest[0], rest[1], rest[2])
    return found
