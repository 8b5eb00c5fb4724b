"""Which addresses are engines', and what reaches them. Imports nothing: `init` asks before anything else."""

from __future__ import annotations

TYPE_CHECKING = False  # see `init`
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    class DaskCluster(Protocol):
        """A cluster object of Dask's: `LocalCluster`, `SLURMCluster`, `KubeCluster`."""

        @property
        def scheduler_address(self) -> str:
            """Where its scheduler is."""
            ...


# By how an address begins, what is longer first: "module:attribute" of what makes the engine.
ENGINES = {
    "fake:": "cellmesh.engines.fake_engine:served",
    "fake+relay:": "cellmesh.engines.relay.fake:relayed",
    "ray://": "cellmesh.engines.ray.outside:OutsideEngine",
    "ray:": "cellmesh.engines.ray.engine:RayEngine",
    "dask://": "cellmesh.engines.dask.engine:DaskEngine",
    "dask+tls://": "cellmesh.engines.dask.engine:DaskEngine",
}
PROCESS = "cellmesh.engines.process"  # the module that stands for an engine
OF_DASK = {"tcp": "dask", "tls": "dask+tls"}  # how addresses begin, Dask's own and here


def prefix_of(address: str) -> str:
    """How the address of an engine begins; "": it is none."""
    return next((prefix for prefix in ENGINES if address.startswith(prefix)), "")


def name_of(prefix: str) -> str:
    """What people call the engine whose addresses begin so."""
    return prefix.partition(":")[0].partition("+")[0]


def address_of(asked: Any) -> Any:
    """What `init` is given, with the address of a Dask cluster's scheduler in its place."""
    found = getattr(asked, "scheduler_address", None)
    scheme, _, rest = found.partition("://") if isinstance(found, str) else ("", "", "")
    return f"{OF_DASK[scheme]}://{rest}" if scheme in OF_DASK else asked


def remedy_if_open(address: str, environ: Mapping[str, str]) -> str:
    """What would keep others from an engine that nothing but the network keeps them from; "": it is not such a one.
    These are Dask's scheduler, and Ray's client server, without TLS on another machine. Of `ray:` Ray says so itself.
    """
    prefix = prefix_of(address)
    host = address.removeprefix(prefix).rpartition(":")[0]
    if host in ("localhost", "[::1]") or host.startswith("127."):
        return ""
    if prefix == "dask://":
        return '"dask+tls://" has certificates keep others out'
    has_tls = environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")
    if prefix != "ray://" or has_tls or environ.get("RAY_AUTH_MODE") == "token":
        return ""
    return "RAY_USE_TLS=1, or RAY_AUTH_MODE=token, here and there keeps them out"
