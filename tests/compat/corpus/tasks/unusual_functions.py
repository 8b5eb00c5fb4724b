"""What can be a task: lambdas, partials, built-ins, static methods, callables; and what cannot."""
import functools
import operator

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
print(ray.get(ray.remote(lambda x: x + 1).remote(1)))


def power(base, exponent):
    return base ** exponent


def attempt(what, call):
    try:
        print(what, call())
    except Exception as error:
        print(what, type(error).__name__)


class Tools:
    @staticmethod
    def double(x):
        return 2 * x

    @classmethod
    def name(cls):
        return cls.__name__

    def __call__(self):
        return "called"


attempt("partial", lambda: ray.get(ray.remote(functools.partial(power, exponent=2)).remote(5)))
attempt("built-in", lambda: ray.get(ray.remote(len).remote([1, 2])))
attempt("operator", lambda: ray.get(ray.remote(operator.add).remote(1, 2)))
attempt("static method", lambda: ray.get(ray.remote(Tools.double).remote(4)))
attempt("class method", lambda: ray.get(ray.remote(Tools.name).remote()))
attempt("callable object", lambda: ray.get(ray.remote(Tools()).remote()))
attempt("twice", lambda: ray.remote(ray.remote(power)))


def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        return "logged", function(*args)
    return wrapper


@ray.remote
@logged
def triple(x):
    return 3 * x


print(ray.get(triple.remote(2)))


async def coroutine():
    return 1


attempt("coroutine", lambda: ray.get(ray.remote(coroutine).remote()))
