"""Policies: how the configuration of a trial came about in population based training, step by step.

A policy is a list of rows, one for each exploit that led to the trial, as Ray writes them into `pbt_policy_*.txt`,
one a line in JSON: [trial, donor, iteration of the trial, iteration of the donor, the donor's configuration, the new
configuration].
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One exploit."""

    trial: Any
    donor: Any
    iteration: int
    donor_iteration: int
    old_config: dict[str, Any]
    new_config: dict[str, Any]


Given = str | os.PathLike[str] | Iterable[Sequence[Any]]


def given(policy: Given) -> list[Row]:
    """The rows that are given, or those of the file that is; `ValueError` as from `read` and `rows`."""
    return read(policy) if isinstance(policy, (str, os.PathLike)) else rows(policy)


def read(path: str | os.PathLike[str]) -> list[Row]:
    """The rows of a policy file.

    Raises
    ------
    ValueError
        There is no such file, or a line of it is no row.
    """
    file = Path(path).expanduser()
    if not file.exists():
        raise ValueError(f"there is no policy file {str(file)!r}")
    return rows(_parsed(line, file, n) for n, line in enumerate(file.read_text().splitlines(), 1) if line.strip())


def rows(values: Iterable[Sequence[Any]]) -> list[Row]:
    """The values as rows; `ValueError` for one that is none."""
    found: list[Row] = []
    for value in values:
        if len(value) != len(Row._fields) or not all(isinstance(part, dict) for part in value[4:]):
            raise ValueError(f"a row of a policy is [{', '.join(Row._fields)}], not {value!r}")
        found.append(Row(*value))
    return found


def schedule(policy: Sequence[Row]) -> tuple[dict[str, Any] | None, list[tuple[int, dict[str, Any]]]]:
    """The configuration to begin with, and at which iterations it changes to what.

    Rows that did not lead to the last one are left out: each row's donor must be the trial of the row before.
    """
    chain: list[Row] = []
    for row in reversed(policy):
        if chain and row.trial != chain[-1].donor:
            break
        chain.append(row)
    chain.reverse()
    first = chain[0].old_config if chain else None
    return first, [(row.donor_iteration, row.new_config) for row in chain]


def _parsed(line: str, file: Path, number: int) -> list[Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError:
        value = None
    if not isinstance(value, list):
        raise ValueError(f"line {number} of the policy file {str(file)!r} is no row in JSON: {line[:80]!r}")
    return value
