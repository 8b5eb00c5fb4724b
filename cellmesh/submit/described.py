"""What `help`, `?` and TAB are told: the signatures and docstrings of `.remote`, and of what takes options. Made when
asked for.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, TypeVar

from ..objstore.annotations import get_signature
from .options import Kind, valid_names
from .signatures import Spec, signature_of

F = TypeVar("F", bound=Callable[..., Any])


def takes_options(*kinds: Kind) -> Callable[[F], F]:
    """Have a function's `**options` show as what they may be."""

    def decorate(function: F) -> F:
        names = dict.fromkeys(name for kind in kinds for name in valid_names(kind))
        others = [
            Parameter(p.name, p.kind)
            for p in get_signature(function).parameters.values()
            if p.kind is not Parameter.VAR_KEYWORD
        ]
        options = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in names]
        function.__signature__ = Signature([*others, *options])
        return function

    return decorate


def describe(
    name: str, doc: str | None, code: Callable[..., Any] | None, spec: Spec | None, num_returns: Any, attribute: str, /
) -> Any:
    """An attribute of `.remote`. What stands before it in a partial of this is without the function's owner, so that a
    submitter can have it.

    Parameters
    ----------
    name, doc : str
        Of what is called.
    code : callable or None
        Itself, where it is here.
    spec : Spec or None
        Its parameters, if they are known.
    num_returns : int, "streaming", "dynamic", or the class of what is returned
    attribute : {"__name__", "__qualname__", "__doc__", "__signature__"}
    """
    if attribute == "__doc__":
        first = f"Submits a call of {name}, and returns at once; any argument may be an ObjectRef of its value."
        return f"{first}\n\n{inspect.cleandoc(doc)}" if doc else first
    if attribute != "__signature__":
        return "remote" if attribute == "__name__" else f"{name}.remote"
    if spec is None:
        raise AttributeError(attribute)  # Python cannot tell
    signature = get_signature(code) if code is not None else signature_of(spec)
    return signature.replace(return_annotation=_returned(num_returns, signature.return_annotation))


def _returned(num_returns: Any, annotation: Any) -> Any:
    from ..refs import ObjectRef
    from .generator import ObjectRefGenerator

    if isinstance(num_returns, type):
        return num_returns
    if num_returns == 1:
        return ObjectRef if annotation is Signature.empty else ObjectRef[annotation]
    return {0: None, "streaming": ObjectRefGenerator, "dynamic": ObjectRef[list[ObjectRef]]}.get(
        num_returns, list[ObjectRef]
    )


class described:  # a decorator
    """A method `remote` whose signature and docstring are those of what it calls: `owner._cellmesh_about()` is a
    partial of `describe`.

    An instance attribute of that name goes before it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __get__(self, owner: Any, owner_type: type | None = None) -> Any:
        return self._function if owner is None else _Bound(self._function, owner)


class _Bound:
    """The method of one owner. It is called without a frame of its own in tracebacks; no `functools.partial` itself,
    of which `help` says nothing as of Python 3.13."""

    __slots__ = ("__weakref__", "_call")

    def __init__(self, function: Callable[..., Any], owner: Any) -> None:
        self._call = functools.partial(function, owner)

    if not TYPE_CHECKING:  # to which a docstring is a text, as it is to those who ask for it
        __doc__ = property(lambda self: self._call.args[0]._cellmesh_about()("__doc__"))
    __name__ = property(lambda self: self._call.func.__name__)
    __signature__ = property(lambda self: self._call.args[0]._cellmesh_about()("__signature__"))

    def __get__(self, instance: Any, owner: type | None = None) -> _Bound:
        return self  # so that `help` takes it for something with a signature

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._call.args[0], self._call.func.__name__)


_Bound.__call__ = vars(_Bound)["_call"]  # a descriptor in C: Python takes from it what is called
