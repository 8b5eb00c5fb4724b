"""get_if_exists: whoever comes first makes the actor, the others find it."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Greeter:
    def __init__(self, word):
        self.word, self.n = word, 0

    def say(self):
        self.n += 1
        return f"{self.word} {self.n}"


first = Greeter.options(name="g", get_if_exists=True).remote("hello")
second = Greeter.options(name="g", get_if_exists=True).remote("never used")
print(ray.get(first.say.remote()), ray.get(second.say.remote()), first == second)


@ray.remote
def join(i):
    return ray.get(Greeter.options(name="g", get_if_exists=True).remote(f"from {i}").say.remote())


print(sorted(ray.get([join.remote(i) for i in range(4)])))
for options in {"get_if_exists": True}, {"name": "h", "get_if_exists": 3}:
    try:
        Greeter.options(**options).remote("x")
        print("accepted", options)
    except (TypeError, ValueError) as error:
        print("TypeError" if isinstance(error, TypeError) else type(error).__name__, options)


@ray.remote(name="declared", get_if_exists=True)
class Declared:
    def where(self):
        return ray.get_runtime_context().get_actor_name()


a, b = Declared.remote(), Declared.remote()
print(ray.get(b.where.remote()), a == b)
