"""Wrong use: each mistake is an error (or a warning) at the line that made it, which names the thing and the remedy,
and leaves the session usable."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cellmesh
from cellmesh.exceptions import InfeasibleResourcesWarning, LargeClosureWarning

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@cellmesh.remote
def add(a, b=1):
    return a + b


@cellmesh.remote
class Counter:
    def __init__(self, start=0):
        self.n = start

    def add(self, k):
        self.n += k
        return self.n

    def items(self):
        yield self.n


@pytest.fixture(autouse=True)
def _still_usable(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if cellmesh.is_initialized():
        assert cellmesh.get(add.remote(1), timeout=20) == 2


@pytest.mark.parametrize(
    "use",
    [
        lambda ref: ref + 1,
        lambda ref: 1 - ref,
        lambda ref: ref * ref,
        lambda ref: ref / 2,
        lambda ref: ref[0],
        lambda ref: ref < 1,
        lambda ref: -ref,
        lambda ref: ref**2,
        lambda ref: ref % 2,
        lambda ref: ref @ ref,
        lambda ref: np.ones(2) * ref,
        lambda ref: ref.head(),
        lambda ref: ref.shape,
    ],
)
def test_a_ref_is_not_its_value(cm: ModuleType, use) -> None:
    ref = cm.put(np.ones(3))
    with pytest.raises((TypeError, AttributeError), match=r"cellmesh\.get\(ref\)"):
        use(ref)
    assert not hasattr(ref, "_repr_html_") and not callable(ref)


@pytest.fixture
def cm(cm: ModuleType, _still_usable: None) -> ModuleType:  # so that the session ends after the check
    return cm


# ---------------------------------------------------------------- calling
def test_calling_a_remote_function() -> None:
    with pytest.raises(TypeError, match=r"add\(\) is a remote function.*use add\.remote\(\.\.\.\)"):
        add(1)
    assert add.function(1, b=2) == 3, "the plain function"


def test_remote_functions_that_call_each_other_say_how(cm: ModuleType) -> None:
    def helper(x):
        return x + 1

    remote_helper = cm.remote(helper)

    @cm.remote
    def direct(x):
        return remote_helper(x)

    @cm.remote
    def plain(x):
        return remote_helper.function(x)

    with pytest.raises(TypeError, match=r"helper\.remote\(\.\.\.\).*helper\.function\(\.\.\.\).*ordinary cell"):
        cm.get(direct.remote(1))
    assert cm.get(plain.remote(1)) == 2


def test_calling_an_actor_class_or_a_method(cm: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"Counter is an actor class.*Counter\.remote\(\.\.\.\)"):
        Counter(1)
    counter = Counter.remote()
    with pytest.raises(TypeError, match=r"use \.add\.remote\(\.\.\.\)"):
        counter.add(1)


@pytest.mark.parametrize(
    "args, kwargs, words",
    [
        ((), {}, "missing a required argument: 'a'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"a": 1}, "multiple values for argument 'a'"),
        ((1,), {"c": 1}, "unexpected keyword argument 'c'"),
    ],
)
def test_wrong_arguments_of_a_task(cm: ModuleType, args: tuple, kwargs: dict, words: str) -> None:
    for _ in range(2):  # the first call goes another way than the later ones
        with pytest.raises(TypeError, match=words) as raised:
            add.remote(*args, **kwargs)
        assert "add(a, b=...)" in str(raised.value)


def test_wrong_arguments_of_an_actor(cm: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"Counter\.remote\(\): too many positional arguments"):
        Counter.remote(1, 2)
    counter = Counter.remote()
    with pytest.raises(TypeError, match=r"Counter\.add\.remote\(\): missing a required argument: 'k'"):
        counter.add.remote()


def test_unknown_methods(cm: ModuleType) -> None:
    counter = Counter.remote()
    with pytest.raises(AttributeError, match=r"'Counter' has no method 'ad'; did you mean 'add'"):
        counter.ad  # noqa: B018 (reading the attribute is what raises)
    with pytest.raises(AttributeError, match="only by a method of Counter"):
        counter.n = 3
    with pytest.raises(AttributeError, match=r"of the class, Counter\.options\(\.\.\.\)"):
        counter.options(num_cpus=1)
    with pytest.raises(AttributeError, match="'Counter' has no attribute 'ad'"):
        Counter.ad  # noqa: B018 (reading the attribute is what raises)
    assert not hasattr(Counter, "_repr_html_")


def test_inheriting_from_an_actor_class() -> None:
    with pytest.raises(
        TypeError,
        match=r"Inheriting from actor classes is not supported, and Counter is one.*CounterActor = cellmesh.remote",
    ):

        class Derived(Counter):
            pass


@pytest.mark.parametrize("target", [3, "f", [1]])
def test_decorating_something_else(target: object) -> None:
    with pytest.raises(TypeError, match="needs a function or a class"):
        cellmesh.remote(target)


def test_decorating_twice_and_options_in_the_wrong_place() -> None:
    with pytest.raises(TypeError, match="remote already"):
        cellmesh.remote(add)
    with pytest.raises(TypeError, match=r"remote\(option=value\)"):
        cellmesh.remote(lambda: 1, num_cpus=2)


def test_functions_that_cannot_be_tasks(cm: ModuleType) -> None:
    async def coroutine(): ...

    with pytest.raises(TypeError, match=r"async function.*actor"):
        cellmesh.remote(coroutine)


# ---------------------------------------------------------------- options
@pytest.mark.parametrize(
    "options, words",
    [
        ({"num_cpu": 1}, "unknown option 'num_cpu'.*did you mean 'num_cpus'.*Valid options: num_cpus, num_gpus"),
        ({"num_cpus": -1}, r"option num_cpus=-1 of add: must be a number >= 0"),
        ({"num_returns": "two"}, "num_returns='two'"),
        ({"max_retries": 1.5}, "max_retries=1.5"),
        ({"resources": {"GPU": 1}}, "num_gpus"),
        ({"max_restarts": 1}, "option of actors"),
    ],
)
def test_wrong_options(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        add.options(**options)
    with pytest.raises(ValueError, match=words):
        cellmesh.remote(**options)(add.__wrapped__)


def test_wrong_options_of_actors_and_methods(cm: ModuleType) -> None:
    with pytest.raises(ValueError, match="option of tasks, and Counter is an actor"):
        Counter.options(max_retries=3)
    with pytest.raises(ValueError, match="unknown option 'num_cpus'"):
        Counter.remote().add.options(num_cpus=1)
    with pytest.raises(ValueError, match="unknown option"):
        cellmesh.method(returns=2)(lambda self: 1)
    with pytest.raises(ValueError, match="needs a name="):
        Counter.options(get_if_exists=True).remote()


# ---------------------------------------------------------------- get, put, wait, cancel, kill
@pytest.mark.parametrize("value", [3, "ref", None, [3], (1, 2), {"a": 1}], ids=repr)
def test_get_of_something_else(cm: ModuleType, value: object) -> None:
    with pytest.raises(TypeError, match="ObjectRef"):
        cm.get(value)


def test_get_of_a_list_with_something_else(cm: ModuleType) -> None:
    with pytest.raises(TypeError, match="ObjectRef"):
        cm.get([cm.put(1), 3])


def test_what_gives_values_or_refs_is_no_ref(cm: ModuleType) -> None:
    counter, ref = Counter.remote(), add.remote(1)
    for wrong, words in (
        (add, r"add\.remote\(\.\.\.\) returns one"),
        (counter, r"handle\.method\.remote"),
        (counter.add, r"handle\.method\.remote"),
        (add.map([1]), r"list\(results\)"),
        (cm.progress([ref]), r"refs as \.refs"),
    ):
        with pytest.raises(TypeError, match=words):
            cm.get([wrong])
    results = add.map([1, 2])
    with pytest.raises(TypeError, match=r"list\(results\)"):
        cm.progress(results)
    assert list(results) == [2, 3], "nothing of it has been read"
    with pytest.raises(TypeError, match=r"several refs are given in a list"):
        cm.get(ref, ref)


@pytest.mark.parametrize(
    "returned, words", [((1, 2), r"returned 2: \(1, 2\)"), (5, "a tuple or list of .*5 of type int")]
)
def test_another_number_of_returns(cm: ModuleType, returned: object, words: str) -> None:
    with pytest.raises(ValueError, match=f"num_returns=3 .*{words}"):
        cm.get(cm.remote(num_returns=3)(lambda: returned).remote())


def test_unpacking_a_ref_names_the_option(cm: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"unpacked .*num_returns=N"):
        _a, _b = add.remote(1)
    with pytest.raises(TypeError, match="inside a list, a dict or an object it stays a ref"):
        round(add.remote(1), 2)


@pytest.mark.parametrize("timeout", [-1, "1", float("nan"), [1]])
def test_wrong_timeouts(cm: ModuleType, timeout: object) -> None:
    with pytest.raises((TypeError, ValueError), match="timeout must be None or a number of seconds >= 0, not"):
        cm.get(cm.put(1), timeout=timeout)
    with pytest.raises((TypeError, ValueError), match="timeout must be None or a number of seconds >= 0, not"):
        cm.wait([cm.put(1)], timeout=timeout)


def test_put_of_a_ref(cm: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"ObjectRef already.*put\(\[ref\]\)"):
        cm.put(cm.put(1))


def test_wait_with_duplicates(cm: ModuleType) -> None:
    ref = cm.put(1)
    with pytest.raises(ValueError, match=r"occurs more than once.*dict.fromkeys"):
        cm.wait([cm.put(2), ref, ref])


def test_wait_with_something_else(cm: ModuleType) -> None:
    ref = cm.put(1)
    for wrong in ([3], [[None]], 5):
        with pytest.raises(TypeError, match="ObjectRef"):
            cm.wait(wrong)
    for n in (0, 2, 1.5, "1"):
        with pytest.raises(ValueError, match="num_returns"):
            cm.wait([ref], num_returns=n)


def test_cancel_and_kill_of_the_wrong_thing(cm: ModuleType) -> None:
    counter = Counter.remote()
    with pytest.raises(TypeError, match=r"cellmesh\.kill\(actor\)"):
        cm.cancel(counter)
    with pytest.raises(TypeError, match=r"cellmesh\.cancel\(ref\)"):
        cm.kill(cm.put(1))
    with pytest.raises(TypeError, match=r"cancel\(\) takes an ObjectRef"):
        cm.cancel(3)
    with pytest.raises(ValueError, match=r"made by put\(\)"):
        cm.cancel(cm.put(1))


def test_force_on_a_call_of_an_actor(cm: ModuleType, flag) -> None:
    @cm.remote
    class Waits:
        def wait(self, started, go):
            started.set()
            go.wait()

    waits = Waits.remote()
    ref = waits.wait.remote(flag("started"), flag("go"))
    flag("started").wait()
    with pytest.raises(ValueError, match="whole actor"):
        cm.cancel(ref, force=True)
    flag("go").set()
    cm.get(ref)


def test_get_actor_of_an_unknown_name(cm: ModuleType) -> None:
    counter = Counter.options(name="known").remote()
    with pytest.raises(ValueError, match=r"no actor named 'unknown'.*'known'"):
        cm.get_actor("unknown")
    with pytest.raises(ValueError, match="needs the name"):
        cm.get_actor(3)
    other = Counter.options(name="apart", namespace="lab").remote()
    with pytest.raises(ValueError, match=r"there is one in another, get_actor\('apart', namespace='lab'\)"):
        cm.get_actor("apart")
    with pytest.raises(ValueError, match=r"no actor named 'nosuch' .*'apart \(namespace lab\)', 'known'"):
        cm.get_actor("nosuch")
    begin = (
        "import sys, cellmesh; cellmesh.init(num_cpus=1, object_store_memory=64 << 20); print(flush=True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", begin], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        program.stdout.readline()
        with pytest.raises(ValueError, match=r"cellmesh\.shutdown\(\) here, and then cellmesh\.init\('auto'\)"):
            cm.get_actor("elsewhere")
        program.stdin.close()
    del counter, other


def test_all_names_of_util_can_be_imported_without_other_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    import cellmesh.util

    for missing in ("dask", "dask.core", "joblib", "cellmesh.util.dask", "cellmesh.util.joblib"):
        monkeypatch.setitem(sys.modules, missing, None)
    for name in ("dask_get", "register_joblib"):
        monkeypatch.delitem(vars(cellmesh.util), name, raising=False)
    names: dict[str, Any] = {}
    exec("from cellmesh.util import *", names)
    assert {"placement_group", "ActorPool", "list_named_actors"} < names.keys()


# ---------------------------------------------------------------- resources that nobody has
def test_infeasible_resources_are_told_at_once_and_once(cm: ModuleType) -> None:
    big = add.options(num_cpus=64)
    with pytest.warns(InfeasibleResourcesWarning, match=r"'add' asks for CPU: 64, but all .* has is CPU: 2") as told:
        ref = big.remote(1)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = big.remote(2)
    with pytest.warns(InfeasibleResourcesWarning, match="tpu: 1.*tpu: 0"):
        third = add.options(resources={"tpu": 1}).remote(1)
    with pytest.warns(InfeasibleResourcesWarning, match="'Counter' asks for GPU: 1"):
        actor = Counter.options(num_gpus=1).remote()
    for pending in (ref, other, third):
        cm.cancel(pending)
    cm.kill(actor)


# ---------------------------------------------------------------- what cannot be sent
def test_capturing_something_that_cannot_be_pickled(cm: ModuleType) -> None:
    model = {"session": [threading.Lock()]}

    @cm.remote
    def uses_model():
        return model

    path = r"model \(which uses_model uses\)\['session'\]\[0\]"
    with pytest.raises(TypeError, match=rf"uses_model cannot be sent.*{path} is a _thread\.lock"):
        uses_model.remote()


def test_an_argument_that_cannot_be_pickled(cm: ModuleType) -> None:
    my_model = {"lock": threading.Lock()}
    with pytest.raises(TypeError, match=r"my_model cannot be sent.*my_model\['lock'\] is a _thread\.lock"):
        add.remote(my_model)
    with pytest.raises(TypeError, match=r"my_model\['lock'\]"):
        cm.put(my_model)
    with pytest.raises(TypeError, match="lock"):
        Counter.remote(my_model)


def test_a_generator_as_an_argument_names_what_takes_its_items(cm: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"is a generator.*list\(\.\.\.\) of it; or have f\.map"):
        add.remote(i for i in range(3))


def test_values_that_are_too_deep(cm: ModuleType) -> None:
    def deep(n: int) -> Any:
        value: Any = []
        for _ in range(n):
            value = [value]
        return value

    with pytest.raises(TypeError, match=r"<list> cannot be sent.* levels "):
        cm.get(cm.remote(deep).remote(50_000), timeout=30)
    mine = deep(50_000)
    for give in (add.remote, cm.put, Counter.remote):
        with pytest.raises(
            TypeError, match=r"mine cannot be sent to another process: mine\[0\]\[0\].* levels "
        ) as raised:
            give(mine)
        assert len(str(raised.value)) < 1000
    assert cm.get(add.remote(1)) is not None


class Leaves:
    """Making it again ends the process that tries."""

    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (5,)


def test_unpickling_that_exits_ends_nobody(cm: ModuleType) -> None:
    for ref in (cm.put(Leaves()), cm.remote(lambda: Leaves()).remote()):
        with pytest.raises(pickle.UnpicklingError, match="a value cannot be unpickled: SystemExit: 5"):
            cm.get(ref)
    with pytest.raises(pickle.UnpicklingError, match="SystemExit: 5"):
        cm.get(add.remote(Leaves()))
    assert cm.get(add.remote(1)) is not None


def test_a_large_closure_is_told_by_its_variable(cm: ModuleType) -> None:
    small, weights = 3, np.ones(2 << 20)

    @cm.remote
    def uses_weights():
        return small + weights[0]

    words = r"'uses_weights' captures 16\.8 MB, most of it in 'weights'.*cellmesh\.put\(weights\)"
    with pytest.warns(LargeClosureWarning, match=words):
        ref = uses_weights.remote()
    assert cm.get(ref) == 4


def test_a_huge_closure_is_refused(cm: ModuleType) -> None:
    weights = np.ones(14 << 20)

    @cm.remote
    def uses_weights():
        return weights[0]

    with pytest.raises(ValueError, match=r"captures 117 MB.*cellmesh\.put\(weights\).*at most 100 MB"):
        uses_weights.remote()


def test_inspect_serializability_is_public(cm: ModuleType) -> None:
    found = cm.inspect_serializability({"a": threading.Lock()}, "value")
    assert not found and found.failures[0].path == "value['a']"


# ---------------------------------------------------------------- sessions
def test_looking_without_a_session() -> None:
    for call in (
        cellmesh.nodes,
        cellmesh.cluster_resources,
        cellmesh.available_resources,
        cellmesh.timeline,
        cellmesh.state.list_tasks,
    ):
        with pytest.raises(cellmesh.exceptions.NotInitializedError, match=r"cellmesh\.init\(\)"):
            call()
    assert not cellmesh.is_initialized()


def test_init_with_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="num_cpus=-1"):
        cellmesh.init(num_cpus=-1)
    with pytest.raises(TypeError, match="did you mean 'num_cpus'"):
        cellmesh.init(num_cpu=1)
    with pytest.raises(ValueError, match="no such session"):
        cellmesh.init("/nowhere/node.sock")
    for labels in ({"a": 1}, {"": "x"}, {"cellmesh.session": "x"}, {"a": "x" * 201}, ["a"]):
        with pytest.raises(ValueError, match=r"init\(labels=.*must be a dict of names to texts"):
            cellmesh.init(address="tcp://127.0.0.1:1", labels=labels)
    with pytest.raises(ValueError, match=r"init\(labels=.*address=\"tcp://HOST:PORT\""):
        cellmesh.init(labels={"zone": "eu"})
    assert not cellmesh.is_initialized()


def test_init_twice(cm: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    from cellmesh.session.current import current

    before = current()
    cm.init(num_cpus=2)
    assert current() is before and "runs already" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match=r"num_cpus=2\.0 runs already, and init\(\) asks for num_cpus=3"):
        cm.init(num_cpus=3)
    cm.init(num_cpus=3, ignore_reinit_error=True)
    assert current() is before and cm.cluster_resources()["CPU"] == 2


def test_refs_of_an_ended_session(cm: ModuleType) -> None:
    ref, submit, counter = cm.put(1), add.remote, Counter.remote()
    call = counter.add.remote
    cm.shutdown()
    cm.init(num_cpus=2, object_store_memory=64 << 20)
    others = [Counter.remote() for _ in range(4)]  # one of them is what the old handle's number stands for now
    for use in (
        lambda: cm.get(ref),
        lambda: cm.wait([ref]),
        lambda: add.remote(ref),
        lambda: call(1),
        lambda: counter.items.remote(),
        lambda: cm.kill(counter),
    ):
        with pytest.raises(cm.exceptions.SessionClosedError):
            use()
    assert cm.get([other.add.remote(1) for other in others]) == [1] * 4
    del submit


# ---------------------------------------------------------------- in a task
def test_nobody_can_type_in_a_task(cm: ModuleType) -> None:
    def ask(text=None):
        if text is not None:
            sys.stdin = io.StringIO(text)
        return input("name? ")

    def stop(debugger=None):
        if debugger:
            os.environ["PYTHONBREAKPOINT"] = debugger
        return breakpoint()

    with pytest.raises(EOFError, match=r"nobody can answer input.*as an argument"):
        cm.get(cm.remote(ask).remote())
    assert cm.get(cm.remote(max_calls=1)(ask).remote("Ada\n")) == "Ada"
    with pytest.raises(RuntimeError, match=r"breakpoint\(\) in a task.*keep_frames=True.*f\.function"):
        cm.get(cm.remote(stop).remote())
    assert cm.get(cm.remote(max_calls=1)(stop).remote("os.getpid")) > 0
