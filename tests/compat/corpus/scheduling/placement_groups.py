"""Placement groups: reserve, place tasks and actors into bundles, look, remove."""
import ray
from ray.util.placement_group import (get_current_placement_group, placement_group, placement_group_table,
                                      remove_placement_group)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init(num_cpus=4, resources={"slot": 2}, include_dashboard=False, log_to_driver=False)
group = placement_group([{"CPU": 1}, {"CPU": 1, "slot": 2}], strategy="PACK", name="two")
print(ray.get(group.ready(), timeout=30) is not None, group.wait(timeout_seconds=30), group.bundle_count)
print(group.bundle_specs, type(group).__name__)


def in_group(index=-1, **options):
    return PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=index, **options)


@ray.remote(num_cpus=1)
def where():
    current = get_current_placement_group()
    return current is not None and current.id.hex() == ray.get_runtime_context().get_placement_group_id()


print(ray.get([where.options(scheduling_strategy=in_group(i)).remote() for i in (-1, 0, 1)]), ray.get(where.remote()))


@ray.remote(num_cpus=1, resources={"slot": 1})
class Member:
    def hello(self):
        return "in the group"


member = Member.options(scheduling_strategy=in_group(1)).remote()
print(ray.get(member.hello.remote(), timeout=30))
table = placement_group_table(group)
print(table["name"], table["strategy"], table["state"], sorted(table["bundles"]))
for what, call in {"bundle 2": lambda: where.options(scheduling_strategy=in_group(2)).remote(),
                   "does not fit": lambda: where.options(num_cpus=3, scheduling_strategy=in_group(0)).remote(),
                   "no bundles": lambda: placement_group([]), "empty bundle": lambda: placement_group([{}]),
                   "strategy": lambda: placement_group([{"CPU": 1}], strategy="NEAR"), "zero": lambda: placement_group([{"CPU": 0}]),
                   "no list": lambda: placement_group({"CPU": 1})}.items():
    try:
        call()
        print(what, "accepted")
    except (TypeError, ValueError) as error:
        print(what, "TypeError" if isinstance(error, TypeError) else type(error).__name__)
remove_placement_group(group)
try:
    ray.get(member.hello.remote(), timeout=30)
except ray.exceptions.RayActorError as error:
    print("removed")
print(placement_group_table(group)["state"])
