"""torch's process group of ranks in a real kernel: collectives that can be seen into."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel.ranks.watching import Watching
from support.kernels import Kernel, error, result
from support.strips import failed, text
from support.waiting import wait_until

pytest.importorskip("torch")  # pip install 'cellmesh[train]'


TOTAL = "import torch, torch.distributed as dist\ndef total(x):\n    dist.all_reduce(x)\n    return x"
SUMS = "%%ranks\ntotal(torch.ones(2) + rank).tolist()"
SUMMED = "ranks 0-1:\n  [3.0, 3.0]"
PLACE = "all_reduce(sum) of float32 (2,)"


@pytest.fixture(scope="module")
def ranks(kernel: Kernel) -> Iterator[Kernel]:
    """A kernel with two ranks that have torch's process group."""
    kernel.run("%ranks 2 --backend shared", 120)
    kernel.run(f"%%ranks\n{TOTAL}", 60)
    yield kernel


def test_the_process_group_is_there(ranks: Kernel) -> None:
    assert text(ranks, ranks.run(SUMS)) == SUMMED
    assert text(ranks, ranks.run("%%ranks\n(dist.get_backend(), torch.get_num_threads())")) == (
        "ranks 0-1:\n  ('shared', 1)"
    )


def test_a_failure_ends_the_waiting_in_a_collective_and_models_go_on_in_the_next_cell(ranks: Kernel) -> None:
    ranks.run(
        "%%ranks\nfrom torch.nn.parallel import DistributedDataParallel\n"
        "model = DistributedDataParallel(torch.nn.Linear(2, 1))",
        60,
    )
    shown, told = failed(ranks, "%%ranks\nif rank == 1:\n    1 / 0\ntotal(torch.ones(2))")
    assert "division by zero" in shown
    assert told.splitlines() == [
        f"rank 0 interrupted at {PLACE}: rank 1 has failed",
        "rank 1 failed in line 3: ZeroDivisionError: division by zero",
    ]
    trained = ranks.run(
        "%%ranks\nmodel(torch.ones(1, 2) * (rank + 1)).sum().backward()\nmodel.module.weight.grad.tolist()"
    )
    assert text(ranks, trained) == "ranks 0-1:\n  [[1.5, 1.5]]"


def test_who_would_wait_for_ever_in_a_collective_is_told_for_whom(ranks: Kernel) -> None:
    shown, told = failed(ranks, "%%ranks\nif rank == 0: total(torch.ones(2))")
    assert told == f"rank 0 waited at {PLACE} for ever: rank 1 ended the cell without it"
    assert f"GroupBrokenError: {told}" in shown
    shown, told = failed(ranks, "%%ranks\ntotal(torch.ones(2)) if rank else barrier()")
    assert "rank 0 waited at barrier() for ever: others wait elsewhere" in told
    assert f"rank 1 waited at {PLACE} for ever: others wait elsewhere" in told
    assert text(ranks, ranks.run(SUMS)) == SUMMED


def test_who_would_wait_for_ever_in_a_part_of_the_ranks_is_told_for_whom(ranks: Kernel) -> None:
    shown, told = failed(ranks, "%%ranks\npart = dist.new_group([0, 1])\nif rank: dist.barrier(group=part)")
    assert "GroupBrokenError: rank 1 waited at barrier of the ranks 0,1 for ever: rank 0 ended the cell" in shown
    shown, told = failed(ranks, "%%ranks\npart = dist.new_group([0, 1])\n1 / rank\ndist.barrier(group=part)")
    assert "rank 1 interrupted at barrier of the ranks 0,1: rank 0 has failed" in told
    shown, told = failed(ranks, "%%ranks\nif rank == 0: dist.new_group([0, 1])")
    assert "rank 0 waited at a group of the ranks (0, 1) for ever: rank 1 ended the cell without it" in told
    alone = "%%ranks\npart = dist.new_group([1, 0])\nif rank: dist.send(torch.ones(2), 0, group=part)"
    shown, told = failed(ranks, alone)
    message = "message 0 from rank 1 to 0 of float32 (2,)"
    assert f"GroupBrokenError: rank 1 waited at {message} for ever: rank 0 ended the cell without it" in shown
    assert text(ranks, ranks.run(SUMS)) == SUMMED


def test_who_would_wait_for_ever_with_a_message_is_told_for_whom(ranks: Kernel) -> None:
    shown, told = failed(ranks, "%%ranks\nif rank == 0: dist.send(torch.ones(2), 1)")
    message = "message 0 from rank 0 to 1 of float32 (2,)"
    assert f"GroupBrokenError: rank 0 waited at {message} for ever: rank 1 ended the cell without it" in shown
    shown, told = failed(ranks, "%%ranks\ndist.recv(torch.ones(2), 1 - rank)")
    assert "rank 0 waited at message 0 from rank 1 to 0" in told and "for ever: others wait elsewhere" in told
    got = "%%ranks\nx = torch.full((2,), 5.0 + rank)\ndist.send(x, 1) if rank == 0 else dist.recv(x, 0)\nx.tolist()"
    assert text(ranks, ranks.run(got)) == "ranks 0-1:\n  [5.0, 5.0]", "not what was sent before"
    assert text(ranks, ranks.run(SUMS)) == SUMMED


def test_a_rank_that_others_wait_for_in_a_collective_is_named_with_its_line(ranks: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    request = ranks.start(
        f"%%ranks\nimport os, time\nif rank == 1:\n    while not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
        "total(torch.ones(2)).tolist()"
    )
    waits = f"rank 0 waits at {PLACE} for rank 1 (in line 4)"
    wait_until(lambda: text(ranks, request) == waits, what="who waits for whom")
    gate.touch()
    ranks.wait(request)
    slowest, strip = text(ranks, request).split("\n", 1)
    assert strip == "ranks 0-1:\n  [2.0, 2.0]"
    assert re.fullmatch(r"rank 1 was the slowest: others waited \d+ s of \d+ s for it", slowest)


def test_the_panel_is_told_when_each_rank_is_in_collectives(ranks: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Watching(ranks) as panel:
        wait_until(lambda: ranks.run(SUMS) and panel.collectives(), what="that ranks note what they do")
        request = ranks.start(
            f"%%ranks\nimport os, time\nif rank == 1:\n    while not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
            "total(torch.ones(2)).tolist()"
        )
        wait_until(lambda: [s for s in panel.collectives()[0] if s.ended is None], what="rank 0 in a collective")
        gate.touch()
        ranks.wait(request)
        wait_until(lambda: all(s.ended for some in panel.collectives().values() for s in some), what="their ends")
        spans = panel.collectives()
    assert set(spans) == {0, 1}
    assert {span.what for some in spans.values() for span in some} == {PLACE}
    assert max(span.inside for span in spans[0]) > max(span.inside for span in spans[1])


def test_a_rank_that_dies_is_brought_back_into_the_group(ranks: Kernel) -> None:
    shown, told = failed(ranks, "%%ranks\nimport os\nif rank == 1: os._exit(3)\ntotal(torch.ones(2))")
    assert "rank 1 is dead: its process ended with exit status 3" in shown
    assert "rank 1 has died" in told
    assert result(ranks, ranks.run("%ranks restart", 60)).count("alive") == 2
    ranks.run(f"%%ranks 1\n{TOTAL}")
    assert text(ranks, ranks.run(SUMS)) == SUMMED


def test_mistakes_are_told_in_a_sentence(ranks: Kernel) -> None:
    assert "'mpi' is none of the backends shared, gloo, nccl" in error(ranks, "%ranks 3 --backend mpi")[1]
    ranks.run("%ranks stop")
    words = error(ranks, "%ranks 2 --backend nccl")[1]
    assert "--backend nccl is between GPUs, one for each rank: %ranks 2 --backend nccl --gpus 1" in words


def test_gloo_and_the_panel_is_told_of_its_collectives_and_of_barriers(ranks: Kernel) -> None:
    ranks.run("%ranks stop")
    ranks.run("%ranks 2 --backend gloo", 60)
    ranks.run(f"%%ranks\n{TOTAL}")
    assert text(ranks, ranks.run(SUMS)) == SUMMED
    ranks.run(
        "%%ranks\nfrom torch.nn.parallel import DistributedDataParallel\n"
        "model = DistributedDataParallel(torch.nn.Linear(5, 1))",
        60,
    )
    with Watching(ranks) as panel:
        wait_until(lambda: ranks.run("%%ranks\nbarrier()") and panel.collectives(), what="that ranks note what they do")

        def told(cell: str, what: str) -> bool:
            ranks.run(cell, 60)
            spans = panel.collectives()
            return set(spans) == {0, 1} and all(any(s.what == what for s in some) for some in spans.values())

        for cell, what in [
            ("%%ranks\nbarrier()", "barrier()"),
            (SUMS, "all_reduce of float32 (2,)"),
            ("%%ranks\ndist.barrier()", "barrier"),
            ("%%ranks\nmodel(torch.ones(1, 5)).sum().backward()", "all_reduce of float32 (6,)"),
        ]:
            wait_until(lambda cell=cell, what=what: told(cell, what), what=what)
        wait_until(lambda: all(s.ended for some in panel.collectives().values() for s in some), what="their ends")
    assert text(ranks, ranks.run(SUMS)) == SUMMED
    ranks.run("%ranks stop")


def test_without_a_backend_the_process_group_begins_with_torch(fresh_kernel: Kernel) -> None:
    fresh_kernel.run("%load_ext cellmesh\n%ranks 3", 60)
    assert text(fresh_kernel, fresh_kernel.run("%%ranks\nimport sys\n'torch' in sys.modules")) == "ranks 0-2:\n  False"
    first = "%%ranks 0,2\nimport torch\nimport torch.distributed as dist\nx = torch.full((2,), rank + 5.0)\n"
    message = fresh_kernel.run(f"{first}dist.send(x, 2) if rank == 0 else dist.recv(x, 0)\nx.tolist()", 60)
    assert text(fresh_kernel, message) == "ranks 0, 2:\n  [5.0, 5.0]", "the others need not have come"
    assert text(fresh_kernel, fresh_kernel.run("%%ranks 1\n'torch' in sys.modules")) == "rank 1:\n  False"
    fresh_kernel.run(TOTAL)
    summed = "ranks 0-2:\n  [6.0, 6.0]"
    assert text(fresh_kernel, fresh_kernel.run(SUMS, 60)).endswith(summed), "the notebook's function brings torch along"
    told = failed(fresh_kernel, "%%ranks 0,1\ntotal(torch.ones(2))")[1]
    assert told == f"ranks 0-1 waited at {PLACE} for ever: rank 2 does not run the cell"
    assert text(fresh_kernel, fresh_kernel.run(SUMS)) == summed
    failed(fresh_kernel, "%%ranks\nimport os\nif rank == 1: os._exit(3)")
    fresh_kernel.run("%ranks restart", 60)
    assert text(fresh_kernel, fresh_kernel.run(SUMS, 60)).endswith(summed)


def test_without_a_backend_the_user_may_begin_another_process_group(ranks: Kernel) -> None:
    ranks.run("%ranks stop")
    ranks.run("%ranks 2", 60)
    assert text(ranks, ranks.run("%%ranks\nimport torch.distributed as dist\ndist.get_backend()", 60)) == (
        "ranks 0-1:\n  'shared'"
    )
    begun = ranks.run(
        f"%%ranks\n{TOTAL}\ndist.init_process_group('gloo')\n(total(torch.ones(1)), dist.get_backend())", 60
    )
    assert text(ranks, begun) == "ranks 0-1:\n  (tensor([2.]), 'gloo')"
    assert text(ranks, ranks.run("%%ranks\ndist.get_backend()")) == "ranks 0-1:\n  'gloo'"
    ranks.run("%ranks stop")
    ranks.run("%ranks 2", 60)
    ranks.run(f"%%ranks\n{TOTAL}\ntotal(torch.ones(1))", 60)
    words = failed(ranks, "%%ranks\ndist.init_process_group('gloo')")[0]
    assert "trying to initialize the default process group twice" in words, "what is used stays"
    assert text(ranks, ranks.run(SUMS)) == SUMMED
    ranks.run("%ranks stop")
