"""placement_group_capture_child_tasks: children in their parent's group, or out of it."""
import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
group = placement_group([{"CPU": 2}])
ray.get(group.ready())


@ray.remote(num_cpus=1)
def child():
    return ray.get_runtime_context().get_placement_group_id() is not None


@ray.remote(num_cpus=1)
def parent():
    inside = ray.get(child.remote())
    outside = ray.get(child.options(scheduling_strategy="DEFAULT").remote())
    free = ray.get(child.options(scheduling_strategy=PlacementGroupSchedulingStrategy(placement_group=None)).remote())
    return inside, outside, free


for capture in False, True:
    strategy = PlacementGroupSchedulingStrategy(placement_group=group, placement_group_capture_child_tasks=capture)
    print(capture, ray.get(parent.options(scheduling_strategy=strategy).remote(), timeout=60))
