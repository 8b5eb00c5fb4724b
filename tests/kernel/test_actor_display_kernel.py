"""Handles of actors display themselves in a kernel."""

from __future__ import annotations

from typing import Any

from support.kernels import Kernel, result, value
from support.waiting import wait_until

CLASS = "@cm.remote\nclass Counter:\n    def ping(self): return 'pong'\n"


def shown(kernel: Kernel, display_id: str) -> list[dict[str, Any]]:
    return [
        m["content"]["data"]
        for m in list(kernel.messages)
        if m["msg_type"] in ("display_data", "update_display_data")
        and m["content"]["transient"].get("display_id") == display_id
    ]


def test_a_handle_has_a_card_that_follows_its_actor(kernel: Kernel) -> None:
    cell = kernel.run(CLASS + "counter = Counter.remote()\ncounter")
    (card,) = kernel.of(cell, "display_data")
    display = card["content"]["transient"]["display_id"]
    assert "actor Counter: " in card["content"]["data"]["text/plain"] and "<div" in card["content"]["data"]["text/html"]
    wait_until(lambda: "actor Counter: alive · In [" in shown(kernel, display)[-1]["text/plain"])
    kernel.run("cm.get([counter.ping.remote() for _ in range(3)])")
    wait_until(lambda: "3 calls done" in shown(kernel, display)[-1]["text/plain"])
    assert ">cellmesh.kill(counter)</code>" in shown(kernel, display)[-1]["text/html"]
    kernel.run("cm.kill(counter)")
    wait_until(lambda: "ended by kill()" in shown(kernel, display)[-1]["text/plain"])
    assert ": dead: ended by kill()>" in result(kernel, kernel.run("[counter]"))


def test_the_card_does_not_keep_the_actor_alive(kernel: Kernel) -> None:
    cell = kernel.run(
        CLASS
        + "from IPython.display import display\nlone = Counter.remote()\ncm.get(lone.ping.remote())\ndisplay(lone)"
    )
    display = kernel.of(cell, "display_data")[0]["content"]["transient"]["display_id"]
    kernel.run("import gc\ndel lone\ngc.collect()\ncm.state.running().client.flush()")
    wait_until(lambda: "dead" in shown(kernel, display)[-1]["text/plain"], what="its end")
    assert "its last handle is gone" in shown(kernel, display)[-1]["text/plain"]
    assert value(kernel, "len(cm.state.list_actors(filters=[('state', '=', 'alive')]))") == 0
