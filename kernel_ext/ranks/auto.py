"""`%ranks auto`: plain cells run in every rank, as if `%%ranks` stood above them, until `%ranks here`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..cells.registry import registry

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

HERE = ("%", "!", "?")  # how a line begins that is IPython's


def is_plain(lines: Sequence[str]) -> bool:
    """Whether a cell is one of Python: magics, shell commands and questions (`x?`) are not."""
    code = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not code or code[0].startswith("%%"):
        return False
    return not all(line.startswith(HERE) or line.endswith("?") for line in code)


class Auto:
    """Whether plain cells run in the ranks.

    Parameters
    ----------
    shell : InteractiveShell

    Attributes
    ----------
    is_on : bool
    has_side_effects : bool
        For IPython, which leaves such a transformer out when it asks whether the text in a terminal is complete.
    """

    has_side_effects = True

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell: Any = shell  # of a terminal or of a kernel, which have each something of their own
        self._prompts: Any = None  # what a terminal had before
        self.is_on = False

    def begin(self, where: str) -> None:
        """From the next cell on. `where`: the ranks, in words, for the prompt of a terminal."""
        if self.is_on:
            return
        self.is_on = True
        self._shell.input_transformers_cleanup.insert(0, self)
        if hasattr(self._shell, "prompts"):  # of a terminal; those of a notebook are its front end's
            from .prompt import RanksPrompts

            self._prompts, self._shell.prompts = self._shell.prompts, RanksPrompts(self._shell, where)

    def end(self) -> None:
        """Plain cells run in the notebook again."""
        if not self.is_on:
            return
        self.is_on = False
        self._shell.input_transformers_cleanup.remove(self)
        if self._prompts is not None:
            self._shell.prompts, self._prompts = self._prompts, None

    def __call__(self, lines: list[str]) -> list[str]:
        """Transform a cell: IPython calls this before each."""
        return ["%%ranks\n", *lines] if self._is_of_the_user() and is_plain(lines) else lines

    def _is_of_the_user(self) -> bool:
        """Not what a cell that runs has IPython run (%timeit), nor what a front end asks of the kernel by itself."""
        if registry.is_running(registry.current.number):
            return False
        kernel = getattr(self._shell, "kernel", None)
        if kernel is None:
            return True
        request = kernel.get_parent("shell")
        content = request.get("content", {})
        return (
            request.get("header", {}).get("msg_type") == "execute_request"
            and not content.get("silent")
            and bool(content.get("store_history", True))
        )
