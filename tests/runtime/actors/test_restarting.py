"""Calls of an actor that begins again: they wait, or, made through `compat.ray`, fail; and actors killed before they
have begun.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from support.waiting import wait_until

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


class Slow:
    """Begins when it may: the first time at once."""

    def __init__(self, begun: Any, may_begin: Any) -> None:
        if begun.add() > 1:
            may_begin.wait()

    def pid(self) -> int:
        return os.getpid()

    def items(self) -> Iterator[int]:
        yield 1

    def hold(self, held: Any) -> None:
        held.set()
        signal.pause()


def restarting(cm: ModuleType, counter: Any, flag: Any) -> tuple[Any, dict[str, Any]]:
    """An actor whose process has been killed in the midst of a call, with the calls that were under way then and
    queued.
    """
    actor = cm.remote(num_cpus=0, max_restarts=1)(Slow).remote(counter, flag("may begin"))
    pid = cm.get(actor.pid.remote(), timeout=30)
    never = cm.remote(lambda go: go.wait()).remote(flag("may begin"))
    calls = {
        "runs": actor.hold.remote(flag("held")),
        "queued": actor.pid.remote(),
        "repeated": actor.pid.options(max_task_retries=1).remote(),
        "waits": actor.__call_with__.remote(lambda instance, value: "run", never),
    }
    flag("held").wait()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: counter.value == 2)
    return actor, calls


def test_calls_that_have_not_begun_wait(cm: ModuleType, counter: Any, flag: Any) -> None:
    actor, calls = restarting(cm, counter, flag)
    calls["later"] = actor.pid.remote()
    with pytest.raises(cm.exceptions.ActorUnavailableError, match=r"while it ran the task 'Slow.hold'"):
        cm.get(calls.pop("runs"), timeout=30)
    flag("may begin").set()
    pid = cm.get(actor.pid.remote(), timeout=30)
    assert cm.get(list(calls.values()), timeout=30) == [pid, pid, "run", pid]


def test_or_fail_at_once_where_they_may_not_be_repeated(
    cm: ModuleType, counter: Any, flag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellmesh.front_end.dialect.refuses_while_restarting", True)
    actor, calls = restarting(cm, counter, flag)
    with pytest.raises(cm.exceptions.ActorUnavailableError, match=r"while it ran the task 'Slow.hold'"):
        cm.get(calls.pop("runs"), timeout=30)
    elsewhere = cm.get(cm.remote(lambda actor: actor.pid.remote()).remote(actor), timeout=30)
    for call in (calls.pop("queued"), actor.pid.remote(), elsewhere):
        with pytest.raises(
            cm.exceptions.ActorUnavailableError,
            match=r"^The actor is restarting, and the task 'Slow.pid' has not been begun",
        ):
            cm.get(call, timeout=30)
    (item,) = actor.items.remote()
    with pytest.raises(cm.exceptions.ActorUnavailableError, match=r"'Slow.items' has not been begun"):
        cm.get(item, timeout=30)
    calls["later"] = actor.pid.options(max_task_retries=1).remote()
    flag("may begin").set()
    pid = cm.get(calls.pop("repeated"), timeout=30)
    assert cm.get(list(calls.values()), timeout=30) == ["run", pid] and cm.get(actor.pid.remote(), timeout=30) == pid


def test_an_actor_that_is_killed_while_it_begins_begins_again(one_cpu: ModuleType, counter: Any, flag: Any) -> None:
    counter.add()
    actor = one_cpu.remote(num_cpus=1, max_restarts=1)(Slow).remote(counter, flag("may begin"))
    wait_until(lambda: counter.value == 2)
    one_cpu.kill(actor, no_restart=False)
    wait_until(lambda: counter.value == 3)
    flag("may begin").set()
    assert one_cpu.get(actor.pid.remote(), timeout=30)
    one_cpu.kill(actor, no_restart=False)
    with pytest.raises(one_cpu.exceptions.ActorDiedError):
        one_cpu.get(actor.pid.remote(), timeout=30)
    wait_until(lambda: one_cpu.available_resources()["CPU"] == 1)
    assert one_cpu.get(one_cpu.remote(lambda: 1).remote(), timeout=30) == 1


def test_an_actor_that_is_killed_before_it_begins_has_used_a_restart(one_cpu: ModuleType) -> None:
    first = one_cpu.remote(num_cpus=1)(Plain).remote()
    assert one_cpu.get(first.call.remote(), timeout=30) == 1
    waiting = one_cpu.remote(num_cpus=1, max_restarts=1)(Plain).remote()  # nothing is left for it
    call = waiting.call.remote()
    one_cpu.kill(waiting, no_restart=False)
    wait_until(lambda: repr(waiting).endswith(": restarting>"))
    one_cpu.kill(waiting, no_restart=False)
    with pytest.raises(one_cpu.exceptions.ActorDiedError, match=r"it was ended by kill\(\)"):
        one_cpu.get(call, timeout=30)
    one_cpu.kill(first)
    wait_until(lambda: one_cpu.available_resources()["CPU"] == 1)
    again = one_cpu.remote(num_cpus=1, max_restarts=1)(Plain).remote()
    assert one_cpu.get(again.call.remote(), timeout=30) == 1


class Plain:
    def call(self) -> int:
        return 1
