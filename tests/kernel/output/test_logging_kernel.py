"""What tasks log is handled by the notebook's handlers, and stands under the cell that submitted them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.kernels import Kernel, plain

DEFINITIONS = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(levelname)s:%(name)s:%(message)s", stream=sys.stdout, force=True)
log = logging.getLogger("cells")

@cm.remote
def talk(*words, gate=None):
    print("printed", words[0])
    for word in words:
        log.debug(f"debug {word}")
        log.info(f"info {word}")
        while gate and not os.path.exists(gate): time.sleep(0.005)
    print("printed", words[-1])
"""


@pytest.fixture(scope="module", autouse=True)
def definitions(kernel: Kernel) -> None:
    kernel.run(DEFINITIONS)


def test_records_stand_among_prints_in_the_order_of_both(kernel: Kernel) -> None:
    cell = kernel.run("cm.get(talk.remote('a', 'b'))")
    text = plain(kernel.until_text(cell, lambda text: "printed b" in text))
    shown = re.sub(r"pid=\d+", "pid=N", text).splitlines()
    assert shown == ["(talk pid=N) printed a", "INFO:cells:info a", "INFO:cells:info b", "(talk pid=N) printed b"]


def test_a_record_goes_to_its_cell_while_another_runs(kernel: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = kernel.run(f"ref = talk.remote('one', 'two', gate={str(gate)!r})")
    kernel.until_text(first, lambda text: "info one" in text)
    other = kernel.start("log.info('of the notebook'); import threading; stop = threading.Event(); stop.wait(20)")
    kernel.until_text(other, lambda text: "notebook" in text)
    gate.touch()
    kernel.until_text(first, lambda text: "info two" in text)
    kernel.manager.interrupt_kernel()
    kernel.wait(other)
    assert kernel.text(other) == "INFO:cells:of the notebook\n" and kernel.text(first).count("INFO:cells:info") == 2


def test_a_level_that_is_set_in_a_cell_holds_for_what_it_submits(kernel: Kernel) -> None:
    cell = kernel.run("log.setLevel(logging.DEBUG)\ncm.get(talk.remote('low'))")
    assert "DEBUG:cells:debug low" in kernel.until_text(cell, lambda text: text.count("printed low") == 2)
    cell = kernel.run("log.setLevel(logging.NOTSET)\ncm.get(talk.remote('high'))")
    assert "debug" not in kernel.until_text(cell, lambda text: text.count("printed high") == 2)


def test_in_a_remote_cell(kernel: Kernel) -> None:
    cell = kernel.run("%%remote\nlog.info('of a cell')\n1")
    assert kernel.until_text(cell, lambda text: "of a cell" in text) == "INFO:cells:of a cell\n"


def test_a_handler_that_displays_and_raises_and_uses_cellmesh(kernel: Kernel) -> None:
    kernel.run(
        "from IPython.display import display, HTML\n"
        "class Odd(logging.Handler):\n"
        "    def emit(self, record):\n"
        "        display(HTML('<b>shown</b>'))\n"
        "        try: cm.get(cm.remote(lambda: 1 / 0).remote())\n"
        "        except ZeroDivisionError: get_ipython().showtraceback()\n"
        "        raise OSError('no room')\n"
        "log.addHandler(odd := Odd())"
    )
    cell = kernel.run("cm.get(talk.remote('x'))")
    kernel.until_text(cell, lambda text: "no room" in text and "a handler or filter" in text, "stderr")
    assert [m["content"]["data"]["text/html"] for m in kernel.of(cell, "display_data")] == ["<b>shown</b>"]
    kernel.run("log.removeHandler(odd)")
    cell = kernel.run("cm.get(talk.remote('afterwards'))")
    kernel.until_text(cell, lambda text: "info afterwards" in text)


def test_a_flood_is_bounded_and_told(kernel: Kernel) -> None:
    cell = kernel.run(
        "@cm.remote\ndef flood():\n    for i in range(150): log.info('%d %s', i, 'x' * 20_000)\ncm.get(flood.remote())"
    )
    kernel.until_text(cell, lambda text: re.search(r"cellmesh.* (dropped|not shown)", text) is not None, "stderr")
    assert len(kernel.text(cell)) < 2_000_000
