"""Exception groups, exceptions that cannot be sent, exceptions with fields of their own."""
import threading

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def several():
    raise ExceptionGroup("several", [ValueError("v"), TypeError("t"), ExceptionGroup("inner", [KeyError("k")])])


caught = []
try:
    ray.get(several.remote())
except* ValueError as group:
    caught += ["values", len(group.exceptions)]
except* (TypeError, KeyError) as group:
    caught += ["others", len(group.exceptions)]
print(caught)


class Unsendable(Exception):
    def __init__(self, what):
        super().__init__(what)
        self.lock = threading.Lock()


class Strict(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


@ray.remote
def raises(kind):
    if kind == "unsendable":
        raise Unsendable("with a lock")
    if kind == "strict":
        raise Strict("one", "two")
    if kind == "stop":
        raise StopIteration("not the end")
    raise BaseException("of the base")


for kind in "unsendable", "strict", "stop", "base":
    try:
        ray.get(raises.remote(kind))
    except ray.exceptions.RayError as error:
        words = ("with a lock", "one and two", "not the end", "of the base")
        print(kind, [word for word in words if word in str(error)])
