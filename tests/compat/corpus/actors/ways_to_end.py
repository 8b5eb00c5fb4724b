"""The ends of an actor: kill, exit_actor, __ray_terminate__, the last handle gone."""
import os
import tempfile

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Guest:
    def hello(self):
        return "hello"

    def leave(self):
        ray.actor.exit_actor()

    def pid(self):
        return os.getpid()


def end_of(actor):
    try:
        while True:
            ray.get(actor.hello.remote(), timeout=30)
    except ray.exceptions.RayActorError as error:
        return type(error).__name__


guest = Guest.remote()
print(ray.get(guest.hello.remote()))
ray.kill(guest)
print("kill", end_of(guest))
ray.kill(guest)
guest = Guest.remote()
try:
    ray.get(guest.leave.remote())
except ray.exceptions.RayActorError as error:
    print("exit_actor", type(error).__name__, "exit" in str(error).lower())
print(end_of(guest))
guest = Guest.remote()
last = guest.hello.remote()
guest.__ray_terminate__.remote()
print(ray.get(last), end_of(guest))
for what, call in {"kill a class": lambda: ray.kill(Guest), "kill a ref": lambda: ray.kill(last), "exit_actor in a driver": ray.actor.exit_actor}.items():
    try:
        call()
        print(what, "accepted")
    except Exception as error:
        print(what, type(error).__name__)


@ray.remote
class Closing:
    def __init__(self, path):
        self.path = path
        self.lines = []

    def add(self, line):
        self.lines.append(line)

    def __ray_shutdown__(self):
        with open(self.path, "w") as file:
            file.write(" ".join(self.lines))


path = os.path.join(tempfile.mkdtemp(), "closed")
closing = Closing.remote(path)
closing.add.remote("a")
ray.get(closing.add.remote("b"))
del closing
while not os.path.exists(path) or not open(path).read():
    pass
print("last handle gone:", open(path).read())
