"""num_returns: a ref for each value, and what happens when the number is wrong."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote(num_returns=3)
def split(text):
    return text.partition("=")


key, sign, value = split.remote("answer=42")
print(ray.get(key), ray.get(sign), ray.get(value))
print(type(split.remote("a=b")).__name__, len(split.remote("a=b")))


@ray.remote(num_returns=2)
def too_few():
    return (1,)


@ray.remote(num_returns=2)
def too_many():
    return 1, 2, 3


@ray.remote(num_returns=2)
def no_sequence():
    return 5


for task in too_few, too_many, no_sequence:
    for ref in task.remote():
        try:
            print(ray.get(ref))
        except ray.exceptions.RayTaskError as error:
            print(task is no_sequence or isinstance(error, ValueError), isinstance(error, (TypeError, ValueError)))


@ray.remote
def halves(n):
    return n // 2, n - n // 2


print(ray.get(halves.remote(7)))
print(ray.get(list(halves.options(num_returns=2).remote(7))))
print(halves.options(num_returns=0).remote(7))
for wrong in (-1,):
    try:
        halves.options(num_returns=wrong).remote(1)
        print("accepted", wrong)
    except (TypeError, ValueError) as error:
        print(type(error).__name__, wrong)
