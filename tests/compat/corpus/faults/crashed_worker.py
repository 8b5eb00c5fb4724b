"""A worker that ends under its task: retried as often as it may be, else WorkerCrashedError."""
import os
import signal
import tempfile

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
folder = tempfile.mkdtemp()


def attempts(name):
    """How often this has been tried, counting now."""
    with open(os.path.join(folder, name), "a") as file:
        file.write(".")
    return os.path.getsize(os.path.join(folder, name))


@ray.remote
def crash(name, times, how):
    n = attempts(name)
    if n <= times:
        how()
    return n


def leave():
    os._exit(1)


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


print(ray.get(crash.options(max_retries=2).remote("twice", 2, leave)))
print(ray.get(crash.options(max_retries=-1).remote("many", 4, killed)))
for name, options in {"no retries": {"max_retries": 0}, "too few": {"max_retries": 1}}.items():
    try:
        print(ray.get(crash.options(**options).remote(name, 5, leave)))
    except ray.exceptions.WorkerCrashedError as error:
        print(name, type(error).__name__, os.path.getsize(os.path.join(folder, name)))
        print(isinstance(error, ray.exceptions.RayError), isinstance(error, ray.exceptions.RayTaskError))


@ray.remote
def after(x):
    return x


try:
    ray.get(after.remote(crash.options(max_retries=0).remote("input", 5, killed)))
except ray.exceptions.RayError as error:
    print("dependent", isinstance(error, (ray.exceptions.WorkerCrashedError, ray.exceptions.RayTaskError)))
