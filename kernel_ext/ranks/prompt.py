"""The prompt of a terminal in which plain cells run in ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.terminal.prompts import Prompts
from pygments.token import Token

if TYPE_CHECKING:
    from IPython.terminal.interactiveshell import TerminalInteractiveShell


class RanksPrompts(Prompts):
    """Those that there were before, with the ranks in front.

    Parameters
    ----------
    shell : TerminalInteractiveShell
    where : str
        The ranks, in words.
    """

    def __init__(self, shell: TerminalInteractiveShell, where: str) -> None:
        super().__init__(shell)
        self._where = where
        self._before: Any = shell.prompts

    def in_prompt_tokens(self) -> list[tuple[Any, str]]:
        return [(Token.OutPrompt, f"{self._where} "), *self._before.in_prompt_tokens()]

    def continuation_prompt_tokens(self, *args: Any, **options: Any) -> list[tuple[Any, str]]:
        if not args and "width" not in options:
            args = (self._width(),)
        return self._before.continuation_prompt_tokens(*args, **options)

    def rewrite_prompt_tokens(self) -> list[tuple[Any, str]]:
        return self._before.rewrite_prompt_tokens()

    def out_prompt_tokens(self) -> list[tuple[Any, str]]:
        return self._before.out_prompt_tokens()
