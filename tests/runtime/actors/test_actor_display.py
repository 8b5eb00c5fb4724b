"""What a handle says of its actor, without asking it anything."""

from __future__ import annotations

import os
import re
from types import ModuleType

import pytest
from cellmesh.kernel_ext.cards.actor_card import ActorCards
from cellmesh.kernel_ext.cells.registry import CellRegistry
from support.waiting import wait_until

import cellmesh


@cellmesh.remote
class Counter:
    def __init__(self, path: str = "", fails: bool = False) -> None:
        if fails:
            raise ValueError("not today")
        while path and not os.path.exists(path):
            pass

    def ping(self) -> str:
        return "pong"

    def die(self) -> None:
        os._exit(3)


def text_of(handle: object, **names: object) -> str:
    return ActorCards(CellRegistry(), lambda: None, None, names).mimebundle(handle)["text/plain"]


def test_a_handle_tells_how_its_actor_is(cm: ModuleType, flag) -> None:
    actor = Counter.options(name="one", max_restarts=1).remote(str(flag("go").path))
    assert re.fullmatch(r"<actor Counter 'one' [0-9a-f]+-[0-9a-f]+: pending>", repr(actor))
    flag("go").set()
    cm.get(actor.ping.remote())
    assert repr(actor).endswith(": alive>")
    cm.wait([actor.die.remote()])
    wait_until(lambda: repr(actor).endswith(": alive>"), what="its second life")
    cm.wait([actor.die.remote()])
    wait_until(lambda: "dead: its process ended with exit status 3>" in repr(actor))
    failed, killed = Counter.remote(fails=True), Counter.remote()
    cm.get(killed.ping.remote())
    cm.kill(killed)
    wait_until(lambda: repr(failed).endswith(": dead: its constructor failed>"))
    wait_until(lambda: repr(killed).endswith(": dead: ended by kill()>"))


def test_a_handle_outlives_its_session() -> None:
    with cellmesh.init(num_cpus=1):
        actor = Counter.remote()
    assert repr(actor).endswith(": its session has ended>")
    assert text_of(actor) == "actor Counter: its session has ended"


def test_a_card_says_why_an_actor_waits_and_what_it_died_of(cm: ModuleType) -> None:
    with pytest.warns(UserWarning, match="99"):
        large = Counter.options(num_cpus=99).remote()
    assert "waits for CPU: 99: of CPU: 2, CPU: 2 is free" in text_of(large)
    failed = Counter.remote(fails=True)
    wait_until(lambda: "dead" in repr(failed))
    assert text_of(failed).splitlines() == ["actor Counter: dead", "its constructor failed", "ValueError: not today"]
    actor = Counter.options(name="one", max_restarts=2).remote()
    cm.get(actor.ping.remote())
    # Its value is there a moment before the call counts as ended.
    wait_until(
        lambda: re.fullmatch(r"actor Counter 'one': alive · pid \d+\n2 restarts left", text_of(actor, mine=actor))
    )


def test_looking_at_an_actor_keeps_it_no_longer(cm: ModuleType) -> None:
    client = cm.state.running().client
    actor = Counter.remote()
    place = client.actor_place(actor._cellmesh_ref)
    assert client.actor(*place)["state"] in ("pending", "alive") and client.actor(place[0], place[1] + 1) is None
    cm.get(actor.ping.remote())
    del actor
    wait_until(lambda: client.actor(*place) is None, what="its end")
    with pytest.raises(ValueError, match="no place"):
        client.actor(1 << 20, 0)
