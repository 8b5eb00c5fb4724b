"""A magic's line: how its flags are parsed, and the documentation that `?` shows. `arguments` lists the flags. Pure."""

from __future__ import annotations

import argparse
import shlex
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from IPython.core.error import UsageError

from ...submit.flags import argument_type
from ...text import closest


@dataclass(frozen=True)
class Flag:
    """One flag or positional argument of a magic.

    Attributes
    ----------
    name : str
        ``--cpus``, or ``names`` for a positional one.
    help : str
    metavar : str
        What stands for the value in the documentation; ``""`` for a flag without value.
    parse : callable
        From the text to the value; its ValueError's text is what the user reads.
    many : bool
        Positional: takes any number.
    holds : frozenset of {"futures", "actors"}
        What variables hold whose names it takes; for completion.
    short : str
        Another name of it.
    means : tuple of str and object, optional
        Of a flag that stands for another one with a value: the key of that one, the value.
    """

    name: str
    help: str
    metavar: str = ""
    parse: Callable[[str], Any] = str
    many: bool = False
    holds: frozenset[str] = frozenset()
    short: str = ""
    means: tuple[str, Any] | None = None

    @property
    def key(self) -> str:
        return self.means[0] if self.means else self.name.lstrip("-").replace("-", "_")

    @property
    def text(self) -> str:
        """What the documentation says of it."""
        return f"{self.help} Also {self.short}." if self.short else self.help

    @property
    def spellings(self) -> tuple[str, ...]:
        return (self.name, self.short) if self.short else (self.name,)


def _words(line: str) -> list[str]:
    return shlex.split(line, comments=True)


@dataclass(frozen=True)
class Magic:
    """A magic's command line, and what its documentation says.

    Attributes
    ----------
    split : callable
        A line's words; as a shell has them unless something else is given.
    """

    name: str
    summary: str
    flags: tuple[Flag, ...] = ()
    details: str = ""
    split: Callable[[str], list[str]] = _words

    def parse(self, line: str) -> argparse.Namespace:
        """Parse what stands behind the magic's name.

        Raises
        ------
        UsageError
            In words for the user; IPython shows it without a traceback.
        """
        try:
            words = self._in_order(self.split(line))
        except ValueError as error:
            raise UsageError(f"{self.name}: {str(error).lower()}; {self.name}? shows how it is used") from None
        return self._parser.parse_args(words)

    def _in_order(self, words: list[str]) -> list[str]:
        """Flags first, so that what belongs to none of them may stand anywhere."""
        if not any(flag.many for flag in self.flags):
            return words
        valued = {name for flag in self.flags if flag.metavar for name in flag.spellings}
        flags, others, rest = list[str](), list[str](), iter(words)
        for word in rest:
            if not word.startswith("-"):
                others.append(word)
                continue
            flags.append(word)
            if word in valued:
                flags += [value for value in [next(rest, None)] if value is not None]
        return [*flags, *others]

    def flag_at(self, words: list[str]) -> Flag | None:
        """What a word that follows these is the value of."""
        named = {flag.name: flag for flag in self.flags}
        if words and (last := named.get(words[-1])) is not None and last.metavar:
            return last
        n_given, skip = 0, False
        for word in words:
            flag = named.get(word)
            n_given += flag is None and not skip
            skip = flag is not None and bool(flag.metavar)
        positional = [flag for flag in self.flags if not flag.name.startswith("-")]
        if positional and positional[-1].many:
            return positional[min(n_given, len(positional) - 1)]
        return positional[n_given] if n_given < len(positional) else None

    def usage(self) -> str:
        """The line, as it may be written; of several lines if it is long."""
        words = " ".join([self.name, *(_in_usage(flag) for flag in self.flags)])
        return textwrap.fill(words, 96, subsequent_indent=" " * (1 + len(self.name)), break_on_hyphens=False)

    def documentation(self) -> str:
        """What `?` shows."""
        rows = [
            f"{_in_list(flag):<22} {line}" if not number else f"{'':<22} {line}"
            for flag in self.flags
            for number, line in enumerate(textwrap.wrap(flag.text, 76))
        ]
        parts = [
            self.summary,
            textwrap.indent(self.usage(), "    "),
            "\n".join(f"    {row}" for row in rows),
            textwrap.dedent(self.details).strip("\n"),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    @cached_property
    def _parser(self) -> Parser:  # argparse makes several objects for each flag: ten times what it costs to read a line
        parser = Parser(self)
        for flag in self.flags:
            if not flag.name.startswith("-"):
                parser.add_argument(
                    flag.name,
                    nargs="*" if flag.many else "?",
                    default=[] if flag.many else None,
                    type=argument_type(flag.parse),
                )
            elif flag.metavar:
                parser.add_argument(*flag.spellings, dest=flag.key, type=argument_type(flag.parse))
            elif flag.means:
                parser.add_argument(*flag.spellings, dest=flag.key, action="store_const", const=flag.means[1])
            else:
                parser.add_argument(*flag.spellings, dest=flag.key, action="store_true")
        return parser


class Parser(argparse.ArgumentParser):
    """argparse, except that a mistake is a UsageError instead of the end of the process."""

    def __init__(self, magic: Magic) -> None:
        super().__init__(prog=magic.name, add_help=False, allow_abbrev=False)
        self._magic = magic

    def error(self, message: str) -> NoReturn:
        hint = ""
        if message.startswith("unrecognized arguments: "):
            wrong = message.removeprefix("unrecognized arguments: ").split()[0]
            close = closest(wrong, [name for flag in self._magic.flags for name in flag.spellings])
            message = f"there is no {wrong}"
            hint = f"; did you mean {close}?" if close else ""
        raise UsageError(f"{self._magic.name}: {message}{hint} ({self._magic.name}? shows how it is used)")


def _in_usage(flag: Flag) -> str:
    if not flag.name.startswith("-"):
        return f"[{flag.name} ...]" if flag.many else f"[{flag.name}]"
    return f"[{flag.name} {flag.metavar}]" if flag.metavar else f"[{flag.name}]"


def _in_list(flag: Flag) -> str:
    return f"{flag.name} {flag.metavar}".rstrip()
