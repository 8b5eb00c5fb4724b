"""Tasks: arguments, results, dependencies, nesting, options, cancelling, retries."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from support.flags import Counter, Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.errors.reruns import Reruns
from cellmesh.session import waiting_for
from cellmesh.session.current import current

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@cellmesh.remote
def add(a, b=1, *rest, c=0, **more):
    """Adds."""
    return a + b + sum(rest) + c + sum(more.values())


@cellmesh.remote
def wait_for(started: Flag, go: Flag, value=None):
    started.set_by_me()
    go.wait()
    return value


@cellmesh.remote
def fibonacci(n: int) -> int:
    if n < 2:
        return n
    return sum(cellmesh.get([fibonacci.remote(n - 1), fibonacci.remote(n - 2)]))


@cellmesh.remote
def is_even(n: int) -> bool:
    return True if n == 0 else cellmesh.get(is_odd.remote(n - 1))


@cellmesh.remote
def is_odd(n: int) -> bool:
    return False if n == 0 else cellmesh.get(is_even.remote(n - 1))


# ---------------------------------------------------------------- calling
@pytest.mark.parametrize(
    "args, kwargs, value",
    [
        ((1,), {}, 2),
        ((1, 2), {}, 3),
        ((1,), {"b": 5}, 6),
        ((), {"a": 1, "b": 2}, 3),
        ((1, 2, 3, 4), {"c": 10}, 20),
        ((1,), {"x": 7, "y": 8}, 17),
    ],
)
def test_arguments_of_every_shape(cm: ModuleType, args: tuple, kwargs: dict, value: int) -> None:
    assert cm.get(add.remote(*args, **kwargs)) == value


def test_the_decorator_keeps_name_doc_and_signature() -> None:
    import inspect

    assert add.__name__ == "add" and add.__doc__ == "Adds."
    assert str(inspect.signature(add)) == "(a, b=1, *rest, c=0, **more)"


@pytest.mark.parametrize(
    "value", [None, True, 2**100, -0.5, "ü\ud800", b"\x00", (1, [2, {"a": {3}}]), np.float32(2), range(3), 1j], ids=repr
)
def test_values_go_and_come_back_as_they_are(cm: ModuleType, value: object) -> None:
    back = cm.get(cm.remote(lambda v: v).remote(value))
    assert back == value and type(back) is type(value)


def test_refs_are_dependencies_at_the_top_and_refs_inside(cm: ModuleType) -> None:
    @cm.remote
    def look(value, container, *, named):
        return value, type(container[0]).__name__, cm.get(container[0]), named

    one = cm.put(1)
    assert cm.get(look.remote(one, [one], named=one)) == (1, "ObjectRef", 1, 1)


def test_a_task_starts_when_its_inputs_are_ready(cm: ModuleType, flag) -> None:
    slow = wait_for.remote(flag("started"), flag("go"), 5)
    after = add.remote(slow)
    flag("started").wait()
    assert cm.wait([slow, after], num_returns=2, timeout=0) == ([], [slow, after])
    flag("go").set()
    assert cm.get(after) == 6


def test_a_chain_and_a_tree(cm: ModuleType) -> None:
    ref = cm.put(0)
    for _ in range(500):
        ref = add.remote(ref)
    assert cm.get(ref) == 500
    leaves = [cm.put(i) for i in range(256)]
    while len(leaves) > 1:
        leaves = [add.remote(a, b) for a, b in zip(leaves[::2], leaves[1::2], strict=True)]
    assert cm.get(leaves[0]) == sum(range(256))


def test_many_refs_as_arguments(cm: ModuleType) -> None:
    refs = [cm.put(i) for i in range(2000)]
    assert cm.get(add.remote(*refs)) == sum(range(2000))


def test_what_needs_all_cpus_begins_beside_a_flood_of_small_tasks(cm: ModuleType) -> None:
    @cm.remote
    def small() -> int:
        time.sleep(0.001)
        return os.getpid()

    flood, pids = [small.remote() for _ in range(20)], set()
    while len(pids) < cm.cluster_resources()["CPU"]:  # they take all there is
        done, flood = cm.wait(flood)
        pids.add(cm.get(done[0]))
        flood.append(small.remote())
    large = add.options(num_cpus=cm.cluster_resources()["CPU"]).remote(1, 2)
    n = 0
    while not cm.wait([large], timeout=0)[0]:
        done, flood = cm.wait(flood)
        flood.append(small.remote())
        n += 1
        assert n < 10_000, "it still waits"
    assert cm.get(large) == 3


def test_several_returns(cm: ModuleType) -> None:
    @cm.remote(num_returns=3)
    def three():
        return 1, "b", [3]

    refs = three.remote()
    assert len(refs) == 3 and cm.get(refs) == [1, "b", [3]]
    assert cm.get(three.options(num_returns=1).remote()) == (1, "b", [3])


def test_no_returns(cm: ModuleType, flag) -> None:
    @cm.remote(num_returns=0)
    def note(done):
        done.set("done")

    assert note.remote(flag("done")) is None
    assert flag("done").wait() == "done"


@pytest.mark.parametrize("value", [(1, 2), 5, None])
def test_the_wrong_number_of_returns_is_an_error(cm: ModuleType, value: object) -> None:
    refs = cm.remote(num_returns=3)(lambda: value).remote()
    for ref in refs:
        with pytest.raises((ValueError, TypeError)):
            cm.get(ref)


def test_results_can_hold_refs(cm: ModuleType) -> None:
    @cm.remote
    def make():
        return [add.remote(i) for i in range(3)]

    assert cm.get(cm.get(make.remote())) == [1, 2, 3]


def test_tasks_end_while_nobody_waits_and_submissions_never_pause(cm: ModuleType) -> None:
    first = [add.remote(i) for i in range(2000)]
    for i in range(1_000_000):  # the worker steps aside for the process that submits, but not for ever
        add.remote(i)
        if i % 500 == 0 and len(cm.wait(first, num_returns=len(first), timeout=0)[0]) == len(first):
            break
    else:
        pytest.fail("2,000 tasks were not over after a million more had been submitted")
    assert cm.get(first) == list(range(1, 2001))


# ---------------------------------------------------------------- nesting
def test_recursion_on_one_cpu_does_not_deadlock(one_cpu: ModuleType) -> None:
    assert one_cpu.get(fibonacci.remote(7), timeout=50) == 13


def test_mutual_recursion(one_cpu: ModuleType) -> None:
    assert one_cpu.get(is_even.remote(6), timeout=50) is True


def test_nested_wait_gives_the_cpu_back(one_cpu: ModuleType) -> None:
    @one_cpu.remote
    def outer():
        ready, _ = one_cpu.wait([add.remote(i) for i in range(4)], num_returns=4)
        return sorted(one_cpu.get(ready))

    assert one_cpu.get(outer.remote(), timeout=50) == [1, 2, 3, 4]


def test_remote_functions_as_arguments_and_in_closures(cm: ModuleType) -> None:
    @cm.remote
    def apply(f, *args):
        return cm.get(f.remote(*args))

    assert cm.get(apply.remote(add, 1, 2)) == 3
    assert cm.get(apply.remote(apply, add, 3)) == 4
    captured_ref = cm.put(40)

    @cm.remote
    def uses_ref(x):
        return cm.get(captured_ref) + x

    assert cm.get(uses_ref.remote(2)) == 42


def test_a_captured_ref_keeps_its_object_alive(cm: ModuleType) -> None:
    def make():
        ref = cm.put("kept")

        @cm.remote
        def fetch():
            return cm.get(ref)

        first = fetch.remote()
        return fetch, first

    fetch, first = make()
    assert cm.get(first) == "kept" and cm.get(fetch.remote()) == "kept"


# ---------------------------------------------------------------- options and redefinition
def test_options_override_and_are_cached(cm: ModuleType) -> None:
    assert add.options(num_cpus=2, name="plus") is add.options(name="plus", num_cpus=2)
    assert add.options(num_cpus=2) is not add.options(num_cpus=1)
    assert cm.get(add.options(num_cpus=2).remote(1)) == 2


def test_names_show_in_listings(cm: ModuleType, flag) -> None:
    ref = wait_for.options(name="my task").remote(flag("started"), flag("go"))
    flag("started").wait()
    assert {row["name"] for row in cm.state.list_tasks(filters=[("state", "=", "running")])} == {"my task"}
    flag("go").set()
    cm.get(ref)


def test_redefinition_runs_the_new_code_and_old_refs_resolve(cm: ModuleType) -> None:
    def define(value):
        @cm.remote
        def f():
            return value

        return f

    old = define("old").remote()
    new = define("new").remote()
    assert cm.get([old, new]) == ["old", "new"]


def test_code_is_exported_anew_when_a_global_it_uses_changes(cm: ModuleType) -> None:
    from cellmesh.session.current import current

    namespace: dict = {"__name__": "__main__", "cm": cm}
    exec(
        "def helper():\n    return 1\n"
        "@cm.remote\ndef f():\n    return helper()\n"
        "@cm.remote\ndef g():\n    return cm.get(f.remote())\n",
        namespace,
    )
    f, g = namespace["f"], namespace["g"]
    assert cm.get([f.remote(), g.remote()]) == [1, 1]
    current().forget_changed_code()
    before = f.remote
    assert f.remote is before, "nothing has changed"
    exec("def helper():\n    return 2", namespace)
    current().forget_changed_code()
    assert cm.get([f.remote(), g.remote()]) == [2, 2]


ANNOTATED = """
class Node:
    value: Later
node = Node()
@cm.remote
def inner(x: Later) -> int: return x + 1
@cm.remote
def outer() -> tuple: return type(node).__name__, cm.get(inner.remote(1)), inner.__annotations__["x"]
"""


def test_annotations_that_name_what_is_not_there_do_no_harm(cm: ModuleType) -> None:
    names: dict[str, Any] = {"__name__": "__main__", "cm": cm}
    if sys.version_info < (3, 14):  # which evaluates them at once
        names["Later"] = int
    exec(compile(ANNOTATED, "cell", "exec", dont_inherit=True), names)
    assert cm.get(names["outer"].remote()) == ("Node", 2, names.get("Later", "Later"))


def test_functions_outlive_sessions() -> None:
    for _ in range(3):
        cellmesh.init(num_cpus=1, object_store_memory=64 << 20)
        assert cellmesh.get(add.remote(1)) == 2
        cellmesh.shutdown()


def test_environment_variables(cm: ModuleType) -> None:
    @cm.remote
    def look(name):
        return os.environ.get(name)

    with_variable = look.options(runtime_env={"env_vars": {"CM_TEST": "set"}})
    assert cm.get([with_variable.remote("CM_TEST"), look.remote("CM_TEST")]) == ["set", None]


def test_resources_are_accounted_for(cm: ModuleType, flag) -> None:
    assert cm.cluster_resources()["CPU"] == 2
    ref = wait_for.options(num_cpus=1.5).remote(flag("started"), flag("go"))
    flag("started").wait()
    assert cm.available_resources().get("CPU", 0) == 0.5
    flag("go").set()
    cm.get(ref)
    wait_until(lambda: cm.available_resources()["CPU"] == 2)


def test_custom_resources_bound_what_runs_together(counter: Counter, flag) -> None:
    cellmesh.init(num_cpus=4, resources={"disk": 1}, object_store_memory=64 << 20)

    @cellmesh.remote(resources={"disk": 1}, num_cpus=0)
    def exclusive(lock_file):
        fd = os.open(lock_file, os.O_CREAT | os.O_EXCL)  # raises if another one is inside
        os.close(fd)
        os.unlink(lock_file)
        return True

    path = str(counter.path) + ".lock"
    assert all(cellmesh.get([exclusive.remote(path) for _ in range(50)]))
    cellmesh.shutdown()


# ---------------------------------------------------------------- cancelling
def test_cancel_a_waiting_task(cm: ModuleType, flag) -> None:
    slow = wait_for.remote(flag("started"), flag("go"), 1)
    waiting = add.remote(slow)
    cm.cancel(waiting)
    with pytest.raises(cm.exceptions.TaskCancelledError):
        cm.get(waiting, timeout=10)
    flag("go").set()
    assert cm.get(slow) == 1


@pytest.mark.parametrize("force", [False, True])
def test_cancel_a_running_task(cm: ModuleType, flag, force: bool) -> None:
    running = wait_for.options(max_retries=0).remote(flag("started"), flag("go"))
    flag("started").wait()
    cm.cancel(running, force=force)
    with pytest.raises(cm.exceptions.TaskCancelledError):
        cm.get(running, timeout=20)
    assert cm.get(add.remote(1), timeout=20) == 2, "the session is sound afterwards"


def test_cancel_at_any_moment_of_a_beginning(one_cpu: ModuleType) -> None:
    """In between being taken and running there is no task yet to interrupt, and a call may be about to block."""

    @cellmesh.remote
    def sleep():
        time.sleep(1000)

    random = Random(7)
    for _ in range(1000):
        before = add.remote(1)
        ref = sleep.remote()
        end = time.perf_counter() + random.random() * 2e-4
        while time.perf_counter() < end:
            pass
        one_cpu.cancel(ref)
        with pytest.raises(one_cpu.exceptions.TaskCancelledError):
            one_cpu.get(ref, timeout=30)
        assert one_cpu.get(before) == 2


def test_cancel_lets_an_import_finish(one_cpu: ModuleType, flag, tmp_path) -> None:
    (tmp_path / "slow_module.py").write_text(
        "import builtins\nbuiltins.flag('on').set_by_me()\nbuiltins.flag('go').wait()\n"
    )

    @one_cpu.remote
    def use(wait):
        import builtins
        import sys

        builtins.flag = flag
        sys.path.insert(0, str(tmp_path))
        import slow_module

        while wait:
            flag("never").wait(30)
        return flag("on").wait() == str(os.getpid()), slow_module.__name__

    ref = use.remote(True)
    flag("on").wait()
    one_cpu.cancel(ref)
    flag("go").set()
    with pytest.raises(one_cpu.exceptions.TaskCancelledError):
        one_cpu.get(ref, timeout=20)
    assert one_cpu.get(use.remote(False), timeout=20) == (True, "slow_module")


def test_cancel_in_an_import_reaches_who_waits_next(one_cpu: ModuleType, flag, tmp_path) -> None:
    """The interrupt comes when the import has ended, and by then the task waits for one that it might run itself."""
    (tmp_path / "slow_module.py").write_text(
        "import builtins\nbuiltins.flag('on').set_by_me()\nbuiltins.flag('go').wait()\n"
    )

    @one_cpu.remote
    def parent():
        import builtins
        import sys

        builtins.flag = flag
        sys.path.insert(0, str(tmp_path))
        import slow_module  # noqa: F401 (its import is what takes long)

        return cellmesh.get(wait_for.remote(flag("started"), flag("end")))

    ref = parent.remote()
    flag("on").wait()
    one_cpu.cancel(ref)
    flag("go").set()
    with pytest.raises(one_cpu.exceptions.TaskCancelledError):
        one_cpu.get(ref, timeout=20)
    flag("end").set()  # its child was submitted after the cancelling


def test_cancel_a_finished_task_changes_nothing(cm: ModuleType) -> None:
    ref = add.remote(1)
    assert cm.get(ref) == 2
    cm.cancel(ref)
    assert cm.get(ref) == 2


def test_cancel_reaches_children(cm: ModuleType, flag) -> None:
    @cm.remote
    def parent(started, go):
        return cm.get(wait_for.options(num_cpus=0).remote(started, go))

    ref = parent.remote(flag("started"), flag("go"))
    child_pid = int(flag("started").wait())
    cm.cancel(ref)
    with pytest.raises(cm.exceptions.TaskCancelledError):
        cm.get(ref, timeout=20)
    unfinished = ("running", "queued", "retrying")
    wait_until(lambda: not [t for t in cm.state.list_tasks() if t["state"] in unfinished], 20, f"child in {child_pid}")


@pytest.mark.session("own")
def test_cancel_reaches_children_at_any_depth(cm: ModuleType, flag) -> None:
    @cm.remote(num_cpus=0)
    def nested(depth, started, go):
        return cm.get(
            nested.remote(depth - 1, started, go) if depth else wait_for.options(num_cpus=0).remote(started, go)
        )

    depth = 60
    ref = nested.remote(depth, flag("started"), flag("go"))
    flag("started").wait()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + depth // 2)
    try:
        cm.cancel(ref)
    finally:
        sys.setrecursionlimit(limit)
    unfinished = ("running", "queued", "retrying")
    wait_until(lambda: not [t for t in cm.state.list_tasks() if t["state"] in unfinished], 20, "the tasks below")


# ---------------------------------------------------------------- retries
def test_a_killed_worker_is_replaced_and_the_task_run_again(cm: ModuleType, counter: Counter) -> None:
    @cm.remote
    def dies_twice(counter):
        if counter.add() <= 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return "alive"

    assert cm.get(dies_twice.remote(counter), timeout=50) == "alive"
    assert counter.value == 3


@pytest.mark.parametrize(
    "end, exit_code", [(lambda: os.kill(os.getpid(), signal.SIGKILL), -9), (lambda: os._exit(3), 3)]
)
def test_without_retries_a_crash_is_an_error_that_says_how(
    cm: ModuleType, counter: Counter, end, exit_code: int
) -> None:
    @cm.remote(max_retries=0)
    def dies(counter):
        counter.add()
        end()

    with pytest.raises(cm.exceptions.WorkerCrashedError, match=r"SIGKILL|exit status 3") as raised:
        cm.get(dies.remote(counter), timeout=50)
    assert raised.value.exit_code == exit_code and counter.value == 1 and "'dies'" in str(raised.value)


@pytest.mark.parametrize(
    "retry_exceptions, n_runs", [(True, 3), ([KeyError, ValueError], 3), ([KeyError], 1), (False, 1)]
)
def test_exceptions_are_retried_where_asked(
    cm: ModuleType, counter: Counter, retry_exceptions: object, n_runs: int
) -> None:
    @cm.remote(max_retries=2, retry_exceptions=retry_exceptions)
    def fails(counter):
        counter.add()
        raise ValueError("again")

    with pytest.raises(ValueError, match="again"):
        cm.get(fails.remote(counter))
    assert counter.value == n_runs


def test_a_flood_of_tasks(cm: ModuleType) -> None:
    assert cm.get([add.remote(i) for i in range(20_000)]) == list(range(1, 20_001))


def test_tasks_from_several_threads(cm: ModuleType) -> None:
    results: dict[int, list[int]] = {}

    def submit(k: int) -> None:
        results[k] = cm.get([add.remote(i, k) for i in range(500)])

    threads = [threading.Thread(target=submit, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: [i + k for i in range(500)] for k in range(4)}


# ---------------------------------------------------------------- turns
def test_a_short_task_is_not_stuck_behind_a_flood_of_others(one_cpu: ModuleType, counter: Counter, flag) -> None:
    @one_cpu.remote
    def flood(counter, go):
        go.wait()
        return counter.add()

    running = [flood.remote(counter, flag("go")) for _ in range(200)]
    quick = one_cpu.remote(lambda counter: counter.value).remote(counter)
    flag("go").set()
    assert one_cpu.get(quick) <= 2
    assert sorted(one_cpu.get(running)) == list(range(1, 201))


def test_functions_take_turns_and_each_keeps_its_order(one_cpu: ModuleType, tmp_path, flag) -> None:
    log = tmp_path / "log"

    def write(name):
        with log.open("a") as file:
            file.write(f"{name} ")

    tasks = [one_cpu.remote(name=letter)(write) for letter in "abc"]
    gate = one_cpu.remote(lambda go: go.wait()).remote(flag("go"))  # until all are there
    refs = [task.remote(f"{letter}{i}") for letter, task in zip("abc", tasks, strict=True) for i in range(4)]
    flag("go").set()
    one_cpu.get([gate, *refs])
    written = log.read_text().split()
    for letter in "abc":
        assert [word for word in written if word[0] == letter] == [f"{letter}{i}" for i in range(4)]
    assert {word[0] for word in written[:6]} == set("abc")


# ---------------------------------------------------------------- why a task waits
def test_a_task_that_waits_for_what_actors_keep_says_so(cm: ModuleType, capfd: pytest.CaptureFixture) -> None:
    @cm.remote(num_cpus=1.5)
    class Holder:
        def ready(self):
            return os.getpid()

    holder = Holder.remote()
    pid = cm.get(holder.ready.remote())
    waiting = add.options(num_cpus=1).remote(1)
    client = waiting.client
    (has_it,) = client.why(add.remote(waiting))["holders"]
    assert (has_it.name, has_it.pid, has_it.amounts) == ("Holder", pid, {"CPU": 1.5})
    seen: list[str] = []
    with pytest.raises(cm.exceptions.GetTimeoutError):
        cm.get(waiting, timeout=6)
    wait_until(lambda: seen.append(capfd.readouterr().err) or "waits for" in "".join(seen))
    assert (
        "'add' waits for CPU: 1, and will until an actor ends: of CPU: 2, CPU: 0.5 is free; in use by Holder (pid "
        f"{pid}) CPU: 1.5" in "".join(seen)
    )
    cm.kill(holder)
    assert cm.get(waiting) == 2


@pytest.fixture
def scheduler_stopped(cm: ModuleType) -> Iterator[None]:
    """Nothing begins or ends meanwhile, as on a machine that is slow."""
    pid = current().node.scheduler_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def told(monkeypatch: pytest.MonkeyPatch, *refs: Any) -> list[str]:
    """What whoever has waited for these for long is told."""
    said: list[str] = []
    monkeypatch.setattr("cellmesh.session.session.Session.tell", lambda self, kind, text: said.append(text))
    for ref in refs:
        waiting_for.tell_why(ref)
    monkeypatch.undo()
    return said


@pytest.mark.session("own")
def test_a_worker_that_is_slow_to_start_is_no_news(
    cm: ModuleType, scheduler_stopped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow:
        pass

    slow = cm.remote(num_cpus=2)(Slow).remote()
    assert told(monkeypatch, slow.__ready__.remote(), add.remote(1)) == []


@pytest.mark.parametrize("how", ["killed", "let go of"])
def test_an_actor_that_is_about_to_end_is_no_news(
    cm: ModuleType, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    class Holder:
        pass

    holder = cm.remote(num_cpus=2)(Holder).remote()
    assert cm.get(holder.__ready__.remote())
    waiting = add.remote(1)
    assert len(told(monkeypatch, waiting)) == 1, "what it keeps, it keeps for good"
    request.getfixturevalue("scheduler_stopped")
    if how == "killed":
        cm.kill(holder)
    del holder
    assert told(monkeypatch, waiting) == []


def test_an_actor_that_only_its_calls_keep_ends_as_a_task_does(
    cm: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Holder:
        def hold(self, gate: Path) -> None:
            while not gate.exists():
                time.sleep(0.01)

    holder, gate = cm.remote(num_cpus=2)(Holder).remote(), tmp_path / "gate"
    calls = [holder.hold.remote(gate) for _ in range(2)]
    wait_until(lambda: current().client.info(calls[0])["state"] == "running")
    waiting, kept = add.remote(1), cm.put([holder])
    del holder
    assert len(told(monkeypatch, waiting)) == 1, "a handle is in a value"
    del kept
    assert told(monkeypatch, waiting) == []
    gate.touch()
    assert cm.get([waiting, *calls]) == [2, None, None]


@pytest.mark.parametrize("wanted, says", [(3.0, False), (2.0, True)])
def test_in_a_cluster_no_actor_here_is_blamed_for_what_this_machine_never_has(
    monkeypatch: pytest.MonkeyPatch, wanted: float, says: bool
) -> None:
    """The head says for what no machine has room."""
    told: list[str] = []
    of = SimpleNamespace(in_cluster=True, is_worker=False, tell=lambda kind, text: told.append(text))
    monkeypatch.setattr(waiting_for, "current_or_none", lambda: of)
    why = {
        "name": "f",
        "stuck": True,
        "unplaced": 0,
        "reserved": {},
        "wanted": {"CPU": wanted},
        "total": {"CPU": 2.0},
        "available": {"CPU": 1.0},
        "holders": [],
    }
    waiting_for.tell_why(SimpleNamespace(client=SimpleNamespace(why=lambda ref: why)))
    assert bool(told) == says


def test_the_stop_button_ends_a_wait_that_is_about_to_say_why_it_waits(
    cm: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Holder:
        pass

    holder = cm.remote(num_cpus=2)(Holder).remote()

    def pressed(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cellmesh.session.session.Session.tell", pressed)
    with pytest.raises(KeyboardInterrupt):
        cm.get(add.options(num_cpus=1).remote(1), timeout=20)
    cm.kill(holder)


def test_a_task_behind_others_is_no_news(one_cpu: ModuleType, flag) -> None:
    running = wait_for.remote(flag("started"), flag("go"))
    flag("started").wait()
    behind = add.remote(1)
    assert behind.client.why(behind)["stuck"] is False
    flag("go").set()
    one_cpu.get([running, behind])
    assert behind.client.why(behind) is None


# ---------------------------------------------------------------- run again
def test_that_a_crashed_task_is_run_again_is_said_once(cm: ModuleType, counter, capfd: pytest.CaptureFixture) -> None:
    @cm.remote
    def crashes_twice():
        if counter.add() < 3:
            os.kill(os.getpid(), signal.SIGSEGV)
        return counter.value

    assert cm.get(crashes_twice.remote()) == 3
    cm.shutdown()
    said = capfd.readouterr().err
    assert said.count("is run again") == 1
    assert "cellmesh: 'crashes_twice' is run again, after its worker was killed by SIGSEGV (attempt 2 of 4)\n" in said


def test_of_very_many_that_are_run_again_some_are_told() -> None:
    reruns = Reruns()
    lines = [reruns.line("f", 3, False, 2, -1, now / 10) for now in range(30) if reruns.admits(now / 10)]
    assert lines == ["'f' is run again, after its worker ended with exit status 3 (attempt 2)"] * 4 + [
        "'f' is run again, after its worker ended with exit status 3 (attempt 2; of more within 10 s nothing is said)"
    ]
    assert reruns.admits(10.0) and not reruns.admits(10.05)
    assert (
        reruns.line("", -9, True, 2, 4, 99.0)
        == "a task is run again, after its worker was killed because memory ran out (attempt 2 of 4)"
    )


def test_a_method_is_not_a_task_by_itself(cm: ModuleType) -> None:
    with pytest.raises((TypeError, RuntimeError)) as raised:  # Python 3.11 wraps it

        class Model:
            @cm.remote
            def train(self, n):
                return n

    error = raised.value.__cause__ or raised.value
    assert "is a method: decorate the class" in str(
        error
    ) and "call train.remote(...) on what Model.remote() returns" in str(error)

    class Tools:
        @cm.remote
        def triple(x):
            return 3 * x

        shared = add

    assert cm.get([Tools.triple.remote(2), Tools.shared.remote(1)]) == [6, 2]


def test_what_tells_of_its_own_process_is_not_sent(cm: ModuleType) -> None:
    @cm.remote
    def where():
        return cm.get_runtime_context()

    with pytest.raises(
        cm.exceptions.TaskError, match="a runtime context tells where its caller runs and stays there"
    ) as raised:
        cm.get(where.remote())
    assert "_session" not in raised.value.message and "lock" not in raised.value.message
    with pytest.raises(TypeError, match="tells of this process's session and stays in it"):
        add.remote(cm.init(ignore_reinit_error=True))
