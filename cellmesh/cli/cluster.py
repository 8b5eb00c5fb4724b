"""`cellmesh token | drain`, and what `status` and `stop` show and end of clusters. `start` begins them."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ..text import in_bytes, in_one_line, in_resources
from .failures import CommandError, failures

if TYPE_CHECKING:
    from ..scheduler.cluster.messages import Status
    from ..scheduler.cluster.net.keys import Cluster

END_TIMEOUT_S = 5.0
STATUS_TIMEOUT_S = 3.0


# ---------------------------------------------------------------- tokens, draining
def token(options: argparse.Namespace) -> int:
    """Make another join token."""
    from ..scheduler.cluster.net import keys, sockets

    with failures():
        cluster = _one(
            [known for known in keys.known() if known.has_head],
            options.address,
            "the head of no cluster of yours is on this machine: make the token there, or begin a cluster with "
            "`cellmesh start --head`",
        )
        made = cluster.new_token(sockets.public_of, options.minutes * 60)
    if options.json:
        print(json.dumps({"cluster": cluster.name, "address": cluster.address, "token": made.text}))
    else:
        print(made.text)
        print(
            f"It is good for one machine, within {options.minutes:g} minutes: cellmesh start --address "
            f"{cluster.address}",
            file=sys.stderr,
        )
    return 0


def _one(known: Sequence[Cluster], where: str | None, none: str) -> Cluster:
    from ..scheduler.cluster.net import address

    if where is not None:
        wanted = address.join(*address.parse(where))
        there = [cluster for cluster in known if address.same(cluster.address, wanted)]
        if known and not there:
            raise CommandError(
                f"--address {where}: here that is no cluster's head; there is "
                f"{', '.join(cluster.address for cluster in known)}"
            )
        known = there
    if not known:
        raise CommandError(none)
    if len(known) > 1:
        raise CommandError(
            f"which cluster? Give --address with one of {', '.join(cluster.address for cluster in known)}"
        )
    return known[0]


def drain(options: argparse.Namespace) -> int:
    """Have a node leave when it has finished what it does."""
    from ..scheduler.cluster.agent import strategies
    from ..scheduler.cluster.net import client, keys

    with failures():
        cluster = _one(keys.known(), options.address, "this machine is part of no cluster")
        with client.talk(cluster) as head:
            rows = [row for row in head.status().nodes if row.state != "dead"]
            found = strategies.find(options.node, [row.member for row in rows])
            if len(found) != 1:
                what = f"{len(found)} nodes of {cluster.name} are" if found else f"no node of {cluster.name} is"
                there = ", ".join(f"{row.member.node:x} ({in_one_line(row.member.called)})" for row in rows) or "none"
                raise CommandError(
                    f"{what} called {options.node!r}: give the number of one, or {strategies.N_DIGITS} digits of its "
                    f"beginning. There are {there}"
                )
            head.drain(found[0].node)
    print(
        f"node {in_one_line(found[0].called)} ({found[0].node:x}) takes nothing new, and leaves when what runs there "
        "has ended"
    )
    return 0


# ---------------------------------------------------------------- looking
def look() -> list[dict[str, Any]]:
    """The clusters that this machine is part of, for `status`."""
    from ..scheduler.cluster.net import client, keys

    found = []
    with failures():
        known = keys.known()
    for cluster in known:
        seen: dict[str, Any] = {
            "cluster": cluster.name,
            "address": cluster.address,
            "head_pid": cluster.head_pid(),
            "has_head": cluster.has_head,
            "error": "",
            "nodes": [],
        }
        try:
            with client.talk(cluster, STATUS_TIMEOUT_S) as head:
                seen |= _as_rows(head.status())
        except (client.ClusterError, OSError) as error:
            seen["error"] = str(error)
        found.append(seen)
    return found


def _as_rows(status: Status) -> dict[str, Any]:
    from ..scheduler.cluster.messages import SESSION_LABEL

    rows = [
        {
            "node": f"{row.member.node:x}",
            "name": row.member.called,
            "hostname": row.member.hostname,
            "state": row.state,
            "reason": row.reason,
            "session": row.member.labels.get(SESSION_LABEL, ""),
            "endpoint": row.member.endpoint,
            "labels": {name: value for name, value in row.member.labels.items() if name != SESSION_LABEL},
            "total": _amounts_of(row.member.total),
            "free": _amounts_of(row.free),
            "queued": row.n_queued,
            "used_bytes": row.used_bytes,
            "size_bytes": row.size_bytes,
            "silent_s": round(row.silent_s, 1),
        }
        for row in status.nodes
    ]
    return {"life": status.epoch, "nodes": rows, "asked": status.n_asked, "granted": status.n_granted}


def _amounts_of(shares: dict[str, int]) -> dict[str, float]:
    from ..objstore._core import RESOURCE_UNIT

    return {name: share / RESOURCE_UNIT for name, share in shares.items()}


def show(seen: dict[str, Any]) -> None:
    """One paragraph."""
    from ..scheduler.cluster.net import address

    here = (
        f", process {seen['head_pid']} of this machine"
        if seen["head_pid"]
        else ", which does not run"
        if seen["has_head"]
        else ""
    )
    life = f", life {seen['life']}" if "life" in seen else ""
    print(f"cluster {seen['cluster']}  (head at {seen['address']}{here}{life})")
    if seen["error"]:
        print(f"  {in_one_line(seen['error'], 500)}")
        if seen["has_head"] and not seen["head_pid"]:
            host, port = address.parse(seen["address"])
            print(
                f"  `cellmesh start --head --host {host} --port {port}` goes on with it, `cellmesh stop "
                f"{seen['cluster']}` ends it"
            )
        return
    from ..scheduler.node import session_dir

    here = {session_dir.id_of(folder) for folder in session_dir.alive()}
    for row in seen["nodes"]:
        print(
            f"  node     {row['node']}  {in_one_line(row['name'])}  {row['state']}"
            + (", on this machine" if row["session"] in here else "")
            + (f", {in_one_line(row['reason'], 200)}" if row["reason"] else "")
        )
        if row["state"] == "dead":
            continue
        labels = ", ".join(f"{in_one_line(name)}={in_one_line(value)}" for name, value in row["labels"].items())
        print(
            f"           free {in_resources(row['free'])}  of  {in_resources(row['total'])}; {row['queued']} tasks "
            "wait\n"
            f"           store {in_bytes(row['used_bytes'])} of {in_bytes(row['size_bytes'])}; silent for "
            f"{row['silent_s']:g} s" + (f"; {labels}" if labels else "")
        )
    print(f"  tasks    {seen['asked']} ask for places, {seen['granted']} places given")


# ---------------------------------------------------------------- ending
def heads(names: Sequence[str], every_one: bool) -> tuple[list[Cluster], list[Cluster]]:
    """The clusters that `stop` is to end, and those that it leaves, of those whose head is on this machine.

    A state folder is common to all sessions of a user, and the end of a head is that of nodes on other machines. So
    without names it ends the heads alone that were started from this folder of sessions, unless it is to end every one.
    """
    from ..scheduler.cluster.net import keys
    from ..scheduler.node import session_dir

    with failures():
        known, here = [cluster for cluster in keys.known() if cluster.has_head], session_dir.runtime_root()
        if names:
            return [cluster for cluster in known if every_one or cluster.name in names], []
        ours = [cluster for cluster in known if every_one or cluster.started_from in ("", here)]
        return ours, [cluster for cluster in known if cluster not in ours]


def in_words(cluster: Cluster) -> str:
    """A cluster whose head is here, by its name, its head, and its nodes."""
    from ..scheduler.cluster.net import client

    pid = cluster.head_pid()
    if pid is None:
        return f"cluster {cluster.name} (head at {cluster.address}, which does not run)"
    try:
        with client.talk(cluster, STATUS_TIMEOUT_S) as head:
            nodes = [in_one_line(row.member.called) for row in head.status().nodes if row.state != "dead"]
        there = (
            f" with {len(nodes)} node{'s' * (len(nodes) != 1)}: {', '.join(sorted(nodes))}"
            if nodes
            else " without nodes"
        )
    except (client.ClusterError, OSError):
        there = ", which does not answer"
    return f"cluster {cluster.name} (head at {cluster.address}, process {pid}{there})"


def tell_left(clusters: Sequence[Cluster]) -> None:
    """Say which clusters `stop` has left, and how they are ended."""
    for cluster in clusters:
        print(
            f"{in_words(cluster)} goes on: its head was started from another folder for sessions, "
            f"{cluster.started_from}. `cellmesh stop {cluster.name}` ends it and its nodes, `cellmesh stop --head` "
            "every head of yours on this machine"
        )


def end(clusters: Sequence[Cluster], by_force: bool = False) -> None:
    """End clusters whose head is on this machine; by force without asking it."""
    with failures():
        for cluster in clusters:
            _end(cluster, by_force)


def _end(cluster: Cluster, by_force: bool) -> None:
    from ..scheduler.cluster.net import client

    pid = cluster.head_pid()
    if pid is not None:
        pidfd = os.pidfd_open(pid)
        try:
            if not by_force:
                with client.talk(cluster, END_TIMEOUT_S) as head:
                    head.end(f"cellmesh stop on {client.hostname()}")
        except client.ClusterError as error:
            print(f"cluster {cluster.name}: {error}; its head is killed", file=sys.stderr)
        if by_force or not _has_ended(pidfd):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            _has_ended(pidfd)
        os.close(pidfd)
    cluster.forget()
    print(f"cluster {cluster.name} has ended")


def end_node(folder: str) -> None:
    """Have a session leave its cluster and end, if it takes part in one; the cluster need not wait for its silence."""
    from ..scheduler.node import session_dir

    if not session_dir.cluster_of(folder)[0]:
        return
    with scheduler_of(session_dir.id_of(folder)) as pidfd:
        if pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
            _has_ended(pidfd)


@contextmanager
def scheduler_of(session: str) -> Iterator[int | None]:
    """A descriptor of a session's local scheduler; None: there is none."""
    from ..scheduler.system import processes

    for pid in processes.session_processes(session):
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if (
                processes.name_of(pid) == "cellmesh-sched"
            ):  # that of the descriptor: no other has its number while it has not ended
                yield pidfd
                return
        finally:
            os.close(pidfd)
    yield None


def _has_ended(pidfd: int) -> bool:
    import select

    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(END_TIMEOUT_S * 1000))
