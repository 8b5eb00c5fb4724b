"""Which keywords are dimensions, what a death means, and whether machines can hold a group."""

from __future__ import annotations

from typing import Any

import pytest

from cellmesh.groups import on_death
from cellmesh.groups.arguments import divided
from cellmesh.groups.fitting import Machine, misfit, n_that_fit
from cellmesh.groups.shape import Shape
from cellmesh.submit.signatures import spec_of


class Stage:
    def __init__(self, lr: float = 0.1, *, epochs: int = 1) -> None: ...


class TakesAny:
    def __init__(self, **kwargs: Any) -> None: ...


class HasStrategy:
    def __init__(self, strategy: str = "") -> None: ...


class HasDp:
    def __init__(self, dp: int = 1) -> None: ...


@pytest.mark.parametrize(
    "cls, n, shape, keywords, expected",
    [
        (Stage, 8, None, {"lr": 1}, (Shape(8), {"lr": 1})),
        (Stage, None, None, {"dp": 2, "pp": 4}, (Shape(8, (("dp", 2), ("pp", 4))), {})),
        (Stage, None, None, {"dp": 2, "lr": 1, "epochs": 3}, (Shape(2, (("dp", 2),)), {"lr": 1, "epochs": 3})),
        (HasDp, None, {"dp": 2}, {"dp": 7}, (Shape(2, (("dp", 2),)), {"dp": 7})),
        (TakesAny, 2, None, {"pp": 4}, (Shape(2), {"pp": 4})),
        (TakesAny, None, {"dp": 2}, {"pp": 4}, (Shape(2, (("dp", 2),)), {"pp": 4})),
    ],
)
def test_a_number_or_a_shape_leaves_keywords_to_the_constructor(
    cls: type, n: Any, shape: Any, keywords: dict[str, Any], expected: tuple[Shape, dict[str, Any]]
) -> None:
    assert divided("Stage", spec_of(cls), n, shape, keywords) == expected


@pytest.mark.parametrize(
    "cls, keywords, words",
    [
        (TakesAny, {"dp": 2}, r"takes any keyword, so it cannot be told which of dp are dimensions"),
        (Stage, {"epoch": 3}, "'epoch' is no parameter of the constructor: did you mean 'epochs'"),
        (Stage, {"dp": 2, "momentum": 0.9}, "'momentum' is no parameter of the constructor, and 0.9 is no size"),
        (Stage, {"lr": 1}, "needs a number of members"),
        (HasDp, {"dp": 2}, "needs a number of members"),
        (HasStrategy, {"dp": 2}, "the constructor of Stage has a parameter of that name"),
    ],
)
def test_what_cannot_be_told_is_refused(cls: type, keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        divided("Stage", spec_of(cls), None, None, keywords)


def test_the_table_of_deaths_is_whole() -> None:
    assert on_death.POLICIES == ("fail", "restart", "shrink")
    assert {event for _, event in on_death.TABLE} == {"call", "barrier"}
    assert len(on_death.TABLE) == 6
    with pytest.raises(ValueError, match="on_death='ignore' must be one of 'fail', 'restart', 'shrink'"):
        on_death.check("ignore", "group(Stage)")


def test_only_a_shrinking_group_goes_on_and_not_without_anybody() -> None:
    assert on_death.answer("fail", "call", 3) == on_death.answer("restart", "barrier", 3) == "raise"
    assert on_death.answer("shrink", "call", 3) == on_death.answer("shrink", "barrier", 3) == "leave out"
    assert on_death.answer("shrink", "call", 0) == "raise"


def test_restarting_is_for_ever_unless_it_is_said() -> None:
    assert on_death.max_restarts("restart", None) == -1
    assert on_death.max_restarts("restart", 2) == 2
    assert on_death.max_restarts("fail", None) == on_death.max_restarts("shrink", None) == 0


BIG, SMALL = Machine("big", {"CPU": 8, "GPU": 2}, {"CPU": 8, "GPU": 1}), Machine("small", {"CPU": 2}, {"CPU": 2})


@pytest.mark.parametrize(
    "n, bundle, strategy, most",
    [
        (10, {"CPU": 1}, "PACK", None),
        (11, {"CPU": 1}, "SPREAD", 10),
        (3, {"CPU": 3}, "PACK", 2),
        (2, {"CPU": 1}, "STRICT_SPREAD", None),
        (3, {"CPU": 1}, "STRICT_SPREAD", 2),
        (2, {"GPU": 1}, "STRICT_SPREAD", 1),
        (8, {"CPU": 1}, "STRICT_PACK", None),
        (9, {"CPU": 1}, "STRICT_PACK", 8),
        (1, {"disk": 1}, "PACK", 0),
    ],
)
def test_whether_machines_hold_a_group(n: int, bundle: dict[str, float], strategy: str, most: int | None) -> None:
    words = misfit(n, bundle, strategy, [BIG, SMALL])
    if most is None:
        assert words is None
    else:
        assert words is not None and f"at most {most} do. big has" in words


def test_what_is_there_is_told_of_what_is_asked_for_alone() -> None:
    words = misfit(3, {"GPU": 1}, "PACK", [BIG, SMALL])
    assert words == (
        "3 members with GPU: 1 each do not fit together: at most 2 do. big has GPU: 2, free GPU: 1; small has GPU: 0, "
        "free GPU: 0"
    )


def test_equally_many_are_to_be_on_each_of_some_machines() -> None:
    assert misfit(4, {"CPU": 1}, "STRICT_SPREAD", [BIG, SMALL], n_machines=2) is None
    words = misfit(6, {"CPU": 1}, "STRICT_SPREAD", [BIG, SMALL], n_machines=2)
    assert words is not None and words.startswith("6 members with CPU: 1 each do not fit on 2 machines, 3 on each: ")
    assert misfit(8, {"CPU": 1}, "STRICT_SPREAD", [BIG, SMALL], n_machines=1) is None


def test_what_needs_nothing_fits_anywhere() -> None:
    assert n_that_fit({}, {}) is None
    assert misfit(1000, {}, "STRICT_PACK", [SMALL]) is None
    assert n_that_fit({"CPU": 0.1}, {"CPU": 0.3}) == 3
