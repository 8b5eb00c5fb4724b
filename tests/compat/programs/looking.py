"""ray.util.state and ray.timeline."""

import time

import ray
from ray.util.state import (
    get_actor,
    list_actors,
    list_nodes,
    list_objects,
    list_tasks,
    list_workers,
    summarize_actors,
    summarize_tasks,
)

ray.init(num_cpus=2)


@ray.remote
def work():
    return 1


@ray.remote
class Holder:
    def ping(self):
        return 1


holder = Holder.options(name="holder").remote()
ray.get(holder.ping.remote())
ray.get([work.remote() for _ in range(3)])
big = ray.put(bytes(1_000_000))
deadline = time.time() + 20
while len(list_tasks(filters=[("name", "=", "work"), ("state", "=", "FINISHED")])) < 3 and time.time() < deadline:
    time.sleep(0.05)
tasks = list_tasks(filters=[("name", "=", "work")])
assert len(tasks) == 3 and all(task.state == "FINISHED" and task["type"] == "NORMAL_TASK" for task in tasks)
(actor,) = list_actors(filters=[("state", "=", "ALIVE")])
assert actor.class_name == "Holder" and actor.name == "holder" and get_actor(actor.actor_id).pid == actor.pid
assert actor.actor_id == holder._actor_id.hex() and list_tasks(filters=[("actor_id", "=", actor.actor_id)])
assert list_nodes()[0].is_head_node and list_workers()
assert any(row.object_id == big.hex() and row.object_size >= 1_000_000 for row in list_objects())
assert summarize_tasks()["cluster"]["summary"]["work"]["state_counts"]["FINISHED"] == 3
assert summarize_actors()["cluster"]["summary"]["Holder"]["state_counts"]["ALIVE"] == 1
assert any(event["ph"] == "X" for event in ray.timeline())
