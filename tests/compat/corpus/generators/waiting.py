"""ray.wait over generators and refs; completed() of a generator."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Gate:
    def __init__(self):
        self.n = 0

    def open(self):
        self.n = 1

    def is_open(self):
        return self.n


@ray.remote
def gated(gate):
    while not ray.get(gate.is_open.remote()):
        pass
    yield "late"


@ray.remote
def at_once(n):
    for i in range(n):
        yield i


gate = Gate.options(num_cpus=0).remote()
slow, quick = gated.options(num_cpus=0).remote(gate), at_once.remote(2)
ready, rest = ray.wait([slow, quick], num_returns=1)
print(ready == [quick], rest == [slow], ray.get(next(ready[0])))
gate.open.remote()
ready, rest = ray.wait([slow, ray.put(1)], num_returns=2, timeout=30)
print(len(ready), len(rest), ray.get(next(slow)))
print(ray.get(next(quick)))
done = at_once.remote(1)
ray.get(done.completed())
print(ray.get(next(done)), done.is_finished() in (True, False))
found, streams = [], [at_once.remote(3), at_once.remote(2)]
while streams:
    ready, streams = ray.wait(streams, num_returns=1)
    for stream in ready:
        try:
            found.append(ray.get(next(stream)))
            streams.append(stream)
        except StopIteration:
            pass
print(sorted(found))
