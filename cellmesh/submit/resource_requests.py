"""What a task or actor asks of the node, as the store counts it: amounts, environment, place and terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .options import terms_of

if TYPE_CHECKING:
    from ..objstore._core import Shape
    from ..session.session import Session


def placed(
    of: Session,
    demand: dict[str, float],
    hold: dict[str, float] | None,
    owner: str,
    options: Mapping[str, Any],
    definition: str = "",
) -> tuple[Shape, int | None]:
    """What the store knows a task or actor by (`Session.shape`), and the number of its placement group (`Place`).

    Raises
    ------
    ValueError
        The bundle has less than is asked for, or the node is not there.
    """
    env, terms = of.environment_number(options), terms_of(options, definition)
    if options.get("scheduling_strategy") is None and options.get("label_selector") is None:
        return of.shape(demand, hold, owner, env, terms=terms), None
    from .scheduling_strategies import place_of, raise_misfit

    place = place_of(of, options, owner)
    if not place.number:
        return of.shape(demand, hold, owner, env, place.route, place.wish, terms), place.number
    shape, fits = of.client.resource_class(demand, hold, env, place.number, place.bundle, place.captures, **terms)
    if not fits:
        raise_misfit(options, demand, owner)
    return shape, place.number
