"""Exceptions cross: the type, the arguments, the cause, and dependents that fail with the same."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


class Broken(Exception):
    def __init__(self, part, code):
        super().__init__(part, code)
        self.part, self.code = part, code


@ray.remote
def fail(kind):
    if kind == "zero":
        return 1 / 0
    if kind == "key":
        return {}["missing"]
    if kind == "own":
        raise Broken("pump", 7)
    if kind == "chained":
        try:
            int("x")
        except ValueError as error:
            raise RuntimeError("could not read") from error
    assert kind == "assert", "as it must be"
    return kind


@ray.remote
def after(x):
    return f"after {x}"


for kind in "zero", "key", "own", "chained", "nothing", "assert":
    try:
        print(kind, ray.get(after.remote(fail.remote(kind))))
    except ray.exceptions.RayTaskError as error:
        print(kind, type(error.cause).__name__, error.cause.args, isinstance(error, type(error.cause)))

try:
    ray.get(fail.remote("own"))
except Broken as error:
    print("caught as itself:", error.part, error.code, isinstance(error, ray.exceptions.RayError))
try:
    ray.get(fail.remote("zero"))
except ZeroDivisionError as error:
    print("division by zero" in str(error), "fail" in str(error), "ZeroDivisionError" in str(error))
try:
    ray.get([after.remote(1), fail.remote("key"), after.remote(2)])
except KeyError as error:
    print("a list raises its first failure", isinstance(error, ray.exceptions.RayTaskError))
