"""Members of a group die: at a call, in their constructors, at the barrier; and what `on_death` makes of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from support.waiting import wait_until

import cellmesh
from cellmesh.exceptions import ActorDiedError, GroupMemberDiedError

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


class Worker:
    def __init__(self, fails: Any = ()) -> None:
        if self.rank() in fails:
            raise ValueError("no such data")
        self.n = cellmesh.load_checkpoint(default=0)

    def rank(self) -> int:
        return cellmesh.current_group().rank

    def pid(self) -> int:
        return os.getpid()

    def count(self) -> int:
        self.n += 1
        cellmesh.save_checkpoint(self.n)
        return self.n

    def die(self, rank: int) -> int:
        if self.rank() == rank:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.rank()

    def meet(self) -> int:
        cellmesh.current_group().barrier()
        return self.rank()

    def wait_for(self, flag: Any) -> int:
        if flag is not None:
            flag.wait()
        return self.rank()

    def ask(self, rank: int) -> int:
        return cellmesh.get(cellmesh.current_group().peers[rank].rank.remote())


def killed(cm: ModuleType, group: Any, rank: int) -> None:
    """A member whose process is killed while nobody looks."""
    os.kill(cm.get(group[rank].pid.remote()), signal.SIGKILL)


def dead(group: Any, rank: int) -> bool:
    return group.members[rank].state.startswith("dead")


def test_who_dies_at_a_call_is_named(cm: ModuleType) -> None:
    workers = cm.group(Worker, 3)
    refs = workers.die.remote(1)
    with pytest.raises(GroupMemberDiedError, match="member 1 of the group has died, before it had served") as raised:
        cm.get(refs)
    assert raised.value.rank == 1 and raised.value.exit_code == -signal.SIGKILL
    assert type(raised.value.cause) is ActorDiedError
    results = cm.get(refs, return_exceptions=True)
    assert (results[0], results[2]) == (0, 2) and isinstance(results[1], GroupMemberDiedError) and results[1].rank == 1


def test_a_group_that_fails_refuses_calls_until_the_member_is_made_anew(cm: ModuleType) -> None:
    workers = cm.group(Worker, 3)
    cm.get(workers.rank.remote())
    killed(cm, workers, 1)
    wait_until(lambda: dead(workers, 1))
    assert repr(workers).endswith("alive (0, 2); dead: its process was killed by SIGKILL (1)>")
    for call in (
        lambda: workers.rank.remote(),
        lambda: workers.rank.scatter([]),
        lambda: workers[1:].rank.reduce(max),
    ):
        with pytest.raises(
            GroupMemberDiedError, match="member 1 of the group Worker is dead: its process was killed"
        ) as e:
            call()
        assert e.value.rank == 1 and "restart(1) of the group makes it anew" in str(e.value)
    assert cm.get(workers[[0, 2]].rank.remote()) == [0, 2]  # a part without it, and single handles, go on
    assert cm.get(workers[0].rank.remote()) == 0
    made = workers.restart(1)
    assert made == workers[1] and cm.get(workers.rank.remote()) == [0, 1, 2]


def test_a_member_that_lives_can_be_made_anew_too(cm: ModuleType) -> None:
    workers = cm.group(Worker, 2)
    part, call = workers[1:], workers.pid
    before = cm.get(call.remote())
    workers.restart(1)
    after = cm.get(workers.pid.remote())
    assert after[0] == before[0] and after[1] != before[1]
    assert cm.get(call.remote()) == after and cm.get(part.pid.remote()) == after[1:]
    with pytest.raises(IndexError, match=r"restart\(2\): the ranks are 0-1"):
        workers.restart(2)


def test_who_was_given_the_group_finds_the_new_member(cm: ModuleType, flag: Any) -> None:
    @cm.remote
    def drive(group: Any) -> Any:
        before = cellmesh.get(group.pid.remote())
        flag("here").set()
        flag("go").wait()
        try:
            group.restart(0)
        except RuntimeError as error:
            return before, cellmesh.get(group.pid.remote()), str(error)

    workers = cm.group(Worker, 2)
    driven = drive.remote(workers)
    flag("here").wait()
    workers.restart(1)
    flag("go").set()
    before, after, refused = cm.get(driven, timeout=30)
    assert after == cm.get(workers.pid.remote()) and after[0] == before[0] and after[1] != before[1]
    assert "only the process that has made the group" in refused


def test_a_group_that_restarts_has_its_checkpoint(cm: ModuleType) -> None:
    workers = cm.group(Worker, 2, on_death="restart")
    assert cm.get(workers.count.remote()) == [1, 1]
    pids = cm.get(workers.pid.remote())
    os.kill(pids[1], signal.SIGKILL)
    wait_until(lambda: workers.members[1].pid not in (0, pids[1]))
    assert cm.get(workers.count.remote(), timeout=30) == [2, 2]
    cm.kill(workers[1])  # for good
    wait_until(lambda: dead(workers, 1))
    with pytest.raises(GroupMemberDiedError, match=r"member 1 .* ended by kill"):
        workers.count.remote()


def test_a_group_that_shrinks_goes_on_without_it(cm: ModuleType) -> None:
    workers = cm.group(Worker, 3, on_death="shrink")
    with pytest.raises(GroupMemberDiedError) as raised:
        cm.get(workers.die.remote(1))
    assert raised.value.rank == 1
    refs = workers.rank.remote()
    assert refs.ranks == (0, 2) and cm.get(refs) == [0, 2]
    assert cm.get(workers.rank.reduce(lambda a, b: (a, b))) == (0, 2)
    assert cm.get(workers.meet.remote(), timeout=30) == [0, 2]
    workers.restart(1)
    assert cm.get(workers.rank.remote()) == [0, 1, 2]
    cm.kill(workers)
    wait_until(lambda: all(dead(workers, rank) for rank in range(3)))
    with pytest.raises(GroupMemberDiedError, match="member 0"):
        workers.rank.remote()


def test_a_constructor_that_fails_on_one_rank_is_told_with_what_it_raised(cm: ModuleType) -> None:
    workers = cm.group(Worker, 3, fails=(1,))
    with pytest.raises(GroupMemberDiedError, match=r"member 1 .*raised ValueError: no such data") as raised:
        cm.get(workers.rank.remote())
    assert raised.value.rank == 1 and type(raised.value.cause) is ValueError
    assert 'raise ValueError("no such data")' in str(raised.value)
    with pytest.raises(GroupMemberDiedError, match=r"member 1 .*raised ValueError: no such data") as later:
        workers.rank.remote()
    assert later.value.rank == 1 and type(later.value.cause) is ValueError


@pytest.mark.parametrize("dies_first", [True, False])
def test_nobody_waits_for_a_dead_member_at_the_barrier(cm: ModuleType, dies_first: bool) -> None:
    workers = cm.group(Worker, 3)
    cm.get(workers.meet.remote())
    if dies_first:
        killed(cm, workers, 2)
        wait_until(lambda: dead(workers, 2))
    refs = workers[:2].meet.remote()
    if not dies_first:
        killed(cm, workers, 2)
    for ref in refs:
        with pytest.raises(GroupMemberDiedError, match="member 2 of the group Worker is dead") as raised:
            cm.get(ref, timeout=30)
        assert raised.value.rank == 2
    workers.restart(2)
    assert cm.get(workers.meet.remote(), timeout=30) == [0, 1, 2]


def test_a_call_of_the_group_does_not_hang_on_a_member_whose_own_call_is_over(cm: ModuleType, flag: Any) -> None:
    workers = cm.group(Worker, 2)
    refs = workers.wait_for.scatter([None, flag("never")])
    assert cm.get(refs[0], timeout=30) == 0
    killed(cm, workers, 0)
    with pytest.raises(GroupMemberDiedError, match=r"member 0 of the group is dead, and Worker\.wait_for has not") as e:
        cm.get(refs, timeout=30)
    assert e.value.rank == 0
    with pytest.raises(cm.exceptions.GetTimeoutError):
        cm.get(refs, timeout=0.01)
    flag("never").set()
    assert cm.get(refs, timeout=30) == [0, 1]  # the values are there now


def test_members_that_end_with_the_handle_have_not_died(cm: ModuleType, flag: Any) -> None:
    refs = cm.group(Worker, 2).wait_for.scatter([None, flag("later")])
    wait_until(lambda: len([row for row in cm.state.list_actors() if row["state"] != "dead"]) == 1)
    with pytest.raises(cm.exceptions.GetTimeoutError, match=r"gave up after 0\.6 s: 1 of 2 refs"):
        cm.get(refs, timeout=0.6)
    with pytest.raises((TypeError, ValueError), match="timeout"):
        cm.get(refs, timeout="soon")
    flag("later").set()
    assert cm.get(refs, timeout=30) == [0, 1]


def test_a_peer_that_is_dead_is_named(cm: ModuleType) -> None:
    workers = cm.group(Worker, 2)
    assert cm.get(workers[0].ask.remote(1)) == 1
    killed(cm, workers, 1)
    wait_until(lambda: dead(workers, 1))
    with pytest.raises(GroupMemberDiedError, match="member 1 of the group Worker is dead"):
        cm.get(workers[0].ask.remote(1), timeout=30)


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda cm: cm.group(), TypeError, "actor_class"),
        (lambda cm: cm.group(len, 2), TypeError, r"group\(\) needs a class.*cellmesh\.task_group\(\)"),
        (lambda cm: cm.group(Worker), TypeError, "needs a number of members"),
        (lambda cm: cm.group(Worker, 0), ValueError, "a whole number >= 1, not 0"),
        (lambda cm: cm.group(Worker, 6, shape={"dp": 4}), ValueError, "6 members do not fit the shape dp=4"),
        (lambda cm: cm.group(Worker, 2, lr=1), TypeError, r"unexpected keyword argument 'lr'"),
        (lambda cm: cm.group(Worker, 2, on_death="no"), ValueError, "on_death='no' must be one of"),
        (lambda cm: cm.group(Worker, 2, strategy="pack"), ValueError, "strategy='pack' must be one of PACK"),
        (lambda cm: cm.remote(get_if_exists=True, name="a")(Worker).group(2), ValueError, "is for single actors"),
        (lambda cm: cm.remote(lifetime="detached")(Worker).group(2), ValueError, "a group ends with its handle"),
    ],
)
def test_what_has_no_sense_starts_nothing(
    cm: ModuleType, make: Callable[[ModuleType], Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make(cm)
    assert len(cm.state.list_actors()) == 0
