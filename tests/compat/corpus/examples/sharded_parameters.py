"""A parameter server in shards, whose updates come from several workers."""
import numpy as np
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote(num_cpus=0)
class Shard:
    def __init__(self, size):
        self.values = np.zeros(size)

    def push(self, change):
        self.values = self.values + change

    def pull(self):
        return self.values


@ray.remote
def worker(shards, rounds):
    for _ in range(rounds):
        parts = ray.get([shard.pull.remote() for shard in shards])
        assert sum(len(part) for part in parts) == 9
        ray.get([shard.push.remote(np.ones(len(part))) for shard, part in zip(shards, parts)])


shards = [Shard.remote(3) for _ in range(3)]
ray.get([worker.remote(shards, 5) for _ in range(2)])
print(np.concatenate(ray.get([shard.pull.remote() for shard in shards])).tolist())
