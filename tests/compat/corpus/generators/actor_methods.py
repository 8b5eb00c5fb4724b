"""Generators as methods: plain, async, with an option and with ray.method."""
import asyncio

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Source:
    def __init__(self, n):
        self.n = n

    def items(self):
        for i in range(self.n):
            self.n -= 1
            yield i

    def left(self):
        return self.n

    @ray.method(num_returns="streaming")
    def declared(self):
        yield "declared"


@ray.remote
class AsyncSource:
    async def items(self, n):
        for i in range(n):
            await asyncio.sleep(0.001)
            yield f"async {i}"


source = Source.remote(3)
print([ray.get(ref) for ref in source.items.remote()], ray.get(source.left.remote()))
print([ray.get(ref) for ref in source.declared.remote()])
print([ray.get(ref) for ref in source.declared.options(num_returns="streaming").remote()])
print([ray.get(ref) for ref in AsyncSource.remote().items.remote(3)])


async def main():
    found = []
    async for ref in AsyncSource.remote().items.remote(3):
        found.append(await ref)
    print(found)


asyncio.run(main())
