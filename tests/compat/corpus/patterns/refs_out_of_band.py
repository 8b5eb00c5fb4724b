"""Anti-pattern: a ref that is pickled by hand, which nobody can count."""
import pickle

import ray
from ray import cloudpickle

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
ref = ray.put([1, 2, 3])
for what, dumps in {"cloudpickle": cloudpickle.dumps, "pickle": pickle.dumps}.items():
    try:
        loaded = pickle.loads(dumps(ref))
        print(what, ray.get(loaded), loaded == ref)
    except Exception as error:
        print(what, type(error).__name__)


@ray.remote
def loads(data):
    try:
        return ray.get(pickle.loads(data))
    except Exception as error:
        return type(error).__name__


print(ray.get(loads.remote(cloudpickle.dumps([ref])[:0] or pickle.dumps("no ref"))))
copied = ray.get(ray.put({"config": [ref]}))
print(ray.get(copied["config"][0]))
