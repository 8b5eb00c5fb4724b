"""Writes docs/magics.md from the definitions that `%%remote?` and completion use.

python docs/tools/magics_page.py            # cellmesh must be importable
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from cellmesh.kernel_ext.magics import arguments
from cellmesh.kernel_ext.magics.extension import CellmeshMagics

PAGE = Path(__file__).resolve().parents[2] / "docs" / "magics.md"
HEAD = """# The magics

`%load_ext cellmesh` makes these available. This page is made by `docs/tools/magics_page.py` from what `%%remote?`
shows; the flags complete with the tab key, and a mistake in them is a sentence, not a traceback.
"""


def page() -> str:
    """The whole page."""
    table = "\n".join(
        [
            "| magic | what it does |",
            "| --- | --- |",
            *(f"| [`{magic.name}`](#{magic.name.strip('%')}) | {magic.summary} |" for magic in arguments.ALL),
        ]
    )
    settings = "\n".join(
        [
            "## Settings",
            "",
            "| setting | default | what it does |",
            "| --- | --- | --- |",
            *(
                f"| `%config CellmeshMagics.{name} = ...` | `{trait.default_value}` | {trait.help} |"
                for name, trait in sorted(CellmeshMagics.class_own_traits(config=True).items())
            ),
        ]
    )
    return "\n".join([HEAD, table, "", *map(section, arguments.ALL), settings, ""])


def section(magic: arguments.Magic) -> str:
    """One magic."""
    parts = [f"## {magic.name}", magic.summary, textwrap.indent(magic.usage(), "    ")]
    if magic.flags:
        rows = [
            f"| `{flag.name}{f' {flag.metavar}' if flag.metavar else ''}` | {_cell(flag.text)} |"
            for flag in magic.flags
        ]
        parts.append("\n".join(["| argument | what it means |", "| --- | --- |", *rows]))
    if magic.details.strip():
        parts.append(textwrap.dedent(magic.details).strip("\n"))
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
