"""Folders and modules that only the driver's machine has, on their way to other machines of a cluster.

A folder is packed once for a session, at its first use, into a value of the object store; a process that needs it on
another
machine finds it beside the function, fetches it as any value, and unpacks it into the session's folder there, once for
all workers.
"""

from __future__ import annotations

import functools
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..text import in_bytes

if TYPE_CHECKING:
    from ..objstore._core import Ref
    from ..session.session import Session

MOST_BYTES = 256 << 20  # of files, before they are packed
LEFT_OUT = {
    ".git",
    ".hg",
    ".svn",
    "__pycache__",
    ".venv",
    "venv",
    "node_modules",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".pytest_cache",
}


class Package(NamedTuple):
    """A packed folder, or module. `machine`: where the original is; `ref`: of the bytes."""

    machine: str
    ref: Ref[bytes]


@functools.cache
def machine() -> str:
    """What this machine is known by for as long as it runs."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def package_of(session: Session, path: str) -> Package:
    """The packed form of a folder, or of a module's file or folder.

    Raises
    ------
    ValueError
        It is too large.
    """
    package = session.packages.get(path)
    if package is None:
        package = session.packages[path] = Package(machine(), session.client.put(pack(path)))
    return package


def pack(path: str) -> bytes:
    """A zip of a folder's files, or of a single file, under their names in it."""
    buffer = io.BytesIO()
    n_bytes: dict[str, int] = {}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for file in _files(path):
            inside = os.path.relpath(file, path) if file != path else os.path.basename(path)
            top = inside.split(os.sep)[0]
            n_bytes[top] = n_bytes.get(top, 0) + os.path.getsize(file)
            if sum(n_bytes.values()) > MOST_BYTES:
                largest = max(n_bytes, key=n_bytes.__getitem__)
                raise ValueError(
                    f"runtime_env: {path!r} has more than {in_bytes(MOST_BYTES)} of files, which would have to travel "
                    f"to other machines; most of it is in {largest!r}. Name a folder with code alone, and put data "
                    "into the object store or where every machine finds it"
                )
            packed.writestr(zipfile.ZipInfo(inside), Path(file).read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _files(path: str) -> Iterator[str]:
    if os.path.isfile(path):
        yield path
        return
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        yield from (os.path.join(folder, name) for name in sorted(files) if os.path.isfile(os.path.join(folder, name)))


def place_of(path: str, package: Package | None, below: Callable[[], str], get: Any) -> str:
    """Where a folder or module is on this machine, which may have to be unpacked first.

    Parameters
    ----------
    path : str
        Of the original.
    package : Package or None
        None: it was given on a session of one machine, and is where it was.
    below : callable () -> str
        A folder below which to unpack.
    get : callable (ref) -> bytes
    """
    if package is None or (package.machine == machine() and os.path.exists(path)):
        return path
    import hashlib

    from ..scheduler.node import private_dir

    data = get(package.ref)
    root = os.path.join(below(), "packages", hashlib.blake2b(data, digest_size=16).hexdigest())
    name = os.path.basename(path)
    if not os.path.isdir(root):
        private_dir.make_with_parents(os.path.dirname(root))
        fresh = tempfile.mkdtemp(dir=os.path.dirname(root))
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            is_file = packed.namelist() == [name]
            packed.extractall(fresh if is_file else os.path.join(fresh, name))
        try:
            os.rename(fresh, root)
        except OSError:  # another worker was quicker
            shutil.rmtree(fresh)
    return os.path.join(root, name)
