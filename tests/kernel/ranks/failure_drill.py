"""Has ranks of a real kernel killed, hang and fail at random moments, and goes on in the same kernel.

    python tests/kernel/ranks/failure_drill.py SEED N

A drill is a cell of three ranks, or a training of two, that does collectives; at a moment one rank raises, ends without
the others, calls another collective, hangs until the stop button, exits, or is killed from outside. What is told must
name what has happened, and the next cell must be as if nothing had: ranks that live have their variables, and
collectives their results. A drill after which that is not so needs a kernel restart; there should be none.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from support.kernels import Kernel, plain, reply_of
from support.strips import text
from support.waiting import wait_until

RANKS, TRAINED = 3, 2
LASTS_S = 1.0
TOLD = {  # what the error of the cell says, in ranks and in a training
    "raise": ("ValueError: drill", "raised ValueError: drill"),
    "leave": ("GroupBrokenError", "CollectiveMismatchError"),
    "mismatch": ("CollectiveMismatchError", "CollectiveMismatchError"),
    "hang": ("KeyboardInterrupt", "KeyboardInterrupt"),
    "exit": ("GroupMemberDiedError", "RankDiedError"),
    "kill": ("GroupMemberDiedError", "RankDiedError"),
}
WORK = f"""
import os, time, pathlib
import torch, torch.distributed as dist

def work(what, victim, after, folder):
    me = dist.get_rank()
    pathlib.Path(folder, f"{{me}}.new").write_text(str(os.getpid()))
    os.replace(pathlib.Path(folder, f"{{me}}.new"), pathlib.Path(folder, str(me)))
    begun, n = time.monotonic(), torch.zeros(1)
    while n < 1:
        if me == victim and time.monotonic() - begun > after:
            if what == "raise": raise ValueError("drill")
            if what == "leave": return
            if what == "mismatch": dist.broadcast(torch.ones(3), 0)
            if what == "hang": time.sleep(1000)
            if what == "exit": os._exit(3)
        dist.all_reduce(torch.ones(9000))
        n[0] = me == 0 and time.monotonic() - begun > {LASTS_S}
        dist.broadcast(n, 0)  # when to end says one of them

def total():
    x = torch.ones(2) * (dist.get_rank() + 1)
    dist.all_reduce(x)
    return x.tolist()
"""


@dataclass(frozen=True)
class Drill:
    """What happens, in a training or in ranks, to which rank, and after how long."""

    what: str
    is_training: bool
    victim: int
    after: float


def drills(seed: int, n: int) -> list[Drill]:
    """The drills of a seed."""
    rng, whats = random.Random(seed), list(TOLD)
    found = []
    for i in range(n):
        is_training = rng.random() < 0.3
        victim = rng.randrange(TRAINED if is_training else RANKS)
        found.append(Drill(whats[i % len(whats)], is_training, victim, rng.uniform(0, 0.6 * LASTS_S)))
    return found


class Failed(AssertionError):
    """The kernel is not as it was before the drill."""


def begin(kernel: Kernel) -> None:
    """Have ranks, which keep something."""
    kernel.run("%load_ext cellmesh\nfrom cellmesh import train", 60)
    kernel.run(WORK, 60)
    kernel.run(f"%ranks {RANKS} --backend shared", 120)
    kernel.run(f"%%ranks\n{WORK}\nkept = torch.full((4,), float(rank))", 60)


def perform(kernel: Kernel, drill: Drill) -> str:
    """Do it; "told" if something has happened, "too late" if the work had ended before."""
    with tempfile.TemporaryDirectory(prefix="cellmesh-drill-") as folder:
        call = f"work({drill.what!r}, {drill.victim}, {drill.after}, {folder!r})"
        code = (
            f"train.TorchTrainer(lambda: {call}, num_workers={TRAINED}, storage_path={folder!r}).fit()"
            if drill.is_training
            else f"%%ranks\n{call}"
        )
        request = kernel.start(code)
        pid = Path(folder, str(drill.victim))
        wait_until(pid.exists, 60, f"rank {drill.victim} of {drill}")
        if drill.what in ("kill", "hang"):
            time.sleep(drill.after)  # the random moment, of what nobody tells
        if drill.what == "kill":
            os.kill(int(pid.read_text()), signal.SIGKILL)
        elif drill.what == "hang":
            kernel.manager.interrupt_kernel()
        kernel.wait(request, 60)
    if reply_of(kernel, request)["status"] == "ok":
        return "too late"
    shown = "\n".join(plain(line) for m in kernel.of(request, "error") for line in m["content"]["traceback"])
    if TOLD[drill.what][drill.is_training] not in shown:
        raise Failed(f"{drill}: {shown}")
    return "told"


def check(kernel: Kernel, drill: Drill) -> None:
    """The next cells work, dead ranks are brought back, and the others have what they had."""
    dead = drill.what in ("kill", "exit") and not drill.is_training
    if dead:
        kernel.run("%ranks restart", 60)
        kernel.run(f"%%ranks {drill.victim}\n{WORK}\nkept = torch.full((4,), float(rank))", 60)
    shown = text(kernel, kernel.run("%%ranks\nprint(total(), bool((kept == rank).all()))", 60))
    if shown != f"ranks 0-{RANKS - 1}:\n  {[6.0, 6.0]} True":
        raise Failed(f"{drill}: the next cell shows {shown!r}")


def run(seed: int, n: int) -> tuple[Counter[str], int]:
    """All drills of a seed: what has come of them, and how many needed a kernel restart."""
    outcomes: Counter[str] = Counter()
    n_restarts = 0
    with tempfile.TemporaryDirectory(prefix="cellmesh-drill-") as folder:
        kernel = Kernel(Path(folder))
        try:
            begin(kernel)
            for i, drill in enumerate(drills(seed, n)):
                where = "training" if drill.is_training else "ranks"
                try:
                    outcomes[f"{drill.what} in {where}: {perform(kernel, drill)}"] += 1
                    check(kernel, drill)
                except AssertionError as error:
                    n_restarts += 1
                    print(f"seed {seed}, drill {i}: {error}", flush=True)
                    kernel.restart()
                    begin(kernel)
        finally:
            kernel.close()
    return outcomes, n_restarts


def main() -> int:
    seed, n = int(sys.argv[1]), int(sys.argv[2])
    begun = time.monotonic()
    outcomes, n_restarts = run(seed, n)
    for outcome, times in sorted(outcomes.items()):
        print(f"{times:4}  {outcome}")
    print(f"seed {seed}: {n} drills in {time.monotonic() - begun:.0f} s, {n_restarts} needed a kernel restart")
    return 1 if n_restarts else 0


if __name__ == "__main__":
    sys.exit(main())
