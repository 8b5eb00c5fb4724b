"""A search by hand: evaluate settings side by side, keep the best, stop those that fall behind."""
import numpy as np
import ray

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
RNG = np.random.default_rng(0)


@ray.remote
def evaluate(config):
    return -((config["rate"] - 0.3) ** 2) - (config["depth"] - 4) ** 2 / 100


configs = [{"rate": round(float(RNG.uniform(0, 1)), 3), "depth": int(RNG.integers(1, 8))} for _ in range(12)]
best, score, running = None, -np.inf, {evaluate.remote(config): config for config in configs}
while running:
    [done], _ = ray.wait(list(running))
    config, result = running.pop(done), ray.get(done)
    if result > score:
        best, score = config, result
print(best, round(float(score), 5))


@ray.remote(num_cpus=0.5)
class Trial:
    def __init__(self, rate):
        self.rate, self.loss = rate, 1.0

    def step(self):
        self.loss *= 1 - self.rate
        return self.rate, round(self.loss, 6)


trials = {rate: Trial.remote(rate) for rate in (0.1, 0.2, 0.4, 0.8)}
while len(trials) > 1:
    losses = sorted(ray.get([trial.step.remote() for trial in trials.values()]), key=lambda pair: pair[1])
    print(losses)
    for rate, _ in losses[len(losses) // 2:]:
        ray.kill(trials.pop(rate))
print("best", list(trials))
