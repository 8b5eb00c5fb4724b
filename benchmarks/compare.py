"""Runs the workloads for several APIs in turn and prints them side by side.

    python compare.py --apis ray,other --python ray=venv1/bin/python,other=venv2/bin/python --rounds 2 --out both.json
    python compare.py --show both.json ray.json              # tables of saved results

Each group of workloads is run for one API, then the next (ABAB over the rounds), each in a fresh process, so the
peers are never far apart in time on a noisy machine; the samples of all rounds are pooled. A ratio is how many times
better (faster, smaller) one API is than another; its range comes from the rounds' own medians."""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time

from procs import MARKER, carriers, new_marker
from report import table

HERE = os.path.dirname(os.path.abspath(__file__))
WORKLOADS = os.path.join(HERE, "workloads.py")
OF_ONE_ROUND = ("samples", "foreign", "median", "min", "max", "error")


def run_one(api, python, env, args, limit, out):
    """One process of workloads.py. Whatever it started that outlives it is counted, and ended by pid."""
    if os.path.exists(out):
        os.remove(out)
    mark = new_marker()
    p = subprocess.Popen(
        [python, WORKLOADS, "--api", api, "--out", out, *args],
        env={**os.environ, **env, MARKER: mark},
        start_new_session=True,
    )
    try:
        p.wait(limit)
        time.sleep(0.5)
        for _ in range(10):  # daemons may need a moment to follow
            if not (left := carriers(mark)):
                break
            time.sleep(0.5)
    except subprocess.TimeoutExpired:
        print(f"{api}: over {limit} s, ended", flush=True)
        left = carriers(mark)
    if left:
        print(f"{api}: left {len(left)} processes behind", flush=True)
    while pids := carriers(mark):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if p.poll() is None:
            p.wait()
        time.sleep(0.1)
    try:
        with open(out) as f:
            d = json.load(f)
        os.remove(out)
    except FileNotFoundError:
        d = {"results": {}}
    d["left_behind"] = len(left)
    return d


def merge(into, d):
    """Adds one round's results of one group to what is known of the API."""
    for k, v in d.items():
        if k == "left_behind":
            into[k] = into.get(k, 0) + v
        elif k != "results":
            into.setdefault(k, v)
    for name, r in d["results"].items():
        fresh = {**{k: v for k, v in r.items() if k not in OF_ONE_ROUND}, "samples": [], "foreign": [], "rounds": []}
        m = into.setdefault("results", {}).setdefault(name, fresh)
        if "samples" in r and "error" not in r:
            m["samples"] += r["samples"]
            m["foreign"] += r.get("foreign", [])
            m["rounds"].append(r["median"])
            m.setdefault("cpu_us_rounds", []).append(r.get("cpu_us_per_op"))
            m.setdefault("python_loop_ms_rounds", []).append((r.get("calibration") or {}).get("python_loop_ms"))
        elif "error" in r:
            m["error"] = r["error"]
    for m in into.get("results", {}).values():
        if s := sorted(m["samples"]):
            m.update(median=s[len(s) // 2], min=s[0], max=s[-1])
            c = sorted(x for x in m.get("cpu_us_rounds", []) if x is not None)
            if c:
                m["cpu_us_per_op"] = c[len(c) // 2]


def matching_groups(python, only, skip, groups):
    """The groups with a workload to run, in the order of workloads.py."""
    listing = subprocess.run(
        [python, WORKLOADS, "--list", "--only", only, "--skip", skip], capture_output=True, text=True, check=True
    )
    found = list(dict.fromkeys(line[:26].strip() for line in listing.stdout.splitlines()))
    return [g for g in found if g in groups.split(",")] if groups else found


def pairs(s):
    return dict(x.split("=", 1) for x in (s or "").split(",") if x)


def run(opt):
    """All rounds; returns what is known of each API, saved to opt.out after every group."""
    runs = {}
    apis, python = opt.apis.split(","), pairs(opt.python)
    init = dict(x.split("=", 1) for x in opt.init)
    env = {a: {} for a in apis}
    for e in opt.env:
        a, kv = e.split(":", 1)
        env[a].update([kv.split("=", 1)])
    groups = matching_groups(python.get(apis[0], sys.executable), opt.only, opt.skip, opt.groups)
    scratch = (opt.out or "compare") + f".{os.getpid()}.part"
    t0 = time.time()
    for round_ in range(opt.rounds):
        for g in groups:
            for a in apis if round_ % 2 == 0 else apis[::-1]:
                args = ["--groups", g, "--only", opt.only, "--skip", opt.skip, *shlex.split(opt.args)]
                if a in init:
                    args += ["--init", init[a]]
                print(f"-- round {round_ + 1}, {g}, {a} ({time.time() - t0:.0f} s)", flush=True)
                d = run_one(a, python.get(a, sys.executable), env[a], args, opt.limit, scratch)
                merge(runs.setdefault(a, {"results": {}}), d)
                if opt.out:
                    with open(opt.out, "w") as f:
                        json.dump({"order": "alternating", "rounds": round_ + 1, "apis": runs}, f, indent=1)
    return runs


def parser():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--apis", default="ray")
    p.add_argument("--python", default="", help="api=interpreter,...")
    p.add_argument("--init", action="append", default=[], metavar="API=JSON", help="other arguments of init()")
    p.add_argument("--env", action="append", default=[], metavar="API:NAME=VALUE")
    p.add_argument("--groups", help="comma-separated; all without it")
    p.add_argument("--only", default="*")
    p.add_argument("--skip", default="")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--limit", type=int, default=400, help="seconds a group may take")
    p.add_argument("--out")
    p.add_argument("--markdown", action="store_true")
    p.add_argument("--show", nargs="+", help="print saved results instead of running")
    p.add_argument("--args", default="", help="more arguments of workloads.py, in one string (such as '--time 0.5')")
    return p


def main():
    opt = parser().parse_args()
    if opt.show:
        runs = {}
        for path in opt.show:
            with open(path) as f:
                runs.update(json.load(f)["apis"])
    else:
        runs = run(opt)
    print(table(runs, opt.markdown))


if __name__ == "__main__":
    main()
