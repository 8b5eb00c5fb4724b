"""`%inspect --pdb` in a real kernel: pdb over the frames that a worker has kept."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from support.kernels import Kernel, error, result, talk, value
from support.waiting import wait_until

CELL = (
    "%%remote --keep-frames\nrows = [1, 2, 0]\ndef share(total, n):\n    half = total / 2\n    return half / n\n"
    "shares = [share(10, n) for n in rows]"
)


def test_pdb_over_the_frames_of_a_cell(kernel: Kernel) -> None:
    number = value(kernel, "len(In)")
    request = kernel.run(CELL)
    kernel.until_text(request, lambda text: "ZeroDivisionError" in text, "stderr")
    kernel.run(
        "@cm.remote\ndef other(): return 1\ncm.get([other.remote() for _ in range(20)])"
    )  # the workers have moved on
    where = f"> Cell In[{number}](5)share()\n-> return half / n\n"
    said = talk(
        kernel, "%inspect --pdb shares", "p half, n", "half = 7; print(half * 6)", "interact", "u", "p rows", "q"
    )
    begin, _, rest = said.partition("not possible here")
    assert begin == f"{where}(5.0, 0)\n42\n"
    assert f"> Cell In[{number}](6)" in rest and rest.endswith("[1, 2, 0]\n")
    assert talk(kernel, "%inspect --pdb shares", "w", "q").endswith(where), "it can be looked at again"


def test_the_stop_button_ends_the_conversation(kernel: Kernel) -> None:
    kernel.run(CELL + "\n")
    kernel.run("cm.wait([shares])")
    request = kernel.start("%inspect --pdb shares")
    kernel.client.get_stdin_msg(timeout=20)
    kernel.manager.interrupt_kernel()
    kernel.wait(request)
    assert talk(kernel, "%inspect --pdb shares", "p n", "q").endswith("\n0\n"), "the worker is there for the next"


def test_where_nothing_can_be_typed_the_variables_are_shown(kernel: Kernel) -> None:
    kernel.run(CELL)
    kernel.run("cm.wait([shares])")
    request = kernel.run("%inspect --pdb shares", interactive=False)
    assert "The variables as they were then, since nothing can be typed here:" in kernel.text(request)
    assert "half = 5.0" in kernel.of(request, "execute_result")[0]["content"]["data"]["text/plain"]


def test_functions_and_actors_keep_frames_if_it_is_set_so(kernel: Kernel) -> None:
    kernel.run("%config CellmeshMagics.keep_frames = True")
    try:
        kernel.run(
            "@cm.remote\ndef share(n):\n    return 10 / n\n@cm.remote\nclass Till:\n    def __init__(self): "
            "self.coins = 3\n"
            "    def share(self, n): return self.coins / n\n"
            "till = Till.remote()\nfuts = [share.remote(0), till.share.remote(0)]\ncm.wait(futs, num_returns=2)\n"
            "first, second = futs"
        )
        assert talk(kernel, "%inspect --pdb first", "p n", "q").endswith("\n0\n")
        assert talk(kernel, "%inspect --pdb second", "p self.coins", "q").endswith("\n3\n")
        kernel.run("cm.wait([till.share.remote(0) for _ in range(3)], num_returns=3)")
        assert talk(kernel, "%inspect --pdb second") == "The worker has kept 3 later failures in place of this one.\n"
    finally:
        kernel.run("%config CellmeshMagics.keep_frames = False")


def test_a_worker_that_has_gone(kernel: Kernel) -> None:
    kernel.run(CELL)
    kernel.run("try: cm.get(shares)\nexcept ZeroDivisionError as error: pid = error.pid")
    pid = value(kernel, "pid")
    assert pid > 1
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    request = kernel.run("%inspect --pdb shares")
    assert "since the worker that kept the frames has ended:" in kernel.text(request)
    assert "half = 5.0" in kernel.of(request, "execute_result")[0]["content"]["data"]["text/plain"]


def test_a_worker_that_dies_while_it_is_looked_at(kernel: Kernel) -> None:
    kernel.run(CELL)
    kernel.run("cm.wait([shares])")
    request = kernel.start("%inspect --pdb shares")
    kernel.client.get_stdin_msg(timeout=20)
    kernel.client.input("import os; os.kill(os.getpid(), 9)")
    kernel.wait(request)
    assert "since the worker that kept the frames has ended meanwhile:" in kernel.text(request)
    assert "half = 5.0" in kernel.of(request, "execute_result")[0]["content"]["data"]["text/plain"]


def test_what_was_not_kept(kernel: Kernel) -> None:
    kernel.run(CELL.replace(" --keep-frames", ""))
    assert "%%remote --keep-frames" in error(kernel, "cm.wait([shares])\n%inspect --pdb shares")[1]


def test_an_error_stands_for_its_task_and_the_last_that_was_shown_needs_no_name(kernel: Kernel) -> None:
    kernel.run(
        "@cm.remote(keep_frames=True)\ndef share(n):\n    return 10 / n\n"
        "errors = cm.get([share.remote(0)], return_exceptions=True) + [ValueError()]"
    )
    assert talk(kernel, "%inspect --pdb errors[0]", "p n", "q").endswith("\n0\n")
    assert "'errors[1]' is no task's error" in error(kernel, "%inspect --pdb errors[1]")[1]
    error(kernel, "raise errors[1]")
    assert (
        "the last error that was shown is none of a task whose frames were kept" in error(kernel, "%inspect --pdb")[1]
    )
    assert "ZeroDivisionError" in error(kernel, "cm.get(share.remote(False))")[1]
    assert talk(kernel, "%inspect --pdb", "p n", "q").endswith("\nFalse\n")


def test_a_rank_of_a_training_that_has_failed(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run(
        "from cellmesh import train\ndef loop(config):\n    rank = train.get_context().get_world_rank()\n"
        "    half = config['total'] / 2\n    if rank == 1: half / 0\n    train.get_context().communicator.barrier()\n"
        f"trainer = train.Trainer(loop, num_workers=2, config={{'total': 10}}, storage_path={str(tmp_path)!r})"
    )
    assert "rank 1 raised ZeroDivisionError" in error(kernel, "trainer.fit()")[1]
    assert "the last error that was shown is none of a task whose" in error(kernel, "%inspect --pdb")[1]
    kernel.run("%config CellmeshMagics.keep_frames = True")
    try:
        assert "rank 1 raised ZeroDivisionError" in error(kernel, "trainer.fit()")[1]
        shown = kernel.run("%inspect --pdb", interactive=False)
        assert "since the worker that kept the frames has ended:" in kernel.text(shown)
        said = result(kernel, shown)
        assert "line 5, in loop\n    if rank == 1: half / 0\nconfig = {'total': 10}\nrank = 1\nhalf = 5.0" in said
        kernel.run("try:\n    trainer.fit()\nexcept train.TrainingFailedError as error:\n    failed = error")
        assert "rank = 1" in result(kernel, kernel.run("%inspect --pdb failed", interactive=False))
    finally:
        kernel.run("%config CellmeshMagics.keep_frames = False")
