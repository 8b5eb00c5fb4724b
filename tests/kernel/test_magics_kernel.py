"""The magics in a real kernel: cells as tasks, errors, the stop button, cancelling, completion."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kernels import START_TIMEOUT_S, Kernel, error, plain, reply_of, result, value
from support.waiting import wait_until


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """A path; tasks that wait for it go on when the test ends."""
    path = tmp_path / "gate"
    yield path
    path.touch()


def test_cells_chain_by_their_names(kernel: Kernel) -> None:
    kernel.run("%%remote\nimport math\nx = math.sqrt(16)\ny = x + 1")
    kernel.run("%%remote\nz = [x, y]\nlen(z)")
    assert value(kernel, "cm.get([x, y, z])") == [4.0, 5.0, [4.0, 5.0]]
    assert value(kernel, "math.floor(1.5)") == 1  # what a cell imports is there
    kernel.run("%fetch z x")
    assert value(kernel, "(z, x)") == ([4.0, 5.0], 4.0)


def test_the_last_expression_is_the_result_and_shows_a_card(kernel: Kernel) -> None:
    request = kernel.run("%%remote\nn = 6\nn * 7")
    assert kernel.of(request, "display_data", "execute_result"), "a future displays itself"
    assert value(kernel, "cm.get(_)") == 42
    silent = kernel.run("%%remote\nn = 6\nn * 7;")
    assert not kernel.of(silent, "display_data", "execute_result")


def test_what_a_cell_prints_stands_under_it(kernel: Kernel) -> None:
    request = kernel.run("%%remote\nprint('from the worker')\nimport sys\nprint('and this', file=sys.stderr)")
    assert plain(kernel.until_text(request, lambda text: "worker" in text)) == "from the worker\n"
    kernel.until_text(request, lambda text: "and this" in text, "stderr")


def test_display_in_a_cell_without_an_import(kernel: Kernel) -> None:
    request = kernel.run("%%remote\ndisplay({'text/plain': 'a picture'}, raw=True)")
    wait_until(lambda: any("a picture" in str(m["content"]["data"]) for m in kernel.of(request, "display_data")))


def test_display_in_a_plain_remote_function(kernel: Kernel) -> None:
    request = kernel.run(
        "@cm.remote\ndef picture():\n    display({'text/plain': 'drawn'}, raw=True)\ncm.get(picture.remote())"
    )
    wait_until(lambda: any("drawn" in str(m["content"]["data"]) for m in kernel.of(request, "display_data")))


def test_definitions_become_remote(kernel: Kernel) -> None:
    kernel.run(
        "%%remote\nimport json\n\ndef double(x):\n    return 2 * x\nclass Counter:\n    def __init__(self, n):\n"
        "        self.n = n\n    def add(self, k):\n        self.n += k\n        return json.dumps(self.n)\n"
        "class Wrong(ValueError): pass"
    )
    assert value(kernel, "cm.get(double.remote(21))") == 42
    assert value(kernel, "cm.get(Counter.remote(1).add.remote(2))") == "3"
    assert value(kernel, "issubclass(Wrong, ValueError)") is True
    kernel.run("%%remote\ndef counted(n):\n    yield from range(n)")
    assert value(kernel, "[cm.get(ref) for ref in counted.remote(3)]") == [0, 1, 2], "a generator streams"
    kernel.run("%%remote\ndef double(x):\n    return 20 * x")
    assert value(kernel, "cm.get(double.remote(2))") == 40, "the new definition counts at once"


def test_a_cell_uses_remote_functions_actors_and_futures_in_lists(kernel: Kernel) -> None:
    kernel.run(
        "%%remote\ndef double(x):\n    return 2 * x\nclass Counter:\n    n = 0\n    def add(self, k):\n"
        "        self.n += k\n        return self.n"
    )
    kernel.run("counter = Counter.remote()\nparts = [double.remote(i) for i in range(3)]")
    kernel.run(
        "%%remote\nadded = cm.get(counter.add.remote(sum(cm.get(parts)) + cm.get(double.remote(1))))\nkeep = parts"
    )
    assert value(kernel, "cm.get(added)") == 8
    assert value(kernel, "cm.get(counter.add.remote(0))") == 8, "the same actor"
    assert value(kernel, "cm.get(cm.get(keep))") == [0, 2, 4], "refs within stay refs"
    kernel.run("%fetch parts")
    assert value(kernel, "parts") == [0, 2, 4]


def test_objects_of_the_notebooks_classes_come_back_as_such(kernel: Kernel) -> None:
    kernel.run("class Point:\n    def __init__(self, x): self.x = x\np = Point(1)")
    kernel.run("%%remote\nq = Point(p.x + 1)\nknown = isinstance(p, Point)")
    kernel.run("%fetch q known")
    assert value(kernel, "(type(q) is Point, q.x, known)") == (True, 2, True)


def test_arrays_of_a_cell_and_of_fetch_may_be_changed(kernel: Kernel) -> None:
    kernel.run("import numpy as np\nsmall, large, layers = np.zeros(3), np.zeros(100_000), [np.zeros(50_000)]")
    kernel.run("%%remote\nsmall += 1\nlarge += 1\nlayers[0][1] = 5\nfirst = layers[0]\nsame = large")
    stored = "[int(cm.get(array).sum()) for array in (small, large, first, same)]"
    assert value(kernel, stored) == [3, 100_000, 5, 100_000]
    kernel.run("kept = large\n%fetch large first")
    kernel.run("large += 1\nfirst[:] = 7")
    assert value(kernel, "(int(large.sum()), int(first.sum()))") == (200_000, 350_000)
    assert value(kernel, "[int(cm.get(array).sum()) for array in (kept, same)]") == [100_000, 100_000]
    kernel.run("del small, large, layers, first, same, kept")


def test_functions_and_classes_beside_statements_are_the_notebooks_too(kernel: Kernel) -> None:
    kernel.run(
        "%%remote\nfrom dataclasses import dataclass\n@dataclass\nclass Spot:\n    x: int\n    def twice(self): "
        "return self.x * 2\n"
        "def inner(x): return x + 1\nspots = [Spot(inner(i)) for i in range(3)]\nhandles = 1"
    )
    assert value(kernel, "inner(3), cm.get(spots) == [Spot(1), Spot(2), Spot(3)], cm.get(spots)[0].twice()") == (
        4,
        True,
        2,
    )
    kernel.run("%%remote\nsame = spots[1] == Spot(2) and isinstance(spots[0], Spot)")
    assert value(kernel, "cm.get(same)") is True
    assert "It is a future" in error(kernel, "handles(3)")[1] and "%fetch" in error(kernel, "handles(3)")[1]


def test_a_variable_that_changes_within_a_cell(kernel: Kernel) -> None:
    kernel.run("threshold = 10\nseen = []\nsizes = {'a': 1}")
    kernel.run("%%remote\ndef above(x):\n    return x > threshold, sizes['a']")
    kernel.run(
        "a = cm.get(above.remote(11))\nthreshold, sizes['a'] = 100, 2\nb = cm.get(above.remote(11))\n"
        "for threshold in range(9, 13): seen.append(cm.get(above.remote(11))[0])"
    )
    assert value(kernel, "a, b, seen") == ((True, 1), (False, 2), [True, True, False, False])
    # The third call does not look, however slow the machine is: where it does, no call can have missed the change, and
    # there is nothing to tell.
    kernel.run("from cellmesh.submit import captures\nshare, captures.LOOKING_SHARE = captures.LOOKING_SHARE, 1e-9")
    kernel.run(
        "import numpy as np\nweights = np.zeros(10_000)\n@cm.remote\ndef first(): return weights[0]\n"
        "refs = [first.remote() for _ in range(3)]\nweights[0] = 1"
    )
    told = kernel.text(kernel.run("x = cm.get(first.remote())\ncaptures.LOOKING_SHARE = share"), "stderr")
    assert (
        told.startswith("ChangedInPlaceWarning: weights, which 'first' uses, was changed in place")
        and told.count("\n") == 1
    )
    assert value(kernel, "int(x)") == 1


def test_what_loops_and_definitions_leave_in_an_actor_is_there_for_the_next_cell(kernel: Kernel) -> None:
    kernel.run("%%actor box\nclass Box:\n    pass")
    kernel.run("%%remote --on box\nclass Part:\n    pass\nfor number in range(3):\n    pass\nmade = Part()")
    assert value(kernel, "'number' in globals()") is False
    kernel.run("%%remote --on box\nsame = isinstance(made, Part), number")
    assert value(kernel, "cm.get(same)") == (True, 2)


def test_an_error_shows_the_cells_own_lines(kernel: Kernel) -> None:
    kernel.run("%%remote\ndef broken(x):\n    # a comment\n    return 1 / x")
    count = value(kernel, "len(In)")
    request = kernel.run("%%remote --cpus 1\nbefore = 1\n\nbroken_value = before / 0")
    name, text = error(kernel, "%fetch broken_value")
    assert "ZeroDivisionError" in name
    assert f'"Cell In[{count}]", line 4' in text and "broken_value = before / 0" in text, text
    assert request
    _, text = error(kernel, "cm.get(broken.remote(0))")
    assert re.search(r'"Cell In\[\d+\]", line 4, in broken\n    return 1 / x', text), text


def test_functions_of_ordinary_cells_have_their_cells_lines_too(kernel: Kernel) -> None:
    count = value(kernel, "len(In)")
    kernel.run("def inner(x):\n    return 1 / x\n\n@cm.remote\ndef outer(x):\n    return inner(x)")
    _, text = error(kernel, "cm.get(outer.remote(0))")
    assert f'"Cell In[{count}]", line 2, in inner\n    return 1 / x' in text, text
    assert f'"Cell In[{count}]", line 6, in outer' in text and "ipykernel" not in text, text


def test_a_traceback_ends_at_the_users_frame(kernel: Kernel) -> None:
    kernel.run("@cm.remote\ndef broken(): return 1 / 0\ndef mine():\n    return cm.get(broken.remote())")
    _, text = error(kernel, "mine()")
    assert "in mine()" in text and ".py" not in text, text
    _, text = error(
        kernel, "cm.get(refs=broken.options(num_cpus=1).remote())"
    )  # by keyword: the way that leads through Python
    assert "----> 1 cm.get(refs=broken" in text and ".py" not in text, text
    kernel.run("import sys, traceback")
    assert "objects.py" in value(kernel, "str(traceback.extract_tb(sys.last_value.__traceback__))")


@pytest.mark.parametrize(
    "code",
    [
        "near.remote(1, 2, 3)",
        "cm.get(7)",
        "cm.wait([cm.put(1)], num_returns=-1)",
        "cm.remote(3)",
        "near.options(num_cpus='x')",
        "try:\n    cm.get(7)\nexcept TypeError as e:\n    raise KeyError('mine') from e",
    ],
)
def test_tracebacks_of_pythons_own_errors_end_there_too(kernel: Kernel, code: str) -> None:
    kernel.run("@cm.remote\ndef near(x): return x")
    name, text = error(kernel, f"def mine():\n    {code.replace(chr(10), chr(10) + '    ')}\nmine()")
    assert name in ("TypeError", "OptionTypeError", "ValueError", "KeyError")
    assert "in mine()" in text and ".py" not in text


def test_a_failure_is_told_under_the_cell(kernel: Kernel) -> None:
    first = kernel.start("%%remote\nout = 1\nout = 1 / 0")
    text = plain(kernel.until_text(first, lambda text: "Error" in text, "stderr"))
    count = re.search(r"In \[(\d+)\] has failed in the worker with pid", text)[1]
    assert f'File "Cell In[{count}]", line 3' in text and text.endswith("ZeroDivisionError: division by zero\n")
    kernel.wait(first)
    second = kernel.run("%%remote\nmore = out")
    text = kernel.until_text(second, lambda text: text, "stderr")
    assert re.fullmatch(rf"In \[\d+\] has not run, because In \[{count}\] has failed: ZeroDivisionError: .*\n", text)


def test_arrays_that_a_cell_changes_are_its_own(kernel: Kernel) -> None:
    kernel.run("import numpy as np\nweights = np.zeros(3)\nlarge = np.zeros(100_000)")
    kernel.run("%%remote\nweights += 1\nlarge[5] = 2\ntotal = float(weights.sum() + large.sum())")
    assert value(kernel, "cm.get(total)") == 5.0
    kernel.run("del large")


def test_a_failed_cell_can_be_run_again(kernel: Kernel) -> None:
    kernel.run("steps = 2")
    kernel.run("%%remote\nfor step in range(steps):\n    loss = 1 / 0\nprint(loss)")
    assert error(kernel, "cm.get(loss)")[0].endswith("(ZeroDivisionError)")
    kernel.run("%%remote\nfor step in range(steps):\n    loss = 1 / 2\nprint(loss)")
    assert value(kernel, "cm.get(loss)") == 0.5


def test_mistakes_are_told_in_a_sentence(kernel: Kernel) -> None:
    assert error(kernel, "%%remote --cpu 2\nx = 1") == (
        "UsageError",
        "UsageError: %%remote: there is no --cpu; did you mean --cpus? (%%remote? shows how it is used)\n",
    )
    name, text = error(kernel, "%%remote\nx = 1\ny = = 2")
    assert name == "SyntaxError" and re.search(r"In\[\d+\]:3\n +y = = 2", text) and "magics.py" not in text, text
    name, text = error(kernel, "%%remote\nx = 1\n!ls")
    assert name == "UsageError" and "line 3" in text and "`!ls`" in text
    name, text = error(kernel, "%%remote\ny = no_such_name + 1")
    assert name == "NameError" and "'no_such_name'" in text and "line 2" in text and "capture.py" not in text, text
    kernel.run("import threading\nholder = {'deep': [threading.Lock()]}")
    name, text = error(kernel, "%%remote\nholder['deep']")
    assert name == "UsageError" and "holder['deep'][0]" in text and "lock" in text
    assert value(kernel, "1 + 1") == 2


def test_a_warning_names_the_cell(kernel: Kernel) -> None:
    request = kernel.run("%%remote --cpus 99\nnever = 1")
    assert re.match(r"InfeasibleResourcesWarning: 'never' asks for CPU: 99, but", kernel.text(request, "stderr"))
    kernel.run("%cancel never")


def test_results_that_are_not_there(kernel: Kernel) -> None:
    kernel.run(
        "%%remote\nfor i in []:\n    never = i\nhandle = open('/dev/null'); data = handle.read(); handle.close()\ndata"
    )
    name, text = error(kernel, "cm.get(never)")
    assert name == "NameError" and "has not assigned 'never'" in text
    name, text = error(kernel, "cm.get(handle)")
    assert name == "TypeError" and "handle" in text and "TextIOWrapper" in text
    assert value(kernel, "cm.get(data)") == ""


def test_what_the_notebook_holds_stays_if_the_cell_leaves_it_alone(kernel: Kernel) -> None:
    kernel.run("kept = 'mine'\nwanted = False")
    kernel.run("%%remote\nif wanted:\n    kept = 'new'")
    assert value(kernel, "cm.get(kept)") == "mine"
    kernel.run("wanted = True")
    kernel.run("%%remote\nif wanted:\n    kept = 'new'")
    assert value(kernel, "cm.get(kept)") == "new"


def test_functions_of_the_notebook_see_the_cells_variables(kernel: Kernel) -> None:
    kernel.run("%%remote\nbase = 100")
    kernel.run("factor = 2\ndef scaled(x):\n    return helper(x) * factor + base\ndef helper(x):\n    return x + 1")
    kernel.run("%%remote\nfactor = 3\ns = scaled(1)")
    assert value(kernel, "cm.get(s)") == 106


def test_large_values_travel_once(kernel: Kernel) -> None:
    kernel.run(
        "import numpy as np\nbig = np.arange(100_000)\ndef puts(ref):\n    cm.get(ref)\n"
        "    return [o['id'] for o in cm.state.list_objects() if 'put' in o['made_by'] and o['size'] > 700_000]"
    )
    kernel.run("%%remote\nfirst = int(big.sum())")
    kernel.run("before = puts(first)")
    kernel.run("%%remote\nsecond = int(big.sum())")
    assert value(kernel, "len(before) == 1 and puts(second) == before") is True
    kernel.run("big[7] += 1000")
    kernel.run("%%remote\nthird = int(big.sum())")
    assert value(kernel, "cm.get(third) - cm.get(second)") == 1000, "a change is noticed"


def test_top_level_await(kernel: Kernel) -> None:
    kernel.run(
        "%%remote\nimport asyncio\nasync def one(n):\n    await asyncio.sleep(0)\n    return n\n"
        "both = await asyncio.gather(one(1), one(2))\nboth"
    )
    assert value(kernel, "cm.get(both)") == [1, 2]


def test_refs_among_others_say_what_they_are(kernel: Kernel) -> None:
    kernel.run(
        "@cm.remote\ndef inverse(x): return 1 / x\nrefs = [inverse.remote(1), inverse.remote(0)]\ncm.wait(refs, "
        "num_returns=2)"
    )
    assert result(kernel, kernel.run("refs")) == "[<ObjectRef inverse: finished>, <ObjectRef inverse: failed>]"
    assert result(kernel, kernel.run("{'a': cm.put(1)}")) == "{'a': <ObjectRef put(): finished>}"
    kernel.run("%%remote --cpus 99\nnever = 1")
    assert result(kernel, kernel.run("(never,)")) == "(<ObjectRef never: queued>,)"
    kernel.run("%cancel never")
    assert result(kernel, kernel.run("[never]")) == "[<ObjectRef never: cancelled>]"


def test_a_remedy_is_what_can_be_typed(kernel: Kernel) -> None:
    kernel.run("%%remote --retries 0\nimport os\nos._exit(3)\nlost = 1")
    name, text = error(kernel, "cm.get(lost)")
    assert name == "WorkerCrashedError" and "no retries left (%%remote --max-retries)" in text, text
    kernel.run("@cm.remote(max_retries=0)\ndef crash(): os._exit(3)")
    assert "no retries left (option max_retries)" in error(kernel, "cm.get(crash.remote())")[1]


def test_wait_raises_here(kernel: Kernel) -> None:
    name, text = error(kernel, "%%remote --wait\nq = 1 / 0")
    assert name.endswith("(ZeroDivisionError)") and "q = 1 / 0" in text


def test_the_stop_button_says_what_goes_on_and_cancel_ends_it(kernel: Kernel, gate: Path) -> None:
    kernel.run("@cm.remote\ndef patient(path):\n    while not os.path.exists(path): time.sleep(0.01)")
    request = kernel.start(
        f"waiting = [patient.remote({str(gate)!r}) for _ in range(3)]\nprint('asked')\ncm.get(waiting)"
    )
    kernel.until_text(request, lambda text: "asked" in text)
    kernel.manager.interrupt_kernel()
    assert reply_of(kernel, request)["ename"] == "KeyboardInterrupt"
    told = kernel.until_text(request, lambda text: "%cancel" in text)
    assert "3 tasks of this cell run on; %cancel ends them." in told
    number = value(kernel, "len(In)") - 2
    cancelled = kernel.run("%cancel")
    assert f"Cancelled 3 tasks of In [{number}].\n" in plain(
        kernel.text(cancelled)
    )  # others may print something now, too
    assert error(kernel, "cm.get(waiting[0])")[0] == "TaskCancelledError"
    kernel.run("%%remote\nafter = 'usable'")
    assert value(kernel, "cm.get(after)") == "usable"


def test_a_stopped_wait_for_another_cells_task(kernel: Kernel, gate: Path) -> None:
    kernel.run(f"%%remote\nimport os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\nlong = 1")
    number = value(kernel, "len(In)") - 2
    request = kernel.start("print('asked')\ncm.get(long)")
    kernel.until_text(request, lambda text: "asked" in text)
    kernel.manager.interrupt_kernel()
    reply = reply_of(kernel, request)
    assert reply["ename"] == "KeyboardInterrupt"
    shown = plain("\n".join(reply["traceback"]))
    assert "cm.get(long)" in shown and ".py" not in shown and shown.count("KeyboardInterrupt") == 1
    kernel.until_text(request, lambda text: f"1 task of In [{number}] runs on; %cancel {number} ends it." in text)
    kernel.run(f"%cancel {number}")


def test_the_stop_button_ends_a_cell_that_awaits(kernel: Kernel, gate: Path) -> None:
    kernel.run("@cm.remote\ndef patient(path):\n    while not os.path.exists(path): time.sleep(0.01)")
    request = kernel.start(f"print('asked')\nawait patient.remote({str(gate)!r})")
    kernel.until_text(request, lambda text: "asked" in text)
    kernel.manager.interrupt_kernel()
    assert reply_of(kernel, request)["ename"] == "CancelledError"
    kernel.until_text(request, lambda text: "1 task of this cell runs on; %cancel ends it." in text)
    kernel.run("%cancel")


def test_the_stop_button_cancels_if_it_is_set_so(kernel: Kernel, gate: Path) -> None:
    kernel.run("@cm.remote\ndef patient(path):\n    while not os.path.exists(path): time.sleep(0.01)")
    kernel.run("%config CellmeshMagics.cancel_on_stop = True")
    request = kernel.start(f"asked = patient.remote({str(gate)!r})\nprint('asked')\ncm.get(asked)")
    kernel.until_text(request, lambda text: "asked" in text)
    kernel.manager.interrupt_kernel()
    assert reply_of(kernel, request)["ename"] == "KeyboardInterrupt"
    kernel.until_text(request, lambda text: "Cancelled 1 task of In [" in text)
    kernel.run("%config CellmeshMagics.cancel_on_stop = False")
    assert error(kernel, "cm.get(asked)")[0] == "TaskCancelledError"


def test_cancel_by_cell_by_name_and_all(kernel: Kernel, gate: Path) -> None:
    wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    kernel.run(f"%%remote\n{wait}\none = 1")
    number = value(kernel, "len(In)") - 2
    kernel.run(f"%%remote\n{wait}\ntwo = 1")
    assert plain(kernel.text(kernel.run(f"%cancel {number}"))) == f"Cancelled 1 task of In [{number}].\n"
    assert plain(kernel.text(kernel.run("%cancel two"))) == "Cancelled 1 task.\n"
    for name in ("one", "two"):
        assert error(kernel, f"cm.get({name})")[0] == "TaskCancelledError"
    assert plain(kernel.text(kernel.run("%cancel one two"))) == "Those tasks have ended already: nothing to cancel.\n"
    kernel.run(f"%%remote\n{wait}\nboth = halves = 1")
    assert plain(kernel.text(kernel.run("%cancel one both halves"))) == "Cancelled 1 task.\n"
    kernel.run(f"%%remote\n{wait}\nthree = 1")
    number = value(kernel, "len(In)") - 2
    kernel.run("%cancel --all --force")
    table = result(kernel, kernel.run("%futures"))
    assert re.search(rf"^three +\S.* three +In \[{number}\]", table, re.MULTILINE), table
    assert error(kernel, "cm.get(three)")[0] in ("TaskCancelledError", "WorkerCrashedError")
    assert "one " in (table := result(kernel, kernel.run("%futures cancelled"))) and "before " not in table, table
    assert (
        result(kernel, kernel.run("%futures waiting queued"))
        == "No variable of this notebook holds a future that is waiting or queued."
    )
    assert plain(kernel.text(kernel.run("%cancel"))) == "There are no such tasks: nothing to cancel.\n"
    assert error(kernel, "%cancel nothing_like_it")[0] == "UsageError"


def test_running_a_cell_again_says_that_the_earlier_run_goes_on(kernel: Kernel, gate: Path) -> None:
    code = f"%%remote\nimport os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\nslow = 1"
    first = kernel.start(code, "cell-a")
    kernel.wait(first)
    second = kernel.start(code, "cell-a")
    kernel.wait(second)
    assert re.search(r"The earlier run of this cell, In \[\d+\], goes on; %cancel \d+ ends it.", kernel.text(second))
    kernel.run("%cancel --all")


def test_completion_and_documentation(kernel: Kernel) -> None:
    code = "%%remote --re"
    reply = kernel.client.complete(code, len(code), reply=True, timeout=20)["content"]
    assert {"--resources", "--retries", "--retry-exceptions", "--returns"} <= set(reply["matches"])
    assert code[reply["cursor_start"] : reply["cursor_end"]] == "--re"
    request = kernel.start("%%remote?")
    page = reply_of(kernel, request)["payload"][0]["data"]["text/plain"]
    assert "--max-retries N" in plain(page) and "becomes one task" in plain(page)


def test_tasks_of_a_cell_that_starts_the_session_belong_to_it(fresh_kernel: Kernel) -> None:
    fresh_kernel.run("%load_ext cellmesh")
    request = fresh_kernel.run(
        "import cellmesh as cm\ncm.init(num_cpus=1)\n@cm.remote\ndef talk(): print('hello')\ncm.get(talk.remote())"
    )
    fresh_kernel.until_text(request, lambda text: "hello" in text)
    fresh_kernel.run("from cellmesh.kernel_ext.cells.registry import registry")
    assert value(fresh_kernel, "registry.cell(cm.state.list_tasks()[0]['origin']).label") == "In [2]"


def test_cells_are_known_although_output_is_not_wanted(fresh_kernel: Kernel) -> None:
    fresh_kernel.run("%load_ext cellmesh")
    fresh_kernel.run(
        "import cellmesh as cm\ncm.init(num_cpus=1, log_to_driver=False)\n@cm.remote\ndef f(): return 1\n"
        "cm.get(f.remote())"
    )
    fresh_kernel.run("from cellmesh.kernel_ext.cells.registry import registry")
    assert value(fresh_kernel, "registry.cell(cm.state.list_tasks()[0]['origin']).label") == "In [2]"


def test_the_cell_that_loads_the_extension_is_known_too(fresh_kernel: Kernel) -> None:
    fresh_kernel.run("%load_ext cellmesh\nimport cellmesh as cm\n@cm.remote\ndef f(): return 1\ncm.get(f.remote())")
    fresh_kernel.run("from cellmesh.kernel_ext.cells.registry import registry")
    assert value(fresh_kernel, "registry.cell(cm.state.list_tasks()[0]['origin']).label") == "In [1]"


def test_mesh_and_futures(fresh_kernel: Kernel) -> None:
    fresh_kernel.run("%load_ext cellmesh\n%load_ext cellmesh")
    assert "No session runs" in fresh_kernel.text(fresh_kernel.run("%mesh"))
    fresh_kernel.run("%mesh start --cpus 1 --store 100M")
    fresh_kernel.run("%%remote\na = 1")
    assert "a " in result(fresh_kernel, fresh_kernel.run("%futures"))
    fresh_kernel.run("%%remote --cpus 2\nbig = 1")
    fresh_kernel.run(
        "import cellmesh as cm\ncm.wait([a])"
    )  # its value is there, but the cell's task may have more to deliver
    wait_until(
        lambda: re.search(r"workers: .*; tasks: 1 queued; store: ", fresh_kernel.text(fresh_kernel.run("%mesh status")))
    )
    fresh_kernel.run("%mesh stop")
    assert "No session runs" in fresh_kernel.text(fresh_kernel.run("%mesh stop"))
    assert error(fresh_kernel, "%mesh fly")[0] == "UsageError"
    name, text = error(fresh_kernel, "%%remote\nb = a")
    assert name == "UsageError" and "'a' is a future of a session that has ended" in text


# Everything of the shell, its kernel and its process that an extension may leave something in.
STATE = """
def state():
    import builtins, signal, sys, threading
    shell, comms = get_ipython(), __import__("comm").get_comm_manager()
    formatters = shell.display_formatter.formatters | {"": shell.display_formatter.ipython_display_formatter}
    found = {
        "magics": {kind: sorted(names) for kind, names in shell.magics_manager.magics.items()},
        "callbacks": {event: [str(f) for f in found] for event, found in shell.events.callbacks.items()},
        "formatters": {
            kind: (sorted(map(str, f.type_printers)), sorted(map(str, f.deferred_printers)))
            for kind, f in formatters.items()
        },
        "configurables": [type(c).__name__ for c in shell.configurables if "cellmesh" in type(c).__module__],
        "completers": [str(m) for m in shell.Completer.custom_matchers],
        "tracebacks": sorted(
            vars(shell.InteractiveTB).keys() & {"structured_traceback", "get_parts_of_chained_exception"}
        ),
        "requests": sorted(shell.kernel.control_handlers),
        "comms": sorted(comms.comms),
        "targets": sorted(comms.targets),
        "transformers": [
            str(t) for t in (*shell.input_transformers_cleanup, *shell.input_transformers_post, *shell.ast_transformers)
        ],
        "hooks": (
            sys.displayhook,
            sys.excepthook,
            sys.stdout,
            sys.stderr,
            builtins.display,
            signal.getsignal(signal.SIGINT),
        ),
        "wakeup": signal.set_wakeup_fd(signal.set_wakeup_fd(-1)) >= 0,
        "threads": sorted(t.name for t in threading.enumerate()),
        "front end": sys.modules["cellmesh.front_end"].current,
        "flags": sys.modules["cellmesh.front_end"].current.keep_frames,
    }
    return {name: repr(value) for name, value in found.items()}
"""


def test_unload_undoes_everything(fresh_kernel: Kernel) -> None:
    fresh_kernel.run(f"import cellmesh as cm, cellmesh.front_end, comm\n{STATE}")
    fresh_kernel.run("%load_ext autoreload\n1 / 2; await __import__('asyncio').sleep(0)")
    before = value(fresh_kernel, "state()")
    fresh_kernel.run("%load_ext cellmesh\n%load_ext cellmesh")
    fresh_kernel.run("%config CellmeshMagics.keep_frames = True")
    fresh_kernel.run("%%remote\nx = 1\nx")
    fresh_kernel.run("cm.get(x)\n%futures")
    fresh_kernel.run("%mesh stop")
    fresh_kernel.run("await __import__('asyncio').sleep(0)\n%unload_ext cellmesh")
    assert value(fresh_kernel, "state()") == before
    assert "is not loaded: run %load_ext cellmesh" in error(fresh_kernel, "%%remote\nx = 1")[1]
    fresh_kernel.run("%load_ext cellmesh")
    fresh_kernel.run("%%remote\nx = 1")
    fresh_kernel.run("%mesh stop")


@pytest.mark.parametrize("end", ["shut down", "restarted", "killed", "left"])
def test_a_kernel_that_ends_leaves_nothing_and_the_next_one_works(
    fresh_kernel: Kernel, tmp_path: Path, end: str
) -> None:
    kernel = fresh_kernel
    kernel.run("%load_ext cellmesh\nimport os, cellmesh as cm\ncm.init(num_cpus=1)")
    kernel.run("%%remote\nimport os, time\npid = os.getpid()\nprint(pid, flush=True)\ntime.sleep(600)")
    worker = wait_until(lambda: value(kernel, "[w['pid'] for w in cm.state.list_workers() if w['task']]"))[0]
    folder = value(kernel, "cm.nodes()[0]['SessionDir']")
    assert Path(folder).is_dir()
    if end == "killed":
        os.kill(kernel.manager.provisioner.pid, signal.SIGKILL)
    elif end == "left":
        kernel.start("os._exit(1)")
    else:
        kernel.client.shutdown(restart=end == "restarted")
    wait_until(
        lambda: not Path(f"/proc/{worker}").exists() and not Path(folder).exists(), 3.0, "the end of the session"
    )
    folder_of_next = tmp_path / "next"
    folder_of_next.mkdir()
    following = Kernel(folder_of_next)
    try:
        following.run("%load_ext cellmesh\nimport cellmesh as cm")
        following.run("%%remote\nn = 1")
        assert value(following, "cm.get(n)") == 1
    finally:
        following.close()


def test_modules_edited_under_autoreload_reach_workers_within_the_cell(kernel: Kernel, tmp_path: Path) -> None:
    module = tmp_path / "cm_edited.py"
    module.write_text("VALUE = 1\n")
    kernel.run(
        f"%load_ext autoreload\n%autoreload 2\nimport sys; sys.path.insert(0, {str(tmp_path)!r}); import cm_edited"
    )
    kernel.run("@cm.remote\ndef look():\n    import cm_edited\n    return cm_edited.VALUE")
    assert value(kernel, "(cm.get(look.remote()), cm_edited.VALUE)") == (1, 1)
    module.write_text("VALUE = 'edited'\n")
    stat = module.stat()
    os.utime(module, ns=(stat.st_atime_ns, stat.st_mtime_ns + 2_000_000_000))  # autoreload looks at whole seconds
    assert value(kernel, "(cm.get(look.remote()), cm_edited.VALUE)") == ("edited", "edited")
    kernel.run("%autoreload 0\nsys.path.pop(0); del sys.modules['cm_edited']")


def test_what_only_cycles_hold_leaves_the_store_when_the_kernel_is_idle(kernel: Kernel, tmp_path: Path) -> None:
    """The kernel itself looks, in a thread: a cell that looked would be one that keeps it busy."""
    kernel.run(
        "import numpy as np, threading, pathlib, cellmesh.session.current as sessions\n"
        "def look():\n"
        "    while sessions.current().client.stats()['used_bytes'] > 1 << 20:\n"
        "        time.sleep(0.05)\n"
        f"    pathlib.Path({str(tmp_path / 'freed')!r}).touch()\n"
        "cycle = [cm.put(np.ones(4 << 20))]; cycle.append(cycle); del cycle\n"
        "threading.Thread(target=look).start()"
    )
    wait_until((tmp_path / "freed").exists, what="the array is freed")


def test_fetching_what_is_no_future_is_said(kernel: Kernel) -> None:
    kernel.run("import math\nfour = 4\n%config CellmeshMagics.cancel_on_stop = False")
    kernel.run("@cm.remote\ndef one(): return 1\na_future = one.remote()")
    assert kernel.text(kernel.run("%fetch math a_future")) == "math holds no future: nothing to fetch there.\n"
    assert kernel.text(kernel.run("%fetch math four")) == "math, four hold no future: nothing to fetch there.\n"
    assert value(kernel, "a_future") == 1
    kernel.run(
        "@cm.remote\ndef counts(n=2):\n    yield n\n@cm.remote\ndef same(x): return x\nparts, results = "
        "counts.remote(), same.map([1])"
    )
    assert kernel.text(kernel.run("%fetch parts")).endswith(
        "nothing to fetch there. parts = list(parts) waits for all that the generator yields.\n"
    )
    assert kernel.text(kernel.run("%fetch results")).endswith(
        "nothing to fetch there. results = list(results) reads the results of the map.\n"
    )


@pytest.mark.parametrize("cell", ["# what it does\n%%remote\nx = 1", "x = 2\n%%actor thing\nx = 1"])
def test_a_magic_below_another_line_says_where_it_must_stand(kernel: Kernel, cell: str) -> None:
    assert "must be the first line of its cell" in kernel.text(kernel.run(cell), "stderr")


def test_fetch_retry_and_cancel_look_into_containers(kernel: Kernel, gate: Path) -> None:
    kernel.run(
        "@cm.remote\ndef double(x): return 2 * x\n"
        "parts = {'a': [double.remote(1), 3], 'b': ({'c': double.remote(2)}, None)}\nplain = [[1]]\ninner = plain[0]"
    )
    assert kernel.text(kernel.run("%fetch parts plain")) == "plain holds no future: nothing to fetch there.\n"
    assert value(kernel, "(parts, plain[0] is inner)") == ({"a": [2, 3], "b": ({"c": 4}, None)}, True)
    kernel.run("some = {double.remote(1), double.remote(2)}\ndeep = [(some,)]")
    assert "some = list(some)" in kernel.text(kernel.run("%fetch some"), "stderr")
    assert "make it a list" in kernel.text(kernel.run("%fetch deep"), "stderr")
    assert value(kernel, "sorted(cm.get(list(some)))") == [2, 4], "they are futures still"
    kernel.run(
        f"@cm.remote\ndef wait(*, path={str(gate)!r}):\n    while not os.path.exists(path): time.sleep(0.01)\n"
        "@cm.remote(num_returns='streaming')\ndef items(**k):\n    yield 1\n    wait.function(**k)\n"
        "waits = {'a': [wait.remote()], 'b': {wait.remote()}}\nstream = items.remote()"
    )
    assert plain(kernel.text(kernel.run("%cancel waits"))) == "Cancelled 2 tasks.\n"
    assert plain(kernel.text(kernel.run("%cancel stream"))) == "Cancelled 1 task.\n"
    assert (
        value(
            kernel,
            "[type(e).__name__ for e in cm.get([*waits['a'], *waits['b'], stream.completed()], "
            "return_exceptions=True)]",
        )
        == ["TaskCancelledError"] * 3
    )
    gate.touch()
    assert plain(kernel.text(kernel.run("%retry waits"))) == "Submitted 2 tasks again: 2 in waits.\n"
    assert value(kernel, "cm.get([*waits['a'], *waits['b']])") == [None, None]


def test_a_future_completes_to_its_methods_and_says_what_to_write(kernel: Kernel) -> None:
    kernel.run("some = cm.put(3)")
    matches = kernel.client.complete("some.", 5, reply=True, timeout=20)["content"]["matches"]
    assert {name.rpartition(".")[2] for name in matches} == {
        "add_done_callback",
        "cancel",
        "cancelled",
        "creator",
        "done",
        "exception",
        "future",
        "hex",
        "remove_done_callback",
        "result",
        "running",
    }
    for mistake, words in [
        ("if some: pass", "neither true nor false"),
        ("some == 3", "compared with a value"),
        ("len(some)", "has no length"),
        ("import json; json.dumps({'n': some})", "json.dumps(..., default=cellmesh.get)"),
        ("import asyncio; asyncio.create_task(some)", "create_task(asyncio.wait_for(ref, None))"),
    ]:
        assert words in error(kernel, mistake)[1], mistake
    assert value(kernel, "json.dumps({'n': some}, default=cm.get)") == '{"n": 3}'
    kernel.run(
        "heard = []\nsome.add_done_callback(heard.append)\nasync with asyncio.TaskGroup() as group:\n"
        "    job = group.create_task(asyncio.wait_for(some, None))\ndone, _ = await asyncio.wait([some, cm.put(1)])"
    )
    assert value(kernel, "(heard == [some], job.result(), len(done))") == (True, 3, 2)


def test_a_cell_that_hides_a_builtin_says_so(kernel: Kernel) -> None:
    assert kernel.text(kernel.run("%%remote --wait\nlist = [1]\nown = 2\nsum = 3")) == (
        "list, sum: Python's own, and in this notebook now a future in its place; del list, sum brings it back.\n"
    )
    assert kernel.text(kernel.run("%%remote --wait\nsum = 4")) == "", "it is a variable of the notebook by now"
    kernel.run("del list, sum")
    assert value(kernel, "sum(list(range(3)))") == 3


def test_a_task_that_is_run_again_is_told_under_the_cell_that_submitted_it(kernel: Kernel, tmp_path: Path) -> None:
    submitted = kernel.run(f"""
@cm.remote
def crashes_once(path={str(tmp_path / "there")!r}):
    if not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), 9)
    return 1
once = crashes_once.remote()""")
    got = kernel.run("cm.get(once)")
    assert kernel.until_text(submitted, lambda text: "again" in text, "stderr") == (
        "cellmesh: 'crashes_once' is run again, after its worker was killed by SIGKILL (attempt 2 of 4)\n"
    )
    assert kernel.text(got, "stderr") == ""


def test_who_holds_memory_is_told_as_text_and_no_traceback_is_made_up(kernel: Kernel) -> None:
    kernel.run(
        "@cm.remote\ndef wrong(): raise KeyError('k')\nheld = [cm.put(bytes(1_000_000)), wrong.remote()]\nmark = "
        "held[0].hex()"
    )
    error(kernel, "%fetch held")
    shown = result(kernel, kernel.run("cm.state.memory()"))
    assert "\\n" not in shown and shown.startswith("object store: ") and len(shown.splitlines()) > 2
    assert "held" in shown and "traceback" not in shown, shown
    kernel.run("del held\n_ = __ = ___ = None\nOut.clear()")
    assert value(kernel, "mark in cm.state.memory()") is False, "a failed %fetch holds nothing"


def test_workers_begin_with_what_a_cell_has_imported_and_with_nothing_of_the_kernels(
    fresh_kernel: Kernel, tmp_path: Path
) -> None:
    kernel = fresh_kernel  # in that of other tests is what they import
    kernel.run("%load_ext cellmesh\nimport cellmesh as cm\ncm.init(num_cpus=1)", START_TIMEOUT_S)
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "warm_in_a_cell.py").touch()
    kernel.run(f"import sys\nsys.path.append({str(site)!r})\nimport warm_in_a_cell")
    kernel.run(
        "from cellmesh.session.current import current\nfrom cellmesh.session.scheduler_client import ask\n"
        "from cellmesh.scheduler.ipc.messages import PackagesReply, PackagesRequest\n"
        "def became():\n"
        "    packages = ask(current().node.link, PackagesRequest, PackagesReply, 5).packages\n"
        "    return {package.name: package.state for package in packages}"
    )
    wait_until(lambda: value(kernel, "became()") == {"warm_in_a_cell": "warm"}, what="a package is warm, and no other")
    kernel.run("@cm.remote(num_cpus=0)\nclass Born:\n    def has(self): return 'warm_in_a_cell' in sys.modules")
    assert value(kernel, "cm.get(Born.remote().has.remote())")
