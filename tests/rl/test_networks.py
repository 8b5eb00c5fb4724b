"""Networks whose gradients are written out, against those of autograd."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch: pip install 'cellmesh[rl]'")

from torch import nn

from cellmesh.rl.models.networks import Flat, mlp


def gradients(net: Any, x: Any) -> list[Any]:
    """Of all parameters and of the input, of a sum of two passes."""
    for parameter in net.parameters():
        parameter.grad = None
    x = x.clone().requires_grad_()
    (net(x).square().sum() + net(2 * x).sum()).backward()
    return [x.grad, *(parameter.grad for parameter in net.parameters())]


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
@pytest.mark.parametrize("hidden", [(), (5,), (7, 6, 5)])
def test_layers_that_are_one_node_are_what_their_layers_are(hidden: tuple[int, ...], activation: Any) -> None:
    torch.manual_seed(0)
    net = mlp(4, hidden, 2, 1.0, activation).double()
    layers, x = nn.Sequential(*copy.deepcopy(net)), torch.randn(9, 4, dtype=torch.float64)
    torch.testing.assert_close(net(x), layers(x))
    with torch.no_grad():
        torch.testing.assert_close(net(x), layers(x))
    for ours, theirs in zip(gradients(net, x), gradients(layers, x), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_copy_has_weights_of_its_own() -> None:
    net = mlp(2, (3,), 1, 1.0, nn.Tanh)
    other, x = copy.deepcopy(net), torch.ones(1, 2)
    before = net(x).detach()
    Flat(other).load(np.ones(sum(p.numel() for p in other.parameters()), np.float32))
    assert torch.equal(net(x), before) and float(other(x).detach()) == pytest.approx(3 * np.tanh(3.0) + 1)
