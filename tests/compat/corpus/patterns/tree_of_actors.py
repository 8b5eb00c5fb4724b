"""A tree of actors: supervisors that make and drive workers of their own."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote(num_cpus=0)
class Trainer:
    def __init__(self, rate, data):
        self.rate, self.data = rate, data

    def fit(self):
        return self.rate * sum(self.data)


@ray.remote(num_cpus=0)
class Supervisor:
    def __init__(self, rate, shards):
        self.trainers = [Trainer.remote(rate, shard) for shard in shards]

    def fit(self):
        return round(sum(ray.get([trainer.fit.remote() for trainer in self.trainers])), 6)

    def workers(self):
        return len(self.trainers)


shards = [[1, 2], [3, 4], [5]]
supervisors = {rate: Supervisor.remote(rate, shards) for rate in (0.1, 0.5, 1.0)}
print({rate: ray.get(supervisor.fit.remote()) for rate, supervisor in supervisors.items()})
print(ray.get([supervisor.workers.remote() for supervisor in supervisors.values()]))
