"""Checkpoints: folders, or single values, that a trial saves and goes on from.

A checkpoint is written beside its place and renamed, so it is there as a whole or not at all. Where a trial runs on
another machine than its experiment's folder, the bytes travel with the report.
"""

from __future__ import annotations

import io
import os
import pickle
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..objstore import code_pickles
from .journal import CHECKPOINTS

VALUE = ".pkl"  # the ending of a checkpoint that is one value


class Checkpoint:
    """What a trial saved.

    Parameters
    ----------
    path : str or Path
        A folder, or the file of a single value.
    """

    path: str

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = str(path)

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """The checkpoint in a folder."""
        if not os.path.isdir(path):
            raise NotADirectoryError(
                f"{os.fspath(path)!r} is no folder, and a checkpoint is one (or report a value, such as a dict)"
            )
        return cls(path)

    @property
    def value(self) -> Any:
        """The value that was reported as the checkpoint.

        Raises
        ------
        TypeError
            It is a folder.
        """
        if os.path.isdir(self.path):
            raise TypeError(f"the checkpoint {self.path} is a folder: use .as_directory()")
        with open(self.path, "rb") as file:
            return pickle.load(file)

    def to_dict(self) -> Any:
        """The value that was reported as the checkpoint, as `value`."""
        return self.value

    @contextmanager
    def as_directory(self) -> Iterator[str]:
        """The folder, to be read within the block.

        Raises
        ------
        TypeError
            It is a single value.
        """
        if not os.path.isdir(self.path):
            raise TypeError(f"the checkpoint {self.path} is a single value: use .value")
        yield self.path

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copy the folder; returns where it is."""
        to = tempfile.mkdtemp(prefix="checkpoint-") if path is None else os.fspath(path)
        with self.as_directory() as folder:
            shutil.copytree(folder, to, dirs_exist_ok=True)
        return to

    def __repr__(self) -> str:
        return f"Checkpoint({self.path!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)


def save(checkpoint: Any, folder: Path, name: str) -> str:
    """Write what a trial reported as its checkpoint below an experiment's folder; returns its path, seen from there."""
    checkpoint = _value_of(checkpoint)
    place = folder / CHECKPOINTS
    place.mkdir(mode=0o700, exist_ok=True)
    source = source_of(checkpoint)
    if source is not None and place.resolve().is_relative_to(Path(source).resolve()):
        raise ValueError(f"report(..., checkpoint={source!r}): the experiment itself lies in it; give a folder apart")
    path = place / (name if source is not None else name + VALUE)
    scratch = f".{path.name}"
    delete(place, scratch)
    try:
        if source is not None:
            shutil.copytree(source, place / scratch)
            shutil.rmtree(path, ignore_errors=True)
        else:
            with open(os.open(place / scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                code_pickles.dump(checkpoint, file)
        os.rename(place / scratch, path)
    except BaseException as error:  # no room, or it was interrupted
        delete(place, scratch)
        if isinstance(error, OSError):
            raise _unwritten(error, path) from error
        raise
    return f"{CHECKPOINTS}/{path.name}"


def _unwritten(error: OSError, path: Path) -> OSError:
    why = error.args[0][0][2] if isinstance(error, shutil.Error) else error.strerror or error
    text = f"the checkpoint cannot be written to {path}: {why}. An experiment lies elsewhere with storage_path=..."
    return OSError(text) if error.errno is None else OSError(error.errno, text)


def delete(folder: Path, path: str) -> None:
    """Remove a checkpoint."""
    whole = folder / path
    if whole.is_dir():
        shutil.rmtree(whole, ignore_errors=True)
    else:
        whole.unlink(missing_ok=True)


def sweep(folder: Path, known: Collection[str]) -> None:
    """Remove what a controller that has died left: half of a checkpoint, or one that nobody knows of."""
    place = folder / CHECKPOINTS
    for one in place.iterdir() if place.is_dir() else ():
        if f"{CHECKPOINTS}/{one.name}" not in known:
            delete(folder, f"{CHECKPOINTS}/{one.name}")


def pack(checkpoint: Any) -> bytes:
    """What a trial reported as its checkpoint, as bytes for another machine."""
    import tarfile

    checkpoint = _value_of(checkpoint)
    source = source_of(checkpoint)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        if source is not None:
            archive.add(source, arcname="folder")
        else:
            data = code_pickles.dumps(checkpoint)
            info = tarfile.TarInfo("value")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def pack_saved(folder: Path, path: str) -> bytes:
    """A saved checkpoint, as `pack` makes it."""
    import tarfile

    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        whole = folder / path
        archive.add(whole, arcname="folder" if whole.is_dir() else "value")
    return stream.getvalue()


def unpack(packed: bytes, to: Path) -> Path:
    """Write packed bytes below a folder; returns the path of the checkpoint's folder or file."""
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(to, filter="data")
        else:  # Python before 3.11.4; who has packed it may run code here, too, as values are unpickled
            archive.extractall(to)
    return to / "folder" if (to / "folder").exists() else to / "value"


def _value_of(checkpoint: Any) -> Any:
    """What is reported again of a single value is that value."""
    if not isinstance(checkpoint, Checkpoint) or os.path.isdir(checkpoint.path):
        return checkpoint
    if not os.path.exists(checkpoint.path):
        raise NotADirectoryError(f"report(..., checkpoint={checkpoint!r}): there is no such folder")
    return checkpoint.value


def source_of(checkpoint: Any) -> str | None:
    """The folder that is meant; None: it is a single value."""
    if isinstance(checkpoint, Checkpoint):
        return checkpoint.path
    if isinstance(checkpoint, os.PathLike) or (isinstance(checkpoint, str) and os.path.isdir(checkpoint)):
        path = os.fspath(checkpoint)
        if not os.path.isdir(path):
            raise NotADirectoryError(f"report(..., checkpoint={path!r}): there is no such folder")
        return path
    if isinstance(checkpoint, str):
        raise NotADirectoryError(
            f"report(..., checkpoint={checkpoint!r}): a text is the path of a folder, and there is none"
        )
    return None
