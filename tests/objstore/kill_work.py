"""What the processes of kill_stress.py do before they are killed, each piece of work with the number that must come
out.

A module of its own, so that workers find functions by name, and `CLIENT` in them is theirs.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from typing import Any

import cloudpickle
import numpy as np  # here, not in a task: a fresh worker would be killed before it has imported it
from cellmesh.objstore import _core
from support.plain_hooks import PlainHooks

CLIENT: Any = None  # of this process
MAX_ITEMS = 6
LARGEST = 1 << 50  # as many times as tasks multiply it, it fits into an array's number


class Hooks(PlainHooks):
    """And functions and streams."""

    @staticmethod
    def load_function(value: tuple[str, str, bytes]) -> Any:
        return pickle.loads(value[2])

    @staticmethod
    def make_stream(stream: Any, result: Any) -> tuple[Any, Any]:
        return stream, result

    load_method = staticmethod(getattr)


def attach(fd: int, role: int) -> Any:
    """Make this process a client."""
    global CLIENT
    CLIENT = _core.Client(fd, role, Hooks)
    return CLIENT


def serve(fd: int) -> None:
    """A worker's life."""
    client = attach(fd, _core.ROLE_WORKER)
    try:
        while (task := client.run()) >= 0:
            cls, args, kwargs = client.load(task)
            client.bind_actor(task, cls(*args, **kwargs))
    except _core.StoreError as error:
        if error.code != "closed":  # the session may end before it has begun
            raise


def number(x: Any) -> int:
    """The number that a value stands for: itself, an array full of it, or the sum of what a list of refs refers to."""
    if isinstance(x, list):
        return sum(number(CLIENT.get(ref)) for ref in x)
    if isinstance(x, int):
        return x
    found = int(x[0])
    if _core.shared_place(x) is None:
        x[:1] = -1  # it is the reader's own: nobody else finds that there
    return found


# ---------------------------------------------------------------- functions of tasks


def add(*xs: Any) -> int:
    return sum(map(number, xs))


def spread(x: int, n: int) -> Any:
    return np.full(n, x)  # an object in the arena


def share(x: int, n: int) -> Any:
    return write(CLIENT.shared(((n,), np.dtype(int))), x)  # an array that others may write to


def write(array: Any, x: int) -> Any:
    """Fills an array that is shared; whoever has begun it before."""
    lock = CLIENT.shared_sync(_core.SYNC_CONDITION, 0, "lock")
    assert _core.condition_lock(lock, None) == _core.SYNC_DONE
    array[...] = x
    assert _core.condition_unlock(lock) == _core.SYNC_DONE
    return array[len(array) // 2 :]


def keep(x: int, n: int) -> list[Any]:
    """Puts small and large values, one of them with a ref inside, and returns refs; their sum is 4 x."""
    small, large = CLIENT.put(x), CLIENT.put(np.full(n, x))
    return [small, large, CLIENT.put([small, large])]


def parent(tools: tuple[Any, ...], x: int, n: int) -> int:
    """Submits children, waits for half of them, then for all: n x + 0 + 1 + ... + n - 1."""
    one, add_function, spread_function, _ = tools
    add_more = CLIENT.submitter(add_function, one, max_retries=-1)
    spread_more = CLIENT.submitter(spread_function, one, max_retries=-1)
    refs = [add_more(spread_more(x, 2000) if i % 3 == 0 else x, i) for i in range(n)]
    CLIENT.wait(refs, n // 2, None)
    return sum(CLIENT.get(refs))


def call(tools: tuple[Any, ...], actor: tuple[Any, ...], x: int) -> int:
    """Calls an actor, from a task."""
    return CLIENT.get(CLIENT.submitter(tools[3], tools[0], max_retries=-1, actor=actor[0])(x))


def items(x: int, n: int, length: int) -> Iterator[Any]:
    for i in range(n):
        yield np.full(length, x + i) if i % 2 else x + i


class Echo:
    def echo(self, x: Any) -> int:
        return number(x)


FUNCTIONS = (add, spread, share, write, keep, parent, call, items)


def export(client: Any) -> dict[str, Any]:
    """The code, as refs by name."""
    refs = {f.__name__: client.put(("function", f.__name__, cloudpickle.dumps(f))) for f in FUNCTIONS}
    refs["Echo"] = client.put(("actor", "Echo", cloudpickle.dumps(Echo)))
    refs["echo"] = client.put(("method", "Echo.echo", "echo"))
    return refs


# ---------------------------------------------------------------- who submits


class Driver:
    """Submits graphs, and says whether what comes out is right."""

    def __init__(self, client: Any, code: dict[str, Any], one: int, placed: int, seed: str, array_length: int) -> None:
        self.client, self.code, self.one, self.placed, self.array_length = client, code, one, placed, array_length
        self.random = random.Random(seed)
        self.tools = (one, code["add"], code["spread"], code["echo"])
        self.submit = {f.__name__: client.submitter(code[f.__name__], one, max_retries=-1) for f in FUNCTIONS[:-1]}
        self.stream = client.submitter(code["items"], one, max_retries=-1, stream=2)

    def actors(self) -> list[Any]:
        return [
            self.client.create_actor(
                self.code["Echo"], self.placed, (), {}, meta=("Echo",), max_restarts=-1, max_task_retries=-1
            )[0]
            for _ in range(self.random.randint(0, 2))
        ]

    def piece(self, actors: list[Any], value: int, parts: list[Any], x: int) -> tuple[Any, int]:
        """A ref made by one of the kinds of work, and its number; `value` is the sum of the parts and x."""
        if not parts and self.random.random() < 0.5:
            large = self.random.random() < 0.5
            return self.client.put(np.full(self.array_length, x) if large else x), x
        total, kind = self.submit["add"](*parts, x), self.random.randrange(10)
        if kind == 0:
            return self.submit["spread"](total, self.array_length), value
        if kind == 1 and self.random.random() < 0.5:
            return self.submit["share"](total, self.array_length), value
        if kind == 1:  # of this driver's, which may be gone before the task begins
            return self.submit["write"](self.client.shared(((self.array_length,), np.dtype(int))), total), value
        if kind == 2:
            return self.submit["keep"](total, self.array_length), 4 * value
        if kind == 3:
            n = self.random.randint(1, 8)
            return self.submit["parent"](self.tools, total, n), n * value + n * (n - 1) // 2
        if kind < 6 and actors:
            actor = self.random.choice(actors)
            if kind == 4:
                return self.submit["call"](self.tools, (actor,), total), value
            return self.client.submitter(self.code["echo"], self.one, max_retries=-1, actor=actor)(total), value
        return total, value

    def graph(self, actors: list[Any], n: int) -> tuple[list[Any], list[int]]:
        refs: list[Any] = []
        values: list[int] = []
        for _ in range(n):
            at = [self.random.randrange(len(refs)) for _ in range(self.random.randint(0, min(4, len(refs))))]
            x = self.random.randint(0, 9)
            ref, value = self.piece(actors, sum(values[i] for i in at) + x, [refs[i] for i in at], x)
            if value > LARGEST:
                ref, value = self.client.put(0), 0  # and nobody asks for what it would have been
            refs.append(ref)
            values.append(value)
        return refs, values

    def streams(self) -> list[Stream]:
        return [Stream(self) for _ in range(self.random.randint(0, 2))]

    def live(self) -> None:
        """Until killed: graph after graph, of its own."""
        while True:
            actors = self.actors()
            refs, values = self.graph(actors, self.random.randint(1, 30))
            streams = self.streams()
            if self.random.random() < 0.3:
                continue  # nobody ever asks for it
            assert [number(self.client.get(ref)) for ref in refs] == values
            for stream in streams:
                while not stream.ended:
                    stream.read(0.05)


class Stream:
    """What a task yields, as far as it has been read."""

    def __init__(self, driver: Driver) -> None:
        x, self.n = driver.random.randint(0, 9), driver.random.randint(0, MAX_ITEMS)
        self.client, self.next_value, self.ended = driver.client, x, False
        self.stream, self.result = driver.stream(x, self.n, driver.array_length)

    def read(self, timeout: float) -> None:
        """Read one item if it is there in time; each comes once, in order, whoever died."""
        item = self.client.next_item(self.stream, timeout)
        if item is False:
            return
        if item is None:
            assert self.n == 0, f"{self.n} items are missing"
            self.ended = True
            return
        found = number(self.client.get(item))
        assert found == self.next_value and self.n > 0, f"{found} instead of {self.next_value}"
        self.next_value, self.n = found + 1, self.n - 1
