"""A custom resource as a limit: one license, one user at a time."""
import time

import ray

ray.init(num_cpus=4, resources={"license": 1, "disk": 10}, include_dashboard=False, log_to_driver=False)


@ray.remote(num_cpus=0)
class Meter:
    def __init__(self):
        self.now = self.peak = 0

    def enter(self):
        self.now += 1
        self.peak = max(self.peak, self.now)

    def leave(self):
        self.now -= 1

    def read(self):
        return self.peak


@ray.remote(num_cpus=1)
def use(meter):
    ray.get(meter.enter.remote())
    time.sleep(0.05)
    ray.get(meter.leave.remote())


for options in {"resources": {"license": 1}}, {"resources": {"license": 0.5}}, {"resources": {"disk": 5}}:
    meter = Meter.remote()
    ray.get([use.options(**options).remote(meter) for _ in range(6)])
    print(options, ray.get(meter.read.remote()) <= 2 if options != {"resources": {"license": 1}} else ray.get(meter.read.remote()))
never = use.options(resources={"telescope": 1}).remote(meter)
print(ray.wait([never], timeout=0.3)[0])
for wrong in {"license": -1}, {"license": 1.5}, {"GPU": 1}, {"memory": 1}:
    try:
        use.options(resources=wrong).remote(meter)
        print("accepted", wrong)
    except (TypeError, ValueError) as error:
        print("TypeError" if isinstance(error, TypeError) else type(error).__name__, wrong)
