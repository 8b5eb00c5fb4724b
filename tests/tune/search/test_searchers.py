"""Grids and random values, searchers in Ray's shape, and what goes around another searcher."""

from __future__ import annotations

import copy
import pickle
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cellmesh.tune import search as searchers
from cellmesh.tune import space
from cellmesh.tune.search import (
    BasicVariantGenerator,
    ConcurrencyLimiter,
    NoSuggestion,
    Optuna,
    Repeater,
    Search,
    Searcher,
    SearcherAdapter,
    as_search,
    from_description,
    make,
)

LOOPS = runpy.run_path(str(Path(__file__).with_name("loops.py")))
Loop, begun, suggestions = LOOPS["Loop"], LOOPS["begun"], LOOPS["suggestions"]
GRID = {"a": space.grid_search([1, 2, 3]), "x": space.uniform(0, 1)}
LATER, FINISHED = NoSuggestion.LATER, NoSuggestion.FINISHED


def loss(config: dict[str, Any]) -> float:
    return config["x"]


# ---- grids and random values
def test_the_grid_is_gone_through() -> None:
    search = begun(BasicVariantGenerator(points_to_evaluate=[{"a": 2}]), GRID, 3)
    found = suggestions(search)
    assert [config["a"] for config in found] == [2, 1, 2, 3, 1, 2, 3] and search.count() == 7
    assert search.suggest(7) is FINISHED and not search.is_adaptive


def test_a_seed_of_its_own() -> None:
    of_seed = suggestions(begun(BasicVariantGenerator(random_state=5), GRID, 2, seed=1))
    assert of_seed == suggestions(begun(BasicVariantGenerator(), GRID, 2, seed=5))
    one, other = (BasicVariantGenerator(random_state=np.random.default_rng(5)) for _ in range(2))
    assert suggestions(begun(one, GRID)) == suggestions(begun(other, GRID))
    assert BasicVariantGenerator(random_state=np.random.RandomState(5)).random_state is not None
    constant = suggestions(begun(BasicVariantGenerator(constant_grid_search=True), GRID, 1))
    assert len({config["x"] for config in constant}) == 1


def test_few_at_a_time() -> None:
    search = begun(BasicVariantGenerator(max_concurrent=2), GRID)
    assert len(suggestions(search)) == 2 and search.suggest(2) is LATER
    search.on_trial_end(0, None, False)
    assert search.suggest(2) == {"a": 3, "x": suggestions(begun(BasicVariantGenerator(), GRID))[2]["x"]}
    with pytest.raises(ValueError, match="max_concurrent=-1"):
        BasicVariantGenerator(max_concurrent=-1)


# ---- Ray's shape
class Own(Searcher):
    """Counts, and writes down what it is told."""

    def __init__(self, most: int = 3, offset: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.most, self.offset, self.n, self.told = most, offset, 0, list[Any]()

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        super().set_search_properties(metric, mode, config, **spec)
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if self.n == self.most:
            return self.FINISHED
        self.n += 1
        return {"model": {"n": self.n + self.offset}}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.told.append((trial_id, result["loss"]))

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.told.append((trial_id, result and result["loss"], error))


class WithPoints(Own):
    """Takes points, too."""

    def add_evaluated_point(
        self, parameters: dict[str, Any], value: float, error: bool = False, *rest: Any, **more: Any
    ):
        self.told.append((parameters["model"]["n"], value, error))


OWN_SPACE = {
    "model": {"w": 8},
    "x": space.uniform(0, 1),
    "twice": space.sample_from(lambda spec: spec.config.model.n * 2),
}


def test_a_searcher_in_rays_shape() -> None:
    own = Own()
    search = begun(as_search(own), OWN_SPACE, 5)
    assert (own.metric, own.mode) == ("loss", "min")
    found = suggestions(search)
    assert [config["model"] for config in found] == [{"w": 8, "n": n} for n in (1, 2, 3)]
    assert [config["twice"] for config in found] == [2, 4, 6] and 0 <= found[0]["x"] <= 1
    assert search.suggest(3) is FINISHED
    search.on_trial_result(1, {"loss": 4})
    search.on_trial_end(1, {"loss": 4}, False)
    search.on_trial_end(0, None, True)
    assert own.told == [("00001", 4), ("00001", 4, False), ("00000", None, True)]
    assert len(suggestions(begun(as_search(Own(9)), {}, 2))) == 2  # no more than num_samples


def test_anything_with_two_methods_is_a_searcher() -> None:
    class Bare:
        def suggest(self, trial_id: str) -> Any:
            return {"00000": {"a": 1}, "00001": None}.get(trial_id, 7)

        def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None: ...

    search = begun(as_search(Bare()), {"b": 2})
    assert search.suggest(0) == {"a": 1, "b": 2} and search.suggest(1) is LATER
    search.on_trial_result(0, {})
    with pytest.raises(TypeError, match=r"Bare.suggest returned 7: a dict, None \(not now\) or 'FINISHED'"):
        search.suggest(2)
    with pytest.raises(TypeError, match="make an object of the class"):
        as_search(Bare)
    with pytest.raises(TypeError, match=r"3 is no searcher: it has no suggest"):
        as_search(3)


def test_a_searcher_is_asked_again_when_resumed() -> None:
    before = begun(as_search(Own()), OWN_SPACE, 5)
    configs = suggestions(before, 2)
    own = Own()
    search = begun(as_search(own), OWN_SPACE, 5)
    for trial, config in enumerate(configs):
        search.replay(trial, config)
    search.on_trial_end(1, {"loss": 2}, False)
    assert own.told == [("00001", 2, False)] and search.suggest(2)["model"]["n"] == 3


@pytest.mark.parametrize("kind, told", [(Own, []), (WithPoints, [(1, 2, False)])])
def test_a_searcher_that_suggests_something_else_is_not_told_wrongly(kind: Any, told: list[Any]) -> None:
    config = suggestions(begun(as_search(Own()), OWN_SPACE), 1)[0]
    own = kind(offset=10)
    search = begun(as_search(own), OWN_SPACE)
    with pytest.warns(UserWarning, match="does not suggest for trial 0 what it did before"):
        search.replay(0, config)
    search.on_trial_result(0, {"loss": 3})
    search.on_trial_end(0, {"loss": 2}, False)
    assert own.told == told


def test_a_searcher_may_replay_itself() -> None:
    class Replays(Own):
        def replay(self, trial_id: str, config: dict[str, Any]) -> None:
            self.told.append((trial_id, config["model"]["n"]))

    own = Replays(offset=10)
    search = begun(as_search(own), OWN_SPACE)
    search.replay(0, {"model": {"n": 77}})
    search.on_trial_end(0, {"loss": 2}, False)
    assert own.told == [("00000", 77), ("00000", 2, False)]


def test_a_searcher_is_saved_and_restored(tmp_path: Path) -> None:
    own = Own()
    own.suggest("a")
    own.save(str(tmp_path / "own"))
    other = Own()
    other.restore(str(tmp_path / "own"))
    assert other.suggest("b") == {"model": {"n": 2}}


def test_what_a_searcher_lacks_is_said() -> None:
    bare = Searcher(metric="loss", mode="max")
    for call in (
        lambda: bare.suggest("a"),
        lambda: bare.on_trial_complete("a"),
        lambda: bare.add_evaluated_point({}, 1),
    ):
        with pytest.raises(NotImplementedError, match="Searcher"):
            call()
    with pytest.raises(ValueError, match="neither"):
        Searcher(mode="smallest")


# ---- around another searcher
def test_a_limit() -> None:
    own = Own(9)
    search = begun(ConcurrencyLimiter(own, 2), {})
    assert len(suggestions(search)) == 2 and search.suggest(2) is LATER
    search.on_trial_end(1, {"loss": 1}, False)
    assert search.suggest(2) == {"model": {"n": 3}} and search.suggest(3) is LATER
    assert own.told == [("00001", 1, False)]


def test_a_limit_in_batches() -> None:
    own = Own(9)
    search = begun(ConcurrencyLimiter(own, 3, batch=True), {})
    assert len(suggestions(search)) == 3
    search.on_trial_end(2, {"loss": 2}, False)
    search.on_trial_end(0, None, True)
    assert search.suggest(3) is LATER and not own.told
    search.on_trial_end(1, {"loss": 1}, False)
    assert own.told == [("00002", 2, False), ("00000", None, True), ("00001", 1, False)]
    assert search.suggest(3) == {"model": {"n": 4}}


def test_a_searcher_that_sees_to_its_limit_itself() -> None:
    class Limited(Own):
        def set_max_concurrency(self, max_concurrent: int) -> bool:
            self.told.append(max_concurrent)
            return True

    own = Limited(9)
    assert len(suggestions(begun(ConcurrencyLimiter(own, 2), {}), 5)) == 5 and own.told == [2]


def test_repetitions() -> None:
    own = Own(9)
    search = begun(Repeater(own, 3), {}, 6)
    assert search.count() == 6
    found = suggestions(search)
    assert [(config["model"]["n"], config["__trial_index__"]) for config in found] == [
        (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)
    ]  # fmt: skip
    found[0]["model"]["n"] = 99  # a trial's own copy
    assert found[1]["model"]["n"] == 1
    for trial, (value, failed) in enumerate(
        [(1.0, False), (5.0, True), (3.0, False), (1.0, True), (1.0, True), (1.0, True)]
    ):
        search.on_trial_result(trial, {"loss": value})
        search.on_trial_end(trial, {"loss": value}, failed)
    assert own.told == [("00000", 2.0, False), ("00003", None, True)]
    assert "__trial_index__" not in suggestions(begun(Repeater(Own(), 2, set_index=False), {}, 2))[0]


def test_what_is_left_over_of_repetitions() -> None:
    with pytest.warns(UserWarning, match="1 are left over of groups of 3"):
        assert len(suggestions(begun(Repeater(Own(9), 3), {}, 7))) == 6
    with pytest.raises(ValueError, match="num_samples=2 counts all trials, and is less than repeat=3"):
        begun(Repeater(Own(), 3), {}, 2)
    with pytest.raises(ValueError, match="repeat=0"):
        Repeater(Own(), 0)
    with pytest.raises(ValueError, match="max_concurrent=0"):
        ConcurrencyLimiter(Own(), 0)


NUMBERS = {"x": space.uniform(-2, 2), "y": space.uniform(0, 1)}


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda: BasicVariantGenerator(),
        lambda: ConcurrencyLimiter(Optuna("tpe"), 2),
        lambda: ConcurrencyLimiter(Optuna("tpe"), 3, batch=True),
        lambda: Repeater(Optuna("cmaes"), 2),
        lambda: ConcurrencyLimiter(Repeater(BasicVariantGenerator(), 3, set_index=False), 2),
    ],
)
def test_resumed_is_as_if_nothing_had_happened(wrapped: Any) -> None:
    whole, part = (Loop(begun(wrapped(), NUMBERS), loss, at_a_time=4) for _ in range(2))
    part.run(13)
    description = part.search.describe()
    again = part.resumed(begun(from_description(description), NUMBERS))
    assert again.run(26) == whole.run(26)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda search: pickle.loads(pickle.dumps(search))])
def test_a_searcher_that_has_not_begun_can_be_sent(copied: Any) -> None:
    for search in (BasicVariantGenerator(), Optuna("tpe", seed=1), Repeater(ConcurrencyLimiter(Optuna("nsga2"), 3), 1)):
        assert suggestions(begun(copied(search), NUMBERS, 2)) == suggestions(begun(search, NUMBERS, 2))


# ---- by name
def test_by_name_and_by_description() -> None:
    assert isinstance(make("random", random_state=3), BasicVariantGenerator)
    assert make("optuna").sampler == make("TPE").sampler == "tpe" and make("cmaes", seed=3).sampler == "cmaes"
    own = BasicVariantGenerator()
    assert make(own) is own and isinstance(make(Own()), SearcherAdapter) and isinstance(make(own), Search)
    for search in (
        BasicVariantGenerator([{"a": (1, 2)}], random_state=4, max_concurrent=3),
        Optuna(
            "qmc", space={"a": space.choice([1, 2])}, points_to_evaluate=[{"a": 1}], seed=3, metric=["a"], mode=["min"]
        ),
        Repeater(ConcurrencyLimiter(own, 3, batch=True), 2),
    ):
        description = search.describe()
        assert from_description(description).describe() == description
    assert (
        SearcherAdapter(Own()).describe()
        is ConcurrencyLimiter(Own(), 2).describe()
        is Repeater(Own()).describe()
        is None
    )
    assert BasicVariantGenerator([{"a": object()}]).describe() is None


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: make("optnua"), "search_alg='optnua': there is no such searcher. Did you mean 'optuna'?"),
        (lambda: make("zzz"), "There are random, grid"),
        (lambda: make("hyperopt"), "hyperopt is not here: Optuna('tpe') has its algorithm"),
        (lambda: make("TuneBOHB"), "TuneBOHB is not here: Optuna('tpe')"),
        (lambda: make(Own(), seed=3), "seed= belongs to a name"),
        (lambda: from_description({"kind": "oracle"}), "'oracle'; a newer version wrote it"),
    ],
)
def test_bad_names_are_told(call: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        call()
    assert says in str(refused.value)


def test_rays_other_searchers_are_refused_by_name() -> None:
    with pytest.raises(ImportError, match=r"AxSearch is not here: .* give any object with suggest"):
        from cellmesh.tune.search import AxSearch  # noqa: F401 (the import is what raises)
    assert not hasattr(searchers, "NoSuchThing")
