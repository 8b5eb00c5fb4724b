"""Actors: what `@cellmesh.remote` makes of a class, and the handles by which their methods are called.

A handle is a reference to the *actor object* in the store. Its value describes the class (`_Blueprint`), so whoever has
the reference, has all that is needed to call methods: a handle travels as the reference alone.
"""
from __future__ import annotations

import dataclasses
import difflib
import inspect
import pickle
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from . import function_names, session
from .exports import Export
from .options import Options, check_options, options_key, resource_demand, returns_of
from .session import Session
from .signatures import Spec, call_check, quick_check, signature_of, spec_of

if TYPE_CHECKING:
    from .objstore._core import Ref

C = TypeVar("C")

ASYNC_CONCURRENCY = 1000  # calls that an actor with async methods has under way at a time unless told otherwise


# ---------------------------------------------------------------- what is known of a class
@dataclass(frozen=True)
class Method:
    """A method of an actor class as handles know it."""

    spec: Spec | None
    options: Options
    doc: str
    is_generator: bool = False


@dataclass(frozen=True)
class Blueprint:
    """What a handle must know of its actor."""

    class_name: str
    name: str               # of the actor; "" for none
    namespace: str
    max_task_retries: int
    methods: dict[str, Method]
    groups: tuple[str, ...]  # names of its concurrency groups; that without a name comes before them


# What every actor can do: end once the calls made before have ended, which `kill` does not wait for.
_TERMINATE = Method((), {}, "End the actor, gracefully: calls made before it are served, `atexit` functions are run.")
_READY = Method((), {}, "True, once the actor has been constructed.")
_CALL = Method(None, {}, "`function(instance, ...)` in the actor's process.")
BUILT_IN = {"__terminate__": _TERMINATE, "__ready__": _READY, "__call_with__": _CALL,
            "__ray_terminate__": _TERMINATE, "__ray_ready__": _READY, "__ray_call__": _CALL}


# The value of an actor object: class name, actor's name, namespace, max_task_retries, the pickled table of methods,
# which is the same for all actors of the class, and the names of concurrency groups.
Meta = tuple[str, str, str, int, bytes, tuple[str, ...]]


def blueprint_of(meta: Meta) -> Blueprint:
    """The blueprint in an actor object's value."""
    class_name, name, namespace, max_task_retries, methods, groups = meta
    return Blueprint(class_name, name, namespace, max_task_retries, _methods_of(methods), groups)


@lru_cache(maxsize=256)
def _methods_of(data: bytes) -> dict[str, Method]:
    table = pickle.loads(data)
    return {name: Method(*fields) for name, fields in table.items()}


def method(**options: Any) -> Callable[[C], C]:
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

    Raises
    ------
    ValueError
        An option is unknown or has a value that it does not take.
    """
    def decorate(function: C) -> C:
        name = getattr(function, "__name__", repr(function))
        function.__cellmesh_method__ = check_options("method", options, name)  # type: ignore[attr-defined]
        return function
    return decorate


def _tables(cls: type) -> tuple[dict[str, Method], bool]:
    """The methods that handles offer, and whether the actor is an async one."""
    methods = {}
    is_async = False
    for name in dir(cls):
        static = inspect.getattr_static(cls, name)
        function = getattr(static, "__func__", static)
        if not inspect.isroutine(function) or (name.startswith("__") and name != "__call__"):
            continue
        takes_self = not isinstance(static, (staticmethod, classmethod))
        spec = spec_of(function, skip_first=not isinstance(static, staticmethod))
        is_async |= takes_self and (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function))
        methods[name] = Method(spec, getattr(function, "__cellmesh_method__", {}), inspect.getdoc(function) or "",
                               inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function))
    return methods, is_async


# ---------------------------------------------------------------- classes
@dataclass(frozen=True)
class Description:
    """What can be said of a class without having it."""

    name: str
    module: str
    doc: str | None
    constructor: Spec | None
    is_async: bool
    methods: bytes          # the pickled table, as in an actor object

    @classmethod
    def of(cls, user_class: type) -> Description:
        """Look at a class."""
        from .objstore.serialization import dump_code
        methods, is_async = _tables(user_class)
        table = {name: (m.spec, m.options, m.doc, m.is_generator) for name, m in methods.items()}
        data, _ = dump_code(table)  # options may name exception classes of the notebook
        return cls(user_class.__name__, user_class.__module__, user_class.__doc__, spec_of(user_class), is_async, data)


class ActorClass:
    """A class whose instances are actors: `Counter.remote(...)` starts one and returns its handle."""

    def __init__(self, cls: type, options: Options) -> None:
        self._set_up(Export("actor", cls.__name__, cls), options, None, {})
        self._take_names(cls.__name__, cls.__qualname__, cls.__module__, cls.__doc__)

    def _set_up(self, export: Export, options: Options, description: Description | None,
                variants: dict[Hashable, ActorClass]) -> None:
        self._export = export
        self._options = options
        self._description = description  # made when first needed: a class may be decorated long before
        self._variants = variants

    def _take_names(self, name: str, qualname: str, module: str, doc: str | None) -> None:
        self.__name__, self.__qualname__, self.__module__, self.__doc__ = name, qualname, module, doc

    @property
    def __cellmesh_code__(self) -> type:
        return self._export.code

    @property
    def __signature__(self) -> inspect.Signature:
        spec = self._described().constructor
        return signature_of(spec) if spec is not None else inspect.signature(self._export.code)

    def _described(self) -> Description:
        if self._description is None:
            self._description = Description.of(self._export.code)
        return self._description

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        name = self.__name__
        raise TypeError(f"{name} is an actor class and cannot be called directly: use {name}.remote(...), which starts "
                        "an actor and returns its handle")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        name = self.__name__
        raise TypeError(f"a class cannot inherit from the actor class {name}: keep the plain class under a name of its "
                        f"own, inherit from that, and make actors of either, {name}Actor = cellmesh.remote({name})")

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Start an actor; returns its handle at once, before its constructor has run.

        Raises
        ------
        TypeError
            The arguments do not fit the constructor.
        ValueError
            An actor of that name is alive in the namespace.
        """
        constructor = self._described().constructor
        if constructor is not None:
            call_check(constructor, self.__name__)(args, kwargs)
        of = session.current()
        if self._options.get("get_if_exists"):
            return self._get_or_create(of, args, kwargs)
        return self._create(of, args, kwargs)

    def options(self, **options: Any) -> ActorClass:
        """The same class with other options, for `Counter.options(name="c").remote()`.

        Raises
        ------
        ValueError
            An option is unknown or has a value that it does not take.
        """
        merged = {**self._options, **check_options("actor", options, self.__name__)}
        key = options_key(merged)
        variant = self._variants.get(key)
        if variant is None:
            variant = object.__new__(type(self))
            variant._take_names(self.__name__, self.__qualname__, self.__module__, self.__doc__)
            variant._set_up(self._export, merged, self._described(), self._variants)
            self._variants[key] = variant
        return variant

    def _get_or_create(self, of: Session, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ActorHandle:
        name = self._options.get("name")
        if name is None:
            raise ValueError(f"{self.__name__}.options(get_if_exists=True) needs a name= to look for")
        while True:  # ends: each turn either finds the actor or makes it, unless it just died, or was made, in between
            found = find_actor(of, name, self._options.get("namespace"))
            if found is not None:
                return found
            try:
                return self._create(of, args, kwargs)
            except ValueError:
                if find_actor(of, name, self._options.get("namespace")) is None:
                    raise

    def _create(self, of: Session, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ActorHandle:
        options, described = self._options, self._described()
        name, namespace = options.get("name", ""), options.get("namespace", of.namespace)
        if name and not _is_free(of, name, namespace):
            raise ValueError(f"an actor named {name!r} is alive in namespace {namespace!r}: take it with "
                             f"cellmesh.get_actor({name!r}), use get_if_exists=True, or choose another name")
        demand, hold = resource_demand("actor", options)
        groups = options.get("concurrency_groups", {})
        meta = self.__name__, name, namespace, options.get("max_task_retries", 0), described.methods, tuple(groups)
        blueprint = blueprint_of(meta)
        for method_name, found in blueprint.methods.items():
            _group_number(blueprint, f"{self.__name__}.{method_name}", found.options)
        max_concurrency = options.get("max_concurrency", ASYNC_CONCURRENCY if described.is_async else 1)
        limits = (max_concurrency, *groups.values()) if groups else ()
        max_concurrency += sum(groups.values())
        shape, placement = of.placed(demand, hold, self.__name__, options)
        ref, constructor = of.client.create_actor(
            self._export.ref(of, options), shape, args, kwargs, meta=meta, placement=placement,
            name=name, namespace=namespace, max_restarts=options.get("max_restarts", 0),
            max_task_retries=options.get("max_task_retries", 0), max_concurrency=max_concurrency,
            ordered=not options.get("allow_out_of_order_execution", max_concurrency > 1 or described.is_async),
            detached=options.get("lifetime") == "detached", env=bool(demand.get("GPU")) or demand.get("CPU", 0.0) >= 2,
            max_pending=max(0, options.get("max_pending_calls", 0)), groups=limits)
        if of.kept_calls is not None and described.constructor is not None:
            of.kept_calls.note(constructor, described.constructor, args, kwargs)
        return ActorHandle(ref, blueprint)

    def __repr__(self) -> str:
        return f"<actor class {self.__name__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # State apart from creation: methods may refer to their class, which is then met again while its state is
        # pickled.
        ref = self._export.ref_for_pickle(session.current_or_none(), self._options)
        if ref is None:
            return _empty_class, (), (self._export.code, self._options)
        described = dataclasses.astuple(self._described())
        return _empty_class, (), (ref, self._export.key(self._options, session.current_or_none()), self._options, described)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if len(state) == 2:
            self.__init__(*state)  # type: ignore[misc]
            return
        ref, key, options, described = state
        description = Description(*described)
        self._take_names(description.name, description.name, description.module, description.doc)
        self._set_up(Export("actor", description.name, copies={key: ref}), options, description, {})

    def __copy__(self) -> ActorClass:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ActorClass:
        return self


def _empty_class() -> ActorClass:
    return object.__new__(ActorClass)


def make_actor_class(cls: type, options: Options) -> ActorClass:
    """What `remote` makes of a class.

    Raises
    ------
    ValueError
        If an option is wrong.
    """
    return ActorClass(cls, check_options("actor", options, cls.__name__))


# ---------------------------------------------------------------- handles
class ActorHandle:
    """An actor, as others see it: `handle.method.remote(...)` calls a method and returns an ObjectRef.

    The actor ends when the last handle goes, after the calls already made. Handles can be passed to tasks and actors,
    put into containers, compared and hashed.
    """

    _cellmesh_ref: Ref
    _cellmesh_blueprint: Blueprint

    def __init__(self, ref: Ref, blueprint: Blueprint) -> None:
        self.__dict__.update(_cellmesh_ref=ref, _cellmesh_blueprint=blueprint)

    def __getattr__(self, name: str) -> ActorMethod:
        # Reached only for names that are not in the instance: the first use of each method.
        if name.startswith("_cellmesh_"):  # an instance that is just being made
            raise AttributeError(name)
        blueprint = self._cellmesh_blueprint
        found = blueprint.methods.get(name) or BUILT_IN.get(name)
        if found is None:
            close = difflib.get_close_matches(name, blueprint.methods, n=1)
            methods = ", ".join(sorted(blueprint.methods)) or "none"
            hint = f"; did you mean {close[0]!r}?" if close else f"; its methods are {methods}"
            raise AttributeError(f"actor class {blueprint.class_name!r} has no method {name!r}{hint} (attributes of an "
                                 "actor are not visible from outside, only its methods)")
        bound = ActorMethod(self._cellmesh_ref, blueprint, name, found.options)
        self.__dict__[name] = bound
        return bound

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"an actor's state lives in its own process: {name!r} cannot be set on a handle, only by "
                             f"a method of {self._cellmesh_blueprint.class_name}")

    @property
    def _actor_id(self) -> Ref:
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
        name = f" {blueprint.name!r}" if blueprint.name else ""
        return f"<actor {blueprint.class_name}{name} {self._cellmesh_ref.hex()[16:]}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return handle_of, (self._cellmesh_ref,)


class ActorMethod:
    """A method of an actor. It keeps the actor alive, like a handle."""

    def __init__(self, ref: Ref, blueprint: Blueprint, name: str, options: Options) -> None:
        self._ref = ref
        self._blueprint = blueprint
        self._options = options
        self.__name__ = name
        self._described = blueprint.methods.get(name) or BUILT_IN[name]
        self.__doc__ = self._described.doc
        self.__qualname__ = f"{blueprint.class_name}.{name}"

    @property
    def __signature__(self) -> inspect.Signature:
        spec = self._described.spec
        if spec is None:
            raise AttributeError("__signature__")  # Python cannot tell
        return signature_of(spec)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        name = self.__name__
        raise TypeError(f"an actor's method cannot be called directly: use .{name}.remote(...), which returns an "
                        "ObjectRef, and cellmesh.get(ref) for its value")

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method; returns an ObjectRef at once."""
        of = session.current()
        submitter = self._bind(of)
        if of.kept_calls is not None and self._described.spec is not None:
            submitter = of.kept_calls.watch(self, self._described.spec, submitter)
            of.bound.add(self)
        self.remote = submitter  # type: ignore[method-assign]
        return submitter(*args, **kwargs)

    def unbind(self) -> None:
        """Forget the submitter; the next call makes one."""
        self.__dict__.pop("remote", None)

    def uses_export(self, export: Export) -> bool:
        """Whether the submitter runs that copy of the code: an actor stays what it is."""
        return False

    def options(self, **options: Any) -> ActorMethod:
        """The same method with other options."""
        merged = {**self._options, **check_options("method", options, self.__qualname__)}
        return ActorMethod(self._ref, self._blueprint, self.__name__, merged)

    def _bind(self, of: Session) -> Callable[..., Any]:
        described = self._described
        spec, options = described.spec, self._options
        return of.client.submitter(
            self._function(of), of.shape({}, None, self.__qualname__), actor=self._ref,
            **returns_of(options, described.is_generator, self.__qualname__),
            max_retries=options.get("max_task_retries", self._blueprint.max_task_retries),
            retry_exceptions=bool(options.get("retry_exceptions", False)),
            group=_group_number(self._blueprint, self.__qualname__, options),
            params=quick_check(spec) if spec is not None else None,
            check=call_check(spec, self.__qualname__) if spec is not None else None)

    def _function(self, of: Session) -> Ref:
        """The function object that names this method; one per session, displayed name and method."""
        shown = self._options.get("name", self.__qualname__)
        retry_on = self._options.get("retry_exceptions")
        retry_on = tuple(retry_on) if isinstance(retry_on, (list, tuple)) else ()
        key = (shown, self.__name__, retry_on)
        ref = of.method_functions.get(key)
        if ref is None:
            from .objstore.serialization import method_object
            ref = of.method_functions[key] = of.client.put(method_object(shown, self.__name__, retry_on))
            function_names.remember(ref, "method", shown)
        return ref

    def __repr__(self) -> str:
        return f"<method {self.__qualname__} of an actor>"


def call_in_actor(handle: ActorHandle, function: Callable[..., Any], *args: Any, name: str, num_returns: int = 1,
                  hidden: bool = False) -> Any:
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
    from .objstore.serialization import visitor_object
    of = session.current()
    code = of.client.put(visitor_object(name, function))
    function_names.remember(code, "method", name)
    submit = of.client.submitter(code, of.shape({}, None, name), actor=handle._cellmesh_ref,
                                 num_returns=num_returns, max_retries=0, hidden=hidden)
    return submit(*args)


def _group_number(blueprint: Blueprint, owner: str, options: Options) -> int:
    name = options.get("concurrency_group")
    if name is None:
        return 0
    if name not in blueprint.groups:
        there = ", ".join(map(repr, blueprint.groups)) or "none"
        raise ValueError(f"option concurrency_group={name!r} of {owner}: the actor's concurrency groups are {there} (option "
                         "concurrency_groups of its class)")
    return 1 + blueprint.groups.index(name)


def handle_of(ref: Ref) -> ActorHandle:
    """The handle for an actor object's ref."""
    return ActorHandle(ref, blueprint_of(ref.client.get(ref)))


def _is_free(of: Session, name: str, namespace: str) -> bool:
    """Whether an actor may be given that name; in a cluster it is taken with this."""
    if of.client.get_actor(name, namespace) is not None:
        return False
    if not of.in_cluster:
        return True
    from . import cluster_names
    return cluster_names.claim(of, name, namespace)


def find_actor(of: Session, name: str, namespace: str | None) -> ActorHandle | None:
    """The living actor of that name, or None."""
    namespace = namespace if namespace is not None else of.namespace
    ref = of.client.get_actor(name, namespace)
    if ref is None and of.in_cluster:
        from . import cluster_names
        ref = cluster_names.find(of, name, namespace)
    return handle_of(ref) if ref is not None else None
