"""recursive=True cancels what a task has started; recursive=False leaves it."""
import time

import ray

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)


@ray.remote(num_cpus=0)
class Board:
    def __init__(self):
        self.refs = {}

    def pin(self, name, refs):
        self.refs[name] = refs

    def get(self, name):
        return self.refs.get(name)


@ray.remote
def child():
    for _ in range(150):
        time.sleep(0.01)
    return "child ended"


@ray.remote
def parent(board, name):
    ref = child.remote()
    ray.get(board.pin.remote(name, [ref]))
    return ray.get(ref)


board = Board.remote()
for name, recursive in ("with", True), ("without", False):
    ref = parent.remote(board, name)
    while not ray.get(board.get.remote(name)):
        pass
    [inner] = ray.get(board.get.remote(name))
    ray.wait([ref], timeout=0.2)
    ray.cancel(ref, recursive=recursive)
    for what, which in ("parent", ref), ("child", inner):
        try:
            print(name, what, ray.get(which, timeout=30))
        except ray.exceptions.TaskCancelledError:
            print(name, what, "cancelled")
