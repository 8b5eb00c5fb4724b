"""A model that is served by an actor, asked by tasks with batches."""

import numpy as np
import ray

ray.init(num_cpus=2)


@ray.remote
class Model:
    def __init__(self, weights):
        self.weights = weights
        self.n_queries = 0

    def predict(self, states):
        self.n_queries += len(states)
        return states @ self.weights

    def statistics(self):
        return {"queries": self.n_queries}


@ray.remote
def client(model, seed):
    states = np.random.default_rng(seed).normal(size=(32, 8))
    return ray.get(model.predict.remote(states)).shape


model = Model.remote(np.ones((8, 2)))
assert ray.get([client.remote(model, i) for i in range(10)]) == [(32, 2)] * 10
assert ray.get(model.statistics.remote()) == {"queries": 320}
