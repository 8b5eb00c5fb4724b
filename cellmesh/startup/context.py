"""What `init` returns: a look at the session, and its end in a `with` statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from ..text import in_bytes, in_resources

if TYPE_CHECKING:
    from ..session.session import Session


SHOWN_NODES = 20


class Context(Mapping[str, Any]):
    """A running session: a mapping with its address, displayed as a card in a notebook.

    `with cellmesh.init(): ...` ends the session at the end of the block, if this `init` has begun or joined it.
    """

    def __init__(self, session: Session, begun: bool = True) -> None:
        self._session = session
        self._begun = begun  # else it ran already

    @property
    def address_info(self) -> dict[str, Any]:
        """Where the session is: address (what `init` takes elsewhere), session_dir, node_id, namespace."""
        node = self._session.node
        return {
            "address": getattr(node, "address", ""),
            "session_dir": node.session_dir,
            "node_id": node.session_id,
            "namespace": self._session.namespace,
        }

    def disconnect(self) -> None:
        """End the session, if it is still the one that runs."""
        from ..session.current import current_or_none
        from ..startup.start import shutdown

        if current_or_none() is self._session:
            shutdown()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *unused: object) -> None:
        if self._begun:
            self.disconnect()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "what init() returns tells of this process's session and stays in it: send what you need of it, "
            "such as address_info"
        )

    def __getitem__(self, key: str) -> Any:
        return self.address_info[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.address_info)

    def __len__(self) -> int:
        return len(self.address_info)

    def _facts(self) -> dict[str, str]:
        from .. import __version__

        config = self._session.config
        resources = {name: amount for name, amount in config.resources.items() if name != "memory"}
        return {
            "version": __version__,
            "resources": in_resources(resources),
            "memory for tasks": in_bytes(config.resources.get("memory", 0.0)),
            "object store": in_bytes(config.object_store_memory),
            "session": self._session.node.session_dir,
            **self._cluster(),
        }

    def _cluster(self) -> dict[str, str]:
        from ..observe import nodes
        from ..scheduler.ipc.messages import HAS_LEFT

        if self._state() != "running" or not nodes.is_clustered(self._session):
            return {}
        if self._session.has_left_cluster:
            return {"cluster": "none any more; `cellmesh logs` says why"}
        found = nodes.of_cluster(self._session)
        names, living = nodes.names(found), [row for row in found if row.state != "dead"]
        lost = sum(row.state == "dead" and row.reason != HAS_LEFT for row in found)
        return {
            "cluster": f"{self._session.config.cluster or 'node'}, {len(living)} nodes"
            + (f", {lost} lost" if lost else ""),
            **{
                f"  {names[row.node]}": in_resources(
                    {name: amount for name, amount in row.total.items() if name != "memory"}
                )
                + (", this one" if row.is_here else ", draining" if row.state == "draining" else "")
                for row in living[:SHOWN_NODES]
            },
        }

    def _state(self) -> str:
        if self._session.lost:
            return "lost"
        return "ended" if self._session.client.closed else "running"

    def __repr__(self) -> str:
        facts = "; ".join(f"{name}: {value}" for name, value in self._facts().items())
        return f"<cellmesh session, {self._state()}; {facts}>"

    def _repr_html_(self) -> str:
        import html

        rows = "".join(
            f'<tr><td style="text-align:left;opacity:.7;padding:1px 12px 1px 0">{html.escape(name)}</td>'
            f'<td style="text-align:left;padding:1px 0">{html.escape(value)}</td></tr>'
            for name, value in self._facts().items()
        )
        frame = "display:inline-block;border:1px solid rgba(128,128,128,.4);border-radius:6px;padding:8px 14px"
        return (
            f'<div style="{frame}">'
            f'<div style="font-weight:600;margin-bottom:4px">cellmesh session, {self._state()}</div>'
            f'<table style="border:none;margin:0">{rows}</table></div>'
        )
