"""Optuna's samplers: what Optuna alone suggests, in all domains, and again after an experiment was resumed."""

from __future__ import annotations

import importlib.util
import math
import runpy
import sys
from pathlib import Path
from typing import Any

import optuna
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from optuna.trial import TrialState

from cellmesh.tune import space
from cellmesh.tune.search import NoSuggestion, Optuna, OptunaSearch, optuna_search, optuna_space
from cellmesh.tune.space import SpaceError, choice, sample_from, tree

LOOPS = runpy.run_path(str(Path(__file__).with_name("loops.py")))
Loop, begun, suggestions = LOOPS["Loop"], LOOPS["begun"], LOOPS["suggestions"]
optuna.logging.set_verbosity(optuna.logging.WARNING)
NUMBERS = {"x": space.uniform(-2, 2), "y": space.loguniform(1e-3, 1), "n": space.randint(1, 9)}
MIXED = {
    **NUMBERS,
    "model": {"width": space.qrandint(8, 64, 8), "act": choice(["relu", "tanh", None])},
    "q": space.quniform(0, 1, 0.25),
    "k": space.lograndint(1, 100),
}
CLASSES = {name: getattr(optuna.samplers, each) for name, each in optuna_search.SAMPLERS.items()}
AVAILABLE = [name for name in CLASSES if name != "gp"]


def loss(config: dict[str, Any]) -> float:
    return (config["x"] - 1) ** 2 + config["y"] + config["n"] / 10


def ask_numbers(trial: optuna.Trial) -> dict[str, Any]:
    x, y = trial.suggest_float("x", -2, 2), trial.suggest_float("y", 1e-3, 1, log=True)
    return {"x": x, "y": y, "n": trial.suggest_int("n", 1, 8)}


def ask_mixed(trial: optuna.Trial) -> dict[str, Any]:
    numbers = ask_numbers(trial)
    width = trial.suggest_int("model/width", 8, 64, step=8)
    act = trial.suggest_categorical("model/act", ["relu", "tanh", None])
    q, k = trial.suggest_float("q", 0, 1, step=0.25), trial.suggest_int("k", 1, 99, log=True)
    return {**numbers, "model": {"width": width, "act": act}, "q": q, "k": k}


def alone(sampler: Any, ask: Any, n: int) -> list[dict[str, Any]]:
    """What Optuna suggests without us, told what `Loop` tells."""
    study, found = optuna.create_study(sampler=sampler), []
    for number in range(n):
        trial = study.ask()
        found.append(ask(trial))
        value = loss(found[-1]) + 1
        trial.report(value, 1)
        failed, pruned = number % 5 == 3, number % 5 == 4
        state = TrialState.FAIL if failed else TrialState.PRUNED if pruned else TrialState.COMPLETE
        study.tell(trial, None if failed or pruned else value, state=state)
    return found


def test_tpe_suggests_what_optuna_alone_does() -> None:
    expected = alone(optuna.samplers.TPESampler(seed=7), ask_mixed, 30)
    assert Loop(begun(Optuna("tpe"), MIXED, seed=7), loss).run(30) == expected
    assert Loop(begun(Optuna(seed=7), MIXED, seed=1), loss).run(30) == expected
    given = Optuna(optuna.samplers.TPESampler(seed=7))
    assert Loop(begun(given, MIXED), loss).run(30) == expected


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("name", AVAILABLE)
def test_each_sampler_suggests_what_it_does_alone(name: str) -> None:
    expected = alone(CLASSES[name](seed=3), ask_numbers, 15)
    search = begun(Optuna(name), NUMBERS, seed=3)
    assert Loop(search, loss).run(15) == expected
    assert search.is_adaptive == (name not in ("random", "qmc"))


FINITE = {"x": choice([0.0, 1.0]), "n": space.randint(0, 3)}
ENUMERATING = {
    "grid": lambda: optuna.samplers.GridSampler({"x": [0.0, 1.0], "n": [0, 1, 2]}, seed=0),
    "brute force": lambda: optuna.samplers.BruteForceSampler(seed=0),
}


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("n_at_a_time", [1, 3, 6])
@pytest.mark.parametrize("name", ENUMERATING)
def test_samplers_that_have_gone_through_everything_have_no_more(
    name: str, n_at_a_time: int, capfd: pytest.CaptureFixture[str]
) -> None:
    search, found, running = begun(Optuna(ENUMERATING[name]()), FINITE, num_samples=-1), [], list[int]()
    while (config := search.suggest(len(found))) is not NoSuggestion.FINISHED:
        running.append(len(found))
        found.append((config["x"], config["n"]))
        if len(running) == n_at_a_time:
            search.on_trial_end(running.pop(0), {"loss": 1.0, "training_iteration": 1}, False)
    assert sorted(found) == [(x, n) for x in (0.0, 1.0) for n in range(3)]
    for trial in running:
        search.on_trial_end(trial, {"loss": 1.0, "training_iteration": 1}, False)
    assert search.suggest(len(found)) is NoSuggestion.FINISHED
    again = begun(Optuna(ENUMERATING[name]()), FINITE, num_samples=-1)
    for trial, (x, n) in enumerate(found[:4]):
        again.replay(trial, {"x": x, "n": n})
        again.on_trial_end(trial, {"loss": 1.0, "training_iteration": 1}, False)
    rest = []
    while (config := again.suggest(4 + len(rest))) is not NoSuggestion.FINISHED:
        rest.append((config["x"], config["n"]))
        again.on_trial_end(3 + len(rest), {"loss": 1.0, "training_iteration": 1}, False)
    assert sorted(found[:4] + rest) == sorted(found)
    assert "exhausted" not in capfd.readouterr().err


def test_what_a_sampler_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("torch") is None:
        with pytest.raises(ModuleNotFoundError, match=r"'gp' needs more: pip install torch"):
            Optuna("gp")
    else:
        assert len(Loop(begun(Optuna("gp"), NUMBERS), loss).run(15)) == 15
    monkeypatch.setattr(optuna_search, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="'cmaes' needs more: pip install cmaes"):
        Optuna("cmaes")
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'cellmesh\[tune\]'"):
        Optuna()


@pytest.mark.parametrize("name", ["cmaes", "qmc"])
def test_what_is_drawn_at_random_is_said_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    of = {**NUMBERS, "act": choice(["relu", "tanh"]), "opt": choice([{"m": choice([1, 2])}, 3])}
    optuna.logging.enable_propagation()
    with pytest.warns(UserWarning, match=rf"Optuna's '{name}' is for numbers: it draws act, opt, opt\[0\]/m at random"):
        search = begun(Optuna(name), of)
    Loop(search, loss).run(10)
    optuna.logging.disable_propagation()
    assert not caplog.records


# ---- domains
EVERYTHING = {
    "a": space.qloguniform(0.5, 8, 0.5),
    "b": space.qlograndint(10, 1000, 10),
    "c": choice([(1, 2), [3], math.nan, 3]),
    "d": choice([1, True, 1.0]),
    "e": (space.qrandint(0, 10, 5), [space.uniform(0, 1)]),
    "opt": choice([{"m": space.uniform(0, 1)}, {"m": space.uniform(5, 9)}, choice(["x", "y"])]),
    "f": sample_from(lambda config: config["a"] * 2),
    "fixed": {"z": 1},
}


def test_all_domains_are_kept_to() -> None:
    found = Loop(begun(Optuna("tpe"), EVERYTHING), lambda config: config["a"]).run(40)
    for config in found:
        assert EVERYTHING["a"].contains(config["a"]) and EVERYTHING["b"].contains(config["b"])
        assert any(space.same(config["c"], option) for option in EVERYTHING["c"].options)
        assert config["e"][0] in (0, 5, 10) and type(config["e"]) is tuple and 0 <= config["e"][1][0] <= 1
        option = config["opt"]
        assert option in ("x", "y") or 0 <= option["m"] <= 1 or 5 <= option["m"] <= 9
        assert config["f"] == config["a"] * 2 and config["fixed"] == {"z": 1}
    assert {type(config["d"]) for config in found} == {int, bool, float}
    assert {type(config["opt"]) for config in found} == {str, dict}


@pytest.mark.parametrize(
    "of, says",
    [
        ({"a": {"b": space.randn()}}, "a/b: randn(0.0, 1.0): Optuna has no normal distribution; take uniform"),
        ({"a": choice([{"b": space.qrandn(0, 1, 1)}])}, "a[0]/b: qrandn"),
        ({"a": space.grid_search([1, 2])}, "a: grid_search([1, 2]): Optuna goes through no grid"),
        ({"a": {"b": space.randint(0, 2)}, "a/b": space.randint(0, 2)}, "two parameters are a/b"),
        ({"a": 1, "b": sample_from(lambda: 2)}, "there is nothing to search"),
    ],
    ids=repr,
)
def test_what_optuna_has_no_word_for_is_refused(of: dict[str, Any], says: str) -> None:
    with pytest.raises(SpaceError) as refused:
        begun(Optuna(), of)
    assert says in str(refused.value)


LEAVES = st.one_of(
    st.sampled_from(
        [1, "x", None, (), space.quniform(0, 1, 0.25), space.qloguniform(0.5, 2, 0.5), space.uniform(0, 1)]
    ),
    st.sampled_from(
        [space.randint(-2, 3), space.qrandint(0, 9, 3), space.lograndint(1, 9), space.qlograndint(4, 40, 4)]
    ),
    st.sampled_from([choice([1, True, 2.0]), choice(["a", "b"])]),
)
NODES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("pqr"), inner, max_size=2),
        st.lists(inner, max_size=2),
        st.tuples(inner, inner),
        st.lists(inner, min_size=1, max_size=3).map(choice),
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@example({"a": choice([space.quniform(0, 1, 0.25), 1, {"m": space.uniform(0, 1)}, {"m": 0}])})
@given(st.dictionaries(st.sampled_from("abc"), NODES, max_size=3))
def test_the_parameters_of_a_configuration_give_it_again(of: dict[str, Any]) -> None:
    asked = optuna_space.OptunaSpace(tree.checked(of))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    config = tree.freeze(asked.suggest(study.ask()))
    params, distributions = asked.params(config)
    assert params.keys() == distributions.keys()
    assert space.same(tree.freeze(asked.suggest(optuna.trial.FixedTrial(params))), config)
    optuna.trial.create_trial(params=params, distributions=distributions, values=[0.0])  # refuses what does not fit


def test_a_space_of_its_own() -> None:
    distributions = {"model": {"x": optuna.distributions.FloatDistribution(-2, 2)}, "y": space.uniform(0, 1)}
    constants = {"fixed": 3, "model": {"z": 4}, "sum": sample_from(lambda config: config["y"] + config["fixed"])}
    for config in suggestions(begun(Optuna(space=distributions), constants), 5):
        assert config.keys() == {"fixed", "model", "y", "sum"} and config["model"].keys() == {"x", "z"}
        assert config["sum"] == config["y"] + 3
    with pytest.raises(SpaceError, match="there are two spaces"):
        begun(Optuna(space=distributions), NUMBERS)
    with pytest.raises(SpaceError, match="space=3: give a dict"):
        begun(Optuna(space=3), {})


def define(trial: optuna.Trial) -> dict[str, Any]:
    if trial.suggest_categorical("kind", ["sgd", "adam"]) == "sgd":
        trial.suggest_float("sgd/momentum", 0, 1)
    trial.suggest_float("x", -2, 2)
    return {"y": 0.5, "n": 4}


def test_a_space_that_a_function_writes() -> None:
    found = Loop(begun(Optuna(space=define), {"more": 1}), loss).run(20)
    for config in found:
        assert config["y"] == 0.5 and config["more"] == 1
        assert ("sgd" in config) == (config["kind"] == "sgd")
    with pytest.raises(SpaceError, match=r"returned \[1\]: a dict of constants"):
        begun(Optuna(space=lambda trial: [1]), {}).suggest(0)


def test_suggestions_end_with_the_samples() -> None:
    search = begun(Optuna("random"), NUMBERS, 3)
    assert search.count() == 3 and len(suggestions(search)) == 3
    assert search.suggest(3) is NoSuggestion.FINISHED


# ---- points and results
def test_points_come_first() -> None:
    of = {**NUMBERS, "opt": choice([{"m": space.uniform(0, 1)}, "none"])}
    points = [{"x": 0.5, "y": 0.1, "n": 3, "opt": {"m": 0.25}}, {"n": 7}, {"opt": "none"}]
    found = suggestions(begun(Optuna(points_to_evaluate=points), of), 4)
    assert found[0] == points[0] and found[1]["n"] == 7 and found[2]["opt"] == "none"
    assert suggestions(begun(Optuna(points_to_evaluate=[{"opt": {"m": 1}}]), of), 1)[0]["opt"] == {"m": 1}
    with pytest.raises(SpaceError, match="points_to_evaluate: the space has no z; there are x, y, n"):
        begun(Optuna(points_to_evaluate=[{"z": 1}]), NUMBERS)
    with pytest.raises(SpaceError, match="points_to_evaluate: opt: 'x' is none of choice"):
        begun(Optuna(points_to_evaluate=[{"opt": "x"}]), of)


def test_points_with_rewards_are_not_tried() -> None:
    points = [{"x": float(n), "y": 0.5, "n": 1} for n in range(-2, 3)]
    search = begun(Optuna(points_to_evaluate=points, evaluated_rewards=[5, 4, 3, 1, 2]), NUMBERS)
    assert search._study.best_params["x"] == 1
    assert suggestions(search, 1)[0] not in points
    with pytest.raises(ValueError, match="1 evaluated_rewards for 2 points_to_evaluate"):
        Optuna(points_to_evaluate=points[:2], evaluated_rewards=[1])


def test_several_objectives() -> None:
    search = Optuna("nsga2", metric=["loss", "size"], mode=["min", "max"])
    begun(search, NUMBERS)
    assert [each.name for each in search._study.directions] == ["MINIMIZE", "MAXIMIZE"]
    for trial, _ in enumerate(suggestions(search, 3)):
        result = {"loss": trial, "size": 2 * trial, "training_iteration": 1}
        search.on_trial_result(trial, result)
        search.on_trial_end(trial, result, False, trial == 1)
    assert [trial.values for trial in search._study.trials] == [[0, 0], [1, 2], [2, 4]]


@pytest.mark.parametrize(
    "end, state, value",
    [
        (({"loss": 2.0, "training_iteration": 2}, False), TrialState.COMPLETE, 2.0),
        (({"loss": 2.0, "training_iteration": 2}, False, True), TrialState.PRUNED, 2.0),
        (({"loss": 2.0, "training_iteration": 2}, True), TrialState.FAIL, None),
        (({"loss": math.nan, "training_iteration": 2}, False), TrialState.FAIL, None),
        (({"other": 1, "training_iteration": 2}, False), TrialState.FAIL, None),
        ((None, False), TrialState.FAIL, None),
    ],
)
def test_how_trials_end(end: tuple[Any, ...], state: TrialState, value: float | None) -> None:
    search = begun(Optuna(), NUMBERS)
    search.suggest(0)
    search.on_trial_result(0, {"loss": 3.0, "training_iteration": 1})
    if end[0] is not None:
        search.on_trial_result(0, end[0])
    search.on_trial_end(0, *end)
    (trial,) = search._study.trials
    assert trial.state == state and trial.value == value and trial.intermediate_values[1] == 3.0
    search.on_trial_result(0, {"loss": 1.0, "training_iteration": 3})  # late: nobody minds


def test_a_step_that_is_taken_again_counts_once() -> None:
    search = begun(Optuna(), NUMBERS)
    search.suggest(0)
    for iteration, value in ((1, 4.0), (2, 3.0), (1, 9.0), (2, 8.0), (3, 2.0)):  # after a failure, from its beginning
        search.on_trial_result(0, {"loss": value, "training_iteration": iteration})
    assert search._study.trials[0].intermediate_values == {1: 4.0, 2: 3.0, 3: 2.0}


def test_a_suggestion_that_fails_leaves_nothing_under_way() -> None:
    search = begun(Optuna(), {**NUMBERS, "f": sample_from(lambda config: 1 / 0)})
    with pytest.raises(SpaceError, match="f: sample_from"):
        search.suggest(0)
    assert [trial.state for trial in search._study.trials] == [TrialState.FAIL]


# ---- resuming
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("at_a_time", [1, 3])
@pytest.mark.parametrize("name", AVAILABLE)
def test_resumed_is_as_if_nothing_had_happened(name: str, at_a_time: int) -> None:
    points = [{"x": 0.5}]
    whole = Loop(begun(Optuna(name, points_to_evaluate=points), NUMBERS), loss, at_a_time=at_a_time, n_reports=2)
    part = Loop(begun(Optuna(name, points_to_evaluate=points), NUMBERS), loss, at_a_time=at_a_time, n_reports=2)
    part.run(12)
    again = part.resumed(begun(Optuna(name, points_to_evaluate=points), NUMBERS))
    assert again.run(24) == whole.run(24)


def states_of(search: Optuna) -> list[Any]:
    return [(trial.state, trial.params, trial.values, trial.intermediate_values) for trial in search._study.trials]


@pytest.mark.parametrize("of", [MIXED, {**EVERYTHING, **NUMBERS, "c": choice([(1, 2), [3], 3])}], ids=["mixed", "all"])
def test_trials_that_are_added_are_what_they_were(of: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(optuna_search.MAX_ASKED_AGAIN, "tpe", 5)
    loop = Loop(begun(Optuna(points_to_evaluate=[{"x": 1.0}, {"x": 0.0}]), of), loss, at_a_time=3, n_reports=2)
    loop.run(20)
    for iteration in (1, 2, 1, 3):
        loop.tell("on_trial_result", loop.live[0], {"loss": 5.0 + iteration, "training_iteration": iteration})
    before = states_of(loop.search)
    found = []
    for _ in range(2):
        again = loop.resumed(begun(Optuna(points_to_evaluate=[{"x": 1.0}, {"x": 0.0}]), of))
        again.search._go_on()
        assert states_of(again.search) == before
        found.append(again.run(30))
        assert [state[0] for state in states_of(again.search)].count(TrialState.RUNNING) == len(again.live)
    assert found[0] == found[1]


@pytest.mark.parametrize("most", [0, 200])
def test_options_that_a_journal_only_shows(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(optuna_search.MAX_ASKED_AGAIN, "tpe", most)
    of = {**NUMBERS, "act": choice([math.tanh, abs, {"f": dict, "m": space.uniform(0, 1)}])}
    loop = Loop(begun(Optuna(), of), loss)
    loop.run(8)
    loop.calls = [space.from_json(space.to_json(call)) for call in loop.calls]
    again = loop.resumed(begun(Optuna(), of))
    again.run(9)
    assert states_of(again.search)[:7] == states_of(loop.search)[:7]


def test_what_optuna_would_not_suggest_again_is_added() -> None:
    loop = Loop(begun(Optuna(seed=1), NUMBERS), loss)
    loop.run(8)
    again = loop.resumed(begun(Optuna(seed=2), NUMBERS))
    again.run(9)
    assert states_of(again.search)[:7] == states_of(loop.search)[:7]


def test_a_function_writes_the_same_space_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(optuna_search.MAX_ASKED_AGAIN, "tpe", 0)
    loop = Loop(begun(Optuna(space=define), {}), loss)
    loop.run(8)
    again = loop.resumed(begun(Optuna(space=define), {}))
    again.run(9)
    assert states_of(again.search)[:7] == states_of(loop.search)[:7]


def test_a_storage_of_ones_own(tmp_path: Path) -> None:
    def made() -> Optuna:
        storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/study.db")
        return begun(OptunaSearch(NUMBERS, seed=0, storage=storage, study_name="mine"), {})

    loop = Loop(made(), loss, at_a_time=2)
    loop.run(6)
    again = loop.resumed(made())
    again.run(8)
    states = [state[0] for state in states_of(again.search)]
    assert len(states) == 8 and states.count(TrialState.RUNNING) == len(again.live) == 2
    for search in (loop.search, again.search):
        search.storage.remove_session()
        search.storage.engine.dispose()


# ---- arguments
@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: Optuna("tpee"), "sampler='tpee': give a sampler of Optuna, or one of tpe, gp"),
        (lambda: Optuna(mode="minimum"), "neither \"min\" nor \"max\""),
        (lambda: Optuna(metric=["a", "b"], mode="min"), "give a list of modes"),
        (lambda: Optuna(metric=["a", "b"], mode=["min"]), "2 metrics, but 1 modes"),
        (lambda: Optuna(metric="a", mode=["min"]), "one metric has one mode"),
        (lambda: Optuna().begin(None, "min", NUMBERS, 1, 0), "Optuna needs metric="),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(make: Any, says: str) -> None:
    with pytest.raises(ValueError) as refused:
        make()
    assert says in str(refused.value)
