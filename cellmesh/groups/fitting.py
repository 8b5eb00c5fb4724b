"""Whether machines can hold a group. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..text import in_resources

RULES = {"STRICT_SPREAD": "each on a machine of its own", "STRICT_PACK": "all on one machine"}  # else: together


@dataclass(frozen=True)
class Machine:
    """What a node has, and what of it is free."""

    name: str
    total: Mapping[str, float]
    free: Mapping[str, float]


def n_that_fit(bundle: Mapping[str, float], amounts: Mapping[str, float]) -> int | None:
    """How many such bundles the amounts are enough for; None: any number."""
    fits = [int((amounts.get(kind, 0.0) + 1e-9) // need) for kind, need in bundle.items() if need]
    return min(fits) if fits else None


def most_that_fit(n: int, bundle: Mapping[str, float], strategy: str, machines: Sequence[Mapping[str, float]]) -> int:
    """How many of `n` members of these needs fit together into what each machine has."""
    fits = [n if (most := n_that_fit(bundle, has)) is None else min(n, most) for has in machines]
    if strategy == "STRICT_SPREAD":
        return min(n, sum(1 for fit in fits if fit))
    return max(fits, default=0) if strategy == "STRICT_PACK" else min(n, sum(fits))


def misfit(
    n: int, bundle: Mapping[str, float], strategy: str, machines: Sequence[Machine], n_machines: int | None = None
) -> str | None:
    """Why `n` members of these needs will never fit together, in words; None if they do.

    Parameters
    ----------
    n_machines : int, optional
        They are to be on so many, equally many on each.
    """
    totals = [machine.total for machine in machines]
    if n_machines is not None:
        each = n // n_machines
        most = each * min(n_machines, sum(1 for has in totals if most_that_fit(each, bundle, "PACK", [has]) >= each))
        rule = f"on {n_machines} machine{'s' if n_machines > 1 else ''}, {each} on each"
    else:
        most, rule = most_that_fit(n, bundle, strategy, totals), RULES.get(strategy, "together")
    if most >= n:
        return None
    return (
        f"{n} members with {in_resources(bundle)} each do not fit {rule}: at most {most} do. {there(bundle, machines)}"
    )


def there(bundle: Mapping[str, float], machines: Sequence[Machine]) -> str:
    """What the machines have of what a member needs, and what of it is free."""
    return "; ".join(
        f"{machine.name} has {in_resources({kind: machine.total.get(kind, 0.0) for kind in bundle})}, free "
        f"{in_resources({kind: machine.free.get(kind, 0.0) for kind in bundle})}"
        for machine in machines
    )
