"""Other places where code of notebooks runs: another event loop policy, nested event loops, IPython in a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from support.kernels import Kernel, ipython_in_terminal, reply_of, value

pexpect = pytest.importorskip("pexpect")

FUNCTIONS = (
    "import cellmesh as cm, time\n@cm.remote\ndef add(x): return x + 1\n@cm.remote\ndef patient():\n"
    "    while True: time.sleep(0.01)"
)


ENDINGS = {"await held": "CancelledError", "cm.get(held)": "KeyboardInterrupt"}


def works(kernel: Kernel, waits: Collection[str] = ENDINGS.keys()) -> None:
    """The session does what it should, and the stop button too."""
    assert value(kernel, "list(cm.progress([add.remote(i) for i in range(3)]))") == [1, 2, 3]
    if "await held" in waits:
        assert value(kernel, "await add.remote(1)") == 2
        assert value(kernel, "[item async for item in cm.progress([add.remote(i) for i in range(3)])]") == [1, 2, 3]
    for code in waits:
        request = kernel.start(f"held = patient.remote()\nprint('asked')\n{code}")
        kernel.until_text(request, lambda text: "asked" in text)
        kernel.manager.interrupt_kernel()
        assert reply_of(kernel, request)["ename"] == ENDINGS[code]
    kernel.run("%cancel --all\nfor name in ('held',): del globals()[name]")
    kernel.run("%%remote\ntotal = 20 + 1\ntotal * 2")
    assert value(kernel, "(cm.get(_), cm.get(total))") == (42, 21)


def test_another_event_loop_policy(fresh_kernel: Kernel) -> None:
    fresh_kernel.run(
        "import asyncio\nclass Policy(asyncio.DefaultEventLoopPolicy): pass\n"
        "asyncio.set_event_loop_policy(Policy())\n%load_ext cellmesh"
    )
    fresh_kernel.run(FUNCTIONS)
    works(fresh_kernel)


@pytest.mark.parametrize("nest", ["nest_asyncio", "nest_asyncio2"])
def test_nested_event_loops(fresh_kernel: Kernel, nest: str) -> None:
    pytest.importorskip(nest)
    fresh_kernel.run(f"%load_ext cellmesh\nimport asyncio, {nest}\n{nest}.apply()")
    fresh_kernel.run(FUNCTIONS)
    # Without `asyncio.wait_for`: with nest_asyncio, no task is the current one in Python 3.14.
    fresh_kernel.run("async def added(): return await add.remote(4)")
    assert value(fresh_kernel, "asyncio.get_event_loop().run_until_complete(added())") == 5
    works(fresh_kernel)


WITHOUT_SUBSHELLS = """
from ipykernel import kernelapp
class App(kernelapp.IPKernelApp):
    def init_control(self, context):
        super().init_control(context)
        self.shell_channel_thread = None
App.launch_instance()
"""


def test_a_kernel_without_subshells(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, [sys.executable, "-c", WITHOUT_SUBSHELLS, "-f", "{connection_file}"])
    try:
        assert value(kernel, "getattr(get_ipython().kernel, '_supports_kernel_subshells', False)") is False
        kernel.run("%load_ext cellmesh")
        kernel.run(FUNCTIONS)
        works(kernel, ("cm.get(held)",))  # ipykernel 7 itself cannot await without them
        request = kernel.start("held = patient.remote()\nprint('asked')\ncm.get(held)")
        kernel.until_text(request, lambda text: "asked" in text)
        assert kernel.ask(op="hello")["status"] == "ok", "the panel is answered while a cell runs"
        kernel.manager.interrupt_kernel()
        kernel.wait(request)
        graph = kernel.run("%graph")
        assert "text/html" in kernel.of(graph, "display_data", "execute_result")[-1]["content"]["data"]
    finally:
        kernel.close()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[pexpect.spawn]:
    """IPython in a terminal."""
    child = ipython_in_terminal(tmp_path, timeout=30, n_columns=120)
    yield child
    child.close(force=True)


def entered(terminal: pexpect.spawn, code: str) -> str:
    """Type a cell at the prompt; what has been shown when the next prompt is there.

    By its number: the empty line that ends a cell of several lines may bring the same prompt twice.
    """
    terminal.n_entered = getattr(terminal, "n_entered", 0) + 1
    terminal.sendline(f"{code}\n" if "\n" in code else code)
    terminal.expect(rf"In \[{terminal.n_entered + 1}\]: $")
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.before)


def test_ipython_in_a_terminal(terminal: pexpect.spawn) -> None:
    terminal.expect(r"In \[1\]: $")
    for line in ("%load_ext cellmesh", "%load_ext cellmesh", "import cellmesh as cm"):
        assert "Error" not in entered(terminal, line)
    assert "running" in entered(terminal, "%mesh start --cpus 1")
    entered(terminal, "@cm.remote\ndef tell():\n    print('about ' + 'to fail')\n    return 1 / 0\n")
    assert "about to fail" in entered(terminal, "cm.get(tell.remote())").partition("Traceback")[0], "above the error"
    entered(terminal, "@cm.remote\ndef share(n):\n    return 10 // n\n")
    assert "Out" in entered(terminal, "cm.get(share.remote(5))")
    entered(terminal, "bad = share.remote(0)")
    assert "Out" in entered(terminal, "cm.wait([bad])")
    assert "share: failed · In [" in entered(terminal, "bad")
    assert "ZeroDivisionError" in entered(terminal, "%inspect bad")
    assert "bad" in entered(terminal, "%futures")
    terminal.sendline("wrong = get_ipython().run_cell_magic('remote', '--keep', 'n = 0\\n1 / n')")
    terminal.expect(
        r"has failed in the worker (?s:.*)1 / n\r\nZeroDivisionError: .*\r\n"
    )  # before or behind the next prompt
    terminal.n_entered += 1
    entered(terminal, "cm.wait([wrong])")
    terminal.sendline("%inspect --pdb wrong")
    terminal.expect(r"-> 1 / n.*\(pdb\) $")
    terminal.sendline("p n + 41")
    terminal.expect(r"41\r\n\(pdb\) $")
    assert "Error" not in entered(terminal, "q")
    assert "Submitted 1 task again: bad." in entered(terminal, "%retry bad")
    assert "[10, 5]" in entered(terminal, "list(cm.progress([share.remote(n) for n in (1, 2)]))")
    assert re.search(r"tasks: .* failed(.*\n)+.*✕ share · failed · In \[", entered(terminal, "%graph"))
    assert "is not loaded" in entered(terminal, "%unload_ext cellmesh") + entered(terminal, "%retry bad")
    terminal.sendline("exit()")
    terminal.expect(pexpect.EOF)


def cell(terminal: pexpect.spawn, flags: str, text: str) -> str:
    """A `%%remote` cell, typed in a line."""
    return entered(terminal, f"get_ipython().run_cell_magic('remote', {flags!r}, {text!r})")


def test_what_becomes_of_a_cell_is_told_in_a_terminal(terminal: pexpect.spawn, tmp_path: Path) -> None:
    terminal.expect(r"In \[1\]: $")
    for line in ("%load_ext cellmesh", "import cellmesh as cm", "cm.init(num_cpus=2)"):
        entered(terminal, line)
    gate = tmp_path / "gate"
    cell(terminal, "", f"import os\nwhile not os.path.exists({str(gate)!r}): pass\nprint('ab' + 'out to fail')\n1 / 0")
    gate.touch()
    # Without anybody asking; and what a cell's first line would be called is called by the cell's number.
    terminal.expect(
        r"\(In \[4\] pid=\d+\)\S* about to fail\r\n(?s:.*)In \[4\] has failed in the worker (?s:.*)1 / "
        r"0\r\nZeroDivisionError"
    )
    terminal.sendline(
        "get_ipython().run_cell_magic('remote', '--progress', 'import cellmesh as cm\\n@cm.remote\\ndef part(i): "
        "return i\\n"
        "whole = sum(cm.get([part.remote(i) for i in range(5)]))')"
    )
    terminal.expect_exact("5/5")  # of what the cell's task submits, not that one alone
    terminal.n_entered += 1
    entered(terminal, "cm.get(whole)")
    assert "Saved" in entered(terminal, f"%graph --save {tmp_path / 'run.cellmesh'}")
    terminal.sendline("exit()")
    terminal.expect(pexpect.EOF)
