"""The texts of cards in the reader's language, which the front end names in its `hello`; a kernel does not know it.

The catalogues are the panel's, and so are the rules: whole phrases with numbered gaps. A card that no front end of
cellmesh shows (in terminals, other editors, exported notebooks) is in English.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files

LANGUAGE = re.compile(r"[a-z]{2,3}", re.IGNORECASE)


class Words:
    """How one language says things.

    Parameters
    ----------
    catalogue : dict
        For each phrase its forms, as JupyterLab's catalogues have them; without it English.
    """

    def __init__(self, catalogue: dict[str, list[str]] | None = None) -> None:
        self._catalogue = catalogue or {}

    def say(self, text: str, *args: object) -> str:
        """A text; %1, %2 … are what follows it."""
        return _fill(self._catalogue.get(text, [text])[0], args)

    def count(self, one: str, many: str, n: int) -> str:
        """A text that counts: %2 is the number."""
        forms = self._catalogue.get(one, [one, many])
        return _fill(forms[0] if n == 1 else forms[-1], (n, f"{n:,}"))


def _fill(text: str, args: tuple[object, ...]) -> str:
    return re.sub(r"%(\d)", lambda gap: str(args[int(gap[1]) - 1]), text)


ENGLISH = Words()
_readers = ENGLISH


def readers() -> Words:
    """The words of the front end that has said its language last."""
    return _readers


def speak(language: str) -> None:
    """A front end has said in which language it is shown ("de_DE", "ja"); what is not there is English."""
    global _readers
    _readers = Words(catalogue_of(language))


def catalogue_of(language: str) -> dict[str, list[str]]:
    """The catalogue of a language; empty if there is none."""
    asked = LANGUAGE.match(language)
    if asked is None:
        return {}
    for folder in (files("cellmesh") / "locale").iterdir():
        if folder.name.partition("_")[0] == asked[0].lower():
            catalogue: dict[str, list[str]] = json.loads((folder / "LC_MESSAGES" / "cellmesh.json").read_text("utf-8"))
            return catalogue
    return {}
