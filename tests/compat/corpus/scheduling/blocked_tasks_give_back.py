"""A task that waits gives its CPU back, so nested tasks finish on one CPU."""
import ray

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)


@ray.remote
def child(x):
    return x + 1


@ray.remote
def parent(x):
    return ray.get(child.remote(x))


@ray.remote
def waits(x):
    ready, rest = ray.wait([child.remote(x), child.remote(x)], num_returns=2)
    return len(ready), len(rest)


print(ray.get([parent.remote(i) for i in range(3)]))
print(ray.get(waits.remote(1)))


@ray.remote
class Caller:
    def call(self, x):
        return ray.get(parent.remote(x))


print(ray.get(Caller.remote().call.remote(10)))
