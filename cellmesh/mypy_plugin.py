"""A plugin for mypy, which takes a decorated class for the class that it was, and cannot look through a handle at its
methods.

    [tool.mypy]
    plugins = ["cellmesh.mypy_plugin"]

With it `Counter.remote(...)` and `Counter.group(...)` are known where `Counter` is decorated, and
`handle.add.remote(...)` has the types of `Counter.add`, for a handle of an actor or of a group.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.checker import TypeChecker
from mypy.nodes import MDEF, CallExpr, Decorator, RefExpr, SymbolTableNode, TypeInfo, Var
from mypy.plugin import AttributeContext, ClassDefContext, Plugin
from mypy.types import AnyType, CallableType, FunctionLike, Instance, Parameters, Type, TypeOfAny, get_proper_type

HANDLE = "cellmesh.submit.actor.ActorHandle"
CLASS = "cellmesh.submit.actor_class.ActorClass"
MARK = "cellmesh"  # in the metadata of classes that are decorated
GROUP = "cellmesh.groups.actor_group.ActorGroup"
OF_CLASSES = ("remote", "options", "group")
AWAITED = {"typing.Coroutine": 2, "typing.Awaitable": 0}  # number of the argument that says what comes of it
YIELDED = ("typing.Generator", "typing.Iterator", "typing.AsyncGenerator", "typing.AsyncIterator")


class CellmeshPlugin(Plugin):
    """See the module."""

    def get_class_decorator_hook_2(self, fullname: str) -> Callable[[ClassDefContext], bool] | None:
        return _note_class if fullname == "cellmesh.api.remote" else None

    def get_class_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        name = fullname.rpartition(".")[2]
        return (lambda ctx: _of_class(ctx, name)) if name in OF_CLASSES else None

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        owner, _, name = fullname.rpartition(".")
        if name.startswith("_"):
            return None
        if owner == CLASS:
            return (lambda ctx: _of_actor_class(ctx, name)) if name not in OF_CLASSES else None
        if owner == GROUP:
            return lambda ctx: _of_group(ctx, name)
        return (lambda ctx: _of_handle(ctx, name)) if owner == HANDLE else None


def _note_class(ctx: ClassDefContext) -> bool:
    info = ctx.cls.info
    info.metadata[MARK] = {}
    for name in OF_CLASSES:
        if name not in info.names:
            member = Var(name, AnyType(TypeOfAny.special_form))
            member.info, member.is_classvar, member._fullname = info, True, f"{info.fullname}.{name}"
            info.names[name] = SymbolTableNode(MDEF, member, plugin_generated=True)
    return True


def _of_class(ctx: AttributeContext, name: str) -> Type:
    """`Counter.remote` and `Counter.options` are those of `ActorClass`."""
    constructor = ctx.type
    if (
        not isinstance(constructor, FunctionLike)
        or not constructor.is_type_obj()
        or MARK not in constructor.type_object().metadata
    ):
        return ctx.default_attr_type
    made = get_proper_type(constructor.items[0].ret_type)
    return _member(ctx, Instance(_class(ctx, "cellmesh.submit.actor_class", "ActorClass"), [made, constructor]), name)


def _of_actor_class(ctx: AttributeContext, name: str) -> Type:
    """`CounterActor.name` is what `Counter.name` is, where `CounterActor = remote(Counter)`."""
    made = ctx.type
    actor = get_proper_type(made.args[0]) if isinstance(made, Instance) and made.args else None
    if not isinstance(actor, Instance):
        return ctx.default_attr_type
    if actor.type.get(name) is None:
        ctx.api.fail(f'Actor class "{actor.type.name}" has no attribute "{name}"', ctx.context)
        return AnyType(TypeOfAny.from_error)
    return ctx.default_attr_type


def _of_handle(ctx: AttributeContext, name: str) -> Type:
    """`handle.method` is an `ActorMethod` with the method's types."""
    handle = ctx.type
    actor = get_proper_type(handle.args[0]) if isinstance(handle, Instance) and handle.args else None
    if not isinstance(actor, Instance):
        return ctx.default_attr_type
    found = actor.type.get(name)
    method = get_proper_type(_member(ctx, actor, name)) if found is not None else None
    if not isinstance(method, (FunctionLike, AnyType)):
        ctx.api.fail(
            f'Actor class "{actor.type.name}" has no method "{name}"'
            f"{', and its attributes are not visible from outside' if method is not None else ''}",
            ctx.context,
        )
        return AnyType(TypeOfAny.from_error)
    if not isinstance(method, CallableType) or method.variables:
        return ctx.default_attr_type
    value, submitted = _returned(ctx, method.ret_type)
    if found is not None and isinstance(found.node, Decorator) and _sets_num_returns(found.node):
        submitted = AnyType(TypeOfAny.special_form)
    parameters = Parameters(method.arg_types, method.arg_kinds, method.arg_names)
    return Instance(_class(ctx, "cellmesh.submit.actor", "ActorMethod"), [parameters, value, submitted])


def _of_group(ctx: AttributeContext, name: str) -> Type:
    """`workers.method` is a `GroupMethod` with the method's types; what the group has itself goes before it."""
    if isinstance(ctx.type, Instance) and ctx.type.type.get(name) is not None:
        return ctx.default_attr_type
    of_one = get_proper_type(_of_handle(ctx, name))
    if not isinstance(of_one, Instance) or of_one.type.name != "ActorMethod":
        return of_one
    return Instance(_class(ctx, "cellmesh.groups.calls", "GroupMethod"), of_one.args[:2])


def _returned(ctx: AttributeContext, returned: Type) -> tuple[Type, Type]:
    """What a method makes, and what a call of it returns at once."""
    value = get_proper_type(returned)
    if isinstance(value, Instance) and value.type.fullname in YIELDED:
        return value, Instance(_class(ctx, "cellmesh.submit.generator", "ObjectRefGenerator"), [value.args[0]])
    if isinstance(value, Instance) and value.type.fullname in AWAITED:
        value = get_proper_type(value.args[AWAITED[value.type.fullname]])
    return value, Instance(_class(ctx, "cellmesh.objstore._core", "ObjectRef"), [value])


def _sets_num_returns(method: Decorator) -> bool:
    return any(
        isinstance(call, CallExpr)
        and isinstance(call.callee, RefExpr)
        and call.callee.fullname == "cellmesh.submit.actor_blueprint.method"
        and "num_returns" in call.arg_names
        for call in method.original_decorators
    )


def _checker(ctx: AttributeContext) -> TypeChecker:
    """What plugins are given, as what it is: its interface for them lacks what is needed here."""
    assert isinstance(ctx.api, TypeChecker)
    return ctx.api


def _member(ctx: AttributeContext, owner: Instance, name: str) -> Type:
    return _checker(ctx).expr_checker.analyze_external_member_access(name, owner, ctx.context)


def _class(ctx: AttributeContext, module: str, name: str) -> TypeInfo:
    node = _checker(ctx).modules[module].names[name].node
    assert isinstance(node, TypeInfo)
    return node


def plugin(version: str) -> type[Plugin]:
    """Where mypy begins."""
    return CellmeshPlugin
