"""A small key-value store for all processes of a session, and in a cluster for all machines.

    from cellmesh.util import kv

    kv.put("best", json.dumps({"lr": 0.1}))
    kv.get("best")                                   # from any task, actor or driver
    while not kv.compare_and_set("n", old := kv.get("n"), str(int(old or 0) + 1)):
        pass                                         # somebody else was quicker

For what is small and has a name: settings, the best so far, who is in charge. On one machine it lives as long as the
session; in a cluster it is one store, lives as long as the cluster, through restarts of the head, and can be seen by
all who take part. Values are str or bytes, of at most 1,000,000 bytes; large ones belong into the object store. In a
cluster a call takes about a millisecond or, where it changes something, as long as the head's disk.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar, overload

from ..scheduler.ipc.messages import MAX_NAME_CHARS
from ..session.current import current

MAX_VALUE_BYTES = 1_000_000
TEXT, BYTES = b"s", b"b"  # the first byte of what is stored: which of the two the value was
T = TypeVar("T")


def put(key: str, value: str | bytes, *, overwrite: bool = True, namespace: str = "") -> bool:
    """Store a value under a key.

    Parameters
    ----------
    key : str
        Of 1 to 256 characters.
    value : str or bytes
    overwrite : bool
        Whether to replace what is there.
    namespace : str
        Keys of different namespaces have nothing to do with each other. Of at most 256 characters.

    Returns
    -------
    bool
        Whether the value is there now; False: there was one, and `overwrite` is False.

    Raises
    ------
    TypeError, ValueError
        Of the wrong type, or too long.
    StoreLimitError
        The store has no room for it.
    ClusterError
        The head of the cluster does not answer; it is not known whether the value is there.
    """
    return bool(_perform("put" if overwrite else "claim", _named(key, namespace), _encoded(value, "value"))[0])


@overload
def get(key: str, default: None = None, *, namespace: str = "") -> str | bytes | None: ...
@overload
def get(key: str, default: T, *, namespace: str = "") -> str | bytes | T: ...


def get(key: str, default: Any = None, *, namespace: str = "") -> Any:
    """The value under a key, `default` if there is none. Raises ClusterError if the cluster's head does not answer."""
    done, stored, *_ = _perform("get", _named(key, namespace))
    if not done:
        return default
    return stored[1:].decode() if stored[:1] == TEXT else stored[1:]


def exists(key: str, *, namespace: str = "") -> bool:
    """Whether there is a value under a key."""
    return bool(_perform("get", _named(key, namespace))[0])


def delete(key: str, *, namespace: str = "") -> bool:
    """Remove a key; whether there was one."""
    return bool(_perform("delete", _named(key, namespace))[0])


def compare_and_set(key: str, expected: str | bytes | None, value: str | bytes, *, namespace: str = "") -> bool:
    """Store a value if what is there is still `expected`; None: if nothing is. Nobody can come in between.

    Returns
    -------
    bool
        Whether it was so. What is there otherwise is for `get`. Text and its bytes are not the same.
    """
    name, new = _named(key, namespace), _encoded(value, "value")
    if expected is None:
        return bool(_perform("claim", name, new)[0])
    return bool(_perform("swap", name, new, _encoded(expected, "expected"))[0])


def keys(prefix: str = "", *, namespace: str = "") -> list[str]:
    """The keys that begin with `prefix`, in order.

    Raises
    ------
    ValueError
        There are more than fit into one answer, 10,000 or a MiB: ask for a longer prefix.
    """
    _, _, more, found = _perform("keys", _named(prefix, namespace, may_be_empty=True).removesuffix('"]'))
    if more:
        raise ValueError(
            f"more keys begin with {prefix!r} than the {len(found):,} that fit into one answer: ask for a longer prefix"
        )
    return sorted(json.loads(name)[1] for name in found)


def _named(key: str, namespace: str, may_be_empty: bool = False) -> str:
    for what, text in (("key", key), ("namespace", namespace)):
        if not isinstance(text, str):
            raise TypeError(f"{what}={text!r}: must be a str, not {type(text).__name__}")
        if len(text) > MAX_NAME_CHARS:
            raise ValueError(
                f"{what} {text[:50]!r}... has {len(text):,} characters, and at most {MAX_NAME_CHARS} are "
                "allowed: put what is long into the value"
            )
    if not key and not may_be_empty:
        raise ValueError("key='': a key has at least one character")
    return json.dumps([namespace, key])  # ASCII, and a prefix of the key is a prefix of it


def _encoded(value: str | bytes, what: str) -> bytes:
    if not isinstance(value, str | bytes):
        raise TypeError(
            f"{what}={_shown(value)}: must be str or bytes, not {type(value).__name__}. json.dumps() makes "
            "text of numbers, lists and dicts; what is large or has no text belongs into the object store, "
            "cellmesh.put(), or into an actor"
        )
    data = value if isinstance(value, bytes) else value.encode()
    if len(data) > MAX_VALUE_BYTES:
        raise ValueError(
            f"{what} of {len(data):,} bytes: at most {MAX_VALUE_BYTES:,} fit. Large values belong into "
            "the object store, cellmesh.put(), or into a file that all machines can read, "
            "whose path fits here"
        )
    return (TEXT if isinstance(value, str) else BYTES) + data


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _perform(operation: str, key: str, value: bytes = b"", expected: bytes = b"") -> tuple[bool, bytes, bool, Any]:
    of = current()
    if not of.asks_agent and not of.has_left_cluster:
        from ..session.kv_file import perform

        return perform(of.node.session_dir, operation, key, value, expected)
    from ..session.agent_client import ask

    is_same_twice = operation in ("get", "keys", "put")
    reply = ask(
        of, "the cluster's key-value store", "store", "kv", operation, key, value, expected, may_repeat=is_same_twice
    )
    _, done, found, more, names, _ = reply
    return done, found, more, names
