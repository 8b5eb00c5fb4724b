"""Pipelining: an actor asks for its next piece of work before it has done the last one."""
import ray

ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)


@ray.remote
class Work:
    def __init__(self, n):
        self.items = list(range(n))

    def next(self):
        return self.items.pop(0) if self.items else None


@ray.remote
class Pipelined:
    def __init__(self, work):
        self.work, self.done = work, 0

    def run(self):
        ahead = self.work.next.remote()
        while (item := ray.get(ahead)) is not None:
            ahead = self.work.next.remote()
            self.done += item
        return self.done


work = Work.remote(30)
workers = [Pipelined.remote(work) for _ in range(2)]
print(sum(ray.get([worker.run.remote() for worker in workers])), ray.get(work.next.remote()))
