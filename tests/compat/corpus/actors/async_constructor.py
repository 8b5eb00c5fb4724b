"""Tasks of the loop that an async actor's constructor starts run beside its methods."""
import asyncio

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Ticker:
    def __init__(self):
        self.ticks = 0
        self.reached = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self.run())

    async def run(self):
        while True:
            self.ticks += 1
            if self.ticks >= 3:
                self.reached.set()
            await asyncio.sleep(0.001)

    async def three(self):
        await self.reached.wait()
        return self.ticks >= 3

    async def stop(self):
        self.task.cancel()
        try:
            await self.task
        except asyncio.CancelledError:
            return "stopped"


ticker = Ticker.remote()
print(ray.get(ticker.three.remote(), timeout=30), ray.get(ticker.stop.remote(), timeout=30))
