"""Inside a rank: `report`, the checkpoint to go on from, the rank's part of the data, and where one is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from ..objects import get
from ..session.scratch import scratch_folder
from ..tune.checkpoint import Checkpoint, source_of
from ..tune.exceptions import StopTrial
from .exceptions import TrainError
from .shards import shard_of

if TYPE_CHECKING:
    from ..refs import ObjectRef
    from ..tune.reporting import TrialContext
    from .collective import Communicator

WORD_BYTES = 16  # of what the controller answers
PATH_BYTES = 4096  # of a checkpoint's folder, as much as Linux allows
VALUE = b"a value"  # in the place of a path: a checkpoint that is no folder


class TrainContext:
    """Where a rank is: what `get_context()` returns inside one."""

    def __init__(
        self,
        environment: Mapping[str, str],
        trial: TrialContext,
        communicator: Communicator | None,
        datasets: Mapping[str, ObjectRef[Any]],
        start: Checkpoint | None,
    ) -> None:
        self._environment, self._trial, self._communicator = environment, trial, communicator
        self._datasets, self._start = datasets, start

    def get_world_size(self) -> int:
        """How many ranks there are."""
        return int(self._environment["WORLD_SIZE"])

    def get_world_rank(self) -> int:
        """This rank: 0 to world size - 1."""
        return int(self._environment["RANK"])

    def get_local_rank(self) -> int:
        """Its number among the ranks on its machine."""
        return int(self._environment["LOCAL_RANK"])

    def get_local_world_size(self) -> int:
        """How many ranks are on its machine."""
        return int(self._environment["LOCAL_WORLD_SIZE"])

    def get_node_rank(self) -> int:
        """The number of its machine among those of the group."""
        return int(self._environment["GROUP_RANK"])

    def get_experiment_name(self) -> str:
        """The training's name."""
        return self._trial.get_experiment_name()

    def get_trial_id(self) -> str:
        """The number of the trial, where a Tuner has begun it; "00000" otherwise."""
        return self._trial.get_trial_id()

    def get_trial_name(self) -> str:
        """The training's name and the trial's number."""
        return self._trial.get_trial_name()

    def get_trial_dir(self) -> str:
        """The training's folder, where it is on this machine."""
        return self._trial.get_trial_dir()

    @property
    def communicator(self) -> Communicator:
        """The group's collectives on numpy arrays.

        Raises
        ------
        TrainError
            The ranks are on several machines.
        """
        if self._communicator is None:
            raise TrainError("this group has no communicator: its ranks are on several machines, and share no memory")
        return self._communicator

    def report(self, metrics: Mapping[str, Any], checkpoint: Any) -> None:
        """As the module's `report`."""
        word, rank = "go", self.get_world_rank()
        with ExitStack() as stack:
            if self._communicator is not None:
                # Whoever comes has read the checkpoint that it began from, which may go when there is another one.
                checkpoint = self._put_together(self._communicator, checkpoint, stack)
            elif rank and checkpoint is not None:
                raise TrainError(
                    f"rank {rank} has reported a checkpoint, and on several machines the one of rank 0 is kept: give "
                    "it there alone, `if train.get_context().get_world_rank() == 0`"
                )
            if rank == 0:
                word = self._ask(metrics, checkpoint)
        if self._communicator is not None:
            text = np.frombuffer(word.encode().ljust(WORD_BYTES), np.uint8).copy()
            self._communicator.broadcast(text, 0, "answer to a report")
            word = text.tobytes().decode().strip()
        if word != "go":
            raise StopTrial(word)

    def _put_together(self, communicator: Communicator, checkpoint: Any, stack: ExitStack) -> Any:
        """In rank 0: the checkpoint, with the files of the others' in it, which are there until the answer is."""
        source = source_of(checkpoint)
        is_folder = source is not None and os.path.isdir(source)
        mine = b"" if checkpoint is None else os.fsencode(os.path.abspath(source or "")) if is_folder else VALUE
        row = np.frombuffer(mine.ljust(PATH_BYTES, b"\0"), np.uint8)
        rows = np.empty((communicator.n_ranks, PATH_BYTES), np.uint8)
        communicator.all_gather(rows, row, "report")
        if self.get_world_rank():
            return None
        given = [path for path in (row.tobytes().rstrip(b"\0") for row in rows) if path]
        n_values = given.count(VALUE)
        if n_values and (mine != VALUE or n_values < len(given)):
            raise TrainError(
                "the ranks have reported checkpoints of different kinds: all give folders, whose files are put "
                "together, or rank 0 gives a value"
            )
        if n_values or given in ([], [mine]):
            return checkpoint
        whole = stack.enter_context(scratch_folder())
        for folder in reversed(given):  # of files of one name, that of the lowest rank is kept
            shutil.copytree(os.fsdecode(folder), whole, dirs_exist_ok=True)
        return Checkpoint(whole)

    def _ask(self, metrics: Mapping[str, Any], checkpoint: Any) -> str:
        """Tell the controller, and hear whether to go on."""
        try:
            self._trial.report(metrics, checkpoint)
        except StopTrial as stop:
            return str(stop.args[0])
        return "go"

    def checkpoint(self) -> Checkpoint | None:
        """What the training is to go on from."""
        return self._trial.checkpoint() or self._start

    def shard(self, name: str) -> Any:
        """As the module's `get_dataset_shard`."""
        if name not in self._datasets:
            there = ", ".join(map(repr, self._datasets)) or "none"
            raise KeyError(f"get_dataset_shard({name!r}): the trainer was given no such dataset; there is {there}")
        return shard_of(get(self._datasets[name]), self.get_world_rank(), self.get_world_size())


_current: TrainContext | None = None  # of this process: a worker runs one task at a time


def enter(context: TrainContext | None) -> None:
    """Called by what runs a rank, before and after it."""
    global _current
    _current = context


def in_rank() -> bool:
    """Whether this process runs a rank."""
    return _current is not None


def get_context() -> TrainContext:
    """Where this rank is.

    Raises
    ------
    RuntimeError
        This process runs none.
    """
    if _current is None:
        raise RuntimeError(
            "this is not a rank: report(), get_context() and the like are for the function that a Trainer runs"
        )
    return _current


def report(metrics: Mapping[str, Any] | None = None, *, checkpoint: Any = None, **named: Any) -> None:
    """Report metrics, and a checkpoint: `report({"loss": 0.3}, checkpoint=...)` or `report(loss=0.3)`.

    All ranks call it; the metrics of rank 0 are kept. Of checkpoints that are folders the files of all ranks are put
    together, and of those of one name the lowest rank's is kept; one that is a value is rank 0's. Ranks on one machine
    wait for each other here. If the training is to end, this raises `tune.StopTrial` on all of them.

    Parameters
    ----------
    metrics : mapping of str to number, text, None, small array, or mapping of those
        As of `tune.report`.
    checkpoint : path of a folder, Checkpoint, or any value, optional
        What the training can go on from. Ranks on several machines: of rank 0 alone.
    **named
        More metrics.

    Raises
    ------
    RuntimeError
        The caller is no rank.
    TrainError
        Ranks gave checkpoints of different kinds; or one on another machine gave one.
    TypeError
        A metric is of a kind that cannot be compared or kept.
    """
    get_context().report({**(metrics or {}), **named}, checkpoint)


def get_checkpoint() -> Checkpoint | None:
    """What the training is to go on from, the same on all ranks: None at its beginning."""
    return get_context().checkpoint()


def get_dataset_shard(dataset_name: str = "train") -> Any:
    """This rank's part of a dataset that the trainer was given.

    Arrays, and dicts of arrays of one length, are cut into consecutive parts of one size, without a copy; what is left
    over at the end is in none. Other sequences, such as torch's datasets, are likewise seen through a window.

    Raises
    ------
    KeyError
        There is no dataset of that name.
    """
    return get_context().shard(dataset_name)
