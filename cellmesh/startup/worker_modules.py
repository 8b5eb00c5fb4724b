"""What the workers of a session import: told to the scheduler, which knows no module of this package."""

from __future__ import annotations

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
    preload_idle=("cellmesh.submit.remote_function", "cellmesh.submit.actor_class"),
)
