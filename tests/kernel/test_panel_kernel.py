"""The kernel's end of the panel in a real kernel: live while cells run, true to what happened, cheap."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from cellmesh.kernel_ext.panel_messages import BURST_BYTES, BYTES_PER_SECOND, MESSAGES_PER_SECOND, VERSION, decode
from support.kernels import Kernel, result, value
from support.panel_replica import Replica
from support.waiting import wait_until

from cellmesh.observe.recording import open_recording

DEFINITIONS = """
import numpy as np

@cm.remote
def add(a, b): return a + b

@cm.remote
def hold(gate):
    while not os.path.exists(gate): time.sleep(0.005)
    return 7

@cm.remote
def divide(a, b): return a / b

@cm.remote
class Counter:
    def __init__(self): self.n = 0
    def increment(self): self.n += 1; return self.n
"""


class Panel:
    """One subscription."""

    def __init__(self, kernel: Kernel, comm_id: str) -> None:
        self.kernel, self.comm_id = kernel, comm_id
        self.replica = Replica()
        self._n_read = 0
        assert kernel.ask(op="open", comm_id=comm_id)["status"] == "ok"

    def read(self) -> Replica:
        """Apply what has arrived."""
        messages = self.kernel.comm(self.comm_id)
        for message in messages[self._n_read :]:
            self.replica.apply(*decode(message["content"]["data"], message["buffers"]))
        self._n_read = len(messages)
        return self.replica

    def until(self, condition: Any, what: str = "", deadline: float = 15.0) -> Replica:
        """Wait until the model is as wanted."""
        try:
            wait_until(lambda: condition(self.read()), deadline, what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.replica.labels} {self.replica.states}") from None
        return self.replica


@pytest.fixture(scope="module", autouse=True)
def definitions(kernel: Kernel) -> None:
    kernel.run(DEFINITIONS)


_n_panels = iter(range(1000))


@pytest.fixture
def panel(kernel: Kernel) -> Any:
    made = Panel(kernel, f"panel-{next(_n_panels)}")
    yield made
    kernel.ask(op="close", comm_id=made.comm_id)


def row_of(replica: Replica, function: str) -> int:
    """The last row of a function."""
    numbers = {number for number, name in replica.labels["functions"].items() if name == function}
    return max(row for row, columns in enumerate(replica.rows) if columns[0] in numbers)


def agree(rows: list[tuple[Any, ...]], others: list[tuple[Any, ...]]) -> bool:
    """Whether rows are the same, their times to some milliseconds: the rate of the segment's clock is known better with
    time. Not rounded: of two numbers however close one may be rounded down and the other up, and then that stays so."""
    return len(rows) == len(others) and all(
        len(row) == len(other)
        and all(
            a == b or (isinstance(a, float) and isinstance(b, float) and abs(a - b) < 0.02)
            for a, b in zip(row, other, strict=True)
        )
        for row, other in zip(rows, others, strict=True)
    )


def test_the_kernel_says_that_it_is_there(fresh_kernel: Kernel) -> None:
    fresh_kernel.run("%load_ext cellmesh")
    (announcement,) = [m for m in fresh_kernel.messages if m["msg_type"] == "comm_open"]
    assert announcement["content"]["target_name"] == "cellmesh.announce"
    assert announcement["content"]["data"]["protocol"] == VERSION
    hello = fresh_kernel.ask(op="hello")
    assert hello["status"] == "ok" and not hello["active"] and hello["session"] == ""
    panel = Panel(fresh_kernel, "early")  # before there is a session
    panel.until(lambda replica: replica.n == 0)
    assert panel.replica.rows == []
    fresh_kernel.run("import cellmesh as cm\ncm.init(num_cpus=1)\nheld = cm.put(5)")
    panel.until(lambda replica: replica.header.session)
    for language, finished in (("de_DE", "fertig"), ("", "finished")):
        assert fresh_kernel.ask(op="hello", language=language)["status"] == "ok"
        shown = fresh_kernel.of(fresh_kernel.run("held"), "display_data")[0]["content"]["data"]
        assert finished in shown["text/html"] and "finished" in shown["text/plain"], "text stays as it is"
    assert fresh_kernel.ask(op="hello")["active"]


def test_a_chain_of_tasks_is_a_chain_of_rows(kernel: Kernel, panel: Panel) -> None:
    before = len(panel.read().rows)
    kernel.start(
        "a = add.remote(1, 2); b = add.remote(a, 3); c = add.remote(b, a); print(cm.get(c))", cell_id="cell-uuid"
    )
    replica = panel.until(
        lambda replica: (
            len(replica.rows) >= before + 3
            and not replica.header.behind
            and all(state[0] == 3 for state in list(replica.states.values())[before:])
        )
    )
    first = len(replica.rows) - 3
    assert {(s - first, t - first) for s, t in replica.edges if t >= first} == {(0, 1), (1, 2), (0, 2)}
    function, cell, *_ = replica.rows[first]
    assert replica.labels["functions"][function] == "add"
    assert replica.labels["cells"][cell].id == "cell-uuid" and replica.labels["cells"][cell].label.startswith("In [")
    _state, worker, started, finished, size = replica.states[first]
    assert worker in replica.labels["workers"] and 0 < started <= finished and size > 0
    assert replica.rows[first][-1] <= started <= replica.header.now


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (
            "try:\n    cm.get(quotient.remote(1, 0))\nexcept ZeroDivisionError:\n    pass",
            "ZeroDivisionError: division by zero",
        ),
        ("quotient.remote('a', 0); None", "TypeError: unsupported operand type(s) for /: 'str' and 'int'"),
        (
            "try:\n    cm.get(quotient.options(max_retries=0).remote(Leaves(), 1))\nexcept "
            "cm.exceptions.WorkerCrashedError:\n"
            "    pass",
            "WorkerCrashedError: the worker that ran the task 'quotient' ended with exit status 3",
        ),
    ],
)
def test_the_card_of_a_failed_task_says_why_when_no_ref_is_left(
    kernel: Kernel, panel: Panel, code: str, error: str
) -> None:
    kernel.run(
        "class Leaves:\n    def __truediv__(self, other): os._exit(3)\n@cm.remote\ndef quotient(a, b): return a / b"
    )
    panel.until(lambda replica: replica.n >= 0 and not replica.header.behind)  # of those before it, all is there
    failed = panel.replica.states_of("quotient")["failed"]
    kernel.run(code)
    panel.until(lambda replica: replica.states_of("quotient")["failed"] == failed + 1 and not replica.header.behind)
    row = row_of(panel.replica, "quotient")
    card: dict[str, Any] = {}

    def says_why() -> bool:
        card.update(kernel.ask(op="card", row=row))
        return error in card["text"]

    with contextlib.suppress(AssertionError):
        wait_until(says_why)
    assert error in card["text"], (card, panel.read().states_of("quotient"))
    assert ("return a / b" in card["data"]["traceback"]) == (not error.startswith("Worker")), card


def test_a_panel_that_opens_later_sees_the_same(kernel: Kernel, panel: Panel) -> None:
    kernel.run("cm.get([add.remote(i, i) for i in range(50)])")
    panel.until(lambda replica: replica.states_of("add")["finished"] >= 50 and replica.header.behind == 0)
    later = Panel(kernel, "later")
    later.until(
        lambda replica: replica.n >= 0 and replica.header.behind == 0 and len(replica.rows) == len(panel.read().rows)
    )
    assert agree(later.replica.rows, panel.replica.rows) and later.replica.edges == panel.replica.edges
    wait_until(lambda: agree([*later.read().states.values()], [*panel.read().states.values()]))
    kernel.ask(op="close", comm_id="later")


@pytest.mark.parametrize("busy", ["cm.get(ref)", "while not os.path.exists(gate): pass", "open(pipe).read()"])
def test_the_panel_lives_while_the_kernel_is_busy(kernel: Kernel, panel: Panel, tmp_path: Path, busy: str) -> None:
    gate, pipe = tmp_path / "gate", tmp_path / "pipe"
    os.mkfifo(pipe)
    cell = kernel.start(
        f"gate, pipe = {str(gate)!r}, {str(pipe)!r}\nref = hold.remote(gate)\nprint('go', flush=True)\n{busy}"
    )
    kernel.until_text(cell, lambda text: "go" in text)
    panel.until(lambda replica: replica.states_of("hold")["running"] == 1)
    row = row_of(panel.replica, "hold")
    card = kernel.ask(op="card", row=row)
    assert "running" in card["html"] and card["data"]["function"] == "hold" and "hold: running" in card["text"]
    assert kernel.of(cell, "status")[-1]["content"]["execution_state"] == "busy"  # said again after the request
    gate.touch()
    panel.until(lambda replica: replica.states_of("hold")["running"] == 0)
    if "pipe" in busy:
        pipe.write_text("")
    kernel.wait(cell)


def test_resync_starts_again(kernel: Kernel, panel: Panel) -> None:
    kernel.run("cm.get(add.remote(1, 1))")
    panel.until(lambda replica: replica.rows and not replica.header.behind)
    n_before = len(kernel.comm(panel.comm_id))
    kernel.ask(op="resync", comm_id=panel.comm_id)
    # A delta may have been on its way before.
    wait_until(
        lambda: any(
            m["content"]["data"]["type"] == "snapshot" and m["content"]["data"]["n"] == 0
            for m in kernel.comm(panel.comm_id)[n_before:]
        )
    )
    panel.until(lambda replica: replica.rows and not replica.header.behind)


def test_many_tasks_stay_within_the_bounds_and_all_arrive(kernel: Kernel, panel: Panel) -> None:
    panel.until(lambda replica: replica.n >= 0)
    began, first = time.monotonic(), len(kernel.comm(panel.comm_id))
    kernel.run("cm.get([add.remote(i, 1) for i in range(100_000)]); None", 120)
    panel.until(
        lambda replica: (
            replica.states_of("add")["finished"] >= 100_000
            and not replica.header.behind
            and replica.header.counts.running == 0
        ),
        "100,000 finished tasks",
        60,
    )
    span = time.monotonic() - began
    messages = kernel.comm(panel.comm_id)[first:]
    n_bytes = sum(len(buffer) for m in messages for buffer in m["buffers"])
    assert len(messages) <= span * MESSAGES_PER_SECOND + 2
    assert n_bytes <= BURST_BYTES + span * BYTES_PER_SECOND
    header = panel.replica.header
    assert header.tasks == len([row for row in panel.replica.rows if row[4] != 3])


def test_an_actor_and_its_calls(kernel: Kernel, panel: Panel) -> None:
    kernel.run("counter = Counter.remote()\ncm.get([counter.increment.remote() for _ in range(3)])")
    replica = panel.until(lambda replica: replica.states_of("Counter.increment")["finished"] >= 3)
    call = replica.rows[row_of(replica, "Counter.increment")]
    creation = replica.rows[row_of(replica, "Counter")]
    assert call[4] == 2 and creation[4] == 1 and call[2] == creation[2] > 0
    actor = replica.labels["actors"][call[2] - 1]
    assert (actor.cls, actor.state) == ("Counter", "alive")
    kernel.run("cm.kill(counter)")
    panel.until(lambda replica: replica.labels["actors"][call[2] - 1].state == "dead")


def test_large_objects_and_those_that_tasks_need_are_rows(kernel: Kernel, panel: Panel) -> None:
    kernel.run(
        "big = cm.put(np.zeros(1_000_000)); small = cm.put(5); unused = cm.put(6)\n"
        "ref = add.remote(small, 1); cm.get(ref)"
    )

    def sizes_in(replica: Replica) -> list[float]:
        return [replica.states[row][4] for row, columns in enumerate(replica.rows) if columns[4] == 3]

    sizes = sizes_in(panel.until(lambda replica: len(sizes_in(replica)) >= 2 and None not in sizes_in(replica)))
    assert len(sizes) == 2 and max(sizes) >= 8_000_000


def test_objects_are_called_by_how_they_came_to_be(kernel: Kernel, panel: Panel) -> None:
    kernel.run(
        "@cm.remote(num_returns='dynamic')\ndef items():\n    yield np.zeros(100_000)\n"
        "cm.get(list(cm.get(items.remote())))\n"
        "total = cm.get(add.remote(np.ones(100_000), 1))\ntable = np.ones(200_000)"
    )
    kernel.run("%%remote --wait\nlast = table[-1]")
    replica = panel.until(
        lambda replica: replica.states_of("argument")["finished"] >= 2 and replica.states_of("item")["finished"] >= 1
    )
    sizes = {
        replica.states[row][4]
        for row, columns in enumerate(replica.rows)
        if replica.labels["functions"][columns[0]] == "argument"
    }
    assert {round(size, -5) for size in sizes} >= {800_000, 1_600_000}, "of a call, and what a cell has captured"


def test_a_card_has_a_preview_made_where_the_value_lies(kernel: Kernel, panel: Panel) -> None:
    kernel.run("@cm.remote\ndef make(): return np.arange(1_000_000.0)\nmade = make.remote()\ncm.wait([made]); None")
    panel.until(lambda replica: replica.states_of("make")["finished"] == 1)
    card = kernel.ask(op="card", row=row_of(panel.replica, "make"))
    assert card["data"]["preview"]["shape"] == [1_000_000] and card["data"]["preview"]["dtype"] == "float64"
    assert "<svg" in card["html"] and "numpy.ndarray" in card["html"] and "1000000" in card["text"]
    json.dumps(card["data"])
    assert "preview" not in panel.read().labels["functions"].values()  # the task that made it is hidden


def test_a_value_whose_card_the_panel_shows_is_held_by_the_notebook_alone(kernel: Kernel, panel: Panel) -> None:
    kernel.run(
        "import gc\nfrom cellmesh.observe.holders import Places, holders\n"
        "from cellmesh.session.current import current\ndef used(): return current().client.stats()['used_bytes']\n"
        "@cm.remote\ndef make_large(): return np.ones(1 << 20)\n"
        "gc.collect(); gc.disable(); before = used()\nlarge = make_large.remote()\ncm.wait([large]); None"
    )
    panel.until(lambda replica: replica.states_of("make_large")["finished"] == 1)
    row = row_of(panel.replica, "make_large")
    assert kernel.ask(op="card", row=row)["data"]["preview"]["shape"] == [1 << 20]
    kernel.run("name = large.hex()")
    assert value(kernel, "holders(Places([]))[name]") == ["large"], "what memory() says"
    kernel.run("del large")
    wait_until(lambda: value(kernel, "used() - before") < 1 << 20, 5, "the value that was let go of")
    assert "Nobody holds a reference" in kernel.ask(op="card", row=row)["text"]
    kernel.run("gc.enable()")


def test_the_card_of_a_failure_has_the_traceback(kernel: Kernel, panel: Panel) -> None:
    kernel.run("failed = divide.remote(1, 0)\ncm.wait([failed]); None")
    panel.until(lambda replica: replica.states_of("divide")["failed"] == 1)
    card = kernel.ask(op="card", row=row_of(panel.replica, "divide"))
    assert card["data"]["state"] == "failed" and "ZeroDivisionError" in card["data"]["error"]
    assert "return a / b" in card["data"]["traceback"] and "<details" in card["html"]


def test_the_card_of_an_actor_whose_constructor_failed(kernel: Kernel, panel: Panel) -> None:
    kernel.run(
        "@cm.remote\nclass Broken:\n    def __init__(self, n): self.share = 1 / n\n    def ask(self): return 1\n"
        "broken = Broken.remote(0)\ncall = broken.ask.remote()\ncm.wait([call]); None"
    )
    panel.until(lambda replica: replica.states_of("Broken")["failed"] == 1)
    wait_until(lambda: "ZeroDivisionError" in kernel.ask(op="card", row=row_of(panel.replica, "Broken"))["text"])
    shown = result(kernel, kernel.run("%inspect call"))
    assert "constructor of actor 'Broken' raised ZeroDivisionError" in shown, shown


def test_cancel_from_the_panel_while_the_cell_waits(kernel: Kernel, panel: Panel) -> None:
    cell = kernel.start(
        "try: cm.get(hold.remote('/nowhere'))\nexcept cm.exceptions.TaskCancelledError: print('cancelled')"
    )
    panel.until(lambda replica: replica.states_of("hold")["running"] == 1)
    row = row_of(panel.replica, "hold")
    assert kernel.ask(op="cancel", row=row) == {"status": "ok", "outcome": "running"}
    kernel.wait(cell)
    assert "cancelled" in kernel.text(cell)
    panel.until(lambda replica: replica.states_of("hold")["running"] == 0)
    assert kernel.ask(op="cancel", row=row)["outcome"] == "finished"


def test_retry_submits_a_failed_task_again(kernel: Kernel, panel: Panel, tmp_path: Path) -> None:
    gate = tmp_path / "retried"
    kernel.run(
        f"@cm.remote\ndef opened(): return open({str(gate)!r}).read()\nheld = [opened.remote()]\ncm.wait(held); None"
    )
    panel.until(lambda replica: replica.states_of("opened")["failed"] == 1)
    gate.write_text("there")
    assert kernel.ask(op="retry", row=row_of(panel.replica, "opened")) == {"status": "ok", "bound": ["1 in held"]}
    assert value(kernel, "cm.get(held)") == ["there"]
    panel.until(lambda replica: replica.states_of("opened")["finished"] == 1)
    assert "Only a task that has failed" in kernel.ask(op="retry", row=row_of(panel.replica, "opened"))["evalue"]


def test_fetch_binds_a_variable(kernel: Kernel, panel: Panel) -> None:
    kernel.run("fetched = None; kept = [{'deep': add.remote(20, 22)}]; cm.wait([kept[0]['deep']]); None")
    panel.until(
        lambda replica: (
            replica.rows and all(state[0] >= 3 for state in replica.states.values()) and not replica.header.behind
        )
    )
    row = row_of(panel.replica, "add")
    assert kernel.ask(op="fetch", row=row, name="fetched") == {"status": "ok"}
    cell = kernel.run("print(fetched)")
    kernel.until_text(cell, lambda text: text == "42\n")
    refusal = kernel.ask(op="fetch", row=row, name="not a name")
    assert refusal["status"] == "error" and "no name for a variable" in refusal["evalue"]


def test_the_stack_of_a_running_task(kernel: Kernel, panel: Panel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    kernel.run(f"ref = hold.remote({str(gate)!r})")
    panel.until(lambda replica: replica.states_of("hold")["running"] == 1)
    stack = kernel.ask(op="stack", row=row_of(panel.replica, "hold"))
    assert "hold" in stack["text"], stack
    gate.touch()
    panel.until(lambda replica: replica.states_of("hold")["running"] == 0)
    assert kernel.ask(op="stack", row=row_of(panel.replica, "hold"))["status"] == "error"


@pytest.mark.parametrize("request_", [{"op": "nonsense"}, {"op": "card", "row": 10**9}, {"op": "card", "row": "x"}, {}])
def test_bad_requests_are_refused_with_a_sentence(kernel: Kernel, request_: dict[str, Any]) -> None:
    reply = kernel.ask(**request_)
    assert reply["status"] == "error" and reply["evalue"]


def displays_of(kernel: Kernel, cell: str) -> list[dict[str, Any]]:
    """The states of a cell's one display, in order."""
    (shown,) = kernel.of(cell, "display_data")
    name = shown["content"]["transient"]["display_id"]
    return [
        m["content"]["data"]
        for m in list(kernel.messages)
        if m["msg_type"] in ("display_data", "update_display_data")
        and m["content"]["transient"].get("display_id") == name
    ]


def test_a_card_follows_its_ref(kernel: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    cell = kernel.run(f"ref = hold.remote({str(gate)!r})\nref")
    wait_until(lambda: "hold: running" in displays_of(kernel, cell)[-1]["text/plain"])
    gate.touch()
    wait_until(
        lambda: (
            "\n7" in displays_of(kernel, cell)[-1]["text/plain"]
            and "ran" in displays_of(kernel, cell)[-1]["text/plain"]
        )
    )
    assert "finished" in displays_of(kernel, cell)[-1]["text/html"] and len(displays_of(kernel, cell)) <= 8
    assert not kernel.of(cell, "execute_result")


def test_the_table_of_futures(kernel: Kernel) -> None:
    cell = kernel.run(
        "lone = add.remote(1, 1); many = [add.remote(i, i) for i in range(5)]\ncm.get([lone, *many])\n%futures"
    )
    data = kernel.of(cell, "execute_result", "display_data")[0]["content"]["data"]
    assert "lone" in data["text/plain"] and "5 futures: 5 finished" in data["text/plain"]
    assert "<table" in data["text/html"]


def test_variables_that_hold_the_same_futures_share_a_row(kernel: Kernel) -> None:
    kernel.run(
        "run = [add.remote(i, i) for i in range(3)]\nfor item in run: cm.get(item)\nby_name = {'x': run[0], 'y': "
        "run[1]}\n"
        "for i in range(3): fut = add.remote(i, 1)\nsame = fut\ncm.get(fut)"
    )
    rows = kernel.of(kernel.run("%futures"), "execute_result")[0]["content"]["data"]["text/plain"].splitlines()
    assert [row for row in rows if row.startswith("run, by_name, item ")], rows
    assert [row for row in rows if row.startswith("fut, same ")], rows
    assert not [row for row in rows if row.startswith(("item", "by_name", "same", "i "))], rows


def test_the_graph_as_a_widget_keeps_a_picture(kernel: Kernel) -> None:
    cell = kernel.run("cm.get(add.remote(1, 1))\n%graph")
    data = kernel.of(cell, "display_data")[-1]["content"]["data"]
    assert "<svg" in data["text/html"] and "task" in data["text/plain"]


@pytest.mark.parametrize("interactive", [True, False])
def test_the_picture_is_drawn_again_when_the_tasks_are_done(kernel: Kernel, tmp_path: Path, interactive: bool) -> None:
    gate = tmp_path / "gate"
    kernel.run(f"ref = hold.remote({str(gate)!r})")
    cell = kernel.run("%graph", interactive=interactive)
    gate.touch()
    wait_until(lambda: len(displays_of(kernel, cell)) > 1, 20, "another picture")
    assert "1 running" not in displays_of(kernel, cell)[-1]["text/html"]


def test_the_end_of_a_session_and_the_next_one(fresh_kernel: Kernel) -> None:
    kernel = fresh_kernel
    kernel.run("%load_ext cellmesh\nimport cellmesh as cm, os, time\ncm.init(num_cpus=1)\n" + DEFINITIONS)
    panel = Panel(kernel, "p")
    kernel.run("ref = hold.remote('/nowhere')\nref")
    panel.until(lambda replica: replica.states_of("hold")["running"] == 1)
    first = panel.replica.header.session
    kernel.run("cm.shutdown()")
    panel.until(lambda replica: replica.states_of("hold")["cancelled"] == 1)
    hello = kernel.ask(op="hello")
    assert hello["status"] == "ok" and not hello["active"]
    assert "cancelled" in kernel.ask(op="card", row=0)["text"]
    kernel.run("cm.init(num_cpus=1); cm.get(add.remote(1, 2))")
    panel.until(lambda replica: replica.header.session not in ("", first) and replica.states_of("add")["finished"] == 1)
    kernel.run("%unload_ext cellmesh\ncm.get(add.remote(3, 4))")


def test_the_widget_speaks_the_panel_s_language(kernel: Kernel) -> None:
    cell = kernel.run("graph = get_ipython().run_line_magic('graph', '')\ngraph")
    opened = [m for m in kernel.of(cell, "comm_open") if "AnyModel" in json.dumps(m["content"]["data"], default=str)]
    if not opened:
        pytest.skip("the front end has not been built: there is no widget to test")
    comm_id = opened[-1]["content"]["comm_id"]
    replica, n_read = Replica(), 0

    def say(**content: Any) -> None:
        kernel.client.shell_channel.send(
            kernel.client.session.msg(
                "comm_msg", {"comm_id": comm_id, "data": {"method": "custom", "content": content}}
            )
        )

    def received(kind: str) -> list[dict[str, Any]]:
        return [
            m
            for m in kernel.comm(comm_id)
            if m["content"]["data"].get("method") == "custom" and m["content"]["data"]["content"]["type"] == kind
        ]

    def read() -> Replica:
        nonlocal n_read
        messages = [m for m in kernel.comm(comm_id) if m["buffers"]]
        for message in messages[n_read:]:
            replica.apply(*decode(message["content"]["data"]["content"], message["buffers"]))
        n_read = len(messages)
        return replica

    say(op="code")
    wait_until(lambda: received("code"))
    packed = next(m["buffers"][0] for m in kernel.comm(comm_id) if m["buffers"])
    assert b"cm-panel" in gzip.decompress(packed)
    n_read = 1
    assert len(opened[-1]["content"]["data"]["state"]["_esm"]) < 4000  # is saved with the notebook, so it is small

    say(op="hello", request=1)
    wait_until(lambda: received("reply"))
    assert received("reply")[0]["content"]["data"]["content"] == {
        "type": "reply",
        "request": 1,
        "content": kernel.ask(op="hello"),
    }
    say(op="open", comm_id="first view", request=2)
    wait_until(lambda: read().header is not None)
    kernel.start("cm.get(add.remote(2, 2))")
    wait_until(lambda: read().states_of("add")["finished"] and not read().header.behind)
    # A second view: the first one gets its snapshot too, and goes on when the second is closed.
    say(op="open", comm_id="second view", request=3)
    wait_until(lambda: read() and len(received("snapshot")) == 2)
    say(op="close", comm_id="second view", request=4)
    n_before = read().states_of("add")["finished"]
    kernel.start("cm.get(add.remote(3, 3))")
    wait_until(lambda: read().states_of("add")["finished"] > n_before)
    kernel.run("graph.close()")


def test_what_tasks_print_can_be_asked_for_by_line(kernel: Kernel, panel: Panel) -> None:
    kernel.run(
        "@cm.remote\ndef say(n):\n    print('said', n)\n    print('loudly', n, file=sys.stderr)\n"
        "import sys\ncm.get([say.remote(n) for n in range(3)])"
    )
    replica = panel.until(lambda replica: replica.header.lines >= 6 and replica.states_of("say")["finished"] == 3)
    reply = kernel.ask(op="logs", after=0)
    own = [line for line in reply["lines"] if line[4].startswith(("said", "loudly"))]
    assert sorted(line[4] for line in own) == sorted(f"{word} {n}" for word in ("said", "loudly") for n in range(3))
    assert {line[2] for line in own if line[4].startswith("loudly")} == {"stderr"}
    names = {number: name for number, name in replica.labels["functions"].items()}
    assert {names[replica.rows[line[1]][0]] for line in own} == {"say"}
    last = reply["first"] + len(reply["lines"])
    assert kernel.ask(op="logs", after=last) == {"status": "ok", "first": last, "lines": []}


def test_what_holds_memory_is_named_with_its_holders(kernel: Kernel) -> None:
    kernel.run("_hidden = held = cm.put(np.ones(500_000))\nviewed = cm.get(held)\ncm.wait([add.remote(1, 2)]);")
    reply = kernel.ask(op="memory")
    _row, size, place, state, made_by, holders, variables, _users = next(o for o in reply["objects"] if "held" in o[6])
    assert size >= 4_000_000 and (place, state, made_by) == ("memory", "ready", "put")
    assert variables == ["held", "viewed", "_hidden"], "a name of the user's stands before the shell's"
    assert any("this driver" in words for words in holders) and reply["used"] >= size and reply["n_objects"] >= 1
    assert reply["objects"] == sorted(reply["objects"], key=lambda o: -o[1])
    kernel.run("del held, viewed, _hidden")


def test_the_machine_is_looked_at_while_tasks_run(kernel: Kernel, panel: Panel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    request = kernel.start(f"cm.get(hold.remote({str(gate)!r}))")
    replica = panel.until(lambda replica: any(sample.cpus >= 1 for sample in replica.samples))
    assert replica.labels["nodes"][0].cpus >= 1
    gate.touch()
    kernel.wait(request)


@pytest.mark.parametrize("name", ["run.cellmesh", "run.html"])
def test_a_session_is_saved_from_the_panel_and_by_the_magic(
    kernel: Kernel, panel: Panel, tmp_path: Path, name: str
) -> None:
    if name.endswith("html") and not files("cellmesh").joinpath("kernel_ext/panel/static/page.js").is_file():
        pytest.skip("the front end has not been built")
    kernel.run("cm.get(add.remote(20, 2)); cm.wait([divide.remote(1, 0)]);")
    panel.until(lambda replica: replica.states_of("divide")["failed"] >= 1)
    path = tmp_path / name
    reply = kernel.ask(op="save", path=str(path))
    assert reply == {"status": "ok", "path": str(path), "size": path.stat().st_size}
    assert f"Saved {path}" in kernel.text(kernel.run(f"%graph --save {path}"))
    if name.endswith("html"):
        return
    saved = open_recording(path)
    assert {"add", "divide"} <= set(saved.tasks["name"].to_pylist())
    assert any("ZeroDivisionError" in text for text in saved.tables["cards"]["text"].to_pylist())
    assert kernel.ask(op="save", path=str(tmp_path / "run.txt"))["status"] == "error"
