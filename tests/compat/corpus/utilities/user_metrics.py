"""ray.util.metrics: counters, gauges and histograms, with tags; and what they refuse."""
import ray
from ray.util.metrics import Counter, Gauge, Histogram

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Measured:
    def __init__(self, name):
        self.counter = Counter("requests", description="How many.", tag_keys=("actor",))
        self.counter.set_default_tags({"actor": name})
        self.gauge = Gauge("waiting", description="How many wait.", tag_keys=("actor",))
        self.histogram = Histogram("latency", description="In seconds.", boundaries=[0.1, 1.0], tag_keys=("actor",))

    def work(self, n):
        self.counter.inc()
        self.counter.inc(2.0, tags={"actor": "other"})
        self.gauge.set(n, tags={"actor": "a"})
        self.histogram.observe(0.5, tags={"actor": "a"})
        return sorted(self.counter.info)


print(ray.get(Measured.remote("a").work.remote(3)))
counter = Counter("mine", tag_keys=("k",))
for what, call in {"negative": lambda: counter.inc(-1, tags={"k": "v"}), "missing tag": lambda: counter.inc(1), "no text": lambda: counter.inc(1, tags={"k": 1}),
                   "empty name": lambda: Counter(""), "keys": lambda: Counter("c", tag_keys="k"),
                   "boundaries": lambda: Histogram("h", boundaries=[0, -1])}.items():
    try:
        call()
        print(what, "accepted")
    except (TypeError, ValueError) as error:
        print(what, "refused")
