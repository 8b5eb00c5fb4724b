"""Catalogues of the panel's texts: complete, without left-overs, with the same gaps, in the form that JupyterLab
reads.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cellmesh.kernel_ext.cards.html import STATES

ROOT = Path(__file__).resolve().parents[3]
QUOTED = r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\""
LANGUAGES = {"de_DE": 2, "ja_JP": 1}  # and how many forms of a plural


def texts() -> tuple[set[str], dict[str, str]]:
    """What the sources say: phrases, and those that count by their form for one."""
    phrases: set[str] = set()
    counting: dict[str, str] = {}
    for path in (ROOT / "labextension/src").rglob("*.ts*"):
        if "__tests__" in path.parts or path.name == "translate.ts" or path.name.endswith(".d.ts"):
            continue
        source = path.read_text()
        phrases.update(unquoted(*m.groups()) for m in re.finditer(rf"\b__\(\s*(?:{QUOTED})", source))
        for m in re.finditer(rf"\b_n\(\s*(?:{QUOTED}),\s*(?:{QUOTED})", source):
            counting[unquoted(*m.groups()[:2])] = unquoted(*m.groups()[2:])
        assert len(re.findall(r"\b_(?:_|n)\(", source)) == len(re.findall(rf"\b_(?:_|n)\(\s*(?:{QUOTED})", source)), (
            f"{path.name}: a text that is no literal cannot be translated"
        )
    of_cards = (
        "".join((ROOT / f"kernel_ext/cards/{name}_html.py").read_text() for name in ("actor", "experiment", "learning"))
        + (ROOT / "kernel_ext/cards/html.py").read_text()
    )
    said = [found[2] for found in re.finditer(r"""words\.say\(\s*(["'])(.+?)\1""", of_cards)]
    assert len(said) + 2 == len(re.findall(r"words\.say\(", of_cards)), (
        "but for the states, a text that is no literal cannot be translated"
    )
    phrases.update(said, (state for _, state, _ in STATES.values()))
    counting.update(re.findall(r'words\.count\(\s*"([^"]+)",\s*"([^"]+)"', of_cards))
    shared = (ROOT / "labextension/src/i18n/translate.ts").read_text()
    counting.update((m[1], m[2]) for m in re.finditer(r"return _n\(\s*'([^']*)',\s*'([^']*)'", shared))
    return phrases, counting


def unquoted(single: str | None, double: str | None) -> str:
    return re.sub(r"\\(.)", r"\1", single or double or "")


def gaps(text: str) -> set[str]:
    return set(re.findall(r"%\d", text))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_translated_with_its_gaps(language: str) -> None:
    phrases, counting = texts()
    catalogue = json.loads((ROOT / f"cellmesh/locale/{language}/LC_MESSAGES/cellmesh.json").read_text())
    head = catalogue.pop("")
    assert head["domain"] == "cellmesh" and head["language"] == language.replace("_", "-")
    assert head["plural_forms"].startswith(f"nplurals={LANGUAGES[language]};")
    known = phrases | set(counting)
    assert set(catalogue) == known, (
        f"missing: {sorted(known - set(catalogue))}; left over: {sorted(set(catalogue) - known)}"
    )
    for text, translated in catalogue.items():
        # JupyterLab takes a list of one for a phrase, of more for a plural, whatever the number of forms.
        assert len(translated) == (2 if text in counting else 1) and all(translated), text
        wanted = gaps(text) | gaps(counting.get(text, ""))
        for form in translated:
            assert gaps(form) <= wanted and (gaps(form) == wanted or text in counting), (text, form)
    assert not set(phrases) & set(counting)


def test_the_settings_are_translated() -> None:
    """JupyterLab's server knows only its own catalogues, so the plugin puts its words in place."""
    schema = json.loads((ROOT / "labextension/schema/panel.json").read_text())
    shown = {
        schema["description"],
        *(setting[key] for setting in schema["properties"].values() for key in ("title", "description")),
    }
    assert schema["jupyter.lab.transform"] and shown <= texts()[0]


def test_jupyterlab_finds_the_catalogues() -> None:
    assert '[project.entry-points."jupyterlab.locale"]\ncellmesh = "cellmesh"' in (ROOT / "pyproject.toml").read_text()
