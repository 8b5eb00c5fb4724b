"""Generators of async actors. Plain tasks and threads run theirs in the core (`objstore/binding/stream.c`)."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any


def is_generator(value: Any) -> bool:
    """Whether a method has returned what is to be run here."""
    return inspect.isgenerator(value) or inspect.isasyncgen(value)


async def run_generator(client: Any, call: int, generator: Any, yielded: list[Any]) -> Any:
    """Run it: what it yields goes into the call's stream, if it has one, otherwise into `yielded`, as refs where the
    call has one return.

    Returns
    -------
    The call's value: the number of items, or that list.
    """
    n_returns = client.n_returns(call)
    all_items: Any = generator if inspect.isasyncgen(generator) else _in_turns(generator)
    async with aclosing(all_items) as items:
        if n_returns > 1:
            return await _take_items(items, client.task_info(call)["name"], n_returns, yielded)
        if n_returns >= 0:
            async for item in items:
                yielded.append(client.put(item))
            return yielded
        n = 0
        async for item in items:
            if not client.add_item(call, n, item):
                break
            n += 1
            if not client.has_room(call, n):
                await _in_thread(client.wait_for_room, call, n)
        return n


async def _take_items(items: AsyncIterator[Any], name: str, n_returns: int, yielded: list[Any]) -> list[Any]:
    """As in the core: an item for each return."""
    async for item in items:
        if len(yielded) == n_returns:
            print(
                f"{name!r} yields more than the num_returns={n_returns} values that it was declared with: the others "
                "are left out",
                file=sys.stderr,
            )
            return yielded
        yielded.append(item)
    if len(yielded) < n_returns:
        raise ValueError(f"the task was declared with num_returns={n_returns} but its generator yielded {len(yielded)}")
    return yielded


async def _in_turns(generator: Generator[Any, Any, Any]) -> AsyncIterator[Any]:
    """A plain generator; between two items others have their turn."""
    try:
        for item in generator:
            yield item
            await asyncio.sleep(0)
    finally:
        generator.close()


async def _in_thread(function: Any, *args: Any) -> None:
    """In a thread of its own: in a pool with a limit, those that wait could keep out the one that is waited for."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="room")
    try:
        await asyncio.get_running_loop().run_in_executor(executor, function, *args)
    finally:
        executor.shutdown(wait=False)
