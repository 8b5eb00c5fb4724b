"""The conformance suite, quick calls that go together; see `conformance`."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from engines import conformance
from support.flags import Flag
from support.waiting import wait_until

from cellmesh.engines import pocket
from cellmesh.exceptions import TaskCancelledError

PATIENCE_S = 30.0
N_QUICK = 20  # after so many nobody doubts that a function is quick
capability = pytest.mark.capability


def is_packed() -> bool:
    """In a task: whether others share its parcel."""
    return pocket._batch is not None  # nobody else is to know


class Workers:
    """All that an engine has, kept busy: what is submitted meanwhile waits there, so it goes together."""

    def __init__(self, on_engine: ModuleType, folder: Path, request: pytest.FixtureRequest) -> None:
        n_machines, n_cpus = conformance.MACHINES[request.node.callspec.params["on_engine"]]

        @on_engine.remote(num_cpus=n_cpus)
        def block(begun: Flag, goes_on: Flag) -> None:
            begun.set()
            goes_on.wait()

        self._get, self._goes_on = on_engine.get, Flag(folder / "goes_on")
        begun = [Flag(folder / f"begun-{number}") for number in range(n_machines)]
        self._refs = [block.remote(flag, self._goes_on) for flag in begun]
        for flag in begun:
            flag.wait()

    def let_go(self) -> None:
        self._goes_on.set()
        self._get(self._refs, timeout=PATIENCE_S)


@capability("packing")
def test_each_of_a_flood_of_quick_calls_has_its_result(on_engine: ModuleType) -> None:
    @on_engine.remote
    def double(n: int, values: list[int]) -> tuple[int, bool]:
        return 2 * n + len(values), is_packed()

    values = on_engine.put([1, 2, 3])
    on_engine.get([double.remote(n, values) for n in range(N_QUICK)], timeout=PATIENCE_S)
    found = on_engine.get([double.remote(n, values) for n in range(2000)], timeout=PATIENCE_S)
    assert [n for n, _ in found] == [2 * n + 3 for n in range(2000)]
    assert sum(packed for _, packed in found) > 1000


@capability("packing")
def test_what_may_not_be_repeated_goes_alone(on_engine: ModuleType) -> None:
    @on_engine.remote(max_retries=0)
    def once() -> bool:
        return is_packed()

    for _ in range(3):
        assert not any(on_engine.get([once.remote() for _ in range(N_QUICK)], timeout=PATIENCE_S))


@capability("packing")
def test_calls_of_several_functions_large_values_and_refs_in_a_flood(on_engine: ModuleType) -> None:
    @on_engine.remote
    def make(n: int) -> np.ndarray:
        return np.full(20_000 if n % 10 == 9 else 1, n)

    @on_engine.remote(num_returns=2)
    def head_and_refs(values: np.ndarray) -> tuple[int, list[Any]]:
        return int(values[0]), [on_engine.put(values.size)]

    for n_calls in (N_QUICK, 300):
        refs = [head_and_refs.remote(make.remote(n)) for n in range(n_calls)]
        heads = on_engine.get([head for head, _ in refs], timeout=PATIENCE_S)
        inner = [ref for (ref,) in on_engine.get([more for _, more in refs], timeout=PATIENCE_S)]
        sizes = on_engine.get(inner, timeout=PATIENCE_S)
        assert heads == list(range(n_calls))
        assert sizes == [20_000 if n % 10 == 9 else 1 for n in range(n_calls)]


@capability("packing")
def test_one_that_fails_does_not_hurt_the_others(
    on_engine: ModuleType, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    @on_engine.remote
    def check(n: int) -> tuple[int, bool]:
        if n == 7:
            raise ValueError("seven")
        return n, is_packed()

    on_engine.get([check.remote(0) for _ in range(N_QUICK)], timeout=PATIENCE_S)
    workers = Workers(on_engine, tmp_path, request)
    refs = [check.remote(n) for n in range(N_QUICK)]
    workers.let_go()
    with pytest.raises(ValueError, match="seven"):
        on_engine.get(refs[7], timeout=PATIENCE_S)
    others = on_engine.get(refs[:7] + refs[8:], timeout=PATIENCE_S)
    assert [n for n, _ in others] == [n for n in range(N_QUICK) if n != 7]
    assert any(packed for _, packed in others)


@capability("packing")
def test_what_each_prints_is_there_before_its_result(
    on_engine: ModuleType, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    @on_engine.remote
    def say(n: int, quiet: bool) -> bool:
        if not quiet:
            print(f"it says {n}.")
            print(f"it warns {n}.", file=sys.stderr)
        return is_packed()

    on_engine.get([say.remote(n, True) for n in range(N_QUICK)], timeout=PATIENCE_S)
    workers = Workers(on_engine, tmp_path, request)
    refs = [say.remote(n, False) for n in range(N_QUICK)]
    workers.let_go()
    assert any(on_engine.get(refs, timeout=PATIENCE_S))
    said = ""

    def is_here() -> bool:
        nonlocal said
        said += "".join(capfd.readouterr())
        return all(said.count(f"it {what} {n}.") == 1 for n in range(N_QUICK) for what in ("says", "warns"))

    wait_until(is_here)


@capability("packing")
def test_those_behind_one_that_takes_long_do_not_wait_for_it(
    on_engine: ModuleType, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    goes_on = Flag(tmp_path / "long")

    @on_engine.remote
    def quick(n: int, waits: bool) -> tuple[int, bool]:
        if waits:
            goes_on.wait()
        return n, is_packed()

    on_engine.get([quick.remote(n, False) for n in range(N_QUICK)], timeout=PATIENCE_S)
    workers = Workers(on_engine, tmp_path, request)
    refs = [quick.remote(n, n == 5) for n in range(N_QUICK)]
    workers.let_go()
    if request.node.callspec.params["on_engine"] != "fake":  # which has nobody else who could run them
        others = on_engine.get(refs[:5] + refs[6:], timeout=PATIENCE_S)
        assert [n for n, _ in others] == [n for n in range(N_QUICK) if n != 5]
    else:
        assert [n for n, _ in on_engine.get(refs[:5], timeout=PATIENCE_S)] == list(range(5))
    goes_on.set()
    n, _ = on_engine.get(refs[5], timeout=PATIENCE_S)  # alone, if the machine was busy: then no call was quick
    assert n == 5
    assert len(on_engine.get(refs, timeout=PATIENCE_S)) == N_QUICK


@capability("packing")
def test_one_that_is_cancelled_before_it_begins_never_runs(
    on_engine: ModuleType, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    @on_engine.remote
    def touch(path: Path) -> None:
        path.touch()

    on_engine.get([touch.remote(tmp_path / "first") for _ in range(N_QUICK)], timeout=PATIENCE_S)
    workers = Workers(on_engine, tmp_path, request)
    refs = [touch.remote(tmp_path / f"{n}.ran") for n in range(N_QUICK)]
    on_engine.cancel(refs[3])
    with pytest.raises(TaskCancelledError):  # before there is room for it
        on_engine.get(refs[3], timeout=PATIENCE_S)
    workers.let_go()
    on_engine.get(refs[:3] + refs[4:], timeout=PATIENCE_S)
    assert sorted(path.name for path in tmp_path.glob("*.ran")) == sorted(f"{n}.ran" for n in range(N_QUICK) if n != 3)


@capability("packing")
def test_all_of_a_flood_are_cancelled(on_engine: ModuleType, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    @on_engine.remote
    def touch(path: Path) -> None:
        path.touch()

    on_engine.get([touch.remote(tmp_path / "first") for _ in range(N_QUICK)], timeout=PATIENCE_S)
    workers = Workers(on_engine, tmp_path, request)
    refs = [touch.remote(tmp_path / f"{n}.ran") for n in range(300)]
    for ref in refs:
        on_engine.cancel(ref)
    for ref in refs:
        with pytest.raises(TaskCancelledError):
            on_engine.get(ref, timeout=PATIENCE_S)
    workers.let_go()
    assert not list(tmp_path.glob("*.ran"))
