"""Settings of the driver in tasks: each row of the table in docs/settings-in-tasks.md behaves as it says."""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from support.waiting import wait_until

import cellmesh

pytestmark = [pytest.mark.timeout(90), pytest.mark.session("shared")]

TABLE = (Path(__file__).resolve().parents[3] / "docs" / "settings-in-tasks.md").read_text()


def rows() -> dict[str, str]:
    """What the table says of each setting: whether it holds."""
    return {row[0]: row[1] for row in re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|.*\|$", TABLE, re.M)[2:]}


# ---------------------------------------------------------------- what holds
class Place:
    """Says what it sees."""

    def see(self, name: str) -> tuple[str | None, str, str]:
        return os.environ.get(name), os.getcwd(), sys.path[0]


@pytest.mark.parametrize("name", ["`os.environ`", "`os.chdir`", "`sys.path`"])
def test_tasks_and_actors_that_begin_later_have_it_and_actors_keep_what_they_had(
    name: str, cm: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rows()[name].startswith("yes")
    see = Place.see
    old = cm.remote(Place).remote()
    before = cm.get([old.see.remote("CM_SET"), cm.remote(see).remote(None, "CM_SET")])
    assert before[0] == before[1] and before[0][0] is None
    monkeypatch.setenv("CM_SET", "here")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    after = cm.get([cm.remote(see).remote(None, "CM_SET"), cm.remote(Place).remote().see.remote("CM_SET")])
    assert after == [("here", str(tmp_path), str(tmp_path))] * 2
    assert cm.get(old.see.remote("CM_SET")) == before[0]


def test_a_variable_that_is_removed_and_those_of_a_task_of_its_own(cm: ModuleType, monkeypatch) -> None:
    def look(name: str) -> str | None:
        return os.environ.get(name)

    monkeypatch.setenv("CM_SET", "one")
    assert cm.get(cm.remote(look).remote("CM_SET")) == "one"
    own = cm.remote(look).options(runtime_env={"env_vars": {"CM_SET": "of the task"}})
    assert cm.get(own.remote("CM_SET")) == "of the task"
    monkeypatch.delenv("CM_SET")
    monkeypatch.delenv("HOME")  # which was there when the session began
    anew = cm.remote(lambda: (look("CM_SET"), look("HOME")))  # as code is exported, it is looked at what has changed
    assert cm.get(anew.remote()) == (None, None)


class Strange(UserWarning):
    """A class that only this module has."""


def warn() -> None:
    warnings.warn("of the user", Strange, stacklevel=1)
    warnings.warn("of the task", RuntimeWarning, stacklevel=1)
    with warnings.catch_warnings(record=True) as kept:
        warnings.simplefilter("always")
        warnings.warn("kept", stacklevel=1)
    assert len(kept) == 1


def test_warnings_that_are_ignored_here_are_not_shown(cm: ModuleType, capfd) -> None:
    assert rows()["`warnings.filterwarnings`"].startswith("what is ignored")
    shown = ""

    def has_come() -> bool:
        nonlocal shown
        shown += capfd.readouterr().err
        return "RuntimeWarning: of the task" in shown

    with warnings.catch_warnings():
        warnings.filterwarnings("always")
        warnings.filterwarnings("ignore", "of the u.*", UserWarning)
        cm.get(cm.remote(warn).remote())
        wait_until(has_come)
        assert "of the user" not in shown and "kept" not in shown
        warnings.filterwarnings("always")
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="somewhere.else")
        warnings.filterwarnings("ignore", category=Strange, lineno=1)
        shown = ""
        cm.get(cm.remote(warn).options(name="again", runtime_env={"env_vars": {"FRESH": "1"}}).remote())
        wait_until(has_come)
    assert "Strange: of the user" in shown


# ---------------------------------------------------------------- what does not
class Setting(NamedTuple):
    """Python that sets it, that undoes it, and that sees it."""

    set: str
    undo: str
    see: str


OTHERS = {
    "locale": Setting(
        "import locale; locale.setlocale(locale.LC_NUMERIC, 'C.UTF-8')",
        "import locale; locale.setlocale(locale.LC_NUMERIC, 'C')",
        "__import__('locale').setlocale(__import__('locale').LC_NUMERIC)",
    ),
    "`pd.set_option`": Setting(
        "import pandas; pandas.set_option('display.max_rows', 7)",
        "import pandas; pandas.reset_option('display.max_rows')",
        "__import__('pandas').get_option('display.max_rows')",
    ),
    "matplotlib's backend and style": Setting(
        "import matplotlib; matplotlib.use('svg'); matplotlib.rcParams['lines.linewidth'] = 9",
        "import matplotlib; matplotlib.use('agg'); matplotlib.rcdefaults()",
        "[__import__('matplotlib').rcParams[name] for name in ('backend', 'lines.linewidth')]",
    ),
    "torch's default dtype": Setting(
        "import torch; torch.set_default_dtype(torch.float64)",
        "import torch; torch.set_default_dtype(torch.float32)",
        "str(__import__('torch').get_default_dtype())",
    ),
}


def run(code: str) -> None:
    exec(code, {})


def value(of: str) -> Any:
    return eval(of)


SLOW = {"torch's default dtype"}  # which three processes import


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in OTHERS])
def test_a_task_has_the_default_and_with_a_setup_hook_what_that_sets(name: str, one_cpu: ModuleType) -> None:
    assert rows()[name].startswith("no")
    setting = OTHERS[name]
    default = value(setting.see) if not name.startswith("matplotlib") else ["agg", 1.5]
    run(setting.set)
    try:
        assert one_cpu.get(one_cpu.remote(value).remote(setting.see)) == default
        hooked = one_cpu.remote(value).options(runtime_env={"worker_process_setup_hook": lambda: run(setting.set)})
        assert one_cpu.get([hooked.remote(setting.see) for _ in range(2)]) == [value(setting.see)] * 2
    finally:
        run(setting.undo)


def test_numpys_print_options_are_a_tasks_own(one_cpu: ModuleType) -> None:
    import numpy as np

    assert rows()["`np.set_printoptions`"].startswith("no")

    @cellmesh.remote
    def show(precision: int | None = None) -> str:
        with np.printoptions(precision=precision):
            return str(np.array([1 / 3]))

    with np.printoptions(precision=2):
        assert one_cpu.get([show.remote(8), show.remote(3)]) == ["[0.33333333]", "[0.333]"]
        assert one_cpu.get(one_cpu.remote(lambda: str(np.array([1 / 3]))).remote()) == "[0.33333333]"


def test_threads_are_those_that_a_task_has_cpus_for(cm: ModuleType) -> None:
    assert rows()["threads of torch and of OpenMP"].startswith("no")
    seen = cm.remote(lambda: os.environ["OMP_NUM_THREADS"])
    assert cm.get([seen.remote(), seen.options(num_cpus=2).remote()]) == ["1", "2"]
