"""ray.kill with and without a restart, and calls that were under way."""
import time

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote(max_restarts=1, max_task_retries=1)
class Steady:
    def __init__(self):
        self.calls = 0

    def call(self):
        self.calls += 1
        return self.calls

    def restarted(self):
        return ray.get_runtime_context().was_current_actor_reconstructed

    def long(self):
        time.sleep(60)


steady = Steady.remote()
print(ray.get([steady.call.remote() for _ in range(2)]))
ray.kill(steady, no_restart=False)
while not ray.get(steady.restarted.remote()):  # ray.kill does not wait
    pass
print("restarted", ray.get(steady.call.remote()))
ray.kill(steady)
try:
    while True:
        ray.get(steady.call.remote())
except ray.exceptions.ActorDiedError as error:
    print(type(error).__name__, "killed by" in str(error))
busy = Steady.options(max_restarts=0, max_task_retries=0).remote()
ray.get(busy.call.remote())
under_way = busy.long.remote()
ray.kill(busy)
try:
    ray.get(under_way, timeout=30)
except ray.exceptions.RayActorError as error:
    print("under way", type(error).__name__)
