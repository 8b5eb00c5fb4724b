"""The domains of parameters: which values there are, and how likely each is.

The functions at the end have the names and the meaning of Ray Tune's: bounds of floats are both included, the upper
bound of `randint` and `lograndint` is excluded, that of `qrandint` and `qlograndint` included unless q is 1. A domain
is frozen, shows itself as it is written, and refuses bad bounds when it is made.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from ...objstore.annotations import get_signature
from .errors import SpaceError
from .sameness import plain_number, same

if TYPE_CHECKING:
    import numpy as np

MAX_INT = (1 << 63) - 1  # what numpy's generators draw
NO_LOG = "lower must be above 0, as it has no logarithm otherwise; give the value itself, not its logarithm"


def _is_finite(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -MAX_INT <= value <= MAX_INT


def _multiple(value: float, q: float) -> float:
    """The multiple of q that is nearest to a value, without the noise of a product: 3 times 0.1 is 0.3."""
    return float(round(value / q) * Decimal(repr(q)))


class Domain:
    """Values that a parameter may have.

    `kind` says which: "float", "int", "normal", "choice", "function" or "grid".
    """

    kind: ClassVar[str]

    def sample(self, rng: np.random.Generator) -> Any:
        """A value, drawn from this generator."""
        raise NotImplementedError

    def cast(self, value: Any) -> Any:
        """The value as the domain has its values: as a float or an int, to the nearest multiple of q. Bounds are not
        looked at."""
        return value

    def contains(self, value: Any) -> bool:
        """Whether it is a value of this domain."""
        raise NotImplementedError

    def _call(self, name: str, *arguments: Any) -> str:
        return f"{name}({', '.join(map(repr, arguments))})"


def _check(domain: Domain, valid: bool, allowed: str) -> None:
    if not valid:
        raise SpaceError(f"{domain!r}: {allowed}")


@dataclass(frozen=True, repr=False)
class Float(Domain):
    """Floats from `lower` to `upper`, evenly or (`log`) evenly in their logarithm, as multiples of `q` if there is
    one.
    """

    lower: float
    upper: float
    log: bool = False
    q: float | None = None
    kind: ClassVar[str] = "float"

    def __post_init__(self) -> None:
        for bound in ("lower", "upper"):
            _check(self, _is_finite(getattr(self, bound)), f"{bound} must be a finite number")
        _check(self, self.lower <= self.upper, "lower must not be above upper")
        _check(self, math.isfinite(self.upper - self.lower), "the bounds are too far apart for a float")
        if self.log:
            _check(self, self.lower > 0, NO_LOG)
        if self.q is not None:
            _check(self, _is_finite(self.q) and self.q > 0, "q must be a finite number above 0")
            for bound in ("lower", "upper"):
                n = getattr(self, bound) / self.q
                _check(self, math.isclose(n, round(n), abs_tol=1e-9), f"{bound} must be a multiple of q")

    def __repr__(self) -> str:
        name = f"{'' if self.q is None else 'q'}{'log' if self.log else ''}uniform"
        return self._call(name, self.lower, self.upper, *(() if self.q is None else (self.q,)))

    def sample(self, rng: np.random.Generator) -> float:
        if self.log:
            value = math.exp(rng.uniform(math.log(self.lower), math.log(self.upper)))
        else:
            value = rng.uniform(self.lower, self.upper)
        return self.cast(min(max(value, self.lower), self.upper))  # exp(log(x)) may be a little beside x

    def cast(self, value: Any) -> float:
        return float(value) if self.q is None else _multiple(value, self.q)

    def contains(self, value: Any) -> bool:
        if not _is_finite(value) or not self.lower <= value <= self.upper:
            return False
        return self.q is None or math.isclose(value / self.q, round(value / self.q), abs_tol=1e-9)


@dataclass(frozen=True, repr=False)
class Normal(Domain):
    """Floats around `mean` with the standard deviation `sd`, as multiples of `q` if there is one."""

    mean: float = 0.0
    sd: float = 1.0
    q: float | None = None
    kind: ClassVar[str] = "normal"

    def __post_init__(self) -> None:
        _check(self, _is_finite(self.mean), "mean must be a finite number")
        _check(self, _is_finite(self.sd) and self.sd > 0, "sd must be a finite number above 0")
        _check(self, self.q is None or (_is_finite(self.q) and self.q > 0), "q must be a finite number above 0")

    def __repr__(self) -> str:
        name, more = ("randn", ()) if self.q is None else ("qrandn", (self.q,))
        return self._call(name, self.mean, self.sd, *more)

    def sample(self, rng: np.random.Generator) -> float:
        return self.cast(rng.normal(self.mean, self.sd))

    def cast(self, value: Any) -> float:
        return float(value) if self.q is None else _multiple(value, self.q)

    def contains(self, value: Any) -> bool:
        return _is_finite(value)


@dataclass(frozen=True, repr=False)
class Integer(Domain):
    """Whole numbers from `lower` on, evenly or (`log`) evenly in their logarithm, as multiples of `q` if there is one.

    `upper` is written as the functions take it; `last` is the greatest value.
    """

    lower: int
    upper: int
    log: bool = False
    q: int | None = None
    kind: ClassVar[str] = "int"

    def __post_init__(self) -> None:
        for bound in ("lower", "upper"):
            _check(self, _is_int(getattr(self, bound)), f"{bound} must be a whole number of at most 63 bits")
        if self.log:
            _check(self, self.lower > 0, NO_LOG)
        if self.q is not None:
            _check(self, _is_int(self.q) and self.q > 0, "q must be a whole number above 0")
        least, most = self.multiples
        allowed = "lower must be below upper" if self.step == 1 else "there is no multiple of q between the bounds"
        _check(self, least <= most, allowed)

    def __repr__(self) -> str:
        name = f"{'' if self.q is None else 'q'}{'log' if self.log else ''}randint"
        return self._call(name, self.lower, self.upper, *(() if self.q is None else (self.q,)))

    @property
    def step(self) -> int:
        """How far apart values are."""
        return self.q or 1

    @property
    def multiples(self) -> tuple[int, int]:
        """The first and the last value, as multiples of `step`."""
        return -(-self.lower // self.step), self.upper - 1 if self.step == 1 else self.upper // self.step

    @property
    def first(self) -> int:
        """The least value."""
        return self.multiples[0] * self.step

    @property
    def last(self) -> int:
        """The greatest value."""
        return self.multiples[1] * self.step

    def sample(self, rng: np.random.Generator) -> int:
        least, most = self.multiples
        if not self.log:
            return int(rng.integers(least, most, endpoint=True)) * self.step
        n = math.floor(math.exp(rng.uniform(math.log(least), math.log(most + 1))))
        return min(max(n, least), most) * self.step

    def cast(self, value: Any) -> int:
        return int(value) if self.q is None else round(value / self.q) * self.q

    def contains(self, value: Any) -> bool:
        value = plain_number(value)
        return _is_int(value) and self.first <= value <= self.last and value % self.step == 0


@dataclass(frozen=True, repr=False)
class Choice(Domain):
    """One of several options, each as likely as the others. An option may be anything, and have domains inside."""

    options: tuple[Any, ...]
    kind: ClassVar[str] = "choice"

    def __repr__(self) -> str:
        return self._call("choice", list(self.options))

    def sample(self, rng: np.random.Generator) -> Any:
        return self.options[int(rng.integers(len(self.options)))]

    def contains(self, value: Any) -> bool:
        return any(same(value, option) for option in self.options)


@dataclass(frozen=True, repr=False)
class Grid(Domain):
    """Values of which each is tried."""

    values: tuple[Any, ...]
    kind: ClassVar[str] = "grid"

    def __repr__(self) -> str:
        return self._call("grid_search", list(self.values))

    def sample(self, rng: np.random.Generator) -> Any:
        return self.values[int(rng.integers(len(self.values)))]

    def contains(self, value: Any) -> bool:
        return any(same(value, each) for each in self.values)


@dataclass(frozen=True, repr=False)
class Function(Domain):
    """What a function returns. `takes_config`: it is called with the configuration so far; `takes_rng`: and with
    `rng=`.
    """

    function: Callable[..., Any]
    takes_config: bool
    takes_rng: bool
    kind: ClassVar[str] = "function"

    def __repr__(self) -> str:
        return f"sample_from({getattr(self.function, '__name__', None) or repr(self.function)})"

    def sample(self, rng: np.random.Generator, config: Mapping[str, Any] | None = None) -> Any:
        arguments = ({} if config is None else config,) if self.takes_config else ()
        return self.function(*arguments, rng=rng) if self.takes_rng else self.function(*arguments)

    def contains(self, value: Any) -> bool:
        return True


def _options(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(values, (str, bytes, Mapping, set, frozenset)) or not isinstance(values, Iterable):
        raise SpaceError(f"{name}({values!r}): give a list of values, whose order is theirs: {name}([...])")
    if not isinstance(values, (list, tuple)):
        import numpy as np

        values = values.tolist() if isinstance(values, np.ndarray) else values
    found = tuple(values)
    if not found:
        raise SpaceError(f"{name}([]): there must be at least one value")
    return found


# ---- the names of Ray Tune
def uniform(lower: float, upper: float) -> Float:
    """Floats from `lower` to `upper`, each as likely as the others.

    Parameters
    ----------
    lower, upper : float
        Finite, lower <= upper.

    Raises
    ------
    SpaceError
        A bound is not allowed. All functions here raise it.
    """
    return Float(plain_number(lower), plain_number(upper))


def quniform(lower: float, upper: float, q: float) -> Float:
    """Floats from `lower` to `upper`, rounded to multiples of `q`; both bounds must be multiples of it."""
    return Float(plain_number(lower), plain_number(upper), q=plain_number(q))


def loguniform(lower: float, upper: float) -> Float:
    """Floats from `lower` to `upper`, 0 < lower <= upper, whose logarithms are evenly distributed."""
    return Float(plain_number(lower), plain_number(upper), log=True)


def qloguniform(lower: float, upper: float, q: float) -> Float:
    """As `loguniform`, rounded to multiples of `q`; both bounds must be multiples of it."""
    return Float(plain_number(lower), plain_number(upper), log=True, q=plain_number(q))


def randn(mean: float = 0.0, sd: float = 1.0) -> Normal:
    """Floats of the normal distribution with this mean and this standard deviation, sd > 0."""
    return Normal(plain_number(mean), plain_number(sd))


def qrandn(mean: float, sd: float, q: float) -> Normal:
    """As `randn`, rounded to multiples of `q`."""
    return Normal(plain_number(mean), plain_number(sd), plain_number(q))


def randint(lower: int, upper: int) -> Integer:
    """Whole numbers from `lower` up to `upper`, which is excluded, each as likely as the others."""
    return Integer(plain_number(lower), plain_number(upper))


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    """Multiples of `q` from `lower` to `upper`, each as likely as the others; `upper` is included unless q is 1."""
    return Integer(plain_number(lower), plain_number(upper), q=plain_number(q))


def lograndint(lower: int, upper: int) -> Integer:
    """Whole numbers from `lower` up to `upper`, which is excluded, evenly in their logarithm; lower > 0."""
    return Integer(plain_number(lower), plain_number(upper), log=True)


def qlograndint(lower: int, upper: int, q: int) -> Integer:
    """Multiples of `q` from `lower` to `upper`, evenly in their logarithm; lower > 0, `upper` included unless q is
    1.
    """
    return Integer(plain_number(lower), plain_number(upper), log=True, q=plain_number(q))


def choice(options: Iterable[Any]) -> Choice:
    """One of the options, each as likely as the others.

    An option may be a dict (or list, or tuple) with domains inside, or a domain: these are drawn only where the option
    is the one that was chosen. It may be a function, which is then the value. It must have no `grid_search` inside.
    """
    return Choice(_options("choice", options))


def grid_search(values: Iterable[Any]) -> Grid:
    """Each of the values is tried, with each of every other grid.

    A value may have domains and further grids inside, which count only where it is that value's turn.
    """
    return Grid(_options("grid_search", values))


def sample_from(function: Callable[..., Any]) -> Function:
    """What `function` returns, called once a trial.

    Parameters
    ----------
    function : callable
        Takes nothing, or the configuration as a mapping: `lambda config: config["lr"] * 2`, and also `lambda spec:
        spec.config.lr * 2`. It may read every parameter, in whatever order they stand: reading one that has no value
        yet ends the call, and it is called again later, so it should do nothing but compute. A parameter named `rng`
        gets the trial's `numpy.random.Generator`; what is drawn from other generators is not reproduced by the seed. It
        may return a domain, or a dict with domains, which are drawn then.
    """
    if not callable(function):
        raise SpaceError(f"sample_from({function!r}): give a function, such as lambda config: config['lr'] * 2")
    try:
        signature = get_signature(function)
    except (TypeError, ValueError):  # a builtin without a signature
        return Function(function, takes_config=True, takes_rng=False)
    takes_rng = "rng" in signature.parameters
    keywords = {"rng": None} if takes_rng else {}
    for arguments in (({},), ()):
        try:
            signature.bind(*arguments, **keywords)
        except TypeError:
            continue
        return Function(function, takes_config=bool(arguments), takes_rng=takes_rng)
    raise SpaceError(
        f"sample_from: {getattr(function, '__name__', function)}{signature} must take nothing or one argument, the "
        "configuration, and beside it at most rng"
    )


NAMES: Mapping[str, Callable[..., Domain]] = {
    each.__name__: each
    for each in (
        uniform,
        quniform,
        loguniform,
        qloguniform,
        randn,
        qrandn,
        randint,
        qrandint,
        lograndint,
        qlograndint,
        choice,
        sample_from,
        grid_search,
    )
}
