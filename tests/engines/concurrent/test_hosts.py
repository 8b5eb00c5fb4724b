"""The hosts of actors with several calls at a time, in Ray's and in Dask's workers; without Ray, which calls them in
any order, and without Dask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any

from engines.concurrent.slow_process import Slow
from support.waiting import wait_until

from cellmesh.engines.dask.host import CANCEL, KILL, RUN, SAY, Host, Order
from cellmesh.engines.dask.worker import CANCELLED, ENDED, OVER
from cellmesh.engines.ray.host import ConcurrentHost


def played(story: Callable[[ConcurrentHost, Slow], Any]) -> Any:
    """What comes of it."""

    async def play() -> Any:
        made: list[Slow] = []

        def make(ended: Callable[[int], None]) -> Slow:
            made.append(Slow(ended))
            return made[0]

        host = ConcurrentHost([2], make)
        first = asyncio.ensure_future(host.run(0, 0, 0, b"constructor"))
        await asyncio.sleep(0)
        await host.hear(b"constructor")
        assert await first == b"constructor"
        return await story(host, made[0])

    return asyncio.run(play())


def begun(host: ConcurrentHost, *places: int) -> list[asyncio.Future[Any]]:
    return [asyncio.ensure_future(host.run(place, 0, 1, b"%d" % place)) for place in places]


def test_calls_begin_in_the_order_in_which_they_were_made_as_many_as_may() -> None:
    async def story(host: ConcurrentHost, process: Slow) -> None:
        third, second = begun(host, 3, 2)
        await asyncio.sleep(0)
        assert not process.running
        (first,) = begun(host, 1)
        await asyncio.sleep(0)
        assert [*process.running] == [b"1", b"2"]
        await host.hear(b"2")
        assert await second == [b"2", None]
        assert [*process.running] == [b"1", b"3"]
        for number in (b"1", b"3"):
            await host.hear(number)
        assert await asyncio.gather(first, third) == [[b"1", None], [b"3", None]]

    played(story)


def test_one_that_is_cancelled_is_passed_over_whether_it_has_come_or_not() -> None:
    async def story(host: ConcurrentHost, process: Slow) -> None:
        calls = begun(host, 2, 3, 4)
        await asyncio.sleep(0)
        assert await host.cancel(1)  # it has not come, and those behind it have
        assert [*process.running] == [b"2", b"3"]
        assert await host.cancel(4)
        assert not await host.cancel(2)
        assert await calls[2] == [None, None]
        assert await begun(host, 1)[0] == [None, None]
        for number in (b"2", b"3"):
            await host.hear(number)
        assert await asyncio.gather(*calls[:2]) == [[b"2", None], [b"3", None]]
        assert not await host.cancel(3)

    played(story)


def test_when_the_process_has_ended_calls_say_whether_they_had_begun() -> None:
    async def story(host: ConcurrentHost, process: Slow) -> None:
        watch = asyncio.ensure_future(host.watch())
        calls = begun(host, 1, 2, 3)
        await asyncio.sleep(0)
        process.end(True)
        assert await asyncio.gather(*calls, *begun(host, 4)) == [[True, None]] * 2 + [[False, None]] * 2
        assert await watch == await host.watch() == -9

    played(story)


def test_a_host_has_as_many_calls_run_as_may_and_tells_which_had_begun() -> None:
    told: list[tuple[str, int, Sequence[int]]] = []
    made: list[Slow] = []

    def make(ended: Callable[[int], None]) -> Slow:
        made.append(Slow(ended))
        return made[0]

    host = Host(make, lambda keys: [], lambda what, number, *rest: told.append((what, number, rest[-1])), [2, 1])
    serves = Thread(target=host.serve, args=(lambda: None,))
    serves.start()
    host.hear(Order(RUN, 1, b"1"))
    wait_until(lambda: made[0].running)
    host.hear(Order(SAY, data=b"1"))
    for number, group in enumerate([0, 0, 0, 1, 1], 2):
        host.hear(Order(RUN, number, str(number).encode(), group=group))
    wait_until(lambda: [*made[0].running] == [b"2", b"3", b"5"])
    host.hear(Order(SAY, data=b"3"))
    wait_until(lambda: [*made[0].running] == [b"2", b"5", b"4"])
    host.hear(Order(CANCEL, 6))
    host.hear(Order(KILL))
    serves.join()
    assert told == [(ENDED, 1, ()), (ENDED, 3, ()), (CANCELLED, 6, ()), (OVER, 0, [2, 4, 5])]
