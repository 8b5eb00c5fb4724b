"""What the one ref of a task with `num_returns="dynamic"` holds."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote(num_returns="dynamic")
def parts(n):
    for i in range(n):
        yield i * 10


@ray.remote
def total(refs):
    return sum(ray.get(list(refs)))


ref = parts.remote(3)
print(type(ref).__name__)
value = ray.get(ref)
print([ray.get(each) for each in value])
print([ray.get(each) for each in ray.get(ref)])
print(ray.get(total.remote(ref)))
print([ray.get(each) for each in ray.get(parts.remote(0))])
