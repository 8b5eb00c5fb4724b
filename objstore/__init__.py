"""The object store: values in shared memory, without a process that owns them; never the start of a process.

`cellmesh.objstore.Store` is the store on its own, without tasks; see docs/objstore.md. The core is plain C and knows
nothing of Python (core/), the extension module `_core` makes values and refs of it (binding/).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._core import StoreError
    from .store import Store

__all__ = ["Store", "StoreError"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # late: a session has no use for them
        from ._core import StoreError
        from .store import Store

        return {"Store": Store, "StoreError": StoreError}[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
