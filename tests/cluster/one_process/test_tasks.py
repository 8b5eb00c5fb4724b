"""Tasks and objects between two and three nodes: real segments, schedulers and workers; only the network is a queue."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cellmesh.kernel_ext.graph.events import EventKind
from cellmesh.scheduler.cluster import messages
from cellmesh.scheduler.cluster.peer.tasks_out import ran_ago
from cluster.one_process.machines import Machines, machines
from support.flags import Flag
from support.waiting import wait_until

import cellmesh as cm
from cellmesh import exceptions
from cellmesh.observe.history import read_history, records

pytestmark = pytest.mark.filterwarnings("ignore::cellmesh.exceptions.InfeasibleResourcesWarning")


@cm.remote
def add(a: Any, b: Any) -> Any:
    return a + b


@cm.remote
def nothing() -> None:
    pass


@cm.remote
def parent_pid() -> int:
    return os.getppid()


def test_tasks_run_there_and_their_values_come_back(two: Machines) -> None:
    assert cm.get([add.remote(i, "x" if i is None else i) for i in range(1000)]) == [2 * i for i in range(1000)]
    here = {row["pid"] for row in two.machines["a"].client.clients() if row["role"] == "worker"}
    assert cm.get(parent_pid.remote()) not in here


def test_a_task_that_has_room_at_home_stays_there() -> None:
    with machines(2, cpus_at_home=1) as them:
        assert cm.get([add.remote(1, i) for i in range(3)]) == [1, 2, 3]
        with them.lock:
            assert them.machines["a"].client.surplus() == []


def test_the_record_says_where_and_when_they_ran(two: Machines) -> None:
    @cm.remote
    def stays(seconds: float) -> tuple[int, np.ndarray]:
        time.sleep(seconds)
        return os.getpid(), np.zeros(200_000)

    client = two.machines["a"].client
    refs = [stays.remote(0.3), stays.remote(0.0)]
    began = time.time()
    two.sweep()
    pids = [pid for pid, _ in cm.get(refs)]
    slow, quick = (task for task in read_history(client) if task.name.endswith("stays"))
    assert [slow.pid, quick.pid] == pids and slow.node == quick.node == 2
    for task, seconds in ((slow, 0.3), (quick, 0.0)):
        assert task.sent_at <= task.started_at <= task.ended_at <= task.finished_at
        assert seconds <= task.seconds <= task.finished_at - task.sent_at
    assert slow.started_at < began + 5
    assert not any(row["pid"] in pids for row in client.clients()), "theirs are not taken for ours"
    ended = wait_until(  # a value can be read a moment before that is on record
        lambda: (
            found
            if len(found := [event for event in records(client) if event.kind == EventKind.TRANSFERRED]) == 2
            else None
        ),
        20,
        "both values have come",
    )
    begun = [event for event in records(client) if event.kind == EventKind.TRANSFER]
    assert [event.b for event in ended] == [1, 1], "both have arrived"
    assert {(event.seq, event.a) for event in [*begun, *ended]} == {(slow.seq, 2), (quick.seq, 2)}
    assert all(event.b >= 1_600_000 for event in begun)


def test_a_task_that_runs_on_is_known_to_run(two: Machines, tmp_path: Path) -> None:
    began, go = Flag(tmp_path / "began"), Flag(tmp_path / "go")

    @cm.remote
    def waits() -> int:
        began.set_by_me()
        go.wait()
        return os.getpid()

    ref = waits.remote()
    client = two.machines["a"].client
    wait_until(lambda: any(event.kind == EventKind.RAN for event in records(client)), what="that it runs is told")
    pid = int(began.wait())  # what is told is that a worker has taken it, which is before its first line has run
    assert [row["pid"] for row in cm.state.list_tasks(filters=[("state", "=", "running")])] == [pid]
    assert [task["pid"] for task in client.tasks()] == [0], "its process is none of this machine's"
    go.set()
    assert cm.get(ref) == pid


def test_durations_of_there_are_placed_between_times_of_here() -> None:
    ago = ran_ago(10.0, messages.Result(1, 0, [], 5, waited=2_000_000, ran=5_000_000, kept=1_000_000))
    assert ago == (7.0, 2.0)  # a second on each way
    assert ran_ago(1.0, messages.Result(1, 0, [], 5, waited=2_000_000, ran=5_000_000)) == (
        0.0,
        0.0,
    )  # their clock runs fast


def test_several_values_none_and_an_error(two: Machines) -> None:
    @cm.remote(num_returns=3)
    def three_values() -> tuple[int, str, Any]:
        return 1, "two", np.arange(50_000)

    @cm.remote(num_returns=0)
    def no_value(path: str) -> None:
        Path(path).touch()

    @cm.remote
    def fails() -> None:
        raise KeyError("no such thing")

    one, two_, array = cm.get(three_values.remote())
    assert (one, two_, array.sum()) == (1, "two", 50_000 * 49_999 // 2)
    with pytest.raises(KeyError, match="no such thing") as caught:
        cm.get(fails.remote())
    assert isinstance(caught.value, exceptions.TaskError) and "fails" in caught.value.remote_traceback


def test_a_task_without_returns_ends(two: Machines, tmp_path: Path) -> None:
    @cm.remote(num_returns=0)
    def touch(path: str) -> None:
        Path(path).touch()

    touch.remote(str(tmp_path / "there"))
    wait_until((tmp_path / "there").exists, 20)
    wait_until(lambda: not two.machines["a"].peers["b"].tasks_out, 20)


def test_large_values_stay_where_they_are_until_they_are_read(two: Machines) -> None:
    @cm.remote
    def mean(array: Any) -> float:
        return float(array.mean())

    @cm.remote
    def make(n: int) -> Any:
        return np.arange(float(n))

    made = make.remote(3_000_000)
    assert cm.get(mean.remote(made)) == 1_499_999.5
    assert not any(isinstance(message, messages.Chunk) for message in two.seen), "read where it was made"
    array = cm.get(made)
    assert array.nbytes == 24_000_000 and array[-1] == 2_999_999.0
    assert sum(isinstance(message, messages.Chunk) for message in two.seen) == 6, "24 MB in chunks of 4 MiB"
    assert cm.get(made) is not None and sum(isinstance(message, messages.Chunk) for message in two.seen) == 6, (
        "it is here now"
    )
    again = cm.get(add.remote(cm.put(array), 1.0))
    assert (again == array + 1).all()


def test_references_inside_values_go_both_ways(two: Machines) -> None:
    @cm.remote
    def wrap(refs: list[Any]) -> dict[str, Any]:
        return {
            "given": refs[0],
            "large": cm.put(np.ones(100_000)),
            "small": cm.put("s"),
            "both": [refs[1], add.remote(1, 1)],
        }

    mine, other = cm.put(np.zeros(200_000)), cm.put({"inner": cm.put(5)})
    found = cm.get(wrap.remote([mine, other]))
    assert found["given"] == mine and found["both"][0] == other, "what comes home is what it was"
    assert cm.get(found["large"]).sum() == 100_000 and cm.get(found["small"]) == "s" and cm.get(found["both"][1]) == 2


def test_a_reference_that_is_pending_is_told_of_once_it_is_sealed(two: Machines, tmp_path: Path) -> None:
    @cm.remote
    def wait_for(path: str) -> str:
        while not os.path.exists(path):
            threading.Event().wait(0.005)
        return "came"

    @cm.remote
    def get_inside(refs: list[Any]) -> Any:
        return cm.get(refs[0])

    pending = wait_for.remote(str(tmp_path / "go"))
    inside = get_inside.remote([pending])
    Path(tmp_path / "go").touch()
    assert cm.get(inside, timeout=30) == "came"


def test_a_large_value_with_references_in_it(two: Machines) -> None:
    @cm.remote
    def many(n: int) -> list[Any]:
        return [cm.put(i) for i in range(n)]

    refs = cm.get(many.remote(20_000))
    assert cm.get(refs[::5000]) == [0, 5000, 10_000, 15_000]


def test_nested_tasks_run_there_too(two: Machines) -> None:
    @cm.remote
    def fib(n: int) -> int:
        return n if n < 2 else sum(cm.get([fib.remote(n - 1), fib.remote(n - 2)]))

    assert cm.get(fib.remote(9)) == 34


def test_cancelling(two: Machines) -> None:
    @cm.remote
    def sleeps() -> None:
        time.sleep(100)

    asleep = sleeps.remote()
    wait_until(lambda: two.machines["b"].peers["a"].tasks_in, 20)
    cm.cancel(asleep)
    with pytest.raises(exceptions.TaskCancelledError):
        cm.get(asleep, timeout=20)


def test_that_nobody_wants_a_task_is_not_said_at_every_look(two: Machines, tmp_path: Path) -> None:
    go = tmp_path / "go"

    @cm.remote
    def goes_on() -> None:
        while not go.exists():
            try:
                time.sleep(0.01)
            except KeyboardInterrupt:
                pass

    stubborn = goes_on.remote()
    wait_until(lambda: two.machines["b"].peers["a"].tasks_in, 20)
    with two.lock:
        cm.cancel(stubborn)
        for _ in range(3):
            two.machines["a"].peers["b"].look()
        assert sum(isinstance(entry[2], messages.Cancel) for entry in two.queue) == 1
        two.machines["a"].peers["b"].sweep(0.0)  # it may have been cancelled before it had begun there
        assert sum(isinstance(entry[2], messages.Cancel) for entry in two.queue) == 2
    go.touch()
    cm.wait([stubborn], timeout=20)


def test_lists_that_are_too_long_for_a_message_go_in_several(two: Machines) -> None:
    with two.lock:
        two.machines["a"].peers["b"].objects.send_all(messages.Cancel, iter(range(messages.MAX_BATCH + 1)))
        assert [len(entry[2].numbers) for entry in two.queue] == [messages.MAX_BATCH, 1]


def test_what_is_dropped_is_released_and_freed(two: Machines) -> None:
    @cm.remote
    def keep(ref: list[Any]) -> Any:
        return cm.put([ref[0], np.ones(50_000)])

    mine = cm.put(np.ones(300_000))
    theirs = cm.get(keep.remote([mine]))
    assert cm.get(theirs)[1].sum() == 50_000
    del mine, theirs
    cm.get(nothing.remote())

    def is_freed() -> bool:
        two.sweep(100.0)
        two.sweep(100.0)
        return all(
            not peer.objects._imports and not peer.objects._told and not peer.objects._held
            for machine in two.machines.values()
            for peer in machine.peers.values()
        )

    wait_until(is_freed, 20)
    wait_until(lambda: two.machines["b"].client.stats()["used_bytes"] < 100_000, 20)


def test_a_task_whose_function_was_released_meanwhile_waits_for_it(two: Machines) -> None:
    for _ in range(20):
        assert cm.get(add.remote(1, 2)) == 3
        two.sweep(100.0)
        two.sweep(100.0)


def test_a_lost_machine_s_tasks_run_again(three: Machines, tmp_path: Path) -> None:
    @cm.remote
    def slow(path: str, i: int) -> int:
        Path(path, f"{i}-{os.getpid()}").touch()
        while not os.path.exists(f"{path}/go"):
            threading.Event().wait(0.005)
        return i

    three.machines["a"].most = 4
    refs = [slow.remote(str(tmp_path), i) for i in range(8)]
    wait_until(lambda: len(list(tmp_path.iterdir())) >= 4, 30)
    three.part("b")
    (tmp_path / "go").touch()
    assert cm.get(refs, timeout=60) == list(range(8))
    wait_until(lambda: not any(row["state"] == "running" for row in three.machines["b"].client.tasks()), 20)


def test_what_a_lost_machine_has_begun_ends(two: Machines, tmp_path: Path) -> None:
    @cm.remote
    def inner(path: str) -> None:
        Path(path, str(os.getpid())).touch()
        threading.Event().wait()

    @cm.remote
    def outer(path: str) -> None:
        cm.get([inner.remote(path), inner.remote(path)])

    outer.remote(str(tmp_path))
    there = two.machines["b"].client
    pids = wait_until(lambda: [int(path.name) for path in tmp_path.iterdir()], 20)
    two.part("b")
    wait_until(
        lambda: not any(row["state"] in ("running", "blocked", "queued", "retrying") for row in there.tasks()), 20
    )
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), 20)


def test_what_was_put_on_a_lost_machine_is_lost(two: Machines) -> None:
    @cm.remote
    def put() -> list[Any]:
        return [cm.put(np.ones(100_000))]

    (made,) = cm.get(put.remote())
    two.part("b")
    with pytest.raises(exceptions.ObjectLostError, match="another machine"):
        cm.get(made)


@cm.remote
def counted(path: str, base: Any) -> Any:
    with open(path, "a") as file:
        file.write("x")
    return base + np.ones(100_000)


def test_results_that_lay_on_a_lost_machine_are_made_again(three: Machines, tmp_path: Path) -> None:
    three.routes["a"] = ["b"]
    path = str(tmp_path / "runs")
    chain = [counted.remote(path, 0)]
    for _ in range(9):
        chain.append(counted.remote(path, chain[-1]))
    cm.wait(chain, num_returns=10)
    last, first, unread = chain[-1], chain[0], chain[4]
    del chain
    three.sweep(100.0)
    three.routes["a"] = ["c"]
    three.part("b")
    assert (
        cm.get(last, timeout=30)[0] == 10.0
        and cm.get(first, timeout=30)[0] == 1.0
        and cm.get(unread, timeout=30)[0] == 5.0
    )
    assert len(Path(path).read_text()) == 20, "each ran once more"


def test_what_has_come_home_is_not_made_again(two: Machines, tmp_path: Path) -> None:
    path = str(tmp_path / "runs")
    made = counted.remote(path, 0)
    assert cm.get(made)[0] == 1.0
    two.part("b")
    assert cm.get(made)[0] == 1.0 and len(Path(path).read_text()) == 1
    assert not len(two.machines["a"].lineage)


def test_lineage_keeps_no_value_alive_that_another_task_can_make(two: Machines, tmp_path: Path) -> None:
    path = str(tmp_path / "runs")
    last = counted.remote(path, 0)
    for _ in range(5):
        last = counted.remote(path, last)
    cm.wait([last])
    cm.get(nothing.remote())

    def alone() -> bool:
        two.sweep(1.0)
        return two.machines["b"].client.stats()["used_bytes"] < 2_000_000

    wait_until(alone, 20)
    assert len(two.machines["a"].lineage) == 1


def test_a_task_that_is_no_function_of_its_arguments_cannot_be_made_again(three: Machines, tmp_path: Path) -> None:
    @cm.remote
    def grows(path: str) -> Any:
        with open(path, "a") as file:
            file.write("x")
        return np.ones(100_000 * os.path.getsize(path))

    three.routes["a"] = ["b"]
    made = grows.remote(str(tmp_path / "runs"))
    cm.wait([made])
    three.routes["a"] = ["c"]
    three.part("b")
    with pytest.raises(exceptions.ObjectLostError):
        cm.get(made, timeout=30)


def test_without_retries_the_loss_is_an_error(two: Machines) -> None:
    @cm.remote(max_retries=0)
    def sleeps() -> None:
        time.sleep(100)

    asleep = sleeps.remote()
    wait_until(lambda: two.machines["b"].peers["a"].tasks_in, 20)
    two.part("b")
    with pytest.raises(exceptions.NodeDiedError, match="sleeps"):
        cm.get(asleep, timeout=20)


def test_an_object_three_machines_know_of(three: Machines) -> None:
    """b makes it, a hands it on, c reads it; and it outlives the middle's interest."""
    three.routes["a"] = ["b"]
    made = add.remote(np.arange(500_000.0), 1.0)
    cm.wait([made])
    three.routes["a"] = ["c"]
    assert cm.get(add.remote(made, 1.0))[0] == 2.0
    wrapped = cm.get(add.remote([made], []))
    assert wrapped == [made]


def test_no_room_there(two: Machines) -> None:
    refused: list[int] = []

    def has_room() -> bool:
        refused.append(1)
        return len(refused) > 3

    two.machines["b"].has_room = has_room
    assert cm.get([add.remote(i, 1) for i in range(5)], timeout=30) == [1, 2, 3, 4, 5]
    assert any(isinstance(message, messages.Returned) for message in two.seen)


@pytest.mark.parametrize(
    "message",
    [
        messages.Released([messages.Told(5, 1)]),
        messages.Want([messages.Told(5, 1)]),
        messages.Fetch(5, 1, 0, 10),
        messages.Chunk(5, 1, 0),
        messages.Results([messages.Result(77, 0, [])]),
        messages.Returned([77]),
        messages.Find(1, "\0", "default"),
        messages.Tasks([messages.Task(1, messages.Ref(5, 1, yours=True), {"CPU": 10_000}, b"", [], 0, 1, 0, 0)]),
        messages.Tasks([messages.Task(1, messages.Ref(5, 1), {"": 10_000}, b"", [], 0, 1, 0, 0)]),
        messages.Tasks(
            [messages.Task(1, messages.Ref(5, 1, value=messages.Value(2, 100, b"short")), {}, b"", [], 0, 1, 0, 0)]
        ),
        messages.Tasks(
            [messages.Task(1, messages.Ref(5, 1, value=messages.Value(2, 1 << 62)), {}, b"", [], 0, 1, 0, 0)]
        ),
    ],
)
def test_what_it_cannot_know_is_not_believed(two: Machines, message: Any) -> None:
    with two.lock:
        two.queue.append(("a", "b", message, b""))
    wait_until(lambda: two.faults or two.error, 20)
    assert two.faults and two.error is None


def test_a_store_that_is_too_small_for_what_comes(two: Machines) -> None:
    @cm.remote
    def make(n: int) -> Any:
        return [cm.put(i) for i in range(3)], np.ones(n)

    mine = cm.put(np.ones(150 << 17))
    looked_at = cm.get(mine)  # 150 of 256 MB, which cannot go to disk
    ref = make.remote((200 << 20) // 8)  # with references in it, so it comes at once
    with pytest.raises(exceptions.ObjectStoreFullError):
        cm.get(ref, timeout=60)
    assert cm.get(add.remote(1, 1)) == 2 and looked_at[0] == 1.0
    del looked_at, ref
    assert cm.get(make.remote((100 << 20) // 8))[1][0] == 1.0, "there is room once what is there may go to disk"


def test_handles_of_actors_stay_on_their_machine() -> None:
    @cm.remote(num_cpus=0)
    class Counter:
        def __init__(self) -> None:
            self.n = 0

        def add(self) -> int:
            self.n += 1
            return self.n

    @cm.remote
    def call(counter: Any) -> int:
        return int(cm.get(counter.add.remote()))

    @cm.remote
    def call_inside(refs: list[Any]) -> int:
        return int(cm.get(cm.get(refs[0])["counter"].add.remote()))

    with machines(2, cpus_at_home=1) as them:
        counter = Counter.remote()
        assert sorted(cm.get([call.remote(counter) for _ in range(20)], timeout=60)) == list(range(1, 21)), (
            "they wait for their turn at home"
        )
        inside = cm.put({"counter": counter})
        found = [call_inside.remote([inside]) for _ in range(20)]
        for ref in found:
            try:
                assert cm.get(ref, timeout=60) > 20
            except exceptions.CellmeshError as error:  # it ran on the other machine, which cannot have it
                assert "counter" in str(error) or "actor" in str(error) or "gone" in str(error)
        assert not them.faults


def test_many_values_do_not_make_one_message(two: Machines) -> None:
    @cm.remote
    def weigh(refs: list[Any]) -> int:
        return sum(len(value) for value in cm.get(refs))

    values = [cm.put(bytes(50_000)) for _ in range(400)]  # 20 MB in values that travel along
    assert cm.get(weigh.remote(values), timeout=60) == 20_000_000
    assert cm.get([add.remote(bytes(40_000), bytes(20_000)) for _ in range(200)], timeout=60)[-1] == bytes(60_000)
    two.machines["a"].most = 4096
    assert len(cm.get([add.remote(bytes(60_000), bytes(1000)) for _ in range(800)], timeout=60)) == 800
    from msgspec import msgpack

    assert max(len(msgpack.encode(message)) for message in two.seen) < 2 * messages.MAX_FRAME_BYTES / 8


def test_what_is_refused_is_released_too(two: Machines) -> None:
    two.machines["b"].has_room = lambda: False
    two.routes["a"] = ["b"]
    ref = add.remote(np.ones(50_000), 1.0)
    wait_until(lambda: any(isinstance(message, messages.Returned) for message in two.seen), 20)
    two.routes["a"] = []
    two.machines["b"].has_room = lambda: True

    def is_released() -> bool:
        two.sweep(100.0)
        return not two.machines["a"].peers["b"].objects._told

    wait_until(is_released, 20)
    two.routes["a"] = ["b"]
    two.machines["a"].client.wake()
    assert cm.get(ref, timeout=30)[0] == 2.0


def test_a_value_larger_than_any_store_is_no_reason_to_fall_over(two: Machines) -> None:
    inner = messages.Ref(6, 1, value=messages.Value(2, 1, b"x"))
    huge = messages.Ref(5, 1, value=messages.Value(2, 1 << 61, refs=[inner]))
    with two.lock:
        two.queue.append(
            ("a", "b", messages.Tasks([messages.Task(1, huge, {"CPU": 10_000}, b"", [], 0, 1, 0, 0)]), b"")
        )
    wait_until(lambda: two.faults, 20)  # as `a` hears of the end of a task that it has not given
    assert two.error is None and cm.get(cm.put(1)) == 1


def test_variables_and_setup_functions_travel_and_folders_do_not(two: Machines, tmp_path: Path) -> None:
    def set_up() -> None:
        os.environ["CM_SET_UP"] = "yes"

    @cm.remote(runtime_env={"env_vars": {"CM_THERE": "1"}, "worker_process_setup_hook": set_up})
    def look() -> tuple[str | None, str | None]:
        return os.environ.get("CM_THERE"), os.environ.get("CM_SET_UP")

    @cm.remote(runtime_env={"env_vars": {"CM_THERE": "2"}})
    class Looks:
        def look(self) -> str | None:
            return os.environ.get("CM_THERE")

    assert cm.get(look.remote()) == ("1", "yes")
    assert cm.get(Looks.remote().look.remote()) == "2"
    with_folder = nothing.options(runtime_env={"working_dir": str(tmp_path)}).remote()
    with two.lock:
        assert two.machines["a"].client.surplus() == []
    assert cm.wait([with_folder], timeout=0)[0] == []
    cm.cancel(with_folder)


@cm.remote
def large_with_a_reference(i: int) -> list[Any]:
    return [cm.put(i), np.full(50_000, float(i))]


@cm.remote(num_returns="streaming")
def large_ones_with_references(n: int) -> Any:
    for i in range(n):
        yield [cm.put(i), np.full(50_000, float(i))]


def test_a_machine_that_is_lost_while_a_result_comes_is_no_result(three: Machines) -> None:
    three.is_lost = lambda here, there, message: isinstance(message, messages.Chunk)
    ref = large_with_a_reference.remote(7)
    answer = wait_until(lambda: next((m for m in three.seen if isinstance(m, messages.Results)), None), 20)
    there = wait_until(lambda: next((name for name in "bc" if three.machines["a"].peers[name].tasks_out), ""), 20)
    assert answer and not cm.wait([ref], timeout=0)[0]
    three.is_lost = lambda here, there, message: False
    three.part(there)
    inner, data = cm.get(ref, timeout=30)
    assert data[0] == 7.0 and cm.get(inner) == 7


def test_items_that_come_after_the_end_are_items(two: Machines) -> None:
    held: list[Any] = []

    def holds_back(here: str, there: str, message: Any) -> bool:
        if isinstance(message, messages.Fetch) and there == "b" and len(held) < 3:
            held.append((here, there, message, b""))
            return True
        return False

    two.is_lost = holds_back
    stream = large_ones_with_references.remote(3)
    wait_until(lambda: len(held) == 3 and any(isinstance(message, messages.Results) for message in two.seen), 20)
    with two.lock:
        two.queue += held
    two.machines["a"].client.wake()
    assert [cm.get(item)[1][0] for item in stream] == [0.0, 1.0, 2.0]
