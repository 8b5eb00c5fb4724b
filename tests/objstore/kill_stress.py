"""Random task graphs while workers and drivers are killed at random instants; every result is compared with what it
must be.

    python tests/objstore/kill_stress.py SEED N_KILLS          # everything in memory
    python tests/objstore/kill_stress.py SEED N_KILLS FOLDER   # large arrays, a small store that moves them there

Plain processes around the extension alone: this program plays one driver and the scheduler; its forks are the workers
and further drivers. Whoever is killed may be putting, getting, submitting, waiting, yielding, calling an actor, or
offloading values (kill_work.py). It must have one thread, so it runs in a process of its own. Exit status 0 and a
line of figures, or a traceback with the seed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cellmesh.objstore import _core

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # PYTHONSAFEPATH leaves the one out
from objstore import kill_work

N_WORKERS = 3
N_DRIVERS = 2
MOST_WORKERS = 60  # some wait in a task for an actor that needs a worker, too
STUCK_S = 60.0


class Stress:
    """One segment, its processes, and the kills."""

    def __init__(self, seed: int, folder: str) -> None:
        self.seed, self.folder = seed, folder
        self.random = random.Random(seed)
        self.n_kills = self.n_drivers_killed = self.n_tasks = self.n_moved = self.n_started = 0
        self.array_length = 20_000 if folder else 3000
        self.fd = _core.create_segment(6 << 20 if folder else 1 << 28, n_objects=1 << 16, n_tasks=1 << 16)
        self.scheduler = _core.Client(self.fd, _core.ROLE_SCHEDULER, kill_work.Hooks)
        self.client = kill_work.attach(self.fd, _core.ROLE_DRIVER)
        self.client.set_total({"CPU": N_WORKERS + 1})
        self.client.set_offload(folder, 1 << 30)
        self.one, self.placed = (
            self.client.resource_class({"CPU": 1}).shape,
            self.client.resource_class({"CPU": 1}, {}).shape,
        )
        self.code = kill_work.export(self.client)
        self.names = {name: ref.hex() for name, ref in self.code.items()}
        self.driver = kill_work.Driver(self.client, self.code, self.one, self.placed, str(seed), self.array_length)
        self.workers: set[int] = set()
        self.drivers: set[int] = set()
        self.fill_up()

    # ---- processes
    def start(self, life: Callable[[], None]) -> int:
        self.n_started += 1
        pid = os.fork()
        if pid:
            return pid
        try:
            _core.set_death_signal(signal.SIGKILL)  # goes with this program, however that ends
            life()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    def drive(self) -> None:
        client = kill_work.attach(self.fd, _core.ROLE_DRIVER)
        code = {name: client.find(ref) for name, ref in self.names.items()}
        kill_work.Driver(client, code, self.one, self.placed, f"{self.seed} {self.n_started}", self.array_length).live()

    def fill_up(self, n_drivers: int = N_DRIVERS) -> None:
        wanted = max(N_WORKERS, min(len(self.workers) + self.client.workers_wanted(), MOST_WORKERS))
        while len(self.workers) < wanted:
            self.workers.add(self.start(lambda: kill_work.serve(self.fd)))
        while len(self.drivers) < n_drivers:
            self.drivers.add(self.start(self.drive))

    def kill_one(self) -> None:
        pid = self.random.choice(sorted(self.workers | self.drivers))
        os.kill(pid, signal.SIGKILL)
        self.n_kills += 1
        self.n_drivers_killed += pid in self.drivers

    def reap(self) -> None:
        """Report those that have ended, as the scheduler does."""
        for pid in sorted(self.workers | self.drivers):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            code = os.waitstatus_to_exitcode(status)
            may_leave = pid in self.workers  # with its actor
            assert code == -signal.SIGKILL or (may_leave and code == 0), (
                f"seed {self.seed}: a process ended with {code}, see above"
            )
            self.workers.discard(pid)
            self.drivers.discard(pid)
            for index in [k["index"] for k in self.client.clients() if k["pid"] == pid]:
                self.scheduler.client_died(index, code)

    # ---- rounds
    def round(self) -> None:
        actors = self.driver.actors()
        refs, values = self.driver.graph(actors, self.random.randint(1, 100))
        streams = self.driver.streams()
        self.n_tasks += len(refs)
        began = time.monotonic()
        while True:
            took = time.monotonic() - began
            if self.random.random() < 0.7 / (
                1 + took
            ):  # where all is slow, work would be killed for ever before it is done
                self.kill_one()
            self.reap()
            self.fill_up()
            for stream in streams:
                if not stream.ended:
                    stream.read(0)
            waits = self.client.wait(refs, len(refs), 0.01 * self.random.random())[1]
            if not waits and all(stream.ended for stream in streams):
                break
            if took > STUCK_S:
                raise AssertionError(
                    f"seed {self.seed}: stuck: {self.client.check()} {self.client.tasks(5)} {self.client.actors()} "
                    f"{self.client.clients()} {self.client.resources()}"
                )
        self.n_moved += self.client.stats()["n_offloaded"]
        self.compare(refs, values)
        assert self.client.check() == [], f"seed {self.seed}: {self.client.check()}"

    def compare(self, refs: list[Any], values: list[int]) -> None:
        got = [kill_work.number(self.client.get(ref)) for ref in refs]
        assert got == values, f"seed {self.seed}: wrong results"

    # ---- the end
    def nothing_left(self) -> bool:
        self.reap()
        self.fill_up(n_drivers=0)  # what dead drivers have submitted is done
        for name in self.client.unwanted_files(os.listdir(self.folder)) if self.folder else ():
            os.unlink(os.path.join(self.folder, name))
        stats = self.client.stats()
        return stats["n_tasks"] == 0 and stats["n_objects"] == len(self.code)

    @property
    def n_offloaded(self) -> int:
        """Objects that lay there when a round ended, or when they were freed."""
        return self.n_moved + int(self.client.stats()["n_offloaded_freed"])

    def close(self) -> None:
        for pid in self.drivers:
            os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + STUCK_S
        while not self.nothing_left():
            assert time.monotonic() < end, (
                f"seed {self.seed}: left behind: {self.client.stats()} {self.client.objects()}"
            )
            time.sleep(0.01)
        assert self.client.check() == []
        takeovers, n_files = self.client.stats()["n_takeovers"], len(os.listdir(self.folder)) if self.folder else 0
        assert n_files == 0, f"seed {self.seed}: {n_files} files left behind"
        moved = (
            f", {self.n_offloaded} objects offloaded at the ends of rounds, or of their lives" if self.folder else ""
        )
        self.client.end_session()
        for pid in self.workers:
            os.waitpid(pid, 0)
        print(
            f"seed {self.seed}: {self.n_kills} kills, {self.n_drivers_killed} of them of drivers, {self.n_tasks} "
            f"pieces of work, {takeovers} deaths inside the lock{moved}: nothing wrong, nothing left"
        )


def main() -> None:
    seed, n_kills = int(sys.argv[1]), int(sys.argv[2])
    stress = Stress(seed, sys.argv[3] if len(sys.argv) > 3 else "")
    while stress.n_kills < n_kills or (
        stress.folder and not stress.n_offloaded
    ):  # on a slow machine a round or two have all the kills
        stress.round()
    stress.close()


if __name__ == "__main__":
    main()
