"""Anti-pattern: global variables as shared state; an actor instead."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
total = 3


@ray.remote
class Reader:
    def read(self):
        return total

    def change(self):
        global total
        total += 1
        return total


first, second = Reader.remote(), Reader.remote()
print(ray.get(first.change.remote()), ray.get(first.read.remote()), ray.get(second.read.remote()), total)


@ray.remote
class Shared:
    def __init__(self, value):
        self.value = value

    def set(self, value):
        self.value = value

    def get(self):
        return self.value


@ray.remote
def bump(shared):
    ray.get(shared.set.remote(ray.get(shared.get.remote()) + 1))


shared = Shared.remote(3)
ray.get(bump.remote(shared))
print(ray.get(shared.get.remote()))
