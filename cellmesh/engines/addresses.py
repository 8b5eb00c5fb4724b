"""Which addresses are engines', and what reaches them. Imports nothing: `init` asks before anything else."""

from __future__ import annotations

# By how an address begins: "module:attribute" of what makes the engine.
ENGINES = {"fake:": "cellmesh.engines.fake_engine:served", "ray:": "cellmesh.engines.ray_engine:RayEngine"}
PROCESS = "cellmesh.engines.process"  # the module that stands for an engine


def prefix_of(address: str) -> str:
    """How the address of an engine begins; "": it is none. "ray://" is Ray Client's, which is not spoken here."""
    return next((prefix for prefix in ENGINES if address.startswith(prefix) and not address.startswith("ray://")), "")
