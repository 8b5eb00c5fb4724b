"""The programs of `corpus/` print, raise and end on `compat.ray` as the record says of Ray 2.60: see `check_ray.py`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from compat import check_ray
from support.commands import forked

# What puts together what the others show one by one: the nightly rounds run it.
AT_NIGHT = ("examples/", "tutorials/", "patterns/", "utilities/")
MIGRATING = Path(__file__).resolve().parents[2] / "docs/migrating-from-ray.md"


def _forked(command: list[str], limit_s: float, folder: str) -> CompletedProcess[str]:
    return forked.run(command, os.environ, timeout=limit_s, folder=folder)


@pytest.mark.timeout(check_ray.LIMIT_S + 10)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name.startswith(AT_NIGHT) else ()) for name in check_ray.PROGRAMS],
)
def test_program(name: str) -> None:
    found = check_ray.run(check_ray.PROGRAMS[name], *check_ray.OURS, begin=_forked)
    assert check_ray.difference(check_ray.recorded()[name], found) == check_ray.expected_difference(name)


def test_the_record_has_every_program_and_no_other() -> None:
    assert sorted(check_ray.recorded()) == sorted(check_ray.PROGRAMS)


def test_differences_are_said_where_users_read() -> None:
    differences = json.loads(check_ray.DIFFERENCES.read_text())
    assert set(differences) <= set(check_ray.PROGRAMS)
    text = " ".join(MIGRATING.read_text().split())
    assert [name for name, difference in differences.items() if difference["reason"] not in text] == []
