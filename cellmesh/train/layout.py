"""Where the ranks of a group are, in the variables of torchrun."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..api import get_gpu_ids, nodes
from ..objects import get

if TYPE_CHECKING:
    from ..groups.actor_group import ActorGroup


LOOPBACK = "127.0.0.1"


class Place(NamedTuple):
    """Where a rank is."""

    node: str  # its id
    address: str
    port: int  # that is free there
    gpus: tuple[str, ...] = ()  # of its own, as CUDA_VISIBLE_DEVICES names them


class Member:
    """A rank, as a member of an actor group: it says where it is, and is told where it stands among the others."""

    def __init__(self) -> None:
        self.environment: Mapping[str, str] = {}
        self._port: socket.socket | None = None

    def place(self) -> Place:
        """Where this rank is, with a port that is its own until `prepare`."""
        self._port = socket.socket()
        self._port.bind(("", 0))
        mine = next(node for node in nodes() if node["ThisNode"])
        address = mine["Address"].rpartition("://")[2].rpartition(":")[0]
        return Place(mine["NodeID"], address or LOOPBACK, self._port.getsockname()[1], tuple(get_gpu_ids()))

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Have these variables, as long as the process lives."""
        if self._port is not None:
            self._port.close()
            self._port = None
        own, visible = get_gpu_ids(), environment.get("CUDA_VISIBLE_DEVICES", "").split(",")
        if not set(own) <= set(visible):  # a rank that was started again has got another GPU
            environment = {**environment, "CUDA_VISIBLE_DEVICES": ",".join(own)}
        self.environment = environment
        os.environ.update(environment)


def places_of(group: ActorGroup[Any]) -> list[Place]:
    """Where the ranks of a group are; those on one machine need no address that others can reach."""
    places = get(group.place.remote())
    return [place._replace(address=LOOPBACK) for place in places] if len({on.node for on in places}) == 1 else places


def variables(places: Sequence[Place], n_restarts: int, run_id: str) -> list[dict[str, str]]:
    """The variables of each rank, as `torchrun` sets them. Ranks on one machine see the GPUs of all of them, in the
    order of the ranks, so with a GPU each `cuda:LOCAL_RANK` is a rank's own.

    Parameters
    ----------
    places : sequence of Place
        Of each rank.
    n_restarts : int
        How often the group has been started again.
    run_id : str
        A name of the run.

    References
    ----------
    torch/distributed/elastic/agent/server/local_elastic_agent.py, `_start_workers`.
    """
    on = [place.node for place in places]
    machines = list(dict.fromkeys(on))
    found = []
    for rank, node in enumerate(on):
        numbers = {
            "RANK": rank,
            "WORLD_SIZE": len(on),
            "LOCAL_RANK": on[:rank].count(node),
            "LOCAL_WORLD_SIZE": on.count(node),
            "GROUP_RANK": machines.index(node),
            "GROUP_WORLD_SIZE": len(machines),
            "NODE_RANK": machines.index(node),  # Lightning's name
            "ROLE_RANK": rank,
            "ROLE_WORLD_SIZE": len(on),
            "MASTER_PORT": places[0].port,
            "TORCHELASTIC_RESTART_COUNT": n_restarts,
        }
        texts = {"ROLE_NAME": "default", "MASTER_ADDR": places[0].address, "TORCHELASTIC_RUN_ID": run_id}
        gpus = dict.fromkeys(gpu for place in places if place.node == node for gpu in place.gpus)
        if gpus:
            texts["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        found.append({name: str(number) for name, number in numbers.items()} | texts)
    return found
