"""`%ranks auto` in a real kernel and in a terminal; whose output the strip shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kernels import Kernel, error, ipython_in_terminal, value
from support.strips import failed, text

TITLE = "In ranks 0-1 (%ranks auto)"


@pytest.fixture(scope="module")
def ranks(kernel: Kernel) -> Iterator[Kernel]:
    """A kernel with two ranks."""
    kernel.run("%ranks 2", 60)
    yield kernel


@pytest.fixture
def auto(ranks: Kernel) -> Iterator[Kernel]:
    """With plain cells running in them."""
    request = ranks.run("%ranks auto")
    assert ranks.text(request).startswith("Plain cells run in ranks 0-1 from now on, as if %%ranks stood above them")
    yield ranks
    ranks.run("%ranks here")


def test_plain_cells_run_in_every_rank_and_the_strip_says_so(auto: Kernel) -> None:
    silent = auto.run("import math\nmine = rank * 10")
    assert text(auto, silent) == TITLE, "also where there is nothing else to show"
    assert text(auto, auto.run("\n# a comment\nmine + math.floor(1.5)")) == f"{TITLE}\nrank 0:\n  1\nrank 1:\n  11"
    shown, told = failed(auto, "before = 1\nif rank:\n    1 / 0")
    assert "1 / 0" in shown
    assert told == f"{TITLE}\nrank 1 failed in line 3: ZeroDivisionError: division by zero", "lines of the cell"
    assert text(auto, auto.run("%%ranks 0\nmine")) == "rank 0:\n  0", "what is written above a cell counts"
    back = auto.run("%ranks here")
    assert auto.text(back) == "Plain cells run in the notebook again. %%ranks runs one in the ranks.\n"
    assert value(auto, "'math' in globals(), cm.get(mine)") == (False, [0, 10])
    assert "Plain cells run in the notebook, as ever" in auto.text(auto.run("%ranks here"))


def test_magics_run_in_the_notebook_and_what_they_run_too(auto: Kernel) -> None:
    assert "Plain cells run in these ranks" in auto.text(auto.run("%ranks"))
    assert text(auto, auto.run("%%time\nhere = 'notebook'")) == ""
    timed = auto.run("%timeit -n1 -r1 here.upper()")
    assert "loop" in auto.text(timed) and text(auto, timed) == ""
    assert text(auto, auto.run("here")) == f"{TITLE}\nranks 0-1:\n  'notebook'"
    assert "line 2: `%time y` is a magic command" in error(auto, "x = 1\n%time y\nx")[1]


def test_what_a_front_end_asks_for_by_itself_runs_in_the_notebook(auto: Kernel) -> None:
    for hidden in ({"silent": True}, {"store_history": False}):
        request = auto.client.execute("seen_by_front_end = 1", **hidden)
        auto.wait(request)
    auto.run("%ranks here")
    assert value(auto, "seen_by_front_end") == 1


def test_ranks_that_have_ended_take_no_cells(fresh_kernel: Kernel) -> None:
    fresh_kernel.run("%load_ext cellmesh\nimport cellmesh as cm\ncm.init(num_cpus=2)", 60)
    assert "there are no ranks yet: %ranks 4 makes four" in error(fresh_kernel, "%ranks auto")[1]
    fresh_kernel.run("%ranks 2\n%ranks auto", 60)
    stopped = fresh_kernel.run("%ranks stop")
    assert "Plain cells run in the notebook again" in fresh_kernel.text(stopped)
    assert value(fresh_kernel, "1 + 1") == 2
    fresh_kernel.run("%ranks 2\n%ranks auto", 60)
    fresh_kernel.run("%mesh stop")
    words = error(fresh_kernel, "x = 1")[1]
    assert "the ranks have ended with their session" in words
    assert words.endswith("; plain cells run in the notebook again\n")
    assert value(fresh_kernel, "'x' in globals()") is False
    fresh_kernel.run("%ranks 2\n%ranks auto", 60)
    fresh_kernel.run("%unload_ext cellmesh")
    assert value(fresh_kernel, "1 + 1") == 2


def test_whose_output_the_strip_shows(ranks: Kernel) -> None:
    request = ranks.run("%%ranks --only 1\nprint('of', rank)\nkept = rank")
    assert text(ranks, request) == "rank 1:\n  of 1"
    assert value(ranks, "cm.get(kept)") == [0, 1], "it has run in all"
    assert text(ranks, ranks.run("%%ranks --all\n'same'")) == "rank 0:\n  'same'\nrank 1:\n  'same'"
    assert "there is no rank 5: the ranks are 0-1" in error(ranks, "%%ranks --only 5\n1")[1]
    assert "--only 0: rank 0 does not run the cell" in error(ranks, "%%ranks 1 --only 0\n1")[1]
    assert "give one of them" in error(ranks, "%%ranks --only 0 --all\n1")[1]
    _, told = failed(ranks, "%%ranks --only 1\nif rank == 0: 1 / 0")
    assert told == "rank 0 failed in line 2: ZeroDivisionError: division by zero", "of failures all is told"


def test_the_prompt_of_a_terminal_says_where_cells_run(tmp_path: Path) -> None:
    pytest.importorskip("pexpect")
    child = ipython_in_terminal(tmp_path, timeout=60, n_columns=160)
    try:
        for n, line in enumerate(("%load_ext cellmesh", "%mesh start --cpus 1", "%ranks 2", "%ranks auto"), 1):
            child.expect(rf"\nIn \[{n}\]: $" if n > 1 else r"In \[1\]: $")
            child.sendline(line)
        child.expect(r"ranks 0-1 In \[5\]: $")
        child.sendline("print('from', rank + 40)")
        child.expect(r"ranks 0-1 In \[6\]: $")
        assert {"from 40", "from 41"} <= set(re.findall(r"from \d+", child.before))
        child.sendline("%ranks here")
        child.expect(r"\nIn \[7\]: $")
    finally:
        child.close(force=True)
