"""What runs in the user's kernel: the magics, cells as tasks, output, cards of futures, the kernel's end of the panel;
never a copy of the API's logic.

`%load_ext cellmesh` must be quick, and workers import single modules from here. So this package imports nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext cellmesh`."""
    from .magics.extension import load_ipython_extension as load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """`%unload_ext cellmesh`."""
    from .magics.extension import unload_ipython_extension as unload

    unload(shell)
