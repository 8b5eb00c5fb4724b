"""What `cellmesh.rl` raises. The tree's root is `cellmesh.exceptions.CellmeshError`."""

from __future__ import annotations

from ..exceptions import CellmeshError

WHY_IT_DIED = "an environment crashes its process, or takes more memory than there is"


class RLError(CellmeshError):
    """Training cannot begin or cannot go on; the text says why and what helps."""


class EnvFailedError(RLError):
    """An environment raised, or returned what its spaces do not have; the text names it, and its cause is what it
    raised.
    """


class EnvWorkerDiedError(RLError):
    """The process of some environments died too often to be replaced once more."""


class EnvWorkerReplacedWarning(UserWarning):
    """The process of some environments died and has been replaced; their episodes are truncated."""


class CheckpointError(RLError):
    """A checkpoint is another algorithm's, another version's, or of other spaces; or it is none."""


class TrainingDivergedError(RLError, ArithmeticError):
    """A loss is not finite."""
