"""What silences a tool says why on its own line, so that whoever meets it can tell whether the reason still holds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from support.repository import ROOT, files

SUFFIXES = (".py", ".pyi", ".c", ".h", ".ts", ".tsx", ".mjs", ".css", ".html")
# Programs whose text is the test.
ELSEWHERE = ("tests/typing/", "tests/compat/corpus/")
SILENCED = re.compile(
    r"(?:#|//|/\*|<!--)\s*(?P<what>"
    r"(?:ruff: ?)?noqa(?:: ?[A-Z]+\d+(?:, ?[A-Z]+\d+)*)?"
    r"|(?:type|pyright): ?ignore(?:\[[^]]*\])?"
    r"|eslint-disable(?:-next-line|-line)?(?: (?!--)@?[\w/-]+(?:, ?@?[\w/-]+)*)?"
    r"|@ts-(?:ignore|expect-error|nocheck)|prettier-ignore|clang-format off)(?P<rest>.*)"
)


def without_reason(name: str, text: str) -> Iterator[str]:
    """Lines that name what is silenced and why nobody knows."""
    for number, line in enumerate(text.splitlines(), 1):
        if (found := SILENCED.search(line)) and len(re.findall(r"\w+", found["rest"])) < 2:
            yield f"{name}:{number}: `{found['what'].strip()}` without a reason; write it behind, (as this)"


def test_what_is_silenced_has_a_reason() -> None:
    names = [name for name in files() if name.endswith(SUFFIXES) and not name.startswith(ELSEWHERE)]
    texts = {name: (ROOT / name).read_text() for name in names if name != "tests/project/test_suppressions.py"}
    told = [line for name, text in texts.items() for line in without_reason(name, text)]
    assert not told, "\n".join(told)


def test_each_form_without_a_reason_is_named_with_its_line() -> None:
    bare = (
        "import x  # noqa: F401",
        "y = 1  # noqa",
        "y: int = 'a'  # type: ignore[assignment]",
        "y.z  # pyright: ignore[reportPrivateUsage]",
        "// eslint-disable-next-line no-console",
        "// @ts-expect-error",
        "// prettier-ignore",
        "/* clang-format off */",
    )
    for line in bare:
        (told,) = without_reason("a/b.py", f"\n{line}")
        assert told.startswith("a/b.py:2: `")
    assert not list(without_reason("a.py", "import x  # noqa: F401 (its import is what is tested)"))
    assert not list(without_reason("a.c", "/* clang-format off */ /* a column for each field */"))
    assert not list(without_reason("a.ts", "// eslint-disable-next-line no-console -- a program of the terminal"))
