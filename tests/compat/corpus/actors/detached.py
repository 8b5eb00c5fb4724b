"""lifetime="detached": it lives until it is killed, whoever holds a handle."""
import gc

import ray
from ray.util import list_named_actors

ray.init(num_cpus=2, namespace="house", include_dashboard=False, log_to_driver=False)


@ray.remote
class Cat:
    def __init__(self):
        self.naps = 0

    def nap(self):
        self.naps += 1
        return self.naps


@ray.remote
def adopt():
    cat = Cat.options(name="tom", lifetime="detached").remote()
    return ray.get(cat.nap.remote())


print(ray.get(adopt.remote()))
gc.collect()
print(ray.get(ray.get_actor("tom").nap.remote()), list_named_actors())
ray.kill(ray.get_actor("tom"))
while list_named_actors():
    pass
for options in {"lifetime": "detached"}, {"lifetime": "for ever"}, {"lifetime": "non_detached"}, {"lifetime": None}:
    try:
        Cat.options(**options).remote()
        print("accepted", options)
    except (TypeError, ValueError) as error:
        print(type(error).__name__, options)
ray.shutdown()
