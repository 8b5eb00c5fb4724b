"""get with a timeout: a GetTimeoutError is a TimeoutError, and the result comes later all the same."""
import time

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def slow():
    time.sleep(1)
    return "late"


ref = slow.remote()
for timeout in 0, 0.1:
    try:
        ray.get(ref, timeout=timeout)
    except ray.exceptions.GetTimeoutError as error:
        print(type(error).__name__, isinstance(error, TimeoutError), isinstance(error, ray.exceptions.RayError))
print(ray.get(ref, timeout=30), ray.get(ref, timeout=0))
try:
    ray.get([ray.put(1), slow.remote()], timeout=0.1)
except TimeoutError as error:
    print(type(error).__name__)
print(ray.get(ray.put(1), timeout=0))
