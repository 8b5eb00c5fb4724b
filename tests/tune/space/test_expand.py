"""Spaces to configurations: Ray's order, dependencies, conditions, one generator a trial."""

from __future__ import annotations

import json
import runpy
import traceback
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellmesh.tune import space
from cellmesh.tune.space import Expansion, SpaceError, choice, expand, grid_search, randint, sample_from, uniform

HERE = Path(__file__).parent
RAY = json.loads((HERE / "ray_spaces.json").read_text())["spaces"]
SPACES = runpy.run_path(str(HERE / "spaces.py"))["spaces"](space)
# Where Ray counts the values of the outermost grids alone, and makes more trials than that.
MISCOUNTED = {"inside a value", "inside values"}


def configs(of: dict[str, Any], *args: Any, **options: Any) -> list[dict[str, Any]]:
    return [config for _, config in expand(of, *args, **options)]


@pytest.mark.parametrize("name", SPACES)
def test_the_order_and_the_number_of_trials_are_rays(name: str) -> None:
    assert json.loads(json.dumps(configs(SPACES[name]))) == RAY[name]["configs"]
    assert space.count(SPACES[name]) == len(RAY[name]["configs"])
    assert (space.count(SPACES[name]) != RAY[name]["count"]) == (name in MISCOUNTED)


def test_each_sample_goes_through_the_grid() -> None:
    of = {"a": grid_search([1, 2]), "b": uniform(0, 1)}
    found = list(expand(of, 3))
    assert [number for number, _ in found] == list(range(6)) and space.count(of, 3) == 6
    assert [config["a"] for _, config in found] == [1, 2] * 3
    assert len({config["b"] for _, config in found}) == 6


def test_without_end() -> None:
    assert len(list(islice(expand({"a": grid_search([1, 2])}, -1), 1001))) == 1001
    assert space.count({"a": 1}, -1) is None


def test_what_is_drawn_once_a_sample() -> None:
    of = {"a": grid_search([1, 2, 3]), "b": uniform(0, 1), "c": sample_from(lambda config: config["a"] * config["b"])}
    found = configs(of, 2, constant_grid_search=True)
    assert len({config["b"] for config in found[:3]}) == len({config["b"] for config in found[3:]}) == 1
    assert found[0]["b"] != found[3]["b"]
    assert all(config["c"] == config["a"] * config["b"] for config in found)


def test_lists_tuples_and_dicts_keep_their_types() -> None:
    of = {"a": (1, [randint(0, 5)], {"b": randint(5, 9)}), "c": [grid_search([(1, 2)])]}
    (found,) = configs(of)
    assert found["a"][0] == 1 and type(found["a"]) is tuple and found["c"] == [(1, 2)]
    assert 0 <= found["a"][1][0] < 5 <= found["a"][2]["b"] < 9


def test_trials_do_not_share_lists() -> None:
    of = {"layers": [1, 2], "more": {"a": []}, "option": choice([[1]])}
    one, other = configs(of, 2)
    for each in (one["layers"], one["more"]["a"], one["option"]):
        each.append(3)
    assert other == {"layers": [1, 2], "more": {"a": []}, "option": [1]} and of["layers"] == [1, 2]


# ---- dependencies
def test_functions_are_called_once_what_they_read_is_there() -> None:
    of = {
        "c": sample_from(lambda config: config["b"] + 1),
        "b": sample_from(lambda spec: spec.config.model.width * 2),
        "model": {"width": randint(3, 4), "sizes": [sample_from(lambda config: config["c"]), 7]},
        "last": sample_from(lambda config: config.model["sizes"][-2] + config["model"].sizes[1]),
        "none": sample_from(lambda: "alone"),
    }
    assert configs(of) == [{"c": 7, "b": 6, "model": {"width": 3, "sizes": [7, 7]}, "last": 14, "none": "alone"}]


def test_a_function_that_catches_exceptions_is_put_off_likewise() -> None:
    def careful(config: Any) -> Any:
        try:
            return config.get("b", "nothing")
        except Exception:
            return "wrong"

    assert configs({"a": sample_from(careful), "b": sample_from(lambda config: config["c"]), "c": 5})[0]["a"] == 5


def test_a_function_may_return_domains_and_what_it_has_read() -> None:
    of = {
        "n": 4,
        "a": sample_from(lambda config: randint(config["n"], config["n"] + 1)),
        "b": sample_from(lambda config: {"copy": config["inner"], "drawn": [uniform(0, 1)]}),
        "inner": {"x": randint(1, 2), "y": (1, 2)},
    }
    (found,) = configs(of)
    assert found["a"] == 4 and found["b"]["copy"] == {"x": 1, "y": (1, 2)} and 0 <= found["b"]["drawn"][0] <= 1
    assert type(found["b"]["copy"]) is dict


def test_a_function_draws_from_the_generator_of_its_trial() -> None:
    of = {"n": randint(5, 9), "a": sample_from(lambda config, rng: int(rng.integers(config["n"])))}
    assert configs(of, 20, seed=3) == configs(of, 20, seed=3) != configs(of, 20, seed=4)


def test_a_circle_names_its_keys() -> None:
    of = {
        "start": sample_from(lambda config: config["a"]),
        "a": sample_from(lambda config: config["model"]["b"]),
        "model": {"b": sample_from(lambda config: config["c"]), "fine": 1},
        "c": sample_from(lambda config: config["a"]),
    }
    with pytest.raises(SpaceError, match="wait for each other: a -> model/b -> c -> a"):
        configs(of)
    with pytest.raises(SpaceError, match="wait for each other: a -> a"):
        configs({"a": sample_from(lambda config: config["a"])})
    with pytest.raises(SpaceError, match="without end"):
        forever = sample_from(lambda: forever)
        configs({"a": forever})


def test_a_failed_function_is_named_and_its_line_shown() -> None:
    def wrong(config: Any) -> float:
        return 1 / config["zero"]

    with pytest.raises(SpaceError, match=r"model/lr: sample_from\(wrong\) failed: ZeroDivisionError") as failed:
        configs({"model": {"lr": sample_from(wrong)}, "zero": 0})
    assert 'return 1 / config["zero"]' in "".join(traceback.format_exception(failed.value))
    with pytest.raises(SpaceError, match="KeyError: 'lrr'; the configuration has lr, x"):
        configs({"lr": 1, "x": sample_from(lambda config: config["lrr"])})


# ---- conditions
def test_only_what_was_chosen_is_drawn() -> None:
    of = {
        "opt": choice([{"name": "sgd", "momentum": uniform(0, 1)}, {"name": "adam", "beta": choice([uniform(5, 6)])}])
    }
    found = configs(of, 20)
    assert {config["opt"]["name"] for config in found} == {"sgd", "adam"}
    for config in found:
        sgd = config["opt"]["name"] == "sgd"
        assert config["opt"].keys() == {"name", "momentum" if sgd else "beta"}
        assert 0 <= config["opt"]["momentum"] <= 1 if sgd else 5 <= config["opt"]["beta"] <= 6


def test_domains_and_grids_inside_a_grids_value() -> None:
    of = {"a": grid_search([{"kind": "x", "n": grid_search([1, 2])}, {"kind": "y", "u": uniform(0, 1)}, randint(7, 8)])}
    found = [config["a"] for config in configs(of)]
    assert found[:2] == [{"kind": "x", "n": 1}, {"kind": "x", "n": 2}] and found[3] == 7
    assert space.count(of, 5) == 20


@pytest.mark.parametrize(
    "of, says",
    [
        ({"a": choice([1, {"b": grid_search([1])}])}, "a/b: a grid_search inside an option of choice"),
        ({"a": grid_search([choice([[grid_search([1])]])])}, "a/0: a grid_search inside an option"),
        ({"a": {"b": lambda: 3}}, "a/b: a function is no value. Write sample_from"),
        ({"a": sample_from(lambda: grid_search([1]))}, "a: a grid_search cannot be gone through here"),
        ([1], "a search space is a dict of parameters, not list"),
    ],
)
def test_what_is_not_supported_is_named(of: Any, says: str) -> None:
    with pytest.raises(SpaceError) as refused:
        configs(of)
    assert says in str(refused.value)


def test_classes_and_chosen_functions_are_values() -> None:
    assert configs({"a": dict, "b": choice([len])}) == [{"a": dict, "b": len}]


@pytest.mark.parametrize("options", [{"num_samples": 0}, {"num_samples": 2.0}, {"seed": -1}, {"seed": "x"}])
def test_bad_numbers_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SpaceError, match=next(iter(options))):
        configs({"a": 1}, **options)


# ---- points
def test_points_come_first_and_take_the_place_of_samples() -> None:
    of = {"a": grid_search([1, 2]), "b": randint(0, 3), "c": {"d": uniform(0, 1), "e": 5}}
    expansion = Expansion(of, 4, 0, [{"a": 2, "b": 2}, {"a": 1}, {"b": 2, "c": {"d": 0.5}}])
    assert expansion.count() == 6
    found = [config for _, config in expansion]
    assert [config["a"] for config in found] == [2, 1, 1, 2, 1, 2]
    assert found[0]["b"] == found[2]["b"] == found[3]["b"] == 2
    assert found[2]["c"] == {"d": 0.5, "e": 5}


def test_a_point_that_does_not_fit() -> None:
    of = {"lr": uniform(0, 1), "model": {"width": randint(0, 3)}, "fixed": 1}
    with pytest.raises(SpaceError, match=r"no model/widht; did you mean width\?"):
        Expansion(of, 1, 0, [{"model": {"widht": 1}}])
    with pytest.warns(UserWarning, match="lr=5 is none of uniform"):
        assert next(Expansion(of, 1, 0, [{"lr": 5}]))[1]["lr"] == 5
    with pytest.warns(UserWarning, match="fixed=2 is none of 1"):
        Expansion(of, 1, 0, [{"fixed": 2}])


# ---- any space
LEAVES = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(["x", None, True]),
    st.builds(lambda low, width: uniform(low, low + width), st.integers(-2, 2), st.integers(0, 3)),
    st.builds(lambda low, width: randint(low, low + width), st.integers(-2, 2), st.integers(1, 3)),
    st.just(space.randn()),
)
OPTIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("pqr"), inner, max_size=2),
        st.lists(inner, max_size=2),
        st.tuples(inner, inner),
        st.lists(inner, min_size=1, max_size=3).map(choice),
    ),
    max_leaves=5,
)
NODES = st.recursive(
    OPTIONS,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("xyz"), inner, max_size=2),
        st.tuples(inner, inner),
        st.lists(inner, min_size=1, max_size=2).map(grid_search),
    ),
    max_leaves=5,
)
SOME_SPACES = st.dictionaries(st.sampled_from("abcd"), NODES, max_size=3)


def domains_in(node: Any) -> bool:
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, (list, tuple)) else ()
    return isinstance(node, space.Domain) or any(map(domains_in, inner))


@settings(max_examples=150, deadline=None)
@given(SOME_SPACES, st.integers(1, 2), st.integers(0, 5), st.booleans())
def test_any_space_gives_the_same_trials_in_any_order(of: Any, num_samples: int, seed: int, constant: bool) -> None:
    found = list(Expansion(of, num_samples, seed, constant_grid_search=constant))
    assert len(found) == Expansion(of, num_samples, seed).count()
    assert not any(domains_in(config) for _, config in found)
    again = list(Expansion(of, num_samples, seed, constant_grid_search=constant))
    assert space.same(found, again)
    # Any of them, without those before it.
    for number, config in found[-3:]:
        skipping = Expansion(of, num_samples, seed, constant_grid_search=constant)
        assert all(skipping.skip() for _ in range(number))
        assert space.same(next(skipping), (number, config))


def test_a_trials_generator_comes_from_the_seed_and_its_number() -> None:
    found = configs({"x": uniform(0, 1)}, 3, seed=7)
    assert [config["x"] for config in found] == [np.random.default_rng((7, n)).uniform(0, 1) for n in range(3)]
