"""Many small tasks, many refs in one argument, many actors' calls: nothing is lost, and the order stays."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def increase(x):
    return x + 1


@ray.remote
def total(*values, refs=()):
    return sum(values) + sum(ray.get(list(refs)))


refs = [increase.remote(i) for i in range(500)]
print(ray.get(refs) == list(range(1, 501)))
print(ray.get(total.remote(*refs[:100])), ray.get(total.remote(refs=refs)))
ready, rest = ray.wait(refs, num_returns=len(refs))
print(ready == refs, rest)


@ray.remote
class Counter:
    def __init__(self):
        self.n = 0

    def add(self):
        self.n += 1
        return self.n


counters = [Counter.options(num_cpus=0).remote() for _ in range(3)]
print([ray.get([counter.add.remote() for _ in range(100)])[-1] for counter in counters])
