"""Locks and events: transfers between accounts under one lock; a deadlock that a timeout ends."""
import asyncio

import ray

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)


@ray.remote(num_cpus=0)
class Lock:
    def __init__(self):
        self.lock = asyncio.Lock()

    async def acquire(self):
        await self.lock.acquire()

    async def release(self):
        self.lock.release()

    async def locked(self):
        return self.lock.locked()


@ray.remote(num_cpus=0)
class Account:
    def __init__(self, balance):
        self.balance = balance

    def change(self, by):
        if self.balance + by < 0:
            raise ValueError(f"only {self.balance} left")
        self.balance += by
        return self.balance

    def read(self):
        return self.balance


@ray.remote
def transfer(lock, source, target, amount):
    ray.get(lock.acquire.remote())
    try:
        ray.get(source.change.remote(-amount))
        ray.get(target.change.remote(amount))
        return "moved"
    except ValueError as error:
        return str(error.cause)
    finally:
        ray.get(lock.release.remote())


lock, a, b = Lock.remote(), Account.remote(100), Account.remote(0)
print(ray.get([transfer.remote(lock, a, b, 10) for _ in range(6)]))
print(ray.get(transfer.remote(lock, a, b, 1000)))
print(ray.get([a.read.remote(), b.read.remote()]), ray.get(lock.locked.remote()))
ray.get(lock.acquire.remote())
try:
    ray.get(transfer.remote(lock, a, b, 1), timeout=0.5)
except ray.exceptions.GetTimeoutError:
    print("somebody holds the lock")
