"""tqdm in tasks: what the driver hears of the bars, and what it prints of them."""

from __future__ import annotations

import json
from types import ModuleType

import pytest
from cellmesh.scheduler.ipc.messages import PROGRESS_MIME, WorkerOutput
from support.waiting import wait_until

import cellmesh
from cellmesh.session.current import current

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@pytest.fixture
def bars(cm: ModuleType):
    """What is heard of bars, by the bar's id: (stream, pid, content, bundle)."""
    heard: dict[str, list[tuple[str, int, dict, dict]]] = {}

    def hear(message: object) -> None:
        if isinstance(message, WorkerOutput) and PROGRESS_MIME in message.bundle:
            bundle = json.loads(message.bundle)
            content = bundle["data"][PROGRESS_MIME]
            heard.setdefault(content["id"], []).append((message.stream, message.pid, content, bundle))

    current().node.link.add_listener(hear)
    return heard


def over(bars, n: int):
    return lambda: len(bars) == n and all(messages[-1][2]["closed"] for messages in bars.values())


def test_a_bar_for_each_task_updated_in_place(cm: ModuleType, bars, flag) -> None:
    @cellmesh.remote
    def work(name, other):
        from tqdm import tqdm

        for i in tqdm(range(100), desc=name, mininterval=0):
            if i == 50:
                flag(name).set()
                flag(other).wait()
        return "done"

    assert cm.get([work.remote("a", "b"), work.remote("b", "a")]) == ["done", "done"]
    wait_until(over(bars, 2))
    for messages in bars.values():
        assert messages[0][0] == "display" and {stream for stream, *_ in messages[1:]} == {"update_display"}
        assert len({pid for _, pid, *_ in messages}) == 1
        last = messages[-1][3]
        assert "100%" in last["data"]["text/plain"] and "<progress" in last["data"]["text/html"]
        assert last["transient"]["display_id"] == messages[0][2]["id"]


def test_every_kind_of_bar(cm: ModuleType, bars, capfd) -> None:
    @cellmesh.remote
    def work():
        import io

        from tqdm.auto import tqdm
        from tqdm.notebook import tqdm as notebook_tqdm
        from tqdm.notebook import trange

        for _ in trange(2, desc="outer"):
            for _ in tqdm(range(3), desc="inner", leave=False):
                tqdm.write("said")
        with notebook_tqdm(desc="unknown <length>") as bar:
            bar.update(5)
            bar.set_postfix(loss=0.5)
        file = io.StringIO()
        list(tqdm(range(3), file=file))
        return file.getvalue(), list(tqdm(range(3), disable=True))

    text, values = cm.get(work.remote())
    assert "3/3" in text and values == [0, 1, 2]
    wait_until(over(bars, 4))  # outer, two of inner, unknown
    assert sorted(messages[-1][2]["text"][:5] for messages in bars.values()) == ["", "", "outer", "unkno"]
    assert any("unknown &lt;length&gt;" in messages[-1][3]["data"]["text/html"] for messages in bars.values())
    cm.shutdown()
    printed = capfd.readouterr()
    assert printed.out.count("said") >= 1 and "outer: 100%" in printed.err and "inner" not in printed.err
