"""What a worker does once it has been given an actor: construct the instance, then serve its mailbox until it ends.

Three ways to serve, chosen by the class and its `max_concurrency`:

- ordered, one call after another, in the main thread: the C loop (`client.run`) does it all;
- threaded: that many threads, each with the C loop;
- async, for a class with coroutine methods: one asyncio loop in the main thread, which also runs the plain methods
  (`async_actor`, imported only then: asyncio costs 50 ms).
"""
from __future__ import annotations

import inspect
import threading
from typing import Any

MAX_LABEL_CHARS = 200  # fits messages.Name


def construct(client: Any, hooks: Any, task: int) -> Any:
    """Run the constructor that `client.run` returned.

    Returns
    -------
    The instance, or None when the constructor failed: then this process is an ordinary worker still.
    """
    info = client.task_info(task)
    has_environment = hooks is not None and (info["gpu_ids"] or info["num_cpus"] >= 2)
    try:
        if has_environment:
            hooks.enter_task(info)  # for good: the actor keeps its devices
        cls, args, kwargs = client.load(task)
        instance = cls(*args, **kwargs)
        client.bind_actor(task, instance)
    except BaseException as error:  # whatever a user's constructor raises is the actor's fate, not this worker's
        client.fail(task, error)
        if has_environment:
            hooks.leave_task(info)
        return None
    return instance


def label(instance: Any) -> str:
    """What the actor is called where it prints and fails: its `repr`, if its class has one of its own; otherwise ""."""
    if type(instance).__repr__ is object.__repr__:
        return ""
    try:
        return repr(instance)[:MAX_LABEL_CHARS]
    except Exception:  # the user's; the class's name must do
        return ""


def serve(client: Any, instance: Any) -> None:
    """Serve the actor that this process has been bound to, until it ends."""
    info = client.actor_info()
    if info is None:  # ended meanwhile
        return
    n = info["max_concurrency"]
    del info  # it holds a handle of the actor, which ends when nobody has one any more
    if is_async(type(instance)):
        from .async_actor import AsyncServer
        AsyncServer(client, n).run()
    else:
        serve_threads(client, n)


def is_async(cls: type) -> bool:
    """Whether any method of the class is a coroutine function or an async generator."""
    return any(inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)
               for _, method in inspect.getmembers(cls, inspect.isroutine))


def serve_threads(client: Any, n: int) -> None:
    """`n` calls at a time, this thread's included."""
    others = [threading.Thread(target=client.run, name=f"call-{i}", daemon=True) for i in range(1, n)]
    for thread in others:
        thread.start()
    client.run()
    for thread in others:
        thread.join()
