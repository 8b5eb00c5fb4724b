"""How a workload is measured: samples over a fixed time, the CPU that every process of the runtime used, and what
foreign load there was meanwhile."""

import signal
import time

import numpy as np
from procs import NCPU, Usage, wait_quiet

now = time.perf_counter
MB = 1 << 20


class Bench:
    """What a workload is called with: `api` is the module under test, `opt` the command line."""

    def __init__(self, opt, api):
        self.opt, self.api, self.actors, self.result = opt, api, [], {}

    def actor(self, cls, *args, **options):
        """An actor that holds no CPU while idle, ended after the workload."""
        options.setdefault("num_cpus", 0)
        a = self.api.remote(**options)(cls).remote(*args)
        self.actors.append(a)
        return a

    def close(self):
        for a in self.actors:
            try:
                self.api.kill(a)
            except Exception as e:  # each peer has its own word for an actor that is dead already
                print(f"kill: {type(e).__name__}: {e}", flush=True)
        self.actors.clear()

    def _take(self, sample):
        """Samples with the least foreign load: at least `repeats`, a few more while the machine is noisy."""
        got, clean, patience = [], 0, self.opt.patience
        while clean < self.opt.repeats and len(got) < self.opt.repeats + self.opt.extra:
            if patience > 0:
                left = signal.alarm(0)
                patience -= wait_quiet(self.opt.foreign, patience)
                signal.alarm(left)
            u0, t0 = Usage(), now()
            value, ops, extra = sample()
            t = now() - t0
            by, foreign = Usage().since(u0)
            share = foreign / (t * NCPU)
            clean += share <= self.opt.foreign
            got.append({"value": value, "ops": ops, "foreign": round(share, 3), "cpu": by, "extra": extra})
        got = sorted(got, key=lambda s: s["foreign"])[: self.opt.repeats]
        ops = sum(s["ops"] for s in got) or 1
        by: dict[str, float] = {}
        for s in got:
            for k, v in s["cpu"].items():
                by[k] = by.get(k, 0) + v * 1e6 / ops
        self.result.update(
            samples=[s["value"] for s in got],
            foreign=[s["foreign"] for s in got],
            cpu_us_per_op=round(sum(by.values()), 2),
            cpu_us_by={k: round(v, 2) for k, v in sorted(by.items(), key=lambda kv: -kv[1])},
        )
        if got[0]["extra"]:
            self.result["extra"] = {k: sorted(s["extra"][k] for s in got)[len(got) // 2] for k in got[0]["extra"]}

    def rate(self, fn, per_call=1, warm=True, scale=1.0):
        """Operations per second of fn, which does `per_call` of them."""
        n, t0 = 0, now()
        while warm and now() - t0 < self.opt.warmup:
            fn()
            n += 1
        step = max(1, int(n * 0.02 * self.opt.time / max(self.opt.warmup, 1e-3)))

        def sample():
            t0, n = now(), 0
            while (t := now() - t0) < self.opt.time:
                for _ in range(step):
                    fn()
                n += step
            return per_call * n * scale / t, per_call * n, None

        self._take(sample)

    def latency(self, fn, warm=True, per_call=1):
        """As rate, with the time of each single call kept; fn may return the seconds that count (for each of
        the `per_call` operations it does)."""
        t0 = now()
        while warm and now() - t0 < self.opt.warmup:
            fn()

        def sample():
            ts, t0 = [], now()
            while now() - t0 < self.opt.time:
                a = now()
                own = fn()
                ts.append(own if isinstance(own, float) else now() - a)
            ts.sort()

            def q(p):
                return ts[min(len(ts) - 1, int(p * len(ts)))] * 1e6

            v = len(ts) / sum(ts) if self.result["unit"].endswith("/s") else sum(ts) / len(ts) * 1e3
            if self.result["unit"] == "ms":
                v = q(0.5) / 1e3
            extra = {"p50_us": round(q(0.5), 1), "p90_us": round(q(0.9), 1), "p99_us": round(q(0.99), 1)}
            return v, len(ts) * per_call, extra

        self._take(sample)

    def once(self, fn):
        """fn returns (value, extra) itself."""

        def sample():
            v, extra = fn()
            return v, 1, extra

        self._take(sample)


def calibrate():
    """The machine's own speed just now: a Python loop (ms) and a memory copy (GB/s), best of five."""
    a = np.ones(4 * MB)
    c = a.copy()
    loop, copy = [], []
    for _ in range(5):
        t0 = now()
        x = 0
        for i in range(200_000):
            x += i
        loop.append((now() - t0) * 1e3)
        t0 = now()
        np.copyto(c, a)
        copy.append(a.nbytes / 1e9 / (now() - t0))
    return {"python_loop_ms": round(min(loop), 2), "copy_gb_s": round(max(copy), 2)}
