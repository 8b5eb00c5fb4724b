"""The conformance suite: what a program may do on every engine, or is told that it may not. See `conformance`."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from engines import conformance
from support.flags import Flag
from support.waiting import wait_until

from cellmesh.exceptions import TaskCancelledError, TaskError

PATIENCE_S = 30.0
capability = pytest.mark.capability


@capability("tasks")
def test_a_task_runs_in_another_process(on_engine: ModuleType) -> None:
    @on_engine.remote
    def where(a: int, b: int = 1) -> tuple[int, int]:
        return a + b, os.getpid()

    total, pid = on_engine.get(where.remote(2, b=3), timeout=PATIENCE_S)
    assert total == 5
    assert pid != os.getpid()


@capability("tasks")
def test_several_returns_and_none(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote(num_returns=2)
    def two() -> tuple[str, np.ndarray]:
        return "small", np.arange(100_000)

    @on_engine.remote(num_returns=0)
    def none(path: str) -> None:
        Path(path).touch()

    @on_engine.remote
    def after(_: Any, path: str) -> bool:
        return Path(path).exists()

    small, large = on_engine.get(two.remote(), timeout=PATIENCE_S)
    assert small == "small"
    assert (large == np.arange(100_000)).all()
    assert none.remote(str(tmp_path / "there")) is None
    assert on_engine.get(after.remote(1, str(tmp_path)), timeout=PATIENCE_S)


@capability("tasks")
def test_more_tasks_than_may_be_under_way(on_engine: ModuleType) -> None:
    @on_engine.remote
    def double(n: int) -> int:
        return 2 * n

    refs = [double.remote(n) for n in range(3000)]
    assert on_engine.get(refs, timeout=3 * PATIENCE_S) == [2 * n for n in range(3000)]  # Dask needs 2 ms for each


@capability("dependencies")
def test_a_chain(on_engine: ModuleType) -> None:
    @on_engine.remote
    def add(n: int) -> int:
        return n + 1

    ref = add.remote(0)
    for _ in range(50):
        ref = add.remote(ref)
    assert on_engine.get(ref, timeout=PATIENCE_S) == 51


@capability("dependencies")
def test_refs_in_containers_stay_refs(on_engine: ModuleType) -> None:
    @on_engine.remote
    def one() -> int:
        return 1

    @on_engine.remote
    def total(refs: dict[str, list[Any]]) -> int:
        return sum(int(np.sum(value)) for value in on_engine.get(refs["of"]))

    refs = [on_engine.put(10), one.remote(), on_engine.put(np.ones(100_000))]
    assert on_engine.get(total.remote({"of": refs}), timeout=PATIENCE_S) == 100_011


@capability("dependencies")
def test_refs_come_out_and_go_in_again(on_engine: ModuleType) -> None:
    @on_engine.remote
    def make() -> list[Any]:
        return [on_engine.put("small"), on_engine.put(np.ones(100_000)), [on_engine.put([on_engine.put(3)])]]

    @on_engine.remote
    def unpack(refs: list[Any]) -> tuple[str, float, int]:
        small, large, ((inner),) = refs
        return on_engine.get(small), float(on_engine.get(large).sum()), on_engine.get(on_engine.get(inner)[0])

    made = make.remote()
    assert on_engine.get(unpack.remote(made), timeout=PATIENCE_S) == ("small", 100_000.0, 3)
    small, large, ((inner),) = on_engine.get(made, timeout=PATIENCE_S)
    assert on_engine.get(small, timeout=PATIENCE_S) == "small"
    assert on_engine.get(large, timeout=PATIENCE_S).sum() == 100_000
    assert on_engine.get(on_engine.get(inner, timeout=PATIENCE_S)[0], timeout=PATIENCE_S) == 3


@capability("dependencies")
def test_a_ref_that_goes_through_is_the_same(on_engine: ModuleType) -> None:
    @on_engine.remote
    def same(refs: list[Any]) -> list[Any]:
        return refs

    ref = on_engine.put({"a": 1})
    assert on_engine.get(same.remote([ref]), timeout=PATIENCE_S) == [ref]


@capability("errors")
def test_an_error_is_of_its_own_class_and_has_its_traceback(on_engine: ModuleType) -> None:
    class Mine(ValueError):
        pass

    @on_engine.remote
    def fail() -> None:
        raise Mine("told you")

    with pytest.raises(Mine, match="told you") as caught:
        on_engine.get(fail.remote(), timeout=PATIENCE_S)
    assert isinstance(caught.value, TaskError)
    assert "in fail" in caught.value.remote_traceback
    assert caught.value.node == os.uname().nodename


@capability("errors")
def test_an_error_passes_through_what_depends_on_it(on_engine: ModuleType) -> None:
    @on_engine.remote
    def fail() -> None:
        raise KeyError("first")

    @on_engine.remote
    def use(value: Any) -> Any:
        return value

    with pytest.raises(KeyError, match="first"):
        on_engine.get(use.remote(use.remote(fail.remote())), timeout=PATIENCE_S)


@capability("values")
def test_large_values_made_there_read_here_and_there(on_engine: ModuleType) -> None:
    @on_engine.remote
    def make(n: int) -> np.ndarray:
        return np.arange(n)

    @on_engine.remote
    def total(values: np.ndarray) -> int:
        return int(values.sum())

    made = make.remote(2_000_000)  # of several chunks
    assert on_engine.get(total.remote(made), timeout=PATIENCE_S) == sum(range(2_000_000))
    assert (on_engine.get(made, timeout=PATIENCE_S) == np.arange(2_000_000)).all()
    mine = on_engine.put(np.ones(2_000_000))
    assert on_engine.get([total.remote(mine), total.remote(mine)], timeout=PATIENCE_S) == [2_000_000] * 2


@capability("nested")
def test_a_task_waits_for_tasks_that_wait_for_tasks(on_engine: ModuleType) -> None:
    @on_engine.remote
    def count(depth: int) -> int:
        return 1 if not depth else sum(on_engine.get([count.remote(depth - 1) for _ in range(3)]))

    assert on_engine.get(count.remote(4), timeout=PATIENCE_S) == 81


@capability("nested")
def test_a_task_that_nobody_has_waited_for_is_done_all_the_same(on_engine: ModuleType) -> None:
    @on_engine.remote
    def late() -> str:
        return "late"

    @on_engine.remote
    def begin() -> list[Any]:
        return [late.remote()]

    (ref,) = on_engine.get(begin.remote(), timeout=PATIENCE_S)
    assert on_engine.get(ref, timeout=PATIENCE_S) == "late"


@capability("retries")
def test_exceptions_are_retried_as_often_as_asked(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote(retry_exceptions=True, max_retries=2)
    def flaky(folder: str, n_failures: int) -> int:
        n = len(os.listdir(folder))
        Path(folder, str(n)).touch()
        if n < n_failures:
            raise OSError(n)
        return n

    (tmp_path / "twice").mkdir()
    assert on_engine.get(flaky.remote(str(tmp_path / "twice"), 2), timeout=PATIENCE_S) == 2
    (tmp_path / "always").mkdir()
    with pytest.raises(OSError, match="2"):
        on_engine.get(flaky.remote(str(tmp_path / "always"), 9), timeout=PATIENCE_S)
    assert len(os.listdir(tmp_path / "always")) == 3


@capability("cancel")
def test_what_is_cancelled_before_it_has_begun_never_runs(
    on_engine: ModuleType, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    n_machines, n_cpus = conformance.MACHINES[request.node.callspec.params["on_engine"]]
    begun, goes_on = [Flag(tmp_path / f"begun-{n}") for n in range(n_machines)], Flag(tmp_path / "goes_on")

    @on_engine.remote(num_cpus=n_cpus)
    def block(flag: Flag) -> None:
        flag.set()
        goes_on.wait()

    @on_engine.remote(num_cpus=n_cpus)
    def later(path: Path) -> None:
        path.touch()

    blocks = [block.remote(flag) for flag in begun]
    for flag in begun:
        flag.wait()
    refs = [later.remote(tmp_path / "first"), later.remote(tmp_path / "second")]
    on_engine.cancel(refs[0])
    with pytest.raises(TaskCancelledError):  # before there is room for it, so that it cannot have begun meanwhile
        on_engine.get(refs[0], timeout=PATIENCE_S)
    goes_on.set()
    on_engine.get([*blocks, refs[1]], timeout=PATIENCE_S)
    assert [path.name for path in tmp_path.iterdir() if path.name in ("first", "second")] == ["second"]


@capability("resources")
def test_what_no_machine_has_is_told(on_engine: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    @on_engine.remote(num_cpus=1000)
    def huge() -> None: ...

    ref = huge.remote()
    said = ""

    def is_told() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "a task asks for 1000 CPU, and no machine of" in said

    wait_until(is_told)
    assert on_engine.wait([ref], timeout=0)[0] == []


@capability("output")
def test_what_a_task_has_printed_is_there_before_its_result(
    on_engine: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    @on_engine.remote
    def say(n: int) -> int:
        print(f"it says {n}")
        print(f"it warns {n}", file=sys.stderr)
        return n

    assert on_engine.get([say.remote(n) for n in range(3)], timeout=PATIENCE_S) == [0, 1, 2]
    said: list[str] = []

    def is_here() -> bool:
        said.extend(text for found in capfd.readouterr() for text in found.splitlines())
        return all(any(f"it {what} {n}" in line for line in said) for n in range(3) for what in ("says", "warns"))

    wait_until(is_here)


@capability("output")
def test_what_a_task_prints_is_there_while_it_runs(
    on_engine: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    goes_on = Flag(tmp_path / "goes_on")

    @on_engine.remote
    def work() -> None:
        print("it has begun")
        goes_on.wait()
        print("it has ended")

    ref, said = work.remote(), ""

    def says(text: str) -> bool:
        nonlocal said
        said += capfd.readouterr().out
        return text in said

    wait_until(lambda: says("it has begun"))
    assert [row["state"] for row in on_engine.state.list_tasks() if row["name"] == "work"] == ["running"]
    goes_on.set()
    on_engine.get(ref, timeout=PATIENCE_S)
    wait_until(lambda: says("it has ended"))
    assert said.count("it has begun") == 1


def alive(on_engine: ModuleType) -> list[dict[str, Any]]:
    """This machine and the engine, without former lives of it."""
    return [row for row in on_engine.nodes() if row["Alive"]]


@capability("lists")
def test_the_engine_is_a_node(on_engine: ModuleType, request: pytest.FixtureRequest) -> None:
    @on_engine.remote
    def one() -> int:
        return 1

    assert on_engine.get(one.remote(), timeout=PATIENCE_S) == 1
    here, engine = alive(on_engine)
    assert here["ThisNode"]
    assert engine["NodeName"] == request.node.callspec.params["on_engine"]
    assert engine["Resources"]["CPU"] > 0


@capability("lists")
def test_what_waits_there_for_a_cpu_is_queued(
    on_engine: ModuleType, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    name = request.node.callspec.params["on_engine"]
    n_machines, n_each = conformance.MACHINES[name]
    n_at_once = 1 if name == "fake" else n_machines * n_each  # that one has a single thread
    goes_on = Flag(tmp_path / "goes_on")

    @on_engine.remote
    def turn() -> None:
        goes_on.wait()

    def in_states() -> Counter[tuple[str, str]]:
        rows = on_engine.state.list_tasks()
        return Counter((row["state"], row["detail"]) for row in rows if row["name"] == "turn")

    def n_free() -> float:
        _, engine = alive(on_engine)
        return engine["Available"].get("CPU", 0)

    refs = [turn.remote() for _ in range(n_at_once + 2)]
    wait_until(lambda: in_states()["running", ""] == n_at_once)
    assert in_states() == {("running", ""): n_at_once, ("queued", "sent"): 2}
    assert sum(ref.running() for ref in refs) == n_at_once
    wait_until(lambda: n_free() == n_machines * n_each - n_at_once)
    goes_on.set()
    on_engine.get(refs, timeout=PATIENCE_S)
    wait_until(lambda: n_free() == n_machines * n_each)
