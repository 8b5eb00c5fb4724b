"""A session whose segment is overwritten at random places, by a task or by the driver itself: whatever the driver then
does gives the right value or a typed error, and it neither dies of a signal nor waits for longer than it was told to.

    python tests/runtime/objects/stray_writes.py BEGIN END [MODE ...]    # seeds; MODE: task, driver

Each seed is a driver of its own, `stray_writes.py --one SEED MODE`, which prints what each of its operations came to.
At the end there is a table. Exit status 1: a driver died, or was not done in time. A wrong value is told, and no
failure: its bytes may have been overwritten.
"""

from __future__ import annotations

import collections
import faulthandler
import itertools
import json
import mmap
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

MODES = ("task", "driver")
WAIT_S, LIMIT_S, N_AT_ONCE, N_WRITES = 3.0, 120.0, 2, 18

# objstore/core/layout.h: where the header says that a table begins, and how many of its slots were used; bytes of a
# slot.
CLASSES, CLIENTS, ACTORS, OBJECTS, TASKS = (
    (48, 224, 720),
    (56, None, 128),
    (64, 220, 128),
    (72, 204, 128),
    (80, 212, 128),
)
LOCK, ARENA, HEADER_USED = 128, 872, 1200
UNIT = 64


class Memory:
    """The words of a segment, of this process or of another."""

    def __init__(self, fd: int) -> None:
        self.map = mmap.mmap(fd, os.fstat(fd).st_size)

    def word(self, at: int, form: str = "<Q") -> int:
        value: int = struct.unpack_from(form, self.map, at)[0]
        return value

    def slots(self, table: tuple[int, int | None, int]) -> tuple[int, int]:
        begin, used, size = table
        return self.word(begin), size * (8 if used is None else self.word(used, "<I"))

    def chunks(self, at: int) -> Iterator[tuple[int, int]]:
        """Header and payload size of each chunk of the arena, from its first on."""
        while at + 2 * UNIT <= len(self.map):
            size = self.word(at + 8)
            if not size or size % UNIT or at + UNIT + size > len(self.map):
                return
            yield at, size
            at += UNIT + size

    def places(self) -> list[tuple[int, int]]:
        """Parts of the segment that somebody follows, each as often as it shall be hit."""
        parts = [(0, HEADER_USED), *(self.slots(table) for table in (CLASSES, CLIENTS, ACTORS, OBJECTS, TASKS))]
        for at, size in itertools.islice(self.chunks(self.word(ARENA)), 200):
            parts += [(at, UNIT), (at + UNIT, min(size, 256))]
        n_tables = 6
        return parts[:n_tables] * max(1, len(parts) // n_tables) + parts[n_tables:]

    def scribble(self, seed: int, lock_too: bool) -> None:
        rng = random.Random(seed)
        places = [part for part in self.places() if part[1] >= 8]
        for _ in range(rng.randint(1, N_WRITES)):
            begin, length = rng.choice(places)
            size = rng.choice((1, 2, 4, 4, 8, 8))
            at = (begin + rng.randrange(length)) // size * size
            value = rng.choice(
                (
                    rng.getrandbits(64),
                    rng.randrange(40),
                    2**64 - 1,
                    0,
                    1 << rng.randrange(64),
                    self.word(begin + rng.randrange(length) // 8 * 8),
                    rng.randrange(len(self.map)) // UNIT * UNIT,
                )
            )
            if lock_too or not LOCK <= at < LOCK + UNIT:
                self.map[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")


def drive(seed: int, mode: str) -> None:
    """One driver."""
    import numpy as np

    import cellmesh as cm
    from cellmesh import state
    from cellmesh.exceptions import CellmeshError
    from cellmesh.session.current import running

    faulthandler.enable()
    rng = random.Random(seed)
    cm.init(num_cpus=2, object_store_memory=64 << 20)

    @cm.remote
    def double(x: Any) -> Any:
        return x * 2

    @cm.remote
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    @cm.remote
    def overwrite(path: str, lock_too: bool) -> None:
        Memory(os.open(path, os.O_RDWR)).scribble(seed, lock_too)

    @cm.remote
    class Counter:
        def __init__(self) -> None:
            self.n = 0

        def add(self) -> int:
            self.n += 1
            return self.n

    seen: collections.Counter[str] = collections.Counter()
    wrong: list[str] = []

    def look(name: str, right: Any, work: Callable[[], Any]) -> None:
        began = time.monotonic()
        try:
            value = work()
            is_right = right is None or (
                np.array_equal(value, right) if isinstance(right, np.ndarray) else value == right
            )
            seen["right" if is_right else "wrong"] += 1
            if not is_right:
                wrong.append(f"{name}: {value!r:.100}")
        except CellmeshError as error:
            seen[type(error).__name__] += 1
        except Exception as error:  # it is told which
            seen["untyped"] += 1
            wrong.append(f"{name}: {type(error).__name__}: {error!s:.150}")
        if time.monotonic() - began > 10 * WAIT_S:
            seen["late"] += 1
            wrong.append(f"{name}: {time.monotonic() - began:.0f} s")

    values = [7, "text" * 30, np.arange(1000), np.arange(20_000), {"a": [1, 2]}, list(range(3000))]
    refs = [cm.put(value) for value in values]
    nested = [cm.put([ref, ref]) for ref in refs]
    chains = [double.remote(double.remote(i)) for i in range(20)]
    counter, stream = Counter.remote(), count.remote(20)
    cm.get([counter.add.remote(), *chains], timeout=60)
    next(stream)
    held = [double.remote(i) for i in range(50)]
    lock_too = rng.random() < 0.1
    fd = running().node.fd
    if mode == "task":
        look(
            "overwrite",
            None,
            lambda: cm.get(overwrite.remote(f"/proc/{os.getpid()}/fd/{fd}", lock_too), timeout=WAIT_S),
        )
    else:
        Memory(fd).scribble(seed, lock_too)

    def drop() -> None:
        for kept in (refs, nested, held):
            if len(kept) > 1:
                del kept[rng.randrange(1, len(kept))]

    def read_stream() -> list[int]:
        items = count.remote(5)
        return [cm.get(items.next(WAIT_S), timeout=WAIT_S) for _ in range(5)]

    ways: list[tuple[str, Any, Callable[[], Any]]] = [
        ("put", 5, lambda: cm.get(cm.put(5), timeout=WAIT_S)),
        ("put array", values[3], lambda: cm.get(cm.put(values[3]), timeout=WAIT_S)),
        ("get", 7, lambda: cm.get(refs[0], timeout=WAIT_S)),
        ("get all", None, lambda: [cm.get(ref, timeout=WAIT_S) for ref in refs]),
        ("get nested", None, lambda: [cm.get(ref, timeout=WAIT_S) for ref in nested]),
        ("submit", [i * 2 for i in range(30)], lambda: cm.get([double.remote(i) for i in range(30)], timeout=WAIT_S)),
        ("dependent", 12, lambda: cm.get(double.remote(double.remote(3)), timeout=WAIT_S)),
        ("large argument", None, lambda: cm.get(double.remote(refs[-1]), timeout=WAIT_S)),
        ("chains", [i * 4 for i in range(20)], lambda: cm.get(chains, timeout=WAIT_S)),
        ("wait", None, lambda: cm.wait(held, num_returns=len(held), timeout=WAIT_S)),
        ("drop", None, drop),
        ("call", None, lambda: cm.get(counter.add.remote(), timeout=WAIT_S)),
        ("actor", 1, lambda: cm.get(Counter.remote().add.remote(), timeout=WAIT_S)),
        ("stream", list(range(5)), read_stream),
        ("objects", None, state.list_objects),
        ("tasks", None, state.list_tasks),
        ("actors", None, state.list_actors),
        ("memory", None, state.memory),
        ("check", None, lambda: running().client.check()),
    ]
    for name, right, work in rng.choices(ways, k=40):
        print("+", name, flush=True)
        look(name, right, work)
        if seen["StoreCorruptedError"] > 4:
            break
    print("+ shutdown", flush=True)
    look("shutdown", None, cm.shutdown)
    print(json.dumps({"seen": seen, "wrong": wrong}), flush=True)


def outcome(seed: int, mode: str) -> tuple[str, str]:
    """In a word, and what is worth knowing of it."""
    command = [sys.executable, __file__, "--one", str(seed), mode]
    driver = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
    )
    try:
        out, err = driver.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.kill(driver.pid, signal.SIGABRT)  # faulthandler tells where it is
        time.sleep(1)
        driver.kill()
        out, err = driver.communicate()
        return "hang", f"at {out.splitlines()[-1:]}\n{err[-3000:]}"
    if driver.returncode < 0:
        return signal.Signals(-driver.returncode).name, f"at {out.splitlines()[-1:]}\n{err[-3000:]}"
    if driver.returncode:
        return "status", f"{driver.returncode} at {out.splitlines()[-1:]}\n{err[-2000:]}"
    found = json.loads(out.splitlines()[-1])
    seen, text = found["seen"], "; ".join(found["wrong"])
    for word in ("late", "wrong", "untyped", "StoreCorruptedError"):
        if word in seen:
            return word, text
    return ("other error" if set(seen) - {"right"} else "right"), " ".join(sorted(set(seen) - {"right"}))


def main(arguments: list[str]) -> int:
    if arguments[0] == "--one":
        drive(int(arguments[1]), arguments[2])
        return 0
    begin, end, modes = int(arguments[0]), int(arguments[1]), arguments[2:] or list(MODES)
    table: dict[str, collections.Counter[str]] = {mode: collections.Counter() for mode in modes}
    with ThreadPoolExecutor(N_AT_ONCE) as pool:
        runs = [(seed, mode) for seed in range(begin, end) for mode in modes]
        for (seed, mode), (word, text) in zip(runs, pool.map(lambda run: outcome(*run), runs), strict=True):
            table[mode][word] += 1
            print(f"{seed} {mode}: {word} {text}", flush=True)
    for mode, counts in table.items():
        print(f"{mode}: " + ", ".join(f"{n} {word}" for word, n in counts.most_common()))
    return int(any(re.match("SIG|hang|status|late", word) for counts in table.values() for word in counts))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
