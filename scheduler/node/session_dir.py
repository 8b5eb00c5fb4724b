"""Where a session keeps its one socket, and how folders of dead sessions disappear.

    <runtime root>/cellmesh-<uid>/session-<id>/node.sock       everything of mode 0700
                                              /scheduler.log   what the local scheduler had to say on stderr
                                              /objects         a link to the folder of offload_dir
                                              /left            while no driver has the session: who may adopt it
                                              /cluster         which cluster it is part of, if any

A session whose socket is listened on is alive, any other is dead: the kernel knows, so there are no pid files and no
lock files. The memory of a session has no name in the file system, so a killed session can leave nothing but its
folder.

Paths are strings: pathlib alone would be a twentieth of what a start takes.
"""

from __future__ import annotations

import os
import time

from ..ipc.node_socket import MAX_PATH_BYTES, SOCKET_NAME, NoSessionSocket, is_alive
from ..system import processes
from . import private_dir

LOG_NAME = "scheduler.log"
OBJECTS_NAME = "objects"
LEFT_NAME = "left"
CLUSTER_NAME = "cluster"
_PREFIX = "session-"
# Between making its folder and listening in it, a session looks dead for milliseconds. Younger folders are not swept.
NEWBORN_S = 60.0


def runtime_root() -> str:
    """The folder for this user's sessions, made if necessary: in $XDG_RUNTIME_DIR, else in the temporary folder.

    Raises
    ------
    UnsafeDirectory
        If the folder exists and belongs to another user or is open to others.
    """
    name = f"cellmesh-{os.getuid()}"
    # The temporary folder as the module tempfile would find it, whose import takes longer than all the rest here.
    candidates = [os.environ.get(variable, "") for variable in ("XDG_RUNTIME_DIR", "TMPDIR", "TEMP", "TMP")]
    candidates += ["/tmp", "/var/tmp"]
    parent = next((c for c in candidates if os.path.isabs(c) and _usable(c) and _fits(os.path.join(c, name))), None)
    if parent is None:
        looked = ", ".join(filter(None, candidates))
        raise FileNotFoundError(
            f"no folder for cellmesh's socket: none of {looked} can be written to and has a path "
            "short enough; set TMPDIR to one that has"
        )
    root = os.path.join(parent, name)
    private_dir.make(root)
    return root


def _usable(path: str) -> bool:
    return os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)


def _fits(root: str) -> bool:
    longest = os.path.join(root, _PREFIX + "0" * 12, SOCKET_NAME + "~")
    return len(os.fsencode(longest)) <= MAX_PATH_BYTES


def create() -> tuple[str, str]:
    """Make the folder of a new session: its id and its path."""
    session = os.urandom(6).hex()
    path = os.path.join(runtime_root(), _PREFIX + session)
    os.mkdir(path, 0o700)
    return session, path


def create_offload_dir(path: str, parent: str) -> str:
    """Make the folder for objects of the session in `path`, inside `parent`; it goes with the session's."""
    from . import offload_dir  # late: this module is imported when every millisecond counts

    objects = offload_dir.create(parent, os.path.basename(path))
    os.symlink(objects, os.path.join(path, OBJECTS_NAME))
    return objects


def remove(path: str) -> None:
    """Remove a session's folder, and that of its objects; one that has gone, or goes at this moment, is fine."""
    import shutil  # late, as there is no hurry at the end

    try:
        objects = os.readlink(os.path.join(path, OBJECTS_NAME))
    except OSError:  # it has none
        objects = ""
    if os.path.basename(objects) == os.path.basename(path):
        shutil.rmtree(objects, ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)


def leave(path: str, note: bytes) -> None:
    """Note for other drivers that the session has no driver any more."""
    _write(path, LEFT_NAME, note)


def return_to(path: str) -> None:
    """A driver has it again."""
    os.unlink(os.path.join(path, LEFT_NAME))


def left() -> list[tuple[str, bytes]]:
    """Sessions of this user that have no driver, the youngest first: their folders, and what was noted."""
    found: list[tuple[float, str, bytes]] = []
    for path in _folders():
        try:
            with open(os.path.join(path, LEFT_NAME), "rb") as file:
                found.append((os.stat(path).st_mtime, path, file.read()))
        except (FileNotFoundError, NotADirectoryError):  # it has one, or ends at this moment; it is none
            continue
    return [(path, note) for _, path, note in sorted(found, reverse=True)]


def note_cluster(path: str, cluster: str, stays: bool) -> None:
    """Note that the session takes part in a cluster, and whether it does so without a driver."""
    _write(path, CLUSTER_NAME, f"{cluster} {'stays' if stays else 'driven'}".encode())


def cluster_of(path: str) -> tuple[str, bool]:
    """The name of the cluster that it takes part in, "" for none, and whether it does so without a driver."""
    try:
        with open(os.path.join(path, CLUSTER_NAME)) as file:
            name, _, how = file.read().partition(" ")
    except (FileNotFoundError, NotADirectoryError):
        return "", False
    return name, how == "stays"


def _write(path: str, name: str, content: bytes) -> None:
    """All of it at once, so that readers never see a part."""
    fd = os.open(os.path.join(path, name + "~"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    os.rename(os.path.join(path, name + "~"), os.path.join(path, name))


def log_tail(path: str) -> str:
    """The end of what the session's local scheduler wrote to its log; empty if there is nothing."""
    try:
        with open(os.path.join(path, LOG_NAME), errors="replace") as log:
            return log.read()[-2000:].strip()
    except FileNotFoundError:
        return ""


def is_dead(path: str) -> bool:
    """Whether no process serves the session in that folder any more. False, too, if it is none."""
    socket_path = os.path.join(path, SOCKET_NAME)
    try:
        if not os.path.exists(socket_path) and time.time() - os.stat(path).st_mtime < NEWBORN_S:
            return False
        return not is_alive(socket_path)
    except (FileNotFoundError, NoSessionSocket):  # removed by its own session; not ours to remove
        return False


def sweep() -> list[str]:
    """End what dead sessions of this user left: folders, and processes should any have survived. Returns their ids."""
    dead = [path for path in _folders() if is_dead(path)]
    for path in dead:
        processes.kill_session(id_of(path), timeout_s=0.5)
        remove(path)
    return [id_of(path) for path in dead]


def alive() -> list[str]:
    """Folders of this user's sessions that are served now, the youngest first."""
    found: list[tuple[float, str]] = []
    for path in _folders():
        try:
            if is_alive(os.path.join(path, SOCKET_NAME)):
                found.append((os.stat(path).st_mtime, path))
        except (FileNotFoundError, NoSessionSocket):  # it ends at this moment; it is none
            continue
    return [path for _, path in sorted(found, reverse=True)]


def of(session: str) -> str:
    """The folder of the session with that id, if it is one of this machine's."""
    return os.path.join(runtime_root(), _PREFIX + session)


def id_of(path: str) -> str:
    """The id of the session with that folder."""
    return os.path.basename(path).removeprefix(_PREFIX)


def _folders() -> list[str]:
    root = runtime_root()
    return [os.path.join(root, name) for name in os.listdir(root) if name.startswith(_PREFIX)]
