"""num_returns="dynamic": one ref to a generator of refs."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote(num_returns="dynamic")
def split(text):
    for word in text.split():
        yield word


ref = split.remote("three short words")
print(type(ref).__name__)
refs = ray.get(ref)
print([ray.get(part) for part in refs], len(list(ray.get(ref))))


@ray.remote
def consume(refs):
    return [ray.get(part) for part in refs]


print(ray.get(consume.remote(split.remote("passed as an argument"))))


@ray.remote(num_returns="dynamic")
def broken():
    yield 1
    raise KeyError("broken")


for part in ray.get(broken.remote()):
    try:
        print(ray.get(part))
    except KeyError:
        print("KeyError")
