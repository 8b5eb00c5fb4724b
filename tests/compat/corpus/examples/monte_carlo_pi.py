"""The gentle example: estimate pi, with an actor that is told of the progress."""
import random

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
TASKS, SAMPLES = 4, 2000


@ray.remote
class Progress:
    def __init__(self, total):
        self.total, self.done = total, {}

    def report(self, task, done):
        self.done[task] = done

    def get(self):
        return sum(self.done.values()) / self.total


@ray.remote
def sample(task, progress):
    chance, inside = random.Random(task), 0
    for i in range(SAMPLES):
        x, y = chance.uniform(-1, 1), chance.uniform(-1, 1)
        inside += x * x + y * y <= 1
        if (i + 1) % 1000 == 0:
            progress.report.remote(task, i + 1)
    ray.get(progress.report.remote(task, SAMPLES))
    return inside


progress = Progress.remote(TASKS * SAMPLES)
results = [sample.remote(task, progress) for task in range(TASKS)]
total = sum(ray.get(results))
while ray.get(progress.get.remote()) < 1:
    pass
print(f"pi is about {4 * total / (TASKS * SAMPLES):.4f}", ray.get(progress.get.remote()))
