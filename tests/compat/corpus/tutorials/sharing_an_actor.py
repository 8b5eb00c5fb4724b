"""From the exercises: a log that an actor keeps, written by tasks and other actors, read while they run."""
import collections

import ray

ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)


@ray.remote(num_cpus=0)
class LoggingActor:
    def __init__(self):
        self.logs = collections.defaultdict(list)

    def log(self, index, message):
        self.logs[index].append(message)

    def get_logs(self):
        return dict(self.logs)


@ray.remote
def run_experiment(index, logging_actor):
    for i in range(5):
        logging_actor.log.remote(index, f"on step {i}")
    ray.get(logging_actor.log.remote(index, "done"))


logging_actor = LoggingActor.remote()
print(ray.get(logging_actor.get_logs.remote()))
experiments = [run_experiment.remote(i, logging_actor) for i in range(3)]
ray.get(experiments)
logs = ray.get(logging_actor.get_logs.remote())
print(sorted(logs), [len(lines) for _, lines in sorted(logs.items())], logs[1])
