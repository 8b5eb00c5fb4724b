"""TensorFlow: ranks with the variable `TF_CONFIG`, by which `MultiWorkerMirroredStrategy` finds the others.

    def loop(config):
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        with strategy.scope():
            ...

    train.tensorflow.TensorflowTrainer(loop, num_workers=2).fit()

TensorFlow itself is imported by the user's function alone. Its ranks speak gRPC, which is not encrypted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from .rank import RankInfo
from .trainer import Trainer


class TensorflowTrainer(Trainer):
    """Trains with TensorFlow on several ranks, on one machine or several.

    Parameters
    ----------
    train_loop_per_worker : callable
    **others
        As of `Trainer`.
    """

    shares_memory: bool = False

    def setup(self) -> Callable[[RankInfo], AbstractContextManager[None]]:
        """`TF_CONFIG` around the function."""
        return with_tf_config


@contextmanager
def with_tf_config(info: RankInfo) -> Iterator[None]:
    """The variable, for the function and all that it starts."""
    os.environ["TF_CONFIG"] = tf_config(info.addresses, info.rank)
    yield


def tf_config(workers: Sequence[str], rank: int) -> str:
    """The text of `TF_CONFIG`.

    Parameters
    ----------
    workers : sequence of str
        The address of each rank, "host:port".
    rank : int
        Whose text it is. Rank 0 is TensorFlow's chief, as the first worker is where none is named so.

    References
    ----------
    https://www.tensorflow.org/guide/distributed_training, "Setting up the TF_CONFIG environment variable".
    """
    return json.dumps({"cluster": {"worker": list(workers)}, "task": {"type": "worker", "index": rank}})
