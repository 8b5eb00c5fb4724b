"""One name for one option: in Python, in the magics, and in `cellmesh start`."""

from __future__ import annotations

import argparse
import inspect

import pytest
from cellmesh.kernel_ext.magics import arguments
from IPython.core.error import UsageError

from cellmesh.cli import start as start_command
from cellmesh.startup import init, init_arguments
from cellmesh.submit import options
from cellmesh.submit.flags import (
    OF_SESSIONS,
    OF_TASKS,
    ONLY_IN_PYTHON,
    Written,
    flag_of,
    labels,
    long_form,
    mapping,
    resources,
)

# What lines took before options had one name.
SHORT = {
    "%%remote": {
        "--cpus": "num_cpus",
        "--gpus": "num_gpus",
        "--retries": "max_retries",
        "--restarts": "max_restarts",
        "--concurrency": "max_concurrency",
        "--keep": "keep_frames",
    },
    "%%actor": {
        "--cpus": "num_cpus",
        "--gpus": "num_gpus",
        "--restarts": "max_restarts",
        "--concurrency": "max_concurrency",
    },
    "%mesh": {"--cpus": "num_cpus", "--gpus": "num_gpus", "--store": "object_store_memory", "--logs": "log_dir"},
}


def test_each_option_of_remote_has_a_flag_or_a_reason_why_not() -> None:
    assert {*OF_TASKS, *ONLY_IN_PYTHON} == set(options.TABLE), (
        "a new option needs a row in flags.OF_TASKS, or in ONLY_IN_PYTHON"
    )
    assert not OF_TASKS.keys() & ONLY_IN_PYTHON.keys()


def test_each_flag_of_a_session_is_an_argument_of_init() -> None:
    assert OF_SESSIONS.keys() <= inspect.signature(init.init).parameters.keys()


@pytest.mark.parametrize(
    ("magic", "table", "kinds"),
    [
        (arguments.REMOTE, OF_TASKS, {"task", "actor"}),
        (arguments.ACTOR, OF_TASKS, {"actor"}),
        (arguments.MESH, OF_SESSIONS, set()),
    ],
)
def test_magics_take_their_flags_from_the_table(
    magic: arguments.Magic, table: dict[str, Written], kinds: set[str]
) -> None:
    of_options = {flag.key: flag for flag in magic.flags if flag.key in table and not flag.means}
    for option, flag in of_options.items():
        assert (flag.name, flag.help, flag.short) == (flag_of(option), table[option].help, table[option].short)
    of_sessions = {*arguments.OF_START, *arguments.OF_CONNECT}
    wanted = {option for option in table if kinds & set(options.TABLE[option].kinds)} if kinds else of_sessions
    assert of_options.keys() == wanted


def test_cellmesh_start_takes_its_flags_from_the_table() -> None:
    start = argparse.ArgumentParser()
    start_command.add_start(start)
    taken = {action.dest: action for action in start._actions if action.dest in inspect.signature(init.init).parameters}
    del taken["address"]  # of another kind: the head's
    assert set(taken) == set(start_command.OF_NODES)
    for option, action in taken.items():
        assert tuple(action.option_strings) == OF_SESSIONS[option].spellings(option)
    line = start.parse_args(["--head", "--cpus", "2", "--store", "1G", "--resources", "disk=1", "--labels", "zone=eu"])
    assert (line.num_cpus, line.object_store_memory, line.resources, line.labels) == (
        2,
        1 << 30,
        {"disk": 1},
        {"zone": "eu"},
    )


@pytest.mark.parametrize(
    ("magic", "short", "key"),
    [
        (magic, short, key)
        for magic in (arguments.REMOTE, arguments.ACTOR, arguments.MESH)
        for short, key in SHORT[magic.name].items()
    ],
)
def test_short_forms_mean_the_same(magic: arguments.Magic, short: str, key: str) -> None:
    flag = next(flag for flag in magic.flags if flag.key == key)
    value = " 2" if flag.metavar else ""
    assert magic.parse(short + value) == magic.parse(flag_of(key) + value)
    assert getattr(magic.parse(short + value), key)


def test_flags_that_stand_for_a_value() -> None:
    assert arguments.ACTOR.parse("a --detached") == arguments.ACTOR.parse("a --lifetime detached")
    assert arguments.REMOTE.parse("--spread") == arguments.REMOTE.parse("--scheduling-strategy SPREAD")


def test_a_flag_and_its_short_form_are_one_to_who_mistypes() -> None:
    with pytest.raises(UsageError, match=r"there is no --concurency; did you mean --concurrency?"):
        arguments.ACTOR.parse("a --concurency 2")
    with pytest.raises(UsageError, match=r"there is no --num-cpu; did you mean --num-cpus?"):
        arguments.REMOTE.parse("--num-cpu 2")


@pytest.mark.parametrize(
    ("short", "long"),
    [("cpus", "num_cpus"), ("retries", "max_retries"), ("concurrency", "max_concurrency"), ("restarts", None)],
)
def test_python_names_the_option_that_a_short_form_stands_for(short: str, long: str | None) -> None:
    kind = "actor" if short == "concurrency" else "task"
    with pytest.raises(ValueError, match=f"did you mean '{long}'?" if long else "unknown option 'restarts' for f"):
        options.check_options(kind, {short: 2}, "f")
    assert long_form("nothing", OF_TASKS) == ""


@pytest.mark.parametrize(
    ("short", "long"), [("store", "object_store_memory"), ("logs", "log_dir"), ("cpus", "num_cpus")]
)
def test_init_names_the_argument_that_a_short_form_stands_for(short: str, long: str) -> None:
    known = {name: None for name in inspect.signature(init.init).parameters}
    with pytest.raises(TypeError, match=f"did you mean '{long}'?"):
        init_arguments.checked_arguments(known, {short: 2})


def test_values() -> None:
    assert resources("disk=1, licence=0.5") == {"disk": 1, "licence": 0.5} == resources('{"disk": 1, "licence": 0.5}')
    assert labels("zone=in(eu,us),disk=!hdd") == {"zone": "in(eu,us)", "disk": "!hdd"}
    assert mapping('{"env_vars": {"A": "b"}}') == {"env_vars": {"A": "b"}}
    for parse, wrong, text in [
        (resources, "disk", "name=amount"),
        (resources, "disk=x", "'x' is not a number"),
        (labels, "zone=", "name=value"),
        (mapping, "{", "no dict|not a dict as JSON"),
        (mapping, "[1]", "not a dict as JSON, such as"),
    ]:
        with pytest.raises(ValueError, match=text):
            parse(wrong)
