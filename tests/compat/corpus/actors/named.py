"""Named actors: found by name, taken names, names of the dead, a list of all."""
import ray
from ray.util import list_named_actors

ray.init(num_cpus=2, namespace="shop", include_dashboard=False, log_to_driver=False)


@ray.remote
class Cell:
    def __init__(self, value=None):
        self.value = value

    def set(self, value):
        self.value = value

    def get(self):
        return self.value


cell = Cell.options(name="till").remote(5)
print(ray.get(ray.get_actor("till").get.remote()))


@ray.remote
def from_a_task():
    ray.get(ray.get_actor("till").set.remote("changed"))
    return ray.get_actor("till", namespace="shop") is not None


print(ray.get(from_a_task.remote()), ray.get(cell.get.remote()))
print(list_named_actors(), list_named_actors(all_namespaces=True))


def attempt(what, call):
    try:
        call()
        print(what, "accepted")
    except Exception as error:
        print(what, isinstance(error, (TypeError, ValueError)))


attempt("taken", lambda: Cell.options(name="till").remote())
attempt("unknown", lambda: ray.get_actor("nobody"))
attempt("elsewhere", lambda: ray.get_actor("till", namespace="other"))
attempt("empty", lambda: Cell.options(name="").remote())
attempt("number", lambda: Cell.options(name=3).remote())
attempt("get empty", lambda: ray.get_actor(""))
elsewhere = Cell.options(name="till", namespace="other").remote("other")
print(ray.get(ray.get_actor("till", namespace="other").get.remote()))
print(sorted((row["namespace"], row["name"]) for row in list_named_actors(all_namespaces=True)))
ray.kill(cell)
try:
    while True:  # ray.kill does not wait
        ray.get(cell.get.remote())
except ray.exceptions.RayActorError:
    print("killed")
while "till" in list_named_actors():
    pass
print(ray.get(Cell.options(name="till").remote("again").get.remote()))
try:
    ray.get_actor("nobody")
except ValueError as error:
    print("Failed to look up actor" in str(error), "nobody" in str(error))
