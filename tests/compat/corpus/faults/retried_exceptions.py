"""retry_exceptions: all of them, or some types."""
import os
import tempfile

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
folder = tempfile.mkdtemp()


def attempts(name):
    with open(os.path.join(folder, name), "a") as file:
        file.write(".")
    return os.path.getsize(os.path.join(folder, name))


@ray.remote(max_retries=3)
def flaky(name, times, kind):
    n = attempts(name)
    if n <= times:
        raise kind(f"attempt {n}")
    return n


def outcome(**options):
    name = str(sorted(options.items()))
    try:
        return ray.get(flaky.options(**{k: v for k, v in options.items() if k in ("max_retries", "retry_exceptions")})
                       .remote(name, options.get("times", 2), options.get("kind", OSError)))
    except ray.exceptions.RayTaskError as error:
        return type(error.cause).__name__, str(error.cause)


print(outcome())
print(outcome(retry_exceptions=True))
print(outcome(retry_exceptions=[OSError]))
print(outcome(retry_exceptions=[ValueError, KeyError]))
print(outcome(retry_exceptions=[OSError], kind=FileNotFoundError))
print(outcome(retry_exceptions=True, times=9))
print(outcome(retry_exceptions=True, max_retries=0))
print(outcome(retry_exceptions=True, max_retries=-1, times=6))
for wrong in "all", [1], 3:
    try:
        flaky.options(retry_exceptions=wrong).remote("wrong", 0, OSError)
        print("accepted", wrong)
    except (TypeError, ValueError) as error:
        print("TypeError" if isinstance(error, TypeError) else type(error).__name__, wrong)
