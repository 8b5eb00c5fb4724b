"""Networks whose gradients are written out, against those of autograd."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch: pip install 'cellmesh[rl]'")

from gymnasium import spaces
from torch import nn

from cellmesh.rl.models.actions import Actions
from cellmesh.rl.models.encoding import Encoder
from cellmesh.rl.models.networks import (
    Flat,
    PolicyNetwork,
    entropy,
    entropy_gradient,
    log_likelihood,
    mlp,
    score,
    with_backward,
)

ACTIONS = [
    spaces.Discrete(3, start=2),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(4),
    spaces.Box(-1, 1, (2,), np.float32),
]


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


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
def test_few_rows_go_through_numpy_and_follow_the_weights(activation: Any) -> None:
    torch.manual_seed(0)
    net = mlp(4, (16, 8), 2, 1.0, activation)
    x = torch.randn(5, 4)

    def check(net: Any) -> None:
        found = net.of_few(x.numpy())
        assert found is not None and x.numpy().tobytes() == given
        with torch.no_grad():
            torch.testing.assert_close(torch.from_numpy(found), net(x))

    given = x.numpy().tobytes()
    check(net)
    flat = Flat(net)  # which moves the weights
    check(net)
    flat.vector.data += 0.5  # and changes them in place
    check(net)
    other = pickle.loads(pickle.dumps(net))
    flat.vector.data.zero_()
    check(other)
    Flat(other).vector.data += 0.5
    check(other)
    assert net.of_few(np.zeros((1 << 13, 4), np.float32)) is None, "these are many"


@pytest.mark.parametrize("space", ACTIONS, ids=lambda space: type(space).__name__)
def test_gradients_of_distributions_are_those_of_autograd(space: Any) -> None:
    rng = np.random.default_rng(0)
    actions = Actions(space)
    parameters = torch.from_numpy(rng.normal(size=(9, actions.n))).requires_grad_()
    raw = torch.from_numpy(actions.sample(parameters.detach().numpy(), rng))
    (wanted,) = torch.autograd.grad(log_likelihood(space, parameters, raw).sum(), parameters)
    torch.testing.assert_close(score(space, parameters.detach(), raw), wanted)
    (wanted,) = torch.autograd.grad(entropy(space, parameters).sum(), parameters)
    torch.testing.assert_close(entropy_gradient(space, parameters.detach()), wanted)


@pytest.mark.parametrize("space", ACTIONS, ids=lambda space: type(space).__name__)
@pytest.mark.parametrize("shape", [(5,), (36, 36, 3)])
def test_networks_without_autograds_engine_learn_what_they_do_with_it(shape: tuple[int, ...], space: Any) -> None:
    torch.manual_seed(0)
    dtype = np.uint8 if len(shape) == 3 else np.float32
    net = PolicyNetwork(Encoder(spaces.Box(0, 255, shape, dtype)), space, (8,), nn.Tanh)
    flat = Flat(net)
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 255, (6, *shape)).astype(dtype))
    said = net(x)
    g = torch.randn_like(said)
    flat.backward(said, g)
    wanted = flat.gradient.clone()
    flat.gradient.zero_()
    with torch.no_grad():
        found, backward = with_backward(net, x)
        backward(g)
    torch.testing.assert_close(found, said.detach())
    torch.testing.assert_close(flat.gradient, wanted)
