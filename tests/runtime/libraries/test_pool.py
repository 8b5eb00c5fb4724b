"""`cellmesh.util.multiprocessing.Pool` behaves as multiprocessing's."""

from __future__ import annotations

import itertools
import os
import pickle
import threading
from types import ModuleType

import pytest
from support.waiting import wait_until

import cellmesh
from cellmesh.util.multiprocessing import Pool, TimeoutError

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]
factor = None


def square(x):
    return x * x


def set_factor(value):
    global factor
    factor = value


def scaled(x):
    return x * factor


def shifted(x):
    return x + factor


def pid(_=None):
    return os.getpid()


def test_every_way_to_call(cm: ModuleType) -> None:
    with Pool(2) as pool:
        assert pool.apply(pow, (2, 3)) == 8
        assert pool.apply(int, ("ff",), {"base": 16}) == 255
        assert pool.apply_async(square, (3,)).get(30) == 9
        assert pool.map(square, range(100)) == [x * x for x in range(100)]
        assert pool.map(lambda x: -x, iter([1, 2]), chunksize=1) == [-1, -2]
        assert pool.map(square, []) == []
        assert pool.map_async(square, [1, 2]).get(30) == [1, 4]
        assert pool.starmap(pow, [(2, 3), (3, 2)]) == [8, 9]
        assert pool.starmap_async(pow, [(2, 3)]).get(30) == [8]
        assert list(pool.imap(square, range(50), chunksize=7)) == [x * x for x in range(50)]
        assert sorted(pool.imap_unordered(square, range(50))) == [x * x for x in range(50)]


def test_processes_are_the_given_number_and_not_this_one(cm: ModuleType, flag) -> None:
    def meet(i):
        flag(f"here{i}").set()
        flag(f"here{1 - i}").wait()
        return os.getpid()

    with Pool(2) as pool:
        pids = set(pool.map(meet, range(2), chunksize=1))
        assert len(pids) == 2 and os.getpid() not in pids
        assert set(pool.map(pid, range(20), chunksize=1)) <= pids


def test_initializer_sets_globals_for_every_function_of_its_module(cm: ModuleType) -> None:
    with Pool(2, set_factor, (10,)) as pool:
        assert pool.map(scaled, range(6)) == [0, 10, 20, 30, 40, 50]
        assert pool.map(shifted, range(3), chunksize=1) == [10, 11, 12]
    assert factor is None


def test_initializer_that_raises(cm: ModuleType) -> None:
    def broken():
        raise OSError("no licence")

    for n in (1, 3):
        with pytest.raises(cm.exceptions.ActorDiedError, match="no licence"):
            Pool(n, broken)
    wait_until(lambda: not [row for row in cm.state.list_actors() if row["state"] != "dead"])


def test_the_initializer_has_run_everywhere_when_the_pool_is_there(cm: ModuleType, counter) -> None:
    with Pool(4, counter.add) as pool:  # on two CPUs
        assert counter.value == 4
        assert len(pool.map(pid, range(4), chunksize=1)) == 4


def test_four_processes_on_two_cpus(cm: ModuleType, flag) -> None:
    def meet(i):
        flag(f"here{i}").set()
        for other in range(4):
            flag(f"here{other}").wait()
        return os.getpid()

    with Pool(4) as pool:
        assert len(set(pool.map(meet, range(4), chunksize=1))) == 4


def counted(n, wrong):
    for i in range(n):
        if i == wrong:
            raise LookupError("in the input")
        yield i


@pytest.mark.parametrize("chunksize", [1, 2, 4])
def test_an_input_that_raises_is_what_the_reader_comes_to(cm: ModuleType, chunksize: int) -> None:
    with Pool(2) as pool:
        results = pool.imap(square, counted(20, 7), chunksize)
        assert [next(results) for _ in range(7 // chunksize * chunksize)] == [
            x * x for x in range(7 // chunksize * chunksize)
        ]
        with pytest.raises(LookupError, match="in the input"):
            next(results)
        assert next(results, None) is None
        results = pool.imap_unordered(square, counted(1, 0))
        with pytest.raises(LookupError):
            next(results)
        with pytest.raises(LookupError):
            pool.map(square, counted(3, 1))


def test_imap_runs_a_few_chunks_ahead_of_its_reader(cm: ModuleType) -> None:
    read = []

    def numbers():
        for i in itertools.count():
            read.append(i)
            yield i

    with Pool(2) as pool:
        results = pool.imap(square, numbers())
        assert [next(results) for _ in range(5)] == [0, 1, 4, 9, 16] and len(read) < 80


def test_imap_keeps_processes_busy_while_its_reader_waits_for_a_slow_one(cm: ModuleType, flag) -> None:
    def slow_at_first(i):
        if i == 30:
            flag("later").set()
        if i == 0:
            flag("later").wait()
        return i

    with Pool(2) as pool:
        assert list(pool.imap(slow_at_first, iter(range(40)))) == list(range(40))


def test_the_last_calls_of_a_map_are_shared(cm: ModuleType, flag) -> None:
    def last_ones(i):
        if i == 39:
            flag("last").set()
        if i == 38:
            flag("last").wait()
        return i

    with Pool(2) as pool:
        assert pool.map(last_ones, range(40)) == list(range(40))


def test_maxtasksperchild(cm: ModuleType) -> None:
    with Pool(1, maxtasksperchild=2) as pool:
        pids = pool.map(pid, range(6), chunksize=1)
    assert [len(list(group)) for _, group in itertools.groupby(pids)] == [2, 2, 2]


def test_errors_are_of_the_users_class(cm: ModuleType) -> None:
    with Pool(2) as pool:
        with pytest.raises(ZeroDivisionError):
            pool.map(lambda x: 1 / x, [1, 0, 2])
        result = pool.apply_async(int, ("a",))
        result.wait()
        assert result.ready() and not result.successful()
        with pytest.raises(ValueError, match="invalid literal"):
            result.get()
        results = pool.imap(lambda x: 1 / x, [1, 0, 2])
        assert next(results) == 1
        with pytest.raises(ZeroDivisionError):
            next(results)
        assert next(results) == 0.5 and next(results, None) is None


def test_timeouts(cm: ModuleType, flag) -> None:
    with Pool(1) as pool:
        result = pool.apply_async(flag("go").wait)
        assert not result.ready()
        with pytest.raises(ValueError, match="not ready"):
            result.successful()
        with pytest.raises(TimeoutError):
            result.get(0.01)
        with pytest.raises(TimeoutError):
            pool.imap(square, [1]).next(0.01)
        flag("go").set("went")
        assert result.get(30) == "went" and result.successful()


def test_callbacks_have_been_called_when_the_result_is_there(cm: ModuleType) -> None:
    seen = []
    with Pool(2) as pool:
        pool.map_async(square, [1, 2], callback=seen.append).wait()
        pool.apply_async(int, ("a",), callback=seen.append, error_callback=lambda e: seen.append(type(e))).wait()
        pool.map_async(square, [], callback=seen.append).wait()
    assert seen[0] == [1, 4] and issubclass(seen[1], ValueError) and seen[2] == []


def test_callbacks_come_without_anybody_waiting(cm: ModuleType) -> None:
    called = threading.Event()
    with Pool(1) as pool:
        pool.apply_async(square, (2,), callback=lambda value: called.set())
        assert called.wait(30)


def test_a_callback_that_raises_harms_nobody(cm: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    with Pool(1) as pool:
        result = pool.apply_async(square, (2,), callback=lambda value: value.nothing)
        assert wait_until(result.ready) and result.get() == 4 and pool.apply(square, (3,)) == 9
        assert cm.put(1).future().result(30) == 1
    assert "AttributeError" in capfd.readouterr().err


def test_a_process_that_dies_fails_its_call_and_is_replaced(cm: ModuleType) -> None:
    with Pool(1) as pool:
        with pytest.raises(cm.exceptions.ActorDiedError, match="exit status 3"):
            pool.apply(os._exit, (3,))
        assert pool.map(square, [1, 2]) == [1, 4]


def test_close_and_join(cm: ModuleType, counter) -> None:
    pool = Pool(2)
    with pytest.raises(ValueError, match="still runs"):
        pool.join()
    result = pool.map_async(lambda _: counter.add(), range(10), chunksize=1)
    pool.imap_unordered(lambda _: counter.add(), iter(range(100)))  # nobody reads it
    pool.close()
    with pytest.raises(ValueError, match="closed"):
        pool.apply(square, (1,))
    pool.join()
    assert result.ready() and counter.value == 110
    wait_until(lambda: not [a for a in cm.state.list_actors() if a["state"] != "dead"], what="the processes end")


def test_terminate_ends_what_runs_and_what_waits(cm: ModuleType, flag) -> None:
    pool = Pool(1)
    running = pool.apply_async(flag("never").wait)
    waiting = pool.apply_async(square, (1,))
    pool.terminate()
    pool.join()
    with pytest.raises(cm.exceptions.ActorDiedError):
        running.get(30)
    with pytest.raises(cm.exceptions.CellmeshError, match="terminated"):
        waiting.get(30)
    with pytest.raises(ValueError, match="terminated"):
        pool.map(square, [1])


def test_imap_reads_an_endless_input_as_it_goes(cm: ModuleType) -> None:
    taken = []
    with Pool(2) as pool:
        results = pool.imap(square, (taken.append(i) or i for i in itertools.count()))
        assert list(itertools.islice(results, 20)) == [x * x for x in range(20)]
        assert len(taken) < 100  # 64 while somebody waits for one that is slow


def test_work_goes_to_who_is_idle(cm: ModuleType, flag) -> None:
    with Pool(2) as pool:
        blocked = pool.apply_async(flag("go").wait)
        assert pool.map(square, range(20), chunksize=1) == [x * x for x in range(20)]
        assert not blocked.ready()
        flag("go").set()
        blocked.get(30)


def test_bound_methods_are_sent_as_they_are_now(cm: ModuleType) -> None:
    class Adder:
        amount = 1

        def add(self, x):
            return x + self.amount

    adder = Adder()
    with Pool(1) as pool:
        assert pool.map(adder.add, [1, 2]) == [2, 3]
        adder.amount = 5
        assert pool.map(adder.add, [1, 2]) == [6, 7]


def test_inside_a_task_on_one_cpu(one_cpu: ModuleType) -> None:
    @cellmesh.remote
    def outer():
        with Pool(2) as pool:
            return pool.map(square, range(5))

    assert cellmesh.get(outer.remote(), timeout=50) == [0, 1, 4, 9, 16]


def test_bad_input(cm: ModuleType) -> None:
    for arguments, match in [
        ({"processes": 0}, "at least 1"),
        ({"maxtasksperchild": 0}, ">= 1"),
        ({"actor_options": {"num_cpu": 1}}, "num_cpus"),
    ]:
        with pytest.raises(ValueError, match=match):
            Pool(**arguments)
    with pytest.raises(TypeError, match="initializer"):
        Pool(1, initializer=3)
    with Pool(1) as pool:
        with pytest.raises(TypeError, match="calls functions"):
            pool.map(3, [1])
        with pytest.raises(ValueError, match="chunksize"):
            pool.map(square, [1], chunksize=0)
        with pytest.raises(TypeError, match="lock"):
            pool.apply(square, (threading.Lock(),))
        with pytest.raises(NotImplementedError):
            pickle.dumps(pool)


def test_the_end_of_the_session(cm: ModuleType, flag) -> None:
    pool = Pool(1)
    results = [pool.apply_async(flag("never").wait) for _ in range(2)]
    cm.shutdown()
    for result in results:
        with pytest.raises(cm.exceptions.SessionError):
            result.get(30)
    pool.terminate()
    assert not cm.is_initialized()
