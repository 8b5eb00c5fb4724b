"""_generator_backpressure_num_objects: a generator that pauses until its values are taken."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote(num_cpus=0)
class Progress:
    def __init__(self):
        self.made = 0

    def note(self):
        self.made += 1

    def read(self):
        return self.made


@ray.remote(_generator_backpressure_num_objects=2)
def limited(progress, n):
    for i in range(n):
        ray.get(progress.note.remote())
        yield i


progress = Progress.remote()
stream = limited.remote(progress, 10)
print(ray.get(next(stream)))
while ray.get(progress.read.remote()) < 3:
    pass
ray.wait([ray.remote(lambda: __import__("time").sleep(0.3)).remote()])
print(ray.get(progress.read.remote()) <= 4)
print([ray.get(ref) for ref in stream], ray.get(progress.read.remote()))
