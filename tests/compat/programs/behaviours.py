"""Smaller promises, one after the other: cancelling, failing fast, groups of errors, limits, restarts, handles
anywhere.
"""

import os
import time

import ray

ray.init(num_cpus=2)


@ray.remote
def sleep(seconds):
    for _ in range(100 * seconds):  # Ray interrupts between two statements only
        time.sleep(0.01)
    return seconds


@ray.remote
def fail():
    raise LookupError("at once")


@ray.remote
def identity(x):
    return x


def raises(call, *errors):
    try:
        call()
    except errors as error:
        return error
    raise AssertionError(f"no {errors}")


# a list fails at its first failure, whatever else it waits for
raises(lambda: ray.get([sleep.remote(60), fail.remote()], timeout=30), LookupError)

# timeout=0 only looks; wait keeps the order and gives at most num_returns
slow = sleep.options(num_cpus=0).remote(60)
raises(lambda: ray.get(slow, timeout=0), ray.exceptions.GetTimeoutError, TimeoutError)
done = [ray.put(i) for i in range(4)]
ready, rest = ray.wait([done[2], slow, done[0], done[1]], num_returns=2)
assert len(ready) == 2 and len(rest) == 2 and slow in rest
assert ray.wait([slow], timeout=0) == ([], [slow]) and ray.wait([]) == ([], [])


# cancelling what waits, what runs, and what that has started
@ray.remote
def parent():
    return ray.get(sleep.remote(60))


running = parent.remote()
queued = identity.remote(slow)
for ref in (queued, running, slow):
    ray.cancel(ref)
    raises(lambda ref=ref: ray.get(ref, timeout=30), ray.exceptions.TaskCancelledError, ray.exceptions.RayTaskError)


# groups of errors; what returns nothing; refs in any container; equality and hashes
@ray.remote
def group():
    raise ExceptionGroup("two", [ValueError("a"), KeyError("b")])


caught = []
try:
    ray.get(group.remote())
except* ValueError as part:
    caught += part.exceptions
except* KeyError as part:
    caught += part.exceptions
assert len(caught) == 2
assert identity.options(num_returns=0).remote(1) is None
nested = ray.get(identity.remote({"refs": [done[3], (done[1],)]}))
assert nested["refs"][0] == done[3] and hash(nested["refs"][0]) == hash(done[3])
assert ray.get(nested["refs"][1][0]) == 1 and nested["refs"][0].hex() == done[3].hex()


# actors: order of calls, limits, restarts, handles in containers and closures
@ray.remote(max_restarts=1, max_task_retries=1)
class Log:
    def __init__(self):
        self.lines = []

    def add(self, line):
        self.lines.append(line)
        return len(self.lines)

    def restarted(self):
        return ray.get_runtime_context().was_current_actor_reconstructed

    def end(self):
        os._exit(1)

    @ray.method(num_returns=2)
    def two(self):
        return self.lines[:1], len(self.lines)


log = Log.remote()
assert ray.get([log.add.remote(i) for i in range(100)]) == list(range(1, 101))
first, n = log.two.remote()
assert ray.get([first, n]) == [[0], 100] and ray.get(log.restarted.remote()) is False


@ray.remote
def add_to(handles):
    return ray.get(handles["log"][0].add.remote("from a task")), ray.get(log.restarted.remote())


assert ray.get(add_to.remote({"log": [log]})) == (101, False)
ray.kill(log, no_restart=False)
assert ray.get(log.add.remote("again")) == 1 and ray.get(log.restarted.remote()) is True


@ray.remote(max_pending_calls=2)
class Busy:
    def wait(self):
        time.sleep(60)


busy = Busy.remote()


def flood():
    for _ in range(10):
        busy.wait.remote()


raises(lambda: ray.cancel(busy.wait.remote(), force=True), ValueError)
raises(flood, ray.exceptions.PendingCallsLimitExceeded)
ray.kill(busy)

# calls that are wrong are refused where they are made
raises(lambda: identity.remote(), TypeError)
raises(lambda: identity.remote(1, 2), TypeError)
raises(lambda: log.add(1), TypeError)
raises(lambda: Log(), TypeError)
raises(lambda: log.nothing, AttributeError)
raises(lambda: ray.put(done[0]), TypeError)
raises(lambda: ray.wait([done[0], done[0]]), ValueError)
raises(lambda: identity.options(num_cpus=-1), ValueError)
