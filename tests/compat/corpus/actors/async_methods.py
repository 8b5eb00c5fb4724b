"""Async actors: methods that wait for each other on one loop, and refs that are awaited in them."""
import asyncio
import threading

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def double(x):
    return 2 * x


@ray.remote
class Server:
    def __init__(self):
        self.open, self.seen = asyncio.Event(), 0

    async def wait(self, name):
        self.seen += 1
        await self.open.wait()
        return f"{name} went on"

    async def go(self):
        while self.seen < 3:
            await asyncio.sleep(0.001)
        self.open.set()
        return self.seen

    async def ask(self, x):
        one = await double.remote(x)
        two, three = await asyncio.gather(double.remote(one), double.remote(10))
        return one, two, three

    async def thread(self):
        return threading.current_thread().name, threading.get_ident()

    def plain(self):
        return "not async"

    async def fail(self):
        raise LookupError("in a coroutine")

    async def most(self):
        self.now = getattr(self, "now", 0) + 1
        self.peak = max(self.now, getattr(self, "peak", 0))
        await asyncio.sleep(0.05)
        self.now -= 1
        return self.peak


server = Server.remote()
waiting = [server.wait.remote(name) for name in "abc"]
print(ray.get(server.go.remote()), ray.get(waiting))
print(ray.get(server.ask.remote(1)), ray.get(server.plain.remote()))
print(len({ident for _, ident in ray.get([server.thread.remote() for _ in range(5)])}))
try:
    ray.get(server.fail.remote())
except LookupError as error:
    print(type(error.cause).__name__, error.cause)
narrow = Server.options(max_concurrency=2).remote()
print(max(ray.get([narrow.most.remote() for _ in range(6)])))


async def main():
    print(await server.ask.remote(5))


asyncio.run(main())
