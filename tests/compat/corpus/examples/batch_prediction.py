"""Batch prediction with a small model: tasks that load it from the store, and a pool of actors that keep it."""
import numpy as np
import ray
from ray.util import ActorPool

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


def load_model():
    weights = np.array([1.0, -2.0, 0.5])

    def model(batch):
        return (batch @ weights > 0).astype(int)
    return model


model = ray.put(load_model())
batches = [np.random.default_rng(seed).normal(size=(8, 3)) for seed in range(5)]


@ray.remote
def predict(model, batch):
    return model(batch)


by_tasks = ray.get([predict.remote(model, batch) for batch in batches])
print([int(part.sum()) for part in by_tasks])


@ray.remote
class Predictor:
    def __init__(self, model):
        self.model = model

    def predict(self, batch):
        return self.model(batch)


pool = ActorPool([Predictor.remote(model) for _ in range(2)])
by_actors = list(pool.map(lambda actor, batch: actor.predict.remote(batch), batches))
print(all((a == b).all() for a, b in zip(by_tasks, by_actors)), len(by_actors))
unordered = list(pool.map_unordered(lambda actor, batch: actor.predict.remote(batch), batches))
print(sorted(int(part.sum()) for part in unordered) == sorted(int(part.sum()) for part in by_tasks))
