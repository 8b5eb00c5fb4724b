"""What an actor saves for its next life."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from support.waiting import wait_until

import cellmesh as cm


@pytest.fixture
def session() -> Iterator[None]:
    cm.init(num_cpus=2, object_store_memory=64 << 20)
    yield
    cm.shutdown()


@cm.remote(max_restarts=-1)
class Ledger:
    def __init__(self) -> None:
        self.entries: list[Any] = cm.load_checkpoint(default=[])

    def add(self, entry: Any, save: bool = True) -> int:
        self.entries.append(entry)
        if save:
            cm.save_checkpoint(self.entries)
        return os.getpid()

    def all(self) -> list[Any]:
        return self.entries


def end_process(actor: Any, pid: int) -> None:
    cm.kill(actor, no_restart=False)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 20)


def test_an_actor_goes_on_from_its_last_checkpoint(session: None) -> None:
    ledger = Ledger.remote()
    for entry in ("a", "b"):
        pid = cm.get(ledger.add.remote(entry))
    cm.get(ledger.add.remote("not saved", save=False))
    end_process(ledger, pid)
    assert cm.get(ledger.all.remote()) == ["a", "b"]
    end_process(ledger, cm.get(ledger.add.remote("c")))
    assert cm.get(ledger.all.remote()) == ["a", "b", "c"]


def test_what_was_saved_goes_with_the_actor_and_with_the_next(session: None) -> None:
    class Saves:
        def save(self, n: int) -> None:
            cm.save_checkpoint(bytes(n))

    client = cm.session.current.current().client
    before = client.stats()["used_bytes"]
    actor = cm.remote(Saves).remote()
    for _ in range(5):
        cm.get(actor.save.remote(4 << 20))
    assert client.stats()["used_bytes"] - before < 10 << 20
    cm.kill(actor)
    wait_until(lambda: client.stats()["used_bytes"] - before < 1 << 20, 20)


def test_refs_in_a_checkpoint_live_as_long_as_it(session: None) -> None:
    @cm.remote(max_restarts=1)
    class Keeps:
        def __init__(self) -> None:
            self.kept = cm.load_checkpoint()

        def keep(self) -> int:
            cm.save_checkpoint([cm.put("inner")])
            return os.getpid()

        def look(self) -> Any:
            return cm.get(self.kept[0])

    actor = Keeps.remote()
    end_process(actor, cm.get(actor.keep.remote()))
    assert cm.get(actor.look.remote()) == "inner"


def test_only_actors_have_checkpoints(session: None) -> None:
    for call in (lambda: cm.save_checkpoint(1), cm.load_checkpoint):
        with pytest.raises(RuntimeError, match=r"not an actor's process|for actors"):
            call()

    @cm.remote
    def task() -> None:
        cm.save_checkpoint(1)

    with pytest.raises(RuntimeError, match="not an actor's process"):
        cm.get(task.remote())
