"""What belongs to the class: static and class methods, constants, properties, private names."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Shape:
    sides = 4
    made = []

    def __init__(self, name):
        self.name = name
        self.made.append(name)

    @staticmethod
    def double(x):
        return 2 * x

    @classmethod
    def known(cls):
        return cls.sides, list(cls.made)

    @property
    def title(self):
        return self.name.title()

    def through_self(self):
        return self.double(self.sides), self.title

    def set_sides(self, n):
        type(self).sides = n
        return self.sides


shape, other = Shape.remote("box"), Shape.remote("plank")
print(ray.get(shape.through_self.remote()))
print(ray.get(shape.double.remote(4)), ray.get(shape.known.remote()), ray.get(other.known.remote()))
print(ray.get(shape.set_sides.remote(6)), ray.get(shape.known.remote())[0], ray.get(other.known.remote())[0])
print(Shape.sides, Shape.double(21), Shape.known())


@ray.remote
class Named:
    def __init__(self):
        self.value = 7

    def value(self):
        return "the method"

    def read(self):
        return self.value


named = Named.remote()
print(ray.get(named.read.remote()))
