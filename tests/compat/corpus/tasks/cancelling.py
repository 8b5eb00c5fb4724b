"""ray.cancel: tasks that wait, tasks that run, tasks that are done, and those that wait for the cancelled one."""
import os
import tempfile
import time

import ray

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)


@ray.remote
def long(started=""):
    if started:
        open(started, "w").close()
    for _ in range(6000):
        time.sleep(0.01)


def running_now(started, **options):
    ref = long.options(**options).remote(started)
    while not os.path.exists(started):
        pass
    return ref


@ray.remote
def quick(x=None):
    return "done"


def outcome(ref):
    try:
        return ray.get(ref, timeout=30)
    except ray.exceptions.TaskCancelledError as error:
        return "cancelled", isinstance(error, ray.exceptions.RayError)
    except ray.exceptions.RayError as error:
        return type(error).__name__


folder = tempfile.mkdtemp()
running = running_now(os.path.join(folder, "first"))
queued = quick.remote()
dependent = quick.remote(running)
ray.cancel(queued)
print("queued", outcome(queued))
ray.wait([running], timeout=1)  # Ray misses what is cancelled soon after another one
ray.cancel(running)
print("running", outcome(running))
try:
    ray.get(running)
except ray.exceptions.TaskCancelledError as error:
    print("was cancelled" in str(error), isinstance(error, ray.exceptions.RayTaskError))
print("dependent", outcome(dependent))
done = quick.remote()
print("done", outcome(done))
ray.cancel(done)
print("done, then cancelled", outcome(done))
forced = running_now(os.path.join(folder, "second"), max_retries=0)
ray.cancel(forced, force=True)
print("forced", outcome(forced))
try:
    ray.cancel("no ref")
except TypeError as error:
    print(type(error).__name__)
