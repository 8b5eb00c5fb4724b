"""The object store: values in shared memory, without a process that owns them.

`cellmesh.objstore.Store` is the store on its own, without tasks; see docs/objstore.md. The core is plain C and knows nothing of
Python (core/), the extension module `_core` makes values and refs of it (binding/).
"""
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .store import Store

__all__ = ["Store"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "Store":  # late: a session has no use for it
        from .store import Store
        return Store
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
