"""A class becomes an actor: its state stays, its calls run in the order of one caller."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Counter:
    """Counts."""

    def __init__(self, start=0):
        self.n = start

    def add(self, by=1):
        self.n += by
        return self.n

    def get(self):
        return self.n


counter = Counter.remote()
print([ray.get(counter.add.remote()) for _ in range(3)])
print(ray.get([counter.add.remote(10) for _ in range(5)]))
others = [Counter.remote(start=100 * i) for i in range(3)]
print(ray.get([other.add.remote(i) for i, other in enumerate(others)]))
print(type(counter).__name__, "add" in dir(counter), "n" in dir(counter))


def attempt(what, call):
    try:
        print(what, call())
    except Exception as error:
        print(what, type(error).__name__)


attempt("instance without remote", lambda: Counter())
attempt("method without remote", lambda: counter.add())
attempt("no such method", lambda: counter.subtract.remote())
attempt("attribute", lambda: counter.n)
attempt("wrong argument", lambda: counter.add.remote(1, 2))
attempt("wrong argument of the constructor", lambda: Counter.remote(1, 2))
try:
    Counter()
except TypeError as error:
    print("cannot be instantiated directly" in str(error), ".remote(" in str(error))
try:
    counter.add()
except TypeError as error:
    print("cannot be called directly" in str(error))
