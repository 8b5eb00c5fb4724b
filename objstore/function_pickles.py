"""Functions with a cache, those that choose by the type of an argument, and cached properties, for other processes.

What they were made of travels, what they have kept does not: caches are empty at the other end, and locks are new.
What an import finds there goes by its name.
"""

from __future__ import annotations

import functools
from threading import RLock
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from cloudpickle import cloudpickle as _cloudpickle

from .annotations import annotations_of

cloudpickle: Any = _cloudpickle  # of which more is used than it exports
Cached: Any = vars(functools)["_lru_cache_wrapper"]
# Of what `lru_cache` keeps beside the function: the function, and a function of its own that tells its parameters.
REMADE = ("__wrapped__", "cache_parameters")
NAMED = ("__module__", "__name__", "__qualname__", "__doc__")


def with_globals(function: FunctionType, variables: dict[str, Any]) -> FunctionType:
    """The same function, looking up its globals elsewhere."""
    new = FunctionType(function.__code__, variables, function.__name__, function.__defaults__, function.__closure__)
    new.__kwdefaults__ = function.__kwdefaults__
    new.__annotations__ = annotations_of(function)
    new.__dict__.update(function.__dict__)
    new.__qualname__, new.__module__, new.__doc__ = function.__qualname__, function.__module__, function.__doc__
    return new


def reduce_cached(cached: Any) -> str | tuple[Any, ...]:
    """A function with `lru_cache` or `cache`: the function and the size of its cache."""
    found = cloudpickle._lookup_module_and_qualname(cached)
    if (found is not None and not cloudpickle._is_registered_pickle_by_value(found[0])) or not hasattr(
        cached, "__wrapped__"
    ):
        return cached.__reduce__()
    held: dict[str, Any] = cached.__dict__
    state = {name: value for name, value in held.items() if name not in REMADE}
    return _make_cached, (cached.__wrapped__, *cached.cache_parameters().values()), state


def _make_cached(function: Any, maxsize: int | None, typed: bool) -> Any:
    return functools.lru_cache(maxsize, typed)(function)


# ---------------------------------------------------------------- cached_property
def reduce_cached_property(prop: functools.cached_property[Any]) -> tuple[Any, ...]:
    """A `cached_property`, or one of a subclass: all but its lock, which it has before Python 3.12."""
    has_lock = isinstance(vars(prop).get("lock"), type(RLock()))
    state = {name: value for name, value in vars(prop).items() if not has_lock or name != "lock"}
    return _make_cached_property, (type(prop), has_lock), state


def _make_cached_property(cls: type[functools.cached_property[Any]], has_lock: bool) -> functools.cached_property[Any]:
    prop = cls.__new__(cls)
    if has_lock:
        vars(prop)["lock"] = RLock()
    return prop


# ---------------------------------------------------------------- singledispatch
def _nothing() -> None: ...


_dispatching: Any = functools.singledispatch(_nothing)
_DISPATCHING = _dispatching.__code__  # of each that it makes
_DispatchingMethod: Any = functools.singledispatchmethod
# What that is as an attribute of an object: as of Python 3.14 of this class, and a function of this code before.
OfObject: Any = getattr(functools, "_singledispatchmethod_get", None)
_METHOD = next((each for each in _DispatchingMethod.__get__.__code__.co_consts if isinstance(each, CodeType)), None)
METHOD_CACHE = "_method_cache"  # by object, as of Python 3.13


def registry_of(function: FunctionType) -> dict[type, Any] | None:
    """By class, the functions of one that `singledispatch` made; None for any other function."""
    if function.__code__ is not _DISPATCHING:
        return None
    dispatch = vars(function)["dispatch"]
    cells = dict(zip(dispatch.__code__.co_freevars, dispatch.__closure__, strict=True))
    return cells["registry"].cell_contents


def reduce_dispatching(function: FunctionType, registry: dict[type, Any]) -> tuple[Any, ...]:
    """A function of `singledispatch`, by its functions."""
    attributes = {name: value for name, value in vars(function).items() if name not in vars(_make_dispatching(""))}
    named = {name: getattr(function, name) for name in NAMED} | {"__annotations__": annotations_of(function)}
    state = dict(registry), attributes, named
    return _make_dispatching, (function.__name__,), state, None, None, _set_dispatching


def _make_dispatching(name: str) -> Any:
    def function() -> None: ...

    function.__name__ = name  # which its errors say
    return functools.singledispatch(function)


def _set_dispatching(function: Any, state: tuple[dict[type, Any], dict[str, Any], dict[str, Any]]) -> None:
    registry, attributes, named = state
    for cls, implementation in registry.items():
        function.register(cls, implementation)
    for name, value in named.items():
        setattr(function, name, value)
    function.__dict__.update(attributes, __wrapped__=registry[object])


def reduce_dispatching_method(method: functools.singledispatchmethod[Any]) -> tuple[Any, ...]:
    """A `singledispatchmethod`, or one of a subclass: all but the methods of objects that it has made."""
    state = {name: value for name, value in vars(method).items() if name != METHOD_CACHE}
    return _make_dispatching_method, (type(method), METHOD_CACHE in vars(method)), state


def _make_dispatching_method(cls: Any, has_cache: bool) -> Any:
    method = cls.__new__(cls)
    if has_cache:
        vars(method)[METHOD_CACHE] = WeakKeyDictionary()
    return method


def reduce_method_of_object(function: FunctionType) -> tuple[Any, ...] | None:
    """What a `singledispatchmethod` is as an attribute of an object before Python 3.14; None for any other function."""
    if function.__code__ is not _METHOD:
        return None
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    of: Any = vars(function)["register"].__self__
    return _DispatchingMethod.__get__, (of, cells["obj"].cell_contents, cells["cls"].cell_contents)


def reduce_of_object(method: Any) -> tuple[Any, ...]:
    """What a `singledispatchmethod` is as an attribute of an object, as of Python 3.14."""
    return _DispatchingMethod.__get__, (method._unbound, method._obj, method._cls)
