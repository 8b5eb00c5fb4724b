"""Metrics: counted in any process, added up in the session, shown in the ways that are offered."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
from cellmesh.scheduler.ipc.messages import MAX_SERIES, Series
from cellmesh.scheduler.local_scheduler.metric_sums import Sums
from support.waiting import wait_until

import cellmesh
from cellmesh.observe.metrics import prometheus
from cellmesh.util.metrics import Counter, Gauge, Histogram

pytestmark = pytest.mark.timeout(60)

SIZES = Histogram("sizes", boundaries=[1, 10])


def values(**wanted: Any) -> dict[tuple[str, ...], float]:
    """name and values of the tags -> value."""
    return {(row["name"], *row["tags"].values()): row["value"] for row in cellmesh.state.metrics()}


def test_counts_of_tasks_actors_and_the_driver_add_up(cm: ModuleType) -> None:
    calls = Counter("calls", "How often", tag_keys=("who",))

    @cm.remote
    def task(n):
        calls.inc(n, tags={"who": "task"})

    @cm.remote
    class Actor:
        def __init__(self):
            self.level = Gauge("level").set_default_tags({})

        def call(self, n):
            calls.inc(tags={"who": "actor"})
            self.level.set(n)

    actor = Actor.remote()
    cm.get([task.remote(n) for n in (1, 2.5)] + [actor.call.remote(n) for n in range(3)])
    calls.set_default_tags({"who": "driver"}).inc()
    assert values()["calls", "driver"] == 1, "what the caller has counted is there at once"
    wait_until(
        lambda: values() == {("calls", "task"): 3.5, ("calls", "actor"): 3, ("calls", "driver"): 1, ("level",): 2}
    )
    row = cm.state.metrics()[0]
    assert (row["name"], row["kind"], row["description"]) == ("calls", "counter", "How often")


def test_histograms(cm: ModuleType) -> None:
    @cm.remote
    def observe(numbers):
        for number in numbers:
            SIZES.observe(number)

    cm.get([observe.remote([0.5, 1, 5]), observe.remote([100])])
    wait_until(lambda: [row["count"] for row in cm.state.metrics()] == [4])
    (row,) = cm.state.metrics()
    assert row["value"] == 106.5 and row["buckets"] == {1: 2, 10: 1, math.inf: 1}


def test_what_a_worker_counted_outlives_it(cm: ModuleType) -> None:
    deaths = Counter("deaths")

    @cm.remote(max_calls=1)
    def leave():
        deaths.inc()

    @cm.remote(max_retries=0)
    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    cm.get([leave.remote() for _ in range(3)])
    with pytest.raises(cm.exceptions.WorkerCrashedError):
        cm.get(die.remote())
    wait_until(lambda: values() == {("deaths",): 3})


def test_a_new_session_begins_at_nothing(cm: ModuleType) -> None:
    hits = Counter("hits")
    hits.inc()
    assert values() == {("hits",): 1}
    cm.shutdown()
    cm.init(num_cpus=1)
    assert cm.state.metrics() == []
    hits.inc(2)
    assert values() == {("hits",): 2}


def test_the_command_line(cm: ModuleType) -> None:
    Counter("requests", 'a "word"', tag_keys=("route",)).inc(3, tags={"route": 'a"b'})
    SIZES.observe(3)
    values()  # sent
    session = cm.get_runtime_context().get_job_id()

    def run(*more: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "cellmesh.cli", "metrics", "--session", session, *more],
            check=True,
            capture_output=True,
            text=True,
            timeout=50,
        ).stdout

    assert run() == (
        f'# HELP requests a \\"word\\"\n# TYPE requests counter\nrequests{{session="{session}",route="a\\"b"}} 3\n'
        f'# TYPE sizes histogram\nsizes_bucket{{session="{session}",le="1"}} 0\n'
        f'sizes_bucket{{session="{session}",le="10"}} 1\nsizes_bucket{{session="{session}",le="+Inf"}} 1\n'
        f'sizes_sum{{session="{session}"}} 3\nsizes_count{{session="{session}"}} 1\n'
    )
    assert json.loads(run("--json"))[0]["metrics"][0]["value"] == 3


def test_text_without_labels() -> None:
    assert (
        prometheus([{"name": "a", "kind": "gauge", "tags": {}, "value": 0.5, "description": ""}])
        == "# TYPE a gauge\na 0.5\n"
    )


def test_tasks_do_not_read_them(cm: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="metrics are read by drivers"):
        cm.get(cm.remote(cellmesh.state.metrics).remote())


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: Counter("a b"), r"Counter\(name='a b'\): must be a name of letters"),
        (lambda: Counter("a", tag_keys=("k" * 257,)), "at most 16 names .* at most 256 characters"),
        (lambda: Counter("a", tag_keys=tuple(f"k{i}" for i in range(17))), "at most 16 names"),
        (lambda: Counter("a", tag_keys=("b",)).inc(tags={"b": "\udcff"}), "tag 'b'"),
        (lambda: Histogram("a", boundaries=list(range(129))), "must be numbers that grow, at most 128"),
        (lambda: Counter("a").inc(0), "0 of metric 'a': must be a number > 0"),
        (lambda: Gauge("a").set(math.nan), "nan of metric 'a': must be a finite number"),
        (lambda: Histogram("a"), r"Histogram\(boundaries=None\): must be numbers that grow"),
        (lambda: Histogram("a", boundaries=[2, 1]), "must be numbers that grow"),
        (
            lambda: Counter("a").inc(tags={"b": "c"}),
            "tag 'b': 'c' of metric 'a': tags are strings .* with the keys none",
        ),
        (lambda: Counter("a", tag_keys=("b",)).inc(), "needs a value for the tag 'b'"),
    ],
)
def test_bad_input(make, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: Gauge(3), "name=3"),
        (lambda: Counter("a", tag_keys="tag"), "tag_keys='tag'"),
        (lambda: Counter("a").inc("1"), "'1' of metric 'a': must be a number > 0"),
        (lambda: Counter("a", tag_keys=("b",)).inc(tags={"b": 1}), "tag 'b': 1"),
    ],
)
def test_a_value_of_a_wrong_type(make, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        make()


def test_many_long_tags_are_too_much_for_a_process_and_harm_no_session(cm: ModuleType) -> None:
    sizes = Histogram("sizes", "d" * 300 + "\udcff", boundaries=list(range(1, 129)), tag_keys=tuple("abcdefgh"))
    with pytest.raises(ValueError, match="7 MiB"):
        for i in range(MAX_SERIES):
            sizes.observe(1.5, tags={key: f"{i:05}" + "\U0010ffff" * 200 for key in "abcdefgh"})
    n_shown = wait_until(lambda: len(cm.state.metrics()))
    assert 0 < n_shown < MAX_SERIES and cm.get(cm.remote(lambda: 7).remote()) == 7


def test_sums_are_bounded_and_begin_anew_with_other_boundaries() -> None:
    sums = Sums()
    assert sums.add(Series(f"n{i}", "counter", "", {}, 1.0) for i in range(MAX_SERIES + 2)) == 2
    assert len(sums.all()) == MAX_SERIES
    sums = Sums()
    sums.add(
        [
            Series("h", "histogram", "", {}, 1.0, [1.0], [1, 0]),
            Series("h", "histogram", "", {}, 5.0, [1.0, 2.0], [0, 0, 1]),
        ]
    )
    assert [(s.value, s.counts) for s in sums.all()] == [(5.0, [0, 0, 1])]
