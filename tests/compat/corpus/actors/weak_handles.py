"""get_actor: a handle that does not keep its actor alive."""
import time

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Counter:
    def __init__(self):
        self.n = 0

    def add(self):
        self.n += 1
        return self.n


@ray.remote
def add(counter):
    return ray.get(counter.add.remote())


owner = Counter.options(name="counter").remote()
print(ray.get(owner.add.remote()))
found = ray.get_actor("counter")
print(ray.get(found.add.remote()), isinstance(found, ray.actor.ActorHandle), ray.get(add.remote(found)))
del owner
while True:
    try:
        ray.get_actor("counter")
    except ValueError:
        break
    time.sleep(0.05)
try:
    print(ray.get(found.add.remote()))
except ray.exceptions.RayActorError as error:
    print(type(error).__name__)
kept = Counter.options(name="kept", lifetime="detached").remote()
del kept
print(ray.get(ray.get_actor("kept").add.remote()))
ray.shutdown()
