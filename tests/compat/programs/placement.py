"""Placement groups: reserved together, used by tasks and actors, found by name, removed."""

import ray
from ray.util import placement_group_table
from ray.util.placement_group import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init(num_cpus=3)
pg = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="PACK", name="workers")
assert ray.get(pg.ready(), timeout=30) == pg and pg.wait(timeout_seconds=10)
assert pg.bundle_specs == [{"CPU": 1}, {"CPU": 1}] and pg.bundle_count == 2
assert get_placement_group("workers").id == pg.id
row = placement_group_table(pg)
assert row["state"] == "CREATED" and row["strategy"] == "PACK" and row["placement_group_id"] == pg.id.hex()
assert ray.available_resources()["CPU"] == 1


@ray.remote(num_cpus=1)
def where():
    return get_current_placement_group()


@ray.remote(num_cpus=1)
class Trainer:
    def __init__(self, rank):
        self.rank = rank

    def spot(self):
        return self.rank, ray.get(where.remote())

    def forever(self):
        while True:
            pass


def inside(index=-1, capture=None):
    return PlacementGroupSchedulingStrategy(
        placement_group=pg, placement_group_bundle_index=index, placement_group_capture_child_tasks=capture
    )


assert ray.get(where.remote()) is None
assert ray.get([where.options(scheduling_strategy=inside(i)).remote() for i in (0, 1, -1)]) == [pg] * 3
trainer = Trainer.options(scheduling_strategy=inside(0, True)).remote(7)
assert ray.get(trainer.spot.remote()) == (7, pg)
try:
    where.options(num_cpus=2, scheduling_strategy=inside()).remote()
except ValueError:
    pass
else:
    raise AssertionError("more than any bundle has")

busy = trainer.forever.remote()
remove_placement_group(pg)
try:
    ray.get(busy, timeout=30)
except ray.exceptions.RayError as error:
    assert not isinstance(error, ray.exceptions.GetTimeoutError)
else:
    raise AssertionError("its group is gone")
assert placement_group_table(pg)["state"] == "REMOVED"
assert ray.get(placement_group([{"CPU": 3}], strategy="STRICT_PACK").ready(), timeout=30)
ray.shutdown()
