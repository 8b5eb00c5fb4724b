"""A parameter server: workers read the parameters, compute a gradient and send it, as in the first articles on Ray."""

import numpy as np
import ray


@ray.remote
class ParameterServer:
    def __init__(self, keys, values):
        self.parameters = dict(zip(keys, [value.copy() for value in values]))

    def get(self, keys):
        return [self.parameters[key] for key in keys]

    def update(self, keys, values):
        for key, value in zip(keys, values):
            self.parameters[key] += value


@ray.remote
def worker(server, target, n_steps):
    keys = ["w", "b"]
    for _ in range(n_steps):
        w, b = ray.get(server.get.remote(keys))
        server.update.remote(keys, [0.1 * (target - w), 0.1 * (1.0 - b)])
    return n_steps


ray.init(num_cpus=2)
server = ParameterServer.remote(["w", "b"], [np.zeros(10), np.zeros(1)])
assert sum(ray.get([worker.remote(server, np.ones(10), 60) for _ in range(4)])) == 240
w, b = ray.get(server.get.remote(["w", "b"]))
assert np.allclose(w, 1, atol=0.05) and np.allclose(b, 1, atol=0.05)
