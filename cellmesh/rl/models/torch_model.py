"""A network of torch as a function of arrays, which may be pickled: the pickle has a copy of its weights."""

from __future__ import annotations

import copy
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn


class TorchModel:
    """`model(rows)`: what the module says of encoded observations, both arrays."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        with torch.inference_mode():
            return self.module(torch.from_numpy(rows)).numpy()

    def __getstate__(self) -> dict[str, Any]:
        # Parameters may be views of a vector (networks.Flat), all of which each would bring along.
        return {"module": copy.deepcopy(self.module)}
