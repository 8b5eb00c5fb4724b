"""Concurrency groups: a group that is busy keeps no other waiting."""
import asyncio
import threading

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote(concurrency_groups={"io": 2, "compute": 1})
class Service:
    def __init__(self):
        self.event = asyncio.Event()

    @ray.method(concurrency_group="io")
    async def read(self, i):
        return f"read {i}"

    @ray.method(concurrency_group="compute")
    async def compute(self):
        return "computed"

    async def default(self):
        return "default"


service = Service.remote()
print(ray.get([service.read.remote(i) for i in range(3)]), ray.get(service.compute.remote()), ray.get(service.default.remote()))
print(ray.get(service.default.options(concurrency_group="io").remote()))


@ray.remote(concurrency_groups={"wait": 1, "go": 1})
class Gate:
    def __init__(self):
        self.open = threading.Event()

    @ray.method(concurrency_group="wait")
    def enter(self):
        return self.open.wait(30), threading.get_ident()

    @ray.method(concurrency_group="go")
    def unlock(self):
        self.open.set()
        return "open"


gate = Gate.remote()
entering = gate.enter.remote()
print(ray.get(gate.unlock.remote(), timeout=30), ray.get(entering)[0])
print(len({ident for _, ident in ray.get([gate.enter.remote() for _ in range(5)])}))
