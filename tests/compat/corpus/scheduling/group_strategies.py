"""The four strategies on one machine: what fits, and what waits."""
import ray
from ray.util import get_placement_group, placement_group, remove_placement_group
from ray.util.placement_group import placement_group_table

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
for strategy in "PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD":
    group = placement_group([{"CPU": 1}] * 2, strategy=strategy)
    print(strategy, group.wait(timeout_seconds=1 if strategy == "STRICT_SPREAD" else 30))
    remove_placement_group(group)
large = placement_group([{"CPU": 8}])
print("too large", large.wait(timeout_seconds=0.3), ray.wait([large.ready()], timeout=0.2)[0])
remove_placement_group(large)
named = placement_group([{"CPU": 1}], name="named")
ray.get(named.ready())
print(get_placement_group("named").id == named.id, get_placement_group("named") == named)
for what, call in {"unknown": lambda: get_placement_group("none"), "empty": lambda: get_placement_group("")}.items():
    try:
        call()
        print(what, "accepted")
    except ValueError as error:
        print(what, type(error).__name__)
first, second = placement_group([{"CPU": 2}]), placement_group([{"CPU": 2}])
print(first.wait(30), second.wait(0.3))
remove_placement_group(named)
print(second.wait(30))
print(placement_group_table(second)["state"], placement_group_table(named)["state"])
