"""Discrete simulations side by side: random walks with seeds of their own, gathered in order."""
import random

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Walker:
    def __init__(self, seed):
        self.chance, self.position = random.Random(seed), 0

    def walk(self, steps):
        self.position += sum(self.chance.choice((-1, 1)) for _ in range(steps))
        return self.position


walkers = [Walker.options(num_cpus=0).remote(seed) for seed in range(4)]
for _ in range(3):
    print(ray.get([walker.walk.remote(100) for walker in walkers]))


@ray.remote
def queue_simulation(seed, customers=200):
    chance, clock, free_at, waited = random.Random(seed), 0.0, 0.0, 0.0
    for _ in range(customers):
        clock += chance.expovariate(1.0)
        start = max(clock, free_at)
        waited += start - clock
        free_at = start + chance.expovariate(1.25)
    return round(waited / customers, 4)


print(ray.get([queue_simulation.remote(seed) for seed in range(4)]))
