from typing import Any

class BaseSearchCV:
    estimator: Any
    scoring: Any
    refit: Any
    cv: Any
    error_score: Any
    return_train_score: bool
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
    def _get_scorers(self) -> tuple[Any, str]: ...
    def _get_routed_params_for_fit(self, params: dict[str, Any]) -> Any: ...
    def _format_results(
        self,
        candidate_params: list[dict[str, Any]],
        n_splits: int,
        out: list[dict[str, Any]],
        more_results: dict[str, list[Any]] | None = ...,
    ) -> dict[str, Any]: ...
    @staticmethod
    def _select_best_index(refit: Any, refit_metric: str, results: dict[str, Any]) -> int: ...
    def predict(self, X: Any) -> Any: ...
    def predict_proba(self, X: Any) -> Any: ...
    def score(self, X: Any, y: Any = ..., **params: Any) -> float: ...
