"""Base classes, super(), overridden methods, abstract classes, mixins; and actors as bases, which is refused."""
import abc

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


class Base(abc.ABC):
    unit = "m"

    def __init__(self, size):
        self.size = size

    @abc.abstractmethod
    def area(self):
        ...

    def describe(self):
        return f"{type(self).__name__} {self.area()} {self.unit}"


class Loud:
    def shout(self):
        return self.describe().upper()


@ray.remote
class Square(Loud, Base):
    def area(self):
        return self.size ** 2

    def describe(self):
        return "a " + super().describe()

    def _private(self):
        return "private"

    def __call__(self, x):
        return x * self.size


square = Square.remote(3)
print(ray.get(square.area.remote()), ray.get(square.describe.remote()), ray.get(square.shout.remote()))
print(ray.get(square._private.remote()), ray.get(square.__call__.remote(5)))
Later = ray.remote(Loud)
print("shout" in dir(Later.remote()))
try:
    class Child(Square):
        pass
    print("accepted")
except TypeError as error:
    print("TypeError", "Inheriting from actor classes is not" in str(error))


class Cube(Base):
    def area(self):
        return self.size ** 3


print(ray.get(ray.remote(Cube).remote(2).describe.remote()))
print(ray.get(ray.remote(num_cpus=1)(Cube).remote(2).area.remote()))
