"""What users get wrong, and what breaks: each a clear error, and nothing is lost."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cellmesh.kernel_ext.cells.analysis.read import CellError
from cellmesh.kernel_ext.tune.listing import ExperimentsTable
from cellmesh.kernel_ext.tune.listing import tune as steer
from support.flags import Counter, Flag
from support.waiting import wait_until

from cellmesh import tune

pytestmark = [
    pytest.mark.usefixtures("session"),
    pytest.mark.may_keep("threads", "of the session, which this module shares"),
]
Flags = Callable[[str], Flag]


def three(config: dict[str, Any]) -> None:
    """Reports three times."""
    for i in range(3):
        tune.report(i=i, score=float(i))


# ---- arguments
@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"metrik": "x"}, TypeError, "did you mean metric="),
        ({"mode": "maximum", "metric": "i"}, ValueError, "'min' or 'max'"),
        ({"num_samples": 0}, ValueError, "above 0, or -1"),
        ({"max_concurrent": 0}, ValueError, "1 or more"),
        ({"scheduler": "asha"}, ValueError, "name a metric"),
        ({"scheduler": "ascha", "metric": "i"}, ValueError, "asha"),
        ({"search_alg": "tpee", "metric": "i"}, ValueError, "Did you mean 'tpe'"),
        ({"stop": 3}, TypeError, "stop=3"),
        ({"stop": {"i": "much"}}, TypeError, "a bound is a number"),
        ({"callbacks": [print]}, TypeError, r"callbacks=\[<built-in function print>\]: a callback is a tune.Callback"),
        ({"callbacks": [tune.Callback]}, TypeError, "an object of it, not the class"),
        ({"callbacks": tune.Callback()}, TypeError, "a list of them"),
        ({"name": "a/b"}, ValueError, "letters, digits"),
        ({"resources": {"cpu": -1}}, ValueError, "not negative"),
        ({"resources": {"cpu": 1000}}, tune.TuneError, "no machine has"),
        ({"resources": {"unobtainium": 1}}, tune.TuneError, "no machine has"),
        ({"time_budget_s": -1}, ValueError, "time_budget_s=-1"),
        ({"max_failures": -2}, ValueError, "max_failures=-2"),
        ({"num_to_keep": 0}, ValueError, "num_to_keep=0"),
        ({"checkpoint_frequency": -1}, ValueError, "checkpoint_frequency=-1"),
        ({"checkpoint_score_order": "low"}, ValueError, "checkpoint_score_order='low'"),
    ],
)
def test_an_argument(options: dict[str, Any], error: type[Exception], text: str, storage: Path) -> None:
    with pytest.raises(error, match=text):
        tune.Tuner(three, **options).start()
    assert not storage.exists() or not list(storage.iterdir()), "nothing was begun"


@pytest.mark.parametrize("space", [["x"], "x", {"x"}, 3])
def test_a_space_that_is_no_dict(space: Any) -> None:
    with pytest.raises(tune.SpaceError, match=r"a search space is a dict of parameters, not (list|str|set|int)"):
        tune.Tuner(three, space)


@pytest.mark.parametrize("call", [lambda s: s.stop("00000"), lambda s: s.pause(0.5), lambda s: s.resume(trial=[0])])
def test_a_trial_that_is_no_number(call: Callable[[tune.Experiment], None]) -> None:
    with pytest.raises(TypeError, match=r"\(trial=.*\): a trial is told by its number, 0 to 0"):
        call(tune.Tuner(three).fit())


def test_a_place_where_nothing_can_be_written(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.touch()
    for name in (None, "mine"):
        with pytest.raises(OSError, match=rf"folder cannot be made in {place}: .*\. Another place is .*storage_path="):
            tune.Tuner(three, storage_path=str(place), name=name).start()


@pytest.mark.parametrize("trainable", [lambda: {"x": 1}, lambda config, reporter: None, lambda *, config: None])
def test_a_function_that_is_none_of_a_configuration(trainable: Any) -> None:
    with pytest.raises(TypeError, match=r"<lambda> is no trainable: it is called with the configuration"):
        tune.Tuner(trainable, {"x": 1})


def test_an_option_of_a_scheduler() -> None:
    with pytest.raises(TypeError, match="max_t"):
        tune.ASHA(maxt=9)


def test_a_trainable_that_cannot_be_sent_is_named_by_its_path() -> None:
    lock = threading.Lock()

    def inner() -> Any:
        return lock

    def train(config: dict[str, Any]) -> None:
        inner()

    with pytest.raises(TypeError, match=r"train(.|\n)*inner(.|\n)*lock"):
        tune.Tuner(train).start()
    assert tune.experiments() == []


def test_a_callback_and_a_stopper_that_cannot_be_sent(storage: Path) -> None:
    lock = threading.Lock()

    class Mine(tune.Callback):
        held = lock

    with pytest.raises(TypeError, match="callbacks"):
        tune.Tuner(three, callbacks=[Mine()]).start()
    with pytest.raises(TypeError, match="stop"):
        tune.Tuner(three, stop=lambda trial, result: lock.locked()).start()
    assert tune.experiments() == []


def test_a_function_in_the_space_that_fails() -> None:
    space = {"a": 1, "b": tune.sample_from(lambda config: 1 // (config["a"] - 1))}
    with pytest.raises(tune.TuneError, match=rf"b.*ZeroDivisionError.*{re.escape(__file__)}"):
        tune.Tuner(three, space).fit()
    assert tune.attach("three-1").is_over


def test_a_population_without_end() -> None:
    with pytest.raises(ValueError, match="PBT is for a population, so give its size"):
        tune.Tuner(three, metric="x", scheduler=tune.PBT(hyperparam_mutations={"x": [1, 2]}), num_samples=-1).start()


# ---- reports
def test_report_outside_a_trial() -> None:
    with pytest.raises(RuntimeError, match="this is not a trial"):
        tune.report(x=1)


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ({"a": np.zeros(100_000)}, "100,000 elements"),
        ({"a": object()}, "'a' is object"),
        ({"a": {"b": [object()]}}, "'a/b' is list"),
        ({3: 1}, "names of metrics are texts"),
    ],
)
def test_a_metric_that_is_none(metrics: Any, text: str) -> None:
    def train(config: dict[str, Any]) -> None:
        tune.report(metrics)

    assert text in tune.Tuner(train).fit()[0].error


def test_a_checkpoint_that_is_not_there(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        tune.report(x=1, checkpoint=config["checkpoint"])

    missing = [str(tmp_path / "no"), tmp_path / "no", tune.Checkpoint(tmp_path / "no")]
    found = tune.Tuner(train, {"checkpoint": tune.grid_search(missing)}).fit()
    assert found.num_errors == 3
    assert all("no such folder" in error or "there is none" in error for error in found.errors)


def test_a_checkpoint_in_which_the_experiment_lies(storage: Path) -> None:
    found = tune.Tuner(lambda config: tune.report(x=1, checkpoint=config["folder"]), {"folder": storage.parent}).fit()
    assert re.search(
        rf"ValueError: .*{re.escape(str(storage.parent))}.*the experiment itself lies in it", found[0].error
    )


def test_a_metric_that_is_never_reported() -> None:
    found = tune.Tuner(three, metric="scor", num_samples=2).fit()
    told = [text for text in found.refresh().told if "scor" in text]
    assert len(told) == 1 and "did you mean 'score'?" in told[0] and found.num_terminated == 2
    with pytest.raises(tune.TuneError, match="no trial has a finite 'scor'; reported were"):
        _ = found.best
    with pytest.raises(tune.TuneError, match=r"decides by the metric, and trial .*never reported 'scor'.*'score'\?$"):
        tune.Tuner(three, metric="scor", scheduler="asha", num_samples=20).fit()


def test_a_metric_that_is_no_number() -> None:
    (told,) = tune.Tuner(lambda config: tune.report(score="good"), metric="score").fit().refresh().told
    assert told == "trial 0 has reported 'score', the metric, and it is no number: 'good'"


def test_a_space_that_cannot_be_sent_names_the_way_to_it() -> None:
    with pytest.raises(
        TypeError, match=r"sent to its controller: space cannot be pickled.*\n.*space\['deep'\]\['x'\] is a"
    ):
        tune.Tuner(three, {"deep": {"x": threading.Lock()}}).fit()


def test_a_trial_that_reports_nothing() -> None:
    found = tune.Tuner(lambda config: None, metric="score", num_samples=3).fit()
    assert found.num_terminated == 3
    (told,) = found.refresh().told
    assert re.fullmatch(r"trial \d has never reported 'score', the metric; it reported nothing", told)
    with pytest.raises(tune.TuneError, match=r"decides by the metric, and trial .*reported nothing$"):
        tune.Tuner(lambda config: None, metric="score", scheduler="asha", num_samples=3).fit()
    assert not tune.Tuner(lambda config: None, num_samples=3).fit().refresh().told, "nothing was to be reported"
    failed = tune.Tuner(lambda config: 1 // 0, metric="score").fit()
    assert failed.num_errors == 1 and not failed.refresh().told, "its error says enough"


def test_a_bound_of_a_metric_that_is_never_reported() -> None:
    """A typing error in `stop=` would have trials go on for ever, and nobody would know why."""

    def train(config: dict[str, Any]) -> None:
        while not any("stop=" in text for text in tune.attach("mine").refresh().told):
            tune.report(score=1.0)
        tune.report(score=9.0)

    bounds = {"scor": 9, "training_iteration": 100_000}
    found = tune.Tuner(train, stop=[bounds, lambda trial, result: False], name="mine", num_samples=3).fit()
    told = [text for text in found.refresh().told if "stop=" in text]
    assert len(told) == 1 and re.fullmatch(
        r"trial \d has reported no 'scor', for which stop= has a bound; it reported score: did you mean 'score'\?",
        told[0],
    )
    late = tune.Tuner(three, stop={"lats": 3}).fit().refresh().told
    assert len(late) == 1 and "no 'lats'" in late[0]
    assert not tune.Tuner(three, stop={"score": 9}).fit().refresh().told


@pytest.mark.parametrize("scheduler", ["asha", "hyperband", "median", "pbt"])
def test_nan_is_the_worst_of_all(scheduler: str) -> None:
    def train(config: dict[str, Any]) -> None:
        for i in range(4):
            tune.report(score=math.nan if config["x"] == 1 else float(i), checkpoint=i)

    policy: Any = scheduler
    if scheduler == "pbt":
        policy = tune.PBT(perturbation_interval=2, hyperparam_mutations={"y": [0, 1]})
    space = {"x": tune.grid_search([0, 1, 2]), "y": 0}
    found = tune.Tuner(train, space, metric="score", scheduler=policy).fit()
    assert found.num_errors == 0 and found.best.config["x"] != 1
    assert math.isnan(found[1].metrics["score"])


def test_nan_and_optuna() -> None:
    def train(config: dict[str, Any]) -> dict[str, Any]:
        return {"score": math.nan if config["x"] < 0.5 else config["x"]}

    pytest.importorskip("optuna")
    found = tune.Tuner(train, {"x": tune.uniform(0, 1)}, metric="score", search_alg="tpe", num_samples=20, seed=1).fit()
    assert found.num_terminated == 20 and found.best.metrics["score"] >= 0.5


def test_report_in_a_thread() -> None:
    def train(config: dict[str, Any]) -> None:
        thread = threading.Thread(target=lambda: tune.report(x=1))
        thread.start()
        thread.join()

    assert tune.Tuner(train).fit()[0].metrics["x"] == 1


def test_a_thread_that_was_left_behind_does_not_report_for_the_next_trial(flag: Flags) -> None:
    def late(first: str) -> None:
        flag("second").wait()
        try:
            tune.report(x=first)
        except RuntimeError as error:
            flag("said").set(str(error))
        else:
            flag("said").set("nothing")

    def train(config: dict[str, Any]) -> None:
        if config["i"] == 0:
            threading.Thread(target=late, args=("first",), daemon=True).start()
        else:
            flag("second").set()
            flag("said").wait()
        tune.report(x="own")

    found = tune.Tuner(train, {"i": tune.grid_search([0, 1])}, max_concurrent=1).fit()
    assert [result.metrics["x"] for result in found] == ["own", "own"]
    assert "thread" in flag("said").wait() or found[0]._trial.pid != found[1]._trial.pid


# ---- trials that do not go as they should
def test_a_trial_that_does_not_let_stop_pass() -> None:
    def train(config: dict[str, Any]) -> None:
        i = 0
        while True:
            i += 1
            try:
                tune.report(i=i)
            except BaseException:
                pass

    found = tune.Tuner(train, num_samples=2, stop={"i": 3}).fit()
    assert [result.metrics["i"] for result in found] == [3, 3]
    assert any("goes on reporting" in text for text in found.refresh().told)


def test_a_trial_that_does_not_end_when_it_is_stopped(flag: Flags, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(config: dict[str, Any]) -> None:
        tune.report(i=0)
        while True:
            try:
                flag("started").set()
                flag("never").wait(1000)
            except BaseException:
                pass

    search = tune.Tuner(train).start()
    flag("started").wait()
    search.stop()
    wait_until(lambda: search[0].state == "TERMINATED")
    search.stop()  # once more: by force
    search.wait(timeout=60)


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (lambda: os._exit(3), "WorkerCrashedError"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "WorkerCrashedError"),
        (lambda: sys.exit(5), "exit"),
    ],
    ids=["os._exit", "SIGKILL", "sys.exit"],
)
def test_a_trial_whose_process_ends(end: Callable[[], None], text: str, counter: Counter) -> None:
    def train(config: dict[str, Any]) -> dict[str, Any]:
        start = tune.get_checkpoint()
        if start is None:
            tune.report(i=1, checkpoint={"i": 1})
        if counter.add() == 1:
            end()
        return {"i": 2}

    found = tune.Tuner(train, max_failures=1).fit()
    assert found[0].state == "TERMINATED" and found[0].curve("i") == ([1, 2], [1, 2])
    lost = tune.Tuner(lambda config: end()).fit()
    assert lost[0].state == "ERROR" and text in lost[0].error


def test_a_trial_that_forks() -> None:
    def child(queue: Any) -> None:
        queue.put(os.getpid())

    def train(config: dict[str, Any]) -> dict[str, Any]:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        other = queue.get(timeout=30)
        process.join()
        return {"is_other": other != os.getpid()}

    assert tune.Tuner(train).fit()[0].metrics["is_other"] is True


# ---- users' code in the controller
def test_a_stop_function_that_fails() -> None:
    with pytest.raises(tune.TuneError, match=r"KeyError: 'no'.*test_bad_input.py"):
        tune.Tuner(three, stop=lambda trial, result: result["no"] > 1, num_samples=5).fit()
    found = tune.attach("three-1")
    assert found.is_over and any(result.metrics.get("i") == 0 for result in found)
    again = tune.resume("three-1", stop=None).wait()
    assert [result.metrics["i"] for result in again] == [2] * 5


def test_a_scheduler_that_fails() -> None:
    class Mine(tune.Scheduler):
        def on_trial_result(self, trial: int, result: Any) -> Any:
            raise ZeroDivisionError("by zero")

    with pytest.raises(tune.TuneError, match=r"Mine.on_trial_result failed: ZeroDivisionError: by zero"):
        tune.Tuner(three, scheduler=Mine(), metric="i", num_samples=5).fit()
    again = tune.resume("three-1", scheduler="fifo").wait()
    assert [result.metrics["i"] for result in again] == [2] * 5


def test_a_searcher_that_fails() -> None:
    class Mine:
        def suggest(self, trial_id: str) -> Any:
            if trial_id == "00002":
                raise ZeroDivisionError("by zero")
            return {"x": 1}

        def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
            pass

    with pytest.raises(tune.TuneError, match=r"ZeroDivisionError: by zero"):
        tune.Tuner(three, search_alg=Mine(), metric="i", num_samples=5).fit()
    assert len(tune.attach("three-1")) == 2


# ---- the disk
def test_a_full_disk_while_the_experiment_runs(flag: Flags) -> None:
    """As the controller sees it: a file that cannot grow."""

    class Full(tune.Callback):
        def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
            import resource

            size = os.stat(Path(info.get("path", trial.path)) / "journal.jsonl").st_size
            if result["i"] == 1:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            elif result["i"] == 3:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def train(config: dict[str, Any]) -> None:
        for i in range(5):
            tune.report(i=i)

    found = tune.Tuner(train, callbacks=[Full()]).fit()
    assert found[0].curve("i")[1] == [0, 1, 2, 3, 4], "what was kept in memory is written once there is room"
    assert any("cannot be written" in text and "[Errno 27]" in text for text in found.refresh().told)


@pytest.mark.parametrize("kind", ["value", "folder"])
def test_a_full_disk_for_a_checkpoint(kind: str, tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        import resource

        tune.report(i=0, checkpoint={"i": 0})
        model = tmp_path / "model"
        model.mkdir()
        (model / "weights").write_bytes(bytes(1 << 20))
        saved = bytes(1 << 20) if config["kind"] == "value" else model
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
        try:
            tune.report(i=1, checkpoint=saved)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    found = tune.Tuner(train, {"kind": kind}, name="full").fit()
    places = re.escape(f"{found.path}/checkpoints/00000-000002-1")
    assert re.search(rf"^OSError: .*the checkpoint cannot be written to {places}\S*: .*File too large", found[0].error)
    assert "storage_path=" in found[0].error and "in train: tune.report(i=1, checkpoint=saved)" in found[0].error
    assert found[0].checkpoint.value == {"i": 0}, "the one before is there"
    assert [path.name for path in Path(found.path, "checkpoints").iterdir()] == ["00000-000001-1.pkl"]


def test_a_full_disk_to_the_end() -> None:
    class Full(tune.Callback):
        def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
            import resource

            size = os.stat(Path(trial.path) / "journal.jsonl").st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    with pytest.raises(tune.TuneError, match=r"\d+ records could not be written to .*journal.jsonl: .*too large"):
        tune.Tuner(three, callbacks=[Full()], name="full").fit()
    found = tune.resume("full").wait()
    assert found[0].metrics["i"] == 2


# ---- journals
def cut(path: Path) -> None:
    """In the middle of its last line."""
    text = path.read_bytes()
    path.write_bytes(text[: len(text) - 9])


def finished(name: str = "mine") -> Path:
    """An experiment that is over; the path of its journal."""
    return Path(
        tune.Tuner(three, {"x": tune.uniform(0, 1)}, num_samples=2, seed=1, name=name).fit().path, "journal.jsonl"
    )


def test_a_journal_that_was_cut_off() -> None:
    path = finished()
    cut(path)
    found = tune.attach("mine")
    assert not found.is_over and [result.metrics["i"] for result in found] == [2, 2]
    with pytest.raises(tune.TuneError, match=r"nobody runs the experiment 'mine'.*tune.resume\('mine'\)"):
        found.wait()
    assert tune.resume("mine").wait().is_over
    assert path.read_bytes().endswith(b"\n") and all(json.loads(line) for line in path.read_text().splitlines())


def test_a_journal_that_is_damaged_in_the_middle() -> None:
    path = finished()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], b"\xff{\x00\n", *lines[5:]]))
    for look in (lambda: len(tune.attach("mine")), lambda: tune.resume("mine")):
        with pytest.raises(tune.JournalError, match=r"line 5 of .*journal.jsonl.*head -n 4"):
            look()
    found = tune.attach("mine")
    for _ in range(2):
        with pytest.raises(tune.JournalError, match="line 5"):
            found.refresh()
    tune.Tuner(three, name="other").fit()
    listed = repr(ExperimentsTable()).splitlines()
    assert [line.split()[0] for line in listed] == ["name", "other", "mine"] and "line 5 of" in listed[2]
    with pytest.raises(CellError, match="line 5 of"):
        steer(["resume", "mine"], {})
    path.write_bytes(b"".join(lines[:4]))
    assert tune.resume("mine").wait()[1].metrics["i"] == 2
    assert [one["name"] for one in tune.experiments()] == ["other", "mine"]


def test_a_journal_that_is_empty(storage: Path) -> None:
    (storage / "mine").mkdir(parents=True)
    (storage / "mine" / "journal.jsonl").touch()
    with pytest.raises(tune.ExperimentNotFoundError):
        tune.attach("mine")
    finished()
    assert tune.attach("mine").is_over


def test_a_journal_of_a_newer_version() -> None:
    path = finished()
    lines = path.read_text().splitlines(keepends=True)
    header = json.loads(lines[0]) | {"version": 99, "cellmesh": "9.9"}
    path.write_text("".join([json.dumps(header) + "\n", *lines[1:]]))
    before = path.read_bytes()
    for touch in (
        lambda: tune.attach("mine"),
        lambda: tune.resume("mine"),
        lambda: tune.Tuner(three, name="mine").start(),
        lambda: tune.Tuner(three, name="mine", if_exists="replace").start(),
    ):
        with pytest.raises(tune.JournalError, match=r"newer cellmesh \(9.9\).*reads up to 1"):
            touch()
    assert path.read_bytes() == before
    assert tune.experiments() == []


@pytest.mark.parametrize("content", [b"", b"a foreign file\n", b"without a line end", b"\x00\x01\x02" * 100])
def test_a_foreign_file_is_left_alone(storage: Path, content: bytes) -> None:
    (storage / "mine").mkdir(parents=True)
    path = storage / "mine" / "journal.jsonl"
    path.write_bytes(content or b"{}\n")
    before = path.read_bytes()
    for touch in (
        lambda: tune.attach("mine"),
        lambda: tune.resume("mine"),
        lambda: tune.delete("mine"),
        lambda: tune.Tuner(three, name="mine", if_exists="replace").start(),
    ):
        with pytest.raises(tune.JournalError, match="does not begin as the journal of an experiment"):
            touch()
    assert path.read_bytes() == before and tune.experiments() == []


def test_without_its_code_a_resume_says_what_it_needs() -> None:
    path = finished()
    (path.parent / "code.pkl").unlink()
    with pytest.raises(tune.TuneError, match=r"give the trainable again, tune.resume\('mine', trainable\)"):
        tune.resume("mine")
    assert tune.resume("mine", three).wait().is_over
    assert (path.parent / "code.pkl").exists(), "it is stored again"
    with pytest.raises(TypeError, match="3 is no trainable"):
        tune.resume("mine", 3)
