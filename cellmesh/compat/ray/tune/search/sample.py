"""`ray.tune.search.sample`: domains with Ray's parameters. The base of a logarithm has no meaning here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .....tune.space import domains as _ours
from .....tune.space.domains import Domain as Domain
from .....tune.space.domains import qrandint as qrandint
from .....tune.space.domains import qrandn as qrandn
from .....tune.space.domains import quniform as quniform
from .....tune.space.domains import randint as randint
from .....tune.space.domains import randn as randn
from .....tune.space.domains import uniform as uniform


def choice(categories: Sequence[Any]) -> Domain:
    """One of these, each as likely as the others."""
    return _ours.choice(categories)


def sample_from(func: Callable[..., Any]) -> Domain:
    """What a function says: of `spec`, as `spec.config.x`, or of the configuration, as `config["x"]`."""
    return _ours.sample_from(func)


def loguniform(lower: float, upper: float, base: float = 10) -> Domain:
    """Uniform on the logarithm."""
    return _ours.loguniform(lower, upper)


def qloguniform(lower: float, upper: float, q: float, base: float = 10) -> Domain:
    """Likewise, a multiple of q."""
    return _ours.qloguniform(lower, upper, q)


def lograndint(lower: int, upper: int, base: float = 10) -> Domain:
    """A whole number below `upper`, uniform on the logarithm."""
    return _ours.lograndint(lower, upper)


def qlograndint(lower: int, upper: int, q: int, base: float = 10) -> Domain:
    """Likewise, a multiple of q."""
    return _ours.qlograndint(lower, upper, q)
