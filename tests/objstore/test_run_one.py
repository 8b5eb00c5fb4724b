"""A worker that is borrowed: it executes one task at a time, and those that the task waits for, and is given back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from cellmesh.objstore import _core
from support.plain_hooks import PlainHooks


class Hooks(PlainHooks):
    """What a worker needs for functions. `client`: whose tasks run while one waits; None: nobody's."""

    def __init__(self) -> None:
        self.client: Any = None
        self.n_looks = self.n_items = 0
        self.waits = False  # a generator for its reader
        self.functions: dict[str, Callable[..., Any]] = {}

    def load_function(self, value: tuple[str, str, str]) -> Callable[..., Any]:
        return self.functions[value[2]]

    def load_method(self, instance: object, payload: str) -> Callable[..., Any]:
        return getattr(instance, payload)

    def run_meanwhile(self) -> bool:
        self.n_looks += 1
        return self.client is not None and self.client.run_one(0.0)

    def make_stream(self, stream: Any, result: Any) -> tuple[Any, Any]:
        return stream, result

    def has_yielded(self) -> bool:
        self.n_items += 1
        return self.waits


class Borrowed:
    """A segment with one worker, in this process, which submits as well."""

    def __init__(self) -> None:
        fd = _core.create_segment(1 << 20, 1 << 10, 1 << 10, 16, 1 << 10)
        self.hooks = Hooks()
        self.client = _core.Client(fd, _core.ROLE_WORKER, self.hooks)
        self.client.set_total({"CPU": 1.0})
        os.close(fd)

    def remote(self, function: Callable[..., Any], **options: Any) -> Any:
        name = str(len(self.hooks.functions))
        self.hooks.functions[name] = function
        code = self.client.put(("function", name, name))
        return self.client.submitter(code, self.client.resource_class({"CPU": 1.0}).shape, **options)

    def make_actor(self, cls: type, method: str) -> tuple[Any, Any]:
        """An actor that this process becomes, and what calls its method."""
        client = self.client
        self.hooks.functions["Actor"] = cls
        shape = client.resource_class({}).shape
        actor, _ = client.create_actor(client.put(("class", "Actor", "Actor")), shape, (), {}, meta="Actor")
        task = client.run()
        loaded, args, kwargs = client.load(task)
        client.bind_actor(task, loaded(*args, **kwargs))
        return actor, client.submitter(client.put(("method", f"Actor.{method}", method)), shape, actor=actor)


@pytest.fixture
def borrowed() -> Iterator[Borrowed]:
    made = Borrowed()
    yield made
    made.client.close()
    made.hooks.client = None
    made.hooks.functions.clear()
    del made.client, made.hooks  # pytest keeps a fixture's value until all of them are torn down


def test_one_task_at_a_time(borrowed: Borrowed) -> None:
    client = borrowed.client
    add = borrowed.remote(lambda a, b: a + b)
    refs = [add(1, 2), add(3, 4)]
    assert client.run_one(None)
    assert client.get(refs[0]) == 3
    assert not client.ready(refs[1])
    assert client.run_one(0.0)
    assert client.get(refs) == [3, 7]
    assert not client.run_one(0.0)
    assert not client.run_one(0.001)


def test_what_a_task_waits_for_runs_meanwhile(borrowed: Borrowed) -> None:
    client = borrowed.hooks.client = borrowed.client
    seen: list[tuple[int, int]] = []

    def count(depth: int) -> int:
        me = client.current_task
        below = client.get([remote(depth - 1), remote(depth - 1)]) if depth else [1]
        seen.append((me, client.current_task))
        return sum(below)

    remote = borrowed.remote(count)
    ref = remote(4)
    assert client.run_one(0.0)
    assert client.get(ref) == 16
    assert len(seen) == 31
    assert all(me == after for me, after in seen), "after those that it has waited for, a task is itself again"
    assert client.resources().available == {"CPU": 1.0}
    assert not client.check()


def test_an_error_of_what_is_waited_for_is_the_waiting_ones(borrowed: Borrowed) -> None:
    client = borrowed.hooks.client = borrowed.client

    def fail() -> None:
        raise KeyError("told")

    inner = borrowed.remote(fail)
    caught: list[BaseException | None] = []
    outer = borrowed.remote(lambda: caught.append(inner().exception()))
    outer()
    assert client.run_one(0.0)
    assert caught[0] is not None


def test_where_nothing_can_run_the_wait_ends_by_its_time(borrowed: Borrowed) -> None:
    client = borrowed.client
    never = borrowed.remote(lambda: None)
    late: list[bool] = []

    def wait() -> None:
        try:
            client.get(never(), 0.01)
        except TimeoutError:
            late.append(True)

    borrowed.remote(wait)()
    assert client.run_one(0.0)
    assert late
    assert borrowed.hooks.n_looks


def test_a_call_of_its_actor_runs_and_what_that_waits_for_but_no_other_call(borrowed: Borrowed) -> None:
    client = borrowed.hooks.client = borrowed.client
    double = borrowed.remote(lambda n: (client.actor_info(), 2 * n))
    seen: list[Any] = []

    class Actor:
        def call(self, n: int) -> int:
            me = client.current_task
            info, twice = client.get(double(n))
            seen.append((n, info, client.current_task == me, client.actor_info() is not None))
            return twice

    _actor, call = borrowed.make_actor(Actor, "call")
    refs = [call(1), call(2)]
    assert client.run_one(0.0)
    assert client.get(refs[0]) == 2
    assert not client.ready(refs[1])
    assert client.run_one(0.0)
    assert client.get(refs[1]) == 4
    assert seen == [(n, None, True, True) for n in (1, 2)], "what it waits for is no call of the actor"
    late = double(3)
    assert client.run_one(0.0), "what nobody waits for runs when there is no call"
    assert client.get(late) == (None, 6)
    assert not client.run_one(0.0)
    assert not client.check()


def test_a_generator_tells_of_each_item_and_does_not_wait_for_a_reader_that_is_behind_it(borrowed: Borrowed) -> None:
    client = borrowed.client
    items, _ = borrowed.remote(lambda: iter(range(5)), stream=1)()
    assert client.run_one(0.0)
    assert [client.get(client.next_item(items, 0.0)) for _ in range(5)] == list(range(5))
    assert client.next_item(items, 0.0) is None
    assert borrowed.hooks.n_items == 5


def test_beside_an_actor_that_serves_itself_tasks_alone_run_and_know_themselves(borrowed: Borrowed) -> None:
    client = borrowed.hooks.client = borrowed.client
    client.set_call_variable(ContextVar[int]("call"))  # by which an async actor's calls are told apart
    inner = borrowed.remote(lambda: client.current_task)

    def outer() -> tuple[int, int, int]:
        return client.current_task, client.get(inner()), client.current_task

    actor, submit = borrowed.make_actor(object, "__repr__")
    call = submit()
    assert client.run_one(0.0, False) is False
    ref = borrowed.remote(outer)()
    assert client.run_one(0.0, False)
    before, within, after = client.get(ref)
    assert before == after != within != 0
    assert not client.ready(call)
    assert client.run_one(0.0)
    del actor, call, submit
    client.flush()
    assert client.run_one(0.0, False) is None, "there is no actor any more"
