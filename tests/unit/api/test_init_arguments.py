"""The arguments of init: refused by name, filled in, compared with what runs."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from cellmesh.exceptions import AlreadyInitializedError, UnknownArgumentError
from cellmesh.session.session import Config
from cellmesh.startup import init_arguments

ARGUMENTS = dict.fromkeys(
    ("address", "num_cpus", "num_gpus", "memory", "resources", "object_store_memory", "namespace", "log_to_driver")
)


def checked(others: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    return init_arguments.checked_arguments({**ARGUMENTS, **given}, others or {})


def test_only_what_was_given_is_kept() -> None:
    assert checked() == {}
    assert checked(num_cpus=2, resources={"disk": 1}) == {"num_cpus": 2, "resources": {"disk": 1}}


@pytest.mark.parametrize(
    "name, value",
    [
        ("num_cpus", -1),
        ("num_cpus", "4"),
        ("num_gpus", True),
        ("memory", float("nan")),
        ("resources", {"CPU": 4}),
        ("resources", {"disk": "much"}),
        ("object_store_memory", 100),
        ("object_store_memory", "1GB"),
        ("namespace", ""),
        ("log_to_driver", "yes"),
        ("address", 3),
        ("address", SimpleNamespace(scheduler_address="inproc://1/2")),
        ("object_store_memory", (1 << 45) + 1),
        ("max_objects", 999),
        ("max_objects", True),
        ("max_tasks", 2**31),
        ("max_tasks", 5000.5),
        ("namespace", "n" * 257),
        ("namespace", "a\udcff"),
        ("resources", {"\udcff": 1}),
        ("log_dir", "a\udcff"),
        ("labels", {f"l{i}": "x" for i in range(61)}),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValueError) as raised:
        checked(**{name: value})
    assert f"init({name}={value!r}): must be " in str(raised.value)


def test_a_dask_cluster_is_its_schedulers_address() -> None:
    assert checked(address=SimpleNamespace(scheduler_address="tcp://head:8786")) == {"address": "dask://head:8786"}


def test_an_unknown_keyword_names_the_nearest() -> None:
    with pytest.raises(UnknownArgumentError, match="no argument 'num_cpu': did you mean 'num_cpus'"):
        checked({"num_cpu": 3})
    assert issubclass(UnknownArgumentError, TypeError) and issubclass(UnknownArgumentError, RuntimeError)


def test_ray_arguments_without_meaning_are_ignored_aloud() -> None:
    with pytest.warns(UserWarning, match="include_dashboard.*ignored"):
        assert checked({"include_dashboard": False}) == {}


def test_defaults_come_from_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELLMESH_ADDRESS", raising=False)
    monkeypatch.setattr(init_arguments.capacity, "usable_cpus", lambda: 6)
    monkeypatch.setattr(init_arguments.capacity, "usable_gpus", lambda: 0)
    monkeypatch.setattr(init_arguments.capacity, "usable_memory", lambda: 1000 << 20)
    config = init_arguments.make_config({})
    assert config.resources == {"CPU": 6.0, "memory": float(700 << 20)}
    assert config.object_store_memory == 300 << 20
    assert config.namespace != init_arguments.make_config({}).namespace, "names of one session are not seen in another"


def test_joining_takes_no_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="leave out num_cpus"):
        init_arguments.make_config({"address": "/x/node.sock", "num_cpus": 2})
    with pytest.raises(ValueError, match="there is no such session"):
        init_arguments.make_config({"address": "/x/node.sock"})


@pytest.mark.parametrize("address", ["127.0.0.1:7421", "http://127.0.0.1:7421/"])
def test_a_clusters_address_in_other_words_is_put_right(address: str) -> None:
    with pytest.raises(
        ValueError,
        match=re.escape(f"init(address={address!r}): a cluster's address begins with 'tcp://': 'tcp://127.0.0.1:7421'"),
    ):
        init_arguments.make_config({"address": address, "num_cpus": 2})


def test_an_address_from_the_environment_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for address, words in [
        ("nonsense", "there is no such session"),
        ("h:7421", "'tcp://h:7421'"),
        ("tcp://h", "HOST:PORT"),
    ]:
        monkeypatch.setenv("CELLMESH_ADDRESS", address)
        with pytest.raises(ValueError, match=f"^CELLMESH_ADDRESS='{address}' in the environment.*{words}"):
            init_arguments.make_config({})
    monkeypatch.setenv("CELLMESH_ADDRESS", "")
    assert init_arguments.make_config({"num_cpus": 2}).resources["CPU"] == 2.0, "an empty variable is none"


RUNNING = Config({"CPU": 2.0, "memory": 5.0, "disk": 1.0}, 1 << 20, "here", max_objects=5000)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"num_cpus": 2},
        {"num_cpus": 2.0, "namespace": "here", "resources": {"disk": 1}},
        {"num_gpus": 0},
        {"address": "local"},
        {"max_objects": 5000},
    ],
)
def test_asking_for_what_runs_is_fine(given: dict[str, Any]) -> None:
    init_arguments.compare(RUNNING, given, ignore=False)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"num_cpus": 4}, "num_cpus=2.0 runs already, and init() asks for num_cpus=4"),
        ({"namespace": "there"}, "namespace='here'"),
        ({"resources": {"disk": 2}}, "resources={'disk': 1.0}"),
        ({"max_objects": 5001}, "max_objects=5000 runs already"),
        ({"log_to_driver": False}, "log_to_driver=True"),
    ],
)
def test_asking_for_something_else_names_what_differs(given: dict[str, Any], words: str) -> None:
    with pytest.raises(AlreadyInitializedError) as raised:
        init_arguments.compare(RUNNING, given, ignore=False)
    assert words in str(raised.value) and "shutdown()" in str(raised.value)
    assert isinstance(raised.value, RuntimeError)
    init_arguments.compare(RUNNING, given, ignore=True)
