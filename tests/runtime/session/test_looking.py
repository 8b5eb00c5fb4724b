"""Listings, memory, stacks, the timeline and the command line, against sessions that do something."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.waiting import wait_until

import cellmesh
from cellmesh import state
from cellmesh.cli import main as cli
from cellmesh.ids import short_id
from cellmesh.observe.chrome_trace import LANES, trace_of
from cellmesh.observe.history import TaskHistory
from cellmesh.observe.states import WORKERS
from cellmesh.session.current import current

pytestmark = [pytest.mark.timeout(90), pytest.mark.session("shared")]


@cellmesh.remote
def add(x, y=0):
    return x + y


@cellmesh.remote
def fail():
    raise ValueError("no")


@cellmesh.remote
class Counter:
    def ping(self):
        return "pong"


# ---------------------------------------------------------------- listings
def test_listings_and_filters(cm: ModuleType) -> None:
    refs = [add.remote(i) for i in range(5)]
    failed = fail.remote()
    with pytest.raises(ValueError, match="no"):
        cm.get(failed)
    cm.get(refs)
    actor = Counter.options(name="one").remote()
    cm.get(actor.ping.remote())
    assert len(cm.state.list_tasks(filters=[("state", "=", "finished"), ("name", "=", "add")])) == 5
    assert [row["name"] for row in cm.state.list_tasks(filters=[("state", "=", "failed")])] == ["fail"]
    assert len(cm.state.list_tasks(limit=2)) == 2
    assert cm.state.list_actors(filters=[("name", "=", "one")])[0]["state"] == "alive"
    assert cm.state.list_objects(filters=[("id", "=", failed.hex())])[0]["state"] == "error"
    assert {row["role"] for row in cm.state.list_workers()} == {"driver", "worker", "scheduler"}
    assert len(cm.state.list_nodes()) == 1


@pytest.mark.session("own")
def test_the_programs_of_a_session(cm: ModuleType) -> None:
    (row,) = cm.state.list_jobs()
    assert row["pid"] == os.getpid() and "pytest" in row["program"] and row["notebook"] == ""
    assert row["state"] == "running" and row["node"] == os.uname().nodename and row["started"] and not row["ended"]
    cm.get([add.remote(i) for i in range(7)])
    (run,) = wait_until(lambda: cm.state.list_runs(filters=[("tasks", "=", 7)]))
    assert run["state"] == "running" and run["seconds"] > 0 and run["started"] == row["started"]


def test_what_was_printed_can_be_read_again(tmp_path: Path) -> None:
    @cellmesh.remote
    def say(text: str) -> int:
        print(text)
        return os.getpid()

    with cellmesh.init(num_cpus=1, log_dir=str(tmp_path)):
        refs = [say.remote(f"line {i}") for i in range(3)]
        pid = cellmesh.get(refs)[0]
        teller = Counter.options(name="teller").remote()
        cellmesh.get(teller.ping.remote())
        wait_until(lambda: cellmesh.state.get_log(pid=pid, tail=1) == "line 2\n", what="all has been written")
        assert cellmesh.state.get_log(refs[1].creator) == "line 1\n"
        assert cellmesh.state.get_log(pid=pid).count(
            "line"
        ) == 3 and f"--- task {refs[0].creator}\n" in cellmesh.state.get_log(pid=pid)
        assert cellmesh.state.get_log(actor="teller") == ""
        assert [(row["pid"], row["path"]) for row in cellmesh.state.list_logs()] == [
            (pid, str(tmp_path / f"worker-{pid}.log"))
        ]
        with pytest.raises(ValueError, match="no living actor"):
            cellmesh.state.get_log(actor="nobody")
        with pytest.raises(ValueError, match="needs one of task=, actor= and pid="):
            cellmesh.state.get_log()


def test_what_goes_past_python_is_in_a_file_too(tmp_path: Path) -> None:
    @cellmesh.remote
    def write() -> int:
        os.write(1, b"by descriptor\n")
        os.system("echo by a shell >&2")
        subprocess.run(["echo", "by a process"], check=True)
        print("by Python")
        return os.getpid()

    with cellmesh.init(num_cpus=1, log_dir=str(tmp_path), log_to_driver=False):
        ref = write.remote()
        pid, task = cellmesh.get(ref), ref.creator
        whole = ["by Python", "by a process", "by a shell", "by descriptor"]
        wait_until(lambda: sorted(cellmesh.state.get_log(task).splitlines()) == whole, what="all has been written")
        paths = [row["path"] for row in cellmesh.state.list_logs()]
        assert paths == [str(tmp_path / f"worker-{pid}{kind}.log") for kind in ("", ".descriptors")]
        assert [os.stat(path).st_mode & 0o777 for path in paths] == [0o600, 0o600]


def test_files_of_what_was_printed_are_for_nobody_else(tmp_path: Path) -> None:
    folder, before = tmp_path / "logs", os.umask(0)
    try:
        with cellmesh.init(num_cpus=1, log_dir=str(folder)):
            cellmesh.get(cellmesh.remote(lambda: print("secret")).remote())
            (row,) = wait_until(lambda: cellmesh.state.list_logs())
            modes = [os.stat(path).st_mode & 0o777 for path in (folder, row["path"])]
    finally:
        os.umask(before)
    assert modes == [0o700, 0o600]


def test_without_files_it_is_said_how_to_have_them(cm: ModuleType) -> None:
    for look in (cm.state.list_logs, lambda: cm.state.get_log(pid=1)):
        with pytest.raises(ValueError, match=r"cellmesh.init\(log_dir="):
            look()


@pytest.mark.session("own")
@pytest.mark.parametrize("look", ["tasks", "read_history"])
def test_a_task_that_ends_during_a_listing_is_in_it(
    cm: ModuleType, flag, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    """list_tasks looks twice, at the living and at the records; here a task ends after either look."""

    @cm.remote
    def wait() -> None:
        flag("started").set()
        flag("go").wait()

    def and_then_it_ends(function):
        def inner(*args):
            found = function(*args)
            flag("go").set()
            wait_until(lambda: not [task for task in client.tasks() if task["name"] == "wait"])
            return found

        return inner

    class ClientWhoseTasksEnd:
        def __getattr__(self, name: str):
            return and_then_it_ends(client.tasks) if name == look else getattr(client, name)

    class SessionOfThatClient:
        client = ClientWhoseTasksEnd()

        def __getattr__(self, name: str):
            return getattr(session, name)

    session = state.running()
    client = session.client
    ref = wait.remote()
    flag("started").wait()
    if look == "read_history":
        monkeypatch.setattr(state, look, and_then_it_ends(state.read_history))
    else:
        monkeypatch.setattr(state, "running", SessionOfThatClient)
    assert [row["name"] for row in cm.state.list_tasks()] == ["wait"]
    del ref


def test_what_can_be_fetched_is_listed_as_ended(cm: ModuleType) -> None:
    for i in range(200):
        assert cm.get(add.remote(i)) == i
        assert cm.state.list_tasks(limit=1)[0]["state"] == "finished"


def test_long_listings_are_whole(cm: ModuleType, flag) -> None:
    """They are read page by page."""

    @cm.remote
    def parent() -> None:
        refs = [child.remote(flag("go")) for _ in range(5000)]
        flag("started").set()
        cm.wait(refs)

    @cm.remote(num_cpus=0, resources={"none": 1})
    def child(go) -> None:
        pass

    kept = [cm.put(i) for i in range(10_000)]
    listed = [row["id"] for row in cm.state.list_objects(limit=1 << 20)]
    assert len(listed) == len(set(listed)) and {ref.hex() for ref in kept} <= set(listed)
    family = parent.remote()
    flag("started").wait()
    tasks = [row["task"] for row in cm.state.list_tasks(filters=[("name", "=", "child")], limit=1 << 20)]
    assert len(tasks) == len(set(tasks)) == 5000
    cm.cancel(family)
    wait_until(
        lambda: not cm.state.list_tasks(filters=[("name", "=", "child"), ("state", "!=", "cancelled")], limit=1 << 20)
    )
    assert (
        len(cm.state.list_tasks(filters=[("name", "=", "child"), ("state", "=", "cancelled")], limit=1 << 20)) == 5000
    )


@pytest.mark.filterwarnings("ignore:.*it will wait for ever")
def test_unfinished_tasks_are_counted_by_cell_and_state(cm: ModuleType, flag) -> None:
    client = current().client

    @cm.remote
    def held() -> None:
        flag("started").set()
        flag("go").wait()

    try:
        client.origin = 7
        refs = [held.remote()]
        flag("started").wait()
        never = add.options(resources={"none": 1})
        for client.origin in (7, 8, 7):
            refs += [never.remote(1) for _ in range(3)]
            refs.append(add.remote(refs[-1]))
        assert client.count_tasks() == {
            (7, "running"): 1,
            (7, "queued"): 6,
            (7, "waiting"): 2,
            (8, "queued"): 3,
            (8, "waiting"): 1,
        }
        assert {ref.hex() for ref in client.children(0, 8)} == {ref.hex() for ref in refs[5:9]}
    finally:
        client.origin = 0
    value = cm.put(1)
    assert client.cancel_pending([value, *refs]) == [value, refs[0]], "what has begun is interrupted one by one"
    assert client.count_tasks() == {(7, "running"): 1}
    flag("go").set()
    cm.get(refs[0])
    assert not client.count_tasks()
    for wrong in ((value,), [value, 3]):
        with pytest.raises(TypeError, match=r"cancel_pending\(\) needs"):
            client.cancel_pending(wrong)


@pytest.mark.filterwarnings("ignore:.*it will wait for ever")
def test_a_stop_and_a_cancellation_of_very_many_tasks_make_no_object_for_each(
    cm: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cellmesh.kernel_ext.cells import cancel
    from cellmesh.kernel_ext.cells.registry import n_unfinished

    session = current()
    never = add.options(resources={"none": 1})
    refs = [never.remote(1) for _ in range(10_001)]
    asked: list[str] = []

    class Watched:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return getattr(client, name)

    client = session.client
    with monkeypatch.context() as patch:
        patch.setattr(session, "client", Watched())
        assert n_unfinished() == {0: len(refs)}
        cancel.cancel([], {}, everything=True)
    assert capsys.readouterr().out == f"Cancelled {len(refs)} tasks.\n"
    assert len(asked) < 10, asked
    assert not client.count_tasks()


@pytest.mark.filterwarnings("ignore:.*it will wait for ever")
def test_a_task_knows_its_name_behind_very_many_others(cm: ModuleType) -> None:
    @cm.remote(num_cpus=0)
    def named() -> str | None:
        return cellmesh.get_runtime_context().get_task_name()

    never = add.options(resources={"none": 1})
    refs = [never.remote(1) for _ in range(10_001)]
    assert cm.get(named.options(name="mine").remote()) == "mine"
    cm.cancel(refs)
    assert cellmesh.get_runtime_context().get_task_name() is None


@pytest.mark.session("own")
def test_summaries(cm: ModuleType) -> None:
    refs = [add.remote(i) for i in range(5)]
    cm.get(refs)
    held = cm.put(bytes(1 << 20))
    actor = Counter.remote()
    cm.get(actor.ping.remote())
    assert {row["name"]: row.get("finished") for row in cm.state.summarize_tasks()}["add"] == 5
    assert sum(row["share"] or 0 for row in cm.state.summarize_tasks()) == pytest.approx(1, abs=0.01)
    assert [(row["class_name"], row["alive"]) for row in cm.state.summarize_actors()] == [("Counter", 1)]
    objects = {row["made_by"]: row for row in cm.state.summarize_objects()}
    assert objects["add"]["objects"] == 5 and objects["put"]["size"] >= 1 << 20
    del held


def test_memory_names_the_variables(cm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    ref, other = cm.put(bytes(1 << 20)), cm.put(bytes(1 << 19))
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "images", ref, raising=False)
    monkeypatch.setattr(main, "parts", {"a": [1], "b": other}, raising=False)
    monkeypatch.setattr(main, "Out", {12: ref}, raising=False)
    lines = {line.split()[2]: line for line in cm.state.memory().splitlines() if " refs in " in line}
    assert lines[short_id(ref.hex())].endswith(": images, Out[12]") and lines[short_id(other.hex())].endswith(": parts")
    assert len(cm.state.memory(limit=1).splitlines()) == 3 and ref.hex() in cm.state.memory(exact=True)


def test_memory_names_what_was_fetched(cm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas
    import pyarrow

    array, frame = cm.put(np.zeros(1 << 16)), cm.put(pandas.DataFrame({"x": np.arange(1 << 15), "y": np.ones(1 << 15)}))
    table = cm.put(pyarrow.table({"x": np.arange(1 << 14), "s": ["x"] * (1 << 14)}))
    strings = cm.put(pandas.DataFrame({"s": pandas.array(["word"] * (1 << 14), dtype="string[pyarrow]")}))
    ids = [short_id(ref.hex()) for ref in (array, frame, table, strings)]
    released = memoryview(cm.get(array))
    released.release()
    main = sys.modules["__main__"]
    for name, value in {
        "whole": cm.get(array),
        "parts": [cm.get(array)[10:]],
        "numbers": cm.get(frame),
        "table": cm.get(table),
        "column": cm.get(table)["s"][5:],
        "batches": cm.get(table).to_batches(),
        "words": cm.get(strings),
        "other": np.zeros(1 << 16),
        "view": memoryview(cm.get(array))[-1:],
        "released": released,
    }.items():
        monkeypatch.setattr(main, name, value, raising=False)
    del array, frame, table, strings, value
    lines = {
        line.split()[2]: line.rpartition(": ")[2] for line in cm.state.memory().splitlines() if " refs in " in line
    }
    assert [lines[i] for i in ids] == ["whole, parts, view", "numbers", "table, column, batches", "words"]


def test_memory_names_closures_attributes_and_the_last_traceback(
    cm: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Model:
        def __init__(self, weights: object) -> None:
            self.weights = {"layers": [{"kernel": weights}]}

    def reader(array: object):
        later = [array]
        return lambda: later

    def boom(picture: object) -> None:
        raise ValueError

    Model.__module__ = "__main__"
    refs = [cm.put(np.full(1 << 16, i)) for i in range(4)]
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "model", Model(cm.get(refs[0])), raising=False)
    monkeypatch.setattr(main, "read", reader(cm.get(refs[1])), raising=False)
    monkeypatch.setattr(main, "task", cm.remote(reader(refs[2])), raising=False)
    with pytest.raises(ValueError) as caught:
        boom(cm.get(refs[3]))
    monkeypatch.setattr(sys, "last_value", caught.value, raising=False)
    lines = {
        line.split()[2]: line.rpartition(": ")[2] for line in cm.state.memory().splitlines() if " refs in " in line
    }
    assert lines[short_id(refs[0].hex())].startswith("model.weights")
    assert lines[short_id(refs[1].hex())].startswith("the closure of <lambda>") and lines[
        short_id(refs[2].hex())
    ].startswith("the closure of <lambda>")
    assert "picture of boom in the traceback of the last ValueError" in lines[short_id(refs[3].hex())]


def test_who_is_asked_what_it_holds_runs_no_code_of_its_own(cm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    class Trap(list):
        def __iter__(self):
            raise AssertionError("was iterated")

        def __getattribute__(self, name: str):
            raise AssertionError("was asked")

    endless: list[object] = []
    endless.append(endless)
    main = sys.modules["__main__"]
    for name, value in {
        "trap": Trap(),
        "endless": endless,
        "many": list(range(300_000)),
        "zz": (ref := cm.put(bytes(1 << 20))),
    }.items():
        monkeypatch.setattr(main, name, value, raising=False)
    assert short_id(ref.hex()) in cm.state.memory()


def test_memory_in_a_cell_is_lines_and_no_traceback_is_named_where_none_was_shown(
    cm: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("last_exc", "last_value"):
        monkeypatch.delattr(sys, name, raising=False)
    ref = cm.put(np.zeros(1 << 17))
    try:
        raise ValueError(ref)
    except ValueError:
        text = cm.state.memory()
    assert repr(text) == str(text) and len(repr(text).splitlines()) > 2 and "traceback" not in text
    del ref
    refs = [cm.put(np.zeros(1 << 12)) for _ in range(100)]
    stats = current().client.stats()
    assert stats["used_bytes"] <= stats["peak_bytes"] and refs


def test_stacks(cm: ModuleType, flag) -> None:
    @cellmesh.remote
    def waiting_here():
        flag("on").set_by_me()
        flag("go").wait()

    ref = waiting_here.remote()
    pid = int(flag("on").wait())
    assert "waiting_here" in cm.state.stacks()[pid]
    assert "waiting_here" in cm.state.stacks([pid])[pid]
    assert all("is no worker of this session" in text for text in cm.state.stacks([1, 1 << 40]).values())
    flag("go").set()
    cm.get(ref)


def test_the_stack_of_an_actor_that_has_nothing_to_do(cm: ModuleType) -> None:
    @cm.remote
    class Idle:
        def pid(self):
            return os.getpid()

    actor = Idle.remote()
    pid = cm.get(actor.pid.remote())
    wait_until(lambda: cm.state.stacks() == {pid: "It waits for work."})


def rows_in(state: str, cm: ModuleType) -> list[tuple[str, str]]:
    return [(row["name"], row["detail"]) for row in cm.state.list_tasks(filters=[("state", "=", state)])]


def test_a_task_that_sleeps_in_get_runs_and_one_whose_process_ended_has_failed(cm: ModuleType, flag: Any) -> None:
    @cm.remote(num_cpus=0)
    def waits(started, go):
        started.set()
        go.wait()

    @cm.remote
    def asks(ref):
        return cellmesh.get(ref[0])

    @cm.remote(max_retries=0)
    def dies():
        os._exit(3)

    inner = waits.remote(flag("started"), flag("go"))
    outer = asks.remote([inner])
    flag("started").wait()
    wait_until(lambda: ("asks", "blocked") in rows_in("running", cm))
    with pytest.raises(cm.exceptions.WorkerCrashedError):
        cm.get(dies.remote())
    assert rows_in("failed", cm) == [("dies", "crashed")]
    assert [row["name"] for row in cm.state.list_tasks(filters=[("detail", "=", "blocked")])] == ["asks"]
    flag("go").set()
    cm.get(outer)


@pytest.mark.session("own")
def test_a_task_whose_attempt_was_lost_is_retrying_until_it_runs(cm: ModuleType, flag: Any) -> None:
    @cm.remote(num_cpus=0)
    def waits(go):
        go.wait()

    @cm.remote(num_cpus=2)
    def dies_once(started, ref):
        if not started.is_set():
            started.set_by_me()
            cellmesh.get(ref[0])

    @cm.remote(num_cpus=2)
    def other(on, go):
        on.set()
        go.wait()

    inner = waits.remote(flag("go"))
    lost = dies_once.remote(flag("started"), [inner])
    pid = int(flag("started").wait())
    behind = other.remote(flag("on"), flag("go"))
    flag("on").wait()  # on the CPUs of the one that waits in `get`: its next attempt has none until `other` ends
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: rows_in("retrying", cm) == [("dies_once", "")])
    assert lost.client.info(lost)["state"] == "retrying"
    flag("go").set()
    cm.get([lost, behind])


def test_a_filter_by_a_state_that_there_is_not_names_those_that_there_are(cm: ModuleType) -> None:
    words = {
        "tasks": "waiting, queued",
        "actors": "pending, alive",
        "objects": "pending, ready",
        "workers": "starting, idle",
        "jobs": "running, ended",
        "runs": "running, ended",
        "placement_groups": "pending, reserved",
        "nodes": "alive, draining",
    }
    assert words.keys() == set(cli.LISTS)
    for what, known in words.items():
        column = "State" if what == "nodes" else "state"
        with pytest.raises(ValueError, match=f"there is no state 'RUNING', there are {known}"):
            getattr(cm.state, f"list_{what}")(filters=[(column, "=", "RUNING")])
    assert {row["state"] for row in cm.state.list_workers()} <= set(WORKERS)


def test_wrong_filters(cm: ModuleType) -> None:
    cm.get(add.remote(1))
    for arguments, match in [
        ({"filters": [("colour", "=", 1)]}, "columns are"),
        ({"filters": ["state"]}, "list of"),
        ({"filters": [("state", "~", 1)]}, "no operator"),
        ({"limit": 0}, "limit"),
    ]:
        with pytest.raises(ValueError, match=match):
            cm.state.list_tasks(**arguments)


# ---------------------------------------------------------------- the timeline
def task(seq: int, start: float, end: float | None, worker: int = 0, depends_on: tuple[int, ...] = ()) -> TaskHistory:
    return TaskHistory(
        seq,
        f"t{seq}",
        started_at=start,
        finished_at=end,
        submitted_at=start,
        worker=worker,
        pid=10,
        depends_on=list(depends_on),
        state="finished" if end else "running",
    )


def slices(events: list[dict]) -> dict[int, tuple[int, float, float]]:
    return {e["args"]["task"]: (e["tid"], e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X"}


def test_slices_of_a_row_never_cross() -> None:
    history = [task(1, 0, 10), task(2, 2, 5), task(3, 4, 12), task(4, 13, 14), task(5, 0, 3, worker=1)]
    found = slices(trace_of(history, 20))
    assert found[1][0] == found[2][0] == found[4][0] == 0 and found[3][0] == 1 and found[5][0] == LANES
    assert slices(trace_of([task(1, 0, None)], 7))[1][2] == 7e6, "what runs ends now"


def test_arrows_lie_within_the_slices_they_connect() -> None:
    events = trace_of([task(1, 0, 1), task(2, 2, 3, worker=1, depends_on=(1, 99))], 5)
    found = slices(events)
    (start,), (end,) = ([e for e in events if e["ph"] == phase] for phase in "sf")
    assert found[1][1] <= start["ts"] < found[1][2] and start["tid"] == 0
    assert end["ts"] == found[2][1] and end["tid"] == LANES and end["id"] == start["id"] and end["bp"] == "e"


# ---------------------------------------------------------------- the command line
def run(*arguments: str, status: int = 0) -> str:
    command = [sys.executable, "-m", "cellmesh.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


def test_every_command_of_a_session_that_works(cm: ModuleType, flag, tmp_path) -> None:
    @cellmesh.remote
    def busy():
        flag("on").set_by_me()
        flag("go").wait()

    cm.get([add.remote(i) for i in range(3)])
    ref, held = busy.remote(), cm.put(bytes(1 << 20))
    pid = int(flag("on").wait())
    session = cm.get_runtime_context().get_job_id()
    (found,) = json.loads(run("status", "--json"))
    assert found["session"] == session and found["total"]["CPU"] == 2 and found["tasks"]["running"] == 1
    rows = json.loads(run("list", "tasks", "--json", "--filter", "name=busy", "--limit", "5"))[0]["tasks"]
    assert [(row["name"], row["state"], row["pid"]) for row in rows] == [("busy", "running", pid)]
    ended = json.loads(run("list", "tasks", "--json", "--filter", "name!=busy", "--filter", "attempt<1"))[0]["tasks"]
    assert [row["name"] for row in ended] == ["add"] * 3
    assert short_id(held.hex()) in run("memory", "--session", session) and held.hex() in run("memory", "--bytes")
    assert json.loads(run("memory", "--json"))[0]["objects"][0]["id"] == held.hex()
    assert "in busy" in run("stack")
    assert "in busy" in json.loads(run("stack", "--json", str(pid)))[0]["stacks"][str(pid)]
    assert [row["pid"] for row in json.loads(run("list", "jobs", "--json"))[0]["jobs"]] == [os.getpid()], (
        "not the command itself"
    )
    trace = tmp_path / "trace.json"
    assert "perfetto" in run("timeline", "-o", str(trace))
    assert sum(event["name"] == "add" and event["ph"] == "X" for event in json.loads(trace.read_text())) == 3
    assert session in run("logs")
    flag("go").set()
    cm.get(ref)


def test_a_session_that_does_not_answer_takes_one_line(cm: ModuleType) -> None:
    commands = ("status", "summary", "memory", "timeline", "stack", "logs")
    scheduler = current().node.scheduler_pid
    os.kill(scheduler, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(len(commands)) as pool:  # each waits for five seconds
            said = dict(zip(commands, pool.map(lambda command: run(command, status=1), commands), strict=True))
    finally:
        os.kill(scheduler, signal.SIGCONT)
    line = r".*local scheduler at .* has not answered within 5 s: it is stopped, or has too much to do\n"
    assert {command for command, text in said.items() if not re.fullmatch(line, text)} == set(), said
    assert cm.get(add.remote(1)) is not None


def test_following_what_is_printed(cm: ModuleType) -> None:
    @cellmesh.remote
    def say(n):
        print(f"line {n}")

    with subprocess.Popen(
        [sys.executable, "-u", "-m", "cellmesh.cli", "logs", "--follow"], stdout=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout is not None and follower.stdout.readline()  # what there was before
        # It is attached a moment before it listens.
        wait_until(
            lambda: cm.get(say.remote(7)) is None and select.select([follower.stdout], [], [], 0.05)[0],
            what="it listens",
        )
        cm.shutdown()
        assert "line 7" in follower.communicate(timeout=30)[0]
    assert follower.returncode == 0


def test_the_command_line_without_a_session(capsys: pytest.CaptureFixture[str]) -> None:
    for command, status in [("status", 0), ("memory", 1), ("timeline", 1), ("stack", 1), ("logs", 1), ("stop", 0)]:
        assert cli.main([command]) == status
        heard = capsys.readouterr()
        assert "No cellmesh session" in heard.out + heard.err
    assert cli.main(["export", "nowhere.cellmesh"]) == 2 and "nowhere.cellmesh: No such file" in capsys.readouterr().err
    assert cli.main(["status", "--json"]) == 0 and json.loads(capsys.readouterr().out) == []
    assert cli.main(["doctor", "--json"]) == 0
    assert all(not row["problem"] for row in json.loads(capsys.readouterr().out))


def test_wrong_usage(cm: ModuleType) -> None:
    for arguments, text in [
        (["status", "--session", "x"], "no such session: x; there is"),
        (["stop", "x"], "no such"),
        (["list", "cats"], "invalid choice"),
        (["list", "tasks", "--filter", "a"], "COLUMN=VALUE"),
        (["list", "workers", "--filter", "colour=1"], "columns are"),
        ([], "required"),
        (["list", "tasks", "--limit", "0"], "whole number"),
        (["timeline", "-o", "/nowhere/x"], "cannot write"),
    ]:
        assert text in run(*arguments, status=2), arguments


@pytest.mark.parametrize(
    "command", ["status", "list", "summary", "memory", "timeline", "stack", "logs", "stop", "doctor"]
)
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0 and command in capsys.readouterr().out


# ---------------------------------------------------------------- the caller's own place
def test_assigned_resources(cm: ModuleType) -> None:
    def assigned():
        return cm.get_runtime_context().get_assigned_resources()

    @cm.remote
    class Holder:
        def __init__(self):
            self.at_first = assigned()

        def both(self):
            return self.at_first, assigned()

    task = cm.remote(assigned)
    assert assigned() == {} and cm.get(task.remote()) == {"CPU": 1.0}
    assert cm.get(task.options(num_cpus=0.5, memory=1 << 20).remote()) == {"CPU": 0.5, "memory": 1 << 20}
    assert cm.get(Holder.remote().both.remote()) == ({"CPU": 1.0}, {}), "a CPU to be placed, none to stay"
    assert cm.get(Holder.options(num_cpus=1).remote().both.remote()) == ({"CPU": 1.0}, {"CPU": 1.0})


def test_an_actor_knows_that_it_has_been_restarted(cm: ModuleType) -> None:
    @cm.remote(max_restarts=1, max_task_retries=1)
    class Phoenix:
        def restarted(self):
            return cm.get_runtime_context().was_current_actor_reconstructed

    actor = Phoenix.remote()
    assert cm.get(actor.restarted.remote()) is False
    cm.kill(actor, no_restart=False)
    assert cm.get(actor.restarted.remote()) is True


def test_previews_are_not_among_what_has_been_submitted(cm: ModuleType, flag) -> None:
    """`%cancel` would take one for the last cell's task."""
    from cellmesh.kernel_ext.cards.card import Previewer

    from cellmesh.session.current import current

    client = current().client

    @cm.remote
    def held() -> None:
        flag("go").wait()

    ref = held.remote()
    preview = Previewer()._submitter(client)(ref)  # waits for it
    assert [child.hex() for child in client.children(0)] == [ref.hex()]
    flag("go").set()
    cm.get(ref)
    del preview


def test_a_session_that_ends_while_it_is_looked_at_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ends(**unused: Any) -> Any:
        raise cellmesh.exceptions.SessionLostError("gone")

    driver = subprocess.Popen(
        [sys.executable, "-c", "import cellmesh, sys; cellmesh.init(num_cpus=1); print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert driver.stdout is not None and driver.stdout.readline()
    monkeypatch.setattr(cellmesh.state, "list_nodes", ends)
    assert cli.main(["list", "nodes"]) == 1 and "has ended meanwhile" in capsys.readouterr().err
    driver.communicate(b"")
