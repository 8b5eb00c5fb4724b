"""Networks of torch, and what is needed of distributions over actions to learn: log-likelihood and entropy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from .actions import n_parameters
from .encoding import Encoder


@contextmanager
def torch_settings(n_threads: int) -> Iterator[None]:
    """torch's number of threads within the block, then what it was: small networks are slower with more than one, and
    sums depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Have torch draw from a seed within the block, and leave its own generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def mlp(n_inputs: int, hidden: Sequence[int], n_outputs: int, gain: float, activation: type[nn.Module]) -> nn.Module:
    """A network of layers with orthogonal weights, the last times `gain` (Andrychowicz et al., *What Matters in
    On-Policy Reinforcement Learning?*, 2021: a small last layer has the first policy near uniform)."""
    sizes = [n_inputs, *hidden, n_outputs]
    layers: list[nn.Module] = []
    for k, (a, b) in enumerate(pairwise(sizes)):
        last = k == len(hidden)
        layers.append(_orthogonal(nn.Linear(a, b), gain if last else math.sqrt(2)))
        if not last:
            layers.append(activation())
    return Mlp(*layers)


FEW = 1 << 16  # multiplications of a layer, below which numpy is quicker than torch, and begins no thread


class Mlp(nn.Sequential):
    """Linear layers with the same activation, tanh or ReLU, between them. Forward and backward are written out, as one
    node of autograd's graph: in a network of some dozens of units nodes take more time than sums do (decision 145).
    """

    _arrays: Sequence[NDArray[Any]] = ()  # the weights as numpy sees them
    _arrays_at: int = 0  # the address of the first of them

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__(*layers)
        linear: Any = layers[::2]
        self.weights: list[nn.Parameter] = [each for layer in linear for each in (layer.weight, layer.bias)]
        self.is_tanh: bool = any(isinstance(layer, nn.Tanh) for layer in layers)

    def __getstate__(self) -> dict[str, Any]:
        # A copy has memory of its own.
        return {name: value for name, value in self.__dict__.items() if name not in ("_arrays", "_arrays_at")}

    def of_few(self, rows: NDArray[Any]) -> NDArray[Any] | None:
        """What it says of rows, if they are so few that calls of torch would take longer than sums; else None."""
        if len(rows) * max(weight.numel() for weight in self.weights[::2]) > FEW:
            return None
        if self.weights[0].data_ptr() != self._arrays_at:
            self._arrays = [weight.detach().numpy() for weight in self.weights]
            self._arrays_at = self.weights[0].data_ptr()
        last = len(self._arrays) - 2
        for k in range(0, last + 2, 2):
            rows = rows @ self._arrays[k].T
            rows += self._arrays[k + 1]
            if k < last:
                rows = np.tanh(rows, out=rows) if self.is_tanh else np.maximum(rows, 0, out=rows)
        return rows

    def forward(self, input: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return _MlpNode.apply(input, self.weights[0], self)  # with a weight, as the graph has what needs a gradient
        return self.activations(input)[-1]

    def activations(self, x: Tensor) -> list[Tensor]:
        """What goes into each layer, and what comes out of the last."""
        found, last = [x], len(self.weights) - 2
        for k in range(0, last + 2, 2):
            x = torch.addmm(self.weights[k + 1], x, self.weights[k].t())
            if k < last:
                # numpy's tanh takes a sixth of the time of torch's on some machines.
                x = torch.from_numpy(np.tanh(x.numpy(), out=x.numpy())) if self.is_tanh else x.relu_()
            found.append(x)
        return found

    def backward(self, inputs: Sequence[Tensor], g: Tensor) -> Tensor:
        """Add to the parameters' gradients what follows from that of the output, `g`, where each layer had these
        `inputs`; the gradient of what comes out of the first layer.
        """
        of_activation = torch.ops.aten.tanh_backward if self.is_tanh else _relu_backward
        for k, x in reversed([*enumerate(inputs)]):
            weight, bias = self.weights[2 * k : 2 * k + 2]
            _gradient(bias).add_(g.sum(0))
            if x.shape[1] < g.shape[1]:  # few columns take several times as long as few rows
                _gradient(weight).add_((x.t() @ g).t())
            else:
                _gradient(weight).addmm_(g.t(), x)
            if k:
                g = of_activation(g @ weight, x)
        return g


class _MlpNode(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, _: Tensor, mlp: Mlp) -> Tensor:
        *ctx.inputs, y = mlp.activations(x)
        ctx.mlp = mlp
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None]:
        """Adds to the parameters' gradients itself."""
        with torch.no_grad():
            g = ctx.mlp.backward(ctx.inputs, *gradients)
            return (g @ ctx.mlp.weights[0] if ctx.needs_input_grad[0] else None), None, None


def _relu_backward(g: Tensor, y: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(g, y, 0)


def _gradient(parameter: nn.Parameter) -> Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _orthogonal(layer: Any, gain: float) -> Any:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class _Pixels(nn.Module):
    """The convolutions of Mnih et al., *Human-level control through deep reinforcement learning*, Nature 2015, before a
    head; of images whose first axis is the smallest, or whose last is."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.channels_last = shape[2] < shape[0]
        if self.channels_last:
            shape = (shape[2], shape[0], shape[1])
        if min(shape[1:]) < 36:
            raise ValueError(f"images of {shape[1]} × {shape[2]}: the convolutions need at least 36 × 36")
        self.layers = nn.Sequential(
            _orthogonal(nn.Conv2d(shape[0], 32, 8, 4), math.sqrt(2)),
            nn.ReLU(),
            _orthogonal(nn.Conv2d(32, 64, 4, 2), math.sqrt(2)),
            nn.ReLU(),
            _orthogonal(nn.Conv2d(64, 64, 3, 1), math.sqrt(2)),
            nn.ReLU(),
            nn.Flatten(),
        )
        with torch.no_grad():
            self.n_outputs = self.layers(torch.zeros(1, *shape)).shape[1]

    def forward(self, images: Tensor) -> Tensor:
        x = images.permute(0, 3, 1, 2) if self.channels_last else images
        return self.layers(x.float() / 255.0)


def network(
    encoder: Encoder, hidden: Sequence[int], n_outputs: int, gain: float, activation: type[nn.Module]
) -> nn.Module:
    """A network from encoded observations to `n_outputs` numbers: convolutions first if they are images."""
    if not encoder.is_image:
        return mlp(encoder.shape[0], hidden, n_outputs, gain, activation)
    pixels = _Pixels(encoder.shape)
    return nn.Sequential(pixels, mlp(pixels.n_outputs, (512,), n_outputs, gain, nn.ReLU))


class PolicyNetwork(nn.Module):
    """From encoded observations to the parameters of the action's distribution. The standard deviations of a `Box` are
    parameters of their own, the same for all observations."""

    log_sd: nn.Parameter | None
    body: nn.Module

    def __init__(
        self, encoder: Encoder, actions: Space[Any], hidden: Sequence[int], activation: type[nn.Module]
    ) -> None:
        super().__init__()
        n = n_parameters(actions)
        self.log_sd = nn.Parameter(torch.zeros(n // 2)) if isinstance(actions, spaces.Box) else None
        self.body = network(encoder, hidden, n if self.log_sd is None else n // 2, 0.01, activation)

    def forward(self, x: Tensor) -> Tensor:
        said = self.body(x)
        return said if self.log_sd is None else torch.cat([said, self.log_sd.expand_as(said)], dim=1)


def with_backward(module: nn.Module, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Any]]:
    """What a module says of `x`, and what adds to the gradients of its parameters, given that of what it has said. To
    be called without autograd, whose engine is needed for convolutions alone (decision 158).
    """
    if isinstance(module, Mlp):
        *inputs, said = module.activations(x)
        return said, lambda g: module.backward(inputs, g)
    if not isinstance(module, PolicyNetwork):
        with torch.enable_grad():
            said = module(x)
        return said.detach(), said.backward
    mean, backward = with_backward(module.body, x)
    log_sd = module.log_sd
    if log_sd is None:
        return mean, backward

    def backward_of_both(g: Tensor) -> None:
        by_mean, by_log_sd = g.chunk(2, dim=1)
        backward(by_mean)
        _gradient(log_sd).add_(by_log_sd.sum(0))

    return torch.cat([mean, log_sd.expand_as(mean)], dim=1), backward_of_both


class Flat:
    """All parameters of some modules as one vector, and their gradients as another: one tensor for an optimiser to
    step, a norm to be taken of, a process to copy. The modules' parameters become views of it.
    """

    vector: nn.Parameter
    gradient: Tensor

    def __init__(self, *modules: nn.Module) -> None:
        parameters = [parameter for module in modules for parameter in module.parameters()]
        with torch.no_grad():
            self.vector = nn.Parameter(torch.cat([parameter.flatten() for parameter in parameters]))
        self.gradient = torch.zeros_like(self.vector)
        self.vector.grad = self.gradient
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.data = self.vector.data[start:end].view_as(parameter)
            parameter.grad = self.gradient[start:end].view_as(parameter)
            start = end

    def backward(self, outputs: Tensor | Sequence[Tensor], gradients: Sequence[Tensor] | None = None) -> None:
        """The gradient of a loss, in place of the one before; or what follows from its gradients of some outputs."""
        self.gradient.zero_()
        torch.autograd.backward(outputs, gradients)

    def clip(self, most: float) -> None:
        """Scale the gradient so that its norm is at most `most`."""
        norm = torch.linalg.vector_norm(self.gradient)
        self.gradient.mul_((most / (norm + 1e-6)).clamp(max=1.0))

    def to_numpy(self) -> NDArray[np.float32]:
        """A copy of the parameters."""
        return self.vector.detach().numpy().copy()

    def load(self, vector: NDArray[np.float32]) -> None:
        """Take over parameters."""
        with torch.no_grad():
            self.vector.copy_(torch.from_numpy(vector))


# ---- distributions over actions
def log_likelihood(space: Space[Any], parameters: Tensor, raw: Tensor) -> Tensor:
    """The logarithm of the probability, or density, of raw actions (`actions.py`); one number a row."""
    if isinstance(space, spaces.Discrete):
        return -functional.cross_entropy(parameters, raw, reduction="none")
    if isinstance(space, spaces.MultiDiscrete):
        groups = parameters.split(space.nvec.ravel().tolist(), dim=1)
        each = [-functional.cross_entropy(p, raw[:, k], reduction="none") for k, p in enumerate(groups)]
        return torch.stack(each).sum(0)
    if isinstance(space, spaces.MultiBinary):
        return -functional.binary_cross_entropy_with_logits(parameters, raw.float(), reduction="none").sum(1)
    mean, log_sd = parameters.chunk(2, dim=1)
    return (-0.5 * ((raw - mean) / log_sd.exp()).square() - log_sd - 0.5 * math.log(2 * math.pi)).sum(1)


def score(space: Space[Any], parameters: Tensor, raw: Tensor) -> Tensor:
    """The gradient of `log_likelihood` by the parameters, a row each (the score function)."""
    if isinstance(space, spaces.Discrete):
        return _score_of(parameters, raw)
    if isinstance(space, spaces.MultiDiscrete):
        groups = parameters.split(space.nvec.ravel().tolist(), dim=1)
        return torch.cat([_score_of(p, raw[:, k]) for k, p in enumerate(groups)], dim=1)
    if isinstance(space, spaces.MultiBinary):
        return raw - parameters.sigmoid()
    mean, log_sd = parameters.chunk(2, dim=1)
    z = (raw - mean) / log_sd.exp()
    return torch.cat([z / log_sd.exp(), z.square() - 1], dim=1)


def _score_of(logits: Tensor, chosen: Tensor) -> Tensor:
    return logits.softmax(dim=1).neg_().scatter_add_(1, chosen[:, None], logits.new_ones(len(logits), 1))


def entropy(space: Space[Any], parameters: Tensor) -> Tensor:
    """The entropy of distributions, in nats; one number a row."""
    if isinstance(space, spaces.Discrete):
        return _entropy_of(parameters)
    if isinstance(space, spaces.MultiDiscrete):
        return torch.stack([_entropy_of(p) for p in parameters.split(space.nvec.ravel().tolist(), dim=1)]).sum(0)
    if isinstance(space, spaces.MultiBinary):
        p = parameters.sigmoid()
        return functional.binary_cross_entropy_with_logits(parameters, p, reduction="none").sum(1)
    log_sd = parameters.chunk(2, dim=1)[1]
    return (log_sd + 0.5 * math.log(2 * math.pi * math.e)).sum(1)


def entropy_gradient(space: Space[Any], parameters: Tensor) -> Tensor:
    """The gradient of `entropy` by the parameters, a row each."""
    with torch.enable_grad():
        leaf = parameters.detach().requires_grad_()
        return torch.autograd.grad(entropy(space, leaf).sum(), leaf)[0]


def _entropy_of(logits: Tensor) -> Tensor:
    log_p = logits.log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(1)
