"""Folders of sessions: where, of which mode, and who sweeps them."""
from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellmesh.scheduler import node_socket, session_dir


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    short = tempfile.mkdtemp()  # pytest's tmp_path is too long for a socket
    monkeypatch.setenv("XDG_RUNTIME_DIR", short)
    yield Path(short, f"cellmesh-{os.getuid()}")
    shutil.rmtree(short)


def test_everything_is_private(root: Path) -> None:
    session, path = session_dir.create()
    assert path == str(root / f"session-{session}")
    assert oct(os.stat(path).st_mode & 0o777) == oct(root.stat().st_mode & 0o777) == "0o700"


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701])
def test_a_folder_open_to_others_is_refused(root: Path, mode: int) -> None:
    root.mkdir()
    root.chmod(mode)
    with pytest.raises(session_dir.UnsafeDirectory, match=str(root)):
        session_dir.runtime_root()


def test_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(session_dir.UnsafeDirectory):
        session_dir.runtime_root()


def test_a_path_too_long_for_a_socket_is_passed_over(root: Path, tmp_path: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    found = Path(session_dir.runtime_root())
    assert deep not in found.parents
    assert len(str(found / "session-0123456789ab" / "node.sock~")) <= 107


def test_an_unusable_runtime_folder_is_passed_over(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/does/not/exist")
    assert "/does" not in session_dir.runtime_root()


def test_only_dead_sessions_are_swept(root: Path) -> None:
    _, newborn = session_dir.create()  # no socket yet
    alive_id, alive = session_dir.create()
    listener = node_socket.listen(os.path.join(alive, session_dir.SOCKET_NAME))
    dead_id, dead = session_dir.create()
    node_socket.listen(os.path.join(dead, session_dir.SOCKET_NAME)).close()
    stillborn_id, stillborn = session_dir.create()
    os.utime(stillborn, (0, 0))
    (root / "not-a-session").mkdir()

    assert set(session_dir.sweep()) == {dead_id, stillborn_id}
    assert set(os.listdir(root)) == {os.path.basename(newborn), os.path.basename(alive), "not-a-session"}
    assert session_dir.alive() == [alive]
    listener.close()
    assert session_dir.sweep() == [alive_id]


def test_removing_twice_is_harmless(root: Path) -> None:
    _, path = session_dir.create()
    session_dir.remove(path)
    session_dir.remove(path)
    assert not os.path.exists(path)
