"""The death of an actor that nobody catches."""
import os

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Mortal:
    def die(self):
        os._exit(3)


print("before")
ray.get(Mortal.remote().die.remote())
print("never reached")
