"""Resources, fractions, custom ones, environment variables, placement by strategy."""

import os

import ray
from ray.runtime_env import RuntimeEnv
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ray.init(num_cpus=2, num_gpus=2, resources={"special": 1})
assert ray.cluster_resources()["special"] == 1 and ray.available_resources()["GPU"] == 2


@ray.remote(num_gpus=1)
def gpu():
    return ray.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"]


ids, visible = ray.get(gpu.remote())
assert len(ids) == 1 and str(ids[0]) == visible


@ray.remote(num_cpus=0.5, resources={"special": 0.25}, max_calls=3)
def part():
    return "ran"


assert ray.get([part.remote() for _ in range(6)]) == ["ran"] * 6


@ray.remote(num_cpus=0.5, resources={"special": 1})
class Holder:
    def assigned(self):
        return ray.get_runtime_context().get_assigned_resources()


@ray.remote(num_cpus=0.5, memory=1 << 20)
def assigned():
    return ray.get_runtime_context().get_assigned_resources()


found = ray.get(assigned.remote())
assert found["CPU"] == 0.5 and found["memory"] == 1 << 20
holder = Holder.remote()
found = ray.get(holder.assigned.remote())
assert found["CPU"] == 0.5 and found["special"] == 1
ray.kill(holder)


@ray.remote(runtime_env=RuntimeEnv(env_vars={"GREETING": "hello"}))
def greeting():
    return os.environ["GREETING"]


assert ray.get(greeting.remote()) == "hello"
assert ray.get(greeting.options(runtime_env={"env_vars": {"GREETING": "hi"}}).remote()) == "hi"
here = NodeAffinitySchedulingStrategy(node_id=ray.get_runtime_context().get_node_id(), soft=False)
assert ray.get(part.options(scheduling_strategy=here, num_cpus=1).remote()) == "ran"
assert ray.get(part.options(scheduling_strategy="SPREAD", name="named").remote()) == "ran"
try:
    part.options(num_cpu=1)
except ValueError as error:
    assert "num_cpus" in str(error)
else:
    raise AssertionError
