"""`init`, `shutdown`, `is_initialized`: what begins and ends the session of this process.

A module of its own that imports next to nothing, because nothing else goes on until the session's first
process runs (decision 23).
"""

from __future__ import annotations

import sys

from . import init_arguments

TYPE_CHECKING = (
    False  # known to type checkers by its name; `typing` alone takes longer to import than all the rest here
)
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..engines.addresses import DaskCluster
    from ..scheduler.node.launch import Launch
    from .context import Context


def init(
    address: str | DaskCluster | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    resources: dict[str, float] | None = None,
    object_store_memory: int | None = None,
    namespace: str | None = None,
    log_to_driver: bool | None = None,
    log_dir: str | None = None,
    offload_dir: str | None = None,
    offload_limit: int | None = None,
    max_objects: int | None = None,
    max_tasks: int | None = None,
    runtime_env: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    engine_options: dict[str, Any] | None = None,
    ignore_reinit_error: bool = False,
    keep_calls: bool = False,
    **others: Any,
) -> Context:
    """Start a session on this machine, or join one.

    The first use of the API does it too, with the defaults. If an earlier run of this notebook or script has ended and
    left detached actors, its session is taken over, unless something else is asked for than it has, or address="local".

    Parameters
    ----------
    address : str or Dask cluster, optional
        None or "local": a session of this process's own. "tcp://HOST:PORT": likewise, and it takes part in the cluster
        whose head is there, see `cellmesh start`; this machine must have joined, or CELLMESH_TOKEN_FILE name a file
        with a join token. "ray:auto", "dask://HOST:PORT", "fake:": likewise, and its tasks run on that engine, see
        docs/engines.md; a cluster object of Dask's is its scheduler's address. "auto": the youngest session of this
        user that runs on this machine. Otherwise the path of a session's `node.sock`. The variable CELLMESH_ADDRESS
        gives the default.
    num_cpus : float, optional
        How many CPUs tasks may use together; default: those that this process may use.
    num_gpus : float, optional
        Likewise for GPUs; default: those in CUDA_VISIBLE_DEVICES, or all.
    memory : float, bytes, optional
        What tasks may ask for with `memory=`; default: the machine's memory without the object store.
    resources : dict of str to float, optional
        Custom resources.
    object_store_memory : int, bytes, optional
        How much the object store can hold; default: 30 % of the memory. It costs only what is used.
    namespace : str, optional
        Where this program, its tasks and its actors look up names of actors and placement groups; default: one of this
        program alone, also in a session that it joins. The next run of a notebook or script that takes its session over
        has the same.
    log_to_driver : bool, optional
        Whether what tasks print is shown here; default: True.
    log_dir : str, optional
        A folder, made if need be, for all that tasks print, whatever is shown here; for nobody but this user to read.
        Each worker has a file there, and a second one for what C code and child processes write.
    offload_dir : str, optional
        A folder, made if need be, for objects that the object store has no room for: unused ones are moved there, into
        a folder of the session's own, and come back when they are used. Default: the temporary folder, or /var/tmp, or
        the user's cache folder, the first that lies on a real disk.
    offload_limit : int, bytes, optional
        How much may lie there; 0: nothing. Default: half of what is free on that disk.
    max_objects : int, optional
        How many objects there can be at a time, results of unfinished tasks included, 1,000 to 2,147,483,647; default:
        16,777,216. A larger number costs nothing until there are so many: an object of a few bytes takes 128 bytes
        beside `object_store_memory`, and 44 in each process that refers to it.
    max_tasks : int, optional
        How many unfinished tasks there can be at a time, likewise; default: 1,048,576. Each takes 128 bytes beside its
        result.
    runtime_env : dict, optional
        What tasks and actors run in unless they say otherwise; as the option of that name.
    labels : dict of str to str, optional
        Of this machine as a node of the cluster, for `label_selector`; as `cellmesh start --labels` gives them to nodes
        without a driver. Names and values of at most 200 letters.
    engine_options : dict, optional
        Of an engine at `address`. Of all: "timeout", seconds to connect (60). Of Ray and Dask: "ship", whether their
        workers are sent this program's cellmesh: "auto", where they have none or another one; True; False. Of Ray:
        "namespace" and "runtime_env", as of `ray.init`; of Dask: "security", what `distributed.Security` takes.
    ignore_reinit_error : bool
        Return the session that runs, whatever was asked for.
    keep_calls : bool
        Keep the inputs of calls, so that `retry` can submit tasks again, and with them their futures' values for a
        while. Notebooks do without being asked.

    Returns
    -------
    Context
        Says what runs; in a `with` statement ends the session, if this call has begun or joined it.

    Raises
    ------
    AlreadyInitializedError
        A session runs already, and something else was asked for than it has.
    UnknownArgumentError
        There is no such argument.
    ValueError, TypeError
        An argument has no sense.
    """
    asked = init_arguments.checked_arguments(
        {
            "address": address,
            "num_cpus": num_cpus,
            "num_gpus": num_gpus,
            "memory": memory,
            "resources": resources,
            "object_store_memory": object_store_memory,
            "namespace": namespace,
            "log_to_driver": log_to_driver,
            "runtime_env": runtime_env,
            "log_dir": log_dir,
            "offload_dir": offload_dir,
            "offload_limit": offload_limit,
            "max_objects": max_objects,
            "max_tasks": max_tasks,
            "labels": labels,
            "engine_options": engine_options,
        },
        others,
    )
    launched = _launch_early(asked)
    try:
        context = _started(asked, launched, ignore_reinit_error)
        if keep_calls:
            from ..tasks.call_log import begin

            begin()
        return context
    finally:
        if launched is not None:
            launched.abandon()  # unless a session has been made of it


def _started(asked: Mapping[str, Any], launched: Launch | None, ignore_reinit_error: bool) -> Context:
    from ..session.current import current_or_none
    from ..startup.start import adopt, shutdown, start
    from .context import Context

    running = current_or_none()
    if running is not None and running.lost:
        shutdown()
    elif running is not None:
        init_arguments.compare(running.config, asked, ignore_reinit_error)
        if not ignore_reinit_error and not running.is_worker:
            print("cellmesh runs already; init() has returned the same session.", file=sys.stderr)
        return Context(running, begun=False)
    left = None if launched else init_arguments.left_session(asked)
    adopted = adopt(*left) if left else None
    return Context(adopted, begun=False) if adopted else Context(start(init_arguments.make_config(asked), launched))


def _launch_early(asked: Mapping[str, Any]) -> Launch | None:
    """For this process's first session: its first process, which imports what it needs while we do, too."""
    if f"{__name__.partition('.')[0]}.session.current" in sys.modules or not init_arguments.is_local(asked):
        return None
    from ..scheduler.node import session_dir

    if session_dir.left():  # one of them may be ours
        return None
    from ..scheduler.node.launch import launch

    return launch(init_arguments.store_bytes(asked), **init_arguments.table_sizes(asked))


def shutdown() -> None:
    """End the session: its tasks, actors and objects are gone when this returns. Values fetched before stay valid."""
    from ..startup.start import shutdown

    shutdown()


def is_initialized() -> bool:
    """Whether a session runs in this process."""
    from ..session.current import current_or_none

    running = current_or_none()
    return running is not None and not running.lost
