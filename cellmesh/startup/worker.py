"""A worker's session: its attachment, made the session of the process before its first task."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from .. import front_end
from ..environment import driver_env, log_levels
from ..objstore import own_pickles
from ..session.current import process
from ..session.session import Config, Session, WorkerNode, sizes_of

if TYPE_CHECKING:
    from ..objstore._core import Client


def adopt_worker(client: Client, link: Any, config: Any) -> Session:
    """Make a worker's attachment its session. Called once in each worker, by the scheduler's worker.

    Parameters
    ----------
    client : Client
        Of role worker.
    link : Link
        The worker's connection to the local scheduler.
    config : SessionConfig
        As `scheduler.messages` has it.
    """
    own_pickles.in_worker = True
    total = dict(config.total)
    if total.get("GPU"):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # tasks see the GPUs that they asked for
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # workers with a thread per core each are in each other's way
    if os.environ.get("CELLMESH_COMPAT_RAY"):  # set by compat.ray.install() in the driver
        from ..compat.alias import install

        install()
    if config.has_agent:
        driver_env.node = os.uname().nodename
    _take_driver_env(client)
    log_levels.follow(client, driver_env.levels_in)
    own = Config(resources=total, namespace=config.namespace, log_to_driver=config.log_to_driver, **sizes_of(client))
    process.session = Session(
        WorkerNode(link, config.session, config.session_dir),
        client,
        own,
        is_worker=True,
        in_cluster=config.has_agent,
    )
    return process.session


def _take_driver_env(client: Client) -> None:
    """What the driver has changed since it started the session."""
    context = client.context()
    if context is None:
        return
    path, folder, front_end.current.keep_frames, variables, _ = context
    driver_env.take_variables(variables)
    sys.path[:] = [*path, *(own for own in sys.path if own not in path)]
    if os.path.isdir(folder):
        os.chdir(folder)
