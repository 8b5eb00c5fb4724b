"""Which trials go on; never which configurations are tried, which is `search`.

`make("asha", max_t=27)` makes a scheduler by its name, `from_description` one that an experiment has described.
Classes also have the names that they have in Ray.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...text import closest
from .asha import ASHA as ASHA
from .built_in import BuiltIn
from .fifo import FIFO as FIFO
from .hyperband import HyperBand as HyperBand
from .median import MedianStopping as MedianStopping
from .pbt import PBT as PBT
from .pbt_replay import PBTReplay as PBTReplay
from .protocol import Decision as Decision
from .protocol import Decisions as Decisions
from .protocol import Exploit as Exploit
from .protocol import Pause as Pause
from .protocol import Resume as Resume
from .protocol import Scheduler as Scheduler
from .protocol import Stop as Stop

FIFOScheduler = FIFO
ASHAScheduler = AsyncHyperBandScheduler = ASHA
HyperBandScheduler = HyperBand
MedianStoppingRule = MedianStopping
PopulationBasedTraining = PBT
PopulationBasedTrainingReplay = PBTReplay

SCHEDULERS: dict[str, type[BuiltIn]] = {
    cls.name: cls for cls in (FIFO, ASHA, HyperBand, MedianStopping, PBT, PBTReplay)
}
_ALSO = {
    "async_hyperband": "asha",
    "asynchyperband": "asha",
    "median_stopping_rule": "median",
    "medianstopping": "median",
}  # Ray's
# What Ray has and this package has not: by the name of the class and the one for `make`.
_REFUSED = {
    (
        "ResourceChangingScheduler",
        "resource_changing",
    ): "resources of a trial are fixed: give them as resources={'cpu': 2}",
    ("PB2", "pb2"): "PBT does the same with random changes: scheduler='pbt'",
    ("HyperBandForBOHB", "hb_bohb"): "take scheduler='hyperband' or 'asha', with search_alg=tune.Optuna('tpe')",
}


def make(scheduler: str | Scheduler | None = "fifo", **options: Any) -> Scheduler:
    """A scheduler by its name, or the one that is given.

    Parameters
    ----------
    scheduler : str or Scheduler, optional
        "fifo", "asha", "hyperband", "median", "pbt" or "pbt_replay"; None: "fifo".
    **options
        Of the class that has the name.

    Raises
    ------
    ValueError
        There is no scheduler of this name, or an option has a value that it does not take.
    NotImplementedError
        Ray has a scheduler of this name, and there is none here; the message says what to take.
    TypeError
        There is no such option, or it is given to a scheduler that is made already.
    """
    if scheduler is None:
        scheduler = "fifo"
    if isinstance(scheduler, Scheduler):
        if options:
            raise TypeError(
                f"{', '.join(options)}: options go to the class, and {type(scheduler).__name__} is made already"
            )
        return scheduler
    if not isinstance(scheduler, str):
        raise TypeError(
            f"a scheduler is a name ({', '.join(SCHEDULERS)}) or an object such as ASHA(), not {scheduler!r}"
        )
    name = _ALSO.get(scheduler.lower(), scheduler.lower())
    if name in SCHEDULERS:
        return SCHEDULERS[name](**options)
    _refuse(scheduler)
    hint = f"; did you mean {close!r}?" if (close := closest(name, [*SCHEDULERS, *_ALSO])) else ""
    raise ValueError(f"there is no scheduler {scheduler!r}, there are {', '.join(SCHEDULERS)}{hint}")


def is_fifo(scheduler: Scheduler) -> bool:
    """Whether it lets every trial run to its end, whatever is reported."""
    return type(scheduler) in (FIFO, Scheduler)


def describe(scheduler: Scheduler) -> dict[str, Any]:
    """A scheduler as JSON, from which `from_description` makes one like it. One of a user's own class is named only."""
    return (
        scheduler.describe()
        if isinstance(scheduler, BuiltIn)
        else {"scheduler": None, "class": type(scheduler).__qualname__}
    )


def from_description(description: Mapping[str, Any], parse: Callable[[str], Any] | None = None) -> Scheduler:
    """The scheduler that was described.

    Parameters
    ----------
    description : dict
        From `describe`.
    parse : callable, optional
        Makes a domain from the text that it is written in, such as "uniform(0, 1)".

    Raises
    ------
    ValueError
        Functions are not kept in a description, nor are objects of a user's own class: the scheduler must be given
        again. Or a newer version has written it.
    """
    name = description.get("scheduler")
    if name is None:
        raise ValueError(
            f"the scheduler was an object of the class {description.get('class')}, which is not kept: give it again"
        )
    if name not in SCHEDULERS:
        raise ValueError(
            f"there is no scheduler {name!r}, there are {', '.join(SCHEDULERS)}: a newer version has written this"
        )
    return SCHEDULERS[name](
        **{option: _built(value, option, parse) for option, value in description["options"].items()}
    )


def _built(value: Any, path: str, parse: Callable[[str], Any] | None) -> Any:
    if isinstance(value, list):
        return [_built(part, f"{path}[{i}]", parse) for i, part in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    if not value.keys().isdisjoint(("$domain", "$not_kept")):
        ((mark, text),) = value.items()
        lost = f"the scheduler's {path} was {text}, which is not kept: give the scheduler again"
        if mark == "$not_kept" or parse is None:
            raise ValueError(lost)
        try:
            return parse(text)
        except ValueError as error:
            raise ValueError(lost) from error
    return {key: _built(part, f"{path}[{key!r}]", parse) for key, part in value.items()}


def _refuse(name: str) -> None:
    for names, remedy in _REFUSED.items():
        if name in names:
            raise NotImplementedError(f"there is no scheduler {name}: {remedy}")


def __getattr__(name: str) -> Any:
    _refuse(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
