"""`make bench-libraries`: Tune and Train beside Ray's, Tune beside Optuna with loky's processes, Train beside torch's
own, RL beside gymnasium's and other vector environments, Stable-Baselines3 and RLlib, groups of actors and cells in
ranks beside ipyparallel, nbdistributed and Monarch, in one run.

    python benchmarks/libraries/bench.py                     all rows, three alternated rounds
    python benchmarks/libraries/bench.py --only digits       one row

Every figure is a median of rounds, each in a process of its own. Writes benchmarks/results/<date>-libraries.json and
.md.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import fnmatch
import json
import os
import signal
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import procs
from bench import RAY_PYTHON, ROOT, commit, machine

PYTHONS = (
    {"ray": RAY_PYTHON}
    | dict.fromkeys(("ipyparallel", "nbdistributed", "monarch"), ROOT / ".venv-bench-ranks/bin/python")
    | dict.fromkeys(("rllib", "envpool"), ROOT / ".venv-bench-rl/bin/python")
)

LABELS = {
    "cellmesh": "cellmesh",
    "ray": "Ray",
    "optuna_loky": "Optuna + loky",
    "gloo": "torch, gloo",
    "plain_actor": "a plain actor",
    "gymnasium_sync": "gymnasium, Sync",
    "gymnasium_async": "gymnasium, Async",
    "single": "in one process",
    "apart": "two processes that never wait for each other",
    "ale": "ale-py, AtariVectorEnv",
    "envpool": "EnvPool",
    "sb3": "Stable-Baselines3",
    "rllib": "RLlib",
    "loop": "a loop over handles",
    "one": "one actor",
    "ipyparallel": "ipyparallel",
    "nbdistributed": "nbdistributed",
    "monarch": "Monarch",
}
TUNE, TRAIN, RL, GROUPS = "tune_workloads.py", "train_workloads.py", "rl_workloads.py", "group_workloads.py"
IN_CELLS = ("cellmesh", "ipyparallel", "nbdistributed")


@dataclass(frozen=True)
class Row:
    """A figure: what it is called, in which unit, by whom."""

    name: str
    title: str
    unit: str
    goal: str
    peers: tuple[str, ...] = ("cellmesh", "ray")
    seeds: int = 0  # runs with other seeds; the median over them counts
    program: str = TUNE


ROWS = (
    Row(
        "trial_overhead",
        "overhead a trial (no-op, random, on disk)",
        "ms",
        "<= 0.5",
        ("cellmesh", "ray", "optuna_loky"),
    ),
    Row("tpe_overhead", "a trial with TPE (200 trials)", "ms", "<= 1.2 x Optuna", ("cellmesh", "optuna_loky")),
    Row("report_2", "report -> decision, 2 trials", "us", "<= 50"),
    Row("report_16", "report -> decision, 16 trials", "us", "<= 150"),
    Row("asha_rule", "ASHA's rule, 10,000 trials at a rung", "us", "<= 3"),
    Row("first_result", "cold process -> first result", "s", "<= 0.25"),
    Row(
        "digits",
        "ASHA on digits, 64 configurations",
        "s",
        "<= 0.7 x best peer",
        ("cellmesh", "ray", "optuna_loky"),
        seeds=5,
    ),
    Row("stop", "stop of an endless experiment", "s", "<= 0.3", ("cellmesh",)),
    Row("resume_10000", "resume of 10,000 journalled trials", "s", "<= 1", ("cellmesh",)),
    Row("all_reduce_4k", "all-reduce, 2 ranks, 4 KiB", "ms", "<= 0.03", ("cellmesh", "gloo"), program=TRAIN),
    Row("all_reduce_1m", "all-reduce, 2 ranks, 1 MiB", "ms", "<= 0.49 (2 GiB/s)", ("cellmesh", "gloo"), program=TRAIN),
    Row("all_reduce_16m", "all-reduce, 2 ranks, 16 MiB", "ms", "<= 5.2 (3 GiB/s)", ("cellmesh", "gloo"), program=TRAIN),
    Row(
        "group_start",
        "group start -> first all-reduce (torch is warm; torchrun: never)",
        "s",
        "<= 0.3",
        ("cellmesh", "gloo"),
        program=TRAIN,
    ),
    Row(
        "parameter_server",
        "parameter server, 4 workers x 30, 3 x 1 MB, gradients made once",
        "s",
        ">= 10 x Ray, >= 3 x plain actor",
        ("cellmesh", "ray", "plain_actor"),
        program=TRAIN,
    ),
    Row(
        "vector_8",
        "a step of CartPole in 8 environments, in this process",
        "us",
        ">= Sync, >= 8 x Async",
        ("cellmesh", "gymnasium_sync", "gymnasium_async", "envpool"),
        program=RL,
    ),
    Row(
        "vector_8_two_workers",
        "the same in two workers",
        "us",
        ">= Sync, >= 8 x Async",
        ("cellmesh", "gymnasium_sync", "gymnasium_async"),
        program=RL,
    ),
    Row(
        "pong",
        "a step of Pong in 8 environments, the usual wrappers, two workers",
        "us",
        ">= 1.8 x single",
        ("cellmesh", "single", "apart", "gymnasium_sync", "gymnasium_async", "ale"),
        program=RL,
    ),
    Row(
        "ppo_step",
        "PPO on CartPole, a step with its learning",
        "us",
        ">= 3 x SB3",
        ("cellmesh", "sb3", "rllib"),
        program=RL,
    ),
    Row("ppo_475", "PPO on CartPole, to 475", "s", "<= 45", ("cellmesh", "sb3", "rllib"), seeds=5, program=RL),
    Row("es_475", "ES on CartPole, to 475, two workers", "s", "<= 20", ("cellmesh",), seeds=5, program=RL),
    Row(
        "es_generations",
        "ES on CartPole, 20 generations, two workers",
        "s",
        ">= 1.8 x single",
        ("cellmesh", "single"),
        program=RL,
    ),
    *(
        Row(f"regression_{name.lower()}", f"{name} on CartPole-v0, to 200", "s", goal, ("cellmesh",), 5, RL)
        for name, goal in (("PPO", "<= 100"), ("ES", "<= 100"), ("DQN", "<= 200"), ("A3C", "<= 200"))
    ),
    Row(
        "group_call",
        "a call of 8 members, with their answers",
        "us",
        "<= 1.3 x loop",
        ("cellmesh", "loop", "ray", "ipyparallel", "monarch"),
        program=GROUPS,
    ),
    Row(
        "group_make",
        "8 members made, until all have answered",
        "s",
        "<= 1.2 x one",
        ("cellmesh", "one", "ray", "monarch"),
        program=GROUPS,
    ),
    Row(
        "ranks_empty",
        "an empty cell in 4 ranks, beyond a plain cell",
        "ms",
        "<= 3",
        (*IN_CELLS, "monarch"),
        program=GROUPS,
    ),
    Row(
        "ranks_start",
        "4 ranks made, until their first answer (torch is warm; others: never)",
        "s",
        "<= 0.4",
        (*IN_CELLS, "monarch"),
        program=GROUPS,
    ),
    Row(
        "ranks_stop",
        "stop button of 4 ranks, until the next cell has run in them",
        "s",
        "<= 0.3",
        (*IN_CELLS, "monarch"),
        program=GROUPS,
    ),
    Row(
        "ranks_error",
        "a cell in which one rank raises and 3 wait for it",
        "s",
        "<= 1",
        IN_CELLS,
        program=GROUPS,
    ),
    Row("serving", "a policy served, batches of 64 states of 4 KB, a state", "us", "<= 50", ("cellmesh",), program=RL),
)


def measure(api: str, row: Row, seed: int | None = None) -> dict:
    command = [str(PYTHONS.get(api, sys.executable)), str(HERE / row.program), api, row.name]
    marker = procs.new_marker()
    done = subprocess.run(
        command + ([] if seed is None else [str(seed)]),
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, procs.MARKER: marker},
    )
    for left in procs.carriers(marker):  # engines of a kernel that did not end them
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(left, signal.SIGKILL)
    if done.returncode:
        raise SystemExit(f"{api} {row.name}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", help="rows, with commas between them; patterns will do")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", default=str(ROOT / "benchmarks/results"))
    opt = parser.parse_args()
    day = datetime.datetime.now().strftime("%Y-%m-%d-%H%M")
    rows = [row for row in ROWS if any(fnmatch.fnmatch(row.name, pattern) for pattern in opt.only.split(","))]
    samples: dict[str, dict[str, list[dict]]] = {}
    versions: dict[str, str] = {}
    for row in rows:
        for round_ in range(row.seeds or opt.rounds):
            for api in row.peers:
                found = measure(api, row, round_ if row.seeds else None)
                versions[api] = found["version"]
                samples.setdefault(row.name, {}).setdefault(api, []).append(found["figures"])
        print(line(row, samples[row.name]), flush=True)
        # After each row: a run that is stopped has what it has measured.
        text = page([row for row in rows if row.name in samples], samples, versions, opt, day)
        Path(opt.out, f"{day}-libraries.md").write_text(text)
        data = json.dumps({"versions": versions, "samples": samples}, indent=1)
        Path(opt.out, f"{day}-libraries.json").write_text(data)


def line(row: Row, samples: dict[str, list[dict]]) -> str:
    """The row of the table: medians, and how many times that of cellmesh each peer's is."""
    medians = {api: statistics.median(one[row.unit] for one in runs) for api, runs in samples.items()}
    told = {}
    for api, runs in samples.items():
        told[api] = next((one["said"] for one in runs if "said" in one), f"{medians[api]:.4g}")
        for key in ("accuracy", "files"):
            if key in runs[0]:
                told[api] += f", {key} {statistics.median(one[key] for one in runs):.4g}"
    own = told.pop("cellmesh")
    peers = [f"{LABELS[api]} {figure} ({medians[api] / medians['cellmesh']:.2f}x)" for api, figure in told.items()]
    return "| " + " | ".join([row.title, row.unit, own, "; ".join(peers) or "-", row.goal]) + " |"


def page(rows: list[Row], samples: dict, versions: dict[str, str], opt: argparse.Namespace, day: str) -> str:
    head = ["what", "unit", "cellmesh", "peers, and how many times that", "goal"]
    return "\n".join(
        [
            f"# Libraries, {day}",
            "",
            f"- machine: {machine()}",
            f"- commit: {commit()}",
            f"- versions: {', '.join(f'{LABELS[api]} {version}' for api, version in versions.items())}",
            f"- command: `make bench-libraries`, {opt.rounds} alternated rounds, a process each; medians",
            "",
            "| " + " | ".join(head) + " |",
            "| " + " | ".join("---" for _ in head) + " |",
            *(line(row, samples[row.name]) for row in rows),
            "",
        ]
    )


if __name__ == "__main__":
    main()
