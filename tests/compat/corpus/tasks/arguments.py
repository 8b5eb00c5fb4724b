"""Arguments of every kind, and calls that do not fit the function."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def collect(a, b=2, *rest, c, d=4, **more):
    return a, b, rest, c, d, dict(sorted(more.items()))


print(ray.get(collect.remote(1, c=3)))
print(ray.get(collect.remote(1, 20, 30, 40, c=3, z=0, y=9)))
print(ray.get(collect.remote(a=ray.put("ref"), c=ray.put([1]), extra=ray.put({}))))


@ray.remote
def plain(x, y):
    return x - y


for what, call in {
    "missing": lambda: plain.remote(1),
    "too many": lambda: plain.remote(1, 2, 3),
    "unknown keyword": lambda: plain.remote(1, 2, z=3),
    "twice": lambda: plain.remote(1, x=2),
    "keyword-only by position": lambda: collect.remote(1, 2, 3),
}.items():
    try:
        call()
        print(what, "accepted")
    except TypeError as error:
        words = ("missing a required argument: 'y'", "too many positional", "unexpected keyword argument 'z'",
                 "multiple values for argument 'x'", "missing a required argument: 'c'")
        print(what, "TypeError:", [each for each in words if each in str(error)])


@ray.remote
def with_default(items=[]):
    items.append(len(items))
    return items


print(ray.get(plain.remote(y=1, x=5)), ray.get(with_default.remote()), ray.get(with_default.remote([7])))
