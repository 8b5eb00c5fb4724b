"""The parameter server: sums are exact, whoever pushes at the same time, and whoever is killed within a push."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident
from typing import Any

import numpy as np
import pytest
from support.flags import Counter, Flag
from support.waiting import wait_until

import cellmesh as cm
from cellmesh.exceptions import MemberDiedError, WorkerCrashedError
from cellmesh.train import ParameterServer, TrainError, parameter_server

pytestmark = [
    pytest.mark.usefixtures("session"),
    pytest.mark.may_keep("threads", "of the session, which this module shares"),
]

LARGE = (300, 1000)


def test_pushes_of_many_tasks_are_all_added_and_pulls_see_whole_ones() -> None:
    ps = ParameterServer({"w": np.zeros(LARGE), "b": np.zeros(3, np.int64), "s": np.float32(2)})

    @cm.remote
    def work(n: int) -> bool:
        is_whole = True
        for _ in range(n):
            ps.push({"w": np.ones(LARGE), "b": [1, 2, 3]})
            seen = ps.pull(["w"])["w"]
            is_whole &= seen.min() == seen.max() >= 1
        ps.push({"s": 1})
        return is_whole

    assert all(cm.get([work.remote(25) for _ in range(4)]))
    pulled = ps.pull()
    assert (pulled["w"] == 100).all() and pulled["b"].tolist() == [100, 200, 300] and pulled["s"] == 6
    assert ps.pushes() == {"w": 100, "b": 100, "s": 4}
    pulled["w"][:] = 0  # one's own
    assert (ps.pull()["w"] == 100).all()


def test_what_was_pulled_stays_as_it_is_while_somebody_has_it() -> None:
    ps = ParameterServer({"w": np.zeros(LARGE)})
    held: list[Any] = []
    for n in range(1, 7):  # a whole array, a part of one, its memory, and what nobody keeps
        pulled = ps.pull()["w"]
        held.append([pulled, pulled[1:2, :3], memoryview(pulled[-1]), None, pulled, pulled.T[0]][n - 1])
        ps.push({"w": np.ones(LARGE)})
        del pulled
    assert [None if one is None else {float(x) for x in np.asarray(one).flat} for one in held] == [
        {0.0}, {1.0}, {2.0}, None, {4.0}, {5.0}
    ]  # fmt: skip


def test_room_is_used_again_when_nobody_has_it() -> None:
    ps = ParameterServer({"w": np.zeros(LARGE), "large": np.zeros((4 << 20) // 8 + 1)})

    @cm.remote
    def places() -> set[str]:
        seen = set()
        for _ in range(20):  # each is there still when the next one is pulled
            pulled = ps.pull(["w"])
            seen.add(hex(pulled["w"].ctypes.data))
        return seen

    assert len(cm.get(places.remote())) == 2
    first, second = ps.pull(["large"])["large"], ps.pull(["large"])["large"]
    assert first is not second


def test_threads_that_pull_have_an_array_each() -> None:
    ps = ParameterServer({"w": np.zeros(LARGE)})

    def pulled_by_one(_: int) -> int:
        n_wrong = 0
        for _ in range(50):
            mine = ps.pull()["w"]
            mine[:] = (mark := get_ident())
            n_wrong += int((ps.pull()["w"] != 0).any()) + int((mine != mark).any())
        return n_wrong

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(pulled_by_one, range(4))) == 0


@pytest.mark.parametrize("dies", ["before it writes", "half way", "before it counts", "after it has counted"])
def test_a_killed_push_is_there_as_a_whole_or_not_at_all(dies: str) -> None:
    ps = ParameterServer({"w": np.zeros(LARGE), "b": np.zeros(2)}, shards=1)

    @cm.remote(max_retries=0)
    def is_killed(where: str) -> None:
        add, set_count = np.add, parameter_server.Counter.set

        def half(a: Any, b: Any, *, out: Any, casting: Any) -> None:
            if where == "half way":
                add(a[:100], b[:100], out=out[:100], casting=casting)
            else:
                add(a, b, out=out, casting=casting) if where != "before it writes" else None
            os.kill(os.getpid(), signal.SIGKILL) if where != "after it has counted" else None

        def count(self: Any, n: int) -> int:
            set_count(self, n)
            os.kill(os.getpid(), signal.SIGKILL)
            return n

        np.add = half
        parameter_server.Counter.set = count
        ps.push({"w": np.ones(LARGE), "b": np.ones(2)})

    for n in range(1, 4):
        with pytest.raises(WorkerCrashedError):
            cm.get(is_killed.remote(dies))
        there = 2 * n - 1 if dies == "after it has counted" else n - 1
        assert (ps.pull()["w"] == there).all()
        ps.push({"w": np.ones(LARGE), "b": np.ones(2)})
        assert (ps.pull()["w"] == there + 1).all()
        assert ps.pull()["b"].tolist() == [n, n]


def test_pushers_that_are_killed_at_any_moment(tmp_path: Any) -> None:
    ps = ParameterServer({"w": np.zeros(LARGE, np.float32)})
    done = Counter(tmp_path / "done")

    @cm.remote(max_retries=0)
    def pushes(pids: Any, i: int) -> None:
        pids[i] = os.getpid()
        while True:
            ps.push({"w": np.ones(LARGE, np.float32)})
            done.add()

    pids = cm.shared_array(6, int)
    for i in range(6):
        n = done.value
        ref = pushes.remote(pids, i)
        wait_until(lambda: pids[i] and done.value > n + 3 * i)  # at another moment of its push each time
        os.kill(int(pids[i]), signal.SIGKILL)
        with pytest.raises(WorkerCrashedError):
            cm.get(ref)
    w = ps.pull()["w"]
    assert w.min() == w.max() == ps.pushes()["w"]
    assert 0 <= w[0, 0] - done.value <= 6  # what was counted, and of each victim perhaps one that it could not note


def test_rounds_of_a_synchronous_server() -> None:
    ps = ParameterServer({"w": np.zeros(5), "b": np.zeros(1)}, synchronous=3)

    @cm.remote
    def work(i: int, n: int) -> list[float]:
        seen = []
        for _ in range(n):
            ps.push({"w": np.full(5, 10.0**i), "b": [1.0]} if i else {"w": np.full(5, 1.0)})
            seen.append(ps.pull()["w"][0])
        return seen

    n = 50
    assert cm.get([work.remote(i, n) for i in range(3)]) == [[111.0 * k for k in range(1, n + 1)]] * 3
    assert ps.pull()["b"].tolist() == [2.0 * n]
    assert ps.pushes()["w"] == n


def test_a_round_whose_worker_dies_is_begun_anew(flag: Callable[[str], Flag]) -> None:
    ps = ParameterServer({"w": np.zeros(2)}, synchronous=2)

    @cm.remote(max_retries=0)
    def work(dies: bool) -> float:
        ps.push({"w": np.ones(2)})
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        ps.push({"w": np.ones(2)})
        return ps.pull()["w"][0]

    refs = [work.remote(False), work.remote(True)]
    with pytest.raises(MemberDiedError):
        cm.get(refs[0])
    with pytest.raises(WorkerCrashedError):
        cm.get(refs[1])
    assert ps.pull()["w"].tolist() == [2, 2]  # the first round
    ps.reset()
    assert cm.get([work.remote(False), work.remote(False)]) == [6, 6]


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: ParameterServer({}), ValueError, "one array or more"),
        (lambda: ParameterServer({"a": ["x"]}), TypeError, "'a' is of <U1"),
        (lambda: ParameterServer({"a": [1]}, shards=0), ValueError, "shards=0"),
        (lambda: ParameterServer({"a": [1]}, synchronous=-1), ValueError, "synchronous=-1"),
        (lambda: ParameterServer({"a": [1]}).push({"b": [1]}), KeyError, "there is no array 'b', but 'a'"),
        (lambda: ParameterServer({"a": [1]}).pull(["b"]), KeyError, "there is no array 'b', but 'a'"),
        (
            lambda: ParameterServer({"a": [1]}).push({"a": [1, 2]}),
            ValueError,
            "'a' has shape (1,), and what is added (2",
        ),
        (lambda: ParameterServer({"a": [1]}).push({"a": [1.5]}), TypeError, "int64, to which float64 cannot be added"),
        (lambda: ParameterServer({"a": [1]}).reset(), TrainError, "this one has no rounds"),
    ],
)
def test_bad_input(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as told:
        call()
    assert words in str(told.value)


def test_it_shows_what_it_holds() -> None:
    text = repr(ParameterServer({"w": np.zeros((2, 3))}, synchronous=4))
    assert text == "<ParameterServer, w: float64 (2, 3), 4 in rounds>"
