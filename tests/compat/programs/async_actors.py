"""Async and threaded actors, refs in asyncio."""

import asyncio
import threading
import time

import ray

ray.init(num_cpus=2)


@ray.remote
class Gate:
    def __init__(self):
        self.open = asyncio.Event()
        self.n = 0

    async def wait(self):
        self.n += 1
        await self.open.wait()
        return self.n

    async def release(self):
        self.open.set()


gate = Gate.remote()
waiting = [gate.wait.remote() for _ in range(20)]
ray.get(gate.release.remote())
assert ray.get(waiting)[-1] == 20


@ray.remote(max_concurrency=2)
class Threads:
    def __init__(self):
        self.barrier = threading.Barrier(2)

    def meet(self):
        self.barrier.wait(30)
        return True


threads = Threads.remote()
assert ray.get([threads.meet.remote(), threads.meet.remote()]) == [True, True]


@ray.remote(concurrency_groups={"io": 1, "compute": 1})
class Groups:
    def __init__(self):
        self.event = threading.Event()

    @ray.method(concurrency_group="io")
    def wait(self):
        return self.event.wait(30)

    @ray.method(concurrency_group="compute")
    def set(self):
        self.event.set()


groups = Groups.remote()
blocked = groups.wait.remote()
ray.get(groups.set.remote())
assert ray.get(blocked) is True


@ray.remote
def double(x):
    time.sleep(0.001)
    return 2 * x


async def main():
    assert await double.remote(4) == 8
    assert await asyncio.gather(*[double.remote(i) for i in range(5)]) == [0, 2, 4, 6, 8]
    done, pending = await asyncio.wait([asyncio.wrap_future(double.remote(i).future()) for i in range(3)])
    assert sorted(future.result() for future in done) == [0, 2, 4] and not pending
    assert await asyncio.wait_for(double.remote(1), 30) == 2


asyncio.run(main())
