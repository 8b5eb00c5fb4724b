"""A generator that nobody reads on: deleted, cancelled, passed to nobody."""
import time

import ray

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)


@ray.remote
def endless():
    i = 0
    while True:
        yield i
        i += 1
        time.sleep(0.01)


stream = endless.remote()
print([ray.get(next(stream)) for _ in range(3)])
ray.cancel(stream)
try:
    for ref in stream:
        ray.get(ref)
except ray.exceptions.TaskCancelledError:
    pass
print("it has an end")


@ray.remote
def short():
    return "the CPU is free again"


print(ray.get(short.remote(), timeout=30))


@ray.remote
def few():
    for letter in "abc":
        yield letter


first = [next(few.remote()) for _ in range(3)]
print(ray.get(first))


@ray.remote
def take(refs):
    return ray.get(refs)


print(ray.get(take.remote(list(few.remote()))))
try:
    ray.get(take.remote(few.remote()))
except Exception as error:
    print(isinstance(error, (TypeError, ray.exceptions.RayError)))
