"""What ends processes, what callers are told of it, and what generators leave that fail."""

import os
import signal
import sys
import tempfile
import time

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, WorkerCrashedError

ray.init(num_cpus=2)
folder = tempfile.mkdtemp()


def raised_by(kind, ref):
    try:
        found = ray.get(ref, timeout=60)
    except kind as error:
        return str(error)
    raise AssertionError(found)


# ---- sys.exit in tasks: as if the process had died, any status
@ray.remote(max_retries=1)
def leave(path, code):
    with open(path, "a") as file:
        file.write(".")
    sys.exit(code)


for number, code in enumerate([1, 0, None, "a text"]):
    raised_by(WorkerCrashedError, leave.remote(f"{folder}/{number}", code))
    assert os.path.getsize(f"{folder}/{number}") == 2


# ---- and in actors: 0 is for good
@ray.remote(max_restarts=1)
class Serves:
    def pid(self):
        return os.getpid()

    def leave(self, code):
        sys.exit(code)

    def exit_actor(self):
        ray.actor.exit_actor()


def settled(actor):
    """The pid of an actor that begins again just now."""
    while True:
        try:
            return ray.get(actor.pid.remote(), timeout=60)
        except ActorUnavailableError:
            time.sleep(0.1)


actor = Serves.remote()
first = ray.get(actor.pid.remote())
raised_by(ActorUnavailableError, actor.leave.remote(1))
assert settled(actor) != first
raised_by(ActorDiedError, actor.leave.remote(1))
for end in (lambda actor: actor.leave.remote(0), lambda actor: actor.exit_actor.remote()):
    actor = Serves.remote()
    raised_by(ActorDiedError, end(actor))
    assert "exit" in raised_by(ActorDiedError, actor.pid.remote())
actor = Serves.remote()
ray.get(actor.pid.remote())
ray.kill(actor)
assert "kill" in raised_by(ActorDiedError, actor.pid.remote())


# ---- calls of an actor that begins again fail at once, unless they may be repeated
@ray.remote(num_cpus=0, max_restarts=1)
class Slow:
    def __init__(self, folder):
        again = os.path.exists(f"{folder}/begun")
        open(f"{folder}/begun", "w").close()
        while again and not os.path.exists(f"{folder}/may begin"):
            time.sleep(0.05)

    def pid(self):
        return os.getpid()


slow = Slow.remote(folder)
os.kill(ray.get(slow.pid.remote()), signal.SIGKILL)
raised_by(ActorUnavailableError, slow.pid.remote())
assert "The actor is restarting" in raised_by(ActorUnavailableError, slow.pid.remote())
open(f"{folder}/may begin", "w").close()
assert settled(slow) > 0


# ---- generators
@ray.remote(max_retries=0)
def fails_at(n, fails):
    for i in range(n):
        if i == fails:
            raise ValueError(f"at {i}")
        yield i


refs = fails_at.options(num_returns=3).remote(3, 1)
assert ray.get(refs[0]) == 0 and all("at 1" in raised_by(ValueError, ref) for ref in refs[1:])
refs = list(ray.get(fails_at.options(num_returns="dynamic").remote(3, 1)))
assert len(refs) == 2 and ray.get(refs[0]) == 0 and "at 1" in raised_by(ValueError, refs[1])
assert ray.get(fails_at.options(num_returns=3).remote(9, -1)) == [0, 1, 2]
refs = fails_at.options(num_returns=3).remote(2, -1)
assert ray.get(refs[:2]) == [0, 1] and "num_returns=3" in raised_by(ValueError, refs[2])
ray.shutdown()
