"""What pickles of this session hold in another form than pickles that may go anywhere.

In a pickle of the session refs are counted, so code can be a ref to its stored copy. `making.for_others` says which
kind the calling thread makes. A module of its own: most programs that import cellmesh never load `serialization`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class _Making(threading.local):
    for_others = False  # this thread makes a pickle that may go anywhere


making = _Making()
in_worker = False  # this process runs tasks: nothing here is the user's own

# By class, what makes pickle's parts of an instance.
reducers: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
