"""`%ranks` and `%%ranks` in a real kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kernels import Kernel, error, reply_of, result, talk, value
from support.strips import failed, strip, text
from support.waiting import wait_until


@pytest.fixture(scope="module")
def ranks(kernel: Kernel) -> Iterator[Kernel]:
    """A kernel with two ranks."""
    kernel.run("%ranks 2", 60)
    yield kernel


def test_before_there_are_ranks_it_is_said_how_to_make_some(fresh_kernel: Kernel) -> None:
    fresh_kernel.run("%load_ext cellmesh", 60)
    assert "there are no ranks yet: %ranks 4 makes four" in error(fresh_kernel, "%%ranks\n1")[1]
    assert "there are no ranks yet" in error(fresh_kernel, "%ranks")[1]
    assert "there are no ranks yet" in error(fresh_kernel, "%ranks stop")[1]
    assert (
        "%ranks much: it takes how many ranks to make, or one of status, auto, here, restart, stop"
        in (error(fresh_kernel, "%ranks much")[1])
    )
    assert (
        "%ranks 300: 300 members, each a process, and a session on one machine has"
        in (error(fresh_kernel, "%ranks 300")[1])
    )
    words = error(fresh_kernel, "import cellmesh as cm; n = int(cm.cluster_resources()['CPU'])\n%ranks $n --cpus 2")[1]
    assert "do not fit together: at most" in words and "free CPU:" in words


def test_without_torch_and_without_gpus_a_backend_says_what_it_needs(fresh_kernel: Kernel) -> None:
    fresh_kernel.run("%load_ext cellmesh\nimport sys\nsys.modules['torch'] = None", 60)
    words = error(fresh_kernel, "%ranks 2 --backend shared")[1]
    assert "--backend shared begins torch's process group: pip install 'cellmesh[train]'" in words
    words = error(fresh_kernel, "%ranks 2 --gpus 1000")[1]
    assert "2 members with GPU: 1000 each do not fit together: at most 0 do" in words and "free GPU: " in words
    assert "there are no ranks yet" in error(fresh_kernel, "%ranks")[1], "nothing was begun"


def test_namespaces_live_on_and_values_come_by_rank(ranks: Kernel) -> None:
    ranks.run("n = 5\ndef half(v): return v / 2")
    silent = ranks.run("%%ranks\nimport math\nx = rank * 10\ndef area(r): return math.floor(math.pi * r * n)")
    assert strip(ranks, silent) == {}, "nothing was printed"
    assert value(ranks, "cm.get(x), cm.get(x[1]), 'area' in globals()") == ([0, 10], 10, False)
    shown = ranks.run("%%ranks\ny = half(x) + n\n(y, world_size, device)")
    assert text(ranks, shown) == "rank 0:\n  (5.0, 2, 'cpu')\nrank 1:\n  (10.0, 2, 'cpu')"
    ranks.run("@cm.remote\ndef plus(a, b): return a + b")
    assert value(ranks, "cm.get(plus.remote(y[0], y[1]))") == 15.0, "tasks take what a rank has returned"
    functions = ranks.run("%%ranks\nn = 7\narea(1)")
    assert text(ranks, functions) == "ranks 0-1:\n  21", "functions see the variables as they are now"
    ranks.run("x = 'of the notebook'")
    assert text(ranks, ranks.run("%%ranks\nx")) == "ranks 0-1:\n  'of the notebook'"


def test_futures_by_rank_have_a_card_with_a_row_for_each(ranks: Kernel) -> None:
    ranks.run("%%ranks\nloss = 0.5 + rank\nmany = [loss] * 1000")
    request = ranks.run("loss")
    wait_until(lambda: text(ranks, request) == "loss by rank\n  rank 0: 0.5\n  rank 1: 1.5", what="the values")
    assert strip(ranks, request)["text/html"].count("<rect") == 2
    assert result(ranks, ranks.run("[loss]")) == "[<refs of loss by rank 0-1: all ready>]"
    assert "rank 1: [1.5, 1.5" in result(ranks, ranks.run("%inspect many"))


def test_the_card_by_rank_follows_calls_that_run(ranks: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    ranks.run(
        "import os, time\nclass Worker:\n    def step(self, gate):\n"
        "        while not os.path.exists(gate): time.sleep(0.01)\n"
        "        return 1 / cm.current_group().rank\n"
        f"workers = cm.group(Worker, 2)\nrefs = workers.step.remote({str(gate)!r})"
    )
    request = ranks.run("refs")
    assert "step by rank\n  rank 0: " in text(ranks, request) and "1.0" not in text(ranks, request)
    gate.touch()
    ended = "rank 0: ZeroDivisionError: division by zero\n  rank 1: 1.0"
    wait_until(lambda: text(ranks, request).endswith(ended), what="the end of both calls")
    assert "1 of 2 finished" in strip(ranks, request)["text/html"]
    ranks.run("del refs, workers")


def test_what_a_cell_changes_in_place_stays_changed_until_the_notebook_assigns_the_name(ranks: Kernel) -> None:
    ranks.run("seen = []")
    ranks.run("%%ranks\nseen.append(rank)")
    assert text(ranks, ranks.run("%%ranks\nseen.append(9)\nseen")) == "rank 0:\n  [0, 9]\nrank 1:\n  [1, 9]"
    ranks.run("seen = []")
    assert text(ranks, ranks.run("%%ranks\nseen")) == "ranks 0-1:\n  []"


def test_torchruns_variables_are_set(ranks: Kernel) -> None:
    names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR"
    ranks.run(
        f"%%ranks\nimport os\nset_here = [os.environ[name] for name in {names.split()}], os.environ['MASTER_PORT']"
    )
    (zero, port), (one, same) = value(ranks, "cm.get(set_here)")
    assert (zero[:4], one[:4]) == (["0", "2", "0", "2"], ["1", "2", "1", "2"])
    assert zero[4] == one[4] and port == same and port.isdecimal()


def test_one_strip_folds_what_is_the_same(ranks: Kernel) -> None:
    request = ranks.run(
        "%%ranks\nimport sys\nfrom IPython.display import HTML, display\nprint('hello')\n"
        "display(HTML('<b>bold</b>'))\nif rank: print('odd', file=sys.stderr)"
    )
    bold = "<IPython.core.display.HTML object>"
    assert text(ranks, request) == f"rank 0:\n  hello\n  {bold}\nrank 1:\n  hello\n  {bold}\n  odd"
    assert strip(ranks, request)["text/html"].count("<b>bold</b>") == 2
    assert ranks.text(request) == "" and ranks.text(request, "stderr") == ""
    saved = ranks.start("%%ranks\nfor i in range(3): print(i)", interactive=False)
    ranks.wait(saved)
    assert text(ranks, saved) == "ranks 0-1:\n  0\n  1\n  2"
    assert [m["parent_header"]["msg_id"] for m in ranks.of(saved, "display_data")] == [saved]


def test_a_cell_runs_in_some_of_the_ranks(ranks: Kernel) -> None:
    assert text(ranks, ranks.run("%%ranks 1\nonly = rank\nrank")) == "rank 1:\n  1"
    assert value(ranks, "only.ranks, cm.get(only)") == ((1,), [1])
    shown, _ = failed(ranks, "%%ranks\nonly")
    assert "NameError" in shown and "no cell has assigned it in rank 0" in shown


def test_mistakes_are_told_in_a_sentence(ranks: Kernel) -> None:
    assert "there is no rank 5: the ranks are 0-1" in error(ranks, "%%ranks 0,5\n1")[1]
    assert "'x' names no ranks: they are written as 0,2 or 0-3" in error(ranks, "%%ranks x\n1")[1]
    assert "ranks have none: ask in a cell of the notebook" in error(ranks, "%%ranks\nname = input('who')")[1]
    assert "--returns names 'zz', which does not occur" in error(ranks, "%%ranks --returns zz\n1")[1]
    assert "name 'unheard_of' is not defined: the cell reads it in line 2" in error(ranks, "%%ranks\nunheard_of")[1]
    assert "'1x' is no variable and its value" in error(ranks, "%ranks 3 --env 1x")[1]
    ranks.run("lock = __import__('threading').Lock()")
    assert "the cell reads 'lock', and lock cannot be sent" in error(ranks, "%%ranks\nlock")[1]
    ranks.run("%%ranks\nimport threading\nhandle = threading.Lock()")
    assert "handle cannot leave the worker" in error(ranks, "cm.get(handle)")[1]
    assert text(ranks, ranks.run("%%ranks\nhandle.locked()")) == "ranks 0-1:\n  False", "it is there all the same"


def test_an_error_names_the_rank_ends_the_waiting_of_others_and_leaves_all_variables(ranks: Kernel) -> None:
    ranks.run("%%ranks\nkept = rank + 100")
    shown, told = failed(ranks, "%%ranks\nbefore = kept\nif rank == 1:\n    1 / 0\nbarrier()")
    assert "division by zero" in shown and "The task 'rank 1' raised it" in shown and "1 / 0" in shown
    assert told.splitlines() == [
        "rank 0 interrupted at barrier(): rank 1 has failed",
        "rank 1 failed in line 4: ZeroDivisionError: division by zero",
    ]
    again = ranks.run("%%ranks\nbarrier()\nbefore")
    assert text(ranks, again) == "rank 0:\n  100\nrank 1:\n  101"
    shown, told = failed(ranks, "%%ranks\nkept = 'never'\nraise ValueError('both')")
    assert told == "ranks 0-1 failed in line 3: ValueError: both"
    assert value(ranks, "cm.get(kept)") == [100, 101], "a cell that fails everywhere binds nothing"


def test_pdb_over_the_frames_of_a_rank_that_has_failed(ranks: Kernel) -> None:
    cell = "def share(n):\n    half = 5 + rank\n    return half / n\nif rank == 1:\n    share(0)\nbarrier()"
    failed(ranks, f"%%ranks\n{cell}")
    assert "the frames of 'rank 1' were not kept when it failed" in error(ranks, "%inspect --pdb 1")[1]
    assert "the cell with %%ranks --keep-frames runs it again" in error(ranks, "%inspect --pdb")[1]
    number = value(ranks, "len(In)")
    failed(ranks, f"%%ranks --keep-frames\n{cell}")
    said = talk(ranks, "%inspect --pdb", "p half, n, rank", "q")
    assert said.startswith(f"> Cell In[{number}](4)share()\n-> return half / n\n(6, 0")
    assert text(ranks, ranks.run("%%ranks\nbarrier()\nrank")) == "rank 0:\n  0\nrank 1:\n  1", "the rank goes on"
    assert talk(ranks, "%inspect --pdb", "p rank", "q").endswith("\n1\n"), "it is the last error still"
    assert "or a rank that has failed in the last cell of %%ranks" in error(ranks, "%inspect --pdb 1")[1]
    failed(ranks, "%%ranks 0 --keep-frames\nvalue = 1 / 0")
    assert "in the last cell of %%ranks rank 0 failed" in error(ranks, "%inspect --pdb 1")[1]


def test_who_would_wait_for_ever_is_told_for_whom(ranks: Kernel) -> None:
    shown, told = failed(ranks, "%%ranks\nif rank == 0: barrier()")
    assert "GroupBrokenError: rank 0 waited at barrier() for ever: rank 1 ended the cell without it" in shown
    assert told == "rank 0 waited at barrier() for ever: rank 1 ended the cell without it"
    shown, _ = failed(ranks, "%%ranks 1\nbarrier()")
    assert "rank 1 waited at barrier() for ever: rank 0 does not run the cell" in shown
    ranks.run("%%ranks\nbarrier()")


def test_a_rank_that_others_wait_for_is_named_with_its_line(ranks: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    request = ranks.start(
        f"%%ranks\nimport os, time\nif rank == 1:\n    while not os.path.exists({str(gate)!r}):\n"
        "        time.sleep(0.01)\nbarrier()"
    )
    wait_until(
        lambda: text(ranks, request).startswith("rank 0 waits at barrier() for rank 1 (in line "),
        what="who waits for whom",
    )
    assert "(in line 4)" in text(ranks, request) or "(in line 5)" in text(ranks, request)
    gate.touch()
    ranks.wait(request)
    assert re.fullmatch(r"rank 1 was the slowest: others waited \d+ s of \d+ s for it", text(ranks, request))


def test_the_stop_button_interrupts_all_ranks_and_leaves_them_usable(ranks: Kernel, tmp_path: Path) -> None:
    ranks.run(f"folder = {str(tmp_path)!r}\ngot = 'before'")
    request = ranks.start(
        "%%ranks\nimport os, time\ngot = rank\nopen(f'{folder}/{rank}', 'w').close()\n"
        "try:\n    while True: time.sleep(0.01)\nfinally:\n    tidied = True"
    )
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2, what="both ranks run")
    ranks.manager.interrupt_kernel()
    reply = reply_of(ranks, request)
    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
    assert "run on" not in ranks.text(request), "nothing goes on"
    assert text(ranks, ranks.run("%%ranks\n(rank, tidied)")) == "rank 0:\n  (0, True)\nrank 1:\n  (1, True)"
    assert value(ranks, "got") == "before", "no rank has come to the end of the cell"


def test_the_stop_button_while_the_calls_are_sent_stops_those_that_were(ranks: Kernel) -> None:
    ranks.run(
        "from cellmesh.kernel_ext.ranks.waiting import CellInRanks\nadd = CellInRanks.add\n"
        "def interrupted(self, rank, refs):\n    CellInRanks.add = add\n    raise KeyboardInterrupt\n"
        "CellInRanks.add = interrupted"
    )
    assert error(ranks, "%%ranks\nimport time\nwhile True: time.sleep(0.01)")[0] == "KeyboardInterrupt"
    assert text(ranks, ranks.run("%%ranks\nrank")) == "rank 0:\n  0\nrank 1:\n  1"


def test_a_rank_that_dies_is_named_and_can_be_brought_back(ranks: Kernel) -> None:
    ranks.run("%%ranks\nkept = rank")
    shown, told = failed(ranks, "%%ranks\nimport os\nprint('last words')\nif rank == 1: os._exit(3)\nbarrier()")
    died = "rank 1 is dead: its process ended with exit status 3\n%ranks restart 1 makes it anew"
    assert died in shown and "rank 1 has died" in told and "last words" in told
    assert "1  dead: its process ended with exit status 3" in result(ranks, ranks.run("%ranks"))
    shown, _ = failed(ranks, "%%ranks\nkept")
    assert died in shown and "%%ranks 0 runs a cell without it" in shown
    assert text(ranks, ranks.run("%%ranks 0\nkept")) == "rank 0:\n  0"
    assert result(ranks, ranks.run("%ranks restart")).count("alive") == 2
    shown, _ = failed(ranks, "%%ranks\nkept")
    assert "no cell has assigned it in rank 1, or that was before the rank was restarted" in shown
    assert text(ranks, ranks.run("%%ranks\nkept = rank\nbarrier()\nkept")) == "rank 0:\n  0\nrank 1:\n  1"


def test_before_ranks_end_for_others_it_is_asked(ranks: Kernel) -> None:
    ranks.run("%%ranks\nkept = rank")
    of_program = ranks.start("%ranks 1", interactive=False)  # who could answer nothing
    ranks.wait(of_program)
    no = ranks.start("%ranks 1")
    question = "There are 2 ranks. End them, with all variables, and make 1? [y/N] "
    assert ranks.client.get_stdin_msg(timeout=20)["content"]["prompt"] == question
    ranks.client.input("n")
    ranks.wait(no)
    for request in (of_program, no):
        assert "there are 2 ranks already: %ranks stop ends them" in ranks.text(request, "stderr")
    assert text(ranks, ranks.run("%%ranks\nkept")) == "rank 0:\n  0\nrank 1:\n  1"
    talk(ranks, "%ranks 1", "y", prompt=question)
    assert text(ranks, ranks.run("%%ranks\n(rank, world_size)")) == "rank 0:\n  (0, 1)"
    talk(ranks, "%ranks 2", "yes", prompt="There is 1 rank. End it, with all variables, and make 2? [y/N] ")
    assert text(ranks, ranks.run("%%ranks\nbarrier()\nworld_size")) == "ranks 0-1:\n  2"


def test_stopped_ranks_leave_their_values_for_the_next(ranks: Kernel) -> None:
    ranks.run("%%ranks\nweights = [rank] * 3")
    ranks.run("%ranks stop")
    assert "there are no ranks yet" in error(ranks, "%%ranks\nweights")[1]
    ranks.run("%ranks 2 --env KIND=second", 60)
    again = ranks.run("%%ranks\nimport os\n(weights, os.environ['KIND'])")
    assert text(ranks, again) == "rank 0:\n  ([0, 0, 0], 'second')\nrank 1:\n  ([1, 1, 1], 'second')"
    ranks.run("%ranks stop")
