"""What a worker does once it has been given an actor: construct the instance, then serve its mailbox until it ends.

Three ways to serve, chosen by the class and its `max_concurrency`:

- ordered, one call after another, in the main thread: the C loop (`client.run`) does it all;
- threaded: up to that many threads, each with the C loop, begun when all others have a call;
- async, for a class with coroutine methods: one asyncio loop in the main thread, which also runs the constructor and
  the plain methods (`async_actor`, imported only then: asyncio costs 50 ms).

Each concurrency group has threads of its own, or a loop in a thread of its own; calls that belong to none are served in
the main thread.
"""

from __future__ import annotations

import contextvars
import inspect
import itertools
import threading
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .async_actor import AsyncServer

MAX_LABEL_CHARS = 200  # fits messages.Name


class Constructed(NamedTuple):
    """An actor that is to be served; the loop of an async one has run its constructor."""

    instance: Any
    loop: AsyncServer | None


def construct(client: Any, hooks: Any, task: int) -> Constructed | None:
    """Run the constructor that `client.run` returned.

    Returns
    -------
    The actor, or None when the constructor failed: then this process is an ordinary worker still.
    """
    loop = None
    info = client.task_info(task)
    environment = hooks if info["gpu_ids"] or info["num_cpus"] >= 2 else None
    try:
        if environment is not None:
            environment.enter_task(info)  # for good: the actor keeps its devices
        cls, args, kwargs = client.load(task)
        if is_async(cls):
            from .async_actor import AsyncServer

            loop = AsyncServer(client, 0)
            instance = loop.construct(cls, args, kwargs)
        else:
            instance = cls(*args, **kwargs)
        client.bind_actor(task, instance)
    except BaseException as error:  # whatever a user's constructor raises is the actor's fate, not this worker's
        client.fail(task, error)
        if loop is not None:
            loop.close()
        if environment is not None:
            environment.leave_task(info)
        return None
    return Constructed(instance, loop)


def label(instance: Any) -> str:
    """What the actor is called where it prints and fails: its `repr`, if its class has one of its own; otherwise ""."""
    if type(instance).__repr__ is object.__repr__:
        return ""
    try:
        return repr(instance)[:MAX_LABEL_CHARS]
    except Exception:  # the user's; the class's name must do
        return ""


def serve(client: Any, hooks: Any, loop: AsyncServer | None) -> None:
    """Serve the actor that this process has been bound to, until it ends."""
    info = client.actor_info()
    if info is None:  # ended meanwhile
        return
    limits = [limit for limit in info["groups"] if limit] or [info["max_concurrency"]]
    del info  # it holds a handle of the actor, which ends with its last handle
    if loop is not None:
        from .async_actor import serve_loops

        serve_loops(client, hooks, loop, limits)
    else:
        serve_threads(client, limits)


def is_async(cls: type) -> bool:
    """Whether any method of the class is a coroutine function or an async generator."""
    return any(
        inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)
        for _, method in inspect.getmembers(cls, inspect.isroutine)
    )


def serve_threads(client: Any, limits: list[int]) -> None:
    """By threads, this one among those of the first group; `limits`: how many of each group."""
    groups = [Threads(client, group, limit) for group, limit in enumerate(limits)]
    for group in groups[1:]:
        group.start_another()
    groups[0].run()
    for group in groups:
        group.join()


class Threads:
    """The threads that serve one concurrency group of an actor: at first one, and another when all have a call, up to a
    limit.

    What a call leaves in the thread-local and context variables of a group with one thread, the next finds there. Where
    there may be several, each call has a context of its own, as the constructor has left it.
    """

    def __init__(self, client: Any, group: int, limit: int) -> None:
        self._client, self._group, self._limit = client, group, limit
        self._numbers = itertools.count(0 if group else 1)  # the first of group 0 is the main thread
        self._threads: list[threading.Thread] = []

    def run(self) -> None:
        """Serve in this thread until the actor ends."""
        self._client.run(self._group, self.start_another)
        self._client.wake()  # others, which may sleep although the actor has ended

    def start_another(self) -> bool:
        """Begin a thread; False: there are as many as there may be, or can be."""
        number = next(self._numbers)
        if number >= self._limit:
            return False
        thread = threading.Thread(  # with the context that the constructor has left
            target=contextvars.copy_context().run,
            args=(self.run,),
            name=f"call-{self._group}-{number}",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError as error:  # the machine has no more
            if not number:  # otherwise no thread would serve the group
                raise
            warnings.warn(
                f"an actor serves {number} calls of a concurrency group at a time, not {self._limit} as its options "
                f"say: {error}",
                RuntimeWarning,
                stacklevel=1,
            )
            self._limit = 0
            return False
        self._threads.append(thread)
        return True

    def join(self) -> None:
        """Wait until they have ended."""
        for thread in self._threads:
            thread.join()
