"""Checkpoints: a folder with what an algorithm is (`about.json`), its policy, and the state it goes on from.

Policy and state are pickles of their own, so that a policy is loaded without the environment that it was learnt in. A
checkpoint is written beside its place and renamed, so it is there as a whole or not at all.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ..objstore import code_pickles
from .exceptions import CheckpointError

FORMAT = 1  # of the folder; a state of another one is refused
ABOUT, POLICY, STATE = "about.json", "policy.pkl", "state.pkl"


def write_into(folder: Path, algorithm: str, policy: Any, state: dict[str, Any]) -> None:
    """Write a checkpoint's files into a folder that is there."""
    (folder / ABOUT).write_text(json.dumps({"format": FORMAT, "algorithm": algorithm}) + "\n")
    (folder / POLICY).write_bytes(code_pickles.dumps(policy))
    (folder / STATE).write_bytes(code_pickles.dumps(state))


def write(path: str | os.PathLike[str], algorithm: str, policy: Any, state: dict[str, Any]) -> None:
    """Write a checkpoint, in the place of one that is there.

    Raises
    ------
    CheckpointError
        Something else is there.
    """
    target = Path(path)
    if target.exists() and not (target / ABOUT).exists():
        raise CheckpointError(f"{target} is there, and is no checkpoint: give another path")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        write_into(scratch, algorithm, policy, state)
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent)) / "old"
            os.rename(target, old)
            os.rename(scratch, target)
            shutil.rmtree(old.parent)
        else:
            os.rename(scratch, target)
    except BaseException:  # no room, or it was interrupted
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def read_state(path: str | os.PathLike[str], algorithm: str) -> dict[str, Any]:
    """The state of an algorithm.

    Raises
    ------
    CheckpointError
        It is no checkpoint, or one of another algorithm or version.
    """
    about = _about(Path(path))
    if about.get("algorithm") != algorithm:
        raise CheckpointError(f"{path} is a checkpoint of {about.get('algorithm')}, and not of {algorithm}")
    return _unpickled(Path(path) / STATE)


def algorithm_of(path: str | os.PathLike[str]) -> str:
    """Which algorithm a checkpoint is of."""
    return str(_about(Path(path)).get("algorithm"))


def read_policy(path: str | os.PathLike[str]) -> Any:
    """The policy in a checkpoint."""
    _about(Path(path))
    return _unpickled(Path(path) / POLICY)


def _about(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / ABOUT).read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder} is no checkpoint of cellmesh.rl: it has no readable {ABOUT}") from error
    if about.get("format") != FORMAT:
        raise CheckpointError(
            f"{folder} was written by another version of cellmesh (format {about.get('format')}, and this one reads "
            f"{FORMAT}): load it with that one"
        )
    return about


def _unpickled(path: Path) -> Any:
    try:
        return pickle.loads(path.read_bytes())
    except Exception as error:  # whatever damaged bytes, or classes that are gone, make of it
        raise CheckpointError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
