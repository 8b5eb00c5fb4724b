"""A pytest plugin for others' test suites: what fails of one on our adapter is listed, each with its reason.

A line that begins with a space is the id of a test, or what ids begin with and a `*`; the line above that does not is
the reason why these fail. What fails must be listed and what is listed must fail, so a list tells how it is. Of a
reason that begins with "Not run:" (what hangs, what tests no code of ours) nothing runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

NOT_RUN = "Not run:"


def read(text: str) -> dict[str, str]:
    """The reason of each id in a list. Lines that begin with `#` are comments."""
    reasons: dict[str, str] = {}
    reason = ""
    for n, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line[0].isspace():
            reason = line.strip()
        elif not reason:
            raise ValueError(f"line {n}: {line.strip()} has no reason; write one above it, at the beginning of a line")
        elif line.strip() in reasons:
            raise ValueError(f"line {n}: {line.strip()} is listed twice")
        else:
            reasons[line.strip()] = reason
    return reasons


def matching(test: str, reasons: dict[str, str]) -> str | None:
    """The id of the list under which a test is."""
    if test in reasons:
        return test
    return next((listed for listed in reasons if listed.endswith("*") and test.startswith(listed[:-1])), None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--expected", type=Path, metavar="FILE", help="the list of tests that fail, with reasons")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is expected to fail. What is listed and was not collected is an error if the whole suite was."""
    path: Path = config.getoption("--expected")
    reasons = read(path.read_text())
    unseen = set(reasons)
    for item in items:
        listed = matching(item.nodeid, reasons)
        if listed is not None:
            unseen.discard(listed)
            reason = reasons[listed]
            item.add_marker(
                pytest.mark.xfail(reason=reason, strict=True, run=not reason.startswith(NOT_RUN)), append=False
            )
    if unseen and not config.getoption("keyword") and not any("::" in argument for argument in config.args):
        raise pytest.UsageError(f"{path}: there is no such test: {', '.join(sorted(unseen))}")
