"""What trials take: amounts, several bundles of them, or a function of the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
_OWN = {"cpu": "num_cpus", "gpu": "num_gpus", "memory": "memory"}
_KINDS = {"cpu": "CPU", "gpu": "GPU", "memory": "memory"}


class PlacementGroupFactory:
    """What a trial takes in several bundles, which are reserved together: the trial runs in the first one, and the
    tasks and actors that it submits in any of them.

        tune.Tuner(train, space, resources=tune.PlacementGroupFactory([{"cpu": 1}, {"cpu": 2}, {"cpu": 2}]))

    Parameters
    ----------
    bundles : list of dict
        Each as a trial's resources are: {"cpu": 2, "gpu": 1, "memory": bytes} and others by name. A first one that is
        empty: the trial itself takes nothing.
    strategy : str
        "PACK", "SPREAD", "STRICT_PACK" or "STRICT_SPREAD", as of `cellmesh.util.placement_group`.

    Raises
    ------
    TypeError, ValueError
        They say nothing that could be reserved.
    """

    def __init__(self, bundles: Sequence[Mapping[str, float]], strategy: str = "PACK") -> None:
        if isinstance(bundles, (str, Mapping)) or not isinstance(bundles, Sequence) or not bundles:
            raise TypeError(f"bundles={bundles!r}: a list of dicts such as [{{'cpu': 1}}, {{'cpu': 2}}]")
        if strategy not in STRATEGIES:
            raise ValueError(f"strategy={strategy!r}: it is one of {', '.join(STRATEGIES)}")
        amounts = (_amounts(bundle, f"bundles[{i}]") for i, bundle in enumerate(bundles))
        self._bundles = [{name: float(amount) for name, amount in each.items() if amount} for each in amounts]
        self._strategy = strategy
        if not all(self._bundles[1:]):
            raise ValueError(f"bundles={list(bundles)!r}: only the first one may be empty")

    @property
    def bundles(self) -> list[dict[str, float]]:
        """The bundles: amounts of "CPU", "GPU", "memory" and others by name."""
        return [dict(bundle) for bundle in self._bundles]

    @property
    def strategy(self) -> str:
        """How bundles are placed."""
        return self._strategy

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PlacementGroupFactory)
            and other._bundles == self._bundles
            and other._strategy == self._strategy
        )

    def __hash__(self) -> int:
        return hash((self._strategy, *(frozenset(bundle.items()) for bundle in self._bundles)))

    def __repr__(self) -> str:
        return f"PlacementGroupFactory({self._bundles}, strategy={self._strategy!r})"


Resources: TypeAlias = Mapping[str, float] | PlacementGroupFactory
"""What a trial takes."""


def options_of(resources: Any) -> dict[str, Any]:
    """The options of a task for resources as users write them: {"cpu": 2, "gpu": 1, "disk": 1}. For several bundles
    there are `bundles` and `strategy` beside them.

    Raises
    ------
    TypeError, ValueError
        They are none; the message names them.
    """
    if resources is None:
        return {}
    if isinstance(resources, PlacementGroupFactory):
        head, *others = resources.bundles
        options = {"num_cpus": 0, **_as_options(head)}
        if others:
            options |= {"bundles": [bundle for bundle in (head, *others) if bundle], "strategy": resources.strategy}
        return options
    if not isinstance(resources, Mapping):
        raise TypeError(
            f"resources={resources!r}: a dict such as {{'cpu': 2, 'gpu': 1}}, a PlacementGroupFactory, or a function "
            "of the configuration that returns one of them"
        )
    return _as_options(_amounts(resources, "resources"))


def _amounts(resources: Mapping[str, Any], what: str) -> dict[str, float]:
    """By the names that machines have for them."""
    found: dict[str, float] = {}
    for name, amount in resources.items():
        if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not amount >= 0:
            raise ValueError(f"{what}={{{name!r}: {amount!r}}}: an amount is a number that is not negative")
        found[_KINDS.get(name.lower(), name)] = amount
    return found


def _as_options(amounts: Mapping[str, float]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, amount in amounts.items():
        if name.lower() in _OWN:
            options[_OWN[name.lower()]] = amount
        elif amount:
            options.setdefault("resources", {})[name] = amount
    return options
