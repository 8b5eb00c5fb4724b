"""Which of the arguments that are pickled together cannot be unpickled, and what it is called."""

from __future__ import annotations

import collections
import functools
import pickle
import random
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest

from cellmesh.errors import failed_argument
from cellmesh.errors.failed_argument import Failed, find, in_words


def refuse(*args: object) -> None:
    raise ValueError("refused")


class Refused:
    """Cannot be made again."""

    def __init__(self, *args: object) -> None:
        self.args = args

    def __reduce__(self) -> tuple[Any, ...]:
        return refuse, self.args


class Refuses:
    """Is made, and refuses its state."""

    def __getstate__(self) -> dict[str, int]:
        return {"x": 1}

    def __setstate__(self, state: object) -> None:
        raise ValueError("refused")


def values(chance: random.Random) -> list[Any]:
    shared = collections.OrderedDict(a=[1, 2])
    return [
        shared,
        [shared, {"k": (1, 2, {3})}],
        "text" * chance.randrange(100),
        functools.partial(int, base=7),
        frozenset({1, (2, 3)}),
        bytearray(b"abc"),
        SimpleNamespace(x=shared, y=[]),
        chance.random,
        (1, 2, 3, 4, 5),
        ((), [], {}),
        -1,
        None,
        2.5,
        b"x" * 70_000,
    ]


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
@pytest.mark.parametrize(
    "bad",
    [Refused(), Refused([1, {2: 3}], (4, 5)), [Refused()], {"a": (1, Refused())}, Refuses(), [[Refuses()], 1]],
)
def test_the_one_that_fails_is_found_among_others(dumps: Any, bad: object) -> None:
    chance = random.Random(3)
    for n in (1, 2, 3, 4, 7, 20):
        for at in range(n):
            arguments = [chance.choice(values(chance)) for _ in range(n)]
            arguments[at] = bad
            arguments[at + 1 :] = [chance.choice([*values(chance), bad]) for _ in arguments[at + 1 :]]
            found = find(dumps(tuple(arguments), protocol=5), ())
            assert found is not None and found.number == at, (n, at, arguments)


def test_buffers_are_given_again() -> None:
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(
        (pickle.PickleBuffer(b"x" * 1000), Refused(), pickle.PickleBuffer(b"y")),
        protocol=5,
        buffer_callback=buffers.append,
    )
    assert find(data, buffers) == Failed(1, buffers[0])


def test_what_does_not_fail_again_or_is_large_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find(pickle.dumps((1, [2]), 5), ()) is None
    monkeypatch.setattr(failed_argument, "AGAIN_BYTES", 10)
    assert find(pickle.dumps((1, Refused()), 5), ()) is None


def f(a: object, b: object = 1, *rest: object, key: object = None, **others: object) -> None: ...


@pytest.mark.parametrize(
    ("layout", "dependency", "failed", "name"),
    [
        ((2, None, [-1, -1]), -1, Failed(0, None), "The argument 'a' of"),
        ((2, None, [-1, -1]), -1, Failed(1, None), "The argument 'b' of"),
        ((2, None, [0, -1]), -1, None, "The argument 'b' of"),
        ((3, None, [1, -1, 0]), 0, None, "The argument 'rest[0]' of"),
        ((1, ("key",), [-1, -1]), -1, Failed(1, None), "The argument 'key' of"),
        ((0, ("b", "new"), [-1, 0]), 0, None, "The argument 'new' of"),
        ((2, ("key",), [-1, 0, -1]), -1, None, "One of the arguments 'a', 'key' of"),
        ((3, None, [0, 0, -1]), 0, None, "The argument 'a' of"),
        ((4, None, [-1, -2, -1, -1]), -1, Failed(2, None), "The argument 'rest[1]' of"),
        ((3, None, [-1, -1, -1]), -1, Failed(2, SimpleNamespace(names=("x", "y"))), "The argument 'y' of"),
    ],
)
def test_it_is_called_by_its_parameter(layout: Any, dependency: int, failed: Failed | None, name: str) -> None:
    assert in_words(f, "task", layout, dependency, failed) == f"{name} the task 'task' could not be unpickled."


def test_what_has_no_signature_is_numbered() -> None:
    assert in_words(print, "p", (2, None, [-2, 0]), 0, None).startswith("The argument ")
    assert (
        in_words(object(), "p", (2, None, [-2, 0]), 0, None)
        == "The argument number 2 of the task 'p' could not be unpickled."
    )
