"""Anti-patterns of ray.get: in a loop, in order of submission, for values that are only passed on."""
import ray

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)


@ray.remote
def one(i):
    return i + 1


in_loop = [ray.get(one.remote(i)) for i in range(4)]
at_once = ray.get([one.remote(i) for i in range(4)])
print(in_loop == at_once, at_once)


def as_they_come(refs):
    while refs:
        [ready], refs = ray.wait(refs, num_returns=1)
        yield ray.get(ready)


refs = [one.remote(i) for i in range(3)]
print(sorted(as_they_come(refs)), ray.get(refs))


@ray.remote
def generate():
    return {"rows": list(range(100))}


@ray.remote
def reduce(table):
    return sum(table["rows"])


print(ray.get(reduce.remote(ray.get(generate.remote()))), ray.get(reduce.remote(generate.remote())))


def process(batch):
    return [ray.get(ref) for ref in batch]


refs, results = [one.remote(i) for i in range(20)], []
while refs:
    ready, refs = ray.wait(refs, num_returns=min(6, len(refs)))
    results += process(ready)
print(sorted(results) == list(range(1, 21)))
