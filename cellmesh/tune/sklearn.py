"""`SearchCV`: a search over the parameters of a scikit-learn estimator, with early stopping.

    search = SearchCV(SGDClassifier(), {"alpha": tune.loguniform(1e-6, 1e-1)}, n_trials=40, max_iters=27)
    search.fit(X, y).best_params_

A trial fits its configuration on all folds side by side, a step at a time, and reports the mean score after each; the
scheduler ends those that fall behind. How a step is made is said by `way_of`. Data and folds lie in the store once.

Everything that a search of scikit-learn has beside `fit` (predict, score, cv_results_, ...) is scikit-learn's own code.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

try:
    from sklearn.base import clone, is_classifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import check_cv
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.utils import check_random_state, indexable
    from sklearn.utils.metaestimators import _safe_split
    from sklearn.utils.validation import _check_method_params
except ModuleNotFoundError as _missing:
    raise ModuleNotFoundError(
        f"SearchCV searches for estimators of scikit-learn: pip install scikit-learn ({_missing})", name=_missing.name
    ) from None

from .exceptions import TuneError
from .reporting import report
from .space import choice
from .space.domains import Domain
from .trainable import with_parameters
from .tuner import Tuner

if TYPE_CHECKING:  # scikit-learn itself has no types

    class _Base:
        def _get_scorers(self) -> tuple[Any, str]: ...
        def _get_routed_params_for_fit(self, params: Any) -> Any: ...
        def _format_results(self, candidate_params: Any, n_splits: int, out: Any, more: Any) -> dict[str, Any]: ...
        @staticmethod
        def _select_best_index(refit: Any, refit_metric: str, results: Any) -> int: ...
        def predict(self, X: Any) -> Any:
            """What the best estimator predicts."""

        def score(self, X: Any, y: Any = None) -> float:
            """The score of the best estimator."""
            ...

else:
    _Base = BaseSearchCV

Way = Literal["partial_fit", "n_estimators", "max_iter", "fit"]


class SearchCV(_Base):
    """Searches for the parameters of an estimator with the best score in cross-validation.

    Parameters
    ----------
    estimator : estimator of scikit-learn
    space : dict of str to domain or list
        `tune.loguniform(1e-4, 1)`, `tune.choice([...])`, ...; a list or tuple is a choice. Other values are set as they
        are. `tune.grid_search([...])` has each of its values tried `n_trials` times.
    scheduler : str or Scheduler
        Who ends trials early. An estimator that is fitted in one step has nothing to end.
    search_alg : str or Search, optional
        Who proposes parameters: "random", or "tpe" and others of Optuna.
    n_trials : int
        How many configurations are tried.
    scoring : str or callable, optional
        One score; the estimator's own unless given.
    cv : int, splitter or iterable, optional
        As `sklearn.model_selection.check_cv` takes it.
    max_iters : int
        Steps of a trial, > 0.
    refit : bool or callable
        Whether the best configuration is fitted on all data, with as many steps as its trial has made.
    random_state : int or RandomState, optional
        Of what is drawn. Estimators have their own.
    error_score : "raise" or float
        What the score of a configuration is that fails.
    resources : dict, optional
        Of each trial, such as {"cpu": 2}.
    name : str, optional
        Keeps the experiment under this name; otherwise it is deleted at the end.

    Attributes
    ----------
    cv_results_, best_estimator_, best_params_, best_score_, best_index_, scorer_, n_splits_, refit_time_, classes_, ...
        As `GridSearchCV` has them; `cv_results_["n_iterations"]` are the steps that were made.

    Notes
    -----
    A step is a pass over the data where the estimator has `partial_fit`; a part of `n_estimators` or `max_iter` where
    it has `warm_start`; and the whole of it otherwise.

    References
    ----------
    The scheduler's; "asha" is Li et al., A System for Massively Parallel Hyperparameter Tuning, arXiv:1810.05934.
    """

    n_splits_: int
    multimetric_: bool
    best_index_: int
    best_score_: float
    best_params_: dict[str, Any]
    best_estimator_: Any
    refit_time_: float
    feature_names_in_: Any
    scorer_: Any
    cv_results_: dict[str, Any]
    return_train_score: bool = False  # which the code that we inherit asks for
    _required_parameters: ClassVar[list[str]] = ["estimator", "space"]

    def __init__(
        self,
        estimator: Any,
        space: Mapping[str, Any],
        *,
        scheduler: Any = "asha",
        search_alg: Any = None,
        n_trials: int = 10,
        scoring: Any = None,
        cv: Any = None,
        max_iters: int = 27,
        refit: Any = True,
        random_state: Any = None,
        error_score: Any = math.nan,
        resources: Mapping[str, float] | None = None,
        name: str | None = None,
    ) -> None:
        self.estimator = estimator
        self.space = space
        self.scheduler = scheduler
        self.search_alg = search_alg
        self.n_trials = n_trials
        self.scoring = scoring
        self.cv = cv
        self.max_iters = max_iters
        self.refit = refit
        self.random_state = random_state
        self.error_score = error_score
        self.resources = resources
        self.name = name

    def fit(self, X: Any, y: Any = None, **params: Any) -> SearchCV:
        """Search, and fit the best configuration on all data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
        **params
            Of the estimator's `fit` or `partial_fit`; those with an entry for each sample are split.

        Raises
        ------
        ValueError
            Every configuration has failed; or a parameter has a value that it does not take.
        """
        if self.max_iters < 1 or self.n_trials < 1:
            raise ValueError(f"n_trials={self.n_trials}, max_iters={self.max_iters}: both are 1 or more")
        if isinstance(self.scoring, (list, tuple, set, dict)):
            raise ValueError(f"scoring={self.scoring!r}: give one score, by which configurations are compared")
        scorer, metric = self._get_scorers()
        X, y = indexable(X, y)
        routed = self._get_routed_params_for_fit(_check_method_params(X, params=params))
        splitter = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        splits = list(splitter.split(X, y, **routed.splitter.split))
        self.n_splits_ = len(splits)
        base = clone(self.estimator)
        way = way_of(base)
        trial = with_parameters(
            cross_validate,
            data=(X, y, splits, routed.estimator.fit, routed.scorer.score),
            estimator=base,
            scorer=scorer,
            n_steps=self._n_steps(way),
        )
        found = self._search(trial)
        self.multimetric_ = False
        results = self._format_results(
            [row["config"] for row in found],
            self.n_splits_,
            [fold for row in found for fold in row["folds"]],
            {"n_iterations": [row["n"] for row in found]},
        )
        self.best_index_ = self._select_best_index(self.refit, metric, results)
        if not callable(self.refit):
            self.best_score_ = results[f"mean_test_{metric}"][self.best_index_]
        self.best_params_ = results["params"][self.best_index_]
        if self.refit:
            began = time.monotonic()
            best = clone(base).set_params(**clone(self.best_params_, safe=False))
            learner = Learner(best, way, self._n_steps(way), y)
            for _ in range(max(1, found[self.best_index_]["n"])):
                learner.advance(X, y, routed.estimator.fit)
            self.best_estimator_ = learner.estimator
            self.refit_time_ = time.monotonic() - began
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_
        self.scorer_ = scorer
        self.cv_results_ = results
        return self

    def _n_steps(self, way: Way) -> int:
        return 1 if way == "fit" else self.max_iters

    def _search(self, trial: Any) -> list[dict[str, Any]]:
        """Run the experiment: for each trial its configuration, its steps, and times and scores of its folds."""
        storage = None if self.name is not None else tempfile.mkdtemp(prefix="cellmesh-search-")
        strict = isinstance(self.error_score, str)
        search = Tuner(
            trial,
            {name: _domain(value) for name, value in self.space.items()},
            metric="score",
            mode="max",
            scheduler=self.scheduler,
            search_alg=self.search_alg,
            num_samples=self.n_trials,
            seed=None if self.random_state is None else int(check_random_state(self.random_state).randint(1 << 31)),
            resources=self.resources,
            fail_fast=strict,
            storage_path=storage,
            name=self.name or "search",
        ).start()
        try:
            failed = None
            try:
                search.wait()
            except TuneError as error:
                failed = error
            except BaseException:  # Ctrl-C: nobody waits for it any more
                search.stop(why="interrupted")
                search.wait()
                raise
            ended_badly = (result.number for result in search if result.state == "ERROR")
            errors = {number: search.exception(number) for number in ended_badly}
            rows = [self._row(result.config, {} if result.state == "ERROR" else result.metrics) for result in search]
        finally:
            if storage is not None:
                shutil.rmtree(Path(storage), ignore_errors=True)
        if errors and (strict or len(errors) == len(rows)):
            error = next(filter(None, errors.values()), None) or TuneError("every configuration has failed")
            if strict:
                raise error
            raise ValueError(f"All the {len(rows)} configurations have failed. The first one said: {error}") from error
        if failed is not None:
            raise failed
        if errors:
            warnings.warn(
                f"{len(errors)} of {len(rows)} configurations have failed, and have the score {self.error_score}. The "
                f"first one said: {next(iter(errors.values()))}",
                stacklevel=3,
            )
        return rows

    def _row(self, config: dict[str, Any], metrics: Mapping[str, Any]) -> dict[str, Any]:
        folds = [
            {
                "test_scores": metrics.get(f"split{i}/score", self.error_score),
                "fit_time": metrics.get(f"split{i}/fit_time", 0.0),
                "score_time": metrics.get(f"split{i}/score_time", 0.0),
            }
            for i in range(self.n_splits_)
        ]
        return {"config": config, "n": metrics.get("training_iteration", 0), "folds": folds}


def way_of(estimator: Any) -> Way:
    """How an estimator is fitted step by step: "fit" if it cannot be."""
    if hasattr(estimator, "partial_fit"):
        return "partial_fit"
    names = estimator.get_params(deep=False)
    if "warm_start" in names and "n_estimators" in names:
        return "n_estimators"
    if "warm_start" in names and "max_iter" in names:
        return "max_iter"
    return "fit"


class Learner:
    """An estimator that is fitted step by step.

    Parameters
    ----------
    estimator : estimator
        With its parameters.
    way : str
        See `way_of`.
    n_steps : int
        Into how many steps `n_estimators` or `max_iter` is divided.
    y : array-like or None
        All labels: a fold may lack some.
    """

    estimator: Any

    def __init__(self, estimator: Any, way: Way, n_steps: int, y: Any) -> None:
        self.estimator, self._way, self._n_steps, self._n = estimator, way, n_steps, 0
        self._more: dict[str, Any] = {}
        if way == "partial_fit" and is_classifier(estimator) and y is not None:
            self._more = {"classes": np.unique(y)}
        self._total = estimator.get_params(deep=False).get(way)
        if way in ("n_estimators", "max_iter") and (not isinstance(self._total, int) or self._total < 1):
            self._way, self._n_steps = "fit", 1  # no number that could be divided

    def advance(self, X: Any, y: Any, params: Mapping[str, Any]) -> None:
        """Make a step on these data."""
        self._n += 1
        arguments = (X,) if y is None else (X, y)
        if self._way == "partial_fit":
            self.estimator.partial_fit(*arguments, **(self._more if self._n == 1 else {}), **params)
            return
        if self._way in ("n_estimators", "max_iter"):
            done, until = (self._total * n // self._n_steps for n in (self._n - 1, self._n))
            if until == max(done, 0):
                until = done + 1  # more steps than there is to divide
            amount = until if self._way == "n_estimators" else until - done
            before = self.estimator.get_params(deep=False)
            self.estimator.set_params(warm_start=True, **{self._way: amount})
        else:
            before = {}
        with warnings.catch_warnings():
            if self._way == "max_iter":
                warnings.simplefilter("ignore", ConvergenceWarning)  # it goes on with the next step
            self.estimator.fit(*arguments, **params)
        if before:  # as it was given, for whoever fits it again; the number of estimators is how many there are
            kept = {"warm_start"} | ({self._way} if self._way == "max_iter" else set())
            self.estimator.set_params(**{name: before[name] for name in kept})


def cross_validate(config: dict[str, Any], data: Any, estimator: Any, scorer: Any, n_steps: int) -> None:
    """The trial: fits a configuration on all folds, step by step, and reports the scores."""
    X, y, splits, fit_params, score_params = data
    folds: list[tuple[Any, ...]] = []
    for train, test in splits:
        one = clone(estimator).set_params(**clone(config, safe=False))
        X_train, y_train = _safe_split(one, X, y, train)
        X_test, y_test = _safe_split(one, X, y, test, train)
        learner = Learner(one, way_of(one), n_steps, y)
        params = _check_method_params(X, params=fit_params, indices=train)
        of_score = _check_method_params(X, params=score_params, indices=test)
        folds.append((learner, X_train, y_train, params, X_test, y_test, of_score))
    spent = np.zeros(len(folds))
    for _ in range(n_steps):
        metrics: dict[str, Any] = {}
        for i, (learner, X_train, y_train, params, X_test, y_test, of_score) in enumerate(folds):
            began = time.monotonic()
            learner.advance(X_train, y_train, params)
            fitted = time.monotonic()
            score = scorer(learner.estimator, X_test, *(() if y_test is None else (y_test,)), **of_score)
            spent[i] += fitted - began
            if not isinstance(score, (int, float, np.number)):
                raise ValueError(f"scoring must return a number, got {score} ({type(score)}) instead.")
            metrics[f"split{i}"] = {
                "score": float(score),
                "fit_time": float(spent[i]),
                "score_time": time.monotonic() - fitted,
            }
        report(metrics, score=float(np.mean([fold["score"] for fold in metrics.values()])))


def _domain(value: Any) -> Any:
    if isinstance(value, (list, tuple, np.ndarray)):
        return choice(list(value))
    if not isinstance(value, Domain) and hasattr(value, "rvs"):
        raise TypeError(
            f"{value!r}: distributions of scipy are not taken; tune.uniform(a, b), loguniform, randint and others are"
        )
    return value
