"""What VS Code, Colab and other front ends need of a kernel. They know Jupyter's messages and none of our extensions.

They show the richest format of a display that they know, and replace it by its display_id. Their widgets speak over
comms on the shell channel once the cell has ended.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.kernels import Kernel, Message, reply_of
from support.waiting import wait_until

OURS = "application/vnd.cellmesh."
WIDGET = "application/vnd.jupyter.widget-view+json"
CELLS = {
    "a session": "cm.init(num_cpus=2, ignore_reinit_error=True)",
    "a future": "add.remote(1, 2)",
    "a failed future": "bad = add.remote(1, '2')\ncm.wait([bad])\nbad",
    "futures": "%futures",
    "an inspection": "%inspect bad",
    "progress": "list(cm.progress([add.remote(i, i) for i in range(20)]))",
    "a cell": "%%remote\nn = 1\nn",
    "a cell with progress": "%%remote --progress\nimport cellmesh as cm\ncm.get([add.remote(i, 1) for i in range(5)])",
    "tqdm": "%%remote\nfrom tqdm.auto import tqdm\nfor i in tqdm(range(3)): pass",
    "the graph": "%graph",
}


@pytest.fixture(autouse=True)
def functions(kernel: Kernel) -> None:
    kernel.run("@cm.remote\ndef add(x, y): return x + y")


def displays(kernel: Kernel, request: str) -> list[Message]:
    return kernel.of(request, "display_data", "update_display_data", "execute_result")


@pytest.mark.parametrize("what", list(CELLS))
def test_displays_are_there_without_widgets_and_extensions(kernel: Kernel, what: str) -> None:
    request = kernel.run(CELLS[what])
    wait_until(lambda: displays(kernel, request))
    before = [m["content"]["transient"] for m in kernel.messages if m["msg_type"] == "display_data"]
    shown = {transient.get("display_id") for transient in before}  # of other cells, too: what they show goes on
    for message in displays(kernel, request):
        content = message["content"]
        data, display_id = content["data"], content.get("transient", {}).get("display_id")
        assert isinstance(data["text/plain"], str) and data["text/plain"].strip(), "for consoles"
        if any(mime.startswith(OURS) or mime == WIDGET for mime in data):
            assert data["text/html"], "where nothing of ours is installed"
        assert "<script" not in data.get("text/html", ""), "Colab and VS Code would run it, and a saved notebook too"
        json.dumps(data)
        if message["msg_type"] == "update_display_data":
            assert display_id in shown, "nothing to update"


def test_updates_come_after_the_cell_and_while_another_runs(kernel: Kernel, tmp_path: Any) -> None:
    gate = tmp_path / "gate"
    kernel.run(
        f"@cm.remote\ndef hold():\n    import os, time\n    while not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    )
    request = kernel.run("hold.remote()")
    shown = next(
        m for m in displays(kernel, request) if m["msg_type"] != "update_display_data"
    )  # of another cell's, that may be
    display_id = shown["content"]["transient"]["display_id"]

    def final() -> bool:
        return any(
            "finished" in m["content"]["data"]["text/plain"]
            for m in list(kernel.messages)
            if m["msg_type"] == "update_display_data" and m["content"]["transient"]["display_id"] == display_id
        )

    assert not final()
    gate.touch()
    wait_until(final)


def test_the_widget_is_one_for_any_widget_manager(kernel: Kernel) -> None:
    request = kernel.run("%graph")
    opened = {
        m["content"]["comm_id"]: m
        for m in kernel.of(request, "comm_open")
        if m["content"]["target_name"] == "jupyter.widget"
    }
    data = displays(kernel, request)[0]["content"]["data"]
    if WIDGET not in data:
        pytest.skip("the front end has not been built: there is no widget to test")
    model = opened[data[WIDGET]["model_id"]]
    assert data[WIDGET]["version_major"] == 2 and model["metadata"]["version"].startswith("2.")
    state = model["content"]["data"]["state"]
    assert (state["_model_module"], state["_view_module"]) == ("anywidget", "anywidget") and state["_esm"]
    assert set(opened) == {state["layout"].removeprefix("IPY_MODEL_"), data[WIDGET]["model_id"]}, (
        "each model it refers to"
    )

    comm_id = data[WIDGET][
        "model_id"
    ]  # a page that was reloaded asks the kernel which widgets there are, and how they are
    kernel.client.shell_channel.send(
        kernel.client.session.msg("comm_msg", {"comm_id": comm_id, "data": {"method": "request_state"}})
    )
    wait_until(
        lambda: any(
            m["content"]["data"].get("method") == "update" and "_esm" in m["content"]["data"]["state"]
            for m in kernel.comm(comm_id)
        )
    )
    reply = kernel.client.comm_info("jupyter.widget", reply=True, timeout=20)
    assert comm_id in reply["content"]["comms"]


def test_where_nobody_can_type_the_graph_is_a_picture_and_no_comm_is_opened(fresh_kernel: Kernel) -> None:
    """nbconvert and papermill warn of comms, save the state of widgets, and then show a widget without a kernel in
    place of the picture.
    """
    kernel = fresh_kernel
    loaded = kernel.run(
        "%load_ext cellmesh\nimport cellmesh as cm\n@cm.remote\ndef add(x, y): return x + y\ncm.get(add.remote(1, 2))",
        interactive=False,
    )
    request = kernel.run("%graph", interactive=False)
    (shown,) = displays(kernel, request)
    assert (
        set(shown["content"]["data"]) == {"text/plain", "text/html"} and "<svg" in shown["content"]["data"]["text/html"]
    )
    assert "● add · finished" in shown["content"]["data"]["text/plain"]
    assert not kernel.of(loaded, "comm_open") and not kernel.of(request, "comm_open")


def test_a_front_end_that_knows_nothing_of_the_panel_closes_its_comm(fresh_kernel: Kernel) -> None:
    kernel = fresh_kernel
    request = kernel.run("%load_ext cellmesh\nimport cellmesh as cm")
    announced = [m["content"] for m in kernel.of(request, "comm_open")]
    assert [comm["target_name"] for comm in announced] == ["cellmesh.announce"]
    kernel.client.shell_channel.send(
        kernel.client.session.msg("comm_close", {"comm_id": announced[0]["comm_id"], "data": {}})
    )
    kernel.run("%%remote\nn = 1")
    assert (
        reply_of(kernel, kernel.start("assert cm.get(n) == 1\n%unload_ext cellmesh\n%load_ext cellmesh"))["status"]
        == "ok"
    )
