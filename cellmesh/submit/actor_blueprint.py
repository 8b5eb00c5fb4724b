"""What a handle must know of its actor: the methods of its class, with their options.

The value of an actor object is its `Meta`, so a handle travels as a reference alone.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from .described import takes_options
from .options import Options, check_options
from .signatures import Spec

if TYPE_CHECKING:
    from typing import Unpack

    from ..typed import MethodOptions

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Method:
    """A method of an actor class as handles know it."""

    spec: Spec | None
    options: Options
    doc: str
    is_generator: bool = False


# Which member of a group an actor is: rank, size, the name and size of each dimension, and what a death means for the
# others (`cellmesh.groups`).
Member = tuple[int, int, tuple[tuple[str, int], ...], str]


@dataclass(frozen=True)
class Blueprint:
    """What a handle must know of its actor."""

    class_name: str
    name: str  # of the actor; "" for none
    namespace: str
    max_task_retries: int
    methods: dict[str, Method]
    groups: tuple[str, ...]  # names of its concurrency groups; that without a name comes before them
    member: Member | None = None

    @property
    def label(self) -> str:
        """What messages call it: of a group's member "Trainer[3]"."""
        return self.class_name if self.member is None else f"{self.class_name}[{self.member[0]}]"


# What every actor can do: end once the calls made before have ended, which `kill` does not wait for.
_TERMINATE = Method((), {}, "End the actor, gracefully: calls made before it are served, `atexit` functions are run.")
_READY = Method((), {}, "True, once the actor has been constructed.")
_CALL = Method(None, {}, "`function(instance, ...)` in the actor's process.")
BUILT_IN = {
    "__terminate__": _TERMINATE,
    "__ready__": _READY,
    "__call_with__": _CALL,
    "__ray_terminate__": _TERMINATE,
    "__ray_ready__": _READY,
    "__ray_call__": _CALL,
}


# The value of an actor object: class name, actor's name, namespace, max_task_retries, the pickled table of methods,
# which is the same for all actors of the class, the names of concurrency groups, and which member of a group it is.
Meta = tuple[str, str, str, int, bytes, tuple[str, ...], Member | None]


def blueprint_of(meta: Meta) -> Blueprint:
    """The blueprint in an actor object's value."""
    class_name, name, namespace, max_task_retries, methods, groups, member = meta
    return Blueprint(class_name, name, namespace, max_task_retries, methods_of(methods), groups, member)


@lru_cache(maxsize=256)
def methods_of(data: bytes) -> dict[str, Method]:
    """The table that is pickled there."""
    table = pickle.loads(data)
    return {name: Method(*fields) for name, fields in table.items()}


@takes_options("method")
def method(**options: Unpack[MethodOptions]) -> Callable[[Function], Function]:
    """Options of one method of an actor class, as a decorator: `@cellmesh.method(num_returns=2)`.

    Parameters
    ----------
    num_returns : int, "streaming" or "dynamic"
        How many refs a call returns; as for tasks.
    generator_backpressure_num_objects : int
        As for tasks.
    concurrency_group : str
        Which of the actor's `concurrency_groups` its calls belong to.
    max_task_retries : int
        How often a call is repeated when the actor restarts; -1 for ever.
    retry_exceptions : bool or list of exception classes
        Whether a call is also repeated when it raises.
    retry_delay : float, or tuple of two
        As for tasks. Later calls of the same caller wait too, as calls are served in order.
    timeout : float
        As for tasks. A call that does not end when it is interrupted takes its actor along, which then begins again if
        `max_restarts` allows it. Of an actor with `max_concurrency` a call is interrupted only if it runs in the main
        thread; any can look at `get_runtime_context().is_canceled()`.

    Raises
    ------
    ValueError
        An option is unknown or has a value that it does not take.
    """

    def decorate(function: Function) -> Function:
        name = getattr(function, "__name__", repr(function))
        marked: Any = function
        marked.__cellmesh_method__ = check_options("method", options, name)
        return function

    return decorate


def group_number(blueprint: Blueprint, owner: str, options: Options) -> int:
    """Which of the actor's concurrency groups a method with these options belongs to; 0: the one without a name."""
    name = options.get("concurrency_group")
    if name is None:
        return 0
    if name not in blueprint.groups:
        there = ", ".join(map(repr, blueprint.groups)) or "none"
        raise ValueError(
            f"option concurrency_group={name!r} of {owner}: the actor's concurrency groups are {there} (option "
            "concurrency_groups of its class)"
        )
    return 1 + blueprint.groups.index(name)
