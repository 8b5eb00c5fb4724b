"""What a task waits for that has not begun, in words; and a warning to the user when it might wait for ever."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..text import in_limits, in_resources, next_attempt, warn_user
from .current import current_or_none
from .placement_labels import label_of

if TYPE_CHECKING:
    from ..objstore._core import Ref

N_HOLDERS = 5  # named when a task waits for resources


def tell_why(ref: Ref) -> None:
    """The caller has been waiting for seconds: if it might for ever, say for what resources, and who has them."""
    why = ref.client.why(ref)
    of = current_or_none()
    if of is None or of.is_worker:
        if of is not None and (name := _own_call(ref)):
            warn_user(
                f"this waits by get() or wait() for {name!r}, a call of this actor itself, which runs one at a time: "
                "it will wait for ever. "
                "Call the method directly, self.method(...), or give the actor max_concurrency=2",
                RuntimeWarning,
            )
        return
    if why is None and (lacks := _lacks_process(ref)):
        of.tell("tasks_wait", lacks)
    if why is None or not why["stuck"]:
        return
    if of.in_cluster and any(amount > why["total"].get(name, 0.0) for name, amount in why["wanted"].items()):
        return  # nothing that ends on this machine would help; where it can be the head says
    what, until = repr(why["name"]), "an actor ends"
    if why["unplaced"]:
        what = label_of(why["unplaced"])
    if why["reserved"]:
        until = "a placement group is removed or an actor ends"
    of.tell("tasks_wait", f"{what} waits for {in_resources(why['wanted'])}, and will until {until}: {who_has(why)}")


def _lacks_process(ref: Ref) -> str:
    """What a task or call waits for that nobody can begin because every process there may be is taken; "" if it waits
    for something else.
    """
    from ..scheduler.local_scheduler.policy import MAX_WORKERS

    client, info = ref.client, ref.client.info(ref)
    workers = [row for row in client.clients() if row["role"] == "worker"]
    if len(workers) < MAX_WORKERS or info["state"] not in ("queued", "retrying") or info["sent"]:
        return ""
    if client.idle_workers():
        return ""
    beginning = {row["index"] for row in client.actors() if row["state"] in ("pending", "restarting")}
    if info["actor"] >= 0 and info["actor"] not in beginning:
        return ""
    n_actors = sum(row["actor"] >= 0 for row in workers)
    others = f" {len(beginning)} actors wait to begin." if len(beginning) > 1 else ""
    return (
        f"{info['name']!r} waits for a process: {len(workers)} run, as many as there may be, and {n_actors} of them "
        f"are actors.{others} Each has a process "
        "of its own until it ends: cellmesh.kill(actor), or let go of its handles; an actor with async methods serves "
        "many calls in one process"
    )


def _own_call(ref: Ref) -> str:
    """The name of a call that the caller waits for, if both are of one actor, so that it can only run afterwards; else
    "".
    """
    actor, info = ref.client.actor_info(), ref.client.info(ref)
    is_in_call = (
        actor is not None and actor["max_concurrency"] == 1 and threading.current_thread() is threading.main_thread()
    )
    is_behind = actor is not None and is_in_call and info["actor"] == actor["index"]
    return info["name"] if is_behind and info["state"] in ("waiting", "queued") else ""


def waits_for(why: Mapping[str, Any]) -> str:
    """What a ready task waits for (`Client.why`)."""
    return in_limits(why, why["name"]) or f"{in_resources(why['wanted'])}: {who_has(why)}"


def who_has(why: Mapping[str, Any]) -> str:
    """Where the resources are that a task waits for (`Client.why`)."""
    who = ", ".join(f"{each.name} (pid {each.pid}) {in_resources(each.amounts)}" for each in why["holders"][:N_HOLDERS])
    more = len(why["holders"]) - N_HOLDERS
    held = f"; in use by {who}{f' and {more} more' if more > 0 else ''}" if who else ""
    if why["reserved"]:
        held += f"; reserved by placement groups {in_resources(why['reserved'])}"
    return f"of {in_resources(why['total'])}, {in_resources(why['available'])} is free{held}"


def what_it_waits_for(ref: Ref) -> str:
    """The result that a ref stands for, and why it is not there yet."""
    info = ref.client.info(ref)
    what = f"a result of {info['name']!r}" if info["name"] else ref.hex()
    why = ref.client.why(ref) if info["state"] in ("queued", "retrying") else None
    limits = in_limits(why, why["name"]) if why is not None else ""
    queued = f"waits: {limits}" if limits else "waits for a worker or for resources"
    if info["sent"]:
        queued = "was sent to another machine"
    states = {
        "waiting": "waits for its arguments",
        "queued": queued,
        "retrying": next_attempt(info) if info["waits_s"] else f"{queued}, to run again",
        "running": f"{'waits in get() or wait()' if info['blocked'] else 'runs'} in pid {info['pid']}"
        if info["pid"]
        else "runs on another machine",
    }
    return f"{what}, which {states.get(info['state'], info['state'])}"
