"""What the schedulers of this package share: their options, and how they read a result.

A scheduler's options are the parameters of its class. `describe` gives them as JSON, so that a resumed experiment can
build the scheduler again (`from_description` in the package). What it learns of an experiment begins anew with
`begin`.

Scores are larger where they are better, whatever the mode; NaN counts as the worst score there can be.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ...objstore.annotations import get_signature
from ...text import closest
from .protocol import Scheduler

if TYPE_CHECKING:
    import numpy as np

WORST = -math.inf


class BuiltIn(Scheduler):
    """A scheduler of this package.

    Parameters
    ----------
    time_attr : str
        Name of the result's entry that measures how far a trial is: any number that grows from result to result.
        `"training_iteration"` and `"time_total_s"` (seconds) are in every result.
    metric, mode : str, optional
        What is compared, and "min" or "max". An experiment gives them; where both do, they must agree.

    Raises
    ------
    TypeError
        An option that there is not.
    ValueError
        A value that an option does not take.
    """

    name: ClassVar[str]
    options: dict[str, Any]  # as they were given, with the defaults of the others

    def __new__(cls, *args: Any, **options: Any) -> Self:
        signature = get_signature(cls.__init__)
        known = [name for name in signature.parameters if name != "self"]
        for name in options:
            if name not in known:
                close = closest(name, known)
                hint = f"did you mean {close!r}?" if close else "there is none of this name."
                raise TypeError(
                    f"unknown option {name!r} of {cls.__name__}: {hint} Options: {', '.join(known) or 'none'}"
                )
        self = super().__new__(cls)
        bound = signature.bind_partial(self, *args, **options)  # partial: a copy is made without arguments
        bound.apply_defaults()
        self.options = {name: value for name, value in bound.arguments.items() if name != "self"}
        return self

    def __init__(
        self, time_attr: str = "training_iteration", metric: str | None = None, mode: str | None = None
    ) -> None:
        self._require(
            "time_attr", isinstance(time_attr, str) and bool(time_attr), "the name of an entry of the results"
        )
        self._require("metric", metric is None or isinstance(metric, str), "the name of an entry of the results")
        self._require("mode", mode in (None, "min", "max"), '"min" or "max"')
        self.time_attr = time_attr
        self._wanted = metric, mode

    @property
    def wanted(self) -> tuple[str | None, str | None]:
        """Metric and mode that the scheduler was made for; None: those of the experiment."""
        return self._wanted

    def begin(self, metric: str, mode: str, rng: np.random.Generator) -> None:
        for name, mine, given in zip(("metric", "mode"), self._wanted, (metric, mode), strict=True):
            if mine not in (None, given):
                raise ValueError(
                    f"{type(self).__name__} was made with {name}={mine!r}, and the experiment has {name}={given!r}: "
                    "give it in one place"
                )
        super().begin(metric, mode, rng)
        self.rng = rng
        self._sign = 1.0 if mode == "max" else -1.0
        self._reset()

    def _reset(self) -> None:
        """Forget what was learned of another experiment."""

    def describe(self) -> dict[str, Any]:
        """The scheduler as JSON: its name, and all its options. What is not JSON is named (see `from_description`)."""
        return {"scheduler": self.name, "options": {name: _plain(value) for name, value in self.options.items()}}

    # ---- for subclasses
    def _require(self, name: str, is_valid: bool, allowed: str) -> None:
        if not is_valid:
            raise ValueError(f"option {name}={self.options[name]!r} of {type(self).__name__}: must be {allowed}")

    def _score(self, trial: int, result: Mapping[str, Any]) -> float:
        """The metric's value, larger where it is better.

        Raises
        ------
        ValueError
            The result lacks it, or it is no number.
        """
        value = self._sign * _number(trial, result, self.metric, "the metric")
        return value if value == value else WORST

    def _time(self, trial: int, result: Mapping[str, Any]) -> float:
        """How far the trial is.

        Raises
        ------
        ValueError
            The result lacks it, or it is no number.
        """
        value = _number(trial, result, self.time_attr, "the time_attr of the scheduler")
        if math.isnan(value):
            raise ValueError(f"trial {trial} reported {self.time_attr}=nan, the time_attr of the scheduler")
        return value


def is_number(value: object) -> bool:
    """Whether it is a finite real number, numpy's included; True and False are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def is_positive(value: Any) -> bool:
    return is_number(value) and value > 0


def _number(trial: int, result: Mapping[str, Any], name: str, role: str) -> float:
    try:
        return float(result[name])
    except (TypeError, ValueError):
        raise ValueError(f"trial {trial} reported {name}={result[name]!r}, {role}: it must be a number") from None
    except KeyError:
        hint = f"; did you mean {close!r}?" if (close := closest(name, result)) else ""
        raise ValueError(
            f"trial {trial} reported no {name!r}, {role}, in a result: "
            f"there are {', '.join(map(str, result)) or 'none'}{hint}"
        ) from None


def _plain(value: Any) -> Any:
    """The value as JSON. Domains go by their `repr`, which is how they are written; functions by their name."""
    if value is None or isinstance(value, (bool, str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    import numpy as np

    if isinstance(value, np.generic):
        return value.item()
    return {"$domain" if hasattr(value, "sample") else "$not_kept": getattr(value, "__qualname__", repr(value))}
