"""Tasks, objects, actors: each of the first things that a newcomer tries."""

import time

import ray

ray.init(num_cpus=2)
assert ray.is_initialized()


@ray.remote
def square(x):
    return x * x


@ray.remote
def total(*values):
    return sum(values)


@ray.remote(num_returns=3)
def three():
    return 1, 2, 3


@ray.remote(num_cpus=0)
class Counter:
    """Counts."""

    def __init__(self, start=0):
        self.value = start

    def increment(self, by=1):
        self.value += by
        return self.value


futures = [square.remote(i) for i in range(4)]
assert ray.get(futures) == [0, 1, 4, 9]
assert ray.get(total.remote(*futures)) == 14
assert ray.get(list(three.remote())) == [1, 2, 3]
big = ray.put(list(range(1000)))
assert ray.get(total.remote(big and 1, 2)) == 3

counters = [Counter.remote(i) for i in range(3)]
assert ray.get([c.increment.remote() for c in counters]) == [1, 2, 3]
assert "increment" in dir(counters[0])

try:
    square(2)
except TypeError as error:
    assert "remote" in str(error)
else:
    raise AssertionError("a remote function was called directly")


@ray.remote
def slow(seconds):
    time.sleep(seconds)
    return seconds


ready, rest = ray.wait([slow.remote(0), slow.remote(20)], num_returns=1, timeout=10)
assert len(ready) == len(rest) == 1 and ray.get(ready[0]) == 0
try:
    ray.get(rest[0], timeout=0.05)
except ray.exceptions.GetTimeoutError:
    pass
ray.cancel(rest[0], force=True)
try:
    ray.get(rest[0])
except (ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError):
    pass
assert ray.cluster_resources()["CPU"] == 2 and ray.nodes()[0]["Alive"]
ray.shutdown()
assert not ray.is_initialized()
