"""Serialization: lambdas, dataclasses, named tuples, enumerations, classes with __reduce__; and what cannot be sent."""
import collections
import dataclasses
import enum
import threading

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@dataclasses.dataclass(frozen=True)
class Item:
    name: str
    tags: list = dataclasses.field(default_factory=list)


class Level(enum.Enum):
    LOW, HIGH = 1, 2


Pair = collections.namedtuple("Pair", "first second")


class Wrapped:
    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()

    def __reduce__(self):
        return Wrapped, (self.path,)


class Slim:
    __slots__ = ("x",)

    def __getstate__(self):
        return {"x": self.x + 1}

    def __setstate__(self, state):
        self.x = state["x"]


def there_and_back(value):
    return ray.get(ray.remote(lambda x: x).remote(value))


print(there_and_back(Item("a", ["t"])) == Item("a", ["t"]), there_and_back(Level.HIGH), there_and_back(Level.LOW) is Level.LOW)
print(there_and_back(Pair(1, 2)), there_and_back(collections.OrderedDict(b=1, a=2)), there_and_back(collections.deque([1], 3)))
print(there_and_back(lambda x: x + 1)(1), there_and_back(Wrapped("w")).path, there_and_back(int), there_and_back(Item).__name__)
slim = Slim()
slim.x = 1
print(there_and_back(slim).x > 1)
loop = [1]
loop.append(loop)
back = there_and_back(loop)
print(back[1] is back, there_and_back(ValueError("kept")).args)

lock = threading.Lock()


@ray.remote
def uses_lock():
    return lock


for what, call in {"argument": lambda: there_and_back(lock), "put": lambda: ray.put(lock), "closure": lambda: uses_lock.remote(),
                   "result": lambda: ray.get(ray.remote(lambda: threading.Lock()).remote()),
                   "generator": lambda: ray.put(x for x in range(3))}.items():
    try:
        print(what, call())
    except Exception as error:
        print(what, isinstance(error, TypeError), "pickle" in str(error))
