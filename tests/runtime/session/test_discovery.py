"""What `help`, `?`, `dir` and TAB show: the signatures of what is called, the options there are, and no internals."""

from __future__ import annotations

import inspect
import pickle
import pydoc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from cellmesh.kernel_ext.magics import arguments
from cellmesh.kernel_ext.magics.completion import complete_variables
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import cellmesh
from cellmesh.submit.options import valid_names

pytestmark = pytest.mark.session("shared")


@cellmesh.remote
def scale(x: int, by: float = 2.0, *, label: str = "") -> float:
    """Scale a number."""
    return x * by


@cellmesh.remote
class Counter:
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        self.n = start

    def add(self, k: int, *, times: int = 1) -> int:
        """Add a number."""
        self.n += k * times
        return self.n

    def all(self) -> Iterator[int]:
        yield from range(self.n)


def test_remote_has_the_signature_of_what_it_calls_before_the_first_call_and_after(cm: ModuleType) -> None:
    wanted = "(x: 'int', by: 'float' = 2.0, *, label: 'str' = '') -> cellmesh.ObjectRef['float']"
    for n_calls in range(2):
        assert str(inspect.signature(scale.remote)) == wanted
        assert scale.remote.__name__ == "remote"
        first, last = scale.remote.__doc__.splitlines()[::2]
        assert "scale" in first and "ObjectRef" in first and last == "Scale a number."
        shown = helped(scale.remote)
        assert "remote" + wanted.replace("'", "") in shown and "Scale a number." in shown
        assert n_calls or cm.get(scale.remote(2)) == 4.0
    assert "method" not in repr(type(scale.remote)), "the second time round it is the core's submitter"


def test_what_calls_return_is_in_their_signatures(cm: ModuleType) -> None:
    def returned(remote: object) -> object:
        return inspect.signature(remote).return_annotation

    for options, wanted in (
        ({"num_returns": 0}, None),
        ({"num_returns": 2}, list[cm.ObjectRef]),
        ({"num_returns": 1}, cm.ObjectRef["float"]),
    ):
        assert returned(scale.options(**options).remote) == wanted
    assert returned(Counter.remote) is cm.ActorHandle
    counter = Counter.remote(3)
    assert returned(counter.all.remote) is cm.ObjectRefGenerator
    assert returned(counter.add.remote) is cm.ObjectRef
    assert returned(cm.remote(lambda x: x).remote) is cm.ObjectRef


def test_actors_and_their_methods(cm: ModuleType) -> None:
    assert str(inspect.signature(Counter.remote)).startswith("(start: 'int' = 0) -> ")
    assert "Counts." in Counter.remote.__doc__
    counter = Counter.remote()
    for n_calls in range(2):
        assert str(inspect.signature(counter.add.remote)) == "(k, *, times=...) -> cellmesh.ObjectRef"
        assert "Add a number." in counter.add.remote.__doc__ and "Counter.add" in counter.add.remote.__doc__
        assert n_calls or cm.get(counter.add.remote(1)) == 1


def test_where_only_the_ref_is_known_the_parameters_still_are(cm: ModuleType) -> None:
    @cm.remote
    def there(function: Any, actor_class: Any) -> tuple[str, str]:
        return str(inspect.signature(function.remote)), str(inspect.signature(actor_class.remote))

    assert cm.get(there.remote(scale, Counter)) == (
        "(x, by=..., *, label=...) -> cellmesh.ObjectRef",
        "(start=...) -> cellmesh.submit.actor.ActorHandle",
    )


def test_remote_can_be_pickled_before_the_first_call_as_methods_can() -> None:
    import cloudpickle

    fresh = cellmesh.remote(abs)
    assert pickle.loads(cloudpickle.dumps(fresh.remote)).__doc__ == fresh.remote.__doc__


def test_a_builtin_without_signature_has_none(cm: ModuleType) -> None:
    largest = cm.remote(max)
    for _ in range(2):
        assert not hasattr(largest.remote, "__signature__") and "Submits a call of max" in largest.remote.__doc__
        assert cm.get(largest.remote(1, 2)) == 2


def test_what_is_not_called_by_users_has_no_description(cm: ModuleType) -> None:
    client = scale.remote(1).client
    bare = client.submitter(client.put(1), client.resource_class({}).shape)
    assert not hasattr(bare, "__signature__") and not hasattr(bare, "__doc__")


@pytest.mark.parametrize(
    ("owner", "kinds"),
    [
        (cellmesh.remote, ("task", "actor")),
        (scale.options, ("task",)),
        (Counter.options, ("actor",)),
        (cellmesh.method, ("method",)),
    ],
)
def test_options_show_as_those_that_there_are(owner: Any, kinds: tuple[str, ...]) -> None:
    parameters = inspect.signature(owner).parameters.values()
    wanted = dict.fromkeys(name for kind in kinds for name in valid_names(kind))
    assert [p.name for p in parameters if p.kind is p.KEYWORD_ONLY] == list(wanted)
    assert not [p for p in parameters if p.kind is p.VAR_KEYWORD]


def helped(owner: Any) -> str:
    """What `help` shows, without the quotes that annotations have there before Python 3.14."""
    return pydoc.render_doc(owner, renderer=pydoc.plaintext).replace("'", "")


def test_help_shows_signatures(cm: ModuleType) -> None:
    assert "scale(x: int, by: float = 2.0" in helped(scale)
    assert "(start: int = 0)" in helped(Counter)
    assert "add(k, *, times=...)" in helped(Counter.remote().add)


def test_a_remote_function_in_a_class_is_no_method_of_its_actors(cm: ModuleType) -> None:
    class Holder:
        helper = scale

        def use(self) -> float:
            return cellmesh.get(self.helper.remote(3))

    assert Holder.helper is scale and Holder().helper is scale
    holder = cm.remote(Holder).remote()
    assert dir(holder) == ["use"]
    assert cm.get(holder.use.remote()) == 6.0


def test_the_package_shows_its_public_names_alone() -> None:
    import cellmesh.submit.options  # a module that stands in the package's namespace then

    shown = [name for name in dir(cellmesh) if not name.startswith("__")]
    assert shown == sorted(cellmesh.__all__)


@pytest.fixture
def completed(cm: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], set[str]]]:
    """What IPython makes of text, apart from its own magics."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    shell.user_ns.update(cm=cm, scale=scale, Counter=Counter, counter=Counter.remote())

    def complete(text: str) -> set[str]:
        with provisionalcompleter():
            return {
                found.text for found in shell.Completer.completions(text, len(text)) if not found.text.startswith("%")
            }

    yield complete
    shell.user_ns.clear()
    InteractiveShell.clear_instance()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("scale.options(num_", {"num_cpus=", "num_gpus=", "num_returns="}),
        ("@cm.remote(max_re", {"max_restarts=", "max_retries="}),
        ("Counter.options(lif", {"lifetime="}),
        ("counter.add.options(conc", {"concurrency_group="}),
        ("scale.remote(lab", {"label="}),
        ("counter.add.remote(ti", {"times="}),
        ("scale.", {"function", "map", "options", "remote", "starmap"}),
        ("Counter.", {"add", "all", "group", "options", "remote"}),
        ("counter.", {"add", "all"}),
        ("counter.add.", {"map", "options", "remote", "starmap"}),
        ("cm.get", {"get", "get_actor", "get_gpu_ids", "get_runtime_context"}),
        ("cm.opt", set()),
    ],
)
def test_ipython_completes_options_arguments_and_public_names(
    text: str, wanted: set[str], completed: Callable[[str], set[str]]
) -> None:
    assert completed(text) == wanted
    if ".remote(" in text:
        scale.remote(1)  # from now on they are the core's submitters
        assert completed(text) == wanted


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("%fetch ", ["nested", "ref", "refs"]),
        ("%fetch re", ["ref", "refs"]),
        ("%fetch ref", ["ref", "refs"]),
        ("%fetch ref re", ["refs"]),
        ("%fetch --timeout 3 n", ["nested"]),
        ("%fetch _", ["_hidden"]),
        ("%cancel ", ["nested", "ref", "refs"]),
        ("%retry n", ["nested"]),
        ("%inspect ", ["counter", "nested", "ref", "refs"]),
        ("%inspect c", ["counter"]),
        ("%inspect --pdb c", ["counter"]),
        ("%%remote --cpus 2 --on ", ["counter"]),
        ("%fetch nothing", []),
    ],
)
def test_magics_that_take_futures_are_offered_variables_that_hold_some(
    line: str, wanted: list[str], cm: ModuleType
) -> None:
    ref = cm.put(1)
    namespace = {
        "ref": ref,
        "refs": [ref],
        "nested": {"a": (ref,)},
        "counter": Counter.remote(),
        "number": 3,
        "rest": [4],
        "_hidden": ref,
        "Out": {1: ref},
    }
    answer = complete_variables(_at_the_end_of(line), namespace)
    assert [completion.text for completion in answer["completions"]] == wanted
    assert answer["suppress"], "nothing else is offered"


@pytest.mark.parametrize(
    "line", ["%fetch --timeout ", "%fetch --t", "%mesh ", "%%remote --cpus ", "%inspect ref ", "fetch ", "print(", ""]
)
def test_elsewhere_they_are_left_to_others(line: str, cm: ModuleType) -> None:
    assert complete_variables(_at_the_end_of(line), {"ref": cm.put(1)}) == {"completions": []}


def _at_the_end_of(line: str) -> Any:
    return SimpleNamespace(text_until_cursor=line, token=line.split(" ")[-1] if " " in line else line)


def test_the_magics_say_what_their_variables_hold() -> None:
    assert {magic.name for magic in arguments.ALL if any(flag.holds for flag in magic.flags)} == {
        "%%remote",
        "%fetch",
        "%inspect",
        "%cancel",
        "%retry",
    }
