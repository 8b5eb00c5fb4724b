"""What tests that share a session leave in it is told, and the next ones have another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.flags import Flag
from support.shared import session as shared_session

import cellmesh
from cellmesh.session.current import current


class Keeper:
    def keep(self) -> int:
        return 1


def task(flag: Callable[[str], Flag]) -> object:
    @cellmesh.remote
    def wait(go: Flag, started: Flag) -> None:
        started.set()
        go.wait()

    ref = wait.remote(flag("go"), flag("started"))
    flag("started").wait()
    return ref


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[shared_session.SharedSession]:
    monkeypatch.setattr(shared_session, "SETTLE_S", 0.2)
    shared = shared_session.SharedSession(lambda: cellmesh.init(num_cpus=1, object_store_memory=64 << 20))
    shared.begin()
    yield shared
    shared.end()


@pytest.mark.parametrize(
    ("leave", "told"),
    [
        (lambda flag: cellmesh.put([1]), "'objects'"),
        (lambda flag: cellmesh.remote(Keeper).remote(), "'actors'"),
        (task, "'tasks'.*'taken'"),
    ],
    ids=["object", "actor", "task"],
)
def test_what_is_left_is_told_and_ends_it(
    shared: shared_session.SharedSession, flag: Callable[[str], Flag], leave: Callable[..., object], told: str
) -> None:
    first = current()
    left = leave(flag)
    with pytest.raises(AssertionError, match=f"left in the session that tests share: .*{told}"):
        shared.check()
    assert not cellmesh.is_initialized()
    del left
    shared.begin()
    assert current() is not first


def test_what_is_let_go_of_is_none_and_it_stays(shared: shared_session.SharedSession) -> None:
    @cellmesh.remote
    def double(x: int) -> int:
        return 2 * x if x < 3 else cellmesh.get(double.remote(x - 1))

    first, keeper = current(), cellmesh.remote(Keeper).remote()
    assert cellmesh.get([double.remote(cellmesh.put(4)), keeper.keep.remote()]) == [4, 1]
    del keeper
    shared.check()
    shared.begin()
    assert current() is first


def test_a_test_may_end_it(shared: shared_session.SharedSession) -> None:
    first = current()
    cellmesh.shutdown()
    cellmesh.init(num_cpus=1, object_store_memory=64 << 20)
    shared.check()
    assert not cellmesh.is_initialized()
    shared.begin()
    assert current() is not first and cellmesh.get(cellmesh.remote(lambda: 1).remote()) == 1
