"""Streaming generators of tasks and actors."""

import asyncio

import ray

ray.init(num_cpus=2)


@ray.remote
def count(n):
    for i in range(n):
        yield i


@ray.remote(num_returns="dynamic")
def parts(n):
    for i in range(n):
        yield [i] * i


@ray.remote
def broken():
    yield 1
    raise ValueError("after one")


@ray.remote
class Source:
    def items(self, n):
        for i in range(n):
            yield i * 10


@ray.remote
class AsyncSource:
    async def items(self, n):
        for i in range(n):
            await asyncio.sleep(0)
            yield i * 100


stream = count.remote(4)
assert isinstance(stream, ray.ObjectRefGenerator)
assert [ray.get(ref) for ref in stream] == [0, 1, 2, 3]
assert [ray.get(ref) for ref in Source.remote().items.options(num_returns="streaming").remote(3)] == [0, 10, 20]
assert [ray.get(ref) for ref in AsyncSource.remote().items.remote(3)] == [0, 100, 200]
assert [len(ray.get(ref)) for ref in ray.get(parts.remote(3))] == [0, 1, 2]
slow = count.options(_generator_backpressure_num_objects=2).remote(6)
assert sum(ray.get(ref) for ref in slow) == 15
stream = broken.remote()
assert ray.get(next(stream)) == 1
try:
    ray.get(next(stream))
except ValueError as error:
    assert "after one" in str(error)
else:
    raise AssertionError


async def main():
    return [await ref async for ref in count.remote(3)]


assert asyncio.run(main()) == [0, 1, 2]
