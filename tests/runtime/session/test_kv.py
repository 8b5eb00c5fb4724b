"""The key-value store of a session on one machine. What a cluster's does otherwise is in cluster/test_cluster_kv.py."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

import cellmesh
from cellmesh.exceptions import GetTimeoutError, StoreLimitError
from cellmesh.session import kv_file
from cellmesh.session.current import running
from cellmesh.util import kv

pytestmark = [pytest.mark.timeout(90), pytest.mark.session("shared")]


def file() -> Path:
    return Path(running().node.session_dir, kv_file.NAME)


@cellmesh.remote
def increment(times):
    for _ in range(times):
        while not kv.compare_and_set("n", old := kv.get("n"), str(int(old or 0) + 1)):
            pass


@cellmesh.remote
def look(key):
    return kv.get(key), kv.put("from a task", b"\x00\xff")


def test_every_operation(cm: ModuleType) -> None:
    assert kv.get("a") is None and kv.get("a", 7) == 7 and not kv.exists("a") and not kv.delete("a") and kv.keys() == []
    assert kv.put("a", "text") and kv.get("a") == "text" and kv.exists("a")
    assert kv.put("a", b"bytes") and kv.get("a") == b"bytes"
    assert not kv.put("a", "x", overwrite=False) and kv.put("b", "", overwrite=False)
    assert kv.get("a") == b"bytes" and kv.get("b", "default") == ""
    assert not kv.compare_and_set("a", "bytes", "x"), "text is not bytes"
    assert not kv.compare_and_set("a", None, "x") and not kv.compare_and_set("c", "x", "y")
    assert kv.compare_and_set("a", b"bytes", "x") and kv.compare_and_set("c", None, "y")
    assert (kv.get("a"), kv.get("c")) == ("x", "y") and kv.keys() == ["a", "b", "c"]
    assert kv.delete("a") and not kv.exists("a")
    assert cm.get(look.remote("c")) == ("y", True) and kv.get("from a task") == b"\x00\xff"


@pytest.mark.session("own")
def test_namespaces_and_prefixes_keep_apart(cm: ModuleType) -> None:
    names = ["x", "x/1", "x/ü", "X", 'x"', "x\\", "\x7f", "x\x7f", "日本", "日", "a\x00b", "%", "_"]
    for name in names:
        kv.put(name, name)
        kv.put(name, "other", namespace='n"1')
    kv.put("y", "only there", namespace="n")
    assert (
        kv.keys() == sorted(names) == kv.keys(namespace='n"1')
        and kv.keys(namespace="n") == ["y"]
        and kv.keys(namespace="x") == []
    )
    for prefix in ("x", "x/", "日", "", "x\\", "%", "z"):
        assert kv.keys(prefix) == sorted(name for name in names if name.startswith(prefix)), prefix
    assert all(kv.get(name) == name and kv.get(name, namespace='n"1') == "other" for name in names)


def test_increments_of_many_processes_are_all_counted(cm: ModuleType) -> None:
    cm.get([increment.options(num_cpus=0.5).remote(25) for _ in range(4)])
    assert kv.get("n") == "100"


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: kv.put("a", {"lr": 0.1}), TypeError, "json.dumps"),
        (lambda: kv.put("a", bytearray(3)), TypeError, "bytearray"),
        (lambda: kv.put("a", "ü" * 500_001), ValueError, "value of 1,000,002 bytes: at most 1,000,000"),
        (lambda: kv.compare_and_set("a", 3, "x"), TypeError, "expected=3"),
        (lambda: kv.put(3, "x"), TypeError, "key=3"),
        (lambda: kv.put("", "x"), ValueError, "at least one character"),
        (lambda: kv.get("k" * 257), ValueError, "257 characters, and at most 256"),
        (lambda: kv.keys(namespace="k" * 257), ValueError, "namespace"),
        (lambda: kv.keys(namespace=None), TypeError, "namespace=None"),
    ],
)
def test_what_is_wrong_is_named(cm: ModuleType, call, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
    assert kv.put("a", "x" * 1_000_000) and len(kv.get("a")) == 1_000_000


def test_the_first_use_starts_a_session_and_its_end_takes_everything() -> None:
    kv.put("a", "x")
    path = file()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and [p.name for p in path.parent.glob("kv*")] == ["kv.db"]
    cellmesh.shutdown()
    assert not path.parent.exists()
    assert kv.get("a") is None
    cellmesh.shutdown()


def test_a_store_that_is_full_says_so_and_goes_on(cm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_file, "MAX_BYTES", 64 << 10)
    with pytest.raises(StoreLimitError, match="key-value store is full"):
        for i in range(100):
            kv.put(str(i), b"x" * 10_000)
    assert kv.get("0") == b"x" * 10_000 and kv.delete("0") and kv.put("0", b"y" * 9_000)


def test_too_many_keys_for_one_answer(cm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_file, "MAX_KEYS_REPLIED", 3)
    for name in ("a1", "a2", "b1", "b2"):
        kv.put(name, "")
    with pytest.raises(ValueError, match="longer prefix"):
        kv.keys()
    assert kv.keys("a") == ["a1", "a2"]


HALFWAY = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA synchronous = OFF")
db.execute("PRAGMA cache_size = 1")  # what does not fit is written before the commit
db.execute("BEGIN IMMEDIATE")
for i in range(200):
    db.execute("UPDATE entries SET value = zeroblob(20000)")
print("halfway", flush=True)
sys.stdin.read()
"""


def test_a_process_that_is_stopped_or_killed_halfway(cm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_file, "BUSY_S", 0.1)
    for i in range(20):
        kv.put(f"k{i}", f"{i}" * 5000)
    with subprocess.Popen(
        [sys.executable, "-c", HALFWAY, str(file())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "halfway\n"
        with pytest.raises(GetTimeoutError, match="held by another process"):
            kv.put("k0", "x")
        os.kill(other.pid, signal.SIGKILL)
    assert [kv.get(f"k{i}") for i in range(20)] == [f"{i}" * 5000 for i in range(20)] and kv.put("k0", "x")
    with closing(sqlite3.connect(file())) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
