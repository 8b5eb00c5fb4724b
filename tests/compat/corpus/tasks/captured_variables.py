"""What a function reads from around it: globals, closures, other functions, modules."""
import math

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
factor = 3
table = {"a": 1, "b": 2}


def helper(x):
    return x * factor


@ray.remote
def scaled(x):
    return helper(x) + math.floor(2.7)


def make_adder(n):
    @ray.remote
    def add(x):
        return x + n
    return add


@ray.remote
def change():
    table["a"] = 100
    return sorted(table.items())


print(ray.get(scaled.remote(5)))
print([ray.get(make_adder(n).remote(10)) for n in (1, 2)])
print(ray.get(change.remote()), sorted(table.items()))


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __repr__(self):
        return f"Point({self.x}, {self.y})"

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)


@ray.remote
def move(point, by=Point(1, 1)):
    return point + by


print(ray.get(move.remote(Point(2, 3))), type(ray.get(move.remote(Point(0, 0)))) is Point)


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


print(ray.get(ray.remote(even).remote(10)), ray.get(ray.remote(odd).remote(10)))
