"""The side-by-side workloads, written once against an object `ray` with Ray's core API.

    python workloads.py --api ray --out ray.json              # all of them
    python workloads.py --api ray --only tasks_sync,put_small # some (a name may end in *)
    python workloads.py --list

Where Ray's own `ray microbenchmark` has the workload, `ray_perf` holds its name there and the semantics are
the same (sizes are cut down to two cores and a second or two). Every figure is a set of samples, each over
--time seconds; a sample taken while other processes used more than --foreign of the machine is taken again
(a few times at most), so the choice never looks at the speed itself. Beside the rate each workload reports
the CPU microseconds per operation over all processes of the runtime: on few cores that is the real price."""

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ray = None  # the module under test, set by runner.py
now = time.perf_counter
MB = 1 << 20


# ---------------------------------------------------------------- what runs in the workers
def noop():
    return b"ok"


def noop_arg(x):
    return b"ok"


def ten_args(a, b, c, d, e, f, g, h, i, j):
    return b"ok"


def add1(x):
    return x + 1


def add(a, b):
    return a + b


def one():
    return 1


def echo(a):
    return a


def fails():
    raise ValueError("expected")


def first_element(a):
    return float(a[0])


def make_array(n_bytes):
    return np.ones(n_bytes // 8)


def temporary_arrays(n):
    a = np.ones(MB // 8)
    for _ in range(n):
        _ = [a * 2, a * 3, a * 4]


def put_100_small():
    for _ in range(100):
        ray.put(0)


def put_10_large():
    for _ in range(10):
        ray.put(np.zeros(10 * MB, dtype=np.int64))


def spawn_noops(n):
    ray.get([r_noop.remote() for _ in range(n)])
    return 0


def fib(n):
    return n if n < 2 else sum(ray.get([r_fib.remote(n - 1), r_fib.remote(n - 2)]))


def many_refs(n):
    return [ray.put(1) for _ in range(n)]


def call_actors(actors, n):
    ray.get([actors[i % len(actors)].small_value.remote() for i in range(n)])


def victim(path):
    if os.path.exists(path):
        return "again"
    with open(path + ".tmp", "w") as f:
        f.write(str(os.getpid()))
    os.rename(path + ".tmp", path)
    time.sleep(60)


def busy(path):
    victim_pid = os.getpid()
    with open(path + ".tmp", "w") as f:
        f.write(str(victim_pid))
    os.rename(path + ".tmp", path)
    end = time.time() + 60
    while time.time() < end:
        sum(range(1000))


class Actor:
    def small_value(self):
        return b"ok"

    def small_value_arg(self, x):
        return b"ok"

    def spawn_noops(self, n):
        ray.get([r_noop.remote() for _ in range(n)])

    def put_large(self, n_bytes):
        return [ray.put(np.ones(n_bytes // 8))]

    def pid(self):
        return os.getpid()


class AsyncActor:
    async def small_value(self):
        return b"ok"

    async def small_value_arg(self, x):
        return b"ok"

    async def nap(self, s):
        await asyncio.sleep(s)


class Client:
    def __init__(self, servers):
        self.servers = servers

    def batch(self, n):
        ray.get([s.small_value.remote() for s in self.servers for _ in range(n)])

    def batch_arg(self, n):
        x = ray.put(0)
        ray.get([s.small_value_arg.remote(x) for s in self.servers for _ in range(n)])


REMOTE = {}


def declare():
    """The remote functions, made once as a user's decorators would make them."""
    for f in (
        noop,
        noop_arg,
        ten_args,
        add1,
        add,
        one,
        echo,
        fails,
        first_element,
        make_array,
        temporary_arrays,
        put_100_small,
        put_10_large,
        spawn_noops,
        fib,
        many_refs,
        call_actors,
        victim,
        busy,
    ):
        globals()["r_" + f.__name__] = REMOTE[f.__name__] = ray.remote(f)


WORKLOADS = {}
GROUP = ""  # a group's workloads share one process and one init() in compare.py


def workload(unit, ray_perf=None, better=None, init=True, limit=90):
    """Registers a workload; `ray_perf` is its name in `ray microbenchmark`, `limit` seconds end it."""

    def wrap(f):
        WORKLOADS[f.__name__] = {
            "fn": f,
            "unit": unit,
            "ray_perf": ray_perf,
            "init": init,
            "limit": limit,
            "group": GROUP or f.__name__,
            "better": better or ("higher" if unit.endswith("/s") else "lower"),
        }
        return f

    return wrap


# ---------------------------------------------------------------- starting (a fresh process each)
GROUP = "start"


@workload("s", init=False, limit=180)
def init_cold(b):
    """Interpreter start to the first task's result, in a fresh process: import + init + first task."""

    def go():
        t0 = now()
        command = [
            sys.executable,
            os.path.abspath(__file__),
            "--api",
            b.opt.api,
            "--num-cpus",
            str(b.opt.num_cpus),
            "--init",
            json.dumps(b.opt.init),
            "--cold",
        ]
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=100)
        wall = now() - t0
        d = json.loads(p.stdout.decode().strip().splitlines()[-1])
        return d["import_s"] + d["init_s"] + d["first_task_s"], {**d, "process_total_s": round(wall, 3)}

    b.once(go)


@workload("MB")
def footprint(b):
    """Memory of all the runtime's processes (PSS) once a task has run, and their CPU use while idle."""
    import procs

    ray.get([r_noop.remote() for _ in range(20)])
    time.sleep(1.5)

    def go():
        u0, t0 = procs.Usage(), now()
        time.sleep(max(2.0, b.opt.time))
        by, _ = procs.Usage().since(u0)
        t = now() - t0
        f = procs.footprint()
        b.result["by_process"] = f.pop("pss_mb_by")
        idle = round(100 * sum(by.values()) / t, 2)
        return f["pss_mb"], {"processes": f["processes"], "threads": f["threads"], "idle_cpu_percent": idle}

    b.once(go)


# ---------------------------------------------------------------- objects
GROUP = "objects"


@workload("get/s", "single client get calls (Plasma Store)")
def get_small(b):
    ref = ray.put(0)
    b.rate(lambda: ray.get(ref))


@workload("put/s", "single client put calls (Plasma Store)")
def put_small(b):
    b.rate(lambda: ray.put(0))


@workload("put/s", "multi client put calls (Plasma Store)")
def put_small_multi(b):
    b.rate(lambda: ray.get([r_put_100_small.remote() for _ in range(10)]), 1000)


@workload("get/s")
def get_1000_done(b):
    """One get of 1000 finished small results."""
    refs = [r_noop.remote() for _ in range(1000)]
    ray.get(refs)
    b.rate(lambda: ray.get(refs), 1000)


@workload("get/s", "single client get object containing 10k refs")
def get_10k_refs(b):
    ref = r_many_refs.remote(10000)
    ray.wait([ref])
    b.rate(lambda: ray.get(ref))


# With memory of its own, or what the others have let go of would be used again.
GROUP = "fresh memory"


@workload("GB/s")
def put_large_fresh(b):
    """100 MB arrays that are all kept, each put as soon as it has been made; of that, the put."""
    kept = []

    def put():
        a = np.full(100_000_000 // 8, len(kept), dtype=float)
        t0 = now()
        kept.append(ray.put(a))
        return a.nbytes / 1e9 / (now() - t0)

    put()
    b.once(lambda: (sorted(put() for _ in range(5))[2], None))


GROUP = "large objects"


@workload("GB/s", "single client put gigabytes")
def put_large_zeros(b):
    """ray_perf's: 800 MB of np.zeros, whose untouched pages read back from the cache."""
    a = np.zeros(100 * MB, dtype=np.int64)
    b.rate(lambda: ray.put(a), 1, scale=a.nbytes / 1e9)


@workload("GB/s")
def put_large(b):
    """A 100 MB array of real data."""
    a = np.ones(100_000_000 // 8)
    t0 = now()
    ray.put(a)
    b.result["first_put_ms"] = round((now() - t0) * 1e3, 2)
    b.rate(lambda: ray.put(a), 1, scale=a.nbytes / 1e9)


@workload("put/s")
def put_1mb(b):
    a = np.ones(MB // 8)
    b.rate(lambda: ray.put(a))


@workload("GB/s", "multi client put gigabytes")
def put_large_multi(b):
    b.rate(lambda: ray.get([r_put_10_large.remote() for _ in range(2)]), 20, scale=80 * MB / 1e9)


@workload("ms")
def get_large(b):
    """First get of a 100 MB array that another process put; zero_copy: the driver's own memory did not grow."""
    from procs import rss_anon

    a = b.actor(Actor)
    grown = []

    def go():
        ref = ray.get(a.put_large.remote(100_000_000))[0]
        m0, t0 = rss_anon(), now()
        v = ray.get(ref)
        s = v[0] + v[-1]
        t = now() - t0
        assert s == 2.0
        grown.append(rss_anon() - m0)
        b.result["writeable"] = bool(v.flags.writeable)
        return t

    b.latency(go)
    b.result["grown_mb"] = round(sorted(grown)[len(grown) // 2] / 1e6, 2)
    b.result["zero_copy"] = b.result["grown_mb"] < 10


@workload("get/s")
def get_large_again(b):
    """Repeated get of a 100 MB array already here."""
    ref = ray.put(np.ones(100_000_000 // 8))
    b.rate(lambda: ray.get(ref)[0])


@workload("ms")
def task_result_100mb(b):
    """A task makes and returns a 100 MB array: submit to first element read."""

    def go():
        t0 = now()
        v = ray.get(r_make_array.remote(100_000_000))
        v[0]
        return now() - t0

    b.latency(go)


@workload("ms")
def task_arg_100mb_ref(b):
    """A task reads one element of a 100 MB object passed by ref."""
    ref = ray.put(np.ones(100_000_000 // 8))
    b.latency(lambda: ray.get(r_first_element.remote(ref)) and None)


@workload("ms")
def task_arg_100mb_value(b):
    """The same, the array passed by value."""
    a = np.ones(100_000_000 // 8)
    b.latency(lambda: ray.get(r_first_element.remote(a)) and None)


# ---------------------------------------------------------------- tasks
GROUP = "tasks"


@workload("tasks/s", "single client tasks sync")
def tasks_sync(b):
    b.latency(lambda: ray.get(r_noop.remote()) and None)


@workload("tasks/s")
def tasks_sync_error(b):
    def go():
        try:
            ray.get(r_fails.remote())
        except ValueError:
            return
        raise AssertionError("no ValueError")

    b.latency(go)


@workload("tasks/s", "single client tasks async")
def tasks_async(b):
    b.rate(lambda: ray.get([r_noop.remote() for _ in range(1000)]), 1000)


@workload("tasks/s")
def tasks_submit(b):
    """Only the submitting part of tasks_async."""

    def go():
        t0 = now()
        refs = [r_noop.remote() for _ in range(1000)]
        t = now() - t0
        ray.get(refs)
        return t / 1000

    b.latency(go, per_call=1000)


@workload("tasks/s")
def tasks_async_arg(b):
    b.rate(lambda: ray.get([r_noop_arg.remote(i) for i in range(1000)]), 1000)


@workload("tasks/s")
def tasks_async_kwargs(b):
    d = {"name": "x", "values": [1, 2, 3]}
    b.rate(lambda: ray.get([r_noop_arg.remote(x=d) for _ in range(1000)]), 1000)


@workload("tasks/s")
def tasks_10_refs(b):
    refs = [ray.put(i) for i in range(10)]
    b.rate(lambda: ray.get([r_ten_args.remote(*refs) for _ in range(200)]), 200)


@workload("tasks/s")
def tasks_1mb(b):
    """1 MB numpy argument (by value) and 1 MB result, 20 in flight."""
    a = np.ones(MB // 8)
    b.rate(lambda: ray.get([r_echo.remote(a) for _ in range(20)]), 20)


@workload("tasks/s")
def tasks_temporaries(b):
    """A task that makes a hundred times three arrays of 1 MB, and drops them."""
    b.rate(lambda: ray.get(r_temporary_arrays.remote(100)), 1)


@workload("tasks/s", "multi client tasks async")
def tasks_multi(b):
    actors = [b.actor(Actor) for _ in range(4)]
    b.rate(lambda: ray.get([a.spawn_noops.remote(250) for a in actors]), 1000)


GROUP = "graphs"


def chain(b, n):
    def go():
        r = 0
        for _ in range(n):
            r = r_add1.remote(r)
        assert ray.get(r) == n

    b.rate(go, n)


@workload("tasks/s")
def chain_1000(b):
    """1000 tasks, each taking the former's ref; get the last."""
    chain(b, 1000)


@workload("tasks/s")
def chain_100(b):
    """Likewise, for engines that need ten milliseconds for each."""
    chain(b, 100)


@workload("tasks/s")
def tree_reduce_1024(b):
    """1024 leaves summed pairwise: 2047 tasks."""

    def go():
        rs = [r_one.remote() for _ in range(1024)]
        while len(rs) > 1:
            rs = [r_add.remote(x, y) for x, y in zip(rs[::2], rs[1::2], strict=True)]
        assert ray.get(rs[0]) == 1024

    b.rate(go, 2047)


@workload("tasks/s")
def nested_100(b):
    """A task submits 100 subtasks and gets them (101 tasks)."""
    b.rate(lambda: ray.get(r_spawn_noops.remote(100)), 101)


@workload("tasks/s", limit=150)
def fib_10(b):
    """fib(10), where each task gets what two others return: 177 tasks, of which 88 wait."""

    def go():
        assert ray.get(r_fib.remote(10)) == 55

    b.rate(go, 177)


@workload("tasks/s", limit=150)
def fanout_10k(b):
    b.rate(lambda: ray.get([r_noop.remote() for _ in range(10000)]), 10000, warm=False)


@workload("tasks/s", limit=150)
def fanout_3k(b):
    """Likewise, for engines that need a millisecond or more for each."""
    b.rate(lambda: ray.get([r_noop.remote() for _ in range(3000)]), 3000, warm=False)


@workload("round/s", "single client wait 1k refs")
def wait_1k(b):
    """1000 tasks, then wait for one at a time until none is left."""

    def go():
        todo = [r_noop.remote() for _ in range(1000)]
        fetch = True
        while todo:
            _, todo = ray.wait(todo, fetch_local=fetch)
            fetch = False

    b.rate(go)


@workload("wait/s")
def wait_1k_done(b):
    """One wait for all of 1000 finished refs."""
    refs = [r_noop.remote() for _ in range(1000)]
    ray.get(refs)
    b.rate(lambda: ray.wait(refs, num_returns=1000))


# ---------------------------------------------------------------- actors
GROUP = "actors"


@workload("calls/s", "1:1 actor calls sync")
def actor_sync(b):
    a = b.actor(Actor)
    b.latency(lambda: ray.get(a.small_value.remote()) and None)


@workload("calls/s", "1:1 actor calls async")
def actor_async(b):
    a = b.actor(Actor)
    b.rate(lambda: ray.get([a.small_value.remote() for _ in range(1000)]), 1000)


@workload("calls/s")
def actor_async_arg(b):
    """Each call takes the ref of one put object."""
    a, x = b.actor(Actor), ray.put(0)
    b.rate(lambda: ray.get([a.small_value_arg.remote(x) for _ in range(1000)]), 1000)


@workload("calls/s", "1:1 actor calls concurrent")
def actor_concurrent(b):
    a = b.actor(Actor, max_concurrency=16)
    b.rate(lambda: ray.get([a.small_value.remote() for _ in range(1000)]), 1000)


@workload("calls/s", "1:n actor calls async")
def actor_1_n(b):
    c = b.actor(Client, [b.actor(Actor) for _ in range(2)])
    b.rate(lambda: ray.get(c.batch.remote(500)), 1000)


@workload("calls/s", "n:n actor calls async")
def actor_n_n(b):
    actors = [b.actor(Actor) for _ in range(2)]
    b.rate(lambda: ray.get([r_call_actors.remote(actors, 500) for _ in range(2)]), 1000)


@workload("calls/s", "n:n actor calls with arg async")
def actor_n_n_arg(b):
    cs = [b.actor(Client, [b.actor(Actor)]) for _ in range(2)]
    b.rate(lambda: ray.get([c.batch_arg.remote(500) for c in cs]), 1000)


GROUP = "groups of actors"


def eight(b):
    """Eight actors as the API has them together: a group where there are groups, else a list."""
    return ray.group(Actor, 8) if hasattr(ray, "group") else [b.actor(Actor) for _ in range(8)]


def call_all(actors):
    """The refs of a call of each."""
    return [a.small_value.remote() for a in actors] if type(actors) is list else actors.small_value.remote()


@workload("calls/s")
def group_loop(b):
    """Eight actors called in a loop over their handles, ten times, then all the values."""
    actors = [b.actor(Actor) for _ in range(8)]
    b.rate(lambda: ray.get([ref for _ in range(10) for ref in call_all(actors)]), 80)


@workload("calls/s")
def group_call(b):
    """The same calls of a group, where the API has groups."""
    actors = eight(b)
    b.rate(lambda: ray.get([ref for _ in range(10) for ref in call_all(actors)]), 80)


@workload("calls/s")
def group_1mb(b):
    """Eight actors given 1 MB by value: stored once by a group."""
    a, actors = np.ones(MB // 8), eight(b)
    if type(actors) is list:
        b.rate(lambda: ray.get([actor.small_value_arg.remote(a) for actor in actors]), 8)
    else:
        b.rate(lambda: ray.get(actors.small_value_arg.remote(a)), 8)


@workload("calls/s")
def group_1mb_loop(b):
    """The same with one `put` by hand and a loop over handles."""
    a, actors = np.ones(MB // 8), [b.actor(Actor) for _ in range(8)]

    def go():
        ref = ray.put(a)
        ray.get([actor.small_value_arg.remote(ref) for actor in actors])

    b.rate(go, 8)


def made(b, make):
    """Until what is made has answered; it is gone before the next."""

    def go():
        t0 = now()
        actors = make()
        ray.get(list(call_all(actors)))
        took = now() - t0
        for a in actors:
            ray.kill(a)
        return took

    b.latency(go)


def make_eight():
    actor = ray.remote(num_cpus=0)(Actor)
    return [actor.remote() for _ in range(8)]


@workload("ms")
def group_made_1(b):
    """One actor made, until it has answered."""
    made(b, lambda: [ray.remote(num_cpus=0)(Actor).remote()])


@workload("ms")
def group_made_8_loop(b):
    """Eight actors made in a loop, until all have answered: eight processes begin."""
    made(b, make_eight)


@workload("ms")
def group_made_8(b):
    """Likewise as a group, where there are groups."""
    made(b, (lambda: ray.remote(num_cpus=0)(Actor).group(8)) if hasattr(ray, "group") else make_eight)


GROUP = "async actors"


@workload("calls/s", "1:1 async-actor calls sync")
def async_actor_sync(b):
    a = b.actor(AsyncActor)
    b.latency(lambda: ray.get(a.small_value.remote()) and None)


@workload("calls/s", "1:1 async-actor calls async")
def async_actor_async(b):
    a = b.actor(AsyncActor)
    b.rate(lambda: ray.get([a.small_value.remote() for _ in range(1000)]), 1000)


@workload("calls/s", "1:1 async-actor calls with args async")
def async_actor_async_arg(b):
    a = b.actor(AsyncActor)
    b.rate(lambda: ray.get([a.small_value_arg.remote(i) for i in range(1000)]), 1000)


@workload("calls/s", "n:n async-actor calls async")
def async_actor_n_n(b):
    actors = [b.actor(AsyncActor) for _ in range(2)]
    b.rate(lambda: ray.get([r_call_actors.remote(actors, 500) for _ in range(2)]), 1000)


@workload("ms")
def async_actor_naps(b):
    """500 calls that each await 50 ms at once: 50 is the floor."""
    a = b.actor(AsyncActor, max_concurrency=1000)
    ray.get(a.small_value.remote())
    b.latency(lambda: ray.get([a.nap.remote(0.05) for _ in range(500)]) and None)


GROUP = "actor life"


@workload("actors/s", limit=150)
def actor_create(b):
    """Four actors created, called once each, killed."""

    def go():
        actors = [b.actor(Actor) for _ in range(4)]
        ray.get([a.small_value.remote() for a in actors])
        b.close()

    b.rate(go, 4, warm=False)


@workload("lookups/s")
def get_actor_by_name(b):
    a = b.actor(Actor, name="bench-named")
    ray.get(a.small_value.remote())
    b.rate(lambda: ray.get_actor("bench-named"))


# ---------------------------------------------------------------- failures
GROUP = "failures"


def _wait_file(path, limit=30):
    end = now() + limit
    while not os.path.exists(path):
        if now() > end:
            raise TimeoutError(path)
        time.sleep(0.0005)
    with open(path) as f:
        return int(f.read())


@workload("ms", limit=150)
def kill_worker_retry(b):
    """kill -9 of a worker in a task with retries left: until the second attempt's result."""

    def go():
        with tempfile.TemporaryDirectory() as d:
            ref = r_victim.options(max_retries=3).remote(d + "/started")
            pid = _wait_file(d + "/started")
            t0 = now()
            os.kill(pid, signal.SIGKILL)
            assert ray.get(ref) == "again"
            return (now() - t0) * 1e3, None

    b.once(go)


@workload("ms", limit=150)
def kill_actor_restart(b):
    """kill -9 of an idle restartable actor's process: until the next call's result."""

    def go():
        a = b.actor(Actor, max_restarts=2, max_task_retries=2)
        pid = ray.get(a.pid.remote())
        t0 = now()
        os.kill(pid, signal.SIGKILL)
        again = ray.get(a.pid.remote())
        assert again != pid
        t = now() - t0
        b.close()
        return t * 1e3, None

    b.once(go)


def _cancel(b, fn, limit):
    def go():
        with tempfile.TemporaryDirectory() as d:
            ref = fn.options(max_retries=0).remote(d + "/started")
            _wait_file(d + "/started")
            t0 = now()
            ray.cancel(ref)
            try:
                ray.get(ref, timeout=limit)
            except Exception as e:
                if "Timeout" in type(e).__name__:
                    ray.cancel(ref, force=True)
                    raise AssertionError(f"still running {limit} s after cancel") from None
                return (now() - t0) * 1e3, None
            raise AssertionError("not cancelled")

    b.once(go)


@workload("ms")
def cancel_running(b):
    """cancel (the gentle kind) of a task that runs Python code: until get raises."""
    _cancel(b, r_busy, 10)


@workload("ms")
def cancel_sleeping(b):
    """cancel (the gentle kind) of a task inside one long time.sleep: until get raises."""
    _cancel(b, r_victim, 10)


@workload("ms")
def cancel_forced(b):
    """cancel(force=True) of a task inside one long time.sleep: until get raises."""

    def go():
        with tempfile.TemporaryDirectory() as d:
            ref = r_victim.options(max_retries=0).remote(d + "/started")
            _wait_file(d + "/started")
            t0 = now()
            ray.cancel(ref, force=True)
            try:
                ray.get(ref, timeout=10)
            except Exception as e:
                if "Timeout" in type(e).__name__:
                    raise
                return (now() - t0) * 1e3, None
            raise AssertionError("not cancelled")

    b.once(go)


# ---------------------------------------------------------------- memory of refs
GROUP = ""  # each in a process of its own


@workload("bytes/ref", limit=150)
def refs_finished_memory(b):
    """Driver memory for each of 10,000 finished small results held (all: every process together)."""
    return _refs(b, lambda: [r_noop.remote() for _ in range(10000)], finish=True)


@workload("bytes/ref", limit=150)
def refs_put_memory(b):
    return _refs(b, lambda: [ray.put(i) for i in range(10000)])


@workload("bytes/ref", limit=150)
def refs_outstanding_memory(b):
    """Driver memory for each of 10,000 tasks submitted behind blockers that hold every CPU."""

    def make():
        return [r_noop.remote() for _ in range(10000)]

    with tempfile.TemporaryDirectory() as d:
        blockers = [r_victim.options(max_retries=0).remote(f"{d}/b{i}") for i in range(b.opt.num_cpus)]
        for i in range(b.opt.num_cpus):
            _wait_file(f"{d}/b{i}")
        _refs(b, make)
        for x in blockers:
            ray.cancel(x, force=True)
        ray.wait(blockers, num_returns=len(blockers), timeout=10)


def _refs(b, make, finish=False):
    from procs import rss_anon, tree_anon

    ray.get([r_noop.remote() for _ in range(1000)])
    kept, ds, alls = [], [], []
    for _ in range(b.opt.repeats):  # kept to the end, so freed memory is not used again
        gc.collect()
        m0, a0 = rss_anon(), tree_anon()
        refs = make()
        if finish:
            ray.get(refs)
        time.sleep(0.3)
        ds.append((rss_anon() - m0) / len(refs))
        alls.append((tree_anon() - a0) / len(refs))
        kept.append(refs)
    b.result.update(
        samples=[round(x, 1) for x in ds], extra={"all_processes_bytes_per_ref": round(sorted(alls)[len(alls) // 2], 1)}
    )


if __name__ == "__main__":  # the functions above stay in __main__, where a notebook's are: peers pickle them by value
    import runner

    runner.main(sys.modules["__main__"])
