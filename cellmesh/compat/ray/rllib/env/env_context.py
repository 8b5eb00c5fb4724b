"""`ray.rllib.env.env_context`, and what makes an environment as RLlib does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


class EnvContext(dict[str, Any]):
    """`env_config`, as the class or function that makes an environment is given it. Each environment is told that it is
    the first of the first worker.
    """

    worker_index: int
    vector_index: int
    remote: bool
    num_workers: int | None
    recreated_worker: bool

    def __init__(
        self,
        env_config: Mapping[str, Any],
        worker_index: int = 0,
        vector_index: int = 0,
        remote: bool = False,
        num_workers: int | None = None,
        recreated_worker: bool = False,
    ) -> None:
        super().__init__(env_config)
        self.worker_index, self.vector_index, self.remote = worker_index, vector_index, remote
        self.num_workers, self.recreated_worker = num_workers, recreated_worker


@dataclass(frozen=True)
class Maker:
    """Makes an environment of a class, or by a function that `register_env` was given."""

    creator: Callable[[EnvContext], Any]
    env_config: Mapping[str, Any]
    num_workers: int
    __name__: str

    def __call__(self) -> Any:
        """An environment."""
        return self.creator(EnvContext(self.env_config, num_workers=self.num_workers))
