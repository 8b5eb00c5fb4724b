"""What `make bench-libraries` measures of Train, written once for each peer. Run as a program it measures one row.

python benchmarks/libraries/train_workloads.py cellmesh all_reduce_4k      prints JSON
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = {"all_reduce_4k": 4 << 10, "all_reduce_1m": 1 << 20, "all_reduce_16m": 16 << 20}
N_REDUCTIONS = {"all_reduce_4k": 2000, "all_reduce_1m": 200, "all_reduce_16m": 20}
N_WORKERS, N_PUSHES = 4, 30
ARRAYS = {name: 1 << 17 for name in "abc"}  # three of 1 MB


def reductions(row):
    """Times of sums over the ranks of torch's default group, in ms."""
    import torch
    import torch.distributed as dist

    tensor, took = torch.ones(SIZES[row] // 4), []
    for _ in range(N_REDUCTIONS[row]):
        tensor.fill_(1.0)
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(tensor)
        took.append((time.perf_counter() - began) * 1e3)
    assert tensor[0] == 2
    return took


def figures(took):
    return {"ms": statistics.median(took)}


# ---- cellmesh
class Cellmesh:
    def __init__(self):
        import cellmesh

        self.cm = cellmesh
        self.version = cellmesh.__version__
        os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()

    def all_reduce(self, row):
        from cellmesh import train

        self.cm.init(num_cpus=2)

        def loop():
            train.report(took=statistics.median(reductions(row)))

        return {"ms": train.TorchTrainer(loop, num_workers=2, verbose=0).fit().metrics["took"]}

    def group_start(self):
        """From fit() to the end of the first sum, in the fastest way: when torch is there."""
        from cellmesh import train

        self.cm.init(num_cpus=2)

        def loop():
            import torch
            import torch.distributed as dist

            dist.all_reduce(torch.ones(1))
            train.report(at=time.time())

        took = []
        for _ in range(6):
            began = time.time()
            took.append(train.TorchTrainer(loop, num_workers=2, verbose=0).fit().metrics["at"] - began)
        return {"s": statistics.median(took[1:])}

    def parameter_server(self):
        import numpy as np

        from cellmesh import train

        self.cm.init(num_cpus=N_WORKERS)
        ps = train.ParameterServer({name: np.zeros(n) for name, n in ARRAYS.items()})

        def work():
            gradients = {name: np.ones(n) for name, n in ARRAYS.items()}
            for _ in range(N_PUSHES):
                ps.pull()
                ps.push(gradients)

        def total():
            return ps.pull()["a"][0]

        return on_workers(self.cm, work, total)


class PlainActor(Cellmesh):
    """A parameter server as an actor of cellmesh."""

    def parameter_server(self):
        self.cm.init(num_cpus=N_WORKERS)
        return with_actor(self.cm)


class Ray:
    """A parameter server as an actor of Ray."""

    def __init__(self):
        import ray

        self.ray, self.version = ray, ray.__version__

    def parameter_server(self):
        self.ray.init(num_cpus=N_WORKERS, include_dashboard=False, log_to_driver=False)
        return with_actor(self.ray)


def with_actor(api):
    import numpy as np

    class Server:
        def __init__(self):
            self.values = {name: np.zeros(n) for name, n in ARRAYS.items()}

        def pull(self):
            return self.values

        def push(self, deltas):
            for name, delta in deltas.items():
                self.values[name] = self.values[name] + delta

    server = api.remote(num_cpus=0)(Server).remote()

    def work():
        gradients = {name: np.ones(n) for name, n in ARRAYS.items()}
        for _ in range(N_PUSHES):
            api.get(server.pull.remote())
            api.get(server.push.remote(gradients))

    return on_workers(api, work, lambda: api.get(server.pull.remote())["a"][0])


def on_workers(api, work, total):
    """Seconds until four workers have pulled and pushed; the second time, when they are there."""
    run = api.remote(num_cpus=1)(work)
    for n in (1, 2):
        began = time.perf_counter()
        api.get([run.remote() for _ in range(N_WORKERS)])
        took = time.perf_counter() - began
        assert total() == n * N_WORKERS * N_PUSHES
    return {"s": took}


# ---- torch by itself
class Gloo:
    def __init__(self):
        import torch

        self.version = torch.__version__

    def all_reduce(self, row):
        with tempfile.TemporaryDirectory() as folder:
            ranks = [
                subprocess.Popen(
                    [sys.executable, __file__, "gloo_rank", row, str(rank), os.path.join(folder, "store")],
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                )
                for rank in range(2)
            ]
            outputs = [rank.communicate()[0] for rank in ranks]
            return json.loads(outputs[0])

    def group_start(self):
        """torchrun, which starts two interpreters."""
        began = time.time()
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        done = subprocess.run([*command, __file__, "torchrun_rank", "-"], capture_output=True, text=True, check=True)
        return {"s": float(done.stdout.split()[0]) - began}


def gloo_rank(row, rank, store):
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=int(rank), world_size=2)
    print(json.dumps(figures(reductions(row))))
    dist.destroy_process_group()


def torchrun_rank():
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    if dist.get_rank() == 0:
        print(time.time())
    dist.destroy_process_group()


PEERS = {"cellmesh": Cellmesh, "ray": Ray, "gloo": Gloo, "plain_actor": PlainActor}

if __name__ == "__main__":
    api, row, *rest = sys.argv[1:]
    if api == "gloo_rank":
        gloo_rank(row, *rest)
    elif api == "torchrun_rank":
        torchrun_rank()
    else:
        peer = PEERS[api]()
        found = peer.all_reduce(row) if row in SIZES else getattr(peer, row)()
        print(json.dumps({"version": peer.version, "figures": found}))
