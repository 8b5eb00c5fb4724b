"""One suite for every backend of the control store, and what only one of them can do.

CELLMESH_REDIS_ROUNDS=50 has Redis go and come back so often, instead of a few times.
"""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cellmesh.scheduler.cluster.messages import Member, StoreReply, StoreRequest
from cellmesh.scheduler.cluster.store import control_store
from cellmesh.scheduler.cluster.store import redis as redis_backend
from cellmesh.scheduler.cluster.store.address import open_store
from cellmesh.scheduler.cluster.store.control_store import (
    AwayError,
    ControlStore,
    ControlStoreError,
    DamagedError,
    FullError,
    ReplacedError,
)
from cluster.store.redis_server import RedisServer, running
from support.drivers import ends_well, program, says, tell
from support.real_machines import Machine, logs_of, machines
from support.waiting import wait_until

N_ROUNDS = int(os.environ.get("CELLMESH_REDIS_ROUNDS", "6"))
SLOW_S = 5.5


def who(node: int, hostname: str = "h") -> Member:
    return Member(node, "tcp://10.0.0.1:1", b"k" * 32, hostname, {"CPU": 40_000}, {"zone": "a"})


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    with running() as server:
        yield server


Opener = Callable[[], ControlStore]


@pytest.fixture(params=["sqlite", "redis"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the same store as often as wanted; the one before is closed."""
    if request.param == "sqlite":
        where = str(tmp_path / "control.db")
    else:
        where = f"unix://{request.getfixturevalue('redis_server').socket}"
    opened: list[ControlStore] = []

    def open_again() -> ControlStore:
        for store in opened:
            store.close()
        opened[:] = [open_store(where, "c")]
        return opened[0]

    yield open_again
    for store in opened:
        store.close()


@pytest.fixture
def store(opener: Opener) -> ControlStore:
    store = opener()
    store.begin_life()
    return store


class Client:
    """Makes requests with numbers of its own."""

    def __init__(self, store: ControlStore, node: int = 1) -> None:
        self.store, self.node, self.number = store, node, 0

    def __call__(
        self,
        operation: str,
        key: str,
        value: bytes = b"",
        table: str = "kv",
        lives_with: bool = False,
        expected: bytes = b"",
    ) -> StoreReply:
        self.number += 1
        return self.store.perform(
            StoreRequest(self.number, self.node, table, operation, key, value, lives_with, expected)
        )


# ---- the contract
def test_lives_are_counted_over_restarts(opener: Opener) -> None:
    assert [opener().begin_life() for _ in range(3)] == [1, 2, 3]


def test_members_and_the_dead_are_kept(opener: Opener, store: ControlStore) -> None:
    store.remember(who(1), False)
    store.remember(who(2), False)
    store.remember(who(2, "other"), True, True)
    store.remember(who(3), False, True)
    store.evict(3, "silent for 10 s")
    for found in (store, opener()):
        assert (
            found.members == [(who(1), False), (who(2, "other"), True)]
            and found.found == {2}
            and found.dead == {3: "silent for 10 s"}
        )


def test_only_the_last_of_the_dead_are_kept(
    opener: Opener, store: ControlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_store, "MOST_DEAD", 3)
    for node in (12, 3, 7, 3, 5, 9):
        store.evict(node, f"reason {node}")
    for found in (store, opener()):
        assert list(found.dead.items()) == [(3, "reason 3"), (5, "reason 5"), (9, "reason 9")]
    again = opener()
    again.begin_life()
    again.evict(1, "reason 1")
    assert list(opener().dead) == [5, 9, 1]


def test_an_eviction_looks_only_at_what_goes_with_the_node(
    store: ControlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at all there is, however much that may be: others wait."""
    ask, mine = Client(store), Client(store, 2)
    for i in range(50):
        ask("put", f"for good {i}", b"x", table="names")
    for i in range(3):
        assert mine("claim", f"with it {i}", b"x", table="names", lives_with=True).done
    assert mine("delete", "with it 1", table="names").done and mine("claim", "with it 1", b"y", table="names").done

    class Watched(dict):
        def items(self):
            raise AssertionError("it looks through a table")

        __iter__ = values = items

    monkeypatch.setattr(store, "_tables", {name: Watched(table) for name, table in store._tables.items()})
    store.evict(2, "it has left")
    names = store._tables["names"]
    assert "with it 0" not in names and "with it 2" not in names and len(names) == 51


def test_every_operation(opener: Opener, store: ControlStore) -> None:
    ask = Client(store)
    assert ask("get", "a") == StoreReply(1, False)
    assert ask("put", "a", b"1").done and ask("put", "a", b"2").done
    assert not ask("claim", "a", b"3").done and ask("claim", "b", b"4").done
    assert ask("claim", "b", b"5", table="names").done  # another table
    assert ask("get", "a").value == b"2" and ask("get", "b").value == b"4"
    assert ask("put", "ab/c", b"\x00\xff" * 1000).done
    assert not ask("swap", "a", b"9", expected=b"1").done and not ask("swap", "x", b"9").done
    assert ask("swap", "a", b"9", expected=b"2").done and ask("swap", "a", b"2", expected=b"9").done
    assert ask("keys", "a").keys == ["a", "ab/c"] and ask("keys", "").keys == ["a", "ab/c", "b"]
    assert not ask("keys", "x").done
    assert ask("delete", "a").done and not ask("delete", "a").done
    again = Client(opener())
    again.number = 1000
    assert again("keys", "").keys == ["ab/c", "b"] and again("get", "ab/c").value == b"\x00\xff" * 1000


def test_only_the_last_entries_of_jobs_and_runs_are_kept(
    opener: Opener, store: ControlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(control_store.KEPT, "jobs", 3)
    ask = Client(store)
    for i in range(6):
        ask("put", f"{i:03}", b"began", table="jobs")
        ask("put", f"{i:03}", b"began", table="kv")
    assert not ask("swap", "009", b"x", table="jobs").done and not ask("delete", "009", table="jobs").done
    ask("put", "004", b"ended", table="jobs")
    again = Client(opener())
    again.number = 1000
    for found in (ask, again):
        latest = found("latest", "", table="jobs")
        assert (
            latest.keys == ["005", "004", "003"] and latest.values == [b"began", b"ended", b"began"] and not latest.more
        )
        assert len(found("keys", "", table="kv").keys) == 6
        assert store._size == opener()._size


def test_listings_are_cut_and_say_so(store: ControlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Client(store)
    for i in range(5):
        ask("put", f"a{i}", b"x" * 100)
    ask("put", "b")
    monkeypatch.setattr(control_store, "MAX_REPLY_BYTES", 204)
    assert ask("latest", "a").keys == ["a4", "a3"] and ask("latest", "a").more
    assert len(ask("keys", "").keys) == 6 and not ask("keys", "").more
    monkeypatch.setattr(control_store, "MAX_KEYS_REPLIED", 5)
    assert ask("keys", "").more and not ask("keys", "a").more


@pytest.mark.parametrize("key", ["", "a/b", "a\nb", "ö\u4e2d", "x" * 1024, "entry/kv/a", "{}"])
def test_any_text_is_a_key(opener: Opener, store: ControlStore, key: str) -> None:
    assert Client(store)("put", key, b"v").done
    again = Client(opener())
    again.number = 10
    assert again("get", key).value == b"v" and again("keys", "").keys == [key]


def test_a_request_is_done_once_also_by_another_life(opener: Opener, store: ControlStore) -> None:
    claim = StoreRequest(7, 1, "names", "claim", "actor", b"mine")
    gone = StoreRequest(8, 1, "kv", "delete", "x")
    Client(store, 2)("put", "x", b"1")
    for _ in range(2):
        assert store.perform(claim).done and store.perform(gone).done
    Client(store, 2).store.perform(StoreRequest(5, 2, "kv", "put", "x", b"2"))
    other = opener()
    other.begin_life()
    assert other.perform(claim).done and other.perform(gone).done
    assert other.perform(StoreRequest(9, 1, "kv", "get", "x")).value == b"2"  # not deleted again
    assert not other.perform(StoreRequest(1, 3, "names", "claim", "actor")).done


def test_only_the_last_answers_are_kept(opener: Opener, store: ControlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_store, "N_ANSWERS", 8)
    ask = Client(store)
    for _ in range(50):
        ask("put", "a")
    assert len(store._answers[1]) == 8 and len(opener()._answers[1]) == 8


def test_what_lives_with_a_node_goes_with_it(opener: Opener, store: ControlStore) -> None:
    one, two = Client(store, 1), Client(store, 2)
    one("claim", "a", table="names", lives_with=True)
    one("claim", "detached", table="names")
    two("claim", "b", table="names", lives_with=True)
    store.evict(1, "x")
    for found in (store, opener()):
        assert found.perform(StoreRequest(99, 2, "names", "keys", "")).keys == ["b", "detached"]
        assert 1 not in found._answers


def test_there_are_bounds(store: ControlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Client(store)
    monkeypatch.setattr(control_store, "MAX_ENTRIES", 2)
    ask("put", "a")
    ask("put", "b")
    with pytest.raises(FullError, match="delete some"):
        ask("put", "c")
    assert ask("put", "a", b"2").done and ask("delete", "b").done and ask("put", "c").done
    monkeypatch.setattr(control_store, "MAX_BYTES", 2000)
    with pytest.raises(FullError):
        ask("put", "c", b"x" * 3000)
    assert ask("get", "c").value == b""


def test_a_head_that_has_been_replaced_changes_nothing(opener: Opener, store: ControlStore) -> None:
    store.remember(who(1), False)
    backend = store._backend
    later = {"life": b"2"}
    backend.commit(later, None)  # as another head's `begin_life` does
    for change in (
        lambda: store.remember(who(2), False),
        lambda: store.evict(1, "x"),
        lambda: Client(store)("put", "a"),
        store.begin_life,
    ):
        with pytest.raises(ReplacedError, match="Another head"):
            change()
    assert opener().members == [(who(1), False)]


def test_the_end_of_a_cluster_leaves_nothing(opener: Opener, store: ControlStore) -> None:
    store.remember(who(1), False)
    Client(store)("put", "a", b"1")
    store.end()
    again = opener()
    assert (again.members, again.dead, again.epoch) == ([], {}, 0) and again._backend.load() == {}


def test_nothing_is_changed_before_a_life_begins(opener: Opener) -> None:
    with pytest.raises(RuntimeError, match="begin_life"):
        opener().remember(who(1), False)


def test_a_later_format_is_refused(opener: Opener, store: ControlStore) -> None:
    store._backend.commit({"format": b"9"}, None)
    with pytest.raises(DamagedError, match="format 9"):
        opener()


def test_nonsense_is_refused(opener: Opener, store: ControlStore) -> None:
    store._backend.commit({"member/1": b"\xc1"}, None)
    with pytest.raises(DamagedError, match="makes no sense"):
        opener()


@pytest.mark.parametrize("seed", range(5))
def test_against_a_dict(opener: Opener, seed: int) -> None:
    """Random changes with restarts in between: what is there is what a dict would hold."""
    rng = random.Random(seed)
    store = opener()
    store.begin_life()
    model: dict[str, tuple[bytes, int]] = {}
    clients = {node: Client(store, node) for node in (1, 2, 3)}
    for _ in range(120):
        node, key, value = rng.choice((1, 2, 3)), rng.choice("abcd"), bytes([rng.randrange(4)])
        ask, lives = clients[node], rng.random() < 0.5
        expected = bytes([rng.randrange(4)])
        action = rng.choice(("put", "claim", "swap", "delete", "get", "evict", "restart"))
        if action == "restart":
            store = opener()
            store.begin_life()
            for client in clients.values():
                client.store = store
        elif action == "evict":
            store.evict(node, "x")
            model = {k: entry for k, entry in model.items() if entry[1] != node}
        else:
            reply = ask(action, key, value, lives_with=lives, expected=expected)
            there = key in model
            is_as_expected = there and model[key][0] == expected
            assert (
                reply.done
                == {"put": True, "claim": not there, "swap": is_as_expected, "delete": there, "get": there}[action]
            )
            assert action != "get" or reply.value == (model[key][0] if there else b"")
            if action == "put" or (action == "claim" and not there) or (action == "swap" and is_as_expected):
                model[key] = (value, node if lives else 0)
            elif action == "delete":
                model.pop(key, None)
        assert Client(store, 9)("keys", "").keys == sorted(model)


# ---- SQLite
def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    store = open_store(str(path), "c")
    store.begin_life()
    store.remember(who(1), False)
    assert {p.name for p in tmp_path.iterdir()} >= {"control.db", "control.db-wal"}
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    store.close()
    path.chmod(0o644)
    with pytest.raises(ControlStoreError, match="chmod 600"):
        open_store(str(path), "c")


def test_a_second_head_on_the_file_is_refused(tmp_path: Path) -> None:
    code = (
        "import sys; from cellmesh.scheduler.cluster.store.address import open_store; open_store(sys.argv[1], "
        "'c').begin_life()"
    )
    path = str(tmp_path / "control.db")
    store = open_store(path, "c")
    store.begin_life()
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.returncode == 1 and "in use by another head" in done.stderr
    store.close()


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    path.write_bytes(b"not a database, but long enough to look at" * 50)
    path.chmod(0o600)
    with pytest.raises(DamagedError, match=r"control.db is damaged"):
        open_store(str(path), "c")
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(ControlStoreError, match="cannot be opened"):
        open_store(str(link), "c")
    with pytest.raises(ControlStoreError, match="must be the path of a file, or redis://"):
        open_store("mysql://x", "c")


KILLED = """
import sys
from cellmesh.scheduler.cluster.store.address import open_store
from cellmesh.scheduler.cluster.messages import StoreRequest
store = open_store(sys.argv[1], "c")
store.begin_life()
for n in range(1, 1 << 30):
    store.perform(StoreRequest(n, 1, "kv", "put", f"{n:08}"))
    print(n, flush=True)
"""


@pytest.mark.parametrize("n", [1, 5, 40])
def test_what_was_acknowledged_before_a_kill_is_there(tmp_path: Path, n: int) -> None:
    path = str(tmp_path / "control.db")
    writer = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    told = [writer.stdout.readline() for _ in range(n)]
    writer.kill()
    told += writer.stdout.read().splitlines()
    writer.wait()
    writer.stdout.close()
    store = open_store(path, "c")
    keys = store.perform(StoreRequest(1, 2, "kv", "keys", "")).keys
    assert store.epoch == 1 and keys == [f"{k + 1:08}" for k in range(len(keys))] and len(keys) - len(told) in (0, 1)
    store.close()


# ---- Redis
def test_while_redis_is_away_reading_goes_on_and_writing_says_so(redis_server: RedisServer) -> None:
    store = open_store(f"unix://{redis_server.socket}", "c")
    store.begin_life()
    ask = Client(store)
    ask("put", "a", b"1")
    redis_server.kill()
    lost = StoreRequest(50, 1, "kv", "claim", "b", b"2")
    for _ in range(2):
        with pytest.raises(AwayError, match="nothing can be changed in it until it is back"):
            store.perform(lost)
    with pytest.raises(AwayError):
        store.remember(who(1), False)
    assert ask("get", "a").value == b"1" and ask("keys", "").keys == ["a"]
    redis_server.start()
    assert store.perform(lost).done and store.perform(lost).done and store.members == []
    store.remember(who(1), False)
    assert ask("get", "b").value == b"2"
    store.close()


def test_a_change_that_met_the_loss_is_seen_afterwards(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis is stopped, so the commit is in its socket and the head's patience ends; then it is done after all."""
    monkeypatch.setattr(redis_backend, "TIMEOUT_S", 0.3)
    store = open_store(f"unix://{redis_server.socket}", "c")
    store.begin_life()
    redis_server.process.send_signal(signal.SIGSTOP)
    claim = StoreRequest(50, 1, "names", "claim", "b", b"2")
    with pytest.raises(AwayError):
        store.perform(claim)
    redis_server.process.send_signal(signal.SIGCONT)
    wait_until(redis_server.answers)
    assert store.perform(claim).done
    assert not store.perform(StoreRequest(51, 1, "names", "claim", "b")).done
    store.close()


def test_nothing_acknowledged_is_lost_when_redis_is_killed(redis_server: RedisServer) -> None:
    store = open_store(f"unix://{redis_server.socket}", "c")
    store.begin_life()
    ask = Client(store)
    for round_number in range(3):
        for i in range(30):
            assert ask("put", f"{round_number}.{i}").done
        redis_server.kill()
        redis_server.start()
    store.close()
    again = open_store(f"unix://{redis_server.socket}", "c")
    assert len(again.perform(StoreRequest(1, 2, "kv", "keys", "")).keys) == 90
    again.close()


@pytest.mark.timeout(60 + 3 * N_ROUNDS)
def test_redis_is_killed_torn_and_stopped_at_any_moment_and_nothing_acknowledged_is_lost(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_backend, "TIMEOUT_S", 0.3)
    dice, where = random.Random(1), f"unix://{redis_server.socket}"
    store = open_store(where, "c")
    store.begin_life()
    done: list[str] = []
    seen = Counter[str]()

    def put() -> bool:
        """The next entry; False: for now it cannot be written, what is there can be read, and it is not there."""
        key = f"{len(done):05}"
        try:
            assert store.perform(StoreRequest(len(done) + 1, 1, "kv", "claim", key, key.encode())).done, (
                "it is done once, whichever life answered"
            )
        except AwayError:
            assert store.perform(StoreRequest(1, 2, "kv", "keys", "")).keys == done
            seen["away"] += 1
            return False
        done.append(key)
        return True

    for _ in range(N_ROUNDS):
        fault = dice.choice(("kill", "tear", "stop", "short stop"))
        pause, lasts_s = threading.Event(), {"stop": 0.7, "short stop": 0.1}.get(fault, 0.0)

        def go_wrong(
            fault: str = fault,
            after_s: float = dice.uniform(0, 0.03),
            pause: threading.Event = pause,
            lasts_s: float = lasts_s,
        ) -> None:
            pause.wait(after_s)
            if not lasts_s:
                redis_server.kill()
                return
            redis_server.process.send_signal(signal.SIGSTOP)
            pause.wait(lasts_s)
            redis_server.process.send_signal(signal.SIGCONT)

        thread = threading.Thread(target=go_wrong)
        thread.start()
        while put() and thread.is_alive():
            pass
        thread.join()
        if fault == "tear":
            redis_server.tear()
        if not lasts_s:
            assert not put()
            redis_server.start()
        wait_until(redis_server.answers)
        wait_until(put)
        seen[fault] += 1
        if dice.random() < 0.3:
            store.close()
            store = open_store(where, "c")
            store.begin_life()
        assert store.perform(StoreRequest(1, 2, "kv", "keys", "")).keys == done
    store.close()
    again = open_store(where, "c")
    assert again.perform(StoreRequest(1, 2, "kv", "keys", "")).keys == done
    again.close()
    print(f"{N_ROUNDS} rounds: {len(done)} entries, {dict(seen)}")


def test_a_redis_that_is_slow_for_five_seconds_costs_no_node(redis_server: RedisServer) -> None:
    """The head waits for it, longer than a node may be silent, and then gives all nodes time again; what was asked
    meanwhile is done.
    """
    with machines(Machine(), Machine()) as (here, mine):
        head = here.head("--control-store", f"unix://{redis_server.socket}", "--node-timeout", "2")
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            from cellmesh.util import kv
            assert kv.put("a", "1")
            print("there", flush=True)
            sys.stdin.readline()
            begun = time.monotonic()
            while True:
                try:
                    assert kv.put("b", "2")
                    break
                except cm.exceptions.ClusterError as error:
                    assert "cannot be reached" in str(error), error
            print(f"{time.monotonic() - begun:.1f} s", kv.get("a"), kv.get("b"), flush=True)
            sys.stdin.readline()
        """,
        )
        assert says(driver) == "there"
        nodes = set(here.alive())
        redis_server.process.send_signal(signal.SIGSTOP)
        end = time.monotonic() + SLOW_S
        tell(driver, "go")
        wait_until(lambda: time.monotonic() >= end, SLOW_S + 5)
        redis_server.process.send_signal(signal.SIGCONT)
        assert says(driver).endswith(" 1 2")
        end = time.monotonic() + 3
        wait_until(lambda: time.monotonic() >= end, 5)  # by then they would have been judged
        assert set(here.alive()) == nodes and "is no member any more" not in logs_of(here)
        tell(driver, "stop")
        ends_well(driver)


def test_a_head_whose_redis_may_lose_something_says_so() -> None:
    with running("everysec") as server, machines(Machine()) as (here,):
        here.head("--control-store", f"unix://{server.socket}")
        assert "Redis may lose up to two seconds of what it has acknowledged" in logs_of(here)


def test_clusters_share_a_redis(redis_server: RedisServer) -> None:
    one, two = (open_store(f"unix://{redis_server.socket}", name) for name in ("one", "two"))
    assert one.begin_life() == two.begin_life() == 1
    Client(one)("put", "a")
    assert not Client(two)("get", "a").done
    assert one._backend.warning == ""
    one.close()
    two.close()


def test_a_redis_that_is_not_there_is_named(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    with pytest.raises(AwayError, match="cannot be reached"):
        open_store(f"unix://{tmp_path}/none.sock", "c")
    with pytest.raises(ControlStoreError, match="makes no sense"):
        open_store("redis://host:port-that-is-none", "c")
