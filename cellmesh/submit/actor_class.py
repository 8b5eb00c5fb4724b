"""What `@cellmesh.remote` makes of a class: `ActorClass`, whose `remote` starts an actor and returns its handle."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import time
import weakref
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from .. import front_end
from ..exceptions import ActorAlreadyExistsError
from ..objstore import own_pickles
from ..objstore.annotations import get_signature
from ..session.current import current, current_or_none
from ..session.session import Session
from ..type_variables import C, F, Submits
from .described import describe, described, takes_options
from .export import Export, reduced_for_others
from .options import MAX_CONCURRENCY, Options, check_options, options_key, resource_demand
from .resource_requests import placed
from .signatures import Spec, call_check, signature_of, spec_of

if TYPE_CHECKING:
    from typing import Literal, Unpack

    from ..groups.actor_group import ActorGroup
    from ..typed import ActorOptions
    from .export import Made

from .actor import ActorHandle, find_actor
from .actor_blueprint import Member, Method, blueprint_of, group_number

# Special methods that Python calls on its own, or that a handle has itself; all others can be called by name, as
# `handle.__len__.remote()`.
_AUTOMATIC = {"__del__", "__getattr__", "__getattribute__", "__post_init__", "__set_name__"}
NOT_METHODS = _AUTOMATIC.union(dir(object), dir(type)) - {"__call__"}
OWN_NAMES = ("group", "options", "remote")  # of an `ActorClass`
MAKING_S, LOOK_S = 10.0, 0.01  # for an actor that another machine makes to be there, and how often it is looked for
ASYNC_CONCURRENCY = 1000  # calls that an actor with async methods has under way at a time unless told otherwise


def _tables(cls: type) -> tuple[dict[str, Method], bool]:
    """The methods that handles offer, and whether the actor is an async one."""
    methods = {}
    is_async = False
    for name in dir(cls):
        static = inspect.getattr_static(cls, name)
        function = getattr(static, "__func__", static)
        if (
            not inspect.isroutine(function)
            or hasattr(type(function), "__cellmesh_code__")
            or (name.startswith("__") and (name in NOT_METHODS or not inspect.isfunction(function)))
        ):
            continue
        takes_self = not isinstance(static, (staticmethod, classmethod))
        spec = spec_of(function, skip_first=not isinstance(static, staticmethod))
        is_async |= takes_self and (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function))
        methods[name] = Method(
            spec,
            getattr(function, "__cellmesh_method__", {}),
            inspect.getdoc(function) or "",
            inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function),
        )
    return methods, is_async


@dataclass(frozen=True)
class Description:
    """What can be said of a class without having it."""

    name: str
    module: str
    doc: str | None
    constructor: Spec | None
    is_async: bool
    methods: bytes  # the pickled table, as in an actor object

    @classmethod
    def of(cls, user_class: type) -> Description:
        """Look at a class."""
        from ..objstore.serialization import dump_code

        methods, is_async = _tables(user_class)
        table = {name: (m.spec, m.options, m.doc, m.is_generator) for name, m in methods.items()}
        data, _ = dump_code(table)  # options may name exception classes of the notebook
        return cls(user_class.__name__, user_class.__module__, user_class.__doc__, spec_of(user_class), is_async, data)


class ActorClass(Submits[F, "ActorHandle[C]"], Generic[C, F]):
    """A class whose instances are actors: `Counter.remote(...)` starts one and returns its handle.

    What the class has is there, too: its attributes, `Counter.LIMIT`, which can be set, and its static and class
    methods, `Counter.parse("3")`, which run where they are called.
    """

    __name__: str

    # Names of our own begin with `_cellmesh_`: all others are the class's.

    def __init__(self, cls: type[C], options: Options) -> None:
        self._cellmesh_set_up(Export("actor", cls.__name__, cls), options, None)
        self._cellmesh_take_names(cls.__name__, cls.__qualname__, cls.__module__, cls.__doc__)

    def _cellmesh_set_up(self, export: Export, options: Options, description: Description | None) -> None:
        self._cellmesh_export = export
        self._cellmesh_options = options
        self._cellmesh_description = description  # made when needed: a class may be decorated long before
        self._cellmesh_described_copy: weakref.ref[Made] | None = None  # of the class as it was then
        # Made by options(). They do not refer back: that would be a cycle.
        self._cellmesh_variants: dict[Hashable, ActorClass[C, F]] = {}

    def _cellmesh_take_names(self, name: str, qualname: str, module: str, doc: str | None) -> None:
        self.__name__, self.__qualname__, self.__module__, self.__doc__ = name, qualname, module, doc

    @property
    def __cellmesh_code__(self) -> type[C]:
        return self._cellmesh_export.code

    @property
    def __signature__(self) -> inspect.Signature:
        spec = self._cellmesh_described().constructor
        if self._cellmesh_export.is_here or spec is None:
            return get_signature(self._cellmesh_export.code)
        return signature_of(spec)

    def _cellmesh_about(self) -> Callable[[str], Any]:
        code = self._cellmesh_export.code if self._cellmesh_export.is_here else None
        return partial(describe, self.__name__, self.__doc__, code, self._cellmesh_described().constructor, ActorHandle)

    def _cellmesh_described(self) -> Description:
        export = self._cellmesh_export
        copy = self._cellmesh_described_copy
        if self._cellmesh_description is None or export.may_have_changed(copy() if copy else None):
            self._cellmesh_description = Description.of(export.code)
            self._cellmesh_described_copy = weakref.ref(export.made) if export.made else None
        return self._cellmesh_description

    def __getattr__(self, name: str) -> Any:
        if _is_own(name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        code = self._cellmesh_export.code
        value = getattr(code, name)
        if getattr(value, "__qualname__", None) == f"{code.__qualname__}.{name}":
            # pickle asks whether it could be imported as `module.Counter.name`. It could not: it travels with the
            # class.
            if sys._getframe(1).f_globals.get("__name__") in ("pickle", "cloudpickle.cloudpickle"):
                raise AttributeError(
                    f"{name!r} of the actor class {self.__name__} is pickled by value", name=name, obj=self
                )
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if _is_own(name):
            super().__setattr__(name, value)
        else:
            setattr(self._cellmesh_export.code, name, value)

    def __delattr__(self, name: str) -> None:
        if _is_own(name):
            super().__delattr__(name)
        else:
            delattr(self._cellmesh_export.code, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._cellmesh_export.code), *OWN_NAMES})

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self._cellmesh_export.code)

    def __subclasscheck__(self, subclass: type) -> bool:
        return issubclass(subclass, self._cellmesh_export.code)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        name = self.__name__
        raise TypeError(
            f"Inheriting from actor classes is not supported, and {name} is one: keep the plain class under a name of "
            f"its own, inherit from that, and make actors of either, {name}Actor = cellmesh.remote({name})"
        )

    if not TYPE_CHECKING:  # as in RemoteFunction

        def __call__(self, /, *args: Any, **kwargs: Any) -> NoReturn:
            name = self.__name__
            raise TypeError(
                f"{name} is an actor class and cannot be instantiated directly: use {name}.remote(...), which starts "
                "an actor and returns its handle"
            )

        @described
        def remote(self, /, *args: Any, **kwargs: Any) -> ActorHandle:
            """Start an actor; returns its handle at once, before its constructor has run.

            Raises
            ------
            TypeError
                The arguments do not fit the constructor.
            ValueError
                An actor of that name is alive in the namespace.
            """
            constructor = self._cellmesh_described().constructor
            if constructor is not None:
                call_check(constructor, self.__name__)(args, kwargs)
            of = current()
            if self._cellmesh_options.get("get_if_exists"):
                return self._cellmesh_get_or_create(of, args, kwargs)
            return self._cellmesh_create(of, args, kwargs)

    @takes_options("actor")
    def options(self, **options: Unpack[ActorOptions]) -> ActorClass[C, F]:
        """The same class with other options, for `Counter.options(name="c").remote()`.

        Raises
        ------
        ValueError
            An option is unknown or has a value that it does not take.
        """
        merged = {**self._cellmesh_options, **check_options("actor", options, self.__name__)}
        key = options_key(merged)
        variant = self._cellmesh_variants.get(key)
        if variant is None:
            variant = object.__new__(type(self))
            variant._cellmesh_take_names(self.__name__, self.__qualname__, self.__module__, self.__doc__)
            variant._cellmesh_set_up(self._cellmesh_export, merged, self._cellmesh_described())
            self._cellmesh_variants[key] = variant
        return variant

    def group(
        self,
        n: int | None = None,
        /,
        *args: Any,
        shape: Mapping[str, int] | None = None,
        strategy: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] | None = None,
        on_death: Literal["fail", "restart", "shrink"] = "fail",
        **kwargs: Any,
    ) -> ActorGroup[C]:
        """`cellmesh.group` of this class: `Trainer.options(num_gpus=1).group(8, lr=0.1)`."""
        from .. import group

        return group(self, n, *args, shape=shape, strategy=strategy, on_death=on_death, **kwargs)

    def _cellmesh_get_or_create(self, of: Session, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ActorHandle[C]:
        name = self._cellmesh_options.get("name")
        if name is None:
            raise ValueError(f"{self.__name__}.options(get_if_exists=True) needs a name= to look for")
        until = time.monotonic() + MAKING_S
        while True:  # ends: each turn either finds the actor or makes it, unless it just died, or was made, in between
            found = find_actor(of, name, self._cellmesh_options.get("namespace"))
            if found is not None:
                return found
            try:
                return self._cellmesh_create(of, args, kwargs)
            except ActorAlreadyExistsError:  # on another machine, perhaps, where it is about to be made
                if time.monotonic() > until:
                    raise
                time.sleep(LOOK_S)

    def _cellmesh_create(
        self,
        of: Session,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Options | None = None,
        member: Member | None = None,
    ) -> ActorHandle[C]:
        """Start an actor; with other options than the class's, and as a group's member, if they are given."""
        if of.is_pocket and member is not None:
            of.refuse_on_engine(
                f"a group of {self.__name__}", "no groups can be made: make it in the notebook or program"
            )
        described = self._cellmesh_described()
        options = self._cellmesh_options if options is None else options
        name, namespace = options.get("name", ""), options.get("namespace", of.namespace)
        demand, hold = resource_demand("actor", options)
        groups = options.get("concurrency_groups", {})
        retries = options.get("max_task_retries", 0)
        meta = self.__name__, name, namespace, retries, described.methods, tuple(groups), member
        blueprint = blueprint_of(meta)
        for method_name, found in blueprint.methods.items():
            group_number(blueprint, f"{self.__name__}.{method_name}", found.options)
        max_concurrency = options.get("max_concurrency", ASYNC_CONCURRENCY if described.is_async else 1)
        limits = (max_concurrency, *groups.values()) if groups else ()
        max_concurrency = min(max_concurrency + sum(groups.values()), MAX_CONCURRENCY)
        is_detached = options.get("lifetime") == "detached"
        ordered = not options.get("allow_out_of_order_execution", max_concurrency > 1 or described.is_async)
        if of.engine is not None:
            from ..errors import engine_limits
            from .scheduling_strategies import options_with_engine

            asked = {
                engine_limits.ACTORS: True,
                engine_limits.CONCURRENT_ACTORS: max_concurrency > 1 or not ordered,
            }
            kinds = [kind for kind, is_asked in asked.items() if is_asked]
            options = options_with_engine(of, options, demand, self.__name__, *kinds)
        if name and not _is_free(of, name, namespace):
            raise _taken(name, namespace)
        how: dict[str, Any] = {
            "meta": meta,
            "name": name,
            "namespace": namespace,
            "max_restarts": options.get("max_restarts", 0),
            "max_task_retries": retries,
            "max_concurrency": max_concurrency,
            "ordered": ordered,
            "detached": is_detached,
            "env": bool(demand.get("GPU")) or demand.get("CPU", 0.0) >= 2,
            "max_pending": max(0, options.get("max_pending_calls", 0)),
            "groups": limits,
            "refuses": front_end.dialect.refuses_while_restarting,
            "about": self._cellmesh_about(),
        }
        if of.is_pocket:
            made = of.make_actor(self._cellmesh_export.ref(of, options), args, kwargs, demand, hold, options, how)
            if made is None:
                raise _taken(name, namespace)
            return ActorHandle(made, blueprint)
        shape, placement = placed(of, demand, hold, self.__name__, options)
        try:
            ref, constructor = of.client.create_actor(
                self._cellmesh_export.ref(of, options),
                shape,
                args,
                kwargs,
                placement=placement,
                own_priority="priority" in options,
                **how,
            )
        except ValueError:
            if name and of.client.get_actor(name, namespace) is not None:  # since it was looked for
                raise _taken(name, namespace) from None
            raise
        if of.kept_calls is not None and described.constructor is not None:
            of.kept_calls.note(constructor, described.constructor, args, kwargs)
        return ActorHandle(ref, blueprint)

    def __repr__(self) -> str:
        return f"<actor class {self.__name__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced_for_others(self)

    def _cellmesh_reduced_inside(self) -> tuple[Any, ...]:
        # State apart from creation: methods may refer to their class, which is then met again while its state is
        # pickled.
        ref = self._cellmesh_export.ref_for_pickle(current_or_none(), self._cellmesh_options)
        if ref is None:
            return _empty_class, (), (self._cellmesh_export.code, self._cellmesh_options)
        described = dataclasses.astuple(self._cellmesh_described())
        return (
            _empty_class,
            (),
            (
                ref,
                self._cellmesh_export.key(self._cellmesh_options, current_or_none()),
                self._cellmesh_options,
                described,
            ),
        )

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if len(state) == 2:
            self.__init__(*state)
            return
        ref, key, options, described = state
        description = Description(*described)
        self._cellmesh_take_names(description.name, description.name, description.module, description.doc)
        self._cellmesh_set_up(Export("actor", description.name, copies={key: ref}), options, description)

    def __copy__(self) -> ActorClass[C, F]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ActorClass[C, F]:
        return self


own_pickles.reducers[ActorClass] = ActorClass._cellmesh_reduced_inside


def _is_own(name: str) -> bool:
    """Whether an attribute is of an `ActorClass` itself, and not of the class that it stands for.

    So are names in underscores: protocols (pickle, IPython's display) ask for them.
    """
    return name in OWN_NAMES or name.startswith("_cellmesh_") or (name.startswith("_") and name.endswith("_"))


def _empty_class() -> ActorClass[Any]:
    return object.__new__(ActorClass)


def make_actor_class(cls: type[C], options: Options) -> ActorClass[C]:
    """What `remote` makes of a class.

    Raises
    ------
    ValueError
        If an option is wrong.
    """
    return ActorClass(cls, check_options("actor", options, cls.__name__))


def _taken(name: str, namespace: str) -> ActorAlreadyExistsError:
    return ActorAlreadyExistsError(
        f"an actor named {name!r} is alive in namespace {namespace!r}: take it with "
        f"cellmesh.get_actor({name!r}), use get_if_exists=True, or choose another name"
    )


def _is_free(of: Session, name: str, namespace: str) -> bool:
    """Whether an actor may be given that name; in a cluster it is taken with this."""
    if of.client.get_actor(name, namespace) is not None:
        return False
    if not of.asks_agent:
        return True
    from . import actor_names

    return actor_names.claim(of, name, namespace)
