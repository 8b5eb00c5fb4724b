"""The introduction to tasks: a slow data base that is asked side by side, kept in the store, followed up."""
import time

import ray

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
database = ["Learning", "Ray", "Flexible", "Distributed", "Python", "for", "Machine", "Learning"]
stored = ray.put(database)


@ray.remote
def retrieve(item, rows):
    time.sleep(item / 100)
    return item, rows[item]


@ray.remote
def follow_up(result):
    item, _ = result
    return result, ray.get(retrieve.remote(min(item + 1, 7), stored))


print(ray.get([retrieve.remote(item, stored) for item in range(8)]))
refs, found = [retrieve.remote(item, stored) for item in range(0, 8, 2)], []
while refs:
    finished, refs = ray.wait(refs, timeout=7.0)
    found += ray.get(finished)
print(sorted(found))
for first, second in ray.get([follow_up.remote(retrieve.remote(item, stored)) for item in range(0, 4, 2)]):
    print(first, second)


@ray.remote
class Tracker:
    def __init__(self):
        self.counts = 0

    def increment(self):
        self.counts += 1

    def total(self):
        return self.counts


@ray.remote
def tracked(item, tracker, rows):
    tracker.increment.remote()
    return item, rows[item]


tracker = Tracker.remote()
data = ray.get([tracked.remote(item, tracker, stored) for item in range(8)])
while ray.get(tracker.total.remote()) < 8:
    pass
print(len(data), ray.get(tracker.total.remote()))
