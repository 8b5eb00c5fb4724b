"""What `workers.method` is: a call of the method of every member."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..refs import ObjectRef
from ..session.current import current
from ..submit.actor import ActorHandle, ActorMethod
from ..submit.described import describe, described, takes_options
from ..submit.mapping import check_one_value
from ..submit.options import Options, check_options, returns_of
from ..type_variables import P, R, Submits
from .on_death import answer
from .ref_group import RefGroup, submits
from .shape import ranks_in_words

if TYPE_CHECKING:
    from typing import NoReturn, Unpack

    from ..typed import MethodOptions
    from .members import Members

SMALL_CHARS = 1024
# What is not stored to be shared: each call has it within its own arguments.
_SMALL: tuple[type, ...] = (int, float, bool, type(None), complex, ObjectRef, ActorHandle)


class GroupMethod(Submits[Callable[P, R], RefGroup[R]]):
    """A method of all members of a group, or of a part of it."""

    def __init__(self, members: Members, ranks: tuple[int, ...], name: str, options: Options | None = None) -> None:
        self._members, self._ranks, self._options = members, ranks, options or {}
        self.__name__ = name
        one: ActorMethod[..., Any, Any] = getattr(members.handles[0], name)
        self._described = one._described
        self.__doc__ = one.__doc__
        self.__qualname__ = f"{members.class_name}.{name}"
        check_one_value(
            f"the group's {name}.remote",
            name,
            returns_of({**one._options, **self._options}, one._described.is_generator, self.__qualname__),
        )
        self._look()

    def _look(self) -> None:
        """Have a method for each member that is to be called."""
        members = self._members
        self._version = members.version
        handles = [members.handles[rank] for rank in self._ranks]
        self._called = self._ranks
        self._watched = ()
        self._refs = [handle._cellmesh_ref for handle in handles]
        self._methods = [getattr(handle, self.__name__) for handle in handles]
        if members.on_death == "fail" and len(handles) > 1:
            self._watched = tuple(ref.client.actor_place(ref) for ref in self._refs)
        if self._options:
            self._methods = [method.options(**self._options) for method in self._methods]

    def _check(self) -> None:
        """Look at the deaths, when there was one or a member was replaced.

        Raises
        ------
        GroupMemberDiedError
            A member that is to be called is dead, and the group is not to go on without it.
        """
        members = self._members
        members.found_again(self._ranks)
        self._look()
        alive = tuple(rank for rank in self._ranks if not members.is_dead(rank))
        for rank in self._ranks:
            if rank not in alive and answer(members.on_death, "call", len(alive)) == "raise":
                raise members.died(rank)
        if len(alive) < len(self._ranks):
            which = [self._ranks.index(rank) for rank in alive]
            self._called = alive
            self._refs = [self._refs[i] for i in which]
            self._methods = [self._methods[i] for i in which]

    def _prepare(self) -> None:
        if self._version != self._members.version or (self._refs and self._refs[0].client.first_dead(self._refs) >= 0):
            self._check()

    if not TYPE_CHECKING:  # as in ActorMethod

        def __call__(self, /, *args: Any, **kwargs: Any) -> NoReturn:
            raise TypeError(
                f"a group's method cannot be called directly: use .{self.__name__}.remote(...), which calls every "
                "member and returns a RefGroup, and cellmesh.get(refs) for the values"
            )

        @described
        def remote(self, /, *args: Any, **kwargs: Any) -> RefGroup[R]:
            """Call the method of every member; returns the refs in rank order, at once.

            An argument that is not small is stored once, and all members read it there.
            """
            self._prepare()
            if len(self._methods) > 1:
                args, kwargs = _stored_once(args, kwargs)
            refs = [method.remote(*args, **kwargs) for method in self._methods]
            return RefGroup(refs, self._called, self.__qualname__, self._watched)

    def scatter(self, items: Iterable[Any], /, **kwargs: Any) -> RefGroup[R]:
        """Call the method of each member with an item of its own: the first item for the first member.

        Parameters
        ----------
        items : iterable
            As many as there are members; refs, too.
        **kwargs
            The same for all.

        Raises
        ------
        ValueError
            Their numbers do not agree.
        """
        self._prepare()
        if not isinstance(items, Iterable):
            raise TypeError(f"{self.__qualname__}.scatter({items!r}): needs an item for each member, a list of them")
        given = list(items)
        if len(given) != len(self._methods):
            raise ValueError(
                f"{self.__qualname__}.scatter(): {len(given)} items for {len(self._methods)} members, of ranks "
                f"{ranks_in_words(self._called)}: it needs one for each"
            )
        if len(given) > 1:
            _, kwargs = _stored_once((), kwargs)
        refs = [method.remote(item, **kwargs) for method, item in zip(self._methods, given, strict=True)]
        return RefGroup(refs, self._called, self.__qualname__, self._watched)

    def reduce(self, function: Callable[[Any, Any], Any], /, *args: Any, **kwargs: Any) -> ObjectRef[Any]:
        """Call the method of every member, and make one value of what they return; returns its ref.

        Neighbours in rank order are combined by tasks, in a tree: `function(function(a0, a1), function(a2, a3))`.

        Parameters
        ----------
        function : callable, plain or remote
            Of two values; associative. Tasks of a plain one need no CPU of their own, which the members may hold.
        *args, **kwargs
            Of the method.
        """
        combine = submits(function, num_cpus=0)
        refs = self.remote(*args, **kwargs)
        if not refs:
            raise ValueError(f"{self.__qualname__}.reduce(): the part has no members, so there is nothing to combine")
        level: list[ObjectRef[Any]] = list(refs)
        while len(level) > 1:
            pairs = [combine.remote(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
            level = pairs + level[2 * len(pairs) :]
        return level[0]

    @takes_options("method")
    def options(self, **options: Unpack[MethodOptions]) -> GroupMethod[P, R]:
        """The same method with other options."""
        checked = check_options("method", options, self.__qualname__)
        return GroupMethod(self._members, self._ranks, self.__name__, {**self._options, **checked})

    def _cellmesh_about(self) -> Callable[[str], Any]:
        spec, doc = self._described.spec, self._described.doc
        return partial(describe, self.__qualname__, doc, None, spec, RefGroup)

    def __repr__(self) -> str:
        return f"<method {self.__qualname__} of {len(self._ranks)} actors>"


def _stored_once(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with refs in place of what would be stored or pickled for each call."""
    for value in args:
        if not _is_small(value):
            args = tuple(map(_stored, args))
            break
    if kwargs:
        kwargs = {name: _stored(value) for name, value in kwargs.items()}
    return args, kwargs


def _is_small(value: Any) -> bool:
    kind = type(value)
    return kind in _SMALL or (kind in (str, bytes) and len(value) < SMALL_CHARS)


def _stored(value: Any) -> Any:
    if _is_small(value):
        return value
    try:
        return current().client.put(value)
    except TypeError:  # the call says which argument it is
        return value
