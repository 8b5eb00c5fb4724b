"""What becomes of a placement group that is removed, and of what runs and waits in it."""
import time

import ray
from ray.util import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote(max_retries=0)
def one():
    return 1


@ray.remote
class Inside:
    def hello(self):
        return "hello"


def attempt(what, function):
    try:
        print(what, function())
    except Exception as error:
        kinds = (ray.exceptions.ActorDiedError, ValueError, Exception)
        print(what, [kind.__name__ for kind in kinds if isinstance(error, kind)][0])


def state(group):
    return placement_group_table(group)["state"]


group = placement_group([{"CPU": 1}], name="mine")
print(ray.get(group.ready()).bundle_specs, state(group))
actor = Inside.options(num_cpus=1, scheduling_strategy=PlacementGroupSchedulingStrategy(group)).remote()
print(ray.get(actor.hello.remote()))
print(ray.util.get_placement_group("mine") == group)
remove_placement_group(group)
while state(group) != "REMOVED":
    time.sleep(0.05)
print(state(group))
time.sleep(0.5)
attempt("call of an actor in it", lambda: ray.get(actor.hello.remote(), timeout=20))
late = one.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group))
attempt("task in it", lambda: ray.get(late.remote(), timeout=5))
attempt("by name", lambda: ray.util.get_placement_group("mine"))
attempt("again", lambda: remove_placement_group(group))
attempt("wait", lambda: group.wait(1))
attempt("empty bundle", lambda: placement_group([{}]))
attempt("no bundles", lambda: placement_group([]))
attempt("wrong strategy", lambda: placement_group([{"CPU": 1}], strategy="ANY"))
