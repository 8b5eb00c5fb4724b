"""`cellmesh engine check`."""

from __future__ import annotations

import json

import pytest

from cellmesh.cli.main import main


def test_it_says_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engine", "check", "fake:"]) == 0
    said = capsys.readouterr().out
    assert "fake takes tasks of this program" in said
    assert "machine:   fake-1 (CPU: 4)" in said
    assert "lacks:" not in said
    assert main(["engine", "check", "fake:", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["engine"] == "fake"
    assert told["nodes"] == [{"name": "fake-1", "resources": {"CPU": 4.0}}]
    assert told["lacks"] == []


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [
        ("fake:nowhere", 1, "cellmesh engine check: there is no 'fake:nowhere'"),
        ("tcp://head:7421", 2, "is the address of no engine: they begin with fake:, fake+relay:, ray://, ray:, dask"),
    ],
)
def test_it_says_what_is_wrong(address: str, status: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engine", "check", address]) == status
    assert words in capsys.readouterr().err
