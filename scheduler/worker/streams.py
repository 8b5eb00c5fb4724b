"""What an async actor does with generators; plain tasks and threads run theirs in the core (`objstore/binding/stream.c`)."""
from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any


def is_generator(value: Any) -> bool:
    """Whether a method has returned what is to be run here."""
    return inspect.isgenerator(value) or inspect.isasyncgen(value)


async def run_generator(client: Any, call: int, generator: Any) -> Any:
    """Run it: what it yields goes into the call's stream, if it has one, otherwise into a list of refs.

    Returns
    -------
    The call's value: the number of items, or that list.
    """
    async with aclosing(generator if inspect.isasyncgen(generator) else _in_turns(generator)) as items:
        if not client.streams(call):
            return [client.put(item) async for item in items]
        n = 0
        async for item in items:
            if not client.add_item(call, n, item):
                break
            n += 1
            if not client.has_room(call, n):
                await _in_thread(client.wait_for_room, call, n)
        return n


async def _in_turns(generator: Iterator[Any]) -> AsyncIterator[Any]:
    """A plain generator; between two items others have their turn."""
    try:
        for item in generator:
            yield item
            await asyncio.sleep(0)
    finally:
        generator.close()  # type: ignore[attr-defined]


async def _in_thread(function: Any, *args: Any) -> None:
    """In a thread of its own: in a pool with a limit, those that wait could keep out the one that is waited for."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="room")
    try:
        await asyncio.get_running_loop().run_in_executor(executor, function, *args)
    finally:
        executor.shutdown(wait=False)
