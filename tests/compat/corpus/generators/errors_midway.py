"""A generator that raises: what it had yielded stays, the error is the last ref."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def until(n):
    for i in range(n):
        yield i
    raise RuntimeError(f"after {n}")


for n in 2, 0:
    for ref in until.remote(n):
        try:
            print(n, ray.get(ref))
        except RuntimeError as error:
            print(n, type(error.cause).__name__, error.cause)


@ray.remote(num_returns=3)
def fixed(n):
    for i in range(n):
        yield i
    if n < 3:
        raise ValueError("too early")


for n in 3, 1, 5:
    for ref in fixed.remote(n):
        try:
            print("fixed", n, ray.get(ref))
        except ray.exceptions.RayTaskError as error:
            print("fixed", n, "error", isinstance(error, ValueError))
