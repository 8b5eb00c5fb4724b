"""ray.util: pools, queues, multiprocessing, as_completed, serializers, the listings."""

import threading

import ray
from ray.util import ActorPool
from ray.util.multiprocessing import Pool
from ray.util.queue import Empty, Full, Queue

ray.init(num_cpus=2)


@ray.remote
class Doubler:
    def double(self, x):
        return 2 * x


@ray.remote
def double(x):
    return 2 * x


pool = ActorPool([Doubler.remote(), Doubler.remote()])
assert list(pool.map(lambda actor, x: actor.double.remote(x), [1, 2, 3])) == [2, 4, 6]
assert sorted(pool.map_unordered(lambda actor, x: actor.double.remote(x), [1, 2, 3])) == [2, 4, 6]

queue = Queue(maxsize=2, actor_options={"num_cpus": 0})
queue.put(1)
queue.put_nowait(2)
try:
    queue.put(3, timeout=0.05)
except Full:
    pass
assert queue.get_nowait_batch(2) == [1, 2]
try:
    queue.get(block=False)
except Empty:
    pass
queue.shutdown()

with Pool(processes=2, ray_remote_args={"num_cpus": 0}) as workers:
    assert workers.map(abs, [-1, -2]) == [1, 2]
    assert list(workers.imap_unordered(abs, [-3])) == [3]

assert sorted(ray.util.as_completed([double.remote(i) for i in range(4)])) == [0, 2, 4, 6]
assert sorted(ray.util.map_unordered(double, range(20), backpressure_size=3)) == list(range(0, 40, 2))


class Locked:
    def __init__(self, n):
        self.n, self.lock = n, threading.Lock()


assert ray.util.inspect_serializability(Locked(1), name="locked")[0] is False
ray.util.register_serializer(Locked, serializer=lambda locked: locked.n, deserializer=Locked)
assert ray.get(ray.put(Locked(3))).n == 3
ray.util.deregister_serializer(Locked)

context = ray.get_runtime_context()
assert context.get_task_id() is None or isinstance(context.get_task_id(), str)
assert context.get_node_id() == ray.nodes()[0]["NodeID"]
