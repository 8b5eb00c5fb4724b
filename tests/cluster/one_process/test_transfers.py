"""How the bytes of objects travel: ahead of need, and down a tree. Real segments, schedulers and workers; only the
network is a queue.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cellmesh.scheduler.cluster import messages
from cellmesh.scheduler.cluster.peer import prefetch, transfers
from cluster.one_process.machines import Machines, machines
from support.waiting import wait_until

import cellmesh as cm

pytestmark = pytest.mark.filterwarnings("ignore::cellmesh.exceptions.InfeasibleResourcesWarning")
N_SEEDS = int(os.environ.get("CELLMESH_LOSSES", "5"))
MB = 1 << 20


@pytest.fixture
def two() -> Iterator[Machines]:
    with machines(2) as them:
        yield them


@cm.remote
def total(array: Any) -> float:
    return float(array.sum())


@cm.remote
def wait_for(path: str) -> None:
    Path(f"{path}-{os.getpid()}").touch()
    while not os.path.exists(path):
        threading.Event().wait(0.005)


def occupy(two: Machines, folder: Path) -> Path:
    """Both places of the other machine are taken until that file is there."""
    go = folder / "go"
    for _ in range(2):
        wait_for.remote(str(go))
    wait_until(lambda: len(list(folder.iterdir())) == 2, 20)
    return go


def n_accepted(two: Machines) -> int:
    return len(two.machines["b"].peers["a"].tasks_in)


@cm.remote
def ones(n: int) -> Any:
    return np.ones(n)


def test_what_does_not_come_is_waited_for_no_longer_than_asked(two: Machines) -> None:
    refs = [ones.remote(MB), ones.remote(2 * MB)]
    assert len(cm.wait(refs, num_returns=2, timeout=20)[0]) == 2, "they are there, and their bytes are not here"
    with two.lock:
        two.is_lost = lambda here, there, message: isinstance(message, messages.Chunk)
    for what in (refs[0], refs):
        with pytest.raises(cm.exceptions.GetTimeoutError, match=r"0.2 s"):
            cm.get(what, timeout=0.2)


@cm.remote
def beside_how_many(array: Any, folder: str) -> int:
    """How many of these run at a time, at the most that this one sees."""
    mine = Path(folder, f"runs-{os.getpid()}")
    mine.touch()
    most = 0
    for _ in range(30):
        most = max(most, len(list(Path(folder).glob("runs-*"))))
        threading.Event().wait(0.002)
    mine.unlink()
    return most


def test_arguments_of_many_tasks_come_at_once_and_no_more_of_them_run_than_there_are_cpus(tmp_path: Path) -> None:
    with machines(2, cpus_at_home=1) as two:
        go = tmp_path / "go"
        begun = wait_for.remote(str(go))
        wait_until(lambda: list(tmp_path.iterdir()), 20, "home is full")
        values = [ones.remote(MB) for _ in range(6)]
        assert len(cm.wait(values, num_returns=6, timeout=20)[0]) == 6
        held: list[tuple[str, str, Any]] = []

        def hold(here: str, there: str, message: Any) -> bool:
            if isinstance(message, messages.Fetch):
                held.append((here, there, message))
            return isinstance(message, messages.Fetch)

        with two.lock:
            two.routes.clear()
            two.is_lost = hold
        seen = [beside_how_many.remote(value, str(tmp_path)) for value in values]
        go.touch()
        wait_until(
            lambda: len({message.slot for _, _, message in held}) == 6, 20, "all of them wait for what they are given"
        )
        with two.lock:
            two.is_lost = lambda here, there, message: False
            two.queue.extend((*each, b"") for each in held)
        assert cm.get(seen, timeout=30) == [1] * 6
        cm.get(begun)


# ---- ahead of need
def test_arguments_come_before_a_worker_asks_for_them_and_once(two: Machines, tmp_path: Path) -> None:
    go = occupy(two, tmp_path)
    array = np.ones(3 * MB)
    value, other = cm.put(array), cm.put(array)
    sums = [total.remote(value), total.remote(value), total.remote(other)]
    wait_until(
        lambda: two.n_bytes["a", "b"] > 2 * array.nbytes and not two.machines["b"].peers["a"].transfers.n_coming,
        20,
        "they are there, and nobody runs who could read them",
    )
    go.touch()
    assert cm.get(sums, timeout=30) == [3 * MB] * 3
    assert two.n_bytes["a", "b"] < 2 * array.nbytes + 10_000, "each once"


def test_of_a_long_line_the_first_come_first_and_not_all_at_once(
    two: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "MOST_BYTES", 20 * MB)
    go = occupy(two, tmp_path)
    values = [cm.put(np.full(MB, float(i))) for i in range(8)]
    sums = [total.remote(value) for value in values]
    most = 0

    def has_come() -> bool:
        nonlocal most
        with two.lock:
            most = max(most, two.machines["b"].peers["a"].transfers.n_coming)
        return two.n_bytes["a", "b"] > 60 * MB

    wait_until(has_come, 20)
    go.touch()
    assert cm.get(sums, timeout=30) == [float(i * MB) for i in range(8)]
    asked = [message.slot for message in two.seen if isinstance(message, messages.Fetch) and message.at == 0]
    told = [
        ref.slot
        for message in two.seen
        if isinstance(message, messages.Tasks)
        for task in message.tasks
        for ref in task.refs[: task.n_dependencies]
    ]
    assert most <= 20 * MB and asked == told[-8:]


def test_nothing_makes_room_for_a_guess(two: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @cm.remote
    def keep(n: int) -> list[Any]:
        return [cm.put(np.ones(n)) for _ in range(3)]

    kept = cm.get(keep.remote(7 * MB))  # 168 of 256 MB
    go = occupy(two, tmp_path)
    mine = total.remote(cm.put(np.ones(12 * MB)))

    def waits() -> bool:
        two.sweep()
        return n_accepted(two) == 3

    wait_until(waits, 20)
    assert not two.n_bytes["a", "b"], "half of the store is in use"
    monkeypatch.setattr(prefetch, "USED", 1e3)
    two.sweep()
    assert not two.n_bytes["a", "b"] and not two.machines["b"].client.stats()["offloaded_bytes"], (
        "there is none, and nothing has gone to disk"
    )
    go.touch()
    assert cm.get(mine, timeout=30) == 12 * MB, "for a reader it does"
    assert cm.get(kept[0])[0] == 1.0


def test_what_was_brought_for_a_cancelled_task_is_let_go_of(two: Machines, tmp_path: Path) -> None:
    go = occupy(two, tmp_path)
    value = cm.put(np.ones(3 * MB))
    mine = total.remote(value)
    wait_until(lambda: two.n_bytes["a", "b"], 20)
    cm.cancel(mine)
    del value, mine

    def is_free() -> bool:
        two.sweep(100.0)
        return two.machines["b"].client.stats()["used_bytes"] < MB and not two.machines["a"].peers[
            "b"
        ].objects._told.keys() - {0, 1, 2}

    wait_until(is_free, 20)
    go.touch()


def test_who_sends_knows_which_tasks_bring_much_along(two: Machines) -> None:
    value = cm.put(np.ones(3 * MB))
    assert cm.get(total.remote(value), timeout=30) == 3 * MB
    peer = two.machines["a"].peers["b"]
    assert len(peer.tasks_out.heavy) == 1
    assert cm.get(total.remote(np.ones(3)), timeout=30) == 3
    assert not peer.tasks_out.heavy


def test_what_they_do_not_read_is_not_sent_yet(two: Machines) -> None:
    here = two.machines["a"].peers["b"]
    here.is_congested = True
    sums = [total.remote(cm.put(np.ones(3 * MB))) for _ in range(2)]
    wait_until(lambda: sum(isinstance(message, messages.Fetch) for message in two.seen) == 2, 20)
    two.sweep()
    assert not two.n_bytes["a", "b"]
    here.is_congested = False
    two.machines["a"].client.wake()
    assert cm.get(sums, timeout=30) == [3 * MB] * 2 and not two.faults


# ---- down a tree
@cm.remote
def weigh(array: Any, path: str) -> float:
    """Keeps the array until that file is there."""
    found = float(array.sum())
    Path(f"{path}-{os.getpid()}").touch()
    while not os.path.exists(path):
        threading.Event().wait(0.005)
    return found


def hand_out(them: Machines, value: Any, go: Path) -> list[Any]:
    them.machines["a"].most = 1
    with them.lock:  # they ask together: who has it already before another one asks leaves its home free for a third
        return [weigh.remote(value, str(go)) for _ in them.routes["a"]]


def from_home(them: Machines) -> int:
    return sum(n for (here, _), n in them.n_bytes.items() if here == "a")


def test_an_object_for_all_leaves_its_home_twice(tmp_path: Path) -> None:
    with machines(6) as them:
        array = np.ones(8 * MB)
        value = cm.put(array)
        go = tmp_path / "go"
        sums = hand_out(them, value, go)
        wait_until(lambda: len(list(tmp_path.iterdir())) == 5, 60)
        assert len(them.machines["a"].tree) == 1
        go.touch()
        assert cm.get(sums, timeout=60) == [8 * MB] * 5
        assert from_home(them) < 2 * array.nbytes + 10_000 and sum(them.n_bytes.values()) < 5 * array.nbytes + 10_000
        del value, sums
        assert cm.get(total.remote(np.ones(10))) == 10

        def is_freed() -> bool:
            them.sweep(100.0)
            return not len(them.machines["a"].tree)

        wait_until(is_freed, 20)
        assert not them.faults


def test_who_comes_later_gets_it_from_whoever_has_it(tmp_path: Path) -> None:
    with machines(4) as them:
        array = np.ones(2 * MB)
        value = cm.put(array)
        go = tmp_path / "go"
        sums = []
        for name in "bcd":
            them.routes["a"] = [name]
            sums += hand_out(them, value, go)
            wait_until(lambda: len(list(tmp_path.iterdir())) == len(sums), 30)
            wait_until(lambda: not them.queue, 20)
        assert from_home(them) < array.nbytes + 10_000 and them.n_bytes["b", "c"] >= array.nbytes
        go.touch()
        assert cm.get(sums, timeout=30) == [2 * MB] * 3


def test_small_objects_come_from_their_home() -> None:
    with machines(4) as them:
        value = cm.put(np.ones(MB // 2))
        assert cm.get([total.remote(value) for _ in range(30)], timeout=30) == [MB // 2] * 30
        assert not any(isinstance(message, messages.Redirect) for message in them.seen)


def test_a_source_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    with machines(4) as them:
        array = np.ones(8 * MB)
        value = cm.put(array)
        go = tmp_path / "go"
        them.routes["a"] = ["b"]
        sums = hand_out(them, value, go)
        wait_until(lambda: len(list(tmp_path.iterdir())) == 1, 30)
        them.is_lost = lambda here, there, message: here == "b" and isinstance(message, messages.Chunk)
        them.routes["a"] = ["c"]
        sums += hand_out(them, value, go)
        wait_until(lambda: any(isinstance(message, messages.Redirect) for message in them.seen), 20)

        def has_come() -> bool:
            them.sweep(transfers.PATIENCE_S)
            return len(list(tmp_path.iterdir())) == 2

        wait_until(has_come, 30)
        assert any(isinstance(message, messages.Fetch) and message.direct for message in them.seen)
        go.touch()
        assert cm.get(sums, timeout=30) == [8 * MB] * 2 and not them.faults


@pytest.mark.timeout(max(120, 20 * N_SEEDS))
@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_machines_are_lost_while_it_is_handed_on(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    with machines(5) as them:
        array = np.full(dice.choice([MB, 3 * MB, 6 * MB]), float(seed))
        value = cm.put(array)
        go = tmp_path / "go"
        go.touch()
        after = dice.randrange(1, 40)
        doomed = dice.sample("bcde", dice.choice([1, 1, 2]))
        sums = [weigh.remote(value, str(go)) for _ in range(12)]
        them.machines["a"].most = dice.choice([1, 3])
        wait_until(lambda: sum(isinstance(message, messages.Chunk) for message in them.seen) >= min(after, 4), 30)
        for name in doomed:
            them.part(name)
            for _ in range(dice.randrange(3)):
                them.sweep(dice.choice([0.0, 100.0]))
        assert cm.get(sums, timeout=60) == [float(array.sum())] * 12
        del value, sums
        assert cm.get(total.remote(np.ones(10)), timeout=30) == 10

        def is_left() -> str:
            them.sweep(100.0)
            left = {
                (here, there): peer.objects._imports
                for here, machine in them.machines.items()
                for there, peer in machine.peers.items()
                if peer.objects._imports or peer.objects._told or peer.transfers._arrivals or peer.transfers._waiting
            }
            return str(left or "") + "tree" * len(them.machines["a"].tree)

        wait_until(lambda: not is_left(), 30, is_left())
        assert not them.faults


@pytest.mark.parametrize(
    "message", [messages.Redirect(5, 1, 2), messages.Redirect(0, 0, 7), messages.Fetch(5, 1, 0, 10, direct=True)]
)
def test_what_it_cannot_know_is_not_believed(two: Machines, message: Any) -> None:
    with two.lock:
        two.queue.append(("a", "b", message, b""))
    wait_until(lambda: two.faults or two.error, 20)
    assert two.faults and two.error is None


def test_who_asks_for_copies_gets_what_there_is_and_no_more(tmp_path: Path) -> None:
    with machines(3) as them:
        value = cm.put(np.ones(2 * MB))
        go = tmp_path / "go"
        them.routes["a"] = ["b"]
        kept = hand_out(them, value, go)
        wait_until(lambda: len(list(tmp_path.iterdir())) == 1, 30)
        ((slot, generation),) = [
            key
            for key, here in them.machines["b"].peers["a"].objects._imports.items()
            if them.machines["b"].peers["a"].remote_node.inspect(here).size > MB
        ]
        answers: list[tuple[bool, int]] = []

        def note(here: str, there: str, message: Any) -> bool:
            if (here, there) == ("b", "c") and isinstance(message, messages.Chunk):
                answers.append((message.found, message.at))
            return False

        them.is_lost = note
        asked = [
            (slot, generation, 0, 100, 1),
            (slot, generation, 16 * MB, 1 << 20, 1),
            (slot, generation + 1, 0, 100, 1),
            (slot + 1000, 1, 0, 100, 1),
            (slot, generation, 0, 100, 2),
            (slot, generation, 0, 100, 77),
            (slot, generation, (1 << 63) - 1, 100, 1),
        ]
        with them.lock:
            for *what, home in asked:
                them.queue.append(("c", "b", messages.Fetch(*what, home=home), b""))
            them.queue.append(("b", "c", messages.Chunk(slot, generation, 0, home=1), b"unasked"))
        wait_until(lambda: len(answers) == len(asked) + 1, 20)
        assert [found for found, _ in answers if not found] == [False] * 6 and answers.count((True, 0)) == 2
        assert not them.faults and them.error is None
        go.touch()
        assert cm.get(kept, timeout=30) == [2 * MB]
