"""sys.exit in a task and in an actor."""
import sys

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote(max_retries=0)
def leave(code):
    sys.exit(code)


@ray.remote
class Leaver:
    def leave(self, code):
        sys.exit(code)

    def hello(self):
        return "hello"


for code in 1, 0:
    try:
        print(ray.get(leave.remote(code), timeout=30))
    except ray.exceptions.RayError as error:
        print("task", code, type(error).__name__)
    leaver = Leaver.remote()
    ray.get(leaver.hello.remote())
    try:
        print(ray.get(leaver.leave.remote(code), timeout=30))
    except ray.exceptions.RayError as error:
        print("actor", code, type(error).__name__)
    try:
        print(ray.get(leaver.hello.remote(), timeout=30))
    except ray.exceptions.RayError as error:
        print("actor", code, type(error).__name__)


@ray.remote(max_retries=0)
def interrupted():
    raise KeyboardInterrupt


try:
    ray.get(interrupted.remote(), timeout=30)
except BaseException as error:
    print(isinstance(error, ray.exceptions.RayError), isinstance(error, KeyboardInterrupt))
