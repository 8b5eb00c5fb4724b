"""Folders of sessions: where, of which mode, and who sweeps them."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cellmesh.scheduler.ipc import node_socket
from cellmesh.scheduler.node import offload_dir, private_dir, session_dir


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
    with pytest.raises(private_dir.UnsafeDirectory, match=str(root)):
        session_dir.runtime_root()


def test_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(private_dir.UnsafeDirectory):
        session_dir.runtime_root()


def test_a_path_too_long_for_a_socket_is_passed_over(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_what_is_no_session_of_ours_is_neither_swept_nor_in_the_way(root: Path) -> None:
    strangers = [Path(session_dir.runtime_root(), f"session-{name}") for name in ("stream", "file", "loop", "x" * 100)]
    stream, file, loop, long = strangers
    for folder in (stream, loop, long):
        folder.mkdir()
    file.write_text("a file, not a folder")
    (loop / "node.sock").symlink_to("node.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(stream / "node.sock"))
        listener.listen()
        for path in strangers:
            os.utime(path, (0, 0))
            with pytest.raises(node_socket.NoSessionSocket) as raised:
                node_socket.is_alive(str(path / "node.sock"))
            assert raised.value.filename == str(path / "node.sock")
        dead_id, _ = session_dir.create()
        os.utime(root / f"session-{dead_id}", (0, 0))
        assert session_dir.alive() == [] and session_dir.sweep() == [dead_id]
        assert sorted(root.iterdir()) == sorted(strangers)


def test_removing_twice_is_harmless(root: Path) -> None:
    _, path = session_dir.create()
    session_dir.remove(path)
    session_dir.remove(path)
    assert not os.path.exists(path)


# ---------------------------------------------------------------- the folder for offloaded objects
def test_the_folder_for_objects_goes_with_the_session(tmp_path: Path) -> None:
    _, path = session_dir.create()
    objects = session_dir.create_offload_dir(path, str(tmp_path))
    Path(objects, "a-file").write_bytes(b"x")
    assert os.stat(objects).st_mode & 0o077 == os.stat(os.path.dirname(objects)).st_mode & 0o077 == 0
    session_dir.remove(path)
    assert not os.path.exists(path) and not os.path.exists(objects)


def test_a_link_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    _, path = session_dir.create()
    precious = tmp_path / "precious"
    precious.mkdir()
    os.symlink(precious, os.path.join(path, session_dir.OBJECTS_NAME))
    session_dir.remove(path)
    assert precious.exists() and not os.path.exists(path)


def test_folders_of_dead_sessions_go_with_the_next_one(tmp_path: Path) -> None:
    dead, living, newborn = (
        offload_dir.create(str(tmp_path), f"session-{name}") for name in ("dead", "living", "newborn")
    )
    held = offload_dir.hold(living)
    for path in (dead, living):
        os.utime(path, (1, 1))
    offload_dir.create(str(tmp_path), "session-next")
    assert not os.path.exists(dead) and os.path.exists(living) and os.path.exists(newborn)
    os.close(held)
    offload_dir.sweep(os.path.dirname(living))
    assert not os.path.exists(living)


def test_objects_do_not_go_into_memory_by_themselves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not offload_dir.is_in_memory("/dev/shm"):
        pytest.skip("/dev/shm is no tmpfs here")
    monkeypatch.setenv("TMPDIR", "/dev/shm")
    assert offload_dir.default_parent() != "/dev/shm"


def test_nobody_else_prepares_the_folder_for_objects(tmp_path: Path) -> None:
    root = tmp_path / f"cellmesh-objects-{os.getuid()}"
    root.mkdir(mode=0o755)
    root.chmod(0o755)
    with pytest.raises(private_dir.UnsafeDirectory, match=str(root)):
        offload_dir.create(str(tmp_path), "session-x")


def _modes(path: Path, above: Path) -> list[str]:
    return [oct(folder.stat().st_mode & 0o777) for folder in (path, *path.parents) if above in folder.parents]


def test_folders_on_the_way_are_private_and_those_that_are_there_keep_their_mode(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o755)
    private_dir.make_with_parents(str(there / "a" / "b" / "c"))
    private_dir.make_with_parents(str(there))
    assert _modes(there / "a" / "b" / "c", tmp_path) == ["0o700", "0o700", "0o700", "0o755"]


def test_a_file_in_the_place_of_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        private_dir.make_with_parents(str(tmp_path / "file"))
    with pytest.raises(NotADirectoryError):
        private_dir.make_with_parents(str(tmp_path / "file" / "below" / "it"))
