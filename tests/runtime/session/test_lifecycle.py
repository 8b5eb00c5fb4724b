"""Sessions: they start by themselves, end without a trace, and say so when they are lost."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from support.waiting import session_files, wait_until

import cellmesh
from cellmesh.session.current import current

pytestmark = pytest.mark.timeout(60)


@cellmesh.remote
def add(a, b=1):
    return a + b


@cellmesh.remote
def wait_for(started, go):
    started.set_by_me()
    go.wait()


@cellmesh.remote
class Keeper:
    def __init__(self, refs):
        self.refs = refs

    def get(self):
        return cellmesh.get(self.refs[0])


def run_script(code: str, **kwargs) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=50, **kwargs
    )


def test_the_first_use_starts_a_session() -> None:
    assert not cellmesh.is_initialized()
    assert cellmesh.get(add.remote(1)) == 2
    assert cellmesh.is_initialized()
    cellmesh.shutdown()
    assert not cellmesh.is_initialized()
    assert cellmesh.get(cellmesh.put(3)) == 3
    cellmesh.shutdown()
    cellmesh.shutdown()


def test_the_context(capsys: pytest.CaptureFixture[str]) -> None:
    with cellmesh.init(num_cpus=3, object_store_memory=64 << 20, namespace="ns") as context:
        assert set(context) == {"address", "session_dir", "node_id", "namespace"} and context["namespace"] == "ns"
        assert os.path.exists(context["address"])
        assert "running" in repr(context) and "CPU: 3" in repr(context)
        assert "CPU: 3" in context._repr_html_() and "67.1 MB" in context._repr_html_()
        folder = context["session_dir"]
    assert not cellmesh.is_initialized() and not os.path.exists(folder)
    assert "ended" in repr(context)


def test_nothing_is_left() -> None:
    before = session_files()
    cellmesh.init(num_cpus=2, object_store_memory=64 << 20)
    from cellmesh.session.current import current

    session_id = current().node.session_id
    assert cellmesh.get([add.remote(i) for i in range(10)]) == list(range(1, 11))
    cellmesh.shutdown()
    from cellmesh.scheduler.system import processes

    assert processes.session_processes(session_id) == [] and session_files() == before


def segment_bytes() -> int:
    """Of the segments that this process still has, the memory that they take."""
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum(
        os.stat(link).st_blocks * 512
        for link in links
        if os.path.exists(link) and os.readlink(link).startswith("/memfd:cellmesh")
    )


def test_nothing_is_left_without_a_collection_of_garbage() -> None:
    gc.disable()
    try:
        cellmesh.init(num_cpus=1, object_store_memory=64 << 20)
        ref = add.remote(1)
        assert cellmesh.get(ref) == 2 and segment_bytes()
        cellmesh.shutdown()
        del ref
        assert not segment_bytes()
    finally:
        gc.enable()


def test_refs_that_are_kept_keep_no_memory_and_views_what_they_show() -> None:
    cellmesh.init(num_cpus=1, object_store_memory=128 << 20)
    refs = [cellmesh.put(np.full(1 << 20, i)) for i in range(8)]  # 8 MiB each
    shown = cellmesh.get(refs[5])
    assert segment_bytes() > 64 << 20
    cellmesh.shutdown()
    assert 8 << 20 < segment_bytes() < 24 << 20
    assert shown.min() == shown.max() == 5
    with pytest.raises(cellmesh.exceptions.SessionClosedError):
        cellmesh.get(refs[0])
    cellmesh.shutdown()  # get has started a session


def test_who_joined_keeps_the_views() -> None:
    """The driver that started the session ends it while another one looks at a value."""
    context = cellmesh.init(num_cpus=1, object_store_memory=128 << 20, namespace="both")
    ref = cellmesh.put(np.full(1 << 20, 7))
    guest = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent("""
        import sys
        import cellmesh as cm
        cm.init(address=sys.argv[1])
        shown = cm.get(cm.get_actor("keeper", namespace="both").get.remote())
        print("has it", flush=True)
        sys.stdin.readline()
        print(shown.min(), shown.max(), flush=True)
    """),
            context["address"],
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with guest:
        keeper = Keeper.options(name="keeper").remote([ref])
        assert guest.stdout.readline() == "has it\n"
        cellmesh.shutdown()
        assert guest.communicate("go on\n", timeout=30)[0] == "7 7\n"
    del keeper


def test_a_script_that_ends_leaves_nothing() -> None:
    before = session_files()
    done = run_script("""
        import cellmesh as cm
        @cm.remote
        def f(x): return x + 1
        print(cm.get([f.remote(i) for i in range(3)]))
    """)
    assert done.returncode == 0 and done.stdout == "[1, 2, 3]\n", done.stderr
    assert session_files() == before


def test_an_init_that_fails_late_leaves_nothing() -> None:
    """The first process of a first session runs already when the folder for logs is made."""
    before = session_files()
    done = run_script("""
        import sys, cellmesh as cm
        try:
            cm.init(num_cpus=1, log_dir="/dev/null/logs")
        except NotADirectoryError as error:
            assert "init(log_dir='/dev/null/logs'): the folder cannot be made: Not a directory" in str(error)
            from cellmesh.scheduler.system import processes
            print(cm.is_initialized(), processes.children(processes.os.getpid()))
        cm.init(num_cpus=1)
        print(cm.get(cm.put(4)))
    """)
    assert done.returncode == 0 and done.stdout == "False []\n4\n", done.stderr
    assert session_files() == before


def test_refs_and_handles_of_an_ended_session_are_refused_inside_values_too() -> None:
    """Their slots are other objects' by now."""

    class Actor:
        pass

    with cellmesh.init(num_cpus=1, object_store_memory=64 << 20):
        old = [cellmesh.put(i) for i in range(3)]
        handle = cellmesh.remote(Actor).options(num_cpus=0).remote()
    with cellmesh.init(num_cpus=1, object_store_memory=64 << 20):
        new = [cellmesh.put(-i) for i in range(3)]
        count = cellmesh.remote(lambda value: len(value))
        for use in (
            lambda: cellmesh.put(old),
            lambda: cellmesh.put({"a": {old[0]}}),
            lambda: count.remote(old),
            lambda: count.remote([handle]),
            lambda: count.remote((old, list(range(100_000)))),
            lambda: cellmesh.remote(lambda: old).remote(),
        ):
            with pytest.raises(cellmesh.exceptions.SessionClosedError, match=r"shut down.*new one"):
                use()
        assert cellmesh.get(cellmesh.get(cellmesh.put(new))) == [0, -1, -2] and cellmesh.get(count.remote([new])) == 1
        assert current().client.check() == []


def test_two_threads_start_one_session() -> None:
    before = session_files()
    done = run_script("""
        import threading, cellmesh as cm
        from cellmesh.scheduler.node import session_dir
        go, made = threading.Barrier(2), []
        def start():
            go.wait()
            made.append(cm.init(num_cpus=1, ignore_reinit_error=True)["session_dir"])
        threads = [threading.Thread(target=start) for _ in range(2)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(set(made)), session_dir.alive() == [made[0]], cm.get(cm.put(5)))
    """)
    assert done.returncode == 0 and done.stdout.endswith("1 True 5\n"), (done.stdout, done.stderr)
    assert session_files() == before


def test_the_local_scheduler_dies(cm: ModuleType, flag) -> None:
    from cellmesh.session.current import current

    ref = wait_for.remote(flag("started"), flag("never"))
    flag("started").wait()
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            cm.get(ref)
        except BaseException as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    os.kill(current().node.scheduler_pid, signal.SIGKILL)
    waiting.join(20)
    assert len(errors) == 1 and isinstance(errors[0], cm.exceptions.SessionLostError)
    assert "cellmesh.init()" in str(errors[0])
    for use in (lambda: cm.get(ref), lambda: add.remote(1), lambda: cm.put(1)):
        with pytest.raises(cm.exceptions.SessionLostError):
            use()
    assert not cm.is_initialized()
    cm.init(num_cpus=1, object_store_memory=64 << 20)
    assert cm.get(add.remote(1), timeout=20) == 2


@pytest.fixture
def stop_button() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where the tests run in the background and it would be ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("stop_button")
def test_interrupting_a_get(cm: ModuleType, flag) -> None:
    ref = wait_for.remote(flag("started"), flag("go"))
    flag("started").wait()
    interrupt = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        cm.get(ref, timeout=20)
    interrupt.join()
    flag("go").set()
    assert cm.get(ref, timeout=20) is None


def handler_of_sigint() -> int:
    """The address of the function that the system calls."""
    action = ctypes.create_string_buffer(512)
    assert ctypes.CDLL(None).sigaction(int(signal.SIGINT), None, action) == 0
    return ctypes.cast(action, ctypes.POINTER(ctypes.c_void_p))[0] or 0


@pytest.mark.usefixtures("stop_button")
def test_an_interrupt_that_another_thread_takes_is_passed_on_to_a_get(cm: ModuleType, flag) -> None:
    """The system gives a process' signal to whichever thread runs; the main thread would sleep on until the end of its
    slice.
    """
    ref = wait_for.remote(flag("started"), flag("go"))
    pythons, passed_on = handler_of_sigint(), threading.Event()

    def interrupt() -> None:
        try:
            wait_until(lambda: handler_of_sigint() != pythons, what="a get that sleeps for long takes all interrupts")
            passed_on.set()
        finally:
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        cm.get(ref, timeout=40)
    thread.join()
    assert passed_on.is_set() and handler_of_sigint() == pythons
    flag("go").set()
    assert cm.get(ref, timeout=20) is None


def test_a_forked_child_is_told_and_the_parent_is_not_disturbed(cm: ModuleType) -> None:
    ref = cm.put(1)
    add.remote(1)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = []
        for use in (lambda: cm.get(ref), lambda: cm.put(1), lambda: add.remote(1), cm.init, cm.cluster_resources):
            try:
                use()
                said.append("nothing")
            except BaseException as error:
                said.append(type(error).__name__)
        os.write(writer, ",".join(said).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    said = os.read(reader, 1000).decode()
    os.close(reader)
    assert said == ",".join(["ForkedClientError"] * 5)
    assert cm.get(ref) == 1 and cm.get(add.remote(1), timeout=20) == 2


def test_a_forked_child_may_start_a_session_of_its_own() -> None:
    done = run_script("""
        import os, sys
        import cellmesh as cm
        @cm.remote
        def f(x): return x + 1
        cm.init(num_cpus=1)
        ref = f.remote(1)
        pid = os.fork()
        if pid == 0:
            cm.shutdown()
            cm.init(num_cpus=1)
            print("child", cm.get(f.remote(10)), flush=True)
            cm.shutdown()
            sys.exit()
        os.waitpid(pid, 0)
        print("parent", cm.get(ref), cm.get(f.remote(2)))
    """)
    assert done.stdout == "child 11\nparent 2 3\n", done.stderr


def test_joining_a_session() -> None:
    context = cellmesh.init(num_cpus=2, object_store_memory=64 << 20, namespace="here")

    @cellmesh.remote
    class Counting:
        def __init__(self):
            self.n = 0

        def add(self, k):
            self.n += k
            return self.n

    actor = Counting.options(name="shared").remote()
    done = run_script(f"""
        import cellmesh as cm
        cm.init({context["address"]!r}, namespace="here")
        print(cm.get(cm.get_actor("shared").add.remote(5)), cm.cluster_resources()["CPU"])
        @cm.remote
        def f(x): return x + 1
        print(cm.get(f.remote(1)))
    """)
    assert done.stdout == "5 2.0\n2\n", done.stderr
    assert cellmesh.get(actor.add.remote(1), timeout=20) == 6, "the session goes on without the one who joined"
    cellmesh.shutdown()


def test_the_driver_s_path_reaches_workers(cm: ModuleType, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside_the_notebook.py").write_text("VALUE = 42\ndef value(): return VALUE\n")
    done = run_script(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import cellmesh as cm
        from beside_the_notebook import value
        print(cm.get(cm.remote(value).remote()))
        @cm.remote
        def f():
            import beside_the_notebook
            return beside_the_notebook.VALUE
        print(cm.get(f.remote()))
    """)
    assert done.stdout == "42\n42\n", done.stderr


def test_main_functions_and_classes_of_a_script() -> None:
    done = run_script("""
        import cellmesh as cm
        class Point:
            def __init__(self, x): self.x = x
            def __eq__(self, other): return isinstance(other, Point) and self.x == other.x
        class OwnError(Exception): pass
        def helper(x): return Point(x.x + 1)
        @cm.remote
        def move(p): return helper(p)
        @cm.remote
        def fail(): raise OwnError("own")
        print(cm.get(move.remote(Point(1))) == Point(2))
        try:
            cm.get(fail.remote())
        except OwnError as error:
            print(type(error).__name__)
    """)
    assert done.stdout == "True\nTaskError(OwnError)\n", done.stderr


def test_the_command_line_finds_and_ends_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    context = cellmesh.init(num_cpus=2, object_store_memory=64 << 20)
    command = [sys.executable, "-m", "cellmesh.cli"]
    status = subprocess.run([*command, "status"], capture_output=True, text=True, timeout=30)
    assert context["node_id"] in status.stdout and f"pid {os.getpid()}" in status.stdout, status.stderr
    listed = subprocess.run([*command, "list", "workers"], capture_output=True, text=True, timeout=30)
    assert "driver" in listed.stdout, listed.stderr
    assert "object store" in subprocess.run([*command, "memory"], capture_output=True, text=True, timeout=30).stdout
    stopped = subprocess.run([*command, "stop", context["node_id"]], capture_output=True, text=True, timeout=30)
    assert stopped.returncode == 0 and "has ended" in stopped.stdout, stopped.stderr
    wait_until(lambda: not cellmesh.is_initialized(), 20, "the driver learns of it")
    with pytest.raises(cellmesh.exceptions.SessionLostError, match="`cellmesh stop` has ended it"):
        cellmesh.put(1)
    cellmesh.shutdown()


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    from cellmesh.cli import main as cli

    assert cli.main(["doctor"]) == 0, capsys.readouterr().out
    assert "the compiled core loads" in capsys.readouterr().out


# ---------------------------------------------------------------- with init()
def test_with_init_ends_the_session_that_it_has_begun() -> None:
    with cellmesh.init(num_cpus=1, object_store_memory=64 << 20) as context:
        assert cellmesh.is_initialized() and dict(context)
    assert not cellmesh.is_initialized()


def test_with_init_leaves_a_session_that_ran_before(cm: ModuleType) -> None:
    ref = cm.put(3)
    with cm.init():
        with cm.init(ignore_reinit_error=True):
            assert cm.get(ref) == 3
        assert cm.get(ref) == 3
    assert cm.get(ref) == 3
    context = cm.init()
    context.disconnect()
    assert not cm.is_initialized(), "that is asked for"
