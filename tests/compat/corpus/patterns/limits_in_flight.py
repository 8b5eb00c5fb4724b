"""Limits: of tasks that wait (ray.wait), of tasks that run (a resource), of calls of an actor."""
import ray

ray.init(num_cpus=4, resources={"heavy": 2}, include_dashboard=False, log_to_driver=False)


@ray.remote
class Worker:
    def work(self, i):
        return i


worker, waiting, results, most = Worker.remote(), [], [], 0
for i in range(50):
    if len(waiting) >= 5:
        ready, waiting = ray.wait(waiting, num_returns=1)
        results += ray.get(ready)
    waiting.append(worker.work.remote(i))
    most = max(most, len(waiting))
results += ray.get(waiting)
print(most, sorted(results) == list(range(50)))


@ray.remote(num_cpus=0)
class Meter:
    def __init__(self):
        self.now = self.peak = 0

    def change(self, by):
        self.now += by
        self.peak = max(self.peak, self.now)
        return self.peak


@ray.remote(num_cpus=0, resources={"heavy": 1})
def heavy(meter):
    ray.get(meter.change.remote(1))
    ray.get(meter.change.remote(-1))


meter = Meter.remote()
ray.get([heavy.remote(meter) for _ in range(10)])
print(ray.get(meter.change.remote(0)) <= 2)
