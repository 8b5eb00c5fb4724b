"""ray.wait: the first results, those that are there in time, and all of them."""
import time

import ray

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)


@ray.remote
def after(seconds):
    time.sleep(seconds)
    return seconds


refs = [after.remote(s) for s in (5, 0.01, 5, 0.02)]
ready, rest = ray.wait(refs, num_returns=2)
print(sorted(ray.get(ready)), len(rest))
print(rest == [refs[0], refs[2]])
ready, rest = ray.wait(rest, timeout=0.05)
print(len(ready), len(rest))
ready, rest = ray.wait(refs, num_returns=4, timeout=0)
print(len(ready), len(rest))
print(ray.wait([ray.put(1)], num_returns=1)[1])


def attempt(what, call):
    try:
        print(what, call())
    except Exception as error:
        print(what, type(error).__name__)


attempt("none", lambda: ray.wait([]))
attempt("one ref", lambda: ray.wait(refs[0]))
attempt("twice", lambda: ray.wait([refs[0], refs[0]]))
attempt("more than there are", lambda: ray.wait(refs, num_returns=5))
attempt("no number", lambda: ray.wait(refs, num_returns=0))
attempt("not refs", lambda: ray.wait([1, 2]))
attempt("negative timeout", lambda: ray.wait(refs, timeout=-1))
