"""`init(engine_options=...)`: what it takes, and what it says of the rest."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import pytest
from cellmesh.kernel_ext.cells.analysis.read import CellError
from cellmesh.kernel_ext.magics.arguments import OF_START
from cellmesh.kernel_ext.magics.mesh import mesh

import cellmesh
from cellmesh.cli.main import main
from cellmesh.engines.connection.connecting import connected
from cellmesh.engines.connection.options import checked
from cellmesh.engines.fake_engine import FakeEngine
from cellmesh.engines.interface import Event, Facts, Outcome
from cellmesh.exceptions import AlreadyInitializedError, EngineError, EngineUnreachableError, UnknownArgumentError
from cellmesh.startup.init_arguments import checked_arguments, engine_config, make_config


@pytest.mark.parametrize(
    ("engine", "given"),
    [
        ("fake", {"timeout": 5}),
        ("ray", {"ship": "auto", "namespace": "lab", "runtime_env": {"env_vars": {"A": "1"}, "pip": ["six"]}}),
        ("ray", {"ship": False, "timeout": 0.5}),
        ("dask", {"ship": True, "security": {"tls_ca_file": "/keys/ca.pem", "require_encryption": True}}),
    ],
)
def test_what_an_engine_takes(engine: str, given: dict[str, Any]) -> None:
    assert checked(engine, given) == given


@pytest.mark.parametrize(
    ("engine", "given", "words"),
    [
        ("ray", {"ships": True}, "no option 'ships' for ray: did you mean 'ship'? It takes ship, timeout, namespace, "),
        ("dask", {"namespace": "lab"}, "no option 'namespace' for dask: It takes ship, timeout, security"),
        ("fake", {"ship": True}, "no option 'ship' for fake: It takes timeout"),
    ],
)
def test_an_option_that_an_engine_has_not_is_told_with_those_that_it_has(
    engine: str, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnknownArgumentError) as told:
        checked(engine, given)
    assert words in str(told.value)


@pytest.mark.parametrize(
    ("engine", "given", "words"),
    [
        ("ray", {"ship": 1}, "'ship': 1}): must be 'auto', True or False"),
        ("ray", {"timeout": 0}, "a number of seconds > 0"),
        ("ray", {"namespace": ""}, "a text that is not empty"),
        ("ray", {"runtime_env": {"py_modules": [pytest]}}, "a dict of what JSON has"),
        ("dask", {"timeout": True}, "a number of seconds > 0"),
        ("dask", {"security": "ca.pem"}, "a dict of what distributed.Security takes"),
        ("dask", {"security": {"tls_client_key": "-----BEGIN PRIVATE KEY-----\n"}}, "with keys as files"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_told_with_what_it_takes(
    engine: str, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match="engine_options") as told:
        checked(engine, given)
    assert words in str(told.value)


def test_a_session_has_them(start: Callable[..., ModuleType]) -> None:
    start(engine_options={"timeout": 30})
    cellmesh.init(address="fake:", engine_options={"timeout": 30})
    with pytest.raises(AlreadyInitializedError, match=r"engine_options=\{'timeout': 30\} runs already"):
        cellmesh.init(address="fake:", engine_options={"timeout": 40})


def test_the_engine_is_told_them() -> None:
    config = make_config(checked_arguments({"address": "fake:", "engine_options": {"timeout": 30}}, {}))
    told = engine_config(config)
    assert told is not None
    assert told.options == {"timeout": 30}


def test_who_does_not_answer_is_given_up_when_asked_for() -> None:
    is_over = threading.Event()

    class Silent(FakeEngine):
        def connect(self, address: str, options: Mapping[str, Any], tell: Callable[[Event], None]) -> Facts:
            is_over.wait()
            raise EngineError("late")

    engine = Silent(lambda data, blobs: Outcome(b""))
    with pytest.raises(EngineUnreachableError, match=r"nothing came for 0\.01 s"):
        connected(engine, "fake:", {"timeout": 0.01}, lambda event: None)
    is_over.set()


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"address": "local"}, ValueError, 'this session would have no engine: give its address, as in address="ray:a'),
        ({"address": "fake:", "engine_options": {"ship": True}}, UnknownArgumentError, "has no option 'ship' for fake"),
        ({"address": "fake:", "engine_options": ["ship"]}, ValueError, "must be a dict of options by name, such as"),
    ],
)
def test_what_has_no_sense_begins_no_session(arguments: dict[str, Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as told:
        cellmesh.init(**{"engine_options": {"timeout": 1}, **arguments})
    assert words in str(told.value)
    assert not cellmesh.is_initialized()


def test_the_magic_takes_them() -> None:
    line = argparse.Namespace(action="connect", address="fake:", **dict.fromkeys(OF_START))
    line.engine_options = {"ship": True}
    with pytest.raises(CellError, match=r"%mesh connect: init\(engine_options=...\) has no option 'ship' for fake"):
        mesh(line)
    line.engine_options = {"timeout": 30}
    with mesh(line):
        cellmesh.init(address="fake:", engine_options={"timeout": 30})  # is what runs


def test_the_command_that_looks_takes_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engine", "check", "fake:", "--engine-options", '{"timeout": 30}']) == 0
    assert "fake takes tasks of this program" in capsys.readouterr().out
    assert main(["engine", "check", "fake:", "--engine-options", '{"shipp": true}']) == 2
    assert "has no option 'shipp' for fake: It takes timeout" in capsys.readouterr().err
