"""init, shutdown and again; actors' ends; functions that are redefined; closures; classes with all that Python has."""

import ray

context = ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
assert context.address_info["node_id"] and context.dashboard_url is not None
try:
    ray.init()
except RuntimeError:
    pass
else:
    raise AssertionError
ray.init(ignore_reinit_error=True)


@ray.remote
def f():
    return g(2)


def g(x):
    return x + 1 if x > 5 else g(x + 1)


assert ray.get(f.remote()) == 7
ray.shutdown()
ray.init(num_cpus=2, log_to_driver=False)
assert ray.get(f.remote()) == 7


class Base:
    kind = "base"

    def who(self):
        return f"{self.kind} {type(self).__name__}"


@ray.remote
class Derived(Base):
    kind = "derived"

    @staticmethod
    def plain(x):
        return x

    @classmethod
    def of_class(cls):
        return cls.kind

    def who(self):
        return "very " + super().who()

    @ray.method(num_returns=2)
    def two(self):
        return 1, 2

    def leave(self):
        ray.actor.exit_actor()

    def __call__(self, x):
        return x


actor = Derived.remote()
assert ray.get(actor.who.remote()) == "very derived Derived"
assert ray.get(actor.plain.remote(3)) == 3 and ray.get(actor.of_class.remote()) == "derived"
assert ray.get(list(actor.two.remote())) == [1, 2]
assert ray.get(actor.__ray_ready__.remote()) is True
assert ray.get(actor.__ray_call__.remote(lambda self, x: self.kind + x, "!")) == "derived!"
actor.leave.remote()
try:
    ray.get(actor.who.remote())
except ray.exceptions.RayActorError:
    pass
else:
    raise AssertionError
other = Derived.remote()
ready = other.who.remote()
other.__ray_terminate__.remote()
assert ray.get(ready) == "very derived Derived"
with ray.init(ignore_reinit_error=True):
    pass
assert not ray.is_initialized()
for wrong in ({"num_cpu": 1}, {"colour": 1}):
    try:
        ray.init(**wrong)
    except RuntimeError:
        pass
    else:
        raise AssertionError
