"""Queue: between tasks, with limits, timeouts, batches and async methods."""
import asyncio

import ray
from ray.util.queue import Empty, Full, Queue

ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
queue = Queue(maxsize=3)


@ray.remote
def produce(queue, n):
    for i in range(n):
        queue.put(i)
    queue.put(None)


@ray.remote
def consume(queue):
    found = []
    while (item := queue.get(timeout=30)) is not None:
        found.append(item)
    return found


produce.remote(queue, 8)
print(ray.get(consume.remote(queue)))
print(queue.size(), queue.qsize(), len(queue), queue.empty(), queue.full(), queue.maxsize)
queue.put_nowait_batch([1, 2])
queue.put_nowait(3)
for what, call in {"full": lambda: queue.put_nowait(4), "full after a while": lambda: queue.put(4, timeout=0.1),
                   "batch": lambda: queue.put_nowait_batch([4, 5]), "negative": lambda: queue.put(4, timeout=-1)}.items():
    try:
        call()
        print(what, "accepted")
    except Full:
        print(what, "Full")
    except ValueError:
        print(what, "ValueError")
print(queue.get_nowait_batch(2), queue.get(), queue.get(block=False) if queue.qsize() else "empty")
for what, call in {"empty": lambda: queue.get_nowait(), "empty after a while": lambda: queue.get(timeout=0.1),
                   "batch": lambda: queue.get_nowait_batch(1)}.items():
    try:
        call()
        print(what, "accepted")
    except Empty:
        print(what, "Empty")


async def main():
    await queue.put_async("async")
    print(await queue.get_async())
    try:
        await queue.get_async(timeout=0.05)
    except Empty:
        print("empty")


asyncio.run(main())
queue.shutdown()
try:
    queue.put(1)
except Exception as error:
    print(type(error).__name__)
print(queue.actor)
