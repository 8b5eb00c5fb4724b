"""Actors' handles, by which their methods are called.

A handle is a reference to the *actor object* in the store. Its value describes the class (`Blueprint`), so the
reference is all that is needed to call methods: a handle travels as the reference alone. `actor_class` starts actors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from ..ids import short_id
from ..observe import function_names
from ..observe.actor_life import life_in_words
from ..session.current import current
from ..session.session import Session
from ..text import closest
from ..type_variables import C, Maps, P, R, S
from .described import describe, described, takes_options
from .export import Export
from .mapping import Mappable, check_one_value
from .options import Options, check_options, returns_of, times_of
from .signatures import call_check, quick_check, signature_of

if TYPE_CHECKING:
    from typing import Unpack

    from ..objstore._core import Ref
    from ..typed import MethodOptions

from .actor_blueprint import BUILT_IN, Blueprint, blueprint_of, group_number


class ActorHandle(Generic[C]):
    """An actor, as others see it: `handle.method.remote(...)` calls a method and returns an ObjectRef.

    The actor ends when the last handle goes, after the calls already made. Handles can be passed to tasks and actors,
    put into containers, compared and hashed.
    """

    _cellmesh_is_handle = True  # for modules below this one
    _cellmesh_ref: Ref[Any]
    _cellmesh_blueprint: Blueprint

    def __init__(self, ref: Ref[Any], blueprint: Blueprint) -> None:
        self.__dict__.update(_cellmesh_ref=ref, _cellmesh_blueprint=blueprint)

    def __getattr__(self, name: str) -> ActorMethod[..., Any, Any]:
        # Reached only for names that are not in the instance: the first use of each method.
        if name.startswith("_cellmesh_"):  # an instance that is just being made
            raise AttributeError(name)
        blueprint = self._cellmesh_blueprint
        found = blueprint.methods.get(name) or BUILT_IN.get(name)
        if found is None:
            if name in ("remote", "options"):
                raise AttributeError(
                    f"this is a handle of an actor of class {blueprint.class_name!r}: {name} is of its methods, "
                    f"handle.method.{name}(...), and of the class, {blueprint.class_name}.{name}(...)"
                )
            close = closest(name, blueprint.methods)
            methods = ", ".join(sorted(blueprint.methods)) or "none"
            hint = f"; did you mean {close!r}?" if close else f"; its methods are {methods}"
            raise AttributeError(
                f"actor class {blueprint.class_name!r} has no method {name!r}{hint} (attributes of an "
                "actor are not visible from outside, only its methods)"
            )
        bound = ActorMethod(self._cellmesh_ref, blueprint, name, found.options)
        self.__dict__[name] = bound
        return bound

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"an actor's state lives in its own process: {name!r} cannot be set on a handle, only by "
            f"a method of {self._cellmesh_blueprint.class_name}"
        )

    @property
    def _actor_id(self) -> Ref[Any]:
        # As programs for Ray ask for it: its hex() is the id in listings and in the runtime context.
        return self._cellmesh_ref

    def __dir__(self) -> list[str]:
        return sorted(self._cellmesh_blueprint.methods)

    def __eq__(self, other: object) -> bool:
        return self._cellmesh_ref == other._cellmesh_ref if isinstance(other, ActorHandle) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._cellmesh_ref)

    def __repr__(self) -> str:
        blueprint = self._cellmesh_blueprint
        name = f" {blueprint.name!r}" if blueprint.name and blueprint.name != blueprint.label else ""
        return (
            f"<actor {blueprint.label}{name} {short_id(self._cellmesh_ref.hex())}: {life_in_words(self._cellmesh_ref)}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return handle_of, (self._cellmesh_ref,)

    def __copy__(self) -> ActorHandle[C]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ActorHandle[C]:
        return self


class ActorMethod(Maps[Callable[P, R], S], Mappable):
    """A method of an actor. It keeps the actor alive, like a handle."""

    def __init__(self, ref: Ref[Any], blueprint: Blueprint, name: str, options: Options) -> None:
        self._ref = ref
        self._blueprint = blueprint
        self._options = options
        self.__name__ = name
        self._described = blueprint.methods.get(name) or BUILT_IN[name]
        self.__doc__ = self._described.doc
        self.__qualname__ = f"{blueprint.label}.{name}"

    @property
    def __signature__(self) -> inspect.Signature:
        spec = self._described.spec
        if spec is None:
            raise AttributeError("__signature__")  # Python cannot tell
        return signature_of(spec)

    if not TYPE_CHECKING:  # as in RemoteFunction

        def __call__(self, /, *args: Any, **kwargs: Any) -> NoReturn:
            name = self.__name__
            raise TypeError(
                f"an actor's method cannot be called directly: use .{name}.remote(...), which returns an "
                "ObjectRef, and cellmesh.get(ref) for its value"
            )

        @described
        def remote(self, /, *args: Any, **kwargs: Any) -> Any:
            """Call the method; returns an ObjectRef at once."""
            of = current()
            submitter = self._bind(of)
            if of.kept_calls is not None and self._described.spec is not None:
                submitter = of.kept_calls.watch_method(self, submitter, self._described.spec)
                of.bound.add(self)
            self.remote = submitter
            return submitter(*args, **kwargs)

    def unbind(self) -> None:
        """Forget the submitter; the next call makes one."""
        self.__dict__.pop("remote", None)

    def __reduce__(self) -> tuple[Any, ...]:
        return method_of, (self._ref, self.__name__, self._options)  # without the submitter, which is this session's

    def uses_export(self, export: Export) -> bool:
        """Whether the submitter runs that copy of the code: an actor stays what it is."""
        return False

    @takes_options("method")
    def options(self, **options: Unpack[MethodOptions]) -> ActorMethod[P, R, Any]:
        """The same method with other options."""
        merged = {**self._options, **check_options("method", options, self.__qualname__)}
        return ActorMethod(self._ref, self._blueprint, self.__name__, merged)

    def _check_mappable(self, called: str, chunksize: int, return_exceptions: bool) -> None:
        if chunksize != 1:
            raise ValueError(f"{called}(chunksize={chunksize}) of an actor's method: its calls go one by one")
        check_one_value(
            called, self.__name__, returns_of(self._options, self._described.is_generator, self.__qualname__)
        )

    def _bind(self, of: Session) -> Callable[..., Any]:
        described = self._described
        spec, options = described.spec, self._options
        returns = returns_of(options, described.is_generator, self.__qualname__)
        return of.client.submitter(
            self._function(of),
            of.shape({}, None, self.__qualname__),
            actor=of.called(self._ref),
            **returns,
            max_retries=options.get("max_task_retries", self._blueprint.max_task_retries),
            retry_exceptions=bool(options.get("retry_exceptions", False)),
            times=times_of(options),
            group=group_number(self._blueprint, self.__qualname__, options),
            params=quick_check(spec) if spec is not None else None,
            check=call_check(spec, self.__qualname__) if spec is not None else None,
            about=self._cellmesh_about(),
        )

    def _cellmesh_about(self) -> Callable[[str], Any]:
        num_returns = self._options.get("num_returns", "streaming" if self._described.is_generator else 1)
        return partial(describe, self.__qualname__, self._described.doc, None, self._described.spec, num_returns)

    def _function(self, of: Session) -> Ref:
        """The function object that names this method; one per session, displayed name and method."""
        shown = self._options.get("name", self.__qualname__)
        retry_on = self._options.get("retry_exceptions")
        retry_on = tuple(retry_on) if isinstance(retry_on, (list, tuple)) else ()
        key = (shown, self.__name__, retry_on)
        ref = of.method_functions.get(key)
        if ref is None:
            from ..objstore.serialization import method_object

            ref = of.method_functions[key] = of.client.put(method_object(shown, self.__name__, retry_on))
            function_names.remember(ref, "method", shown)
        return ref

    def __repr__(self) -> str:
        return f"<method {self.__qualname__} of an actor>"


def call_in_actor(
    handle: ActorHandle[Any],
    function: Callable[..., Any],
    *args: Any,
    name: str,
    num_returns: int = 1,
    hidden: bool = False,
) -> Any:
    """Have an actor run a function as if it were a method of its class: ``function(instance, *args)``.

    Parameters
    ----------
    handle : ActorHandle
    function : callable
        Something that can be imported, or is defined in the notebook.
    *args
    name : str
        The display name of the call.
    num_returns : int
    hidden : bool
        Leave no trace in the record of events.

    Returns
    -------
    ObjectRef, or a list of them
    """
    from ..objstore.serialization import visitor_object

    of = current()
    code = of.client.put(visitor_object(name, function))
    function_names.remember(code, "method", name)
    submit = of.client.submitter(
        code,
        of.shape({}, None, name),
        actor=of.called(handle._cellmesh_ref),
        num_returns=num_returns,
        max_retries=0,
        hidden=hidden,
    )
    return submit(*args)


def handle_of(ref: Ref[Any]) -> ActorHandle[Any]:
    """The handle for an actor object's ref."""
    return ActorHandle(ref, blueprint_of(ref.client.get(ref)))


def method_of(ref: Ref[Any], name: str, options: Options) -> ActorMethod[..., Any, Any]:
    """A method of the actor with that object."""
    return ActorMethod(ref, blueprint_of(ref.client.get(ref)), name, options)


def find_actor(of: Session, name: str, namespace: str | None) -> ActorHandle[Any] | None:
    """The living actor of that name, or None."""
    namespace = namespace if namespace is not None else of.namespace
    ref = of.client.get_actor(name, namespace)
    if ref is None and of.asks_agent:
        from . import actor_names

        ref = actor_names.find(of, name, namespace)
    return handle_of(ref) if ref is not None else None
