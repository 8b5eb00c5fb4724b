"""joblib and Dask on the session's workers, and serializers of the user's own."""

from __future__ import annotations

import multiprocessing
import operator
import os
import threading
import warnings
from types import ModuleType

import dask
import dask.array
import dask.bag
import joblib
import numpy as np
import pytest
from joblib import Parallel, delayed

import cellmesh
from cellmesh.util import dask_get, deregister_serializer, register_joblib, register_serializer

pytestmark = [pytest.mark.timeout(90), pytest.mark.session("shared")]


# ---------------------------------------------------------------- joblib
@pytest.fixture
def on_cellmesh(cm: ModuleType):
    register_joblib()
    with joblib.parallel_config("cellmesh"):
        yield cm


def inner(n):
    return sum(Parallel(n_jobs=2)(delayed(abs)(i) for i in range(n)))


def test_calls_in_batches(on_cellmesh: ModuleType) -> None:
    assert Parallel()(delayed(abs)(-i) for i in range(5000)) == list(range(5000))
    tasks = [row for row in on_cellmesh.state.list_tasks(limit=10_000) if row["name"] == "abs"]
    assert 0 < len(tasks) < 5000


def test_generators(on_cellmesh: ModuleType) -> None:
    assert list(Parallel(return_as="generator")(delayed(abs)(-i) for i in range(20))) == list(range(20))
    assert sorted(Parallel(return_as="generator_unordered")(delayed(abs)(-i) for i in range(20))) == list(range(20))


def test_an_error_and_a_timeout(on_cellmesh: ModuleType, flag) -> None:
    with pytest.raises(ZeroDivisionError):
        Parallel()(delayed(operator.truediv)(1, i) for i in range(10))
    with pytest.raises(multiprocessing.TimeoutError):  # as of joblib's own backends
        Parallel(timeout=0.1)(delayed(flag("never").wait)() for _ in range(2))
    assert Parallel()(delayed(abs)(-i) for i in range(10)) == list(range(10))


def test_a_large_argument_is_stored_once(on_cellmesh: ModuleType) -> None:
    big = np.arange(1_000_000.0)
    before = on_cellmesh.state.list_objects(limit=1 << 20)
    sums = Parallel(batch_size=1)(delayed(lambda x, i: (x[i], x.flags.writeable))(big, i) for i in range(40))
    assert sums == [(float(i), True) for i in range(40)]
    peak = cellmesh.session.current.current().client.stats()["peak_bytes"]
    assert peak < 3 * big.nbytes + sum(row["size"] for row in before)


def test_nested_on_one_cpu(one_cpu: ModuleType) -> None:
    register_joblib()
    with joblib.parallel_config("cellmesh", n_jobs=2):
        assert Parallel()(delayed(inner)(i) for i in range(6)) == [0, 0, 1, 3, 6, 10]


def test_grid_search(on_cellmesh: ModuleType) -> None:
    from sklearn.datasets import load_iris
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    data, target = load_iris(return_X_y=True)
    grid = {"C": [0.1, 1, 10], "gamma": [0.01, 0.1]}
    search = GridSearchCV(SVC(), grid, cv=3, n_jobs=2).fit(data, target)
    with joblib.parallel_config("sequential"):
        alone = GridSearchCV(SVC(), grid, cv=3).fit(data, target)
    assert search.best_params_ == alone.best_params_
    assert any("fit_and_score" in row["name"] for row in on_cellmesh.state.list_tasks())


def test_options_of_the_tasks(cm: ModuleType) -> None:
    register_joblib("pair", num_cpus=2)
    with joblib.parallel_config("pair", n_jobs=2):
        assert Parallel()(delayed(abs)(-i) for i in range(3)) == [0, 1, 2]
    with pytest.raises(ValueError, match="num_cpus"):
        register_joblib("wrong", num_cpu=2)


factor = 1


def set_factor(value):
    global factor
    factor = value


def scaled(x):
    return x * factor


def threads():
    from threadpoolctl import threadpool_info

    return os.environ.get("OMP_NUM_THREADS"), {library["num_threads"] for library in threadpool_info()}


def test_an_initializer(on_cellmesh: ModuleType) -> None:
    with joblib.parallel_config("cellmesh", n_jobs=2, initializer=set_factor, initargs=(10,)):
        assert Parallel()(delayed(scaled)(i) for i in range(50)) == [10 * i for i in range(50)]
    assert Parallel("2", initializer=set_factor, initargs=(3,))(delayed(scaled)(i) for i in range(4)) == [0, 3, 6, 9]
    with pytest.raises(TypeError, match="initializer"):
        Parallel(2, initializer=3)(delayed(abs)(i) for i in range(2))


def test_threads_of_numerical_libraries(on_cellmesh: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    np.dot(np.ones((50, 50)), np.ones((50, 50)))
    for n in (1, 3):
        with joblib.parallel_config("cellmesh", n_jobs=2, inner_max_num_threads=n):
            assert all(seen == (str(n), {n}) for seen in Parallel()(delayed(threads)() for _ in range(4)))
    before = Parallel(n_jobs=2)(delayed(os.environ.get)("OMP_NUM_THREADS") for _ in range(2))
    monkeypatch.setenv("OMP_NUM_THREADS", "7")  # by the user, after the workers were started
    assert Parallel(n_jobs=2)(delayed(os.environ.get)("OMP_NUM_THREADS") for _ in range(2)) == ["7", "7"]
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert Parallel(n_jobs=2)(delayed(os.environ.get)("OMP_NUM_THREADS") for _ in range(2)) == before


def test_in_a_forked_process(on_cellmesh: ModuleType) -> None:
    def run(results):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            results.send(
                (Parallel(n_jobs=2)(delayed(abs)(-i) for i in range(3)), [str(warning.message) for warning in warned])
            )

    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=run, args=(theirs,))
    child.start()
    assert ours.poll(30)
    values, warned = ours.recv()
    child.join()
    assert values == [0, 1, 2] and any("cellmesh-backed parallel loops cannot" in text for text in warned)
    ours.close(), theirs.close(), child.close()


def held(_: int) -> float:
    return cellmesh.get_runtime_context().get_assigned_resources()["CPU"]


def test_options_where_the_backend_is_chosen_and_of_one_run(cm: ModuleType) -> None:
    register_joblib("half", num_cpus=0.5)
    with joblib.parallel_config("half", n_jobs=2, options={"num_cpus": 2, "max_retries": 0}):
        assert Parallel()(delayed(held)(i) for i in range(3)) == [2.0] * 3
        assert Parallel(options={"num_cpus": 1})(delayed(held)(i) for i in range(3)) == [1.0] * 3
        assert Parallel()(delayed(held)(i) for i in range(3)) == [2.0] * 3
    with joblib.parallel_config("half", n_jobs=2):
        assert Parallel()(delayed(held)(i) for i in range(3)) == [0.5] * 3
    with pytest.raises(ValueError, match="num_cpus"):
        joblib.parallel_config("half", options={"num_cpu": 2})


# ---------------------------------------------------------------- Dask
def test_dask_delayed(cm: ModuleType) -> None:
    @dask.delayed
    def increment(x):
        return x + 1

    total = dask.delayed(sum)([increment(increment(i)) for i in range(10)])
    assert total.compute(scheduler=dask_get) == 65
    assert any(row["name"] == "increment" for row in cm.state.list_tasks())


def test_dask_collections(cm: ModuleType) -> None:
    with dask.config.set(scheduler=dask_get):
        assert dask.bag.range(100, npartitions=4).map(lambda x: x * x).sum().compute() == 328350
        array = dask.array.arange(10_000, chunks=1000)
        assert (array + 1).sum().compute() == 50_005_000
        first, second = dask.compute(array[:3], array.max())
        assert list(first) == [0, 1, 2] and second == 9999


def test_dask_callbacks(cm: ModuleType) -> None:
    import io

    from dask.diagnostics import Callback, ProgressBar

    seen = []
    ends = []
    graph = {"a": 1, "b": (operator.add, "a", 1), "c": "b", "bad": (operator.truediv, "a", 0)}
    shown = io.StringIO()
    with Callback(posttask=lambda key, *rest: seen.append(key), finish=lambda graph, state, error: ends.append(error)):
        with ProgressBar(out=shown):
            assert dask_get(graph, "c") == 2
        with pytest.raises(ZeroDivisionError):
            dask_get(graph, "bad")
    assert seen == ["b", "c"] and ends == [False, True] and "100% Completed" in shown.getvalue()


def test_dask_graph_by_hand(cm: ModuleType) -> None:
    graph = {"a": 1, "b": (operator.add, "a", 1), "c": (sum, ["a", "b"]), "d": "c", "unused": (operator.truediv, 1, 0)}
    assert dask_get(graph, [["a", "b"], "d"]) == ((1, 2), 3)
    assert dask_get(graph, "c") == 3
    with pytest.raises(ZeroDivisionError):
        dask_get(graph, "unused")


def test_what_dask_callbacks_are_told(cm: ModuleType) -> None:
    from dask.diagnostics import Callback

    class Remembered(Callback):  # as dask.cache.Cache does
        def __init__(self):
            self.values, self.begun = {}, []

        def _start(self, graph):
            graph.update(self.values)

        def _pretask(self, key, graph, state):
            self.begun.append(key)

        def _posttask(self, key, value, graph, state, worker):
            assert state["dependencies"][key] <= set(graph)
            self.values[key] = value

    remembered = Remembered()
    graph = {"c": (operator.mul, "b", 10), "b": (operator.add, "a", 1), "a": 1}
    with remembered:
        assert dask_get(graph, "c") == 20 and remembered.begun == ["b", "c"]
        assert dask_get({**graph, "b": (operator.truediv, "a", 0)}, "c") == 20
    assert remembered.values == {"b": 2, "c": 20}


def test_values_that_dask_knows(cm: ModuleType) -> None:
    graph = {"b": (operator.add, "a", 1)}
    assert dask_get(graph, "b", cache={"a": 2}) == 3
    assert dask_get(graph, "b", cache={"a": 2, "b": 7}) == 7
    with dask.config.set(cache={"a": 4}):
        assert dask_get(graph, "b") == 5
    with pytest.raises(ValueError, match="Missing dependency 'a' for dependents 'b'"):
        dask_get({"b": dask._task_spec.Task("b", abs, dask._task_spec.TaskRef("a"))}, "b")
    with pytest.raises(KeyError, match="nothing"):
        dask_get(graph, "nothing")


def test_what_dask_computes_may_be_written_to(cm: ModuleType) -> None:
    import pandas as pd

    whole = dask.array.ones(10, chunks=10)
    array, frame = dask.compute(whole, dask.delayed(pd.DataFrame)({"x": np.arange(3.0)}), scheduler=dask_get)
    array[0] = 5
    frame.loc[0, "x"] = 7
    assert array.sum() == 14 and frame["x"][0] == 7


def test_a_dask_graph_with_many_names(cm: ModuleType) -> None:
    n = 500
    graph = {f"x{i + 1}": (operator.add, f"x{i}", 1) for i in range(n)} | {"x0": 0}
    before = cm.state.summarize_tasks()
    assert dask_get(graph, f"x{n}") == n
    assert len(cm.state.summarize_tasks()) - len(before) <= 65


# ---------------------------------------------------------------- serializers
class Locked:
    def __init__(self, n):
        self.n, self.lock = n, threading.Lock()


@cellmesh.remote
def following(locked):
    return Locked(locked.n + 1)


def test_serializers_work_on_both_sides(cm: ModuleType) -> None:
    with pytest.raises(TypeError, match="lock"):
        following.remote(Locked(1))
    register_serializer(Locked, serializer=lambda locked: locked.n, deserializer=Locked)
    try:
        assert cm.get(following.remote(Locked(1))).n == 2
        assert cm.get(cm.put({"a": [Locked(5)]}))["a"][0].n == 5
    finally:
        deregister_serializer(Locked)
    with pytest.raises(TypeError, match="lock"):
        cm.put(Locked(1))
    deregister_serializer(Locked)


def test_wrong_serializers(cm: ModuleType) -> None:
    for cls, function, match in [(3, abs, "needs a class"), (dict, abs, "builtin"), (Locked, 3, "functions")]:
        with pytest.raises(TypeError, match=match):
            register_serializer(cls, serializer=function, deserializer=abs)
