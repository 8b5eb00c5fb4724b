"""The magics in a bare shell, over a runtime of dictionaries: tasks run at once, in this process."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cellmesh.kernel_ext import background
from cellmesh.kernel_ext.cells import define, events, find_refs, submission
from cellmesh.kernel_ext.cells.capture import LARGE_BYTES, Shipper
from cellmesh.kernel_ext.cells.registry import N_KEPT, CellRegistry, registry
from cellmesh.kernel_ext.magics import arguments, extension
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import cellmesh.refs


class Ref:
    """A future that has a value, an error, or neither yet."""

    def __init__(self, client: Client, value: Any = None, error: Exception | None = None) -> None:
        self.client, self.value, self.error, self.is_done = client, value, error, True
        self.origin = client.origin


class Client:
    """Just as much of a client as the magics ask for."""

    closed = False

    def __init__(self) -> None:
        self.origin = 0
        self.puts: list[Any] = []
        self.submitted: list[tuple[dict[str, Any], Any]] = []
        self.unfinished: list[int] = []

    def put(self, value: Any) -> Ref:
        self.puts.append(value)
        return Ref(self, value)

    put_argument = put

    def get(self, ref: Ref) -> Any:
        if ref.error:
            raise ref.error
        return ref.value

    def count_tasks(self) -> dict[tuple[int, str], int]:
        return Counter((origin, "running") for origin in self.unfinished)

    def info(self, ref: Ref) -> dict[str, Any]:
        return {"origin": ref.origin}

    def ready(self, ref: Ref) -> bool:
        return ref.is_done


class Session:
    def __init__(self) -> None:
        self.client = Client()
        self.n_cells = 0
        self.notifier = self
        self.kept_calls: Any = None
        self.lost = ""

    def keep_calls(self, kept: Any) -> None:
        self.kept_calls = kept

    def add(self, ref: Ref, loop: None, callback: Callable[[], None]) -> None:
        callback()

    def tell_imported(self) -> None:
        """There is nobody to be told."""

    def forget_changed_code(self, autoreload: bool = False) -> None:
        self.n_cells += 1


class RemoteThing:
    """What `remote` makes of code: keeps the options; runs a task at once."""

    def __init__(self, code: Any, options: dict[str, Any], session: Session) -> None:
        self.code, self.given, self.session = code, options, session

    def remote(self, *arguments: Any) -> Any:
        client = self.session.client
        client.submitted.append((self.given, arguments))
        n_returns = self.given.get("num_returns", 1)
        try:
            values = [client.get(a) if isinstance(a, Ref) else a for a in arguments]
            result = self.code(*values)
        except Exception as error:
            refs = [Ref(client, error=error) for _ in range(n_returns)]
        else:
            refs = [Ref(client, value) for value in (result if n_returns > 1 else [result])]
        return refs if n_returns > 1 else refs[0]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    made = Session()
    monkeypatch.setattr(cellmesh.refs, "ObjectRef", Ref)
    monkeypatch.setattr(find_refs, "ObjectRef", Ref)
    monkeypatch.setattr("cellmesh.session.current.process.session", made)
    for module in (define, submission):
        monkeypatch.setattr(module, "made_remote", lambda code, options: RemoteThing(code, options, made))
    return made


@pytest.fixture
def shell(session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[InteractiveShell]:
    monkeypatch.setattr(extension.Host, "install", lambda self: None)
    monkeypatch.setattr(extension.Host, "uninstall", lambda self: None)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    made = InteractiveShell(colors="nocolor", config=Config(HistoryManager={"enabled": False}))
    extension.load_ipython_extension(made)
    yield made
    extension.unload_ipython_extension(made)
    InteractiveShell.clear_instance()


def test_options_of_the_configuration_reach_the_front_end(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "refresh_workers", lambda: None, raising=False)
    config = Config(HistoryManager={"enabled": False}, CellmeshMagics={"keep_frames": True})
    made = extension.CellmeshMagics(InteractiveShell(config=config))
    InteractiveShell.clear_instance()
    assert made.host.front_end.keep_frames


@pytest.fixture
def run(shell: InteractiveShell) -> Callable[[str], Any]:
    """Run a cell; its result, or the error it ends with."""

    def run(code: str) -> Any:
        done = shell.run_cell(code, store_history=True)
        if error := done.error_before_exec or done.error_in_exec:
            raise error
        return done.result

    return run


def options_of(session: Session) -> dict[str, Any]:
    return session.client.submitted[-1][0]


# ---- bodies


def test_names_are_futures_at_once_and_chain(run: Any, shell: Any, session: Session) -> None:
    result = run("%%remote\nx = 2\ny = x + 1\ny * 10")
    assert (shell.user_ns["x"].value, shell.user_ns["y"].value, result.value) == (2, 3, 30)
    run("%%remote\nz = x + y")
    assert shell.user_ns["z"].value == 5
    assert session.client.submitted[-1][1][1:] == (shell.user_ns["x"], shell.user_ns["y"]), "futures are arguments"


def test_a_cell_without_a_value_has_no_result(run: Any) -> None:
    assert run("%%remote\nx = 1") is None
    assert run("%%remote\n1 + 1;") is None


def test_flags_become_options(run: Any, session: Session) -> None:
    run(
        "%%remote --cpus 2 --gpus 0.5 --memory 1G --resources disk=1 --name load --retries -1 --retry-exceptions "
        "--priority -3\n"
        "x = 1"
    )
    assert options_of(session) == {
        "num_cpus": 2,
        "num_gpus": 0.5,
        "memory": 1 << 30,
        "resources": {"disk": 1},
        "name": "load",
        "max_retries": -1,
        "retry_exceptions": True,
        "num_returns": 2,
        "priority": -3,
    }
    run("%%remote\nx = 1")
    assert options_of(session) == {"name": "x", "num_returns": 2}


def test_inputs_and_returns_override(run: Any, shell: Any, session: Session) -> None:
    shell.user_ns.update(a=1, b=2)
    run("%%remote --inputs a --returns c\nc = a\nd = 5\ne = globals().get('b')")
    assert shell.user_ns["c"].value == 1 and "d" not in shell.user_ns
    assert session.client.submitted[-1][1][0].names == ("a",)
    with pytest.raises(UsageError, match="--inputs names 'nope'"):
        run("%%remote --inputs nope\nx = 1")
    with pytest.raises(UsageError, match="names variables"):
        run("%%remote --returns 2\nx = 1")


def test_returns_may_name_what_the_cell_changes(run: Any, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.user_ns["results"] = [1]
    run("%%remote --returns results\nresults.append(2)")
    assert shell.user_ns["results"].value == [1, 2] and "changed in place" not in capsys.readouterr().out
    with pytest.raises(UsageError, match="--returns names 'nope', which does not occur in the cell"):
        run("%%remote --returns nope\nx = 1")


def test_a_trial_does_not_find_what_the_trial_before_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials that one worker runs are calls of one function, which has the notebook's small values."""
    from cellmesh.kernel_ext.cells.task import CellCode
    from cellmesh.kernel_ext.tune import trial

    monkeypatch.setattr(trial, "get_context", lambda: SimpleNamespace(iteration=0))
    code = CellCode("", "seen.append(1); last = {'n': len(seen), 'same': kept is seen_first}; last", "Cell In[1]")
    kept = [1]
    code = dataclasses.replace(code, names=("seen", "kept", "seen_first"), has_last_expression=True)
    search = trial.CellTrial(code, ([0], kept, kept), frozenset({"seen"}), "")
    assert [search({}) for _ in range(3)] == [{"n": 2, "same": True}] * 3


def test_a_failure_is_told_under_the_cell(run: Any, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def run_and_hear(text: str) -> None:
        run(text)
        background.close()

    run_and_hear("%%remote\nx = 1 / 0")
    assert "In [1] has failed: ZeroDivisionError: division by zero" in capsys.readouterr().err
    run_and_hear("%%remote\nx = 1 / 0\nx")
    assert "In [2] has failed" in capsys.readouterr().err, "in a terminal a card stays as it is"
    shell.kernel = object()
    run_and_hear("%%remote\nx = 1 / 0\nx")
    assert not capsys.readouterr().err, "the card of the result tells"


def test_wait_raises_the_cells_error(run: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        run("%%remote --wait\nx = 1 / 0")


def test_what_the_cell_deletes_is_gone(run: Any, shell: Any) -> None:
    shell.user_ns["big"] = 1
    run("%%remote\nx = big\ndel big")
    assert "big" not in shell.user_ns and shell.user_ns["x"].value == 1


def test_imports_happen_here_too(run: Any, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run("%%remote\nimport colorsys\nfrom textwrap import dedent as d\nx = 1")
    assert shell.user_ns["colorsys"] is sys.modules["colorsys"] and callable(shell.user_ns["d"])
    run("%%remote\nimport no_such_module\nx = 1")
    assert "import no_such_module: not possible in the notebook itself (ModuleNotFoundError" in capsys.readouterr().out
    assert isinstance(shell.user_ns["x"].error, ModuleNotFoundError)


def test_functions_and_classes_beside_statements_stay_what_they_are(
    run: Any, shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.user_ns["inner"] = None
    run(
        "%%remote\nimport math\ndef inner(x):\n    return math.floor(x) + 1\nclass Point:\n    def __init__(self, "
        "x):\n        self.x = x\n"
        "p = Point(inner(3.5))"
    )
    assert not capsys.readouterr().out
    assert run("inner(7.5)") == 8, "a function of the notebook"
    assert shell.user_ns["p"].value.x == 4 and run("Point(5).x") == 5
    assert (
        shell.user_ns["inner"].__code__.co_filename == "Cell In[1]"
        and shell.user_ns["inner"].__code__.co_firstlineno == 3
    )


def test_a_function_that_needs_what_the_task_makes_says_so(
    run: Any, shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run(
        "%%remote\nlimit = 3\ndef above(x):\n    return x > limit\nfor i in (1, 2):\n    pass\ndef last():\n    "
        "return i"
    )
    said = capsys.readouterr().out
    assert "above needs limit, which is a future here: %fetch limit before you call it in the notebook." in said
    assert "last needs i, which only the task has: it cannot be called in the notebook." in said
    run("limit = 3")
    assert run("above(4)") is True
    run("%%remote\ny = above(2)")
    assert shell.user_ns["y"].value is False
    run("%%remote\nlimit = 1")
    capsys.readouterr()
    run("%%remote\ndef with_default(x=limit):\n    return x\nz = with_default()")
    assert shell.user_ns["with_default"].value() == 1, "a default that is a future here: the task makes the function"
    assert not capsys.readouterr().out


def test_a_decorator_that_fails_in_the_notebook_is_told(
    run: Any, shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run("here = []")
    run(
        "%%remote\ndef once(f):\n    here.append(1)\n    return f\n@once\ndef f(): return 5\n@here.pop\ndef g(): "
        "pass\nx = f()"
    )
    assert run("f()") == 5
    assert "g is not defined in the notebook itself, only in the task (TypeError: " in capsys.readouterr().out


def test_variables_of_loops_and_with_stay_in_the_task(run: Any, shell: Any) -> None:
    run("i = 'mine'")
    run(
        "%%remote\nimport io\nwith io.StringIO('a') as handle:\n    text = handle.read()\ntotal = 0\nfor i, j in [(1, "
        "2)]:\n    total += i + j"
    )
    assert (shell.user_ns["total"].value, shell.user_ns["i"], shell.user_ns["text"].value) == (3, "mine", "a")
    assert not {"handle", "j"} & shell.user_ns.keys()
    run("%%remote --returns i,f\nfor i in (1, 2):\n    def g(): pass\ndef f(): return i")
    assert (shell.user_ns["i"].value, shell.user_ns["f"].value()) == (2, 2), "what is asked for comes back"


def test_a_cell_that_ends_with_a_print_has_no_result(run: Any, session: Session) -> None:
    assert run("%%remote\nprint('here')") is None
    assert session.client.submitted[-1][0]["name"] == "print('here')"


def test_modules_go_by_name(run: Any, shell: Any, session: Session) -> None:
    run("import math as m")
    run("%%remote\nx = m.floor(2.5)")
    code = session.client.submitted[-1][1][0]
    assert code.modules == {"m": "math"} and code.names == () and shell.user_ns["x"].value == 2


def test_a_change_in_place_is_told(run: Any, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.user_ns["results"] = []
    run("%%remote\nresults.append(1)")
    assert "results is changed in place by this cell. The change stays on the worker" in capsys.readouterr().out


def test_functions_of_the_notebook_read_the_cells_variables(run: Any, shell: Any) -> None:
    run("factor = 2\ndef scaled(x): return helper(x) * factor\ndef helper(x, *, n=1): return x + n")
    run("%%remote\nbase = 1")
    run("def shifted(x): return scaled(x) + base")
    run("%%remote\nfactor = 10\ny = shifted(1)")
    assert shell.user_ns["y"].value == 21
    run("%%remote\nz = shifted(1)")
    assert shell.user_ns["z"].value == 21, "factor is a future now, and a dependency through the function that reads it"


def test_unassigned_names(run: Any, shell: Any) -> None:
    import pickle

    shell.user_ns["kept"] = "mine"
    run("%%remote\nfor i in []:\n    never = 1\n    kept = 2")
    assert shell.user_ns["kept"].value == "mine"
    with pytest.raises(NameError, match=r"Cell In\[1\] has not assigned 'never'"):
        pickle.loads(pickle.dumps(shell.user_ns["never"].value))


def test_a_result_that_cannot_be_pickled_spares_the_others(run: Any, shell: Any) -> None:
    import pickle

    run("%%remote\nimport threading\nlock = [threading.Lock()]\nx = 1\nlock")
    assert shell.user_ns["x"].value == 1
    with pytest.raises(TypeError, match=r"lock cannot leave the worker that ran Cell In\[1\]: lock\[0\]"):
        pickle.loads(pickle.dumps(shell.user_ns["lock"].value))


def test_a_failed_run_does_not_stop_the_next(run: Any, shell: Any) -> None:
    shell.user_ns["n"] = 0
    cell = "%%remote\nfor i in range(2):\n    loss = 1 / n\nlast = loss"
    run(cell)
    assert isinstance(shell.user_ns["loss"].error, ZeroDivisionError)
    shell.user_ns["n"] = 4
    run(cell)
    assert shell.user_ns["last"].value == 0.25


def test_why_a_name_is_not_there_is_told(run: Any, shell: Any) -> None:
    shell.user_ns["old"] = Ref(Client(), 1)
    shell.user_ns["flag"] = False
    run("%%remote\nif flag:\n    old = 1\nnew = old")
    assert "'old', but it is a future of a session that has ended" in "".join(shell.user_ns["new"].error.__notes__)
    shell.user_ns["old"] = Ref(Client(), 1)
    with pytest.raises(UsageError, match="'old' is a future of a session that has ended"):
        run("%%remote\nnew = old")


def test_a_running_earlier_run_is_told(shell: Any, session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("%%remote\nprint(1)", store_history=True, cell_id="c1")
    session.client.unfinished = [session.client.origin]
    shell.run_cell("%%remote\nx = 2", store_history=True, cell_id="another")
    assert "earlier run" not in capsys.readouterr().out
    shell.run_cell("%%remote\nprint(1)", store_history=True, cell_id="c1")
    assert "The earlier run of this cell, In [1], goes on; %cancel 1 ends it." in capsys.readouterr().out


# ---- mistakes


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("%%remote --cpu 1\nx = 1", "there is no --cpu; did you mean --cpus?"),
        ("%%remote --cpus many\nx = 1", "argument --num-cpus/--cpus: 'many' is not a number"),
        ("%%remote --cpus -1\nx = 1", "'-1' is not an amount"),
        ("%%remote --retries 1.5\nx = 1", "'1.5' is not a whole number"),
        ("%%remote --priority high\nx = 1", "'high' is not a whole number"),
        (
            "%%remote --max-in-flight 2\nx = 1",
            "--max-in-flight is for cells that define functions, and this one becomes one task",
        ),
        (
            "%%remote --rate 2/s\nclass A:\n    def go(self): pass",
            "--rate-limit is for tasks, and this cell makes actors",
        ),
        ("%%remote --resources disk\nx = 1", "name=amount"),
        ("%%remote --resources disk=-1\nx = 1", "'-1' is not an amount: it must be 0 or more"),
        ("%%remote --resources '{\"disk\"'\nx = 1", "is not a dict as JSON"),
        ("%%remote --name 'x\nx = 1", "no closing quotation"),
        ("%%remote now\nx = 1", "there is no now"),
        ("%%remote --inputs 2x\nx = 1", "'2x' is not the name of a variable"),
        ("%%remote\n# nothing", "the cell is empty"),
        ("%%remote\nfrom os import *\nx = 1", "line 2: `from os import *`"),
        ("%%remote\nx = 1\n%timeit x", "line 3: `%timeit x` is a magic command"),
        ("\n\n%%remote\nx = 1\n!ls", "line 5: `!ls` is a shell command"),
        ("%%remote\nget_ipython().system('ls')", "get_ipython() is the notebook's own shell"),
        ("%%remote --inputs a\ndef f(): pass", "--inputs is for cells that become a task"),
        ("%%remote --wait\ndef f(): pass", "--wait is for cells that become a task"),
        ("%%remote --returns a,b\ndef f(): pass", "is a number"),
        ("%%remote --max-restarts 1\nx = 1", "--max-restarts is for actors, and this cell makes tasks"),
        ("%%remote --lifetime detached\ndef f(): pass", "--lifetime is for actors, and this cell makes tasks"),
        (
            "%%remote --retries 1\nclass A:\n    def go(self): pass",
            "--max-retries is for tasks, and this cell makes actors; for actors it is --max-restarts",
        ),
        ("%%remote --num-returns 2\nx = 1", "--returns names variables"),
        ("%%remote --spread --node here\nx = 1", "contradict each other"),
        ("%%remote --name n\ndef f(): pass\ndef g(): pass", "the cell defines 2"),
        ("%fetch", "needs the names"),
        ("%fetch nope", "no variable 'nope'"),
        ("%cancel nope", "neither a future nor the number of a cell"),
        ("%mesh fly", "no such action"),
        ("%mesh stop --cpus 2", "belongs to %mesh start"),
        ("%mesh start somewhere", "takes no address"),
        ("%mesh start --engine-options {}", "--engine-options belongs to %mesh connect"),
        ("%futures runing", "there is no state 'runing', there are waiting, queued, running"),
    ],
)
def test_mistakes_are_usage_errors(run: Any, cell: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(cell)
    assert text in str(caught.value)


def test_a_syntax_error_is_on_its_own_line(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SyntaxError) as caught:
        run("%%remote --cpus 1\nx = 1\ny = = 2\n")
    assert (caught.value.filename, caught.value.lineno, caught.value.text) == ("Cell In[1]", 3, "y = = 2\n")
    assert "kernel_ext" not in capsys.readouterr().err


def test_a_missing_name_is_told_at_once(run: Any, session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NameError, match="name 'nope' is not defined: the cell reads it in line 3"):
        run("%%remote\nx = 1\ny = nope + x")
    assert not session.client.submitted
    assert "capture.py" not in capsys.readouterr().out
    run("%%remote\ntry:\n    y = nope\nexcept NameError:\n    y = 0")
    assert len(session.client.submitted) == 1


def test_what_cannot_be_pickled_is_named_with_the_path(run: Any, session: Session) -> None:
    run("import threading\nclass Holder: pass\nh = Holder()\nh.inner = {'lock': threading.Lock()}")
    with pytest.raises(UsageError, match=r"the cell reads 'h', and h cannot be sent.*h\.inner\['lock'\]"):
        run("%%remote\nx = h")
    assert not session.client.submitted


# ---- large values


def test_large_values_are_put_once_until_they_change(run: Any, shell: Any, session: Session) -> None:
    run("import array\nbig = array.array('d', range(50_000))")
    run("%%remote\nx = big[0]")
    run("%%remote\ny = big[1]")
    assert len(session.client.puts) == 1
    run("big[0] = 5.0")
    run("%%remote\nx = big[0]")
    assert len(session.client.puts) == 2 and shell.user_ns["x"].value == 5.0


def test_small_values_are_not_put(run: Any, session: Session) -> None:
    run("small = list(range(100))\ntext = 'a' * 1000")
    run("%%remote\nx = small, text")
    assert not session.client.puts


def test_what_was_fetched_goes_back_as_the_ref_it_came_from() -> None:
    numpy = pytest.importorskip("numpy")
    client, shipper = Client(), Shipper()
    fetched = numpy.zeros(LARGE_BYTES)
    fetched.flags.writeable = False
    ref = Ref(client, fetched)
    shipper.remember("a", fetched, ref)
    assert shipper.ship("a", fetched, client) is ref
    shipper.forget_rebound({"a": 1})
    assert shipper.ship("a", fetched, client) is not ref and len(client.puts) == 1


def test_a_copy_in_the_store_is_let_go_with_its_variable() -> None:
    client, shipper = Client(), Shipper()
    value = bytearray(LARGE_BYTES + 1)
    first = shipper.ship("a", value, client)
    assert shipper.ship("a", value, client) is first
    assert shipper.ship("a", value, Client()) is not first, "another session has another store"
    shipper.forget_rebound({})
    assert shipper.ship("a", value, client) is not first


# ---- definitions


def test_definitions_become_remote(run: Any, shell: Any) -> None:
    run("%%remote --cpus 2\nimport json\ndef f(x): return json.dumps(x)\nclass A:\n    def go(self): return 1")
    assert [type(shell.user_ns[name]) for name in "fA"] == [RemoteThing, RemoteThing]
    assert shell.user_ns["f"].given == {"num_cpus": 2} and shell.user_ns["f"].code("a") == '"a"'
    assert shell.user_ns["json"] is sys.modules["json"]


def test_options_of_definitions(run: Any, shell: Any) -> None:
    run("%%remote --name counter --restarts 2\nclass A:\n    def go(self): pass")
    assert shell.user_ns["A"].given == {"name": "counter", "max_restarts": 2}
    run("%%remote --returns 2 --retries 5\ndef f(): return 1, 2")
    assert shell.user_ns["f"].given == {"num_returns": 2, "max_retries": 5}
    run(
        "%%remote --priority 2 --max-in-flight 3 --rate 10/s --timeout 5 --retry-delay 1,60\ndef f(): return 1\nclass "
        "B:\n    def go(self): pass"
    )
    assert shell.user_ns["f"].given == {
        "priority": 2,
        "max_in_flight": 3,
        "rate_limit": "10/s",
        "timeout": 5,
        "retry_delay": (1, 60),
    }
    assert shell.user_ns["B"].given == {"priority": 2}
    run("%%remote --keep\ndef f(): return 1\nclass A:\n    def go(self): pass")
    assert shell.user_ns["f"].given == shell.user_ns["A"].given == {"keep_frames": True}
    run(
        "%%remote --num-returns 2 --max-concurrency 3 --label-selector zone=eu\ndef f(): return 1, 2\nclass A:\n    "
        "def go(self): pass"
    )
    assert shell.user_ns["f"].given == {"num_returns": 2, "label_selector": {"zone": "eu"}}
    assert shell.user_ns["A"].given == {"max_concurrency": 3, "label_selector": {"zone": "eu"}}


def test_a_cell_of_imports_takes_any_option(run: Any, shell: Any) -> None:
    run("%%remote --num-cpus 2 --max-retries 1 --max-restarts 1\nimport json")
    assert shell.user_ns["json"] is sys.modules["json"]


def test_what_is_no_use_remotely_stays(run: Any, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(
        "%%remote\nimport enum, dataclasses, functools, typing\nclass Wrong(ValueError): pass\n"
        "class Colour(enum.Enum):\n    RED = 1\nclass Point(typing.NamedTuple):\n    x: int\n"
        "@dataclasses.dataclass\nclass Record:\n    x: int\n"
        "async def wait(): pass\n@functools.cache\ndef cached(x): return x\ndef plain(x): return x"
    )
    said = capsys.readouterr().out
    for name in ("Wrong", "Colour", "Point", "Record", "wait", "cached"):
        assert not isinstance(shell.user_ns[name], RemoteThing) and f"{name} stays as it is" in said
    assert isinstance(shell.user_ns["plain"], RemoteThing)


def test_only_what_the_cell_has_defined_is_wrapped(run: Any, shell: Any) -> None:
    run("def g(): return 'old'\nFAST = False")
    old = shell.user_ns["g"]
    run("%%remote\nif FAST:\n    def g(): return 'new'\nfrom os.path import join\ndef f(): return join('a', 'b')")
    assert shell.user_ns["g"] is old and isinstance(shell.user_ns["join"], types.FunctionType)


def test_an_error_in_definitions_shows_the_cells_line(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="boom"):
        run("%%remote\ndef deco(f):\n    raise ValueError('boom')\n@deco\ndef f(): pass")
    shown = capsys.readouterr().out
    assert "Cell In[1]:3" in shown and "raise ValueError('boom')" in shown and "kernel_ext" not in shown


# ---- around cells


def test_each_run_of_a_cell_has_a_number(run: Any, shell: Any, session: Session) -> None:
    run("a = 1")
    first = session.client.origin
    shell.run_cell("a = 2", store_history=True, cell_id="abc")
    cell = registry.cell(session.client.origin)
    assert session.client.origin == first + 1 and (cell.label, cell.cell_id) == ("In [2]", "abc")
    assert cell.filename and registry.current == cell
    assert session.n_cells == 2


def test_nested_cells(run: Any, shell: Any, session: Session) -> None:
    run("get_ipython().run_cell('inner = 1')\nouter = 1")
    assert registry.current.label == "In [1]"


def test_what_all_messages_say_is_kept_once() -> None:
    cells = CellRegistry()
    said = '{"header": {"msg_id": "m%d", "session": "of the page", "username": "ada"}, "metadata": {"cellId": "c"}}'
    first, second = (cells.enter(object(), label="In [1]", parent=json.loads(said % i)).parent for i in (1, 2))
    assert first["header"] == {"msg_id": "m1", "session": "of the page", "username": "ada"}
    assert [id(text) for text in first["header"]] == [id(text) for text in second["header"]]
    assert first["header"]["session"] is second["header"]["session"]
    assert first["metadata"]["cellId"] is second["metadata"]["cellId"] and second["header"]["msg_id"] == "m2"


def test_the_registry_forgets_the_oldest() -> None:
    cells = CellRegistry()
    for number in range(N_KEPT + 10):
        parent = {"header": {"msg_id": "m"}, "content": {"code": "long"}}
        cells.enter(run := object(), label=f"In [{number}]", parent=parent)
        cells.leave(run)
    assert cells.cell(1).label == "" and cells.cell(1).number == 1
    assert cells.current.parent == {"header": {"msg_id": "m"}}


def test_loading_twice_and_unloading(shell: InteractiveShell) -> None:
    n_callbacks = len(shell.events.callbacks["pre_run_cell"])
    extension.load_ipython_extension(shell)
    assert len(shell.events.callbacks["pre_run_cell"]) == n_callbacks
    assert extension.complete_flags in shell.Completer.custom_matchers
    extension.unload_ipython_extension(shell)
    extension.unload_ipython_extension(shell)
    for run in (lambda: shell.run_cell_magic("remote", "", "x = 1"), lambda: shell.run_line_magic("fetch", "x")):
        with pytest.raises(UsageError, match="is not loaded: run %load_ext cellmesh"):
            run()
    assert extension.complete_flags not in shell.Completer.custom_matchers
    assert len(shell.events.callbacks["pre_run_cell"]) == n_callbacks - 1


def test_unloading_gives_ipython_its_formatter_back(shell: InteractiveShell) -> None:
    formatter = shell.InteractiveTB
    assert "structured_traceback" in vars(formatter)
    extension.unload_ipython_extension(shell)
    assert not {"structured_traceback", "get_parts_of_chained_exception"} & set(vars(formatter))
    extension.load_ipython_extension(shell)
    ours = formatter.structured_traceback
    formatter.structured_traceback = theirs = lambda *args, **kwargs: ours(*args, **kwargs)
    try:
        extension.unload_ipython_extension(shell)
        assert formatter.structured_traceback is theirs
        assert "KeyError: 'a'" in "".join(theirs(KeyError, KeyError("a"), None)), "what is theirs goes on through ours"
    finally:
        del formatter.structured_traceback


@pytest.mark.parametrize(
    ("left", "line"),
    [
        ({7: 1}, "1 task of this cell runs on; %cancel ends it."),
        ({7: 2, 5: 9}, "2 tasks of this cell run on; %cancel ends them."),
        ({5: 1}, "1 task of In [5] runs on; %cancel 5 ends it."),
        ({6: 1, 5: 2}, "3 tasks of In [5], In [6] run on; %cancel 5 6 ends them."),
        ({4: 1}, "1 task of other cells runs on; %cancel --all ends it."),
        ({number: 1 for number in range(11, 20)}, "9 tasks of other cells run on; %cancel --all ends them."),
    ],
)
def test_a_stopped_cell_says_what_goes_on(left: dict[int, int], line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    label = {4: "In [ ]"}
    cells = types.SimpleNamespace(cell=lambda n: types.SimpleNamespace(label=label.get(n, f"In [{n}]")))
    monkeypatch.setattr(events, "registry", cells)
    assert events.what_goes_on(Counter(left), 7) == f"Stopped. {line}"


def test_completion_of_flags(shell: InteractiveShell) -> None:
    shell.Completer.use_jedi = False
    _, found = shell.complete("--re", "%%remote --cpus 2 --re", 22)
    assert found == ["--resources", "--retry-exceptions", "--retry-delay", "--returns", "--retries", "--restarts"], (
        "short forms last"
    )
    assert shell.complete("--c", "%%remote --num-cpus 2 --c", 25)[1] == ["--concurrency"], (
        "--cpus is there by its long name"
    )
    _, found = shell.complete("--", "%cancel --", 10)
    assert set(found) == {"--all", "--force"}
    assert shell.complete("--re", "print --re", 10)[1] == []


def test_completion_of_experiments_and_of_what_tunes_them(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # where no experiments are
    shell.Completer.use_jedi = False
    assert shell.complete("as", "%%tune --scheduler as", 21)[1] == ["asha"]
    assert "tpe" in shell.complete("t", "%%tune --search t", 17)[1]
    assert shell.complete("pa", "%tune pa", 8)[1] == ["pause"]
    assert shell.complete("--sc", "%%tune lr=uniform(0,1) --sc", 27)[1] == ["--scheduler"]


def test_completion_of_what_is_done_with_ranks(shell: InteractiveShell) -> None:
    shell.Completer.use_jedi = False
    assert shell.complete("a", "%ranks a", 8)[1] == ["auto"]
    assert shell.complete("", "%ranks ", 7)[1] == ["status", "auto", "here", "restart", "stop"]
    assert shell.complete("--o", "%%ranks --o", 11)[1] == ["--only"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "--metric loss --min lr=loguniform(1e-4, 1e-1) --samples 4 depth=[1, 2]",
            {
                "metric": "loss",
                "mode": "min",
                "samples": 4,
                "parameters": ["lr=loguniform(1e-4, 1e-1)", "depth=[1, 2]"],
            },
        ),
        ("--stop accuracy>=0.9,27 x=1", {"stop": {"accuracy": 0.9, "training_iteration": 27}, "parameters": ["x=1"]}),
        ('x=choice(["a b", "c"]) -o mine', {"output": "mine", "parameters": ['x=choice(["a b", "c"])']}),
        (
            "--name 'digits' --max-failures -1 --time-budget 2.5",
            {"name": "digits", "max_failures": -1, "time_budget": 2.5},
        ),
        (
            "--scheduler asha:max_t=27,reduction_factor=3",
            {"scheduler": ("schedulers", "asha", {"max_t": 27, "reduction_factor": 3})},
        ),
        ("--search tpe:n_startup_trials=5", {"search": ("search", "tpe", {"n_startup_trials": 5})}),
    ],
)
def test_a_line_of_tune(line: str, expected: dict[str, Any]) -> None:
    options = vars(arguments.TUNE_CELL.parse(line))
    assert {name: options[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--metrik loss", "there is no --metrik; did you mean --metric?"),
        ("--stop loss<=1", "a metric that is to become small needs a stopper"),
        ("--scheduler asha:3", "is not a name, or a name with options such as asha:max_t=27"),
        ("-o 3x", "'3x' is not the name of a variable"),
        ("--samples many", "'many' is not a whole number"),
    ],
)
def test_mistakes_in_a_line_of_tune(line: str, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        arguments.TUNE_CELL.parse(line)


def test_what_an_experiment_submits_is_not_the_cells() -> None:
    cells = CellRegistry()
    cells.enter(object(), label="In [1]", cell_id="a", parent={"header": {"msg_id": "1"}})
    of_search = cells.for_experiment("digits", begins=True)
    assert of_search.label == "In [1]" and of_search.cell_id == "a" and of_search.parent and of_search.experiment
    cells.enter(object(), label="In [2]")
    assert cells.for_experiment("digits") == of_search != cells.current and cells.current.label == "In [2]"
    assert cells.experiment_cell("digits") == "In [1]" and cells.experiment_cell("other") == ""
    assert cells.for_experiment("digits", begins=True).label == "In [2]", "it begins anew"


def test_every_flag_is_documented(shell: InteractiveShell) -> None:
    for magic in arguments.ALL:
        kind = "cell" if magic.name.startswith("%%") else "line"
        text = shell.magics_manager.magics[kind][magic.name.strip("%")].__doc__
        assert all(flag.name in text for flag in magic.flags)
