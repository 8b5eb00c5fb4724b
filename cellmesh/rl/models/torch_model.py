"""A network of torch as a function of arrays, which may be pickled: the pickle has a copy of its weights."""

from __future__ import annotations

import copy
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from .networks import Mlp, PolicyNetwork


class TorchModel:
    """`model(rows)`: what the module says of encoded observations, both arrays."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        is_discrete = isinstance(module, PolicyNetwork) and module.log_sd is None
        network = module.body if is_discrete else module
        self._mlp = network if isinstance(network, Mlp) else None

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        if self._mlp is not None and (said := self._mlp.of_few(rows)) is not None:
            return said
        with torch.inference_mode():
            return self.module(torch.from_numpy(rows)).numpy()

    def __getstate__(self) -> dict[str, Any]:
        # Parameters may be views of a vector (networks.Flat), all of which each would bring along.
        return {"module": copy.deepcopy(self.module)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["module"])
