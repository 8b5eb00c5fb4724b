"""max_pending_calls: an actor that refuses when too many calls wait."""
import time

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote(max_pending_calls=3)
class Slow:
    def work(self, seconds=0.0):
        time.sleep(seconds)
        return "done"


slow = Slow.remote()
accepted = []
try:
    for _ in range(10):
        accepted.append(slow.work.remote(0.5))
except ray.exceptions.PendingCallsLimitExceeded as error:
    print(type(error).__name__, isinstance(error, ray.exceptions.RayError), 3 <= len(accepted) <= 4)
print(set(ray.get(accepted)), ray.get(slow.work.remote()))
free = Slow.options(max_pending_calls=-1).remote()
print(set(ray.get([free.work.remote() for _ in range(20)])))
