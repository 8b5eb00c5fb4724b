"""Write docs/decisions/README.md, the decisions by subject, from the decisions themselves.

python docs/tools/decisions_index.py            # write the page
python docs/tools/decisions_index.py --check    # exit with 1 and say why where the page or a decision is not as it
should be
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/decisions"
PAGE = FOLDER / "README.md"
SECTIONS = ("Context", "Options", "Decision", "Consequences")
MAX_WORDS = 260

INTRODUCTION = """\
# Decisions

One file for each decision: its context, the options, what was decided, and the consequences, in at most 250 words.
Numbers are never used again and no decision is deleted; a superseded one names its successor in its status. A figure
carries its date, its machine and its command; "2-core VM" is the machine described in `benchmarks/results/`.
Measurements in full are in `benchmarks/notes/`, protocols in full in `docs/internals/`. Code cites a decision as
`(decision 43)`.

This page is made by `docs/tools/decisions_index.py`.
"""


@dataclass(frozen=True)
class Decision:
    number: int
    title: str
    status: str
    subject: str
    path: Path
    sections: tuple[str, ...]
    n_words: int


class BadDecision(Exception):
    """A file that is no decision; the message names the file and says why."""


def decision(path: Path) -> Decision:
    """One decision, read from its file."""
    text = path.read_text(encoding="utf-8")
    head, *body = re.split(r"^## (.+)$", text, flags=re.M)
    title = re.match(r"# (\d+)\. (.+)\n", head)
    fields = dict(re.findall(r"^- (\w+): (.+)$", head, flags=re.M))
    if not title:
        raise BadDecision(f"{path.name}: the first line must be '# NUMBER. Title'")
    if not path.name.startswith(f"{int(title[1]):04d}-"):
        raise BadDecision(f"{path.name}: the title's number is {title[1]}")
    if missing := [field for field in ("Status", "Subject") if field not in fields]:
        raise BadDecision(f"{path.name}: no line '- {missing[0]}: ...'")
    sections = tuple(body[::2])
    if unknown := set(sections) - set(SECTIONS):
        raise BadDecision(f"{path.name}: a section is called {unknown.pop()!r}; there are {', '.join(SECTIONS)}")
    n_words = len(" ".join(body[1::2]).split())
    if n_words > MAX_WORDS:
        raise BadDecision(
            f"{path.name}: {n_words} words; measurements go to benchmarks/notes, protocols to docs/internals"
        )
    return Decision(int(title[1]), title[2], fields["Status"], fields["Subject"], path, sections, n_words)


def decisions(folder: Path = FOLDER) -> list[Decision]:
    """All decisions, by number; a number that is missing or used twice is an error."""
    found = [decision(path) for path in sorted(folder.glob("[0-9]*.md"))]
    for expected, each in enumerate(found, start=1):
        if each.number != expected:
            raise BadDecision(f"{each.path.name}: decision {expected} is missing or there are two of one number")
    return found


def page(folder: Path = FOLDER) -> str:
    """The text of the index."""
    by_subject: dict[str, list[Decision]] = {}
    for each in decisions(folder):
        by_subject.setdefault(each.subject, []).append(each)
    parts = [INTRODUCTION]
    for subject, members in by_subject.items():
        lines = [
            f"- {d.number}. [{d.title}]({d.path.name}){'' if d.status.startswith('Accepted') else f' ({d.status})'}"
            for d in members
        ]
        parts.append(f"## {subject}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def main() -> int:
    try:
        text = page()
    except BadDecision as error:
        print(f"docs/decisions/{error}", file=sys.stderr)
        return 1
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print("docs/decisions/README.md is not current: run python docs/tools/decisions_index.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
