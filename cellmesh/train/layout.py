"""Where the ranks of a group are, in the variables of torchrun."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from ..api import nodes


class Place(NamedTuple):
    """Where a rank is."""

    node: str  # its id
    address: str
    port: int  # that was free there a moment ago


def here() -> Place:
    """Where this process is."""
    mine = next(node for node in nodes() if node["ThisNode"])
    return Place(
        mine["NodeID"], mine["Address"].rpartition("://")[2].rpartition(":")[0] or "127.0.0.1", free_ports(1)[0]
    )


def free_ports(n: int) -> list[int]:
    """TCP ports that nobody uses just now."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(n)]
        for listener in listeners:
            listener.bind(("", 0))
        return [listener.getsockname()[1] for listener in listeners]


@contextmanager
def variables_set(environment: Mapping[str, str]) -> Iterator[None]:
    """The process's variables, which are as before afterwards: it runs other tasks then."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def variables(places: Sequence[Place], n_restarts: int, run_id: str) -> list[dict[str, str]]:
    """The variables of each rank, as `torchrun` sets them.

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
        found.append({name: str(number) for name, number in numbers.items()} | texts)
    return found
