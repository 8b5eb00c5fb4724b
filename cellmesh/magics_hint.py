"""In an IPython session without the extension: its magics say how to load it. With and without: those of cells say
where they must stand.

For `import cellmesh`, so next to nothing is imported.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CELLS, LINES = "remote actor tune ranks", "fetch mesh futures inspect graph cancel retry tune ranks"
NAMES = (*(f"%%{name}" for name in CELLS.split()), *(f"%{name}" for name in LINES.split()))


def install(shell: Any) -> None:
    """Have a shell know the magics by name, except those that somebody else has registered.

    `%load_ext` puts the real ones in their place.
    """
    for name in NAMES:
        kind = "cell" if name.startswith("%%") else "line"
        bare = name.lstrip("%")
        if bare not in shell.magics_manager.magics[kind]:
            shell.register_magic_function(_hint(name), kind, bare)
        if (
            kind == "cell"
        ):  # below another line of its cell, and be that a comment, it is a line magic to IPython, of this name
            shell.register_magic_function(_misplaced(name), "line", f"%{bare}")


def _hint(name: str) -> Callable[..., None]:
    def magic(line: str, cell: str | None = None) -> None:
        from IPython.core.error import UsageError

        raise UsageError(
            f"{name} comes with cellmesh's extension, which is not loaded: run %load_ext cellmesh, then this "
            "cell again."
        )

    magic.__doc__ = f"{name} comes with cellmesh's extension: %load_ext cellmesh"
    return magic


def _misplaced(name: str) -> Callable[[str], None]:
    def magic(line: str) -> None:
        from IPython.core.error import UsageError

        raise UsageError(
            f"{name} must be the first line of its cell: move what stands above it, comments too, below it or into a "
            "cell of its own."
        )

    magic.__doc__ = f"{name} must be the first line of its cell."
    return magic
