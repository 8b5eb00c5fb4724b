"""A generator instead of a list of large results: one piece at a time."""
import numpy as np
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def all_at_once(n):
    return [np.full(10_000, i) for i in range(n)]


@ray.remote
def one_by_one(n):
    for i in range(n):
        yield np.full(10_000, i)


print([int(piece[0]) for piece in ray.get(all_at_once.remote(4))])
print([int(ray.get(ref)[0]) for ref in one_by_one.remote(4)])
first, *rest = one_by_one.options(num_returns=4).remote(4)
print(type(first).__name__, len(rest), [int(piece.sum()) for piece in ray.get([first, *rest])])
