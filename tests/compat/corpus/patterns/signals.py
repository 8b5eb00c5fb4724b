"""Synchronizing through an actor: an async signal that tasks wait for, a semaphore, a barrier."""
import asyncio

import ray

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)


@ray.remote(num_cpus=0)
class Signal:
    def __init__(self):
        self.event = asyncio.Event()

    def send(self, clear=False):
        self.event.set()
        if clear:
            self.event.clear()

    async def wait(self, should_wait=True):
        if should_wait:
            await self.event.wait()


@ray.remote
def wait_and_go(signal, i):
    ray.get(signal.wait.remote())
    return f"went {i}"


signal = Signal.remote()
waiting = [wait_and_go.remote(signal, i) for i in range(3)]
print(len(ray.wait(waiting, num_returns=3, timeout=0.3)[0]))
ray.get(signal.send.remote())
print(ray.get(waiting))
print(ray.get(signal.wait.remote(should_wait=False)))


@ray.remote(num_cpus=0)
class Semaphore:
    def __init__(self, n):
        self.semaphore, self.inside, self.peak = asyncio.Semaphore(n), 0, 0

    async def acquire(self):
        await self.semaphore.acquire()
        self.inside += 1
        self.peak = max(self.peak, self.inside)

    async def release(self):
        self.inside -= 1
        self.semaphore.release()

    async def read(self):
        return self.peak


@ray.remote(num_cpus=0)
class Barrier:
    def __init__(self, n):
        self.n, self.arrived, self.full = n, 0, asyncio.Event()

    async def arrive(self):
        self.arrived += 1
        if self.arrived == self.n:
            self.full.set()
        await self.full.wait()
        return self.arrived


@ray.remote
def guarded(semaphore, barrier):
    ray.get(semaphore.acquire.remote())
    ray.get(semaphore.release.remote())
    return ray.get(barrier.arrive.remote())


semaphore, barrier = Semaphore.remote(2), Barrier.remote(4)
print(ray.get([guarded.remote(semaphore, barrier) for _ in range(4)]), ray.get(semaphore.read.remote()) <= 2)
