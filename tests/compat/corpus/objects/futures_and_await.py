"""A ref is a future: future() for concurrent.futures, await and gather for asyncio."""
import asyncio
import concurrent.futures

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def square(x):
    if x < 0:
        raise ValueError(f"negative: {x}")
    return x * x


future = square.remote(3).future()
print(isinstance(future, concurrent.futures.Future), future.result(timeout=30), future.done())
print(sorted(f.result() for f in concurrent.futures.as_completed([square.remote(i).future() for i in range(4)])))
failed = square.remote(-1).future()
print(isinstance(failed.exception(timeout=30), ValueError))
called = concurrent.futures.Future()
square.remote(5).future().add_done_callback(lambda f: called.set_result(f.result()))
print(called.result(timeout=30))


async def main():
    print(await square.remote(6))
    print(await asyncio.gather(*[square.remote(i) for i in range(3)]))
    try:
        await square.remote(-2)
    except ValueError as error:
        print("negative: -2" in str(error))
    done, pending = await asyncio.wait([asyncio.ensure_future(square.remote(i)) for i in range(3)])
    print(sorted(task.result() for task in done), len(pending))
    print(await asyncio.wait_for(square.remote(7), timeout=30))
    print(await asyncio.wrap_future(square.remote(8).future()))


asyncio.run(main())
