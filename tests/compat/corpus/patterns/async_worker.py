"""An async actor that runs a loop of its own and still answers: stop, state, results."""
import asyncio

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Store:
    def __init__(self, n):
        self.tasks = list(range(n))

    def next(self):
        return self.tasks.pop(0) if self.tasks else None


@ray.remote
class Executor:
    def __init__(self, store):
        self.store, self.done = store, []

    async def run(self):
        while (task := await self.store.next.remote()) is not None:
            self.done.append(await self.execute(task))
        return "ran out"

    async def execute(self, task):
        await asyncio.sleep(0)
        return task * task

    def results(self):
        return self.done

    def busy(self):
        return len(self.done)


executor = Executor.remote(Store.remote(5))
run = executor.run.remote()
print(ray.get(executor.busy.remote()) in range(6), ray.get(run), ray.get(executor.results.remote()))
