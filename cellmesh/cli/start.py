"""`cellmesh start`: a head or a node of a cluster on this machine.

A join token is read from a prompt, from stdin, or from the file that CELLMESH_TOKEN_FILE names: a command line can be
read by everybody on the machine.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import re
import signal
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..submit.flags import OF_SESSIONS, argument_type, flag_of
from .cluster import end, end_node, scheduler_of
from .failures import CommandError, failures

if TYPE_CHECKING:
    from ..scheduler.cluster.net.keys import Cluster
    from ..session.session import Config


START_TIMEOUT_S = 20.0
END_TIMEOUT_S = 5.0
LEAST_TIMEOUT_S, MOST_TIMEOUT_S = 1.0, 30 * 86400.0
START_LOOK_S = 2.0
LOOK_S = 0.03  # between looks at something that is beginning
# What `init` takes of a node without a driver, too.
OF_NODES = (
    "num_cpus",
    "num_gpus",
    "memory",
    "resources",
    "labels",
    "object_store_memory",
    "log_dir",
    "offload_dir",
    "offload_limit",
)


# ---------------------------------------------------------------- arguments
def add_start(start: argparse.ArgumentParser) -> None:
    """The options of `cellmesh start`."""
    which = start.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--head", action="store_true", help="begin a cluster, or go on with the one whose head was at that address"
    )
    which.add_argument("--address", metavar="HOST:PORT", help="join the cluster whose head is there")
    start.add_argument(
        "--host",
        metavar="ADDRESS",
        help="this machine's address for the others (default: with --head 127.0.0.1, so that only this machine can "
        "join; else the one on the way to the head)",
    )
    start.add_argument(
        "--port",
        type=int,
        metavar="N",
        help="with --head: where it listens (default: 7421; 0: any). Else: where the other nodes connect (default: "
        "any)",
    )
    start.add_argument(
        "--control-store",
        metavar="URL",
        help="with --head: redis://..., or the path of a file (default: one beside the keys; the variable "
        "CELLMESH_CONTROL_STORE hides a password better)",
    )
    start.add_argument(
        "--node-timeout",
        type=_seconds,
        metavar="S",
        help="with --head: a node whose machine does not answer for so many seconds counts as lost (default: 5)",
    )
    start.add_argument(
        "--head-timeout",
        type=_seconds,
        metavar="S",
        help="with --head: when the head cannot be reached for so many seconds it counts as gone for good: nodes "
        "without a driver finish what they run and stop (default: 60)",
    )
    start.add_argument(
        "--block",
        action="store_true",
        help="stay in the foreground: end with the node (status 1); Ctrl-C or SIGTERM end it, with --head the cluster "
        "too",
    )
    for option in OF_NODES:
        written = OF_SESSIONS[option]
        start.add_argument(
            *written.spellings(option),
            metavar=written.metavar,
            type=argument_type(written.parse),
            help=written.help[0].lower() + written.help[1:].rstrip("."),
        )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not LEAST_TIMEOUT_S <= seconds <= MOST_TIMEOUT_S:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a number of seconds, {LEAST_TIMEOUT_S:g} to {MOST_TIMEOUT_S:g}"
        )
    return seconds


# ---------------------------------------------------------------- starting
def start(options: argparse.Namespace) -> int:
    """Begin a cluster with a node on this machine, or join one."""
    with failures():
        config = _config(options)
        if options.head:
            cluster, is_new = _head(options)
            host = options.host or "127.0.0.1"
        else:
            if wrong := [name for name in ("control_store", "node_timeout", "head_timeout") if getattr(options, name)]:
                raise CommandError(f"{flag_of(wrong[0])} belongs to --head")
            cluster, is_new = _join(options.address), False
            host = options.host or _towards(cluster)
        session = _node_here(cluster)
        if session is None:
            session = _start_node(cluster, host, 0 if options.head else options.port or 0, config)
        elif not options.head:
            raise CommandError(
                f"session {session} of this machine is a node of {cluster.name} already; for another one beside it, "
                f"set XDG_RUNTIME_DIR to a folder of its own; `cellmesh stop {session}` ends it"
            )
        if options.block:
            return _stay(cluster, session, options, is_new)
        _tell_start(cluster, session, options, is_new)
    return 0


def _config(options: argparse.Namespace) -> Config:
    """What the node is started with: the options that `init` has too, checked as it does."""
    from ..startup import init_arguments

    try:
        given = init_arguments.checked_arguments({option: getattr(options, option) for option in OF_NODES}, {})
        labels = given.pop("labels", {})
        return replace(init_arguments.make_config({**given, "address": "local"}), labels=labels)
    except (ValueError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise CommandError(
            re.sub(r"^init\((\w+)=(.*)\): ", lambda found: f"{flag_of(found[1])} {found[2]}: ", str(why))
        ) from None


def _head(options: argparse.Namespace) -> tuple[Cluster, bool]:
    """The cluster whose head serves now, and whether it is a new one."""
    from ..scheduler.cluster.head import supervisor
    from ..scheduler.cluster.net import address, keys, sockets
    from ..scheduler.node import session_dir

    host = options.host or "127.0.0.1"
    address.check_host(host)
    port = address.DEFAULT_PORT if options.port is None else options.port or _any_port(host)
    at = address.join(*address.parse(address.join(host, port), "--host and --port"))
    store = options.control_store or os.environ.get("CELLMESH_CONTROL_STORE", "")
    store = store if "://" in store or not store else os.path.abspath(store)
    cluster = next((known for known in keys.known() if known.has_head and known.address == at), None)
    is_new = cluster is None
    if cluster is None:
        cluster = keys.Cluster.begin(at, sockets.new_pair, store)
    elif (pid := cluster.head_pid()) is not None:
        raise CommandError(
            f"the head of {cluster.name} runs at {at} already, as process {pid}. `cellmesh token` makes a join token, "
            "`cellmesh stop` ends it"
        )
    elif store and store != cluster.control_store:
        raise CommandError(
            f"the cluster at {at} has another control store. `cellmesh stop {cluster.name}` ends that cluster"
        )
    cluster.set_timeouts(options.node_timeout, options.head_timeout, session_dir.runtime_root())
    process = supervisor.start(cluster)
    try:
        _wait_for_head(cluster, process)
    except BaseException:
        process.terminate()
        process.wait()
        if is_new:
            cluster.forget()
        raise
    process.returncode = 0  # it is nobody's child from now on, and lives on
    return cluster, is_new


def _any_port(host: str) -> int:
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        return int(listener.getsockname()[1])


def _wait_for_head(cluster: Cluster, process: Any) -> None:
    from ..scheduler.cluster.head import supervisor
    from ..scheduler.cluster.net import client

    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with client.talk(cluster, START_LOOK_S) as head:
                head.status()
            return
        except client.ClusterError as error:
            why = (
                ": it has ended" if process.poll() is not None else f": {error}" if time.monotonic() > deadline else ""
            )
            if why:
                raise CommandError(
                    f"the head does not start{why}. Its last words:\n{supervisor.log_tail(cluster)}"
                ) from None
        time.sleep(LOOK_S)


def _join(where: str) -> Cluster:
    from ..scheduler.cluster.net import client

    cluster = client.find(where)
    if cluster is not None and client.is_admitted(cluster):
        return cluster
    return client.find_or_join(where, client.given_token() or _ask_for_token(where))


def _ask_for_token(where: str) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(
            f"Join token for the cluster at {where} (`cellmesh token` on its head's machine makes one): "
        )
    return sys.stdin.read(4096)


def _towards(cluster: Cluster) -> str:
    from ..scheduler.cluster.net import address

    return address.towards(*address.parse(cluster.address))


def _node_here(cluster: Cluster) -> str | None:
    """The session without a driver that is a node of the cluster on this machine."""
    from ..scheduler.node import session_dir

    for folder in session_dir.alive():
        if session_dir.cluster_of(folder) == (cluster.name, True):
            return session_dir.id_of(folder)
    return None


def _start_node(cluster: Cluster, host: str, port: int, config: Config) -> str:
    from ..scheduler.cluster.net import address
    from ..scheduler.ipc.messages import ClusterConfig
    from ..scheduler.node.handle import Node
    from ..startup.worker_modules import worker_modules

    address.check_host(host)
    node = Node.start(
        modules=worker_modules(),
        resources=config.resources,
        object_store_memory=config.object_store_memory,
        namespace=config.namespace,
        max_objects=config.max_objects,
        max_tasks=config.max_tasks,
        log_dir=config.log_dir,
        offload_dir=config.offload_dir,
        offload_limit=config.offload_limit,
        stays=True,
        cluster=ClusterConfig(cluster.path, host, port, config.labels),
    )
    try:
        _wait_for_node(cluster, node)
    except BaseException:
        node.close()
        raise
    node.close(leave=True)
    return node.session_id


def _wait_for_node(cluster: Cluster, node: Any) -> None:
    from ..scheduler.cluster.messages import SESSION_LABEL
    from ..scheduler.cluster.net import client
    from ..scheduler.node import session_dir

    deadline = time.monotonic() + START_TIMEOUT_S
    with client.talk(cluster) as head:
        while not any(row.member.labels.get(SESSION_LABEL) == node.session_id for row in head.status().nodes):
            if not os.path.exists(node.session_dir) or time.monotonic() > deadline:
                raise CommandError(f"the node does not join. Its last words:\n{session_dir.log_tail(node.session_dir)}")
            time.sleep(LOOK_S)


def _tell_start(cluster: Cluster, session: str, options: argparse.Namespace, is_new: bool) -> None:
    from ..scheduler.cluster.net import keys, sockets

    token = cluster.new_token(sockets.public_of).text if options.head else ""
    if options.json:
        told = {"cluster": cluster.name, "address": cluster.address, "session": session}
        print(json.dumps(told | ({"token": token} if token else {})))
        return
    if not token:
        print(f"Session {session} of this machine is a node of {cluster.name} now. `cellmesh stop {session}` ends it.")
    else:
        print(
            f"The head of {cluster.name} serves{'' if is_new else ' again'} at {cluster.address}, with session "
            f"{session} as a node.\n"
            f"Another machine joins with\n\n    cellmesh start --address {cluster.address}\n\nand this token, which "
            f"is good for one machine, within {keys.TOKEN_LIFE_S / 60:g} minutes:\n\n    {token}\n\n"
            "`cellmesh token` makes another one, `cellmesh stop` ends the cluster."
        )
        if cluster.address.startswith(("127.", "localhost", "[::1]")):
            print("The head listens at an address of this machine alone; for others to join, start it with --host.")
    print(f'A notebook on a machine that has joined takes part with cellmesh.init(address="tcp://{cluster.address}").')


def _stay(cluster: Cluster, session: str, options: argparse.Namespace, is_new: bool) -> int:
    """Tell of the start, and wait until the node ends; or end it, and the head, when this process is to end."""
    import select

    from ..scheduler.node import session_dir
    from ..scheduler.node.handle import stop_session

    folder = next((folder for folder in session_dir.alive() if session_dir.id_of(folder) == session), None)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _tell_start(cluster, session, options, is_new)
        sys.stdout.flush()  # the process that started this one reads what there is
        with scheduler_of(session) as pidfd:
            if pidfd is not None:
                select.select([pidfd], [], [])
        print(f"session {session} has ended", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        if options.head:
            end([cluster])
        if folder is not None:
            end_node(folder)
            stop_session(folder, "the end of `cellmesh start --block`", END_TIMEOUT_S)
        return 0
    finally:
        signal.signal(signal.SIGTERM, before)
