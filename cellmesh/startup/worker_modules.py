"""What the workers of a session import: told to the scheduler, which knows no module of this package."""

from __future__ import annotations

import sys

from ..scheduler.node.handle import WorkerModules

WORKER_MODULES = WorkerModules(
    hooks="cellmesh.core_hooks:Hooks",
    setup="cellmesh.startup.worker:adopt_worker",
    preload=(
        "cellmesh.startup.worker",
        "cellmesh.core_hooks",
        "cellmesh.errors.describe",
        "cellmesh.objstore.serialization",
        "cellmesh.api",
    ),
    preload_idle=(
        "cellmesh.submit.remote_function",
        "cellmesh.submit.actor_class",
        "cellmesh.submit.class_states",
    ),
)

# Of a program that has imported `cellmesh.tune`: what the process of an experiment needs. The first worker is soon that
# one, and would import it while the program and the zygote do: three processes, each of them the same.
_OF_EXPERIMENTS = ("asyncio", "numpy.random", "cellmesh.tune.running.host", "cellmesh.tune.trainable")
# If this program has imported them, tasks use them; otherwise time and memory would be wasted (pyarrow: 110 ms, 40 MB).
# From the standard library, modules that many others import; asyncio alone takes a worker 20 ms.
_IF_IMPORTED = ("asyncio", "json", "tempfile", "pyarrow")


def worker_modules() -> WorkerModules:
    """Those, and what this program's workers will need by what it has imported so far."""
    more = _OF_EXPERIMENTS if "cellmesh.tune" in sys.modules else ()
    return WORKER_MODULES._replace(
        preload=(*WORKER_MODULES.preload, *more),
        preload_idle=(*WORKER_MODULES.preload_idle, *(name for name in _IF_IMPORTED if name in sys.modules)),
    )
