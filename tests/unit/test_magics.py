"""The magics with a bare shell and a runtime of dictionaries: tasks run at once, here."""
from __future__ import annotations

import sys
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import cellmesh.kernel_ext.remote_cell as remote_cell
import cellmesh.refs
import cellmesh.session
from cellmesh.kernel_ext import arguments, cell_events, magics
from cellmesh.kernel_ext.capture import LARGE_BYTES, Shipper
from cellmesh.kernel_ext.cell_registry import N_KEPT, CellRegistry, registry


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

    def tasks(self, limit: int) -> list[dict[str, Any]]:
        return [{"origin": origin} for origin in self.unfinished]

    def info(self, ref: Ref) -> dict[str, Any]:
        return {"origin": ref.origin}

    def ready(self, ref: Ref) -> bool:
        return ref.is_done


class Session:
    def __init__(self) -> None:
        self.client = Client()
        self.tracks_code = False
        self.n_cells = 0
        self.notifier = self
        self.kept_calls: Any = None

    def keep_calls(self, kept: Any) -> None:
        self.kept_calls = kept

    def add(self, ref: Ref, loop: None, callback: Callable[[], None]) -> None:
        callback()

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
    monkeypatch.setattr(cellmesh.session, "current", lambda: made)
    monkeypatch.setattr(cellmesh.session, "current_or_none", lambda: made)
    monkeypatch.setattr(remote_cell, "_remote", lambda code, options: RemoteThing(code, options, made))
    return made


@pytest.fixture
def shell(session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[InteractiveShell]:
    monkeypatch.setattr(magics.host, "install", lambda shell: None)
    monkeypatch.setattr(magics.host, "uninstall", lambda shell: None)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    made = InteractiveShell(colors="nocolor", config=Config(HistoryManager={"enabled": False}))
    magics.load_ipython_extension(made)
    yield made
    magics.unload_ipython_extension(made)
    InteractiveShell.clear_instance()


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
    run("%%remote --cpus 2 --gpus 0.5 --memory 1G --resources disk=1 --name load --retries -1 --retry-exceptions\n"
        "x = 1")
    assert options_of(session) == {"num_cpus": 2, "num_gpus": 0.5, "memory": 1 << 30, "resources": {"disk": 1},
                                   "name": "load", "max_retries": -1, "retry_exceptions": True, "num_returns": 2}
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


def test_arrays_that_a_cell_changes_are_its_own(run: Any, shell: Any) -> None:
    numpy = pytest.importorskip("numpy")
    shell.user_ns["a"], shell.user_ns["layers"], shell.user_ns["b"] = numpy.zeros(3), [numpy.zeros(2)], numpy.zeros(1)
    for array in (shell.user_ns["a"], shell.user_ns["layers"][0], shell.user_ns["b"]):
        array.flags.writeable = False
    run("%%remote\na += 1\nlayers[0][1] = 5\ntotal = a.sum() + layers[0].sum()\nb = b")
    assert shell.user_ns["total"].value == 8 and shell.user_ns["a"].value.tolist() == [1, 1, 1]
    assert not shell.user_ns["b"].value.flags.writeable, "what is only read is not copied"


def test_a_failure_is_told_under_the_cell(run: Any, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def run_and_hear(text: str) -> None:
        run(text)
        for thread in threading.enumerate():
            if thread.name == "cellmesh-failure":
                thread.join()

    run_and_hear("%%remote\nx = 1 / 0")
    assert "In [1] has failed: ZeroDivisionError: division by zero" in capsys.readouterr().err
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

@pytest.mark.parametrize(("cell", "text"), [
    ("%%remote --cpu 1\nx = 1", "there is no --cpu; did you mean --cpus?"),
    ("%%remote --cpus many\nx = 1", "argument --cpus: 'many' is not a number"),
    ("%%remote --cpus -1\nx = 1", "'-1' is not an amount"),
    ("%%remote --retries 1.5\nx = 1", "'1.5' is not a whole number"),
    ("%%remote --resources disk\nx = 1", "name=amount"), ("%%remote --resources disk=-1\nx = 1", "'-1' is not an amount: it must be 0 or more"),
    ("%%remote --resources '{\"disk\"'\nx = 1", "and no JSON"),
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
    ("%%remote --name n\ndef f(): pass\ndef g(): pass", "the cell defines 2"),
    ("%fetch", "needs the names"),
    ("%fetch nope", "no variable 'nope'"),
    ("%cancel nope", "neither a future nor the number of a cell"),
    ("%mesh fly", "no such action"),
    ("%mesh stop --cpus 2", "belongs to %mesh start"),
    ("%mesh start somewhere", "takes no address"),
    ("%futures all", "there is no all"),
])
def test_mistakes_are_usage_errors(run: Any, cell: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(cell)
    assert text in str(caught.value)


def test_a_syntax_error_is_on_its_own_line(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SyntaxError) as caught:
        run("%%remote --cpus 1\nx = 1\ny = = 2\n")
    assert (caught.value.filename, caught.value.lineno, caught.value.text) == ("Cell In[1]", 3, "y = = 2\n")
    assert "remote_cell.py" not in capsys.readouterr().err


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
    run("%%remote --name counter --retries 2\nclass A:\n    def go(self): pass")
    assert shell.user_ns["A"].given == {"name": "counter", "max_restarts": 2}
    run("%%remote --returns 2 --retries 5\ndef f(): return 1, 2")
    assert shell.user_ns["f"].given == {"num_returns": 2, "max_retries": 5}


def test_what_is_no_use_remotely_stays(run: Any, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run("%%remote\nimport enum, dataclasses, functools, typing\nclass Wrong(ValueError): pass\n"
        "class Colour(enum.Enum):\n    RED = 1\nclass Point(typing.NamedTuple):\n    x: int\n"
        "@dataclasses.dataclass\nclass Record:\n    x: int\n"
        "async def wait(): pass\n@functools.cache\ndef cached(x): return x\ndef plain(x): return x")
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
    assert "Cell In[1]:3" in shown and "raise ValueError('boom')" in shown and "remote_cell.py" not in shown


# ---- around cells

def test_each_run_of_a_cell_has_a_number(run: Any, shell: Any, session: Session) -> None:
    run("a = 1")
    first = session.client.origin
    shell.run_cell("a = 2", store_history=True, cell_id="abc")
    cell = registry.cell(session.client.origin)
    assert session.client.origin == first + 1 and (cell.label, cell.cell_id) == ("In [2]", "abc")
    assert cell.filename and registry.current == cell
    assert session.tracks_code and session.n_cells == 2


def test_nested_cells(run: Any, shell: Any, session: Session) -> None:
    run("get_ipython().run_cell('inner = 1')\nouter = 1")
    assert registry.current.label == "In [1]"


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
    magics.load_ipython_extension(shell)
    assert len(shell.events.callbacks["pre_run_cell"]) == n_callbacks
    assert magics.complete_flags in shell.Completer.custom_matchers
    magics.unload_ipython_extension(shell)
    magics.unload_ipython_extension(shell)
    assert "remote" not in shell.magics_manager.magics["cell"] and "fetch" not in shell.magics_manager.magics["line"]
    assert magics.complete_flags not in shell.Completer.custom_matchers
    assert len(shell.events.callbacks["pre_run_cell"]) == n_callbacks - 1


def test_unloading_gives_ipython_its_formatter_back(shell: InteractiveShell) -> None:
    formatter = shell.InteractiveTB
    assert "structured_traceback" in vars(formatter)
    magics.unload_ipython_extension(shell)
    assert not {"structured_traceback", "get_parts_of_chained_exception"} & set(vars(formatter))
    magics.load_ipython_extension(shell)
    ours = formatter.structured_traceback
    formatter.structured_traceback = theirs = lambda *args, **kwargs: ours(*args, **kwargs)
    try:
        magics.unload_ipython_extension(shell)
        assert formatter.structured_traceback is theirs
        assert "KeyError: 'a'" in "".join(theirs(KeyError, KeyError("a"), None)), "what is theirs goes on through ours"
    finally:
        del formatter.structured_traceback


@pytest.mark.parametrize(("left", "line"), [
    ({7: 1}, "1 task of this cell runs on; %cancel ends it."),
    ({7: 2, 5: 9}, "2 tasks of this cell run on; %cancel ends them."),
    ({5: 1}, "1 task of In [5] runs on; %cancel 5 ends it."),
    ({6: 1, 5: 2}, "3 tasks of In [5], In [6] run on; %cancel 5 6 ends them."),
    ({4: 1}, "1 task of other cells runs on; %cancel --all ends it."),
    ({number: 1 for number in range(11, 20)}, "9 tasks of other cells run on; %cancel --all ends them."),
])
def test_a_stopped_cell_says_what_goes_on(left: dict[int, int], line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    label = {4: "In [ ]"}
    cells = types.SimpleNamespace(cell=lambda n: types.SimpleNamespace(label=label.get(n, f"In [{n}]")))
    monkeypatch.setattr(cell_events, "registry", cells)
    assert cell_events.what_goes_on(Counter(left), 7) == f"Stopped. {line}"


def test_completion_of_flags(shell: InteractiveShell) -> None:
    shell.Completer.use_jedi = False
    _, found = shell.complete("--re", "%%remote --cpus 2 --re", 22)
    assert {"--resources", "--retries", "--retry-exceptions", "--returns"} == set(found)
    _, found = shell.complete("--", "%cancel --", 10)
    assert set(found) == {"--all", "--force"}
    assert shell.complete("--re", "print --re", 10)[1] == []


def test_every_flag_is_documented(shell: InteractiveShell) -> None:
    for magic in arguments.ALL:
        kind = "cell" if magic.name.startswith("%%") else "line"
        text = shell.magics_manager.magics[kind][magic.name.strip("%")].__doc__
        assert all(flag.name in text for flag in magic.flags)
