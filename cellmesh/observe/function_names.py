"""Names of functions, for views of tasks: events carry only the place of the function object.

The object may be gone before its name is asked for: a function that was made remote for one call, the body of a
`%%remote` cell. So the process that exports a function remembers its name.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING

from ..exceptions import SessionError

if TYPE_CHECKING:
    from ..objstore._core import Client, Ref

N_KEPT = 10_000  # function objects of a session

_names: weakref.WeakKeyDictionary[Client, OrderedDict[tuple[int, int], tuple[str, str]]] = weakref.WeakKeyDictionary()


def remember(function: Ref, kind: str, name: str) -> None:
    """This function object has just been put. `kind`: "function", "actor" or "method"."""
    names = _names.setdefault(function.client, OrderedDict())
    names[function._slot, function._generation & 0xFFFF] = kind, name
    while len(names) > N_KEPT:
        names.popitem(last=False)


def name_of(client: Client, slot: int, generation: int) -> tuple[str, str] | None:
    """(kind, name) of the function object at a place, None if nobody knows it any more.

    Parameters
    ----------
    slot, generation : int
        As in the event SUBMITTED; of the generation the lower 16 bits.
    """
    known = _names.get(client, {}).get((slot, generation))
    if known is not None:
        return known
    try:
        value = client.peek(slot, generation)
    except SessionError:  # over
        return None
    return (str(value[0]), str(value[1])) if isinstance(value, tuple) and len(value) >= 2 else None
