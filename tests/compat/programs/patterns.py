"""Patterns of Ray's documentation: trees of tasks and actors, limits, signals, one large argument for many."""

import random

import numpy as np
import ray

ray.init(num_cpus=2)


# nested tasks: quick sort
@ray.remote
def quick_sort(values):
    if len(values) <= 20:
        return sorted(values)
    pivot, rest = values[0], values[1:]
    left = quick_sort.remote([v for v in rest if v < pivot])
    right = quick_sort.remote([v for v in rest if v >= pivot])
    return ray.get(left) + [pivot] + ray.get(right)


numbers = [random.randrange(10_000) for _ in range(500)]
assert ray.get(quick_sort.remote(numbers)) == sorted(numbers)


# a tree of actors
@ray.remote(num_cpus=0)
class Leaf:
    def work(self, x):
        return x + 1


@ray.remote(num_cpus=0)
class Supervisor:
    def __init__(self, n):
        self.leaves = [Leaf.remote() for _ in range(n)]

    def work(self, values):
        return ray.get([leaf.work.remote(value) for leaf, value in zip(self.leaves, values)])


assert ray.get(Supervisor.remote(3).work.remote([1, 2, 3])) == [2, 3, 4]


# how many tasks are pending is limited with ray.wait
@ray.remote
def process(i):
    return i


pending, results = [], []
for i in range(50):
    if len(pending) >= 8:
        ready, pending = ray.wait(pending, num_returns=1)
        results += ray.get(ready)
    pending.append(process.remote(i))
results += ray.get(pending)
assert sorted(results) == list(range(50))


# an actor that signals
@ray.remote(num_cpus=0)
class Signal:
    def __init__(self):
        import asyncio

        self.event = asyncio.Event()

    def send(self, clear=False):
        self.event.set()
        if clear:
            self.event.clear()

    async def wait(self):
        await self.event.wait()


@ray.remote
def wait_and_go(signal):
    ray.get(signal.wait.remote())
    return "went"


signal = Signal.remote()
waiting = [wait_and_go.remote(signal) for _ in range(4)]
ray.get(signal.send.remote())
assert ray.get(waiting) == ["went"] * 4

# a large argument is stored once; arrays arrive read-only
array = np.arange(1_000_000)
stored = ray.put(array)


@ray.remote
def item(values, i):
    try:
        values[0] = 1
    except ValueError:
        return int(values[i])


assert ray.get([item.remote(stored, i) for i in range(10)]) == list(range(10))


# refs in containers stay refs
@ray.remote
def total(refs):
    assert all(isinstance(ref, ray.ObjectRef) for ref in refs)
    return sum(ray.get(refs))


assert ray.get(total.remote([process.remote(i) for i in range(5)])) == 10


# map and reduce
@ray.remote
def map_words(text):
    counts = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    return counts


@ray.remote
def merge(a, b):
    return {word: a.get(word, 0) + b.get(word, 0) for word in {*a, *b}}


counts = [map_words.remote(text) for text in ["to be or", "not to be", "that is", "to be"]]
while len(counts) > 1:
    counts = counts[2:] + [merge.remote(counts[0], counts[1])]
assert ray.get(counts[0])["to"] == 3 and ray.get(counts[0])["be"] == 3


# whether there is a ref yet is asked by its truth, and refs are compared with anything
@ray.remote
class Latest:
    def __init__(self):
        self.ref = None

    def next(self, boxed):
        before, self.ref = self.ref, boxed[0]
        return ray.get(before) if before else "none yet"


latest, refs = Latest.remote(), [ray.put(1), ray.put(2)]
assert [ray.get(latest.next.remote([ref])) for ref in refs] == ["none yet", 1]
assert all(refs) and refs[0] != 1 and refs[0] != refs[1] and 3 not in refs
