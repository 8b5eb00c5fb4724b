"""Power is lost at any moment while the control store writes to its SQLite file, or its process is killed there: it
opens again, holds all that was acknowledged, and is what it was after one of its changes. The same for the files that
say what a cluster is, and who may come in.

What the real store does to its files is written down (`write_log.c`); images of the disk after a loss of power are made
of that (`crash_images`), and the real store opens each. CELLMESH_CRASH_IMAGES and CELLMESH_STORE_KILLS say how many.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cellmesh.scheduler.cluster.net.keys import known
from cellmesh.scheduler.cluster.store.address import open_store
from cellmesh.scheduler.cluster.store.control_store import ControlStoreError
from cluster.store.crash_images import MODES, Disk, Record, read_log
from msgspec import msgpack

N_IMAGES = int(os.environ.get("CELLMESH_CRASH_IMAGES", "300"))
N_KILLS = int(os.environ.get("CELLMESH_STORE_KILLS", "24"))
OF_A_RECORDING = 300
LIVES = (
    "leave",
    "close",
    "leave",
    "leave",
)  # how each ends: with a write-ahead log that the next one reads, or without
CHANGES_OF_A_LIFE = 50
STRICT = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-shared", "-fPIC"]

# One life of a head: changes of all kinds. The write-ahead log is taken over often, so that this happens at many
# moments.
LIFE = """
import ctypes, os, random, sys
from msgspec import msgpack
from cellmesh.scheduler.cluster.store import control_store, sqlite as sqlite_backend
from cellmesh.scheduler.cluster.messages import Member, StoreRequest
path, seed, n, end, more = sys.argv[1:]
note = ctypes.CDLL(None).write_log_note
note.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]

class Noted(sqlite_backend.SqliteBackend):
    def commit(self, changes, life):
        what = msgpack.encode(dict(changes))
        note(b"begin", what, len(what))
        super().commit(changes, life)
        note(b"done", b"", 0)

dice, backend = random.Random(seed), Noted(path)
backend._db.execute("PRAGMA wal_autocheckpoint = 20")
for pragma in filter(None, more.split(";")):
    backend._db.execute(pragma)
store = control_store.ControlStore(backend)
store.begin_life()
first = store.epoch * 10_000
for i in range(int(n)):
    what, node, key = dice.random(), dice.randrange(1, 5), dice.choice("abcdefgh")
    if what < 0.15:
        who = Member(
            100 * store.epoch + node, "tcp://10.0.0.1:1", b"k" * 32, "h" * dice.randrange(100), {"CPU": 40_000}, {}
        )
        store.remember(who, dice.random() < 0.2)
    elif what < 0.25:
        store.evict(node, "silent for 10 s")
    else:
        operation = dice.choice(("put", "put", "put", "claim", "delete", "swap"))
        value = os.urandom(dice.choice((3, 100, 3000, 20_000)))
        entry = store._tables.get("kv", {}).get(key)
        expected = entry.value if entry is not None else b""
        store.perform(StoreRequest(first + i, node, "kv", operation, key, value, dice.random() < 0.3, expected))
if end == "close":
    store.close()
os._exit(0)
"""


@dataclass
class Recording:
    """Where a store was, and what was done to it. `states`: what it held before any change, and after each."""

    folder: Path
    log: list[Record]
    states: list[dict[str, bytes]] = field(default_factory=lambda: [{}])

    def __post_init__(self) -> None:
        for record in self.log:
            if record.kind == "begin":
                changes = msgpack.decode(record.data)
                self.states.append(
                    {key: value for key, value in (self.states[-1] | changes).items() if value is not None}
                )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`write_log.c`, to be preloaded."""
    made = tmp_path_factory.mktemp("library") / "write_log.so"
    subprocess.run(["cc", *STRICT, str(Path(__file__).with_name("write_log.c")), "-o", str(made), "-ldl"], check=True)
    return made


def logged(library: Path, folder: Path, log: Path, **more: str) -> dict[str, str]:
    """The environment of a process whose writes below that folder are written down."""
    return {**os.environ, "LD_PRELOAD": str(library), "CRASH_FOLDER": str(folder), "CRASH_LOG": str(log), **more}


def live(library: Path, folder: Path, seed: int, n: int, end: str, more: str = "", at: int = 0) -> int:
    """One life of a head with its control store in that folder; the exit status."""
    command = [sys.executable, "-c", LIFE, str(folder / "control.db"), str(seed), str(n), end, more]
    done = subprocess.run(
        command,
        env=logged(library, folder, folder.with_suffix(".log"), CRASH_AT=str(at)),
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def record(library: Path, folder: Path, seed: int, more: str = "") -> Recording:
    folder.mkdir()
    for i, end in enumerate(LIVES):
        assert live(library, folder, 100 * seed + i, CHANGES_OF_A_LIFE, end, more) == 0
    return Recording(folder, read_log(folder.with_suffix(".log")))


def images(recording: Recording, n: int, dice: random.Random) -> list[str]:
    """Open so many images, at as many moments as there are; what is wrong with them."""
    # One moment or more in each stretch of the log, in order.
    moments = sorted(int((i + dice.random()) * len(recording.log) / n) for i in range(n))
    disk, taken, begun, done, wrong = Disk(), 0, 0, 0, []
    for i, moment in enumerate(moments):
        for each in recording.log[taken : moment + 1]:
            disk.take(each)
            begun += each.kind == "begin"
            done += each.kind == "done"
        taken = moment + 1
        mode = MODES[i % len(MODES)]
        allowed = [recording.states[k] for k in range(done, begun + 1)]
        assert len(allowed) <= 2
        if fault := fault_of(disk.image(dice, mode), recording.folder.with_suffix(".image"), allowed):
            wrong.append(f"after {moment + 1} of {len(recording.log)} steps, of what was not synced {mode}: {fault}")
    return wrong


def fault_of(image: dict[str, bytes], folder: Path, allowed: list[dict[str, bytes]]) -> str:
    """What is wrong with it; "" if the store opens it, holds one of these, and goes on."""
    lay_out(image, folder)
    try:
        try:
            store = open_store(str(folder / "control.db"), "c")
        except ControlStoreError as error:
            return str(error)
        found = store._backend.load()
        try:
            if found not in allowed:
                return told_apart(found, allowed)
            return "" if store.begin_life() == int(found.get("life", b"0")) + 1 else "the lives are counted wrong"
        finally:
            store.close()
    finally:
        shutil.rmtree(folder)


def lay_out(image: dict[str, bytes], folder: Path) -> None:
    folder.mkdir()
    for name, data in image.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o600)


def told_apart(found: dict[str, bytes], allowed: list[dict[str, bytes]]) -> str:
    lost = [
        key for key, value in allowed[0].items() if found.get(key) != value and all(key in state for state in allowed)
    ]
    return (
        f"it holds {len(found)} records, and none of {[len(state) for state in allowed]} is like it; not as it was "
        f"acknowledged: {lost[:5]}"
    )


@pytest.mark.timeout(max(120, N_IMAGES))
def test_every_image_after_a_loss_of_power_opens_and_holds_what_was_acknowledged(library: Path, tmp_path: Path) -> None:
    n_steps, n_changes, kinds = 0, 0, Counter[str]()
    for seed in range((N_IMAGES + OF_A_RECORDING - 1) // OF_A_RECORDING):
        recording = record(library, tmp_path / f"r{seed}", seed)
        disk = Disk()
        for each in recording.log:
            disk.take(each)
        assert disk.whole() == {path.name: path.read_bytes() for path in recording.folder.iterdir()}, (
            "the log is complete"
        )
        assert not images(recording, min(OF_A_RECORDING, N_IMAGES - seed * OF_A_RECORDING), random.Random(seed))
        n_steps, n_changes = n_steps + len(recording.log), n_changes + len(recording.states) - 1
        kinds += Counter(f"{each.kind} {Path(each.path).suffix}" for each in recording.log if each.path)
        shutil.rmtree(recording.folder)
    print(f"{N_IMAGES} images of {n_changes} changes in {n_steps} steps, which were {dict(kinds)}")


@pytest.mark.parametrize("how", ["OFF", "NORMAL"])
def test_a_store_that_syncs_less_is_caught(library: Path, tmp_path: Path, how: str) -> None:
    recording = record(library, tmp_path / "r", 1, f"PRAGMA synchronous = {how}")
    assert len(images(recording, 60, random.Random(1))) > 10


BEGINNING = """
import ctypes, os
from cellmesh.scheduler.cluster.net import keys, sockets
note = ctypes.CDLL(None).write_log_note
note.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]

def done(what):
    note(b"done", what.encode(), len(what))

cluster = keys.Cluster.begin("127.0.0.1:7421", sockets.new_pair, "redis://h")
done("cluster " + cluster.name)
for _ in range(3):
    machine = sockets.new_pair().public
    cluster.let_in(machine, "h")
    done("machine " + machine.hex())
cluster.set_timeouts(5.0, None)
done("timeout")
"""


def test_a_cluster_and_machines_that_were_let_in_are_there_after_a_loss_of_power(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, dice = tmp_path / "cellmesh" / "clusters", random.Random(1)
    subprocess.run(
        [sys.executable, "-c", BEGINNING],
        env=logged(library, folder, tmp_path / "log", XDG_STATE_HOME=str(tmp_path)),
        check=True,
    )
    log = read_log(tmp_path / "log")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for i in range(len(log)):
        disk = Disk()
        for each in log[: i + 1]:
            disk.take(each)
        done = [each.data.decode().split() for each in log[: i + 1] if each.kind == "done"]
        for mode in MODES:
            (tmp_path / "state" / "cellmesh").mkdir(parents=True, mode=0o700)
            lay_out(disk.image(dice, mode), tmp_path / "state" / "cellmesh" / "clusters")
            for each in (tmp_path / "state").rglob("*"):
                each.chmod(0o700 if each.is_dir() else 0o600)
            found = known()
            assert [["cluster", each.name] for each in found] == done[:1] or (not done and len(found) < 2), (i, mode)
            for cluster in found:
                assert (
                    cluster.has_head
                    and cluster.head_pair().public == cluster.head_key
                    and cluster.control_store == "redis://h"
                )
                assert cluster.members() >= {
                    cluster.own_pair().public,
                    *(bytes.fromhex(said[1]) for said in done if said[0] == "machine"),
                }, (i, mode)
                assert cluster.timeouts_s[0] == 5.0 or ["timeout"] not in done
            shutil.rmtree(tmp_path / "state")


@pytest.mark.timeout(max(120, 2 * N_KILLS))
def test_a_process_that_is_killed_at_any_step_loses_nothing_acknowledged(library: Path, tmp_path: Path) -> None:
    """Each life goes on with the files of the last. The library kills it before a step drawn from a seed: a write, a
    sync, a change of a name or size."""
    dice, folder, copy, state, n_killed = random.Random(1), tmp_path / "store", tmp_path / "copy", dict[str, bytes](), 0
    folder.mkdir()
    for life in range(N_KILLS):
        at = dice.choice((dice.randint(1, 20), dice.randint(1, 300)))
        n_killed += live(library, folder, life, CHANGES_OF_A_LIFE, dice.choice(LIVES), at=at) != 0
        log = folder.with_suffix(".log")
        recording = Recording(folder, read_log(log), [state])
        log.unlink()
        allowed = recording.states[sum(each.kind == "done" for each in recording.log) :]
        shutil.copytree(folder, copy)
        store = open_store(str(copy / "control.db"), "c")
        state = store._backend.load()
        store.close()
        shutil.rmtree(copy)
        assert len(allowed) <= 2 and state in allowed, told_apart(state, allowed)
    assert n_killed > N_KILLS // 2
    print(f"{n_killed} kills in {N_KILLS} lives, {len(state)} records in the end")
