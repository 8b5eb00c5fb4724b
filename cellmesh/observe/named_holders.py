"""Which variables of other drivers hold objects: their processes are asked, and say what `holders` finds there."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..exceptions import SessionError
from ..scheduler.ipc.messages import HOLDERS_TIMEOUT_S, MAX_HELD, HoldersReply, HoldersRequest, Message
from ..scheduler.ipc.transport import ConnectionLost
from ..scheduler.sync.condition import Condition
from ..scheduler.sync.threads import ServiceThread
from ..scheduler.system.processes import LOOKER, name_of
from ..text import in_one_line
from .holders import Places, holders

if TYPE_CHECKING:
    from ..session.session import Session

N_VISITED_MAX = 20_000  # things looked at for somebody else: some ten milliseconds of this program's time
NAMES_CHARS = 200
AGENT = "cellmesh-agent"
OBJECT_ID = re.compile("[0-9a-f]{32}")
_numbers = itertools.count(1)


def hear(of: Session, message: HoldersRequest) -> None:
    """In a driver: somebody asks. Called in the link's thread, which does not do this itself."""
    if message.pid != os.getpid():
        ServiceThread(partial(_answer, of, message), "cellmesh-holders").start()


def _answer(of: Session, message: HoldersRequest) -> None:
    try:
        names = holders(Places(list(_objects(of, message.ids))), N_VISITED_MAX)
        of.node.link.send(
            HoldersReply(
                message.request,
                os.getpid(),
                {id: in_one_line(", ".join(names[id]), NAMES_CHARS) for id in message.ids if id in names},
            )
        )
    except (SessionError, ConnectionLost):  # it has just ended
        return


def _objects(of: Session, ids: Iterable[str]) -> Iterable[dict[str, Any]]:
    """What the client tells of those that are there still."""
    for id in filter(OBJECT_ID.fullmatch, ids):
        yield from (o for o in of.client.objects(1, 0, int(id[-16:-8], 16)) if o["id"] == id)


def of_others(of: Session, ids: list[str]) -> dict[str, list[str]]:
    """By an object's id, what the session's other drivers call it: "images of pid 7". Who does not answer in time is
    left out.
    """
    awaited = {
        row["pid"]
        for row in of.client.clients()
        if row["role"] == "driver" and row["pid"] != os.getpid() and name_of(row["pid"]) not in ("", LOOKER, AGENT)
    }
    if not awaited or not ids:
        return {}
    number, replies, answered = next(_numbers), list[HoldersReply](), Condition()

    def listen(message: Message) -> None:
        if isinstance(message, HoldersReply) and message.request == number:
            replies.append(message)
            answered.notify_all()

    of.node.link.add_listener(listen)
    try:
        of.node.link.send(HoldersRequest(number, os.getpid(), ids[:MAX_HELD]))
        answered.wait_for(lambda: awaited <= {reply.pid for reply in replies}, HOLDERS_TIMEOUT_S)
    finally:
        of.node.link.remove_listener(listen)
    found: dict[str, list[str]] = {}
    for reply in sorted(replies, key=lambda reply: reply.pid):
        for id, names in reply.names.items():
            found.setdefault(id, []).append(f"{names} of pid {reply.pid}")
    return found
