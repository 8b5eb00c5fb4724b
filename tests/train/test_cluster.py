"""Ranks on two machines: where they are, what they report, and what they go on from."""

from __future__ import annotations

import json

import pytest
from support.drivers import ends_well, program
from support.real_machines import Machine, machines

# The driver's machine has no CPU, and each of the others has one, so the two ranks are on two machines.
DRIVER = """
import json, signal
import numpy as np
from cellmesh import train

def loop(config):
    c = train.get_context()
    rank, start = c.get_world_rank(), train.get_checkpoint()
    tf = json.loads(os.environ["TF_CONFIG"])
    assert tf["task"] == {"type": "worker", "index": rank} and len(set(tf["cluster"]["worker"])) == 2
    part = train.get_dataset_shard()
    if rank == 0:
        for step in range(start.value["step"] if start else 0, 4):
            if step == 2 and not start:
                os.kill(os.getpid(), signal.SIGKILL)
            train.report(
                step=step, part=part.tolist(), checkpoint={"step": step + 1}, master=os.environ["MASTER_ADDR"],
                places=[c.get_local_rank(), c.get_local_world_size(), c.get_node_rank()],
            )

wait_for_nodes(2)
options = {"num_workers": 2, "config": {}, "datasets": {"train": np.arange(4)}, "verbose": 0}
try:
    train.TensorflowTrainer(loop, **options).fit()
except train.TrainingFailedError as error:
    print(json.dumps([error.rank, type(error.__cause__).__name__, error.result.metrics["step"]]))
metrics = train.TensorflowTrainer(loop, max_failures=1, **options).fit().metrics
print(json.dumps({name: metrics[name] for name in ("step", "part", "places")}))
"""


@pytest.mark.timeout(150)
def test_ranks_on_two_machines() -> None:
    memory = ("--num-cpus", "1", "--object-store-memory", str(128 << 20))
    with machines(Machine(), Machine(), Machine()) as (here, there, mine):
        head = here.head(*memory)
        there.join(head, here.run("token"), *memory)
        driver = program(mine, head, here.run("token"), DRIVER, CPUS="0")
        failed, done = map(json.loads, ends_well(driver).splitlines())
    assert failed == [0, "TaskError(RankDiedError)", 1]
    assert done == {"step": 3, "part": [0, 1], "places": [0, 1, 0]}


GLOO = """
import json
from cellmesh import train

def loop():
    import torch, torch.distributed as dist
    tensor = torch.ones(3) * (dist.get_rank() + 1)
    dist.all_reduce(tensor)
    train.report(sums=tensor.tolist(), backend=dist.get_backend(), machines=os.environ["GROUP_WORLD_SIZE"])

wait_for_nodes(2)
metrics = train.TorchTrainer(loop, num_workers=2, backend="gloo", verbose=0).fit().metrics
print(json.dumps([metrics[name] for name in ("sums", "backend", "machines")]))
"""


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_gloo_among_two_machines() -> None:
    pytest.importorskip("torch")  # pip install 'cellmesh[train]'
    memory = ("--num-cpus", "1", "--object-store-memory", str(128 << 20))
    with machines(Machine(), Machine(), Machine()) as (here, there, mine):
        head = here.head(*memory)
        there.join(head, here.run("token"), *memory)
        driver = program(mine, head, here.run("token"), GLOO, CPUS="0")
        assert json.loads(ends_well(driver)) == [[3.0] * 3, "gloo", "2"]
