"""Monte Carlo with an actor that keeps the score, as in the introductory example; a job's runtime environment."""

import os
import random

import ray

ray.init(num_cpus=2, runtime_env={"env_vars": {"WHERE": "everywhere"}})


@ray.remote
class Progress:
    def __init__(self, n_samples):
        self.n_samples, self.by_task = n_samples, {}

    def report(self, task, n):
        self.by_task[task] = n

    def get(self):
        return sum(self.by_task.values()) / self.n_samples


@ray.remote
def sample(n, task, progress):
    inside = 0
    for i in range(n):
        x, y = random.uniform(-1, 1), random.uniform(-1, 1)
        inside += x * x + y * y <= 1
        if (i + 1) % 1000 == 0:
            progress.report.remote(task, i + 1)
    assert os.environ["WHERE"] == "everywhere"
    return inside


progress = Progress.remote(40_000)
results = [sample.remote(10_000, i, progress) for i in range(4)]
while ray.get(progress.get.remote()) < 1:
    ray.wait(results, timeout=0.05)
assert abs(4 * sum(ray.get(results)) / 40_000 - 3.14) < 0.1
assert ray.get(sample.options(runtime_env={"env_vars": {"WHERE": "everywhere", "B": "c"}}).remote(0, 9, progress)) == 0
