"""Refs in pickles that others make: by `pickle` or cloudpickle, for a queue, another library's processes, a file.

Such a pickle names the object and does not hold it: nobody could say until when, as a pickle may be loaded twice or
never, or be made to be hashed. What is loaded is a ref like any other, and holds the object. In what cellmesh pickles
itself, values, arguments and code, refs are counted and hold on.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import exceptions
from .session.current import current, forked_error, process

if TYPE_CHECKING:
    from .objstore._core import Ref

HINT = (
    "A pickle that cellmesh has not made itself only names what a ref stands for. Pass refs and handles as arguments, "
    "results or by put() to have them hold on"
)


def reduced(ref: Ref[Any]) -> tuple[Any, ...]:
    """What pickle makes of a ref.

    Raises
    ------
    SessionClosedError
        Its session has ended.
    """
    of = next(
        (of for of in (process.session, *process.parents) if of is not None and of.client is ref.client),
        None,
    )
    if of is None:
        raise exceptions.SessionClosedError(
            "a ref that belongs to a session that has been shut down cannot be pickled: its object is gone"
        )
    return load, (of.node.session_dir, ref._slot, ref._generation)


def load(session_dir: str, slot: int, generation: int) -> Ref[Any]:
    """The ref that a pickle names.

    Raises
    ------
    NotInitializedError
        No session runs in this process.
    SessionError
        It runs another session, or was forked from one that has the ref.
    ObjectLostError
        Nobody has held the object since.
    """
    of, shown = process.session, f"a pickled ObjectRef (object {slot} of the session in {session_dir})"
    if of is None and process.is_forked:
        raise forked_error()
    if of is None:
        from .scheduler.ipc.node_socket import SOCKET_NAME

        raise exceptions.NotInitializedError(
            f"{shown} cannot be loaded, because no session runs in this process: join that one first, "
            f"cellmesh.init({os.path.join(session_dir, SOCKET_NAME)!r})"
        )
    if of.node.session_dir != session_dir:
        raise exceptions.SessionError(
            f"{shown} cannot be loaded, because the session of this process is another one, {of.node.session_dir}. "
            f"{HINT}"
        )
    ref = current().client.find_ref(slot, generation)
    if ref is None:
        raise exceptions.ObjectLostError(
            f"{shown} cannot be loaded, because its object has been freed: no ref to it was left. {HINT}, or keep "
            "the ref until the pickle has been loaded"
        )
    return ref
