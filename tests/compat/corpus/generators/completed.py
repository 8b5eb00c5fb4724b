"""`completed()` of a generator is a ref of its own, sealed when the task has ended."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def counting(n):
    for i in range(n):
        yield i


@ray.remote
def failing(n):
    for i in range(n):
        yield i
    raise ValueError("at the end")


made = counting.remote(3)
done = made.completed()
print(type(done).__name__, type(made).__name__)
print(ray.get(done))
print([ray.get(ref) for ref in made])
print(made.completed() == done)

bad = failing.remote(2)
try:
    ray.get(bad.completed())
except ValueError as error:
    print("completed", type(error).__name__, "at the end" in str(error))
seen = []
try:
    for ref in bad:
        seen.append(ray.get(ref))
except ValueError as error:
    print("iteration", type(error).__name__)
print(seen)
print(ray.wait([made.completed()], timeout=5)[0] == [done])
