"""What lives in the user's kernel: magics, the analysis of cells, output, the displays of futures, the panel's other end.

`%load_ext cellmesh` must be quick, and workers import single modules from here: this package imports nothing by itself.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext cellmesh`."""
    from .magics import load_ipython_extension as load
    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """`%unload_ext cellmesh`."""
    from .magics import unload_ipython_extension as unload
    unload(shell)
