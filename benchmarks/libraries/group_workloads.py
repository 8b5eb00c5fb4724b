"""What `make bench-libraries` measures of actor groups and of cells that run in every rank, written once for each peer.
Run as a program it measures one row.

    python benchmarks/libraries/group_workloads.py cellmesh ranks_empty      prints JSON

Cells run in a real kernel, of the same interpreter, and their time is that of a front end: from the request until the
kernel is idle again.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import queue
import statistics
import sys
import tempfile
import time
from pathlib import Path

N_RANKS, N_MEMBERS = 4, 8
N_CELLS, N_STARTS, N_CALLS, N_GROUPS = 200, 3, 500, 10
LIMIT_S = 10.0  # nothing measured here takes as long, if it ends
SUM = "import torch\nanswer = float(torch.ones(1).sum())\nprint(answer)"
EMPTY = "pass"


def repeated(call, n):
    """Seconds of each call."""
    took = []
    for _ in range(n):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return took


# ---- actors, from a program
class Trainer:
    def step(self, x):
        return x


def called(call):
    """Microseconds of a call of all members, with their answers."""
    assert call() == [1] * N_MEMBERS
    repeated(call, N_CALLS // 5)
    return {"us": statistics.median(repeated(call, N_CALLS)) * 1e6}


def made(make, n=N_GROUPS):
    """Seconds until members have answered that were made."""
    return {"s": statistics.median(repeated(make, n)[1:])}


class Cellmesh:
    def begin(self):
        import cellmesh as cm

        cm.init(num_cpus=2)
        return cm

    def group_call(self):
        cm = self.begin()
        workers = cm.group(Trainer, N_MEMBERS)
        return called(lambda: cm.get(workers.step.remote(1)))

    def group_make(self):
        cm = self.begin()

        def make():
            assert cm.get(cm.group(Trainer, N_MEMBERS).step.remote(1)) == [1] * N_MEMBERS

        return made(make)


class Loop(Cellmesh):
    """The same calls, in a loop over the handles of the members."""

    def group_call(self):
        cm = self.begin()
        workers = list(cm.group(Trainer, N_MEMBERS))
        return called(lambda: cm.get([worker.step.remote(1) for worker in workers]))


class One(Cellmesh):
    """A single actor in place of a group."""

    def group_make(self):
        cm = self.begin()
        trainer = cm.remote(Trainer)

        def make():
            assert cm.get(trainer.remote().step.remote(1)) == 1

        return made(make)


class Ray:
    def __init__(self):
        import ray

        self.ray = ray
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    def workers(self):
        trainer = self.ray.remote(num_cpus=0)(Trainer)
        return [trainer.remote() for _ in range(N_MEMBERS)]

    def group_call(self):
        workers = self.workers()
        return called(lambda: self.ray.get([worker.step.remote(1) for worker in workers]))

    def group_make(self):
        def make():
            assert self.ray.get([worker.step.remote(1) for worker in self.workers()]) == [1] * N_MEMBERS

        return made(make, N_STARTS)


class Monarch:
    def workers(self):
        from monarch.actor import Actor, endpoint, this_host

        class Worker(Actor):
            @endpoint
            def step(self, x):
                return x

        self.procs = this_host().spawn_procs(per_host={"procs": N_MEMBERS})
        return self.procs.spawn("trainer", Worker)

    def group_call(self):
        workers = self.workers()
        return called(lambda: [value for _, value in workers.step.call(1).get().items()])

    def group_make(self):
        took = []
        for _ in range(N_STARTS):
            began = time.perf_counter()
            assert len(list(self.workers().step.call(1).get().items())) == N_MEMBERS
            took.append(time.perf_counter() - began)
            self.procs.stop().get()
        return {"s": statistics.median(took[1:])}


class Ipyparallel:
    def group_call(self):
        import ipyparallel

        with ipyparallel.Cluster(n=N_MEMBERS) as client:
            view = client[:]
            return called(lambda: view.apply_sync(lambda x: x, 1))


# ---- cells, in a kernel
class Notebook:
    """A real kernel, driven as a front end drives it."""

    def __init__(self):
        from jupyter_client.manager import start_new_kernel

        # As in an environment that is activated: nbdistributed runs `python`.
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.manager, self.client = start_new_kernel(kernel_name="python3", startup_timeout=60)

    def wait(self, request, limit_s):
        """What a request has printed, when the kernel is idle again; None if it is not by then."""
        end, shown = time.monotonic() + limit_s, []
        while (left := end - time.monotonic()) > 0:
            try:
                message = self.client.get_iopub_msg(timeout=left)
            except queue.Empty:
                break
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                shown.append(content["text"])
            elif message["msg_type"] in ("display_data", "execute_result", "update_display_data"):
                shown.append(content["data"].get("text/plain", ""))
            elif message["msg_type"] == "error":
                shown.append(f"{content['ename']}: {content['evalue']}")
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return "".join(shown)
        return None

    def run(self, code, limit_s=60.0):
        """Seconds that a cell takes, and what it shows."""
        began = time.perf_counter()
        shown = self.wait(self.client.execute(code), limit_s)
        took = time.perf_counter() - began
        if shown is None:
            raise SystemExit(f"no end within {limit_s:g} s of {code!r}")
        return took, shown


class Ranks:
    """Ranks of a kernel: how they are made, called and ended there.

    `load`, `begin`, `end`: cells. `cell(text)`: one that runs a text in all ranks.
    """

    load = begin = end = ""

    def cell(self, text):
        raise NotImplementedError

    def __init__(self):
        self.notebook = Notebook()
        self.run(self.load)

    def run(self, code):
        took, shown = self.notebook.run(code)
        if "Error" in shown:
            raise SystemExit(f"{code!r}: {shown}")
        return took

    def make(self):
        """Seconds from the cell that makes ranks to their first answer."""
        took, shown = self.run(self.begin), ""
        while "1.0" not in shown:  # nbdistributed loses a cell that comes before its workers have connected
            again, shown = self.notebook.run(self.cell(SUM))
            took += again
        return took

    def ranks_empty(self):
        """Beyond a plain cell."""
        self.make()
        plain, in_ranks = [], []
        for _ in range(N_CELLS):
            plain.append(self.run(EMPTY))
            in_ranks.append(self.run(self.cell(EMPTY)))
        return {"ms": (statistics.median(in_ranks) - statistics.median(plain)) * 1e3}

    def ranks_start(self):
        took = [self.make()]
        for _ in range(N_STARTS - 1):
            self.run(self.end)
            took.append(self.make())
        return {"s": statistics.median(took[1:])}

    def ranks_stop(self):
        """From the stop button until a next cell has run in all ranks."""
        self.make()
        took = []
        for _ in range(N_STARTS):
            with tempfile.TemporaryDirectory() as folder:
                text = (
                    f"import os, time\nopen(os.path.join({folder!r}, str(os.getpid())), 'w').close()\n"
                    "while True:\n    time.sleep(0.01)"
                )
                request = self.notebook.client.execute(self.cell(text))
                while len(os.listdir(folder)) < N_RANKS:
                    time.sleep(0.001)
                began = time.perf_counter()
                self.notebook.manager.interrupt_kernel()
                if self.notebook.wait(request, LIMIT_S) is None:
                    return never()
                if self.notebook.wait(self.notebook.client.execute(self.cell(EMPTY)), LIMIT_S) is None:
                    return never()
                took.append(time.perf_counter() - began)
        return {"s": statistics.median(took)}

    def ranks_error(self):
        """From the beginning of a cell in which one rank raises and the others wait for it to the cell's end."""
        self.make()
        self.run(self.cell(self.joined()))
        took = []
        for _ in range(N_STARTS):
            began = time.perf_counter()
            request = self.notebook.client.execute(self.cell("if rank == 1:\n    1 / 0\ndist.barrier()"))
            shown = self.notebook.wait(request, LIMIT_S)
            if shown is None:
                return never()
            assert "ZeroDivisionError" in shown, shown
            took.append(time.perf_counter() - began)
        return {"s": statistics.median(took)}

    def joined(self):
        """The text of a cell after which `dist` has a process group."""
        return "import torch.distributed as dist"


def never():
    return {"s": LIMIT_S, "said": f"no end within {LIMIT_S:g}"}


class CellmeshRanks(Ranks):
    load = "%load_ext cellmesh"
    begin, end = f"%ranks {N_RANKS} --backend shared", "%ranks stop"

    def cell(self, text):
        return f"%%ranks\n{text}"


class IpyparallelRanks(Ranks):
    load = "import ipyparallel"
    begin = (
        f"cluster = ipyparallel.Cluster(n={N_RANKS}, log_level=40)\nclient = cluster.start_and_connect_sync()\n"
        f"view = client[:]\nview.block = True\n"
        f"view.scatter('rank', range({N_RANKS}), flatten=True)\nview.activate()"
    )
    end = "client.close()\ncluster.stop_cluster_sync()"

    def cell(self, text):
        return f"%%px\n{text}"

    def joined(self):
        store = os.path.join(tempfile.mkdtemp(), "store")
        return (
            "import torch.distributed as dist\n"
            f"dist.init_process_group('gloo', init_method='file://{store}', rank=rank, world_size={N_RANKS})"
        )


class NbdistributedRanks(Ranks):
    load = "%load_ext nbdistributed"
    begin, end = f"%dist_init --num-processes {N_RANKS}\n%dist_mode --disable", "%dist_shutdown"  # plain cells: here

    def cell(self, text):
        return f"%%distributed\n{text}"


class MonarchRanks(Ranks):
    """It has no cells for ranks: an actor runs the texts."""

    load = (
        "from monarch.actor import Actor, endpoint, this_host\n"
        "class Rank(Actor):\n"
        "    def __init__(self): self.namespace = {}\n"
        "    @endpoint\n"
        "    def run(self, text):\n"
        "        exec(text, self.namespace)\n"
        "        return self.namespace.get('answer')"  # what it prints comes seconds later
    )
    begin = f"procs = this_host().spawn_procs(per_host={{'procs': {N_RANKS}}})\nranks = procs.spawn('rank', Rank)"
    end = "procs.stop().get()"

    def cell(self, text):
        return f"ranks.run.call({text!r}).get()"


# What is installed, and by whom actors and ranks are measured.
PEERS = {
    "cellmesh": ("cellmesh", Cellmesh, CellmeshRanks),
    "loop": ("cellmesh", Loop, None),
    "one": ("cellmesh", One, None),
    "ray": ("ray", Ray, None),
    "monarch": ("torchmonarch", Monarch, MonarchRanks),
    "ipyparallel": ("ipyparallel", Ipyparallel, IpyparallelRanks),
    "nbdistributed": ("nbdistributed", None, NbdistributedRanks),
}


def version(distribution):
    if distribution == "cellmesh":  # which may be on the path only
        import cellmesh

        return cellmesh.__version__
    return importlib.metadata.version(distribution)


if __name__ == "__main__":
    api, row = sys.argv[1:]
    distribution, actors, ranks = PEERS[api]
    figures = getattr((ranks if row.startswith("ranks_") else actors)(), row)()
    print(json.dumps({"version": version(distribution), "figures": figures}))
