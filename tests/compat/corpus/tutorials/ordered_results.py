"""From the exercises: process results in the order in which they end, then sorted as asked for."""
import asyncio

import ray

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)


@ray.remote(num_cpus=0)
class Turns:
    """Ends the tasks in the order that the driver gives."""

    def __init__(self):
        self.events = [asyncio.Event() for _ in range(4)]

    async def wait(self, i):
        await self.events[i].wait()

    async def give(self, i):
        self.events[i].set()


@ray.remote
def work(i, turns):
    ray.get(turns.wait.remote(i))
    return i, f"result {i}"


turns = Turns.remote()
refs = [work.remote(i, turns) for i in range(4)]
order, remaining, following = [], refs, [2, 1, 0]
turns.give.remote(3)
while remaining:
    ready, remaining = ray.wait(remaining, num_returns=1)
    order.append(ray.get(ready[0])[0])
    if following:
        turns.give.remote(following.pop(0))
print(order)
print([text for _, text in ray.get(refs)])
again = Turns.remote()
again.give.remote(2)
again.give.remote(0)
refs = [work.remote(i, again) for i in range(4)]
initial, rest = ray.wait(refs, num_returns=2)
again.give.remote(1)
again.give.remote(3)
print(sorted(i for i, _ in ray.get(initial)), sorted(i for i, _ in ray.get(rest)))
