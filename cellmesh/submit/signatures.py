"""Whether a call fits a signature: checked where `.remote` is called, not later in the worker.

The usual call is checked in C from a few numbers (`quick_check`). When those say no, `inspect` decides and explains.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

from ..objstore.annotations import get_signature

# (name, kind, has a default) of each parameter: what of a signature can travel to other processes
Spec = tuple[tuple[str, int, bool], ...]
# n_required_positional, n_max_positional (-1: any), {keyword: position, or -1 for keyword-only}, required keyword-only
# names, whether there is **kwargs
QuickCheck = tuple[int, int, dict[str, int], frozenset[str], bool]


class Default:
    """Stands for a default value that is known only in the worker."""

    def __repr__(self) -> str:
        return "..."


DEFAULT = Default()


def spec_of(function: Callable[..., Any], *, skip_first: bool = False) -> Spec | None:
    """A function's parameters, without the first (`self`) if asked; None where Python cannot tell."""
    try:
        parameters = list(get_signature(function).parameters.values())
    except (TypeError, ValueError):  # builtins without a signature
        return None
    if skip_first and parameters and parameters[0].kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        del parameters[0]
    return tuple((p.name, int(p.kind), p.default is not Parameter.empty) for p in parameters)


def quick_check(spec: Spec) -> QuickCheck:
    """The numbers for `Client.submitter(params=...)`."""
    positional = [
        (name, kind, has_default)
        for name, kind, has_default in spec
        if kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    kinds = {kind for _, kind, _ in spec}
    keywords = {name: i for i, (name, kind, _) in enumerate(positional) if kind == Parameter.POSITIONAL_OR_KEYWORD}
    keyword_only = [(name, has_default) for name, kind, has_default in spec if kind == Parameter.KEYWORD_ONLY]
    return (
        sum(not has_default for _, _, has_default in positional),
        -1 if Parameter.VAR_POSITIONAL in kinds else len(positional),
        {**keywords, **dict.fromkeys((name for name, _ in keyword_only), -1)},
        frozenset(name for name, has_default in keyword_only if not has_default),
        Parameter.VAR_KEYWORD in kinds,
    )


def signature_of(spec: Spec) -> inspect.Signature:
    """The signature again; default values show as `...`."""
    return inspect.Signature(
        [
            Parameter(name, _KINDS[kind], default=DEFAULT if has_default else Parameter.empty)
            for name, kind, has_default in spec
        ]
    )


_KINDS = {
    int(kind): kind
    for kind in (
        Parameter.POSITIONAL_ONLY,
        Parameter.POSITIONAL_OR_KEYWORD,
        Parameter.VAR_POSITIONAL,
        Parameter.KEYWORD_ONLY,
        Parameter.VAR_KEYWORD,
    )
}


def call_check(spec: Spec, name: str) -> Callable[[tuple[Any, ...], dict[str, Any]], None]:
    """A function of (args, kwargs) that raises the TypeError of a call which does not fit.

    Parameters
    ----------
    name : str
        What was called, as the user writes it without `.remote`.
    """

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        signature = signature_of(spec)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as misfit:
            raise TypeError(f"{name}.remote(): {misfit}; the signature is {name}{signature}") from None

    return check
