"""Domains: what they draw, what they take for their own, what they refuse."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellmesh.tune import space
from cellmesh.tune.space import SpaceError

DOMAINS = [
    space.uniform(-1, 3.5),
    space.uniform(2, 2),
    space.quniform(0, 1, 0.1),
    space.loguniform(1e-6, 1e2),
    space.qloguniform(0.5, 8, 0.5),
    space.randint(-3, 4),
    space.qrandint(0, 10, 5),
    space.qrandint(1, 11, 4),
    space.qrandint(0, 3),
    space.lograndint(1, 1000),
    space.qlograndint(1, 100, 10),
    space.randn(2, 0.5),
    space.qrandn(0, 1, 0.25),
    space.choice(["a", None, 3]),
    space.grid_search([1, 2]),
]
N_DRAWN = 2_000


def draw(domain: space.Domain, n: int = N_DRAWN, seed: int = 0) -> list:
    rng = np.random.default_rng(seed)
    return [domain.sample(rng) for _ in range(n)]


def is_even(counts: list[int], limit: float = 3.0) -> bool:
    """Chi-square: whether such counts are likely when each class is as likely as the others. Over k - 1 degrees of
    freedom the
    statistic has the mean k - 1 and the variance 2 (k - 1); `limit` is in standard deviations."""
    mean, freedom = sum(counts) / len(counts), len(counts) - 1
    statistic = sum((count - mean) ** 2 / mean for count in counts)
    return statistic < freedom + limit * math.sqrt(2 * freedom)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_a_domain_contains_what_it_draws_and_casts_it_to_itself(domain: space.Domain) -> None:
    for value in draw(domain, 300):
        assert domain.contains(value)
        assert space.same(domain.cast(value), value)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_a_domain_shows_itself_as_it_is_written(domain: space.Domain) -> None:
    assert eval(repr(domain), dict(space.NAMES)) == domain


@pytest.mark.parametrize(
    "domain, values",
    [
        (space.randint(-3, 4), [-3, -2, -1, 0, 1, 2, 3]),
        (space.qrandint(0, 10, 5), [0, 5, 10]),
        (space.qrandint(1, 11, 4), [4, 8]),
        (space.qrandint(0, 3), [0, 1, 2]),
        (space.qrandint(0, 3, 1), [0, 1, 2]),
        (space.choice(["a", None, 3]), ["a", None, 3]),
    ],
    ids=repr,
)
def test_each_value_is_as_likely_as_the_others(domain: space.Domain, values: list) -> None:
    counts = Counter(draw(domain))
    assert counts.keys() == set(values)
    assert is_even(list(counts.values()))


def in_classes(values: list[float], lower: float, upper: float, n: int = 20) -> list[int]:
    return [int(each) for each in np.histogram(values, n, (lower, upper))[0]]


def test_floats_are_even_and_their_logarithms_where_it_is_said() -> None:
    assert is_even(in_classes(draw(space.uniform(-1, 3.5)), -1, 3.5))
    logs = [math.log(value) for value in draw(space.loguniform(1e-6, 1e2))]
    assert is_even(in_classes(logs, math.log(1e-6), math.log(1e2)))
    assert not is_even(in_classes(draw(space.loguniform(1e-6, 1e2)), 1e-6, 1e2))


@pytest.mark.parametrize("domain", [space.lograndint(1, 1000), space.qlograndint(10, 9990, 10)], ids=repr)
def test_whole_numbers_are_even_in_their_logarithm(domain: space.Domain) -> None:
    step = getattr(domain, "step", 1)
    # Value k stands for the interval from log(k) to log(k + 1), so powers of ten bound classes of equal size.
    assert is_even([sum(low <= value / step < 10 * low for value in draw(domain)) for low in (1, 10, 100)])


def test_multiples_are_those_that_people_write() -> None:
    assert set(draw(space.quniform(0, 1, 0.1))) == {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0}
    assert all((value / 0.25).is_integer() for value in draw(space.qrandn(0, 1, 0.25), 50))


def test_normal_numbers_have_their_mean_and_deviation() -> None:
    values = draw(space.randn(2, 0.5))
    assert abs(np.mean(values) - 2) < 0.05 and abs(np.std(values) - 0.5) < 0.03


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 9), st.booleans(), st.integers(0, 99))
def test_multiples_of_whole_numbers_stay_within_their_bounds(
    lower: int, width: int, q: int, log: bool, seed: int
) -> None:
    make = space.qlograndint if log else space.qrandint
    upper = lower + width
    allowed = [n for n in range(lower, upper + 1) if n % q == 0 and (q > 1 or n < upper)]
    if not allowed:
        with pytest.raises(SpaceError):
            make(lower, upper, q)
        return
    domain = make(lower, upper, q)
    assert (domain.first, domain.last) == (allowed[0], allowed[-1])
    assert set(draw(domain, 20, seed)) <= set(allowed)


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: space.uniform(2, 1), "uniform(2, 1): lower must not be above upper"),
        (lambda: space.uniform(0, math.inf), "upper must be a finite number"),
        (lambda: space.uniform("0", 1), "lower must be a finite number"),
        (lambda: space.uniform(True, 2), "lower must be a finite number"),
        (lambda: space.uniform(-1.7e308, 1.7e308), "too far apart"),
        (lambda: space.loguniform(0, 1), "loguniform(0, 1): lower must be above 0"),
        (lambda: space.quniform(0, 1, 0.3), "upper must be a multiple of q"),
        (lambda: space.quniform(0.1, 1, 0.25), "lower must be a multiple of q"),
        (lambda: space.quniform(0, 1, 0), "q must be a finite number above 0"),
        (lambda: space.randint(3, 3), "randint(3, 3): lower must be below upper"),
        (lambda: space.randint(0, 2.5), "upper must be a whole number"),
        (lambda: space.randint(0, 1 << 70), "at most 63 bits"),
        (lambda: space.lograndint(0, 5), "lower must be above 0"),
        (lambda: space.qrandint(1, 3, 5), "qrandint(1, 3, 5): there is no multiple of q between the bounds"),
        (lambda: space.qrandint(1, 3, 0), "q must be a whole number above 0"),
        (lambda: space.randn(0, 0), "sd must be a finite number above 0"),
        (lambda: space.choice([]), "there must be at least one value"),
        (lambda: space.choice("relu"), "give a list of values"),
        (lambda: space.grid_search({1, 2}), "give a list of values"),
        (lambda: space.sample_from(3), "give a function"),
        (lambda: space.sample_from(lambda a, b: 0), "must take nothing or one argument"),
    ],
)
def test_bad_bounds_are_refused_when_the_domain_is_made(make, says: str) -> None:
    with pytest.raises(SpaceError) as refused:
        make()
    assert says in str(refused.value)


def test_numbers_of_numpy_are_numbers() -> None:
    assert repr(space.uniform(np.float64(0.5), np.int64(2))) == "uniform(0.5, 2)"
    assert space.choice(np.arange(3)).options == (0, 1, 2) and type(space.choice(np.arange(3)).options[0]) is int


@pytest.mark.parametrize(
    "domain, value",
    [
        (space.uniform(0, 1), 1.5),
        (space.uniform(0, 1), "0.5"),
        (space.quniform(0, 1, 0.1), 0.25),
        (space.randint(0, 3), 3),
        (space.randint(0, 3), 1.0),
        (space.qrandint(0, 10, 5), 4),
        (space.choice([1, 2]), True),
        (space.choice([1, 2]), 1.0),
    ],
    ids=repr,
)
def test_what_a_domain_does_not_contain(domain: space.Domain, value: object) -> None:
    assert not domain.contains(value)


def test_sameness_looks_at_types_and_into_arrays() -> None:
    assert space.same({"a": [1, (math.nan,)]}, {"a": [1, (math.nan,)]})
    assert not space.same([1], (1,)) and not space.same({"a": 1}, {"a": True}) and not space.same({"a": 1}, {"b": 1})
    assert space.same(np.array([1.0, math.nan]), np.array([1.0, math.nan]))
    assert not space.same(np.array([1, 2]), np.array([1, 3])) and not space.same(np.array([1]), np.array([1.0]))
