"""`cellmesh start | token | drain`, and what `status` and `stop` have to do with clusters.

A join token is read from a prompt, from stdin, or from the file that CELLMESH_TOKEN_FILE names: a command line can be read by
everybody on the machine.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from .text import bytes_of, in_bytes, in_one_line, in_resources

if TYPE_CHECKING:
    from .scheduler.cluster.keys import Cluster
    from .scheduler.cluster.messages import Status

START_TIMEOUT_S = 20.0
END_TIMEOUT_S = 5.0
STATUS_TIMEOUT_S = 3.0
LEAST_TIMEOUT_S, MOST_TIMEOUT_S = 1.0, 30 * 86400.0
START_LOOK_S = 2.0
LOOK_S = 0.03     # between looks at something that is beginning
SHARES = 10_000   # of one, as messages count resources


class CommandError(Exception):
    """It did not work; the text says why."""


@contextmanager
def _failures() -> Iterator[None]:
    from .scheduler.cluster import address, commands, keys
    from .scheduler.private_folder import UnsafeDirectory
    try:
        yield
    except (address.AddressError, commands.ClusterError, keys.TokenError, keys.KeyFileError, UnsafeDirectory) as error:
        raise CommandError(str(error)) from None


# ---------------------------------------------------------------- arguments
def add_start(start: argparse.ArgumentParser) -> None:
    """The options of `cellmesh start`."""
    which = start.add_mutually_exclusive_group(required=True)
    which.add_argument("--head", action="store_true", help="begin a cluster, or go on with the one whose head was at that address")
    which.add_argument("--address", metavar="HOST:PORT", help="join the cluster whose head is there")
    start.add_argument("--host", metavar="ADDRESS",
                       help="this machine's address for the others (default: with --head 127.0.0.1, so that only this machine can "
                            "join; else the one on the way to the head)")
    start.add_argument("--port", type=int, metavar="N",
                       help="with --head: where it listens (default: 7421; 0: any). Else: where the other nodes connect (default: any)")
    start.add_argument("--control-store", metavar="URL",
                       help="with --head: redis://..., or the path of a file (default: one beside the keys; the variable "
                            "CELLMESH_CONTROL_STORE hides a password better)")
    start.add_argument("--node-timeout", type=_seconds, metavar="S",
                       help="with --head: a node that is silent for so many seconds counts as lost (default: 10)")
    start.add_argument("--head-timeout", type=_seconds, metavar="S",
                       help="with --head: when the head cannot be reached for so many seconds it counts as gone for good: nodes without a "
                            "driver finish what they run and stop (default: 60)")
    start.add_argument("--num-cpus", type=float, metavar="N", help="how many CPUs tasks may use together")
    start.add_argument("--num-gpus", type=float, metavar="N")
    start.add_argument("--memory", type=_bytes, metavar="BYTES", help="what tasks may ask for with memory=, such as 2G")
    start.add_argument("--resources", type=_amounts, metavar="NAME=N,...", help="custom resources, such as disk=2,license=1")
    start.add_argument("--labels", type=_labels, metavar="NAME=VALUE,...", default={}, help="of the node, such as zone=eu,gpu=a100")
    start.add_argument("--object-store-memory", type=_bytes, metavar="BYTES", help="room for values, such as 2G")


def _pairs(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    if not pairs or any(not sign or not name.strip() or not value.strip() for name, sign, value in pairs):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE,NAME=VALUE")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _bytes(text: str) -> int:
    try:
        return bytes_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not LEAST_TIMEOUT_S <= seconds <= MOST_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of seconds, {LEAST_TIMEOUT_S:g} to {MOST_TIMEOUT_S:g}")
    return seconds


def _amounts(text: str) -> dict[str, float]:
    try:
        return {name: float(value) for name, value in _pairs(text).items()}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: amounts must be numbers") from None


def _labels(text: str) -> dict[str, str]:
    from . import startup
    labels = _pairs(text)
    if not startup.are_labels(labels):
        raise argparse.ArgumentTypeError(f"{text!r}: must be {startup.LABELS_ALLOWED}")
    return labels


# ---------------------------------------------------------------- starting
def start(options: argparse.Namespace) -> int:
    """Begin a cluster with a node on this machine, or join one."""
    with _failures():
        resources = _resources(options)
        if options.head:
            cluster, is_new = _head(options)
            host = options.host or "127.0.0.1"
        else:
            if wrong := [name for name in ("control_store", "node_timeout", "head_timeout") if getattr(options, name)]:
                raise CommandError(f"--{wrong[0].replace('_', '-')} belongs to --head")
            cluster, is_new = _join(options.address), False
            host = options.host or _towards(cluster)
        session = _node_here(cluster)
        if session is None:
            session = _start_node(cluster, host, 0 if options.head else options.port or 0, resources, options)
        elif not options.head:
            raise CommandError(f"session {session} of this machine is a node of {cluster.name} already; for another one beside it, set "
                               f"XDG_RUNTIME_DIR to a folder of its own; `cellmesh stop {session}` "
                               "ends it")
        _tell_start(cluster, session, options, is_new)
    return 0


def _resources(options: argparse.Namespace) -> dict[str, Any]:
    """The options that `init` has too, checked as it does."""
    from . import startup
    names = ("num_cpus", "num_gpus", "memory", "resources", "object_store_memory")
    try:
        return startup.checked_arguments({name: getattr(options, name) for name in names}, {})
    except ValueError as error:
        raise CommandError(re.sub(r"^init\((\w+)=(.*)\): ", lambda found: f"--{found[1].replace('_', '-')} {found[2]}: ", str(error))) from None


def _head(options: argparse.Namespace) -> tuple[Cluster, bool]:
    """The cluster whose head serves now, and whether it is a new one."""
    from .scheduler.cluster import address, head_process, keys, sockets
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
        raise CommandError(f"the head of {cluster.name} runs at {at} already, as process {pid}. `cellmesh token` makes a join token, "
                           "`cellmesh stop` ends it")
    elif store and store != cluster.control_store:
        raise CommandError(f"the cluster at {at} has another control store. `cellmesh stop {cluster.name}` ends that cluster")
    cluster.set_timeouts(options.node_timeout, options.head_timeout)
    process = head_process.start(cluster)
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
    from .scheduler.cluster import commands, head_process
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with commands.talk(cluster, START_LOOK_S) as head:
                head.status()
            return
        except commands.ClusterError as error:
            why = ": it has ended" if process.poll() is not None else f": {error}" if time.monotonic() > deadline else ""
            if why:
                raise CommandError(f"the head does not start{why}. Its last words:\n{head_process.log_tail(cluster)}") from None
        time.sleep(LOOK_S)


def _join(where: str) -> Cluster:
    from .scheduler.cluster import commands
    cluster = commands.find(where)
    if cluster is not None and commands.is_admitted(cluster):
        return cluster
    return commands.find_or_join(where, commands.given_token() or _ask_for_token(where))


def _ask_for_token(where: str) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(f"Join token for the cluster at {where} (`cellmesh token` on its head's machine makes one): ")
    return sys.stdin.read(4096)


def _towards(cluster: Cluster) -> str:
    from .scheduler.cluster import address
    return address.towards(*address.parse(cluster.address))


def _node_here(cluster: Cluster) -> str | None:
    """The session without a driver that is a node of the cluster on this machine."""
    from .scheduler import session_dir
    for folder in session_dir.alive():
        if session_dir.cluster_of(folder) == (cluster.name, True):
            return session_dir.id_of(folder)
    return None


def _start_node(cluster: Cluster, host: str, port: int, given: dict[str, Any], options: argparse.Namespace) -> str:
    from . import startup
    from .scheduler.cluster import address
    from .scheduler.messages import ClusterConfig
    from .scheduler.node import Node
    address.check_host(host)
    config = startup.make_config({**given, "address": "local"})
    node = Node.start(resources=config.resources, object_store_memory=config.object_store_memory, namespace=config.namespace,
                      max_objects=config.max_objects, max_tasks=config.max_tasks, stays=True,
                      cluster=ClusterConfig(cluster.path, host, port, options.labels))
    try:
        _wait_for_node(cluster, node)
    except BaseException:
        node.close()
        raise
    node.close(leave=True)
    return node.session_id


def _wait_for_node(cluster: Cluster, node: Any) -> None:
    from .scheduler import session_dir
    from .scheduler.cluster import commands
    from .scheduler.cluster.messages import SESSION_LABEL
    deadline = time.monotonic() + START_TIMEOUT_S
    with commands.talk(cluster) as head:
        while not any(row.member.labels.get(SESSION_LABEL) == node.session_id for row in head.status().nodes):
            if not os.path.exists(node.session_dir) or time.monotonic() > deadline:
                raise CommandError(f"the node does not join. Its last words:\n{session_dir.log_tail(node.session_dir)}")
            time.sleep(LOOK_S)


def _tell_start(cluster: Cluster, session: str, options: argparse.Namespace, is_new: bool) -> None:
    from .scheduler.cluster import keys, sockets
    token = cluster.new_token(sockets.public_of).text if options.head else ""
    if options.json:
        told = {"cluster": cluster.name, "address": cluster.address, "session": session}
        print(json.dumps(told | ({"token": token} if token else {})))
        return
    if not token:
        print(f"Session {session} of this machine is a node of {cluster.name} now. `cellmesh stop {session}` ends it.")
    else:
        print(f"The head of {cluster.name} serves{'' if is_new else ' again'} at {cluster.address}, with session {session} as a node.\n"
              f"Another machine joins with\n\n    cellmesh start --address {cluster.address}\n\nand this token, which is good for one "
              f"machine, within {keys.TOKEN_LIFE_S / 60:g} minutes:\n\n    {token}\n\n"
              "`cellmesh token` makes another one, `cellmesh stop` ends the cluster.")
        if cluster.address.startswith(("127.", "localhost", "[::1]")):
            print("The head listens at an address of this machine alone; for others to join, start it with --host.")
    print(f'A notebook on a machine that has joined takes part with cellmesh.init(address="tcp://{cluster.address}").')


# ---------------------------------------------------------------- tokens, draining
def token(options: argparse.Namespace) -> int:
    """Make another join token."""
    from .scheduler.cluster import keys, sockets
    with _failures():
        cluster = _one([known for known in keys.known() if known.has_head], options.address,
                       "the head of no cluster of yours is on this machine: make the token there, or begin a cluster with "
                       "`cellmesh start --head`")
        made = cluster.new_token(sockets.public_of, options.minutes * 60)
    if options.json:
        print(json.dumps({"cluster": cluster.name, "address": cluster.address, "token": made.text}))
    else:
        print(made.text)
        print(f"It is good for one machine, within {options.minutes:g} minutes: cellmesh start --address {cluster.address}",
              file=sys.stderr)
    return 0


def _one(known: Sequence[Cluster], where: str | None, none: str) -> Cluster:
    from .scheduler.cluster import address
    if where is not None:
        wanted = address.join(*address.parse(where))
        there = [cluster for cluster in known if address.same(cluster.address, wanted)]
        if known and not there:
            raise CommandError(f"--address {where}: here that is no cluster's head; there is {', '.join(cluster.address for cluster in known)}")
        known = there
    if not known:
        raise CommandError(none)
    if len(known) > 1:
        raise CommandError(f"which cluster? Give --address with one of {', '.join(cluster.address for cluster in known)}")
    return known[0]


def drain(options: argparse.Namespace) -> int:
    """Have a node leave when it has finished what it does."""
    from .scheduler.cluster import commands, keys, strategies
    with _failures():
        cluster = _one(keys.known(), options.address, "this machine is part of no cluster")
        with commands.talk(cluster) as head:
            rows = [row for row in head.status().nodes if row.state != "dead"]
            found = strategies.find(options.node, [row.member for row in rows])
            if len(found) != 1:
                what = f"{len(found)} nodes of {cluster.name} are" if found else f"no node of {cluster.name} is"
                there = ", ".join(f"{row.member.node:x} ({in_one_line(row.member.hostname)})" for row in rows) or "none"
                raise CommandError(f"{what} called {options.node!r}: give the number of one, or {strategies.N_DIGITS} digits of its beginning. "
                                   f"There are {there}")
            head.drain(found[0].node)
    print(f"node {found[0].node:x} takes nothing new, and leaves when what runs there has ended")
    return 0


# ---------------------------------------------------------------- looking
def look() -> list[dict[str, Any]]:
    """The clusters that this machine is part of, for `status`."""
    from .scheduler.cluster import commands, keys
    found = []
    with _failures():
        known = keys.known()
    for cluster in known:
        seen: dict[str, Any] = {"cluster": cluster.name, "address": cluster.address, "head_pid": cluster.head_pid(), "has_head": cluster.has_head, "error": "",
                                "nodes": []}
        try:
            with commands.talk(cluster, STATUS_TIMEOUT_S) as head:
                seen |= _as_rows(head.status())
        except (commands.ClusterError, OSError) as error:
            seen["error"] = str(error)
        found.append(seen)
    return found


def _as_rows(status: Status) -> dict[str, Any]:
    from .scheduler.cluster.messages import SESSION_LABEL
    rows = [{"node": f"{row.member.node:x}", "hostname": row.member.hostname, "state": row.state, "reason": row.reason,
             "session": row.member.labels.get(SESSION_LABEL, ""), "endpoint": row.member.endpoint,
             "labels": {name: value for name, value in row.member.labels.items() if name != SESSION_LABEL},
             "total": _amounts_of(row.member.total), "free": _amounts_of(row.free), "queued": row.n_queued,
             "used_bytes": row.used_bytes, "size_bytes": row.size_bytes, "silent_s": round(row.silent_s, 1)} for row in status.nodes]
    return {"life": status.epoch, "nodes": rows, "asked": status.n_asked, "granted": status.n_granted}


def _amounts_of(shares: dict[str, int]) -> dict[str, float]:
    return {name: share / SHARES for name, share in shares.items()}


def show(seen: dict[str, Any]) -> None:
    """One paragraph."""
    from .scheduler.cluster import address
    here = f", process {seen['head_pid']} of this machine" if seen["head_pid"] else ", which does not run" if seen["has_head"] else ""
    life = f", life {seen['life']}" if "life" in seen else ""
    print(f"cluster {seen['cluster']}  (head at {seen['address']}{here}{life})")
    if seen["error"]:
        print(f"  {in_one_line(seen['error'], 500)}")
        if seen["has_head"] and not seen["head_pid"]:
            host, port = address.parse(seen["address"])
            print(f"  `cellmesh start --head --host {host} --port {port}` goes on with it, `cellmesh stop {seen['cluster']}` ends it")
        return
    from .scheduler import session_dir
    here = {session_dir.id_of(folder) for folder in session_dir.alive()}
    for row in seen["nodes"]:
        print(f"  node     {row['node']}  {in_one_line(row['hostname'])}  {row['state']}" + (", on this machine" if row["session"] in here else "")
              + (f", {in_one_line(row['reason'], 200)}" if row["reason"] else ""))
        if row["state"] == "dead":
            continue
        labels = ", ".join(f"{in_one_line(name)}={in_one_line(value)}" for name, value in row["labels"].items())
        print(f"           free {in_resources(row['free'])}  of  {in_resources(row['total'])}; {row['queued']} tasks wait\n"
              f"           store {in_bytes(row['used_bytes'])} of {in_bytes(row['size_bytes'])}; silent for {row['silent_s']:g} s"
              + (f"; {labels}" if labels else ""))
    print(f"  tasks    {seen['asked']} ask for places, {seen['granted']} places given")


# ---------------------------------------------------------------- ending
def end(names: Sequence[str]) -> list[str]:
    """End those clusters whose head is on this machine, all of them if there are no names; the names that are none of theirs."""
    from .scheduler.cluster import keys
    with _failures():
        ours = [cluster for cluster in keys.known() if cluster.has_head and (not names or cluster.name in names)]
        for cluster in ours:
            _end(cluster)
    return [name for name in names if name not in {cluster.name for cluster in ours}]


def _end(cluster: Cluster) -> None:
    from .scheduler.cluster import commands
    pid = cluster.head_pid()
    if pid is not None:
        pidfd = os.pidfd_open(pid)
        try:
            with commands.talk(cluster, END_TIMEOUT_S) as head:
                head.end(f"cellmesh stop on {commands.hostname()}")
        except commands.ClusterError as error:
            print(f"cluster {cluster.name}: {error}; its head is killed", file=sys.stderr)
        if not _has_ended(pidfd):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            _has_ended(pidfd)
        os.close(pidfd)
    cluster.forget()
    print(f"cluster {cluster.name} has ended")


def end_node(folder: str) -> None:
    """Have a session leave its cluster and end, if it takes part in one; the cluster need not wait for its silence."""
    from .scheduler import processes, session_dir
    if not session_dir.cluster_of(folder)[0]:
        return
    for pid in processes.session_processes(session_dir.id_of(folder)):
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        if processes.name_of(pid) == "cellmesh-sched":  # that of the descriptor: no other has its number while it has not ended
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
            _has_ended(pidfd)
        os.close(pidfd)


def _has_ended(pidfd: int) -> bool:
    import select
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(END_TIMEOUT_S * 1000))
