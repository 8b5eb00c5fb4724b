"""A constructor that raises: every call says so, with its words."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Fragile:
    def __init__(self, fine):
        if not fine:
            raise ValueError("not fine at all")

    def hello(self):
        return "hello"


print(ray.get(Fragile.remote(True).hello.remote()))
broken = Fragile.remote(False)
for _ in range(2):
    try:
        ray.get(broken.hello.remote())
    except ray.exceptions.RayActorError as error:
        print(type(error).__name__, "not fine at all" in str(error), "ValueError" in str(error), "Fragile" in str(error))


@ray.remote
class Needs:
    def __init__(self, value):
        self.value = value

    def get(self):
        return self.value


@ray.remote
def fail():
    raise KeyError("no value")


needs = Needs.remote(fail.remote())
try:
    print(ray.get(needs.get.remote()))
except ray.exceptions.RayError as error:
    print(isinstance(error, ray.exceptions.RayActorError), "no value" in str(error))


@ray.remote
def use(actor):
    try:
        return ray.get(actor.hello.remote())
    except ray.exceptions.ActorDiedError:
        return "died"


print(ray.get(use.remote(broken)))
