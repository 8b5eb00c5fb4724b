"""What tasks print and display stands under the cell that submitted them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.kernels import Kernel, Message, plain
from support.waiting import wait_until

DEFINITIONS = """
@cm.remote
def talk(gate, name=""):
    print("first", name)
    while not os.path.exists(gate): time.sleep(0.005)
    print("second", name)

@cm.remote
def say(*lines):
    for line in lines: print(line)
"""


@pytest.fixture(scope="module", autouse=True)
def definitions(kernel: Kernel) -> None:
    kernel.run(DEFINITIONS)


def test_a_print_of_a_task_is_live_and_says_whose_it_is(kernel: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    cell = kernel.start(f"cm.get(talk.remote({str(gate)!r}))")
    text = kernel.until_text(cell, lambda text: "first" in text)
    assert re.fullmatch(r"\(talk pid=\d+\) first \n", plain(text)) and text.startswith("\x1b[")
    gate.touch()
    kernel.until_text(cell, lambda text: "second" in text)
    kernel.wait(cell)


def test_output_goes_to_its_cell_while_another_runs_and_after_it_has_finished(kernel: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = kernel.run(f"ref = talk.remote({str(gate)!r}, 'one')")
    other = kernel.start("import threading; stop = threading.Event(); print('other'); stop.wait(20)")
    kernel.until_text(first, lambda text: "first one" in text)
    gate.touch()
    kernel.until_text(first, lambda text: "second one" in text)
    assert kernel.text(other) in ("", "other\n")  # the other one still runs
    kernel.manager.interrupt_kernel()
    kernel.wait(other)
    assert "one" not in kernel.text(other)


def test_nested_tasks_print_under_the_cell_at_the_root(kernel: Kernel) -> None:
    kernel.run("@cm.remote\ndef outer():\n    return cm.get(say.remote('from within'))")
    cell = kernel.run("cm.get(outer.remote())")
    kernel.until_text(cell, lambda text: "(say pid=" in plain(text) and "from within" in text)


def test_stderr_is_stderr(kernel: Kernel) -> None:
    cell = kernel.run("import sys\n@cm.remote\ndef complain(): print('oh', file=sys.stderr)\ncm.get(complain.remote())")
    kernel.until_text(cell, lambda text: "oh" in text, "stderr")


def test_equal_lines_of_many_tasks_become_one_with_a_count(kernel: Kernel) -> None:
    cell = kernel.run("cm.get([say.remote('same') for _ in range(100)])")
    text = plain(kernel.until_text(cell, lambda text: "more on" in text))
    lines = text.splitlines()
    shown = sum(bool(re.fullmatch(r"\(say pid=\d+\) same", line)) for line in lines)
    counted = sum(int(n) for n in re.findall(r"\(say, (\d+) more on .*\) same", text))
    assert shown + counted == 100 and len(lines) <= 20


def test_the_body_of_a_remote_cell_prints_plainly(kernel: Kernel) -> None:
    cell = kernel.run("%%remote\nprint('plain')\nx = 1")
    assert kernel.until_text(cell, lambda text: "plain" in text) == "plain\n"


def test_a_display_in_a_task_appears_under_its_cell(kernel: Kernel) -> None:
    kernel.run(
        "@cm.remote\ndef show():\n    from IPython.display import display, HTML\n    print('before')\n"
        "    display(HTML('<b>bold</b>'))\n    print('after')"
    )
    cell = kernel.run("cm.get(show.remote())")
    kernel.until_text(cell, lambda text: "after" in text)
    kinds = [m["msg_type"] for m in kernel.of(cell, "stream", "display_data")]
    assert kinds == ["stream", "display_data", "stream"]
    (shown,) = kernel.of(cell, "display_data")
    assert shown["content"]["data"]["text/html"] == "<b>bold</b>"


def test_an_open_plot_is_shown_at_the_end_of_its_cell_and_closed(kernel: Kernel) -> None:
    pytest.importorskip("matplotlib")
    cell = kernel.run("%%remote\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    wait_until(
        lambda: any("image/png" in m["content"]["data"] for m in kernel.of(cell, "display_data")), what="the plot"
    )
    cell = kernel.run("%%remote\nfigure, axes = plt.subplots()\naxes.plot([1, 2])\nprint(plt.get_fignums())")
    assert kernel.until_text(cell, lambda text: "]" in text) == "[1]\n", "nothing of the cell before is left"
    cell = kernel.run("%fetch figure\nimport io; figure.savefig(io.BytesIO()); print('drawn again')")
    assert kernel.text(cell) == "drawn again\n"


def test_a_card_holds_what_its_task_printed_last(kernel: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    shown = kernel.run(f"late = talk.remote({str(gate)!r}, 'one'); late")
    gate.touch()

    def card() -> str:
        displays = kernel.of(shown, "display_data", "update_display_data")
        others = [m for m in list(kernel.messages) if m["msg_type"] == "update_display_data"]
        ids = {m["content"]["transient"]["display_id"] for m in displays}
        return [m for m in displays + others if m["content"]["transient"]["display_id"] in ids][-1]["content"]["data"][
            "text/plain"
        ]

    wait_until(lambda: card().endswith("│ first one\n│ second one"), what="the tail on the card")
    late = kernel.of(kernel.run("late"), "display_data")[0]
    assert "second one" in late["content"]["data"]["text/html"]


def updates_of(kernel: Kernel, displays: list[str]) -> list[Message]:
    """In order, under whatever cell: they go with the one that runs."""
    return [
        m
        for m in list(kernel.messages)
        if m["msg_type"] == "update_display_data" and m["content"]["transient"].get("display_id") in displays
    ]


def n_pictures(kernel: Kernel, request: str) -> int:
    return sum("image/png" in m["content"]["data"] for m in kernel.of(request, "display_data", "execute_result"))


def test_a_figure_that_was_fetched_is_shown_once(kernel: Kernel) -> None:
    kernel.run("import matplotlib.pyplot as plt\n%matplotlib inline")
    kernel.run(
        "@cm.remote\ndef plot():\n    import matplotlib.pyplot as plt\n    figure, axes = plt.subplots()\n    "
        "axes.plot([1, 2])\n"
        "    return figure"
    )
    assert n_pictures(kernel, kernel.run("cm.get(plot.remote())")) == 1
    kernel.run("figure = plot.remote()")
    assert n_pictures(kernel, kernel.run("%fetch figure")) == 0 and n_pictures(kernel, kernel.run("figure")) == 1
    kernel.run("given = plot.remote()\ncm.wait([plot.remote() for _ in range(4)] + [given], num_returns=5)")
    cell = kernel.run(
        "%%remote --wait\nimport matplotlib.pyplot as plt\nown, axes = plt.subplots()\naxes.plot([1, 2])\nn = "
        "len(given.axes)"
    )
    wait_until(lambda: n_pictures(kernel, cell) > 0)
    kernel.run("%fetch own")
    assert n_pictures(kernel, kernel.run("own")) == 1 and n_pictures(kernel, cell) == 1, (
        "of other tasks nothing is shown"
    )


def last_state(kernel: Kernel, request: str) -> dict[str, str] | None:
    """What the one display under a cell shows in the end; None: there is none."""
    shown = kernel.of(request, "display_data")
    if not shown:
        return None
    (display_id,) = {m["content"]["transient"].get("display_id") for m in shown}
    return [
        m["content"]["data"]
        for m in list(kernel.messages)
        if m["msg_type"] in ("display_data", "update_display_data")
        and m["content"]["transient"].get("display_id") == display_id
    ][-1]


def test_the_text_of_a_cell_stands_there_once_and_none_is_no_result(kernel: Kernel) -> None:
    printed = kernel.run("%%remote\nx = 5\nprint('the only text')")
    kernel.until_text(printed, lambda text: text == "the only text\n")
    assert last_state(kernel, printed) is None
    nothing = kernel.run("%%remote\nprint('some text')\n[].append(1)")
    wait_until(
        lambda: last_state(kernel, nothing) == {"text/plain": "", "text/html": ""}, what="the card of None to go"
    )
    kernel.until_text(nothing, lambda text: text == "some text\n")
    five = kernel.run("%%remote\nwords = 'more ' + 'text'\nprint(words)\n5")
    kernel.until_text(five, lambda text: text == "more text\n")
    wait_until(lambda: last_state(kernel, five)["text/plain"].endswith("\n5"), what="the value")
    kernel.run("1")
    assert "more text" not in str(last_state(kernel, five))


def test_of_a_notebook_that_is_run_to_be_saved_the_card_keeps_what_comes_late(kernel: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    late = kernel.run(
        f"%%remote\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.005)\nprint('late', 'words')",
        interactive=False,
    )
    gate.touch()

    def told() -> bool:
        text = last_state(kernel, late)["text/plain"]
        return "finished" in text and text.endswith("\n│ late words") and "None" not in text

    wait_until(told, what="the words on the card")
    soon = kernel.run("%%remote --wait\n[].append(1)", interactive=False)
    wait_until(lambda: last_state(kernel, soon) == {"text/plain": "", "text/html": ""}, what="the card of None to go")


def test_a_flood_does_not_reach_the_front_end(kernel: Kernel) -> None:
    cell = kernel.run(
        "@cm.remote\ndef flood():\n    for i in range(300_000): print(i, 'x' * 50)\ncm.get(flood.remote())", 60
    )
    kernel.until_text(cell, lambda text: "299999" in text or "not shown" in text or "dropped" in text, deadline=30)
    assert len(kernel.text(cell)) < 8_000_000


def test_a_session_begun_after_another_has_its_output_too(fresh_kernel: Kernel) -> None:
    kernel = fresh_kernel
    kernel.run("%load_ext cellmesh\nimport cellmesh as cm, os, time")
    for _ in range(2):
        kernel.run("cm.init(num_cpus=1)")
        kernel.run(DEFINITIONS)
        cell = kernel.run("cm.get(say.remote('here'))")
        kernel.until_text(cell, lambda text: "here" in text)
        kernel.run("cm.shutdown()")
    kernel.run("import threading")
    cell = kernel.run("[t.name for t in threading.enumerate() if 'cellmesh' in t.name and 'output' not in t.name]")
    result = kernel.of(cell, "execute_result")[0]["content"]["data"]["text/plain"]
    wait_until(lambda: result == "[]" or kernel.run("None"), what="threads have ended")
    assert result == "[]"


def test_a_session_begun_before_the_extension_is_taken_over(fresh_kernel: Kernel) -> None:
    kernel = fresh_kernel
    kernel.run("import cellmesh as cm, os, time\ncm.init(num_cpus=1)\n%load_ext cellmesh")
    kernel.run(DEFINITIONS)
    cell = kernel.run("cm.get(say.remote('late'))")
    kernel.until_text(cell, lambda text: "late" in text)
    assert kernel.text(cell).count("late") == 1


@pytest.mark.parametrize("module", ["auto", "notebook"])
def test_progress_bars_of_tasks_are_displays_of_the_cell_updated_in_place(kernel: Kernel, module: str) -> None:
    cell = kernel.run(
        f"@cm.remote\ndef count(n):\n    from tqdm.{module} import tqdm\n    return sum(tqdm(range(n), desc=str(n)))\n"
        "cm.get([count.remote(100), count.remote(200)])"
    )

    def shown() -> list[str]:
        return [
            m["content"]["transient"]["display_id"] for m in kernel.of(cell, "display_data") if "<progress" in str(m)
        ]

    wait_until(
        lambda: (
            len(
                {
                    m["content"]["transient"]["display_id"]
                    for m in updates_of(kernel, shown())
                    if "100%" in m["content"]["data"]["text/html"]
                }
            )
            == 2
        )
    )
    assert len(shown()) == len(set(shown())) == 2


def test_live_displays_of_rich_are_updated_in_place(kernel: Kernel) -> None:
    cell = kernel.run(
        "@cm.remote\ndef track(name):\n    from rich.progress import Progress\n"
        "    with Progress() as progress:\n"
        "        bars = [progress.add_task(f'{name}{i}', total=10) for i in range(2)]\n"
        "        for i in range(20):\n            progress.advance(bars[i % 2])\n            time.sleep(0.02)\n"
        "    print('done', name)\n"
        "cm.get([track.remote('a'), track.remote('b')])"
    )
    kernel.until_text(cell, lambda text: "done a" in text and "done b" in text)
    last: dict[str, str] = {}
    halfway = set()
    first = kernel.of(cell, "display_data")
    for m in [*first, *updates_of(kernel, [m["content"]["transient"]["display_id"] for m in first])]:
        text = m["content"]["data"]["text/plain"]
        last[m["content"]["transient"]["display_id"]] = text
        halfway |= {text[:2]} if "100%" not in text and "  0%" not in text else set()
    assert sorted((text[:2], "100%" in text, "━━━━" in text) for text in last.values()) == [
        (name, True, True) for name in ("a0", "a1", "b0", "b1")
    ]
    assert halfway == {"a0", "a1", "b0", "b1"}, "live, not only at the end"
    assert all("━" not in text and text.strip() for text in plain(kernel.text(cell)).splitlines()), (
        "and not as text again"
    )


def test_what_tasks_print_into_an_output_widget_stands_under_their_cell(kernel: Kernel) -> None:
    cell = kernel.run(
        "@cm.remote\ndef into():\n    import ipywidgets\n    out = ipywidgets.Output()\n    display(out)\n"
        "    with out:\n        print('inside')\n        display('shown')\n    print('behind')\n"
        "cm.get(into.remote())"
    )
    text = plain(kernel.until_text(cell, lambda text: "behind" in text))
    assert text.index("inside") < text.index("behind")
    shown = [m["content"]["data"] for m in kernel.of(cell, "display_data")]
    assert [data["text/plain"] for data in shown] == ["'shown'"], "not the widget itself"


@pytest.mark.parametrize(
    ("made", "drawn", "text"),
    [
        (
            "w.IntSlider(3, description='<b>n')",
            "<code>IntSlider(value=3, description=&#x27;&lt;b&gt;n&#x27;)</code>",
            "IntSlider(value=3",
        ),
        (
            "w.VBox([w.HTML('<b>bold</b>'), w.IntProgress(3, max=8), w.Output()])",
            '<progress max="8" value="3"',
            "VBox(children=",
        ),
        ("w.Image(value=b'\\x89PNG', format='png')", '<img src="data:image/png;base64,iVBORw==">', "Image(value="),
    ],
)
def test_a_widget_made_in_a_task_is_shown_as_it_is_with_the_remedy(
    kernel: Kernel, made: str, drawn: str, text: str
) -> None:
    cell = kernel.run(
        f"@cm.remote\ndef show():\n    import ipywidgets as w\n    display({made})\ncm.get(show.remote())"
    )
    wait_until(lambda: kernel.of(cell, "display_data"), what="the widget")
    (shown,) = kernel.of(cell, "display_data")
    data = shown["content"]["data"]
    assert drawn in data["text/html"] and data["text/plain"].startswith(text), data
    assert (
        all("Make it in the notebook" in part and "cellmesh.progress(refs)" in part for part in data.values())
        and len(data) == 2
    )


def test_a_widget_that_brings_a_picture_of_itself_is_that_picture(kernel: Kernel) -> None:
    cell = kernel.run(
        "@cm.remote\ndef show():\n    display({'application/vnd.jupyter.widget-view+json': {'model_id': 'x'}, "
        "'text/plain': 'Map',\n             'image/svg+xml': '<svg/>'}, raw=True)\ncm.get(show.remote())"
    )
    wait_until(lambda: kernel.of(cell, "display_data"), what="the widget")
    assert kernel.of(cell, "display_data")[0]["content"]["data"] == {"text/plain": "Map", "image/svg+xml": "<svg/>"}


@pytest.mark.parametrize(
    "ends",
    [
        "cm.get(tell_and_fail.remote(50))",
        "%%remote\nx = tell_and_fail.function(50)",
        "%%remote --wait\nx = tell_and_fail.function(50)",
    ],
)
def test_an_error_stands_below_what_its_task_has_printed(kernel: Kernel, ends: str) -> None:
    kernel.run(
        "@cm.remote\ndef tell_and_fail(n):\n    for i in range(n): print('line', i)\n"
        "    print('without a newline', end='')\n    raise ValueError('at the end')"
    )
    for _ in range(5):
        cell = kernel.start(ends)
        wait_until(lambda: "at the end" in str(kernel.of(cell)), what="the error")
        kernel.wait(cell)
        read = [(m["msg_type"], m["content"]) for m in kernel.of(cell, "stream", "error")]
        at = next(i for i, (kind, content) in enumerate(read) if "at the end" in str(content))
        before = "".join(content["text"] for _, content in read[:at])
        assert "line 49\n" in plain(before) and "without a newline" in before, read


@pytest.mark.parametrize("at_end", ["cm.shutdown()", "%unload_ext cellmesh\ncm.shutdown()"])
def test_the_last_lines_are_under_their_cells_when_the_session_ends(fresh_kernel: Kernel, at_end: str) -> None:
    fresh_kernel.run(
        "%load_ext cellmesh\nimport cellmesh as cm\ncm.init(num_cpus=2)\n@cm.remote\ndef say(i): print('line', i)"
    )
    of_a_cell = fresh_kernel.start("%%remote\nx = 1\nfor i in range(30): print('of the cell', i)")
    of_tasks = fresh_kernel.start(f"cm.get(x); cm.get([say.remote(i) for i in range(30)])\n{at_end}")
    fresh_kernel.wait(of_a_cell)
    fresh_kernel.wait(of_tasks)
    assert fresh_kernel.text(of_a_cell) == "".join(f"of the cell {i}\n" for i in range(30))
    lines = plain(fresh_kernel.text(of_tasks)).splitlines()
    assert sorted(line.partition(") ")[2] for line in lines if line.startswith("(say pid=")) == sorted(
        f"line {i}" for i in range(30)
    )
