"""Random task graphs while workers are killed at random instants; every result is compared with what it must be.

    python tests/objstore/kill_stress.py SEED N_KILLS          # everything in memory
    python tests/objstore/kill_stress.py SEED N_KILLS FOLDER   # larger arrays, a small store, which moves them to FOLDER and back

Plain processes around the extension alone: this program plays driver and scheduler, and its forks are the workers. It must
have one thread, so it runs in a process of its own. Exit status 0 and a line of figures, or a traceback with the seed.
"""
from __future__ import annotations

import os
import pickle
import random
import signal
import sys
import time
from typing import Any

import cloudpickle
import numpy as np  # here, not in the task: a fresh worker would be killed before it has imported it
from cellmesh.objstore import _core

N_WORKERS = 3
STUCK_S = 30.0


class Hooks:
    """The least that the extension needs."""

    @staticmethod
    def pickle(value: Any) -> tuple[bytes, list[Any]]:
        buffers: list[Any] = []
        data = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        return data, [b.raw() for b in buffers]

    @staticmethod
    def unpickle(data: bytes, buffers: list[Any]) -> Any:
        return pickle.loads(data, buffers=buffers)

    @staticmethod
    def load_function(value: tuple[str, str, bytes]) -> Any:
        return pickle.loads(value[2])

    load_method = staticmethod(getattr)


def number(x: Any) -> int:
    return x if isinstance(x, int) else int(x[0])


def add(*xs: Any) -> int:
    return sum(x if isinstance(x, int) else int(x[0]) for x in xs)


def spread(x: int, n: int) -> Any:
    return np.full(n, x)  # an object in the arena


class Echo:
    def echo(self, x: Any) -> int:
        return x if isinstance(x, int) else int(x[0])


def serve(fd: int) -> None:
    client = _core.Client(fd, _core.ROLE_WORKER, Hooks)
    while (task := client.run()) >= 0:
        cls, args, kwargs = client.load(task)
        client.bind_actor(task, cls(*args, **kwargs))


class Stress:
    """One segment, its workers, and the kills."""

    def __init__(self, seed: int, folder: str) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.n_kills = self.n_tasks = self.n_moved = 0
        self.folder = folder
        self.array_length = 20_000 if folder else 3000
        self.fd = _core.create_segment(3 << 20 if folder else 1 << 28, n_objects=1 << 16, n_tasks=1 << 16)
        self.scheduler = _core.Client(self.fd, _core.ROLE_SCHEDULER, Hooks)
        self.client = _core.Client(self.fd, _core.ROLE_DRIVER, Hooks)
        self.client.set_total({"CPU": N_WORKERS + 1})
        self.client.set_offload(folder, 1 << 30)
        one = self.client.resource_class({"CPU": 1})
        self.placed = self.client.resource_class({"CPU": 1}, {})
        self.add, self.spread = (self.client.submitter(self.export("function", f.__name__, f), one, max_retries=-1) for f in (add, spread))
        self.echo_class = self.export("actor", "Echo", Echo)
        self.echo_method = self.client.put(("method", "Echo.echo", "echo"))
        self.one = one
        self.pids: set[int] = set()
        for _ in range(N_WORKERS):
            self.spawn()

    def export(self, kind: str, name: str, what: Any) -> Any:
        return self.client.put((kind, name, cloudpickle.dumps(what)))

    def spawn(self) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                serve(self.fd)
            finally:
                os._exit(0)
        self.pids.add(pid)

    def kill_one(self) -> None:
        os.kill(self.random.choice(sorted(self.pids)), signal.SIGKILL)
        self.n_kills += 1

    def reap(self) -> None:
        for pid in sorted(self.pids):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.pids.discard(pid)
                for index in [k["index"] for k in self.client.clients() if k["pid"] == pid]:
                    self.scheduler.client_died(index, os.waitstatus_to_exitcode(status))
                self.spawn()

    def graph(self, actors: list[Any]) -> tuple[list[Any], list[int]]:
        refs: list[Any] = []
        values: list[int] = []
        for _ in range(self.random.randint(1, 200)):
            at = [self.random.randrange(len(refs)) for _ in range(self.random.randint(0, min(4, len(refs))))]
            x = self.random.randint(0, 9)
            values.append(sum(values[i] for i in at) + x)
            kind = self.random.random()
            if kind < 0.1:
                refs.append(self.client.put(values[-1]))
                continue
            total = self.add(*[refs[i] for i in at], x)
            if kind < 0.3:
                total = self.spread(total, self.array_length)
            elif kind < 0.5 and actors:
                total = self.random.choice(actors)(total)
            refs.append(total)
        self.n_tasks += len(refs)
        return refs, values

    def round(self) -> None:
        actors = [self.client.submitter(self.echo_method, self.one, max_retries=-1, actor=self.client.create_actor(
            self.echo_class, self.placed, (), {}, meta=("Echo",), max_restarts=-1, max_task_retries=-1))
            for _ in range(self.random.randint(0, 2))]
        refs, values = self.graph(actors)
        end = time.monotonic() + STUCK_S
        while True:
            if self.random.random() < 0.7:
                self.kill_one()
            if len(self.pids) < N_WORKERS + len(actors) + 2:
                self.spawn()
            self.reap()
            if not self.client.wait(refs, len(refs), 0.01 * self.random.random())[1]:
                break
            if time.monotonic() > end:
                raise AssertionError(f"seed {self.seed}: stuck: {self.client.check()} {self.client.tasks(5)} {self.client.actors()} "
                                     f"{self.client.clients()} {self.client.resources()}")
        self.n_moved += self.client.stats()["n_on_disk"]
        got = [number(self.client.get(ref)) for ref in refs]
        assert got == values, f"seed {self.seed}: wrong results"
        assert self.client.check() == [], f"seed {self.seed}: {self.client.check()}"

    def nothing_left(self) -> bool:
        self.reap()
        for name in self.client.unwanted_files(os.listdir(self.folder)) if self.folder else ():
            os.unlink(os.path.join(self.folder, name))
        stats = self.client.stats()
        return stats["n_tasks"] == 0 and stats["n_objects"] == 4  # two functions, the class and its method

    def close(self) -> None:
        end = time.monotonic() + 10
        while not self.nothing_left():
            assert time.monotonic() < end, f"seed {self.seed}: left behind: {self.client.stats()} {self.client.objects()}"
            time.sleep(0.01)
        assert self.client.check() == []
        takeovers, n_files = self.client.stats()["n_takeovers"], len(os.listdir(self.folder)) if self.folder else 0
        assert n_files == 0, f"seed {self.seed}: {n_files} files left behind"
        moved = f", {self.n_moved} objects on disk at the ends of rounds" if self.folder else ""
        self.client.end_session()
        for pid in self.pids:
            os.waitpid(pid, 0)
        print(f"seed {self.seed}: {self.n_kills} kills, {self.n_tasks} tasks, {takeovers} deaths inside the lock{moved}: nothing wrong, "
              "nothing left")


def main() -> None:
    seed, n_kills = int(sys.argv[1]), int(sys.argv[2])
    stress = Stress(seed, sys.argv[3] if len(sys.argv) > 3 else "")
    while stress.n_kills < n_kills:
        stress.round()
    stress.close()


if __name__ == "__main__":
    main()
