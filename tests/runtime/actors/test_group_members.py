"""What a member sees of its group: rank, size, coordinates, peers, the barrier; and the end of a group."""

from __future__ import annotations

import os
import re
from types import ModuleType
from typing import Any

import pytest
from support.waiting import wait_until

import cellmesh

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


class Member:
    def __init__(self, looks: bool = False) -> None:
        self.group = cellmesh.current_group()
        self.in_constructor = (self.group.rank, self.group.size, self.group.coordinates)
        if looks:
            self.right = self.group.peers[(self.group.rank + 1) % self.group.size]
        self.notes: list[str] = []

    def about(self) -> Any:
        group = cellmesh.current_group()
        assert group is self.group
        return self.in_constructor, group.shape, repr(group)

    def rank(self) -> int:
        return self.group.rank

    def ask_right(self) -> Any:
        return self.right.rank.remote()

    def meet(self, arrived: Any = None, wait_for: Any = None, timeout: float | None = None) -> int:
        if wait_for is not None:
            wait_for.wait()
        if arrived is not None:
            arrived.add()
        self.group.barrier(timeout)
        return arrived.value if arrived is not None else 0

    def pid(self) -> int:
        return os.getpid()

    def send(self) -> None:
        cellmesh.get(cellmesh.put(self.group))

    def send_peer(self) -> Any:
        return self.group.peers[0]

    def handle(self) -> Any:
        return self.group.peers[0].handle


def test_a_member_knows_its_place_from_the_constructor_on(cm: ModuleType) -> None:
    grid = cm.group(Member, dp=2, pp=2)
    about = cm.get(grid.about.remote())
    assert [one[0] for one in about] == [(rank, 4, {"dp": rank // 2, "pp": rank % 2}) for rank in range(4)]
    assert about[3][1:] == ({"dp": 2, "pp": 2}, "<group Member, here member 3 of 4 (dp=1, pp=1)>")


def test_members_call_each_other(cm: ModuleType) -> None:
    workers = cm.group(Member, 3, looks=True)
    assert cm.get(cm.get(workers.ask_right.remote())) == [1, 2, 0]
    handle = cm.get(workers.handle.remote())[2]
    assert handle == workers[0] and cm.get(handle.rank.remote()) == 0


@pytest.mark.session("own")
def test_names_of_members_are_the_groups_affair(cm: ModuleType) -> None:
    workers = cm.group(Member, 2)
    named = cm.remote(name="pair")(Member).group(2)
    cm.get([workers.rank.remote(), named.rank.remote()])
    assert cm.util.list_named_actors() == ["pair[0]", "pair[1]"]
    assert cm.get_actor("pair[1]") == named[1]
    assert cm.get(cm.get(cm.remote(name="ring")(Member).group(2, looks=True).ask_right.remote())) == [1, 0]
    assert [row["name"] for row in cm.state.list_actors(filters=[("class_name", "=", "Member")])][:2] == [
        "Member[0]",
        "Member[1]",
    ]
    assert repr(workers[1]).startswith("<actor Member[1] ") and "'pair[1]'" in repr(named[1])


def test_outside_of_groups_there_is_none(cm: ModuleType) -> None:
    for place in (cm.current_group, lambda: cm.get(cm.remote(lambda: cm.current_group()).remote())):
        with pytest.raises(RuntimeError, match="for the members of a group"):
            place()
    with pytest.raises(cm.exceptions.ActorDiedError, match="for the members of a group"):
        cm.get(cm.remote(Member).remote().rank.remote())


def test_what_a_member_sees_stays_there(cm: ModuleType) -> None:
    workers = cm.group(Member, 2)
    with pytest.raises(TypeError, match="send its rank, or a peer"):
        cm.get(workers.send.remote())
    with pytest.raises(TypeError, match=r"send peer\.handle"):
        cm.get(workers.send_peer.remote())


def test_nobody_passes_the_barrier_before_all_have_come(cm: ModuleType, counter: Any, flag: Any) -> None:
    workers = cm.group(Member, 3)
    early = workers[:2].meet.remote(counter)
    late = workers[2].meet.remote(counter, flag("go"))
    wait_until(lambda: counter.value == 2)
    assert cm.wait(early, num_returns=2, timeout=0)[0] == []
    flag("go").set()
    assert cm.get([early, late], timeout=30) == [[3, 3], 3]
    assert cm.get(workers.meet.remote(), timeout=30) == [0, 0, 0]


def test_who_gives_up_at_the_barrier_has_not_come(cm: ModuleType) -> None:
    workers = cm.group(Member, 2)
    with pytest.raises(TimeoutError, match=r"not all 2 members of the group Member have come within 0\.01 s"):
        cm.get(workers[0].meet.remote(timeout=0.01), timeout=30)
    waits = workers[1].meet.remote(timeout=0.3)  # alone: the other has given up
    with pytest.raises(TimeoutError):
        cm.get(waits, timeout=30)
    assert cm.get(workers.meet.remote(), timeout=30) == [0, 0]


def pids(cm: ModuleType) -> set[int]:
    return {row["pid"] for row in cm.state.list_actors() if row["state"] != "dead"}


def test_a_group_is_a_table_of_what_its_members_run_and_their_memory(cm: ModuleType, flag: Any) -> None:
    workers = cm.group(Member, 3)
    cm.kill(workers[2])
    wait_until(lambda: workers.members[2].state.startswith("dead"))
    busy = workers[1].meet.remote(wait_for=flag("go"), timeout=0)

    def table() -> list[list[str]]:
        rows = re.findall("<tr>(.*?)</tr>", workers._repr_html_())
        return [re.findall("<t[hd]>(.*?)</t[hd]>", row) for row in rows]

    def settled() -> list[list[str]]:  # member 0 has begun, 1 is in its call, and of 2 nothing is left
        rows = table()
        there = [[bool(cell) for cell in row[4:]] for row in rows[1:]]
        return rows if there == [[False, True], [True, True], [False, False]] else []

    head, idle, runs, dead = wait_until(settled, what=f"the members as they are wanted: {table()}")
    assert head == ["rank", "state", "process", "node", "runs", "memory"]
    assert (idle[4], runs[4], dead[4]) == ("", "Member[1].meet", "")
    assert re.fullmatch(r"[\d.]+ MB", idle[5]) and re.fullmatch(r"[\d.]+ MB", runs[5]) and dead[5] == ""
    flag("go").set()
    with pytest.raises(TimeoutError):
        cm.get(busy)


def test_members_end_with_the_handle_after_the_calls_made(cm: ModuleType, flag: Any, counter: Any) -> None:
    workers = cm.group(Member, 2, looks=True)
    cm.get(workers.meet.remote())
    refs = workers.meet.remote(counter, flag("go"))
    assert pids(cm)
    del workers
    flag("go").set()
    assert cm.get(refs, timeout=30) == [2, 2]
    wait_until(lambda: not pids(cm), what="the end of the members, and of where they met")


def test_a_group_outlives_its_session_as_a_word() -> None:
    with cellmesh.init(num_cpus=1):
        workers = cellmesh.group(Member, 2)
        call = workers.rank
        refs = call.remote()
        assert cellmesh.get(refs) == [0, 1]
    assert repr(workers) == "<group Member of 2 members: its session has ended>"
    assert "its session has ended" in workers._repr_html_()
    assert repr(refs) == "<refs of Member.rank by rank 0-1: its session has ended>"
    for use in (call.remote, lambda: workers.members, lambda: workers.restart(0), lambda: call.scatter([1, 2])):
        with pytest.raises(cellmesh.exceptions.SessionClosedError):
            use()
    assert not cellmesh.is_initialized()


def test_a_handle_of_one_keeps_that_one(cm: ModuleType) -> None:
    workers = cm.group(Member, 3)
    one = workers[1]
    (pid,) = {cm.get(one.pid.remote())}
    del workers
    wait_until(lambda: pids(cm) == {pid})
    assert cm.get(one.rank.remote()) == 1


def test_a_task_that_was_given_the_group_keeps_it(cm: ModuleType, flag: Any) -> None:
    @cm.remote
    def drive(group: Any) -> list[int]:
        flag("go").wait()
        return cm.get(group.rank.remote())

    driven = drive.remote(cm.group(Member, 2))
    flag("go").set()
    assert cm.get(driven, timeout=30) == [0, 1]
