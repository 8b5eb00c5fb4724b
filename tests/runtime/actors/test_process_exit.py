"""`sys.exit` in tasks and actors, `exit_actor`, `kill`: what ends, what begins again, and what callers are told."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from types import ModuleType
from typing import Any

import pytest
from support.flags import Counter
from support.waiting import wait_until

import cellmesh

pytestmark = pytest.mark.timeout(60)

CODES = {1: 1, 3: 3, 0: 0, None: 0, "out of data": 1, 259: 3}


def leave(counter: Any, code: Any) -> None:
    counter.add()
    sys.exit(code)


@pytest.mark.parametrize("code", CODES, ids=repr)
def test_a_task_ends_its_worker_and_is_repeated(cm: ModuleType, counter: Counter, code: Any) -> None:
    with pytest.raises(
        cm.exceptions.WorkerCrashedError,
        match=r"'leave' called sys.exit\(\), so that its worker ended with exit status",
    ) as raised:
        cm.get(cm.remote(max_retries=2)(leave).remote(counter, code), timeout=30)
    assert raised.value.exit_code == CODES[code] and counter.value == 3


def test_the_next_attempt_may_succeed(cm: ModuleType, counter: Counter, capfd: Any) -> None:
    @cm.remote(max_retries=3)
    def second_time():
        if counter.add() == 1:
            sys.exit(7)
        return os.getpid()

    assert cm.get(second_time.remote(), timeout=30)
    printed: list[str] = []

    def told() -> bool:
        printed.extend(capfd.readouterr())
        return (
            "is run again, as sys.exit() has ended its worker: it ended with exit status 7 (attempt 2 of 4)"
            in "".join(printed)
        )

    wait_until(told)


def test_the_worker_ends_after_its_exit_functions(cm: ModuleType, flag: Any) -> None:
    @cm.remote(max_retries=0)
    def end(left):
        import atexit

        atexit.register(left.set)
        sys.exit(1)

    with pytest.raises(cm.exceptions.WorkerCrashedError):
        cm.get(end.remote(flag("left")), timeout=30)
    wait_until(flag("left").is_set)


def test_who_waits_for_it_in_the_same_process_goes_on(cm: ModuleType, counter: Counter) -> None:
    @cm.remote(num_cpus=2, max_retries=0)  # all there are: what it waits for runs on top of it
    def outer(counter):
        before = os.getpid()
        with pytest.raises(cellmesh.exceptions.WorkerCrashedError):
            cellmesh.get(cellmesh.remote(max_retries=0)(leave).remote(counter, 5))
        return before == os.getpid()

    assert cm.get(outer.remote(counter), timeout=30) and counter.value == 1


def test_a_thread_of_the_users_ends_alone(cm: ModuleType) -> None:
    @cm.remote(max_retries=0)
    def survives():
        thread = threading.Thread(target=sys.exit, args=(3,))
        thread.start()
        thread.join()
        return "alive"

    assert cm.get(survives.remote(), timeout=30) == "alive"


def test_a_dead_process_is_told_from_it(cm: ModuleType) -> None:
    with pytest.raises(
        cm.exceptions.WorkerCrashedError, match=r"^the worker that ran the task .* ended with exit status 3,"
    ) as raised:
        cm.get(cm.remote(max_retries=0)(lambda: os._exit(3)).remote(), timeout=30)
    assert raised.value.exit_code == 3


# ---------------------------------------------------------------- actors
class Serves:
    def __init__(self, code: Any = "no") -> None:
        if code != "no":
            sys.exit(code)

    def pid(self) -> int:
        return os.getpid()

    def end(self, code: Any) -> None:
        sys.exit(code)

    def leave(self) -> None:
        cellmesh.exit_actor()

    def crash(self, code: int) -> None:
        os._exit(code)


class ServesAsync(Serves):
    async def end(self, code: Any) -> None:
        await asyncio.sleep(0)
        sys.exit(code)

    async def begin_end(self, code: Any) -> None:
        async def end() -> None:
            sys.exit(code)

        self._ending = asyncio.create_task(end())
        await asyncio.sleep(60)


KINDS = {"ordered": (Serves, {}), "threaded": (Serves, {"max_concurrency": 3}), "async": (ServesAsync, {})}


@pytest.fixture(params=KINDS)
def kind(cm: ModuleType, request: pytest.FixtureRequest) -> Any:
    cls, options = KINDS[request.param]
    return cm.remote(cls).options(num_cpus=0, **options)


def test_a_status_other_than_0_is_a_crash(cm: ModuleType, kind: Any) -> None:
    actor = kind.remote()
    for _ in range(2):
        with pytest.raises(cm.exceptions.ActorDiedError, match="its process ended with exit status 3") as raised:
            cm.get(actor.end.remote(3), timeout=30)
        assert raised.value.exit_code == 3


def test_then_it_begins_again_where_asked(cm: ModuleType, kind: Any) -> None:
    actor = kind.options(max_restarts=1).remote()
    before = cm.get(actor.pid.remote(), timeout=30)
    with pytest.raises(cm.exceptions.ActorUnavailableError, match=r"'Serves(Async)?.end'"):
        cm.get(actor.end.remote(1), timeout=30)
    assert cm.get(actor.pid.remote(), timeout=30) != before
    with pytest.raises(cm.exceptions.ActorDiedError):
        cm.get(actor.end.options(max_task_retries=1).remote(1), timeout=30)


def test_status_0_ends_it_for_good(cm: ModuleType, kind: Any) -> None:
    for code in (0, None):
        actor = kind.options(max_restarts=5, max_task_retries=5).remote()
        for method, given in ((actor.end, (code,)), (actor.pid, ())):
            with pytest.raises(
                cm.exceptions.ActorDiedError, match=r"it has ended itself, by exit_actor\(\) or sys.exit\(0\)"
            ):
                cm.get(method.remote(*given), timeout=30)
        wait_until(lambda actor=actor: repr(actor).endswith(": dead: it has ended itself>"))


def test_what_a_coroutine_has_begun_beside_itself(cm: ModuleType) -> None:
    actor = cm.remote(ServesAsync).remote()
    with pytest.raises(cm.exceptions.ActorDiedError, match="its process ended with exit status 4"):
        cm.get(actor.begin_end.remote(4), timeout=30)


@pytest.mark.parametrize(("code", "words"), [(2, "exit status 2"), (0, "it has ended itself")])
def test_a_constructor(cm: ModuleType, code: int, words: str) -> None:
    for restarts in (0, 1):
        actor = cm.remote(max_restarts=restarts)(Serves).remote(code)
        with pytest.raises(cm.exceptions.ActorDiedError, match=words):
            cm.get(actor.pid.remote(), timeout=30)


def test_each_end_has_its_words(cm: ModuleType) -> None:
    actors = [cm.remote(num_cpus=0)(Serves).remote() for _ in range(4)]
    cm.get([actor.pid.remote() for actor in actors])
    killed, left, crashed, ended = actors
    cm.kill(killed)
    for actor, call, words in (
        (killed, None, r"ended by kill\(\)"),
        (left, left.leave.remote(), r"it has ended itself, by exit_actor\(\)"),
        (crashed, crashed.crash.remote(0), "its process ended with exit status 0"),
        (ended, ended.__terminate__.remote(), r"it has ended itself, by exit_actor\(\)"),
    ):
        for ref in (actor.pid.remote(),) if call is None else (call, actor.pid.remote()):
            with pytest.raises(cm.exceptions.ActorDiedError, match=words) as raised:
                cm.get(ref, timeout=30)
            assert raised.value.exit_code == 0
        assert re.search(f": dead: .*({words.partition(',')[0]})>$", repr(actor)), repr(actor)
