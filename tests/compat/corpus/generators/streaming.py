"""Generator tasks: refs one by one, before the task has ended."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def count(n):
    for i in range(n):
        yield i * i


stream = count.remote(4)
print(type(stream).__name__, isinstance(stream, ray.ObjectRefGenerator))
for ref in stream:
    print(type(ref).__name__, ray.get(ref))
try:
    next(stream)
except StopIteration:
    print("ended")
print([ray.get(ref) for ref in count.remote(0)], [ray.get(ref) for ref in count.options(num_returns="streaming").remote(2)])


@ray.remote
class Gate:
    def __init__(self):
        self.n = 0

    def open(self):
        self.n += 1

    def is_open(self):
        return self.n


@ray.remote
def in_steps(gate):
    for i in range(3):
        while ray.get(gate.is_open.remote()) < i:
            pass
        yield i


gate = Gate.remote()
for ref in in_steps.remote(gate):
    print("got", ray.get(ref))
    ray.get(gate.open.remote())
