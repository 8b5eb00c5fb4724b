"""max_calls: a worker that ends after so many tasks; without it, workers are used again."""
import os

import ray

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)


@ray.remote(max_calls=1)
def fresh():
    return os.getpid()


@ray.remote
def reused():
    return os.getpid()


print(len({ray.get(fresh.remote()) for _ in range(3)}))
print(len({ray.get(reused.remote()) for _ in range(5)}))
print(os.getpid() in {ray.get(reused.remote()), ray.get(fresh.remote())})
