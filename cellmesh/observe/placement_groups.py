"""Listings of placement groups: of this session, and of all machines of its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ids import PlacementGroupID
from ..session import agent_client, placement_labels
from .nodes import is_clustered, namer

if TYPE_CHECKING:
    from ..session.session import Session


def table(of: Session) -> list[dict[str, Any]]:
    """A row for each group of the session: id, name, namespace, strategy, state, and its bundles.

    Of each bundle: what it has, what of it is available, and where it is (0: here, None: nowhere, else the last 32 bits
    of a node's number). What the session has put aside for groups of other machines is left out.
    """

    def row(found: dict[str, Any]) -> dict[str, Any]:
        session_id, number, _, strategy, name, namespace = found["meta"]  # a tuple of `PlacementGroup`
        placement_labels.note(session_id, number, name)
        return {
            "id": str(PlacementGroupID(f"{session_id}{number:08x}")),
            "name": name,
            "namespace": namespace,
            "strategy": strategy,
            "state": found["state"],
            "bundles": [bundle.total for bundle in found["bundles"]],
            "available": [bundle.available for bundle in found["bundles"]],
            "machines": [bundle.node for bundle in found["bundles"]],
        }

    return [row(found) for found in of.client.placements() if found["meta"][0] == of.node.session_id]


def listing(of: Session) -> list[dict[str, Any]]:
    """As `table`, with names of machines; in a cluster, the groups of all its machines.

    Raises
    ------
    ClusterError
        The head does not answer.
    """
    from msgspec import msgpack

    from ..scheduler.cluster.messages import GroupRecord

    called = namer(of)
    here = of.node.session_id
    homes = {row["id"]: (row, 0) for row in table(of)}
    for value in agent_client.on_record(of, "groups") if is_clustered(of) else ():
        group = msgpack.decode(value, type=GroupRecord)
        row = {
            "id": str(PlacementGroupID(f"{group.session}{group.number:08x}")),
            "name": group.name,
            "namespace": group.namespace,
            "strategy": group.strategy,
            "state": group.state,
            "bundles": group.bundles,
            "available": None,
            "machines": group.machines,
        }
        if group.session != here:
            homes[row["id"]] = row, group.node & 0xFFFFFFFF
    return [
        row
        | {
            "machines": ["" if where is None else called(where or home) for where in row["machines"]],
            "home": called(home),
        }
        for row, home in homes.values()
    ]
