"""What a trial calls: `report`, `get_checkpoint`, `get_context`; and checkpoints in Ray's shape."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....tune import Checkpoint as _Checkpoint
from ....tune import get_checkpoint as _get_checkpoint
from ....tune import get_context as _get_context
from ....tune import report as _report
from ....tune.reporting import TrialContext, in_trial
from .configs import PlacementGroupFactory

METADATA = ".metadata.json"  # as Ray has it, within the checkpoint's folder


class Checkpoint(_Checkpoint):
    """A folder that a trial saved, with metadata beside its files."""

    def __init__(self, path: str | os.PathLike[str], filesystem: Any = None) -> None:
        if filesystem is not None:
            raise ValueError(f"Checkpoint(filesystem={filesystem!r}): a checkpoint is a folder of this machine")
        super().__init__(path)

    def get_metadata(self) -> dict[str, Any]:
        """What `set_metadata` has stored; empty if nothing."""
        path = Path(self.path) / METADATA
        return json.loads(path.read_text()) if path.exists() else {}

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Store a dict of JSON beside the checkpoint's files."""
        (Path(self.path) / METADATA).write_text(json.dumps(metadata))

    def update_metadata(self, metadata: dict[str, Any]) -> None:
        """Store more of it."""
        self.set_metadata({**self.get_metadata(), **metadata})


def as_rays(checkpoint: _Checkpoint | None) -> Checkpoint | None:
    """The same checkpoint in Ray's shape."""
    return None if checkpoint is None else Checkpoint(checkpoint.path)


def report(metrics: Mapping[str, Any] | None = None, *, checkpoint: Any = None, **named: Any) -> None:
    """`cellmesh.tune.report`. Metrics by name, as Ray 1 took them, will do."""
    _report(metrics, checkpoint=checkpoint, **named)


def get_checkpoint() -> Checkpoint | None:
    """`cellmesh.tune.get_checkpoint`."""
    return as_rays(_get_checkpoint())


def folder_of_trial(experiment: str | Path, trial_id: str) -> Path:
    """Where a trial writes files of its own."""
    return Path(experiment) / "trials" / trial_id


class TuneContext:
    """Where a trial is; outside one, None is what each method returns."""

    def __init__(self, context: TrialContext | None) -> None:
        self._context = context

    def get_experiment_name(self) -> str | None:
        """The experiment's name."""
        return self._context and self._context.get_experiment_name()

    def get_trial_name(self) -> str | None:
        """The experiment's name and the trial's number."""
        return self._context and self._context.get_trial_name()

    def get_trial_id(self) -> str | None:
        """The trial's number, five digits."""
        return self._context and self._context.get_trial_id()

    def get_trial_resources(self) -> Any:
        """What each trial takes, as a PlacementGroupFactory."""
        return self._context and PlacementGroupFactory.from_options(self._context.get_trial_resources())

    def get_trial_dir(self) -> str | None:
        """A folder of the trial's own, in the experiment's; it is made by this call."""
        if self._context is None:
            return None
        folder = folder_of_trial(self._context.get_trial_dir(), self._context.get_trial_id())
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    def get_world_size(self) -> int:
        """1: a trial is one process."""
        return 1

    def get_local_world_size(self) -> int:
        """1."""
        return 1

    def get_world_rank(self) -> int:
        """0."""
        return 0

    def get_local_rank(self) -> int:
        """0."""
        return 0

    def get_node_rank(self) -> int:
        """0."""
        return 0

    def get_metadata(self) -> dict[str, Any]:
        """Empty: a Tuner is given none."""
        return {}


def get_context() -> TuneContext:
    """Where this process is."""
    return TuneContext(_get_context() if in_trial() else None)
