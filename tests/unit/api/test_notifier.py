"""Wake-ups of coroutines and futures, against a store that seals its refs at the worst moments."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator

import pytest
from cellmesh.scheduler.sync.condition import Condition
from support.interrupts import interrupted_everywhere
from support.waiting import wait_until

from cellmesh.exceptions import SessionClosedError
from cellmesh.session import notifier as notifier_module
from cellmesh.session.notifier import MOST_CALLERS, Notifier


class Store:
    """What the notifier uses of a client, with the core's rules: a seal after the mark is news, one before it is told
    at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.changed = Condition()  # the main thread may be interrupted in here, too
        self.sealed: set[int] = set()
        self.marked: set[int] = set()
        self.news = 0
        self.seen = 0
        self.closed = False
        self.before_mark = lambda ref: None
        self.asked_for: list[list[int]] = []

    def mark_waiting(self, ref: int) -> bool:
        self.before_mark(ref)
        with self.lock:
            self._check()
            if ref in self.sealed:
                return True
            self.marked.add(ref)
            return False

    def watch(self, timeout: float | None) -> None:
        self.changed.wait_for(
            lambda: self.news != self.seen or self.closed, 10 if timeout is None else min(10, timeout)
        )
        with self.lock:
            self.seen = self.news
            self._check()

    def ask_for(self, refs: list[int]) -> None:
        with self.lock:
            self._check()
            self.asked_for.append(refs)

    def wait(self, refs: list[int], n: int, timeout: float) -> tuple[list[int], list[int]]:
        with self.lock:
            self._check()
            return [r for r in refs if r in self.sealed], [r for r in refs if r not in self.sealed]

    def wake(self) -> None:
        with self.lock:
            self.news += 1
        self.changed.notify_all()

    def seal(self, ref: int) -> None:
        with self.lock:
            self.sealed.add(ref)
            self.news += ref in self.marked
        self.changed.notify_all()

    def close(self) -> None:
        with self.lock:
            self.closed = True
        self.changed.notify_all()

    def _check(self) -> None:
        if self.closed:
            raise SessionClosedError("closed")


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def notifier(store: Store) -> Iterator[Notifier]:
    notifier = Notifier(store)
    yield notifier
    notifier.close()


def test_a_ref_that_is_sealed_later(store: Store, notifier: Notifier) -> None:
    told: list[int] = []
    notifier.add(1, None, lambda: told.append(1))
    assert told == []
    store.seal(1)
    wait_until(lambda: told == [1])


def test_what_is_waited_for_a_while_is_asked_for_once_and_in_order(
    store: Store, notifier: Notifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier_module, "tell_why", lambda ref: None)
    monkeypatch.setattr(notifier_module, "PATIENCE_S", 0.2)
    for ref in range(4):
        notifier.add(ref, None, lambda: None)
    store.seal(2)
    wait_until(lambda: not notifier._since, what="told why they wait, which comes later")
    assert [ref for refs in store.asked_for for ref in refs] in ([0, 1, 3], [0, 1, 2, 3])


def test_a_ref_that_is_sealed_already(store: Store, notifier: Notifier) -> None:
    store.seal(1)
    told: list[int] = []
    notifier.add(1, None, lambda: told.append(1))
    wait_until(lambda: told == [1])


def test_a_ref_that_is_sealed_between_request_and_mark(store: Store, notifier: Notifier) -> None:
    store.before_mark = store.seal
    told: list[int] = []
    for ref in range(200):
        notifier.add(ref, None, lambda ref=ref: told.append(ref))
    wait_until(lambda: len(told) >= 200)
    assert sorted(told) == list(range(200)), "each exactly once"


def test_many_threads_ask_while_another_one_seals(store: Store, notifier: Notifier) -> None:
    told: list[int] = []
    start = threading.Barrier(5)

    def ask(first: int) -> None:
        start.wait()
        for ref in range(first, 1000, 4):
            notifier.add(ref, None, lambda ref=ref: told.append(ref))

    def seal() -> None:
        start.wait()
        for ref in range(1000):
            store.seal(ref)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)] + [threading.Thread(target=seal)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: len(told) >= 1000)
    assert sorted(told) == list(range(1000))


def test_one_thread_for_all(store: Store, notifier: Notifier) -> None:
    for ref in range(50):
        notifier.add(ref, None, lambda: None)
    assert sum(thread.name == "cellmesh-notifier" for thread in threading.enumerate()) == 1


def n_callers() -> int:
    return sum(thread.name == "cellmesh-notifier-calls" for thread in threading.enumerate())


def test_a_slow_callback_delays_nobody(store: Store, notifier: Notifier) -> None:
    go, told = threading.Event(), []
    notifier.add(1, None, lambda: told.append(go.wait(20)))
    store.seal(1)
    wait_until(lambda: n_callers() == 1)
    notifier.add(2, None, lambda: told.append(2))
    store.seal(2)
    wait_until(lambda: told == [2])

    async def main() -> None:
        arrived = asyncio.get_running_loop().create_future()
        notifier.add(3, asyncio.get_running_loop(), lambda: arrived.set_result(None))
        store.seal(3)
        await asyncio.wait_for(arrived, 10)

    asyncio.run(main())
    assert told == [2]
    go.set()
    wait_until(lambda: told == [2, True])
    wait_until(lambda: not n_callers(), what="they end when there is nothing to do")
    notifier.add(4, None, lambda: told.append(4))
    store.seal(4)
    wait_until(lambda: told == [2, True, 4])


def test_callbacks_that_wait_for_each_other(store: Store) -> None:
    """As many as there are threads; what more of them wait for comes when the session ends."""
    notifier, come = Notifier(store), [threading.Event() for _ in range(MOST_CALLERS + 1)]
    for i in range(MOST_CALLERS):
        notifier.add(i, None, lambda i=i: come[i + 1].wait(20) and come[i].set())
        store.seal(i)
    notifier.add(MOST_CALLERS, None, come[MOST_CALLERS].set)
    wait_until(lambda: n_callers() == MOST_CALLERS)
    store.seal(MOST_CALLERS)
    notifier.close()
    assert all(event.is_set() for event in come) and not n_callers()


def test_what_is_discarded_is_not_told(store: Store, notifier: Notifier) -> None:
    told: list[str] = []

    def first() -> None:
        told.append("first")

    notifier.add(1, None, first)
    notifier.add(1, None, lambda: told.append("second"))
    assert notifier.discard(1, first)
    assert not notifier.discard(1, first)
    store.seal(1)
    wait_until(lambda: told == ["second"])


def test_callbacks_run_in_their_loop(store: Store, notifier: Notifier) -> None:
    async def main() -> list[threading.Thread]:
        loop = asyncio.get_running_loop()
        arrived = [loop.create_future() for _ in range(3)]
        for ref, future in enumerate(arrived):
            notifier.add(ref, loop, lambda future=future: future.set_result(threading.current_thread()))
        for ref in range(3):
            store.seal(ref)
        return await asyncio.wait_for(asyncio.gather(*arrived), 10)

    assert set(asyncio.run(main())) == {threading.current_thread()}


def test_a_closed_loop_is_nobodys_trouble(store: Store, notifier: Notifier) -> None:
    loop = asyncio.new_event_loop()
    notifier.add(1, loop, lambda: None)
    loop.close()
    told: list[int] = []
    notifier.add(2, None, lambda: told.append(2))
    store.seal(1)
    store.seal(2)
    wait_until(lambda: told == [2])


@pytest.mark.parametrize("session_first", [True, False])
def test_the_end_answers_everybody(store: Store, session_first: bool) -> None:
    notifier = Notifier(store)
    told: list[int] = []
    notifier.add(1, None, lambda: told.append(1))
    if session_first:
        store.close()
        wait_until(lambda: told == [1])
    notifier.close()
    assert told == [1]
    notifier.add(2, None, lambda: told.append(2))
    assert told == [1, 2], "after the end nobody waits"
    wait_until(lambda: all(thread.name != "cellmesh-notifier" for thread in threading.enumerate()))


def test_asking_interrupted_anywhere(store: Store) -> None:
    """At whatever instruction: it wakes others afterwards, from the next one on, and ends."""
    refs = itertools.count()
    asked = Notifier(store)
    for number in interrupted_everywhere(lambda: asked.add(next(refs), None, lambda: None)):
        told: list[int] = []
        ref = next(refs)
        asked.add(ref, None, lambda: told.append(ref))
        store.seal(ref)
        wait_until(lambda: told == [ref], what=f"interrupted at instruction {number}")
        if number % 10 == 0:
            asked.close()
            asked = Notifier(store)
    asked.close()


def test_why_somebody_waits_is_looked_at_after_a_while_and_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `get` does it. `watch` of the store returns at each seal, as that of the core does every second, too."""
    asked: list[int] = []
    monkeypatch.setattr(notifier_module, "tell_why_it_waits", asked.append)
    monkeypatch.setattr(notifier_module, "PATIENCE_S", 1e9)
    notifier = Notifier(store)
    told: list[int] = []
    for ref in range(4):
        notifier.add(ref, None, lambda ref=ref: told.append(ref))
    store.seal(0)
    wait_until(lambda: told == [0])
    assert asked == [], "too early"
    monkeypatch.setattr(notifier_module, "PATIENCE_S", 0.0)
    store.seal(2)
    wait_until(lambda: asked == [1], what="the one that waits longest; the others are told with it")
    notifier.add(4, None, lambda: told.append(4))
    store.seal(3)
    wait_until(lambda: asked == [1, 4])
    store.seal(1)
    store.seal(4)
    wait_until(lambda: sorted(told) == [0, 1, 2, 3, 4])
    notifier.close()
    assert asked == [1, 4]


def test_a_ref_that_is_ready_calls_back_in_another_thread(store: Store, notifier: Notifier) -> None:
    """Which may take its time, and the thread that asks may be a loop's."""
    store.seal(1)
    threads: list[threading.Thread] = []
    notifier.add(1, None, lambda: threads.append(threading.current_thread()))
    notifier.add(1, notifier.decoders, lambda: threads.append(threading.current_thread()))
    wait_until(lambda: len(threads) == 2)
    assert threading.current_thread() not in threads


def test_values_are_decoded_while_all_callbacks_wait(store: Store, notifier: Notifier) -> None:
    go, told = threading.Event(), []
    for ref in range(MOST_CALLERS):
        notifier.add(ref, None, lambda: told.append(go.wait(20)))
        store.seal(ref)
    wait_until(lambda: n_callers() == MOST_CALLERS)
    store.seal(MOST_CALLERS)
    notifier.add(MOST_CALLERS, notifier.decoders, lambda: told.append(False))
    wait_until(lambda: told == [False])
    go.set()
    wait_until(lambda: told == [False] + MOST_CALLERS * [True])
