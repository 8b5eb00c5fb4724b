"""async for over generators, several of them in one loop."""
import asyncio

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def numbers(start, n):
    for i in range(start, start + n):
        yield i


async def drain(stream):
    return [await ref async for ref in stream]


async def main():
    print(await asyncio.gather(*[drain(numbers.remote(10 * i, 3)) for i in range(3)]))
    stream = numbers.remote(0, 2)
    print(await (await stream.__anext__()), await (await anext(stream)))
    try:
        await anext(stream)
    except StopAsyncIteration:
        print("ended")


asyncio.run(main())
