"""Anti-patterns of large values: passed again and again, captured by a closure, returned through put."""
import numpy as np
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
large = np.arange(200_000)


@ray.remote
def last(array):
    return int(array[-1])


print(ray.get([last.remote(large) for _ in range(3)]))
stored = ray.put(large)
print(ray.get([last.remote(stored) for _ in range(3)]))


@ray.remote
def captured():
    return int(large[-1])


print(ray.get(captured.remote()))


@ray.remote
def returns_put():
    return ray.put(np.ones(1000))


@ray.remote
def returns_value():
    return np.ones(1000)


print(ray.get(ray.get(returns_put.remote())).sum() == ray.get(returns_value.remote()).sum())


@ray.remote
def puts(n):
    return [ray.put(np.full(100, i)) for i in range(n)]


@ray.remote
def yields(n):
    for i in range(n):
        yield np.full(100, i)


print([int(a[0]) for a in ray.get(ray.get(puts.remote(3)))], [int(ray.get(r)[0]) for r in yields.remote(3)])
too_large = np.zeros(100 * 1024 * 1024, dtype=np.uint8)


@ray.remote
def captures_too_much():
    return too_large.nbytes


try:
    print(ray.get(captures_too_much.remote()))
except ValueError as error:
    print(type(error).__name__, "captures_too_much" in str(error), "is too large" in str(error))
