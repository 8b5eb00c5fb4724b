"""max_restarts and max_task_retries: the constructor runs again, lost calls are run again."""
import os

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Shaky:
    def __init__(self):
        self.n = 0

    def add(self):
        self.n += 1
        if self.n == 3:
            os._exit(1)
        return self.n

    def restarted(self):
        return ray.get_runtime_context().was_current_actor_reconstructed


shaky = Shaky.options(max_restarts=2, max_task_retries=-1).remote()
print(ray.get(shaky.restarted.remote()), [ray.get(shaky.add.remote()) for _ in range(6)], ray.get(shaky.restarted.remote()))
try:
    print(ray.get(shaky.add.remote()))
except ray.exceptions.RayActorError as error:
    print(type(error).__name__)
once = Shaky.options(max_restarts=0).remote()
try:
    print([ray.get(once.add.remote()) for _ in range(4)])
except ray.exceptions.ActorDiedError as error:
    print(type(error).__name__, isinstance(error, ray.exceptions.RayActorError), "Shaky" in str(error))
lost = Shaky.options(max_restarts=1, max_task_retries=0).remote()
ray.get([lost.add.remote() for _ in range(2)])
try:
    print(ray.get(lost.add.remote()))
except ray.exceptions.RayActorError as error:
    print(type(error).__name__)
while True:
    try:
        print(ray.get(lost.add.remote()))
        break
    except ray.exceptions.ActorUnavailableError:
        pass
