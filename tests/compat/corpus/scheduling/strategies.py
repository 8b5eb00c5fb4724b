"""SPREAD, DEFAULT and node affinity; a node that is not there, hard and soft."""
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def node():
    return ray.get_runtime_context().get_node_id()


here = ray.get_runtime_context().get_node_id()
for strategy in "DEFAULT", "SPREAD", NodeAffinitySchedulingStrategy(node_id=here, soft=False):
    print(ray.get(node.options(scheduling_strategy=strategy).remote()) == here)
nowhere = "1" * len(here)
print(ray.get(node.options(scheduling_strategy=NodeAffinitySchedulingStrategy(nowhere, soft=True)).remote()) == here)
try:
    ray.get(node.options(scheduling_strategy=NodeAffinitySchedulingStrategy(nowhere, soft=False)).remote(), timeout=30)
except (ray.exceptions.TaskUnschedulableError, ValueError):
    print("refused")


@ray.remote(scheduling_strategy="SPREAD")
class Spread:
    def node(self):
        return ray.get_runtime_context().get_node_id()


print(len({ray.get(Spread.remote().node.remote()) for _ in range(2)}))
for wrong in ("NEAR",):
    try:
        node.options(scheduling_strategy=wrong).remote()
        print("accepted", wrong)
    except (TypeError, ValueError) as error:
        print("TypeError" if isinstance(error, TypeError) else type(error).__name__, wrong)
