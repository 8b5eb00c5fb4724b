"""Whether children of a task in a placement group are in that group, too: asked from inside."""
import ray
from ray.util import get_current_placement_group, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)


@ray.remote
def where():
    return get_current_placement_group() is not None


@ray.remote
def parent():
    context = ray.get_runtime_context()
    group = get_current_placement_group()
    return group is not None, context.should_capture_child_tasks_in_placement_group, ray.get(where.remote())


@ray.remote
class Parent:
    def children(self):
        context = ray.get_runtime_context()
        return context.should_capture_child_tasks_in_placement_group, ray.get(where.options(num_cpus=0).remote())


print(get_current_placement_group())
group = placement_group([{"CPU": 2}])
ray.get(group.ready())
for capture in (False, True):
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=capture)
    print(capture, ray.get(parent.options(scheduling_strategy=strategy).remote()))
    actor = Parent.options(scheduling_strategy=strategy, num_cpus=1).remote()
    print(capture, ray.get(actor.children.remote()))
    ray.kill(actor)
print(ray.get(parent.remote()))
remove_placement_group(group)
