"""ActorPool: map, map_unordered, submit, idle actors, errors."""
import ray
from ray.util import ActorPool

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Worker:
    def double(self, x):
        if x < 0:
            raise ValueError(x)
        return 2 * x


workers = [Worker.remote() for _ in range(2)]
pool = ActorPool(workers)
print(list(pool.map(lambda a, v: a.double.remote(v), range(6))))
print(sorted(pool.map_unordered(lambda a, v: a.double.remote(v), range(6))))
pool.submit(lambda a, v: a.double.remote(v), 1)
pool.submit(lambda a, v: a.double.remote(v), 2)
pool.submit(lambda a, v: a.double.remote(v), 3)
print(pool.has_next(), pool.has_free(), pool.get_next(), pool.get_next_unordered() in (4, 6), pool.has_next())
pool.get_next_unordered()
print(pool.has_next(), pool.has_free())
try:
    pool.get_next()
except StopIteration as error:
    print(type(error).__name__)
idle = pool.pop_idle()
print(idle in workers, pool.pop_idle() in workers, pool.pop_idle())
pool.push(idle)
print(list(pool.map(lambda a, v: a.double.remote(v), [5])))
try:
    pool.push(idle)
except ValueError as error:
    print(type(error).__name__)
try:
    list(pool.map(lambda a, v: a.double.remote(v), [1, -1]))
except ValueError as error:
    print("ValueError", error.cause)
