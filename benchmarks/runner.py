"""Runs workloads of one API in this process and writes what they measured; workloads.py is the program."""

import argparse
import fnmatch
import gc
import importlib
import json
import os
import platform
import signal
import sys
import time
from types import ModuleType

import procs
from measure import Bench, calibrate

HERE = os.path.dirname(os.path.abspath(__file__))
ADAPTERS = os.path.join(HERE, "adapters")
now = time.perf_counter

# What a plain `init(num_cpus=2)` should be given so that peers are alike: no web UI, no log relaying.
INIT = {"ray": {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}}
ENV = {
    "ray": {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_DISABLE_IMPORT_WARNING": "1",
    }
}


class TooLong(Exception):
    """A workload has used up its limit."""


def _alarm(*_):
    raise TooLong


def cold(opt, suite: ModuleType) -> None:
    """Import, init and the first task, timed; for a process of its own."""
    t0 = now()
    api = suite.ray = importlib.import_module(opt.api)
    t1 = now()
    api.init(**{"num_cpus": opt.num_cpus, **opt.init})
    t2 = now()
    api.get(api.remote(suite.noop).remote())
    t3 = now()
    f = api.remote(suite.noop)
    api.get([f.remote() for _ in range(2 * opt.num_cpus)])
    t4 = now()
    api.shutdown()
    t5 = now()
    print(
        json.dumps(
            {
                "import_s": round(t1 - t0, 4),
                "init_s": round(t2 - t1, 4),
                "first_task_s": round(t3 - t2, 4),
                "next_tasks_s": round(t4 - t3, 4),
                "shutdown_s": round(t5 - t4, 4),
            }
        )
    )


def describe(result: dict) -> str:
    if "error" in result:
        return result["error"]
    line = f"{result['median']:>14,.2f} {result['unit']:<10} [{result['min']:,.2f} .. {result['max']:,.2f}]"
    if "cpu_us_per_op" in result:
        line += f"  cpu {result['cpu_us_per_op']:,.1f} us/op, foreign {max(result['foreign']):.0%}"
    if "extra" in result:
        line += "  " + json.dumps(result["extra"])
    return line


def run_workload(name: str, workload: dict, bench: Bench) -> None:
    """One workload, with its limit; what goes wrong in it is a result like any other."""
    result = bench.result
    result["calibration"] = calibrate()
    signal.alarm(workload["limit"])
    try:
        workload["fn"](bench)
        s = sorted(result["samples"])
        result.update(median=s[len(s) // 2], min=s[0], max=s[-1])
    except Exception as e:  # one failing workload must not end the others
        result["error"] = f"{type(e).__name__}: {str(e)[:300]}"
    finally:
        signal.alarm(0)
        bench.close()
        gc.collect()


def run(opt, suite: ModuleType, names: list[str]) -> None:
    api = suite.ray = importlib.import_module(opt.api)
    out = {
        "api": opt.api,
        "version": getattr(api, "__version__", "?"),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "num_cpus": opt.num_cpus,
        "time_s": opt.time,
        "repeats": opt.repeats,
        "results": {},
    }
    signal.signal(signal.SIGALRM, _alarm)
    started = False

    def save():
        if opt.out:
            with open(opt.out + ".tmp", "w") as f:
                json.dump(out, f, indent=1)
            os.replace(opt.out + ".tmp", opt.out)

    for name in names:
        w = suite.WORKLOADS[name]
        bench = Bench(opt, api)
        result = out["results"][name] = bench.result
        result.update(name=name, unit=w["unit"], better=w["better"])
        if w["ray_perf"]:
            result["ray_perf"] = w["ray_perf"]
        if name in getattr(api, "UNSUPPORTED", ()):
            result["skipped"] = "not in this peer"
        else:
            if w["init"] and not started:
                api.init(**{"num_cpus": opt.num_cpus, **opt.init})
                suite.declare()
                api.get([suite.r_noop.remote() for _ in range(100)])
                started = True
            run_workload(name, w, bench)
            print(f"{opt.api:>10} {name:<24} {describe(result)}", flush=True)
        save()
    if started and not opt.no_shutdown:
        signal.alarm(60)
        t0 = now()
        api.shutdown()
        out["shutdown_s"] = round(now() - t0, 3)
        signal.alarm(0)
    save()


def main(suite: ModuleType) -> None:
    p = argparse.ArgumentParser(description=suite.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--api", default="ray", help="module to import as `ray` (one of adapters/, or any installed one)")
    p.add_argument("--out")
    p.add_argument("--only", default="*", help="comma-separated names or patterns")
    p.add_argument("--skip", default="")
    p.add_argument("--groups", default="*", help="comma-separated group names (see --list)")
    p.add_argument("--time", type=float, default=1.0, help="seconds a sample")
    p.add_argument("--warmup", type=float, default=0.5)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--extra", type=int, default=4, help="samples more, at most, while the machine is noisy")
    p.add_argument(
        "--foreign", type=float, default=0.08, help="share of the machine others may use during a clean sample"
    )
    p.add_argument(
        "--patience",
        type=float,
        default=0,
        help="seconds a workload may wait, in all, for the rest of the machine to fall quiet",
    )
    p.add_argument("--num-cpus", type=int, default=2)
    p.add_argument("--init", type=json.loads, help="JSON of init()'s other arguments")
    p.add_argument("--no-shutdown", action="store_true")
    p.add_argument("--cold", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--list", action="store_true")
    opt = p.parse_args()
    if opt.init is None:
        opt.init = INIT.get(opt.api, {})
    sys.path.insert(0, ADAPTERS)
    os.environ["PYTHONPATH"] = os.pathsep.join(x for x in (ADAPTERS, os.environ.get("PYTHONPATH")) if x)
    for k, v in ENV.get(opt.api, {}).items():
        os.environ.setdefault(k, v)
    if opt.cold:
        cold(opt, suite)
        return

    def matches(name: str, patterns: str) -> bool:
        return any(fnmatch.fnmatch(name, x) for x in patterns.split(",") if x)

    names = [
        n
        for n, w in suite.WORKLOADS.items()
        if matches(n, opt.only) and matches(w["group"], opt.groups) and not matches(n, opt.skip)
    ]
    if opt.list:
        for n in names:
            w = suite.WORKLOADS[n]
            print(f"{w['group']:<26}{n:<26}{w['unit']:<12}{w['ray_perf'] or ''}")
        return
    procs.set_marker()
    run(opt, suite, names)
