"""Writes docs/defaults.md: what holds when nothing is said, from the constants that the code itself uses.

python docs/tools/defaults_page.py            # cellmesh must be importable
"""

from __future__ import annotations

from pathlib import Path

from cellmesh.scheduler.cluster.head import core
from cellmesh.scheduler.cluster.net import address
from cellmesh.scheduler.local_scheduler import oom, policy
from cellmesh.scheduler.node import launch
from cellmesh.scheduler.system import capacity

from cellmesh.session import session
from cellmesh.submit import actor_class, options

PAGE = Path(__file__).resolve().parents[2] / "docs" / "defaults.md"
HEAD = """# Defaults

What holds when nothing is said, and how to say something else. This page is made by `docs/tools/defaults_page.py`
from the constants of the code.
"""


def page() -> str:
    """The whole page."""
    store, settings = f"{capacity.STORE_SHARE:.0%} of the memory", core.Settings()
    sections = {
        "A session": [
            ("When it starts", "at the first use of the API", "`cellmesh.init(...)` before it"),
            (
                "When it ends",
                "with the process, or at `cellmesh.shutdown()`; it outlives the process while a detached actor lives",
                '`lifetime="detached"`',
            ),
            (
                "CPUs",
                "those that the process may use: its affinity mask and its cgroup's quota",
                "`init(num_cpus=...)`",
            ),
            ("GPUs", "those in `CUDA_VISIBLE_DEVICES`, else all that the driver lists", "`init(num_gpus=...)`"),
            (
                "`memory` that tasks may ask for",
                "the memory of the machine or its cgroup, without the object store",
                "`init(memory=...)`",
            ),
            (
                "Object store",
                f"{store} of the machine or its cgroup; only what is used takes memory",
                "`init(object_store_memory=...)`",
            ),
            (
                "When it is full",
                "unused objects move to disk, up to half of what is free there",
                "`init(offload_dir=..., offload_limit=...)`",
            ),
            ("Objects at a time", f"{launch.DEFAULT_MAX_OBJECTS:,}", "`init(max_objects=...)`"),
            ("Unfinished tasks at a time", f"{launch.DEFAULT_MAX_TASKS:,}", "`init(max_tasks=...)`"),
            (
                "What tasks print",
                "is shown where they were submitted; in a notebook below the cell",
                "`init(log_to_driver=False, log_dir=...)`",
            ),
            ("Last lines at the end", f"are waited for, {session.DRAIN_S:g} s at most", ""),
            ("Names of actors", "are looked up among those of this program alone", "`init(namespace=...)`"),
            (
                "A machine short of memory",
                f"above {oom.THRESHOLD:.0%} the task that uses most is ended, and repeated if it may be",
                f"the variable `{oom.VARIABLE}`; 1: never",
            ),
        ],
        "Processes": [
            ("Workers kept", f"one for each CPU, {policy.MAX_KEPT} at most", "`init(num_cpus=...)`"),
            ("Workers at most", f"{policy.MAX_WORKERS}, actors' included", ""),
            (
                "Freed memory of C's heap, that of arrays above all",
                "a worker keeps up to 64 MB of it for what comes next, until it has been idle for some seconds",
                "a variable of glibc's: "
                "`MALLOC_TRIM_THRESHOLD_`, `MALLOC_MMAP_THRESHOLD_`, `MALLOC_TOP_PAD_`, `GLIBC_TUNABLES`",
            ),
            ("A surplus worker ends", f"after {policy.IDLE_S:g} s without work", ""),
            (
                "Threads of numpy and OpenMP in a task",
                "as many as the task has CPUs, so 1",
                "`num_cpus=...` of the task; `OMP_NUM_THREADS`",
            ),
            ("GPUs that a task sees", "those that it has asked for, so none", "`num_gpus=...`"),
            ("Folder, `sys.path`, environment variables", "those of the driver", "`runtime_env={...}`"),
        ],
        "A task": [
            ("CPUs", "1; while it waits in `get` it gives them back", "`num_cpus=...`"),
            (
                "When its process dies",
                f"it is run again, {options.DEFAULT_RETRIES} times at most",
                "`max_retries=...`; -1: for ever; 0: never",
            ),
            (
                "When it raises",
                "the error comes at `get`; it is not run again",
                "`retry_exceptions=True` or a list of exception classes",
            ),
            ("Values that it returns", "1, whatever it is", "`num_returns=...`"),
            ("A generator", "runs ahead of its reader as far as it likes", "`generator_backpressure_num_objects=...`"),
            ("Its name", "that of the function", "`name=...`"),
        ],
        "An actor": [
            ("CPUs", "1 to be placed, none afterwards", "`num_cpus=...`: to be placed and as long as it lives"),
            (
                "Calls at a time",
                f"1; with async methods {actor_class.ASYNC_CONCURRENCY:,}",
                "`max_concurrency=...`, `concurrency_groups={...}`",
            ),
            ("Calls that wait", "any number", "`max_pending_calls=...`"),
            (
                "Order",
                "calls of one caller run in their order; not in async actors, nor with `max_concurrency` > 1",
                "`allow_out_of_order_execution=...`",
            ),
            ("When it ends", "when nobody has a handle any more", '`lifetime="detached"`, `cellmesh.kill(handle)`'),
            (
                "When its process dies",
                "it is dead, and its calls raise ActorDiedError",
                "`max_restarts=...`, `max_task_retries=...`",
            ),
        ],
        "Several machines": [
            ("Port of the head", f"{address.DEFAULT_PORT}", "`cellmesh start --head --port N`"),
            (
                "A machine that is silent is lost after",
                f"{settings.dead_after_s:g} s",
                "`cellmesh start --head --node-timeout S`",
            ),
            (
                "A head that is silent is gone for good after",
                f"{settings.gone_after_s:g} s",
                "`cellmesh start --head --head-timeout S`",
            ),
            (
                "Where a task runs",
                "here as long as there is room, else where there is, near its arguments",
                "`scheduling_strategy=...`, `label_selector={...}`",
            ),
        ],
    }
    tables = [
        "\n".join(
            [
                f"## {title}",
                "",
                "| what | default | otherwise |",
                "| --- | --- | --- |",
                *(f"| {' | '.join(row)} |" for row in rows),
            ]
        )
        for title, rows in sections.items()
    ]
    return "\n\n".join([HEAD.strip("\n"), *tables]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
