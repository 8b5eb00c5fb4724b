"""Under which cell stands what this thread writes to the kernel's own stdout and stderr, or displays."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any


@contextmanager
def under(parent: dict[str, Any]) -> Iterator[None]:
    """What the calling thread writes inside stands under the cell with that parent message, also once it has ended.

    An empty parent: where it would anyway.
    """
    from IPython.core.getipython import get_ipython

    with ExitStack() as undone:
        for place in (sys.stdout, sys.stderr, getattr(get_ipython(), "display_pub", None)) if parent else ():
            # `set_thread_parent`, which uses it, is of ipykernel 7. What is none of the kernel's has no parent.
            variable = getattr(place, "_parent_header", None)
            if not isinstance(variable, ContextVar):
                continue
            undone.callback(variable.reset, variable.set(parent["header"]))
        yield
