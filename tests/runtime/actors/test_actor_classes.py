"""An actor class stands for its class; names that users choose are theirs; methods can be handed on."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import cellmesh
from cellmesh.util.multiprocessing import Pool

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


class Plain:
    """A class that is not decorated."""

    def hello(self) -> str:
        return "plain"


@cellmesh.remote
class Model(Plain):
    LIMIT = 5
    _options = {"rate": 2}
    _create = "ours, not yours"

    def __init__(self) -> None:
        self.n_calls = 0
        self.value = self.half = 7
        self.twice = lambda x: 2 * x

    @staticmethod
    def helper(x: int) -> int:
        return x + 1

    @classmethod
    def named(cls) -> tuple[str, int]:
        return cls.__name__, cls.LIMIT

    def inside(self) -> tuple[Any, ...]:
        return (
            Model.LIMIT,
            Model.helper(1),
            Model.named(),
            Model._options["rate"],
            Model._create,
            isinstance(self, Model),
        )

    def hello(self) -> str:
        return f"model, {super().hello()}"

    def value(self) -> str:
        return "the method"

    @staticmethod
    def half(x: int) -> int:
        return x // 2

    def twice(self, x: int) -> int:
        raise NotImplementedError

    def count(self) -> int:
        self.n_calls += 1
        return self.n_calls

    def call(self, methods: list[Any]) -> list[Any]:
        return [cellmesh.get(method.remote()) for method in methods]


IN_A_MODULE = """
import cellmesh

@cellmesh.remote
class Served:
    class Config:
        def __init__(self, n):
            self.n = n

    def __init__(self, config):
        assert type(config) is self.Config
        self.config = config

    @staticmethod
    def double(x):
        return 2 * x

    def twice(self):
        return self.double(self.config.n)

    def give(self):
        return self.config
"""


@cellmesh.remote
def outside() -> tuple[Any, ...]:
    return Model.LIMIT, Model.helper(1), Model.named()


@cellmesh.remote
def takes_any(
    self: int, args: int = 0, *, kwargs: int = 0, name: int = 0, options: int = 0, function: int = 0
) -> tuple[int, ...]:
    return self, args, kwargs, name, options, function


NAMES = {"self": 1, "args": 2, "kwargs": 3, "name": 4, "options": 5, "function": 6}


@cellmesh.remote
class Keywords:
    def __init__(this, **given: int) -> None:
        this.given = given

    def constructed(this) -> dict[str, int]:
        return this.given

    def take(this, **given: int) -> dict[str, int]:
        return given


# ---------------------------------------------------------------- what the class has
def test_attributes_and_static_and_class_methods_are_there() -> None:
    assert (Model.LIMIT, Model.helper(1), Model.named(), Model._options) == (5, 2, ("Model", 5), {"rate": 2})
    assert isinstance(Model.__cellmesh_code__(), Model) and not isinstance(Plain(), Model)
    assert issubclass(Model.__cellmesh_code__, Model) and not issubclass(Plain, Model)


def test_also_in_its_own_methods_and_in_other_tasks(cm: ModuleType) -> None:
    model = Model.remote()
    assert cm.get(model.inside.remote()) == (5, 2, ("Model", 5), 2, "ours, not yours", True)
    assert cm.get(model.hello.remote()) == "model, plain"
    assert cm.get(outside.remote()) == (5, 2, ("Model", 5))
    assert Model.options(name="m").LIMIT == 5


def test_what_belongs_to_the_class_travels_with_it(
    cm: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text(IN_A_MODULE)
    with monkeypatch.context() as context:
        context.syspath_prepend(tmp_path)
        module = importlib.import_module("only_here")
    monkeypatch.setitem(sys.modules, "only_here", module)
    served = module.Served.remote(module.Served.Config(3))
    assert cm.get(served.twice.remote()) == 6
    config = cm.get(served.give.remote())
    assert type(config) is module.Served.Config and config.n == 3


def test_a_method_that_cannot_travel_is_told_at_once(cm: ModuleType) -> None:
    lock = threading.Lock()

    class Locked:
        def f(self) -> bool:
            return lock.locked()

    Locked.__qualname__, Locked.f.__qualname__ = "Locked", "Locked.f"
    sys.modules[__name__].Locked = cm.remote(Locked)
    try:
        with pytest.raises(TypeError, match=r"Locked.f\b.*\block"):
            sys.modules[__name__].Locked.remote()
    finally:
        del sys.modules[__name__].Locked


def test_an_attribute_that_is_set_is_set_in_the_class(cm: ModuleType) -> None:
    class Limited:
        limit = 1

        def its_limit(self) -> int:
            return self.limit

    actor_class = cm.remote(Limited)
    assert cm.get(actor_class.remote().its_limit.remote()) == 1
    actor_class.limit = 2
    assert Limited.limit == actor_class.limit == 2 and cm.get(actor_class.remote().its_limit.remote()) == 2
    actor_class.other = 3
    del actor_class.other
    assert not hasattr(Limited, "other")


def test_dir_is_that_of_the_class_with_what_makes_actors() -> None:
    public = [name for name in dir(Model) if not name.startswith("_")]
    assert public == [
        "LIMIT",
        "call",
        "count",
        "group",
        "half",
        "hello",
        "helper",
        "inside",
        "named",
        "options",
        "remote",
        "twice",
        "value",
    ]


def test_what_the_class_does_not_have_is_told_as_python_tells_it() -> None:
    with pytest.raises(AttributeError, match="type object 'Model' has no attribute 'limit'"):
        _ = Model.limit
    assert not hasattr(Model, "_repr_html_") and not hasattr(Model, "__len__")


# ---------------------------------------------------------------- an attribute named like a method
def test_a_value_of_that_name_does_not_hide_a_method_and_a_function_replaces_it(cm: ModuleType) -> None:
    model = Model.remote()
    assert cm.get([model.value.remote(), model.half.remote(4), model.twice.remote(4)]) == ["the method", 2, 8]


# ---------------------------------------------------------------- names of parameters
def test_functions_may_call_their_parameters_what_they_like(cm: ModuleType) -> None:
    wanted = tuple(NAMES.values())
    assert [cm.get(takes_any.remote(**NAMES)) for _ in range(2)] == [wanted] * 2
    assert cm.get(takes_any.options(num_cpus=0.5).remote(**NAMES)) == wanted
    assert list(takes_any.map([1], kwargs={"kwargs": 3})) == [(1, 0, 3, 0, 0, 0)]
    with cm.task_group() as group:
        ref = group.submit(takes_any, **NAMES)
    assert cm.get(ref) == wanted
    with cm.every(60, takes_any, **NAMES) as periodic:
        assert cm.get(periodic.last) == wanted
    with cm.util.Executor(initializer=int) as executor:
        assert executor.submit(takes_any.function, **NAMES).result() == wanted
    with Pool(1) as pool:
        assert pool.apply(takes_any.function, kwds=NAMES) == wanted


def test_so_may_constructors_and_methods(cm: ModuleType) -> None:
    actor = Keywords.remote(**NAMES)
    assert cm.get(actor.constructed.remote()) == NAMES
    assert cm.get([actor.take.remote(**NAMES), actor.take.remote(**NAMES)]) == [NAMES] * 2
    assert cm.get(actor.take.options(name="x").remote(**NAMES)) == NAMES
    assert cm.get(Keywords.options(num_cpus=0).remote(**NAMES).constructed.remote()) == NAMES
    visit = {name: value for name, value in NAMES.items() if name != "self"}
    assert cm.get(actor.__call_with__.remote(lambda this, **given: given, **visit)) == visit


# ---------------------------------------------------------------- methods as values
@pytest.mark.parametrize("is_called_before", [False, True])
def test_a_method_can_be_handed_on(cm: ModuleType, is_called_before: bool) -> None:
    counting, caller = Model.remote(), Model.remote()
    methods = [counting.count, counting.count.options(name="again")]
    if is_called_before:
        assert cm.get([method.remote() for method in methods]) == [1, 2]
    n = 2 * is_called_before
    assert cm.get(caller.call.remote(methods)) == [n + 1, n + 2]
    copied = cm.get(cm.put(methods[1]))
    assert cm.get(copied.remote()) == n + 3 and copied._options == {"name": "again"}


def test_a_method_that_is_handed_on_keeps_its_actor(cm: ModuleType) -> None:
    kept = cm.put(Model.remote().count)
    assert cm.get(cm.get(kept).remote()) == 1


def test_dir_of_a_method_shows_what_users_may_use(cm: ModuleType) -> None:
    count = Model.remote().count
    for _ in range(2):
        assert [name for name in dir(count) if not name.startswith("__")] == ["map", "options", "remote", "starmap"]
        cm.get(count.remote())
