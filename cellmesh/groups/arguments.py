"""Which keywords of `group(Stage, dp=2, lr=0.1)` are dimensions, and which are of the constructor. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from typing import Any

from ..submit.option_values import is_whole
from ..submit.signatures import Spec
from ..text import closest
from .shape import Shape, shape_of

OWN = ("shape", "strategy", "on_death")  # keywords of `group` itself


def divided(
    name: str, constructor: Spec | None, n: Any, shape: Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> tuple[Shape, dict[str, Any]]:
    """The shape of a group, and the keywords that are its constructor's.

    Where a number or `shape=` says how many members there are, all keywords are the constructor's. Otherwise those that
    the constructor has no parameter for are dimensions.

    Parameters
    ----------
    name : str
        The class's.
    constructor : Spec or None
        Its parameters, if they are known.

    Raises
    ------
    TypeError, ValueError
        It cannot be told, or has no sense.
    """
    called = f"group({name})"
    taken = [own for own in OWN if constructor is not None and own in {parameter for parameter, *_ in constructor}]
    if taken:
        raise TypeError(
            f"{called}: {taken[0]}= is the group's, and the constructor of {name} has a parameter of that name: make a "
            f"class whose constructor calls it something else"
        )
    if n is not None or shape is not None:
        return shape_of(n, shape, called), dict(keywords)
    if constructor is None or any(kind == Parameter.VAR_KEYWORD for _, kind, _ in constructor):
        if keywords:
            raise TypeError(
                f"{called}: the constructor takes any keyword, so it cannot be told which of {', '.join(keywords)} are "
                f"dimensions: say group({name}, shape={{...}}, ...), or group({name}, n, ...)"
            )
        return shape_of(None, None, called), {}
    parameters = [
        parameter
        for parameter, kind, _ in constructor
        if kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    ]
    dims = {keyword: value for keyword, value in keywords.items() if keyword not in parameters}
    for keyword, value in dims.items():
        close = closest(keyword, parameters, cutoff=0.75)
        if close or not is_whole(value):
            hint = f": did you mean {close!r}?" if close else f", and {value!r} is no size of a dimension."
            raise TypeError(
                f"{called}: {keyword!r} is no parameter of the constructor{hint} A dimension of that name is said as "
                f"group({name}, shape={{{keyword!r}: 2}}, ...)"
            )
    return shape_of(None, dims or None, called), {k: value for k, value in keywords.items() if k not in dims}
