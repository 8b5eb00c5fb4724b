"""The table of options: what is accepted, and what is said about the rest."""

from __future__ import annotations

import math

import pytest

from cellmesh.exceptions import TaskTimeoutError
from cellmesh.submit.options import (
    TABLE,
    check_options,
    options_key,
    resource_demand,
    seconds_apart,
    terms_of,
    times_of,
    valid_names,
)


@pytest.mark.parametrize(
    "kind, options",
    [
        (
            "task",
            {
                "num_cpus": 0.5,
                "num_gpus": 2,
                "memory": 1 << 30,
                "resources": {"disk": 1},
                "num_returns": 0,
                "max_retries": -1,
                "retry_exceptions": [ValueError, OSError],
                "name": "load",
                "timeout": 0.001,
                "retry_delay": (0, 2_000_000),
                "priority": -100,
                "max_in_flight": 1,
                "rate_limit": "100/m",
                "scheduling_strategy": "SPREAD",
                "runtime_env": {"env_vars": {"A": "b"}},
            },
        ),
        (
            "actor",
            {
                "num_cpus": 0,
                "name": "a",
                "namespace": "n",
                "get_if_exists": True,
                "lifetime": "detached",
                "max_restarts": -1,
                "max_task_retries": 3,
                "max_concurrency": 8,
                "priority": 100,
            },
        ),
        (
            "method",
            {"num_returns": 3, "max_task_retries": 1, "retry_exceptions": True, "timeout": 5, "retry_delay": 1.5},
        ),
    ],
)
def test_valid_options_are_returned_as_given(kind: str, options: dict) -> None:
    assert check_options(kind, options, "f") == options


def test_none_means_not_given() -> None:
    assert check_options("task", {"num_cpus": None, "name": None}, "f") == {}


@pytest.mark.parametrize(
    "name, value",
    [
        ("num_cpus", -1),
        ("num_cpus", "2"),
        ("num_cpus", True),
        ("num_cpus", math.nan),
        ("num_cpus", math.inf),
        ("num_cpus", 1e-5),
        ("num_gpus", 1.5),
        ("memory", -1),
        ("resources", {"CPU": 1}),
        ("resources", {"disk": -1}),
        ("resources", {"": 1}),
        ("resources", ["disk"]),
        ("num_returns", -1),
        ("num_returns", 1.5),
        ("num_returns", "stream"),
        ("generator_backpressure_num_objects", 0),
        ("num_returns", 65_536),
        ("max_retries", -2),
        ("max_retries", 1 << 15),
        ("retry_exceptions", ValueError),
        ("retry_exceptions", [3]),
        ("name", ""),
        ("name", 3),
        ("name", "a\udcff"),
        ("resources", {"\udcff": 1}),
        ("scheduling_strategy", []),
        ("runtime_env", {"conda": "x"}),
        ("runtime_env", {"env_vars": {"A": 1}}),
        ("priority", 101),
        ("priority", 0.5),
        ("priority", True),
        ("max_in_flight", 0),
        ("max_in_flight", 2.0),
        ("max_in_flight", -1),
        ("rate_limit", 0),
        ("rate_limit", "10"),
        ("rate_limit", "10/d"),
        ("rate_limit", "-1/s"),
        ("rate_limit", "1/s/s"),
        ("rate_limit", "1001/s"),
        ("rate_limit", "inf/s"),
        ("rate_limit", math.nan),
        ("rate_limit", math.inf),
        ("rate_limit", True),
        ("rate_limit", 0.0),
        ("rate_limit", 1e-9),
        ("rate_limit", 10**40),
        ("rate_limit", []),
        ("timeout", 0),
        ("timeout", 0.0009),
        ("timeout", -1),
        ("timeout", "5"),
        ("timeout", True),
        ("timeout", math.nan),
        ("timeout", 2_000_001),
        ("retry_delay", -1),
        ("retry_delay", (2, 1)),
        ("retry_delay", (1,)),
        ("retry_delay", "1"),
        ("retry_delay", math.inf),
        ("retry_delay", [1, None]),
    ],
)
def test_a_wrong_value_names_the_option_the_value_and_what_is_allowed(name: str, value: object) -> None:
    with pytest.raises(ValueError) as raised:
        check_options("task", {name: value}, "f")
    text = str(raised.value)
    assert f"{name}={value!r}" in text and "of f" in text and TABLE[name].allowed in text


def test_an_unknown_option_lists_the_valid_ones_and_the_nearest() -> None:
    with pytest.raises(ValueError, match="unknown option 'num_cpu' for f: did you mean 'num_cpus'") as raised:
        check_options("task", {"num_cpu": 1}, "f")
    assert all(name in str(raised.value) for name in valid_names("task"))


def test_an_option_of_another_kind_is_named_as_such() -> None:
    with pytest.raises(ValueError, match="'max_restarts' for f: it is an option of actors, and f is a task"):
        check_options("task", {"max_restarts": 1}, "f")
    with pytest.raises(ValueError, match="'max_retries' for A: it is an option of tasks, and A is an actor"):
        check_options("actor", {"max_retries": 1}, "A")


@pytest.mark.parametrize(
    "options, demand, hold",
    [
        ({}, {"CPU": 1}, None),
        ({"num_cpus": 0}, {}, None),
        (
            {"num_cpus": 2, "num_gpus": 1, "memory": 5, "resources": {"disk": 3}},
            {"CPU": 2, "GPU": 1, "memory": 5, "disk": 3},
            None,
        ),
        ({"num_gpus": 1}, {"CPU": 1, "GPU": 1}, None),
    ],
)
def test_what_a_task_takes(options: dict, demand: dict, hold: dict | None) -> None:
    assert resource_demand("task", options) == (demand, hold)


@pytest.mark.parametrize(
    "options, demand, hold",
    [
        ({}, {"CPU": 1}, {}),
        ({"num_cpus": 1}, {"CPU": 1}, None),
        ({"num_gpus": 1}, {"CPU": 1, "GPU": 1}, {"GPU": 1}),
        ({"num_cpus": 0}, {}, None),
    ],
)
def test_what_an_actor_takes_to_be_placed_and_keeps(options: dict, demand: dict, hold: dict | None) -> None:
    assert resource_demand("actor", options) == (demand, hold)


def test_equal_options_have_equal_keys() -> None:
    one = {"resources": {"a": 1, "b": 2}, "retry_exceptions": [ValueError], "num_cpus": 1}
    same = {"num_cpus": 1, "retry_exceptions": [ValueError], "resources": {"b": 2, "a": 1}}
    assert options_key(one) == options_key(same)
    assert hash(options_key(one)) == hash(options_key(same))
    assert options_key(one) != options_key({**one, "num_cpus": 2})


@pytest.mark.parametrize(
    "rate, apart",
    [("10/s", 0.1), ("100/m", 0.6), ("5/h", 720), ("0.5/s", 2), (4, 0.25), (0.1, 10), ("1000/s", 0.001), (1000, 0.001)],
)
def test_a_rate_says_how_far_apart_starts_are(rate: object, apart: float) -> None:
    assert seconds_apart(rate) == pytest.approx(apart)


def test_terms_name_the_function_only_where_it_is_limited() -> None:
    assert terms_of({}, "m.f") == terms_of({"priority": 0}, "m.f") == {}
    assert terms_of({"priority": -1}, "m.f") == {"priority": -1}
    assert terms_of({"max_in_flight": 3}, "m.f") == {"function": "m.f", "most": 3}
    assert terms_of({"rate_limit": "2/s", "priority": 1}, "m.f") == {
        "priority": 1,
        "function": "m.f",
        "interval_s": 0.5,
    }


@pytest.mark.parametrize(
    "options, times",
    [
        ({}, None),
        ({"max_retries": 3, "retry_exceptions": True, "retry_delay": 0}, None),
        ({"timeout": 1.5}, (1500, 0, 60_000, False)),
        ({"timeout": 1.1, "retry_delay": 1e-6}, (1100, 1, 60_000, False)),
        ({"retry_delay": 1}, (0, 1000, 60_000, False)),
        ({"retry_delay": 90}, (0, 90_000, 90_000, False)),
        ({"retry_delay": (1, 600)}, (0, 1000, 600_000, False)),
        ({"retry_delay": [5, 5]}, (0, 5000, 5000, False)),
        ({"timeout": 2_000_000, "retry_exceptions": True}, (2_000_000_000, 0, 60_000, True)),
        ({"timeout": 1, "retry_exceptions": [KeyError, TimeoutError]}, (1000, 0, 60_000, True)),
        ({"timeout": 1, "retry_exceptions": [TaskTimeoutError]}, (1000, 0, 60_000, True)),
        ({"timeout": 1, "retry_exceptions": [KeyError]}, (1000, 0, 60_000, False)),
        ({"timeout": 1, "retry_exceptions": []}, (1000, 0, 60_000, False)),
    ],
)
def test_times_are_kept_in_milliseconds(options: dict, times: tuple | None) -> None:
    assert times_of(options) == times
