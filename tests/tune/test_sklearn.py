"""`SearchCV`: scikit-learn's interface, early stopping, and its own checks of an estimator."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import cloudpickle
import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import estimator_checks_generator

import cellmesh as cm
from cellmesh import tune
from cellmesh.tune.sklearn import Learner, SearchCV, way_of
from cellmesh.util import preload

pytestmark = pytest.mark.may_keep("threads", "of the session, which this module shares")
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # which workers cannot import
X, Y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    """Two CPUs, for all tests here; what they fit is there in each worker, which would import it for a second."""
    cm.init(num_cpus=2)
    preload("sklearn.ensemble", "sklearn.linear_model", "sklearn.model_selection", "sklearn.svm")
    yield
    cm.shutdown()


def test_a_grid_is_what_scikit_learn_finds(session: None) -> None:
    ours = SearchCV(SVC(), {"C": tune.grid_search([0.01, 1.0, 100.0])}, n_trials=1, cv=4).fit(X, Y)
    theirs = GridSearchCV(SVC(), {"C": [0.01, 1.0, 100.0]}, cv=4).fit(X, Y)
    assert ours.best_params_ == theirs.best_params_ and ours.best_score_ == theirs.best_score_
    assert list(ours.cv_results_["params"]) == list(theirs.cv_results_["params"])
    for name in ("mean_test_score", "std_test_score", "rank_test_score", "split3_test_score"):
        np.testing.assert_array_equal(ours.cv_results_[name], theirs.cv_results_[name])
    assert set(theirs.cv_results_) | {"n_iterations"} == set(ours.cv_results_)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.score(X, Y) == theirs.score(X, Y) and list(ours.classes_) == [0, 1, 2]
    assert ours.n_splits_ == 4 and ours.n_features_in_ == 4


def test_bad_configurations_end_early_and_the_best_is_fitted_as_far(session: None) -> None:
    search = SearchCV(
        SGDClassifier(random_state=0),
        {"alpha": tune.grid_search([1e-4, 1e-3, 10.0, 100.0, 1000.0, 10000.0])},
        n_trials=1,
        scheduler=tune.ASHA(max_t=8, reduction_factor=2),
        max_iters=8,
        cv=3,
    ).fit(X, Y)
    steps = search.cv_results_["n_iterations"]
    assert max(steps) == 8 and min(steps) < 8
    assert search.best_estimator_.t_ - 1 == steps[search.best_index_] * len(X), "as many passes as its trial has made"


def test_the_same_seed_tries_the_same(session: None) -> None:
    def params() -> Any:
        space = {"alpha": tune.loguniform(1e-3, 1e3), "fit_intercept": [True, False]}
        return SearchCV(Ridge(), space, n_trials=4, random_state=3, cv=2).fit(X, Y).cv_results_["params"]

    assert params() == params()


def test_scores_folds_and_parameters_of_fit_are_the_users(session: None) -> None:
    folds = StratifiedKFold(3, shuffle=True, random_state=1)
    weights = np.where(Y == 0, 1.0, 5.0)
    scorer = make_scorer(accuracy_score, greater_is_better=False)
    search = SearchCV(LogisticRegression(C=0.01), {}, n_trials=1, scoring=scorer, cv=folds, max_iters=1)
    search.fit(X, Y, sample_weight=weights)
    theirs = GridSearchCV(LogisticRegression(C=0.01), {}, scoring=scorer, cv=folds).fit(X, Y, sample_weight=weights)
    assert search.best_score_ == pytest.approx(theirs.best_score_) and search.best_score_ < 0


def test_a_pipeline_is_fitted_at_once(session: None) -> None:
    pipeline = make_pipeline(StandardScaler(), SVC())
    search = SearchCV(pipeline, {"svc__C": [0.1, 1.0]}, n_trials=3, random_state=0, cv=3).fit(X, Y)
    assert list(search.cv_results_["n_iterations"]) == [1, 1, 1]
    expected = cross_val_score(clone(pipeline).set_params(**search.best_params_), X, Y, cv=3).mean()
    assert search.best_score_ == pytest.approx(expected)
    assert search.best_params_["svc__C"] in (0.1, 1.0)


def test_without_refit(session: None) -> None:
    search = SearchCV(SVC(), {"C": [0.1, 1.0]}, n_trials=2, refit=False, cv=2).fit(X, Y)
    assert "C" in search.best_params_ and not hasattr(search, "predict") and not hasattr(search, "best_estimator_")


class Fragile(ClassifierMixin, BaseEstimator):
    def __init__(self, x: int = 0) -> None:
        self.x = x

    def fit(self, X: Any, y: Any) -> Fragile:
        if self.x > 1:
            raise RuntimeError(f"x={self.x} is too much")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[self.x])


def test_configurations_that_fail(session: None) -> None:
    search = SearchCV(Fragile(), {"x": tune.grid_search([0, 5, 1])}, n_trials=1, cv=3)
    with pytest.warns(UserWarning, match="1 of 3 configurations have failed"), np.errstate(all="ignore"):
        search.fit(X, Y)
    scores = search.cv_results_["mean_test_score"]
    assert (
        math.isnan(scores[1]) and search.cv_results_["rank_test_score"][1] == 3 and search.best_params_["x"] in (0, 1)
    )
    with pytest.raises(RuntimeError, match="x=5 is too much"):
        clone(search).set_params(error_score="raise").fit(X, Y)
    with pytest.raises(ValueError, match=r"All the 2 configurations have failed.*x=[78] is too much"):
        clone(search).set_params(space={"x": tune.grid_search([7, 8])}).fit(X, Y)


def test_what_is_refused() -> None:
    for bad, words in (
        ({"max_iters": 0}, "max_iters=0"),
        ({"n_trials": 0}, "n_trials=0"),
        ({"scoring": ["accuracy"]}, "give one score"),
    ):
        with pytest.raises(ValueError, match=words):
            SearchCV(SVC(), {"C": [1.0]}, **bad).fit(X, Y)


def test_ways() -> None:
    assert way_of(SGDClassifier()) == "partial_fit" and way_of(RandomForestClassifier()) == "n_estimators"
    assert way_of(LogisticRegression()) == "max_iter" and way_of(SVC()) == "fit"


def test_steps_of_a_forest_add_up_to_the_forest() -> None:
    steps = Learner(RandomForestClassifier(n_estimators=10, random_state=0), "n_estimators", 4, Y)
    sizes = []
    for _ in range(4):
        steps.advance(X, Y, {})
        sizes.append(len(steps.estimator.estimators_))
    assert sizes == [2, 5, 7, 10] and steps.estimator.warm_start is False
    whole = RandomForestClassifier(n_estimators=10, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(steps.estimator.predict_proba(X), whole.predict_proba(X))


def test_more_steps_than_there_is_to_divide() -> None:
    steps = Learner(LogisticRegression(max_iter=2), "max_iter", 5, Y)
    for _ in range(5):
        steps.advance(X, Y, {})
    assert steps.estimator.max_iter == 2 and steps.estimator.warm_start is False


# What GridSearchCV does not pass either, in scikit-learn's own list.
NOT_PASSED = {"check_supervised_y_2d": "DataConversionWarning not caught"}
SEARCHES = [
    (SearchCV(Ridge(), {"alpha": [0.1, 1.0]}, n_trials=2, cv=2, random_state=0, error_score="raise"), NOT_PASSED),
    (SearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, n_trials=2, cv=2, random_state=0, error_score="raise"), {}),
]


def checks() -> Iterator[Any]:
    """Those of scikit-learn, without those for arrays of other libraries."""
    for search, not_passed in SEARCHES:
        for case in estimator_checks_generator(search, expected_failed_checks=not_passed, mark="xfail"):
            estimator, check = getattr(case, "values", case)
            if "array_api" not in check.func.__name__:
                name = f"{type(search.estimator).__name__}-{check.func.__name__}"
                yield pytest.param(estimator, check, marks=getattr(case, "marks", ()), id=name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator, check", list(checks()))
def test_checks_of_scikit_learn(session: None, estimator: Any, check: Any) -> None:
    check(estimator)
