"""The same seed gives the same experiment, on however many CPUs; a searcher suggests what it does by itself."""

from __future__ import annotations

from typing import Any

import pytest

import cellmesh
from cellmesh import tune

SPACE = {
    "kind": tune.grid_search(["a", "b"]),
    "x": tune.loguniform(1e-3, 1.0),
    "y": {"n": tune.randint(0, 100), "z": tune.sample_from(lambda config: config["x"] * 2)},
}


def train(config: dict[str, Any]) -> None:
    for i in range(1 + config["y"]["n"] % 4):
        tune.report(score=config["x"] * i, z=config["y"]["z"])


@pytest.mark.parametrize("search_alg", ["random", "qmc"])
def test_the_same_seed_on_one_two_and_four_cpus(search_alg: str) -> None:
    found = []
    space = SPACE if search_alg == "random" else {**SPACE, "kind": "a"}  # Optuna has grids of its own
    n = 6 if search_alg == "random" else 12
    for n_cpus in (1, 2, 4):
        cellmesh.init(num_cpus=n_cpus, object_store_memory=64 << 20)
        try:
            search = tune.Tuner(
                train, space, metric="score", num_samples=n, seed=3, search_alg=search_alg, name=f"on-{n_cpus}"
            ).fit()
            found.append([(r.config, r.state, r.curve("score"), r.curve("z")) for r in search])
        finally:
            cellmesh.shutdown()
    assert len(found[0]) == 12 and found[0] == found[1] == found[2]


def test_tpe_suggests_what_optuna_alone_does() -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def loss(x: float, n: int) -> float:
        return (x - 0.3) ** 2 + n

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=5))
    alone = []
    for _ in range(25):
        trial = study.ask()
        alone.append({"x": trial.suggest_float("x", -2, 2), "n": trial.suggest_int("n", 0, 9)})
        study.tell(trial, loss(**alone[-1]))

    cellmesh.init(num_cpus=2, object_store_memory=64 << 20)
    try:
        search = tune.Tuner(
            lambda config: {"loss": loss(**config)},
            {"x": tune.uniform(-2, 2), "n": tune.randint(0, 10)},
            metric="loss",
            mode="min",
            search_alg="tpe",
            num_samples=25,
            max_concurrent=1,
            seed=5,
        ).fit()
    finally:
        cellmesh.shutdown()
    assert [result.config for result in search] == alone
