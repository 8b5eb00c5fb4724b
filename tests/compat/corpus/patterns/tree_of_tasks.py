"""Nested tasks: a quick sort that starts two tasks for each half, down to a size."""
import random

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
SMALL = 200


def split(numbers):
    pivot = numbers[0]
    return ([x for x in numbers[1:] if x < pivot], pivot, [x for x in numbers[1:] if x >= pivot])


@ray.remote
def quick_sort(numbers):
    if len(numbers) <= SMALL:
        return sorted(numbers)
    low, pivot, high = split(numbers)
    return ray.get(quick_sort.remote(low)) + [pivot] + ray.get(quick_sort.remote(high))


random.seed(1)
numbers = [random.randrange(10_000) for _ in range(1000)]
print(ray.get(quick_sort.remote(numbers)) == sorted(numbers))
print(ray.get(quick_sort.remote([])), ray.get(quick_sort.remote([3, 1, 2])))
