"""What programs expect of errors: the user's class, chains of tasks, actors that die, retries."""

import os

import ray
from ray.exceptions import ActorDiedError, RayActorError, RayError, RayTaskError, WorkerCrashedError

ray.init(num_cpus=2)


class Mine(Exception):
    def __init__(self, code, text):
        super().__init__(code, text)
        self.code = code


@ray.remote
def fail():
    raise Mine(7, "no")


@ray.remote
def use(value):
    return value


for ref in (fail.remote(), use.remote(fail.remote())):
    try:
        ray.get(ref)
    except Mine as error:
        assert isinstance(error, RayTaskError) and isinstance(error, RayError) and error.cause is not None
        assert "fail" in error.traceback_str
    else:
        raise AssertionError

try:
    ray.get(fail.remote())
except RayTaskError as error:
    assert "Mine" in str(error) or isinstance(error, Mine)


@ray.remote(max_retries=0)
def crash():
    os._exit(1)


try:
    ray.get(crash.remote())
except WorkerCrashedError:
    pass
else:
    raise AssertionError


@ray.remote(max_retries=5, retry_exceptions=[ConnectionError])
def flaky(path):
    with open(path, "a") as file:
        file.write(".")
    if os.path.getsize(path) < 3:
        raise ConnectionError("again")
    return os.path.getsize(path)


import tempfile

with tempfile.TemporaryDirectory() as folder:
    assert ray.get(flaky.remote(f"{folder}/n")) == 3


@ray.remote(max_restarts=1, max_task_retries=1)
class Fragile:
    def __init__(self, broken=False):
        if broken:
            raise ValueError("broken from the start")

    def pid(self):
        return os.getpid()

    def die(self):
        os._exit(1)


actor = Fragile.remote()
first = ray.get(actor.pid.remote())
ray.kill(actor, no_restart=False)
assert ray.get(actor.pid.remote()) != first
ray.kill(actor)
try:
    ray.get(actor.pid.remote())
except RayActorError:
    pass
else:
    raise AssertionError
try:
    ray.get(Fragile.remote(broken=True).pid.remote())
except ActorDiedError as error:
    assert "broken from the start" in str(error)
else:
    raise AssertionError
