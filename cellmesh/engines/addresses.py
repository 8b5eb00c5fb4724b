"""Which addresses are engines', and what reaches them. Imports nothing: `init` asks before anything else."""

from __future__ import annotations

TYPE_CHECKING = False  # see `init`
if TYPE_CHECKING:
    from typing import Any, Protocol

    class DaskCluster(Protocol):
        """A cluster object of Dask's: `LocalCluster`, `SLURMCluster`, `KubeCluster`."""

        @property
        def scheduler_address(self) -> str:
            """Where its scheduler is."""
            ...


# By how an address begins: "module:attribute" of what makes the engine.
ENGINES = {
    "fake:": "cellmesh.engines.fake_engine:served",
    "ray:": "cellmesh.engines.ray_engine:RayEngine",
    "dask://": "cellmesh.engines.dask.engine:DaskEngine",
    "dask+tls://": "cellmesh.engines.dask.engine:DaskEngine",
}
PROCESS = "cellmesh.engines.process"  # the module that stands for an engine
OF_DASK = {"tcp": "dask", "tls": "dask+tls"}  # how addresses begin, Dask's own and here


def prefix_of(address: str) -> str:
    """How the address of an engine begins; "": it is none. "ray://" is Ray Client's, which is not spoken here."""
    return next((prefix for prefix in ENGINES if address.startswith(prefix) and not address.startswith("ray://")), "")


def name_of(prefix: str) -> str:
    """What people call the engine whose addresses begin so."""
    return prefix.partition(":")[0].partition("+")[0]


def address_of(asked: Any) -> Any:
    """What `init` is given, with the address of a Dask cluster's scheduler in its place."""
    found = getattr(asked, "scheduler_address", None)
    scheme, _, rest = found.partition("://") if isinstance(found, str) else ("", "", "")
    return f"{OF_DASK[scheme]}://{rest}" if scheme in OF_DASK else asked


def is_open(address: str) -> bool:
    """Whether nothing but the network keeps others from an engine: Dask's scheduler without TLS, on another machine.
    Ray says so itself.
    """
    host = address.removeprefix("dask://").rpartition(":")[0]
    return address.startswith("dask://") and host not in ("localhost", "[::1]") and not host.startswith("127.")
