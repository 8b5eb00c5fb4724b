"""Cancelling calls of async actors: CancelledError inside, TaskCancelledError outside; and of plain actors."""
import asyncio
import time

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Async:
    def __init__(self):
        self.log, self.started = [], asyncio.Event()

    async def wait(self):
        self.started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.log.append("told")
            raise

    async def has_started(self):
        await self.started.wait()

    async def read(self):
        return self.log


actor = Async.remote()
ref = actor.wait.remote()
ray.get(actor.has_started.remote())
ray.cancel(ref)
try:
    ray.get(ref, timeout=30)
except ray.exceptions.TaskCancelledError as error:
    print("cancelled", isinstance(error, ray.exceptions.RayError))
print(ray.get(actor.read.remote()))
try:
    ray.cancel(actor.wait.remote(), force=True)
except ValueError as error:
    print(type(error).__name__, "force=True is not supported" in str(error))


@ray.remote
class Plain:
    def work(self, seconds):
        time.sleep(seconds)
        return "done"

    def cancelled(self):
        while not ray.get_runtime_context().is_canceled():
            time.sleep(0.01)
        return "noticed"


plain = Plain.remote()
busy, queued = plain.work.remote(0.5), plain.work.remote(0)
ray.cancel(queued)
try:
    print(ray.get(queued, timeout=30))
except ray.exceptions.TaskCancelledError:
    print("queued: cancelled")
print(ray.get(busy))
