"""Folders on their way to other machines."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest

from cellmesh.environment import packages
from cellmesh.environment.packages import Package, pack, place_of


def names(data: bytes) -> set[str]:
    return set(zipfile.ZipFile(io.BytesIO(data)).namelist())


def test_a_folder_is_packed_without_what_is_made_again(tmp_path: Path) -> None:
    for name in ("a.py", "sub/b.py", ".git/x", "sub/__pycache__/b.pyc", "node_modules/y.js"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert names(pack(str(tmp_path))) == {"a.py", "sub/b.py"}
    assert names(pack(str(tmp_path / "a.py"))) == {"a.py"}
    assert pack(str(tmp_path)) == pack(str(tmp_path)), "the same files are the same bytes, whenever they were written"


def test_a_folder_that_is_too_large_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "MOST_BYTES", 1000)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "large").write_bytes(bytes(2000))
    with pytest.raises(ValueError, match=r"more than 1 kB of files.*most of it is in 'data'"):
        pack(str(tmp_path))


def test_it_is_unpacked_once_and_only_where_it_is_not(tmp_path: Path) -> None:
    project, session = tmp_path / "project", tmp_path / "session"
    project.mkdir()
    session.mkdir()
    (project / "a.py").write_text("1")
    data = pack(str(project))
    fetched = []

    def get(ref: object) -> bytes:
        fetched.append(ref)
        return data

    mine, theirs = Package(packages.machine(), None), Package("another", None)
    assert (
        place_of(str(project), None, lambda: str(session), get)
        == place_of(str(project), mine, lambda: str(session), get)
        == str(project)
    )
    assert not fetched
    places = {place_of(str(project), theirs, lambda: str(session), get) for _ in range(3)}
    (place,) = places
    assert (
        place.startswith(str(session))
        and os.path.basename(place) == "project"
        and Path(place, "a.py").read_text() == "1"
    )
    assert len(os.listdir(session / "packages")) == 1


def test_a_file_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "single.py").write_text("1")
    data = pack(str(tmp_path / "single.py"))
    place = place_of("/elsewhere/single.py", Package("another", None), lambda: str(tmp_path), lambda ref: data)
    assert os.path.basename(place) == "single.py" and Path(place).read_text() == "1"
