"""Handles travel: into tasks, other actors, containers and closures; all reach the same actor."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Log:
    def __init__(self):
        self.lines = []

    def write(self, line):
        self.lines.append(line)
        return len(self.lines)

    def read(self):
        return sorted(self.lines)


@ray.remote
def work(log, i):
    return ray.get(log.write.remote(f"task {i}"))


@ray.remote
def work_in_a_box(box):
    return ray.get(box["logs"][0].write.remote("from a box"))


log = Log.remote()
print(sorted(ray.get([work.remote(log, i) for i in range(4)])))
print(ray.get(work_in_a_box.remote({"logs": [log]})))


@ray.remote
def captured():
    return ray.get(log.write.remote("captured"))


@ray.remote
class Worker:
    def __init__(self, log):
        self.log = log

    def run(self):
        return ray.get(self.log.write.remote("from an actor"))

    def handle(self):
        return self.log


print(ray.get(captured.remote()), ray.get(Worker.remote(log).run.remote()))
same = ray.get(Worker.remote(log).handle.remote())
print(same == log, hash(same) == hash(log), len({same, log}), ray.get(same.read.remote()) == ray.get(log.read.remote()))
stored = ray.get(ray.put([log]))[0]
print(ray.get(stored.write.remote("stored")))


@ray.remote
def make():
    inner = Log.remote()
    inner.write.remote("made in a task")
    return inner


print(ray.get(ray.get(make.remote()).read.remote()))
print(ray.get(log.read.remote()))
write = log.write
print(ray.get(write.remote("bound")), ray.get(ray.remote(lambda m: ray.get(m.remote("passed on"))).remote(write)))
