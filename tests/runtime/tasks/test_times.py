"""How long tasks may run, and how long they wait before they run again: `timeout=` and `retry_delay=`."""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import re
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest
from cellmesh.kernel_ext.magics.futures import _states_in_words
from support.flags import Counter, Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.exceptions import TaskTimeoutError
from cellmesh.session.current import current

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]
FOR_EVER_S = 1000


@cellmesh.remote
def sleep(begun: Flag, ended: Flag):
    begun.set_by_me()
    try:
        time.sleep(FOR_EVER_S)
    finally:
        ended.set()


@cellmesh.remote
def do_not_end(begun: Flag):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # as C code that does not let Python look
    begun.set_by_me()
    time.sleep(FOR_EVER_S)


@cellmesh.remote
def pid() -> int:
    return os.getpid()


@cellmesh.remote(num_cpus=0, timeout=0.1)
def pass_time():
    time.sleep(FOR_EVER_S)


def let_pass(cm: ModuleType) -> None:
    """More than half a second, by the clock that is tested."""
    for _ in range(6):
        with pytest.raises(TaskTimeoutError):
            cm.get(pass_time.remote())


def row(cm: ModuleType, ref) -> dict:
    return cm.state.list_tasks(filters=[("task", "=", ref.creator)])[0]


def has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


# ---------------------------------------------------------------- timeout
def test_a_task_that_runs_too_long_is_interrupted(one_cpu: ModuleType, flag) -> None:
    began = time.monotonic()
    ref = sleep.options(timeout=0.25).remote(flag("begun"), flag("ended"))
    with pytest.raises(TimeoutError) as raised:
        one_cpu.get(ref)
    error = raised.value
    assert time.monotonic() - began >= 0.25 and flag("ended").is_set(), "its `finally` has run"
    assert type(error) is TaskTimeoutError and error.limit_s == 0.25 and error.ran_s >= 0.25
    assert error.task_name == "sleep" and error.task == ref.creator
    assert "the task 'sleep' ran longer than the 0.25 s that its option timeout allows: it was interrupted" in str(
        error
    )
    assert (
        str(error).count("retry_exceptions=[TimeoutError]") == 1
        and "in sleep" in str(error)
        and "in sleep" in error.remote_traceback
    )
    assert row(one_cpu, ref)["state"] == "failed"
    assert one_cpu.get(pid.remote()) == int(flag("begun").wait()), "its worker and its CPU are there for others"


def test_the_error_travels(cm: ModuleType) -> None:
    @cm.remote
    def handle(refs):
        try:
            cm.get(refs[0])
        except TimeoutError as error:
            return error

    @cm.remote
    def pass_on(value):
        return value

    with pytest.raises(TaskTimeoutError) as raised:
        cm.get(pass_on.remote(pass_time.remote()))
    caught = cm.get(handle.remote([pass_time.remote()]))
    again = pickle.loads(pickle.dumps(caught))
    for error in (raised.value, caught, again):
        assert type(error) is TaskTimeoutError and error.limit_s == 0.1 and error.task_name == "pass_time"


def test_waiting_does_not_count(one_cpu: ModuleType, flag) -> None:
    @one_cpu.remote
    def hold(begun, go):
        begun.set()
        go.wait()

    busy = hold.remote(flag("begun"), flag("go"))
    flag("begun").wait()
    queued, dependent = (
        pid.options(timeout=0.5).remote(),
        hold.options(timeout=30, num_cpus=0).remote(flag("x"), flag("go")),
    )
    let_pass(one_cpu)
    assert row(one_cpu, queued)["state"] == "queued"
    flag("go").set()
    assert one_cpu.get([busy, dependent]) == [None, None] and one_cpu.get(queued)


def test_a_task_that_does_not_end_is_killed(cm: ModuleType, flag) -> None:
    current().client.set_timeout_grace(0.1)
    ref = do_not_end.options(timeout=0.1, max_retries=5).remote(flag("begun"))
    with pytest.raises(
        TaskTimeoutError,
        match=r"'do_not_end' .* 0.1 s .* did not end when it was interrupted, so its process was killed",
    ) as raised:
        cm.get(ref)
    assert raised.value.limit_s == 0.1 and raised.value.ran_s > 0.1 and raised.value.task_name == "do_not_end"
    wait_until(lambda: has_ended(int(flag("begun").wait())), 20, "the end of its worker")
    assert cm.get(pid.remote())


@pytest.mark.parametrize(
    "retry_exceptions, n_runs",
    [([TimeoutError], 3), (True, 3), ([KeyError, OSError], 3), ([ValueError], 1), (False, 1)],
)
@pytest.mark.parametrize("kills", [False, True])
def test_it_is_tried_again_where_exceptions_say_so(
    cm: ModuleType, counter: Counter, retry_exceptions: object, n_runs: int, kills: bool
) -> None:
    current().client.set_timeout_grace(0.05)

    @cm.remote(timeout=0.05, max_retries=2, retry_exceptions=retry_exceptions)
    def run(counter, kills):
        counter.add()
        if kills:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        time.sleep(FOR_EVER_S)

    with pytest.raises(TaskTimeoutError):
        cm.get(run.remote(counter, kills))
    assert counter.value == n_runs


def test_what_ends_in_its_grace_has_its_value(cm: ModuleType) -> None:
    @cm.remote(timeout=0.1)
    def save():
        try:
            time.sleep(FOR_EVER_S)
        except KeyboardInterrupt:
            return "what is there so far"

    assert cm.get(save.remote()) == "what is there so far"


def test_each_attempt_has_its_time(cm: ModuleType, counter: Counter) -> None:
    @cm.remote(timeout=0.2, retry_exceptions=[TimeoutError], max_retries=-1)
    def slow_at_first(counter):
        if counter.add() < 3:
            time.sleep(FOR_EVER_S)
        return "ended"

    assert cm.get(slow_at_first.remote(counter)) == "ended" and counter.value >= 3


def test_who_cancels_in_the_grace_has_cancelled_it(cm: ModuleType, flag) -> None:
    @cm.remote(timeout=0.1, retry_exceptions=True)
    def refuse(interrupted):
        try:
            time.sleep(FOR_EVER_S)
        except KeyboardInterrupt:
            interrupted.set()
            time.sleep(FOR_EVER_S)

    ref = refuse.remote(flag("interrupted"))
    flag("interrupted").wait()
    cm.cancel(ref)
    with pytest.raises(cm.exceptions.TaskCancelledError):
        cm.get(ref)


@pytest.mark.parametrize("runs_it", [False, True])
def test_what_it_has_started_ends_with_it(cm: ModuleType, flag, runs_it: bool) -> None:
    @cm.remote(timeout=0.3)
    def parent(begun, ended):
        return cm.get(sleep.options(num_cpus=0).remote(begun, ended), timeout=None if runs_it else FOR_EVER_S)

    with pytest.raises(TaskTimeoutError, match="'parent'"):
        cm.get(parent.remote(flag("begun"), flag("ended")))
    unfinished = ("running", "queued", "waiting")
    wait_until(
        lambda: not [task for task in cm.state.list_tasks() if task["state"] in unfinished], 20, "the end of the child"
    )
    scheduler = next(client["pid"] for client in current().client.clients() if client["role"] == "scheduler")
    wait_until(
        lambda: not [each for each in cm.state.list_objects() if scheduler in each["held_by"]],
        20,
        "who has cancelled the child keeps nothing of it",
    )


def test_a_generator_keeps_what_it_has_yielded(cm: ModuleType) -> None:
    @cm.remote(timeout=1)
    def count():
        yield 1
        yield 2
        time.sleep(FOR_EVER_S)

    items = count.remote()
    assert [cm.get(next(items)), cm.get(next(items))] == [1, 2]
    with pytest.raises(TaskTimeoutError):
        cm.get(next(items))


# ---------------------------------------------------------------- timeout of calls
@cellmesh.remote
class Actor:
    def __init__(self):
        self.n = 0

    def sleep(self):
        time.sleep(FOR_EVER_S)

    @cellmesh.method(timeout=0.1)
    def do_not_end(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        time.sleep(FOR_EVER_S)

    def add(self) -> int:
        self.n += 1
        return self.n


@cellmesh.remote
class AsyncActor:
    async def sleep(self, ended: Flag):
        try:
            await asyncio.sleep(FOR_EVER_S)
        finally:
            ended.set()

    async def wait(self, go: Flag) -> str:
        while not go.is_set():
            await asyncio.sleep(0.01)
        return "unharmed"


@cellmesh.remote(max_concurrency=2)
class Threads:
    """Whose calls run in the main thread, which is interrupted, or in another, which is not."""

    def look(self) -> str:
        try:
            while not cellmesh.get_runtime_context().is_canceled():
                Path.cwd()
        except KeyboardInterrupt:
            assert threading.current_thread() is threading.main_thread()
        return "looked"

    def block(self):
        while True:
            with suppress(KeyboardInterrupt):
                time.sleep(FOR_EVER_S)


def test_a_call_that_runs_too_long_leaves_the_actor_as_it_is(cm: ModuleType) -> None:
    actor = Actor.remote()
    assert cm.get(actor.add.remote()) == 1
    with pytest.raises(TaskTimeoutError, match=r"Actor.sleep"):
        cm.get(actor.sleep.options(timeout=0.1).remote())
    assert cm.get(actor.add.remote()) == 2


def test_a_coroutine_is_cancelled_and_others_go_on(cm: ModuleType, flag) -> None:
    actor = AsyncActor.remote()
    other = actor.wait.remote(flag("go"))
    with pytest.raises(TaskTimeoutError, match=r"AsyncActor.sleep"):
        cm.get(actor.sleep.options(timeout=0.1).remote(flag("ended")))
    assert flag("ended").is_set()
    flag("go").set()
    assert cm.get(other) == "unharmed"


@pytest.mark.parametrize("max_restarts", [0, 1])
def test_a_call_that_does_not_end_takes_its_actor_along(cm: ModuleType, max_restarts: int) -> None:
    current().client.set_timeout_grace(0.1)
    actor = Actor.options(max_restarts=max_restarts).remote()
    assert cm.get(actor.add.remote()) == 1
    stuck, behind = actor.do_not_end.remote(), actor.add.remote()
    with pytest.raises(TaskTimeoutError, match="killed"):
        cm.get(stuck)
    if max_restarts:
        assert cm.get(behind) == 1, "of its new life"
    else:
        with pytest.raises(cm.exceptions.ActorDiedError):
            cm.get(behind)


def test_calls_in_threads_can_look_and_are_killed_otherwise(cm: ModuleType) -> None:
    current().client.set_timeout_grace(1)
    actor = Threads.remote()
    assert cm.get([actor.look.options(timeout=0.05).remote() for _ in range(2)]) == ["looked", "looked"]
    with pytest.raises(TaskTimeoutError, match=r"Threads.block"):
        cm.get(actor.block.options(timeout=0.05).remote())
    with pytest.raises(cm.exceptions.ActorDiedError):
        cm.get(actor.look.remote())


# ---------------------------------------------------------------- retry_delay
@cellmesh.remote(retry_exceptions=True, retry_delay=1000)
def fail(counter: Counter):
    counter.add()
    raise ValueError("again")


def wait_for_delay(cm: ModuleType, ref) -> dict:
    wait_until(lambda: row(cm, ref)["state"] == "retrying", 20, "it waits for its next attempt")
    return row(cm, ref)


def test_a_task_that_waits_shows_it_and_holds_nothing(one_cpu: ModuleType, counter: Counter) -> None:
    ref = fail.options(max_retries=4).remote(counter)
    shown = wait_for_delay(one_cpu, ref)
    assert 700 < shown["retry_in_seconds"] <= 1250 and shown["attempt"] == 1 and not shown["pid"]
    assert one_cpu.get(pid.remote()), "it has given its CPU and its worker back"
    wait_until(
        lambda: one_cpu.available_resources()["CPU"] == 1, what="the CPU of that task, given back behind its value"
    )
    with pytest.raises(
        one_cpu.exceptions.GetTimeoutError, match=r"'fail', which waits \d+ min \d+ s for its next attempt, 2 of 5"
    ):
        one_cpu.get(ref, timeout=0.01)
    assert re.fullmatch(r"waits \d+ min \d+ s for its next attempt, 2 of 5", _states_in_words([ref])), (
        "as %futures says"
    )
    assert counter.value == 1
    one_cpu.cancel(ref)
    with pytest.raises(one_cpu.exceptions.TaskCancelledError):
        one_cpu.get(ref)


def test_waits_are_as_long_as_asked(cm: ModuleType, tmp_path: Path) -> None:
    """0.1 and 0.2 and 0.2 seconds, each more or less by a quarter."""

    @cm.remote(max_retries=3, retry_exceptions=True, retry_delay=(0.1, 0.2))
    def note(path):
        with path.open("a") as file:
            file.write(f"{time.monotonic()}\n")
        raise ValueError("again")

    with pytest.raises(ValueError, match="again"):
        cm.get(note.remote(tmp_path / "times"))
    at = [float(line) for line in (tmp_path / "times").read_text().split()]
    waits = [later - earlier for earlier, later in itertools.pairwise(at)]
    assert len(waits) == 3 and waits[0] >= 0.075 and min(waits[1:]) >= 0.15


@pytest.mark.session("own")
def test_it_waits_after_a_crash_too(cm: ModuleType, counter: Counter) -> None:
    @cm.remote(retry_delay=1000)
    def die(counter):
        counter.add()
        os.kill(os.getpid(), signal.SIGKILL)

    ref = die.remote(counter)
    assert wait_for_delay(cm, ref)["attempt"] == 1 and counter.value == 1


@pytest.mark.session("own")
def test_it_waits_after_a_timeout_too(cm: ModuleType) -> None:
    wait_for_delay(cm, pass_time.options(retry_exceptions=[TimeoutError], retry_delay=1000).remote())


def test_later_calls_wait_for_one_that_is_tried_again(cm: ModuleType, tmp_path: Path) -> None:
    @cm.remote
    class Log:
        def __init__(self):
            self.said = []

        def say(self, word, times):
            self.said.append(word)
            if self.said.count(word) < times:
                raise ValueError("again")
            return self.said

    log = Log.remote()
    say = log.say.options(max_task_retries=5, retry_exceptions=True, retry_delay=0.1)
    refs = [say.remote("a", 3), log.say.remote("b", 1)]
    assert cm.get(refs[1]) == ["a", "a", "a", "b"]


@pytest.mark.session("own")
def test_a_session_ends_though_tasks_wait(cm: ModuleType, counter: Counter) -> None:
    wait_for_delay(cm, fail.remote(counter))  # the fixture ends it, and looks for what is left
